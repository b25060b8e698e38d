//! Both halves of the scheduler-worker protocol, and what they share.
//!
//! `docs/PROTOCOL.md` says for every call what happens under failure, partial
//! failure, delay, replay, foreign identity and reordering, and names the test
//! that shows it.

pub mod consensus;
pub mod frame;
pub mod scheduler;
pub mod worker;
