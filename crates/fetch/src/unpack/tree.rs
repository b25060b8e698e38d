//! The directory that an archive is unpacked into. Nothing of an archive can lead out of it:
//!
//! * Each directory on the way to an entry is opened below the one before it, and none of them may be
//!   a link. So an entry is always where its path says.
//! * A link is relative. Its target begins with at most as many `..` as there are directories above
//!   the link, and has none after that: behind another link, `..` is not the directory that it seems
//!   to be.
//! * A hard link is to a regular file of the archive.
//!
//! Owners, times, and the bits for set-user-id are not taken over.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use baton_runner::logs::open_dir;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, linkat, mkdirat, openat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::sink::too_large;

/// Entries of one archive.
pub(super) const ENTRIES_MAX: u32 = 500_000;
/// Directories on the way to an entry.
const DEPTH_MAX: usize = 128;

/// A directory that is being filled.
pub(super) struct Tree {
    root: OwnedFd,
    entries: u32,
    left: u64,
    bytes_max: u64,
}

impl Tree {
    pub(super) fn new(root: &Path, bytes_max: u64) -> Result<Self, String> {
        let opened = open_dir(CWD, root).map_err(|error| error.to_string())?;
        Ok(Self {
            root: opened.ok_or("its directory is gone")?,
            entries: 0,
            left: bytes_max,
            bytes_max,
        })
    }

    pub(super) const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Adds a directory, unless it is there.
    pub(super) fn directory(&mut self, path: &[u8]) -> Result<(), String> {
        self.count()?;
        let steps = steps(path)?;
        self.descend(&steps, path).map(drop)
    }

    /// Adds a file with this content.
    pub(super) fn file(
        &mut self,
        path: &[u8],
        is_executable: bool,
        content: &mut dyn Read,
    ) -> Result<(), String> {
        let (parent, name) = self.place(path)?;
        let mode = if is_executable { 0o755 } else { 0o644 };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&parent, &*name, flags, Mode::from_raw_mode(mode));
        let mut file = File::from(file.map_err(|error| shown(path, error.into()))?);
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = match content.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(shown(path, error)),
            };
            let left = self.left.checked_sub(read as u64);
            self.left = left.ok_or_else(|| too_large(self.bytes_max))?;
            file.write_all(&buffer[..read])
                .map_err(|error| shown(path, error))?;
        }
    }

    /// Adds a symbolic link.
    pub(super) fn symlink(&mut self, path: &[u8], target: &[u8]) -> Result<(), String> {
        let depth = steps(path)?.len().saturating_sub(1);
        if !stays_inside(target, depth) {
            return Err(format!(
                "{} is a link to {}, which leads out of the archive",
                String::from_utf8_lossy(path),
                String::from_utf8_lossy(target)
            ));
        }
        let (parent, name) = self.place(path)?;
        symlinkat(OsStr::from_bytes(target), &parent, &*name)
            .map_err(|error| shown(path, error.into()))
    }

    /// Adds another name of a file that is there.
    pub(super) fn hard_link(&mut self, path: &[u8], target: &[u8]) -> Result<(), String> {
        let target_steps = steps(target)?;
        let (name_of_target, above) = target_steps
            .split_last()
            .ok_or_else(|| format!("{} is a link to nothing", String::from_utf8_lossy(path)))?;
        let from = self.descend(above, target)?;
        let found = statat(&from, *name_of_target, AtFlags::SYMLINK_NOFOLLOW);
        let found = found.map_err(|error| shown(target, error.into()))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(format!(
                "{} is a hard link to {}, which is not a file",
                String::from_utf8_lossy(path),
                String::from_utf8_lossy(target)
            ));
        }
        let (parent, name) = self.place(path)?;
        linkat(&from, *name_of_target, &parent, &*name, AtFlags::empty())
            .map_err(|error| shown(path, error.into()))
    }

    fn count(&mut self) -> Result<(), String> {
        self.entries += 1;
        if self.entries > ENTRIES_MAX {
            return Err(format!("it has more than {ENTRIES_MAX} entries"));
        }
        Ok(())
    }

    /// The open parent and the name of a new entry. The last entry of a name counts, so a file or a
    /// link that has it is removed.
    fn place(&mut self, path: &[u8]) -> Result<(OwnedFd, Vec<u8>), String> {
        self.count()?;
        let steps = steps(path)?;
        let Some((name, above)) = steps.split_last() else {
            return Err("an entry without a name".to_owned());
        };
        let parent = self.descend(above, path)?;
        match unlinkat(&parent, *name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(shown(path, error.into())),
        }
        Ok((parent, name.as_bytes().to_vec()))
    }

    /// Opens the directory below the root, and creates what is missing of it.
    fn descend(&self, steps: &[&OsStr], path: &[u8]) -> Result<OwnedFd, String> {
        let error = |error: io::Error| shown(path, error);
        let mut dir = self.root.try_clone().map_err(error)?;
        for step in steps {
            match mkdirat(&dir, *step, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(error(errno.into())),
            }
            let next = open_dir(&dir, *step).map_err(error)?;
            dir = next.ok_or_else(|| {
                let path = String::from_utf8_lossy(path);
                format!("{path} leads through a file or a link")
            })?;
        }
        Ok(dir)
    }
}

/// The names on the way to an entry.
fn steps(path: &[u8]) -> Result<Vec<&OsStr>, String> {
    let mut steps = Vec::new();
    for component in Path::new(OsStr::from_bytes(path)).components() {
        match component {
            Component::Normal(name) => steps.push(name),
            Component::CurDir => {}
            _ => {
                let path = String::from_utf8_lossy(path);
                return Err(format!("{path} leads out of the archive"));
            }
        }
    }
    if steps.len() > DEPTH_MAX {
        return Err(format!(
            "an entry is below more than {DEPTH_MAX} directories"
        ));
    }
    Ok(steps)
}

/// True if a link in a directory of this depth stays within the root.
fn stays_inside(target: &[u8], depth: usize) -> bool {
    let (mut ups, mut has_descended) = (0, false);
    for component in Path::new(OsStr::from_bytes(target)).components() {
        match component {
            Component::ParentDir if has_descended => return false,
            Component::ParentDir => ups += 1,
            Component::Normal(_) => has_descended = true,
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    ups <= depth
}

fn shown(path: &[u8], error: io::Error) -> String {
    format!("{}: {error}", String::from_utf8_lossy(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_inside_or_is_refused() {
        for (target, depth, stays) in [
            ("a", 0, true),
            ("a/b", 0, true),
            ("./a", 0, true),
            ("..", 0, false),
            ("..", 1, true),
            ("../a/b", 1, true),
            ("../../a", 1, false),
            ("/etc/passwd", 3, false),
            // Behind a link, this is another directory than it seems to be.
            ("a/..", 3, false),
            ("../a/../b", 3, false),
        ] {
            assert_eq!(
                stays_inside(target.as_bytes(), depth),
                stays,
                "{target} {depth}"
            );
        }
    }
}
