//! The file operations that a log needs.
//!
//! The provided methods are the real ones. Tests substitute a disk that fails, or stops working for
//! good, at a chosen operation.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use baton_fs::private;

pub(super) trait Disk: fmt::Debug + Send {
    /// Opens for reading and appending.
    fn open(&mut self, path: &Path) -> io::Result<File> {
        private::file_options().read(true).append(true).open(path)
    }

    /// Creates a new file for appending. Other users may not read it: a log holds the environment
    /// of its task.
    fn create(&mut self, path: &Path) -> io::Result<File> {
        private::file_options()
            .append(true)
            .create_new(true)
            .open(path)
    }

    /// Appends some of these bytes.
    fn write(&mut self, file: &mut File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    /// Makes the data and the length of the file durable.
    fn sync(&mut self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn truncate(&mut self, file: &File, bytes: u64) -> io::Result<()> {
        file.set_len(bytes)
    }

    /// Renames a file, replacing an existing one.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    /// Makes the entries of a directory durable.
    fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

#[derive(Debug)]
pub(super) struct RealDisk;

impl Disk for RealDisk {}
