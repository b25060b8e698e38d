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
//! Decisions are in [`baton_core::host`], with their invariants: records are in the log before
//! replies, launches and the reaping of attempts. Here are the loop, descriptors, `/proc` and files.
//!
//! * Records and replies are batched: everything of one turn of the loop is one write, except that
//!   all of it is written before a launch, and the exit of an attempt at once. While launches wait,
//!   replies are batched for some milliseconds. The log is synced only while no runner is connected:
//!   a connected runner keeps its own, synced log.
//! * The one start that may be missing in the log is known from a note that its process writes
//!   itself: see `pid_note`. A successor is asked to kill every process that carries a mark of no
//!   run that it adopted ([`Request::KillStrays`], done before its first launch in any case); what
//!   was accepted and not seen to start is then lost.
//! * Descendants of the coordinator stay below it (it is the subreaper), so a walk of the tree also
//!   finds daemonised processes. Processes that a dead coordinator left behind are found by the
//!   mark in their environment.
//!
//! | file | holds |
//! |---|---|
//! | `serve` | the loop: connection, requests, replies, records |
//! | `connection` | the connection to the runner |
//! | `kernel` | the calls of the machine: signals, walks, held processes, control groups |
//! | `pid_note` | the last launch, in case the coordinator dies before recording it |
//! | `launch` | log files, log rotation, starting processes |
//! | `attempt_dirs` | the directories and logs of a worker's attempts |
//! | `journal` | writing and compacting the log |
//! | [`last_resort`] | killing what no coordinator can guard |
//! | `start` | the runner's side: starting a coordinator, or connecting to the running one |
//!
//! [`Request::KillStrays`]: crate::wire::Request::KillStrays

mod attempt_dirs;
mod connection;
mod journal;
mod kernel;
pub mod last_resort;
mod launch;
pub(crate) mod mark;
mod pid_note;
mod serve;
mod start;

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
