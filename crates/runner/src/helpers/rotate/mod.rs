//! The writer of rotating logs: `baton __rotate NAME SIZE BACKUPS`.
//!
//! Its standard input is the pipe that a process writes into; descriptor 3 is the
//! directory of the run's logs. What it reads goes to the end of `NAME` there. When
//! that holds `SIZE` bytes, and not before there is another byte, it becomes `NAME.1`,
//! `NAME.1` becomes `NAME.2` and so on; `BACKUPS` old files are kept. With none, `NAME` is emptied.
//!
//! * No file is ever longer than `SIZE`, unless it was so before: a piece of output
//!   is cut at the boundary, wherever in a line that is.
//! * The process on the other side is never blocked by us and never loses its pipe: on
//!   an error of the file system we go on reading. What cannot be written is dropped,
//!   and counted; as soon as writing works again a line says how much is missing there.
//! * It ends with its input, and by nothing else: the usual signals are ignored, so
//!   that a ^C for the process does not cost the last words of the process.
//!
//! The files are in `files`.

mod files;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, RawFd};

use self::files::Files;
use super::BAD_USAGE;
use crate::sys::{inherit, signals};

/// Where the directory of the run's logs is expected.
pub const LOG_DIRECTORY_FD: RawFd = 3;

/// Read at once: what a pipe holds.
const BUFFER_BYTES: usize = 64 * 1024;

/// What a terminal or a person may send to a whole group of processes, and what a write
/// may cause: to a closed pipe, or beyond the limit on the size of a file.
const IGNORED: [i32; 6] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGPIPE,
    libc::SIGXFSZ,
];

/// Copies standard input into rotating files; see the module. Returns the exit
/// status: 0 if everything was written or the log says what is missing, 1 if not, 2 if it was
/// called wrongly.
#[must_use]
pub fn rotate(args: &[String]) -> i32 {
    let Some(asked) = RotateArgs::parse(args) else {
        eprintln!("usage: baton __rotate NAME SIZE BACKUPS, with a directory as descriptor 3");
        return BAD_USAGE;
    };
    match run(&asked) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("baton __rotate {}: {error}", asked.name);
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

fn run(asked: &RotateArgs<'_>) -> io::Result<()> {
    signals::ignore(&IGNORED);
    let directory = inherit::descriptor(LOG_DIRECTORY_FD)?;
    // Not `Stdin` itself, which has a buffer and a lock of its own.
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let files = Files::new(directory, asked.name, asked.size, asked.backups);
    copy(input, files)
}

/// Copies until the end of `input`.
fn copy(mut input: impl Read, mut files: Files) -> io::Result<()> {
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
