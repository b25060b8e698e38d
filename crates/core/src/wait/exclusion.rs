//! Reasons for which a worker does not take an instance, with their words and remedies.
//!
//! One enumeration for all of them. A worker's own reasons come with its offer
//! (`placement::Availability`); those that depend on the instance are found by
//! `placement::explain`. A further reason is a variant here, and the line that decides it.

use baton_model::ids::WorkerName;
use baton_model::placement::{Constraint, Rule};

use super::ClassId;
use super::messages::{Amount, Condition, KIND_NAMES};

/// The reason for which a worker does not take an instance. A worker with several is counted by
/// the one that is hardest to remove, which is the later one here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exclusion {
    /// Its free part is reserved for a class that has waited longer.
    Reserved { class: ClassId },
    /// It has room, and takes no more attempts at this moment.
    Busy,
    /// Too little is free.
    Full { resource: String, short: u64 },
    /// It has just connected, and is not known to be healthy.
    New,
    /// It is silent, or does not answer in time.
    Unhealthy,
    /// Unrelated work fails there: it is tried with one attempt at a time.
    Suspicious,
    /// An operator has drained it.
    Drained,
    /// Its incarnation was given up.
    Condemned,
    /// It has too little in all.
    TooSmall {
        resource: String,
        asked: u64,
        has: u64,
    },
    /// It does not run work outside of its sandbox.
    Directory,
    /// Its labels do not meet a constraint.
    Constraint(Constraint),
}

impl Exclusion {
    /// True if the end of other work does not end it.
    #[must_use]
    pub const fn is_lasting(&self) -> bool {
        !matches!(self, Self::Reserved { .. } | Self::Busy | Self::Full { .. })
    }

    /// The word for machines.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Reserved { .. } => "reserved",
            Self::Busy => "busy",
            Self::Full { .. } => "full",
            Self::New => "new",
            Self::Unhealthy => "unhealthy",
            Self::Suspicious => "suspicious",
            Self::Drained => "drained",
            Self::Condemned => "condemned",
            Self::TooSmall { .. } => "too-small",
            Self::Directory => "directory",
            Self::Constraint(_) => "constraint",
        }
    }
}

/// Workers with the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerGroup {
    /// None if they would take the instance.
    pub exclusion: Option<Exclusion>,
    pub workers: usize,
    /// The one that comes nearest, then the first by name.
    pub example: WorkerName,
}

impl WorkerGroup {
    /// The reason as a sentence; `directory` is that of the instance, if it has one.
    #[must_use]
    pub fn describe(&self, directory: Option<&str>) -> String {
        let Some(exclusion) = &self.exclusion else {
            return format!("{} room for it", self.clause("has", "have"));
        };
        let would_do = |state: &str| {
            let is = if self.workers == 1 { "is" } else { "are" };
            format!("{} would do, and {is} {state}", self.subject())
        };
        match exclusion {
            Exclusion::Reserved { class } => format!(
                "{} reserved for class {class}, which has waited longer",
                self.clause("is", "are")
            ),
            Exclusion::Busy => format!("{} no free place", self.clause("has", "have")),
            Exclusion::Full { resource, short } => format!(
                "{} {} at this moment",
                self.clause("lacks", "lack"),
                Amount(resource, *short)
            ),
            Exclusion::New => would_do("not known to be healthy yet"),
            Exclusion::Unhealthy => would_do("unhealthy"),
            Exclusion::Suspicious => would_do("suspicious, since other tasks have failed there"),
            Exclusion::Drained => would_do("drained"),
            Exclusion::Condemned => would_do("condemned"),
            Exclusion::TooSmall {
                resource,
                asked,
                has,
            } => {
                let largest = match self.workers {
                    1 => self.example.to_string(),
                    workers => format!("the largest of {workers} workers, {},", self.example),
                };
                let (asked, has) = (Amount(resource, *asked), Amount(resource, *has));
                format!("it requests {asked}, and {largest} has {has}")
            }
            Exclusion::Directory => {
                let directory = directory.unwrap_or("work outside of its sandbox");
                format!("{} not allow {directory}", self.clause("does", "do"))
            }
            Exclusion::Constraint(constraint) => format!(
                "{} not meet `{}`",
                self.clause("does", "do"),
                Condition(constraint)
            ),
        }
    }

    /// Steps after which they would take it, or the reason for which none is needed.
    #[must_use]
    pub fn remedy(&self, directory: Option<&str>) -> Option<String> {
        let it = if self.workers == 1 { "it" } else { "them" };
        let remedy = match self.exclusion.as_ref()? {
            Exclusion::Reserved { .. } | Exclusion::Busy | Exclusion::Full { .. } => return None,
            Exclusion::New => "work goes there once a health check is answered".to_owned(),
            Exclusion::Unhealthy => {
                format!("`baton workers` shows {it}; start another with `baton worker`")
            }
            Exclusion::Suspicious => format!(
                "`baton workers` shows {it}; one attempt at a time tries {it} again, and `baton drain \
                 --undo {}` trusts it at once",
                self.example
            ),
            Exclusion::Drained => {
                format!("undrain {it} with `baton drain --undo {}`", self.example)
            }
            Exclusion::Condemned => format!("start {it} again"),
            Exclusion::TooSmall {
                resource, asked, ..
            } => larger_worker(resource, *asked),
            Exclusion::Directory => {
                let directory = directory.unwrap_or("DIR");
                format!("start {it} with `--allow-cwd {directory}`, or submit with `--sandbox`")
            }
            Exclusion::Constraint(constraint) => format!(
                "start a worker with {}, or resubmit with other constraints",
                Labels(constraint)
            ),
        };
        Some(remedy)
    }

    /// Subject and verb.
    fn clause(&self, one: &str, several: &str) -> String {
        let verb = if self.workers == 1 { one } else { several };
        format!("{} {verb}", self.subject())
    }

    fn subject(&self) -> String {
        match self.workers {
            1 => self.example.to_string(),
            workers => format!("{workers} workers, such as {},", self.example),
        }
    }
}

/// The remedy if no worker is large enough. A custom resource may be meant as a limit.
fn larger_worker(resource: &str, asked: u64) -> String {
    if KIND_NAMES.contains(&resource) {
        return "start a larger worker, or resubmit with smaller requests".to_owned();
    }
    format!(
        "limit it across the cluster with `baton limits set {resource} N` or --limit {resource}=N \
         of the scheduler, or start a worker with --resources {resource}={asked}"
    )
}

/// Labels that meet a constraint, as options of a worker.
struct Labels<'a>(&'a Constraint);

impl std::fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Constraint { label, rule } = self.0;
        match rule {
            Rule::OneOf(values) => {
                let value = values.first().map_or("VALUE", String::as_str);
                write!(f, "`--label {label}={value}`")
            }
            Rule::Present => write!(f, "`--label {label}=VALUE`"),
            Rule::NoneOf(_) => write!(f, "another {label}"),
            Rule::Absent => write!(f, "no label {label}"),
        }
    }
}
