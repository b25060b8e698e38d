//! Clients that submit arrays which start after others, under every rule, and who retry elements that
//! have failed; and a network in which several ends arrive in one message.
//!
//! Only some of the seeds with arrays have them, drawn from a stream of their own. A client does what
//! the server does: it takes a mark, reads the states of the upstream work from the store, and
//! submits, at once or some time later.

use std::collections::BTreeMap;

use baton_core::scheduler::{Command, EndMark, StoreMode};
use baton_model::conditions::{Dependency, DependencyRule, Subject};
use baton_model::ids::{Association, InstanceId, LeaseId, RequestId};
use baton_model::message::{Status, ToScheduler};

use super::arrays::PlannedArray;
use super::{Event, SAFETY_PHASE, World};
use crate::rng::Rng;
use crate::swarm::Mix;
use crate::time::SECOND;

/// The number of seeds with arrays in a thousand that have dependents.
const SEEDS: u64 = 700;

/// The longest time for which statuses wait for others.
const GATHERED_MAX: u64 = 20 * SECOND;

/// What an array starts after, and where its submission stands.
#[derive(Debug, Default)]
pub(super) struct Dependent {
    pub(super) after: Vec<PlannedDependency>,
    /// Its dependencies, and the mark from before their upstream work was read.
    checked: Option<(Vec<Dependency>, EndMark)>,
    /// It can never start, and is not submitted any more.
    pub(super) is_refused: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedDependency {
    upstream: PlannedUpstream,
    rule: DependencyRule,
}

#[derive(Clone, Copy, Debug)]
enum PlannedUpstream {
    /// Elements of an array, by their position.
    Elements { array: usize, from: u64, to: u64 },
    /// The run that was registered last.
    Run,
}

/// Statuses of one association that are sent together.
type HeldStatuses = (Association, Vec<(LeaseId, Status)>);

/// Statuses that are on their way to a scheduler together.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// None if all statuses leave at once.
    rng: Option<Rng>,
    /// By host and scheduler.
    held: BTreeMap<(usize, usize), HeldStatuses>,
}

/// Adds arrays that start after the given ones, and retries.
pub(super) fn add(arrays: &mut Vec<PlannedArray>, mix: &Mix, mut rng: Rng) -> Gathering {
    if mix.store_mode == StoreMode::Memory || !rng.chance(SEEDS) {
        return Gathering::default();
    }
    for _ in 0..rng.within(2, 8) {
        let number = arrays.len();
        let mut array = PlannedArray::draw(&mut rng, number as u64);
        let after: Vec<_> = (0..rng.within(1, 3))
            .map(|_| PlannedDependency::draw(&mut rng, arrays, mix))
            .collect();
        let upstream = after.iter().filter_map(|it| match it.upstream {
            PlannedUpstream::Elements { array, .. } => Some(arrays[array].from),
            PlannedUpstream::Run => None,
        });
        let from = upstream.max().unwrap_or(array.from);
        array.cancel_at = None;
        array.from = from.after(rng.below(60 * SECOND));
        array.dependent.after = after;
        arrays.push(array);
    }
    for array in arrays.iter_mut() {
        let retries = rng.pick(&[0, 0, 1, 3]);
        array.retries = (0..retries)
            .map(|_| {
                let at = array.from.after(rng.below(300 * SECOND));
                (at, rng.below(array.count))
            })
            .collect();
    }
    Gathering {
        rng: Some(rng),
        ..Gathering::default()
    }
}

impl PlannedDependency {
    fn draw(rng: &mut Rng, arrays: &[PlannedArray], mix: &Mix) -> Self {
        let array = rng.below(arrays.len() as u64) as usize;
        let count = arrays[array].count;
        let from = rng.below(count);
        let upstream = if mix.runs > 0 && rng.chance(200) {
            PlannedUpstream::Run
        } else {
            let to = rng.within(from, count - 1);
            PlannedUpstream::Elements { array, from, to }
        };
        let rules = [
            DependencyRule::Ok,
            DependencyRule::Ok,
            DependencyRule::Fail,
            DependencyRule::Any,
        ];
        Self {
            upstream,
            rule: rng.pick(&rules),
        }
    }
}

impl World {
    /// The commands of the clients with dependents: submissions with the number of their array, and
    /// retries.
    pub(super) fn dependents_round(&mut self, leader: usize) -> Vec<(Option<usize>, Command)> {
        let mut commands = Vec::new();
        for number in 0..self.arrays.arrays.len() {
            let array = &self.arrays.arrays[number];
            let is_due = array.from <= self.now && !array.dependent.after.is_empty();
            if is_due && array.created(&self.store.ledger).is_none() {
                let command = self.submit_dependent(leader, number);
                commands.extend(command.map(|it| (Some(number), it)));
            }
            let retries = self.due_retries(leader, number);
            commands.extend(retries.into_iter().map(|it| (None, it)));
        }
        commands
    }

    /// Checks the dependencies of an array, or submits it when they are checked.
    fn submit_dependent(&mut self, leader: usize, number: usize) -> Option<Command> {
        if self.arrays.arrays[number].dependent.is_refused {
            return None;
        }
        let is_late = number.is_multiple_of(2);
        let checked = self.arrays.arrays[number].dependent.checked.take();
        let (after, mark) = match checked {
            Some(checked) => checked,
            None => {
                let checked = self.check_dependencies(leader, number)?;
                if is_late {
                    self.arrays.arrays[number].dependent.checked = Some(checked);
                    return None;
                }
                checked
            }
        };
        let mut submission = self.arrays.arrays[number].submission.clone();
        submission.spec.conditions.after = after;
        let mark = Some(mark);
        Some(Command::Submit { submission, mark })
    }

    /// Reads what a server reads. None while an upstream array is missing, or the store has not
    /// caught up with the leader.
    fn check_dependencies(
        &mut self,
        leader: usize,
        number: usize,
    ) -> Option<(Vec<Dependency>, EndMark)> {
        let mut mark = self.leading_core(leader)?.end_mark();
        let mut after = Vec::new();
        for planned in self.arrays.arrays[number].dependent.after.clone() {
            let upstream = match planned.upstream {
                PlannedUpstream::Elements { array, from, to } => {
                    let array = &self.arrays.arrays[array];
                    if array.dependent.is_refused {
                        self.arrays.arrays[number].dependent.is_refused = true;
                        return None;
                    }
                    let (first, _) = array.created(&self.store.ledger)?;
                    Subject::Instances {
                        first: InstanceId(first.0 + from),
                        last: InstanceId(first.0 + to),
                    }
                }
                PlannedUpstream::Run => {
                    let runs = self.store.ledger.runs();
                    let Some(head) = runs.head(runs.last()) else {
                        continue;
                    };
                    Subject::Run(head.id)
                }
            };
            let rule = planned.rule;
            after.push(Dependency { upstream, rule });
        }
        let mut violated = after.iter().copied();
        mark.violated = violated.find(|it| self.checkers.conditions.is_violated(*it));
        Some((after, mark))
    }

    /// Retries elements that have failed or are halted, by the state of a store that has caught up.
    fn due_retries(&mut self, leader: usize, number: usize) -> Vec<Command> {
        if self.now.0 > SAFETY_PHASE || self.leading_core(leader).is_none() {
            return Vec::new();
        }
        let (now, ledger) = (self.now, &self.store.ledger);
        let array = &mut self.arrays.arrays[number];
        let Some((first, _)) = array.created(ledger) else {
            return Vec::new();
        };
        let mut commands = Vec::new();
        array.retries.retain(|(at, element)| {
            let id = InstanceId(first.0 + element);
            let is_due = *at <= now && self.checkers.conditions.can_be_retried(id);
            // The ledger keeps no record of what was halted with others before it had a fact.
            let instance = ledger.find(id).filter(|_| is_due);
            commands.extend(instance.map(|it| Command::Retry(Box::new(it))));
            !is_due
        });
        commands
    }

    /// A leader has refused a submission whose dependencies can never be met.
    pub(super) fn array_refused(&mut self, request: RequestId) {
        if let Some(number) = self.arrays.open.remove(&request) {
            self.arrays.arrays[number].dependent.is_refused = true;
        }
    }

    /// Holds statuses back for a while, so that later ones join them. Returns a message that leaves
    /// now.
    pub(super) fn gather(
        &mut self,
        host: usize,
        scheduler: usize,
        message: ToScheduler,
    ) -> Option<ToScheduler> {
        let gathering = &mut self.arrays.gathering;
        let Some(rng) = gathering.rng.as_mut().filter(|_| !self.calm) else {
            return Some(message);
        };
        let ToScheduler::UpdateStatus {
            association,
            statuses,
        } = message
        else {
            return Some(message);
        };
        let key = (host, scheduler);
        match gathering.held.get_mut(&key) {
            Some((known, held)) if *known == association => {
                let is_new = |lease: LeaseId| held.iter().all(|(it, _)| *it != lease);
                let new: Vec<_> = statuses.into_iter().filter(|it| is_new(it.0)).collect();
                held.extend(new);
                None
            }
            None if rng.chance(500) => {
                let span = rng.below(GATHERED_MAX);
                gathering.held.insert(key, (association, statuses));
                self.at(span, Event::StatusesLeave { host, scheduler });
                None
            }
            _ => Some(ToScheduler::UpdateStatus {
                association,
                statuses,
            }),
        }
    }

    /// Statuses that were held back leave together.
    pub(super) fn statuses_leave(&mut self, host: usize, scheduler: usize) {
        let held = self.arrays.gathering.held.remove(&(host, scheduler));
        if let Some((association, statuses)) = held {
            let message = ToScheduler::UpdateStatus {
                association,
                statuses,
            };
            self.transmit(host, scheduler, message);
        }
    }
}

/// The number of attempts in a thousand that fail: a rule is decided by some that do.
pub(super) const fn failing(mix: &Mix, arrays: &super::arrays::ArrayClients) -> u64 {
    match (mix.failing, &arrays.gathering.rng) {
        (0, Some(_)) => 150,
        (failing, _) => failing,
    }
}
