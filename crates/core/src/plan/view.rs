//! Read access to a plan: its state, the state of each process, and the reasons for waiting.

use std::fmt;

use baton_model::state::{AttemptState, ProcessState};
use baton_model::task::{
    Condition, Disposition, Ending, PlanSnapshot, ProcessName, ProcessNo, ProcessProgress,
    ProcessSpec, TaskSpec,
};
use baton_model::time::{Mono, Now};

use super::Plan;
use super::agenda::{Milestones, Stage, numbered};
use crate::counts::Counts;

/// The reason for which a process does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// These upstream processes do not meet its conditions yet.
    Dependencies(Vec<(ProcessNo, Condition)>),
    /// `min_duration` since its last run has not passed.
    MinDuration { until: Mono },
    /// It is in backoff after a failure.
    Backoff { until: Mono },
    /// `max_concurrency` is reached.
    Concurrency,
    /// Its launch is in flight.
    Launch,
    /// It is final, and the final stage has not begun.
    Turn,
    /// These upstream processes can never meet its conditions, so it never runs.
    Never(Vec<(ProcessNo, Condition)>),
    /// Its stage of the task is over, and it never ran.
    Over,
    /// Its stage of the task is over. It ran before, and would have run again.
    NotAgain,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dependencies(whom) => write!(f, "waits for {} others", whom.len()),
            Self::MinDuration { .. } => f.write_str("ended too short a time ago"),
            Self::Backoff { .. } => f.write_str("pauses after a failure"),
            Self::Concurrency => f.write_str("waits for others to end: max_concurrency"),
            Self::Launch => f.write_str("is being launched"),
            Self::Turn => f.write_str("runs when everything else is over"),
            Self::Never(_) => f.write_str("never runs: what it waits for will not happen"),
            Self::Over => f.write_str("was not started before the end"),
            Self::NotAgain => f.write_str("was not started again before the end"),
        }
    }
}

/// One process, as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessView<'a> {
    /// Its number.
    pub no: ProcessNo,
    /// Its policies, with its name.
    pub spec: &'a ProcessSpec,
    /// Its state. If no further run starts, that of its last run: LOST, and not WAITING.
    pub state: ProcessState,
    /// Its state, counters, and runs.
    pub progress: &'a ProcessProgress,
    /// Why it does not run, if it waits.
    pub wait: Option<Wait>,
}

impl Plan {
    /// When something becomes due by time alone: hand in a tick then. `None` if
    /// only a report can move the plan.
    #[must_use]
    pub fn next_due(&self) -> Option<Mono> {
        if self.recovering {
            return None;
        }
        let timer = self.fold.agenda.timers.next();
        // Without room, the end of a delay changes nothing.
        let start = self
            .fold
            .stage()
            .filter(|stage| self.fold.has_room(*stage))
            .and_then(|stage| self.fold.agenda.queue(stage).delayed.first())
            .map(|(at, _)| *at);
        match (timer, start) {
            (Some(timer), Some(start)) => Some(timer.min(start)),
            (one, other) => one.or(other),
        }
    }

    #[must_use]
    pub const fn state(&self) -> AttemptState {
        self.fold.snapshot.state
    }

    /// How the attempt ended, once it has.
    #[must_use]
    pub fn outcome(&self) -> Option<AttemptState> {
        Some(self.state()).filter(|state| state.is_terminal())
    }

    /// How the attempt is ending, once it does: the verdict, and the time left.
    #[must_use]
    pub const fn ending(&self) -> Option<&Ending> {
        self.fold.snapshot.ending.as_ref()
    }

    /// Everything that a compacted log has to begin with.
    #[must_use]
    pub fn snapshot(&self) -> PlanSnapshot {
        self.fold.snapshot.clone()
    }

    /// The definition.
    #[must_use]
    pub fn spec(&self) -> &TaskSpec {
        &self.fold.spec
    }

    /// True from the first replayed event until [`super::Input::Resumed`].
    #[must_use]
    pub const fn is_recovering(&self) -> bool {
        self.recovering
    }

    /// Counters of ignored events.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The number of a name.
    #[must_use]
    pub fn find(&self, name: &ProcessName) -> Option<ProcessNo> {
        self.fold.graph.find(name)
    }

    /// The progress of a process.
    #[must_use]
    pub fn process(&self, no: ProcessNo) -> Option<&ProcessProgress> {
        self.fold.snapshot.processes.get(no.index())
    }

    /// Every process as it stands, in the order of definition.
    pub fn processes(&self, now: Now) -> impl Iterator<Item = ProcessView<'_>> + '_ {
        numbered(&self.fold.spec).map(move |(no, spec)| {
            let (progress, wait) = (self.fold.progress(no), self.wait(no, now));
            let state = match (&wait, &progress.last) {
                (Some(Wait::NotAgain), Some(last)) => last.state,
                _ => progress.state,
            };
            ProcessView {
                no,
                spec,
                state,
                progress,
                wait,
            }
        })
    }

    /// Every run under way, by process: what the runner has to ask the coordinator
    /// about before it resumes.
    pub fn live(&self) -> impl Iterator<Item = (ProcessNo, &baton_model::task::LiveRun)> + '_ {
        let live = self.fold.live().into_iter();
        live.filter_map(|no| Some((no, self.fold.progress(no).live.as_ref()?)))
    }

    /// Why a process does not run; `None` if it runs, or has ended.
    #[must_use]
    pub fn wait(&self, no: ProcessNo, now: Now) -> Option<Wait> {
        let progress = self.process(no)?;
        if progress.disposition == Disposition::Blocked {
            return Some(Wait::Never(self.unmet(no, true)));
        }
        if progress.state != ProcessState::Waiting || progress.disposition != Disposition::Open {
            return None;
        }
        if progress.live.is_some() {
            return Some(Wait::Launch);
        }
        let stage = Stage::of(self.fold.spec_of(no));
        if self.fold.stage() != Some(stage) {
            let to_come = stage == Stage::Final
                && matches!(self.state(), AttemptState::Active | AttemptState::Cleaning);
            return Some(match (to_come, progress.last) {
                (true, _) => Wait::Turn,
                (false, None) => Wait::Over,
                (false, Some(_)) => Wait::NotAgain,
            });
        }
        if self.fold.agenda.unmet[no.index()] > 0 {
            return Some(Wait::Dependencies(self.unmet(no, false)));
        }
        let until = progress.not_before;
        if until > now.mono {
            // The pause is min_duration first and backoff after it.
            let in_backoff = until.since(now.mono) <= progress.backoff;
            return Some(if in_backoff {
                Wait::Backoff { until }
            } else {
                Wait::MinDuration { until }
            });
        }
        Some(Wait::Concurrency)
    }

    fn unmet(&self, no: ProcessNo, for_ever: bool) -> Vec<(ProcessNo, Condition)> {
        let fold = &self.fold;
        let before = fold.graph.before(no).iter().copied();
        before
            .filter(|(other, condition)| {
                let milestones = Milestones::of(&fold.spec, &fold.snapshot, *other);
                !milestones.meet(*condition) && (milestones.closed() || !for_ever)
            })
            .collect()
    }
}
