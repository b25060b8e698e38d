//! Every due time falls into exactly one record, whatever the wall clock does.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::time::{Millis, Wall};
use baton_testing::Rng;

use super::{schedule, utc};
use crate::clock::{
    CatchUp, Clock, Dst, Fold, Gap, Key, Policy, Schedule, SkipReason, Tick, TickVerdict,
};

const TEXTS: &[&str] = &[
    "* * * * * *",
    "*/7 * * * * *",
    "*/5 * * * *",
    "30 2 * * *",
    "15,45 1,2,3 * * *",
    "every 90 minutes",
    "every 11s",
    "0 0 L * *",
    "once at 2026-03-29 04:30",
    "every 3 days at 2:10 and 23:50",
];

/// One schedule with the records that were made of it.
struct Account {
    schedule: Arc<Schedule>,
    policy: Policy,
    /// Where the last record ended.
    until: Wall,
}

impl Account {
    fn random(rng: &mut Rng, start: Wall) -> Self {
        let dst = Dst {
            gap: rng.pick(&[Gap::Skip, Gap::Early, Gap::Late]),
            fold: rng.pick(&[Fold::Once, Fold::Twice]),
        };
        let zone = rng.pick(&["UTC", "Europe/Berlin", "Australia/Lord_Howe"]);
        Self {
            schedule: Arc::new(schedule(rng.pick(TEXTS), zone, dst)),
            policy: Policy {
                slack: Millis(rng.pick(&[0, 500, 20_000, 600_000, 7_200_000])),
                catch_up: rng.pick(&[CatchUp::None, CatchUp::Last, CatchUp::All]),
                jitter: Millis(rng.pick(&[0, 0, 1, 3_000, 900_000])),
            },
            until: start,
        }
    }

    /// Checks a record against the one before, and takes it.
    fn take(&mut self, tick: &Tick, now: Wall) {
        let mut at = self.until;
        for place in 0..tick.count {
            at = self.schedule.after(at).expect("as many as counted").at;
            if place == 0 {
                assert_eq!(at, tick.first, "a record begins where the last one ended");
            }
        }
        assert_eq!(at, tick.last, "a record ends with the last one it counts");
        assert!(
            tick.first <= now && tick.last <= now,
            "nothing is recorded ahead"
        );
        self.until = tick.last;
        self.check_verdict(tick, now);
    }

    fn check_verdict(&self, tick: &Tick, now: Wall) {
        let slack = self.policy.slack.max(Millis(1_000));
        let age = now.since(tick.last);
        match tick.verdict {
            TickVerdict::Launch => {
                assert!(tick.count == 1 && age <= self.policy.jitter + Millis(1_000))
            }
            TickVerdict::Late { by } => {
                assert!(tick.count == 1 && by <= slack && by > Millis(1_000));
                assert_ne!(self.policy.catch_up, CatchUp::None);
            }
            TickVerdict::Skip(SkipReason::Missed) => assert!(age > slack),
            TickVerdict::Skip(SkipReason::CatchUp) => {
                assert_ne!(self.policy.catch_up, CatchUp::All)
            }
            TickVerdict::Skip(reason) => panic!("{reason:?} is not the clock's to say"),
        }
    }

    /// Nothing that was planned by now is left.
    fn check_settled(&self, now: Wall) {
        if let Some(next) = self.schedule.after(self.until) {
            let planned_by = next.at.0 + self.policy.jitter.0;
            assert!(
                planned_by > now.0 || next.at > now,
                "{next:?} was forgotten at {now:?}"
            );
        }
    }
}

fn filled(accounts: &BTreeMap<Key, Account>) -> Clock {
    let mut clock = Clock::new();
    for (key, account) in accounts {
        let schedule = Arc::clone(&account.schedule);
        clock.insert(*key, schedule, account.policy, account.until);
    }
    clock
}

#[test]
fn every_due_time_falls_into_exactly_one_record() {
    let (mut launched, mut skipped, mut ranges) = (0, 0, 0);
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let start = rng.pick(&["2026-03-28 20:00", "2026-10-24 20:00", "2026-01-31 20:00"]);
        let mut now = utc(start);
        let mut accounts: BTreeMap<Key, Account> = (0..6)
            .map(|key| (Key(key), Account::random(&mut rng, now)))
            .collect();
        let mut clock = filled(&accounts);
        for _ in 0..40 {
            now = match rng.below(10) {
                0 => Wall(now.0 - rng.below(7_200_000)),
                1 => Wall(now.0 + rng.below(40_000_000)),
                2 | 3 => Wall(now.0 + rng.below(600_000)),
                _ => clock
                    .next_due()
                    .map_or(now, |due| now.max(Wall(due.0 + rng.below(900)))),
            };
            while clock.next_due().is_some_and(|due| due <= now) {
                clock.due(now, &mut |tick| {
                    accounts.get_mut(&tick.key).expect("known").take(&tick, now);
                    match tick.verdict {
                        TickVerdict::Skip(_) => skipped += tick.count,
                        _ => launched += 1,
                    }
                    ranges += u64::from(tick.count > 1);
                });
                // Sometimes in the middle, with only what was recorded to go by.
                if rng.below(4) == 0 {
                    clock = filled(&accounts);
                }
            }
            for (key, account) in &accounts {
                assert_eq!(clock.accounted(*key), Some(account.until));
                account.check_settled(now);
            }
        }
    }
    assert!(
        launched > 1_000 && skipped > 10_000 && ranges > 100,
        "{launched} {skipped} {ranges}"
    );
}
