//! A worker's host: the agent, its coordinator, and what they run.

mod bench;
mod rig;

mod coordinator;
mod coordinator_worker;
mod fetching;
mod kills;
mod processes;
mod takeover;
mod worker;
