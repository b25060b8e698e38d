//! Readiness and health checks: scheduling and verdicts.
//!
//! A state machine without IO. The driver starts the checks of a run here, sends the probes of
//! [`Checks::due`], and returns their results.
//!
//! ```text
//!   start ──delay──▶ probe ──result──▶ count ──interval──▶ probe …
//!                      └── no answer ──▶ counts as failed
//! ```
//!
//! * A check has at most one probe in flight. The next one starts `interval` after the end of the
//!   one before, so slow probes never pile up.
//! * Readiness: a run is ready after `successes_min` successful probes in a row. That is reported
//!   once, and the check is over. Failing is normal until then, however often: it only keeps the
//!   run unready, and `failures_max` does not apply. A `timeout` or a health check bounds the wait.
//! * Health: a run is unhealthy when more than `failures_max` probes in a row have failed. That is
//!   reported once, and the check is over: the run is stopped for it. One success ends a row of
//!   failures; `successes_min` does not apply.
//! * Health is not probed before the run is ready, where readiness is checked.
//! * Counts are not stored on disk. A restarted runner counts from zero, so that only probes of its
//!   own can stop a run.
//! * An idle check costs nothing: all work is in what is due.
//!
//! Probes are executed by `coordinator` and `helpers`; `baton_core::plan` decides what follows from
//! a verdict.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::task::{Check, Probe, ProcessSpec};
use baton_model::time::{Millis, Mono};

use crate::wire::RunKey;

/// The time after its timeout that the answer to a probe is waited for. The coordinator ends a
/// probe at its timeout and reports it; no answer means that it was lost.
pub const ANSWER_SLACK: Millis = Millis::from_secs(5);

/// Ids in one millisecond, before they run into those of the next.
const IDS_PER_MILLI: u64 = 1 << 16;

/// The kind of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// Whether the run is ready.
    Ready,
    /// Whether it is healthy.
    Health,
}

/// A probe to send now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRequest {
    /// Identifies its result. Unique within one boot of the host, so that an answer to an earlier
    /// runner is not taken for one to this.
    pub id: u64,
    pub run: RunKey,
    pub purpose: Purpose,
    pub probe: Probe,
    pub timeout: Millis,
}

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is ready.
    Ready(RunKey),
    /// It is unhealthy, and must be stopped.
    Unhealthy(RunKey),
}

/// The result of [`Checks::due`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueChecks {
    /// The probes to send now.
    pub requests: Vec<ProbeRequest>,
    /// Verdicts from probes that were never answered.
    pub verdicts: Vec<Verdict>,
}

/// The checks of all runs of a task.
///
/// The driver calls [`result`](Self::result) for every answer that it has before it
/// calls [`due`](Self::due): a runner that was stopped for a while must not take
/// answers for lost that have been waiting for it.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    states: BTreeMap<Key, State>,
    /// The `timer` of each state that has one.
    timers: BTreeSet<(Mono, Key)>,
    /// Probes without a result.
    in_flight: BTreeMap<u64, Key>,
    last_id: u64,
}

type Key = (RunKey, Purpose);

#[derive(Clone, Debug)]
struct State {
    check: Check,
    /// The earliest time of the first probe.
    first: Mono,
    /// The time of the next probe, or the deadline of the one in flight; `None` while it waits for
    /// the run to become ready.
    timer: Option<Mono>,
    /// The probe in flight.
    in_flight: Option<u64>,
    /// The number of equal results in a row, and the result.
    streak: u32,
    passed: bool,
}

impl Checks {
    /// Starts or restarts the checks of a run whose process has run since `started`. `ready` if it
    /// has passed its readiness check under an earlier runner.
    pub fn start(
        &mut self,
        now: Mono,
        run: RunKey,
        spec: &ProcessSpec,
        started: Mono,
        ready: bool,
    ) {
        self.stop(run);
        let readiness = spec.ready.as_ref().filter(|_| !ready);
        if let Some(check) = &spec.health {
            let key = (run, Purpose::Health);
            self.states.insert(key, State::new(check, started));
            if readiness.is_none() {
                self.arm_first(now, key);
            }
        }
        if let Some(check) = readiness {
            let key = (run, Purpose::Ready);
            self.states.insert(key, State::new(check, started));
            self.arm_first(now, key);
        }
    }

    /// Ends the checks of a run; a probe in flight is ignored.
    pub fn stop(&mut self, run: RunKey) {
        self.end((run, Purpose::Ready));
        self.end((run, Purpose::Health));
    }

    /// The time at which [`Self::due`] has something to do.
    #[must_use]
    pub fn next_due(&self) -> Option<Mono> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Returns the probes to send now, and the verdicts from unanswered ones.
    pub fn due(&mut self, now: Mono) -> DueChecks {
        let mut due = DueChecks::default();
        // An unanswered probe is repeated after its interval, which may be zero: only the timers
        // that are due on entry are handled.
        let keys: Vec<Key> = self
            .timers
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|(_, key)| *key)
            .collect();
        for key in keys {
            if self
                .states
                .get(&key)
                .is_some_and(|it| it.in_flight.is_some())
            {
                due.verdicts.extend(self.count(now, key, false));
            } else {
                due.requests.extend(self.start_probe(now, key));
            }
        }
        due
    }

    /// Takes the result of a probe. Results of probes that are not in flight are ignored: those
    /// given up, or whose run is over.
    pub fn result(&mut self, now: Mono, id: u64, passed: bool) -> Option<Verdict> {
        let key = *self.in_flight.get(&id)?;
        self.count(now, key, passed)
    }

    fn start_probe(&mut self, now: Mono, key: Key) -> Option<ProbeRequest> {
        let least = now.0.saturating_mul(IDS_PER_MILLI);
        let id = self.last_id.saturating_add(1).max(least);
        let state = self.states.get_mut(&key)?;
        let (probe, timeout) = (state.check.probe.clone(), state.check.timeout);
        state.in_flight = Some(id);
        self.last_id = id;
        self.in_flight.insert(id, key);
        self.arm(key, Some(now + timeout + ANSWER_SLACK));
        let (run, purpose) = key;
        Some(ProbeRequest {
            id,
            run,
            purpose,
            probe,
            timeout,
        })
    }

    /// Ends the probe in flight, and returns the verdict.
    fn count(&mut self, now: Mono, key: Key, passed: bool) -> Option<Verdict> {
        let state = self.states.get_mut(&key)?;
        if let Some(id) = state.in_flight.take() {
            self.in_flight.remove(&id);
        }
        state.count(passed);
        let (run, purpose) = key;
        let verdict = match purpose {
            Purpose::Ready if passed && state.streak >= state.check.successes_min => {
                Verdict::Ready(run)
            }
            Purpose::Health if !passed && state.streak > state.check.failures_max => {
                Verdict::Unhealthy(run)
            }
            _ => {
                let next = now + state.check.interval;
                self.arm(key, Some(next));
                return None;
            }
        };
        self.end(key);
        if purpose == Purpose::Ready {
            self.arm_first(now, (run, Purpose::Health));
        }
        Some(verdict)
    }

    fn arm_first(&mut self, now: Mono, key: Key) {
        if let Some(state) = self.states.get(&key) {
            let first = state.first.max(now);
            self.arm(key, Some(first));
        }
    }

    fn arm(&mut self, key: Key, at: Option<Mono>) {
        if let Some(state) = self.states.get_mut(&key) {
            if let Some(earlier) = std::mem::replace(&mut state.timer, at) {
                self.timers.remove(&(earlier, key));
            }
            self.timers.extend(at.map(|at| (at, key)));
        }
    }

    fn end(&mut self, key: Key) {
        self.arm(key, None);
        if let Some(id) = self.states.remove(&key).and_then(|state| state.in_flight) {
            self.in_flight.remove(&id);
        }
    }
}

impl State {
    fn new(check: &Check, started: Mono) -> Self {
        Self {
            check: check.clone(),
            first: started + check.delay,
            timer: None,
            in_flight: None,
            streak: 0,
            passed: false,
        }
    }

    fn count(&mut self, passed: bool) {
        if self.passed != passed {
            self.streak = 0;
        }
        self.passed = passed;
        self.streak = self.streak.saturating_add(1);
    }
}

#[cfg(test)]
mod tests;
