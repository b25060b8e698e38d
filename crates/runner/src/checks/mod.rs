//! Readiness and health: when to try, and what to make of the result.
//!
//! A machine without IO. The driver starts the checks of a run with it, carries out
//! what [`Checks::due`] hands out, and brings back what came of it.
//!
//! ```text
//!   start ──delay──▶ try ──result──▶ count ──interval──▶ try …
//!                     └─ no answer ─▶ counts as failed
//! ```
//!
//! * A check has at most one try under way. The next one begins `interval` after the
//!   end of the one before, so a slow probe is never piled up.
//! * Readiness: a run is ready after `successes_min` good tries in a row. That is said
//!   once, and the check is over. Failing is normal until then, however often: it
//!   only keeps the run unready, and `failures_max` means nothing here. What may not
//!   take for ever has a `timeout` or a health check.
//! * Health: a run is unwell when more than `failures_max` tries in a row have
//!   failed. That is said once, and the check is over: the run is stopped for it. One
//!   good try ends a row of failures; `successes_min` means nothing here.
//! * Health is not tried before the run is ready, where readiness is checked.
//! * Rows of tries are not kept on disk. Another life of the runner counts from zero,
//!   so that only what it has seen itself can stop a run.
//! * What is idle costs nothing: all work is in what is due.
//!
//! How a try is carried out is told in `coordinator` and `helpers`; what follows from
//! a verdict is decided by `baton_core::plan`.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::task::{Check, Probe, ProcessSpec};
use baton_model::time::{Millis, Mono};

use crate::wire::RunKey;

/// For how long after its timeout the answer to a try is waited for. Whoever carries
/// it out ends it at its timeout and says so; no answer means that the answer was lost.
pub const ANSWER_SLACK: Millis = Millis::from_secs(5);

/// Ids in one millisecond, before they run into those of the next.
const IDS_PER_MILLI: u64 = 1 << 16;

/// What a check is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// Whether the run is ready.
    Ready,
    /// Whether it is well.
    Health,
}

/// Something to try now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Try {
    /// Names it in its result. Never given twice within one boot of the host, so that
    /// an answer to an earlier life of the runner is not taken for one to this.
    pub id: u64,
    pub run: RunKey,
    pub purpose: Purpose,
    pub probe: Probe,
    pub timeout: Millis,
}

/// What has become clear about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is ready.
    Ready(RunKey),
    /// It is unwell, and has to be stopped.
    Unhealthy(RunKey),
}

/// What [`Checks::due`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// To be tried now.
    pub tries: Vec<Try>,
    /// What follows from tries that were never answered.
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
    /// Tries without a result.
    open: BTreeMap<u64, Key>,
    last_id: u64,
}

type Key = (RunKey, Purpose);

#[derive(Clone, Debug)]
struct State {
    check: Check,
    /// The first try, at the earliest.
    first: Mono,
    /// Of the next try, or of the end of the one under way; `None` while it waits
    /// for the run to become ready.
    timer: Option<Mono>,
    /// The try under way.
    open: Option<u64>,
    /// How many tries in a row came out alike, and how.
    row: u32,
    well: bool,
}

impl Checks {
    /// Begins the checks of a run whose process is there since `started`, or begins
    /// them anew. `ready` if it has passed its readiness check in an earlier life of the runner.
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

    /// Ends the checks of a run; what is under way for it no longer matters.
    pub fn stop(&mut self, run: RunKey) {
        self.end((run, Purpose::Ready));
        self.end((run, Purpose::Health));
    }

    /// When [`Self::due`] has something to do.
    #[must_use]
    pub fn next_due(&self) -> Option<Mono> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// What is to be tried now, and what follows from tries without an answer.
    pub fn due(&mut self, now: Mono) -> Due {
        let mut due = Due::default();
        // What is given up is tried again after its interval, which may be none: only
        // the timers that are due on entry are looked at.
        let keys: Vec<Key> = self
            .timers
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|(_, key)| *key)
            .collect();
        for key in keys {
            if self.states.get(&key).is_some_and(|it| it.open.is_some()) {
                due.verdicts.extend(self.count(now, key, false));
            } else {
                due.tries.extend(self.begin_try(now, key));
            }
        }
        due
    }

    /// Takes in how a try came out. Nothing follows from a try that is not under way:
    /// one that was given up, or whose run is over.
    pub fn result(&mut self, now: Mono, id: u64, well: bool) -> Option<Verdict> {
        let key = *self.open.get(&id)?;
        self.count(now, key, well)
    }

    /// Nobody will answer the tries under way: whoever carried them out is gone. They
    /// count neither way and are tried again at once.
    pub fn forget_tries(&mut self, now: Mono) {
        for key in std::mem::take(&mut self.open).into_values() {
            if let Some(state) = self.states.get_mut(&key) {
                state.open = None;
            }
            self.arm(key, Some(now));
        }
    }

    fn begin_try(&mut self, now: Mono, key: Key) -> Option<Try> {
        let least = now.0.saturating_mul(IDS_PER_MILLI);
        let id = self.last_id.saturating_add(1).max(least);
        let state = self.states.get_mut(&key)?;
        let (probe, timeout) = (state.check.probe.clone(), state.check.timeout);
        state.open = Some(id);
        self.last_id = id;
        self.open.insert(id, key);
        self.arm(key, Some(now + timeout + ANSWER_SLACK));
        let (run, purpose) = key;
        Some(Try {
            id,
            run,
            purpose,
            probe,
            timeout,
        })
    }

    /// Ends the try under way, and says what follows.
    fn count(&mut self, now: Mono, key: Key, well: bool) -> Option<Verdict> {
        let state = self.states.get_mut(&key)?;
        if let Some(id) = state.open.take() {
            self.open.remove(&id);
        }
        state.count(well);
        let (run, purpose) = key;
        let verdict = match purpose {
            Purpose::Ready if well && state.row >= state.check.successes_min => Verdict::Ready(run),
            Purpose::Health if !well && state.row > state.check.failures_max => {
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
        if let Some(id) = self.states.remove(&key).and_then(|state| state.open) {
            self.open.remove(&id);
        }
    }
}

impl State {
    fn new(check: &Check, started: Mono) -> Self {
        Self {
            check: check.clone(),
            first: started + check.delay,
            timer: None,
            open: None,
            row: 0,
            well: false,
        }
    }

    fn count(&mut self, well: bool) {
        if self.well != well {
            self.row = 0;
        }
        self.well = well;
        self.row = self.row.saturating_add(1);
    }
}

#[cfg(test)]
mod tests;
