//! A small file system that can be filled and freed.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: usize = 4096;

/// A tmpfs; gone when this is dropped.
#[derive(Debug)]
pub(crate) struct SmallFilesystem(PathBuf);

impl SmallFilesystem {
    /// Mounts one of this size; `None` with a note where that is not allowed.
    pub(crate) fn mount(at: &Path, size: &str) -> Option<Self> {
        fs::create_dir_all(at).expect("made");
        let mut mount = Command::new("mount");
        mount.args([
            "-t",
            "tmpfs",
            "-o",
            &format!("size={size},mode=0700"),
            "tmpfs",
        ]);
        let done = mount.arg(at).status();
        if !done.as_ref().is_ok_and(|status| status.success()) {
            eprintln!("skipped: cannot mount a tmpfs: {done:?}");
            return None;
        }
        Some(Self(at.to_owned()))
    }

    /// Fills it.
    pub(crate) fn fill(&self) {
        let mut file = OpenOptions::new();
        let file = file.create(true).append(true).open(self.filler());
        let mut file = file.expect("made");
        while file.write(&[0; PAGE]).is_ok_and(|written| written > 0) {}
    }

    /// Frees the space again.
    pub(crate) fn free(&self) {
        fs::remove_file(self.filler()).expect("removed");
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for SmallFilesystem {
    fn drop(&mut self) {
        // Lazily: open files do not block it, and it is freed with its last user.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
