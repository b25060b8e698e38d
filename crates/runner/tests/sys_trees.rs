//! Operations on all children of a process: reaping, trees, groups. Each test runs in a process of
//! its own, also where the test runner gives it only a thread: it starts this program again for
//! itself alone.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use baton_model::task::ExecSettings;
use baton_model::time::{Millis, Mono};
use baton_runner::sys::identity::{ExitStatus, identify};
use baton_runner::sys::kill::{self, Sweep};
use baton_runner::sys::proc::Stat;
use baton_runner::sys::spawn::{Command, Spawner, Step};
use baton_runner::sys::{cgroup, clock, identity, proc, reap, users};
use baton_runner::wire::Limit;

const ALONE: &str = "BATON_TEST_ALONE";

/// Runs a test in its own process.
fn alone(name: &str, test: impl FnOnce()) {
    if std::env::var(ALONE).as_deref() == Ok(name) {
        test();
        return;
    }
    let program = std::env::current_exe().expect("we are a file");
    let mut command = std::process::Command::new(program);
    let command = command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    let status = command.env(ALONE, name).status().expect("started");
    assert!(status.success(), "{name}: {status}");
}

fn shell(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(str::to_owned).to_vec()
}

fn marked(mark: &str) -> Vec<(String, String)> {
    vec![(proc::MARK.to_owned(), mark.to_owned())]
}

/// Starts a script and reads that many lines of its output, each a pid.
fn start(command: &Command<'_>, lines: usize) -> (u32, Vec<u32>) {
    let (read, write) = rustix::pipe::pipe().expect("a pipe");
    let command = Command {
        stdout: Some(write.as_fd()),
        ..*command
    };
    let mut spawner = Spawner::new().expect("memory");
    let pid = spawner.spawn(&command).expect("launched");
    drop(write);
    let read = BufReader::new(File::from(read)).lines().take(lines);
    let pids = read.map(|line| line.expect("text").trim().parse().expect("a pid"));
    (pid, pids.collect())
}

fn far_away() -> Mono {
    clock::now().mono + Millis::from_secs(300)
}

const NONE_SPARED: &dyn Fn(&Stat) -> bool = &|_| false;

fn below_us(spare: &dyn Fn(&Stat) -> bool) -> Sweep<'_> {
    Sweep {
        // As long as the process it is the number of.
        roots: Box::leak(Box::new([std::process::id()])),
        spare,
        mark: None,
    }
}

fn found(sweep: &Sweep<'_>) -> Vec<u32> {
    let stats = sweep.find().expect("/proc is there");
    let mut pids: Vec<u32> = stats.iter().map(|stat| stat.pid).collect();
    pids.sort_unstable();
    pids
}

/// Reaps until no child is left, and returns them in the order of their pids.
fn reap_all() -> Vec<(u32, ExitStatus)> {
    let mut all = Vec::new();
    while let Some(reaped) = reap::reap_next().expect("asked") {
        all.push((reaped.pid, reaped.status));
    }
    all.sort_unstable_by_key(|(pid, _)| *pid);
    all
}

/// Three processes: a shell, one in a session of its own, and one whose parent is gone.
const ESCAPERS: &str = "\
setsid sh -c 'echo $$; exec sleep 600' &
(setsid sh -c 'trap \"\" TERM HUP; echo $$; sleep 600; sleep 600' &)
wait";

#[test]
fn a_child_that_ended_is_seen_until_it_is_reaped() {
    alone("a_child_that_ended_is_seen_until_it_is_reaped", || {
        assert_eq!(reap::next_exited().expect("asked"), None);
        let argv = shell("exit 5");
        let mut spawner = Spawner::new().expect("memory");
        let pid = spawner.spawn(&Command::new(&argv, &[])).expect("launched");
        assert!(reap::is_child(pid));
        let seen = loop {
            if let Some(seen) = reap::next_exited().expect("asked") {
                break seen;
            }
            std::thread::yield_now();
        };
        assert_eq!(seen, (pid, ExitStatus::Code(5)));
        assert_eq!(reap::next_exited().expect("asked"), Some(seen));
        assert!(kill::group(pid, libc::SIGKILL).expect("still its group"));
        reap::reap(pid).expect("our child");
        assert_eq!(reap::next_exited().expect("asked"), None);
        assert!(!reap::is_child(pid));
        assert!(reap::reap(pid).is_err());
        assert!(!kill::group(pid, 0).expect("the group is gone"));
    });
}

#[test]
fn reaping_leaves_a_running_child_alone() {
    alone("reaping_leaves_a_running_child_alone", || {
        let argv = shell("exec sleep 600");
        let mut spawner = Spawner::new().expect("memory");
        let pid = spawner.spawn(&Command::new(&argv, &[])).expect("launched");
        reap::reap(pid).expect("our child");
        assert!(reap::is_child(pid));
        assert!(kill::group(pid, libc::SIGKILL).expect("its group"));
        assert_eq!(reap::wait(pid).expect("ours"), ExitStatus::Signal(9));
    });
}

#[test]
fn a_failed_launch_leaves_no_zombie() {
    alone("a_failed_launch_leaves_no_zombie", || {
        let mut spawner = Spawner::new().expect("memory");
        let argv = ["/no/such/program".to_owned()];
        for _ in 0..50 {
            spawner
                .spawn(&Command::new(&argv, &[]))
                .expect_err("no such");
        }
        assert_eq!(reap::next_exited().expect("asked"), None);
        let tree = proc::Tree::new(proc::all().expect("/proc is there"));
        assert!(tree.children(std::process::id()).is_empty());
    });
}

#[test]
fn a_sweep_finds_and_kills_processes_that_left_session_and_parent() {
    let name = "a_sweep_finds_and_kills_processes_that_left_session_and_parent";
    alone(name, || {
        reap::become_subreaper().expect("allowed");
        let (shell_pid, escaped) = start(&Command::new(&shell(ESCAPERS), &[]), 2);
        let sweep = below_us(NONE_SPARED);
        let before = found(&sweep);
        assert!(before.contains(&shell_pid));
        assert!(escaped.iter().all(|pid| before.contains(pid)));
        let stats = sweep.find().expect("/proc is there").into_iter();
        let ours = stats.filter(|stat| stat.ppid == std::process::id());
        // The shell in between may be ending by itself; it is the only one that does.
        let ours = ours.map(|stat| stat.pid);
        let ours = ours.filter(|pid| *pid == shell_pid || escaped.contains(pid));
        let ours: Vec<u32> = ours.collect();
        assert!(ours.contains(&shell_pid));

        assert_eq!(sweep.kill(far_away()).expect("/proc is there"), 0);
        assert!(found(&sweep).is_empty());
        // The statuses of our own children are still available. The shell may have reaped a child
        // of its own in its last moment.
        let statuses = reap_all();
        for pid in ours {
            let killed = (pid, ExitStatus::Signal(9));
            assert!(statuses.contains(&killed), "{pid}: {statuses:?}");
        }
        assert_eq!(sweep.kill(far_away()).expect("/proc is there"), 0);
    });
}

#[test]
fn a_spared_process_survives_and_its_descendants_do_not() {
    alone(
        "a_spared_process_survives_and_its_descendants_do_not",
        || {
            let argv = shell("sleep 600 & echo $!; wait; exec sleep 600");
            let (spared, children) = start(&Command::new(&argv, &[]), 1);
            let spare = |stat: &Stat| stat.pid == spared;
            let sweep = below_us(&spare);
            assert_eq!(found(&sweep), children);
            assert_eq!(sweep.kill(far_away()).expect("/proc is there"), 0);
            let boot = identity::boot_id().expect("readable");
            let identity = identify(boot, spared).expect("readable").expect("alive");
            assert!(identity::is_alive(&identity, boot));
            assert_eq!(below_us(NONE_SPARED).kill(far_away()).expect("/proc"), 0);
            assert!(!identity::is_alive(&identity, boot));
        },
    );
}

#[test]
fn one_signal_reaches_every_process_once() {
    alone("one_signal_reaches_every_process_once", || {
        let script =
            "trap 'exit 3' TERM; sh -c 'trap \"exit 4\" TERM; echo $$; while :; do sleep 1; done' &
            echo $$; while :; do wait; done";
        reap::become_subreaper().expect("allowed");
        let (pid, _) = start(&Command::new(&shell(script), &[]), 2);
        let sweep = below_us(NONE_SPARED);
        assert!(sweep.signal(4711).is_err());
        assert!(sweep.signal(libc::SIGTERM).expect("/proc is there") >= 2);
        assert_eq!(reap::wait(pid).expect("our child"), ExitStatus::Code(3));
        assert_eq!(sweep.kill(far_away()).expect("/proc is there"), 0);
    });
}

#[test]
fn a_mark_is_found_outside_of_the_tree() {
    alone("a_mark_is_found_outside_of_the_tree", || {
        // There is no subreaper here: both processes leave our tree. One of them has
        // a child without any environment.
        let script =
            "(setsid sh -c 'env -i sh -c \"echo \\$\\$; exec sleep 600\" & echo $$; wait' &)";
        let mark = format!("mark-{}", std::process::id());
        let (pid, mut escaped) = start(&Command::new(&shell(script), &marked(&mark)), 2);
        reap::wait(pid).expect("our child");
        escaped.sort_unstable();
        assert!(found(&below_us(NONE_SPARED)).is_empty());

        let other = |found: &str| found == "another";
        let ours = |found: &str| found == mark;
        let sweep = |mark| Sweep {
            mark: Some(mark),
            ..below_us(NONE_SPARED)
        };
        assert!(found(&sweep(&other)).is_empty());
        assert_eq!(found(&sweep(&ours)), escaped);
        let carried = escaped
            .iter()
            .filter(|pid| proc::has_mark(**pid, &|text| text == mark));
        assert_eq!(carried.count(), 1);
        assert_eq!(sweep(&ours).kill(far_away()).expect("/proc is there"), 0);
        assert!(found(&sweep(&ours)).is_empty());
    });
}

#[test]
fn a_fork_bomb_is_killed_to_the_last() {
    alone("a_fork_bomb_is_killed_to_the_last", || {
        let user = users::by_name("nobody").expect("readable");
        let Some(user) = user.filter(|_| users::effective_uid() == 0) else {
            println!("skipped: a limit of processes needs a user of its own");
            return;
        };
        reap::become_subreaper().expect("allowed");
        let credentials = user.credentials();
        // Every process forks without end; the limit is what keeps the machine alive.
        let argv = shell("bomb() { while :; do bomb & done; }; bomb");
        let (soft, hard) = (300, 300);
        let command = Command {
            credentials: Some(&credentials),
            cwd: Some("/"),
            limits: &[Limit {
                resource: libc::RLIMIT_NPROC,
                soft,
                hard,
            }],
            ..Command::new(&argv, &[])
        };
        let mut spawner = Spawner::new().expect("memory");
        let sweep = below_us(NONE_SPARED);
        // Only a bomb at full size is a test. A shell that cannot fork gives up, so that a bomb may
        // end by itself; then another is started.
        loop {
            match found(&sweep).len() {
                0 => {
                    reap_all();
                    match spawner.spawn(&command) {
                        Ok(_) => {}
                        // Other processes of this user fill the limit: another run of this test.
                        Err(failed) if failed.error.kind() == io::ErrorKind::WouldBlock => {
                            std::thread::yield_now();
                        }
                        Err(failed) => panic!("not launched: {failed}"),
                    }
                }
                1..100 => std::thread::yield_now(),
                _ => break,
            }
        }
        let left = sweep.kill(far_away()).expect("/proc is there");
        assert_eq!(left, 0);
        reap_all();
        assert!(found(&sweep).is_empty());
        let tree = proc::Tree::new(proc::all().expect("/proc is there"));
        assert!(tree.descendants(std::process::id()).is_empty());
    });
}

#[test]
fn a_control_group_holds_and_kills_all_processes_started_in_it() {
    alone(
        "a_control_group_holds_and_kills_all_processes_started_in_it",
        || {
            let name = format!("baton-test-{}", std::process::id());
            let Some(group) = cgroup::create(&name) else {
                println!("skipped: control groups are not writable here");
                return;
            };
            assert!(!group.populated().expect("readable"));
            reap::become_subreaper().expect("allowed");
            let argv = shell(ESCAPERS);
            let command = Command {
                cgroup: Some(group.procs()),
                ..Command::new(&argv, &[])
            };
            let (pid, escaped) = start(&command, 2);
            assert!(group.populated().expect("readable"));
            for pid in escaped.iter().chain([&pid]) {
                let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("alive");
                assert!(text.lines().any(|line| line.ends_with(&name)), "{text}");
            }
            let again = cgroup::open(group.path()).expect("the same group");
            again.kill().expect("writable");
            while group.populated().expect("readable") {
                std::thread::yield_now();
            }
            assert!(found(&below_us(NONE_SPARED)).is_empty());
            std::fs::create_dir(group.path().join("below")).expect("writable");
            let path = group.path().to_owned();
            group.remove().expect("empty");
            assert!(!path.exists());
            assert!(cgroup::open(&path).is_none());
            reap_all();
        },
    );
}

/// Makes the kernel behave as if it had no `close_range`.
fn forbid_close_range() {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let number = u32::try_from(libc::SYS_close_range).expect("small");
    let mut filter = [
        step(load, 0, 0, 0),
        step(equal, 0, 1, number),
        step(
            answer,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs(),
        ),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: a program of four steps, which the kernel copies.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program),
            0
        );
        assert_eq!(
            libc::syscall(libc::SYS_close_range, u32::MAX, u32::MAX, 0),
            -1
        );
    }
}

#[test]
fn descriptors_are_closed_where_the_kernel_cannot_close_a_range() {
    let name = "descriptors_are_closed_where_the_kernel_cannot_close_a_range";
    alone(name, || {
        forbid_close_range();
        let null = File::open("/dev/null").expect("always there");
        let leak = |_| rustix::io::dup(&null).expect("a descriptor");
        let leaks: Vec<OwnedFd> = (0..50).map(leak).collect();
        let target = leaks[20].as_raw_fd();
        let argv = shell("ls /proc/$$/fd; true");
        let command = Command {
            extra: &[(null.as_fd(), target)],
            ..Command::new(&argv, &[])
        };
        let (pid, mut open) = start(&command, usize::MAX);
        assert_eq!(reap::wait(pid).expect("our child"), ExitStatus::Code(0));
        open.sort_unstable();
        assert_eq!(open, [0, 1, 2, target.unsigned_abs()]);
    });
}

#[test]
fn without_rights_another_user_is_refused_by_name() {
    let name = "without_rights_another_user_is_refused_by_name";
    alone(name, || {
        if users::effective_uid() == 0 {
            // SAFETY: numbers only. This process does nothing else than this test.
            let dropped = unsafe { libc::setresuid(65_534, 65_534, 65_534) };
            assert_eq!(dropped, 0);
        }
        let argv = shell("true");
        let credentials = baton_runner::wire::Credentials {
            uid: 0,
            gid: 0,
            groups: vec![],
        };
        let mut spawner = Spawner::new().expect("memory");
        let command = Command {
            credentials: Some(&credentials),
            ..Command::new(&argv, &[])
        };
        let error = spawner.spawn(&command).expect_err("not allowed");
        assert_eq!(error.step, Step::Groups);
        assert_eq!(
            error.to_string(),
            "cannot set the groups: operation not permitted"
        );
        let command = Command {
            exec: ExecSettings {
                nice: Some(-20),
                ..ExecSettings::default()
            },
            ..Command::new(&argv, &[])
        };
        let error = spawner.spawn(&command).expect_err("not allowed");
        assert_eq!(error.step, Step::Setting("the priority", -20));
    });
}
