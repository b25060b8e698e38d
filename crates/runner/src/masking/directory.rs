//! The secrets of an attempt on its host: files in memory, for its processes and for those that mask its output.
//!
//! | name | holds |
//! |---|---|
//! | `values` | the values, with the variables that have them; read whenever a process of the attempt starts |
//! | `files/` | a file for each secret that is not only a variable |
//!
//! All of it belongs to the user of the attempt, with 0700 and 0600: its runner reads it, too. An agent creates it
//! before the attempt starts, and removes it when the attempt is over.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, chown};
use std::path::{Path, PathBuf};

use baton_model::json;
use rustix::fs::{Mode, OFlags, open};
use serde::{Deserialize, Serialize};

use crate::wire::Credentials;

const VALUES: &str = "values";
const FILES: &str = "files";
/// More than all secrets of a task take, as JSON.
const VALUES_BYTES_MAX: u64 = 64 << 20;

/// A secret as its attempt has it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldSecret {
    /// The variable that has it.
    pub env: Option<String>,
    /// The file below `files` that has it.
    pub file: Option<String>,
    pub value: Vec<u8>,
}

/// The directory of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretsDir(PathBuf);

impl SecretsDir {
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Its path, as launches have it.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    /// The directory with the files.
    #[must_use]
    pub fn files(&self) -> PathBuf {
        self.0.join(FILES)
    }

    /// Creates the directory, which must not be there, for its user.
    ///
    /// # Errors
    /// If it cannot be written; what there is of it is removed.
    pub fn create(&self, secrets: &[HeldSecret], owner: Option<&Credentials>) -> io::Result<()> {
        let created = self.write(secrets, owner);
        if created.is_err() {
            // The error says more than one of this.
            let _ = self.remove();
        }
        created
    }

    fn write(&self, secrets: &[HeldSecret], owner: Option<&Credentials>) -> io::Result<()> {
        let own = |path: &Path| match owner {
            Some(owner) => chown(path, Some(owner.uid), Some(owner.gid)),
            None => Ok(()),
        };
        let dir = |path: &Path| fs::DirBuilder::new().mode(0o700).create(path);
        let file = |path: PathBuf, bytes: &[u8]| {
            let mut options = fs::OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)?;
            file.write_all(bytes)?;
            own(&path)
        };
        dir(&self.0)?;
        file(self.0.join(VALUES), &serde_json::to_vec(secrets)?)?;
        let files = self.files();
        dir(&files)?;
        for secret in secrets {
            if let Some(name) = &secret.file {
                file(files.join(name), &secret.value)?;
            }
        }
        // The directories last: from then on anything in them may be a link.
        own(&files)?;
        own(&self.0)
    }

    /// The secrets.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn read(&self) -> io::Result<Vec<HeldSecret>> {
        // The user of the attempt may have put anything in its place, and this process may be root.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(open(self.0.join(VALUES), flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(VALUES_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(json::from_slice(&bytes)?)
    }

    /// Removes the directory, if it is there.
    ///
    /// # Errors
    /// If something of it is left.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl HeldSecret {
    /// The value as a variable has it: text, without the end of its last line.
    ///
    /// # Errors
    /// If a variable cannot have it.
    pub fn as_variable(&self) -> Result<&str, &'static str> {
        let text = std::str::from_utf8(&self.value).map_err(|_| "it is not text")?;
        if text.contains('\0') {
            return Err("it has a zero byte");
        }
        let text = text.strip_suffix('\n').unwrap_or(text);
        Ok(text.strip_suffix('\r').unwrap_or(text))
    }
}
