//! The data directory of a scheduler: nothing in it is for other users.
//!
//! Files are 0600 and the directory is 0700; those of older versions are repaired when it is opened. Below the data
//! directory of `baton up` lies the state of its worker, whose tasks run as other users if it belongs to root:
//! then the way there, and no more, stays open (0711). A directory that also holds files of others, because
//! `--data` names a shared one, is not ours to close.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The state directory of a worker that shares the data directory with its scheduler.
const WORKER: &str = "worker";

/// Prefixes of the names of files in a data directory.
const FILES: [&str; 5] = [
    "baton.",
    "scheduler.lock",
    "scheduler.log",
    "worker.log",
    "run.",
];

const STICKY: u32 = 0o1000;

/// Creates the directory if it is missing, and takes the rights of other users.
///
/// # Errors
/// If it cannot be created or read, or the rights in it cannot be changed.
pub fn open(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let mut has_others = false;
    let mut has_worker = false;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_ours = FILES
            .iter()
            .any(|file| name.as_encoded_bytes().starts_with(file.as_bytes()));
        if is_ours && entry.file_type()?.is_file() {
            restrict(&entry.path(), 0o600)?;
        } else if name == WORKER {
            has_worker = true;
        } else {
            has_others = true;
        }
    }
    let found = fs::metadata(path)?;
    let is_shared = has_others || found.mode() & STICKY != 0;
    if is_shared {
        return Ok(());
    }
    let is_root = rustix::process::geteuid().is_root();
    restrict(path, if is_root && has_worker { 0o711 } else { 0o700 })
}

/// The same, with a worker's state directory in it, whose path is returned.
///
/// # Errors
/// As [`open`].
pub fn open_with_worker(path: &Path) -> io::Result<PathBuf> {
    let worker = path.join(WORKER);
    open(path)?;
    match DirBuilder::new().mode(0o700).create(&worker) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    open(path)?;
    Ok(worker)
}

/// Sets the mode of an entry, unless it belongs to another user, who has to know.
fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    let metadata = match fs::metadata(path) {
        // SQLite removes its own files at any time.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata?,
    };
    if metadata.mode() & 0o777 == mode {
        return Ok(());
    }
    match fs::set_permissions(path, Permissions::from_mode(mode)) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::PermissionDenied
                    | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            Ok(())
        }
        changed => changed,
    }
}

#[cfg(test)]
mod tests {
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
}
