//! All decisions of Baton, as pure and deterministic state machines.
//!
//! No clock, randomness, IO, threads or hash order in here: time, ids and random
//! numbers are inputs, and `clippy.toml` beside this crate's manifest bans the
//! rest. The same machines are driven by the server and the agent, by the
//! simulator, and by the model checker.
//!
//! | module | decides |
//! |---|---|
//! | [`fsm`] | state transition tables |
//! | [`step`] | that no effect leaves before its facts are durable |
//! | [`ledger`] | the state that follows from the facts |
//! | [`triage`] | retry, failure or success after the end of an attempt |
//! | [`plan`] | when each process of a task runs, and how the task ends |
//! | [`limits`] | how much of a counted resource may be in use at once |
//! | [`placement`] | which waiting instance runs on which worker |
//! | [`wait`] | nothing: every reason for which work waits, with its words |
//! | [`clock`] | due times of schedules, and the verdict on each |
//! | [`workflow`] | which items of a run may start, and when the run ends |
//! | [`leader`] | leader election |
//! | [`protocol`] | both halves of the scheduler-worker protocol |
//! | [`fleet`] | how many workers are requested of cluster managers, and what became of each request |
//! | [`host`] | a worker host: launches, exits, kills, the queue, and the dead-man timer of its coordinator |
//! | [`takeover`] | what becomes of a run whose coordinator has died |
//! | [`supervision`] | a worker: composes its half of the protocol with what becomes of its attempts |
//! | [`scheduler`] | the leader: composes the above |
//! | [`trace`] | the ids of spans, and which traces are recorded |
//! | [`sizing`] | which requests suit what a task uses |
//! | [`notify`] | which committed facts deserve a notice, and who gets it |
//! | [`lease_keeper`] | heartbeat replies while the leader cannot write |
//! | [`framing`] | nothing: length-prefixed frames |
//! | [`counts`] | nothing: counters of ignored events |
//! | [`bugs`] | nothing: seeded bugs for the simulator |
//!
//! It may import `baton-model` and nothing else of Baton.

#[macro_use]
pub mod bugs;

pub mod clock;
mod config;
pub mod counts;
pub mod fleet;
pub mod framing;
pub mod fsm;
pub mod host;
pub mod leader;
pub mod lease_keeper;
pub mod ledger;
pub mod limits;
pub mod notify;
pub mod placement;
pub mod plan;
pub mod protocol;
pub mod scheduler;
pub mod sizing;
pub mod step;
pub mod supervision;
pub mod takeover;
mod timers;
pub mod trace;
pub mod triage;
pub mod wait;
pub mod workflow;
