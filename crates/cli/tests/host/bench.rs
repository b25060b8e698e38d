//! A client of a coordinator, as a runner or an agent would be.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use baton_model::ids::Epoch;
use baton_model::outcome::Outcome;
use baton_model::task::{Identity, ProcessNo, RunNo};
use baton_model::time::{Millis, Mono, Stamp};
use baton_runner::coordinator::{CoordinatorSpec, Discovery, Greeting, Link};
use baton_runner::sys::spawn::Spawner;
use baton_runner::sys::{clock, random};
use baton_runner::wire::{Guard, Launch, Reply, Request, RunKey};
use baton_testing::{PATIENCE, until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub(crate) struct Bench {
    pub(crate) start: CoordinatorSpec,
    pub(crate) sandbox: PathBuf,
    _dir: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new(guarded: bool) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let (checkpoint, sandbox) = (dir.path().join("checkpoint"), dir.path().join("sandbox"));
        std::fs::create_dir(&checkpoint).expect("made");
        std::fs::create_dir(&sandbox).expect("made");
        Self {
            start: CoordinatorSpec {
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

    pub(crate) fn begin(&self) -> Link {
        let Discovery::Absent(permit) = self.start.discover().expect("looked") else {
            panic!("a coordinator is running");
        };
        let mut spawner = Spawner::new().expect("a spawner");
        let begun = permit.start(&self.start, &mut spawner.as_fn(), false);
        begun.expect("a coordinator").0
    }

    pub(crate) fn connect(&self) -> (Link, Greeting) {
        match self.start.discover().expect("looked") {
            Discovery::Running(link, greeting) => (link, greeting),
            Discovery::Absent(_) => panic!("no coordinator is running"),
        }
    }

    /// The previous one may take a moment to exit.
    pub(crate) fn begin_after_the_last(&self) -> Link {
        let mut begun = None;
        until("the one before is gone", || {
            if let Ok(Discovery::Absent(permit)) = self.start.discover() {
                let mut spawner = Spawner::new().expect("a spawner");
                begun = permit.start(&self.start, &mut spawner.as_fn(), true).ok();
            }
            begun.is_some()
        });
        begun.expect("begun").0
    }

    /// A shell command in the sandbox.
    pub(crate) fn shell(&self, number: u64, command: &str) -> Request {
        let words = ["/bin/sh", "-c", command].map(str::to_owned);
        Request::Launch {
            run: run(number),
            launch: Box::new(Launch {
                argv: words.to_vec(),
                env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
                cwd: self.sandbox.to_string_lossy().into_owned(),
                log: "p".to_owned(),
                ..Launch::default()
            }),
        }
    }
}

pub(crate) fn run(number: u64) -> RunKey {
    RunKey {
        process: ProcessNo(u32::try_from(number).expect("a small number")),
        run: RunNo(0),
    }
}

pub(crate) fn guard(deadline: Mono, stamp: u64) -> Request {
    Request::Guard(Guard {
        deadline,
        grace: Millis(100),
        kill_max: Millis(200),
        epoch: Epoch(1),
        stamp: Stamp(Mono(stamp)),
    })
}

pub(crate) fn far_future() -> Mono {
    clock::now().mono + Millis::from_secs(3_600)
}

pub(crate) fn send(link: &mut Link, request: &Request) {
    link.send(request).expect("sent");
}

pub(crate) fn wait_for<T>(link: &mut Link, mut wanted: impl FnMut(&Reply) -> Option<T>) -> T {
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

pub(crate) fn exists(path: &Path) {
    until(&path.display().to_string(), || path.exists());
}

pub(crate) fn started(reply: &Reply) -> Option<Identity> {
    match reply {
        Reply::Started { identity, .. } => Some(*identity),
        _ => None,
    }
}

pub(crate) fn outcome(reply: &Reply) -> Option<Outcome> {
    match reply {
        Reply::Ended(ended) => Some(ended.outcome),
        _ => None,
    }
}

pub(crate) fn refused(reply: &Reply) -> Option<()> {
    matches!(reply, Reply::Refused { .. }).then_some(())
}

pub(crate) fn end(mut link: Link) {
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
