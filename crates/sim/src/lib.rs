//! A whole Baton cluster in virtual time, attacked by faults and watched by
//! checkers.
//!
//! | module | holds |
//! |---|---|
//! | [`swarm`] | what a seed draws: the shape of its cluster, its mix of faults |
//! | [`world`] | the cluster: network, store, schedulers, hosts, clients, faults |
//! | [`checkers`] | what must be true, judged from what really happened |
//! | [`chronos`] | the schedules of a library, over years, and whether every due time is accounted for |
//! | `plans` | small workflows for it to carry out |
//! | [`campaign`] | many seeds, and what came of them |
//! | [`trace`] | what happened, as a hash and as text |
//! | [`time`], [`rng`] | virtual time and drifting clocks; the one source of chance |
//!
//! Only the world is played here: everything that decides is `baton-core`, the
//! same code that the server and the agent drive. It may import `baton-core` and
//! `baton-model`.

pub mod campaign;
pub mod checkers;
pub mod chronos;
mod plans;
pub mod rng;
pub mod swarm;
pub mod time;
pub mod trace;
pub mod world;
