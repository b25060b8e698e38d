//! The policies of a task: when it starts, how often it is tried, how long it may
//! take. They are for the scheduler; a runner on one host does not look at them.

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
    /// What grows when it was too little.
    pub scale: Scaling,
    /// Where it may run after its first failure, its second, and so on, in place of
    /// [`Policy::constraints`]; the last one stays.
    pub fallback: Vec<Vec<Constraint>>,
}

/// How things grow after an attempt that they were too little for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scaling {
    /// Bytes of memory.
    pub memory: Option<Growth<u64>>,
    /// How long one attempt may take.
    pub timeout: Option<Growth<Millis>>,
}

/// How one of them grows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Growth<T> {
    /// By a factor each time.
    Factor {
        /// In thousandths; at least 1000.
        milli: u64,
        /// Up to this.
        cap: Option<T>,
    },
    /// To the first of these, then to the second, and so on; the last one stays. At least one,
    /// and none is less than the one before.
    Steps(Vec<T>),
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 1,
            losses: None,
            backoff: None,
            scale: Scaling::default(),
            fallback: Vec::new(),
        }
    }
}
