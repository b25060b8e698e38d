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
    /// Mounts one with these options; `None` with a note where that is not allowed.
    pub(crate) fn mount(at: &Path, options: &str) -> Option<Self> {
        fs::create_dir_all(at).expect("made");
        let mut mount = Command::new("mount");
        let options = format!("{options},mode=0700");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]);
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

    /// Mounts an ext4 on a file beside it; likewise. It becomes read-only when it finds a fault.
    pub(crate) fn mount_ext4(at: &Path) -> Option<Self> {
        const INODES: &str = "256";
        fs::create_dir_all(at).expect("made");
        let image = at.with_extension("img");
        let file = fs::File::create(&image).expect("made");
        file.set_len(16 << 20).expect("sized");
        let mut make = Command::new("mkfs.ext4");
        let made = make
            .args(["-q", "-m", "0", "-N", INODES])
            .arg(&image)
            .status();
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop,errors=remount-ro"]);
        let done = made.and_then(|_| mount.arg(&image).arg(at).status());
        if !done.as_ref().is_ok_and(|status| status.success()) {
            eprintln!("skipped: cannot mount an ext4: {done:?}");
            return None;
        }
        Some(Self(at.to_owned()))
    }

    /// Lets an ext4 find a fault: it is read-only from now on, whatever is open.
    pub(crate) fn break_down(&self) {
        let mut mount = Command::new("mount");
        let mount = mount.args(["-o", "remount,abort"]).arg(&self.0);
        assert!(mount.status().is_ok_and(|status| status.success()));
        let refused = fs::File::create(self.filler()).expect_err("read-only");
        assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
    }

    /// Uses up the inodes.
    pub(crate) fn take_inodes(&self) {
        fs::create_dir(self.filler()).expect("made");
        let mut numbers = 0_u32..;
        while numbers.next().is_some_and(|number| {
            let path = self.filler().join(number.to_string());
            fs::File::create(path).is_ok()
        }) {}
    }

    /// Frees the inodes again.
    pub(crate) fn give_inodes(&self) {
        fs::remove_dir_all(self.filler()).expect("removed");
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
