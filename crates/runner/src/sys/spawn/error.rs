//! Errors of a launch.

use std::io;
use std::path::Path;

use super::Command;
use super::exec_image::{ChildStep, ExecImage, Fault};

/// The step at which a launch failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Step {
    /// Nothing was tried: the command cannot be passed to the kernel.
    #[error("be started")]
    Prepare,
    #[error("create a process")]
    Clone,
    #[error("create a session")]
    Session,
    #[error("join the control group")]
    Cgroup,
    #[error("set descriptor {0}")]
    Descriptor(i32),
    /// One of [`baton_model::task::ExecSettings`], and its value.
    #[error("set {0} to {1}")]
    Setting(&'static str, i64),
    /// To its CPUs.
    #[error("bind to CPUs {0}")]
    Affinity(String),
    #[error("set {}", limit_name(*.0))]
    Limit(u32),
    /// The supplementary ones.
    #[error("set the groups")]
    Groups,
    #[error("change to group {0}")]
    Group(u32),
    #[error("change to user {0}")]
    User(u32),
    #[error("enter `{0}`")]
    Directory(String),
    /// The file of standard output or standard error.
    #[error("create `{0}`")]
    Output(String),
    /// Setting `no_new_privs`.
    #[error("give up privileges")]
    Privileges,
    #[error("start `{0}`")]
    Program(String),
    /// A relative path, which the directory does not have.
    #[error("start `{program}`: no such file in {directory}")]
    File { program: String, directory: String },
    /// The program exists, but its interpreter or loader does not.
    #[error("start `{0}`: its interpreter is missing")]
    Interpreter(String),
}

/// A launch that failed. There is no process.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step}{}", reason(.step, .error))]
pub struct SpawnError {
    pub step: Step,
    #[source]
    pub error: io::Error,
}

impl SpawnError {
    /// True if the program is a relative path that does not exist.
    #[must_use]
    pub fn is_missing_file(&self) -> bool {
        matches!(self.step, Step::File { .. })
    }

    pub(super) fn from_fault(fault: Fault, command: &Command<'_>, image: &ExecImage) -> Self {
        let (uid, gid) = command
            .credentials
            .map_or((0, 0), |user| (user.uid, user.gid));
        let step = match fault.step {
            ChildStep::Session => Step::Session,
            ChildStep::Cgroup => Step::Cgroup,
            ChildStep::Descriptor(target) => Step::Descriptor(target),
            ChildStep::Setting(name, value) => Step::Setting(name, value),
            ChildStep::Affinity => {
                Step::Affinity(command.cpus.map(ToString::to_string).unwrap_or_default())
            }
            ChildStep::Limit(resource) => Step::Limit(resource),
            ChildStep::Groups => Step::Groups,
            ChildStep::Group => Step::Group(gid),
            ChildStep::User => Step::User(uid),
            ChildStep::Directory => Step::Directory(command.cwd.unwrap_or_default().to_owned()),
            ChildStep::Output(target) => {
                let path = if target == libc::STDOUT_FILENO {
                    command.stdout_path
                } else {
                    command.stderr_path
                };
                Step::Output(path.unwrap_or_default().to_owned())
            }
            ChildStep::Privileges => Step::Privileges,
            ChildStep::Program => {
                let name = command.argv.first().cloned().unwrap_or_default();
                if fault.errno == libc::ENOENT && program_exists(command, image) {
                    Step::Interpreter(name)
                } else if let (libc::ENOENT, Some(cwd)) = (fault.errno, command.cwd)
                    && !name.starts_with('/')
                    && name.contains('/')
                {
                    Step::File {
                        program: name,
                        directory: cwd.to_owned(),
                    }
                } else {
                    Step::Program(name)
                }
            }
        };
        Self {
            step,
            error: io::Error::from_raw_os_error(fault.errno),
        }
    }
}

/// True if any of the candidate files exists.
fn program_exists(command: &Command<'_>, image: &ExecImage) -> bool {
    let cwd = Path::new(command.cwd.unwrap_or("."));
    let mut paths = image
        .candidates
        .iter()
        .filter_map(|path| path.to_str().ok());
    paths.any(|path| cwd.join(path).is_file())
}

/// The cause as the end of a sentence.
fn reason(step: &Step, error: &io::Error) -> String {
    if matches!(step, Step::Interpreter(_) | Step::File { .. }) {
        return String::new();
    }
    let code = error.raw_os_error();
    if let (Step::Program(name), Some(libc::ENOENT)) = (step, code)
        && !name.contains('/')
    {
        return ": no such program in the directories of its PATH".to_owned();
    }
    let script = if code == Some(libc::ENOEXEC) {
        " (a script needs a first line such as `#!/bin/sh`)"
    } else {
        ""
    };
    format!(": {}{script}", describe(error))
}

/// An OS error as text within a sentence.
fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    if error.raw_os_error().is_none() {
        return text;
    }
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// The name of a limit in task files.
fn limit_name(resource: u32) -> String {
    let names = [
        (libc::RLIMIT_AS, "as"),
        (libc::RLIMIT_CORE, "core"),
        (libc::RLIMIT_CPU, "cpu"),
        (libc::RLIMIT_DATA, "data"),
        (libc::RLIMIT_FSIZE, "fsize"),
        (libc::RLIMIT_LOCKS, "locks"),
        (libc::RLIMIT_MEMLOCK, "memlock"),
        (libc::RLIMIT_MSGQUEUE, "msgqueue"),
        (libc::RLIMIT_NICE, "nice"),
        (libc::RLIMIT_NOFILE, "nofile"),
        (libc::RLIMIT_NPROC, "nproc"),
        (libc::RLIMIT_RSS, "rss"),
        (libc::RLIMIT_RTPRIO, "rtprio"),
        (libc::RLIMIT_RTTIME, "rttime"),
        (libc::RLIMIT_SIGPENDING, "sigpending"),
        (libc::RLIMIT_STACK, "stack"),
    ];
    let found = names.iter().find(|(number, _)| *number == resource);
    match found {
        Some((_, name)) => format!("the limit `{name}`"),
        None => format!("limit {resource}"),
    }
}
