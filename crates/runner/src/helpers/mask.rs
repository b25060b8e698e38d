//! The writer of a log without secrets: `baton __mask`.
//!
//! Standard input is the pipe that a process writes into, standard output its log, and descriptor 4 the values that
//! must not get there: [`values_file`] has made it, in memory. Like a rotator it never blocks the process for an error
//! of the log, and it ends with its input only.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt as _;

use baton_model::json;
use rustix::fs::{MemfdFlags, memfd_create};

use super::BAD_USAGE;
use super::stream::{BUFFER_BYTES, ignore_signals};
use crate::masking::{HeldSecret, Masker};
use crate::sys::inherit;

/// The descriptor of the values.
pub const MASKED_VALUES_FD: RawFd = 4;

/// Bytes of values that are read: more than a task has.
const VALUES_BYTES_MAX: usize = 64 << 20;

/// A file without a name that has the values of secrets, for the helpers of one process.
///
/// # Errors
/// If there is no memory for it.
pub fn values_file(secrets: &[HeldSecret]) -> io::Result<OwnedFd> {
    let values: Vec<&[u8]> = secrets.iter().map(|it| &*it.value).collect();
    let mut file = File::from(memfd_create("baton-masked", MemfdFlags::CLOEXEC)?);
    serde_json::to_writer(&mut file, &values)?;
    file.flush()?;
    Ok(file.into())
}

/// The masker of the values that this process was started with.
pub(super) fn inherited_masker() -> io::Result<Masker> {
    let file = File::from(inherit::descriptor(MASKED_VALUES_FD)?);
    // By position: the helpers of a process share the descriptor.
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut bytes = vec![0; length.min(VALUES_BYTES_MAX)];
    file.read_exact_at(&mut bytes, 0)?;
    let values: Vec<Vec<u8>> = json::from_slice(&bytes)?;
    Ok(Masker::new(values.iter().map(Vec::as_slice)))
}

/// Copies standard input to standard output, masked. Returns the exit status: 0 if everything was written, 1 if not,
/// 2 for wrong usage.
#[must_use]
pub fn mask(args: &[String]) -> i32 {
    if !args.is_empty() {
        eprintln!("usage: baton __mask, with values as descriptor 4");
        return BAD_USAGE;
    }
    match run() {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(error) => {
            eprintln!("baton __mask: {error}");
            1
        }
    }
}

fn run() -> io::Result<bool> {
    ignore_signals();
    let mut masker = inherited_masker()?;
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let (mut buffer, mut masked) = (vec![0; BUFFER_BYTES], Vec::new());
    let mut complete = true;
    loop {
        let length = match input.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        masked.clear();
        if length > 0 {
            masker.mask(&buffer[..length], &mut masked);
        } else {
            masker.finish(&mut masked);
        }
        // What cannot be written is dropped: the process must not feel it.
        complete &= output.write_all(&masked).is_ok();
        if length == 0 {
            return Ok(complete);
        }
    }
}
