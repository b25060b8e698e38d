//! The process itself: one loop around `poll`.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use baton_core::protocol::worker::guard::Backstop;
use baton_model::json;
use baton_model::time::{Millis, Mono};
use baton_model::timeouts::LeaseTerm;
use rustix::event::{PollFd, PollFlags};

use super::messages::{ChildExit, EXITS_AT_ONCE, MESSAGE_BYTES_MAX, Reply, Request, VERSION};
use super::{LISTENER_FD, LOCK_FD};
use crate::coordinator::last_resort::{self, Leftovers};
use crate::stderr::log_line;
use crate::sys::clock::{self, Alarm};
use crate::sys::packets::{Packet, Packets};
use crate::sys::proc::Stat;
use crate::sys::signals::{self, Signals};
use crate::sys::spawn::{Command, Spawner};
use crate::sys::{inherit, memory, proc, reap};
use crate::wire::Guard;

/// The number of exits kept: the last ones. Each belongs to one attempt of a dead coordinator, so
/// that this is far more than a worker has at once.
const EXITS_MAX: usize = 4_096;
/// The time that the agent which has started it has to connect.
const CONNECT_MAX: Millis = Millis::from_secs(60);
/// The pause after the loop could not wait.
const WAIT_RETRY: Duration = Duration::from_millis(100);

/// The state of a reaper.
struct Reaper<'a> {
    mark: &'a str,
    cgroup: Option<&'a Path>,
    listener: OwnedFd,
    agent: Option<Packets>,
    /// It waits for its first agent until then.
    connect_by: Option<Mono>,
    spawner: Spawner,
    backstop: Backstop,
    /// The coordinator that was started last, while it lives.
    coordinator: Option<u32>,
    exits: VecDeque<ChildExit>,
    /// The number of exits so far, which is that of the last one.
    last_exit: u64,
    buffer: Vec<u8>,
}

/// Runs until nothing is left to do. Errors are written to standard error.
pub(super) fn run(mark: &str, cgroup: Option<&Path>, guard: Option<Guard>) -> io::Result<()> {
    let log = |error: &io::Error| log_line!("reaper: {error}");
    // Held for as long as this process lives: it shows that a reaper exists.
    let _lock = inherit::descriptor(LOCK_FD).inspect_err(log)?;
    let listener = inherit::descriptor(LISTENER_FD).inspect_err(log)?;
    let mut backstop = Backstop::default();
    backstop.set(guard.map(Into::into));
    start(mark, cgroup, listener, backstop).inspect_err(log)
}

fn start(
    mark: &str,
    cgroup: Option<&Path>,
    listener: OwnedFd,
    backstop: Backstop,
) -> io::Result<()> {
    let signals = Signals::listen(&[libc::SIGCHLD])?;
    signals::ignore_all_of_a_session();
    reap::become_subreaper()?;
    let mut reaper = Reaper {
        mark,
        cgroup,
        listener,
        agent: None,
        connect_by: Some(clock::now().mono + CONNECT_MAX),
        spawner: Spawner::new()?,
        backstop,
        coordinator: None,
        exits: VecDeque::with_capacity(EXITS_MAX),
        last_exit: 0,
        buffer: vec![0; MESSAGE_BYTES_MAX],
    };
    let alarm = Alarm::new()?;
    memory::release_startup_pages()?;
    memory::lock();
    if catch_unwind(AssertUnwindSafe(|| reaper.serve(signals, &alarm))).is_err() {
        last_resort::kill_all(mark, cgroup);
    }
    Ok(())
}

impl Reaper<'_> {
    /// Serves until nothing is left to do. No error ends it: a reaper that cannot read or write
    /// still watches the time.
    fn serve(&mut self, mut signals: Signals, alarm: &Alarm) {
        loop {
            if let Err(error) = self.wait(&signals, alarm) {
                log_line!("reaper: cannot wait: {error}");
                std::thread::sleep(WAIT_RETRY);
            }
            if let Err(error) = signals.take() {
                log_line!("reaper: {error}");
            }
            self.reap_children();
            self.accept();
            // Before the timer: a later deadline may have arrived.
            self.handle_requests();
            self.kill_when_due();
            if !self.is_needed() {
                return;
            }
        }
    }

    fn is_needed(&self) -> bool {
        self.agent.is_some()
            || self.connect_by.is_some_and(|by| clock::now().mono < by)
            || self.backstop.next_due().is_some()
            || reap::has_children().unwrap_or(true)
    }

    fn wait(&self, signals: &Signals, alarm: &Alarm) -> io::Result<()> {
        let mut fds = vec![
            PollFd::new(signals, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
        ];
        fds.extend(self.agent.iter().map(|it| PollFd::new(it, PollFlags::IN)));
        let due = [self.backstop.next_due(), self.connect_by];
        alarm.poll(&mut fds, due.into_iter().flatten().min())
    }

    fn reap_children(&mut self) {
        loop {
            let (pid, status) = match reap::next_exited() {
                Ok(Some(exited)) => exited,
                Ok(None) => return,
                Err(error) => return log_line!("reaper: {error}"),
            };
            // Kept before it is reaped: one that cannot be found any more has its status here.
            if let Ok(Some(stat)) = proc::stat(pid) {
                if self.exits.len() == EXITS_MAX {
                    self.exits.pop_front();
                }
                self.last_exit += 1;
                self.exits.push_back(ChildExit {
                    pid,
                    start_ticks: stat.start_ticks,
                    status,
                });
            }
            self.coordinator = self.coordinator.filter(|it| *it != pid);
            if let Err(error) = reap::reap(pid) {
                return log_line!("reaper: {error}");
            }
        }
    }

    /// Accepts an agent; the one before is considered dead.
    fn accept(&mut self) {
        loop {
            match Packets::accept(self.listener.as_fd()) {
                Ok(Some(agent)) => {
                    if matches!(inherit::trusted_peer(agent.as_fd()), Ok(Some(_))) {
                        self.agent = Some(agent);
                        self.connect_by = None;
                        self.reply(&Reply::Hello {
                            version: VERSION,
                            pid: std::process::id(),
                        });
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    log_line!("reaper: cannot accept an agent: {error}");
                    // It stays in the queue of the socket, which polls readable.
                    return std::thread::sleep(WAIT_RETRY);
                }
            }
        }
    }

    fn handle_requests(&mut self) {
        while let Some(agent) = &self.agent {
            let packet = match agent.receive(&mut self.buffer) {
                Ok(Some(packet)) => packet,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(None) => return self.agent = None,
                Err(error) => {
                    log_line!("reaper: cannot read a request: {error}");
                    return self.agent = None;
                }
            };
            match json::from_slice(&self.buffer[..packet.bytes]) {
                Ok(request) => self.handle(request, packet),
                Err(error) => {
                    log_line!("reaper: invalid request: {error}");
                    self.agent = None;
                }
            }
        }
    }

    fn handle(&mut self, request: Request, packet: Packet) {
        match request {
            Request::Spawn {
                argv,
                env,
                cwd,
                numbers,
            } => {
                // It has waited too long, while this process was stopped, and has started one itself.
                if self.agent.as_ref().is_none_or(Packets::is_closed) {
                    return log_line!("reaper: the agent that asked for a coordinator is gone");
                }
                let mut fds = packet.fds.iter().map(|fd| fd.as_fd());
                let stderr = fds.next();
                let extra: Vec<(BorrowedFd<'_>, i32)> = fds.zip(numbers).collect();
                let command = Command {
                    cwd: Some(&cwd),
                    stderr,
                    extra: &extra,
                    ..Command::new(&argv, &env)
                };
                let reply = match self.spawner.spawn(&command) {
                    Ok(pid) => {
                        self.coordinator = Some(pid);
                        Reply::Spawned { pid }
                    }
                    Err(error) => Reply::Failed {
                        reason: error.to_string(),
                    },
                };
                self.reply(&reply);
            }
            Request::Guard(order) => self.backstop.set(order.map(Into::into)),
            Request::Exits { after } => {
                let first = self.last_exit - self.exits.len() as u64;
                let skipped = usize::try_from(after.saturating_sub(first)).unwrap_or(usize::MAX);
                let exits = self.exits.iter().skip(skipped).take(EXITS_AT_ONCE);
                let exits: Vec<ChildExit> = exits.copied().collect();
                let last = first.max(after) + exits.len() as u64;
                self.reply(&Reply::Exits {
                    exits,
                    last,
                    has_more: last < self.last_exit,
                });
            }
        }
    }

    /// Sends a reply. An agent that does not read is dropped; it connects again.
    fn reply(&mut self, reply: &Reply) {
        let sent = serde_json::to_vec(reply).map_err(io::Error::from);
        let agent = self.agent.as_ref();
        let sent = sent.and_then(|bytes| agent.map_or(Ok(()), |agent| agent.send(&bytes, &[])));
        if let Err(error) = sent {
            log_line!("reaper: cannot reply: {error}");
            self.agent = None;
        }
    }

    /// Kills processes whose deadline is long enough ago, but not a living coordinator.
    fn kill_when_due(&mut self) {
        let now = clock::now().mono;
        if !self.backstop.is_due(now) {
            return;
        }
        let (me, coordinator, backstop) = (std::process::id(), self.coordinator, self.backstop);
        let is_coordinator = |stat: &Stat| Some(stat.pid) == coordinator;
        let everything = Leftovers {
            mark: self.mark,
            cgroup: self.cgroup,
            roots: &[me],
            spare: &is_coordinator,
        };
        let terms = match everything.terms() {
            Ok(terms) => terms,
            Err(error) => {
                log_line!("reaper: cannot find processes: {error}");
                return self.backstop.looked(now, 1, []);
            }
        };
        let ahead = terms
            .into_iter()
            .filter(|term| !backstop.is_past(now, *term));
        let ahead: BTreeSet<LeaseTerm> = ahead.collect();
        let left = if ahead.is_empty() {
            everything.kill()
        } else {
            let is_ahead = |stat: &Stat| ahead.contains(&everything.term(stat.pid));
            let past = Leftovers {
                cgroup: None,
                spare: &|stat| is_coordinator(stat) || is_ahead(stat),
                ..everything
            };
            past.kill()
        };
        self.backstop.looked(clock::now().mono, left, ahead);
    }
}
