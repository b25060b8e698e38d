//! Dependencies between submissions: instances that wait until earlier work has ended.
//!
//! A dependent instance is in the ledger from its submission on. It is *unstarted* until the first
//! fact about it alone: until it is leased, halted or retried by hand. Two rules bind what is unstarted:
//!
//! * it is held back from placement while any upstream work is live;
//! * an end of upstream work that violates a dependency halts it, in the same commit as the end.
//!
//! So upstream work that is not live has ended as the dependency requires, and both rules follow from
//! the ledger alone: a new leader decides the same without the states of ended instances, also when
//! retention has removed them. The step that records ends holds all of them against the rules before it
//! lets anything go ([`advance`]). Subject work that lives again, because it was retried or resumed,
//! holds back again what is unstarted.
//!
//! The cost of an end does not depend on how much waits: ranges that are waited for are found by
//! the size of their range, and whether one is live is a question to the ordered sets of the ledger.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use baton_model::conditions::{Dependency, HaltReason, Subject};
use baton_model::fact::{Fact, Verdict};
use baton_model::ids::{Epoch, InstanceId, RunId};
use baton_model::outcome::KillMode;
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;

use super::instances;
use crate::ledger::{Ledger, Range};
use crate::protocol::scheduler::Protocol;
use crate::scheduler::context::Cx;

/// Ends that are remembered, for submissions whose upstream was read from the store a moment ago.
const ENDS_REMEMBERED_MAX: usize = 65_536;

/// A point in the ends that a leader has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndMark {
    epoch: Epoch,
    ends: u64,
    /// A dependency that was found to be violated.
    pub violated: Option<Dependency>,
}

/// An end of upstream work.
#[derive(Clone, Copy, Debug)]
struct End {
    upstream: Subject,
    is_done: bool,
}

impl End {
    /// True if the dependency can never be met any more.
    fn violates(self, dependency: Dependency) -> bool {
        overlaps(self.upstream, dependency.upstream) && !dependency.rule.allows(self.is_done)
    }
}

/// A change of upstream work that dependents are still to be held against.
#[derive(Clone, Copy, Debug)]
enum Change {
    Ended(End),
    /// It was retried or resumed, and is live again.
    Reopened(Subject),
}

impl Change {
    const fn upstream(self) -> Subject {
        match self {
            Self::Ended(End { upstream, .. }) | Self::Reopened(upstream) => upstream,
        }
    }
}

/// Instances of one submission with dependencies, of which at least one is unstarted.
#[derive(Clone, Debug)]
struct Dependent {
    last: InstanceId,
    after: Vec<Dependency>,
    /// What is unstarted is not in placement.
    is_held: bool,
}

/// A range that is waited for, ordered by size, so that the ranges with an id are found fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    /// The logarithm of its length.
    size: u32,
    first: InstanceId,
    last: InstanceId,
}

impl Span {
    fn new(first: InstanceId, last: InstanceId) -> Self {
        let size = (last.0 - first.0 + 1).ilog2();
        Self { size, first, last }
    }
}

/// All unstarted instances with dependencies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dependencies {
    /// Disjoint ranges, by their first instance.
    dependents: BTreeMap<InstanceId, Dependent>,
    /// The first instances of those that depend on a range.
    spans: BTreeMap<Span, BTreeSet<InstanceId>>,
    /// The same for a run.
    runs: BTreeMap<RunId, BTreeSet<InstanceId>>,
    /// Changes that are still to be examined.
    pending: VecDeque<Change>,
    /// Dependents of examined changes: they may start, or must wait again, when nothing is pending.
    unsettled: BTreeSet<InstanceId>,
    /// Arrays in which as many instances have failed as may, still to be cancelled.
    failed: Vec<(InstanceId, InstanceId, u32)>,
    recent: VecDeque<End>,
    ends: u64,
}

impl Dependencies {
    /// Those of a leader that takes this ledger over.
    pub(crate) fn restore(ledger: &Ledger) -> Self {
        let mut dependencies = Self::default();
        for range in ledger.waiting() {
            dependencies.register(ledger, &range);
        }
        dependencies
    }

    /// Adds a range of unstarted instances, if it has dependencies. True if it is held back.
    pub(crate) fn register(&mut self, ledger: &Ledger, range: &Range) -> bool {
        let after = &range.spec.conditions.after;
        if after.is_empty() {
            return false;
        }
        for dependency in after {
            let dependents = match dependency.upstream {
                Subject::Instances { first, last } => {
                    self.spans.entry(Span::new(first, last)).or_default()
                }
                Subject::Run(run) => self.runs.entry(run).or_default(),
            };
            dependents.insert(range.first);
        }
        let is_held = !all_over(ledger, after);
        let dependent = Dependent {
            last: range.last,
            after: after.clone(),
            is_held,
        };
        self.dependents.insert(range.first, dependent);
        is_held
    }

    /// The first dependency that an instance waits for.
    pub(crate) fn unmet(&self, ledger: &Ledger, id: InstanceId) -> Option<Dependency> {
        let (_, dependent) = self.dependents.range(..=id).next_back()?;
        let is_bound = id <= dependent.last && ledger.has_unstarted(id, id);
        let mut after = dependent.after.iter().filter(|_| is_bound);
        after.find(|it| !is_over(ledger, it.upstream)).copied()
    }

    /// The ranges that are held back.
    pub(crate) fn held(&self) -> impl Iterator<Item = (InstanceId, InstanceId)> + '_ {
        let held = self.dependents.iter().filter(|(_, it)| it.is_held);
        held.map(|(first, it)| (*first, it.last))
    }

    /// True if a range of unstarted instances is not to be placed yet.
    pub(crate) fn holds(&self, first: InstanceId) -> bool {
        self.dependents.get(&first).is_some_and(|it| it.is_held)
    }

    /// A mark for [`Self::violation_since`].
    pub(crate) const fn mark(&self, epoch: Epoch) -> EndMark {
        EndMark {
            epoch,
            ends: self.ends,
            violated: None,
        }
    }

    /// Whether an end since the mark violates the dependency; `Err` if that is not known.
    pub(crate) fn violation_since(
        &self,
        mark: EndMark,
        epoch: Epoch,
        dependency: Dependency,
    ) -> Result<bool, ()> {
        let new = usize::try_from(self.ends - mark.ends.min(self.ends)).unwrap_or(usize::MAX);
        if mark.epoch != epoch || new > self.recent.len() {
            return Err(());
        }
        let mut ends = self.recent.iter().rev().take(new);
        Ok(ends.any(|end| end.violates(dependency)))
    }

    /// Notes what a fact ends, reopens and starts. The ledger has it already.
    pub(crate) fn observe(&mut self, ledger: &Ledger, fact: &Fact) {
        match fact {
            Fact::AttemptEnded { lease, verdict, .. } if *verdict != Verdict::Requeued => {
                let id = lease.attempt.instance;
                if *verdict == Verdict::GaveUp
                    && let Some(instance) = ledger.instance(id)
                {
                    self.note_failure(ledger, &instance.spec);
                }
                self.ended(one(id), *verdict == Verdict::Done);
            }
            Fact::InstancesHalted { first, last, .. } => {
                let (first, last) = (*first, *last);
                self.forget_started(ledger, first, last);
                self.ended(Subject::Instances { first, last }, false);
            }
            Fact::RunEnded { run, state, .. } => {
                self.ended(Subject::Run(*run), *state == UniversalState::Done);
            }
            Fact::InstanceRetried { instance, .. } => self.change(Change::Reopened(one(*instance))),
            Fact::RunResumed { run, .. } => self.change(Change::Reopened(Subject::Run(*run))),
            Fact::LeaseGranted { lease, .. } | Fact::AttemptAdopted { lease, .. } => {
                let id = lease.attempt.instance;
                self.forget_started(ledger, id, id);
            }
            _ => {}
        }
    }

    fn ended(&mut self, upstream: Subject, is_done: bool) {
        let end = End { upstream, is_done };
        self.ends += 1;
        self.recent.push_back(end);
        if self.recent.len() > ENDS_REMEMBERED_MAX {
            self.recent.pop_front();
        }
        self.change(Change::Ended(end));
    }

    fn change(&mut self, change: Change) {
        if !self.dependents.is_empty() {
            self.pending.push_back(change);
        }
    }

    /// Forgets dependents that overlap a range and have nothing unstarted left.
    fn forget_started(&mut self, ledger: &Ledger, first: InstanceId, last: InstanceId) {
        let overlapping = self.dependents.range(..=last).rev();
        let overlapping = overlapping.take_while(|(_, it)| first <= it.last);
        let started = overlapping.filter(|(id, it)| !ledger.has_unstarted(**id, it.last));
        let started: Vec<InstanceId> = started.map(|(id, _)| *id).collect();
        for id in started {
            self.forget(id);
        }
    }

    /// Notes an array of which as many elements have failed as it allows.
    pub(crate) fn note_failure(&mut self, ledger: &Ledger, spec: &InstanceSpec) {
        let conditions = &spec.conditions;
        if let (Some((first, last)), Some(max)) = (conditions.instances, conditions.failed_max)
            && ledger.failures(first) >= max
        {
            self.failed.push((first, last, max));
        }
    }

    /// The dependents of an upstream, by their first instances.
    fn dependents_of(&self, upstream: Subject) -> BTreeSet<InstanceId> {
        match upstream {
            Subject::Run(run) => self.runs.get(&run).cloned().unwrap_or_default(),
            Subject::Instances { first, last } => {
                let mut found = BTreeSet::new();
                let mut size = self.spans.first_key_value().map(|(span, _)| span.size);
                while let Some(now) = size {
                    let longest = 2_u64.saturating_pow(now + 1);
                    let from = Span {
                        size: now,
                        first: InstanceId(first.0.saturating_sub(longest)),
                        last: InstanceId(0),
                    };
                    let to = Span {
                        size: now,
                        first: last,
                        last: InstanceId(u64::MAX),
                    };
                    for (span, dependents) in self.spans.range(from..=to) {
                        if span.last >= first {
                            found.extend(dependents);
                        }
                    }
                    let next = self.spans.range(to..).find(|(span, _)| span.size > now);
                    size = next.map(|(span, _)| span.size);
                }
                found
            }
        }
    }

    fn forget(&mut self, id: InstanceId) {
        let Some(dependent) = self.dependents.remove(&id) else {
            return;
        };
        for dependency in dependent.after {
            match dependency.upstream {
                Subject::Instances { first, last } => {
                    let span = Span::new(first, last);
                    if let Some(dependents) = self.spans.get_mut(&span) {
                        dependents.remove(&id);
                        if dependents.is_empty() {
                            self.spans.remove(&span);
                        }
                    }
                }
                Subject::Run(run) => {
                    if let Some(dependents) = self.runs.get_mut(&run) {
                        dependents.remove(&id);
                        if dependents.is_empty() {
                            self.runs.remove(&run);
                        }
                    }
                }
            }
        }
    }
}

/// Does one part of what follows from ends and retries; false if nothing is left to do.
///
/// Dependents are let go last, when no change is pending: the ledger has all ends of a step at once,
/// and one that was not examined yet may violate a dependency.
pub(super) fn advance(cx: &mut Cx<'_>, protocol: &mut Protocol) -> bool {
    let continues = seeded!(cx.config.bugs, FailedMaxIgnored);
    let failed = cx.dependencies.failed.pop().filter(|_| !continues);
    if let Some((first, last, max)) = failed {
        let reason = Some(HaltReason::FailedMax(max));
        instances::stop(cx, protocol, (first, last), KillMode::default(), reason);
        return true;
    }
    if let Some(change) = cx.dependencies.pending.pop_front() {
        for id in cx.dependencies.dependents_of(change.upstream()) {
            examine(cx, protocol, id, change);
        }
        return true;
    }
    let unsettled = std::mem::take(&mut cx.dependencies.unsettled);
    for id in &unsettled {
        settle(cx, *id);
    }
    !unsettled.is_empty()
}

/// Halts what is unstarted of a dependent if a change violates one of its dependencies.
fn examine(cx: &mut Cx<'_>, protocol: &mut Protocol, id: InstanceId, change: Change) {
    let Some(dependent) = cx.dependencies.dependents.get(&id) else {
        return;
    };
    let violated = match change {
        Change::Reopened(_) => None,
        Change::Ended(end) => dependent.after.iter().find(|it| end.violates(**it)),
    };
    let Some(dependency) = violated.copied() else {
        cx.dependencies.unsettled.insert(id);
        seeded!(cx.config.bugs, ReleasedOnFirstEnd => release_early(cx, id));
        return;
    };
    let last = dependent.last;
    cx.dependencies.forget(id);
    let reason = Some(HaltReason::Dependency(dependency));
    let unstarted: Vec<Range> = cx.ledger.waiting_within(id, last).collect();
    for Range { first, last, .. } in unstarted {
        instances::stop(cx, protocol, (first, last), KillMode::default(), reason);
    }
}

/// Lets a dependent go while other ends are pending: a seeded bug.
#[cfg(feature = "seeded-bugs")]
fn release_early(cx: &mut Cx<'_>, id: InstanceId) {
    settle(cx, id);
    if !cx.dependencies.holds(id) {
        cx.dependencies.forget(id);
    }
}

/// Moves what is unstarted of a dependent into placement when all upstream work is over, and out of it
/// when some of it lives again.
fn settle(cx: &mut Cx<'_>, id: InstanceId) {
    let Some(dependent) = cx.dependencies.dependents.get_mut(&id) else {
        return;
    };
    let is_held = !all_over(cx.ledger, &dependent.after);
    if is_held == dependent.is_held {
        return;
    }
    dependent.is_held = is_held;
    for range in cx.ledger.waiting_within(id, dependent.last) {
        if is_held {
            cx.bullpen.withdraw(range.first, range.last);
        } else {
            cx.bullpen.fresh(cx.ledger, &range);
        }
    }
}

fn all_over(ledger: &Ledger, after: &[Dependency]) -> bool {
    after.iter().all(|it| is_over(ledger, it.upstream))
}

/// True if no part of it is live.
fn is_over(ledger: &Ledger, upstream: Subject) -> bool {
    match upstream {
        Subject::Instances { first, last } => !ledger.is_live(first, last),
        Subject::Run(run) => {
            let head = ledger.runs().head(run);
            head.is_none_or(|head| head.state.is_terminal())
        }
    }
}

const fn one(id: InstanceId) -> Subject {
    Subject::Instances {
        first: id,
        last: id,
    }
}

fn overlaps(ended: Subject, wanted: Subject) -> bool {
    match (ended, wanted) {
        (
            Subject::Instances { first, last },
            Subject::Instances {
                first: from,
                last: to,
            },
        ) => first <= to && from <= last,
        (ended, wanted) => ended == wanted,
    }
}
