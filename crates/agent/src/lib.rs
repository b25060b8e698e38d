//! A worker as a process: the agent.
//!
//! ```text
//!   scheduler ◀── TCP: frames ──▶ agent ◀── unix socket: `wire` ──▶ coordinator ──▶ attempts
//!                                  │                                   │
//!                    state directory: lives, inherited      checkpoint: what was seen
//! ```
//!
//! It decides nothing: what a worker says and does is `baton_core::protocol::worker`, and
//! whoever launches, reaps and kills is the coordinator, which outlives the agent. The
//! agent carries words between the two, in one thread around one `poll`, which never waits for
//! anything else: what may take long (to look a name up, to remove old files) is done by
//! threads that come and go. It finds its way back after a death: its own, the coordinator's, or both.
//!
//! | module | holds |
//! |---|---|
//! | `drive` | the loop |
//! | `life` | lives: begun, gone on with, ended |
//! | `takeover` | a coordinator found or begun, and everything taken over |
//! | `effects` | carrying out what the machine wants |
//! | `replies` | what the coordinator says |
//! | `runs` | the attempts on the coordinator's record |
//! | `tag` | what is kept there with each |
//! | `launch` | from an attempt to everything that its launch needs |
//! | `connection` | the connection to the scheduler |
//! | `lookup` | where a name is |
//! | `outgoing` | many small messages as few large ones |
//! | `state` | the state directory |
//! | `logs` | reading a piece of a log |
//! | `outputs` | the logs of one instance as they grow, for whoever is beside the worker |
//! | `memory` | attempts that use too much of it |
//! | `values` | what an attempt puts out |
//! | `sweep` | old files |
//! | [`resources`] | what this machine has |
//!
//! May use model, core, runner and tls.

mod connection;
mod drive;
mod effects;
mod error;
mod launch;
mod life;
mod logs;
mod lookup;
mod memory;
mod outgoing;
mod outputs;
mod replies;
pub mod resources;
mod runs;
mod state;
mod sweep;
mod tag;
mod takeover;
mod values;

use std::path::PathBuf;

use baton_model::ids::WorkerName;
use baton_model::placement::Offer;
use baton_model::time::Millis;
use baton_model::token::Secret;
use baton_tls::ClientFiles;

pub use error::Error;
pub use launch::{ATTEMPT_COMMAND, FETCH_COMMAND, TaskFile};
pub use outputs::{FollowedChunk, LogFollower};

/// What an agent is told when it begins.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the scheduler is: `HOST:PORT`, or several with commas, which are tried in turn.
    pub scheduler: String,
    /// What it shows there, if it has a token.
    pub token: Option<Secret>,
    /// TLS, if the scheduler speaks it.
    pub tls: Option<ClientFiles>,
    /// The seat that it takes.
    pub name: WorkerName,
    /// The state directory.
    pub state: PathBuf,
    /// The binary that knows the hidden commands.
    pub binary: PathBuf,
    /// What it has, and what it is.
    pub offer: Offer,
    /// How many attempts it holds at once.
    pub slots: u32,
    /// How long the files of attempts are kept that are over.
    pub keep: Millis,
}

/// Why an agent has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentExit {
    /// It left, and its work goes on.
    Left,
    /// Its life is over, and so is its work.
    Over,
}

/// Runs a worker until it is told to end.
///
/// # Errors
/// [`Error`] if the state directory, the coordinator or the configuration cannot be used.
/// What runs goes on then, under its coordinator, for as long as its lease allows.
pub fn run(config: Config) -> Result<AgentExit, Error> {
    drive::Agent::open(config)?.drive()
}
