//! What the writers of logs share: a process between another one and its log.

use crate::sys::signals;

/// The size of one read: the capacity of a pipe.
pub(super) const BUFFER_BYTES: usize = 64 * 1024;

/// Signals that a terminal or a user may send to a whole process group, and those that a write may
/// cause: to a closed pipe, or beyond the file size limit.
pub(super) const IGNORED: [i32; 6] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGPIPE,
    libc::SIGXFSZ,
];

/// Lets only the end of its input end this process.
pub(super) fn ignore_signals() {
    signals::ignore(&IGNORED);
}
