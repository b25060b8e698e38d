//! Starting processes: their log files, their rotators, and themselves.
//!
//! The sandbox may belong to somebody else than the coordinator, who may be root. So log
//! directories are entered one name at a time, never through a link, and belong to the
//! user of the process.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use baton_model::outcome::Outcome;
use baton_model::task::{Identity, RunNo};
use rustix::fs::{Gid, Mode, OFlags, Uid, fchown, mkdirat, open, openat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Config;
use super::runs::{Body, Role, Run};
use super::serve::Coordinator;
use crate::helpers;
use crate::record::CoordinatorRecord;
use crate::root::LOGS_DIR;
use crate::sys::cgroup::{self, Cgroup};
use crate::sys::spawn::{Command, Spawner};
use crate::sys::{clock, identity, kill};
use crate::wire::{Credentials, Ended, Launch, Limit, Reply, RunKey, Sink};

/// What launches need.
#[derive(Debug)]
pub(super) struct Launcher {
    spawner: Spawner,
    /// Opened for each launch: it may be gone, and killing must work all the same.
    sandbox: PathBuf,
    cgroup: Option<Cgroup>,
    /// How many descriptors a process may have, unless it says otherwise.
    descriptors: Option<Limit>,
}

/// What was started for one run.
struct Started {
    pid: u32,
    rotators: Vec<u32>,
}

impl Launcher {
    pub(super) fn new(config: &Config) -> io::Result<Self> {
        Ok(Self {
            spawner: Spawner::new()?,
            sandbox: config.sandbox.clone(),
            cgroup: config.cgroup.as_deref().and_then(cgroup::open),
            descriptors: raise_descriptors(),
        })
    }

    /// Kills what is in the cgroup, where there is one. A failure is made good by the
    /// walk of the tree that follows.
    pub(super) fn kill_cgroup(&self) {
        if let Some(Err(error)) = self.cgroup.as_ref().map(Cgroup::kill) {
            eprintln!("coordinator: cgroup.kill: {error}");
        }
    }

    /// True if somebody is in the cgroup, where there is one.
    pub(super) fn is_cgroup_populated(&self) -> bool {
        let populated = self.cgroup.as_ref().map(Cgroup::populated);
        // A cgroup that is gone has nobody in it.
        matches!(populated, Some(Ok(true)))
    }

    /// Starts a check. Its output goes nowhere.
    pub(super) fn start_probe(&mut self, launch: &Launch) -> io::Result<u32> {
        let limits = self.limits(launch);
        let command = command(launch, &limits, self.cgroup.as_ref());
        self.spawner.spawn(&command).map_err(io::Error::other)
    }

    /// The limits of a process: its own, and where it has none on descriptors, the one that
    /// we had before we raised ours.
    fn limits(&self, launch: &Launch) -> Vec<Limit> {
        let mut limits = launch.limits.clone();
        let own = |limit: &Limit| limit.resource == libc::RLIMIT_NOFILE;
        if !limits.iter().any(own) {
            limits.extend(self.descriptors);
        }
        limits
    }

    fn start(&mut self, run: RunKey, launch: &Launch) -> io::Result<Started> {
        let wanted = [&launch.stdout, &launch.stderr];
        let logs = if wanted.iter().any(|sink| **sink != Sink::Null) {
            Some(self.log_directory(run, launch)?)
        } else {
            None
        };
        let mut rotators = Vec::new();
        let mut stream = |sink: &Sink, name: &str| -> io::Result<Option<OwnedFd>> {
            let Some(logs) = &logs else {
                return Ok(None);
            };
            match sink {
                Sink::Null => Ok(None),
                Sink::File => log_file(logs, name, launch.credentials.as_ref()).map(Some),
                Sink::Rotate { size, backups } => {
                    let argv = helpers::rotate_command(name, *size, *backups);
                    let (pid, end) = rotator(&mut self.spawner, logs, &argv, launch)?;
                    rotators.push(pid);
                    Ok(Some(end))
                }
            }
        };
        let stdout = stream(&launch.stdout, "stdout")?;
        let stderr = stream(&launch.stderr, "stderr")?;
        let limits = self.limits(launch);
        let mut command = command(launch, &limits, self.cgroup.as_ref());
        command.stdout = stdout.as_ref().map(AsFd::as_fd);
        command.stderr = stderr.as_ref().map(AsFd::as_fd);
        let spawned = self.spawner.spawn(&command);
        if let (Err(error), Some(stderr)) = (&spawned, stderr) {
            // Where somebody looks who wonders why it did not run. If that fails too,
            // the end of the run still says that it was not launched.
            let _ = writeln!(File::from(stderr), "baton: {error}");
        }
        let pid = spawned.map_err(io::Error::other)?;
        Ok(Started { pid, rotators })
    }

    fn log_directory(&self, run: RunKey, launch: &Launch) -> io::Result<OwnedFd> {
        let owner = launch.credentials.as_ref();
        let sandbox = directory(&self.sandbox)?;
        let logs = subdirectory(sandbox.as_fd(), LOGS_DIR, owner)?;
        let process = subdirectory(logs.as_fd(), &launch.log, owner)?;
        subdirectory(process.as_fd(), &run.run.0.to_string(), owner)
    }
}

impl Coordinator {
    /// Starts a run, or says again what became of it.
    pub(super) fn launch(&mut self, key: RunKey, launch: &Launch) {
        if let Some(run) = self.table.runs.get(&key) {
            let (started, ended) = (run.started, run.ended.clone());
            let started = started.map(|(at, identity)| Reply::Started {
                run: key,
                at,
                identity,
            });
            let told = started.into_iter().chain(ended.map(Reply::Ended));
            told.for_each(|reply| self.say(reply));
            return;
        }
        if !self.admits() {
            return self.say(Reply::Refused { run: key });
        }
        if key.run > RunNo(0) {
            self.kill_predecessors(key);
        }
        let at = clock::now().into();
        match self.started(key, launch) {
            Ok((pid, identity)) => {
                self.table.children.insert(pid, Role::Run(key));
                let run = Run::started(at, identity, Body::Child);
                self.table.runs.insert(key, run);
                self.record(CoordinatorRecord::Started {
                    run: key,
                    at,
                    identity,
                });
                // At once: what we die with unrecorded counts as lost.
                self.write_records();
                self.say(Reply::Started {
                    run: key,
                    at,
                    identity,
                });
            }
            Err(_) => {
                // Why, stands where its output would.
                let ended = Ended {
                    run: key,
                    at,
                    outcome: Outcome::LaunchFailed,
                };
                self.table.runs.insert(key, Run::failed(ended.clone()));
                self.ended(ended);
            }
        }
    }

    fn started(&mut self, key: RunKey, launch: &Launch) -> io::Result<(u32, Identity)> {
        let Started { pid, rotators } = self.launcher.start(key, launch)?;
        for pid in rotators {
            self.table.children.insert(pid, Role::Rotator);
        }
        // Not reaped yet, so its number is in /proc for certain, if /proc can be read.
        match identity::identify(self.boot, pid) {
            Ok(Some(identity)) => Ok((pid, identity)),
            other => {
                self.report(kill::group(pid, libc::SIGKILL));
                Err(other
                    .err()
                    .unwrap_or_else(|| io::ErrorKind::NotFound.into()))
            }
        }
    }
}

fn command<'a>(launch: &'a Launch, limits: &'a [Limit], cgroup: Option<&'a Cgroup>) -> Command<'a> {
    Command {
        cwd: Some(&launch.cwd),
        credentials: launch.credentials.as_ref(),
        umask: launch.umask,
        nice: launch.nice,
        limits,
        cgroup: cgroup.map(Cgroup::procs),
        ..Command::new(&launch.argv, &launch.env)
    }
}

/// Starts the process that rotates one stream; answers it, and the end to write to.
fn rotator(
    spawner: &mut Spawner,
    logs: &OwnedFd,
    argv: &[String],
    launch: &Launch,
) -> io::Result<(u32, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    let command = Command {
        stdin: Some(read.as_fd()),
        extra: &[(logs.as_fd(), helpers::LOG_DIRECTORY_FD)],
        credentials: launch.credentials.as_ref(),
        ..Command::new(argv, &[])
    };
    let pid = spawner.spawn(&command).map_err(io::Error::other)?;
    Ok((pid, write))
}

/// Adopting takes a descriptor for each run, so we take as many as we may have. Answers what
/// it was before, if that was less.
fn raise_descriptors() -> Option<Limit> {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: before.maximum,
        maximum: before.maximum,
    };
    if raised == before {
        return None;
    }
    setrlimit(Resource::Nofile, raised).ok()?;
    Some(Limit {
        resource: libc::RLIMIT_NOFILE,
        soft: before.current.unwrap_or(u64::MAX),
        hard: before.maximum.unwrap_or(u64::MAX),
    })
}

fn directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("{}: {error}", path.display()))
    })
}

fn subdirectory(parent: impl AsFd, name: &str, owner: Option<&Credentials>) -> io::Result<OwnedFd> {
    let made = match mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error.into()),
    };
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(&parent, name, flags, Mode::empty())?;
    if made {
        give_to(&fd, owner)?;
    }
    Ok(fd)
}

fn log_file(logs: &OwnedFd, name: &str, owner: Option<&Credentials>) -> io::Result<OwnedFd> {
    let flags =
        OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(logs, name, flags, Mode::from_raw_mode(0o644))?;
    give_to(&fd, owner)?;
    Ok(fd)
}

fn give_to(fd: &OwnedFd, owner: Option<&Credentials>) -> io::Result<()> {
    if let Some(owner) = owner {
        let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
        fchown(fd, Some(uid), Some(gid))?;
    }
    Ok(())
}
