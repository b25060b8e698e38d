//! The coordinator of this worker: connection, requests, and what it leaves behind when it dies.

use std::collections::BTreeSet;
use std::io;

use baton_core::supervision::io::{Ending, Sighting};
use baton_model::cpu::NodeSizes;
use baton_model::device::DeviceLists;
use baton_model::ids::BootId;
use baton_model::task::{Identity, Moment, RunKey};
use baton_model::time::{Millis, Mono};
use baton_runner::coordinator::{CoordinatorSpec, Discovery, Link, StartPermit};
use baton_runner::reaper::ReaperSpec;
use baton_runner::record::Evidence;
use baton_runner::sys::exits::Exits;
use baton_runner::sys::spawn::{Command, Spawner};
use baton_runner::sys::{clock, identity};
use baton_runner::wire::{Guard, KnownRun, Reply, Request};
use rustix::event::{PollFd, PollFlags, poll};

use crate::error::Error;
use crate::reaper::Reaper;

/// How often a coordinator is told to exit.
const EXIT_TRIES_MAX: u32 = 10;
/// How long it gets each time.
const EXIT_WAIT: Millis = Millis::from_secs(1);
/// Delay before killing again what could not be killed.
const KILL_RETRY: Millis = Millis::from_secs(1);

/// The coordinator, and the agent's ways to it.
pub(crate) struct Coordinator {
    spec: CoordinatorSpec,
    boot: BootId,
    spawner: Spawner,
    /// Children that this process had before it became an agent: not the worker's.
    foreign_children: Vec<Identity>,
    reaper: Reaper,
    /// Exit statuses of children inherited from a dead coordinator, by us or by the reaper.
    exits: Exits,
    link: Option<Link>,
    /// Requests that are not sent yet.
    requests: Vec<Request>,
    /// The order of the dead-man timer that is in force.
    guard: Option<Guard>,
}

/// What is known when a coordinator has been found.
pub(crate) struct Discovered {
    pub(crate) runs: Vec<KnownRun>,
    pub(crate) guard: Option<Guard>,
    pub(crate) state: DiscoveredState,
}

pub(crate) enum DiscoveredState {
    /// It runs, and reports its runs itself.
    Running,
    /// It is dead. `readable` is false if there was none, or its log cannot be read.
    Dead { permit: StartPermit, readable: bool },
}

impl Coordinator {
    pub(crate) fn new(spec: CoordinatorSpec, boot: BootId) -> Result<Self, Error> {
        let reaper = ReaperSpec {
            binary: spec.binary.clone(),
            checkpoint: spec.checkpoint.clone(),
            mark: spec.mark.clone(),
            cgroup: spec.cgroup.clone(),
        };
        Ok(Self {
            spec,
            boot,
            spawner: Spawner::new().map_err(Error::io("prepare to start a coordinator"))?,
            foreign_children: identity::children(boot),
            reaper: Reaper::new(reaper, boot),
            exits: Exits::default(),
            link: None,
            requests: Vec::new(),
            guard: None,
        })
    }

    pub(crate) const fn link(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    pub(crate) const fn guard(&self) -> Option<Guard> {
        self.guard
    }

    pub(crate) fn set_guard(&mut self, guard: Option<Guard>) {
        self.guard = guard;
        self.reaper.set_guard(guard);
    }

    pub(crate) const fn reaper(&self) -> &Reaper {
        &self.reaper
    }

    pub(crate) fn reaper_disconnected(&mut self) {
        self.reaper.disconnected();
    }

    /// Finds or starts the reaper, if it is gone.
    pub(crate) fn connect_reaper(&mut self) {
        self.reaper.connect(&mut self.spawner);
    }

    pub(crate) fn push(&mut self, request: Request) {
        self.requests.push(request);
    }

    /// Reaps every child of ours that has ended.
    pub(crate) fn collect_exits(&mut self) {
        self.exits.take(self.boot);
    }

    /// Sends all requests with one write.
    ///
    /// # Errors
    /// If the coordinator is gone.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let requests = std::mem::take(&mut self.requests);
        if requests.is_empty() {
            return Ok(());
        }
        match &mut self.link {
            Some(link) => link.send_all(&requests),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Receives replies. The flag is false once the coordinator is gone.
    pub(crate) fn receive(&mut self) -> (Vec<Reply>, bool) {
        let Some(link) = &mut self.link else {
            return (Vec::new(), false);
        };
        link.receive().unwrap_or_else(|error| {
            tracing::error!("the coordinator sent an invalid message: {error}");
            (Vec::new(), false)
        })
    }

    /// Finds the coordinator, alive or dead. Drops the connection and all requests.
    pub(crate) fn find(&mut self) -> Result<Discovered, Error> {
        self.link = None;
        self.requests.clear();
        self.connect_reaper();
        self.collect_exits();
        match self.discover()? {
            Discovery::Running(link, greeting) => {
                self.link = Some(link);
                Ok(Discovered {
                    runs: greeting.runs,
                    guard: greeting.guard,
                    state: DiscoveredState::Running,
                })
            }
            Discovery::Absent(permit) => {
                let (boot, reaper, exits) = (self.boot, &mut self.reaper, &mut self.exits);
                let mut reaped = |pid| {
                    take_exits(boot, reaper, exits);
                    exits.start_of(pid)
                };
                let evidence = match permit.evidence(&self.spec, &mut reaped) {
                    Ok(records) => records.map(Evidence::from_iter),
                    Err(error) => {
                        tracing::error!("the log of the dead coordinator cannot be read: {error}");
                        None
                    }
                };
                let readable = evidence.is_some();
                let Evidence { runs, guard } = evidence.unwrap_or_default();
                Ok(Discovered {
                    runs,
                    guard,
                    state: DiscoveredState::Dead { permit, readable },
                })
            }
        }
    }

    fn discover(&self) -> Result<Discovery, Error> {
        let found = self.spec.discover();
        found.map_err(Error::io("reach the coordinator"))
    }

    /// Starts a coordinator. Its first record replaces the log of the one before.
    pub(crate) fn start(&mut self, permit: StartPermit, successor: bool) -> Result<(), Error> {
        let (reaper, spawner) = (&mut self.reaper, &mut self.spawner);
        let mut spawn = |command: &Command<'_>| reaper.spawn(spawner, command);
        let begun = permit.start(&self.spec, &mut spawn, successor);
        let (link, _) = begun.map_err(Error::io("start the coordinator"))?;
        self.link = Some(link);
        Ok(())
    }

    /// Queues the first requests to a coordinator.
    pub(crate) fn attach(
        &mut self,
        amounts: Vec<u64>,
        devices: DeviceLists,
        core_nodes: NodeSizes,
    ) {
        self.push(self.attachment());
        self.push(Request::Capacity {
            amounts,
            devices,
            core_nodes,
        });
        self.requests.extend(self.guard.map(Request::Guard));
    }

    fn attachment(&self) -> Request {
        Request::Attach {
            spared: self.foreign_children.clone(),
            reaper: self.reaper.identity(),
        }
    }

    /// Tells the coordinator to exit: no work is left.
    pub(crate) fn dismiss(&mut self) {
        self.set_guard(None);
        self.push(Request::Exit);
        // Fails only if it is already gone.
        let _ = self.flush();
    }

    /// Replaces a coordinator that was told to exit.
    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        let permit = self.retire()?;
        self.start(permit, false)
    }

    /// Waits until a coordinator that was told to exit is gone.
    pub(crate) fn retire(&mut self) -> Result<StartPermit, Error> {
        if let Some(link) = self.link.take() {
            await_exit(link);
        }
        self.collect_exits();
        for _ in 0..EXIT_TRIES_MAX {
            match self.discover()? {
                Discovery::Running(mut link, _) => {
                    // It exits, or is gone: the next iteration finds out.
                    let _ = link.send(&Request::Exit);
                    await_exit(link);
                }
                Discovery::Absent(permit) => return Ok(permit),
            }
        }
        let error = io::Error::other("it does not exit");
        Err(Error::io("replace the coordinator")(error))
    }

    /// Kills all processes with the worker's mark, and waits until they are dead.
    pub(crate) fn kill_leftovers(&mut self) -> Result<(), Error> {
        let what = "kill the processes of an earlier incarnation";
        for id in 1.. {
            let left = self.kill_once(id).map_err(Error::io(what))?;
            if left == 0 {
                break;
            }
            tracing::error!(
                "{left} processes of an earlier incarnation cannot be killed; retrying"
            );
            std::thread::sleep(std::time::Duration::from_millis(KILL_RETRY.0));
        }
        Ok(())
    }

    fn kill_once(&mut self, id: u64) -> io::Result<u32> {
        let attachment = self.attachment();
        let Some(link) = &mut self.link else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let grace = Millis(0);
        link.send_all(&[attachment, Request::KillEverything { id, grace }])?;
        loop {
            poll(&mut [PollFd::new(&*link, PollFlags::IN)], None)?;
            let (replies, alive) = link.receive()?;
            for reply in replies {
                if let Reply::EverythingKilled { left, .. } = reply {
                    return Ok(left);
                }
            }
            if !alive {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
        }
    }

    /// What is known of a run that no coordinator watches.
    pub(crate) fn sight(&mut self, started: Option<(Moment, Identity)>) -> Sighting {
        let Some((at, identity)) = started else {
            self.collect_exits();
            return Sighting::Unknown;
        };
        let (boot, reaper) = (self.boot, &mut self.reaper);
        let take = |exits: &mut Exits| take_exits(boot, reaper, exits);
        let sighting = self.exits.sight(boot, Some(&identity), take);
        sighting.map(|outcome| Ending::found(outcome, at, clock::now()))
    }
}

impl Discovered {
    /// The runs that the coordinator reports itself.
    pub(crate) fn owned(&self) -> BTreeSet<RunKey> {
        match self.state {
            DiscoveredState::Running => self.runs.iter().map(|known| known.run).collect(),
            DiscoveredState::Dead { .. } => BTreeSet::new(),
        }
    }
}

/// Adds the exits of our own children, and of the reaper's.
fn take_exits(boot: BootId, reaper: &mut Reaper, exits: &mut Exits) {
    exits.take(boot);
    reaper.take_exits(exits);
}

/// Waits a bounded time until a coordinator that was told to exit is gone. It serves one connection
/// at a time: connecting again now would replace the connection that carries the order.
fn await_exit(mut link: Link) {
    let until: Mono = clock::now().mono + EXIT_WAIT;
    loop {
        let left = until.since(clock::now().mono);
        if left == Millis(0) {
            return;
        }
        let timeout = clock::timeout(left);
        // An error or an interruption only shortens the wait.
        let _ = poll(&mut [PollFd::new(&link, PollFlags::IN)], Some(&timeout));
        if !matches!(link.receive(), Ok((_, true))) {
            return;
        }
    }
}
