//! The child between clone and exec.
//!
//! It runs in our memory, on its own stack, while we are suspended. Hence only system calls on what
//! the image holds: no allocation, no lock, no panic (no indexing, no arithmetic that may
//! overflow), no function of the C library that keeps state or notifies other threads. Its only
//! result is a [`Fault`], or nothing.

use std::convert::Infallible;
use std::ffi::{CString, c_int, c_long, c_void};
use std::ptr;

use super::exec_image::{ChildStep, ExecImage, Fault, FdMapping, PidNoteRecord, UserIds};

/// The last signal of the kernel.
const SIGNAL_MAX: c_int = 64;

/// A kernel's `sigaction` for the default: all of it zero. It has four words.
static DEFAULT: [u64; 4] = [0; 4];

/// Entry point of the child. Its return value is the exit code, which is not read.
pub(super) extern "C" fn run(image: *mut c_void) -> c_int {
    // SAFETY: `spawn` gives its image, and does not touch it before we are gone.
    let image = unsafe { &mut *image.cast::<ExecImage>() };
    let Err(fault) = launch(image);
    image.fault = Some(fault);
    127
}

fn launch(image: &mut ExecImage) -> Result<Infallible, Fault> {
    if let Some((file, note)) = &mut image.pid_note {
        write_pid_note(*file, note);
    }
    reset_signals();
    // SAFETY: numbers only.
    check(
        unsafe { libc::syscall(libc::SYS_setsid) },
        ChildStep::Session,
    )?;
    if let Some(fd) = image.cgroup {
        // SAFETY: one byte of a literal.
        let written = unsafe { libc::syscall(libc::SYS_write, fd, c"0".as_ptr(), 1) };
        check(written, ChildStep::Cgroup)?;
    }
    map_descriptors(&mut image.fd_mappings, image.first_free)?;
    for (first, last) in &image.close_ranges {
        close(*first, *last);
    }
    if let Some(mask) = image.exec.umask {
        // SAFETY: numbers only. It cannot fail.
        unsafe { libc::syscall(libc::SYS_umask, mask) };
    }
    if let Some(nice) = image.exec.nice {
        // SAFETY: numbers only.
        let set = unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, nice) };
        check(set, ChildStep::Setting("the priority", nice.into()))?;
    }
    if !image.cpus.is_empty() {
        let (cpus, bytes) = (image.cpus.as_ptr(), size_of_val(image.cpus.as_slice()));
        // SAFETY: as many bytes as the set has.
        let set = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, bytes, cpus) };
        check(set, ChildStep::Affinity)?;
    }
    if let Some((score, digits)) = &image.oom_score {
        set_oom_score(*score, digits)?;
    }
    for (resource, limit) in &image.limits {
        let old: *mut libc::rlimit64 = ptr::null_mut();
        // SAFETY: the limit is the image's, and has the kernel's layout.
        let set =
            unsafe { libc::syscall(libc::SYS_prlimit64, 0, *resource, ptr::from_ref(limit), old) };
        check(set, ChildStep::Limit(*resource))?;
    }
    if let Some(who) = &image.user {
        become_user(who)?;
    }
    if let Some(cwd) = &image.cwd {
        // SAFETY: a string of the image.
        let entered = unsafe { libc::syscall(libc::SYS_chdir, cwd.as_ptr()) };
        check(entered, ChildStep::Directory)?;
    }
    let [stdout, stderr] = &image.outputs;
    redirect(stdout.as_ref(), libc::STDOUT_FILENO)?;
    redirect(stderr.as_ref(), libc::STDERR_FILENO)?;
    if image.user.is_some() {
        // SAFETY: numbers only.
        let set = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        check(set, ChildStep::Privileges)?;
    }
    execute(image)
}

/// Writes the pid note. A missing note matters only after a sudden death of our parent, so a failed
/// write is no reason not to run.
fn write_pid_note(file: c_int, note: &mut PidNoteRecord) {
    // SAFETY: no arguments; it cannot fail.
    let pid = unsafe { libc::syscall(libc::SYS_getpid) };
    note.pid = u32::try_from(pid).unwrap_or(0);
    let bytes: *const PidNoteRecord = note;
    // SAFETY: as many bytes as the note has, none of them padding.
    unsafe {
        libc::syscall(
            libc::SYS_pwrite64,
            file,
            bytes,
            size_of::<PidNoteRecord>(),
            0,
        )
    };
}

/// Sets every signal to its default: exec would keep ignored signals. That no handler is left also
/// makes it safe to unblock them later.
fn reset_signals() {
    for signal in 1..=SIGNAL_MAX {
        let old: *mut c_void = ptr::null_mut();
        // SAFETY: reads the four words of `DEFAULT`. It fails for the two signals whose
        // action cannot be changed, and these are at their default.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                DEFAULT.as_ptr(),
                old,
                size_of::<u64>(),
            )
        };
    }
}

/// Moves the descriptors to their targets. Sources among the targets are first duplicated above
/// them, so that none is overwritten before it is used.
fn map_descriptors(fd_mappings: &mut [FdMapping], first_free: c_int) -> Result<(), Fault> {
    for mapping in fd_mappings
        .iter_mut()
        .filter(|mapping| mapping.source < first_free)
    {
        // SAFETY: numbers only.
        let moved = unsafe {
            libc::syscall(
                libc::SYS_fcntl,
                mapping.source,
                libc::F_DUPFD_CLOEXEC,
                first_free,
            )
        };
        let moved = check(moved, ChildStep::Descriptor(mapping.target))?;
        mapping.source = c_int::try_from(moved).unwrap_or(-1);
    }
    for mapping in fd_mappings {
        // SAFETY: numbers only.
        let given = unsafe { libc::syscall(libc::SYS_dup3, mapping.source, mapping.target, 0) };
        check(given, ChildStep::Descriptor(mapping.target))?;
    }
    Ok(())
}

fn close(first: u32, last: u32) {
    // SAFETY: numbers only; what is closed is the child's alone.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0 {
        return;
    }
    for fd in first..=last.min(descriptors_end()) {
        // SAFETY: as above. Most of them are not open, and that is the only error.
        unsafe { libc::syscall(libc::SYS_close, fd) };
    }
}

/// The bound for closing one by one: our limit on descriptors, or the kernel's default maximum.
fn descriptors_end() -> u32 {
    const DESCRIPTORS_MAX: u32 = 1 << 20;
    let mut limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let new: *const libc::rlimit64 = ptr::null();
    let (resource, old) = (libc::RLIMIT_NOFILE, &raw mut limit);
    // SAFETY: the kernel writes the limit on our stack, and reads nothing.
    let got = unsafe { libc::syscall(libc::SYS_prlimit64, 0, resource, new, old) };
    match u32::try_from(limit.rlim_cur) {
        Ok(end) if got == 0 => end.min(DESCRIPTORS_MAX),
        _ => DESCRIPTORS_MAX,
    }
}

/// Writes the OOM score. As a child of vfork it has one of its own, though it shares our memory. As
/// another user it could not open the file.
fn set_oom_score(score: u16, digits: &CString) -> Result<(), Fault> {
    let step = ChildStep::Setting("the OOM score", score.into());
    let (path, flags) = (
        c"/proc/self/oom_score_adj",
        libc::O_WRONLY | libc::O_CLOEXEC,
    );
    // SAFETY: a literal.
    let opened =
        unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0) };
    let file = check(opened, step)?;
    // SAFETY: as many bytes as the string of the image has.
    let written =
        unsafe { libc::syscall(libc::SYS_write, file, digits.as_ptr(), digits.count_bytes()) };
    check(written, step)?;
    Ok(())
}

/// Uses system calls: the C library would change all threads, which are not ours. Groups and group
/// first, since the user is then no longer allowed to.
fn become_user(who: &UserIds) -> Result<(), Fault> {
    // SAFETY: as many numbers as there are.
    let set = unsafe { libc::syscall(libc::SYS_setgroups, who.groups.len(), who.groups.as_ptr()) };
    check(set, ChildStep::Groups)?;
    // SAFETY: numbers only.
    let set = unsafe { libc::syscall(libc::SYS_setresgid, who.gid, who.gid, who.gid) };
    check(set, ChildStep::Group)?;
    // SAFETY: numbers only.
    let set = unsafe { libc::syscall(libc::SYS_setresuid, who.uid, who.uid, who.uid) };
    check(set, ChildStep::User)?;

    let (mut real, mut effective, mut saved) = (0_u32, 0_u32, 0_u32);
    let ids = (&raw mut real, &raw mut effective, &raw mut saved);
    // SAFETY: three numbers on our stack.
    let got = unsafe { libc::syscall(libc::SYS_getresgid, ids.0, ids.1, ids.2) };
    check(got, ChildStep::Group)?;
    verify([real, effective, saved] == [who.gid; 3], ChildStep::Group)?;
    // SAFETY: three numbers on our stack.
    let got = unsafe { libc::syscall(libc::SYS_getresuid, ids.0, ids.1, ids.2) };
    check(got, ChildStep::User)?;
    verify([real, effective, saved] == [who.uid; 3], ChildStep::User)?;
    let none: *mut u32 = ptr::null_mut();
    // SAFETY: with a size of zero the kernel only counts.
    let count = unsafe { libc::syscall(libc::SYS_getgroups, 0, none) };
    let count = check(count, ChildStep::Groups)?;
    verify(
        usize::try_from(count) == Ok(who.groups.len()),
        ChildStep::Groups,
    )
}

/// Opens the file of an output as the process' user. A pipe without a reader is an error and not
/// waited for, because our parent waits for us. Exec closes the descriptor that is left behind.
fn redirect(path: Option<&CString>, target: c_int) -> Result<(), Fault> {
    let Some(path) = path else {
        return Ok(());
    };
    let flags = libc::O_WRONLY
        | libc::O_CREAT
        | libc::O_TRUNC
        | libc::O_APPEND
        | libc::O_NOCTTY
        | libc::O_NONBLOCK
        | libc::O_CLOEXEC;
    // SAFETY: a string of the image.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_openat,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            0o666,
        )
    };
    let opened = check(opened, ChildStep::Output(target))?;
    // SAFETY: numbers only.
    let given = unsafe { libc::syscall(libc::SYS_dup3, opened, target, 0) };
    check(given, ChildStep::Output(target))?;
    // SAFETY: numbers only.
    let set = unsafe { libc::syscall(libc::SYS_fcntl, target, libc::F_SETFL, libc::O_APPEND) };
    check(set, ChildStep::Output(target))?;
    Ok(())
}

/// Tries the candidates in turn. An existing file that may not be executed is reported in
/// preference to missing ones.
fn execute(image: &ExecImage) -> Result<Infallible, Fault> {
    let old = ptr::null_mut::<u64>();
    // SAFETY: a set of eight bytes, as said. It cannot fail.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const image.blocked,
            old,
            size_of::<u64>(),
        )
    };
    let mut errno = libc::ENOENT;
    for file in &image.candidates {
        // SAFETY: strings and arrays of the image, each ended by a null.
        unsafe {
            libc::syscall(
                libc::SYS_execve,
                file.as_ptr(),
                image.argv.as_ptr(),
                image.env.as_ptr(),
            )
        };
        match last_errno() {
            absent @ (libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV) => {
                if errno != libc::EACCES {
                    errno = absent;
                }
            }
            libc::EACCES => errno = libc::EACCES,
            other => {
                errno = other;
                break;
            }
        }
    }
    Err(Fault {
        step: ChildStep::Program,
        errno,
    })
}

fn check(result: c_long, step: ChildStep) -> Result<c_long, Fault> {
    if result < 0 {
        let errno = last_errno();
        return Err(Fault { step, errno });
    }
    Ok(result)
}

fn verify(right: bool, step: ChildStep) -> Result<(), Fault> {
    if right {
        return Ok(());
    }
    let errno = libc::EPERM;
    Err(Fault { step, errno })
}

fn last_errno() -> c_int {
    // SAFETY: the errno of the thread that stands still for us.
    unsafe { *libc::__errno_location() }
}
