//! The reaper: the parent of a worker's coordinators.
//!
//! ```text
//!   agent ──────▶ coordinator ──▶ attempts
//!     │   requests     ▲              ╎ become the reaper's children
//!     │                │ starts       ╎ when their coordinator dies
//!     └─────────▶ reaper ◀╌╌╌╌╌╌╌╌╌╌╌╌┘
//!       spawn, deadline, exits?
//! ```
//!
//! An agent survives the death of its coordinator, and a coordinator that of its agent. When both
//! are killed at once, the reaper is left. It does two things:
//!
//! * It is the subreaper of everything below it, so it learns how the processes of a dead
//!   coordinator end, and keeps that for the next agent.
//! * It has a timer of its own, the [`Backstop`], and kills everything when the lease has ended and
//!   no coordinator has done so: because it is dead, or because it is stopped.
//!
//! It decides nothing else, writes no file, and needs no memory that it does not have from the
//! start, but for what a scan of `/proc` takes. It exits when no agent is connected, no child is
//! left, and no deadline is ahead.
//!
//! | module | holds |
//! |---|---|
//! | `messages` | the messages between the agent and its reaper |
//! | `serve` | the process itself |
//! | `link` | the agent's side: finding or starting a reaper, and its requests |
//!
//! [`Backstop`]: baton_core::protocol::worker::guard::Backstop

mod link;
mod messages;
mod serve;

pub use link::{Link, ReaperSpec};

/// The hidden command that a reaper is started with.
pub const COMMAND: &str = "__reaper";

/// The descriptors that a reaper inherits.
const LOCK_FD: i32 = 3;
const LISTENER_FD: i32 = 4;

/// Entry point of `baton __reaper …`. Returns the exit status.
#[must_use]
pub fn main(args: &[String]) -> i32 {
    // The directory is for people who look at the processes of their host.
    let [_checkpoint, mark, cgroup, guard] = args else {
        return refuse();
    };
    let Ok(guard) = serde_json::from_str(guard) else {
        return refuse();
    };
    let cgroup = Some(cgroup.as_str()).filter(|path| *path != "-");
    match serve::run(mark, cgroup.map(AsRef::as_ref), guard) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn refuse() -> i32 {
    eprintln!("{COMMAND} is started by baton itself, not by hand");
    2
}
