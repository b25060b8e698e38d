//! The policies of a task: when it starts, how often it is tried, how long it may
//! take. They are for the scheduler; a runner on one host does not look at them.

use std::collections::BTreeMap;

use baton_model::library::Trigger;
use baton_model::placement::Constraint;
use baton_model::spec::{Exclusive, Uri};
use baton_model::task::Backoff;
use baton_model::time::Millis;
use serde::{Deserialize, Serialize};

/// Everything about a task that is not about its processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// What starts it, beside somebody's hand.
    pub trigger: Trigger,
    /// What happens after a bad end.
    pub retry: Retry,
    /// How long one attempt may take.
    pub timeout: Option<Millis>,
    /// How sure Baton must be that an attempt is over before it starts another.
    pub exclusive: Exclusive,
    /// Higher goes first.
    pub priority: i32,
    /// Where it may run: all of them hold. In the order of their labels.
    pub constraints: Vec<Constraint>,
    /// Fetched before it starts.
    pub uris: Vec<Uri>,
}

/// What happens after a bad end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Attempts in all, the first one included; at least 1.
    pub attempts: u32,
    /// Losses of a worker that are forgiven; `None` for the scheduler's default.
    pub losses: Option<u32>,
    /// The pause before another attempt; `None` for the scheduler's default.
    pub backoff: Option<Backoff>,
    /// By how much `memory` and `timeout` grow after an attempt that they were too
    /// little for, in thousandths.
    pub scale_milli: BTreeMap<String, u64>,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 1,
            losses: None,
            backoff: None,
            scale_milli: BTreeMap::new(),
        }
    }
}
