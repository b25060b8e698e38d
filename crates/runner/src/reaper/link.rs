//! The agent's side: finding or starting a reaper, and its requests.
//!
//! A lock shows whether a reaper exists, as for a coordinator: the agent takes it, opens the socket
//! on which the reaper will listen, and passes both on by inheritance.

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use baton_core::protocol::worker::guard::Backstop;
use baton_fs::private;
use baton_model::ids::BootId;
use baton_model::json;
use baton_model::task::Identity;
use baton_model::time::Mono;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::messages::{MESSAGE_BYTES_MAX, Reply, Request, VERSION};
use super::{COMMAND, LISTENER_FD, LOCK_FD};
use crate::sys::exits::Exits;
use crate::sys::packets::{Packets, listen_at};
use crate::sys::spawn::{Command, Spawner};
use crate::sys::{identity, proc};
use crate::wire::Guard;

const LOCK: &str = "reaper.lock";
const SOCKET: &str = "reaper.sock";
const STDERR: &str = "reaper.err";

/// The time limit for a reply. The reaper may be busy killing.
const REPLY_MAX: Duration = Duration::from_secs(15);
/// The pause before another attempt to reach a reaper that is just exiting.
const CONNECT_RETRY: Duration = Duration::from_millis(2);

/// What a reaper is started with.
#[derive(Clone, Debug)]
pub struct ReaperSpec {
    /// The binary that implements the hidden command.
    pub binary: PathBuf,
    /// The directory of its lock and its socket.
    pub checkpoint: PathBuf,
    /// The mark of the worker.
    pub mark: String,
    /// The cgroup of the worker's processes.
    pub cgroup: Option<PathBuf>,
}

/// The connection to a reaper.
#[derive(Debug)]
pub struct Link {
    packets: Packets,
    identity: Identity,
    /// The number of the last exit received.
    last_exit: u64,
    /// What it was told last; none if it may have the order of an earlier agent.
    told: Option<Backstop>,
}

impl ReaperSpec {
    /// Connects to the reaper of the worker, or starts one with the order of the dead-man timer that
    /// is in force. To be called by the one agent of the worker.
    ///
    /// # Errors
    /// If it cannot be started, or does not answer.
    pub fn find_or_start(
        &self,
        boot: BootId,
        guard: Option<Guard>,
        spawner: &mut Spawner,
    ) -> io::Result<Link> {
        let lock = private::file_options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.checkpoint.join(LOCK))?;
        let deadline = Instant::now() + REPLY_MAX;
        loop {
            match lock.try_lock() {
                Ok(()) => {
                    // The socket listens already.
                    self.start(&lock, guard, spawner)?;
                    return self.connect(boot);
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            match self.connect(boot) {
                Err(error) if Instant::now() >= deadline => return Err(error),
                // It is about to exit: then the lock is free in a moment.
                Err(_) => std::thread::sleep(CONNECT_RETRY),
                found => return found,
            }
        }
    }

    fn start(&self, lock: &File, guard: Option<Guard>, spawner: &mut Spawner) -> io::Result<()> {
        let listener: OwnedFd = listen_at(&self.checkpoint.join(SOCKET))?;
        let stderr = private::file_options()
            .create(true)
            .append(true)
            .open(self.checkpoint.join(STDERR))?;
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let argv = [
            text(&self.binary),
            COMMAND.to_owned(),
            text(&self.checkpoint),
            self.mark.clone(),
            self.cgroup.as_ref().map_or_else(|| "-".to_owned(), text),
            serde_json::to_string(&guard)?,
        ];
        // As for a coordinator.
        let outer = proc::marks_to_pass_on().map(|marks| (proc::OUTER_MARKS.to_owned(), marks));
        let env: Vec<_> = outer.into_iter().collect();
        let command = Command {
            cwd: Some("/"),
            stderr: Some(stderr.as_fd()),
            extra: &[(lock.as_fd(), LOCK_FD), (listener.as_fd(), LISTENER_FD)],
            ..Command::new(&argv, &env)
        };
        spawner.spawn(&command).map_err(io::Error::other)?;
        Ok(())
    }

    fn connect(&self, boot: BootId) -> io::Result<Link> {
        let packets = Packets::connect(&self.checkpoint.join(SOCKET))?;
        match receive(&packets)? {
            Reply::Hello { version, pid } if version == VERSION => {
                let identity = identity::identify(boot, pid)?;
                Ok(Link {
                    packets,
                    identity: identity.ok_or(io::ErrorKind::ConnectionReset)?,
                    last_exit: 0,
                    told: None,
                })
            }
            other => {
                let text = format!("expected a greeting from the reaper, got {other:?}");
                Err(io::Error::new(io::ErrorKind::InvalidData, text))
            }
        }
    }
}

impl Link {
    /// The reaper, whose children are those of a dead coordinator.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        self.identity
    }

    /// Starts a process as a child of the reaper. Of the command only its arguments, environment,
    /// directory, standard error and further descriptors count.
    ///
    /// # Errors
    /// If the reaper is gone, or cannot start it.
    pub fn spawn(&self, command: &Command<'_>) -> io::Result<()> {
        let request = Request::Spawn {
            argv: command.argv.to_vec(),
            env: command.env.to_vec(),
            cwd: command.cwd.unwrap_or("/").to_owned(),
            numbers: command.extra.iter().map(|(_, number)| *number).collect(),
        };
        let extra = command.extra.iter().map(|(fd, _)| *fd);
        let fds: Vec<BorrowedFd<'_>> = command.stderr.into_iter().chain(extra).collect();
        match self.exchange(&request, &fds)? {
            Reply::Spawned { .. } => Ok(()),
            Reply::Failed { reason } => Err(io::Error::other(reason)),
            other => Err(unexpected(&other)),
        }
    }

    /// Passes the order of the dead-man timer on that is in force; `None` if no work is left.
    ///
    /// If the reaper may be killing by the order before, this returns when it has read the new one: it could
    /// take what is launched then for what it is to kill.
    ///
    /// # Errors
    /// If the reaper is gone, or does not answer.
    pub fn set_guard(&mut self, guard: Option<Guard>, now: Mono) -> io::Result<()> {
        let mut backstop = Backstop::default();
        backstop.set(guard.map(Into::into));
        let before = self.told.replace(backstop);
        let bytes = serde_json::to_vec(&Request::Guard(guard))?;
        self.packets.send(&bytes, &[])?;
        if before.is_some_and(|before| !before.is_due(now)) {
            return Ok(());
        }
        // It reads requests in their order, and none while it kills.
        let nothing = Request::Exits { after: u64::MAX };
        self.exchange(&nothing, &[]).map(drop)
    }

    /// Adds the exits of the reaper's children that are new.
    ///
    /// # Errors
    /// If the reaper is gone, or does not answer.
    pub fn take_exits(&mut self, exits: &mut Exits) -> io::Result<()> {
        loop {
            let after = self.last_exit;
            match self.exchange(&Request::Exits { after }, &[])? {
                Reply::Exits {
                    exits: new,
                    last,
                    has_more,
                } => {
                    for exit in new {
                        exits.insert(exit.pid, exit.start_ticks, exit.status);
                    }
                    self.last_exit = last;
                    if !has_more {
                        return Ok(());
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    fn exchange(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> io::Result<Reply> {
        self.packets.send(&serde_json::to_vec(request)?, fds)?;
        receive(&self.packets)
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.packets.as_fd()
    }
}

fn unexpected(reply: &Reply) -> io::Error {
    let text = format!("unexpected reply of the reaper: {reply:?}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Waits for a reply.
fn receive(packets: &Packets) -> io::Result<Reply> {
    let deadline = Instant::now() + REPLY_MAX;
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    loop {
        match packets.receive(&mut buffer) {
            Ok(Some(packet)) => return Ok(json::from_slice(&buffer[..packet.bytes])?),
            Ok(None) => return Err(io::ErrorKind::ConnectionReset.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let text =
                "the reaper does not answer; if it is stopped, continue it (SIGCONT) or kill it";
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match poll(&mut [PollFd::new(packets, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use baton_model::ids::{BootId, Epoch};
    use baton_model::time::{Millis, Stamp};

    use super::*;
    use crate::sys::clock;

    fn guard(deadline: Mono) -> Guard {
        Guard {
            deadline,
            grace: Millis(5),
            kill_max: Millis(8),
            epoch: Epoch(1),
            stamp: Stamp(deadline),
        }
    }

    /// Reads requests as a reaper that kills until it has read `count` of them.
    fn read(agent: &Packets, count: usize) -> Vec<Request> {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let mut requests = Vec::new();
        while requests.len() < count {
            let waited = poll(&mut [PollFd::new(agent, PollFlags::IN)], None);
            waited.expect("it can be waited for");
            let packet = agent.receive(&mut buffer).expect("readable");
            let packet = packet.expect("the agent is here");
            let request = json::from_slice(&buffer[..packet.bytes]);
            requests.push(request.expect("a request"));
        }
        requests
    }

    #[test]
    fn an_order_after_an_overdue_one_is_awaited() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("reaper.sock");
        let listener = listen_at(&path).expect("it listens");
        let agent = Packets::connect(&path).expect("it is there");
        let reaper = Packets::accept(listener.as_fd()).expect("accepted");
        let reaper = reaper.expect("one waits");
        let boot = BootId(1);
        let me = identity::identify(boot, std::process::id()).expect("readable");
        let mut link = Link {
            packets: agent,
            identity: me.expect("alive"),
            last_exit: 0,
            told: None,
        };
        let now = clock::now().mono;
        let ahead = guard(now + Millis::from_secs(1_000));
        let settled = Reply::Exits {
            exits: Vec::new(),
            last: 0,
            has_more: false,
        };
        let settled = serde_json::to_vec(&settled).expect("JSON");
        // One that was found may have any order, and the second follows one that is over.
        for before in [None, Some(guard(Mono(0)))] {
            if let Some(before) = before {
                let mut backstop = Backstop::default();
                backstop.set(Some(before.into()));
                link.told = Some(backstop);
            }
            thread::scope(|scope| {
                let told = scope.spawn(|| link.set_guard(Some(ahead), now));
                let requests = read(&reaper, 2);
                assert_eq!(requests[0], Request::Guard(Some(ahead)));
                assert!(!told.is_finished(), "it waits for the answer");
                reaper.send(&settled, &[]).expect("sent");
                told.join().expect("no panic").expect("told");
            });
        }
        // The next one is not: nothing was to be killed.
        let later = guard(now + Millis::from_secs(1_005));
        link.set_guard(Some(later), now).expect("told");
        assert_eq!(read(&reaper, 1), [Request::Guard(Some(later))]);
    }
}
