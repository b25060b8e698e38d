//! What the coordinator knows about each run.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::outcome::{KillCause, Outcome};
use baton_model::task::{Identity, Moment, ProcessNo, RunNo};
use baton_model::time::Mono;

use crate::sys::identity::{ExitStatus, Handle};
use crate::wire::{Ended, Known, RunKey};

/// Who watches over the first process of a run.
#[derive(Debug)]
pub(super) enum Body {
    /// It is our child: its number is ours until we reap it.
    Child,
    /// It was an earlier coordinator's child, and is held by a descriptor.
    Adopted(Handle),
    /// So it was, and it has ended; how, is known once its parent takes notice, which
    /// is waited for until then.
    Ending(Handle, Mono),
    /// It is gone, with this status; others of the run may linger.
    Gone(ExitStatus),
}

/// One run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) started: Option<(Moment, Identity)>,
    pub(super) body: Body,
    /// It was asked to stop, and is killed then.
    pub(super) kill_at: Option<Mono>,
    /// Baton has signalled it, and why.
    pub(super) signalled: Option<KillCause>,
    pub(super) ended: Option<Ended>,
}

impl Run {
    /// A run whose process is there.
    pub(super) fn started(at: Moment, identity: Identity, body: Body) -> Self {
        Self {
            started: Some((at, identity)),
            body,
            kill_at: None,
            signalled: None,
            ended: None,
        }
    }

    /// A run that could not be launched.
    pub(super) fn failed(ended: Ended) -> Self {
        Self {
            started: None,
            body: Body::Gone(ExitStatus::Code(0)),
            kill_at: None,
            signalled: None,
            ended: Some(ended),
        }
    }

    /// The number of its first process.
    pub(super) fn pid(&self) -> Option<u32> {
        self.started.map(|(_, identity)| identity.pid)
    }

    /// The descriptor of its first process, where it is not our child.
    pub(super) fn handle(&self) -> Option<&Handle> {
        match &self.body {
            Body::Adopted(handle) | Body::Ending(handle, _) => Some(handle),
            Body::Child | Body::Gone(_) => None,
        }
    }

    /// True while it is not over.
    pub(super) fn is_live(&self) -> bool {
        self.ended.is_none()
    }

    /// How it ended, if its first process ended with this status: what it said itself
    /// counts, and a death by signal is ours if we had sent one.
    pub(super) fn outcome(&self, status: ExitStatus) -> Outcome {
        match (status, self.signalled) {
            (ExitStatus::Code(code), _) => Outcome::Exited(code),
            (ExitStatus::Signal(_), Some(cause)) => Outcome::Killed(cause),
            (ExitStatus::Signal(signal), None) => Outcome::Signaled(signal),
        }
    }
}

/// What becomes due by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// The grace of a run that was asked to stop is over.
    Kill(RunKey),
    /// Look again whether a run is over: nobody tells us.
    Look(RunKey),
    /// A check has taken too long.
    Probe(u64),
}

/// A check under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub(super) pid: u32,
    pub(super) late: bool,
}

/// Why we know a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Run(RunKey),
    Probe(u64),
    /// Rotates the log of a run.
    Rotator,
}

/// Everything that is known.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) runs: BTreeMap<RunKey, Run>,
    pub(super) probes: BTreeMap<u64, Probe>,
    /// Our own children that are not yet reaped.
    pub(super) children: BTreeMap<u32, Role>,
    due: BTreeSet<(Mono, Due)>,
}

impl Table {
    /// For the greeting, and for a compacted log.
    pub(super) fn known(&self) -> impl Iterator<Item = Known> + '_ {
        self.runs.iter().map(|(run, state)| Known {
            run: *run,
            started: state.started,
            ended: state.ended.clone(),
        })
    }

    /// The runs that are not over.
    pub(super) fn live(&self) -> impl Iterator<Item = (RunKey, &Run)> + '_ {
        let runs = self.runs.iter();
        runs.filter(|(_, run)| run.is_live())
            .map(|(key, run)| (*key, run))
    }

    /// Every process with a live run that was adopted, with its descriptor.
    pub(super) fn adopted(&self) -> impl Iterator<Item = (RunKey, &Handle)> + '_ {
        self.live().filter_map(|(key, run)| match &run.body {
            Body::Adopted(handle) => Some((key, handle)),
            Body::Child | Body::Ending(..) | Body::Gone(_) => None,
        })
    }

    /// Every process that is held by a descriptor because it is not our child.
    pub(super) fn held(&self) -> impl Iterator<Item = &Handle> + '_ {
        self.live().filter_map(|(_, run)| run.handle())
    }

    pub(super) fn schedule(&mut self, at: Mono, due: Due) {
        self.due.insert((at, due));
    }

    pub(super) fn next_due(&self) -> Option<Mono> {
        self.due.first().map(|(at, _)| *at)
    }

    pub(super) fn pop_due(&mut self, now: Mono) -> Option<Due> {
        let first = *self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.remove(&first);
        Some(first.1)
    }
}

/// What every process of a run carries in its environment.
pub(crate) fn run_mark(mark: &str, run: RunKey) -> String {
    format!("{mark}:{}:{}", run.process.0, run.run.0)
}

/// Reads such a mark; `None` if it is another task's.
pub(super) fn parse_mark(mark: &str, text: &str) -> Option<RunKey> {
    let (process, run) = text
        .strip_prefix(mark)?
        .strip_prefix(':')?
        .split_once(':')?;
    Some(RunKey {
        process: ProcessNo(process.parse().ok()?),
        run: RunNo(run.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_its_run_and_no_other_tasks() {
        let run = RunKey {
            process: ProcessNo(7),
            run: RunNo(12),
        };
        let text = run_mark("abc", run);
        assert_eq!(parse_mark("abc", &text), Some(run));
        assert_eq!(parse_mark("ab", &text), None);
        assert_eq!(parse_mark("abcd", &text), None);
        assert_eq!(parse_mark("abc", "abc:7"), None);
    }
}
