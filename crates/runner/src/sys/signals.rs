//! Signals as a descriptor, and their names.
//!
//! A signal that is listened for is blocked, and waits in the descriptor until it is read; no
//! signal handler runs anywhere in Baton. Several signals of one kind may arrive as one.

#![allow(unsafe_code)]

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// The number of signals read by one call.
const AT_ONCE: usize = 4;

/// The signals that have a name, by number.
const NAMES: [(&str, i32); 31] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("STKFLT", libc::SIGSTKFLT),
    ("CHLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    ("PWR", libc::SIGPWR),
    ("SYS", libc::SIGSYS),
];

/// The name of a signal: `TERM`.
#[must_use]
pub fn name(signal: i32) -> Option<&'static str> {
    let found = NAMES.iter().find(|(_, number)| *number == signal);
    found.map(|(name, _)| *name)
}

/// The number of a signal, of which the name may begin with `SIG`.
#[must_use]
pub fn number(name: &str) -> Option<i32> {
    let name = name.strip_prefix("SIG").unwrap_or(name);
    let found = NAMES.iter().find(|(known, _)| *known == name);
    found.map(|(_, number)| *number)
}

/// A signalfd: pending signals of a set.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Blocks these signals in this thread permanently, and collects them instead. They must be
    /// blocked before any other thread starts. An ignored signal is collected too: check
    /// [`is_ignored`] first.
    ///
    /// # Errors
    /// If there is no such signal, or too many descriptors.
    pub fn listen(signals: &[i32]) -> io::Result<Self> {
        let set = set_of(signals)?;
        // SAFETY: the set was made by sigemptyset.
        let result = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut()) };
        if result != 0 {
            return Err(io::Error::from_raw_os_error(result));
        }
        // SAFETY: as above; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: new, open, and not owned elsewhere.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd })
    }

    /// Returns the signals that have arrived, without blocking.
    pub fn take(&mut self) -> io::Result<Vec<i32>> {
        let mut taken = Vec::new();
        // A short read is the last one.
        while self.take_some(&mut taken)? == AT_ONCE {}
        Ok(taken)
    }

    fn take_some(&mut self, taken: &mut Vec<i32>) -> io::Result<usize> {
        let mut infos = [MaybeUninit::<libc::signalfd_siginfo>::uninit(); AT_ONCE];
        let size = mem::size_of_val(&infos);
        loop {
            // SAFETY: the space is as large as said.
            let read = unsafe { libc::read(self.fd.as_raw_fd(), infos.as_mut_ptr().cast(), size) };
            if let Ok(bytes) = usize::try_from(read) {
                let count = bytes / mem::size_of::<libc::signalfd_siginfo>();
                for info in infos.iter().take(count) {
                    // SAFETY: the kernel has written as many whole ones.
                    let info = unsafe { info.assume_init_ref() };
                    taken.extend(i32::try_from(info.ssi_signo));
                }
                return Ok(count);
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(0),
                io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Runs `start` with all signals blocked. A thread that it starts never takes a signal that is sent to
/// the process: those are for [`Signals`].
pub fn with_all_blocked<T>(start: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both point to a set; the first is filled, and the call fills the second. It fails only
    // for an invalid first argument.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let started = start();
    // SAFETY: the set was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    started
}

/// Ignores these signals from now on. Processes that are spawned do not inherit that.
/// Numbers that are no signals, and those that cannot be ignored, change nothing.
pub fn ignore(signals: &[i32]) {
    for signal in signals {
        // SAFETY: no handler is installed. The one error is of a number as said above.
        unsafe { libc::signal(*signal, libc::SIG_IGN) };
    }
}

/// Ignores the signals of a terminal, a session or an operator, for a process that outlives them. A
/// broken pipe and a file size limit become errors of a write.
pub fn ignore_all_of_a_session() {
    ignore(&[
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGPIPE,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGTSTP,
        libc::SIGXFSZ,
    ]);
}

/// True if this signal is ignored.
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: asks only; the kernel fills the action in unless it fails, which it does for
    // numbers that are no signals.
    let known = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } == 0;
    // SAFETY: it was filled in.
    known && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Sets this signal to its default. A process that ignores SIGCHLD is not notified of its
/// children's exits.
pub fn restore(signal: i32) {
    // SAFETY: no handler is installed. The one error is of a number that is no signal.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

fn set_of(signals: &[i32]) -> io::Result<libc::sigset_t> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: initialises the set, and cannot fail.
    let mut set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    };
    for signal in signals {
        // SAFETY: the set is initialised; a bad number is refused.
        if unsafe { libc::sigaddset(&mut set, *signal) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_belong_together() {
        assert_eq!(name(15), Some("TERM"));
        assert_eq!((number("TERM"), number("SIGKILL")), (Some(15), Some(9)));
        assert_eq!((name(0), name(40), number("term")), (None, None, None));
        for (known, signal) in NAMES {
            assert_eq!((name(signal), number(known)), (Some(known), Some(signal)));
        }
    }

    #[test]
    fn a_signal_waits_until_it_is_taken() {
        let mut signals = Signals::listen(&[libc::SIGUSR1, libc::SIGUSR2]).expect("known signals");
        assert!(signals.take().expect("readable").is_empty());
        // To this thread: another one of this test program has it not blocked.
        // SAFETY: a signal that is blocked, to ourselves.
        let sent = unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) };
        assert_eq!(sent, 0);
        assert_eq!(signals.take().expect("readable"), [libc::SIGUSR2]);
        assert!(signals.take().expect("readable").is_empty());
    }

    #[test]
    fn a_number_that_is_no_signal_is_refused() {
        assert!(Signals::listen(&[4711]).is_err());
    }
}
