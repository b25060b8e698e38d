//! The writer of rotating logs: `baton __rotate NAME SIZE BACKUPS`.
//!
//! Its standard input is the pipe that a process writes into; descriptor 3 is the directory of the
//! run's logs. Input is appended to `NAME` there. When that holds `SIZE` bytes, and not before
//! there is another byte, it becomes `NAME.1`, `NAME.1` becomes `NAME.2` and so on; `BACKUPS` old
//! files are kept. With none, `NAME` is truncated.
//!
//! * No file is ever longer than `SIZE`, unless it was so before: output is split at the boundary,
//!   also within a line.
//! * The process on the other side is never blocked by us and never loses its pipe: on an error of
//!   the file system we continue reading. Output that cannot be written is dropped, and counted; as
//!   soon as writing works again a line reports how much is missing there.
//! * It ends with its input only: the usual signals are ignored, so that a ^C for the process does
//!   not cost the last output of the process.
//!
//! The files are in `files`.

mod files;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, RawFd};

use self::files::RotatingFiles;
use super::BAD_USAGE;
use crate::sys::{inherit, signals};

/// The descriptor of the run's log directory.
pub const LOG_DIRECTORY_FD: RawFd = 3;

/// The size of one read: the capacity of a pipe.
const BUFFER_BYTES: usize = 64 * 1024;

/// Signals that a terminal or a user may send to a whole process group, and those that a write may
/// cause: to a closed pipe, or beyond the file size limit.
const IGNORED: [i32; 6] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGPIPE,
    libc::SIGXFSZ,
];

/// Copies standard input into rotating files; see the module. Returns the exit status: 0 if
/// everything was written or the log reports what is missing, 1 if not, 2 for wrong usage.
#[must_use]
pub fn rotate(args: &[String]) -> i32 {
    let Some(args) = RotateArgs::parse(args) else {
        eprintln!("usage: baton __rotate NAME SIZE BACKUPS, with a directory as descriptor 3");
        return BAD_USAGE;
    };
    match run(&args) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("baton __rotate {}: {error}", args.name);
            1
        }
    }
}

struct RotateArgs<'a> {
    name: &'a str,
    size: u64,
    backups: u32,
}

impl<'a> RotateArgs<'a> {
    fn parse(args: &'a [String]) -> Option<Self> {
        let [name, size, backups] = args else {
            return None;
        };
        // Anything else could leave the directory.
        let plain = !matches!(name.as_str(), "" | "." | "..") && !name.contains(['/', '\0']);
        let size = size.parse().ok().filter(|size| *size > 0)?;
        let backups = backups.parse().ok()?;
        plain.then_some(Self {
            name,
            size,
            backups,
        })
    }
}

fn run(args: &RotateArgs<'_>) -> io::Result<()> {
    signals::ignore(&IGNORED);
    let directory = inherit::descriptor(LOG_DIRECTORY_FD)?;
    // Not `Stdin`, which has a buffer and a lock of its own.
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let files = RotatingFiles::new(directory, args.name, args.size, args.backups);
    copy(input, files)
}

/// Copies until the end of `input`.
fn copy(mut input: impl Read, mut files: RotatingFiles) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return files.finish(),
            Ok(length) => files.append(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return files.finish().and(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests;
