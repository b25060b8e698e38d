//! The writer of rotating logs: `baton __rotate NAME SIZE BACKUPS [masked]`.
//!
//! Its standard input is the pipe that a process writes into; descriptor 3 is the directory of the
//! run's logs. Input is appended to `NAME` there. When that holds `SIZE` bytes, and not before
//! there is another byte, it becomes `NAME.1`, `NAME.1` becomes `NAME.2` and so on; `BACKUPS` old
//! files are kept. With none, `NAME` is truncated. With `masked`, the values of secrets are masked before: see
//! [`mask`](super::mask()).
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
use super::command::MASKED;
use super::mask::inherited_masker;
use super::stream::{BUFFER_BYTES, ignore_signals};
use crate::masking::Masker;
use crate::sys::inherit;

/// The descriptor of the run's log directory.
pub const LOG_DIRECTORY_FD: RawFd = 3;

/// Copies standard input into rotating files; see the module. Returns the exit status: 0 if
/// everything was written or the log reports what is missing, 1 if not, 2 for wrong usage.
#[must_use]
pub fn rotate(args: &[String]) -> i32 {
    let Some(args) = RotateArgs::parse(args) else {
        eprintln!(
            "usage: baton __rotate NAME SIZE BACKUPS [masked], with a directory as descriptor 3"
        );
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
    is_masked: bool,
}

impl<'a> RotateArgs<'a> {
    fn parse(args: &'a [String]) -> Option<Self> {
        let (name, size, backups, is_masked) = match args {
            [name, size, backups] => (name, size, backups, false),
            [name, size, backups, masked] if masked == MASKED => (name, size, backups, true),
            _ => return None,
        };
        // Anything else could leave the directory.
        let plain = !matches!(name.as_str(), "" | "." | "..") && !name.contains(['/', '\0']);
        let size = size.parse().ok().filter(|size| *size > 0)?;
        let backups = backups.parse().ok()?;
        plain.then_some(Self {
            name,
            size,
            backups,
            is_masked,
        })
    }
}

fn run(args: &RotateArgs<'_>) -> io::Result<()> {
    ignore_signals();
    let directory = inherit::descriptor(LOG_DIRECTORY_FD)?;
    let masker = args.is_masked.then(inherited_masker).transpose()?;
    // Not `Stdin`, which has a buffer and a lock of its own.
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let files = RotatingFiles::new(directory, args.name, args.size, args.backups);
    copy(input, files, masker)
}

/// Copies until the end of `input`.
fn copy(
    mut input: impl Read,
    mut files: RotatingFiles,
    mut masker: Option<Masker>,
) -> io::Result<()> {
    let (mut buffer, mut masked) = (vec![0; BUFFER_BYTES], Vec::new());
    let end = loop {
        match (input.read(&mut buffer), &mut masker) {
            (Ok(0), _) => break Ok(()),
            (Ok(length), None) => files.append(&buffer[..length]),
            (Ok(length), Some(masker)) => {
                masked.clear();
                masker.mask(&buffer[..length], &mut masked);
                files.append(&masked);
            }
            (Err(error), _) if error.kind() == io::ErrorKind::Interrupted => {}
            (Err(error), _) => break Err(error),
        }
    };
    if let Some(mut masker) = masker {
        masked.clear();
        masker.finish(&mut masked);
        files.append(&masked);
    }
    files.finish().and(end)
}

#[cfg(test)]
mod tests;
