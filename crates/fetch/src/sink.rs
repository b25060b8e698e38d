//! A file that is being written.

use std::fs::File;
use std::io::Write as _;

use baton_model::hex::hex;
use sha2::{Digest as _, Sha256};

/// A file that is being written, with its checksum and its limit.
pub(crate) struct Sink {
    file: File,
    hash: Sha256,
    left: u64,
    bytes_max: u64,
}

impl Sink {
    pub(crate) fn new(file: File, bytes_max: u64) -> Self {
        Self {
            file,
            hash: Sha256::new(),
            left: bytes_max,
            bytes_max,
        }
    }

    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| too_large(self.bytes_max))?;
        self.hash.update(bytes);
        self.file
            .write_all(bytes)
            .map_err(|error| error.to_string())
    }

    /// The checksum of everything that was written.
    pub(crate) fn sum(self) -> String {
        hex(self.hash.finalize())
    }
}

pub(crate) fn too_large(bytes_max: u64) -> String {
    format!("it has more than {bytes_max} bytes; its `max_size` allows no more")
}
