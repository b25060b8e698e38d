//! Baton's vocabulary: plain data that every other crate speaks.
//!
//! | module | holds |
//! |---|---|
//! | [`ids`] | newtypes for everything that has a name or a number |
//! | [`time`] | monotonic and wall time, durations, heartbeat stamps |
//! | [`state`] | the states of the five machines, as they stand on the wire |
//! | [`spec`] | what an instance asks for |
//! | [`task`] | a task: processes in an order, with their policies |
//! | [`library`] | tasks by owner and name, with their revisions and triggers |
//! | [`schedule`] | what may be asked of a schedule, and what became of a due time |
//! | [`workflow`] | the plan of a run, and which part of it an instance is |
//! | [`placement`] | what an instance asks of a worker, and what a worker offers |
//! | [`outcome`] | how an attempt ended, and how we know |
//! | [`fact`] | what the store keeps: past-tense, append-only |
//! | [`message`] | the scheduler-worker calls and their replies |
//! | [`timeouts`] | the protocol's time budget and the proof that the worker gives up first |
//! | [`token`] | credentials, and what whoever holds one may do |
//! | [`limits`] | every bound on a queue, list or loop, with its reason |
//!
//! Nothing here decides anything: decisions live in `baton-core`. This crate
//! depends on serde and on nothing else, so that every other crate may use it.

pub mod api;
pub mod fact;
pub mod ids;
pub mod library;
pub mod limits;
pub mod message;
pub mod outcome;
pub mod placement;
pub mod schedule;
pub mod spec;
pub mod state;
pub mod task;
pub mod time;
pub mod timeouts;
pub mod token;
pub mod worker_set;
pub mod workflow;
