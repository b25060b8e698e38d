//! The loop of the coordinator: one connection, requests in their order, records
//! before replies.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use baton_core::protocol::worker::guard::{DeadMan, GuardAction};
use baton_model::ids::BootId;
use baton_model::task::{Identity, Moment};
use baton_model::time::{Millis, Mono};
use rustix::event::{PollFd, PollFlags};

use super::kill::KillAll;
use super::launch::Launcher;
use super::leftovers::Orphans;
use super::queue::Queue;
use super::reply_buffer::ReplyBuffer;
use super::runs::{ProcessRun, Role, RootProcess, RunTable, Timer};
use super::{Config, LISTENER_FD, LOCK_FD};
use crate::channel::Channel;
use crate::log::{Kind, Log};
use crate::record::CoordinatorRecord;
use crate::stderr::log_line;
use crate::sys::clock::{self, Alarm};
use crate::sys::identity::{self, Handle};
use crate::sys::signals::{self, Signals};
use crate::sys::{inherit, memory, reap};
use crate::wire::{Attempt, AttemptPaths, Guard, Reply, Request, RunEnd, RunKey, VERSION};

/// A coordinator without a runner and without runs exits after this time: everything it knows is in
/// the log.
const IDLE_MAX: Millis = Millis::from_secs(60);

/// The pause after a connection could not be accepted.
const ACCEPT_RETRY: Millis = Millis::from_secs(1);

/// The connected runner.
struct Client {
    channel: Channel,
    /// Its pid: its children belong to the task too, where we succeed another coordinator.
    pid: u32,
    /// Except these.
    spared: Vec<Identity>,
}

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
    pub(super) guard: DeadMan,
    /// `None` while it cannot be written; then records are kept in memory only.
    pub(super) log: Option<Log>,
    /// The time of the next attempt to recreate it.
    pub(super) log_at: Mono,
    /// To be written before the next replies.
    pub(super) records: Vec<CoordinatorRecord>,
    /// Processes that an earlier coordinator may have launched without recording are gone.
    pub(super) strays_killed: bool,
    replies: ReplyBuffer,
    client: Option<Client>,
    exit_requested: bool,
    idle_since: Mono,
    /// Connections are accepted from this time on.
    accept_at: Mono,
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
    // Signals for the runner's terminal or session are not for us.
    let signals = Signals::listen(&[libc::SIGCHLD])?;
    signals::ignore(&[
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGPIPE,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGTSTP,
        // A file size limit must be a write error, like a full disk.
        libc::SIGXFSZ,
    ]);
    reap::become_subreaper()?;
    let boot = identity::boot_id()?;
    let begun = CoordinatorRecord::Begun {
        mark: config.mark.clone(),
        boot,
        pid: std::process::id(),
    };
    let log = Log::create(&log_path(&config.checkpoint), Kind::Coordinator, &[begun])
        .map_err(io::Error::other)?;
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
        log: Some(log),
        log_at: Mono(0),
        records: Vec::new(),
        strays_killed: false,
        replies: ReplyBuffer::default(),
        client: None,
        exit_requested: false,
        idle_since: clock::now().mono,
        accept_at: Mono(0),
    };
    if coordinator.config.successor {
        coordinator.kill_unstarted_children()?;
    } else {
        coordinator.strays_killed = true;
    }
    memory::release_startup_pages()?;
    coordinator.serve(listener, signals)
}

/// The coordinator's log of a task.
pub(super) fn log_path(checkpoint: &Path) -> std::path::PathBuf {
    checkpoint.join("coordinator")
}

impl Coordinator {
    fn serve(&mut self, listener: &UnixListener, mut signals: Signals) -> io::Result<()> {
        let alarm = Alarm::new()?;
        loop {
            let ready = self.wait(listener, &signals, &alarm)?;
            if ready.signals {
                signals.take()?;
            }
            // Exits are polled in every turn: it costs one call, and one signal may stand for
            // several exits.
            self.reap_children()?;
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
                return Ok(());
            }
        }
    }

    fn wait(&self, listener: &UnixListener, signals: &Signals, alarm: &Alarm) -> io::Result<Ready> {
        let mut callers = PollFlags::empty();
        callers.set(PollFlags::IN, clock::now().mono >= self.accept_at);
        let mut fds = vec![
            PollFd::new(signals, PollFlags::IN),
            PollFd::new(listener, callers),
        ];
        if let Some(client) = &self.client {
            let mut flags = PollFlags::empty();
            // While everything is being killed, no further request is handled.
            flags.set(PollFlags::IN, self.killing.is_none());
            flags.set(PollFlags::OUT, client.channel.wants_write());
            fds.push(PollFd::new(&client.channel, flags));
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
            client: self.client.is_some() && any(2),
        })
    }

    fn next_due(&self) -> Option<Mono> {
        let idle = self.is_idle().then(|| self.idle_since + IDLE_MAX);
        let killing = self.killing.as_ref().map(KillAll::next_poll_at);
        let accept = Some(self.accept_at).filter(|at| *at > clock::now().mono);
        let log = self.log.is_none().then_some(self.log_at);
        let all = [
            log,
            self.replies.due(self.has_waiting()),
            self.table.next_due(),
            self.guard.next_due(),
            idle,
            killing,
            accept,
        ];
        all.into_iter().flatten().min()
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
        while let Some(action) = self.guard.poll(now) {
            match action {
                GuardAction::Terminate => {
                    self.reply(Reply::GuardFired);
                    self.refuse_waiting();
                    self.terminate_for_guard();
                }
                GuardAction::Kill => self.kill_for_guard(),
            }
        }
        if self.killing.is_some() {
            self.continue_killing(now);
        }
    }

    /// Accepts a new runner: the one before is considered dead. Its requests are done by now, or
    /// waited for a kill and are dropped; its successor repeats them.
    fn accept(&mut self, listener: &UnixListener) {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The client went away before we accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    // Most likely no descriptors are left. The client waits; we continue, and
                    // accept again when something may have changed.
                    log_line!("coordinator: cannot accept a connection: {error}");
                    self.accept_at = clock::now().mono + ACCEPT_RETRY;
                    return;
                }
            };
            if let Err(error) = self.greet(stream) {
                log_line!("coordinator: cannot send the greeting: {error}");
            }
        }
    }

    fn greet(&mut self, stream: UnixStream) -> io::Result<()> {
        let Some(pid) = inherit::trusted_peer(stream.as_fd())? else {
            return Ok(());
        };
        self.write_records();
        self.replies.clear();
        if let Some(killing) = &mut self.killing {
            killing.drop_requester();
        }
        let mut channel = Channel::new(stream)?;
        channel.send(&Reply::Hello {
            version: VERSION,
            mark: self.config.mark.clone(),
            pid: std::process::id(),
            fired: self.guard.has_fired(),
            runs: self.table.known().chain(self.queue.known()).collect(),
            guard: self.guard.order().map(Guard::from),
        })?;
        self.client = Some(Client {
            channel,
            pid,
            spared: Vec::new(),
        });
        Ok(())
    }

    fn read_requests(&mut self) {
        let Some(client) = &mut self.client else {
            return;
        };
        let alive = client.channel.flush().and_then(|()| client.channel.fill());
        if !matches!(alive, Ok(true)) {
            // Requests received before the disconnect count: a runner that ends sends Exit and
            // disconnects.
            self.handle_requests();
            self.drop_client();
        }
    }

    /// Handles requests, up to one that blocks the others.
    fn handle_requests(&mut self) {
        while self.killing.is_none() {
            let Some(client) = &mut self.client else {
                return;
            };
            match client.channel.next::<Request>() {
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
            Request::Attach { spared } => {
                if let Some(client) = &mut self.client {
                    client.spared = spared;
                }
            }
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
                    ..ProcessRun::started(at, identity, RootProcess::Adopted(handle))
                };
                self.record(CoordinatorRecord::Started {
                    run,
                    at,
                    identity,
                    tag: attempt.tag,
                });
                self.table.insert(run, adopted);
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
        }
    }

    /// True if a launch may go ahead.
    pub(super) fn admits(&self) -> bool {
        !self.config.guarded || self.guard.admits(clock::now().mono)
    }

    /// Records and reports the end of a run.
    pub(super) fn finish_run(&mut self, ended: RunEnd) {
        let claim = self.table.end(ended.clone());
        self.queue.release(&claim);
        self.record(CoordinatorRecord::Ended(ended.clone()));
        self.reply(Reply::Ended(ended));
        self.idle_since = clock::now().mono;
    }

    /// Queues a reply to the runner; it is sent once all records are written.
    pub(super) fn reply(&mut self, reply: Reply) {
        self.replies.push(reply);
    }

    /// The pid of the connected runner, and its children that do not belong to the task.
    pub(super) fn client(&self) -> Option<(u32, &[Identity])> {
        let client = self.client.as_ref()?;
        Some((client.pid, &client.spared))
    }

    fn flush_replies(&mut self) {
        let now = clock::now().mono;
        let due = self.replies.due(self.has_waiting());
        if self.client.is_some() && due.is_some_and(|due| now < due) {
            // Records made since then can wait with the replies.
            return;
        }
        self.write_records();
        let replies = self.replies.take(now);
        let Some(client) = &mut self.client else {
            return;
        };
        let sent = replies
            .iter()
            .try_for_each(|reply| client.channel.put(reply))
            .and_then(|()| client.channel.flush());
        if sent.is_err() {
            self.drop_client();
        }
    }

    /// True if launches wait that will be started.
    fn has_waiting(&self) -> bool {
        self.queue.len() > 0 && self.killing.is_none() && !self.exit_requested
    }

    fn drop_client(&mut self) {
        self.client = None;
        self.idle_since = clock::now().mono;
        self.write_records();
        self.sync();
    }

    fn is_idle(&self) -> bool {
        // A remaining child has daemonised, and only we can find it.
        let childless = || !reap::has_children().unwrap_or(true);
        let quiet = self.client.is_none() && self.killing.is_none();
        quiet && !self.table.has_live() && self.queue.len() == 0 && childless()
    }

    fn is_over(&self) -> bool {
        let requested = self.exit_requested && self.killing.is_none();
        let idle = self.is_idle() && clock::now().mono >= self.idle_since + IDLE_MAX;
        // Without a log, its state is nowhere else.
        requested || (idle && self.log.is_some())
    }

    /// True for a process that rotates a log; it does not belong to the task.
    pub(super) fn is_rotator(&self, pid: u32) -> bool {
        self.table.children.get(&pid) == Some(&Role::Rotator)
    }
}

struct Ready {
    adopted: Vec<RunKey>,
    signals: bool,
    listener: bool,
    client: bool,
}
