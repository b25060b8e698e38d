//! The last launch, known even if the coordinator dies in the middle of it.
//!
//! A launch is recorded once its process has called exec and its start time was read. A coordinator
//! that is killed in between leaves a process that runs, and may finish, unknown to the log. So the
//! process itself writes its pid before it calls exec ([`PidNote`]), behind a header that names the
//! run and the time. There is only one such note, that of the last launch: earlier launches are
//! written to the log before it.
//!
//! The coordinator's lock is free only once that process has closed it, which happens after the
//! note. So a reader that holds the lock reads a complete note.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_fs::private;
use baton_model::ids::BootId;
use baton_model::task::{Identity, Moment, ProcessNo, RunNo};
use baton_model::time::{Mono, Now, Wall};

use super::mark::marked_run;
use super::start::CoordinatorSpec;
use crate::record::CoordinatorRecord;
use crate::stderr::log_line;
use crate::sys::proc::{self, Stat};
use crate::sys::spawn::{PID_NOTE_HEADER_BYTES, PidNote};
use crate::wire::RunKey;

const FILE: &str = "coordinator.pid_note";
/// A process that has not called exec yet needs a few microseconds for it once it is scheduled,
/// which on a loaded host may take long. It is polled this often, at this interval.
const POLLS_MAX: u32 = 10_000;
/// As often it is polled once it has called exec: the kernel marks it as executed before its
/// environment can be read.
const EXECUTED_POLLS_MAX: u32 = 1_000;
const POLL_EVERY: Duration = Duration::from_millis(1);
/// Tolerance for a start that seems to come before its note: the start is counted in ticks of a
/// hundredth of a second, and rounded down.
const TICK_SLACK_MS: u64 = 20;

/// The file that holds the note.
#[derive(Debug)]
pub(super) struct PidNotes {
    /// `None` if it could not be opened: then launches leave no note.
    file: Option<File>,
}

impl PidNotes {
    pub(super) fn new(checkpoint: &Path) -> Self {
        let mut options = private::file_options();
        let file = options
            .create(true)
            .write(true)
            .truncate(false)
            .open(path(checkpoint));
        let file = file.inspect_err(|error| {
            log_line!("coordinator: cannot open the pid note file: {error}");
        });
        Self { file: file.ok() }
    }

    /// Prepares the note that the process launched now writes.
    pub(super) fn prepare(&self, run: RunKey, at: Now) -> Option<PidNote<'_>> {
        let file = self.file.as_ref()?.as_fd();
        let header = LaunchHeader {
            run,
            at: at.into(),
            since_boot_ms: proc::since_boot_ms(),
        };
        Some(PidNote {
            file,
            header: header.to_bytes(),
        })
    }
}

/// The part of a note that the coordinator writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LaunchHeader {
    run: RunKey,
    at: Moment,
    since_boot_ms: u64,
}

impl LaunchHeader {
    fn to_bytes(self) -> [u8; PID_NOTE_HEADER_BYTES] {
        let words = [
            self.run.process.0.into(),
            self.run.run.0,
            self.at.mono.0,
            self.at.wall.0,
            self.since_boot_ms,
        ];
        let mut bytes = [0; PID_NOTE_HEADER_BYTES];
        for (slot, word) in bytes.chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&u64::to_ne_bytes(word));
        }
        bytes
    }

    /// Parses a note; `None` if there was never one, or it is incomplete.
    fn read(note: &[u8]) -> Option<(Self, u32)> {
        let (header, pid) = note.split_at_checked(PID_NOTE_HEADER_BYTES)?;
        let pid = u32::from_ne_bytes(pid.try_into().ok()?);
        let mut words = header.chunks_exact(8);
        let mut next = || Some(u64::from_ne_bytes(words.next()?.try_into().ok()?));
        let run = RunKey {
            process: ProcessNo(next()?.try_into().ok()?),
            run: RunNo(next()?),
        };
        let at = Moment {
            mono: Mono(next()?),
            wall: Wall(next()?),
        };
        let since_boot_ms = next()?;
        let launch = Self {
            run,
            at,
            since_boot_ms,
        };
        Some((launch, pid)).filter(|_| pid > 0)
    }
}

/// The launch that a dead coordinator of this boot did not record, if there was one and its process
/// can be identified. `reaped` returns the start time of a child of ours that had this pid and
/// was reaped.
pub(super) fn unrecorded_launch(
    start: &CoordinatorSpec,
    boot: BootId,
    records: &[CoordinatorRecord],
    reaped: &mut dyn FnMut(u32) -> Option<u64>,
) -> io::Result<Option<CoordinatorRecord>> {
    let note = match std::fs::read(path(&start.checkpoint)) {
        Ok(note) => note,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some((launch, pid)) = LaunchHeader::read(&note) else {
        return Ok(None);
    };
    let run = launch.run;
    if records.iter().any(|record| is_launch_of(record, run)) {
        return Ok(None);
    }
    let start_ticks = start_ticks_of(&launch, pid, &start.mark, reaped)?;
    Ok(start_ticks.map(|start_ticks| CoordinatorRecord::Started {
        run,
        at: launch.at,
        identity: Identity {
            boot,
            pid,
            start_ticks,
        },
        tag: String::new(),
    }))
}

fn is_launch_of(record: &CoordinatorRecord, wanted: RunKey) -> bool {
    match record {
        CoordinatorRecord::Started { run, .. } | CoordinatorRecord::Forgotten { run } => {
            *run == wanted
        }
        CoordinatorRecord::Exited(ended) | CoordinatorRecord::Ended(ended) => ended.run == wanted,
        CoordinatorRecord::Begun { .. }
        | CoordinatorRecord::Accepted { .. }
        | CoordinatorRecord::Assigned { .. }
        | CoordinatorRecord::Guard(_) => false,
    }
}

/// The start time of the process, if it is the one of the note: it began after the note was
/// prepared, and carries the mark of the run, or is or was a zombie of ours. Another process with
/// the same pid cannot carry the mark.
fn start_ticks_of(
    launch: &LaunchHeader,
    pid: u32,
    mark: &str,
    reaped: &mut dyn FnMut(u32) -> Option<u64>,
) -> io::Result<Option<u64>> {
    let fits = |ticks: &u64| {
        let started_ms = ticks.saturating_mul(1_000) / proc::ticks_per_second();
        started_ms + TICK_SLACK_MS >= launch.since_boot_ms
    };
    let me = std::process::id();
    let mut executed_polls = 0;
    for _ in 0..POLLS_MAX {
        let stat = proc::stat(pid)?;
        let Some(stat) = stat.filter(|stat| fits(&stat.start_ticks)) else {
            return Ok(reaped(pid).filter(fits));
        };
        let is_ours = |stat: Stat| stat.is_over() && stat.ppid == me;
        if is_ours(stat) || proc::has_mark(pid, &|text| marked_run(mark, text) == Some(launch.run))
        {
            return Ok(Some(stat.start_ticks));
        }
        executed_polls += u32::from(stat.has_executed);
        if executed_polls > EXECUTED_POLLS_MAX {
            break;
        }
        std::thread::sleep(POLL_EVERY);
    }
    Ok(None)
}

fn path(checkpoint: &Path) -> PathBuf {
    checkpoint.join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::mark::run_mark;
    use crate::sys::exits::Exits;
    use crate::sys::spawn::{Command, Spawner};
    use crate::sys::{clock, identity, kill, reap};

    const MARK: &str = "m";

    struct Fixture {
        dir: tempfile::TempDir,
        boot: BootId,
    }

    impl Fixture {
        fn new() -> Self {
            Self {
                dir: tempfile::tempdir().expect("a directory"),
                boot: identity::boot_id().expect("known"),
            }
        }

        /// Launches a process as a coordinator does, and records nothing.
        fn launch(&self, run: RunKey, script: &str) -> u32 {
            let pid_notes = PidNotes::new(self.dir.path());
            let argv = ["/bin/sh", "-c", script].map(str::to_owned);
            let env = [(proc::MARK.to_owned(), run_mark(MARK, run))];
            let command = Command {
                pid_note: pid_notes.prepare(run, clock::now()),
                ..Command::new(&argv, &env)
            };
            let mut spawner = Spawner::new().expect("made");
            spawner.spawn(&command).expect("launched")
        }

        fn recover(
            &self,
            records: &[CoordinatorRecord],
            exits: &Exits,
        ) -> Option<(RunKey, Identity)> {
            let start = CoordinatorSpec {
                binary: PathBuf::new(),
                checkpoint: self.dir.path().to_owned(),
                sandbox: PathBuf::new(),
                mark: MARK.to_owned(),
                cgroup: None,
                guarded: true,
            };
            let mut reaped = |pid| exits.start_of(pid);
            let found =
                unrecorded_launch(&start, self.boot, records, &mut reaped).expect("readable");
            match found? {
                CoordinatorRecord::Started { run, identity, .. } => Some((run, identity)),
                other => panic!("{other:?}"),
            }
        }
    }

    fn run(number: u32) -> RunKey {
        RunKey {
            process: ProcessNo(number),
            run: RunNo(7),
        }
    }

    #[test]
    fn an_unrecorded_launch_is_found_alive_ended_and_reaped() {
        let fixture = Fixture::new();
        let mut exits = Exits::default();
        let pid = fixture.launch(run(3), "exec sleep 1000");
        let who = identity::identify(fixture.boot, pid).expect("readable");
        let found = fixture.recover(&[], &exits);
        assert_eq!(found, who.map(|who| (run(3), who)));
        kill::group(pid, libc::SIGKILL).expect("killed");
        while reap::next_exited().expect("asked").is_none() {
            std::thread::yield_now();
        }
        assert_eq!(fixture.recover(&[], &exits), found, "as a zombie");
        exits.take(fixture.boot);
        assert_eq!(fixture.recover(&[], &exits), found, "once it is reaped");
        let (_, who) = found.expect("just seen");
        assert!(exits.remove(&who).is_some(), "and its end is known");
    }

    #[test]
    fn a_recorded_launch_is_not_reported_again() {
        let fixture = Fixture::new();
        let pid = fixture.launch(run(3), "exec sleep 1000");
        let forgotten = CoordinatorRecord::Forgotten { run: run(3) };
        assert_eq!(fixture.recover(&[forgotten], &Exits::default()), None);
        let another = CoordinatorRecord::Forgotten { run: run(4) };
        assert!(fixture.recover(&[another], &Exits::default()).is_some());
        kill::group(pid, libc::SIGKILL).expect("killed");
        reap::wait(pid).expect("reaped");
        assert_eq!(
            fixture.recover(&[], &Exits::default()),
            None,
            "its end is unknown"
        );
    }

    #[test]
    fn another_process_with_that_pid_is_not_taken_for_it() {
        let fixture = Fixture::new();
        let pid = fixture.launch(run(3), "exec sleep 1000");
        // As if the pid had been reused by a process of another run.
        let launch = LaunchHeader {
            run: run(5),
            at: clock::now().into(),
            since_boot_ms: proc::since_boot_ms(),
        };
        let mut note = launch.to_bytes().to_vec();
        note.extend(pid.to_ne_bytes());
        std::fs::write(path(fixture.dir.path()), &note).expect("written");
        assert_eq!(fixture.recover(&[], &Exits::default()), None);
        // Nor is one that started earlier.
        let later = LaunchHeader {
            run: run(3),
            since_boot_ms: launch.since_boot_ms + 60_000,
            ..launch
        };
        let mut note = later.to_bytes().to_vec();
        note.extend(pid.to_ne_bytes());
        std::fs::write(path(fixture.dir.path()), &note).expect("written");
        assert_eq!(fixture.recover(&[], &Exits::default()), None);
        kill::group(pid, libc::SIGKILL).expect("killed");
        reap::wait(pid).expect("reaped");
    }

    #[test]
    fn a_torn_note_is_ignored() {
        let fixture = Fixture::new();
        assert_eq!(fixture.recover(&[], &Exits::default()), None, "no file");
        for length in [0, 1, PID_NOTE_HEADER_BYTES, PID_NOTE_HEADER_BYTES + 3] {
            std::fs::write(path(fixture.dir.path()), vec![1; length]).expect("written");
            assert_eq!(fixture.recover(&[], &Exits::default()), None, "{length}");
        }
    }
}
