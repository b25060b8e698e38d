//! The loop: one thread around one `poll`.
//!
//! ```text
//!   scheduler ──messages──▶┐            ┌──▶ outgoing ──one write──▶ scheduler
//!   coordinator ─replies──▶├─▶ machine ─┤
//!   time, signals ────────▶┘            └──▶ requests ──one write──▶ coordinator
//! ```
//!
//! Everything that one turn brings about leaves in one write to each side.

use std::collections::{BTreeMap, VecDeque};
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
use baton_runner::sys::exits::Exits;
use baton_runner::sys::signals::{self, Signals};
use baton_runner::sys::spawn::Spawner;
use baton_runner::sys::{cgroup, clock, identity, reap};
use baton_runner::wire::{Guard, Request, RunKey};
use rustix::event::{PollFd, PollFlags, poll};

use crate::connection::Connection;
use crate::error::Error;
use crate::launch::Launcher;
use crate::life::{self, Killing, Pace};
use crate::memory::Watch;
use crate::outgoing::Outgoing;
use crate::runs::Runs;
use crate::state::{self, StateDir};
use crate::sweep::Sweep;
use crate::tag::Tags;
use crate::{AgentExit, Config};

/// A launch that finds no room for so long is given back: somebody else may have it.
pub(crate) const WAIT_MAX: Millis = Millis::from_secs(1);

/// An agent at work.
pub(crate) struct Agent {
    pub(crate) config: Config,
    pub(crate) offer: Arc<Offer>,
    pub(crate) dir: StateDir,
    pub(crate) host: HostId,
    pub(crate) boot: BootId,
    pub(crate) start: CoordinatorSpec,
    pub(crate) spawner: Spawner,
    /// Children that this process had before it was an agent: not the worker's.
    pub(crate) strangers: Vec<Identity>,
    /// How children of ours ended that a dead coordinator has left us: by pid and start.
    pub(crate) exits: Exits,
    pub(crate) link: Option<Link>,
    pub(crate) worker: Worker,
    /// The order of the dead-man timer that is in force.
    pub(crate) guard: Option<Guard>,
    pub(crate) runs: Runs,
    /// Something that was inherited is settled.
    pub(crate) estate_changed: bool,
    pub(crate) tags: Tags,
    pub(crate) launcher: Launcher,
    pub(crate) connection: Connection,
    /// To be handed to the machine, in this order.
    pub(crate) inputs: VecDeque<Input>,
    /// To be said to the coordinator in this turn.
    pub(crate) requests: Vec<Request>,
    /// To be said to the scheduler in this turn.
    pub(crate) outgoing: Outgoing,
    pub(crate) checks: BTreeMap<RunKey, CheckId>,
    /// Who waits for room, and until when that is borne.
    pub(crate) waiting: VecDeque<(Mono, RunKey)>,
    /// Why everything was or is being killed.
    pub(crate) dying: Option<KillCause>,
    pub(crate) killing: Killing,
    /// The machine says that this life is over.
    pub(crate) life_over: bool,
    pub(crate) leaving: bool,
    pub(crate) pace: Pace,
    pub(crate) watch: Watch,
    pub(crate) sweep: Sweep,
}

impl Agent {
    /// Opens the state directory, and begins a life or goes on with one.
    pub(crate) fn open(config: Config) -> Result<Self, Error> {
        let now = clock::now().mono;
        let connection = Connection::new(
            &config.scheduler,
            config.token.clone(),
            config.tls.clone(),
            now,
        )?;
        // A limit on the size of files must be an error that is told, not our death.
        signals::ignore(&[libc::SIGXFSZ, libc::SIGPIPE]);
        let dir = StateDir::open(&config.state)?;
        let boot = identity::boot_id().map_err(Error::io("read the boot id"))?;
        // The children of a coordinator that dies come to us, with their exit status.
        reap::become_subreaper().map_err(Error::io("become the subreaper"))?;
        let group = cgroup::create(&format!("baton-{}", dir.mark()));
        let start = CoordinatorSpec {
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
        let worker = life::machine(&config, &dir, host, boot, Vec::new(), now);
        let mut agent = Self {
            sweep: Sweep::new(dir.path(), config.keep, now),
            watch: Watch::new(start.cgroup.clone(), now),
            spawner: Spawner::new().map_err(Error::io("prepare to start a coordinator"))?,
            strangers: identity::children(boot),
            exits: Exits::default(),
            link: None,
            worker,
            guard: None,
            runs: Runs::default(),
            estate_changed: false,
            tags: Tags::default(),
            launcher,
            connection,
            inputs: VecDeque::new(),
            requests: Vec::new(),
            outgoing: Outgoing::default(),
            checks: BTreeMap::new(),
            waiting: VecDeque::new(),
            dying: None,
            killing: Killing::default(),
            life_over: false,
            leaving: false,
            pace: Pace::default(),
            config,
            offer,
            dir,
            host,
            boot,
            start,
        };
        agent.enter()?;
        Ok(agent)
    }

    /// Runs until it is told to end.
    pub(crate) fn drive(mut self) -> Result<AgentExit, Error> {
        signals::restore(libc::SIGCHLD);
        let wanted = [libc::SIGCHLD, libc::SIGTERM, libc::SIGHUP, libc::SIGINT];
        let mut signals = Signals::listen(&wanted).map_err(Error::io("listen to signals"))?;
        loop {
            self.feed();
            if let Some(ended) = self.settle_life()? {
                return Ok(ended);
            }
            self.speak()?;
            let ready = self.wait(&signals)?;
            if ready.signals {
                for signal in signals.take().map_err(Error::io("take signals"))? {
                    if let Some(ended) = self.signalled(signal) {
                        return Ok(ended);
                    }
                }
            }
            if ready.link {
                self.hear_coordinator()?;
            }
            let now = clock::now().mono;
            self.hear_scheduler(now, ready.connection);
            self.time_passes(now, &ready);
        }
    }

    /// Hands everything to the machine, and carries out what it wants.
    pub(crate) fn feed(&mut self) {
        while let Some(input) = self.inputs.pop_front() {
            let now = clock::now().mono;
            for effect in self.worker.handle(now, input) {
                self.carry_out(now, effect);
            }
        }
    }

    fn signalled(&mut self, signal: i32) -> Option<AgentExit> {
        match signal {
            libc::SIGCHLD => self.exits.take(self.boot),
            libc::SIGINT if self.leaving => {
                tracing::warn!("leaving at once; what is left is being killed");
                // Both may have come in the same turn: then the coordinator knows nothing yet.
                self.feed();
                if let Err(error) = self.speak() {
                    tracing::error!("{error}");
                }
                return Some(AgentExit::Over);
            }
            libc::SIGINT => {
                tracing::info!("ending: killing everything; once more to leave at once");
                self.leaving = true;
                self.inputs.push_back(Input::GuardFired);
            }
            _ => {
                self.leave();
                return Some(AgentExit::Left);
            }
        }
        None
    }

    /// Goes, and lets the work go on.
    fn leave(&mut self) {
        if self.runs.is_empty() && self.checks.is_empty() {
            // Nobody needs the coordinator; its log tells the next agent what there is.
            self.requests.push(Request::Exit);
        }
        let requests = std::mem::take(&mut self.requests);
        if let Some(link) = &mut self.link {
            // If it is gone, then the next agent finds that out.
            let _ = link.send_all(&requests);
        }
        tracing::info!("leaving; what runs goes on");
    }

    /// Says everything that has come up, with one write to each side.
    fn speak(&mut self) -> Result<(), Error> {
        self.keep_estate();
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
                    self.replace()?;
                    self.feed();
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
            tracing::error!("something cannot be told to the scheduler: {error}");
        }
        if !bytes.is_empty() {
            self.connection.send(now, &bytes);
        }
        Ok(())
    }

    fn wait(&self, signals: &Signals) -> Result<Ready, Error> {
        let now = clock::now().mono;
        let due = [
            self.worker.next_due(),
            Some(self.connection.next_due()),
            self.waiting.front().map(|(at, _)| *at),
            self.watch.next_due(&self.runs),
            self.killing.next_due(),
            Some(self.sweep.next_due()),
        ];
        let due = due.into_iter().flatten().min();
        let timeout = due.map(|due| clock::timeout(due.since(now)));
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
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::io("wait")(error.into())),
        }
        let any = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        Ok(Ready {
            signals: any(0),
            link: self.link.is_some() && any(1),
            connection: any(connection),
        })
    }

    fn hear_coordinator(&mut self) -> Result<(), Error> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let alive = match link.receive() {
            Ok((replies, alive)) => {
                for reply in replies {
                    self.hear(reply);
                }
                alive
            }
            Err(error) => {
                tracing::error!("the coordinator makes no sense: {error}");
                false
            }
        };
        if alive {
            return Ok(());
        }
        tracing::warn!("the coordinator is gone");
        // What it said before it went is taken first.
        self.feed();
        self.replace()
    }

    fn hear_scheduler(&mut self, now: Mono, ready: bool) {
        let events = self.connection.turn(now, ready);
        if events.connected {
            // Whoever has just answered hears from us at once.
            self.worker.offer(now, Arc::clone(&self.offer));
        }
        for message in events.messages {
            if let ToWorker::HeartbeatRefused { refusal, .. } = &message {
                tracing::warn!("the scheduler refuses this worker: {}", reason(*refusal));
            }
            self.inputs.push_back(Input::Message(message));
        }
    }

    fn time_passes(&mut self, now: Mono, ready: &Ready) {
        if self.worker.next_due().is_some_and(|due| due <= now) {
            self.inputs.push_back(Input::Tick);
        }
        self.withdraw_late(now);
        self.watch_memory(now);
        self.kill_again(now);
        let idle = !ready.link && !ready.connection && self.inputs.is_empty();
        if now >= self.sweep.next_due() {
            let runs = &self.runs;
            self.sweep.turn(now, idle, |lease| runs.holds(lease));
        }
    }
}

struct Ready {
    signals: bool,
    link: bool,
    connection: bool,
}

/// A refusal, in words that help.
const fn reason(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Superseded => "a later life of this state directory has been seen",
        Refusal::SeatTaken => "another worker has this name; choose another with --name",
        Refusal::Condemned => "this life was given up before",
        Refusal::OtherVersion => "it speaks another version of the protocol",
    }
}
