//! The coordinator: the small parent of all processes of a task, or of a worker.
//!
//! It launches on request, sees every end, kills awaits_descendants trees, and holds the dead-man
//! timer. It knows nothing about the task's plan. For a worker it runs attempts of many
//! tasks, and keeps those waiting that do not fit beside what runs. It is a process of its own, in its own
//! session, so that it outlives the runner: a later runner connects, is told everything,
//! and goes on.
//!
//! ```text
//!            ┌──────────── poll ───────────┐
//!   SIGCHLD ─▶ reap: root of a run, check, │
//!            │ orphan of somebody          │      records ─▶ coordinator log
//!   socket ──▶ requests, one connection    ├──▶      then
//!            │ at a time                   │      replies ─▶ socket
//!   time ────▶ stops, checks, dead-man     │
//!            └─────────────────────────────┘
//! ```
//!
//! **Invariants.**
//! * A record is in the log before its reply is on the socket; while launches wait both may be
//!   gathered for some milliseconds (`news`). The log is synced only
//!   while nobody is connected: a connected runner keeps its own, synced one.
//! * Everything recorded in one turn of the loop is one write, but a launch and the exit of an
//!   attempt are written each at once. The one launch that may be missing in the log is known
//!   from a note that its process makes itself: see `pid_notes`. A successor is asked to kill what
//!   carries a mark of no run that it adopted ([`Request::KillStrays`], done before its first
//!   launch in any case), and then what was accepted and not seen to start is lost.
//! * A run is launched once, however often it is ordered.
//! * What descends from the coordinator stays below it (it is the subreaper), so a walk
//!   of the tree finds daemonised processes too. What an earlier, dead coordinator left
//!   behind is found by the mark in its environment.
//! * No signal goes to a number that may have been given to somebody else.
//! * What a run leaves in its process group dies with it. What has left the group dies at
//!   the end of the task, or before the next run of the same process. A worker's attempt, one
//!   with a home, is over only when nothing of it is left: see `leftovers`.
//! * A turn of the loop costs what has happened in it, however many runs are known or wait.
//!
//! | file | holds |
//! |---|---|
//! | `serve` | the loop: connection, requests, replies, records |
//! | `runs` | what is known about each run |
//! | `queue` | who waits for what is occupied |
//! | `news` | what the runner is told, and when |
//! | `pid_notes` | the last launch, should it not come to be recorded |
//! | `launch` | log files, rotation, starting |
//! | `home` | the directories and logs of a worker's attempts |
//! | `termination` | exits, stops, checks that take too long |
//! | `leftovers` | what an attempt leaves behind, and the wait for its end |
//! | `journal` | writing the log, and keeping it short |
//! | `kill` | who belongs to whom, and the killing of it |
//! | `start` | the runner's side: beginning a coordinator, or finding the one there is |
//!
//! [`Request::KillStrays`]: crate::wire::Request::KillStrays

mod attempt_dirs;
mod journal;
mod kill;
mod launch;
mod leftovers;
mod pid_note;
mod queue;
mod reply_buffer;
mod runs;
mod serve;
mod start;
mod termination;

use std::path::PathBuf;

pub use runs::run_mark;
pub use start::{CoordinatorSpec, Discovery, Greeting, Link, StartPermit};

/// The hidden command that a coordinator is started with.
pub const COMMAND: &str = "__coordinator";

/// The descriptors that a coordinator inherits.
pub(crate) const LOCK_FD: i32 = 3;
pub(crate) const LISTENER_FD: i32 = 4;

/// What a coordinator is told when it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    checkpoint: PathBuf,
    /// Where processes run and log.
    sandbox: PathBuf,
    /// The mark of the task.
    mark: String,
    /// An earlier coordinator may have left something behind.
    successor: bool,
    /// Nothing is launched without a deadline of the dead-man timer.
    guarded: bool,
    /// The cgroup that processes join, if there is one.
    cgroup: Option<PathBuf>,
}

impl Config {
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

/// What `baton __coordinator …` runs. Answers its exit status.
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
    fn what_it_is_told_arrives() {
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
