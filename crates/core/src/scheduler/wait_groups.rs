//! All that waits, in groups that wait for the same.
//!
//! The cost is that of the classes and of what is held back, not of the instances that wait; both are bounded,
//! and what is beyond the bound is counted as such.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use baton_model::ids::InstanceId;
use baton_model::time::{Mono, Now};

use super::{Scheduler, Standing};
use crate::wait::{ClassId, Wait};

/// Classes that are explained, those first of which most wait: each is a look at all workers.
const CLASSES_EXPLAINED_MAX: usize = 100;

/// Instances in backoff and ranges that are held back of which each is looked at.
const LOOKED_AT_MAX: usize = 10_000;

/// Instances that wait for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitGroup {
    pub count: u64,
    /// The one that is first, or whose backoff ends first.
    pub first: InstanceId,
    /// What that one waits for.
    pub wait: Wait,
}

/// All that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitGroups {
    /// The largest first.
    pub groups: Vec<WaitGroup>,
    /// Instances beyond the bounds, whose reasons were not looked up.
    pub others: u64,
}

impl Scheduler {
    /// What all that is queued waits for, or all of one owner.
    #[must_use]
    pub fn wait_groups(&self, owner: Option<&str>, now: Now) -> WaitGroups {
        let mut found = Groups {
            scheduler: self,
            owner,
            now,
            groups: BTreeMap::new(),
            others: 0,
        };
        found.add_placement();
        found.add_backoffs();
        found.add_turns();
        found.add_dependents();
        for (first, last) in self.bullpen.overflow() {
            found.add(first, last.0 - first.0 + 1);
        }
        let mut groups: Vec<WaitGroup> = found.groups.into_values().collect();
        groups.sort_by_key(|group| (Reverse(group.count), group.first));
        WaitGroups {
            groups,
            others: found.others,
        }
    }
}

/// The groups so far, by their sentence.
struct Groups<'a> {
    scheduler: &'a Scheduler,
    owner: Option<&'a str>,
    now: Now,
    groups: BTreeMap<String, WaitGroup>,
    others: u64,
}

impl Groups<'_> {
    /// Adds instances that wait for the same as the first of them.
    fn add(&mut self, first: InstanceId, count: u64) {
        if !self.is_wanted(first) {
            return;
        }
        // One that was placed a moment ago waits for nothing any more.
        let Some(Standing::Waiting(wait)) = self.scheduler.explain(first, self.now) else {
            return;
        };
        let groups = &mut self.groups;
        let group = groups.entry(wait.first_text()).or_insert(WaitGroup {
            count: 0,
            first,
            wait: *wait,
        });
        group.count += count;
        group.first = group.first.min(first);
    }

    fn is_wanted(&self, id: InstanceId) -> bool {
        let Some(owner) = self.owner else {
            return true;
        };
        let instance = self.scheduler.ledger.find(id);
        instance.is_some_and(|it| it.spec.owner == owner)
    }

    /// All of a class wait for the same.
    fn add_placement(&mut self) {
        let mut classes: BTreeMap<ClassId, (u64, InstanceId)> = BTreeMap::new();
        for (class, waiting, first) in self.scheduler.bullpen.queues() {
            if self.is_wanted(first) {
                let (count, id) = classes.entry(class).or_insert((0, first));
                *count += waiting;
                *id = first.min(*id);
            }
        }
        let mut classes: Vec<(u64, InstanceId)> = classes.into_values().collect();
        classes.sort_by_key(|(count, first)| (Reverse(*count), *first));
        for (at, (count, first)) in classes.into_iter().enumerate() {
            if at < CLASSES_EXPLAINED_MAX {
                self.add(first, count);
            } else {
                self.others += count;
            }
        }
    }

    /// Those whose backoff ends first stand for all.
    fn add_backoffs(&mut self) {
        let all = self.scheduler.bullpen.in_backoff();
        let (mut count, mut first) = (0, None::<(Mono, InstanceId)>);
        for (id, until) in all.iter().take(LOOKED_AT_MAX) {
            if self.is_wanted(*id) {
                count += 1;
                let this = (*until, *id);
                first = Some(first.map_or(this, |first| this.min(first)));
            }
        }
        if let Some((_, id)) = first {
            self.add(id, count);
        }
        self.others += all.len().saturating_sub(LOOKED_AT_MAX) as u64;
    }

    /// Launches of an entry beyond its `max_instances`.
    fn add_turns(&mut self) {
        let scheduler = self.scheduler;
        for (_, held) in scheduler.bullpen.all_held() {
            if let Some(first) = held.first() {
                self.add(*first, held.len() as u64);
            }
        }
    }

    /// Submissions after other work.
    fn add_dependents(&mut self) {
        let scheduler = self.scheduler;
        for (at, (first, last)) in scheduler.dependencies.held().enumerate() {
            if at >= LOOKED_AT_MAX {
                self.others += last.0 - first.0 + 1;
                continue;
            }
            // Some of the range may have been cancelled.
            let mut left = scheduler.ledger.waiting_within(first, last);
            let Some(range) = left.next() else { continue };
            let count = range.last.0 - range.first.0 + 1;
            let rest: u64 = left.map(|range| range.last.0 - range.first.0 + 1).sum();
            self.add(range.first, count + rest);
        }
    }
}
