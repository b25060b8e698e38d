//! Clients that submit arrays, which bound how many of their elements run at once and how many may
//! fail, and an operator who changes a named limit at run time. [`super::dependents`] adds arrays that
//! start after others.
//!
//! Only some seeds have them, drawn from a stream of their own: all other seeds mean what they meant
//! before. The clients know nothing but what the store has: an array whose key is not there is
//! submitted again, and a limit that differs is set again.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::ledger::Ledger;
use baton_core::scheduler::{Command, Elements, Input, StoreMode, Submission};
use baton_model::conditions::Conditions;
use baton_model::fact::{Fact, Verdict};
use baton_model::ids::{InstanceId, RequestId};
use baton_model::library::{Created, IdempotencyKey};
use baton_model::outcome::KillMode;
use baton_model::placement::ResourceRequest;
use baton_model::rate::{LimitValue, Rate};
use baton_model::spec::{Exclusive, InstanceSpec, RetryBackoff, RetryBudget};
use baton_model::state::UniversalState;
use baton_model::task::Resources;
use baton_model::time::Millis;

use super::dependents::{self, Dependent, Gathering};
use super::{SAFETY_PHASE, World};
use crate::plans::expectations;
use crate::rng::Rng;
use crate::swarm::Mix;
use crate::time::{SECOND, Time};

/// The number of seeds in a thousand with arrays.
const SEEDS: u64 = 400;

/// The limit that the operator changes, and the largest amount that an element requests of it.
const LIMIT: &str = "db";
const AMOUNT_MAX: u64 = 2;

/// The limit that is a rate, and the number of seeds in a thousand of those with arrays that have it.
const RATE: &str = "api";
const RATED: u64 = 500;

/// Begins the names of arrays; their number follows.
const NAME: &str = "array";

/// The idempotency keys of arrays are numbered from here on. Without a store, keys stand for ids, and
/// those of two arrays must be this far apart.
const ARRAY_KEYS: u64 = 1 << 40;
const KEY_DISTANCE: u64 = 1 << 8;

/// The gap between the indices of the two parts of an array.
const INDEX_GAP: u64 = 10;

/// An array that a client submits.
#[derive(Debug)]
pub(super) struct PlannedArray {
    pub(super) submission: Submission,
    pub(super) count: u64,
    pub(super) from: Time,
    /// What it starts after, and where its submission stands.
    pub(super) dependent: Dependent,
    /// When a client retries these elements, once they have failed or are halted.
    pub(super) retries: Vec<(Time, u64)>,
    /// When a client cancels the elements from this one on.
    pub(super) cancel_at: Option<(Time, u64)>,
    /// The indices of elements that have ended, at least once.
    ended: BTreeSet<u64>,
}

/// The clients with arrays, and the operator of the limit.
#[derive(Debug, Default)]
pub(super) struct ArrayClients {
    pub(super) arrays: Vec<PlannedArray>,
    /// The array and the index of each element in the store, by its id.
    elements: BTreeMap<InstanceId, (usize, u64)>,
    pub(super) open: BTreeMap<RequestId, usize>,
    /// Statuses on their way that others may join.
    pub(super) gathering: Gathering,
    /// Limits of the configuration of every scheduler.
    pub(super) default_limits: Vec<(String, LimitValue)>,
    /// The values of the limit that the operator sets, and removes, by time.
    totals: Vec<(Time, Option<u64>)>,
}

impl ArrayClients {
    pub(super) fn new(mix: &Mix, mut rng: Rng, dependents: Rng, mut rates: Rng) -> Self {
        if !rng.chance(SEEDS) {
            return Self::default();
        }
        let mut arrays: Vec<PlannedArray> = (0..rng.within(1, 6))
            .map(|number| PlannedArray::draw(&mut rng, number))
            .collect();
        let default = rng.pick(&[None, Some(2), Some(6)]);
        let mut totals: Vec<_> = (0..rng.within(1, 8))
            .map(|_| {
                let at = Time(rng.below(SAFETY_PHASE));
                (at, rng.pick(&[None, Some(0), Some(1), Some(2), Some(4)]))
            })
            .collect();
        // In the end there is enough for every element.
        totals.push((Time(SAFETY_PHASE), Some(rng.within(AMOUNT_MAX, 4))));
        totals.sort_by_key(|(at, _)| *at);
        if mix.store_mode == StoreMode::Memory {
            // A scheduler without a store accepts nothing strict.
            arrays.iter_mut().for_each(PlannedArray::relax);
        }
        let gathering = dependents::add(&mut arrays, mix, dependents);
        let default = default.map(|it| (LIMIT.to_owned(), it.into()));
        let mut default_limits: Vec<(String, LimitValue)> = default.into_iter().collect();
        // Without a store, a leader does not decide what its workers report to have started.
        if mix.store_mode == StoreMode::Durable && rates.chance(RATED) {
            let rate = Rate {
                count: 1,
                per: Millis(rates.within(2_000, 15_000)),
            };
            let value = LimitValue::of_rate(rate, Some(rates.within(1, 4)));
            default_limits.push((RATE.to_owned(), value));
            for array in arrays.iter_mut().filter(|_| rates.chance(RATED)) {
                array.take_of_rate();
            }
        }
        Self {
            arrays,
            gathering,
            default_limits,
            totals,
            ..Self::default()
        }
    }

    /// True if everything was submitted and has ended.
    pub(super) fn is_settled(&self) -> bool {
        self.arrays.iter().all(PlannedArray::is_over)
    }

    /// Describes an array with an element that has not ended.
    pub(super) fn unfinished(&self) -> Option<String> {
        let array = self.arrays.iter().find(|array| !array.is_over())?;
        let (name, ended) = (&array.submission.spec.name, &array.ended);
        Some(format!("of {name} only {ended:?} have ended"))
    }

    /// The ids of the arrays in the store that bound how many of their elements may fail.
    pub(super) fn created(&self, ledger: &Ledger) -> Vec<(InstanceId, InstanceId)> {
        let counts = |array: &&PlannedArray| {
            let conditions = &array.submission.spec.conditions;
            conditions.failed_max.is_some()
        };
        let arrays = self.arrays.iter().filter(counts);
        arrays.filter_map(|array| array.created(ledger)).collect()
    }

    /// Observes a fact of the history, after the ledger. Returns the name of an array that was created
    /// a second time.
    pub(super) fn observe(&mut self, ledger: &Ledger, fact: &Fact) -> Option<String> {
        match fact {
            Fact::InstancesSubmitted {
                first, last, spec, ..
            } => {
                let number = spec.name.strip_prefix(NAME).and_then(|it| it.parse().ok());
                // A restored store may use the ids of others again.
                self.elements.retain(|id, _| !(first..=last).contains(&id));
                let mut again = false;
                for id in (first.0..=last.0).map(InstanceId) {
                    if let (Some(number), Some(array)) = (number, spec.array) {
                        let element = (number, array.index(id));
                        let mut known = self.elements.iter();
                        again |= known
                            .any(|(id, known)| *known == element && ledger.known().contains(*id));
                        self.elements.insert(id, element);
                    }
                }
                return again.then(|| spec.name.clone());
            }
            Fact::AttemptEnded { lease, verdict, .. } if *verdict != Verdict::Requeued => {
                self.end(lease.attempt.instance);
            }
            Fact::InstancesHalted { first, last, .. } => {
                (first.0..=last.0).for_each(|id| self.end(InstanceId(id)));
            }
            _ => {}
        }
        None
    }

    fn end(&mut self, id: InstanceId) {
        if let Some((number, index)) = self.elements.get(&id)
            && let Some(array) = self.arrays.get_mut(*number)
        {
            array.ended.insert(*index);
        }
    }
}

impl PlannedArray {
    pub(super) fn draw(rng: &mut Rng, number: u64) -> Self {
        let (count, more) = (rng.within(2, 8), rng.pick(&[0, 0, 3]));
        let amount = rng.pick(&[0, 0, 1, AMOUNT_MAX]);
        let named = [(LIMIT.to_owned(), amount)];
        let spec = InstanceSpec {
            name: format!("{NAME}{number}"),
            owner: "arrays".to_owned(),
            request: ResourceRequest {
                resources: Resources {
                    cpu_milli: 250 * rng.below(3),
                    named: named.into_iter().filter(|(_, it)| *it > 0).collect(),
                    ..Resources::default()
                },
                ..ResourceRequest::default()
            },
            exclusive: rng.pick(&[Exclusive::Timed, Exclusive::Strict]),
            retry: RetryBudget {
                failures_max: rng.below(2) as u32,
                losses_max: 1_000,
                backoff: RetryBackoff {
                    first: Millis(rng.below(2_000)),
                    max: Millis(3_000),
                },
                ..RetryBudget::default()
            },
            conditions: Conditions {
                concurrent_max: rng.pick(&[None, Some(1), Some(2), Some(3)]),
                failed_max: rng.pick(&[None, Some(1), Some(2)]),
                ..Conditions::default()
            },
            expected: expectations(number),
            ..InstanceSpec::default()
        };
        let bits = ARRAY_KEYS + number * KEY_DISTANCE;
        let second = Elements {
            spec: Box::new(spec.clone()),
            count: more,
            from: count + INDEX_GAP,
        };
        let from = Time(rng.below(SAFETY_PHASE * 9 / 10));
        let cancel_at = rng.chance(100).then(|| {
            let at = from.after(rng.below(300 * SECOND));
            (at, rng.below(count))
        });
        Self {
            submission: Submission {
                spec: Box::new(spec),
                array: Some((count, 0)),
                more: (more > 0).then_some(second).into_iter().collect(),
                key: Some(IdempotencyKey {
                    key: (bits, 0),
                    request: bits,
                }),
            },
            count: count + more,
            from,
            dependent: Dependent::default(),
            retries: Vec::new(),
            cancel_at,
            ended: BTreeSet::new(),
        }
    }

    /// Lets each start of its elements take of the rate.
    fn take_of_rate(&mut self) {
        let more = self.submission.more.iter_mut().map(|it| &mut it.spec);
        for spec in more.chain([&mut self.submission.spec]) {
            spec.request.resources.named.insert(RATE.to_owned(), 1);
        }
    }

    fn relax(&mut self) {
        self.submission.spec.exclusive = Exclusive::Timed;
        for more in &mut self.submission.more {
            more.spec.exclusive = Exclusive::Timed;
        }
    }

    fn is_over(&self) -> bool {
        self.dependent.is_refused || self.ended.len() as u64 == self.count
    }

    /// The first and the last of its instances in the store.
    pub(super) fn created(&self, ledger: &Ledger) -> Option<(InstanceId, InstanceId)> {
        match ledger.keys().earlier(None, self.submission.key.as_ref()) {
            Ok(Some(Created::Instances { first, last })) => Some((first, last)),
            _ => None,
        }
    }
}

impl World {
    /// Lets the clients with arrays act.
    pub(super) fn arrays_round(&mut self, leader: usize) {
        let now = self.now;
        let durable = self.is_durable();
        let mut commands = self.dependents_round(leader);
        for (number, array) in self.arrays.arrays.iter_mut().enumerate() {
            let created = array.created(&self.store.ledger);
            // Without a store, a leader that has lost an array gets it again until all of it has ended.
            let is_needed = durable || !array.is_over();
            match created {
                None if !array.dependent.after.is_empty() => {}
                None if array.from <= now && is_needed => {
                    let command = Command::Submit {
                        submission: array.submission.clone(),
                        mark: None,
                    };
                    commands.push((Some(number), command));
                }
                Some((first, last)) => {
                    let due = array.cancel_at.take_if(|(at, _)| *at <= now);
                    commands.extend(due.map(|(_, index)| {
                        let first = InstanceId(first.0 + index);
                        let mode = KillMode::Graceful;
                        (None, Command::Cancel { first, last, mode })
                    }));
                }
                None => {}
            }
        }
        let mut totals = self.arrays.totals.iter().rev();
        let total = totals.find(|(at, _)| *at <= now);
        if let Some((_, total)) = total
            && self.store.ledger.limits().get(LIMIT).map(|it| it.total) != *total
        {
            let (name, value) = (LIMIT.to_owned(), total.map(LimitValue::from));
            commands.push((None, Command::SetLimit { name, value }));
        }
        for (submitted, command) in commands {
            let request = self.client.new_request();
            if let Some(number) = submitted {
                self.arrays.open.insert(request, number);
            }
            self.scheduler_input(leader, Input::command(request, command));
        }
    }

    /// A leader has answered a request with these instances: they must be in the store.
    pub(super) fn array_acknowledged(
        &mut self,
        request: RequestId,
        (first, last): (InstanceId, InstanceId),
    ) {
        let is_submission = self.arrays.open.remove(&request).is_some();
        if !is_submission || self.checkers.is_forgotten(first) {
            return;
        }
        for id in (first.0..=last.0).map(InstanceId) {
            let known = self.store.ledger.known().contains(id);
            self.checkers.submission_acknowledged(id, known);
        }
    }

    /// Observes a fact that the ledger of the store has applied.
    pub(super) fn arrays_observe(&mut self, fact: &Fact) {
        if let Some(name) = self.arrays.observe(&self.store.ledger, fact)
            && self.is_durable()
        {
            let what = format!("{name} has created instances again: {fact}");
            self.checkers.violate("submitted-twice", what);
        }
        if let Fact::LeaseGranted { lease, .. } = fact {
            let defaults = &self.arrays.default_limits;
            let slots = self.mix.slots;
            self.checkers
                .granted(&self.store.ledger, *lease, defaults, slots);
        }
    }

    /// Counts the failed elements of an array, as a store does that restores a ledger.
    pub(super) fn failed_elements(&self, first: InstanceId, last: InstanceId) -> u32 {
        let instances = self.store.ledger.instances();
        let failed = instances.filter(|(id, instance)| {
            (first..=last).contains(id) && instance.state == UniversalState::Failed
        });
        failed.count() as u32
    }
}
