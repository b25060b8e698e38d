//! Finding or starting a coordinator, and taking over its attempts.
//!
//! The state of an attempt comes from five sources, in order of precedence: a live coordinator; the
//! log of a dead one; the handover file; exit statuses of this process's children, which the
//! children of a dead coordinator become; and the kernel, which knows whether a process with that
//! pid and start time exists. An attempt that none of them knows is lost: its remaining processes
//! are killed, and its outcome is unknown.
//!
//! The log of a coordinator is replaced by its successor's first record. So its content is saved to
//! the handover file before.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use baton_core::protocol::worker::io::Input;
use baton_model::ids::LeaseId;
use baton_model::outcome::{AttemptStats, KillCause, Outcome, Report};
use baton_model::task::{Identity, Moment, ProcessNo};
use baton_model::time::Millis;
use baton_runner::coordinator::{Discovery, StartPermit};
use baton_runner::record::Evidence;
use baton_runner::sys::identity::ExitStatus;
use baton_runner::sys::{clock, proc};
use baton_runner::wire::{Attempt, KnownRun, Request, RunKey};

use crate::attempts::{AttemptRecord, AttemptSnapshot, LOST, Phase};
use crate::drive::{Agent, WAIT_MAX};
use crate::error::Error;
use crate::launch::TIMEOUT_GRACE;
use crate::replies::{should_restart, with_outputs};
use crate::state::Handover;

/// How many coordinators in a row may die during the takeover. A single one that is killed is no
/// reason to stop; one that never starts has a permanent cause.
const DEATHS_MAX: u32 = 10;

impl Agent {
    /// Starts or resumes an incarnation.
    pub(crate) fn start_or_resume(&mut self) -> Result<(), Error> {
        let worker_state = self.dir.worker_state;
        let handover = self.dir.handover();
        let same_boot = worker_state.number.0 > 0 && worker_state.boot == self.boot;
        self.dying = worker_state.dying.then_some(KillCause::Suicide);
        let found = self.coordinator.discover();
        match found.map_err(Error::io("reach the coordinator"))? {
            Discovery::Running(link, greeting) => {
                self.link = Some(link);
                let owned = greeting.runs.iter().map(|known| known.run).collect();
                let known = self.merge(handover.attempts, greeting.runs);
                if !same_boot {
                    self.kill_leftovers()?;
                    return self.start_incarnation(ended(known));
                }
                self.guard = greeting.guard.or(handover.guard);
                self.take_over(known, &owned, &HashMap::new());
                self.resume(greeting.fired || worker_state.dying);
            }
            Discovery::Absent(permit) => {
                let evidence = self.evidence(&permit);
                let readable = evidence.is_some();
                let evidence = evidence.unwrap_or_default();
                let known = self.merge(handover.attempts, evidence.runs);
                let guard = evidence.guard.or(handover.guard);
                let now = clock::now().mono;
                let leased = guard.is_some_and(|guard| now < guard.deadline);
                let same_incarnation = same_boot && readable && leased && !worker_state.dying;
                self.start_successor(permit, &known, guard, worker_state.number.0 > 0 || readable)?;
                if !same_incarnation {
                    if worker_state.number.0 > 0 || readable {
                        self.kill_leftovers()?;
                    }
                    return self.start_incarnation(ended(known));
                }
                self.guard = guard;
                self.take_over(known, &BTreeSet::new(), &HashMap::new());
                self.resume(false);
            }
        }
        Ok(())
    }

    /// The coordinator has died while the agent runs: starts another, in the same incarnation.
    pub(crate) fn replace_coordinator(&mut self) -> Result<(), Error> {
        // The record of the first one exists nowhere else once the second has started its log.
        let mut collected = None;
        for _ in 0..DEATHS_MAX {
            self.link = None;
            self.requests.clear();
            match self.try_replace_coordinator(&mut collected) {
                Err(Error::Io { error, .. }) if is_gone(&error) => {}
                other => return other,
            }
        }
        self.try_replace_coordinator(&mut collected)
    }

    fn try_replace_coordinator(
        &mut self,
        collected: &mut Option<Vec<AttemptSnapshot>>,
    ) -> Result<(), Error> {
        self.exits.take(self.boot);
        let ours = collected.take();
        let ours = ours.unwrap_or_else(|| {
            self.attempts
                .iter()
                .map(AttemptRecord::to_snapshot)
                .collect()
        });
        let found = self.coordinator.discover();
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
                *collected = Some(known.clone());
                self.start_successor(permit, &known, self.guard, true)?;
                (known, BTreeSet::new())
            }
        };
        let before = self.attempts.drain().into_iter();
        let before: HashMap<LeaseId, AttemptRecord> =
            before.map(|attempt| (attempt.lease, attempt)).collect();
        self.take_over(known, &owned, &before);
        let checks = std::mem::take(&mut self.checks);
        for check in checks.into_values() {
            self.check(check);
        }
        if self.dying.is_some() {
            let grace = Millis(0);
            let id = self.kill_order.issue(grace);
            self.requests.push(Request::KillEverything { id, grace });
        }
        Ok(())
    }

    /// The record of a dead coordinator; `None` if there was none, or its log cannot be read.
    fn evidence(&self, permit: &StartPermit) -> Option<Evidence> {
        match permit.evidence(&self.coordinator, &self.exits) {
            Ok(records) => records.map(Evidence::from_iter),
            Err(error) => {
                tracing::error!("the log of the dead coordinator cannot be read: {error}");
                None
            }
        }
    }

    /// Starts a coordinator, after the record of the previous one is saved.
    fn start_successor(
        &mut self,
        permit: StartPermit,
        known: &[AttemptSnapshot],
        guard: Option<baton_runner::wire::Guard>,
        successor: bool,
    ) -> Result<(), Error> {
        let attempts = known.to_vec();
        self.dir.set_handover(&Handover { guard, attempts })?;
        let begun = permit.start(&self.coordinator, &mut self.spawner, successor);
        let (link, _) = begun.map_err(Error::io("start the coordinator"))?;
        self.link = Some(link);
        Ok(())
    }

    /// Merges what was known before with what the coordinator reports. Of several runs of one
    /// attempt the last counts.
    fn merge(
        &mut self,
        before: Vec<AttemptSnapshot>,
        reported: Vec<KnownRun>,
    ) -> Vec<AttemptSnapshot> {
        let numbered = before.into_iter().map(|it| (it.run.process, it));
        let mut merged: BTreeMap<ProcessNo, AttemptSnapshot> = numbered.collect();
        for known in reported {
            self.attempts.reserve(known.run);
            let number = known.run.process;
            let there = merged
                .get(&number)
                .filter(|it| it.run >= known.run)
                .cloned();
            let entry = match (there, self.tags.read(&known.tag)) {
                (Some(there), _) if there.run > known.run => {
                    self.discard_run(&known);
                    continue;
                }
                (Some(there), _) => there,
                (None, Some(tag)) => AttemptRecord::new(known.run, tag).to_snapshot(),
                (None, None) => {
                    self.discard_run(&known);
                    continue;
                }
            };
            let seen = match &known.ended {
                Some(ended) if entry.ended.is_none() => {
                    let report = entry.clone().into_record().report(ended, self.dying);
                    Some(with_outputs(&self.launcher, entry.lease, report))
                }
                _ => None,
            };
            let entry = AttemptSnapshot {
                started: known.started.or(entry.started),
                waiting: known.waiting && known.started.is_none(),
                ended: entry.ended.or(seen),
                ..entry
            };
            merged.insert(number, entry);
        }
        merged.into_values().collect()
    }

    /// Discards a run that belongs to no attempt any more: a health check, or one that was
    /// restarted.
    fn discard_run(&mut self, known: &KnownRun) {
        let run = known.run;
        if known.ended.is_none() {
            self.requests.push(Request::KillRun { run });
        }
        self.requests.push(Request::Forget { run });
    }

    /// Queues the first requests to a coordinator.
    pub(crate) fn attach(&mut self) {
        let spared = self.foreign_children.clone();
        let amounts = self
            .launcher
            .amounts(self.config.slots, &self.offer.capacity);
        let mut first = vec![Request::Attach { spared }, Request::Capacity { amounts }];
        first.extend(self.guard.map(Request::Guard));
        self.requests.splice(0..0, first);
    }

    /// Fills the table with the known attempts, and hands over to the coordinator those that it
    /// does not own. `before` is the table under the previous coordinator, if the agent had one.
    fn take_over(
        &mut self,
        known: Vec<AttemptSnapshot>,
        owned: &BTreeSet<RunKey>,
        before: &HashMap<LeaseId, AttemptRecord>,
    ) {
        let fresh = before.is_empty();
        self.waiting.clear();
        let mut restarts = Vec::new();
        for snapshot in known {
            let mut attempt = snapshot.into_record();
            let previous = before.get(&attempt.lease);
            attempt.reported = previous.is_none_or(|it| it.reported);
            attempt.cause = previous.and_then(|it| it.cause);
            let is_owned = owned.contains(&attempt.key);
            attempt.in_handover = !is_owned || previous.is_some_and(|it| it.in_handover);
            if !attempt.is_over() && !is_owned && !self.adopt_or_end(&mut attempt) {
                self.handover_changed = true;
                self.inputs.push_back(Input::Withdrawn(attempt.lease));
                continue;
            }
            let was_over = previous.is_some_and(AttemptRecord::is_over);
            match &attempt.phase {
                Phase::Ended(report) if self.restarts_runner(&attempt, report, was_over) => {
                    restarts.push(attempt.key);
                }
                Phase::Ended(report) if !fresh && !was_over => {
                    let report = report.clone();
                    self.inputs.push_back(Input::Ended(attempt.lease, report));
                }
                Phase::Waiting => {
                    let until = clock::now().mono + WAIT_MAX;
                    self.waiting.push_back((until, attempt.key));
                }
                _ => {}
            }
            if !attempt.is_over() && !std::mem::replace(&mut attempt.reported, true) {
                self.inputs.push_back(Input::Launched(attempt.lease));
            }
            self.attempts.insert(attempt);
        }
        if owned.is_empty() {
            self.requests.push(Request::KillStrays);
        }
        // Attempts on this coordinator's own record need not be in the handover file.
        self.handover_changed |= !owned.is_empty();
        self.resend_stops();
        self.attach();
        for key in restarts {
            if !self.restart_runner(key)
                && let Some(attempt) = self.attempts.get_mut(key)
            {
                attempt.phase = Phase::Ended(LOST.into());
            }
        }
    }

    /// The previous coordinator may not have carried out these stop requests.
    fn resend_stops(&mut self) {
        let live = self.attempts.iter().filter(|attempt| !attempt.is_over());
        let stopping = live.filter_map(|attempt| Some((attempt.key, attempt.cause?)));
        self.requests
            .extend(stopping.map(|(run, cause)| Request::Stop {
                run,
                signal: libc::SIGTERM,
                grace: TIMEOUT_GRACE,
                cause,
            }));
    }

    /// True if the runner of an attempt whose run has ended is restarted.
    fn restarts_runner(&self, attempt: &AttemptRecord, report: &Report, was_over: bool) -> bool {
        !was_over && self.dying.is_none() && should_restart(attempt, report.outcome)
    }

    /// Lets the coordinator adopt a run that still exists, even as a zombie. A run that is gone, or
    /// that may never have started, has ended. False if it certainly has not started: its process
    /// was killed before it called exec.
    fn adopt_or_end(&mut self, attempt: &mut AttemptRecord) -> bool {
        let there = attempt.started.filter(|(_, who)| {
            let stat = proc::stat(who.pid).ok().flatten();
            who.boot == self.boot
                && stat.is_some_and(|stat| {
                    // A zombie that never called exec is nothing to adopt.
                    stat.start_ticks == who.start_ticks && (stat.has_executed || !stat.is_over())
                })
        });
        match there {
            Some((at, identity)) => {
                attempt.phase = Phase::Running;
                // A spec that was encoded once can be encoded again; without a tag the handover
                // file still identifies the attempt.
                let tag = self.tags.write(&attempt.tag()).unwrap_or_default();
                let adopted = Attempt {
                    tag,
                    claim: self.launcher.claim(attempt),
                    timeout: attempt.time_left(at.mono),
                    timeout_grace: TIMEOUT_GRACE,
                };
                self.requests.push(Request::Adopt {
                    run: attempt.key,
                    at,
                    identity,
                    attempt: Some(Box::new(adopted)),
                });
            }
            None => match self.report_unwatched(attempt.started, attempt.is_task()) {
                Some(report) => {
                    let report = with_outputs(&self.launcher, attempt.lease, report);
                    attempt.phase = Phase::Ended(report);
                }
                None => return false,
            },
        }
        true
    }

    /// The report of a run that is no longer watched: its end is known only if it ended as a child
    /// of this process. `None` if it was killed before its program began; the runner of a task is
    /// restarted instead, like one that dies later.
    pub(crate) fn report_unwatched(
        &mut self,
        started: Option<(Moment, Identity)>,
        is_task: bool,
    ) -> Option<Report> {
        self.exits.take(self.boot);
        let status = started.and_then(|(_, who)| self.exits.remove(&who));
        let Some((status, (at, _))) = status.zip(started) else {
            return Some(LOST.into());
        };
        let now = clock::now();
        Some(Report {
            outcome: match status {
                ExitStatus::Code(code) => Outcome::Exited(code),
                ExitStatus::Signal(signal) => Outcome::Signaled(signal),
                ExitStatus::Unexecuted(signal) if is_task => Outcome::Signaled(signal),
                ExitStatus::Unexecuted(_) => return None,
            },
            stats: Some(AttemptStats {
                started: at.wall,
                ended: now.wall,
                elapsed: now.mono.since(at.mono),
                cpu: Millis(0),
                memory_peak: 0,
            }),
            outputs: None,
        })
    }

    /// Saves the remaining handover, if an attempt of it was settled.
    pub(crate) fn save_handover(&mut self) {
        if !std::mem::take(&mut self.handover_changed) {
            return;
        }
        let left = self.attempts.iter().filter(|attempt| attempt.in_handover);
        let attempts: Vec<AttemptSnapshot> = left.map(AttemptRecord::to_snapshot).collect();
        let guard = self.guard.filter(|_| !attempts.is_empty());
        // An attempt that stays in it too long is only reported twice.
        if let Err(error) = self.dir.set_handover(&Handover { guard, attempts }) {
            tracing::warn!("{error}");
        }
    }
}

fn ended(known: Vec<AttemptSnapshot>) -> Vec<AttemptSnapshot> {
    let known = known.into_iter();
    known.filter(|it| it.ended.is_some()).collect()
}

/// True if the peer has died.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
