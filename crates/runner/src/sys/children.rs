//! The children of this process, as listed by the kernel.
//!
//! The list of another process may miss some while children come and go. Ours does not: a child
//! leaves it only when it is reaped, which only this thread does, and a new entry, an orphan that
//! is reparented to us, comes last. So every survivor below a process that we have reaped has an
//! ancestor in the list, or is in it.
//!
//! For single-threaded processes. Not every kernel is built with this list.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, pread};

/// The kernel returns at least what fits into a page, less one number. So a shorter read is the
/// end, and one more call is unnecessary.
const PART_BYTES_MIN: usize = 2 << 10;

/// The open list, which may be read repeatedly.
#[derive(Debug)]
pub struct Children {
    file: OwnedFd,
    text: Vec<u8>,
}

impl Children {
    /// `None` where the kernel does not have it.
    #[must_use]
    pub fn open() -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = open("/proc/thread-self/children", flags, Mode::empty()).ok()?;
        Some(Self {
            file,
            text: vec![0; 8 << 10],
        })
    }

    /// The pids of all children, zombies included.
    pub fn read(&mut self) -> io::Result<impl Iterator<Item = u32> + '_> {
        let mut length = 0;
        loop {
            if self.text.len() - length < PART_BYTES_MIN {
                self.text.resize(2 * self.text.len(), 0);
            }
            match pread(&self.file, &mut self.text[length..], length as u64) {
                Ok(part) => {
                    length += part;
                    if part < PART_BYTES_MIN {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let words = self.text[..length].split(|byte| *byte == b' ');
        Ok(words.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    /// Which thread a child belongs to counts, so all of it happens in this one.
    #[test]
    fn every_child_is_in_the_list_until_it_is_reaped() {
        let Some(mut children) = Children::open() else {
            println!("skipped: this kernel has no such list");
            return;
        };
        let mut cat = Command::new("cat");
        cat.stdin(Stdio::piped());
        // More than one part of the list holds.
        let mut started: Vec<Child> = (0..700).map(|_| cat.spawn().expect("cat")).collect();
        let mut wanted: Vec<u32> = started.iter().map(Child::id).collect();
        let mut found: Vec<u32> = children.read().expect("readable").collect();
        wanted.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, wanted);
        for child in &mut started {
            drop(child.stdin.take());
            child.wait().expect("ours");
        }
        assert_eq!(children.read().expect("readable").count(), 0);
    }
}
