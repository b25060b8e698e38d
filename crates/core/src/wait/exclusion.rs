//! Reasons for which a worker does not take an instance, with their words and remedies.
//!
//! One enumeration for all of them. A worker's own reasons come with its offer
//! (`placement::Availability`); those that depend on the instance are found by
//! `placement::explain`. A further reason is a variant here, and the line that decides it.

use baton_model::cpu::CORE;
use baton_model::ids::WorkerName;
use baton_model::paths::DIRECTORY_LABEL;
use baton_model::placement::{Constraint, Rule};
use baton_model::time::Millis;

use super::ClassId;
use super::messages::{Amount, Condition, Duration, KIND_NAMES, SOCKET_NAME};

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
    /// It is ending, and takes no more work.
    Leaving,
    /// Its incarnation was given up.
    Condemned,
    /// It ends before the work would.
    EndsSoon {
        /// The time that the work needs.
        asked: Millis,
        /// The time that the worker has left.
        left: Millis,
    },
    /// Its group has fewer workers than the work needs at the same time, or a job of the fleet starts fewer.
    GroupTooSmall { asked: u32, has: u32 },
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
            Self::Leaving => "leaving",
            Self::Condemned => "condemned",
            Self::EndsSoon { .. } => "ends-soon",
            Self::GroupTooSmall { .. } => "group-too-small",
            Self::TooSmall { .. } => "too-small",
            Self::Directory => "directory",
            Self::Constraint(_) => "constraint",
        }
    }
}

impl Exclusion {
    /// The reason for which no worker of a fleet can take an instance, as a clause.
    #[must_use]
    pub fn of_shape(&self) -> String {
        match self {
            Self::TooSmall {
                resource,
                asked,
                has,
            } => {
                let (asked, has) = (Amount(resource, *asked), Amount(resource, *has));
                format!("it requests {asked}, and a worker of the fleet has {has}")
            }
            Self::GroupTooSmall { asked, has } => {
                format!(
                    "it needs {asked} workers at the same time, and a job of the fleet starts {has}"
                )
            }
            Self::Constraint(constraint) if constraint.label == DIRECTORY_LABEL => {
                "it runs in a directory of its submitter, which workers of the fleet do not allow; \
                 `baton submit --sandbox` gives it one of its own"
                    .to_owned()
            }
            Self::Constraint(constraint) => {
                format!(
                    "a worker of the fleet does not meet `{}`",
                    Condition(constraint)
                )
            }
            other => format!("its workers are excluded ({})", other.word()),
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
            Exclusion::Leaving => would_do("ending"),
            Exclusion::Condemned => would_do("condemned"),
            Exclusion::EndsSoon { asked, left } => {
                let last = match self.workers {
                    1 => format!("worker {}", self.example),
                    workers => format!("the last of {workers} workers, {},", self.example),
                };
                let (left, asked) = (Duration(*left), Duration(*asked));
                format!("{last} ends in {left}, and the task asks for {asked}")
            }
            Exclusion::TooSmall {
                resource,
                asked,
                has,
            } => {
                if resource == CORE && *has == 0 {
                    return self.clause("does not know its cores", "do not know their cores");
                }
                let largest = match self.workers {
                    1 => self.example.to_string(),
                    workers => format!("the largest of {workers} workers, {},", self.example),
                };
                let (asked, has) = (Amount(resource, *asked), Amount(resource, *has));
                format!("it requests {asked}, and {largest} has {has}")
            }
            Exclusion::GroupTooSmall { asked, has } => format!(
                "{} in a group of {asked} workers, which it needs at the same time (the largest has {has})",
                self.clause("is not", "are not")
            ),
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
            Exclusion::Leaving | Exclusion::Condemned => format!("start {it} again"),
            Exclusion::EndsSoon { asked, .. } => format!(
                "start a worker with a lifetime over {}, or resubmit with a shorter `--time`",
                Duration(*asked)
            ),
            Exclusion::TooSmall {
                resource, has: 0, ..
            } if resource == CORE => {
                "the log of a worker says why; start one on another host, or resubmit without `pin`"
                    .to_owned()
            }
            Exclusion::TooSmall {
                resource, asked, ..
            } => larger_worker(resource, *asked),
            Exclusion::GroupTooSmall { .. } => {
                "start further workers with the same `--label group=NAME`, or a fleet whose jobs start as many"
                    .to_owned()
            }
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
    if resource == CORE || resource == SOCKET_NAME {
        return "start a worker with as many cores, or resubmit with a smaller `cpu` or without `pin`"
            .to_owned();
    }
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
