//! Connecting to or starting the coordinator, and taking over its runs.
//!
//! [`baton_core::takeover`] names the sources that tell of a run, and decides what becomes of it. A
//! lost process is launched again.

use std::collections::BTreeSet;

use baton_core::plan::{Input, Plan};
use baton_core::step::Outbox;
use baton_core::takeover::{Decision, Sighting};
use baton_model::ids::Epoch;
use baton_model::outcome::Outcome;
use baton_model::task::{Identity, Moment};

use super::{Task, TaskError, Watcher};
use crate::checks::Checks;
use crate::coordinator::{Discovery, Greeting, Link, StartPermit, is_gone, outlive_deaths};
use crate::record::Evidence;
use crate::sys::{clock, random};
use crate::wire::{KnownRun, Request, RunEnd, RunKey};

impl Task {
    /// Connects to or starts the coordinator, takes over its runs, and lets the plan continue.
    pub(super) fn attach(&mut self, watcher: &mut dyn Watcher) -> Result<(), TaskError> {
        self.reset_coordinator_state()?;
        let is_death =
            |error: &TaskError| matches!(error, TaskError::Io { error, .. } if is_gone(error));
        // The reports of one that dies stay applied, and the next one gets the rest.
        let link = outlive_deaths(is_death, || self.connect(watcher))?;
        self.launch_limit.attach(&link, clock::now().mono);
        self.link = Some(link);
        self.successor = true;
        if self.plan.is_recovering() {
            for input in std::mem::take(&mut self.early_inputs) {
                self.feed(input);
            }
            let boot_changed = std::mem::take(&mut self.boot_changed);
            self.feed(Input::Resumed { boot_changed });
        } else {
            self.feed(Input::Tick);
            for input in std::mem::take(&mut self.early_inputs) {
                self.feed(input);
            }
        }
        Ok(())
    }

    /// Connects to or starts the coordinator, and takes over its runs. Repeated after a failure, it
    /// takes over the rest.
    fn connect(&mut self, watcher: &mut dyn Watcher) -> Result<Link, TaskError> {
        let found = self
            .coordinator
            .discover()
            .map_err(TaskError::io("connect to the coordinator"))?;
        let (mut link, known) = match found {
            Discovery::Running(link, greeting) => (link, greeting.runs),
            Discovery::Absent(permit) => self.replace_coordinator(permit, watcher)?,
        };
        let spared = self.foreign_children.clone();
        let attach = Request::Attach {
            spared,
            reaper: None,
        };
        link.send(&attach)
            .map_err(TaskError::io("send to the coordinator"))?;
        self.exits.take(self.boot);
        self.take_over(&mut link, known)?;
        Ok(link)
    }

    /// Discards the state of a lost connection. Requests sent before may not have been carried out;
    /// the plan repeats them.
    pub(super) fn reset_coordinator_state(&mut self) -> Result<(), TaskError> {
        if self.link.take().is_none() {
            return Ok(());
        }
        let (spec, snapshot) = (self.spec.clone(), self.plan.snapshot());
        self.plan = Plan::from_snapshot(spec, snapshot).map_err(TaskError::Plan)?;
        self.outbox = Outbox::new(Epoch(0));
        self.orders.clear();
        self.killing = None;
        self.killed_at = None;
        self.to_forget.clear();
        self.checks = Checks::default();
        Ok(())
    }

    fn replace_coordinator(
        &mut self,
        permit: StartPermit,
        watcher: &mut dyn Watcher,
    ) -> Result<(Link, Vec<KnownRun>), TaskError> {
        let mut reaped = |pid| self.exits.start_of(pid);
        let evidence = permit.evidence(&self.coordinator, &mut reaped)?;
        let successor = self.successor || evidence.is_some();
        // A task that has ended told it to exit; nothing was lost with it.
        if evidence.is_some() && self.plan.outcome().is_none() {
            watcher.note("the coordinator is gone; starting another one");
        }
        let known = Evidence::from_iter(evidence.unwrap_or_default()).runs;
        // Observations are committed before the log that holds them is replaced. So are losses:
        // such a run may have been launched nevertheless, and a later runner, which finds the next
        // coordinator alive, would launch it again.
        self.apply_reports(&known);
        self.lose_unstarted_runs();
        self.commit(watcher)?;
        let (link, Greeting { runs, .. }) = permit
            .start(&self.coordinator, &mut self.spawner.as_fn(), successor)
            .map_err(TaskError::io("start the coordinator"))?;
        Ok((link, runs))
    }

    /// Marks runs as lost that were ordered from the dead coordinator and never reported.
    fn lose_unstarted_runs(&mut self) {
        let live = self.plan.live();
        let unstarted = live.filter(|(_, live)| live.started.is_none());
        let unstarted: Vec<RunKey> = unstarted
            .map(|(process, live)| RunKey {
                process,
                run: live.run,
            })
            .collect();
        for run in unstarted {
            self.end_sighted_run(run, Sighting::Unknown);
        }
    }

    /// Applies everything that this coordinator reports, and hands over the runs of a dead one.
    fn take_over(&mut self, link: &mut Link, known: Vec<KnownRun>) -> Result<(), TaskError> {
        self.apply_reports(&known);
        let owned: BTreeSet<RunKey> = known.iter().map(|known| known.run).collect();
        // The plan repeats an order that was never reported, and handles all runs of an earlier boot
        // at once.
        let is_handled = |identity: Identity| self.boot_changed && identity.boot != self.boot;
        let started = self.plan.live().filter_map(|(process, live)| {
            let run = live.run;
            let (at, identity) = live.started.zip(live.identity)?;
            Some((RunKey { process, run }, at, identity))
        });
        let started: Vec<_> = started
            .filter(|(_, _, identity)| !is_handled(*identity))
            .collect();
        for (run, at, identity) in started {
            let boot = self.boot;
            let sight = || self.exits.sight(boot, Some(&identity), |it| it.take(boot));
            match Decision::of(owned.contains(&run), sight) {
                Decision::Watched => {}
                Decision::Adopted => link
                    .send(&Request::Adopt {
                        run,
                        at,
                        identity,
                        attempt: None,
                    })
                    .map_err(TaskError::io("send to the coordinator"))?,
                Decision::Over(sighting) => self.end_sighted_run(run, sighting),
            }
        }
        // Ended runs are in our log with the next commit, and need not be stored after it.
        let over = known.into_iter().filter(|known| known.ended.is_some());
        self.to_forget.extend(over.map(|known| known.run));
        Ok(())
    }

    /// Ends a run that the coordinator has adopted, and whose status the kernel does not give it: it
    /// is known if it ended as our child. Not looked for: the coordinator has seen that it is over.
    pub(super) fn end_unwatched_run(&mut self, run: RunKey, identity: Option<&Identity>) {
        self.exits.take(self.boot);
        let status = identity.and_then(|identity| self.exits.remove(identity));
        self.end_sighted_run(run, status.map_or(Sighting::Unknown, Sighting::from));
    }

    fn end_sighted_run(&mut self, run: RunKey, sighting: Sighting<Outcome>) {
        match sighting {
            Sighting::Ended(outcome) => self.report_exit(run, clock::now().into(), outcome),
            // Not seen, or killed before its program began: either way it has not run.
            Sighting::Present | Sighting::Unexecuted(_) | Sighting::Unknown => {
                self.feed(Input::Lost {
                    process: run.process,
                    run: run.run,
                });
            }
        }
    }

    fn apply_reports(&mut self, known: &[KnownRun]) {
        for known in known {
            let run = known.run;
            if let Some((at, identity)) = known.started {
                self.report_started(run, at, identity);
            }
            if let Some(ended) = &known.ended {
                self.report_ended(ended);
            }
        }
    }

    /// Reports that a run's process was started.
    pub(super) fn report_started(&mut self, run: RunKey, at: Moment, identity: Identity) {
        let live = self.plan.process(run.process).and_then(|p| p.live);
        if live.is_some_and(|live| live.run == run.run && live.started.is_some()) {
            return;
        }
        self.feed(Input::Started {
            process: run.process,
            run: run.run,
            at: at.into(),
            identity: Some(identity),
        });
    }

    /// Reports that a run is over.
    pub(super) fn report_ended(&mut self, ended: &RunEnd) {
        let live = self.plan.process(ended.run.process).and_then(|p| p.live);
        if let Some(live) = live.filter(|live| live.run == ended.run.run) {
            if let Some(identity) = live.identity {
                self.exits.remove(&identity);
            }
            self.report_exit(ended.run, ended.at, ended.outcome);
        } else {
            // Its end is in our log, or will be with the next commit.
            self.to_forget.push(ended.run);
        }
    }

    fn report_exit(&mut self, run: RunKey, at: Moment, outcome: Outcome) {
        self.feed(Input::Exited {
            process: run.process,
            run: run.run,
            at: at.into(),
            outcome,
            random: random::number(),
        });
    }
}
