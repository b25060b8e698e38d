//! Directories for the files of this process, which no other user may change.
//!
//! A user who may write in such a directory can replace a file in it by a link, and a process of root then
//! changes the file that the link leads to. So, like the servers that read keys, Baton refuses a directory of
//! another user, or with write permission for a group or for all, whether it has the sticky bit or not. Root is trusted. A link
//! on the way to the directory must belong to this user or to root; in the directory, links are not followed at all.
//!
//! Parents of the directory are not checked, because mounted volumes and shared projects have every mode and
//! owner: a user who may write in a parent can move the directory away, and a restart then finds another one.
//! [`PrivateDir::exposed_parent`] is for a warning.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fchmod, fstat, mkdirat, openat, statat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

const OTHERS_WRITE: u32 = 0o022;
const ALL_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// A directory that no other user may change.
#[derive(Debug)]
pub struct PrivateDir {
    dir: OwnedFd,
    path: PathBuf,
}

/// The reason why a directory is refused, with a hint.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    #[error(
        "cannot use {path}: user {owner} owns it, who may replace the files in it; run Baton as that user, or run \
         `chown {user} {path}`",
        path = .path.display()
    )]
    Owner {
        path: PathBuf,
        owner: u32,
        user: u32,
    },
    #[error(
        "cannot use {path}: others may write in it (mode {mode:04o}), and replace the files in it; run \
         `chmod go-w {path}`",
        path = .path.display()
    )]
    Writable { path: PathBuf, mode: u32 },
    #[error(
        "cannot use {path}: it is {found}, and {expected} is needed; remove it",
        path = .path.display()
    )]
    Kind {
        path: PathBuf,
        found: &'static str,
        expected: &'static str,
    },
    #[error("cannot use {path}: {error}; {hint}", path = .path.display(), hint = hint(.error))]
    Io {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
}

impl PrivateDir {
    /// Opens the directory, and creates it with mode 0700 if it is missing.
    ///
    /// # Errors
    /// If it cannot be made, or another user may change it.
    pub fn create(path: &Path) -> Result<Self, DirError> {
        let failed = |error| io_error(path, error);
        // Nothing is made behind a link of another user.
        check_links(path)?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        match DirBuilder::new().mode(0o700).create(path) {
            // Some file systems refuse before they look.
            Err(error) if !path.exists() => Err(failed(error)),
            _ => Self::open(path),
        }
    }

    /// Opens the directory.
    ///
    /// # Errors
    /// If it does not exist, or another user may change it.
    pub fn open(path: &Path) -> Result<Self, DirError> {
        let is_link = check_links(path)?;
        let follow = if is_link {
            OFlags::empty()
        } else {
            OFlags::NOFOLLOW
        };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | follow;
        let dir = rustix::fs::open(path, flags, Mode::empty());
        let dir = dir.map_err(|error| io_error(path, error.into()))?;
        let path = path.to_owned();
        let opened = Self { dir, path };
        let found = opened.stat()?;
        check_owner(&opened.path, &found)?;
        if found.st_mode & OTHERS_WRITE != 0 && !opened.close_if_empty(&found)? {
            return Err(DirError::Writable {
                path: opened.path,
                mode: found.st_mode & 0o7777,
            });
        }
        Ok(opened)
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A parent in which every user may rename the directory.
    #[must_use]
    pub fn exposed_parent(&self) -> Option<PathBuf> {
        let real = fs::canonicalize(&self.path).ok()?;
        let is_exposed = |parent: &&Path| {
            let found = fs::metadata(parent);
            found.is_ok_and(|it| it.mode() & (ALL_WRITE | STICKY) == ALL_WRITE)
        };
        real.ancestors()
            .skip(1)
            .find(is_exposed)
            .map(Path::to_owned)
    }

    /// Sets the mode of the directory, if this user may.
    ///
    /// # Errors
    /// If the file system returns an error.
    pub fn set_mode(&self, mode: u32) -> Result<(), DirError> {
        set_mode(&self.dir, &self.stat()?, mode).map_err(|error| io_error(&self.path, error))
    }

    /// Opens a directory in this one, and creates it if it is missing. It gets the mode.
    ///
    /// # Errors
    /// If the entry is no directory, or that of another user.
    pub fn subdirectory(&self, name: &str, mode: u32) -> Result<Self, DirError> {
        let path = self.path.join(name);
        let failed = |error: Errno| io_error(&path, error.into());
        let made = mkdirat(&self.dir, name, Mode::RWXU);
        let Some(found) = self.entry(name)? else {
            return Err(failed(made.err().unwrap_or(Errno::NOENT)));
        };
        check_kind(&path, &found, FileType::Directory)?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = openat(&self.dir, name, flags, Mode::empty()).map_err(failed)?;
        let opened = Self { dir, path };
        check_owner(&opened.path, &opened.stat()?)?;
        opened.set_mode(mode)?;
        Ok(opened)
    }

    /// Checks that a file in this directory is one, if it exists, and sets its mode if this user may.
    ///
    /// It is opened only to change its mode: closing a descriptor drops the locks that this process
    /// holds on the file.
    ///
    /// # Errors
    /// If the entry is no regular file, or that of another user.
    pub fn restrict_file(&self, name: &str, mode: u32) -> Result<(), DirError> {
        let path = self.path.join(name);
        let Some(found) = self.entry(name)? else {
            return Ok(());
        };
        check_kind(&path, &found, FileType::RegularFile)?;
        check_owner(&path, &found)?;
        if found.st_mode & 0o777 == mode {
            return Ok(());
        }
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.dir, name, flags, Mode::empty()) {
            Ok(file) => file,
            // Removed since, or of root, who has to know.
            Err(Errno::NOENT | Errno::ACCESS) => return Ok(()),
            Err(error) => return Err(io_error(&path, error.into())),
        };
        let opened = fstat(&file).map_err(|error| io_error(&path, error.into()))?;
        check_kind(&path, &opened, FileType::RegularFile)?;
        set_mode(&file, &opened, mode).map_err(|error| io_error(&path, error))
    }

    /// The names in the directory.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn names(&self) -> Result<Vec<String>, DirError> {
        let read = || -> Result<Vec<String>, Errno> {
            let mut names = Vec::new();
            for entry in Dir::read_from(&self.dir)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if name != "." && name != ".." {
                    names.push(name);
                }
            }
            Ok(names)
        };
        read().map_err(|error| io_error(&self.path, error.into()))
    }

    /// Closes an empty directory of this user that its group may write, as a umask of 002 leaves it. What a
    /// member of the group has put there before it is closed is seen afterwards.
    fn close_if_empty(&self, found: &Stat) -> Result<bool, DirError> {
        let is_ours = found.st_uid == geteuid().as_raw();
        if !is_ours || found.st_mode & (ALL_WRITE | STICKY) != 0 || !self.names()?.is_empty() {
            return Ok(false);
        }
        self.set_mode(0o700)?;
        Ok(self.names()?.is_empty())
    }

    fn stat(&self) -> Result<Stat, DirError> {
        fstat(&self.dir).map_err(|error| io_error(&self.path, error.into()))
    }

    /// What the name is, without following a link.
    fn entry(&self, name: &str) -> Result<Option<Stat>, DirError> {
        match statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(io_error(&self.path.join(name), error.into())),
        }
    }
}

/// Options to open a file of a private directory: a link is not followed, and a new file has mode 0600.
#[must_use]
pub fn file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    options.mode(0o600).custom_flags(flags);
    options
}

/// Refuses links of other users on the way to the path. True if the path itself is a link.
fn check_links(path: &Path) -> Result<bool, DirError> {
    let absolute = std::path::absolute(path).map_err(|error| io_error(path, error))?;
    let mut is_link = false;
    for part in absolute.ancestors() {
        let found = match fs::symlink_metadata(part) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found.map_err(|error| io_error(part, error))?,
        };
        if found.is_symlink() {
            is_link |= part == absolute;
            check_uid(part, found.uid())?;
        }
    }
    Ok(is_link)
}

fn check_owner(path: &Path, found: &Stat) -> Result<(), DirError> {
    check_uid(path, found.st_uid)
}

fn check_uid(path: &Path, owner: u32) -> Result<(), DirError> {
    let user = geteuid().as_raw();
    if owner == user || owner == 0 {
        return Ok(());
    }
    let path = path.to_owned();
    Err(DirError::Owner { path, owner, user })
}

fn check_kind(path: &Path, found: &Stat, wanted: FileType) -> Result<(), DirError> {
    let kind = FileType::from_raw_mode(found.st_mode);
    if kind == wanted {
        return Ok(());
    }
    let describe = |kind| match kind {
        FileType::Symlink => "a symbolic link",
        FileType::Directory => "a directory",
        FileType::RegularFile => "a regular file",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    Err(DirError::Kind {
        path: path.to_owned(),
        found: describe(kind),
        expected: describe(wanted),
    })
}

/// Sets a mode through a descriptor, unless the file belongs to another user, who has to know.
fn set_mode(file: &OwnedFd, found: &Stat, mode: u32) -> io::Result<()> {
    if found.st_mode & 0o7777 == mode {
        return Ok(());
    }
    match fchmod(file, Mode::from_raw_mode(mode)) {
        Ok(()) | Err(Errno::PERM | Errno::ROFS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
        _ => "check its owner and mode",
    }
}

fn io_error(path: &Path, error: io::Error) -> DirError {
    let path = path.to_owned();
    DirError::Io { path, error }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};

    use super::*;

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").mode() & 0o7777
    }

    #[test]
    fn a_new_directory_is_private_and_one_that_others_write_is_refused() {
        let parent = tempfile::tempdir().expect("a directory");
        let path = parent.path().join("above/data");
        let made = PrivateDir::create(&path).expect("made");
        assert_eq!(mode(&path), 0o700);
        assert_eq!(made.names().expect("readable"), [""; 0]);
        fs::write(path.join("file"), "").expect("written");
        for refused in [0o770, 0o702, 0o1777, 0o720] {
            set(&path, refused);
            let error = PrivateDir::open(&path).expect_err("refused");
            assert!(matches!(error, DirError::Writable { .. }), "{error}");
            assert!(error.to_string().contains("chmod go-w"), "{error}");
            assert_eq!(mode(&path), refused, "it stays as it is");
        }
        for allowed in [0o700, 0o755, 0o711, 0o2750] {
            set(&path, allowed);
            PrivateDir::open(&path).expect("ours alone");
        }
    }

    #[test]
    fn an_empty_directory_of_a_private_group_is_closed() {
        let dir = tempfile::tempdir().expect("a directory");
        set(dir.path(), 0o775);
        PrivateDir::open(dir.path()).expect("empty");
        assert_eq!(mode(dir.path()), 0o700);
        for shared in [0o777, 0o1777] {
            set(dir.path(), shared);
            PrivateDir::open(dir.path()).expect_err("shared on purpose");
        }
    }

    #[test]
    fn links_in_a_directory_are_refused_and_their_targets_stay() {
        let parent = tempfile::tempdir().expect("a directory");
        let at = |name: &str| parent.path().join(name);
        fs::create_dir(at("target")).expect("made");
        fs::write(at("target/file"), "text").expect("written");
        set(&at("target"), 0o755);
        set(&at("target/file"), 0o644);
        let dir = PrivateDir::create(&at("data")).expect("made");
        symlink(at("target/file"), at("data/file")).expect("made");
        symlink(at("target"), at("data/sub")).expect("made");
        let error = dir.restrict_file("file", 0o600).expect_err("a link");
        assert!(error.to_string().contains("a symbolic link"), "{error}");
        dir.subdirectory("sub", 0o700).expect_err("a link");
        let opened = file_options()
            .write(true)
            .create(true)
            .open(at("data/file"));
        opened.expect_err("a link");
        assert_eq!(
            (mode(&at("target")), mode(&at("target/file"))),
            (0o755, 0o644)
        );
        assert_eq!(fs::read(at("target/file")).expect("there"), b"text");
        // The path of the directory may be a link of this user.
        symlink(at("data"), at("link")).expect("made");
        PrivateDir::open(&at("link")).expect("ours");
        dir.subdirectory("new", 0o711).expect("made");
        assert_eq!(mode(&at("data/new")), 0o711);
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        if !geteuid().is_root() {
            println!("skipped: only root can give files away");
            return;
        }
        let parent = tempfile::tempdir().expect("a directory");
        let at = |name: &str| parent.path().join(name);
        let dir = PrivateDir::create(&at("data")).expect("made");
        for name in ["data/sub", "theirs"] {
            fs::create_dir(at(name)).expect("made");
            chown(at(name), Some(1), None).expect("given");
        }
        fs::write(at("data/file"), "").expect("written");
        chown(at("data/file"), Some(1), None).expect("given");
        symlink("data", at("link")).expect("made");
        lchown(at("link"), Some(1), None).expect("given");
        for error in [
            PrivateDir::open(&at("theirs")).expect_err("theirs"),
            PrivateDir::open(&at("link")).expect_err("their link"),
            PrivateDir::create(&at("link/deep/data")).expect_err("through their link"),
            dir.subdirectory("sub", 0o700).expect_err("theirs"),
            dir.restrict_file("file", 0o600).expect_err("theirs"),
        ] {
            assert!(matches!(error, DirError::Owner { owner: 1, .. }), "{error}");
            assert!(error.to_string().contains("user 1 owns it"), "{error}");
        }
        assert!(!at("data/deep").exists(), "nothing is made there");
    }

    #[test]
    fn a_parent_that_every_user_may_write_is_named() {
        let parent = tempfile::tempdir().expect("a directory");
        let dir = PrivateDir::create(&parent.path().join("data")).expect("made");
        for (shared, expected) in [(0o777, true), (0o1777, false), (0o775, false)] {
            set(parent.path(), shared);
            assert_eq!(dir.exposed_parent().is_some(), expected, "{shared:o}");
        }
    }
}
