//! The table of runs.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::coordinator::{AttemptPaths, KnownRun, RunEnd, Usage};
use baton_model::outcome::{ExitStatus, KillCause, Outcome};
use baton_model::task::{Identity, Moment, ProcessNo, RunKey};
use baton_model::time::{Millis, Mono};

use crate::supervision::attempts::TASK_KILLED;

/// The first process of a run, and how its exit is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Root {
    /// Our child: its pid cannot be reused until we reap it.
    Child,
    /// A child of an earlier coordinator, held by the kernel.
    Held,
    /// A held process that has ended. Its status is known once its parent reaps it, which is
    /// waited for until then.
    Ending(Mono),
    /// It was reaped, with this status; other processes of the run may linger.
    Gone(ExitStatus),
    /// It has ended, and its status cannot be known here. The run stays on record until the agent
    /// has taken its end over.
    Lost,
}

/// One run of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ProcessRun {
    pub(super) started: Option<(Moment, Identity)>,
    pub(super) root: Root,
    /// It was asked to stop, and is killed at this time.
    pub(super) kill_at: Option<Mono>,
    /// When what its first process has left was killed for the first time.
    pub(super) killed_at: Option<Mono>,
    /// Why it was asked to stop.
    pub(super) stop_cause: Option<KillCause>,
    /// The cause, if a signal of ours may end its first process. A runner survives the request to
    /// stop, and dies of SIGKILL only.
    pub(super) signalled: Option<KillCause>,
    pub(super) ended: Option<RunEnd>,
    pub(super) tag: String,
    /// The capacity that it occupies until it is over.
    pub(super) claim: Vec<u64>,
    /// It is an attempt of a worker launched here: it ends when none of its processes is left.
    pub(super) awaits_descendants: bool,
    /// Its paths, if empty directories and logs there can be reused.
    pub(super) paths: Option<AttemptPaths>,
    /// It is an adopted attempt: its orphans are not our children, so a sweep finds them when it
    /// ends.
    pub(super) sweep_at_end: bool,
    /// [`Launch::resumes`](baton_model::coordinator::Launch::resumes).
    pub(super) resumes: bool,
    /// [`Launch::is_runner`](baton_model::coordinator::Launch::is_runner).
    pub(super) is_runner: bool,
    /// The time of its timeout, and the grace from SIGTERM to SIGKILL.
    pub(super) timeout: Option<(Mono, Millis)>,
    /// The resources that its first process had used when it was reaped.
    pub(super) used: Option<Usage>,
    /// Processes that write its log, and have not ended.
    pub(super) rotators: u32,
    /// Until when the end of an attempt waits for them.
    pub(super) rotators_until: Option<Mono>,
}

impl ProcessRun {
    /// A run whose process was started.
    pub(super) fn started(at: Moment, identity: Identity, root: Root) -> Self {
        Self {
            started: Some((at, identity)),
            root,
            ..Self::unstarted(String::new())
        }
    }

    /// A run that never was started.
    pub(super) const fn unstarted(tag: String) -> Self {
        Self {
            started: None,
            root: Root::Gone(ExitStatus::Code(0)),
            kill_at: None,
            killed_at: None,
            stop_cause: None,
            signalled: None,
            ended: None,
            tag,
            claim: Vec::new(),
            awaits_descendants: false,
            paths: None,
            sweep_at_end: false,
            resumes: false,
            is_runner: false,
            timeout: None,
            used: None,
            rotators: 0,
            rotators_until: None,
        }
    }

    /// The pid of its first process.
    pub(super) fn pid(&self) -> Option<u32> {
        self.started.map(|(_, identity)| identity.pid)
    }

    /// True if its first process is held: it is not our child.
    pub(super) const fn is_held(&self) -> bool {
        matches!(self.root, Root::Held | Root::Ending(_))
    }

    pub(super) const fn is_root_gone(&self) -> bool {
        matches!(self.root, Root::Gone(_) | Root::Lost)
    }

    /// True while it is not over.
    pub(super) const fn is_live(&self) -> bool {
        self.ended.is_none() && !self.is_lost()
    }

    /// True if it is over, and nothing here tells how it has ended.
    pub(super) const fn is_lost(&self) -> bool {
        matches!(self.root, Root::Lost)
    }

    /// The outcome of a run whose first process ended with this status: an exit code counts as it
    /// is, and a death by signal is ours if we had sent one. A runner that was signalled exits
    /// when it has killed its task.
    pub(super) fn outcome(&self, status: ExitStatus) -> Outcome {
        match (status, self.signalled) {
            (ExitStatus::Code(TASK_KILLED), Some(cause)) if self.is_runner => {
                Outcome::Killed(cause)
            }
            (ExitStatus::Code(code), _) => Outcome::Exited(code),
            (ExitStatus::Signal(_) | ExitStatus::Unexecuted(_), Some(cause)) => {
                Outcome::Killed(cause)
            }
            (ExitStatus::Signal(signal) | ExitStatus::Unexecuted(signal), None) => {
                Outcome::Signaled(signal)
            }
        }
    }
}

/// A timer of a run or a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Timer {
    /// The grace of a run that was asked to stop is over.
    Kill(RunKey),
    /// Check again whether a run is over: no notification tells us.
    Poll(RunKey),
    /// A run has reached its timeout.
    Timeout(RunKey),
    /// A check has taken too long.
    Probe(u64),
}

/// A check in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Probe {
    pub(super) pid: u32,
    pub(super) late: bool,
}

/// The role of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Run(RunKey),
    Probe(u64),
    /// Rotates or masks the log of a run.
    Rotator(RunKey),
}

/// All runs, checks, children and timers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RunTable {
    pub(super) runs: BTreeMap<RunKey, ProcessRun>,
    pub(super) probes: BTreeMap<u64, Probe>,
    /// Our own children that are not yet reaped.
    pub(super) children: BTreeMap<u32, Role>,
    /// Attempts whose first process is gone while other processes of them are left.
    pub(super) lingering: BTreeSet<RunKey>,
    due: BTreeSet<(Mono, Timer)>,
    /// The runs that were adopted and are not over.
    adopted: BTreeSet<RunKey>,
    /// The number of runs that are not over.
    live: usize,
}

impl RunTable {
    /// Adds a run that was not known and is not over.
    pub(super) fn insert(&mut self, key: RunKey, run: ProcessRun) {
        assert!(run.is_live(), "{key} is over before it is known: {run:?}");
        self.live += 1;
        if run.is_held() {
            self.adopted.insert(key);
        }
        if let Some((at, _)) = run.timeout {
            self.schedule(at, Timer::Timeout(key));
        }
        let before = self.runs.insert(key, run);
        assert!(before.is_none(), "{key} was known already: {before:?}");
    }

    /// Records the end of a run, cancels its timers, and returns the claim to release.
    pub(super) fn end(&mut self, ended: RunEnd) -> Vec<u64> {
        let key = ended.run;
        let Some(run) = self.runs.get_mut(&key).filter(|run| run.is_live()) else {
            return Vec::new();
        };
        run.ended = Some(ended);
        run.root = Root::Gone(ExitStatus::Code(0));
        let claim = std::mem::take(&mut run.claim);
        let (timeout, kill_at) = (run.timeout, run.kill_at);
        self.retire(key, timeout, kill_at);
        claim
    }

    /// Ends a run whose status cannot be known, cancels its timers, and returns the claim to release.
    #[must_use = "a claim that is not released is occupied for ever"]
    pub(super) fn lose(&mut self, key: RunKey) -> Vec<u64> {
        let Some(run) = self.runs.get_mut(&key).filter(|run| run.is_live()) else {
            return Vec::new();
        };
        run.root = Root::Lost;
        let claim = std::mem::take(&mut run.claim);
        let (timeout, kill_at) = (run.timeout, run.kill_at);
        self.retire(key, timeout, kill_at);
        claim
    }

    /// The runs whose status cannot be known.
    pub(super) fn lost(&self) -> impl Iterator<Item = RunKey> + '_ {
        let lost = self.runs.iter().filter(|(_, run)| run.is_lost());
        lost.map(|(key, _)| *key)
    }

    /// Removes a run, and returns the claim to release.
    #[must_use = "a claim that is not released is occupied for ever"]
    pub(super) fn remove(&mut self, key: RunKey) -> Vec<u64> {
        let Some(run) = self.runs.remove(&key) else {
            return Vec::new();
        };
        if run.is_live() {
            self.retire(key, run.timeout, run.kill_at);
        }
        run.claim
    }

    /// Drops the pending kill of a run.
    pub(super) fn cancel_kill(&mut self, key: RunKey) {
        let run = self.runs.get_mut(&key);
        if let Some(at) = run.and_then(|run| run.kill_at.take()) {
            self.due.remove(&(at, Timer::Kill(key)));
        }
    }

    fn retire(&mut self, key: RunKey, timeout: Option<(Mono, Millis)>, kill_at: Option<Mono>) {
        assert!(self.live > 0, "{key} ends, and no run was live");
        self.live -= 1;
        self.adopted.remove(&key);
        self.lingering.remove(&key);
        if let Some((at, _)) = timeout {
            self.due.remove(&(at, Timer::Timeout(key)));
        }
        if let Some(at) = kill_at {
            self.due.remove(&(at, Timer::Kill(key)));
        }
    }

    /// True if a run is not over.
    pub(super) const fn has_live(&self) -> bool {
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
            devices: Vec::new(),
        })
    }

    /// The runs that are not over.
    pub(super) fn live(&self) -> impl Iterator<Item = (RunKey, &ProcessRun)> + '_ {
        let runs = self.runs.iter();
        runs.filter(|(_, run)| run.is_live())
            .map(|(key, run)| (*key, run))
    }

    /// The attempts that may have processes here, among these.
    pub(super) fn runs_of(
        &self,
        attempts: &BTreeSet<ProcessNo>,
    ) -> impl Iterator<Item = (RunKey, &ProcessRun)> + '_ {
        let live = self.live();
        let wanted = attempts.clone();
        live.filter(move |(key, _)| wanted.contains(&key.process))
    }

    /// The runs whose first process is held and has not ended.
    pub(super) fn watched(&self) -> impl Iterator<Item = RunKey> + '_ {
        let adopted = self.adopted.iter().copied();
        adopted.filter(|key| self.runs.get(key).is_some_and(|run| run.root == Root::Held))
    }

    /// The runs whose first process is held.
    pub(super) fn held(&self) -> impl Iterator<Item = RunKey> + '_ {
        let adopted = self.adopted.iter().copied();
        adopted.filter(|key| self.runs.get(key).is_some_and(ProcessRun::is_held))
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
