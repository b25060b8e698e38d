//! The runner's side: starting a coordinator, or connecting to the running one.
//!
//! A lock shows whether a coordinator exists. The runner takes the lock, opens the socket on which
//! the coordinator will listen, and passes both on by inheritance. So from the instant at which a
//! coordinator exists the lock is held and the socket accepts connections: a second runner can
//! never mistake a starting coordinator for none.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use baton_fs::private;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::pid_note;
use super::{COMMAND, Config, LISTENER_FD, LOCK_FD, log_path};
use crate::channel::Channel;
use crate::log::{self, Kind, LogError};
use crate::record::CoordinatorRecord;
use crate::stderr::log_line;
use crate::sys::spawn::Command;
use crate::sys::{identity, proc, socket};
use crate::wire::{Guard, KnownRun, Reply, Request, VERSION};

const LOCK: &str = "coordinator.lock";
const SOCKET: &str = "coordinator.sock";
const STDERR: &str = "coordinator.err";

/// The maximum number of coordinators in a row that may die while they are taken over. One that is
/// killed then is no reason to stop; one that never starts has a permanent cause.
const DEATHS_MAX: u32 = 10;

/// The time limit for the greeting. The coordinator may be busy killing.
const GREETING_MAX: Duration = Duration::from_secs(15);

/// Repeats a takeover for as long as it fails because its coordinator has died.
///
/// # Errors
/// Any other failure, or that of the last coordinator.
pub fn outlive_deaths<T, E>(
    is_death: impl Fn(&E) -> bool,
    mut take_over: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    for _ in 0..DEATHS_MAX {
        match take_over() {
            Err(error) if is_death(&error) => {}
            other => return other,
        }
    }
    take_over()
}

/// True if the peer has died.
#[must_use]
pub fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

/// What a coordinator is started with.
#[derive(Clone, Debug)]
pub struct CoordinatorSpec {
    /// The binary that implements the hidden command.
    pub binary: PathBuf,
    /// The directory of the task's checkpoints.
    pub checkpoint: PathBuf,
    pub sandbox: PathBuf,
    /// The mark of the task.
    pub mark: String,
    /// The cgroup that its processes join.
    pub cgroup: Option<PathBuf>,
    /// Nothing is launched without a deadline of the dead-man timer.
    pub guarded: bool,
}

#[derive(Debug)]
pub enum Discovery {
    /// A coordinator runs; its greeting holds its state.
    Running(Link, Greeting),
    /// None runs, and no other runner can start one while this permit is held.
    Absent(StartPermit),
}

/// The first message of a coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The runs that it knows.
    pub runs: Vec<KnownRun>,
    /// The order of the dead-man timer that is in force.
    pub guard: Option<Guard>,
}

/// The right to start a coordinator: its lock, held.
#[derive(Debug)]
pub struct StartPermit {
    lock: File,
}

/// The connection to a coordinator.
#[derive(Debug)]
pub struct Link {
    channel: Channel,
    pid: u32,
}

/// True if a coordinator runs in this directory. False if that cannot be found out.
#[must_use]
pub fn is_running(checkpoint: &Path) -> bool {
    let lock = private::file_options()
        .read(true)
        .open(checkpoint.join(LOCK));
    lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

impl Link {
    /// The pid of the coordinator.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a request.
    ///
    /// # Errors
    /// If the coordinator is gone.
    pub fn send(&mut self, request: &Request) -> io::Result<()> {
        self.channel.send(request)
    }

    /// Sends many requests with as few calls as possible.
    ///
    /// # Errors
    /// If the coordinator is gone, or a request is too long.
    pub fn send_all<'a>(
        &mut self,
        requests: impl IntoIterator<Item = &'a Request>,
    ) -> io::Result<()> {
        for request in requests {
            self.channel.put(request)?;
        }
        self.channel.flush()
    }

    /// Continues sending, and returns the replies received. The flag is false once the coordinator
    /// is gone.
    ///
    /// # Errors
    /// If a reply cannot be decoded.
    pub fn receive(&mut self) -> io::Result<(Vec<Reply>, bool)> {
        let flushed = self.channel.flush();
        let alive = self.channel.fill()? && flushed.is_ok();
        let mut replies = Vec::new();
        while let Some(reply) = self.channel.next()? {
            replies.push(reply);
        }
        Ok((replies, alive))
    }

    /// True if there is something left to send.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        self.channel.wants_write()
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

impl CoordinatorSpec {
    /// Connects to the coordinator of the task, or acquires the right to start one. To be called by
    /// the one runner of the task.
    ///
    /// # Errors
    /// If its files cannot be used, or it does not answer.
    pub fn discover(&self) -> io::Result<Discovery> {
        let lock = private::file_options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.checkpoint.join(LOCK))?;
        let deadline = Instant::now() + GREETING_MAX;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Discovery::Absent(StartPermit { lock })),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            match self.connect(deadline) {
                Ok((link, greeting)) => return Ok(Discovery::Running(link, greeting)),
                Err(error) if Instant::now() >= deadline => return Err(error),
                // It is about to exit: then the lock is free in a moment.
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// True if a coordinator runs. False if that cannot be found out.
    #[must_use]
    pub fn is_running(&self) -> bool {
        is_running(&self.checkpoint)
    }

    /// Adds the last line of the coordinator's stderr to an error of its start.
    fn with_last_stderr_line(&self, error: &io::Error) -> io::Error {
        let path = self.checkpoint.join(STDERR);
        let stderr = fs::read_to_string(&path).unwrap_or_default();
        let last = stderr.lines().next_back().unwrap_or("nothing");
        let text = format!("{error}; last line of {}: {last}", path.display());
        io::Error::new(error.kind(), text)
    }

    fn connect(&self, deadline: Instant) -> io::Result<(Link, Greeting)> {
        let stream = socket::connect(&self.checkpoint.join(SOCKET))?;
        let mut channel = Channel::new(stream)?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            poll(&mut [PollFd::new(&channel, PollFlags::IN)], Some(&timeout))?;
            let alive = channel.fill()?;
            match channel.next::<Reply>()? {
                Some(Reply::Hello {
                    version,
                    mark,
                    pid,
                    runs,
                    guard,
                }) => {
                    if version != VERSION || mark != self.mark {
                        return Err(io::Error::other(format!(
                            "the coordinator (pid {pid}) has protocol version {version} and task mark \
                             {mark}, expected version {VERSION} and mark {}",
                            self.mark
                        )));
                    }
                    let greeting = Greeting { runs, guard };
                    return Ok((Link { channel, pid }, greeting));
                }
                Some(other) => {
                    let text = format!("expected a greeting from the coordinator, got {other:?}");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
                None if !alive => return Err(io::ErrorKind::ConnectionReset.into()),
                None if Instant::now() >= deadline => {
                    let text = "the coordinator sends no greeting; if it is stopped, continue it \
                                (SIGCONT) or kill it";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                None => {}
            }
        }
    }
}

impl StartPermit {
    /// The records of the dead coordinator; `None` if there was none. Collected they are an
    /// [`Evidence`](crate::record::Evidence). A launch that it did not record is included if its
    /// process is found, or has ended as a child of ours: `reaped` returns the start time of the
    /// last one with a pid.
    ///
    /// # Errors
    /// If its log is damaged or cannot be read.
    pub fn evidence(
        &self,
        start: &CoordinatorSpec,
        reaped: &mut dyn FnMut(u32) -> Option<u64>,
    ) -> Result<Option<Vec<CoordinatorRecord>>, LogError> {
        let path = log_path(&start.checkpoint);
        if !path.exists() {
            return Ok(None);
        }
        let (recovered, damage) = log::salvage(&path, Kind::Coordinator)?;
        // Records before the damage are valid; what was lost after it counts as never seen, and
        // ends as lost.
        if let Some(damage) = damage {
            log_line!("baton: {damage}");
        }
        let mut records: Vec<CoordinatorRecord> = recovered.records;
        if let Some(&CoordinatorRecord::Begun { boot, .. }) = records.first()
            && identity::boot_id().is_ok_and(|now| now == boot)
        {
            let last = pid_note::unrecorded_launch(start, boot, &records, reaped);
            // Without it that launch counts as lost.
            let last = last
                .inspect_err(|error| log_line!("baton: cannot recover the last launch: {error}"));
            records.extend(last.ok().flatten());
        }
        Ok(Some(records))
    }

    /// Starts a coordinator, as a child of the process in which `spawn` launches it. `successor` if
    /// an earlier one may have left processes behind.
    ///
    /// # Errors
    /// If it cannot be started, or does not answer.
    pub fn start(
        self,
        start: &CoordinatorSpec,
        spawn: &mut dyn FnMut(&Command<'_>) -> io::Result<()>,
        successor: bool,
    ) -> io::Result<(Link, Greeting)> {
        let listener = socket::listen(&start.checkpoint.join(SOCKET))?;
        let mut stderr = private::file_options()
            .create(true)
            .append(true)
            .open(start.checkpoint.join(STDERR))?;
        // On a full disk this fails and is reported. Otherwise there is room for the coordinator's
        // messages.
        let me = std::process::id();
        writeln!(stderr, "runner {me}: starts a coordinator")?;
        let config = Config {
            checkpoint: start.checkpoint.clone(),
            sandbox: start.sandbox.clone(),
            mark: start.mark.clone(),
            successor,
            guarded: start.guarded,
            cgroup: start.cgroup.clone(),
        };
        let mut argv = vec![
            start.binary.to_string_lossy().into_owned(),
            COMMAND.to_owned(),
        ];
        argv.extend(config.to_args());
        // A coordinator has no environment of its own, but an outer Baton must be able to find it
        // and everything that it launches.
        let outer = proc::marks_to_pass_on().map(|marks| (proc::OUTER_MARKS.to_owned(), marks));
        let env: Vec<_> = outer.into_iter().collect();
        let command = Command {
            cwd: Some("/"),
            stderr: Some(stderr.as_fd()),
            extra: &[
                (self.lock.as_fd(), LOCK_FD),
                (listener.as_fd(), LISTENER_FD),
            ],
            ..Command::new(&argv, &env)
        };
        spawn(&command)?;
        // The coordinator's own copies keep the lock and the socket.
        drop((self.lock, listener));
        start
            .connect(Instant::now() + GREETING_MAX)
            .map_err(|error| start.with_last_stderr_line(&error))
    }
}
