//! System calls that `rustix` does not have, or not for every signal number, each as one safe
//! function. They add no meaning: the callers interpret errno.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::identity::ExitStatus;

/// Sends a signal to the process of a pidfd; 0 only asks whether it may be sent.
pub(super) fn pidfd_send_signal(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let info: *const libc::siginfo_t = std::ptr::null();
    // SAFETY: the descriptor is open as long as it is borrowed; without a siginfo the
    // kernel reads no memory of ours.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            info,
            0,
        )
    };
    check(result)
}

/// Sends a signal to a process group.
pub(super) fn kill_group(pgrp: libc::pid_t, signal: i32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::kill(-pgrp, signal) }.into())
}

/// The exit status of the process of a pidfd, once any parent has reaped it; `None` before. Kernels
/// before 6.15 return an error.
pub(super) fn pidfd_exit(pidfd: BorrowedFd<'_>) -> io::Result<Option<ExitStatus>> {
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut info: libc::pidfd_info = unsafe { mem::zeroed() };
    info.mask = u64::from(libc::PIDFD_INFO_EXIT);
    // SAFETY: the request carries the size of `info`, and the kernel writes no more.
    let result = unsafe { libc::ioctl(pidfd.as_raw_fd(), libc::PIDFD_GET_INFO, &mut info) };
    check(result.into())?;
    let known = info.mask & u64::from(libc::PIDFD_INFO_EXIT) != 0;
    Ok(known.then(|| decode(info.exit_code)))
}

/// A status as `wait` packs it.
fn decode(status: i32) -> ExitStatus {
    match status & 0x7f {
        0 => ExitStatus::Code(status >> 8 & 0xff),
        signal => ExitStatus::Signal(signal),
    }
}

pub(super) enum Child<'a> {
    Any,
    Pid(u32),
    Pidfd(BorrowedFd<'a>),
}

/// `waitid` for children that have ended; `None` if there is such a child but it runs.
pub(super) fn wait_exited(
    child: &Child<'_>,
    options: libc::c_int,
) -> io::Result<Option<(u32, ExitStatus)>> {
    let (kind, id) = match child {
        Child::Any => (libc::P_ALL, 0),
        Child::Pid(pid) => (libc::P_PID, *pid),
        Child::Pidfd(fd) => (libc::P_PIDFD, fd.as_raw_fd().unsigned_abs()),
    };
    // SAFETY: zero is a value of every field.
    let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
    loop {
        // SAFETY: `info` is ours and as large as the kernel takes it to be.
        let result = unsafe { libc::waitid(kind, id, &mut info, options | libc::WEXITED) };
        match check(result.into()) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    // SAFETY: after waitid the fields are those of SIGCHLD, or still zero.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if pid == 0 {
        return Ok(None);
    }
    let status = match info.si_code {
        libc::CLD_EXITED => ExitStatus::Code(status),
        _ => ExitStatus::Signal(status),
    };
    Ok(Some((pid.unsigned_abs(), status)))
}

/// Reaps a child that has ended, and returns its processor time in microseconds and its peak memory
/// in KiB. `None` if it runs.
pub(super) fn reap_counted(pid: u32) -> io::Result<Option<(u64, u64)>> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    let mut status = 0;
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    loop {
        // SAFETY: both are ours and as large as the kernel takes them to be.
        let reaped = unsafe { libc::wait4(pid, &mut status, libc::WNOHANG, &mut usage) };
        match check(reaped.into()) {
            Ok(()) if reaped == 0 => return Ok(None),
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let number = |value: i64| u64::try_from(value).unwrap_or(0);
    let micros = |time: libc::timeval| number(time.tv_sec) * 1_000_000 + number(time.tv_usec);
    let cpu = micros(usage.ru_utime) + micros(usage.ru_stime);
    Ok(Some((cpu, number(usage.ru_maxrss))))
}

/// The supplementary groups of this thread.
pub(super) fn groups() -> io::Result<Vec<u32>> {
    let groups = rustix::process::getgroups()?;
    Ok(groups
        .into_iter()
        .map(rustix::process::Gid::as_raw)
        .collect())
}

/// Sets the supplementary groups of this thread alone: the C library would change all threads.
pub(super) fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: as many numbers as there are.
    check(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) })
}

/// Sets the user and the group by which the kernel decides this thread's access to files; false if
/// they are others now.
pub(super) fn set_file_user(uid: u32, gid: u32) -> bool {
    // Neither call reports a failure; an invalid number only asks.
    // SAFETY: numbers only.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
        u32::try_from(libc::setfsgid(u32::MAX)) == Ok(gid)
            && u32::try_from(libc::setfsuid(u32::MAX)) == Ok(uid)
    }
}

/// Clock ticks per second, as `/proc` counts them.
pub(super) fn ticks_per_second() -> u64 {
    sysconf(libc::_SC_CLK_TCK).unwrap_or(100)
}

/// Bytes in a page of memory.
pub(super) fn page_bytes() -> u64 {
    sysconf(libc::_SC_PAGESIZE).unwrap_or(4096)
}

fn sysconf(name: libc::c_int) -> Option<u64> {
    // SAFETY: takes and gives a number.
    let value = unsafe { libc::sysconf(name) };
    u64::try_from(value).ok().filter(|value| *value > 0)
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_unpacked_with_and_without_a_core() {
        assert_eq!(decode(0), ExitStatus::Code(0));
        assert_eq!(decode(7 << 8), ExitStatus::Code(7));
        assert_eq!(decode(255 << 8), ExitStatus::Code(255));
        assert_eq!(decode(9), ExitStatus::Signal(9));
        assert_eq!(decode(0x80 | 11), ExitStatus::Signal(11));
    }

    #[test]
    fn the_request_has_the_size_that_the_kernel_first_knew() {
        assert_eq!(mem::size_of::<libc::pidfd_info>(), 64);
        assert_eq!(libc::PIDFD_GET_INFO, 0xC040_FF0B);
    }
}
