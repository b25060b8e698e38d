//! What the coordinator knows about each run.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::outcome::{KillCause, Outcome};
use baton_model::task::{Identity, Moment, ProcessNo, RunNo};
use baton_model::time::{Millis, Mono};

use crate::sys::cgroup::Cgroup;
use crate::sys::identity::{ExitStatus, Handle};
use crate::sys::reap::ChildUsage;
use crate::wire::{AttemptPaths, KnownRun, RunEnd, RunKey};

/// Who watches over the first process of a run.
#[derive(Debug)]
pub(super) enum RootProcess {
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
pub(super) struct ProcessRun {
    pub(super) started: Option<(Moment, Identity)>,
    pub(super) root: RootProcess,
    /// It was asked to stop, and is killed then.
    pub(super) kill_at: Option<Mono>,
    /// Baton has signalled it, and why.
    pub(super) signalled: Option<KillCause>,
    pub(super) ended: Option<RunEnd>,
    pub(super) tag: String,
    /// What it occupies until it is over.
    pub(super) claim: Vec<u64>,
    /// It is a worker attempt: its end means that nothing of it is left.
    pub(super) awaits_descendants: bool,
    /// Its paths, if what it leaves empty there can be used again.
    pub(super) paths: Option<AttemptPaths>,
    /// It is an attempt that was adopted: its orphans are not ours, so they are swept for
    /// when it ends.
    pub(super) sweep_at_end: bool,
    /// [`Launch::resumes`](crate::wire::Launch::resumes).
    pub(super) resumes: bool,
    /// When it has run for too long, and what it gets then from SIGTERM to SIGKILL.
    pub(super) timeout: Option<(Mono, Millis)>,
    /// Its own control group, where it has one.
    pub(super) group: Option<Cgroup>,
    /// What its first process had used when it was reaped.
    pub(super) used: Option<ChildUsage>,
}

impl ProcessRun {
    /// A run whose process is there.
    pub(super) fn started(at: Moment, identity: Identity, root: RootProcess) -> Self {
        Self {
            started: Some((at, identity)),
            root,
            kill_at: None,
            signalled: None,
            ended: None,
            tag: String::new(),
            claim: Vec::new(),
            awaits_descendants: false,
            paths: None,
            sweep_at_end: false,
            resumes: false,
            timeout: None,
            group: None,
            used: None,
        }
    }

    /// A run that never was started.
    pub(super) fn unstarted(tag: String) -> Self {
        Self {
            started: None,
            root: RootProcess::Gone(ExitStatus::Code(0)),
            kill_at: None,
            signalled: None,
            ended: None,
            tag,
            claim: Vec::new(),
            awaits_descendants: false,
            paths: None,
            sweep_at_end: false,
            resumes: false,
            timeout: None,
            group: None,
            used: None,
        }
    }

    /// The number of its first process.
    pub(super) fn pid(&self) -> Option<u32> {
        self.started.map(|(_, identity)| identity.pid)
    }

    /// The descriptor of its first process, where it is not our child.
    pub(super) fn handle(&self) -> Option<&Handle> {
        match &self.root {
            RootProcess::Adopted(handle) | RootProcess::Ending(handle, _) => Some(handle),
            RootProcess::Child | RootProcess::Gone(_) => None,
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
pub(super) enum Timer {
    /// The grace of a run that was asked to stop is over.
    Kill(RunKey),
    /// Look again whether a run is over: nobody tells us.
    Poll(RunKey),
    /// A run has run for too long.
    Timeout(RunKey),
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
pub(super) struct RunTable {
    pub(super) runs: BTreeMap<RunKey, ProcessRun>,
    pub(super) probes: BTreeMap<u64, Probe>,
    /// Our own children that are not yet reaped.
    pub(super) children: BTreeMap<u32, Role>,
    /// The runs with a home whose first process is gone and of which something is left.
    pub(super) lingering: BTreeSet<RunKey>,
    due: BTreeSet<(Mono, Timer)>,
    /// The runs that were adopted and are not over.
    adopted: BTreeSet<RunKey>,
    /// How many runs are not over.
    live: usize,
}

impl RunTable {
    /// Takes a run up that was not known and is not over.
    pub(super) fn insert(&mut self, key: RunKey, run: ProcessRun) {
        self.live += 1;
        if run.handle().is_some() {
            self.adopted.insert(key);
        }
        if let Some((at, _)) = run.timeout {
            self.schedule(at, Timer::Timeout(key));
        }
        self.runs.insert(key, run);
    }

    /// Keeps how a run ended, and gives back what it had occupied. Nothing is due for it any
    /// more.
    pub(super) fn end(&mut self, ended: RunEnd) -> Vec<u64> {
        let key = ended.run;
        let Some(run) = self.runs.get_mut(&key).filter(|run| run.is_live()) else {
            return Vec::new();
        };
        run.ended = Some(ended);
        run.root = RootProcess::Gone(ExitStatus::Code(0));
        let claim = std::mem::take(&mut run.claim);
        let (timeout, kill_at) = (run.timeout, run.kill_at);
        self.retire(key, timeout, kill_at);
        claim
    }

    /// Forgets a run, and gives back what it had occupied.
    pub(super) fn remove(&mut self, key: RunKey) -> Vec<u64> {
        let Some(run) = self.runs.remove(&key) else {
            return Vec::new();
        };
        if run.is_live() {
            self.retire(key, run.timeout, run.kill_at);
        }
        run.claim
    }

    fn retire(&mut self, key: RunKey, timeout: Option<(Mono, Millis)>, kill_at: Option<Mono>) {
        self.live = self.live.saturating_sub(1);
        self.adopted.remove(&key);
        self.lingering.remove(&key);
        if let Some((at, _)) = timeout {
            self.due.remove(&(at, Timer::Timeout(key)));
        }
        if let Some(at) = kill_at {
            self.due.remove(&(at, Timer::Kill(key)));
        }
    }

    /// True if something is not over.
    pub(super) fn has_live(&self) -> bool {
        self.live > 0
    }

    /// For the greeting, and for a compacted log.
    pub(super) fn known(&self) -> impl Iterator<Item = KnownRun> + '_ {
        self.runs.iter().map(|(run, state)| KnownRun {
            run: *run,
            started: state.started,
            ended: state.ended.clone(),
            waiting: false,
            tag: state.tag.clone(),
        })
    }

    /// The runs that are not over.
    pub(super) fn live(&self) -> impl Iterator<Item = (RunKey, &ProcessRun)> + '_ {
        let runs = self.runs.iter();
        runs.filter(|(_, run)| run.is_live())
            .map(|(key, run)| (*key, run))
    }

    /// Every process with a live run that was adopted, with its descriptor.
    pub(super) fn adopted(&self) -> impl Iterator<Item = (RunKey, &Handle)> + '_ {
        let adopted = self.adopted.iter();
        adopted.filter_map(|key| match &self.runs.get(key)?.root {
            RootProcess::Adopted(handle) => Some((*key, handle)),
            RootProcess::Child | RootProcess::Ending(..) | RootProcess::Gone(_) => None,
        })
    }

    /// Every process that is held by a descriptor because it is not our child.
    pub(super) fn held(&self) -> impl Iterator<Item = &Handle> + '_ {
        let adopted = self.adopted.iter();
        adopted.filter_map(|key| self.runs.get(key)?.handle())
    }

    pub(super) fn schedule(&mut self, at: Mono, due: Timer) {
        self.due.insert((at, due));
    }

    pub(super) fn next_due(&self) -> Option<Mono> {
        self.due.first().map(|(at, _)| *at)
    }

    pub(super) fn pop_due(&mut self, now: Mono) -> Option<Timer> {
        let first = *self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.remove(&first);
        Some(first.1)
    }
}

/// What every process of a run carries in its environment, as
/// [`MARK`](crate::sys::proc::MARK).
#[must_use]
pub fn run_mark(mark: &str, run: RunKey) -> String {
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
