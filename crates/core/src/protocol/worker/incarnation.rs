//! Our own health, giving up, and the end of an incarnation.
//!
//! A worker whose heartbeats are not answered becomes UNHEALTHY and takes no more work. Its attempts
//! end at their own deadlines, by the dead-man timer in the coordinator; the incarnation goes on,
//! however long no scheduler is there. Only where there is no store must it end with its lease: the
//! next scheduler concludes from the worker set which incarnations may still run something.
//!
//! When a worker gives up it kills everything, keeps reporting the ends of
//! its attempts, and only then ends its incarnation.

use baton_model::state::WorkerState;
use baton_model::time::{Millis, Mono, Stamp};

use super::Worker;
use super::io::Effect;
use crate::fsm::{self, Transition, WorkerEvent, transition};

impl Worker {
    /// Brings our own health up to date with the time.
    pub(super) fn observe_time(&mut self, now: Mono, out: &mut Vec<Effect>) {
        self.tombstones.purge(now, self.timeouts.lease);
        if self.state == WorkerState::MustDie {
            return;
        }
        let answered = self.last_answered.filter(|_| self.worker_set.is_some());
        if answered.is_some_and(|answered| now >= self.deadline(answered)) {
            return self.give_up(now, out);
        }
        if self.state == WorkerState::Healthy && !self.is_prompt(now) {
            self.move_to(WorkerState::Unhealthy);
        }
    }

    /// Kills everything and takes nothing more. What it ran is reported as usual.
    pub(super) fn give_up(&mut self, now: Mono, out: &mut Vec<Effect>) {
        if self.state == WorkerState::MustDie {
            return;
        }
        self.move_to(WorkerState::MustDie);
        // A worker that gives up must not later vouch for a set that it no longer belongs to.
        self.worker_set = None;
        let (cause, grace) = self.final_kill(now);
        out.push(Effect::KillAll(cause, grace));
    }

    /// Moves our health along the worker machine's table. The scheduler may be two
    /// rows ahead of us: it tells us only where it stands when it answers.
    ///
    /// # Panics
    /// If the table has no such way: the callers know the state.
    pub(super) fn move_to(&mut self, target: WorkerState) {
        while self.state != target {
            let event = match (self.state, target) {
                (_, WorkerState::MustDie) => WorkerEvent::Condemned,
                (_, WorkerState::New) => WorkerEvent::Reassociated,
                (WorkerState::New, _) => WorkerEvent::RunningTasksKnown,
                (_, WorkerState::Healthy) => WorkerEvent::Proved,
                (_, WorkerState::Unhealthy) => WorkerEvent::WentQuiet,
            };
            match transition::<fsm::Worker>(self.state, event) {
                Ok(Transition::Moved(state)) => self.state = state,
                Ok(Transition::Late(name)) => return self.counts.late::<fsm::Worker>(name),
                Err(illegal) => panic!("{illegal}: {self:?}"),
            }
        }
    }

    /// A dying worker ends its incarnation when nothing runs any more and either all its
    /// ends are acknowledged or it has tried long enough: the next incarnation will
    /// report them.
    pub(super) fn end_life_if_over(&mut self, now: Mono, out: &mut Vec<Effect>) {
        if self.state != WorkerState::MustDie || self.life_ended {
            return;
        }
        if self.attempts.alive() > 0 {
            return;
        }
        let patience = self.report_patience(now);
        let report_until = *self.report_until.get_or_insert(now + patience);
        if !self.has_unsent_statuses() || now >= report_until {
            self.life_ended = true;
            out.push(Effect::EndLife);
        }
    }

    pub(super) fn next_change_of_health(&self) -> Option<Mono> {
        let just_after = Millis(1);
        let answered = self.last_answered.map(|Stamp(at)| at);
        match self.state {
            WorkerState::MustDie => self.report_until,
            WorkerState::Healthy => {
                let quiet = answered.map(|at| at + self.timeouts.heartbeat_gap + just_after);
                let unchecked = self
                    .last_checked
                    .map(|at| at + self.timeouts.check_gap + just_after);
                [quiet, unchecked].into_iter().flatten().min()
            }
            WorkerState::New | WorkerState::Unhealthy => answered
                .filter(|_| self.worker_set.is_some())
                .map(|at| at + self.timeouts.lease),
        }
    }

    fn is_prompt(&self, now: Mono) -> bool {
        let answered = self
            .last_answered
            .is_some_and(|Stamp(at)| now.since(at) <= self.timeouts.heartbeat_gap);
        let checked = self
            .last_checked
            .is_some_and(|at| now.since(at) <= self.timeouts.check_gap);
        answered && checked
    }
}
