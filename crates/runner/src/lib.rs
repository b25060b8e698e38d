//! Runs one task of processes on this host, and survives `kill -9` of anything.
//!
//! ```text
//!   baton local run                          one process, may die at any time
//!   ┌──────────────────────────────┐
//!   │ task: plan, log, checks,     │──▶ checkpoints/ID/runner        what was decided
//!   │ samples, control socket      │──▶ checkpoints/ID/samples
//!   └──────────────┬───────────────┘
//!                  │ unix socket: `wire`
//!   ┌──────────────┴───────────────┐
//!   │ coordinator: parent of all,  │──▶ checkpoints/ID/coordinator   what was seen
//!   │ reaps, kills, dead-man timer │
//!   └──────────────┬───────────────┘    one small process, outlives the runner
//!                  │ clone(CLONE_VFORK)
//!          processes of the task ──────▶ SANDBOX/.logs/PROCESS/RUN/{stdout,stderr}
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`task`] | one attempt from beginning to end: the driver of `core::plan` |
//! | [`coordinator`] | the small parent of all processes of a task |
//! | [`wire`] | what the two say to each other |
//! | [`log`] | the checkpoint log: records that survive a crash at any byte |
//! | [`record`] | what is written into the two logs |
//! | [`root`] | where everything lies, what there is, and how it is cleared away |
//! | [`checks`] | readiness and health: when to try, what to make of it |
//! | [`samples`] | what a task uses, in a ring on disk |
//! | [`helpers`] | the two other small processes: rotating logs, trying a port |
//! | [`sys`] | the kernel: launching, identity, signals, trees, cgroups, users |
//!
//! It decides nothing about the task itself: that is `baton_core::plan`. It reads no
//! task files: that is `baton-files`. There is no async runtime here and no thread;
//! each process is one loop around `poll`.

mod channel;
pub mod checks;
pub mod coordinator;
pub mod helpers;
pub mod log;
pub mod record;
pub mod root;
pub mod samples;
pub mod sys;
pub mod task;
pub mod wire;
