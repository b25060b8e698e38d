//! Commands about instances: submit, cancel, kill, retry.

use std::sync::Arc;

use baton_model::conditions::{Conditions, Dependency, HaltReason};
use baton_model::fact::Fact;
use baton_model::ids::{AttemptNo, InstanceId, LeaseId};
use baton_model::library::{Created, Execution, IdempotencyKey};
use baton_model::outcome::KillMode;
use baton_model::spec::{Array, InstanceSpec};
use baton_model::state::UniversalState;
use baton_model::time::Wall;

use super::bullpen::gated_entry;
use super::dependencies::EndMark;
use super::{alarms, gate, launch};
use crate::config::StoreMode;
use crate::ledger::{Instance, Range};
use crate::protocol::scheduler::Protocol;
use crate::scheduler::context::Cx;

/// Instance ids that each leader without a store may use.
const IDS_PER_EPOCH: u64 = 1_000_000_000;

/// Without a store, instances that were submitted with a key have ids from here on, to twice this.
const KEYED_IDS: u64 = 1 << 58;

/// The result of a cancellation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CancelCounts {
    /// Instances that were waiting, and are HALTED now.
    pub halted: u64,
    /// Instances that may be running: kills are sent, and they end when their processes are dead.
    pub stopping: u64,
}

/// The reason for which an instance cannot be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RetryError {
    /// It is neither FAILED nor HALTED.
    NotEnded(UniversalState),
    /// It belongs to a run, and is retried with it.
    PartOfRun,
}

impl std::fmt::Display for RetryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotEnded(state) => write!(
                f,
                "it is {}; only FAILED or HALTED instances can be retried",
                state.word()
            ),
            Self::PartOfRun => f.write_str("it belongs to a run, and is retried with it"),
        }
    }
}

impl std::error::Error for RetryError {}

/// The reason for which an attempt cannot be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KillError {
    /// No attempt of the instance is leased: it waits, or has ended.
    NotRunning,
    /// The instance is stopped, and its attempt killed, already.
    Stopping,
    /// The attempt is over; this one runs.
    Over(AttemptNo),
    /// There is no such attempt yet; this one runs.
    Unknown(AttemptNo),
}

/// A command to create instances: one, or an array of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    pub spec: Box<InstanceSpec>,
    /// For an array: the number of elements, and the index of the first.
    pub array: Option<(u64, u64)>,
    /// Further elements of the array that one spec and consecutive indices do not describe. Their ids
    /// follow.
    pub more: Vec<Elements>,
    /// Of the submissions with the same key only the first creates something.
    pub key: Option<IdempotencyKey>,
}

/// Elements of an array with one spec and consecutive indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elements {
    pub spec: Box<InstanceSpec>,
    pub count: u64,
    /// The index of the first.
    pub from: u64,
}

impl Elements {
    /// The same with its ids from `first` on, and the last of them.
    fn at(&self, first: InstanceId) -> Range {
        let mut spec = (*self.spec).clone();
        let from = self.from;
        spec.array = Some(Array { first, from });
        Range {
            first,
            last: InstanceId(first.0 + (self.count.max(1) - 1)),
            spec: Arc::new(spec),
        }
    }
}

/// The reason for which a submission was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubmitError {
    /// Without a store only time separates two executions, and no scheduler that comes next would know the members of
    /// a gang.
    NeedsStore,
    /// The dependency can never be met.
    NeverMet(Dependency),
    /// The states of the upstream work were read too long ago.
    Outdated,
    /// Too many arrays have limits of their own.
    TooManyLimits,
    /// The idempotency key belongs to another request, which has created this.
    KeyUsed(Created),
}

impl std::fmt::Display for SubmitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NeedsStore => f.write_str(
                "exclusive: strict, and several nodes, need a store that survives a restart",
            ),
            Self::NeverMet(dependency) => {
                write!(f, "{}", HaltReason::Dependency(*dependency))
            }
            Self::Outdated => f.write_str("too much has ended meanwhile; try again"),
            Self::TooManyLimits => f.write_str("too many arrays have limits of their own"),
            Self::KeyUsed(created) => write!(
                f,
                "the Idempotency-Key was used for another request, which created {created}"
            ),
        }
    }
}

impl std::error::Error for SubmitError {}

/// Creates instances with the next free ids, and returns the first and the last of them.
///
/// With dependencies, the mark is from before the states of their upstream work were read, and found
/// to be fine.
pub(super) fn submit(
    cx: &mut Cx<'_>,
    submission: Submission,
    mark: Option<EndMark>,
) -> Result<(InstanceId, InstanceId), SubmitError> {
    let earlier = cx.ledger.keys().earlier(None, submission.key.as_ref());
    match earlier.map_err(SubmitError::KeyUsed)? {
        Some(Created::Instances { first, last }) => {
            cx.counts.notice("submitted-again");
            return Ok((first, last));
        }
        Some(created) => return Err(SubmitError::KeyUsed(created)),
        None => {}
    }
    let lacks_store = |spec: &InstanceSpec| launch::lacks_store(cx, spec);
    if lacks_store(&submission.spec) || submission.more.iter().any(|more| lacks_store(&more.spec)) {
        return Err(SubmitError::NeedsStore);
    }
    check_conditions(cx, &submission.spec.conditions, mark)?;
    let count = submission.count();
    let submission = submission.with_deadline(cx.now.wall);
    let keyed = submission
        .key
        .filter(|_| cx.config.store == StoreMode::Memory);
    let keyed = keyed.map(|key| submission.at(keyed_id(&key, count)));
    let keyed = keyed.filter(|ranges| {
        let mut ranges = ranges.iter();
        ranges.all(|range| is_free_for(cx, range.first, range.last, &range.spec))
    });
    let ranges = keyed.unwrap_or_else(|| submission.at(unused_id(cx)));
    for range in &ranges {
        for (first, last) in cx.ledger.known().gaps(range.first, range.last) {
            accept(cx, first, last, &range.spec);
        }
    }
    // Without a store, a worker may have reported failed elements before the array came again.
    cx.dependencies.note_failure(cx.ledger, &ranges[0].spec);
    let first = ranges[0].first;
    let last = ranges[ranges.len() - 1].last;
    if let Some(key) = submission.key
        && !seeded!(cx.config.bugs, KeyForgotten)
    {
        let created = Created::Instances { first, last };
        cx.commit(Fact::KeyRecorded { key, created });
    }
    Ok((first, last))
}

impl Submission {
    /// The number of instances.
    fn count(&self) -> u64 {
        let more: u64 = self.more.iter().map(|more| more.count.max(1)).sum();
        self.array.map_or(1, |(count, _)| count.max(1)) + more
    }

    /// The same with a deadline that counts from now.
    fn with_deadline(mut self, now: Wall) -> Self {
        alarms::fix_deadline(&mut self.spec.expected, now);
        for more in &mut self.more {
            alarms::fix_deadline(&mut more.spec.expected, now);
        }
        self
    }

    /// Its instances, with ids from `first` on; at least one range.
    fn at(&self, first: InstanceId) -> Vec<Range> {
        let mut ranges = Vec::with_capacity(1 + self.more.len());
        ranges.push(match self.array {
            None => Range {
                first,
                last: first,
                spec: Arc::new((*self.spec).clone()),
            },
            Some((count, from)) => Elements {
                spec: self.spec.clone(),
                count,
                from,
            }
            .at(first),
        });
        for more in &self.more {
            let first = ranges[ranges.len() - 1].last.next();
            ranges.push(more.at(first));
        }
        let is_array = self.array.is_some();
        if is_array
            || self.spec.conditions != Conditions::default()
            || !self.spec.expected.is_empty()
        {
            let last = ranges[ranges.len() - 1].last;
            let conditions = Conditions {
                instances: Some((first, last)),
                ..self.spec.conditions.clone()
            };
            for range in &mut ranges {
                Arc::make_mut(&mut range.spec).conditions = conditions.clone();
            }
        }
        ranges
    }
}

/// Checks what may have changed since the server has checked it.
fn check_conditions(
    cx: &mut Cx<'_>,
    conditions: &Conditions,
    mark: Option<EndMark>,
) -> Result<(), SubmitError> {
    if conditions.concurrent_max.is_some() && !cx.bullpen.has_room_for_limit() {
        return Err(SubmitError::TooManyLimits);
    }
    for dependency in &conditions.after {
        let mark = mark.ok_or(SubmitError::Outdated)?;
        if let Some(violated) = mark.violated {
            return Err(SubmitError::NeverMet(violated));
        }
        let violation = cx.dependencies.violation_since(mark, cx.epoch, *dependency);
        match violation {
            Ok(false) => {}
            Ok(true) => return Err(SubmitError::NeverMet(*dependency)),
            Err(()) => return Err(SubmitError::Outdated),
        }
    }
    Ok(())
}

/// An unused instance id. Without a store, workers may still hold instances of an earlier leader
/// that this one does not know: the id ranges of two leaders must not overlap.
pub(super) fn unused_id(cx: &Cx<'_>) -> InstanceId {
    let known = cx.ledger.known().last_below(InstanceId(KEYED_IDS));
    let known = known.unwrap_or(InstanceId(0));
    let floor = match cx.config.store {
        StoreMode::Durable if seeded!(cx.config.bugs, IdsUsedAgain) => 0,
        StoreMode::Durable => cx.ledger.identity().ids_above().0,
        StoreMode::Memory => u64::from(cx.epoch.number()).saturating_mul(IDS_PER_EPOCH),
    };
    known.max(InstanceId(floor)).next()
}

/// The id that a key stands for without a store: a client that submits again to the next leader
/// means the same instances, which workers may still be running.
const fn keyed_id(key: &IdempotencyKey, count: u64) -> InstanceId {
    let bits = key.key.0 % KEYED_IDS;
    // Ranges of arrays of one size are equal or disjoint.
    InstanceId(KEYED_IDS + bits - bits % count.next_power_of_two())
}

/// True if all known instances of a range have this spec: workers have reported them to a leader
/// without a store. Others would belong to another key that stands for the same ids.
fn is_free_for(cx: &Cx<'_>, first: InstanceId, last: InstanceId, spec: &InstanceSpec) -> bool {
    let ledger = &cx.ledger;
    let mut known = ledger
        .leased(first, last)
        .chain(ledger.requeued(first, last));
    let mut waiting = ledger.waiting_within(first, last);
    known.all(|instance| is_same(&instance.spec, spec))
        && waiting.all(|range| is_same(&range.spec, spec))
}

/// True if two specs differ at most in their deadline, which counts from the submission, and in their trace.
fn is_same(known: &InstanceSpec, spec: &InstanceSpec) -> bool {
    if known.expected == spec.expected && known.trace == spec.trace {
        return *known == *spec;
    }
    let mut known = known.clone();
    known.trace = spec.trace;
    known.expected.deadline.clone_from(&spec.expected.deadline);
    known == *spec
}

/// Records new instances, and lets them wait for a worker.
pub(super) fn accept(
    cx: &mut Cx<'_>,
    first: InstanceId,
    last: InstanceId,
    spec: &Arc<InstanceSpec>,
) {
    let range = Range {
        first,
        last,
        spec: Arc::clone(spec),
    };
    cx.commit(Fact::InstancesSubmitted {
        first,
        last,
        spec: Arc::clone(spec),
    });
    cx.bullpen.submitted(first, cx.now.mono);
    match gated_entry(cx.ledger, spec) {
        Some(task) if !gate::may_start(cx.ledger, cx.bullpen, task, Execution::Instance(first)) => {
            cx.bullpen.hold(task, first);
        }
        _ if !seeded!(cx.config.bugs, DependencyIgnored)
            && cx.dependencies.register(cx.ledger, &range) => {}
        _ => cx.bullpen.fresh(cx.ledger, &range),
    }
}

/// Stops a range: halts waiting instances at once, and kills those that may be running.
pub(super) fn cancel(
    cx: &mut Cx<'_>,
    protocol: &mut Protocol,
    first: InstanceId,
    last: InstanceId,
    mode: KillMode,
) -> CancelCounts {
    stop(cx, protocol, (first, last), mode, None)
}

/// The same, for a reason of the scheduler's own.
pub(super) fn stop(
    cx: &mut Cx<'_>,
    protocol: &mut Protocol,
    (first, last): (InstanceId, InstanceId),
    mode: KillMode,
    reason: Option<HaltReason>,
) -> CancelCounts {
    let waiting = waiting_ranges(cx, first, last);
    let halted = waiting
        .iter()
        .map(|(first, last)| last.0 - first.0 + 1)
        .sum();
    if halted > 0 {
        cx.bullpen.withdraw(first, last);
        let requeued = cx.ledger.requeued(first, last);
        let requeued: Vec<_> = requeued.map(|instance| instance.id).collect();
        // One fact for each part: it is in the timeline of every instance that it names.
        for (first, last) in waiting {
            cx.commit(Fact::InstancesHalted {
                first,
                last,
                reason,
            });
            cx.ledger.drop_ended(first);
        }
        requeued.iter().for_each(|id| cx.ledger.drop_ended(*id));
    }
    let leased: Vec<(LeaseId, bool)> = cx
        .ledger
        .leased(first, last)
        .filter_map(|it| {
            let open = it.lease.as_ref()?;
            Some((open.id, it.stop_requested && open.kill >= Some(mode)))
        })
        .collect();
    for (lease, is_stopping) in &leased {
        if !is_stopping {
            let instance = lease.attempt.instance;
            cx.commit(Fact::StopRequested {
                instance,
                mode,
                reason,
            });
        }
        protocol.kill(&mut cx.protocol(), *lease);
    }
    if halted == 0 && leased.is_empty() {
        cx.counts.notice("cancel-after-end");
    }
    let stopping = leased.len() as u64;
    CancelCounts { halted, stopping }
}

/// The waiting instances of a range, as ranges without gaps.
fn waiting_ranges(
    cx: &Cx<'_>,
    first: InstanceId,
    last: InstanceId,
) -> Vec<(InstanceId, InstanceId)> {
    let fresh = cx.ledger.waiting_within(first, last);
    let requeued = cx.ledger.requeued(first, last);
    let mut all: Vec<_> = fresh
        .map(|range| (range.first, range.last))
        .chain(requeued.map(|instance| (instance.id, instance.id)))
        .collect();
    all.sort_unstable();
    let mut merged: Vec<(InstanceId, InstanceId)> = Vec::new();
    for (first, last) in all {
        match merged.last_mut() {
            Some((_, end)) if end.next() == first => *end = last,
            _ => merged.push((first, last)),
        }
    }
    merged
}

/// Kills one attempt as if it had ended by itself: what follows for the instance is decided as
/// after a failure. Without a number, the attempt that runs.
pub(super) fn kill(
    cx: &mut Cx<'_>,
    protocol: &mut Protocol,
    instance: InstanceId,
    attempt: Option<AttemptNo>,
    mode: KillMode,
) -> Result<AttemptNo, KillError> {
    let instance = cx.ledger.instance(instance).ok_or(KillError::NotRunning)?;
    let open = instance.lease.as_ref().ok_or(KillError::NotRunning)?;
    let (lease, running) = (open.id, open.id.attempt.number);
    match attempt {
        Some(wanted) if wanted < running => return Err(KillError::Over(running)),
        Some(wanted) if wanted > running => return Err(KillError::Unknown(running)),
        _ => {}
    }
    if instance.stop_requested {
        return Err(KillError::Stopping);
    }
    if open.kill < Some(mode) {
        cx.commit(Fact::AttemptKillRequested { lease, mode });
    }
    protocol.kill(&mut cx.protocol(), lease);
    Ok(running)
}

/// Requeues an ended instance, which comes as the store has it. The ledger knows whether it was
/// requeued since it was read.
pub(super) fn retry(cx: &mut Cx<'_>, instance: Instance) -> Result<(), RetryError> {
    let id = instance.id;
    let live = cx.ledger.find(id).map(|live| live.state);
    let state = live.unwrap_or(instance.state);
    let ended = matches!(state, UniversalState::Failed | UniversalState::Halted);
    if instance.spec.part.is_some() {
        return Err(RetryError::PartOfRun);
    }
    if live.is_some() || !ended {
        return Err(RetryError::NotEnded(state));
    }
    // The store checks what it returns; the ledger refuses what contradicts it.
    if cx.ledger.admit(instance).is_err() {
        return Err(RetryError::NotEnded(state));
    }
    cx.commit(Fact::InstanceRetried { instance: id });
    let Some(instance) = cx.ledger.instance(id) else {
        return Ok(());
    };
    match gated_entry(cx.ledger, &instance.spec) {
        Some(task) if !gate::may_start(cx.ledger, cx.bullpen, task, Execution::Instance(id)) => {
            cx.bullpen.hold(task, id);
        }
        _ => cx.bullpen.requeue(cx.ledger, instance, cx.now),
    }
    Ok(())
}
