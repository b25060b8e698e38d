//! The data directory of a scheduler: nothing in it is for other users.
//!
//! Files are 0600 and the directory is 0700; those of older versions are repaired when it is opened. Below the data
//! directory of `baton up` lies the state of its worker, whose tasks run as other users if it belongs to root:
//! then the way there, and no more, stays open (0711). A directory that also holds other files, because
//! `--data` names one that the user has for more, is not ours to close.
//!
//! A directory that another user owns or may write is refused ([`baton_fs::private`]), and so are links
//! in place of its files.

use std::path::{Path, PathBuf};

use baton_fs::private::{DirError, PrivateDir};

/// The state directory of a worker that shares the data directory with its scheduler.
const WORKER: &str = "worker";

/// Prefixes of the names of files in a data directory.
const FILES: [&str; 6] = [
    "baton.",
    "scheduler.",
    "worker.log",
    "run.json",
    "run.lock",
    "run.new",
];

/// Creates the directory if it is missing, and takes the rights of other users.
///
/// # Errors
/// If it cannot be created or read, if another user may change it, or if an entry with the name of a file is none.
pub fn open(path: &Path) -> Result<PrivateDir, DirError> {
    let dir = PrivateDir::create(path)?;
    restrict(&dir)?;
    Ok(dir)
}

/// The same, with a worker's state directory in it, whose path is returned.
///
/// # Errors
/// As [`open`].
pub fn open_with_worker(path: &Path) -> Result<PathBuf, DirError> {
    let dir = PrivateDir::create(path)?;
    let is_root = rustix::process::geteuid().is_root();
    dir.subdirectory(WORKER, if is_root { 0o711 } else { 0o700 })?;
    restrict(&dir)?;
    Ok(path.join(WORKER))
}

/// Checks a directory that must exist, and changes nothing.
///
/// # Errors
/// If it does not exist, or another user may change it.
pub fn check(path: &Path) -> Result<(), DirError> {
    PrivateDir::open(path).map(drop)
}

fn restrict(dir: &PrivateDir) -> Result<(), DirError> {
    let mut has_others = false;
    let mut has_worker = false;
    for name in dir.names()? {
        if FILES.iter().any(|file| name.starts_with(file)) {
            dir.restrict_file(&name, 0o600)?;
        } else if name == WORKER {
            has_worker = true;
        } else {
            has_others = true;
        }
    }
    if has_others {
        return Ok(());
    }
    let is_root = rustix::process::geteuid().is_root();
    dir.set_mode(if is_root && has_worker { 0o711 } else { 0o700 })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").mode() & 0o777
    }

    #[test]
    fn a_new_directory_is_closed_and_one_of_an_older_version_is_repaired() {
        let parent = tempfile::tempdir().expect("a directory");
        let data = parent.path().join("above").join("data");
        open(&data).expect("made");
        assert_eq!(mode(&data), 0o700);
        assert_ne!(
            mode(&parent.path().join("above")) & 0o011,
            0,
            "only the last is ours"
        );
        let files = [
            "baton.db",
            "baton.db-wal",
            "baton.mark",
            "scheduler.lock",
            "run.json",
        ];
        for name in files {
            fs::write(data.join(name), "").expect("written");
            fs::set_permissions(data.join(name), Permissions::from_mode(0o644)).expect("ours");
        }
        fs::set_permissions(&data, Permissions::from_mode(0o755)).expect("ours");
        open(&data).expect("opened");
        assert_eq!(mode(&data), 0o700);
        for name in files {
            assert_eq!(mode(&data.join(name)), 0o600, "{name}");
        }
        open_with_worker(&data).expect("opened");
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(mode(&data), if is_root { 0o711 } else { 0o700 });
    }

    #[test]
    fn a_directory_with_files_of_others_stays_open() {
        let data = tempfile::tempdir().expect("a directory");
        let data = data.path();
        fs::write(data.join("notes"), "").expect("written");
        fs::write(data.join("baton.db"), "").expect("written");
        for name in ["", "notes", "baton.db"] {
            fs::set_permissions(data.join(name), Permissions::from_mode(0o755)).expect("ours");
        }
        open(data).expect("opened");
        assert_eq!(mode(data), 0o755);
        assert_eq!(mode(&data.join("notes")), 0o755);
        assert_eq!(mode(&data.join("baton.db")), 0o600);
    }

    #[test]
    fn a_link_in_place_of_a_file_is_refused_and_its_target_stays() {
        let parent = tempfile::tempdir().expect("a directory");
        let target = parent.path().join("target");
        fs::write(&target, "text").expect("written");
        fs::set_permissions(&target, Permissions::from_mode(0o644)).expect("ours");
        for name in ["scheduler.lock", "baton.db", "baton.mark", "run.json"] {
            let data = parent.path().join(name);
            fs::create_dir(&data).expect("made");
            symlink(&target, data.join(name)).expect("made");
            let error = open(&data).expect_err("a link");
            assert!(matches!(error, DirError::Kind { .. }), "{error}");
            assert!(error.to_string().contains(name), "{error}");
        }
        let data = parent.path().join("shared");
        fs::create_dir(&data).expect("made");
        symlink(parent.path(), data.join(WORKER)).expect("made");
        open_with_worker(&data).expect_err("a link");
        assert_eq!(mode(&target), 0o644);
        assert_eq!(fs::read(&target).expect("there"), b"text");
    }
}
