//! Errors of a launch: a fault of the work, which it has on every host, or a fault of this host.
//!
//! A fault of the host says nothing about the work, so a worker gives the attempt back, and another
//! worker may run it. The classification goes by the error and by whose path it is about: a full
//! disk below a worker's own state directory is the worker's fault, a full disk that the work has
//! named for its output is not.

use std::fmt::Display;
use std::io;

use crate::sys::spawn::{SpawnError, Step};

/// Why a run was not launched. There is no process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    #[error("{0}")]
    Work(String),
    #[error("{0}")]
    Host(String),
}

impl LaunchError {
    /// An error about something that belongs to the worker, such as a path below its state directory.
    #[must_use]
    pub fn about(subject: impl Display, error: &io::Error) -> Self {
        let text = format!("{subject}: {error}");
        if is_host_fault(error) {
            Self::Host(text)
        } else {
            Self::Work(text)
        }
    }

    /// An error of the step that creates the process. `limited` if the work limits its own
    /// resources: then it may be its own limit that leaves it no memory.
    #[must_use]
    pub fn of_spawn(error: &SpawnError, limited: bool) -> Self {
        let code = error.error.raw_os_error();
        let is_exhausted = matches!(code, Some(libc::EMFILE | libc::ENFILE | libc::EAGAIN))
            || (code == Some(libc::ENOMEM) && !limited);
        let is_host_fault = match &error.step {
            Step::Prepare | Step::Clone | Step::Session | Step::Cgroup | Step::Descriptor(_) => {
                is_host_fault(&error.error)
            }
            // The worker has chosen them: they went offline, or its cpuset has shrunk.
            Step::Affinity(_) => true,
            Step::Program(_) | Step::Directory(_) => is_exhausted || code == Some(libc::EIO),
            // The file of an output belongs to the work, and so does the disk that has no room for it.
            Step::Output(_)
            | Step::Setting(..)
            | Step::Limit(_)
            | Step::Groups
            | Step::Group(_)
            | Step::User(_)
            | Step::Privileges => is_exhausted,
            Step::File { .. } | Step::Interpreter(_) => false,
        };
        if is_host_fault {
            Self::Host(error.to_string())
        } else {
            Self::Work(error.to_string())
        }
    }
}

/// True for errors of a disk, or of a kernel that has run out of something: no work causes them by
/// what it is.
#[must_use]
pub fn is_host_fault(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EROFS
                | libc::ENOSPC
                | libc::EDQUOT
                | libc::EMFILE
                | libc::ENFILE
                | libc::EAGAIN
                | libc::ENOMEM
                | libc::ENOBUFS
                | libc::EIO
                | libc::ESTALE
                | libc::ENODEV
                | libc::ENXIO
                | libc::EUCLEAN
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spawn_error(step: Step, code: i32) -> SpawnError {
        SpawnError {
            step,
            error: io::Error::from_raw_os_error(code),
        }
    }

    #[test]
    fn a_disk_or_a_kernel_without_room_is_a_fault_of_the_host() {
        for code in [
            libc::EROFS,
            libc::ENOSPC,
            libc::EDQUOT,
            libc::EMFILE,
            libc::ENFILE,
            libc::EAGAIN,
            libc::ENOMEM,
            libc::EIO,
        ] {
            let error = io::Error::from_raw_os_error(code);
            let fault = LaunchError::about("/s/work/i1", &error);
            assert!(matches!(&fault, LaunchError::Host(_)), "{fault:?}");
            assert!(fault.to_string().starts_with("/s/work/i1: "), "{fault}");
            let error = spawn_error(Step::Clone, code);
            let fault = LaunchError::of_spawn(&error, false);
            assert!(matches!(&fault, LaunchError::Host(_)), "{fault:?}");
        }
    }

    #[test]
    fn a_fault_that_the_work_has_anywhere_is_its_own() {
        let program = || Step::Program("x".to_owned());
        for (step, code) in [
            (program(), libc::ENOENT),
            (program(), libc::EACCES),
            (program(), libc::ENOEXEC),
            (program(), libc::E2BIG),
            (Step::Prepare, libc::E2BIG),
            (Step::Prepare, libc::EINVAL),
            (Step::Directory("/data".to_owned()), libc::ENOENT),
            (Step::Output("/data/out".to_owned()), libc::ENOSPC),
            (Step::Output("/data/out".to_owned()), libc::EROFS),
            (Step::User(7), libc::EPERM),
            (Step::Interpreter("x".to_owned()), libc::ENOENT),
        ] {
            let fault = LaunchError::of_spawn(&spawn_error(step, code), false);
            assert!(matches!(&fault, LaunchError::Work(_)), "{fault:?}");
        }
        let error = spawn_error(program(), libc::ENOMEM);
        let own_limit = LaunchError::of_spawn(&error, true);
        assert!(matches!(own_limit, LaunchError::Work(_)));
        let fault = LaunchError::of_spawn(&error, false);
        assert!(matches!(fault, LaunchError::Host(_)));
        let denied = io::Error::from_raw_os_error(libc::EACCES);
        assert!(!is_host_fault(&denied));
    }
}
