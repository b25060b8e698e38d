//! Children that have ended.
//!
//! Looking and letting go are two calls. Between them the child is a zombie that still
//! holds its pid, and so its process group cannot be anybody else's: the time to kill
//! what is left of the group. Nobody else in this crate reaps, but
//! [`Handle::exit`](super::identity::Handle::exit).

use std::io;

use super::identity::ExitStatus;
use super::raw::{self, Child};

/// A child that has been let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReapedChild {
    /// Its number, which anybody may have from now on.
    pub pid: u32,
    pub status: ExitStatus,
}

/// A child that has ended; `None` if there is none. It stays where it is, and is the
/// answer again until [`reap`] lets it go.
///
/// # Errors
/// None are known.
pub fn next_exited() -> io::Result<Option<(u32, ExitStatus)>> {
    match raw::wait_exited(&Child::Any, libc::WNOHANG | libc::WNOWAIT) {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        other => other,
    }
}

/// Lets a child that has ended go. One that still runs is left alone.
///
/// # Errors
/// If it is not our child.
pub fn reap(pid: u32) -> io::Result<()> {
    raw::wait_exited(&Child::Pid(pid), libc::WNOHANG).map(|_| ())
}

/// What a child has used, it and those of its own that it has waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildUsage {
    /// Processor time, in microseconds.
    pub cpu_us: u64,
    /// The most memory that one of them had in use, in bytes.
    pub memory_peak_bytes: u64,
}

/// As [`reap`], with what it has used; `None` if it still runs.
///
/// # Errors
/// If it is not our child.
pub fn reap_counted(pid: u32) -> io::Result<Option<ChildUsage>> {
    let used = raw::reap_counted(pid)?;
    Ok(used.map(|(cpu_us, peak_kib)| ChildUsage {
        cpu_us,
        memory_peak_bytes: peak_kib.saturating_mul(1024),
    }))
}

/// Lets any child that has ended go: for orphans that nobody asked for.
///
/// # Errors
/// As [`next_exited`] and [`reap`].
pub fn reap_next() -> io::Result<Option<ReapedChild>> {
    let Some((pid, status)) = next_exited()? else {
        return Ok(None);
    };
    reap(pid)?;
    Ok(Some(ReapedChild { pid, status }))
}

/// Waits for a child to end, and lets it go.
///
/// # Errors
/// If it is not our child.
pub fn wait(pid: u32) -> io::Result<ExitStatus> {
    match raw::wait_exited(&Child::Pid(pid), 0)? {
        Some((_, status)) => Ok(status),
        // Without WNOHANG the kernel does not answer before there is something to say.
        None => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// True if we have a child, ended or not.
///
/// # Errors
/// None are known.
pub fn has_children() -> io::Result<bool> {
    match raw::wait_exited(&Child::Any, libc::WNOHANG | libc::WNOWAIT) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes this process the parent of every descendant whose own parent ends.
///
/// # Errors
/// None are known.
pub fn become_subreaper() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(
        rustix::process::getpid(),
    ))?)
}

/// True if this is a child of ours that was not reaped.
#[must_use]
pub fn is_child(pid: u32) -> bool {
    pid != 0 && raw::wait_exited(&Child::Pid(pid), libc::WNOHANG | libc::WNOWAIT).is_ok()
}
