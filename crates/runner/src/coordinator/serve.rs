//! The loop of the coordinator: one connection, requests in their order, records
//! before replies.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use baton_core::protocol::worker::guard::{DeadMan, GuardAction};
use baton_model::ids::BootId;
use baton_model::outcome::Outcome;
use baton_model::task::{Identity, Moment, ProcessNo};
use baton_model::time::{Millis, Mono};
use baton_model::timeouts::LeaseTerm;
use rustix::event::{PollFd, PollFlags};

use super::connection::Connection;
use super::journal::Journal;
use super::kill::KillAll;
use super::launch::Launcher;
use super::leftovers::Orphans;
use super::queue::Queue;
use super::runs::{ProcessRun, Role, RootProcess, RunTable, Timer};
use super::{Config, LISTENER_FD, LOCK_FD, last_resort};
use crate::record::CoordinatorRecord;
use crate::stderr::log_line;
use crate::sys::clock::{self, Alarm};
use crate::sys::identity::{self, Handle};
use crate::sys::memory::OomKills;
use crate::sys::proc::Stat;
use crate::sys::signals::{self, Signals};
use crate::sys::{inherit, memory, reap};
use crate::wire::{Attempt, AttemptPaths, Guard, Reply, Request, RunEnd, RunKey, VERSION};

/// A coordinator without a runner and without runs exits after this time: everything it knows is in
/// the log.
const IDLE_MAX: Millis = Millis::from_secs(60);

/// The pause after the loop could not wait for events.
const WAIT_RETRY: Duration = Duration::from_millis(500);

/// The state of a running coordinator.
pub(super) struct Coordinator {
    pub(super) config: Config,
    pub(super) boot: BootId,
    pub(super) table: RunTable,
    pub(super) launcher: Launcher,
    pub(super) queue: Queue,
    pub(super) orphans: Orphans,
    /// Paths of attempts that are over, recycled once waiting launches have started.
    pub(super) recyclable: Vec<AttemptPaths>,
    pub(super) killing: Option<KillAll>,
    pub(super) guard: DeadMan<ProcessNo>,
    /// Attempts that have outlived the dead-man timer, and when they are killed again.
    pub(super) guard_retry: Option<(Mono, BTreeSet<ProcessNo>)>,
    pub(super) oom_kills: OomKills,
    pub(super) journal: Journal,
    connection: Connection,
    /// Processes that an earlier coordinator may have launched without recording are gone.
    pub(super) strays_killed: bool,
    exit_requested: bool,
    idle_since: Mono,
}

/// Runs until a runner requests the exit, or the coordinator has been idle for [`IDLE_MAX`]. Errors
/// are written to standard error.
pub(super) fn run(config: Config) -> io::Result<()> {
    let log = |error: &io::Error| log_line!("coordinator: {error}");
    // Held for as long as this process lives: it shows that a coordinator exists.
    let _lock = inherit::descriptor(LOCK_FD).inspect_err(log)?;
    let listener = inherit::descriptor(LISTENER_FD).inspect_err(log)?;
    let listener = UnixListener::from(listener);
    // Logged before the socket closes: a runner that waits there then reads it.
    start(config, &listener).inspect_err(log)
}

fn start(config: Config, listener: &UnixListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let signals = Signals::listen(&[libc::SIGCHLD])?;
    signals::ignore_all_of_a_session();
    reap::become_subreaper()?;
    let boot = identity::boot_id()?;
    let journal = Journal::create(&config, config.begun(boot)).map_err(io::Error::other)?;
    let launcher = Launcher::new(&config)?;
    let mut coordinator = Coordinator {
        config,
        boot,
        table: RunTable::default(),
        launcher,
        queue: Queue::default(),
        orphans: Orphans::new(),
        recyclable: Vec::new(),
        killing: None,
        guard: DeadMan::default(),
        guard_retry: None,
        oom_kills: OomKills::new(),
        journal,
        connection: Connection::default(),
        strays_killed: false,
        exit_requested: false,
        idle_since: clock::now().mono,
    };
    if coordinator.config.successor {
        coordinator.kill_unstarted_children()?;
    } else {
        coordinator.strays_killed = true;
    }
    memory::release_startup_pages()?;
    let alarm = Alarm::new()?;
    let serve = AssertUnwindSafe(|| coordinator.serve(listener, signals, &alarm));
    if catch_unwind(serve).is_err() && coordinator.is_sole_guard() {
        last_resort::kill_all(
            &coordinator.config.mark,
            coordinator.config.cgroup.as_deref(),
        );
    }
    Ok(())
}

impl Coordinator {
    /// Serves until it is over. No error ends it: a coordinator that cannot read or write still
    /// watches the time.
    fn serve(&mut self, listener: &UnixListener, mut signals: Signals, alarm: &Alarm) {
        loop {
            let ready = self
                .wait(listener, &signals, alarm)
                .unwrap_or_else(|error| {
                    log_line!("coordinator: cannot wait: {error}");
                    std::thread::sleep(WAIT_RETRY);
                    Ready::default()
                });
            if ready.signals {
                self.log_failure(signals.take());
            }
            // Before exits: if this process was stopped beyond the lease, the reaper has killed its
            // children, and that is how they have ended.
            self.poll_guard();
            // Exits are polled in every turn: it costs one call, and one signal may stand for
            // several exits.
            let reaped = self.reap_children();
            self.log_failure(reaped);
            for run in ready.adopted {
                self.poll_adopted(run);
            }
            self.handle_timers();
            // Before new requests: waiting launches have come first.
            self.fill_free_capacity();
            if ready.client {
                self.read_requests();
            }
            self.handle_requests();
            self.fill_free_capacity();
            if ready.listener {
                self.accept(listener);
            }
            self.flush_replies();
            if self.is_over() {
                return;
            }
        }
    }

    fn wait(&self, listener: &UnixListener, signals: &Signals, alarm: &Alarm) -> io::Result<Ready> {
        let mut callers = PollFlags::empty();
        callers.set(PollFlags::IN, self.connection.accepts());
        let mut fds = vec![
            PollFd::new(signals, PollFlags::IN),
            PollFd::new(listener, callers),
        ];
        // While everything is being killed, no further request is handled.
        if let Some((channel, flags)) = self.connection.interest(self.killing.is_none()) {
            fds.push(PollFd::new(channel, flags));
        }
        let others = fds.len();
        // The pidfd of an adopted process reports its end.
        for (_, handle) in self.table.adopted() {
            fds.push(PollFd::new(handle, PollFlags::IN));
        }
        alarm.poll(&mut fds, self.next_due())?;
        let any = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        let adopted = self.table.adopted().zip(others..);
        Ok(Ready {
            adopted: adopted
                .filter(|(_, index)| any(*index))
                .map(|((run, _), _)| run)
                .collect(),
            signals: any(0),
            listener: any(1),
            client: self.connection.is_up() && any(2),
        })
    }

    fn next_due(&self) -> Option<Mono> {
        let idle = self.is_idle().then(|| self.idle_since + IDLE_MAX);
        let killing = self.killing.as_ref().map(KillAll::next_poll_at);
        let all = [
            self.journal.next_due(),
            self.connection.next_due(),
            self.connection.replies_due(self.has_waiting()),
            self.table.next_due(),
            self.guard.next_due(),
            self.guard_retry.as_ref().map(|(at, _)| *at),
            idle,
            killing,
        ];
        all.into_iter().flatten().min()
    }

    fn poll_guard(&mut self) {
        while let Some(action) = self.guard.poll(clock::now().mono) {
            match action {
                GuardAction::Terminate(attempts) => {
                    self.terminate_for_guard(&attempts.into_iter().collect());
                }
                GuardAction::Kill(attempts) => {
                    self.kill_for_guard(attempts.into_iter().collect());
                }
            }
        }
    }

    fn handle_timers(&mut self) {
        let now = clock::now().mono;
        while let Some(due) = self.table.pop_due(now) {
            match due {
                Timer::Kill(run) => self.kill_after_grace(run),
                Timer::Poll(run) => self.poll_run(run),
                Timer::Timeout(run) => self.handle_timeout(run, now),
                Timer::Probe(id) => self.kill_late_probe(id),
            }
        }
        if let Some((_, attempts)) = self.guard_retry.take_if(|(at, _)| *at <= now) {
            self.kill_for_guard(attempts);
        }
        if self.killing.is_some() {
            self.continue_killing(now);
        }
    }

    /// Accepts a new runner: the one before is considered dead. Its requests are done by now, or
    /// waited for a kill and are dropped; its successor repeats them.
    fn accept(&mut self, listener: &UnixListener) {
        while let Some(caller) = self.connection.accept(listener) {
            self.write_records();
            if let Some(killing) = &mut self.killing {
                killing.drop_requester();
            }
            let hello = self.hello();
            if let Err(error) = self.connection.greet(caller, &hello) {
                log_line!("coordinator: cannot send the greeting: {error}");
            }
        }
    }

    fn hello(&self) -> Reply {
        Reply::Hello {
            version: VERSION,
            mark: self.config.mark.clone(),
            pid: std::process::id(),
            runs: self.table.known().chain(self.queue.known()).collect(),
            guard: self.guard.order().map(Guard::from),
        }
    }

    fn read_requests(&mut self) {
        if !self.connection.fill() {
            // Requests received before the disconnect count: a runner that ends sends Exit and
            // disconnects.
            self.handle_requests();
            self.drop_client();
        }
    }

    /// Handles requests, up to one that blocks the others.
    fn handle_requests(&mut self) {
        while self.killing.is_none() {
            match self.connection.next() {
                Ok(Some(request)) => self.handle_request(request),
                Ok(None) => return,
                Err(error) => {
                    log_line!("coordinator: invalid request from the runner: {error}");
                    self.drop_client();
                }
            }
        }
    }

    fn handle_request(&mut self, request: Request) {
        let now = clock::now().mono;
        match request {
            Request::Attach { spared, reaper } => self.connection.attach(spared, reaper),
            Request::Capacity { amounts } => self.queue.set_capacity(amounts),
            Request::Launch { run, launch } => self.launch(run, launch),
            Request::Withdraw { run } => self.withdraw(run),
            Request::Stop {
                run,
                signal,
                grace,
                cause,
            } => self.stop_run(run, signal, now + grace, cause),
            Request::KillRun { run } => self.kill_run(run),
            Request::KillStrays => self.kill_strays_for_agent(),
            Request::KillEverything { id, grace } => self.kill_everything(now, grace, id),
            Request::Probe {
                id,
                run,
                launch,
                timeout,
            } => self.start_probe(id, run, *launch, now + timeout),
            Request::Adopt {
                run,
                at,
                identity,
                attempt,
            } => self.adopt(run, at, identity, attempt.map(|it| *it)),
            Request::Forget { run } => self.forget(run),
            Request::Guard(order) => self.extend_guard(order),
            Request::Exit => self.exit_requested = true,
        }
    }

    fn extend_guard(&mut self, order: Guard) {
        self.guard.extend(order.into());
        // An order that is late, or older than the one in force, changes nothing.
        if self.guard.order().map(Guard::from) == Some(order) {
            self.record(CoordinatorRecord::Guard(order));
        }
    }

    fn adopt(&mut self, run: RunKey, at: Moment, identity: Identity, attempt: Option<Attempt>) {
        if self.table.runs.contains_key(&run) || self.queue.contains(run) {
            return;
        }
        match Handle::open(&identity, self.boot) {
            Ok(Some(handle)) => {
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
                    ..ProcessRun::started(at, identity, RootProcess::Adopted(handle))
                };
                self.record(CoordinatorRecord::Started {
                    run,
                    at,
                    identity,
                    tag: attempt.tag,
                });
                self.table.insert(run, adopted);
                self.watch(run, attempt.term);
            }
            Ok(None) => self.reply(Reply::Unknown { run }),
            Err(error) => {
                log_line!(
                    "coordinator: cannot adopt {run}, pid {}: {error}",
                    identity.pid
                );
                self.reply(Reply::Unknown { run });
            }
        }
    }

    fn forget(&mut self, run: RunKey) {
        let over = self.table.runs.get(&run).is_some_and(|run| !run.is_live());
        if over {
            self.table.remove(run);
            self.record(CoordinatorRecord::Forgotten { run });
            if !self.is_present(run.process) {
                self.guard.unwatch(run.process);
            }
        }
    }

    /// True if a launch may go ahead.
    pub(super) fn admits(&self, term: LeaseTerm) -> bool {
        !self.config.guarded || self.guard.admits(clock::now().mono, term)
    }

    /// Lets the dead-man timer watch a worker's attempt.
    pub(super) fn watch(&mut self, run: RunKey, term: LeaseTerm) {
        if self.config.guarded {
            self.guard.watch(run.process, term);
        }
    }

    /// True if a run of the attempt is live or waits.
    fn is_present(&self, process: ProcessNo) -> bool {
        let mut live = self.table.live();
        let mut waiting = self.queue.known();
        live.any(|(key, _)| key.process == process)
            || waiting.any(|known| known.run.process == process)
    }

    /// Records and reports the end of a run.
    pub(super) fn finish_run(&mut self, ended: RunEnd) {
        let claim = self.table.end(ended.clone());
        self.queue.release(&claim);
        // What a runner leaves behind is watched until the next one is over.
        let run = self.table.runs.get(&ended.run);
        let is_resumable = matches!(ended.outcome, Outcome::Signaled(_));
        if !(is_resumable && run.is_some_and(|run| run.resumes)) {
            self.guard.unwatch(ended.run.process);
        }
        self.record(CoordinatorRecord::Ended(ended.clone()));
        self.reply(Reply::Ended(ended));
        self.idle_since = clock::now().mono;
    }

    /// Queues a reply to the runner; it is sent once all records are written.
    pub(super) fn reply(&mut self, reply: Reply) {
        self.connection.push(reply);
    }

    /// The reaper of the worker, while it lives.
    pub(super) fn reaper(&self) -> Option<u32> {
        let reaper = self.connection.reaper();
        let reaper = reaper.filter(|reaper| identity::is_alive(reaper, self.boot));
        reaper.map(|reaper| reaper.pid)
    }

    /// True for the reaper of the worker.
    pub(super) fn is_reaper(&self, stat: &Stat) -> bool {
        let reaper = self.connection.reaper();
        reaper.is_some_and(|it| (it.pid, it.start_ticks) == (stat.pid, stat.start_ticks))
    }

    /// The pid of the connected runner, and its children that do not belong to the task.
    pub(super) fn client(&self) -> Option<(u32, &[Identity])> {
        self.connection.client()
    }

    fn flush_replies(&mut self) {
        let now = clock::now().mono;
        let due = self.connection.replies_due(self.has_waiting());
        if self.connection.is_up() && due.is_some_and(|due| now < due) {
            // Records made since then can wait with the replies.
            return;
        }
        self.write_records();
        if !self.connection.flush(now) {
            self.drop_client();
        }
    }

    /// True if launches wait that will be started.
    fn has_waiting(&self) -> bool {
        self.queue.len() > 0 && self.killing.is_none() && !self.exit_requested
    }

    fn drop_client(&mut self) {
        self.connection.drop_client();
        self.idle_since = clock::now().mono;
        self.write_records();
        self.sync_records();
    }

    fn is_idle(&self) -> bool {
        // A remaining child has daemonised, and only we can find it.
        let childless = || !reap::has_children().unwrap_or(true);
        let quiet = !self.connection.is_up() && self.killing.is_none();
        quiet && !self.table.has_live() && self.queue.len() == 0 && childless()
    }

    /// True if no agent would take over from this coordinator of a worker.
    fn is_sole_guard(&self) -> bool {
        self.config.guarded && !self.connection.is_up()
    }

    fn is_over(&self) -> bool {
        let requested = self.exit_requested && self.killing.is_none();
        let idle = self.is_idle() && clock::now().mono >= self.idle_since + IDLE_MAX;
        // Without a log, its state is nowhere else.
        requested || (idle && self.journal.is_writable())
    }

    /// True for a process that rotates a log; it does not belong to the task.
    pub(super) fn is_rotator(&self, pid: u32) -> bool {
        self.table.children.get(&pid) == Some(&Role::Rotator)
    }
}

#[derive(Default)]
struct Ready {
    adopted: Vec<RunKey>,
    signals: bool,
    listener: bool,
    client: bool,
}
