//! Conditions of submissions, judged by the recorded facts alone: whether an instance must wait, may
//! start or must be halted, how many elements of an array are leased, and how many have failed.
//!
//! Nothing here asks the core: the states, the rules and the counts are read from facts. A group of
//! facts becomes durable at once, so what follows from an end must be in its group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_core::ledger::Ledger;
use baton_model::alarm::{Alarm, AlarmKey, AlarmKind};
use baton_model::conditions::{Dependency, DependencyRule, HaltReason, Subject};
use baton_model::fact::{Fact, Verdict};
use baton_model::ids::{InstanceId, LeaseId, RunId};
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_model::time::Wall;

use super::Violation;
use super::alarms::AlarmChecks;

/// The state of an instance, by its facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No fact after its submission.
    Unstarted,
    /// It waits for another attempt.
    Waiting,
    Leased {
        stopping: bool,
    },
    Done,
    Failed,
    Halted,
}

impl State {
    /// Whether it is DONE; none if it has not ended.
    const fn end(self) -> Option<bool> {
        match self {
            Self::Unstarted | Self::Waiting | Self::Leased { .. } => None,
            Self::Done => Some(true),
            Self::Failed | Self::Halted => Some(false),
        }
    }
}

/// One instance of the history.
#[derive(Clone, Debug)]
struct Record {
    spec: Arc<InstanceSpec>,
    state: State,
    /// A client has retried it since it has last ended.
    retried: bool,
}

/// The effect of a dependency on the instances that have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    Wait,
    Start,
    Halt,
}

/// The checkers of conditions. A copy of a store has a copy of them.
#[derive(Clone, Debug, Default)]
pub struct ConditionChecks {
    instances: BTreeMap<InstanceId, Record>,
    /// Whether each run is DONE; none while it is not over.
    runs: BTreeMap<RunId, Option<bool>>,
    /// Unstarted instances with dependencies.
    dependents: BTreeSet<InstanceId>,
    /// The facts of the current group contain an end.
    has_ends: bool,
    /// Arrays with a failed element in the current group.
    failed: BTreeSet<(InstanceId, InstanceId)>,
    /// The deadlines of runs.
    deadlines: BTreeMap<RunId, Wall>,
    alarms: AlarmChecks,
}

impl ConditionChecks {
    /// True if the dependency can never be met, as the store has it.
    #[must_use]
    pub fn is_violated(&self, dependency: Dependency) -> bool {
        self.demand(dependency) == Demand::Halt
    }

    /// True if the instance is FAILED or HALTED.
    #[must_use]
    pub fn can_be_retried(&self, instance: InstanceId) -> bool {
        let record = self.instances.get(&instance);
        record.is_some_and(|it| matches!(it.state, State::Failed | State::Halted))
    }

    /// A leader has taken the store.
    pub(super) fn term_begun(&mut self, ledger: &Ledger) {
        self.alarms.term_begun(ledger);
    }

    fn deadline(&self, alarm: &Alarm) -> Option<Wall> {
        match alarm.subject {
            Subject::Run(run) => self.deadlines.get(&run).copied(),
            Subject::Instances { first, .. } => self.instances.get(&first)?.spec.expected.late_at(),
        }
    }

    /// True if the work of an alarm gives a reason for it.
    fn is_due(&self, alarm: AlarmKey) -> bool {
        match alarm.subject {
            Subject::Run(run) => self.runs.get(&run) == Some(&None),
            Subject::Instances { first, last } => {
                let mut records = self.instances.range(first..=last).map(|(_, it)| it.state);
                match alarm.kind {
                    AlarmKind::Stuck => {
                        records.all(|state| matches!(state, State::Unstarted | State::Waiting))
                    }
                    _ => records.any(|state| state.end().is_none()),
                }
            }
        }
    }

    /// Checks a fact that became durable.
    pub(super) fn committed(&mut self, fact: &Fact) -> Result<(), Violation> {
        match fact {
            Fact::InstancesSubmitted {
                first, last, spec, ..
            } => (first.0..=last.0).for_each(|id| self.submitted(InstanceId(id), spec)),
            Fact::LeaseGranted { lease, .. } => {
                self.check_start(*lease)?;
                self.set(lease.attempt.instance, State::Leased { stopping: false });
            }
            Fact::AttemptAdopted { lease, spec, .. } => {
                let id = lease.attempt.instance;
                if !self.instances.contains_key(&id) {
                    self.submitted(id, spec);
                }
                self.set(id, State::Leased { stopping: false });
            }
            Fact::AttemptEnded { lease, verdict, .. } => {
                let id = lease.attempt.instance;
                self.attempt_ended(id, *verdict);
            }
            Fact::StopRequested {
                instance, reason, ..
            } => {
                self.set(*instance, State::Leased { stopping: true });
                self.check_halt(*instance, *reason)?;
            }
            Fact::InstancesHalted {
                first,
                last,
                reason,
                ..
            } => {
                for id in (first.0..=last.0).map(InstanceId) {
                    self.check_halt(id, *reason)?;
                    self.set(id, State::Halted);
                }
            }
            Fact::InstanceRetried { instance, .. } => {
                self.set(*instance, State::Waiting);
                if let Some(record) = self.instances.get_mut(instance) {
                    record.retried = true;
                }
            }
            Fact::RunRegistered { run, plan, .. } => {
                self.runs.insert(*run, None);
                let deadline = plan.expected.late_at();
                self.deadlines.extend(deadline.map(|at| (*run, at)));
            }
            Fact::RunResumed { run, .. } => {
                self.runs.insert(*run, None);
            }
            Fact::RunEnded { run, state, .. } => {
                self.has_ends = true;
                self.runs.insert(*run, Some(*state == UniversalState::Done));
            }
            _ => {}
        }
        let mut alarms = std::mem::take(&mut self.alarms);
        let checked = alarms.committed(fact, |alarm| self.deadline(alarm));
        self.alarms = alarms;
        checked
    }

    /// Checks what must have happened by the end of a group of facts.
    pub(super) fn group_complete(&mut self) -> Result<(), Violation> {
        if std::mem::take(&mut self.has_ends) {
            for id in &self.dependents {
                let mut after = self.instances[id].spec.conditions.after.iter();
                if let Some(dependency) = after.find(|it| self.is_violated(**it)) {
                    let what = format!("{id} waits for {dependency}, which can never be met");
                    return Err(violation("not-halted", what));
                }
            }
        }
        for (first, last) in std::mem::take(&mut self.failed) {
            self.check_failed_array(first, last)?;
        }
        self.alarms.group_complete(|alarm| self.is_due(alarm))
    }

    fn submitted(&mut self, id: InstanceId, spec: &Arc<InstanceSpec>) {
        let record = Record {
            spec: Arc::clone(spec),
            state: State::Unstarted,
            retried: false,
        };
        self.instances.insert(id, record);
        self.dependents.remove(&id);
        if !spec.conditions.after.is_empty() {
            self.dependents.insert(id);
        }
    }

    fn set(&mut self, id: InstanceId, state: State) {
        self.dependents.remove(&id);
        if let Some(record) = self.instances.get_mut(&id) {
            record.state = state;
            if state.end().is_some() {
                record.retried = false;
                self.has_ends = true;
            }
        }
    }

    fn attempt_ended(&mut self, id: InstanceId, verdict: Verdict) {
        let state = match verdict {
            Verdict::Requeued => State::Waiting,
            Verdict::Done => State::Done,
            Verdict::GaveUp => State::Failed,
            Verdict::Stopped => State::Halted,
        };
        let retried = self.instances.get(&id).is_some_and(|it| it.retried);
        self.set(id, state);
        if let Some(record) = self.instances.get_mut(&id) {
            // Another attempt of what a client has retried.
            record.retried = retried && state == State::Waiting;
            let array = record.spec.conditions.instances;
            self.failed.extend(array.filter(|_| state == State::Failed));
        }
    }

    /// Decides for one dependency, from the ends of all that it names.
    fn demand(&self, dependency: Dependency) -> Demand {
        let end = |id: InstanceId| self.instances.get(&id).and_then(|it| it.state.end());
        let ends: Vec<Option<bool>> = match dependency.upstream {
            Subject::Instances { first, last } => {
                (first.0..=last.0).map(|id| end(InstanceId(id))).collect()
            }
            Subject::Run(run) => vec![self.runs.get(&run).copied().flatten()],
        };
        let forbidden = match dependency.rule {
            DependencyRule::Ok => Some(false),
            DependencyRule::Fail => Some(true),
            DependencyRule::Any => None,
        };
        if forbidden.is_some() && ends.contains(&forbidden) {
            Demand::Halt
        } else if ends.contains(&None) {
            Demand::Wait
        } else {
            Demand::Start
        }
    }

    /// An instance is leased when all that it starts after has ended as it must, and when its array
    /// has room for it and goes on.
    fn check_start(&self, lease: LeaseId) -> Result<(), Violation> {
        let id = lease.attempt.instance;
        let Some(record) = self.instances.get(&id) else {
            return Ok(());
        };
        let conditions = &record.spec.conditions;
        if record.state == State::Unstarted {
            let mut after = conditions.after.iter();
            let unmet = after.find(|it| self.demand(**it) != Demand::Start);
            if let Some(dependency) = unmet {
                let demand = self.demand(*dependency);
                let what = format!("{lease} was granted; after {dependency} it must {demand:?}");
                return Err(violation("started-early", what));
            }
        }
        let Some((first, last)) = conditions.instances else {
            return Ok(());
        };
        let leased = self.count(first, last, |it| matches!(it, State::Leased { .. }));
        if let Some(max) = conditions.concurrent_max
            && leased >= max
        {
            let what = format!("with {lease} {leased} others of {first} to {last} run, of {max}");
            return Err(violation("array-exceeded", what));
        }
        let failed = self.count(first, last, |it| it == State::Failed);
        if let Some(max) = conditions.failed_max
            && failed >= max
            && !record.retried
        {
            let what = format!("{lease} was granted, and {failed} of {max} elements have failed");
            return Err(violation("failed-array-continued", what));
        }
        Ok(())
    }

    /// Nothing is halted but for a reason that holds.
    fn check_halt(&self, id: InstanceId, reason: Option<HaltReason>) -> Result<(), Violation> {
        let (Some(reason), Some(record)) = (reason, self.instances.get(&id)) else {
            return Ok(());
        };
        let conditions = &record.spec.conditions;
        let holds = match reason {
            HaltReason::Dependency(dependency) => {
                record.state == State::Unstarted
                    && conditions.after.contains(&dependency)
                    && self.is_violated(dependency)
            }
            HaltReason::FailedMax(max) => {
                let array = conditions.instances;
                let failed = array.map(|(first, last)| {
                    let is_failed = |state| state == State::Failed;
                    self.count(first, last, is_failed)
                });
                conditions.failed_max == Some(max) && failed >= Some(max)
            }
        };
        if holds {
            return Ok(());
        }
        let what = format!("{id} was stopped because {reason}, which is not so");
        Err(violation("halted-unasked", what))
    }

    /// With as many failed elements as an array allows, nothing of it is left that is not stopped.
    fn check_failed_array(&self, first: InstanceId, last: InstanceId) -> Result<(), Violation> {
        let mut records = self.instances.range(first..=last);
        let max = records
            .next()
            .and_then(|it| it.1.spec.conditions.failed_max);
        let failed = self.count(first, last, |it| it == State::Failed);
        let Some(max) = max.filter(|max| failed >= *max) else {
            return Ok(());
        };
        let is_live = |state: State| {
            let stopped = state == State::Leased { stopping: true };
            state.end().is_none() && !stopped
        };
        let mut records = self.instances.range(first..=last);
        let Some((id, record)) = records.find(|(_, it)| is_live(it.state)) else {
            return Ok(());
        };
        let state = record.state;
        let what = format!("{failed} of {max} elements have failed, and {id} is {state:?}");
        Err(violation("not-halted", what))
    }

    fn count(&self, first: InstanceId, last: InstanceId, is: impl Fn(State) -> bool) -> u32 {
        let records = self.instances.range(first..=last);
        records.filter(|(_, it)| is(it.state)).count() as u32
    }
}

fn violation(checker: &'static str, what: String) -> Violation {
    Violation { checker, what }
}
