//! Drivers of fleets: submit, list and cancel the jobs that run workers.
//!
//! `baton_core::fleet` decides how many jobs there are; [`answer`] carries one of its calls out, blocks
//! until it is over, and returns what has come of it. It decides nothing, keeps nothing in memory but
//! one setting of Slurm, and never panics: whatever a cluster manager does becomes an answer.
//!
//! | module | holds |
//! |---|---|
//! | [`site`] | where pilots find their binary, scheduler and token, and where their files are |
//! | [`driver`] | the trait of all drivers |
//! | `answer` | the calls of a fleet's backend, and their answers |
//! | `exec` | external commands, with a time limit and bounded output |
//! | `script` | the command line of a pilot, and the shell script of a job |
//! | `token` | tokens that are issued for pilots, and their files |
//! | `slurm` | Slurm, by `sbatch`, `squeue` and `scancel` |
//! | `logs` | the ends of logs that are files of this host |
//! | `hosts` | processes of this host, and of others by `ssh`; workers that people start there |
//! | `commands` | three commands of the user |
//!
//! A submission is *refused* only if the manager has certainly not taken it. In all other cases without
//! an id it is *unclear*, and the job is looked for by its name.

mod answer;
mod commands;
pub mod driver;
mod exec;
mod hosts;
mod logs;
mod quote;
mod script;
pub mod site;
mod slurm;
mod token;

pub use answer::{answer, list_together, try_out};
pub use driver::{Driver, JobRequest, SubmitError};
pub use exec::{ExecError, Inheritance, Invocation, Output};
pub use hosts::deploy::{DeployState, Deployment, Place};
pub use logs::{JobLog, job_logs};
pub use site::{PilotToken, Site};
pub use slurm::Containment;
pub use token::{NoTokens, TokenStore};
