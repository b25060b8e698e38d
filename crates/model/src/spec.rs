//! What an instance asks for. The full task file is richer; this is the part
//! that the scheduler and the worker protocol decide on.

use serde::{Deserialize, Serialize};

/// How sure Baton must be that an attempt is over before it starts another.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Exclusive {
    /// When its lease has run out on its own host, where a dead-man timer kills it.
    #[default]
    Timed,
    /// Only by proof: the worker says so, its host has rebooted, or an operator
    /// has forgotten the worker. Never by time alone.
    Strict,
}

/// How often an instance may be tried again, by kind of bad end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RetryBudget {
    /// Failures of the work itself that are forgiven.
    pub failures_max: u32,
    /// Losses (of the worker, not of the work's making) that are forgiven.
    pub losses_max: u32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self {
            failures_max: 0,
            losses_max: 100,
        }
    }
}

/// What to run for one instance, and under which policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InstanceSpec {
    /// The command, without a shell.
    pub command: Vec<String>,
    /// When another attempt may start.
    pub exclusive: Exclusive,
    /// How often.
    pub retry: RetryBudget,
}
