//! Records about one run of one process.

use baton_model::state::ProcessState;
use baton_model::task::{
    Disposition, Identity, LastRun, LiveRun, Moment, NextStep, ProcessNo, ProcessProgress, RunEnd,
    RunNo, StopCause,
};
use baton_model::time::Mono;

use super::Fold;
use crate::fsm::{IllegalTransition, Process, ProcessEvent, Transition, transition};
use crate::plan::agenda::{Rank, Stage, Timer};
use crate::plan::error::ApplyError;
use crate::plan::judge;

impl Fold {
    pub(super) fn run_ordered(&mut self, no: ProcessNo, run: RunNo) -> Result<(), ApplyError> {
        let progress = *self.known(no)?;
        if progress.live.is_some() || run != RunNo(progress.runs) {
            return Err(ApplyError::WrongRun {
                process: no,
                found: run,
            });
        }
        let stage = Stage::of(self.spec_of(no));
        if progress.disposition != Disposition::Open || self.stage() != Some(stage) {
            return Err(ApplyError::Misplaced("a run of what may not run any more"));
        }
        if self.agenda.unmet[no.index()] > 0 || progress.not_before > self.snapshot.at.mono {
            return Err(ApplyError::Misplaced("a run before its time"));
        }
        if !self.has_room(stage) {
            return Err(ApplyError::Misplaced("a run beyond max_concurrency"));
        }
        let rank = Rank::of(&self.snapshot, no);
        let queue = self.agenda.queue_mut(stage);
        queue.ready.remove(&rank);
        queue.delayed.remove(&(progress.not_before, rank));
        let ordered = self.snapshot.at;
        let progress = &mut self.snapshot.processes[no.index()];
        progress.runs += 1;
        progress.live = Some(LiveRun {
            run,
            ordered,
            started: None,
            identity: None,
            ready: false,
            stopping: None,
        });
        self.agenda.place(&self.spec, &self.snapshot, no);
        Ok(())
    }

    pub(super) fn run_started(
        &mut self,
        no: ProcessNo,
        run: RunNo,
        started: Moment,
        identity: Option<Identity>,
    ) -> Result<(), ApplyError> {
        let mut live = self.live_run(no, run)?;
        // The record is written when the coordinator has forked *and* knows the
        // process: both rows at once.
        let forked = process_row(no, self.progress(no).state, ProcessEvent::Forked)?;
        let state = process_row(no, forked, ProcessEvent::Started)?;
        let before = self.milestones(no);
        live.started = Some(started);
        live.identity = identity;
        let progress = &mut self.snapshot.processes[no.index()];
        progress.state = state;
        progress.live = Some(live);
        progress.started_once = true;
        if let (Some(timeout), None) = (self.spec_of(no).timeout, live.stopping) {
            let at = started.mono + timeout;
            self.agenda.timers.arm(Timer::Timeout(no), at);
        }
        self.spread(no, before);
        Ok(())
    }

    pub(super) fn run_ready(&mut self, no: ProcessNo, run: RunNo) -> Result<(), ApplyError> {
        let mut live = self.live_run(no, run)?;
        if live.started.is_none() || live.ready || self.spec_of(no).ready.is_none() {
            return Err(ApplyError::Misplaced("a run ready that is not asked to be"));
        }
        let before = self.milestones(no);
        live.ready = true;
        let progress = &mut self.snapshot.processes[no.index()];
        progress.live = Some(live);
        progress.ready_once = true;
        self.spread(no, before);
        Ok(())
    }

    pub(super) fn run_stopping(
        &mut self,
        no: ProcessNo,
        run: RunNo,
        cause: StopCause,
    ) -> Result<(), ApplyError> {
        let live = self.live_run(no, run)?;
        if live.started.is_none() || live.stopping.is_some() {
            return Err(ApplyError::Misplaced("a stop of what does not run"));
        }
        self.mark_stopping(no, cause);
        Ok(())
    }

    pub(super) fn run_ended(
        &mut self,
        no: ProcessNo,
        ended: Moment,
        end: RunEnd,
        failure: bool,
        next: NextStep,
    ) -> Result<(), ApplyError> {
        let Some(live) = self.progress(no).live else {
            return Err(ApplyError::Misplaced("an end of what was not ordered"));
        };
        let mut from = self.progress(no).state;
        if from == ProcessState::Waiting && end == RunEnd::Lost {
            // It is unknown how far the launch came; it counts as forked.
            from = process_row(no, from, ProcessEvent::Forked)?;
        }
        let event = judge::process_event(self.spec_of(no), end, live.stopping);
        let state = process_row(no, from, event)?;
        let before = self.milestones(no);
        self.agenda.timers.disarm(&Timer::Timeout(no));
        let stage = Stage::of(self.spec_of(no));
        self.agenda.queue_mut(stage).live.remove(&no);
        let progress = &mut self.snapshot.processes[no.index()];
        progress.live = None;
        progress.state = state;
        progress.last = Some(LastRun {
            run: live.run,
            state,
            end,
            stopped: live.stopping,
            ordered: live.ordered,
            started: live.started,
            ended,
        });
        count_end(progress, state, failure);
        self.follow(no, next);
        self.spread(no, before);
        Ok(())
    }

    /// Applies the next step after a run.
    fn follow(&mut self, no: ProcessNo, next: NextStep) {
        let fate = match next {
            NextStep::Restart {
                not_before,
                backoff,
            } => {
                let progress = &mut self.snapshot.processes[no.index()];
                progress.state = ProcessState::Waiting;
                progress.not_before = not_before;
                progress.backoff = backoff;
                self.agenda.place(&self.spec, &self.snapshot, no);
                return;
            }
            NextStep::Finished => Disposition::Finished,
            NextStep::Failed => Disposition::Failed,
            NextStep::Dropped => Disposition::Dropped,
        };
        self.close(no, fate);
    }

    pub(super) fn live_run(&self, no: ProcessNo, run: RunNo) -> Result<LiveRun, ApplyError> {
        let live = self.known(no)?.live.filter(|live| live.run == run);
        live.ok_or(ApplyError::WrongRun {
            process: no,
            found: run,
        })
    }

    /// The next step after a run whose outcome is unknown.
    pub(in crate::plan) fn next_after_loss(&self, no: ProcessNo, at: Mono) -> NextStep {
        let spec = self.spec_of(no);
        if self.goes_on(no) {
            judge::next(spec, judge::Judgement::Lost, 0, 0, at, 0)
        } else {
            judge::next_when_over(spec, judge::Judgement::Lost)
        }
    }
}

fn count_end(progress: &mut ProcessProgress, state: ProcessState, failure: bool) {
    match state {
        ProcessState::Success => {
            progress.successes += 1;
            progress.failures_in_row = 0;
        }
        ProcessState::Killed => progress.kills += 1,
        ProcessState::Lost => progress.losses += 1,
        _ => {}
    }
    if failure {
        progress.failures += 1;
        progress.failures_in_row += 1;
    }
}

fn process_row(
    no: ProcessNo,
    state: ProcessState,
    event: ProcessEvent,
) -> Result<ProcessState, ApplyError> {
    match transition::<Process>(state, event) {
        Ok(Transition::Moved(state)) => Ok(state),
        Ok(Transition::Late(_)) => Err(ApplyError::Process(no, IllegalTransition { state, event })),
        Err(illegal) => Err(ApplyError::Process(no, illegal)),
    }
}
