//! A disk that fails at a chosen operation.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::log::disk::{Disk, RealDisk};

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Open,
    Create,
    Write,
    Sync,
    Truncate,
    Rename,
    Remove,
    SyncDirectory,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    /// Counted from 0 over all operations.
    pub(super) at: usize,
    /// For a write, this many bytes of it reach the file.
    pub(super) kept: usize,
    /// The error that the caller gets.
    pub(super) errno: i32,
    /// Nothing works from there on, as for a process that was killed.
    pub(super) dead: bool,
}

#[derive(Debug, Default)]
struct State {
    done: Vec<Op>,
    fault: Option<Fault>,
}

/// Shared with the test, which keeps a clone.
#[derive(Clone, Debug, Default)]
pub(super) struct FailingDisk(Arc<Mutex<State>>);

impl FailingDisk {
    /// Works until a fault is set.
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn with(fault: Fault) -> Self {
        let disk = Self::new();
        disk.state().fault = Some(fault);
        disk
    }

    pub(super) fn boxed(&self) -> Box<dyn Disk> {
        Box::new(self.clone())
    }

    /// All operations so far.
    pub(super) fn done(&self) -> Vec<Op> {
        self.state().done.clone()
    }

    /// The next operation fails.
    pub(super) fn fail_next(&self, kept: usize, errno: i32) {
        let mut state = self.state();
        let fault = Fault {
            at: state.done.len(),
            kept,
            errno,
            dead: false,
        };
        state.fault = Some(fault);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics inside the disk")
    }

    /// The fault, if this operation meets it.
    fn meet(&self, op: Op) -> Option<Fault> {
        let mut state = self.state();
        let now = state.done.len();
        state.done.push(op);
        let fault = state.fault?;
        if now == fault.at {
            return Some(fault);
        }
        (fault.dead && now > fault.at).then_some(Fault { kept: 0, ..fault })
    }

    fn pass(&self, op: Op) -> io::Result<()> {
        match self.meet(op) {
            None => Ok(()),
            Some(fault) => Err(io::Error::from_raw_os_error(fault.errno)),
        }
    }
}

impl Disk for FailingDisk {
    fn open(&mut self, path: &Path) -> io::Result<File> {
        self.pass(Op::Open)?;
        RealDisk.open(path)
    }

    fn create(&mut self, path: &Path) -> io::Result<File> {
        self.pass(Op::Create)?;
        RealDisk.create(path)
    }

    fn write(&mut self, file: &mut File, bytes: &[u8]) -> io::Result<usize> {
        let Some(fault) = self.meet(Op::Write) else {
            return RealDisk.write(file, bytes);
        };
        let kept = &bytes[..fault.kept.min(bytes.len())];
        io::Write::write_all(file, kept)?;
        Err(io::Error::from_raw_os_error(fault.errno))
    }

    fn sync(&mut self, file: &File) -> io::Result<()> {
        self.pass(Op::Sync)?;
        RealDisk.sync(file)
    }

    fn truncate(&mut self, file: &File, bytes: u64) -> io::Result<()> {
        self.pass(Op::Truncate)?;
        RealDisk.truncate(file, bytes)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass(Op::Rename)?;
        RealDisk.rename(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.pass(Op::Remove)?;
        RealDisk.remove(path)
    }

    fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        self.pass(Op::SyncDirectory)?;
        RealDisk.sync_directory(path)
    }
}
