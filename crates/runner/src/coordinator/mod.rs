//! The coordinator: the small parent process of all processes of a task, or of a worker.
//!
//! It launches on request, reaps every exit, kills process trees, and holds the dead-man timer. It
//! knows nothing about the task's plan. For a worker it runs attempts of many tasks, and queues
//! those that do not fit beside what runs. It is a process of its own, in its own session, so that
//! it outlives the runner: a later runner connects, receives the full state, and continues.
//!
//! ```text
//!            ┌──────────── poll ───────────┐
//!   SIGCHLD ─▶ reap: root of a run, check, │
//!            │ orphan                      │      records ─▶ coordinator log
//!   socket ──▶ requests, one connection    ├──▶      then
//!            │ at a time                   │      replies ─▶ socket
//!   time ────▶ stops, checks, dead-man     │
//!            └─────────────────────────────┘
//! ```
//!
//! **Invariants.**
//! * A record is in the log before its reply is on the socket. While launches wait, both may be
//!   batched for some milliseconds (`reply_buffer`). The log is synced only while no runner is
//!   connected: a connected runner keeps its own, synced log.
//! * Everything recorded in one turn of the loop is one write, except that all of it is written
//!   before a launch, and the exit of an attempt at once. So an attempt that may have started is in
//!   the log, and the one start that may be missing is known from a note that its process writes
//!   itself: see `pid_note`. A successor is asked to kill every
//!   process that carries a mark of no run that it adopted ([`Request::KillStrays`], done before
//!   its first launch in any case); what was accepted and not seen to start is then lost.
//! * A run is launched once, however often it is ordered (launches are idempotent).
//! * Descendants of the coordinator stay below it (it is the subreaper), so a walk of the tree also
//!   finds daemonised processes. Processes that a dead coordinator left behind are found by the
//!   mark in their environment.
//! * No signal goes to a pid that may have been reused.
//! * Processes that a run leaves in its process group die with it. Those that have left the group
//!   die at the end of the task, or before the next run of the same process. An attempt of a worker
//!   (a launch with paths) is over only when none of its processes is left: see `leftovers`.
//! * The cost of a turn of the loop depends on the events in it, not on the number of known or
//!   waiting runs.
//!
//! | file | holds |
//! |---|---|
//! | `serve` | the loop: connection, requests, replies, records |
//! | `connection` | the connection to the runner |
//! | `runs` | the state of each run |
//! | `queue` | launches that wait for capacity |
//! | `reply_buffer` | replies that are not sent yet, and when to send them |
//! | `pid_note` | the last launch, in case the coordinator dies before recording it |
//! | `launch` | log files, log rotation, starting processes |
//! | `attempt_dirs` | the directories and logs of a worker's attempts |
//! | `termination` | exits, stops, checks that take too long |
//! | `leftovers` | surviving descendants of an attempt, and the wait for their end |
//! | `journal` | writing and compacting the log |
//! | `kill` | membership of processes in runs, and killing them |
//! | [`last_resort`] | killing what no coordinator can guard |
//! | `start` | the runner's side: starting a coordinator, or connecting to the running one |
//!
//! [`Request::KillStrays`]: crate::wire::Request::KillStrays

mod attempt_dirs;
mod connection;
mod journal;
mod kill;
pub mod last_resort;
mod launch;
mod leftovers;
pub(crate) mod mark;
mod pid_note;
mod queue;
mod reply_buffer;
mod runs;
mod serve;
mod start;
mod termination;

use std::path::{Path, PathBuf};

use baton_model::ids::BootId;

use crate::record::CoordinatorRecord;

pub use mark::run_mark;
pub use start::{
    CoordinatorSpec, Discovery, Greeting, Link, StartPermit, is_gone, is_running, outlive_deaths,
};

/// The hidden command that a coordinator is started with.
pub const COMMAND: &str = "__coordinator";

/// The descriptors that a coordinator inherits.
pub(crate) const LOCK_FD: i32 = 3;
pub(crate) const LISTENER_FD: i32 = 4;

/// The arguments of a coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    checkpoint: PathBuf,
    /// Working directory and logs of its processes.
    sandbox: PathBuf,
    /// The mark of the task.
    mark: String,
    /// An earlier coordinator may have left processes behind.
    successor: bool,
    /// Nothing is launched without a deadline of the dead-man timer.
    guarded: bool,
    /// The cgroup that processes join, if there is one.
    cgroup: Option<PathBuf>,
}

impl Config {
    /// The first record of its log.
    fn begun(&self, boot: BootId) -> CoordinatorRecord {
        CoordinatorRecord::Begun {
            mark: self.mark.clone(),
            boot,
            pid: std::process::id(),
        }
    }

    fn to_args(&self) -> Vec<String> {
        let flag = |set: bool, name: &str| if set { name } else { "-" }.to_owned();
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        vec![
            text(&self.checkpoint),
            text(&self.sandbox),
            self.mark.clone(),
            flag(self.successor, "successor"),
            flag(self.guarded, "guarded"),
            self.cgroup.as_ref().map_or_else(|| "-".to_owned(), text),
        ]
    }

    fn from_args(args: &[String]) -> Option<Self> {
        let [checkpoint, sandbox, mark, successor, guarded, cgroup] = args else {
            return None;
        };
        Some(Self {
            checkpoint: checkpoint.into(),
            sandbox: sandbox.into(),
            mark: mark.clone(),
            successor: successor == "successor",
            guarded: guarded == "guarded",
            cgroup: Some(cgroup).filter(|path| *path != "-").map(PathBuf::from),
        })
    }
}

/// The coordinator's log of a task.
fn log_path(checkpoint: &Path) -> PathBuf {
    checkpoint.join("coordinator")
}

/// Entry point of `baton __coordinator …`. Returns the exit status.
#[must_use]
pub fn main(args: &[String]) -> i32 {
    let Some(config) = Config::from_args(args) else {
        eprintln!("{COMMAND} is started by baton itself, not by hand");
        return 2;
    };
    match serve::run(config) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_round_trip() {
        let config = Config {
            checkpoint: "/c p".into(),
            sandbox: "/s".into(),
            mark: "m".to_owned(),
            successor: true,
            guarded: false,
            cgroup: Some("/g".into()),
        };
        assert_eq!(Config::from_args(&config.to_args()), Some(config.clone()));
        let other = Config {
            successor: false,
            guarded: true,
            cgroup: None,
            ..config
        };
        assert_eq!(Config::from_args(&other.to_args()), Some(other));
    }
}
