//! Deterministic simulation of a whole Baton cluster in virtual time, with fault injection and
//! checkers.
//!
//! | module | holds |
//! |---|---|
//! | [`swarm`] | random choices of a seed: the shape of the cluster and its faults |
//! | [`world`] | the cluster: network, store, schedulers, hosts, clients, faults |
//! | [`leader`] | a leader behind its outbox, and a store: parts of every world |
//! | [`machine`] | one machine: processes, disk, and a coordinator that runs the real host |
//! | [`checkers`] | invariants, checked against what really happened on the hosts |
//! | [`chronos`] | schedules of a library over years: every due time has exactly one record |
//! | [`fleets`] | workers that are requested of a cluster manager, with its lost answers and forgotten jobs |
//! | `plans` | small workflows to execute |
//! | [`campaign`] | runs of many seeds, and their totals |
//! | [`trace`] | the event log, as a hash and as text |
//! | [`time`], [`rng`] | virtual time and drifting clocks; the only source of randomness |
//!
//! Only the environment is simulated: all decisions are made by `baton-core`, the same code that
//! the server and the agent drive. This crate may import `baton-core` and `baton-model`.

pub mod campaign;
pub mod checkers;
pub mod chronos;
pub mod fleets;
pub mod leader;
pub mod machine;
mod plans;
pub mod rng;
pub mod swarm;
pub mod time;
pub mod trace;
pub mod world;
