//! Conditions of a submission: what its instances start after, how many elements of an array run
//! at the same time, and how many may fail.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{InstanceId, InstanceRange, RunId};

/// The conditions of one submission. All its instances share them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Conditions {
    /// Its instances start when all of these are met.
    pub after: Vec<Dependency>,
    /// The first and the last instance of the submission, if there are conditions.
    pub instances: Option<(InstanceId, InstanceId)>,
    /// The number of instances that may be placed at the same time.
    pub concurrent_max: Option<u32>,
    /// The number of FAILED instances with which the others are cancelled.
    pub failed_max: Option<u32>,
}

/// The concurrency limit of an array that was changed after its submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ArrayLimit {
    /// The last instance of the array.
    pub last: InstanceId,
    /// The number of instances that may be placed at the same time; none if there is no limit any more.
    pub total: Option<u32>,
}

/// A condition on earlier work: `i12`, `i1..i9:any`, `r3:fail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Dependency {
    pub upstream: Subject,
    pub rule: DependencyRule,
}

/// Work that a dependency or an alarm is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// All instances of a range.
    Instances {
        first: InstanceId,
        last: InstanceId,
    },
    Run(RunId),
}

impl Subject {
    /// The first and the last instance, unless it is a run.
    #[must_use]
    pub const fn instances(self) -> Option<(InstanceId, InstanceId)> {
        match self {
            Self::Instances { first, last } => Some((first, last)),
            Self::Run(_) => None,
        }
    }

    /// The run, if it is one.
    #[must_use]
    pub const fn run(self) -> Option<RunId> {
        match self {
            Self::Instances { .. } => None,
            Self::Run(run) => Some(run),
        }
    }
}

/// How the upstream work must have ended.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum DependencyRule {
    /// All of it is DONE.
    #[default]
    Ok,
    /// None of it is DONE: it has failed, or was cancelled.
    Fail,
    /// It has ended.
    Any,
}

impl DependencyRule {
    /// True if a dependency can still be met after a part of the upstream work has ended so.
    #[must_use]
    pub const fn allows(self, is_done: bool) -> bool {
        match self {
            Self::Ok => is_done,
            Self::Fail => !is_done,
            Self::Any => true,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instances { first, last } => InstanceRange(*first, *last).fmt(f),
            Self::Run(run) => run.fmt(f),
        }
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.upstream.fmt(f)?;
        match self.rule {
            DependencyRule::Ok => Ok(()),
            DependencyRule::Fail => f.write_str(":fail"),
            DependencyRule::Any => f.write_str(":any"),
        }
    }
}

/// A text that is no dependency.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no dependency; expected an instance, a range or a run, and how it ends, such as i12, \
     i1..i9:any or r3:fail"
)]
pub struct NoDependency(String);

impl FromStr for Dependency {
    type Err = NoDependency;

    fn from_str(text: &str) -> Result<Self, NoDependency> {
        let wrong = || NoDependency(text.to_owned());
        let (upstream, rule) = match text.split_once(':') {
            None => (text, DependencyRule::Ok),
            Some((upstream, "ok")) => (upstream, DependencyRule::Ok),
            Some((upstream, "fail")) => (upstream, DependencyRule::Fail),
            Some((upstream, "any")) => (upstream, DependencyRule::Any),
            Some(_) => return Err(wrong()),
        };
        let number = |text: &str, prefix: char| {
            let digits = text.strip_prefix(prefix)?;
            let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
            is_number.then(|| digits.parse().ok()).flatten()
        };
        let instance = |text: &str| number(text, 'i').map(InstanceId).ok_or_else(wrong);
        let upstream = match (upstream.split_once(".."), number(upstream, 'r')) {
            (_, Some(run)) => Subject::Run(RunId(run)),
            (Some((first, last)), None) => {
                let (first, last) = (instance(first)?, instance(last)?);
                if first > last {
                    return Err(wrong());
                }
                Subject::Instances { first, last }
            }
            (None, None) => {
                let id = instance(upstream)?;
                Subject::Instances {
                    first: id,
                    last: id,
                }
            }
        };
        Ok(Self { upstream, rule })
    }
}

/// The reason for which waiting instances were halted, if no client asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HaltReason {
    /// This dependency can never be met any more.
    Dependency(Dependency),
    /// So many instances of the submission have failed.
    FailedMax(u32),
}

impl fmt::Display for HaltReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dependency(dependency) => {
                let upstream = dependency.upstream;
                match dependency.rule {
                    DependencyRule::Ok => write!(f, "{upstream} did not succeed"),
                    DependencyRule::Fail => write!(f, "{upstream} did not fail"),
                    DependencyRule::Any => write!(f, "{upstream} has ended"),
                }
            }
            Self::FailedMax(1) => f.write_str("1 element of its array has failed"),
            Self::FailedMax(count) => write!(f, "{count} elements of its array have failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_is_read_as_it_is_written() {
        for text in ["i12", "i1..i9", "r3", "i12:fail", "r3:any", "i1..i9:any"] {
            let read: Dependency = text.parse().expect("a dependency");
            assert_eq!(read.to_string(), text);
        }
        let ok: Dependency = "i12:ok".parse().expect("a dependency");
        assert_eq!(ok.to_string(), "i12");
        for text in [
            "", "12", "i", "i1..", "i9..i1", "i1:done", "r1..r2", "i+1", "w1",
        ] {
            assert!(text.parse::<Dependency>().is_err(), "{text}");
        }
    }
}
