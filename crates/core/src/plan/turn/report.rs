//! Reports of the coordinator about one run.
//!
//! The first report of an event stands. A late or duplicate report, or one about an unknown
//! run, is counted and changes nothing.

use baton_model::outcome::Outcome;
use baton_model::state::ProcessState;
use baton_model::task::{
    Identity, LiveRun, Moment, PlanChange, ProcessNo, RunEnd, RunNo, StopCause,
};

use super::{Order, Turn};
use crate::fsm::{Process, ProcessEvent, Transition, transition};
use crate::plan::judge::{self, Judgement};

impl Turn<'_> {
    /// A launch has worked.
    pub(super) fn started(
        &mut self,
        process: ProcessNo,
        run: RunNo,
        at: Moment,
        identity: Option<Identity>,
    ) {
        let Some(live) = self.live(process, run, ProcessEvent::Started) else {
            return;
        };
        if live.started.is_some() {
            let state = self.fold().progress(process).state;
            return self.late(state, ProcessEvent::Started);
        }
        self.record(PlanChange::RunStarted {
            process,
            run,
            started: self.when(at, &live),
            identity,
        });
        if self.is_checked(process) && live.stopping.is_none() {
            self.order(Order::StartChecks { process, run });
        }
    }

    /// A launch has not worked.
    pub(super) fn launch_failed(
        &mut self,
        process: ProcessNo,
        run: RunNo,
        at: Moment,
        random: u64,
    ) {
        let Some(live) = self.live(process, run, ProcessEvent::LaunchFailed) else {
            return;
        };
        if live.started.is_some() {
            return self.plan.counts.notice("plan/launch-failure-after-start");
        }
        let end = RunEnd::Observed(Outcome::LaunchFailed);
        self.ended(process, &live, at, end, random);
    }

    /// A run is over.
    pub(super) fn exited(
        &mut self,
        process: ProcessNo,
        run: RunNo,
        at: Moment,
        outcome: Outcome,
        random: u64,
    ) {
        if outcome == Outcome::LaunchFailed {
            return self.launch_failed(process, run, at, random);
        }
        let end = RunEnd::Observed(outcome);
        let Some(spec) = self.plan.spec().processes.get(process.index()) else {
            return self.plan.counts.notice("plan/report-of-unknown-process");
        };
        let event = judge::process_event(spec, end, None);
        let Some(live) = self.live(process, run, event) else {
            return;
        };
        if live.started.is_none() {
            // What has ended had begun: the report of it was overtaken or is gone.
            self.record(PlanChange::RunStarted {
                process,
                run,
                started: self.when(at, &live),
                identity: None,
            });
        }
        self.ended(process, &live, at, end, random);
    }

    /// The outcome of a run is unknown. Processes of it may be left, and another
    /// run is going to follow, so they are killed.
    pub(super) fn lost(&mut self, process: ProcessNo, run: RunNo) {
        let Some(live) = self.live(process, run, ProcessEvent::ProofLost) else {
            return;
        };
        self.ended(process, &live, self.at, RunEnd::Lost, 0);
        self.order(Order::KillRun { process, run });
    }

    /// A run has passed its readiness check.
    pub(super) fn ready(&mut self, process: ProcessNo, run: RunNo) {
        let expected = self.checked_run(process, run).filter(|live| !live.ready);
        if expected.is_some() && self.fold().spec_of(process).ready.is_some() {
            self.record(PlanChange::RunReady { process, run });
        } else {
            self.plan.counts.notice("plan/ready-not-expected");
        }
    }

    /// A run has failed its health check.
    pub(super) fn unhealthy(&mut self, process: ProcessNo, run: RunNo) {
        if self.checked_run(process, run).is_some() {
            self.stop(process, StopCause::Unhealthy);
        } else {
            self.plan.counts.notice("plan/unhealthy-not-expected");
        }
    }

    fn ended(&mut self, process: ProcessNo, live: &LiveRun, at: Moment, end: RunEnd, random: u64) {
        let ended = self.when(at, live);
        let spec = self.fold().spec_of(process);
        let progress = self.fold().progress(process);
        let judgement = Judgement::of(spec, end, live.stopping);
        let next = if self.fold().goes_on(process) {
            judge::next(
                spec,
                judgement,
                progress.failures,
                progress.failures_in_row,
                ended.mono,
                random,
            )
        } else {
            judge::next_when_over(spec, judgement)
        };
        self.record(PlanChange::RunEnded {
            process,
            run: live.run,
            ended,
            end,
            failure: judgement.is_failure(),
            next,
        });
        self.stop_checks(process, live);
    }

    /// A time that another process read, clamped: not ahead of ours, and in order.
    fn when(&self, at: Moment, live: &LiveRun) -> Moment {
        let earliest = live.started.unwrap_or(live.ordered).mono;
        Moment {
            mono: at.mono.min(self.at.mono).max(earliest),
            wall: at.wall,
        }
    }

    /// The run under way, if the report is about it and its checks matter.
    fn checked_run(&self, process: ProcessNo, run: RunNo) -> Option<LiveRun> {
        let progress = self.fold().snapshot.processes.get(process.index())?;
        let live = progress.live.filter(|live| live.run == run)?;
        let running = live.started.is_some() && live.stopping.is_none();
        (running && self.is_checked(process)).then_some(live)
    }

    /// The run under way, if the report is about it; counts the report otherwise.
    fn live(&mut self, process: ProcessNo, run: RunNo, event: ProcessEvent) -> Option<LiveRun> {
        let Some(progress) = self.fold().snapshot.processes.get(process.index()).copied() else {
            self.plan.counts.notice("plan/report-of-unknown-process");
            return None;
        };
        match (progress.live, progress.last) {
            (Some(live), _) if live.run == run => return Some(live),
            (_, Some(last)) if last.run == run => self.late(last.state, event),
            _ if run.0 < progress.runs => self.plan.counts.notice("plan/report-of-an-older-run"),
            _ => self.plan.counts.notice("plan/report-of-unknown-run"),
        }
        None
    }

    fn late(&mut self, state: ProcessState, event: ProcessEvent) {
        match transition::<Process>(state, event) {
            Ok(Transition::Late(name)) => self.plan.counts.late::<Process>(name),
            Ok(Transition::Moved(_)) | Err(_) => {
                self.plan.counts.notice("plan/report-out-of-order");
            }
        }
    }
}
