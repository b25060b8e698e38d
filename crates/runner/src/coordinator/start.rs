//! The runner's side: finding the coordinator that there is, or beginning one.
//!
//! A lock says whether there is one. The runner takes it, opens the socket on which the
//! coordinator will listen, and hands both over by inheritance. So from the instant at
//! which a coordinator exists the lock is held and the socket takes connections: there is
//! no moment at which a second runner could mistake one that is starting for none.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::pid_note;
use super::serve::log_path;
use super::{COMMAND, Config, LISTENER_FD, LOCK_FD};
use crate::channel::Channel;
use crate::log::{self, Kind, LogError};
use crate::record::CoordinatorRecord;
use crate::sys::exits::Exits;
use crate::sys::spawn::{Command, Spawner};
use crate::sys::{identity, proc, socket};
use crate::wire::{Guard, KnownRun, Reply, Request, VERSION};

const LOCK: &str = "coordinator.lock";
const SOCKET: &str = "coordinator.sock";
const STDERR: &str = "coordinator.err";

/// How long a coordinator may take to greet. It may be in the middle of a killing.
const GREETING_MAX: Duration = Duration::from_secs(15);

/// How to begin a coordinator.
#[derive(Clone, Debug)]
pub struct CoordinatorSpec {
    /// The binary that knows the hidden command.
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
    /// A coordinator, and what it knows.
    Running(Link, Greeting),
    /// None, and nobody else can begin one.
    Absent(StartPermit),
}

/// What a coordinator says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The dead-man timer has fired.
    pub fired: bool,
    /// The runs that it knows.
    pub runs: Vec<KnownRun>,
    /// The order of the dead-man timer that is in force.
    pub guard: Option<Guard>,
}

/// The right to begin a coordinator.
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

impl Link {
    /// The number of the coordinator.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Asks for something.
    ///
    /// # Errors
    /// If the coordinator is gone.
    pub fn send(&mut self, request: &Request) -> io::Result<()> {
        self.channel.send(request)
    }

    /// Asks for many things at once, with as few calls as that takes.
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

    /// Goes on sending, and takes what was said. The flag is false once the coordinator
    /// is gone.
    ///
    /// # Errors
    /// If it says what makes no sense.
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
    /// Finds the coordinator of the task, or the right to begin one. To be called by the
    /// one runner of the task.
    ///
    /// # Errors
    /// If its files cannot be used, or it does not answer.
    pub fn discover(&self) -> io::Result<Discovery> {
        let lock = OpenOptions::new()
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
                // It is about to end: then the lock is free in a moment.
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// An error of a coordinator that did not come to greet: it may have said why.
    fn with_last_stderr_line(&self, error: &io::Error) -> io::Error {
        let path = self.checkpoint.join(STDERR);
        let said = fs::read_to_string(&path).unwrap_or_default();
        let last = said.lines().next_back().unwrap_or("nothing");
        let text = format!("{error}; its last words in {}: {last}", path.display());
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
                    fired,
                    runs,
                    guard,
                }) => {
                    if version != VERSION || mark != self.mark {
                        return Err(io::Error::other(format!(
                            "the coordinator (pid {pid}) speaks version {version} for task mark \
                             {mark}, not version {VERSION} for {}",
                            self.mark
                        )));
                    }
                    let greeting = Greeting { fired, runs, guard };
                    return Ok((Link { channel, pid }, greeting));
                }
                Some(other) => {
                    let text = format!("the coordinator does not greet but says {other:?}");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
                None if !alive => return Err(io::ErrorKind::ConnectionReset.into()),
                None if Instant::now() >= deadline => {
                    let text = "the coordinator does not greet; if it is stopped, let it go on \
                                (SIGCONT) or kill it";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                None => {}
            }
        }
    }
}

impl StartPermit {
    /// What the coordinator before has seen; nothing if there was none. Put together it is an
    /// [`Evidence`](crate::record::Evidence). A launch that it did not come to record is in it,
    /// if its process, or how that ended as a child of ours, can be found.
    ///
    /// # Errors
    /// If its log is damaged or cannot be read.
    pub fn evidence(
        &self,
        start: &CoordinatorSpec,
        exits: &Exits,
    ) -> Result<Option<Vec<CoordinatorRecord>>, LogError> {
        let path = log_path(&start.checkpoint);
        if !path.exists() {
            return Ok(None);
        }
        let (recovered, damage) = log::salvage(&path, Kind::Coordinator)?;
        // What stands before the damage is true; what stood after it is as if nobody had
        // seen it, and ends as lost.
        if let Some(damage) = damage {
            eprintln!("baton: {damage}");
        }
        let mut records: Vec<CoordinatorRecord> = recovered.records;
        if let Some(&CoordinatorRecord::Begun { boot, .. }) = records.first()
            && identity::boot_id().is_ok_and(|now| now == boot)
        {
            let reaped = |pid| exits.start_of(pid);
            let last = pid_note::unrecorded_launch(start, boot, &records, &reaped);
            // Without it that launch counts as lost.
            let last = last.inspect_err(|error| eprintln!("baton: the last launch: {error}"));
            records.extend(last.ok().flatten());
        }
        Ok(Some(records))
    }

    /// Begins a coordinator. `successor` if an earlier one may have left something behind.
    ///
    /// # Errors
    /// If it cannot be started, or does not answer.
    pub fn start(
        self,
        start: &CoordinatorSpec,
        spawner: &mut Spawner,
        successor: bool,
    ) -> io::Result<(Link, Greeting)> {
        let listener = socket::listen(&start.checkpoint.join(SOCKET))?;
        let mut stderr = OpenOptions::new()
            .create(true)
            .append(true)
            .open(start.checkpoint.join(STDERR))?;
        // On a full disk this fails, and says so. Otherwise there is room for what the
        // coordinator may have to say.
        let me = std::process::id();
        writeln!(stderr, "runner {me}: begins a coordinator")?;
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
        // A coordinator has no environment, but what we run inside of must find it, and all
        // that it launches.
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
        spawner.spawn(&command).map_err(io::Error::other)?;
        // Ours are closed; the coordinator's own copies keep the lock and the socket.
        drop((self.lock, listener));
        start
            .connect(Instant::now() + GREETING_MAX)
            .map_err(|error| start.with_last_stderr_line(&error))
    }
}
