//! Errors of a launch.

use std::fmt;
use std::io;
use std::path::Path;

use super::Command;
use super::exec_image::{ChildStep, ExecImage, Fault};

/// The step at which a launch failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing was tried: the command cannot be passed to the kernel.
    Prepare,
    /// Creating the process.
    Clone,
    /// Creating its session.
    Session,
    /// Joining the control group.
    Cgroup,
    /// Passing this descriptor.
    Descriptor(i32),
    /// Setting this nice value.
    Nice(i32),
    /// Setting the limit of this resource.
    Limit(u32),
    /// Setting the supplementary groups.
    Groups,
    /// Changing to this group.
    Group(u32),
    /// Changing to this user.
    User(u32),
    /// Entering this directory.
    Directory(String),
    /// Setting `no_new_privs`.
    Privileges,
    /// Executing this program.
    Program(String),
    /// The program exists, but its interpreter or loader does not.
    Interpreter(String),
}

/// A launch that failed. There is no process.
#[derive(Debug)]
pub struct SpawnError {
    pub step: Step,
    pub error: io::Error,
}

impl SpawnError {
    pub(super) fn from_fault(fault: Fault, command: &Command<'_>, image: &ExecImage) -> Self {
        let (uid, gid) = command
            .credentials
            .map_or((0, 0), |user| (user.uid, user.gid));
        let step = match fault.step {
            ChildStep::Session => Step::Session,
            ChildStep::Cgroup => Step::Cgroup,
            ChildStep::Descriptor(target) => Step::Descriptor(target),
            ChildStep::Nice => Step::Nice(command.nice.unwrap_or_default()),
            ChildStep::Limit(resource) => Step::Limit(resource),
            ChildStep::Groups => Step::Groups,
            ChildStep::Group => Step::Group(gid),
            ChildStep::User => Step::User(uid),
            ChildStep::Directory => Step::Directory(command.cwd.unwrap_or_default().to_owned()),
            ChildStep::Privileges => Step::Privileges,
            ChildStep::Program => {
                let name = command.argv.first().cloned().unwrap_or_default();
                if fault.errno == libc::ENOENT && program_exists(command, image) {
                    Step::Interpreter(name)
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

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.step {
            Step::Prepare => write!(f, "cannot be started")?,
            Step::Clone => write!(f, "cannot create a process")?,
            Step::Session => write!(f, "cannot create a session")?,
            Step::Cgroup => write!(f, "cannot join the control group")?,
            Step::Descriptor(number) => write!(f, "cannot set descriptor {number}")?,
            Step::Nice(nice) => write!(f, "cannot set the priority to {nice}")?,
            Step::Limit(resource) => match limit_name(*resource) {
                Some(name) => write!(f, "cannot set the limit `{name}`")?,
                None => write!(f, "cannot set limit {resource}")?,
            },
            Step::Groups => write!(f, "cannot set the groups")?,
            Step::Group(gid) => write!(f, "cannot change to group {gid}")?,
            Step::User(uid) => write!(f, "cannot change to user {uid}")?,
            Step::Directory(path) => write!(f, "cannot enter `{path}`")?,
            Step::Privileges => write!(f, "cannot give up privileges")?,
            Step::Program(name) => write!(f, "cannot start `{name}`")?,
            Step::Interpreter(name) => {
                return write!(f, "cannot start `{name}`: its interpreter is missing");
            }
        }
        write!(f, ": {}", describe(&self.error))?;
        if self.error.raw_os_error() == Some(libc::ENOEXEC) {
            write!(f, " (a script needs a first line such as `#!/bin/sh`)")?;
        }
        Ok(())
    }
}

impl std::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
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
fn limit_name(resource: u32) -> Option<&'static str> {
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
    found.map(|(_, name)| *name)
}
