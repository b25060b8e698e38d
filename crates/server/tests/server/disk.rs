//! A small disk that can be filled.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// A file system of its own, gone at the end.
pub(crate) struct Disk(TempDir);

impl Disk {
    /// Nothing, with a printed reason, where mounting is not allowed.
    pub(crate) fn new(size: &str) -> Option<Self> {
        let disk = Self(tempfile::tempdir().expect("a directory can be made"));
        let options = format!("size={size},mode=0700");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(disk.path())
            .output();
        if mount.is_ok_and(|output| output.status.success()) {
            return Some(disk);
        }
        println!("skipped: mounting a file system needs root");
        None
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Leaves no byte free.
    pub(crate) fn fill(&self) {
        let mut file = File::create(self.path().join("ballast")).expect("made");
        for size in [1 << 16, 1 << 9, 1] {
            let piece = vec![0; size];
            while file.write_all(&piece).is_ok() {}
        }
    }

    pub(crate) fn empty(&self) {
        std::fs::remove_file(self.path().join("ballast")).expect("removed");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Fails where nothing was mounted; there is nothing else to be done about it.
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
    }
}
