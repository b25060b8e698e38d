//! A directory whose files are read, and whose links must not lead out of it.
//!
//! Its files come from other people: a deployment, or a checkout of a repository. A link in it to a file that
//! only the reader may read would show them that file. Links within the directory are followed: mounted
//! volumes and checkouts have them.
//!
//! A path is resolved once, to a descriptor that reads nothing (`O_PATH`). The kernel tells where it has led
//! (`/proc/self/fd`), and the same descriptor is then opened to read.

use std::fs::{self, File, Metadata, OpenOptions, ReadDir};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};

use crate::regular;

/// A directory whose links are followed within it only.
#[derive(Debug)]
pub struct Enclosure {
    dir: OwnedFd,
    /// Its path without links.
    real: PathBuf,
}

/// A file or directory of an [`Enclosure`].
#[derive(Debug)]
pub struct Member {
    handle: File,
    metadata: Metadata,
}

/// The reason why an [`Enclosure`] does not return a member.
#[derive(Debug, thiserror::Error)]
pub enum EnclosureError {
    /// The path leads out of the directory.
    #[error("a link that leads out of the directory")]
    Outside {
        /// True for a directory.
        is_dir: bool,
    },
    /// The path cannot be resolved.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Enclosure {
    /// Opens the directory. Its own path may have links.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty())?;
        let real = fs::read_link(by_descriptor(dir.as_raw_fd()))?;
        Ok(Self { dir, real })
    }

    /// Finds the file or directory at a path below the directory, or the directory itself at `.`.
    ///
    /// # Errors
    /// If the path does not exist, or leads out of the directory.
    pub fn find(&self, path: impl AsRef<Path>) -> Result<Member, EnclosureError> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let found = openat(&self.dir, path.as_ref(), flags, Mode::empty());
        let handle = File::from(found.map_err(io::Error::from)?);
        let metadata = handle.metadata()?;
        let real = fs::read_link(by_descriptor(handle.as_raw_fd()))?;
        if real.starts_with(&self.real) {
            Ok(Member { handle, metadata })
        } else {
            let is_dir = metadata.is_dir();
            Err(EnclosureError::Outside { is_dir })
        }
    }
}

impl Member {
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Opens a regular file to read it.
    ///
    /// # Errors
    /// If it is no regular file, or cannot be opened.
    pub fn open(&self) -> io::Result<File> {
        regular::check(self.metadata.file_type())?;
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(by_descriptor(self.handle.as_raw_fd()))
    }

    /// Lists a directory.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub fn entries(&self) -> io::Result<ReadDir> {
        fs::read_dir(by_descriptor(self.handle.as_raw_fd()))
    }
}

/// A path that names what the descriptor has open, wherever that is.
fn by_descriptor(descriptor: i32) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{descriptor}"))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    fn text(enclosure: &Enclosure, path: &str) -> String {
        let mut text = String::new();
        let file = enclosure.find(path).expect(path).open();
        file.expect(path).read_to_string(&mut text).expect(path);
        text
    }

    #[test]
    fn links_within_a_directory_are_followed_and_others_are_not() {
        let parent = tempfile::tempdir().expect("a directory");
        let at = |name: &str| parent.path().join(name);
        fs::create_dir_all(at("library/.data/sub")).expect("made");
        fs::create_dir(at("library-2")).expect("made");
        fs::write(at("secret"), "secret").expect("written");
        fs::write(at("library-2/secret"), "secret").expect("written");
        fs::write(at("library/.data/sub/file"), "text").expect("written");
        // As a mounted volume has them, and one with an absolute path.
        symlink(".data/sub/file", at("library/relative")).expect("made");
        symlink(".data/sub", at("library/sub")).expect("made");
        symlink(at("library/.data/sub/file"), at("library/absolute")).expect("made");
        symlink("../secret", at("library/up")).expect("made");
        symlink(at("secret"), at("library/out")).expect("made");
        symlink("../library-2", at("library/sibling")).expect("made");
        symlink("/proc/self", at("library/magic")).expect("made");
        // The path of the directory itself may have links.
        symlink("library", at("link")).expect("made");
        let enclosure = Enclosure::open(&at("link")).expect("opened");
        for path in ["relative", "absolute", "sub/file", ".data/sub/file"] {
            assert_eq!(text(&enclosure, path), "text", "{path}");
        }
        for (path, expected) in [
            ("up", false),
            ("out", false),
            ("../secret", false),
            ("sibling", true),
            ("sibling/secret", false),
            ("magic/cwd", true),
        ] {
            match enclosure.find(path) {
                Err(EnclosureError::Outside { is_dir }) => assert_eq!(is_dir, expected, "{path}"),
                other => panic!("{path}: {other:?}"),
            }
        }
        let names = enclosure.find(".").expect("itself").entries();
        assert_eq!(names.expect("listed").count(), 8);
        enclosure
            .find("sub")
            .expect("found")
            .open()
            .expect_err("a directory");
    }
}
