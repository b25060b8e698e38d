//! What fleets do for work that waits for a worker, and why one requests no more jobs.

use std::fmt;

use baton_model::fleet::FleetName;
use baton_model::time::{Millis, Wall};

use super::exclusion::Exclusion;
use super::messages::Duration;

/// Why a fleet requests no more jobs now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    Paused,
    Removed,
    /// Its jobs have as many workers as it may have.
    Max {
        workers: u32,
        max: u32,
    },
    /// As many jobs wait in the queue of the cluster manager as may.
    Backlog {
        queued: u32,
        max: u32,
    },
    /// As many jobs were started within an hour as may be.
    Starts {
        starts: u32,
        max: u32,
    },
    /// A leader has just taken over.
    Takeover,
    /// Its workers have no token yet.
    NoToken,
    /// A job was cancelled just now.
    Cancelled,
    /// The cluster manager does not answer; the last error of a list.
    Silent {
        error: Option<String>,
    },
    /// Its last jobs have failed: it waits before it tries again.
    Trial {
        failures: u32,
        left: Millis,
        /// The reason of the last failure.
        detail: Option<String>,
    },
    /// Its last jobs have failed: it tries one at a time.
    OneTrial {
        failures: u32,
    },
}

impl Hold {
    /// The word for machines.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Removed => "removed",
            Self::Max { .. } => "max",
            Self::Backlog { .. } => "backlog",
            Self::Starts { .. } => "starts",
            Self::Takeover => "takeover",
            Self::NoToken => "no-token",
            Self::Cancelled => "cancelled",
            Self::Silent { .. } => "silent",
            Self::Trial { .. } | Self::OneTrial { .. } => "failing",
        }
    }
}

/// The reason as a clause about the fleet.
impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => f.write_str("it is paused"),
            Self::Removed => f.write_str("it was removed"),
            Self::Max { workers, max } => {
                write!(f, "it has reached `max` ({workers} of {max} workers)")
            }
            Self::Backlog { queued, max } => {
                write!(f, "{queued} jobs are queued, and at most {max} may be")
            }
            Self::Starts { starts, max } => write!(
                f,
                "{starts} jobs were started within an hour, and at most {max} are"
            ),
            Self::Takeover => {
                f.write_str("a leader has just taken over, and waits for workers to return")
            }
            Self::NoToken => f.write_str("its workers have no token yet"),
            Self::Cancelled => f.write_str("a job was cancelled just now"),
            Self::Silent { error } => {
                f.write_str("the cluster manager does not answer")?;
                detail(f, error.as_deref())
            }
            Self::Trial {
                failures,
                left,
                detail: it,
            } => {
                let left = Duration(*left);
                write!(
                    f,
                    "its next trial is in {left}, because {}",
                    Failed(*failures)
                )?;
                detail(f, it.as_deref())
            }
            Self::OneTrial { failures } => {
                write!(f, "{}, so it tries one job at a time", Failed(*failures))
            }
        }
    }
}

/// What a fleet does for an instance that waits for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetWait {
    pub fleet: FleetName,
    pub prospect: Prospect,
}

/// The next worker of a fleet for an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prospect {
    /// None of its workers can run it.
    Misfit(Exclusion),
    /// Jobs wait in the queue of the cluster manager.
    Queued {
        jobs: usize,
        /// The manager's reason for the first.
        reason: Option<String>,
        /// The manager, if it has a name of its own.
        manager: Option<&'static str>,
        /// When the first of them was requested, and how long ago.
        since: Wall,
        waited: Millis,
    },
    /// Jobs have started, and their workers are coming.
    Starting { jobs: usize },
    /// Workers would help, and it requests no more.
    Held(Hold),
    /// It requests jobs now.
    Requesting { jobs: u32 },
    /// It is left to other workers, present or expected; or the fleet was not looked at yet, which takes two seconds.
    Idle,
}

impl FleetWait {
    /// The word for machines.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match &self.prospect {
            Prospect::Misfit(_) => "misfit",
            Prospect::Queued { .. } => "queued",
            Prospect::Starting { .. } => "starting",
            Prospect::Held(hold) => hold.word(),
            Prospect::Requesting { .. } => "requesting",
            Prospect::Idle => "idle",
        }
    }

    /// When what it waits for began, if that is known.
    #[must_use]
    pub const fn since(&self) -> Option<Wall> {
        match self.prospect {
            Prospect::Queued { since, .. } => Some(since),
            _ => None,
        }
    }

    /// Whether a worker of the fleet can run it.
    #[must_use]
    pub const fn fits(&self) -> bool {
        !matches!(self.prospect, Prospect::Misfit(_))
    }
}

impl fmt::Display for FleetWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fleet = &self.fleet;
        match &self.prospect {
            Prospect::Misfit(exclusion) => {
                write!(f, "fleet {fleet} cannot run it: {}", exclusion.of_shape())
            }
            Prospect::Queued {
                jobs,
                reason,
                manager,
                waited,
                ..
            } => {
                let (are, first) = match jobs {
                    1 => ("job of fleet", ""),
                    _ => ("jobs of fleet", "the first "),
                };
                let is = if *jobs == 1 { "is" } else { "are" };
                write!(f, "{jobs} {are} {fleet} {is} queued")?;
                if let Some(manager) = manager {
                    write!(f, " in {manager}")?;
                }
                if let Some(reason) = reason {
                    write!(f, " ({reason})")?;
                }
                write!(f, ", {first}for {}", Duration(*waited))
            }
            Prospect::Starting { jobs: 1 } => {
                write!(
                    f,
                    "1 job of fleet {fleet} has started, and its workers are coming"
                )
            }
            Prospect::Starting { jobs } => write!(
                f,
                "{jobs} jobs of fleet {fleet} have started, and their workers are coming"
            ),
            Prospect::Held(Hold::Paused) => {
                write!(f, "fleet {fleet} is paused: `baton fleet resume {fleet}`")
            }
            Prospect::Held(Hold::Removed) => write!(f, "fleet {fleet} was removed"),
            Prospect::Held(Hold::Max { workers, max }) => {
                write!(
                    f,
                    "fleet {fleet} has reached `max` ({workers} of {max} workers)"
                )
            }
            Prospect::Held(Hold::Trial {
                failures,
                left,
                detail: it,
            }) => {
                let (left, failed) = (Duration(*left), Failed(*failures));
                write!(
                    f,
                    "the next trial of fleet {fleet} is in {left}, because {failed}"
                )?;
                detail(f, it.as_deref())
            }
            Prospect::Held(hold) => write!(f, "fleet {fleet} requests nothing now: {hold}"),
            Prospect::Requesting { jobs: 1 } => {
                write!(f, "fleet {fleet} requests 1 job for such work")
            }
            Prospect::Requesting { jobs } => {
                write!(f, "fleet {fleet} requests {jobs} jobs for such work")
            }
            Prospect::Idle => write!(
                f,
                "fleet {fleet} requests nothing now: other workers, present or expected, will take it"
            ),
        }
    }
}

/// What all fleets do for an instance, as sentences.
pub(super) fn sentences(fleets: &[FleetWait]) -> Vec<String> {
    if fleets.len() < 2 || fleets.iter().any(FleetWait::fits) {
        return fleets.iter().map(ToString::to_string).collect();
    }
    let reasons = fleets.iter().filter_map(|it| match &it.prospect {
        Prospect::Misfit(exclusion) => Some(format!("of {}, {}", it.fleet, exclusion.of_shape())),
        _ => None,
    });
    let reasons: Vec<String> = reasons.collect();
    vec![format!("no fleet can run it: {}", reasons.join("; "))]
}

/// The last jobs that have failed, as a clause.
pub(crate) struct Failed(pub(crate) u32);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("its last job has failed"),
            failures => write!(f, "its last {failures} jobs have failed"),
        }
    }
}

/// The words of a cluster manager about a clause.
fn detail(f: &mut fmt::Formatter<'_>, detail: Option<&str>) -> fmt::Result {
    match detail {
        Some(detail) => write!(f, " ({detail})"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use baton_model::paths::DIRECTORY_LABEL;
    use baton_model::placement::{Constraint, Rule};

    use super::*;

    fn wait(fleet: &str, prospect: Prospect) -> FleetWait {
        FleetWait {
            fleet: fleet.parse().expect("a name"),
            prospect,
        }
    }

    fn misfit(fleet: &str, has: u64) -> FleetWait {
        let too_small = Exclusion::TooSmall {
            resource: "cpu".to_owned(),
            asked: 32_000,
            has,
        };
        wait(fleet, Prospect::Misfit(too_small))
    }

    #[test]
    fn each_prospect_has_a_sentence() {
        let queued = |jobs, reason: Option<&str>| Prospect::Queued {
            jobs,
            reason: reason.map(str::to_owned),
            manager: Some("Slurm"),
            since: Wall(0),
            waited: Millis::from_secs(720),
        };
        for (prospect, expected) in [
            (
                queued(2, Some("Priority")),
                "2 jobs of fleet gpu are queued in Slurm (Priority), the first for 12 min",
            ),
            (
                queued(1, None),
                "1 job of fleet gpu is queued in Slurm, for 12 min",
            ),
            (
                Prospect::Held(Hold::Max {
                    workers: 16,
                    max: 16,
                }),
                "fleet gpu has reached `max` (16 of 16 workers)",
            ),
            (
                Prospect::Held(Hold::Trial {
                    failures: 3,
                    left: Millis::from_secs(240),
                    detail: Some("NODE_FAIL".to_owned()),
                }),
                "the next trial of fleet gpu is in 4 min, because its last 3 jobs have failed (NODE_FAIL)",
            ),
            (
                Prospect::Held(Hold::Paused),
                "fleet gpu is paused: `baton fleet resume gpu`",
            ),
        ] {
            assert_eq!(wait("gpu", prospect).to_string(), expected);
        }
    }

    #[test]
    fn a_directory_of_the_submitter_has_a_hint() {
        let own = Exclusion::Constraint(Constraint {
            label: DIRECTORY_LABEL.to_owned(),
            rule: Rule::Present,
        });
        let text = wait("gpu", Prospect::Misfit(own)).to_string();
        assert!(text.contains("`baton submit --sandbox`"), "{text}");
    }

    #[test]
    fn one_sentence_if_no_fleet_can_run_it() {
        assert_eq!(
            sentences(&[misfit("a", 16_000), misfit("b", 8_000)]),
            [
                "no fleet can run it: of a, it requests 32 cores, and a worker of the fleet has 16 cores; \
              of b, it requests 32 cores, and a worker of the fleet has 8 cores"
            ]
        );
        let one = sentences(&[misfit("a", 16_000)]);
        assert_eq!(
            one,
            ["fleet a cannot run it: it requests 32 cores, and a worker of the fleet has 16 cores"]
        );
        let mixed = sentences(&[misfit("a", 1_000), wait("b", Prospect::Held(Hold::Paused))]);
        assert_eq!(mixed.len(), 2);
    }
}
