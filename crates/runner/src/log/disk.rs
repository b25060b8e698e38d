//! The few operations on files that a log is made of.
//!
//! The provided methods are the real ones. Tests put a disk in their place that fails,
//! or stops working for good, at a chosen operation.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub(super) trait Disk: fmt::Debug + Send {
    /// Opens for reading and for writing at the end.
    fn open(&mut self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).append(true).open(path)
    }

    /// Makes a file that is not there yet, for writing at the end. Others may not read
    /// it: a log holds the environment of its task.
    fn create(&mut self, path: &Path) -> io::Result<File> {
        OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
    }

    /// Writes some of these bytes at the end.
    fn write(&mut self, file: &mut File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    /// Makes what was written durable, with the length of the file.
    fn sync(&mut self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Cuts the file.
    fn truncate(&mut self, file: &File, bytes: u64) -> io::Result<()> {
        file.set_len(bytes)
    }

    /// Gives a file another name, in place of whatever has that name.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Removes a file.
    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    /// Makes the names in a directory durable.
    fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// The real one.
#[derive(Debug)]
pub(super) struct RealDisk;

impl Disk for RealDisk {}
