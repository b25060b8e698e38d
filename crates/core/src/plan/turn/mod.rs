//! One turn: from an input to the events and orders that follow from it.
//!
//! The input itself is handled first; then everything that has become due
//! or possible follows, in a fixed order: timers, the end of a phase, launches in
//! the order of definition. The input goes first, so that a process which ended
//! just before its timeout has ended, and not timed out.

mod ending;
mod report;

use baton_model::state::AttemptState;
use baton_model::task::{LiveRun, Moment, PlanChange, PlanEvent, ProcessNo, RunNo, StopCause};
use baton_model::time::Now;

use super::Plan;
use super::agenda::{Stage, Timer};
use super::fold::Fold;
use super::io::{Input, Order};
use crate::step::Step;

/// A turn under way.
pub(super) struct Turn<'a> {
    plan: &'a mut Plan,
    at: Moment,
    step: Step<PlanEvent, Order>,
}

impl<'a> Turn<'a> {
    /// Begins a turn.
    pub(super) fn new(plan: &'a mut Plan, now: Now, input: &Input) -> Self {
        let mut at = Moment::from(now);
        if !matches!(input, Input::Resumed { boot_changed: true }) {
            at.mono = at.mono.max(plan.fold.snapshot.at.mono);
        }
        Self {
            plan,
            at,
            step: Step::default(),
        }
    }

    /// Handles the input, and everything that follows from it.
    pub(super) fn take(&mut self, input: Input) {
        match input {
            Input::Tick => {}
            Input::Started {
                process,
                run,
                at,
                identity,
            } => self.started(process, run, at.into(), identity),
            Input::LaunchFailed {
                process,
                run,
                at,
                random,
            } => self.launch_failed(process, run, at.into(), random),
            Input::Exited {
                process,
                run,
                at,
                outcome,
                random,
            } => self.exited(process, run, at.into(), outcome, random),
            Input::Lost { process, run } => self.lost(process, run),
            Input::Ready { process, run } => self.ready(process, run),
            Input::Unhealthy { process, run } => self.unhealthy(process, run),
            Input::Kill { grace } => self.kill(grace),
            Input::KillNow => self.kill_now(),
            Input::GiveUp => self.give_up(),
            Input::Resumed { boot_changed } => self.resumed(boot_changed),
        }
        if !self.plan.recovering {
            self.settle();
        }
    }

    /// Ends the turn.
    pub(super) fn done(self) -> Step<PlanEvent, Order> {
        self.step
    }

    /// Changes the plan by an event, and records it.
    fn record(&mut self, change: PlanChange) {
        let event = PlanEvent {
            at: self.at,
            change,
        };
        if let Err(error) = self.plan.fold.apply(&event) {
            panic!(
                "the plan made an event that it cannot take: {error}; {event:?} in {:?}",
                self.plan.fold.snapshot
            );
        }
        self.step.record(event);
    }

    /// Has something done. A plan that is recovering repeats its orders later.
    fn order(&mut self, order: Order) {
        if !self.plan.recovering {
            self.step.emit(order);
        }
    }

    fn fold(&self) -> &Fold {
        &self.plan.fold
    }

    /// Everything that has become due or possible. Each round leads to a later
    /// phase of the attempt, so there are few of them.
    fn settle(&mut self) {
        loop {
            self.fire();
            let moved = match self.fold().snapshot.state {
                AttemptState::Active => self.settle_active(),
                AttemptState::Cleaning => self.settle_cleaning(),
                AttemptState::Finalizing => self.settle_finalizing(),
                _ => false,
            };
            if !moved {
                return;
            }
        }
    }

    /// The timers. Each event disarms its timer in replay as taking it did here.
    fn fire(&mut self) {
        while let Some(timer) = self.plan.fold.agenda.timers.pop_due(self.at.mono) {
            match timer {
                Timer::Budget => self.kill_everything(self.running()),
                Timer::Mark => self.record(PlanChange::BudgetMarked),
                Timer::Timeout(process) => self.stop(process, StopCause::TimedOut),
            }
        }
    }

    /// Starts what may start, as far as there is room.
    fn launch(&mut self, stage: Stage) {
        while self.fold().has_room(stage) {
            let Some(process) = self.fold().agenda.queue(stage).first(self.at.mono) else {
                return;
            };
            let run = RunNo(self.fold().progress(process).runs);
            self.record(PlanChange::RunOrdered { process, run });
            self.order(Order::Launch { process, run });
        }
    }

    /// Stops one run for a reason of its own.
    fn stop(&mut self, process: ProcessNo, cause: StopCause) {
        let Some(live) = self.fold().progress(process).live else {
            return;
        };
        self.record(PlanChange::RunStopping {
            process,
            run: live.run,
            cause,
        });
        self.order_stop(process, &live);
    }

    /// The orders by which a run is stopped; `live` as it was before.
    fn order_stop(&mut self, process: ProcessNo, live: &LiveRun) {
        self.stop_checks(process, live);
        let stop = self.fold().spec_of(process).stop;
        let left = self
            .fold()
            .snapshot
            .ending
            .map(|ending| ending.deadline.since(self.at.mono));
        self.order(Order::Stop {
            process,
            run: live.run,
            signal: stop.signal,
            grace: left.map_or(stop.grace, |left| stop.grace.min(left)),
        });
    }

    fn stop_checks(&mut self, process: ProcessNo, live: &LiveRun) {
        if self.is_checked(process) && live.started.is_some() && live.stopping.is_none() {
            self.order(Order::StopChecks {
                process,
                run: live.run,
            });
        }
    }

    fn is_checked(&self, process: ProcessNo) -> bool {
        let spec = self.fold().spec_of(process);
        spec.ready.is_some() || spec.health.is_some()
    }

    fn is_over(&self) -> bool {
        self.fold().snapshot.state.is_terminal()
    }
}
