//! The coordinator by itself, spoken to as a runner or an agent would: one launch for one
//! order, one connection at a time, and the dead-man timer.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use baton_model::ids::Epoch;
use baton_model::outcome::{KillCause, Outcome};
use baton_model::task::{Identity, ProcessNo, RunNo};
use baton_model::time::{Millis, Mono, Stamp};
use baton_runner::coordinator::{Found, Greeting, Link, Start};
use baton_runner::sys::spawn::Spawner;
use baton_runner::sys::{clock, identity, random};
use baton_runner::wire::{Guard, Launch, Reply, Request, RunKey, Sink};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Nothing here takes long; this is for machines that do.
const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    start: Start,
    sandbox: PathBuf,
    _dir: tempfile::TempDir,
}

impl Bench {
    fn new(guarded: bool) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let (checkpoint, sandbox) = (dir.path().join("checkpoint"), dir.path().join("sandbox"));
        std::fs::create_dir(&checkpoint).expect("made");
        std::fs::create_dir(&sandbox).expect("made");
        Self {
            start: Start {
                binary: env!("CARGO_BIN_EXE_baton").into(),
                checkpoint,
                sandbox: sandbox.clone(),
                mark: format!("test{}", random::number()),
                cgroup: None,
                guarded,
            },
            sandbox,
            _dir: dir,
        }
    }

    fn begin(&self) -> Link {
        let Found::Nobody(vacancy) = self.start.find().expect("looked") else {
            panic!("somebody is there");
        };
        let mut spawner = Spawner::new().expect("a spawner");
        let begun = vacancy.begin(&self.start, &mut spawner, false);
        begun.expect("a coordinator").0
    }

    fn meet(&self) -> (Link, Greeting) {
        match self.start.find().expect("looked") {
            Found::Alive(link, greeting) => (link, greeting),
            Found::Nobody(_) => panic!("nobody is there"),
        }
    }

    /// A shell command in the sandbox.
    fn shell(&self, number: u64, command: &str) -> Request {
        let words = ["/bin/sh", "-c", command].map(str::to_owned);
        Request::Launch {
            run: run(number),
            launch: Box::new(Launch {
                argv: words.to_vec(),
                env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
                cwd: self.sandbox.to_string_lossy().into_owned(),
                credentials: None,
                umask: None,
                nice: None,
                limits: Vec::new(),
                log: "p".to_owned(),
                stdout: Sink::Null,
                stderr: Sink::Null,
            }),
        }
    }
}

fn run(number: u64) -> RunKey {
    RunKey {
        process: ProcessNo(0),
        run: RunNo(number),
    }
}

fn guard(deadline: Mono, stamp: u64) -> Request {
    Request::Guard(Guard {
        deadline,
        grace: Millis(100),
        epoch: Epoch(1),
        stamp: Stamp(Mono(stamp)),
    })
}

fn far() -> Mono {
    clock::now().mono + Millis::from_secs(3_600)
}

fn send(link: &mut Link, request: &Request) {
    link.send(request).expect("sent");
}

fn wait_for<T>(link: &mut Link, mut wanted: impl FnMut(&Reply) -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        let (replies, alive) = link.receive().expect("makes sense");
        if let Some(found) = replies.iter().find_map(&mut wanted) {
            return found;
        }
        assert!(alive, "the coordinator is gone");
        assert!(Instant::now() < until, "it never said so");
        let timeout = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        let fd = link.as_fd();
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).expect("polled");
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn exists(path: &Path) {
    until(&path.display().to_string(), || path.exists());
}

fn started(reply: &Reply) -> Option<Identity> {
    match reply {
        Reply::Started { identity, .. } => Some(*identity),
        _ => None,
    }
}

fn outcome(reply: &Reply) -> Option<Outcome> {
    match reply {
        Reply::Ended(ended) => Some(ended.outcome),
        _ => None,
    }
}

fn refused(reply: &Reply) -> Option<()> {
    matches!(reply, Reply::Refused { .. }).then_some(())
}

fn end(mut link: Link) {
    let everything = Request::KillEverything {
        id: 1,
        grace: Millis(0),
    };
    send(&mut link, &everything);
    let left = wait_for(&mut link, |reply| match reply {
        Reply::EverythingKilled { id: 1, left } => Some(*left),
        _ => None,
    });
    assert_eq!(left, 0);
    send(&mut link, &Request::Exit);
}

#[test]
fn a_launch_that_is_ordered_twice_happens_once() {
    let bench = Bench::new(false);
    let mut link = bench.begin();
    let script = "echo x >> ran; until test -e go; do sleep 0.01; done; exit 7";
    let launch = bench.shell(0, script);
    send(&mut link, &launch);
    send(&mut link, &launch);
    let first = wait_for(&mut link, started);
    exists(&bench.sandbox.join("ran"));
    drop(link);
    let (mut link, greeting) = bench.meet();
    assert_eq!(greeting.runs.len(), 1);
    assert_eq!(greeting.runs[0].started.map(|(_, who)| who), Some(first));
    send(&mut link, &launch);
    let again = wait_for(&mut link, started);
    assert_eq!(again, first, "said again, not done again");
    std::fs::write(bench.sandbox.join("go"), "").expect("written");
    assert_eq!(wait_for(&mut link, outcome), Outcome::Exited(7));
    let ran = std::fs::read_to_string(bench.sandbox.join("ran")).expect("written");
    assert_eq!(ran, "x\n");
    end(link);
}

#[test]
fn an_end_is_told_to_every_runner_until_it_is_forgotten() {
    let bench = Bench::new(false);
    let mut link = bench.begin();
    send(&mut link, &bench.shell(0, "exit 3"));
    wait_for(&mut link, outcome);
    drop(link);
    for _ in 0..2 {
        let (_, greeting) = bench.meet();
        let told = greeting.runs[0].ended.as_ref().map(|ended| ended.outcome);
        assert_eq!(told, Some(Outcome::Exited(3)));
    }
    let (mut link, _) = bench.meet();
    send(&mut link, &Request::Forget { run: run(0) });
    // Requests are heard in their order: the answer to a later one says that this one was.
    let stop = Request::Stop {
        run: run(9),
        signal: 15,
        grace: Millis(0),
    };
    send(&mut link, &stop);
    wait_for(&mut link, |reply| {
        matches!(reply, Reply::Unknown { .. }).then_some(())
    });
    drop(link);
    let (link, greeting) = bench.meet();
    assert_eq!(greeting.runs, []);
    end(link);
}

#[test]
fn a_later_runner_replaces_the_one_before() {
    let bench = Bench::new(false);
    let mut first = bench.begin();
    let (second, _) = bench.meet();
    until("the first one is not heard any more", || {
        !first.receive().expect("makes sense").1
    });
    end(second);
}

#[test]
fn a_coordinator_that_was_told_to_leave_makes_room_for_another() {
    let bench = Bench::new(false);
    end(bench.begin());
    end(bench.begin_after_the_last());
}

impl Bench {
    /// The one before may take a moment to be gone.
    fn begin_after_the_last(&self) -> Link {
        let mut begun = None;
        until("the one before is gone", || {
            if let Ok(Found::Nobody(vacancy)) = self.start.find() {
                let mut spawner = Spawner::new().expect("a spawner");
                begun = vacancy.begin(&self.start, &mut spawner, true).ok();
            }
            begun.is_some()
        });
        begun.expect("begun").0
    }
}

#[test]
fn nothing_is_launched_before_the_dead_man_timer_is_set() {
    let bench = Bench::new(true);
    let mut link = bench.begin();
    let order = bench.shell(0, "touch ran");
    send(&mut link, &order);
    wait_for(&mut link, refused);
    assert!(!bench.sandbox.join("ran").exists());
    send(&mut link, &guard(far(), 1));
    send(&mut link, &order);
    assert_eq!(wait_for(&mut link, outcome), Outcome::Exited(0));
    assert!(bench.sandbox.join("ran").exists());
    end(link);
}

#[test]
fn the_dead_man_timer_kills_whether_or_not_somebody_is_connected() {
    for connected in [true, false] {
        let bench = Bench::new(true);
        let mut link = bench.begin();
        send(&mut link, &guard(far(), 1));
        let deaf = "trap '' TERM; touch ready; while :; do sleep 0.05; done";
        send(&mut link, &bench.shell(0, deaf));
        let identity = wait_for(&mut link, started);
        exists(&bench.sandbox.join("ready"));
        send(&mut link, &guard(clock::now().mono + Millis(50), 2));
        let boot = identity::boot_id().expect("a boot");
        if connected {
            let lapsed = Outcome::Killed(KillCause::LeaseLapsed);
            assert_eq!(wait_for(&mut link, outcome), lapsed);
        }
        drop(link);
        until("it dies with its lease", || {
            !identity::is_alive(&identity, boot)
        });
        let (mut link, greeting) = bench.meet();
        assert!(greeting.fired, "whoever comes is told");
        send(&mut link, &guard(far(), 3));
        send(&mut link, &bench.shell(1, "touch again"));
        wait_for(&mut link, refused);
        assert!(!bench.sandbox.join("again").exists());
        end(link);
    }
}
