//! A coordinator found or begun, and everything taken over.
//!
//! What is known about an attempt comes from five places, and a fact from an earlier one makes
//! the later ones unnecessary: a coordinator that lives; the log of one that is dead; the file
//! of what was inherited before; our own children, which a dead coordinator's children become;
//! and the kernel, which knows whether a process with that number and that start time is there.
//! What none of them can tell is lost: whatever may be left of it is killed, and its end says
//! nothing about the work.
//!
//! The log of a coordinator goes with its successor's first record. So what it said is
//! written down before.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use baton_core::protocol::worker::io::Input;
use baton_model::ids::LeaseId;
use baton_model::outcome::{KillCause, Outcome, Ran, Report};
use baton_model::task::{Identity, Moment, ProcessNo};
use baton_model::time::Millis;
use baton_runner::coordinator::{Discovery, StartPermit};
use baton_runner::record::Evidence;
use baton_runner::sys::identity::ExitStatus;
use baton_runner::sys::{clock, identity};
use baton_runner::wire::{Attempt, KnownRun, Request, RunKey};

use crate::drive::{Agent, WAIT_MAX};
use crate::error::Error;
use crate::launch::TIMEOUT_GRACE;
use crate::replies::{goes_on, put_out};
use crate::runs::{Inherited, LOST, Phase, Run};
use crate::state::Estate;

/// So many coordinators in a row may die while we meet them. One that is killed then is no
/// reason to stop; one that never lives has a reason of its own.
const DEATHS_MAX: u32 = 10;

impl Agent {
    /// Begins a life, or goes on with one.
    pub(crate) fn enter(&mut self) -> Result<(), Error> {
        let lives = self.dir.lives;
        let estate = self.dir.estate();
        let same_boot = lives.life.0 > 0 && lives.boot == self.boot;
        self.dying = lives.dying.then_some(KillCause::Suicide);
        let found = self.start.discover();
        match found.map_err(Error::io("reach the coordinator"))? {
            Discovery::Running(link, greeting) => {
                self.link = Some(link);
                let owned = greeting.runs.iter().map(|known| known.run).collect();
                let known = self.merge(estate.runs, greeting.runs);
                if !same_boot {
                    self.kill_what_is_left()?;
                    return self.next_life(ended(known));
                }
                self.guard = greeting.guard.or(estate.guard);
                self.take_over(known, &owned, &HashMap::new());
                self.go_on(greeting.fired || lives.dying);
            }
            Discovery::Absent(permit) => {
                let evidence = self.evidence(&permit);
                let readable = evidence.is_some();
                let evidence = evidence.unwrap_or_default();
                let known = self.merge(estate.runs, evidence.runs);
                let guard = evidence.guard.or(estate.guard);
                let now = clock::now().mono;
                let leased = guard.is_some_and(|guard| now < guard.deadline);
                let same_life = same_boot && readable && leased && !lives.dying;
                self.succeed(permit, &known, guard, lives.life.0 > 0 || readable)?;
                if !same_life {
                    if lives.life.0 > 0 || readable {
                        self.kill_what_is_left()?;
                    }
                    return self.next_life(ended(known));
                }
                self.guard = guard;
                self.take_over(known, &BTreeSet::new(), &HashMap::new());
                self.go_on(false);
            }
        }
        Ok(())
    }

    /// The coordinator has died, and we have not: another takes its place, in the same life.
    pub(crate) fn replace(&mut self) -> Result<(), Error> {
        // What the first of them has seen is nowhere else once the second has begun its log.
        let mut gathered = None;
        for _ in 0..DEATHS_MAX {
            self.link = None;
            self.requests.clear();
            match self.replace_once(&mut gathered) {
                Err(Error::Io { error, .. }) if is_gone(&error) => {}
                other => return other,
            }
        }
        self.replace_once(&mut gathered)
    }

    fn replace_once(&mut self, gathered: &mut Option<Vec<Inherited>>) -> Result<(), Error> {
        self.exits.take(self.boot);
        let ours = gathered.take();
        let ours = ours.unwrap_or_else(|| self.runs.iter().map(Run::to_inherited).collect());
        let found = self.start.discover();
        let (known, owned) = match found.map_err(Error::io("reach the coordinator"))? {
            Discovery::Running(link, greeting) => {
                self.link = Some(link);
                let owned = greeting.runs.iter().map(|known| known.run).collect();
                if greeting.fired {
                    self.inputs.push_back(Input::GuardFired);
                }
                (self.merge(ours, greeting.runs), owned)
            }
            Discovery::Absent(permit) => {
                let evidence = self.evidence(&permit).unwrap_or_default();
                let known = self.merge(ours, evidence.runs);
                *gathered = Some(known.clone());
                self.succeed(permit, &known, self.guard, true)?;
                (known, BTreeSet::new())
            }
        };
        let before = self.runs.drain().into_iter();
        let before: HashMap<LeaseId, Run> = before.map(|run| (run.lease, run)).collect();
        self.take_over(known, &owned, &before);
        let checks = std::mem::take(&mut self.checks);
        for check in checks.into_values() {
            self.check(check);
        }
        if self.dying.is_some() {
            let grace = Millis(0);
            let id = self.killing.begin(grace);
            self.requests.push(Request::KillEverything { id, grace });
        }
        Ok(())
    }

    /// What a dead coordinator has seen; `None` if there was none, or its log cannot be read.
    fn evidence(&self, permit: &StartPermit) -> Option<Evidence> {
        match permit.evidence(&self.start, &self.exits) {
            Ok(records) => records.map(Evidence::from_iter),
            Err(error) => {
                tracing::error!("what the coordinator has seen cannot be read: {error}");
                None
            }
        }
    }

    /// Begins a coordinator, once what the one before has seen is kept.
    fn succeed(
        &mut self,
        permit: StartPermit,
        known: &[Inherited],
        guard: Option<baton_runner::wire::Guard>,
        successor: bool,
    ) -> Result<(), Error> {
        let runs = known.to_vec();
        self.dir.set_estate(&Estate { guard, runs })?;
        let begun = permit.start(&self.start, &mut self.spawner, successor);
        let (link, _) = begun.map_err(Error::io("start the coordinator"))?;
        self.link = Some(link);
        Ok(())
    }

    /// Puts together what was known before and what is told now. Of several runs of one
    /// attempt the last counts.
    fn merge(&mut self, before: Vec<Inherited>, told: Vec<KnownRun>) -> Vec<Inherited> {
        let numbered = before.into_iter().map(|it| (it.run.process, it));
        let mut merged: BTreeMap<ProcessNo, Inherited> = numbered.collect();
        for known in told {
            self.runs.taken(known.run);
            let number = known.run.process;
            let there = merged
                .get(&number)
                .filter(|it| it.run >= known.run)
                .cloned();
            let entry = match (there, self.tags.read(&known.tag)) {
                (Some(there), _) if there.run > known.run => {
                    self.dismiss(&known);
                    continue;
                }
                (Some(there), _) => there,
                (None, Some(tag)) => Run::new(known.run, tag).to_inherited(),
                (None, None) => {
                    self.dismiss(&known);
                    continue;
                }
            };
            let seen = match &known.ended {
                Some(ended) if entry.ended.is_none() => {
                    let report = entry.clone().into_run().report(ended, self.dying);
                    Some(put_out(&self.launcher, entry.lease, report))
                }
                _ => None,
            };
            let entry = Inherited {
                started: known.started.or(entry.started),
                waiting: known.waiting && known.started.is_none(),
                ended: entry.ended.or(seen),
                ..entry
            };
            merged.insert(number, entry);
        }
        merged.into_values().collect()
    }

    /// A run that belongs to no attempt any more: a check, or one that was started again.
    fn dismiss(&mut self, known: &KnownRun) {
        let run = known.run;
        if known.ended.is_none() {
            self.requests.push(Request::KillRun { run });
        }
        self.requests.push(Request::Forget { run });
    }

    /// The first words to a coordinator.
    pub(crate) fn introduce(&mut self) {
        let spared = self.strangers.clone();
        let amounts = self
            .launcher
            .amounts(self.config.slots, &self.offer.capacity);
        let mut first = vec![Request::Attach { spared }, Request::Capacity { amounts }];
        first.extend(self.guard.map(Request::Guard));
        self.requests.splice(0..0, first);
    }

    /// Fills the table with what is known, and hands over to the coordinator what it does not
    /// own. `before` is the table of a coordinator that we knew, if we did.
    fn take_over(
        &mut self,
        known: Vec<Inherited>,
        owned: &BTreeSet<RunKey>,
        before: &HashMap<LeaseId, Run>,
    ) {
        let fresh = before.is_empty();
        self.waiting.clear();
        let mut again = Vec::new();
        for inherited in known {
            let mut run = inherited.into_run();
            let was = before.get(&run.lease);
            run.told = was.is_none_or(|was| was.told);
            run.cause = was.and_then(|was| was.cause);
            let is_owned = owned.contains(&run.key);
            run.inherited = !is_owned || was.is_some_and(|was| was.inherited);
            if !run.is_over() && !is_owned {
                self.hand_over(&mut run);
            }
            let was_over = was.is_some_and(Run::is_over);
            match &run.phase {
                Phase::Over(report) if self.is_again(&run, report, was_over) => {
                    again.push(run.key);
                }
                Phase::Over(report) if !fresh && !was_over => {
                    let report = report.clone();
                    self.inputs.push_back(Input::Ended(run.lease, report));
                }
                Phase::Waiting => {
                    let until = clock::now().mono + WAIT_MAX;
                    self.waiting.push_back((until, run.key));
                }
                _ => {}
            }
            if !run.is_over() && !std::mem::replace(&mut run.told, true) {
                self.inputs.push_back(Input::Launched(run.lease));
            }
            self.runs.insert(run);
        }
        if owned.is_empty() {
            self.requests.push(Request::KillStrays);
        }
        // What this coordinator has on record itself need not be inherited.
        self.estate_changed |= !owned.is_empty();
        self.repeat_stops();
        self.introduce();
        for key in again {
            if !self.run_again(key)
                && let Some(run) = self.runs.get_mut(key)
            {
                run.phase = Phase::Over(LOST.into());
            }
        }
    }

    /// The coordinator that was asked to stop these may not have come to it.
    fn repeat_stops(&mut self) {
        let live = self.runs.iter().filter(|run| !run.is_over());
        let asked = live.filter_map(|run| Some((run.key, run.cause?)));
        self.requests
            .extend(asked.map(|(run, cause)| Request::Stop {
                run,
                signal: libc::SIGTERM,
                grace: TIMEOUT_GRACE,
                cause,
            }));
    }

    /// True if an attempt whose run is over goes on with the next one.
    fn is_again(&self, run: &Run, report: &Report, was_over: bool) -> bool {
        !was_over && self.dying.is_none() && goes_on(run, report.outcome)
    }

    /// A run that is there, and be it as a zombie, is watched by the coordinator from now on.
    /// One that is gone, or of which nobody knows whether it was ever there, is over.
    fn hand_over(&mut self, run: &mut Run) {
        let there = run.started.filter(|(_, who)| {
            who.boot == self.boot
                && identity::identify(self.boot, who.pid).is_ok_and(|it| it == Some(*who))
        });
        match there {
            Some((at, identity)) => {
                run.phase = Phase::Running;
                // A spec that was written down once can be written again; without a tag the
                // file of what was inherited still tells whose it is.
                let tag = self.tags.write(&run.tag()).unwrap_or_default();
                let attempt = Attempt {
                    tag,
                    claim: self.launcher.claim(run),
                    timeout: run.time_left(at.mono),
                    timeout_grace: TIMEOUT_GRACE,
                };
                self.requests.push(Request::Adopt {
                    run: run.key,
                    at,
                    identity,
                    attempt: Some(Box::new(attempt)),
                });
            }
            None => {
                let report = self.last_seen(run.started);
                run.phase = Phase::Over(put_out(&self.launcher, run.lease, report));
            }
        }
    }

    /// Nobody watches a run any more: how it ended is known if it ended as our child.
    pub(crate) fn last_seen(&mut self, started: Option<(Moment, Identity)>) -> Report {
        self.exits.take(self.boot);
        let status = started.and_then(|(_, who)| self.exits.remove(&who));
        let Some((status, (at, _))) = status.zip(started) else {
            return LOST.into();
        };
        let now = clock::now();
        Report {
            outcome: match status {
                ExitStatus::Code(code) => Outcome::Exited(code),
                ExitStatus::Signal(signal) => Outcome::Signaled(signal),
            },
            ran: Some(Ran {
                started: at.wall,
                ended: now.wall,
                elapsed: now.mono.since(at.mono),
                cpu: Millis(0),
                memory_peak: 0,
            }),
            outputs: None,
        }
    }

    /// Keeps what is left of what was inherited, if something of it is settled.
    pub(crate) fn keep_estate(&mut self) {
        if !std::mem::take(&mut self.estate_changed) {
            return;
        }
        let left = self.runs.iter().filter(|run| run.inherited);
        let runs: Vec<Inherited> = left.map(Run::to_inherited).collect();
        let guard = self.guard.filter(|_| !runs.is_empty());
        // What is in there too long is only told twice.
        if let Err(error) = self.dir.set_estate(&Estate { guard, runs }) {
            tracing::warn!("{error}");
        }
    }
}

fn ended(known: Vec<Inherited>) -> Vec<Inherited> {
    let known = known.into_iter();
    known.filter(|it| it.ended.is_some()).collect()
}

/// True if whoever we spoke to has died.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
