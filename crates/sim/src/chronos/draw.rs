//! Random tasks, workflows, schedules and spans of a seed.

use std::sync::Arc;

use baton_model::library::{Definition, EntryKind, Overlap, Rate, Schedule, TaskName, Trigger};
use baton_model::schedule::{CatchUp, Dst, Fold, Gap};
use baton_model::spec::{InstanceSpec, RetryBudget};
use baton_model::time::Millis;
use baton_model::workflow::{Condition, Edges, Plan, PlanTask, Upstream};

use crate::rng::Rng;

pub(super) const SECOND: u64 = 1_000;
pub(super) const MINUTE: u64 = 60 * SECOND;
pub(super) const HOUR: u64 = 60 * MINUTE;
pub(super) const DAY: u64 = 24 * HOUR;
pub(super) const YEAR: u64 = 365 * DAY;

/// The time scale of a seed: how often its tasks are due, how long there is no leader, and how
/// far clocks are stepped. The checker enumerates due times, so frequent schedules run for hours
/// and rare ones for years.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeScale {
    patterns: &'static [&'static str],
    /// The approximate interval between due times.
    pub(super) unit: u64,
    /// Clocks may be stepped by a year.
    pub(super) steps_by_years: bool,
}

const TIME_SCALES: [TimeScale; 4] = [
    TimeScale {
        patterns: &[
            "* * * * * *",
            "*/7 * * * * *",
            "5,6,7 * * * * *",
            "every 11s",
            "every 90s",
            "* * * * *",
            "*/3 * * * *",
        ],
        unit: SECOND,
        steps_by_years: false,
    },
    TimeScale {
        patterns: &[
            "*/5 * * * *",
            "every 7 minutes",
            "every 90 minutes",
            "*/20 8-17 * * mon-fri",
            "30 2 * * *",
            "*/15 0-3 * * *",
            "every hour",
        ],
        unit: MINUTE,
        steps_by_years: false,
    },
    TimeScale {
        patterns: &[
            "30 2 * * *",
            "0 */6 * * *",
            "15,45 1,2,3 * * *",
            "every day at 2:30 and 14:00",
            "every 5 hours",
            "0 0 * * *",
            "59 23 * * *",
        ],
        unit: HOUR,
        steps_by_years: true,
    },
    TimeScale {
        patterns: &[
            "every monday at 12:00",
            "0 0 L * *",
            "30 2 * * sun",
            "every 3 days at 2:10 and 23:50",
            "0 0 29 2 *",
            "0 3 31 * *",
            "30 1 * 3,10 *",
            "0 12 1,15 * *",
        ],
        unit: DAY,
        steps_by_years: true,
    },
];

const ZONES: &[&str] = &[
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "America/Sao_Paulo",
    "Pacific/Apia",
];

/// Evenings in UTC before a clock change in one of the zones: 2026-03-28,
/// 2026-10-24, 2026-04-04, 2026-03-07, 2018-11-03, 2011-12-29; and before a leap day.
const STARTS: &[u64] = &[
    1_774_728_000_000,
    1_792_872_000_000,
    1_775_332_800_000,
    1_772_913_600_000,
    1_541_275_200_000,
    1_325_188_800_000,
    1_835_380_800_000,
];

/// The number of distinct task names.
const NAMES: u64 = 5;

impl TimeScale {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        rng.pick(&TIME_SCALES)
    }

    /// Draws the initial wall time.
    pub(super) fn start(rng: &mut Rng) -> u64 {
        rng.pick(STARTS) + rng.below(DAY)
    }

    /// Draws a short span.
    pub(super) const fn short_span(self, rng: &mut Rng) -> u64 {
        rng.below(3 * self.unit)
    }

    /// Draws a time without a leader: from a second to weeks.
    pub(super) fn outage(self, rng: &mut Rng) -> u64 {
        let most = rng.pick(&[SECOND, self.unit, 20 * self.unit, 300 * self.unit]);
        rng.below(most.min(8 * 7 * DAY))
    }

    /// Draws a step of the wall clock.
    pub(super) fn wall_step(self, rng: &mut Rng) -> u64 {
        if self.steps_by_years && rng.chance(300) {
            YEAR
        } else {
            rng.below(200 * self.unit)
        }
    }

    /// Draws the definition of a task or a workflow.
    pub(super) fn definition(self, rng: &mut Rng) -> Definition {
        let scheduled = rng.chance(850);
        let mut trigger = Trigger {
            schedule: scheduled.then(|| self.schedule(rng)),
            remote: true,
            ..Trigger::default()
        };
        if rng.chance(400) {
            trigger.max_instances = Some(rng.within(1, 3) as u32);
            trigger.overlap = rng.pick(&[
                Overlap::Skip,
                Overlap::Skip,
                Overlap::Queue,
                Overlap::Replace,
            ]);
        }
        if rng.chance(250) {
            trigger.launch_rate = Some(Rate {
                count: rng.within(1, 4) as u32,
                per: Millis(rng.pick(&[1, 5, 30]) * self.unit),
            });
        }
        if rng.chance(300) {
            trigger.after = (0..rng.within(1, 2)).map(|_| name(rng)).collect();
        }
        let spec = Arc::new(InstanceSpec {
            retry: RetryBudget {
                failures_max: rng.below(2) as u32,
                losses_max: rng.below(3) as u32,
                ..RetryBudget::default()
            },
            ..InstanceSpec::default()
        });
        let definition = Definition {
            source: format!("{{\"n\":{}}}", rng.below(1_000)).into(),
            trigger,
            ..Definition::default()
        };
        if rng.chance(500) {
            return Definition {
                spec: Some(spec),
                ..definition
            };
        }
        let plan = self.plan(rng, &spec);
        Definition {
            kind: EntryKind::Workflow,
            plan: Some(Arc::new(plan)),
            ..definition
        }
    }

    /// Draws a plan: a chain, or tasks beside each other, of which some are never started.
    fn plan(self, rng: &mut Rng, spec: &Arc<InstanceSpec>) -> Plan {
        let chain = rng.chance(500);
        let task = |at: u32, skipped: bool| PlanTask {
            name: format!("p{at}"),
            spec: Arc::clone(spec),
            after: if chain && at > 0 {
                vec![Upstream {
                    task: at - 1,
                    condition: Condition::default(),
                    edges: Edges::default(),
                }]
            } else {
                Vec::new()
            },
            when: skipped.then(|| "false".to_owned()),
            ..PlanTask::default()
        };
        let count = rng.within(1, 3) as u32;
        Plan {
            name: "plan".to_owned(),
            owner: "o".to_owned(),
            fail_fast: rng.chance(300),
            timeout: rng.chance(100).then(|| Millis(50 * self.unit)),
            tasks: (0..count).map(|at| task(at, rng.chance(150))).collect(),
            ..Plan::default()
        }
    }

    fn schedule(self, rng: &mut Rng) -> Schedule {
        let once = |rng: &mut Rng| {
            let (month, day) = (rng.within(1, 12), rng.within(1, 28));
            let (hour, minute) = (rng.below(24), rng.below(60));
            format!("once at 2026-{month:02}-{day:02} {hour:02}:{minute:02}")
        };
        Schedule {
            text: if rng.chance(60) {
                once(rng)
            } else {
                rng.pick(self.patterns).to_owned()
            },
            zone: rng.pick(ZONES).to_owned(),
            dst: Dst {
                gap: rng.pick(&[Gap::Skip, Gap::Early, Gap::Late]),
                fold: rng.pick(&[Fold::Auto, Fold::Once, Fold::Twice]),
            },
            slack: Millis(rng.pick(&[0, 500, self.unit, 10 * self.unit, 40 * self.unit])),
            catch_up: rng.pick(&[CatchUp::None, CatchUp::Last, CatchUp::All]),
            jitter: Millis(rng.pick(&[0, 0, 0, 1, self.unit / 3, 5 * self.unit, 100 * self.unit])),
        }
    }
}

pub(super) fn name(rng: &mut Rng) -> TaskName {
    TaskName {
        owner: "o".to_owned(),
        name: format!("t{}", rng.below(NAMES)),
    }
}
