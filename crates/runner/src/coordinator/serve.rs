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
use rustix::event::{PollFd, PollFlags, poll};

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
use crate::sys::identity::{self, Handle};
use crate::sys::signals::{self, Signals};
use crate::sys::{clock, inherit, memory, reap};
use crate::wire::{Attempt, AttemptPaths, Guard, Reply, Request, RunEnd, RunKey, VERSION};

/// Without a runner and without anything that runs, for this long: whatever there is to
/// know is in the log, so nobody needs this process any more.
const IDLE_MAX: Millis = Millis::from_secs(60);

/// After a connection could not be taken.
const ACCEPT_RETRY: Millis = Millis::from_secs(1);

/// The connected runner.
struct Client {
    channel: Channel,
    /// Its number: what it has as children is the task's too, where we succeed another.
    pid: u32,
    /// But for these.
    spared: Vec<Identity>,
}

/// A coordinator at work.
pub(super) struct Coordinator {
    pub(super) config: Config,
    pub(super) boot: BootId,
    pub(super) table: RunTable,
    pub(super) launcher: Launcher,
    pub(super) queue: Queue,
    pub(super) orphans: Orphans,
    /// AttemptDirs of attempts that are over, to be looked at once others have their place.
    pub(super) recyclable: Vec<AttemptPaths>,
    pub(super) killing: Option<KillAll>,
    pub(super) guard: DeadMan,
    /// `None` while it cannot be written; then what is recorded is known here only.
    pub(super) log: Option<Log>,
    /// When that is tried again.
    pub(super) log_at: Mono,
    /// To be written before the next replies.
    pub(super) records: Vec<CoordinatorRecord>,
    /// What a coordinator before us may have launched and not recorded is not there.
    pub(super) strays_killed: bool,
    replies: ReplyBuffer,
    client: Option<Client>,
    exit_requested: bool,
    idle_since: Mono,
    /// Connections are taken from then on.
    accept_at: Mono,
}

/// Runs until it is told to leave, or nobody needs it any more. An error has been said on
/// standard error.
pub(super) fn run(config: Config) -> io::Result<()> {
    let say = |error: &io::Error| eprintln!("coordinator: {error}");
    // Held for as long as this process lives: it says that there is a coordinator.
    let _lock = inherit::descriptor(LOCK_FD).inspect_err(say)?;
    let listener = inherit::descriptor(LISTENER_FD).inspect_err(say)?;
    let listener = UnixListener::from(listener);
    // Said before the socket closes: whoever waits for us there reads it then.
    begin(config, &listener).inspect_err(say)
}

fn begin(config: Config, listener: &UnixListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    // What is meant for the runner's terminal or session is not meant for us.
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
        // A limit on the size of files is an error to write on, as a full disk is.
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
    memory::forget_the_start()?;
    coordinator.serve(listener, signals)
}

/// The coordinator's log of a task.
pub(super) fn log_path(checkpoint: &Path) -> std::path::PathBuf {
    checkpoint.join("coordinator")
}

impl Coordinator {
    fn serve(&mut self, listener: &UnixListener, mut signals: Signals) -> io::Result<()> {
        loop {
            let ready = self.wait(listener, &signals)?;
            if ready.signals {
                signals.take()?;
            }
            // Ends are looked for in every round: it costs one call, and a signal that
            // stands for several says nothing about how many.
            self.reap_children()?;
            for run in ready.adopted {
                self.poll_adopted(run);
            }
            self.handle_timers();
            // Before anything new is heard: what waits has come before it.
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

    fn wait(&self, listener: &UnixListener, signals: &Signals) -> io::Result<Ready> {
        let mut callers = PollFlags::empty();
        callers.set(PollFlags::IN, clock::now().mono >= self.accept_at);
        let mut fds = vec![
            PollFd::new(signals, PollFlags::IN),
            PollFd::new(listener, callers),
        ];
        if let Some(client) = &self.client {
            let mut flags = PollFlags::empty();
            // While everything is being killed, no further order is carried out.
            flags.set(PollFlags::IN, self.killing.is_none());
            flags.set(PollFlags::OUT, client.channel.wants_write());
            fds.push(PollFd::new(&client.channel, flags));
        }
        let others = fds.len();
        // Whether an adopted process has ended is told by its descriptor.
        for (_, handle) in self.table.adopted() {
            fds.push(PollFd::new(handle, PollFlags::IN));
        }
        let timeout = self
            .next_due()
            .map(|due| clock::timeout(due.since(clock::now().mono)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
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
        match self.guard.poll(now) {
            Some(GuardAction::Terminate) => {
                self.reply(Reply::GuardFired);
                self.refuse_waiting();
                self.terminate_for_guard();
            }
            Some(GuardAction::Kill) => self.kill_for_guard(),
            None => {}
        }
        if self.killing.is_some() {
            self.continue_killing(now);
        }
    }

    /// A new runner: the one before is taken for dead. What it had asked for is done by
    /// now, or waited for a killing and is dropped; its successor asks for it again.
    fn accept(&mut self, listener: &UnixListener) {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The caller went away before we looked.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    // No descriptors left, most likely. The caller waits; we go on with what
                    // we have, and look again when something may have changed.
                    eprintln!("coordinator: cannot take a connection: {error}");
                    self.accept_at = clock::now().mono + ACCEPT_RETRY;
                    return;
                }
            };
            if let Err(error) = self.greet(stream) {
                eprintln!("coordinator: cannot greet: {error}");
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
            // What it said before it went counts: a runner that ends says so and leaves.
            self.handle_requests();
            self.drop_client();
        }
    }

    /// Carries out what was asked for, up to an order that holds up the others.
    fn handle_requests(&mut self) {
        while self.killing.is_none() {
            let Some(client) = &mut self.client else {
                return;
            };
            match client.channel.next::<Request>() {
                Ok(Some(request)) => self.handle_request(request),
                Ok(None) => return,
                Err(error) => {
                    eprintln!("coordinator: a runner that makes no sense: {error}");
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
            Request::KillStrays => self.kill_strays(),
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
        // One that comes too late, or is older than the one in force, changes nothing.
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
                eprintln!(
                    "coordinator: cannot hold {run}, pid {}: {error}",
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

    /// A run is over: from here on it is known how.
    pub(super) fn finish_run(&mut self, ended: RunEnd) {
        let claim = self.table.end(ended.clone());
        self.queue.release(&claim);
        self.record(CoordinatorRecord::Ended(ended.clone()));
        self.reply(Reply::Ended(ended));
        self.idle_since = clock::now().mono;
    }

    /// Says something to the runner, once everything recorded is written.
    pub(super) fn reply(&mut self, reply: Reply) {
        self.replies.push(reply);
    }

    /// The number of the runner, if there is one, and which of its children are not ours.
    pub(super) fn client(&self) -> Option<(u32, &[Identity])> {
        let client = self.client.as_ref()?;
        Some((client.pid, &client.spared))
    }

    fn flush_replies(&mut self) {
        let now = clock::now().mono;
        let due = self.replies.due(self.has_waiting());
        if self.client.is_some() && due.is_some_and(|due| now < due) {
            // What was recorded since then can wait with it.
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

    /// True if launches wait that will be carried out.
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
        // A child is one that has daemonised, and we are the only link to it.
        let childless = || !reap::has_children().unwrap_or(true);
        let quiet = self.client.is_none() && self.killing.is_none();
        quiet && !self.table.has_live() && self.queue.len() == 0 && childless()
    }

    fn is_over(&self) -> bool {
        let told = self.exit_requested && self.killing.is_none();
        let idle = self.is_idle() && clock::now().mono >= self.idle_since + IDLE_MAX;
        // Without a log, what it knows is nowhere else.
        told || (idle && self.log.is_some())
    }

    /// True for a process that writes a log, and is not of the task.
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
