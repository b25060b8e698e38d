//! Starting processes, with their log files and rotators.
//!
//! The sandbox may belong to another user than the coordinator, which may be root. So log
//! directories are opened one path component at a time, never through a link, and belong to the
//! user of the process.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use baton_core::host::io::{Input, StartFault};
use baton_model::task::Identity;
use baton_model::time::Now;
use rustix::fs::{Mode, OFlags, openat};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Config;
use super::attempt_dirs::{AttemptDirs, chown_to, open_directory, open_subdirectory};
use super::kernel::{System, log_failure};
use super::mark::attempt_mark;
use super::pid_note::PidNotes;
use crate::helpers;
use crate::launch_error::LaunchError;
use crate::masking::{HeldSecret, SecretsDir};
use crate::root::LOGS_DIR;
use crate::stderr::log_line;
use crate::sys::cgroup::{self, Cgroup};
use crate::sys::proc::{self, Reader};
use crate::sys::spawn::{Command, SpawnError, Spawner, Step};
use crate::sys::{clock, kill};
use crate::wire::{AttemptPaths, Credentials, Launch, Limit, RunKey, Sink};

/// What users of a worker need if a relative program is missing.
const DIRECTORY_HINT: &str =
    "; the directory is that of `baton submit --cwd DIR`, or `cwd: DIR` of the task";

#[derive(Debug)]
pub(super) struct Launcher {
    spawner: Spawner,
    /// Opened for each launch: it may be gone, and killing must still work.
    sandbox: PathBuf,
    attempt_dirs: AttemptDirs,
    cgroup: Option<Cgroup>,
    /// A group below `cgroup` for processes without a group of their own; only where groups with a
    /// memory limit are possible.
    default_group: Option<Cgroup>,
    /// [`proc::OUTER_MARKS`] of everything that is launched.
    outer_marks: Option<String>,
    pub(super) reader: Reader,
    /// The limit on descriptors of a process that sets none itself.
    descriptor_limit: Option<Limit>,
    pid_notes: PidNotes,
    /// Whether the ticks that we read are those of `/proc`; `None` until compared.
    clock_matches_proc: Option<bool>,
}

/// Why a run has no process.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// It was started, and killed.
    #[error("its process cannot be identified: {0}")]
    Identity(io::Error),
}

/// The processes and the group started for one run.
struct StartedRun {
    pid: u32,
    /// The clock tick of the launch, if it began and ended in the same tick.
    tick: Option<u64>,
    rotators: Vec<u32>,
    group: Option<Cgroup>,
}

impl Launcher {
    pub(super) fn new(config: &Config) -> io::Result<Self> {
        let cgroup = config.cgroup.as_deref().and_then(cgroup::open);
        let default_group = cgroup.as_ref().filter(|_| config.guarded);
        Ok(Self {
            spawner: Spawner::new()?,
            sandbox: config.sandbox.clone(),
            attempt_dirs: AttemptDirs::new(&config.sandbox),
            default_group: default_group.and_then(create_default_group),
            cgroup,
            outer_marks: std::env::var(proc::OUTER_MARKS).ok(),
            reader: Reader::new()?,
            descriptor_limit: raise_descriptors(),
            pid_notes: PidNotes::new(&config.checkpoint),
            clock_matches_proc: None,
        })
    }

    /// Kills the processes in the cgroup, where there is one. The walk of the tree that follows
    /// makes up for a failure.
    pub(super) fn kill_cgroup(&self) {
        if let Some(Err(error)) = self.cgroup.as_ref().map(Cgroup::kill) {
            log_line!("coordinator: cgroup.kill: {error}");
        }
    }

    /// True if the cgroup exists and has processes.
    pub(super) fn is_cgroup_populated(&self) -> bool {
        let populated = self.cgroup.as_ref().map(Cgroup::populated);
        // A cgroup that is gone is empty.
        matches!(populated, Some(Ok(true)))
    }

    /// Starts a check. Its output is discarded.
    pub(super) fn start_probe(&mut self, launch: &mut Launch) -> io::Result<u32> {
        self.set_outer_marks(&mut launch.env);
        set_variables(launch).map_err(io::Error::other)?;
        let limits = self.limits(launch);
        let cgroup = self.default_group.as_ref().or(self.cgroup.as_ref());
        let command = build_command(launch, &limits, cgroup);
        self.spawner.spawn(&command).map_err(io::Error::other)
    }

    /// The limits of a process: its own, and unless it limits descriptors itself, the limit that we
    /// had before raising ours.
    fn limits(&self, launch: &Launch) -> Vec<Limit> {
        let mut limits = launch.limits.clone();
        let own = |limit: &Limit| limit.resource == libc::RLIMIT_NOFILE;
        if !limits.iter().any(own) {
            limits.extend(self.descriptor_limit);
        }
        limits
    }

    /// Releases the paths of an attempt that is over and has no process left that could write
    /// there.
    pub(super) fn recycle(&mut self, paths: AttemptPaths) {
        self.attempt_dirs.recycle(paths);
    }

    /// Starts the process of a health check as that of an attempt.
    fn start_check(&mut self, launch: &Launch) -> Result<StartedRun, LaunchError> {
        let (dir, [stdout, stderr]) = self.attempt_dirs.create_check()?;
        let limits = self.limits(launch);
        let cgroup = self.default_group.as_ref().or(self.cgroup.as_ref());
        let command = Command {
            cwd: Some(&dir),
            stdout: Some(stdout.as_fd()),
            stderr: Some(stderr.as_fd()),
            ..build_command(launch, &limits, cgroup)
        };
        let spawned = self.spawner.spawn(&command);
        self.attempt_dirs.remove_check();
        let pid = spawned.map_err(|error| LaunchError::of_spawn(&error, false))?;
        Ok(StartedRun {
            pid,
            tick: None,
            rotators: Vec::new(),
            group: None,
        })
    }

    fn start(&mut self, run: RunKey, at: Now, launch: &Launch) -> Result<StartedRun, LaunchError> {
        if launch.is_check {
            return self.start_check(launch);
        }
        let owner = launch.credentials.as_ref();
        let paths = launch.paths.as_ref();
        let work = paths
            .map(|paths| {
                let prepared = self.attempt_dirs.prepare(paths, owner);
                prepared.map_err(|error| about_file(&self.sandbox, "work", &paths.dir, &error))
            })
            .transpose()?;
        let mut rotator_env = Vec::new();
        self.set_outer_marks(&mut rotator_env);
        let mut rotators = Vec::new();
        let mut logs = None;
        let masked = masked_values(launch)?;
        let cwd = match &*launch.cwd {
            "" => work.as_deref(),
            cwd => Some(cwd),
        };
        let mut stream =
            |sink: &Sink, name: &str, attempt_log: Option<&str>, path: Option<&str>| {
                if *sink == Sink::Null {
                    return Ok(None);
                }
                // Where there are secrets, it masks them, and writes the file in place of the process.
                let mut masking =
                    |spawner: &mut Spawner, log: OwnedFd| -> Result<OwnedFd, LaunchError> {
                        let Some(masked) = &masked else {
                            return Ok(log);
                        };
                        let argv = helpers::mask_command();
                        let command = Command {
                            stdout: Some(log.as_fd()),
                            stdout_path: path,
                            extra: &[(masked.as_fd(), helpers::MASKED_VALUES_FD)],
                            cwd,
                            credentials: owner,
                            ..Command::new(&argv, &rotator_env)
                        };
                        let spawned = spawn_writer(spawner, command).map_err(|error| {
                            tell(&log, &error, "");
                            LaunchError::of_spawn(&error, false)
                        })?;
                        rotators.push(spawned.0);
                        Ok(spawned.1)
                    };
                if let (Sink::File, Some(name)) = (sink, attempt_log) {
                    let opened = self.attempt_dirs.open_log(name, owner);
                    let opened =
                        opened.map_err(|error| about_file(&self.sandbox, "logs", name, &error))?;
                    return masking(&mut self.spawner, opened).map(Some);
                }
                let about_logs =
                    |error: io::Error| about_file(&self.sandbox, LOGS_DIR, name, &error);
                let logs = match &mut logs {
                    Some(logs) => logs,
                    none => none.insert(
                        open_log_directory(&self.sandbox, run, launch).map_err(about_logs)?,
                    ),
                };
                match sink {
                    Sink::Null => Ok(None),
                    Sink::File => {
                        let opened = open_log_file(logs, name, owner).map_err(about_logs)?;
                        masking(&mut self.spawner, opened).map(Some)
                    }
                    Sink::Rotate { size, backups } => {
                        let is_masked = masked.is_some();
                        let argv = helpers::rotate_command(name, *size, *backups, is_masked);
                        let logs = (logs.as_fd(), helpers::LOG_DIRECTORY_FD);
                        let values = masked.as_ref();
                        let values = values.map(|it| (it.as_fd(), helpers::MASKED_VALUES_FD));
                        let extra: Vec<_> = std::iter::once(logs).chain(values).collect();
                        let command = Command {
                            extra: &extra,
                            credentials: owner,
                            ..Command::new(&argv, &rotator_env)
                        };
                        let rotator = spawn_writer(&mut self.spawner, command);
                        let (pid, end) =
                            rotator.map_err(|error| about_logs(io::Error::other(error)))?;
                        rotators.push(pid);
                        Ok(Some(end))
                    }
                }
            };
        let (out, err) = (launch.stdout_path.as_deref(), launch.stderr_path.as_deref());
        let stdout_log = paths.map(|paths| &*paths.stdout);
        let stdout = stream(&launch.stdout, "stdout", stdout_log, out)?;
        let stderr_log = paths.map(|paths| &*paths.stderr);
        let stderr = stream(&launch.stderr, "stderr", stderr_log, err)?;
        let limits = self.limits(launch);
        let group = self.create_run_group(run, launch.memory_max);
        let cgroup = group.as_ref().or(self.default_group.as_ref());
        let mut command = build_command(launch, &limits, cgroup.or(self.cgroup.as_ref()));
        command.cwd = cwd;
        if masked.is_some() {
            (command.stdout_path, command.stderr_path) = (None, None);
        }
        command.pid_note = self.pid_notes.prepare(run, at);
        command.stdout = stdout.as_ref().map(AsFd::as_fd);
        command.stderr = stderr.as_ref().map(AsFd::as_fd);
        let before = proc::ticks_now();
        let spawned = self.spawner.spawn(&command);
        let tick = Some(before).filter(|before| proc::ticks_now() == *before);
        if let (Err(error), Some(stderr)) = (&spawned, stderr) {
            let hint = if launch.paths.is_some() && error.is_missing_file() {
                DIRECTORY_HINT
            } else {
                ""
            };
            tell(&stderr, error, hint);
        }
        match spawned {
            Ok(pid) => Ok(StartedRun {
                pid,
                tick,
                rotators,
                group,
            }),
            Err(error) => {
                // It is empty; a failure to remove it does no harm.
                let _ = group.map(Cgroup::remove);
                Err(LaunchError::of_spawn(&error, !launch.limits.is_empty()))
            }
        }
    }

    /// The start time of a process that is not reaped yet. Asking `/proc` costs a tenth of a
    /// launch, and we can read the clock that the kernel takes it from; the first process shows
    /// whether it is that clock.
    fn start_ticks(&mut self, started: &StartedRun) -> io::Result<u64> {
        if let (Some(tick), Some(true)) = (started.tick, self.clock_matches_proc) {
            return Ok(tick);
        }
        // It is not reaped, so its pid is in /proc if /proc can be read.
        let stat = self.reader.stat(started.pid)?;
        let start_ticks = stat.ok_or(io::ErrorKind::NotFound)?.start_ticks;
        if let (Some(tick), None) = (started.tick, self.clock_matches_proc) {
            self.clock_matches_proc = Some(tick == start_ticks);
        }
        Ok(start_ticks)
    }

    /// Creates the control group of one run, if it has a limit that a group can enforce.
    fn create_run_group(&self, run: RunKey, memory_max: u64) -> Option<Cgroup> {
        let parent = self
            .cgroup
            .as_ref()
            .filter(|_| self.default_group.is_some())?;
        if memory_max == 0 {
            return None;
        }
        let name = format!("{}-{}", run.process.0, run.run.0);
        parent
            .below(&name, memory_max)
            .inspect_err(|error| log_line!("coordinator: no control group for {run}: {error}"))
            .ok()
    }

    /// Marks the environment of a run, so that every process of it can be found.
    fn set_mark(&self, run: RunKey, mark: &str, launch: &mut Launch) {
        let is_mark = |(name, _): &(String, String)| name == proc::MARK;
        if launch.paths.is_some() {
            launch.env.retain(|variable| !is_mark(variable));
        }
        if !launch.env.iter().any(is_mark) {
            let mark = attempt_mark(mark, run, launch.term);
            launch.env.push((proc::MARK.to_owned(), mark));
        }
        self.set_outer_marks(&mut launch.env);
    }

    /// Passes on the marks of the Baton that this coordinator runs inside of.
    fn set_outer_marks(&self, env: &mut Vec<(String, String)>) {
        if let Some(marks) = &self.outer_marks {
            env.retain(|(name, _)| name != proc::OUTER_MARKS);
            env.push((proc::OUTER_MARKS.to_owned(), marks.clone()));
        }
    }
}

impl System {
    /// Starts the process of a run. `fault`: why the log cannot be written, which a check reports.
    pub(super) fn spawn(
        &mut self,
        run: RunKey,
        mut launch: Box<Launch>,
        mark: &str,
        fault: Option<&str>,
    ) -> Input {
        let at = clock::now();
        self.launcher.set_mark(run, mark, &mut launch);
        let mut rotators = Vec::new();
        let variables = set_variables(&mut launch);
        let result = match (fault.filter(|_| launch.is_check), variables) {
            (Some(fault), _) => {
                let reason = format!("the log of the coordinator cannot be written: {fault}");
                Err(LaunchError::Host(reason).into())
            }
            (None, Err(error)) => Err(error.into()),
            (None, Ok(())) => self.start(run, at, &launch, &mut rotators),
        };
        let result = result.map_err(|error| {
            if launch.paths.is_some() {
                // The cause is in its stderr log, too, if that could be opened.
                log_line!("coordinator: {run} cannot be launched: {error}");
            }
            match error {
                StartError::Launch(LaunchError::Host(reason)) => StartFault::Host(reason),
                StartError::Launch(LaunchError::Work(reason)) => StartFault::Work(reason),
                StartError::Identity(_) => StartFault::Unidentified,
            }
        });
        Input::Spawned {
            run,
            launch,
            at: at.into(),
            rotators,
            result,
        }
    }

    fn start(
        &mut self,
        run: RunKey,
        at: Now,
        launch: &Launch,
        rotators: &mut Vec<u32>,
    ) -> Result<Identity, StartError> {
        let mut started = self.launcher.start(run, at, launch)?;
        rotators.append(&mut started.rotators);
        let pid = started.pid;
        match self.launcher.start_ticks(&started) {
            Ok(start_ticks) => {
                self.groups.extend(started.group.map(|group| (run, group)));
                Ok(Identity {
                    boot: self.boot(),
                    pid,
                    start_ticks,
                })
            }
            Err(error) => {
                log_failure(kill::group(pid, libc::SIGKILL));
                Err(StartError::Identity(error))
            }
        }
    }
}

/// Creates the group for processes without their own, if groups below `parent` can limit memory:
/// then `parent` itself must have no processes.
fn create_default_group(parent: &Cgroup) -> Option<Cgroup> {
    let default_group = parent.below("others", 0).ok()?;
    if parent.limits_memory() {
        return Some(default_group);
    }
    // It is empty; a failure to remove it does no harm.
    let _ = default_group.remove();
    None
}

/// An error about a file of a run in the sandbox.
fn about_file(sandbox: &Path, below: &str, name: &str, error: &io::Error) -> LaunchError {
    LaunchError::about(sandbox.join(below).join(name).display(), error)
}

fn open_log_directory(sandbox: &Path, run: RunKey, launch: &Launch) -> io::Result<OwnedFd> {
    let owner = launch.credentials.as_ref();
    let sandbox = open_directory(sandbox)?;
    let logs = open_subdirectory(sandbox.as_fd(), LOGS_DIR, owner)?;
    let process = open_subdirectory(logs.as_fd(), &launch.log, owner)?;
    open_subdirectory(process.as_fd(), &run.run.0.to_string(), owner)
}

fn build_command<'a>(
    launch: &'a Launch,
    limits: &'a [Limit],
    cgroup: Option<&'a Cgroup>,
) -> Command<'a> {
    Command {
        cwd: Some(&launch.cwd),
        credentials: launch.credentials.as_ref(),
        exec: launch.exec,
        cpus: (!launch.cpus.is_empty()).then_some(&launch.cpus),
        limits,
        cgroup: cgroup.map(Cgroup::procs),
        // A runner that does not listen yet must not die of the request to stop its task.
        blocked: launch.is_runner.then_some(libc::SIGTERM),
        stdout_path: launch.stdout_path.as_deref(),
        stderr_path: launch.stderr_path.as_deref(),
        ..Command::new(&launch.argv, &launch.env)
    }
}

/// Starts a process that writes the log of one stream; returns its pid and the pipe to write to.
fn spawn_writer(spawner: &mut Spawner, command: Command<'_>) -> Result<(u32, OwnedFd), SpawnError> {
    let pipe = pipe_with(PipeFlags::CLOEXEC).map_err(|error| SpawnError {
        step: Step::Prepare,
        error: error.into(),
    });
    let (read, write) = pipe?;
    let command = Command {
        stdin: Some(read.as_fd()),
        ..command
    };
    let pid = spawner.spawn(&command)?;
    Ok((pid, write))
}

/// Writes why nothing was started where users look for it. If this fails too, the end of the run still reports that.
fn tell(log: &OwnedFd, error: &SpawnError, hint: &str) {
    let _ = log
        .try_clone()
        .and_then(|log| writeln!(File::from(log), "baton: {error}{hint}"));
}

fn secrets_of(launch: &Launch) -> Result<Option<Vec<HeldSecret>>, LaunchError> {
    let Some(dir) = &launch.secrets else {
        return Ok(None);
    };
    let read = SecretsDir::new(dir).read();
    let read = read.map_err(|error| {
        LaunchError::about(format!("the secrets of the attempt, in {dir}"), &error)
    });
    read.map(Some)
}

/// The values that the output of a launch must not show.
fn masked_values(launch: &Launch) -> Result<Option<OwnedFd>, LaunchError> {
    let secrets = secrets_of(launch)?;
    let file = secrets.map(|secrets| helpers::values_file(&secrets));
    file.transpose()
        .map_err(|error| LaunchError::about("memory for the values to mask", &error))
}

/// Adds the secrets that are variables. They are read for each process, and so are in no message and no record.
fn set_variables(launch: &mut Launch) -> Result<(), LaunchError> {
    if launch.is_runner {
        return Ok(());
    }
    for secret in secrets_of(launch)?.unwrap_or_default() {
        let Some(name) = &secret.env else {
            continue;
        };
        let value = secret.as_variable().map_err(|reason| {
            LaunchError::Work(format!(
                "the variable {name} cannot have its secret: {reason}"
            ))
        })?;
        launch.env.retain(|(other, _)| other != name);
        launch.env.push((name.clone(), value.to_owned()));
    }
    Ok(())
}

/// Raises the soft limit on descriptors to the hard one, since each adopted run takes a descriptor.
/// Returns the earlier limit if it was lower.
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

fn open_log_file(logs: &OwnedFd, name: &str, owner: Option<&Credentials>) -> io::Result<OwnedFd> {
    let flags =
        OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(logs, name, flags, Mode::from_raw_mode(0o644))?;
    chown_to(&fd, owner)?;
    Ok(fd)
}
