//! The event loop: one thread around one `poll`.
//!
//! ```text
//!   scheduler ──messages──▶┐            ┌──▶ outgoing ──one write──▶ scheduler
//!   coordinator ─replies──▶├─▶ machine ─┤
//!   time, signals ────────▶┘            └──▶ requests ──one write──▶ coordinator
//! ```
//!
//! All messages of one iteration leave in one write to each side.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use baton_core::protocol::worker::Worker;
use baton_core::protocol::worker::io::Input;
use baton_model::ids::{BootId, CheckId, HostId};
use baton_model::message::{Refusal, ToWorker};
use baton_model::outcome::KillCause;
use baton_model::placement::Offer;
use baton_model::task::Identity;
use baton_model::time::{Millis, Mono};
use baton_runner::coordinator::{CoordinatorSpec, Link};
use baton_runner::sys::clock::Alarm;
use baton_runner::sys::exits::Exits;
use baton_runner::sys::signals::{self, Signals};
use baton_runner::sys::spawn::Spawner;
use baton_runner::sys::{cgroup, clock, identity, reap};
use baton_runner::wire::{Guard, Request, RunKey};
use rustix::event::{PollFd, PollFlags};

use crate::attempts::Attempts;
use crate::connection::Connection;
use crate::error::Error;
use crate::incarnation::{self, KillOrder, RestartBackoff};
use crate::launch::Launcher;
use crate::memory::MemoryWatch;
use crate::outgoing::Outgoing;
use crate::state::{self, StateDir};
use crate::sweep::Sweep;
use crate::tag::Tags;
use crate::watchdog::{self, Watchdog};
use crate::{AgentExit, Config};

/// A launch that finds no room for this long is returned: another worker may have room.
pub(crate) const WAIT_MAX: Millis = Millis::from_secs(1);

/// A running agent.
pub(crate) struct Agent {
    pub(crate) config: Config,
    pub(crate) offer: Arc<Offer>,
    pub(crate) dir: StateDir,
    pub(crate) host: HostId,
    pub(crate) boot: BootId,
    pub(crate) coordinator: CoordinatorSpec,
    pub(crate) spawner: Spawner,
    /// Children that this process had before it became an agent: not the worker's.
    pub(crate) foreign_children: Vec<Identity>,
    /// Exit statuses of children inherited from a dead coordinator, by pid and start time.
    pub(crate) exits: Exits,
    pub(crate) link: Option<Link>,
    pub(crate) worker: Worker,
    /// The order of the dead-man timer that is in force.
    pub(crate) guard: Option<Guard>,
    pub(crate) attempts: Attempts,
    /// An attempt of the handover file was settled.
    pub(crate) handover_changed: bool,
    pub(crate) tags: Tags,
    pub(crate) launcher: Launcher,
    pub(crate) connection: Connection,
    /// Inputs for the state machine, in this order.
    pub(crate) inputs: VecDeque<Input>,
    /// Requests to the coordinator in this iteration.
    pub(crate) requests: Vec<Request>,
    /// Messages to the scheduler in this iteration.
    pub(crate) outgoing: Outgoing,
    pub(crate) checks: BTreeMap<RunKey, CheckId>,
    /// Attempts that wait for room, and their deadlines.
    pub(crate) waiting: VecDeque<(Mono, RunKey)>,
    /// Why everything was or is being killed.
    pub(crate) dying: Option<KillCause>,
    pub(crate) kill_order: KillOrder,
    /// The state machine has ended this incarnation.
    pub(crate) incarnation_over: bool,
    pub(crate) shutting_down: bool,
    pub(crate) restart_backoff: RestartBackoff,
    pub(crate) memory_watch: MemoryWatch,
    pub(crate) sweep: Sweep,
}

impl Agent {
    /// Opens the state directory, and starts or resumes an incarnation.
    pub(crate) fn open(config: Config) -> Result<Self, Error> {
        let now = clock::now().mono;
        let connection = Connection::new(
            &config.scheduler,
            config.token.clone(),
            config.tls.clone(),
            now,
        )?;
        // Exceeding a file size limit must be an error that is reported, not a fatal signal.
        signals::ignore(&[libc::SIGXFSZ, libc::SIGPIPE]);
        let dir = StateDir::open(&config.state)?;
        let boot = identity::boot_id().map_err(Error::io("read the boot id"))?;
        // The children of a dying coordinator are reparented to this process, with their exit
        // status.
        reap::become_subreaper().map_err(Error::io("become the subreaper"))?;
        let group = cgroup::create(&format!("baton-{}", dir.mark()));
        let coordinator = CoordinatorSpec {
            binary: config.binary.clone(),
            checkpoint: dir.checkpoint(),
            sandbox: dir.path().to_owned(),
            mark: dir.mark(),
            cgroup: group.map(|group| group.path().to_owned()),
            guarded: true,
        };
        let host = state::host_id();
        let offer = Arc::new(config.offer.clone());
        let launcher = Launcher::new(dir.path(), &config.binary, &offer.capacity);
        let worker = incarnation::new_machine(&config, &dir, host, boot, Vec::new(), now);
        let mut agent = Self {
            sweep: Sweep::new(dir.path(), config.keep, now),
            memory_watch: MemoryWatch::new(coordinator.cgroup.clone(), now),
            spawner: Spawner::new().map_err(Error::io("prepare to start a coordinator"))?,
            foreign_children: identity::children(boot),
            exits: Exits::default(),
            link: None,
            worker,
            guard: None,
            attempts: Attempts::default(),
            handover_changed: false,
            tags: Tags::default(),
            launcher,
            connection,
            inputs: VecDeque::new(),
            requests: Vec::new(),
            outgoing: Outgoing::default(),
            checks: BTreeMap::new(),
            waiting: VecDeque::new(),
            dying: None,
            kill_order: KillOrder::default(),
            incarnation_over: false,
            shutting_down: false,
            restart_backoff: RestartBackoff::default(),
            config,
            offer,
            dir,
            host,
            boot,
            coordinator,
        };
        agent.start_or_resume()?;
        Ok(agent)
    }

    /// Runs until it is told to exit.
    pub(crate) fn drive(mut self) -> Result<AgentExit, Error> {
        signals::restore(libc::SIGCHLD);
        let wanted = [libc::SIGCHLD, libc::SIGTERM, libc::SIGHUP, libc::SIGINT];
        let mut signals = Signals::listen(&wanted).map_err(Error::io("listen to signals"))?;
        let alarm = Alarm::new().map_err(Error::io("create a timer"))?;
        let mut watchdog = Watchdog::start(clock::now().mono);
        loop {
            watchdog.turn(clock::now().mono);
            self.feed_machine();
            if let Some(ended) = self.finish_incarnation()? {
                return Ok(ended);
            }
            self.flush()?;
            let ready = self.wait(&signals, &alarm, watchdog.next_due());
            let ready = ready.map_err(Error::io("wait"))?;
            if ready.signals {
                for signal in signals.take().map_err(Error::io("take signals"))? {
                    if let Some(ended) = self.handle_signal(signal) {
                        return Ok(ended);
                    }
                }
            }
            if ready.link {
                self.read_coordinator()?;
            }
            let now = clock::now().mono;
            self.read_scheduler(now, ready.connection);
            self.handle_timers(now, &ready);
        }
    }

    /// Passes all inputs to the state machine, and applies its effects.
    pub(crate) fn feed_machine(&mut self) {
        while let Some(input) = self.inputs.pop_front() {
            let now = clock::now().mono;
            for effect in self.worker.handle(now, input) {
                self.apply_effect(now, effect);
            }
        }
    }

    fn handle_signal(&mut self, signal: i32) -> Option<AgentExit> {
        match signal {
            libc::SIGCHLD => self.exits.take(self.boot),
            libc::SIGINT if self.shutting_down => {
                tracing::warn!("exiting now; the remaining processes are being killed");
                // Both signals may arrive in the same iteration: then the coordinator has no order
                // yet.
                self.feed_machine();
                if let Err(error) = self.flush() {
                    tracing::error!("{error}");
                }
                return Some(AgentExit::Ended);
            }
            libc::SIGINT => {
                tracing::info!("shutting down: killing everything; interrupt again to exit now");
                self.shutting_down = true;
                watchdog::stopping();
                self.inputs.push_back(Input::GuardFired);
            }
            _ => {
                self.detach();
                return Some(AgentExit::Detached);
            }
        }
        None
    }

    /// Exits and leaves the attempts running.
    fn detach(&mut self) {
        watchdog::stopping();
        if self.attempts.is_empty() && self.checks.is_empty() {
            // The coordinator is not needed; its log tells the next agent the state.
            self.requests.push(Request::Exit);
        }
        let requests = std::mem::take(&mut self.requests);
        if let Some(link) = &mut self.link {
            // If it is gone, the next agent finds out.
            let _ = link.send_all(&requests);
        }
        tracing::info!("exiting; running attempts continue");
    }

    /// Sends all pending messages, with one write to each side.
    fn flush(&mut self) -> Result<(), Error> {
        self.save_handover();
        loop {
            let requests = std::mem::take(&mut self.requests);
            if requests.is_empty() {
                break;
            }
            let sent = match &mut self.link {
                Some(link) => link.send_all(&requests),
                None => Err(std::io::ErrorKind::NotConnected.into()),
            };
            match sent {
                Ok(()) => break,
                Err(error) => {
                    tracing::warn!("the coordinator is gone: {error}");
                    self.replace_coordinator()?;
                    self.feed_machine();
                }
            }
        }
        let now = clock::now().mono;
        if !self.connection.is_up() {
            self.outgoing.clear();
            return Ok(());
        }
        let mut bytes = Vec::new();
        if let Err(error) = self.outgoing.encode(&mut bytes) {
            tracing::error!("a message to the scheduler cannot be encoded: {error}");
        }
        if !bytes.is_empty() {
            self.connection.send(now, &bytes);
        }
        Ok(())
    }

    fn wait(&self, signals: &Signals, alarm: &Alarm, ping: Option<Mono>) -> io::Result<Ready> {
        let due = [
            self.worker.next_due(),
            Some(self.connection.next_due()),
            self.waiting.front().map(|(at, _)| *at),
            self.memory_watch.next_due(&self.attempts),
            self.kill_order.next_due(),
            Some(self.sweep.next_due()),
            ping,
        ];
        let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
        if let Some(link) = &self.link {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, link.wants_write());
            fds.push(PollFd::new(link, flags));
        }
        let connection = fds.len();
        if let Some((fd, flags)) = self.connection.interest() {
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
        alarm.poll(&mut fds, due.into_iter().flatten().min())?;
        let any = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        Ok(Ready {
            signals: any(0),
            link: self.link.is_some() && any(1),
            connection: any(connection),
        })
    }

    fn read_coordinator(&mut self) -> Result<(), Error> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let alive = match link.receive() {
            Ok((replies, alive)) => {
                for reply in replies {
                    self.handle_reply(reply);
                }
                alive
            }
            Err(error) => {
                tracing::error!("the coordinator sent an invalid message: {error}");
                false
            }
        };
        if alive {
            return Ok(());
        }
        tracing::warn!("the coordinator is gone");
        // Process first what it sent before it died.
        self.feed_machine();
        self.replace_coordinator()
    }

    fn read_scheduler(&mut self, now: Mono, ready: bool) {
        let events = self.connection.advance(now, ready);
        if events.connected {
            // A scheduler that has just answered gets a heartbeat at once.
            self.worker.offer(now, Arc::clone(&self.offer));
        }
        for message in events.messages {
            if let ToWorker::HeartbeatRefused { refusal, .. } = &message {
                tracing::warn!("the scheduler refuses this worker: {}", reason(*refusal));
            }
            self.inputs.push_back(Input::Message(message));
        }
    }

    fn handle_timers(&mut self, now: Mono, ready: &Ready) {
        if self.worker.next_due().is_some_and(|due| due <= now) {
            self.inputs.push_back(Input::Tick);
        }
        self.withdraw_overdue(now);
        self.watch_memory(now);
        self.retry_kill(now);
        let idle = !ready.link && !ready.connection && self.inputs.is_empty();
        if now >= self.sweep.next_due() {
            let attempts = &self.attempts;
            self.sweep.turn(now, idle, |lease| attempts.contains(lease));
        }
    }
}

struct Ready {
    signals: bool,
    link: bool,
    connection: bool,
}

/// Explains a refusal.
const fn reason(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Superseded => "a later incarnation of this state directory has registered",
        Refusal::SeatTaken => "another worker has this name; choose another with --name",
        Refusal::Condemned => "this incarnation was condemned",
        Refusal::OtherVersion => "it uses another version of the protocol",
    }
}
