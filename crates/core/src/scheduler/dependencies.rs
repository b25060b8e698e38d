//! Dependencies between submissions: instances that wait until earlier work has ended.
//!
//! Such instances exist, in the bullpen but not in placement. All of it follows from the ledger, so
//! that a new leader continues: an end that violates a dependency cancels the instances in the same
//! commit, so an upstream that is not live any more has ended as it must.
//!
//! The cost of an end does not depend on how much waits: ranges that are waited for are found by
//! the size of their range, and whether one is live is a question to the ordered sets of the ledger.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use baton_model::conditions::{Dependency, HaltReason, Upstream};
use baton_model::fact::{Fact, Verdict};
use baton_model::ids::{Epoch, InstanceId, RunId};
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;

use super::instances::{self, StopRequest};
use crate::bugs::{Bug, Bugs};
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
    upstream: Upstream,
    is_done: bool,
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

/// All instances that wait for earlier work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dependencies {
    /// Ranges that wait, with what they wait for: the last instance by the first.
    waiting: BTreeMap<InstanceId, (InstanceId, Vec<Dependency>)>,
    /// The first instances of those that wait for a range.
    spans: BTreeMap<Span, BTreeSet<InstanceId>>,
    /// The same for a run.
    runs: BTreeMap<RunId, BTreeSet<InstanceId>>,
    /// Ends that are still to be looked at.
    pending: VecDeque<End>,
    /// Arrays in which as many instances have failed as may, still to be cancelled.
    failed: Vec<(InstanceId, InstanceId, u32)>,
    recent: VecDeque<End>,
    ends: u64,
}

impl Dependencies {
    /// Those of a leader that takes this ledger over.
    pub(crate) fn restore(ledger: &Ledger, bugs: Bugs) -> Self {
        let mut dependencies = Self::default();
        for range in ledger.waiting() {
            dependencies.register(ledger, bugs, &range);
        }
        dependencies
    }

    /// Lets a range wait if it must; true if so.
    pub(crate) fn register(&mut self, ledger: &Ledger, bugs: Bugs, range: &Range) -> bool {
        let after = &range.spec.conditions.after;
        let is_met = |it: &Dependency| is_over(ledger, it.upstream);
        if after.iter().all(is_met) || bugs.has(Bug::DependencyIgnored) {
            return false;
        }
        for dependency in after {
            let dependents = match dependency.upstream {
                Upstream::Instances { first, last } => {
                    self.spans.entry(Span::new(first, last)).or_default()
                }
                Upstream::Run(run) => self.runs.entry(run).or_default(),
            };
            dependents.insert(range.first);
        }
        self.waiting
            .insert(range.first, (range.last, after.clone()));
        true
    }

    /// The first dependency that an instance waits for.
    pub(crate) fn unmet(&self, ledger: &Ledger, id: InstanceId) -> Option<Dependency> {
        let (_, (last, after)) = self.waiting.range(..=id).next_back()?;
        let mut after = after.iter().filter(|_| id <= *last);
        after.find(|it| !is_over(ledger, it.upstream)).copied()
    }

    /// True if a range of waiting instances is not to be placed yet.
    pub(crate) fn holds(&self, first: InstanceId) -> bool {
        self.waiting.contains_key(&first)
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
        Ok(ends.any(|end| {
            overlaps(end.upstream, dependency.upstream) && !dependency.rule.allows(end.is_done)
        }))
    }

    /// Notes what a fact ends.
    pub(crate) fn observe(&mut self, ledger: &Ledger, fact: &Fact) {
        let (upstream, is_done) = match fact {
            Fact::AttemptEnded { lease, verdict, .. } if *verdict != Verdict::Requeued => {
                let id = lease.attempt.instance;
                if *verdict == Verdict::GaveUp
                    && let Some(instance) = ledger.instance(id)
                {
                    self.note_failure(ledger, &instance.spec);
                }
                let one = Upstream::Instances {
                    first: id,
                    last: id,
                };
                (one, *verdict == Verdict::Done)
            }
            Fact::InstancesHalted { first, last, .. } => {
                let (first, last) = (*first, *last);
                (Upstream::Instances { first, last }, false)
            }
            Fact::RunEnded { run, state, .. } => {
                (Upstream::Run(*run), *state == UniversalState::Done)
            }
            _ => return,
        };
        let end = End { upstream, is_done };
        self.ends += 1;
        self.recent.push_back(end);
        if self.recent.len() > ENDS_REMEMBERED_MAX {
            self.recent.pop_front();
        }
        if !self.waiting.is_empty() {
            self.pending.push_back(end);
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

    /// The ranges that wait for what has ended, by their first instances.
    fn dependents(&self, upstream: Upstream) -> BTreeSet<InstanceId> {
        match upstream {
            Upstream::Run(run) => self.runs.get(&run).cloned().unwrap_or_default(),
            Upstream::Instances { first, last } => {
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
        let Some((_, after)) = self.waiting.remove(&id) else {
            return;
        };
        for dependency in after {
            match dependency.upstream {
                Upstream::Instances { first, last } => {
                    let span = Span::new(first, last);
                    if let Some(dependents) = self.spans.get_mut(&span) {
                        dependents.remove(&id);
                        if dependents.is_empty() {
                            self.spans.remove(&span);
                        }
                    }
                }
                Upstream::Run(run) => {
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

/// Does what follows from one end; false if none is left.
pub(super) fn advance(cx: &mut Cx<'_>, protocol: &mut Protocol) -> bool {
    let continues = cx.config.bugs.has(Bug::FailedMaxIgnored);
    let failed = cx.dependencies.failed.pop().filter(|_| !continues);
    if let Some((first, last, max)) = failed {
        let reason = Some(HaltReason::FailedMax(max));
        instances::stop(cx, protocol, (first, last), &StopRequest::default(), reason);
        return true;
    }
    let Some(end) = cx.dependencies.pending.pop_front() else {
        return false;
    };
    for id in cx.dependencies.dependents(end.upstream) {
        settle(cx, protocol, id, end);
    }
    true
}

/// Starts or cancels a range that waits for what has ended, or lets it wait on.
fn settle(cx: &mut Cx<'_>, protocol: &mut Protocol, id: InstanceId, end: End) {
    let Some((last, after)) = cx.dependencies.waiting.get(&id) else {
        return;
    };
    let (first, last) = (id, *last);
    let violated = after.iter().find(|dependency| {
        overlaps(end.upstream, dependency.upstream) && !dependency.rule.allows(end.is_done)
    });
    if let Some(dependency) = violated.copied() {
        cx.dependencies.forget(id);
        let reason = Some(HaltReason::Dependency(dependency));
        instances::stop(cx, protocol, (first, last), &StopRequest::default(), reason);
        return;
    }
    if after.iter().all(|it| is_over(cx.ledger, it.upstream)) {
        cx.dependencies.forget(id);
        let ranges: Vec<Range> = cx.ledger.waiting_within(first, last).collect();
        for range in ranges {
            cx.bullpen.fresh(&range);
        }
    }
}

/// True if no part of it is live.
fn is_over(ledger: &Ledger, upstream: Upstream) -> bool {
    match upstream {
        Upstream::Instances { first, last } => !ledger.is_live(first, last),
        Upstream::Run(run) => {
            let head = ledger.runs().head(run);
            head.is_none_or(|head| head.state.is_terminal())
        }
    }
}

fn overlaps(ended: Upstream, wanted: Upstream) -> bool {
    match (ended, wanted) {
        (
            Upstream::Instances { first, last },
            Upstream::Instances {
                first: from,
                last: to,
            },
        ) => first <= to && from <= last,
        (ended, wanted) => ended == wanted,
    }
}
