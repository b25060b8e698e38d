//! Launches of real processes. Those that need a process of their own are in
//! `tests/sys_trees.rs`.

use std::fs::{self, File, Permissions};
use std::io::{Read as _, Seek as _};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::*;
use crate::sys::identity::ExitStatus;
use crate::sys::{kill, proc, users};

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn path(value: &str) -> Vec<(String, String)> {
    vec![("PATH".to_owned(), value.to_owned())]
}

/// The output of a command that exits with 0.
fn output(command: Command<'_>) -> String {
    let mut file = tempfile::tempfile().expect("a temporary file");
    let stdout = file.try_clone().expect("a descriptor");
    let command = Command {
        stdout: Some(stdout.as_fd()),
        ..command
    };
    assert_eq!(status(&command), ExitStatus::Code(0));
    file.rewind().expect("a file");
    let mut text = String::new();
    file.read_to_string(&mut text).expect("text");
    text
}

fn status(command: &Command<'_>) -> ExitStatus {
    let mut spawner = Spawner::new().expect("memory");
    let pid = spawner.spawn(command).expect("launched");
    reap::wait(pid).expect("our child")
}

fn failure(command: &Command<'_>) -> SpawnError {
    let mut spawner = Spawner::new().expect("memory");
    spawner.spawn(command).expect_err("must not start")
}

fn shell(script: &str) -> Vec<String> {
    strings(&["sh", "-c", script])
}

/// Writes a file by another process. If we had it open for writing, a child that another test
/// starts at this moment could inherit that, and the file could not be executed.
fn script(file: &Path, text: &str, mode: u32) {
    let file = file.to_str().expect("text");
    let argv = strings(&["sh", "-c", "printf %s \"$1\" >\"$2\"", "sh", text, file]);
    assert_eq!(status(&Command::new(&argv, &[])), ExitStatus::Code(0));
    fs::set_permissions(file, Permissions::from_mode(mode)).expect("our file");
}

#[test]
fn exit_codes_and_signals_come_back_as_they_were() {
    let cases = [
        ("exit 0", ExitStatus::Code(0)),
        ("exit 7", ExitStatus::Code(7)),
        ("exit 255", ExitStatus::Code(255)),
        ("kill -TERM $$", ExitStatus::Signal(libc::SIGTERM)),
        ("kill -KILL $$", ExitStatus::Signal(libc::SIGKILL)),
    ];
    for (script, wanted) in cases {
        assert_eq!(status(&Command::new(&shell(script), &[])), wanted);
    }
}

#[test]
fn arguments_and_environment_arrive_exactly() {
    let argv = strings(&["/bin/cat", "/proc/self/cmdline", "/proc/self/environ"]);
    let env = [("A", ""), ("B", "x=y z"), ("Ä", "\n")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let text = output(Command::new(&argv, &env));
    let wanted = "/bin/cat\0/proc/self/cmdline\0/proc/self/environ\0A=\0B=x=y z\0Ä=\n\0";
    assert_eq!(text, wanted);
}

#[test]
fn long_strings_and_many_of_them_arrive_and_a_zero_byte_is_refused() {
    let argv = strings(&["/bin/cat", "/proc/self/environ"]);
    let env: Vec<_> = (0..500)
        .map(|number| (format!("N{number}"), "x".repeat(number)))
        .collect();
    let wanted: String = env
        .iter()
        .map(|(name, value)| format!("{name}={value}\0"))
        .collect();
    assert_eq!(output(Command::new(&argv, &env)), wanted);
    let zero = [("A".to_owned(), "x\0y".to_owned())];
    let error = failure(&Command::new(&argv, &zero));
    let text = "cannot be started: the environment holds a zero byte";
    assert_eq!(
        (error.to_string().as_str(), error.step),
        (text, Step::Prepare)
    );
}

#[test]
fn a_missing_program_is_named() {
    let argv = strings(&["no-such-program"]);
    for env in [vec![], path(""), path("/nowhere:/usr/bin")] {
        let error = failure(&Command::new(&argv, &env));
        assert_eq!(error.step, Step::Program("no-such-program".to_owned()));
        let text = "cannot start `no-such-program`: no such program in the directories of its PATH";
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn what_cannot_be_executed_is_named_with_its_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str, mode: u32| {
        script(&directory.path().join(name), text, mode);
    };
    write("plain", "#!/bin/sh\n", 0o644);
    write("bare", "exit 0\n", 0o755);
    write("odd", "#!/no/such/interpreter\n", 0o755);
    let env = path(&format!("/nowhere:{}:/else", directory.path().display()));
    let reason = |name: &str| {
        let error = failure(&Command::new(&strings(&[name]), &env));
        (error.to_string(), error.step)
    };

    let (text, step) = reason("plain");
    assert_eq!(text, "cannot start `plain`: permission denied");
    assert_eq!(step, Step::Program("plain".to_owned()));
    let (text, step) = reason("bare");
    assert!(text.starts_with("cannot start `bare`: exec format error"));
    assert_eq!(step, Step::Program("bare".to_owned()));
    let (text, step) = reason("odd");
    assert_eq!(text, "cannot start `odd`: its interpreter is missing");
    assert_eq!(step, Step::Interpreter("odd".to_owned()));
}

#[test]
fn an_empty_part_of_the_path_is_the_directory_of_the_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("here");
    script(&file, "#!/bin/sh\nexit 3\n", 0o755);
    let (argv, env) = (strings(&["here"]), path("/nowhere::"));
    let command = Command {
        cwd: directory.path().to_str(),
        ..Command::new(&argv, &env)
    };
    assert_eq!(status(&command), ExitStatus::Code(3));
}

#[test]
fn a_directory_that_cannot_be_entered_is_named() {
    for cwd in ["/no/such/directory", "/dev/null"] {
        let argv = shell("true");
        let command = Command {
            cwd: Some(cwd),
            ..Command::new(&argv, &[])
        };
        let error = failure(&command);
        assert_eq!(error.step, Step::Directory(cwd.to_owned()));
        assert!(
            error
                .to_string()
                .starts_with(&format!("cannot enter `{cwd}`: no"))
        );
    }
}

#[test]
fn a_bad_limit_is_named() {
    let argv = shell("true");
    let limits = [(libc::RLIMIT_NOFILE, "`nofile`"), (4711, "4711")];
    for (resource, name) in limits {
        let (soft, hard) = (20, 10);
        let command = Command {
            limits: &[Limit {
                resource,
                soft,
                hard,
            }],
            ..Command::new(&argv, &[])
        };
        let error = failure(&command);
        assert_eq!(error.step, Step::Limit(resource));
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_descriptor_that_cannot_be_given_is_named() {
    let null = File::open("/dev/null").expect("always there");
    let argv = shell("true");
    let command = Command {
        extra: &[(null.as_fd(), 1 << 30)],
        ..Command::new(&argv, &[])
    };
    assert_eq!(failure(&command).step, Step::Descriptor(0));
    let command = Command {
        cgroup: Some(null.as_fd()),
        ..Command::new(&argv, &[])
    };
    assert_eq!(failure(&command).step, Step::Cgroup);
}

#[test]
fn what_the_kernel_cannot_take_is_refused() {
    let (good, bad) = (strings(&["true"]), strings(&["true", "a\0b"]));
    let null = File::open("/dev/null").expect("always there");
    let name = |name: &str| vec![(name.to_owned(), "x".to_owned())];
    let (zero, equals, empty) = (name("A\0"), name("A=B"), name(""));
    let commands = [
        Command::new(&[], &[]),
        Command::new(&bad, &[]),
        Command::new(&good, &zero),
        Command::new(&good, &equals),
        Command::new(&good, &empty),
        Command {
            cwd: Some("/\0"),
            ..Command::new(&good, &[])
        },
        Command {
            extra: &[(null.as_fd(), 1)],
            ..Command::new(&good, &[])
        },
        Command {
            extra: &[(null.as_fd(), -1)],
            ..Command::new(&good, &[])
        },
        Command {
            extra: &[(null.as_fd(), i32::MAX)],
            ..Command::new(&good, &[])
        },
    ];
    for command in commands {
        let error = failure(&command);
        assert_eq!(error.step, Step::Prepare, "{command:?}");
        assert_eq!(error.error.kind(), io::ErrorKind::InvalidInput);
    }
}

/// Lists the descriptors of the shell. Something follows, so that it cannot become `ls`,
/// which has one more; nor is there a pipe, which the shell would hold.
const LIST: &str = "ls /proc/$$/fd; true";

fn listed(text: &str) -> Vec<i32> {
    let numbers = text.lines().map(|fd| fd.parse().expect("a number"));
    let mut numbers: Vec<i32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// Open descriptors that exec would keep.
fn leaks() -> Vec<OwnedFd> {
    let null = File::open("/dev/null").expect("always there");
    let leak = |_| rustix::io::dup(&null).expect("a descriptor");
    (0..100).map(leak).collect()
}

#[test]
fn no_descriptor_of_ours_is_inherited() {
    let _leaks = leaks();
    assert_eq!(listed(&output(Command::new(&shell(LIST), &[]))), [0, 1, 2]);
}

#[test]
fn passed_descriptors_have_their_numbers_and_no_others_are_open() {
    let _leaks = leaks();
    let letter = |letter: &str| {
        let file = tempfile::tempfile().expect("a file");
        fs::write(format!("/proc/self/fd/{}", file.as_raw_fd()), letter).expect("written");
        file
    };
    let (a, b) = (letter("A"), letter("B"));
    // Each takes the number of the other, so that none may be overwritten too early.
    let extra = [(a.as_fd(), b.as_raw_fd()), (b.as_fd(), a.as_raw_fd())];
    let (at_a, at_b) = (a.as_raw_fd(), b.as_raw_fd());
    let argv = shell(&format!(
        "cat /proc/$$/fd/{at_a} /proc/$$/fd/{at_b}; echo; {LIST}"
    ));
    let command = Command {
        extra: &extra,
        ..Command::new(&argv, &[])
    };
    let text = output(command);
    let (letters, open) = text.split_once('\n').expect("two parts");
    assert_eq!(letters, "BA");
    assert_eq!(listed(open), [0, 1, 2, at_a.min(at_b), at_a.max(at_b)]);
}

#[test]
fn missing_streams_lead_nowhere() {
    let argv = shell("readlink /proc/self/fd/0 /proc/self/fd/2; cat");
    assert_eq!(output(Command::new(&argv, &[])), "/dev/null\n/dev/null\n");
}

#[test]
fn no_signal_is_ignored_or_blocked_in_the_child_and_ours_stay() {
    let own = || fs::read_to_string("/proc/thread-self/status").expect("readable");
    let masks = |text: &str| -> Vec<String> {
        let wanted = |line: &&str| line.starts_with("SigBlk") || line.starts_with("SigIgn");
        text.lines().filter(wanted).map(str::to_owned).collect()
    };
    let before = masks(&own());
    let ignored = before[1].trim_start_matches("SigIgn:\t");
    let ignored = u64::from_str_radix(ignored, 16).expect("a set");
    let pipe = 1 << (libc::SIGPIPE - 1);
    assert_ne!(ignored & pipe, 0, "a Rust program ignores it");
    let text = output(Command::new(&strings(&["cat", "/proc/self/status"]), &[]));
    let zero = "0000000000000000";
    let wanted = [format!("SigBlk:\t{zero}"), format!("SigIgn:\t{zero}")];
    assert_eq!(masks(&text), wanted);
    assert_eq!(masks(&own()), before);
}

#[test]
fn a_signal_stays_blocked_for_the_program() {
    // Without a shell, which may choose its own mask.
    let argv = ["grep", "SigBlk", "/proc/self/status"].map(str::to_owned);
    let command = Command {
        blocked: Some(libc::SIGTERM),
        ..Command::new(&argv, &[])
    };
    let blocked = format!("SigBlk:\t{:016x}\n", 1 << (libc::SIGTERM - 1));
    assert_eq!(output(command), blocked);
}

#[test]
fn a_process_leads_its_own_session_and_group() {
    let argv = shell("read line </proc/$$/stat; echo $$ ${line#*) }");
    let text = output(Command::new(&argv, &[]));
    let fields: Vec<&str> = text.split_whitespace().collect();
    // Pid, state, parent, group, session.
    assert_eq!((fields[3], fields[4]), (fields[0], fields[0]));
    assert_eq!(fields[2], std::process::id().to_string());
}

#[test]
fn umask_priority_and_limits_are_seen_by_the_child() {
    let nice = rustix::process::getpriority_process(None).expect("our own");
    let nice = (nice + 3).min(19);
    let argv = shell("umask; nice; ulimit -Sn; ulimit -Hn; pwd");
    let command = Command {
        exec: ExecSettings {
            umask: Some(0o027),
            nice: Some(nice),
            oom_score: None,
        },
        limits: &[Limit {
            resource: libc::RLIMIT_NOFILE,
            soft: 50,
            hard: 60,
        }],
        cwd: Some("/usr"),
        ..Command::new(&argv, &[])
    };
    assert_eq!(output(command), format!("0027\n{nice}\n50\n60\n/usr\n"));
}

/// Our own `oom_score_adj`.
fn own_oom_score() -> i32 {
    let text = fs::read_to_string("/proc/self/oom_score_adj").expect("readable");
    text.trim().parse().expect("a number")
}

fn with_oom_score(score: u16) -> ExecSettings {
    ExecSettings {
        oom_score: Some(score),
        ..ExecSettings::default()
    }
}

#[test]
fn the_oom_score_is_that_of_the_child_alone() {
    let before = own_oom_score();
    let argv = shell("cat /proc/self/oom_score_adj");
    for score in [1_000, 999] {
        let command = Command {
            exec: with_oom_score(score),
            ..Command::new(&argv, &[])
        };
        assert_eq!(output(command), format!("{score}\n"));
    }
    let plain = output(Command::new(&argv, &[]));
    assert_eq!(plain, format!("{before}\n"));
    let command = Command {
        exec: with_oom_score(1_001),
        ..Command::new(&argv, &[])
    };
    let error = Spawner::new().expect("memory").spawn(&command);
    let error = error.expect_err("more than the kernel allows");
    assert_eq!(
        error.to_string(),
        "cannot set the OOM score to 1001: invalid argument"
    );
    assert_eq!(own_oom_score(), before);
}

/// An unprivileged user, if we may switch to one.
fn unprivileged_user() -> Option<users::User> {
    if users::effective_uid() != 0 {
        println!("skipped: only root may change to another user");
        return None;
    }
    let found = users::by_name("nobody").expect("readable");
    if found.is_none() {
        println!("skipped: there is no such user");
    }
    found
}

#[test]
fn with_credentials_it_is_that_user_and_can_be_no_other() {
    let Some(user) = unprivileged_user() else {
        return;
    };
    let mut who = user.credentials();
    who.groups = vec![who.gid, 4711];
    let argv = shell("id -u; id -ru; id -g; id -rg; id -G; grep NoNewPrivs /proc/self/status");
    let command = Command {
        credentials: Some(&who),
        cwd: Some("/"),
        ..Command::new(&argv, &[])
    };
    let (uid, gid) = (who.uid, who.gid);
    let mut groups = who.groups.clone();
    groups.sort_unstable();
    let text = output(command);
    let lines: Vec<&str> = text.lines().collect();
    let ids = [uid, uid, gid, gid].map(|id| id.to_string());
    assert_eq!(lines[..4], ids);
    let mut seen: Vec<u32> = lines[4]
        .split(' ')
        .map(|id| id.parse().expect("a number"))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, groups);
    assert_eq!(lines[5], "NoNewPrivs:\t1");
    let dumpable = rustix::process::dumpable_behavior().expect("known");
    assert_eq!(dumpable, DumpableBehavior::Dumpable);
}

#[test]
fn without_credentials_privileges_are_left_alone() {
    let argv = strings(&["grep", "NoNewPrivs", "/proc/self/status"]);
    let own = fs::read_to_string("/proc/self/status").expect("readable");
    let own = own.lines().find(|line| line.starts_with("NoNewPrivs"));
    assert_eq!(output(Command::new(&argv, &[])).lines().next(), own);
}

#[test]
fn a_directory_is_entered_with_the_rights_of_the_user() {
    let Some(user) = unprivileged_user() else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o700)).expect("ours");
    let who = user.credentials();
    let argv = shell("true");
    let command = Command {
        credentials: Some(&who),
        cwd: directory.path().to_str(),
        ..Command::new(&argv, &[])
    };
    let error = failure(&command);
    assert!(matches!(error.step, Step::Directory(_)), "{error}");
    assert_eq!(error.error.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn the_clock_says_when_a_process_started_as_the_kernel_does() {
    let argv = strings(&["sleep", "1000"]);
    let env = path("/usr/bin:/bin");
    let command = Command::new(&argv, &env);
    let mut spawner = Spawner::new().expect("memory");
    let mut within_a_tick = 0;
    while within_a_tick < 50 {
        let before = proc::ticks_now();
        let pid = spawner.spawn(&command).expect("launched");
        let after = proc::ticks_now();
        let stat = proc::stat(pid).expect("readable").expect("not reaped");
        kill::group(pid, libc::SIGKILL).expect("killed");
        reap::wait(pid).expect("our child");
        assert!((before..=after).contains(&stat.start_ticks));
        within_a_tick += u32::from(before == after);
    }
}

#[test]
fn a_process_that_is_killed_before_exec_is_reported_as_unexecuted() {
    use rustix::io::Errno;
    use rustix::pipe::{PipeFlags, pipe_with};

    // The child writes into its control group before exec: into a full pipe it writes for ever.
    let (_read, full) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe");
    let written = loop {
        if let Err(error) = rustix::io::write(&full, &[0; 4096]) {
            break error;
        }
    };
    assert_eq!(written, Errno::AGAIN, "it is full");
    rustix::fs::fcntl_setfl(&full, OFlags::empty()).expect("a descriptor");
    let note = tempfile::NamedTempFile::new().expect("a file");
    let path = note.path().to_owned();
    let killer = std::thread::spawn(move || {
        let pid = loop {
            let note = fs::read(&path).expect("readable");
            let pid = note.get(PID_NOTE_HEADER_BYTES..).unwrap_or_default();
            if let Ok(pid) = pid.try_into() {
                break u32::from_ne_bytes(pid);
            }
            std::thread::yield_now();
        };
        let identity = crate::sys::identity::boot_id().expect("known");
        let identity = crate::sys::identity::identify(identity, pid).expect("readable");
        assert!(identity.is_some(), "it waits");
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    });
    let argv = strings(&["/bin/true"]);
    let command = Command {
        cgroup: Some(full.as_fd()),
        pid_note: Some(PidNote {
            file: note.as_file().as_fd(),
            header: [0; PID_NOTE_HEADER_BYTES],
        }),
        ..Command::new(&argv, &[])
    };
    let pid = Spawner::new().expect("memory").spawn(&command);
    let pid = pid.expect("the parent cannot know yet");
    killer.join().expect("it has killed");
    let stat = loop {
        let stat = proc::stat(pid).expect("readable").expect("a zombie");
        if stat.is_over() {
            break stat;
        }
        std::thread::yield_now();
    };
    assert!(!stat.has_executed, "{stat:?}");
    let status = loop {
        match reap::next_exited().expect("asked") {
            Some((exited, status)) if exited == pid => break status,
            // Another test of this process has left it.
            Some((other, _)) => reap::reap(other).expect("a zombie"),
            None => std::thread::yield_now(),
        }
    };
    assert_eq!(status, ExitStatus::Unexecuted(libc::SIGKILL));
    reap::reap(pid).expect("our child");
}

#[test]
fn output_goes_to_files_that_are_created_or_emptied_and_a_pipe_is_not_waited_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("all"), "old and longer than what follows").expect("written");
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RWXU).expect("made");
    let argv = strings(&["/bin/sh", "-c", "echo a; echo b >&2; echo c"]);
    let cwd = directory.path().to_str().expect("UTF-8");
    let command = Command {
        cwd: Some(cwd),
        stdout_path: Some("all"),
        stderr_path: Some("all"),
        ..Command::new(&argv, &[])
    };
    assert_eq!(output(command), "");
    let all = std::fs::read_to_string(at("all")).expect("readable");
    assert_eq!(all, "a\nb\nc\n");
    for path in ["pipe", "nowhere/x"] {
        let command = Command {
            stdout_path: Some(path),
            ..command
        };
        assert_eq!(failure(&command).step, Step::Output(path.to_owned()));
    }
}

#[test]
fn a_process_is_bound_to_its_cpus_before_it_starts() {
    let argv = strings(&[
        "sed",
        "-n",
        "s/^Cpus_allowed_list:[[:space:]]*//p",
        "/proc/self/status",
    ]);
    let env = path("/usr/bin:/bin");
    let own: CpuList = output(Command::new(&argv, &env)).parse().expect("a list");
    for cpu in own.iter().take(3) {
        let cpus: CpuList = [cpu].into_iter().collect();
        let bound = Command {
            cpus: Some(&cpus),
            ..Command::new(&argv, &env)
        };
        assert_eq!(output(bound).trim(), cpus.to_string());
    }
    let none: CpuList = [60_000].into_iter().collect();
    let error = failure(&Command {
        cpus: Some(&none),
        ..Command::new(&argv, &env)
    });
    assert_eq!(error.step, Step::Affinity("60000".to_owned()));
    assert!(
        error.to_string().contains("cannot bind to CPUs 60000"),
        "{error}"
    );
}
