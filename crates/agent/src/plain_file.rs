//! Opening a file that an attempt has written.
//!
//! The file belongs to the attempt's user, and the agent may be root: it must be a regular file
//! with a single link, symbolic links are not followed, and opening does not block.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// Opens a file for reading; `None` if it is missing.
///
/// # Errors
/// Why it is not such a file, for the author of the attempt's script.
pub(crate) fn open_plain(path: &Path) -> Result<Option<(File, Metadata)>, String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err("it is a link".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if metadata.nlink() > 1 {
        return Err("it is a link".to_owned());
    }
    Ok(Some((file, metadata)))
}
