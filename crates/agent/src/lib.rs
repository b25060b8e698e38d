//! The worker agent.
//!
//! ```text
//!   scheduler ◀── TCP: frames ──▶ agent ◀── unix socket: `wire` ──▶ coordinator ──▶ attempts
//!                                  │                                   │
//!                    state directory: lives, inherited      checkpoint: recorded events
//! ```
//!
//! The agent decides nothing: `baton_core::protocol::worker` is the protocol's state machine, and
//! the coordinator, which outlives the agent, launches, reaps and kills. The agent connects the
//! two, in one thread around one `poll` that never blocks on anything else: slow work (resolving
//! names, removing old files) is done by short-lived threads. It recovers from its own death, the
//! coordinator's, or both.
//!
//! | module | holds |
//! |---|---|
//! | `drive` | the event loop |
//! | `incarnation` | starting, resuming and ending incarnations |
//! | `takeover` | finding or starting a coordinator, and taking over its attempts |
//! | `effects` | effects of the state machine |
//! | `replies` | replies of the coordinator |
//! | `attempts` | the attempts in the coordinator's record |
//! | `tag` | what the coordinator stores with each attempt |
//! | `launch` | launch parameters of an attempt |
//! | `connection` | the connection to the scheduler |
//! | `lookup` | name resolution on another thread |
//! | `outgoing` | coalescing of messages to the scheduler |
//! | `state` | the state directory |
//! | `logs` | reading a part of a log |
//! | `log_follower` | following the logs of one instance on the worker's host |
//! | `memory` | killing attempts that exceed their memory limit |
//! | `outputs` | reading an attempt's outputs |
//! | `sweep` | removing old files |
//! | `watchdog` | notifications to the service manager (systemd) |
//! | [`resources`] | the capacity of this machine |
//!
//! May use model, core, runner and tls.

mod attempts;
mod connection;
mod drive;
mod effects;
mod error;
mod incarnation;
mod launch;
mod log_follower;
mod logs;
mod lookup;
mod memory;
mod outgoing;
mod outputs;
mod replies;
pub mod resources;
mod state;
mod sweep;
mod tag;
mod takeover;
mod watchdog;

use std::path::PathBuf;

use baton_model::ids::WorkerName;
use baton_model::placement::Offer;
use baton_model::time::Millis;
use baton_model::token::Secret;
use baton_tls::ClientFiles;

pub use error::Error;
pub use launch::{ATTEMPT_COMMAND, FETCH_COMMAND, TaskFile};
pub use log_follower::{FollowedChunk, LogFollower};

/// Configuration of an agent.
#[derive(Clone, Debug)]
pub struct Config {
    /// The scheduler's address: `HOST:PORT`, or several separated by commas, which are tried in
    /// turn.
    pub scheduler: String,
    /// The token to present to the scheduler, if any.
    pub token: Option<Secret>,
    /// TLS files, if the scheduler uses TLS.
    pub tls: Option<ClientFiles>,
    /// The worker's name, which is its seat.
    pub name: WorkerName,
    /// The state directory.
    pub state: PathBuf,
    /// The binary with the hidden commands.
    pub binary: PathBuf,
    /// The worker's capacity and labels.
    pub offer: Offer,
    /// Maximum number of concurrent attempts.
    pub slots: u32,
    /// How long the files of ended attempts are kept.
    pub keep: Millis,
}

/// Outcome of running an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentExit {
    /// The agent exited; its attempts continue.
    Detached,
    /// The incarnation ended; all its processes are dead.
    Ended,
}

/// Runs a worker until it is told to exit.
///
/// # Errors
/// [`Error`] if the state directory, the coordinator or the configuration cannot be used. Running
/// attempts then continue under their coordinator for as long as their lease allows.
pub fn run(config: Config) -> Result<AgentExit, Error> {
    drive::Agent::open(config)?.drive()
}
