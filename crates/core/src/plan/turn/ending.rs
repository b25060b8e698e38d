//! The end of an attempt, by itself or by request, and the takeover after a replay.
//!
//! The verdict is made when the end begins, and it stands: what happens to the
//! regular processes afterwards is our own doing, and the final ones never count.
//! A kill that comes later can only bring the end forward.

use baton_model::state::AttemptState;
use baton_model::task::{LiveRun, PlanChange, ProcessNo, RunEnd, RunNo};
use baton_model::time::Millis;

use super::{Order, Turn};
use crate::fsm::{Attempt, AttemptEvent, Transition, transition};
use crate::plan::agenda::{Stage, numbered};

/// The grace period of a daemonised process once its task is over.
/// The whole budget would let one that ignores the signal hold up every end.
const LEFTOVERS_GRACE_MAX: Millis = Millis::from_secs(2);

impl Turn<'_> {
    /// The regular processes: is it over, and if not, what may start? Answers
    /// whether the phase has changed.
    pub(super) fn settle_active(&mut self) -> bool {
        let queue = self.fold().agenda.queue(Stage::Regular);
        let limit = self.fold().spec.max_failures as usize;
        let too_many = limit > 0 && queue.failed >= limit;
        if queue.open > 0 && !too_many {
            self.launch(Stage::Regular);
            return false;
        }
        let verdict = if too_many || queue.blocked > 0 {
            AttemptState::Failed
        } else {
            AttemptState::Success
        };
        self.begin_cleaning(verdict, self.fold().spec.finalization_wait);
        true
    }

    /// Waiting for the regular processes to be gone.
    pub(super) fn settle_cleaning(&mut self) -> bool {
        if !self.fold().agenda.queue(Stage::Regular).live.is_empty() {
            return false;
        }
        self.record(PlanChange::FinalizingBegun);
        if self.fold().agenda.queue(Stage::Final).open > 0 && self.fold().stage().is_some() {
            // What has slipped away from its run must not meet the final processes.
            self.kill_leftovers();
        }
        true
    }

    /// The final processes.
    pub(super) fn settle_finalizing(&mut self) -> bool {
        let queue = self.fold().agenda.queue(Stage::Final);
        let (waited_for, running) = (queue.open > 0, !queue.live.is_empty());
        if self.fold().stage().is_none() || !waited_for {
            if !running {
                self.finish(PlanChange::AttemptEnded);
                return true;
            }
            if self.fold().stage().is_some() {
                self.stop_all(PlanChange::FinalizersStopping);
            }
            return false;
        }
        self.launch(Stage::Final);
        false
    }

    /// Ends the attempt, with a grace period for its processes.
    pub(super) fn kill(&mut self, grace: Option<Millis>) {
        let budget = grace.unwrap_or(self.fold().spec.finalization_wait);
        if self.fold().snapshot.state == AttemptState::Active {
            return self.begin_cleaning(AttemptState::Killed, budget);
        }
        self.late_kill();
        let deadline = self.at.mono + budget;
        let sooner = self
            .fold()
            .snapshot
            .ending
            .is_some_and(|ending| !ending.killing && deadline < ending.deadline);
        if sooner && !self.is_over() {
            self.record(PlanChange::DeadlineMoved { deadline });
        }
    }

    /// Ends the attempt at once.
    pub(super) fn kill_now(&mut self) {
        let running = self.running();
        if self.fold().snapshot.state == AttemptState::Active {
            self.record(PlanChange::CleaningBegun {
                verdict: AttemptState::Killed,
                budget: Millis(0),
            });
        } else {
            self.late_kill();
        }
        let killing = self
            .fold()
            .snapshot
            .ending
            .is_some_and(|ending| ending.killing);
        if !killing && !self.is_over() {
            self.kill_everything(running);
        }
    }

    /// Gives the attempt up.
    pub(super) fn give_up(&mut self) {
        if self.is_over() {
            self.late_attempt(AttemptEvent::ProofLost);
        } else {
            self.finish(PlanChange::AttemptLost);
        }
    }

    /// Kills what runs; nothing is started any more.
    pub(super) fn kill_everything(&mut self, running: Vec<(ProcessNo, LiveRun)>) {
        self.record(PlanChange::KillBegun);
        for (process, live) in running {
            self.stop_checks(process, &live);
        }
        self.order(Order::KillEverything);
    }

    /// Resumes after a replay: repeats orders that may not have been carried out.
    pub(super) fn resumed(&mut self, boot_changed: bool) {
        self.plan.recovering = false;
        if self.is_over() {
            // Nothing will be recorded again; only the news of the end may be missing.
            return self.tell_end();
        }
        self.record(PlanChange::Resumed { boot_changed });
        let killing = self
            .fold()
            .snapshot
            .ending
            .is_some_and(|ending| ending.killing);
        if killing {
            self.order(Order::KillEverything);
        } else if self.finalizing_unstarted() {
            self.kill_leftovers();
        }
        if !boot_changed {
            self.repeat_kills();
        }
        for process in self.fold().live() {
            if let Some(live) = self.fold().progress(process).live {
                self.repeat(process, &live, killing);
            }
        }
    }

    /// What may be left of a lost run must be gone before the next one begins.
    fn repeat_kills(&mut self) {
        let lost: Vec<(ProcessNo, RunNo)> = numbered(&self.fold().spec)
            .filter_map(|(no, _)| Some((no, self.fold().progress(no).last?)))
            .filter(|(_, last)| last.end == RunEnd::Lost)
            .map(|(no, last)| (no, last.run))
            .collect();
        for (process, run) in lost {
            self.order(Order::KillRun { process, run });
        }
    }

    fn repeat(&mut self, process: ProcessNo, live: &LiveRun, killing: bool) {
        let run = live.run;
        if live.stopping.is_some() {
            if !killing {
                self.order_stop(process, live);
            }
        } else if live.started.is_none() {
            self.order(Order::Launch { process, run });
        } else if self.is_checked(process) {
            self.order(Order::StartChecks { process, run });
        }
    }

    /// True if the turn of the final processes has come, but none has begun: then
    /// the killing before them may not have been carried out. Once one has begun
    /// it has been, and must not hit them.
    fn finalizing_unstarted(&self) -> bool {
        let fold = self.fold();
        fold.snapshot.state == AttemptState::Finalizing
            && numbered(&fold.spec)
                .filter(|(_, process)| process.is_final)
                .map(|(no, _)| fold.progress(no))
                .all(|progress| !progress.started_once && progress.last.is_none())
    }

    /// What runs and has not been told to stop.
    pub(super) fn running(&self) -> Vec<(ProcessNo, LiveRun)> {
        let live = self.fold().live().into_iter();
        live.filter_map(|no| self.fold().progress(no).live.map(|live| (no, live)))
            .filter(|(_, live)| live.stopping.is_none())
            .collect()
    }

    fn begin_cleaning(&mut self, verdict: AttemptState, budget: Millis) {
        self.stop_all(PlanChange::CleaningBegun { verdict, budget });
    }

    /// Records that a stage is over, and stops its live runs.
    fn stop_all(&mut self, change: PlanChange) {
        let running = self.running();
        self.record(change);
        for (process, live) in running {
            self.order_stop(process, &live);
        }
    }

    fn finish(&mut self, change: PlanChange) {
        self.record(change);
        self.tell_end();
    }

    fn tell_end(&mut self) {
        self.kill_leftovers();
        self.order(Order::Finish(self.fold().snapshot.state));
    }

    /// No run is live; what is left has had its time, or gets a little of what is
    /// left of the budget.
    fn kill_leftovers(&mut self) {
        let ending = self.fold().snapshot.ending;
        let ending = ending.filter(|ending| !ending.killing);
        match ending.map(|ending| ending.deadline.since(self.at.mono)) {
            None | Some(Millis(0)) => self.order(Order::KillEverything),
            Some(left) => self.order(Order::KillLeftovers {
                grace: left.min(LEFTOVERS_GRACE_MAX),
            }),
        }
    }

    fn late_kill(&mut self) {
        self.late_attempt(AttemptEvent::KillRequested);
    }

    fn late_attempt(&mut self, event: AttemptEvent) {
        if let Ok(Transition::Late(name)) = transition::<Attempt>(self.fold().snapshot.state, event)
        {
            self.plan.counts.late::<Attempt>(name);
        }
    }
}
