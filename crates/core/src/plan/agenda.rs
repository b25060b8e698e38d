//! Derived state of a plan, kept up to date: ready, delayed and live processes, counts, and
//! timers.
//!
//! All of it is derived. [`Agenda::rebuild`] makes it from the plain data; the
//! fold keeps it up to date by the same rules, and the random tests hold the two
//! against each other after every record.

use std::collections::BTreeSet;

use baton_model::state::AttemptState;
use baton_model::task::{
    Condition, Disposition, Ending, PlanSnapshot, ProcessNo, ProcessSpec, TaskSpec,
};
use baton_model::time::Mono;

use super::graph::Graph;
use crate::timers::Timers;

/// How many records of its use a finalization budget gets.
const BUDGET_MARKS: u64 = 4;

/// Timers of a plan. Sorted so that of two at the same instant the one that
/// makes the other needless comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The finalization budget is used up.
    Budget,
    /// A part of it is, which is worth a record.
    Mark,
    /// A run has run for too long.
    Timeout(ProcessNo),
}

/// The two stages of a task, which share nothing: regular processes until the end begins, then
/// final ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The regular processes.
    Regular,
    /// The final ones.
    Final,
}

impl Stage {
    pub(super) const fn of(spec: &ProcessSpec) -> Self {
        if spec.is_final {
            Self::Final
        } else {
            Self::Regular
        }
    }

    pub(super) const fn at(state: AttemptState) -> Option<Self> {
        match state {
            AttemptState::Active => Some(Self::Regular),
            AttemptState::Finalizing => Some(Self::Final),
            _ => None,
        }
    }
}

/// The rank of a process among those that may start: fewest runs first, then the order
/// of definition. So first runs keep the order of definition, and a daemon
/// that restarts at once cannot starve the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    runs: u64,
    pub(super) no: ProcessNo,
}

impl Rank {
    const LAST: Self = Self {
        runs: u64::MAX,
        no: ProcessNo::MAX,
    };

    /// The rank of one process.
    pub(super) fn of(snapshot: &PlanSnapshot, no: ProcessNo) -> Self {
        let runs = snapshot.processes[no.index()].runs;
        Self { runs, no }
    }
}

/// The processes of one stage, by what they wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Queue {
    /// May start as soon as there is room.
    pub(super) ready: BTreeSet<Rank>,
    /// May start then.
    pub(super) delayed: BTreeSet<(Mono, Rank)>,
    /// A run is under way.
    pub(super) live: BTreeSet<ProcessNo>,
    /// How many are waited for and may still run.
    pub(super) open: usize,
    /// How many have failed for good.
    pub(super) failed: usize,
    /// How many are waited for and can never start.
    pub(super) blocked: usize,
}

impl Queue {
    /// The first that may start by `now`. Looks through
    /// what has become due since the last record, which the next record makes
    /// ready once and for all.
    pub(super) fn first(&self, now: Mono) -> Option<ProcessNo> {
        let due = self
            .delayed
            .range(..=(now, Rank::LAST))
            .map(|(_, rank)| *rank)
            .min();
        let ready = self.ready.first().copied();
        let first = match (ready, due) {
            (Some(ready), Some(due)) => Some(ready.min(due)),
            (one, other) => one.or(other),
        };
        first.map(|rank| rank.no)
    }
}

/// What has happened to a process, as far as others wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Milestones {
    started: bool,
    healthy: bool,
    fate: Disposition,
}

impl Milestones {
    /// Those of one process.
    pub(super) fn of(spec: &TaskSpec, snapshot: &PlanSnapshot, no: ProcessNo) -> Self {
        let progress = &snapshot.processes[no.index()];
        let checked = spec.processes[no.index()].ready.is_some();
        Self {
            started: progress.started_once,
            healthy: if checked {
                progress.ready_once
            } else {
                progress.started_once
            },
            fate: progress.disposition,
        }
    }

    /// True if `condition` is met. Once met, it stays met.
    pub(super) const fn meet(self, condition: Condition) -> bool {
        match condition {
            Condition::Success => matches!(self.fate, Disposition::Finished),
            Condition::Exit => matches!(self.fate, Disposition::Finished | Disposition::Failed),
            Condition::Started => self.started,
            Condition::Healthy => self.healthy,
        }
    }

    /// True if nothing more will be reached, for reasons of its own. Where its part
    /// of the task is over, so it is for those who wait for it.
    pub(super) const fn closed(self) -> bool {
        !matches!(self.fate, Disposition::Open | Disposition::Dropped)
    }
}

/// Everything derived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Agenda {
    /// How many conditions each process still waits for.
    pub(super) unmet: Vec<usize>,
    regular: Queue,
    last: Queue,
    pub(super) timers: Timers<Timer>,
}

impl Agenda {
    /// Derives everything from the plain data.
    pub(super) fn rebuild(spec: &TaskSpec, graph: &Graph, snapshot: &PlanSnapshot) -> Self {
        let mut agenda = Self {
            unmet: vec![0; spec.processes.len()],
            regular: Queue::default(),
            last: Queue::default(),
            timers: Timers::default(),
        };
        for (no, process) in numbered(spec) {
            agenda.unmet[no.index()] = graph
                .before(no)
                .iter()
                .filter(|(other, condition)| {
                    !Milestones::of(spec, snapshot, *other).meet(*condition)
                })
                .count();
            agenda.count(process, snapshot.processes[no.index()].disposition);
            agenda.place(spec, snapshot, no);
        }
        if !snapshot.state.is_terminal() {
            agenda.arm_timeouts(spec, snapshot);
            agenda.arm_ending(snapshot.ending.as_ref());
        }
        agenda
    }

    /// The queue of a plan.
    pub(super) const fn queue(&self, stage: Stage) -> &Queue {
        match stage {
            Stage::Regular => &self.regular,
            Stage::Final => &self.last,
        }
    }

    /// The queue of a plan, to change it.
    pub(super) const fn queue_mut(&mut self, stage: Stage) -> &mut Queue {
        match stage {
            Stage::Regular => &mut self.regular,
            Stage::Final => &mut self.last,
        }
    }

    /// Puts a process into the queue that matches its progress.
    pub(super) fn place(&mut self, spec: &TaskSpec, snapshot: &PlanSnapshot, no: ProcessNo) {
        let progress = &snapshot.processes[no.index()];
        let unmet = self.unmet[no.index()];
        let rank = Rank::of(snapshot, no);
        let queue = self.queue_mut(Stage::of(&spec.processes[no.index()]));
        if progress.live.is_some() {
            queue.live.insert(no);
        } else if progress.disposition == Disposition::Open && unmet == 0 {
            if progress.not_before > snapshot.at.mono {
                queue.delayed.insert((progress.not_before, rank));
            } else {
                queue.ready.insert(rank);
            }
        }
    }

    /// Makes ready whose time has come.
    pub(super) fn promote(&mut self, now: Mono) {
        for queue in [&mut self.regular, &mut self.last] {
            while let Some((at, rank)) = queue.delayed.first().copied() {
                if at > now {
                    break;
                }
                queue.delayed.pop_first();
                queue.ready.insert(rank);
            }
        }
    }

    /// Moves a process from one fate to another in the counts.
    pub(super) fn recount(&mut self, process: &ProcessSpec, from: Disposition, to: Disposition) {
        if from == Disposition::Open && to != Disposition::Open && !process.ephemeral {
            self.queue_mut(Stage::of(process)).open -= 1;
        }
        if to != Disposition::Open {
            self.count(process, to);
        }
    }

    /// Sets the timers of the end to what they should be.
    pub(super) fn arm_ending(&mut self, ending: Option<&Ending>) {
        self.timers.disarm(&Timer::Budget);
        self.timers.disarm(&Timer::Mark);
        let Some(ending) = ending.filter(|ending| !ending.killing) else {
            return;
        };
        self.timers.arm(Timer::Budget, ending.deadline);
        let part = ending.budget.scaled(1, BUDGET_MARKS);
        let mark = ending.marked + part;
        if part.0 > 0 && mark < ending.deadline {
            self.timers.arm(Timer::Mark, mark);
        }
    }

    fn arm_timeouts(&mut self, spec: &TaskSpec, snapshot: &PlanSnapshot) {
        for (no, process) in numbered(spec) {
            let live = snapshot.processes[no.index()].live;
            let started = live
                .filter(|live| live.stopping.is_none())
                .and_then(|live| live.started);
            if let (Some(started), Some(timeout)) = (started, process.timeout) {
                self.timers.arm(Timer::Timeout(no), started.mono + timeout);
            }
        }
    }

    /// The task does not wait for an ephemeral process, so it is not counted.
    fn count(&mut self, process: &ProcessSpec, fate: Disposition) {
        if process.ephemeral {
            return;
        }
        let queue = self.queue_mut(Stage::of(process));
        match fate {
            Disposition::Open => queue.open += 1,
            Disposition::Failed => queue.failed += 1,
            Disposition::Blocked => queue.blocked += 1,
            Disposition::Finished | Disposition::Dropped => {}
        }
    }
}

/// The processes of a task with their numbers.
pub(super) fn numbered(spec: &TaskSpec) -> impl Iterator<Item = (ProcessNo, &ProcessSpec)> + '_ {
    (0..).map(ProcessNo).zip(&spec.processes)
}
