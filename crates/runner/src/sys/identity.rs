//! Process identity and exit status.
//!
//! A pid may be reused. An [`Identity`] is a pid with the boot and the start time; a [`Handle`] is
//! an identity held by a pidfd, so that a checked process cannot be replaced by another. The order
//! makes it safe: the pidfd is opened *first*, and then the start time of the process with that pid
//! is read. If it is the right one, then the pidfd is the right one too, since the process was
//! there both before and after.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use baton_model::ids::BootId;
pub use baton_model::outcome::ExitStatus;
use baton_model::task::Identity;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::proc;
use super::raw::{self, Child};

/// The state of a process as far as it can be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It runs; or it has ended, but its parent has not reaped it yet.
    Running,
    Status(ExitStatus),
    /// It has ended, was not our child, and this kernel does not report its status.
    Unknowable,
}

/// The boot id of this machine.
///
/// # Errors
/// If `/proc` cannot be read, or the id cannot be parsed.
pub fn boot_id() -> io::Result<BootId> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    parse_boot_id(&text).ok_or_else(|| {
        let text = format!("`{}` is not a boot id", text.trim_end().escape_debug());
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

/// The first eight bytes of a uuid: enough to tell the boots of one machine apart.
fn parse_boot_id(text: &str) -> Option<BootId> {
    let digits: String = text.chars().filter(|c| *c != '-').take(16).collect();
    let whole = digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    whole.then(|| u64::from_str_radix(&digits, 16).ok().map(BootId))?
}

/// The identity of the process with this pid; `None` if there is none. A zombie still has its pid,
/// and its identity.
pub fn identify(boot: BootId, pid: u32) -> io::Result<Option<Identity>> {
    Ok(proc::stat(pid)?.map(|stat| Identity {
        boot,
        pid,
        start_ticks: stat.start_ticks,
    }))
}

/// True if this very process runs: not another one with its pid, and not a zombie. A process that
/// cannot be read does not count as running.
#[must_use]
pub fn is_alive(identity: &Identity, boot: BootId) -> bool {
    if identity.boot != boot {
        return false;
    }
    matches!(proc::stat(identity.pid), Ok(Some(stat))
        if stat.start_ticks == identity.start_ticks && !stat.is_over())
}

/// A process held by a pidfd.
#[derive(Debug)]
pub struct Handle {
    pidfd: OwnedFd,
    identity: Identity,
}

impl Handle {
    /// Opens a handle; `None` if the process is gone, even if its pid was reused. A zombie can be
    /// held.
    ///
    /// # Errors
    /// If there are too many descriptors, or `/proc` cannot be read.
    pub fn open(identity: &Identity, boot: BootId) -> io::Result<Option<Self>> {
        if identity.boot != boot {
            return Ok(None);
        }
        let Some(pidfd) = hold(identity.pid)? else {
            return Ok(None);
        };
        let there = proc::stat(identity.pid)?;
        if there.is_none_or(|stat| stat.start_ticks != identity.start_ticks) {
            return Ok(None);
        }
        Ok(Some(Self {
            pidfd,
            identity: *identity,
        }))
    }

    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Sends a signal; false if the process is gone.
    ///
    /// # Errors
    /// If it may not be signalled, or there is no such signal.
    pub fn signal(&self, signal: i32) -> io::Result<bool> {
        send(self.pidfd.as_fd(), signal)
    }

    /// Its exit status. Reaps it if it is our child. The pidfd polls readable as soon as the
    /// process ends; another parent's child is then `Running` until that parent has reaped it,
    /// which shows as a hangup, and only then its status is available.
    ///
    /// # Errors
    /// If the kernel refuses for another reason than being too old.
    pub fn exit(&self) -> io::Result<Exit> {
        match raw::wait_exited(&Child::Pidfd(self.pidfd.as_fd()), libc::WNOHANG) {
            Ok(None) => return Ok(Exit::Running),
            Ok(Some((_, status))) => return Ok(Exit::Status(status)),
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {}
            Err(error) => return Err(error),
        }
        match raw::pidfd_exit(self.pidfd.as_fd()) {
            Ok(Some(status)) => return Ok(Exit::Status(status)),
            Ok(None) => return Ok(Exit::Running),
            // Whatever the reason, only the parent can know then. What is left to check is whether
            // it still exists.
            Err(_) => {}
        }
        match send(self.pidfd.as_fd(), 0) {
            Ok(false) => Ok(Exit::Unknowable),
            Ok(true) => Ok(Exit::Running),
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => Ok(Exit::Running),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// A pidfd of the process with this pid; `None` if there is none. The caller must check its
/// identity.
pub(super) fn hold(pid: u32) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Ok(None);
    };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => Ok(Some(pidfd)),
        // The last two: the number is now a thread id.
        Err(rustix::io::Errno::SRCH | rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Sends a signal through a pidfd; false if the process is gone.
pub(super) fn send(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<bool> {
    match raw::pidfd_send_signal(pidfd, signal) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The current children of this process, to tell them from orphans that it inherits later.
#[must_use]
pub fn children(boot: BootId) -> Vec<Identity> {
    let me = std::process::id();
    // Without /proc nothing works, and that is reported elsewhere.
    let all = super::proc::all().unwrap_or_default().into_iter();
    let children = all.filter(|stat| stat.ppid == me);
    children
        .map(|stat| Identity {
            boot,
            pid: stat.pid,
            start_ticks: stat.start_ticks,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Child as Process, Command, Stdio};

    use super::*;
    use crate::sys::reap;

    fn start(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).spawn().expect("a shell")
    }

    fn who(pid: u32) -> (Identity, BootId) {
        let boot = boot_id().expect("readable");
        let found = identify(boot, pid).expect("readable");
        (found.expect("it is there"), boot)
    }

    fn wait_for_exit(handle: &Handle) -> Exit {
        loop {
            match handle.exit().expect("asked") {
                Exit::Running => std::thread::yield_now(),
                exit => return exit,
            }
        }
    }

    #[test]
    fn a_boot_id_is_the_first_half_of_the_uuid() {
        let text = "0123abcd-4567-89ef-0000-000000000000\n";
        assert_eq!(parse_boot_id(text), Some(BootId(0x0123_abcd_4567_89ef)));
        assert_eq!(parse_boot_id("0123abcd-4567"), None);
        assert_eq!(parse_boot_id("+123abcd-4567-89ef-0000"), None);
        assert_eq!(boot_id().expect("readable"), boot_id().expect("readable"));
    }

    #[test]
    fn another_start_time_or_boot_is_another_process() {
        let mut child = start("read line");
        let (identity, boot) = who(child.id());
        assert!(is_alive(&identity, boot));
        let open = |identity, boot| Handle::open(identity, boot).expect("no error");
        assert!(open(&identity, boot).is_some());

        let mut later = identity;
        later.start_ticks += 1;
        assert!(open(&later, boot).is_none());
        assert!(!is_alive(&later, boot));
        let other = BootId(boot.0 ^ 1);
        assert!(open(&identity, other).is_none());
        assert!(!is_alive(&identity, other));
        let mut elsewhere = identity;
        elsewhere.pid = u32::MAX;
        assert!(open(&elsewhere, boot).is_none());

        drop(child.stdin.take());
        child.wait().expect("our child");
        assert!(open(&identity, boot).is_none());
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "the handle reaps it")]
    fn a_child_keeps_its_identity_until_its_status_is_taken() {
        let mut child = start("read line; exit 7");
        let (identity, boot) = who(child.id());
        let handle = Handle::open(&identity, boot)
            .expect("no error")
            .expect("alive");
        assert_eq!(handle.exit().expect("asked"), Exit::Running);
        assert_eq!(handle.identity(), &identity);
        drop(child.stdin.take());

        let mut fds = [rustix::event::PollFd::new(
            &handle,
            rustix::event::PollFlags::IN,
        )];
        rustix::event::poll(&mut fds, None).expect("it ends");
        assert!(!is_alive(&identity, boot));
        assert_eq!(
            identify(boot, identity.pid).expect("readable"),
            Some(identity)
        );
        assert!(reap::is_child(identity.pid));
        assert_eq!(
            handle.exit().expect("asked"),
            Exit::Status(ExitStatus::Code(7))
        );
        assert!(!reap::is_child(identity.pid));
        assert!(!handle.signal(libc::SIGTERM).expect("no error"));
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "the handle reaps it")]
    fn a_signal_goes_to_the_process_that_is_held() {
        let child = start("read line");
        let (identity, boot) = who(child.id());
        let handle = Handle::open(&identity, boot)
            .expect("no error")
            .expect("alive");
        assert!(handle.signal(4711).is_err());
        assert!(handle.signal(libc::SIGTERM).expect("ours"));
        let status = ExitStatus::Signal(libc::SIGTERM);
        assert_eq!(wait_for_exit(&handle), Exit::Status(status));
    }

    #[test]
    fn the_status_of_another_parents_child_is_known_where_the_kernel_reports_it() {
        let script = "exec 3<&0; sh -c 'read line; exit 7' <&3 & echo $!; wait";
        for (end, wanted) in [
            (None, ExitStatus::Code(7)),
            (Some(9), ExitStatus::Signal(9)),
        ] {
            let mut child = start(script);
            let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
            let pid = lines.next().expect("a line").expect("text");
            let (identity, boot) = who(pid.parse().expect("a number"));
            let handle = Handle::open(&identity, boot)
                .expect("no error")
                .expect("alive");
            assert!(!reap::is_child(identity.pid));
            assert_eq!(handle.exit().expect("asked"), Exit::Running);
            match end {
                Some(signal) => assert!(handle.signal(signal).expect("ours")),
                None => {
                    let mut stdin = child.stdin.take().expect("piped");
                    stdin.write_all(b"go\n").expect("it reads");
                }
            }
            match wait_for_exit(&handle) {
                Exit::Unknowable => println!("skipped: this kernel does not report it"),
                exit => assert_eq!(exit, Exit::Status(wanted)),
            }
            child.wait().expect("our child");
        }
    }
}
