//! A worker's host: the agent, its coordinator, and what they run.

mod coordinator_support;
mod worker_support;

mod coordinator;
mod coordinator_worker;
mod worker;
mod worker_takeover;
