//! Runs one task of processes on this host, and survives `kill -9` of any of its processes.
//!
//! ```text
//!   baton local run                          one process, may die at any time
//!   ┌──────────────────────────────┐
//!   │ task: plan, log, checks,     │──▶ checkpoints/ID/runner        decisions
//!   │ samples, control socket      │──▶ checkpoints/ID/samples
//!   └──────────────┬───────────────┘
//!                  │ unix socket: `wire`
//!   ┌──────────────┴───────────────┐
//!   │ coordinator: parent of all,  │──▶ checkpoints/ID/coordinator   observations
//!   │ reaps, kills, dead-man timer │
//!   └──────────────┬───────────────┘    one small process, outlives the runner
//!                  │ clone(CLONE_VFORK)
//!          processes of the task ──────▶ SANDBOX/.logs/PROCESS/RUN/{stdout,stderr}
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`task`] | one attempt from start to end: the driver of `core::plan` |
//! | [`coordinator`] | the small parent of all processes of a task |
//! | [`wire`] | the protocol between the two |
//! | [`launch_error`] | whether a failed launch is a fault of the work or of the host |
//! | [`reaper`] | the parent of a worker's coordinators, for when one dies together with its agent |
//! | [`log`] | the checkpoint log: records that survive a crash at any byte |
//! | [`logs`] | reading the output of processes |
//! | [`record`] | the records of the two logs |
//! | [`root`] | the state directory: its layout, its tasks, garbage collection |
//! | [`checks`] | readiness and health checks: scheduling and verdicts |
//! | [`samples`] | resource usage of a task, in a ring buffer on disk |
//! | [`helpers`] | the other helper processes: log rotation, masking, probes |
//! | [`masking`] | output without the values of secrets |
//! | `stderr` | log lines of a process that must not end because of them |
//! | [`sys`] | the kernel: launching, identity, signals, trees, cgroups, users |
//!
//! It decides nothing about the task itself: that is `baton_core::plan`. It reads no
//! task files: that is `baton-files`. There is no async runtime here and no thread;
//! each process is one loop around `poll`.

mod channel;
pub mod checks;
pub mod coordinator;
pub mod helpers;
pub mod launch_error;
pub mod log;
pub mod logs;
pub mod masking;
pub mod reaper;
pub mod record;
pub mod root;
pub mod samples;
mod stderr;
pub mod sys;
pub mod task;
pub mod wire;

pub use stderr::FORMAT_VARIABLE;
