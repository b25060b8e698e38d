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

use super::kill::Killing;
use super::launch::Launcher;
use super::runs::{Body, Due, Role, Run, Table};
use super::{Config, LISTENER_FD, LOCK_FD};
use crate::channel::Channel;
use crate::log::{Kind, Log};
use crate::record::CoordinatorRecord;
use crate::sys::identity::{self, Handle};
use crate::sys::signals::{self, Signals};
use crate::sys::{clock, inherit, memory, reap};
use crate::wire::{Ended, Known, Reply, Request, RunKey, VERSION};

/// Without a runner and without anything that runs, for this long: whatever there is to
/// know is in the log, so nobody needs this process any more.
const IDLE_MAX: Millis = Millis::from_secs(60);

/// A log with more records than this, most of them about forgotten runs, is replaced.
const LOG_RECORDS_MAX: u64 = 4_096;

/// After a connection could not be taken.
const ACCEPT_AGAIN: Millis = Millis::from_secs(1);

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
    pub(super) table: Table,
    pub(super) launcher: Launcher,
    pub(super) killing: Option<Killing>,
    guard: DeadMan,
    /// `None` once it could not be written; then the records are kept here only.
    log: Option<Log>,
    records: Vec<CoordinatorRecord>,
    replies: Vec<Reply>,
    client: Option<Client>,
    leaving: bool,
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
        table: Table::default(),
        launcher,
        killing: None,
        guard: DeadMan::default(),
        log: Some(log),
        records: Vec::new(),
        replies: Vec::new(),
        client: None,
        leaving: false,
        idle_since: clock::now().mono,
        accept_at: Mono(0),
    };
    if coordinator.config.successor {
        coordinator.kill_half_born()?;
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
            self.look_at_adopted();
            self.time_passes();
            if ready.client {
                self.read();
            }
            self.obey();
            if ready.listener {
                self.accept(listener);
            }
            self.speak();
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
        Ok(Ready {
            signals: any(0),
            listener: any(1),
            client: self.client.is_some() && any(2),
        })
    }

    fn next_due(&self) -> Option<Mono> {
        let idle = self.is_idle().then(|| self.idle_since + IDLE_MAX);
        let killing = self.killing.as_ref().map(Killing::look_at);
        let accept = Some(self.accept_at).filter(|at| *at > clock::now().mono);
        let all = [
            self.table.next_due(),
            self.guard.next_due(),
            idle,
            killing,
            accept,
        ];
        all.into_iter().flatten().min()
    }

    fn time_passes(&mut self) {
        let now = clock::now().mono;
        while let Some(due) = self.table.pop_due(now) {
            match due {
                Due::Kill(run) => self.kill_stopped(run),
                Due::Look(run) => self.look(run),
                Due::Probe(id) => self.probe_is_late(id),
            }
        }
        match self.guard.poll(now) {
            Some(GuardAction::Terminate) => {
                self.say(Reply::GuardFired);
                self.terminate_for_guard();
            }
            Some(GuardAction::Kill) => self.kill_for_guard(),
            None => {}
        }
        if self.killing.is_some() {
            self.go_on_killing(now);
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
                    self.accept_at = clock::now().mono + ACCEPT_AGAIN;
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
            killing.disown();
        }
        let mut channel = Channel::new(stream)?;
        channel.send(&Reply::Hello {
            version: VERSION,
            mark: self.config.mark.clone(),
            pid: std::process::id(),
            fired: self.guard.has_fired(),
            runs: self.table.known().collect(),
        })?;
        self.client = Some(Client {
            channel,
            pid,
            spared: Vec::new(),
        });
        Ok(())
    }

    fn read(&mut self) {
        let Some(client) = &mut self.client else {
            return;
        };
        let alive = client.channel.flush().and_then(|()| client.channel.fill());
        if !matches!(alive, Ok(true)) {
            // What it said before it went counts: a runner that ends says so and leaves.
            self.obey();
            self.lose_client();
        }
    }

    /// Carries out what was asked for, up to an order that holds up the others.
    fn obey(&mut self) {
        while self.killing.is_none() {
            let Some(client) = &mut self.client else {
                return;
            };
            match client.channel.next::<Request>() {
                Ok(Some(request)) => self.request(request),
                Ok(None) => return,
                Err(error) => {
                    eprintln!("coordinator: a runner that makes no sense: {error}");
                    self.lose_client();
                }
            }
        }
    }

    fn request(&mut self, request: Request) {
        let now = clock::now().mono;
        match request {
            Request::Attach { spared } => {
                if let Some(client) = &mut self.client {
                    client.spared = spared;
                }
            }
            Request::Launch { run, launch } => self.launch(run, &launch),
            Request::Stop { run, signal, grace } => self.stop(run, signal, now + grace),
            Request::KillRun { run } => self.kill_run(run),
            Request::KillEverything { id, grace } => self.kill_everything(now, grace, id),
            Request::Probe {
                id,
                run,
                launch,
                timeout,
            } => self.probe(id, run, &launch, now + timeout),
            Request::Adopt { run, at, identity } => self.adopt(run, at, identity),
            Request::Forget { run } => self.forget(run),
            Request::Guard(order) => self.guard.extend(order.into()),
            Request::Exit => self.leaving = true,
        }
    }

    fn adopt(&mut self, run: RunKey, at: Moment, identity: Identity) {
        if self.table.runs.contains_key(&run) {
            return;
        }
        match Handle::open(&identity, self.boot) {
            Ok(Some(handle)) => {
                self.record(CoordinatorRecord::Started { run, at, identity });
                let adopted = Run::started(at, identity, Body::Adopted(handle));
                self.table.runs.insert(run, adopted);
            }
            Ok(None) => self.say(Reply::Unknown { run }),
            Err(error) => {
                eprintln!(
                    "coordinator: cannot hold {run}, pid {}: {error}",
                    identity.pid
                );
                self.say(Reply::Unknown { run });
            }
        }
    }

    fn forget(&mut self, run: RunKey) {
        let over = self.table.runs.get(&run).is_some_and(|run| !run.is_live());
        if over {
            self.table.runs.remove(&run);
            self.record(CoordinatorRecord::Forgotten { run });
        }
    }

    /// True if a launch may go ahead.
    pub(super) fn admits(&self) -> bool {
        !self.config.guarded || self.guard.admits(clock::now().mono)
    }

    /// A run is over: from here on it is known how.
    pub(super) fn ended(&mut self, ended: Ended) {
        if let Some(run) = self.table.runs.get_mut(&ended.run) {
            run.ended = Some(ended.clone());
            run.body = Body::Gone(crate::sys::identity::ExitStatus::Code(0));
        }
        self.record(CoordinatorRecord::Ended(ended.clone()));
        self.say(Reply::Ended(ended));
        self.idle_since = clock::now().mono;
    }

    /// Keeps something, before what is said from now on is said.
    pub(super) fn record(&mut self, record: CoordinatorRecord) {
        self.records.push(record);
    }

    /// Says something to the runner, once everything recorded is written.
    pub(super) fn say(&mut self, reply: Reply) {
        self.replies.push(reply);
    }

    /// The number of the runner, if there is one, and which of its children are not ours.
    pub(super) fn client(&self) -> Option<(u32, &[Identity])> {
        let client = self.client.as_ref()?;
        Some((client.pid, &client.spared))
    }

    fn speak(&mut self) {
        self.write_records();
        let replies = std::mem::take(&mut self.replies);
        let Some(client) = &mut self.client else {
            return;
        };
        let sent = replies
            .iter()
            .try_for_each(|reply| client.channel.send(reply))
            .and_then(|()| client.channel.flush());
        if sent.is_err() {
            self.lose_client();
        }
    }

    fn lose_client(&mut self) {
        self.client = None;
        self.idle_since = clock::now().mono;
        self.write_records();
        self.sync();
    }

    /// A log that cannot be written is evidence lost, not work lost: the runner hears
    /// everything from us as long as we live, and what it never heard of it finds by its
    /// mark. So we go on.
    pub(super) fn write_records(&mut self) {
        if self.records.is_empty() {
            return;
        }
        let records = std::mem::take(&mut self.records);
        let Some(log) = &mut self.log else {
            return;
        };
        if let Err(error) = log.append(&records) {
            return self.give_the_log_up(&error);
        }
        if log.records() > LOG_RECORDS_MAX.max(4 * self.table.runs.len() as u64) {
            self.compact();
        }
        if self.client.is_none() {
            self.sync();
        }
    }

    fn sync(&mut self) {
        if let Some(Err(error)) = self.log.as_mut().map(Log::sync) {
            self.give_the_log_up(&error);
        }
    }

    fn compact(&mut self) {
        let begun = CoordinatorRecord::Begun {
            mark: self.config.mark.clone(),
            boot: self.boot,
            pid: std::process::id(),
        };
        let kept = self.table.known().flat_map(known_records);
        let first: Vec<_> = std::iter::once(begun).chain(kept).collect();
        if let Some(Err(error)) = self.log.as_mut().map(|log| log.replace(&first)) {
            self.give_the_log_up(&error);
        }
    }

    fn give_the_log_up(&mut self, error: &crate::log::LogError) {
        eprintln!("coordinator: goes on without its log: {error}");
        self.log = None;
    }

    fn is_idle(&self) -> bool {
        // A child is one that has daemonised, and we are the only link to it.
        let childless = || !reap::has_children().unwrap_or(true);
        let quiet = self.client.is_none() && self.killing.is_none();
        quiet && self.table.live().next().is_none() && childless()
    }

    fn is_over(&self) -> bool {
        let told = self.leaving && self.killing.is_none();
        let idle = self.is_idle() && clock::now().mono >= self.idle_since + IDLE_MAX;
        // Without a log, what it knows is nowhere else.
        told || (idle && self.log.is_some())
    }

    /// True for a process that writes a log, and is not of the task.
    pub(super) fn is_rotator(&self, pid: u32) -> bool {
        self.table.children.get(&pid) == Some(&Role::Rotator)
    }
}

/// The records that say what is known about one run.
fn known_records(known: Known) -> Vec<CoordinatorRecord> {
    let run = known.run;
    let started = known
        .started
        .map(|(at, identity)| CoordinatorRecord::Started { run, at, identity });
    let ended = known.ended.map(CoordinatorRecord::Ended);
    started.into_iter().chain(ended).collect()
}

struct Ready {
    signals: bool,
    listener: bool,
    client: bool,
}
