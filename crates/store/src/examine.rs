//! The settings of a store and its server, for examination: nothing is created, migrated or locked.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::StoreError;
use crate::postgres::StoreUrl;
use crate::postgres::examine;

pub use crate::postgres::examine::ServerSettings;

/// Begins every file of SQLite.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Bytes of the header that is read.
const HEADER_BYTES: usize = 100;

/// Position and value of the version that a reader must understand: 2 for a write-ahead log.
const READ_VERSION_AT: usize = 19;
const WITH_LOG: u8 = 2;

/// What the header of a SQLite file says. SQLite itself would create files beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSettings {
    /// It has a write-ahead log, as every store of Baton.
    pub has_log: bool,
}

/// Reads the header of a SQLite file.
///
/// # Errors
/// If it cannot be read, or is none.
pub fn sqlite_file(path: &Path) -> io::Result<FileSettings> {
    let mut header = [0; HEADER_BYTES];
    File::open(path)?.read_exact(&mut header)?;
    if !header.starts_with(MAGIC) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is not a SQLite database",
        ));
    }
    Ok(FileSettings {
        has_log: header[READ_VERSION_AT] == WITH_LOG,
    })
}

/// Reads the settings of the server that a URL names.
///
/// # Errors
/// If it cannot be reached, refuses the user, or the URL is not valid.
pub fn postgres_server(url: &StoreUrl) -> Result<ServerSettings, StoreError> {
    examine::settings(url)
}
