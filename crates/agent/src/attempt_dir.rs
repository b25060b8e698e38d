//! The directory of an attempt, with the files that it needs before it starts.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use baton_model::ids::LeaseId;
use baton_model::json;
use baton_model::secret::SECRETS_LINK;
use baton_model::spec::Uri;
use baton_model::task::TaskSpec;
use baton_runner::sys::users;
use baton_runner::wire::Credentials;
use serde::{Deserialize, Serialize};

/// The runner's directory, within the directory of its attempt.
pub(crate) const RUNNER_DIR: &str = ".baton";
/// The [`TaskFile`] in that directory.
pub(crate) const TASK_FILE: &str = "task.json";

/// The files that an attempt fetches, as passed to the command that fetches them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchList {
    pub uris: Vec<Uri>,
    /// A file with certificates (PEM) that are trusted beside those of the system.
    pub ca: Option<PathBuf>,
    pub cache: Option<FetchCache>,
    /// The directory of the command that follows, if not that of the files.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
}

/// The cache of fetched files, of one user of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchCache {
    pub dir: PathBuf,
    pub bytes_max: u64,
}

/// The task of an attempt, as passed to its runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFile {
    /// The id of the task.
    pub id: String,
    pub spec: TaskSpec,
    /// Added to the environment of every process.
    pub env: Vec<(String, String)>,
    /// The signal by which its processes are warned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<i32>,
    /// Variables of the runner's own environment that name its devices, and that every process gets
    /// whatever its definition says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_variables: Vec<String>,
    /// The directory with its secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<String>,
}

impl TaskFile {
    /// Loads the file from the runner's directory.
    ///
    /// # Errors
    /// If it does not exist or is invalid.
    pub fn load(dir: &Path) -> io::Result<Self> {
        Ok(json::from_slice(&fs::read(dir.join(TASK_FILE))?)?)
    }
}

/// The unique name of an attempt's files.
pub(crate) fn dir_name(lease: LeaseId) -> String {
    let attempt = lease.attempt;
    format!("{}.{}.{}", attempt.instance, attempt.number.0, lease.epoch)
}

/// A file of an attempt: its subdirectory, if any, its name, and its content.
pub(crate) type AttemptFile<'a> = (&'a str, &'a str, Vec<u8>);

/// Creates an attempt's directory with these files and a link to its secrets, for its user. This happens once, before the
/// first launch, and the directory itself changes its owner last: from then on everything in it may
/// be a link, and this process may be root.
pub(crate) fn prepare_dir(
    dir: &Path,
    owner: Option<&Credentials>,
    files: &[AttemptFile<'_>],
    secrets: Option<&Path>,
) -> io::Result<()> {
    let has_link = secrets.is_none_or(|_| dir.join(SECRETS_LINK).is_symlink());
    let there = |(below, name, _): &AttemptFile<'_>| dir.join(below).join(name).try_exists();
    if files.iter().try_fold(has_link, |all, file| {
        Ok::<_, io::Error>(all && there(file)?)
    })? {
        return Ok(());
    }
    let make = |path: &Path| fs::DirBuilder::new().mode(0o700).create(path);
    make(dir)?;
    for (below, name, bytes) in files {
        let within = dir.join(below);
        if !below.is_empty() {
            make(&within)?;
            chown_to(&within, owner)?;
        }
        let path = within.join(name);
        File::create_new(&path)?.write_all(bytes)?;
        chown_to(&path, owner)?;
    }
    if let Some(secrets) = secrets {
        symlink(secrets, dir.join(SECRETS_LINK))?;
    }
    chown_to(dir, owner)
}

/// Creates a user's directory below `parent`, unless it is there. The parent belongs to the worker:
/// no user can put anything else in its place.
pub(crate) fn user_dir(parent: &Path, owner: Option<&Credentials>) -> io::Result<PathBuf> {
    let uid = owner.map_or_else(users::effective_uid, |owner| owner.uid);
    let dir = parent.join(uid.to_string());
    match fs::DirBuilder::new().mode(0o700).create(&dir) {
        Ok(()) => chown_to(&dir, owner)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(dir)
}

fn chown_to(path: &Path, owner: Option<&Credentials>) -> io::Result<()> {
    match owner {
        Some(owner) => chown(path, Some(owner.uid), Some(owner.gid)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_was_given_away_is_not_written_into_again() {
        let outer = tempfile::tempdir().expect("a directory");
        let dir = outer.path().join("work");
        let files = [(RUNNER_DIR, TASK_FILE, b"{}".to_vec())];
        prepare_dir(&dir, None, &files, None).expect("made");
        prepare_dir(&dir, None, &files, None).expect("there already");
        let elsewhere = outer.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("made");
        fs::remove_dir_all(dir.join(RUNNER_DIR)).expect("removed");
        std::os::unix::fs::symlink(&elsewhere, dir.join(RUNNER_DIR)).expect("linked");
        assert!(prepare_dir(&dir, None, &files, None).is_err());
        assert!(!elsewhere.join(TASK_FILE).exists());
    }
}
