//! Waiting for and reaping children.
//!
//! Waiting and reaping are two calls. Between them the child is a zombie that still holds its pid,
//! and so its process group number cannot be reused: the time to kill what is left of the group.
//! Nothing else in this crate reaps, except [`Handle::exit`](super::identity::Handle::exit).

use std::io;

use super::identity::ExitStatus;
use super::proc;
use super::raw::{self, Child};

/// A child that was reaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReapedChild {
    /// Its pid, which may be reused from now on.
    pub pid: u32,
    pub status: ExitStatus,
}

/// A child that has ended; `None` if there is none. It is not reaped, and is returned again until
/// [`reap`] is called.
pub fn next_exited() -> io::Result<Option<(u32, ExitStatus)>> {
    match raw::wait_exited(&Child::Any, libc::WNOHANG | libc::WNOWAIT) {
        Ok(Some((pid, ExitStatus::Signal(signal)))) if !has_executed(pid) => {
            Ok(Some((pid, ExitStatus::Unexecuted(signal))))
        }
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        other => other,
    }
}

/// Whether a zombie of ours had called exec. One that cannot be read counts as having done so: its
/// status is then reported as it is.
fn has_executed(pid: u32) -> bool {
    !matches!(proc::stat(pid), Ok(Some(stat)) if !stat.has_executed)
}

/// Reaps a child that has ended. One that still runs is left alone.
///
/// # Errors
/// If it is not our child.
pub fn reap(pid: u32) -> io::Result<()> {
    raw::wait_exited(&Child::Pid(pid), libc::WNOHANG).map(|_| ())
}

/// Resources used by a child and by those of its children that it has waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildUsage {
    /// Processor time, in microseconds.
    pub cpu_us: u64,
    /// The peak memory of one of these processes, in bytes.
    pub memory_peak_bytes: u64,
}

/// As [`reap`], and returns the resources used; `None` if it still runs.
///
/// # Errors
/// If it is not our child.
pub fn reap_counted(pid: u32) -> io::Result<Option<ChildUsage>> {
    let usage = raw::reap_counted(pid)?;
    Ok(usage.map(|(cpu_us, peak_kib)| ChildUsage {
        cpu_us,
        memory_peak_bytes: peak_kib.saturating_mul(1024),
    }))
}

/// Reaps any child that has ended: for orphans.
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

/// Waits for a child to end, and reaps it.
///
/// # Errors
/// If it is not our child.
pub fn wait(pid: u32) -> io::Result<ExitStatus> {
    match raw::wait_exited(&Child::Pid(pid), 0)? {
        Some((_, status)) => Ok(status),
        // Without WNOHANG the kernel blocks until a status is available.
        None => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// True if we have a child, ended or not.
pub fn has_children() -> io::Result<bool> {
    match raw::wait_exited(&Child::Any, libc::WNOHANG | libc::WNOWAIT) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes this process the parent of every descendant whose own parent ends.
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
