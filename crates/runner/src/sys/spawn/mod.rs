//! Launching a process.
//!
//! ```text
//!   spawn ──▶ prepare: every string, pointer and number      `image`
//!     │       block all signals
//!     ├──▶ clone(CLONE_VM | CLONE_VFORK) ─▶ child, on a stack of its own   `child`
//!     │    we are stopped meanwhile          signals, session, cgroup, descriptors,
//!     │                                      umask, nice, limits, user, directory,
//!     │◀── it has called exec, or is gone ── exec
//!     └──▶ unblock; where it left a fault, reap it and say which step failed
//! ```
//!
//! The child shares our memory until exec, so nothing is copied, however large we are;
//! and whatever fails in it is known here, by name, before `spawn` returns. The price:
//! the child may do nothing but system calls on what was prepared. It must not allocate,
//! lock, panic, or call what the C library does for all threads, such as `setuid`.
//!
//! A process begins in its own session, hence with its own process group, without any
//! descriptor but those given, with every signal at its default and none blocked.

#![allow(unsafe_code)]

mod child;
mod error;
mod exec_image;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::DumpableBehavior;

pub use self::error::{SpawnError, Step};
use self::exec_image::ExecImage;
use super::reap;
use crate::wire::{Credentials, Limit};

/// The stack of a child: it calls little, and that not deeply.
const STACK_BYTES: usize = 64 << 10;

/// What is launched, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct Command<'a> {
    /// The program and its arguments. A program without a slash is looked for along
    /// `PATH` of `env`, or where there is none along a usual one.
    pub argv: &'a [String],
    /// The whole environment.
    pub env: &'a [(String, String)],
    /// Where it begins; where we are, if not said. It is entered as the process' user.
    pub cwd: Option<&'a str>,
    /// Standard input; nothing, if not said.
    pub stdin: Option<BorrowedFd<'a>>,
    /// Standard output; nowhere, if not said.
    pub stdout: Option<BorrowedFd<'a>>,
    /// Standard error; nowhere, if not said.
    pub stderr: Option<BorrowedFd<'a>>,
    /// More descriptors, each with the number that it has in the process.
    pub extra: &'a [(BorrowedFd<'a>, i32)],
    /// UserIds it runs as; ourselves, if not said. Only root may give these, even its own.
    /// With them the process can never gain privileges again.
    pub credentials: Option<&'a Credentials>,
    /// The mask of file modes; ours, if not said.
    pub umask: Option<u32>,
    /// The priority; ours, if not said.
    pub nice: Option<i32>,
    /// Limits of the kernel.
    pub limits: &'a [Limit],
    /// `cgroup.procs` of the control group that it joins before it runs.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// Where it notes its pid before anything else.
    pub pid_note: Option<PidNote<'a>>,
}

/// A note that a process makes of itself, so that it is known header it is even if we die
/// before we have learnt its pid.
#[derive(Clone, Copy, Debug)]
pub struct PidNote<'a> {
    /// The file, header beginning is overwritten by these bytes and the pid, a native `u32`.
    /// What cannot be written is not noted.
    pub file: BorrowedFd<'a>,
    pub header: [u8; PID_NOTE_HEADER_BYTES],
}

/// The length of what stands before the pid in a [`PidNote`].
pub const PID_NOTE_HEADER_BYTES: usize = 40;

impl<'a> Command<'a> {
    /// A program with an environment, and nothing else said.
    #[must_use]
    pub fn new(argv: &'a [String], env: &'a [(String, String)]) -> Self {
        Self {
            argv,
            env,
            ..Self::default()
        }
    }
}

/// Launches processes, one at a time.
#[derive(Debug)]
pub struct Spawner {
    null: OwnedFd,
    stack: Stack,
}

impl Spawner {
    /// # Errors
    /// If there is no memory for a stack, or no `/dev/null`.
    pub fn new() -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
        Ok(Self {
            null: open("/dev/null", flags, Mode::empty())?,
            stack: Stack::new()?,
        })
    }

    /// Launches a process and gives its pid. It has called exec by then: its end is
    /// unprivileged_user's to reap.
    ///
    /// # Errors
    /// If a step failed; there is no process then, nor a zombie of it.
    pub fn spawn(&mut self, command: &Command<'_>) -> Result<u32, SpawnError> {
        let mut image = ExecImage::new(command, self.null.as_fd()).map_err(|error| SpawnError {
            step: Step::Prepare,
            error,
        })?;
        let dumpable = command.credentials.and_then(|_| Dumpable::save());
        let mask = Mask::block_all();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the stack is mapped, aligned and used by nobody else, because `self` is
        // borrowed mutably; with CLONE_VFORK this thread does not go on before the child
        // has left our memory, so that the image outlives its use. All signals are
        // blocked, so no handler of ours runs in the child.
        let pid =
            unsafe { libc::clone(child::run, self.stack.top(), flags, (&raw mut image).cast()) };
        let cloned = if pid < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(pid.unsigned_abs())
        };
        drop(mask);
        drop(dumpable);
        let pid = cloned.map_err(|error| SpawnError {
            step: Step::Clone,
            error,
        })?;
        // SAFETY: a plain field of ours. Volatile, since it was written by another
        // process that the compiler knows nothing of.
        let fault = unsafe { ptr::read_volatile(&raw const image.fault) };
        let Some(fault) = fault else {
            return Ok(pid);
        };
        match reap::wait(pid) {
            Ok(_) => {}
            // Where SIGCHLD is ignored the kernel has reaped it.
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {}
            Err(error) => {
                let step = Step::Clone;
                return Err(SpawnError { step, error });
            }
        }
        Err(SpawnError::from_fault(fault, command, &image))
    }
}

/// Memory for the stack of a child, with a page below it that may not be touched.
#[derive(Debug)]
struct Stack {
    base: *mut libc::c_void,
    bytes: usize,
}

impl Stack {
    fn new() -> io::Result<Self> {
        let guard = usize::try_from(super::raw::page_bytes()).map_err(io::Error::other)?;
        let bytes = STACK_BYTES + guard;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        // SAFETY: a new mapping, wherever the kernel likes.
        let base = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Self { base, bytes };
        // SAFETY: the first page of the mapping just made; nobody uses it.
        if unsafe { libc::mprotect(base, guard, libc::PROT_NONE) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stack)
    }

    /// Stacks grow down; the end of a mapping is aligned to a page.
    fn top(&mut self) -> *mut libc::c_void {
        self.base.wrapping_byte_add(self.bytes)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of this size; no child runs on it any more.
        // The only error is of a wrong address, and this is the right one.
        unsafe { libc::munmap(self.base, self.bytes) };
    }
}

/// A child that changes its user in our memory makes this memory, hence also us, exempt
/// from core dumps. That is right while it lasts, since its user could otherwise look
/// into us; once the child is gone it is undone.
struct Dumpable;

impl Dumpable {
    fn save() -> Option<Self> {
        let now = rustix::process::dumpable_behavior().ok()?;
        (now == DumpableBehavior::Dumpable).then_some(Self)
    }
}

impl Drop for Dumpable {
    fn drop(&mut self) {
        // It was allowed before. If it is not now, then we only go without core dumps.
        let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable);
    }
}

/// While it lives every signal is blocked in this thread, also those that the C library
/// keeps for itself and would leave out of a mask.
struct Mask {
    before: u64,
}

impl Mask {
    fn block_all() -> Self {
        Self {
            before: set_mask(u64::MAX),
        }
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        set_mask(self.before);
    }
}

fn set_mask(mask: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: the kernel's sets are of eight bytes, as said in the last argument; with
    // that, with good pointers and a known command this call cannot fail.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            &raw mut before,
            size_of::<u64>(),
        );
    }
    before
}
