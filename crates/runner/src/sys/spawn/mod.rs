//! Launching a process with `clone(CLONE_VM | CLONE_VFORK)`.
//!
//! ```text
//!   spawn ──▶ prepare: every string, pointer and number      `exec_image`
//!     │       block all signals
//!     ├──▶ clone(CLONE_VM | CLONE_VFORK) ─▶ child, on a stack of its own   `child`
//!     │    we are stopped meanwhile          signals, session, cgroup, descriptors,
//!     │                                      settings, limits, user, directory, output
//!     │◀── it has called exec, or is gone ── exec
//!     └──▶ unblock; where it left a fault, reap it and report the failed step
//! ```
//!
//! The child shares our memory until exec, so nothing is copied, however large we are; and every
//! failure in it is known here, by step, before `spawn` returns. The price: the child may do
//! nothing but system calls on what was prepared. It must not allocate, lock, panic, or call what
//! the C library does for all threads, such as `setuid`.
//!
//! A process starts in its own session, hence with its own process group, with no descriptor but
//! those passed, with every signal at its default and none blocked but the one named.

#![allow(unsafe_code)]

mod child;
mod error;
mod exec_image;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;

use baton_model::cpu::CpuList;
use baton_model::task::ExecSettings;
use rustix::fs::{Mode, OFlags, open};
use rustix::process::DumpableBehavior;

pub use self::error::{SpawnError, Step};
use self::exec_image::ExecImage;
use super::reap;
use crate::wire::{Credentials, Limit};

/// The stack of a child: its calls are few and shallow.
const STACK_BYTES: usize = 64 << 10;

/// What to launch, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct Command<'a> {
    /// The program and its arguments. A program without a slash is searched along `PATH` of `env`,
    /// or along a default path where there is none.
    pub argv: &'a [String],
    /// The complete environment.
    pub env: &'a [(String, String)],
    /// The working directory; ours by default. It is entered as the process' user.
    pub cwd: Option<&'a str>,
    /// Standard input; `/dev/null` by default.
    pub stdin: Option<BorrowedFd<'a>>,
    /// Standard output; `/dev/null` by default.
    pub stdout: Option<BorrowedFd<'a>>,
    /// Standard error; `/dev/null` by default.
    pub stderr: Option<BorrowedFd<'a>>,
    /// A file for standard output instead, relative to `cwd`; created or emptied as the process'
    /// user.
    pub stdout_path: Option<&'a str>,
    /// The same for standard error.
    pub stderr_path: Option<&'a str>,
    /// More descriptors, each with the number that it has in the process.
    pub extra: &'a [(BorrowedFd<'a>, i32)],
    /// The user to run as; our own by default. Only root may set these, even its own. With them the
    /// process can never gain privileges again.
    pub credentials: Option<&'a Credentials>,
    pub exec: ExecSettings,
    /// The CPUs that it may run on; ours by default.
    pub cpus: Option<&'a CpuList>,
    /// Resource limits.
    pub limits: &'a [Limit],
    /// `cgroup.procs` of the control group that it joins before exec.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// The note of its pid, written before anything else.
    pub pid_note: Option<PidNote<'a>>,
    /// A signal that stays blocked: the program takes it when it is ready to.
    pub blocked: Option<i32>,
}

/// A note that the child writes itself, so that its run is known even if we die before we have
/// learnt its pid.
#[derive(Clone, Copy, Debug)]
pub struct PidNote<'a> {
    /// The file, whose beginning is overwritten by the header and the pid, a native `u32`. A failed
    /// write leaves no note.
    pub file: BorrowedFd<'a>,
    pub header: [u8; PID_NOTE_HEADER_BYTES],
}

/// The length of the header before the pid in a [`PidNote`].
pub const PID_NOTE_HEADER_BYTES: usize = 40;

impl<'a> Command<'a> {
    /// A program with an environment, and defaults for everything else.
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

    /// Launches a process and returns its pid. It has called exec by then; the caller must reap it.
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
        // SAFETY: the stack is mapped, aligned and not used elsewhere, because `self` is
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

    /// [`Self::spawn`] as a function without a pid.
    pub fn as_fn(&mut self) -> impl FnMut(&Command<'_>) -> io::Result<()> + '_ {
        |command| match self.spawn(command) {
            Ok(_) => Ok(()),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

/// Memory for the stack of a child, with a guard page below it.
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
        // SAFETY: the first page of the mapping just made; it is unused.
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

/// Restores core dumps. A child that changes its user in our memory makes this memory, hence also
/// us, exempt from core dumps. That is right while it lasts, since its user could otherwise read
/// our memory; once the child is gone it is undone.
struct Dumpable;

impl Dumpable {
    fn save() -> Option<Self> {
        let now = rustix::process::dumpable_behavior().ok()?;
        (now == DumpableBehavior::Dumpable).then_some(Self)
    }
}

impl Drop for Dumpable {
    fn drop(&mut self) {
        // It was allowed before. On failure we only go without core dumps.
        let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable);
    }
}

/// Blocks every signal in this thread while it lives, also those that the C library keeps for
/// itself and would leave out of a mask.
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
