//! Measuring and removing directory trees without ever leaving them.
//!
//! A sandbox may hold symbolic links to anywhere, mounts of other users' data, and directories of
//! any depth, and may change meanwhile. So every step goes from an open directory to a name in it,
//! and the kernel is told to follow no link and to enter no mount. A directory that may not be
//! entered is an error, never a way out.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    self, AtFlags, CWD, Dir as Names, FileType, Mode, OFlags, RenameFlags, ResolveFlags,
};
use rustix::io::Errno;

/// An open directory.
#[derive(Debug)]
pub(super) struct Dir(OwnedFd);

/// The maximum number of directories open at once on the way down, at two descriptors each. Deeper
/// directories are moved up first, and are not measured.
const DEPTH_MAX: usize = 100;

/// The maximum number of passes over a directory that does not become empty: a process still writes
/// there.
const PASSES_MAX: u32 = 8;

const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Directories moved up while one tree is removed.
struct Spill<'a> {
    top: &'a Dir,
    moved: u64,
}

impl Dir {
    /// Opens a directory at a path chosen by the user, following links.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(fs::openat(CWD, path, FLAGS, Mode::empty())?))
    }

    /// Opens one of the root's own directories; it may be a mount, but not a link. `None` if it
    /// does not exist.
    pub(super) fn part(&self, name: &str) -> io::Result<Option<Self>> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match fs::openat2(&self.0, name, FLAGS, Mode::empty(), resolve) {
            Ok(dir) => Ok(Some(Self(dir))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(with_name(name, explain(error))),
        }
    }

    /// Bytes on disk below this name, without `skip` directly below it.
    pub(super) fn bytes(&self, name: &str, skip: Option<&str>) -> u64 {
        let Ok(name) = std::ffi::CString::new(name) else {
            return 0;
        };
        self.bytes_below(&name, skip, DEPTH_MAX)
    }

    /// Removes the tree of this name. A missing one is no error.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        let Some(top) = self.child(name)? else {
            return Ok(());
        };
        self.remove_dir(name, &top)
            .map_err(|error| with_name(name, error))
    }

    /// Removes everything in the directory of this name, except `keep`.
    pub(super) fn clear(&self, name: &str, keep: &str) -> io::Result<()> {
        let Some(top) = self.child(name)? else {
            return Ok(());
        };
        loop {
            let mut spill = Spill {
                top: &top,
                moved: 0,
            };
            top.empty(Some(keep), 0, &mut spill)
                .map_err(|error| with_name(name, error))?;
            if spill.moved == 0 {
                return Ok(());
            }
        }
    }

    /// Makes removals durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&self.0)?)
    }

    /// Opens the directory of this name. A link or a file is removed instead. `None` if nothing is
    /// left there.
    fn child(&self, name: &str) -> io::Result<Option<Self>> {
        match fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(None),
            // The kernel's errno, and that of POSIX.
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(with_name(name, error.into())),
        }
        match fs::openat2(&self.0, name, FLAGS, Mode::empty(), resolve_flags()) {
            Ok(dir) => Ok(Some(Self(dir))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(with_name(name, explain(error))),
        }
    }

    fn remove_dir(&self, name: &str, top: &Self) -> io::Result<()> {
        let mut passes = 0;
        loop {
            let mut spill = Spill { top, moved: 0 };
            top.empty(None, 0, &mut spill)?;
            match fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(Errno::NOTEMPTY | Errno::EXIST) if spill.moved > 0 => {}
                Err(Errno::NOTEMPTY | Errno::EXIST) if passes < PASSES_MAX => passes += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn empty(&self, keep: Option<&str>, depth: usize, spill: &mut Spill<'_>) -> io::Result<()> {
        for entry in Names::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name();
            let kept = keep.is_some_and(|keep| name.to_bytes() == keep.as_bytes());
            if !kept && !is_self_or_parent(name) {
                self.remove_entry(name, entry.file_type(), depth, spill)
                    .map_err(|error| with_name(&name.to_string_lossy(), error))?;
            }
        }
        Ok(())
    }

    fn remove_entry(
        &self,
        name: &CStr,
        kind: FileType,
        depth: usize,
        spill: &mut Spill<'_>,
    ) -> io::Result<()> {
        if kind != FileType::Directory {
            match self.unlink(name, AtFlags::empty()) {
                Err(Errno::ISDIR | Errno::PERM) if kind == FileType::Unknown => {}
                other => return Ok(other?),
            }
        }
        if depth >= DEPTH_MAX {
            return self.move_up(name, spill);
        }
        match fs::openat2(&self.0, name, FLAGS, Mode::empty(), resolve_flags()) {
            Ok(dir) => Self(dir).empty(None, depth + 1, spill)?,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(explain(error)),
        }
        Ok(self.unlink(name, AtFlags::REMOVEDIR)?)
    }

    /// Unlinks, if need be after making the directory writable: build tools often remove that
    /// permission from their own files.
    fn unlink(&self, name: &CStr, flags: AtFlags) -> Result<(), Errno> {
        let mut result = fs::unlinkat(&self.0, name, flags);
        if result == Err(Errno::ACCESS) && fs::fchmod(&self.0, Mode::RWXU).is_ok() {
            result = fs::unlinkat(&self.0, name, flags);
        }
        match result {
            Err(Errno::NOENT) => Ok(()),
            other => other,
        }
    }

    /// Moves a directory that is too deep to be entered to where the next pass finds it.
    fn move_up(&self, name: &CStr, spill: &mut Spill<'_>) -> io::Result<()> {
        loop {
            let fresh = format!(".baton-gc-{}", spill.moved);
            spill.moved += 1;
            let top = &spill.top.0;
            match fs::renameat_with(&self.0, name, top, &*fresh, RenameFlags::NOREPLACE) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The bytes below a name. What cannot be read counts as 0: a size is only shown to the user,
    /// and the removal reports the error.
    fn bytes_below(&self, name: &CStr, skip: Option<&str>, depth: usize) -> u64 {
        let Ok(stat) = fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return 0;
        };
        let mut bytes = u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory || depth == 0 {
            return bytes;
        }
        let Ok(dir) = fs::openat2(&self.0, name, FLAGS, Mode::empty(), resolve_flags()) else {
            return bytes;
        };
        let dir = Self(dir);
        let Ok(names) = Names::read_from(&dir.0) else {
            return bytes;
        };
        for entry in names.flatten() {
            let name = entry.file_name();
            let skipped = skip.is_some_and(|skip| name.to_bytes() == skip.as_bytes());
            if !skipped && !is_self_or_parent(name) {
                bytes += dir.bytes_below(name, None, depth - 1);
            }
        }
        bytes
    }
}

/// Stay below, follow no link, enter no mount.
const fn resolve_flags() -> ResolveFlags {
    ResolveFlags::BENEATH
        .union(ResolveFlags::NO_SYMLINKS)
        .union(ResolveFlags::NO_XDEV)
}

fn is_self_or_parent(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

fn explain(error: Errno) -> io::Error {
    let reason = match error {
        Errno::LOOP => "is a symbolic link, which is not followed",
        Errno::XDEV => "is a mount, which is not entered; unmount it first",
        other => return other.into(),
    };
    io::Error::new(io::Error::from(error).kind(), reason)
}

/// Prefixes the error with a name; on the way up, with all names.
fn with_name(name: &str, error: io::Error) -> io::Error {
    let name = name.escape_debug();
    io::Error::new(error.kind(), format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    fn temp() -> (tempfile::TempDir, PathBuf, Dir) {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let path = temp.path().join("top");
        fs::create_dir(&path).expect("made");
        let dir = Dir::open(&path).expect("opened");
        (temp, path, dir)
    }

    #[test]
    fn a_tree_goes_and_what_its_links_name_stays() {
        let (temp, top, dir) = temp();
        let outside = temp.path().join("outside");
        fs::create_dir(&outside).expect("made");
        fs::write(outside.join("precious"), "x").expect("written");
        fs::create_dir_all(top.join("a/b/c")).expect("made");
        fs::write(top.join("a/b/file"), "x").expect("written");
        symlink(&outside, top.join("a/b/dir-link")).expect("linked");
        symlink(outside.join("precious"), top.join("a/file-link")).expect("linked");
        dir.remove("a").expect("removed");
        dir.remove("a").expect("removed twice is removed");
        assert!(!top.join("a").exists());
        assert!(outside.join("precious").exists());
    }

    #[test]
    fn a_link_in_the_place_of_the_tree_is_removed_and_not_followed() {
        let (temp, top, dir) = temp();
        let outside = temp.path().join("outside");
        fs::create_dir(&outside).expect("made");
        fs::write(outside.join("precious"), "x").expect("written");
        symlink(&outside, top.join("a")).expect("linked");
        dir.clear("a", "nothing").expect("the link is gone");
        symlink(&outside, top.join("a")).expect("linked");
        dir.remove("a").expect("the link is gone");
        assert!(top.join("a").symlink_metadata().is_err());
        assert!(outside.join("precious").exists());
    }

    #[test]
    fn a_part_of_the_root_that_is_a_link_is_refused() {
        let (temp, top, dir) = temp();
        symlink(temp.path(), top.join("part")).expect("linked");
        let error = dir.part("part").expect_err("a link");
        assert_eq!(
            error.to_string(),
            "part: is a symbolic link, which is not followed"
        );
        assert!(dir.part("none").expect("not there").is_none());
    }

    #[test]
    fn the_kept_entry_stays_and_everything_else_is_removed() {
        let (_temp, top, dir) = temp();
        fs::create_dir_all(top.join("a/.logs/p/0")).expect("made");
        fs::create_dir_all(top.join("a/sub/.logs")).expect("made");
        fs::write(top.join("a/file"), "x").expect("written");
        dir.clear("a", ".logs").expect("cleared");
        let left: Vec<_> = fs::read_dir(top.join("a")).expect("there").collect();
        assert_eq!(left.len(), 1);
        assert!(top.join("a/.logs/p/0").is_dir());
    }

    #[test]
    fn a_tree_deeper_than_there_are_files_to_open_goes_too() {
        let (_temp, top, dir) = temp();
        let mut below = Dir::open(&top).expect("opened");
        for _ in 0..3_000 {
            rustix::fs::mkdirat(&below.0, "d", Mode::RWXU).expect("made");
            below = below.part("d").expect("opened").expect("just made");
        }
        dir.remove("d").expect("removed");
        assert!(fs::read_dir(&top).expect("there").next().is_none());
    }

    #[test]
    fn a_directory_without_the_right_to_write_goes_too() {
        use std::os::unix::fs::PermissionsExt;
        let (_temp, top, dir) = temp();
        fs::create_dir(top.join("a")).expect("made");
        fs::write(top.join("a/file"), "x").expect("written");
        fs::set_permissions(top.join("a"), fs::Permissions::from_mode(0o555)).expect("set");
        dir.remove("a").expect("removed");
        assert!(!top.join("a").exists());
    }

    #[test]
    fn the_size_is_what_removing_would_give_back() {
        let (temp, top, dir) = temp();
        fs::create_dir_all(top.join("a/.logs")).expect("made");
        fs::write(top.join("a/data"), vec![1; 1 << 20]).expect("written");
        fs::write(top.join("a/.logs/big"), vec![1; 1 << 20]).expect("written");
        let outside = temp.path().join("outside");
        fs::write(&outside, vec![1; 4 << 20]).expect("written");
        symlink(&outside, top.join("a/link")).expect("linked");
        let (all, but_logs) = (dir.bytes("a", None), dir.bytes("a", Some(".logs")));
        assert!((2 << 20..3 << 20).contains(&all), "{all}");
        assert!((1 << 20..2 << 20).contains(&but_logs), "{but_logs}");
        assert_eq!(dir.bytes("none", None), 0);
    }
}
