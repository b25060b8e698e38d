//! Building the launch of a process of a task.
//!
//! All names are looked up once, when the task is opened: an unknown user or limit is an error
//! before anything runs.

use std::collections::BTreeMap;
use std::path::Path;

use baton_model::task::{
    CommandLine, ExecSettings, LogDestination, LogMode, Probe, ProcessSpec, Rlimit, TaskSpec,
};
use baton_model::time::Millis;

use super::TaskError;
use crate::coordinator::run_mark;
use crate::helpers;
use crate::record::Header;
use crate::sys::proc;
use crate::sys::users::{self, User};
use crate::wire::{Launch, Limit, RunKey, Sink};

/// Sourced by the shell before each command, if it exists in the sandbox: variables that one
/// process writes there are in the environment of later ones.
pub(super) const PROFILE: &str = ".baton_profile";

/// Shells, in order of preference.
const SHELLS: [&str; 2] = ["/bin/bash", "/bin/sh"];

/// The default `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables that the task inherits from the environment it is started in.
pub(super) const INHERITED: [&str; 4] = ["PATH", "LANG", "LC_ALL", "TZ"];

/// The settings that all launches of a task share.
#[derive(Debug)]
pub(super) struct LaunchBuilder {
    shell: &'static str,
    sandbox: String,
    mark: String,
    task_id: String,
    env: Vec<(String, String)>,
    assigned_env: Vec<(String, String)>,
    secrets: Option<String>,
    /// The users named in the task.
    users: BTreeMap<String, User>,
    /// The user of processes that name none.
    default_user: Option<User>,
}

impl LaunchBuilder {
    /// Looks up all names.
    pub(super) fn new(header: &Header) -> Result<Self, TaskError> {
        Self::check(&header.spec)?;
        let names = user_names(&header.spec);
        let mut known = BTreeMap::new();
        for name in names {
            known.insert(name.clone(), user(name)?);
        }
        let shell = SHELLS.into_iter().find(|shell| Path::new(shell).exists());
        Ok(Self {
            shell: shell.unwrap_or(SHELLS[1]),
            sandbox: header.sandbox.clone(),
            mark: header.mark.clone(),
            task_id: header.task_id.clone(),
            env: header.env.clone(),
            assigned_env: header.assigned_env.clone(),
            secrets: header.secrets.clone(),
            users: known,
            default_user: users::by_uid(users::effective_uid())
                .map_err(TaskError::io("look up the user"))?,
        })
    }

    /// Checks that a task can run on this host.
    pub(super) fn check(spec: &TaskSpec) -> Result<(), TaskError> {
        for name in user_names(spec) {
            let user = user(name)?;
            let me = users::effective_uid();
            if me != 0 && user.uid != me {
                return Err(TaskError::Invalid(format!(
                    "user `{name}`: only root can run processes as another user; start baton as \
                     root or as `{name}`, or leave `user` out"
                )));
            }
        }
        for process in &spec.processes {
            for limit in &process.rlimits {
                if resource(limit).is_none() {
                    return Err(TaskError::Invalid(format!(
                        "process {}: this system has no limit called `{}`",
                        process.name, limit.resource
                    )));
                }
            }
        }
        Ok(())
    }

    /// The user of the task as a whole, if it names one.
    pub(super) fn task_user(spec: &TaskSpec) -> Result<Option<User>, TaskError> {
        spec.user.as_deref().map(user).transpose()
    }

    /// Builds the launch of one run.
    pub(super) fn launch(&self, task: &TaskSpec, spec: &ProcessSpec, run: RunKey) -> Launch {
        let logger = spec.logger.unwrap_or_default();
        let sink = match (logger.destination, logger.mode) {
            (LogDestination::None, _) => Sink::Null,
            // A viewer reads the file: so its death breaks no pipe.
            (LogDestination::Console, _) | (_, LogMode::Standard) => Sink::File,
            (_, LogMode::Rotate { size, backups }) => Sink::Rotate { size, backups },
        };
        let mut launch = self.base_launch(task, spec, run, self.argv(&spec.run));
        launch.stdout = sink.clone();
        launch.stderr = sink;
        launch
    }

    /// Builds the launch of one check: as the process itself, but without limits, and with its
    /// output discarded.
    pub(super) fn probe(
        &self,
        task: &TaskSpec,
        spec: &ProcessSpec,
        run: RunKey,
        probe: &Probe,
        timeout: Millis,
    ) -> Launch {
        let argv = match probe {
            Probe::Command(run) => self.argv(run),
            Probe::Http { port, path } => helpers::http_command(*port, path, timeout),
            Probe::Tcp { port } => helpers::tcp_command(*port, timeout),
        };
        let mut launch = self.base_launch(task, spec, run, argv);
        launch.limits = Vec::new();
        launch.exec = ExecSettings {
            umask: spec.umask,
            ..ExecSettings::default()
        };
        launch
    }

    fn base_launch(
        &self,
        task: &TaskSpec,
        spec: &ProcessSpec,
        run: RunKey,
        argv: Vec<String>,
    ) -> Launch {
        let name = spec.user.as_ref().or(task.user.as_ref());
        let user = name.and_then(|name| self.users.get(name));
        let other_user = user.filter(|_| users::effective_uid() == 0);
        let cwd = match &spec.cwd {
            Some(absolute) if absolute.starts_with('/') => absolute.clone(),
            Some(below) => format!("{}/{below}", self.sandbox),
            None => self.sandbox.clone(),
        };
        let limits = spec.rlimits.iter().filter_map(|limit| {
            Some(Limit {
                resource: resource(limit)?,
                soft: limit.soft,
                hard: limit.hard,
            })
        });
        Launch {
            argv,
            env: self.env(spec, run, user.or(self.default_user.as_ref())),
            cwd,
            credentials: other_user.map(User::credentials),
            exec: spec.exec(),
            limits: limits.collect(),
            log: spec.name.0.clone(),
            secrets: self.secrets.clone(),
            ..Launch::default()
        }
    }

    fn argv(&self, run: &CommandLine) -> Vec<String> {
        match run {
            CommandLine::Exec(words) => words.clone(),
            CommandLine::Shell(command) => {
                vec![self.shell.to_owned(), "-c".to_owned(), command.clone()]
            }
        }
    }

    /// Later sources win: the user, the task's environment, the process' own, that of its devices, and
    /// Baton's variables.
    fn env(&self, spec: &ProcessSpec, run: RunKey, user: Option<&User>) -> Vec<(String, String)> {
        let mut env = BTreeMap::from([("PATH".to_owned(), DEFAULT_PATH.to_owned())]);
        if let Some(user) = user {
            env.insert("HOME".to_owned(), user.home.clone());
            env.insert("USER".to_owned(), user.name.clone());
            env.insert("LOGNAME".to_owned(), user.name.clone());
        }
        let profile = format!("{}/{PROFILE}", self.sandbox);
        if Path::new(&profile).is_file() {
            env.insert("BASH_ENV".to_owned(), profile);
        }
        env.extend(self.env.iter().cloned());
        env.extend(spec.env.clone());
        env.extend(self.assigned_env.iter().cloned());
        let own = [
            ("BATON_TASK_ID", self.task_id.clone()),
            ("BATON_PROCESS", spec.name.0.clone()),
            ("BATON_RUN", run.run.0.to_string()),
            ("BATON_SANDBOX", self.sandbox.clone()),
            (proc::MARK, run_mark(&self.mark, run)),
        ];
        env.extend(own.map(|(name, value)| (name.to_owned(), value)));
        env.into_iter().collect()
    }
}

/// True if the output of a process is shown on the console.
#[must_use]
pub fn is_shown(spec: &ProcessSpec) -> bool {
    let destination = spec.logger.unwrap_or_default().destination;
    matches!(destination, LogDestination::Console | LogDestination::Both)
}

fn user_names(spec: &TaskSpec) -> impl Iterator<Item = &String> {
    let own = spec
        .processes
        .iter()
        .filter_map(|process| process.user.as_ref());
    own.chain(spec.user.as_ref())
}

fn user(name: &str) -> Result<User, TaskError> {
    let found = users::by_name(name).map_err(TaskError::io("look up a user"))?;
    found.ok_or_else(|| {
        TaskError::Invalid(format!(
            "user `{name}`: there is no such user on this host; add it, or name another"
        ))
    })
}

/// The kernel's number of a limit.
fn resource(limit: &Rlimit) -> Option<u32> {
    let number = match &*limit.resource {
        "as" => libc::RLIMIT_AS,
        "core" => libc::RLIMIT_CORE,
        "cpu" => libc::RLIMIT_CPU,
        "data" => libc::RLIMIT_DATA,
        "fsize" => libc::RLIMIT_FSIZE,
        "locks" => libc::RLIMIT_LOCKS,
        "memlock" => libc::RLIMIT_MEMLOCK,
        "msgqueue" => libc::RLIMIT_MSGQUEUE,
        "nice" => libc::RLIMIT_NICE,
        "nofile" => libc::RLIMIT_NOFILE,
        "nproc" => libc::RLIMIT_NPROC,
        "rss" => libc::RLIMIT_RSS,
        "rtprio" => libc::RLIMIT_RTPRIO,
        "rttime" => libc::RLIMIT_RTTIME,
        "sigpending" => libc::RLIMIT_SIGPENDING,
        "stack" => libc::RLIMIT_STACK,
        _ => return None,
    };
    Some(number)
}
