//! Requests to launch, to adopt, to withdraw and to forget runs.

use baton_model::coordinator::{Attempt, CoordinatorRecord, Launch, Reply, RunEnd};
use baton_model::outcome::{KillCause, Outcome};
use baton_model::task::{Identity, Moment, ProcessNo, RunKey, RunNo};

use super::io::StartFault;
use super::kernel::SIGKILL;
use super::runs::{ProcessRun, Role, Root};
use super::{Awaited, Host, Turn};

impl Host {
    /// Starts a run, or repeats the replies for one that is known.
    pub(super) fn launch(&mut self, turn: &mut Turn<'_>, key: RunKey, launch: Box<Launch>) {
        if let Some(run) = self.table.runs.get(&key) {
            let started = run.started.map(|(at, identity)| Reply::Started {
                run: key,
                at,
                identity,
                devices: self.devices.of(key.process).to_vec(),
            });
            let lost = run.is_lost().then_some(Reply::Unknown { run: key });
            let ended = run.ended.clone().map(Reply::Ended);
            let replies = started.into_iter().chain(ended).chain(lost);
            return replies.for_each(|reply| turn.reply(reply));
        }
        if self.queue.contains(key) {
            return turn.reply(Reply::Accepted { run: key });
        }
        // A health check is no attempt: it belongs to no lease, and has a short timeout of its own.
        if !launch.is_check {
            if !self.admits(turn, launch.term) || self.lacks_devices(key, &launch) {
                return turn.reply(Reply::Refused { run: key });
            }
            self.watch(key, launch.term);
        }
        // A later run finds the processes of its task running: they use their claim already.
        let is_first = key.run == RunNo(0);
        let must_wait = is_first
            && (self.queue.must_wait(&launch.claim) || !self.devices.has_free(&launch.devices));
        if !launch.tag.is_empty() {
            let tag = launch.tag.clone();
            turn.record(CoordinatorRecord::Accepted { run: key, tag });
        }
        if must_wait {
            self.queue.push(key, launch);
            return turn.reply(Reply::Accepted { run: key });
        }
        self.start(turn, key, launch);
    }

    /// Starts waiting launches that fit, and then recycles the paths of attempts that are over.
    /// Each launch is checked for admission again.
    pub(super) fn fill(&mut self, turn: &mut Turn<'_>) {
        while self.killing.is_none() {
            let devices = &self.devices;
            // One whose devices are gone meanwhile is refused.
            let is_ready = |launch: &Launch| {
                devices.has_free(&launch.devices) || !devices.exist_for(&launch.devices)
            };
            let Some((key, launch)) = self.queue.next_fitting(is_ready) else {
                break;
            };
            if self.admits(turn, launch.term) && !self.lacks_devices(key, &launch) {
                self.is_filling = true;
                return self.start(turn, key, launch);
            }
            self.refuse(turn, key, &launch);
        }
        self.is_filling = false;
        for paths in std::mem::take(&mut self.recyclable) {
            turn.kernel.recycle(paths);
        }
    }

    /// Refuses a run that waits; does nothing otherwise.
    pub(super) fn withdraw(&mut self, turn: &mut Turn<'_>, key: RunKey) {
        if let Some(launch) = self.queue.remove(key) {
            self.refuse(turn, key, &launch);
        }
    }

    /// Refuses all waiting runs.
    pub(super) fn refuse_waiting(&mut self, turn: &mut Turn<'_>) {
        while let Some((key, launch)) = self.queue.next() {
            self.refuse(turn, key, &launch);
        }
    }

    fn refuse(&mut self, turn: &mut Turn<'_>, key: RunKey, launch: &Launch) {
        if !launch.tag.is_empty() {
            turn.record(CoordinatorRecord::Forgotten { run: key });
        }
        self.guard.unwatch(key.process);
        turn.reply(Reply::Refused { run: key });
    }

    /// Ends a waiting run without starting it. False if it does not wait.
    pub(super) fn end_waiting(
        &mut self,
        turn: &mut Turn<'_>,
        key: RunKey,
        cause: KillCause,
    ) -> bool {
        let Some(launch) = self.queue.remove(key) else {
            return false;
        };
        self.end_unstarted(turn, key, launch.tag, Outcome::Killed(cause));
        true
    }

    fn end_unstarted(&mut self, turn: &mut Turn<'_>, key: RunKey, tag: String, outcome: Outcome) {
        self.table.insert(key, ProcessRun::unstarted(tag));
        let at = turn.kernel.now().into();
        self.finish(turn, RunEnd::unstarted(key, at, outcome));
    }

    /// Asks for the process of a run. Everything recorded so far is in the log before it exists: a
    /// pid note exists only for the last launch, and tells neither the tag of its run nor anything of
    /// the launch before.
    fn start(&mut self, turn: &mut Turn<'_>, key: RunKey, mut launch: Box<Launch>) {
        let is_attempt = launch.paths.is_some();
        if is_attempt && !self.strays_killed {
            self.kill_strays(turn);
        }
        // An attempt leaves no process behind once it is over.
        if !is_attempt && key.run > RunNo(0) {
            self.kill_predecessors(turn, key);
        }
        self.assign_devices(turn, key, &mut launch);
        self.awaited = Some(Awaited::Spawn(key, launch.tag.clone()));
        turn.spawn(key, launch);
    }

    pub(super) fn spawned(
        &mut self,
        turn: &mut Turn<'_>,
        key: RunKey,
        launch: Box<Launch>,
        at: Moment,
        rotators: Vec<u32>,
        result: Result<Identity, StartFault>,
    ) {
        let awaited = self.awaited.take();
        let is_awaited = matches!(&awaited, Some(Awaited::Spawn(run, _)) if *run == key);
        assert!(
            is_awaited,
            "{key} was launched while {awaited:?} is awaited"
        );
        let count = u32::try_from(rotators.len()).unwrap_or(u32::MAX);
        for pid in rotators {
            self.table.children.insert(pid, Role::Rotator(key));
        }
        match result {
            Ok(identity) => {
                self.started(turn, key, *launch, at, identity);
                if let Some(run) = self.table.runs.get_mut(&key) {
                    run.rotators = count;
                }
            }
            Err(fault) => self.not_started(turn, key, *launch, fault),
        }
        if self.is_filling {
            self.fill(turn);
        }
    }

    fn started(
        &mut self,
        turn: &mut Turn<'_>,
        key: RunKey,
        launch: Launch,
        at: Moment,
        identity: Identity,
    ) {
        self.table.children.insert(identity.pid, Role::Run(key));
        self.queue.occupy(&launch.claim);
        let is_attempt = launch.paths.is_some();
        let timeout = launch.timeout;
        let run = ProcessRun {
            tag: launch.tag,
            claim: launch.claim,
            resumes: launch.resumes,
            is_runner: launch.is_runner,
            awaits_descendants: is_attempt,
            paths: launch.paths.filter(|_| launch.credentials.is_none()),
            timeout: timeout.map(|span| (at.mono + span, launch.timeout_grace)),
            ..ProcessRun::started(at, identity, Root::Child)
        };
        self.table.insert(key, run);
        turn.record(CoordinatorRecord::Started {
            run: key,
            at,
            identity,
            tag: String::new(),
        });
        turn.reply(Reply::Started {
            run: key,
            at,
            identity,
            devices: self.devices.of(key.process).to_vec(),
        });
    }

    /// A run that could not be started has ended; an attempt of a worker that this host could not
    /// start is given back instead, and so is a check, with the reason.
    fn not_started(&mut self, turn: &mut Turn<'_>, key: RunKey, launch: Launch, fault: StartFault) {
        match fault {
            StartFault::Host(reason) if launch.paths.is_some() || launch.is_check => {
                self.give_back(turn, key, launch, reason);
            }
            StartFault::Work(reason) if launch.is_check => {
                self.give_back(turn, key, launch, reason);
            }
            StartFault::Host(_) | StartFault::Work(_) => {
                self.end_unstarted(turn, key, launch.tag, Outcome::LaunchFailed);
            }
            // It may have begun, so it is neither given back nor a failure of the work.
            StartFault::Unidentified => {
                let lost = Outcome::Killed(KillCause::Suicide);
                self.end_unstarted(turn, key, launch.tag, lost);
            }
        }
    }

    /// Drops a run that this host cannot start.
    fn give_back(&mut self, turn: &mut Turn<'_>, key: RunKey, launch: Launch, reason: String) {
        if !launch.tag.is_empty() {
            turn.record(CoordinatorRecord::Forgotten { run: key });
        }
        if key.run == RunNo(0) {
            self.devices.free(key.process);
            let own = launch.paths.filter(|_| launch.credentials.is_none());
            self.recyclable.extend(own);
        }
        turn.reply(Reply::HostFault { run: key, reason });
    }

    /// Watches a run that a dead coordinator has launched.
    pub(super) fn adopt(
        &mut self,
        turn: &mut Turn<'_>,
        run: RunKey,
        at: Moment,
        identity: Identity,
        attempt: Option<Attempt>,
    ) {
        if self.table.runs.contains_key(&run) || self.queue.contains(run) {
            return;
        }
        // Also if it is gone: what it has left may use them until the agent has settled its end.
        if let Some(attempt) = &attempt {
            self.devices.hold(run.process, attempt.devices.clone());
        }
        if !turn.kernel.hold(run, &identity) {
            return turn.reply(Reply::Unknown { run });
        }
        let sweep_at_end = attempt.is_some();
        let attempt = attempt.unwrap_or_default();
        self.queue.occupy(&attempt.claim);
        let timeout = attempt.timeout;
        let adopted = ProcessRun {
            tag: attempt.tag.clone(),
            claim: attempt.claim,
            sweep_at_end,
            timeout: timeout.map(|span| (at.mono + span, attempt.timeout_grace)),
            resumes: attempt.resumes,
            is_runner: attempt.is_runner,
            ..ProcessRun::started(at, identity, Root::Held)
        };
        turn.record(CoordinatorRecord::Started {
            run,
            at,
            identity,
            tag: attempt.tag,
        });
        if !attempt.devices.is_empty() {
            let devices = attempt.devices;
            turn.record(CoordinatorRecord::Assigned { run, devices });
        }
        self.table.insert(run, adopted);
        self.watch(run, attempt.term);
    }

    pub(super) fn forget(&mut self, turn: &mut Turn<'_>, run: RunKey) {
        let over = self.table.runs.get(&run).is_some_and(|run| !run.is_live());
        if over {
            if seeded!(self.settings.bugs, ReusedPidSignalled)
                && let Some(pid) = self.table.runs.get(&run).and_then(ProcessRun::pid)
            {
                turn.kernel.signal_group(pid, SIGKILL);
            }
            self.release(run);
            turn.record(CoordinatorRecord::Forgotten { run });
            self.unwatch_absent(run.process);
        }
        self.free_absent(run.process);
    }

    /// Removes a run, and releases its claim.
    pub(super) fn release(&mut self, key: RunKey) {
        let claim = self.table.remove(key);
        self.queue.release(&claim);
    }

    /// Ends the watch of an attempt of which no run is left.
    pub(super) fn unwatch_absent(&mut self, process: ProcessNo) {
        let mut live = self.table.live();
        let mut waiting = self.queue.known();
        let is_present = live.any(|(key, _)| key.process == process)
            || waiting.any(|known| known.run.process == process);
        drop((live, waiting));
        if !is_present {
            self.guard.unwatch(process);
        }
    }
}
