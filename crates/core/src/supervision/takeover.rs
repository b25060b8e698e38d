//! Taking attempts over: an agent resumes, or its coordinator was replaced.
//!
//! The state of an attempt comes from the sources that [`crate::takeover`] names, and from the
//! handover of an earlier takeover, which is the log of the coordinator before. An attempt that none
//! of them knows is lost: its remaining processes are killed, and its outcome is unknown.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::device::DeviceShare;
use baton_model::ids::LeaseId;
use baton_model::outcome::{KillCause, Report};
use baton_model::task::{Identity as ProcessIdentity, Moment, ProcessNo, RunKey};
use baton_model::time::{Millis, Mono};
use serde::{Deserialize, Serialize};

use super::attempts::{Assignment, Attempt, Attempts, LOST, Phase, is_resumable};
use super::io::{Action, Ending, Sighting};
use super::kill::KILL_RETRY;
use super::{Identity, Supervisor, WAIT_MAX};
use crate::protocol::worker::io::Input;
use crate::takeover::Decision;

/// What an agent finds of the incarnation before it, when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remnant {
    /// An incarnation of this boot is on record.
    pub is_of_this_boot: bool,
    /// It was given up, and can only end.
    pub is_dying: bool,
    pub coordinator: CoordinatorState,
}

/// A coordinator that an agent finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinatorState {
    /// It has the attempts on record, and watches the time.
    Running,
    /// Its log can be read. It has watched no time since its death; its successor kills attempts
    /// whose deadlines have passed before it does anything else.
    Dead {
        /// An order of the dead-man timer is known, from which the deadlines follow.
        has_order: bool,
    },
    /// There was none, or its log cannot be read.
    Unknown,
}

impl Remnant {
    /// True if the incarnation goes on.
    #[must_use]
    pub fn is_resumable(self) -> bool {
        let is_guarded = match self.coordinator {
            CoordinatorState::Running => true,
            CoordinatorState::Dead { has_order } => !self.is_dying && has_order,
            CoordinatorState::Unknown => false,
        };
        self.is_of_this_boot && is_guarded
    }
}

/// What is known of an attempt apart from what its coordinator will report.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KnownAttempt {
    pub run: RunKey,
    pub assignment: Assignment,
    pub started: Option<(Moment, ProcessIdentity)>,
    /// It waits for room.
    pub waiting: bool,
    pub ended: Option<Report>,
    /// The devices that it holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceShare>,
}

impl From<&Attempt> for KnownAttempt {
    fn from(attempt: &Attempt) -> Self {
        Self {
            run: attempt.run,
            assignment: attempt.assignment.clone(),
            started: attempt.started,
            waiting: attempt.phase == Phase::Waiting,
            devices: attempt.devices.clone(),
            ended: match &attempt.phase {
                Phase::Ended(report) | Phase::Restarting(report) | Phase::Concluded(report) => {
                    Some(report.clone())
                }
                Phase::AwaitingSecrets | Phase::Requested | Phase::Waiting | Phase::Running => None,
            },
        }
    }
}

/// A run on a coordinator's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedRun {
    pub run: RunKey,
    /// The attempt that it was stored with, if that can be read.
    pub assignment: Option<Assignment>,
    pub started: Option<(Moment, ProcessIdentity)>,
    pub waiting: bool,
    pub ended: Option<Ending>,
    /// The devices that its attempt holds.
    pub devices: Vec<DeviceShare>,
}

/// All attempts that are known when a coordinator is taken over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    attempts: BTreeMap<ProcessNo, KnownAttempt>,
    /// Runs that belong to no attempt any more: health checks, and runs that were replaced.
    discarded: Vec<(RunKey, bool)>,
}

impl Inventory {
    /// Merges what was known before with what a coordinator has on record. Of several runs of one
    /// attempt the last counts.
    #[must_use]
    pub fn new(
        before: Vec<KnownAttempt>,
        reported: Vec<ReportedRun>,
        dying: Option<KillCause>,
    ) -> Self {
        let before = before.into_iter().map(|known| (known.run.process, known));
        let mut inventory = Self {
            attempts: before.collect(),
            discarded: Vec::new(),
        };
        for reported in reported {
            inventory.merge(reported, dying);
        }
        inventory
    }

    fn merge(&mut self, reported: ReportedRun, dying: Option<KillCause>) {
        let run = reported.run;
        let there = self.attempts.remove(&run.process);
        let replaced = there.as_ref().is_some_and(|there| there.run > run);
        let known = match (there, reported.assignment) {
            (Some(there), _) if there.run >= run => there,
            (there, Some(assignment)) => KnownAttempt {
                run,
                assignment,
                started: None,
                waiting: false,
                ended: None,
                devices: there.map(|there| there.devices).unwrap_or_default(),
            },
            (there, None) => {
                self.discarded.push((run, reported.ended.is_some()));
                self.attempts
                    .extend(there.map(|there| (run.process, there)));
                return;
            }
        };
        if replaced {
            self.discarded.push((run, reported.ended.is_some()));
            self.attempts.insert(run.process, known);
            return;
        }
        let started = reported.started.or(known.started);
        let seen = reported
            .ended
            .filter(|_| known.ended.is_none())
            .map(|ending| {
                let began = started.map(|(at, _)| at.mono);
                known.assignment.report(ending, began, dying)
            });
        let devices = Some(reported.devices).filter(|it| !it.is_empty());
        let known = KnownAttempt {
            devices: devices.unwrap_or_else(|| known.devices.clone()),
            started,
            waiting: reported.waiting && reported.started.is_none(),
            ended: known.ended.clone().or(seen),
            ..known
        };
        self.attempts.insert(run.process, known);
    }

    /// The attempts, for the handover.
    pub fn attempts(&self) -> impl Iterator<Item = &KnownAttempt> {
        self.attempts.values()
    }

    /// The attempts that are over, for the next incarnation. A task whose runner was to be started
    /// again is lost: the end of an incarnation is the end of all processes.
    #[must_use]
    pub fn into_ended(self) -> Vec<KnownAttempt> {
        let mut attempts: Vec<KnownAttempt> = self.attempts.into_values().collect();
        attempts.retain_mut(|known| match &mut known.ended {
            Some(report) => {
                if is_resumable(known.run, &known.assignment, report.outcome) {
                    *report = LOST.into();
                }
                true
            }
            None => false,
        });
        attempts
    }
}

impl Supervisor {
    /// Resumes an incarnation whose agent has ended. `owned` are the runs that the coordinator
    /// reports itself; `sight` looks for the others. The first actions for the coordinator are
    /// returned.
    pub fn resume(
        identity: &Identity,
        inventory: Inventory,
        owned: &BTreeSet<RunKey>,
        dying: Option<KillCause>,
        sight: impl FnMut(&Attempt) -> Sighting,
        now: Mono,
    ) -> (Self, Vec<Action>) {
        let mut supervisor = Self::new(identity, Attempts::default(), dying, now);
        let mut out = Vec::new();
        let before = BTreeMap::new();
        supervisor.adopt_all(now, inventory, owned, &before, sight, &mut out);
        // The protocol learns of them by their records.
        supervisor.inputs.clear();
        let attempts = supervisor.attempts.iter();
        supervisor.worker = identity.machine(attempts.map(Attempt::record).collect(), now);
        (supervisor, out)
    }

    /// Takes everything over from a dead coordinator to its successor, or from a lost connection to
    /// a new one.
    pub fn take_over(
        &mut self,
        now: Mono,
        inventory: Inventory,
        owned: &BTreeSet<RunKey>,
        sight: impl FnMut(&Attempt) -> Sighting,
    ) -> Vec<Action> {
        let mut out = Vec::new();
        let before = self.attempts.drain();
        self.adopt_all(now, inventory, owned, &before, sight, &mut out);
        // No coordinator knows of these.
        for attempt in before.into_values() {
            if attempt.phase == Phase::AwaitingSecrets {
                self.attempts.insert(attempt);
            }
        }
        for check in std::mem::take(&mut self.checks).into_values() {
            self.check(check, &mut out);
        }
        if self.dying.is_some() {
            let (id, grace) = (self.kill_order.issue(), Millis(0));
            out.push(Action::KillEverything { id, grace });
        }
        self.feed_worker(now, &mut out);
        out
    }

    /// Everything that is known, merged with what a coordinator has on record. An attempt that waits for
    /// its secrets has certainly not begun, and is not part of it.
    #[must_use]
    pub fn inventory(&self, reported: Vec<ReportedRun>) -> Inventory {
        let attempts = self.attempts.iter();
        let begun = attempts.filter(|it| it.phase != Phase::AwaitingSecrets);
        let known = begun.map(KnownAttempt::from).collect();
        Inventory::new(known, reported, self.dying)
    }

    fn adopt_all(
        &mut self,
        now: Mono,
        inventory: Inventory,
        owned: &BTreeSet<RunKey>,
        before: &BTreeMap<LeaseId, Attempt>,
        mut sight: impl FnMut(&Attempt) -> Sighting,
        out: &mut Vec<Action>,
    ) {
        self.waiting.clear();
        self.restarts.clear();
        self.warnings.clear();
        for (run, is_over) in inventory.discarded {
            self.attempts.reserve(run);
            if !is_over {
                out.push(Action::KillRun(run));
            }
            out.push(Action::Forget(run));
        }
        let mut restarts = Vec::new();
        let mut has_strays = owned.is_empty();
        for known in inventory.attempts.into_values() {
            let mut attempt = Attempt::from(known);
            let previous = before.get(&attempt.assignment.lease);
            let is_owned = owned.contains(&attempt.run);
            attempt.reported = previous.is_none_or(|it| it.reported);
            attempt.stop = previous.and_then(|it| it.stop);
            attempt.warned = previous.map(|it| it.warned).unwrap_or_default();
            attempt.inherited = !is_owned || previous.is_some_and(|it| it.inherited);
            if !attempt.is_over() && !self.adopt_or_end(&mut attempt, is_owned, &mut sight, out) {
                self.attempts.note_handover_changed();
                self.inputs
                    .push_back(Input::Withdrawn(attempt.assignment.lease));
                continue;
            }
            let was_over = previous.is_some_and(Attempt::is_over);
            match &attempt.phase {
                Phase::Ended(report)
                    if !was_over && self.restarts_runner(&attempt, report.outcome) =>
                {
                    attempt.phase = Phase::Restarting(report.clone());
                    restarts.push(attempt.run);
                    if !attempt.devices.is_empty() && !is_owned {
                        let (run, devices) = (attempt.run, attempt.devices.clone());
                        out.push(Action::HoldDevices { run, devices });
                    }
                }
                // Descendants may be left, and another attempt must not meet them.
                Phase::Ended(report)
                    if !was_over && !is_owned && !seeded!(self.bugs, StraysUnawaited) =>
                {
                    attempt.phase = Phase::Concluded(report.clone());
                    has_strays = true;
                }
                Phase::Ended(report) if !was_over => {
                    let lease = attempt.assignment.lease;
                    let report = attempt.lost_with_worker(report.clone(), self.drain.is_some());
                    attempt.phase = Phase::Ended(report.clone());
                    self.inputs.push_back(Input::Ended(lease, report));
                }
                Phase::Waiting => self.waiting.push_back((now + WAIT_MAX, attempt.run)),
                _ => {}
            }
            let has_begun = !attempt.is_over() && attempt.phase != Phase::Waiting;
            if has_begun && !std::mem::replace(&mut attempt.reported, true) {
                self.inputs
                    .push_back(Input::Launched(attempt.assignment.lease));
            }
            let run = attempt.run;
            self.attempts.insert(attempt);
            self.plan_warning(run);
        }
        self.strays_retry_at = None;
        if has_strays {
            out.push(Action::KillStrays);
        }
        if !owned.is_empty() {
            // Attempts on this coordinator's own record need not be in the handover.
            self.attempts.note_handover_changed();
        }
        self.repeat_stops(now, out);
        for run in restarts {
            self.restart_later(now, run, out);
        }
    }

    /// Reports what was found to have ended, once nothing of it is left.
    pub(super) fn strays_killed(&mut self, now: Mono, left: u32) {
        if left > 0 {
            self.strays_retry_at = Some(now + KILL_RETRY);
        } else if self.dying.is_none() {
            self.end_concluded();
        }
    }

    /// Ends what was found to have ended: nothing of it is left.
    pub(super) fn end_concluded(&mut self) {
        let attempts = self.attempts.iter();
        let concluded = attempts.filter_map(|attempt| match &attempt.phase {
            Phase::Concluded(report) => Some((attempt.run, report.clone())),
            _ => None,
        });
        for (run, report) in concluded.collect::<Vec<_>>() {
            self.end(run, report);
        }
    }

    /// The previous coordinator may not have carried these out. They are not renewed: what is left
    /// of the time counts.
    fn repeat_stops(&self, now: Mono, out: &mut Vec<Action>) {
        let watched = self.attempts.iter().filter(|attempt| {
            matches!(
                attempt.phase,
                Phase::Requested | Phase::Waiting | Phase::Running
            )
        });
        out.extend(watched.filter_map(|attempt| attempt.stop_action(now)));
    }

    /// Lets the coordinator adopt a run that still exists. A run that is gone, or that may never
    /// have started, has ended. False if its program has certainly not started.
    fn adopt_or_end(
        &self,
        attempt: &mut Attempt,
        is_owned: bool,
        sight: &mut impl FnMut(&Attempt) -> Sighting,
        out: &mut Vec<Action>,
    ) -> bool {
        match Decision::of(is_owned, || sight(attempt)) {
            Decision::Watched => {}
            Decision::Adopted => {
                attempt.phase = Phase::Running;
                out.push(if seeded!(self.bugs, LaunchedAgain) {
                    Action::Launch(attempt.run)
                } else {
                    Action::Adopt(attempt.run)
                });
            }
            Decision::Over(sighting) => match self.unwatched(attempt, sighting) {
                Some(report) => attempt.phase = Phase::Ended(report),
                None => return false,
            },
        }
        true
    }
}
