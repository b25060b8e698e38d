//! The worker agent.
//!
//! ```text
//!   scheduler ◀── TCP: frames ──▶ agent ◀── unix socket: `wire` ──▶ coordinator ──▶ attempts
//!                                  │                                   │
//!                    state directory: lives, inherited      checkpoint: recorded events
//! ```
//!
//! The agent decides nothing: `baton_core::supervision` is the state machine of a worker, and the
//! coordinator, which outlives the agent, launches, reaps and kills. The agent connects the two, in
//! one thread around one `poll` that never blocks on anything else: slow work (resolving names,
//! removing old files) is done by short-lived threads. It recovers from its own death, the
//! coordinator's, or both.
//!
//! | module | holds |
//! |---|---|
//! | `drive` | the event loop |
//! | `incarnation` | beginning and ending incarnations |
//! | `takeover` | evidence about the attempts of a coordinator that is found alive or dead |
//! | `actions` | actions of the supervisor |
//! | `events` | replies of the coordinator |
//! | `coordinator` | the coordinator: its connection, start and end |
//! | `reaper` | the reaper: the parent of coordinators, which remains when both die |
//! | `tag` | what the coordinator stores with each attempt |
//! | `launch` | launch parameters of an attempt |
//! | `attempt_dir` | the directory of an attempt, and its files |
//! | `scheduler` | the scheduler: its connection and the messages to it |
//! | `connection` | the connection to the scheduler |
//! | `lookup` | name resolution on another thread |
//! | `outgoing` | coalescing of messages to the scheduler |
//! | `state` | the state directory |
//! | `logs` | reading a part of a log |
//! | `log_follower` | following the logs of one instance on the worker's host |
//! | `log_limit` | cutting logs that exceed the limit |
//! | `processes` | the processes of an attempt |
//! | `host_view` | the single commands of a worker, for views of its host |
//! | `usage` | sampling the resource usage of attempts |
//! | `meter` | the measured use of the worker: their sum |
//! | `output_files` | the files of a task's standard output and standard error |
//! | `outputs` | reading an attempt's outputs |
//! | `progress` | reading how far running attempts have come |
//! | `plain_file` | opening a file that an attempt has written |
//! | `stderr_tail` | reading the last lines of its standard error |
//! | `sweep` | removing old files |
//! | `end_filing` | recording the ends of killed tasks in their roots |
//! | [`resources`] | the capacity of this machine |
//! | [`devices`] | its GPUs, and the variables that name devices to processes |
//!
//! May use model, core, runner and tls.

mod actions;
mod attempt_dir;
mod connection;
mod coordinator;
pub mod devices;
mod drive;
mod end_filing;
mod error;
mod events;
mod host_view;
mod hosts;
mod incarnation;
mod launch;
mod log_follower;
mod log_limit;
mod logs;
mod lookup;
mod meter;
mod outgoing;
mod output_files;
mod outputs;
mod plain_file;
mod processes;
mod progress;
mod reaper;
pub mod resources;
mod scheduler;
mod secrets;
mod state;
mod stderr_tail;
mod sweep;
mod tag;
mod takeover;
mod usage;

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use baton_core::supervision::lifetime::Lifetime;
use baton_model::ids::WorkerName;
use baton_model::message::HostSize;
use baton_model::placement::Offer;
use baton_model::time::Millis;
use baton_model::token::Secret;
use baton_runner::coordinator::last_resort;
use baton_tls::ClientFiles;

use devices::Vendor;

pub use attempt_dir::{FetchCache, FetchList, TaskFile};
pub use connection::Proxy;
pub use error::Error;
pub use host_view::{CommandAttempt, command_attempts};
pub use launch::{ATTEMPT_COMMAND, FETCH_COMMAND};
pub use log_follower::{FollowedChunk, LogFollower};
pub use logs::read as read_log;

/// Configuration of an agent.
#[derive(Clone, Debug)]
pub struct Config {
    /// The scheduler's address: `HOST:PORT`, `@FILE` for a file that has it, or several separated by commas, which are tried in
    /// turn.
    pub scheduler: String,
    /// The token to present to the scheduler, if any.
    pub token: Option<Secret>,
    /// The file that it is from, which is read again when the worker connects.
    pub token_file: Option<PathBuf>,
    /// The HTTP proxy by which it reaches the scheduler.
    pub proxy: Option<Proxy>,
    /// TLS files, if the scheduler uses TLS.
    pub tls: Option<ClientFiles>,
    /// The worker's name, which is its seat.
    pub name: WorkerName,
    /// The state directory.
    pub state: PathBuf,
    /// The binary with the hidden commands.
    pub binary: PathBuf,
    /// The worker's capacity, devices and labels.
    pub offer: Arc<Offer>,
    /// The maker of its GPUs.
    pub gpu_vendor: Vendor,
    /// Maximum number of concurrent attempts.
    pub slots: u32,
    /// How long the files of ended attempts are kept.
    pub keep: Millis,
    /// Bytes of fetched files that are cached for each user; 0 for no cache.
    pub fetch_cache: u64,
    /// Directories in which, and below which, work may run outside of its sandbox.
    pub directories: Vec<String>,
    /// Bytes that one stream of an attempt may take on disk; 0 for no limit.
    pub log_limit: u64,
    /// The version of the binary.
    pub version: Arc<str>,
    /// What the worker may use of its host, whatever it offers.
    pub host: HostSize,
    /// When it ends by itself.
    pub lifetime: Lifetime,
}

/// Outcome of running an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentExit {
    /// The agent exited; its attempts continue.
    Detached,
    /// The incarnation ended; all its processes are dead.
    Ended,
    /// The same, and the state directory has a new lineage, because it is a copy: [`run`] goes on with it.
    Copied,
}

/// Runs a worker until it is told to exit.
///
/// # Errors
/// [`Error`] if the state directory, the coordinator or the configuration cannot be used. Running
/// attempts then continue under their coordinator for as long as their lease allows; without a
/// coordinator they are dead when this returns.
///
/// # Panics
/// On a defect of the agent, under the same conditions.
pub fn run(config: Config) -> Result<AgentExit, Error> {
    let run = AssertUnwindSafe(|| {
        loop {
            match drive::Agent::open(config.clone())?.drive()? {
                AgentExit::Copied => {}
                exit => return Ok(exit),
            }
        }
    });
    match catch_unwind(run) {
        Ok(Ok(exit)) => Ok(exit),
        // The agent that uses the directory guards its work.
        Ok(Err(error @ Error::Locked { .. })) => Err(error),
        Ok(Err(error)) => {
            kill_unguarded(&config, &error);
            Err(error)
        }
        Err(panic) => {
            kill_unguarded(&config, &"the agent has panicked");
            resume_unwind(panic)
        }
    }
}

/// Kills the worker's processes, unless a coordinator holds the dead-man timer over them: an agent
/// that cannot go on leaves nothing behind, also of an earlier one.
fn kill_unguarded(config: &Config, reason: &dyn Display) {
    let Some(mark) = state::known_mark(&config.state) else {
        return;
    };
    let group = drive::create_group(&mark);
    let coordinator = drive::coordinator_spec(config, &config.state, mark, group.as_ref());
    if coordinator.is_running() {
        return;
    }
    tracing::error!("{reason}; without a coordinator, all work of this worker is killed");
    last_resort::kill_all(&coordinator.mark, coordinator.cgroup.as_deref());
}
