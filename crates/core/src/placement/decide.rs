//! One decision: the first in the order of service that has room.

use baton_model::ids::InstanceId;

use super::gang::Place;
use super::limits::TIED_MAX;
use super::{Decision, Placement};
use crate::limits::Limits;
use crate::wait::ClassId;

struct Choice {
    sequence: u64,
    class: usize,
    class_queue: usize,
    place: Place,
}

impl Placement {
    /// The next decision; none if nothing that waits can be placed now. Called
    /// again after any change, it may go on.
    #[expect(
        clippy::should_implement_trait,
        reason = "not an iterator: what comes next depends on what is called in between"
    )]
    pub fn next(&mut self) -> Option<Decision> {
        if self.settled {
            return None;
        }
        self.rounds += 1;
        let mut passed = Vec::new();
        let decision = match self.choose(&mut passed) {
            Some(choice) => self.place(choice, &passed),
            None => None,
        };
        self.settled = decision.is_none();
        if self.settled {
            self.next_start = self.find_next_start();
        }
        decision
    }

    /// Goes through the order of service, and notes who has no room on the way.
    fn choose(&mut self, passed: &mut Vec<usize>) -> Option<Choice> {
        if self.reservations.is_empty() && !self.classes.any_hope() {
            return None;
        }
        // Out of `self` for as long as the search changes the rest of it.
        let turns = std::mem::take(&mut self.queue.turns);
        let mut found = None;
        let mut tied = 0;
        for ((priority, ..), class_queues) in &turns {
            for (sequence, class, class_queue) in class_queues.iter().copied() {
                match &found {
                    Some(Choice {
                        sequence: first, ..
                    }) if sequence > *first => break,
                    _ => {}
                }
                let Some(place) = self.spot(class, priority.0) else {
                    self.skip(class, passed);
                    continue;
                };
                if found
                    .as_ref()
                    .is_none_or(|best| self.goes_before(class_queue, best))
                {
                    found = Some(Choice {
                        sequence,
                        class,
                        class_queue,
                        place,
                    });
                }
                tied += 1;
                if tied == TIED_MAX {
                    break;
                }
            }
            if found.is_some() {
                break;
            }
        }
        self.queue.turns = turns;
        found
    }

    /// Where the next of `class` goes, if anywhere.
    fn spot(&mut self, class: usize, priority: i32) -> Option<Place> {
        let kind = &mut self.classes.all[class];
        if self.limits.short_of(&kind.limited).is_some() {
            return None;
        }
        if kind.need.is_gang() {
            return self.gang_spot(class, priority);
        }
        let spot = kind.settle(&self.fleet);
        if self.reservations.is_empty() {
            return spot.map(Place::from);
        }
        if self.limit_reserved(class, priority).is_some() {
            return None;
        }
        let spot = spot.or_else(|| self.reserved_spot(class, priority));
        spot.map(Place::from)
    }

    fn skip(&mut self, class: usize, passed: &mut Vec<usize>) {
        let kind = &mut self.classes.all[class];
        if kind.skipped_in != self.rounds {
            kind.skipped_in = self.rounds;
            passed.push(class);
        }
    }

    /// Whether a class queue that waits for as long as the choice so far goes before it: the shorter
    /// history of its first task, then the lower id.
    fn goes_before(&self, class_queue: usize, best: &Choice) -> bool {
        self.queue.head(class_queue) < self.queue.head(best.class_queue)
    }

    fn place(&mut self, choice: Choice, passed: &[usize]) -> Option<Decision> {
        let Choice {
            class,
            class_queue,
            place,
            ..
        } = choice;
        let priority = self.queue.class_queues[class_queue].priority;
        let instance = self.queue.take(class_queue)?;
        let place = if self.classes.all[class].need.is_gang() {
            self.members_other_than_avoided(instance, class, priority, place)
        } else {
            Place::from(self.other_than_avoided(instance, class, place.worker))
        };
        self.charge(instance, class, &place, Limits::charge);
        if cfg!(debug_assertions) {
            place.workers().for_each(|at| self.assert_within(class, at));
        }
        self.classes.all[class].passed = 0;
        self.end_reservation(class);
        self.leave_class_queue(class_queue, class, 1);
        place.workers().for_each(|at| self.refresh(at));
        self.pass_over(passed, class, &place);
        let name = |at: usize| self.fleet.workers[at].name.clone();
        Some(Decision {
            instance,
            worker: name(place.worker),
            others: place.others.iter().map(|at| name(*at)).collect(),
            class: ClassId(class),
        })
    }

    /// The worker for an instance: another one than it should avoid, if one has room now. A reserved
    /// worker is neither left nor taken for that.
    fn other_than_avoided(&mut self, instance: InstanceId, class: usize, worker: usize) -> usize {
        let Some(avoided) = self.avoided.remove(&instance) else {
            return worker;
        };
        let chosen = &self.fleet.workers[worker];
        if chosen.name != avoided || chosen.is_reserved() {
            return worker;
        }
        let class = &self.classes.all[class];
        let other = self.fleet.best(&class.room, |candidate, at| {
            at != worker && class.fits(candidate, at)
        });
        other.unwrap_or(worker)
    }

    /// Asserts that a decision of `class` for `worker` has taken no more than
    /// there was.
    fn assert_within(&self, class: usize, worker: usize) {
        let class = &self.classes.all[class];
        self.fleet.assert_within(worker, class);
        for (key, _) in &class.limited {
            let limit = self.limits.get(key);
            assert!(
                limit.is_some_and(|limit| limit.has(0)),
                "the limit {key} is overdrawn: {limit:?}"
            );
        }
    }
}
