//! The state directory: who this worker is, and how many lives it has had.
//!
//! | name | holds |
//! |---|---|
//! | `agent.lock` | held by the one agent; its number |
//! | `lineage` | a random number, drawn when the directory was made |
//! | `lives` | the life that is or was lived last, its boot, the highest epoch obeyed |
//! | `inherited` | what a coordinator before the present one had on record |
//! | `checkpoint/` | the coordinator's own |
//! | `work/`, `logs/` | directories and output of attempts |
//!
//! A file is replaced whole: written beside, synced, renamed, and the directory synced.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use baton_model::ids::{BootId, Epoch, HostId, Life, Lineage};
use baton_runner::sys::{random, users};
use baton_runner::wire::Guard;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::runs::Inherited;

const LOCK: &str = "agent.lock";
const LINEAGE: &str = "lineage";
const LIVES: &str = "lives";
const INHERITED: &str = "inherited";

/// Directories of attempts, as the coordinator knows them.
pub(crate) const WORK: &str = "work";
/// Output of attempts, likewise.
pub(crate) const LOGS: &str = "logs";

/// What is known of the lives lived here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lives {
    /// The last that was begun; 0 if none was.
    pub(crate) life: Life,
    pub(crate) boot: BootId,
    /// The highest epoch that was ever obeyed.
    pub(crate) epoch: Epoch,
    /// The life has given up: whatever else there is, it only ends.
    pub(crate) dying: bool,
}

/// What a coordinator before the present one had on record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Estate {
    /// Its order of the dead-man timer.
    pub(crate) guard: Option<Guard>,
    /// The attempts.
    pub(crate) runs: Vec<Inherited>,
}

/// The state directory, in the hands of its one agent.
#[derive(Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
    pub(crate) lineage: Lineage,
    pub(crate) lives: Lives,
    _lock: File,
}

impl StateDir {
    /// Opens the directory, and makes it if need be.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let path = std::path::absolute(path).map_err(Error::io("name the state directory"))?;
        if path.to_str().is_none() {
            let text = "the path of the state directory is not UTF-8; name another with --state";
            return Err(Error::Invalid(text.to_owned()));
        }
        let make = |dir: PathBuf| {
            fs::create_dir_all(&dir).map_err(Error::io(format!("make {}", dir.display())))
        };
        make(path.clone())?;
        let lock = lock(&path)?;
        for name in [WORK, LOGS, "checkpoint"] {
            make(path.join(name))?;
        }
        let lineage = match load::<Lineage>(&path, LINEAGE)? {
            Some(lineage) => lineage,
            None => {
                let lineage = Lineage(random::number());
                save(&path, LINEAGE, &lineage)?;
                lineage
            }
        };
        let lives = load(&path, LIVES)?.unwrap_or(Lives {
            life: Life(0),
            boot: BootId(0),
            epoch: Epoch(0),
            dying: false,
        });
        Ok(Self {
            path,
            lineage,
            lives,
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn checkpoint(&self) -> PathBuf {
        self.path.join("checkpoint")
    }

    /// The word that every process of this worker carries, in whichever life.
    pub(crate) fn mark(&self) -> String {
        format!("w{:016x}", self.lineage.0)
    }

    /// Keeps what has changed about the lives; durable when this returns.
    pub(crate) fn set_lives(&mut self, lives: Lives) -> Result<(), Error> {
        save(&self.path, LIVES, &lives)?;
        self.lives = lives;
        Ok(())
    }

    /// What was inherited. One that cannot be read is as if nobody had seen what it says.
    pub(crate) fn estate(&self) -> Estate {
        match load(&self.path, INHERITED) {
            Ok(estate) => estate.unwrap_or_default(),
            Err(error) => {
                tracing::error!("{error}; what it says is lost");
                Estate::default()
            }
        }
    }

    /// Keeps what the next coordinator does not know.
    pub(crate) fn set_estate(&self, estate: &Estate) -> Result<(), Error> {
        if !estate.runs.is_empty() || estate.guard.is_some() {
            return save(&self.path, INHERITED, estate);
        }
        match fs::remove_file(self.path.join(INHERITED)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("clear what was inherited")(error))
            }
            _ => Ok(()),
        }
    }
}

fn lock(path: &Path) -> Result<File, Error> {
    let name = path.join(LOCK);
    let failed = || Error::io(format!("lock {}", name.display()));
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&name)
        .map_err(failed())?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            // Who it is, is only a help.
            let _ = file.read_to_string(&mut text);
            return Err(Error::Locked {
                path: path.to_owned(),
                pid: text.trim().parse().ok(),
            });
        }
        Err(TryLockError::Error(error)) => return Err(failed()(error)),
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(failed())?;
    Ok(file)
}

fn load<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<Option<T>, Error> {
    let path = dir.join(name);
    let failed = || Error::io(format!("read {}", path.display()));
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| failed()(error.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed()(error)),
    }
}

fn save(dir: &Path, name: &str, value: &impl Serialize) -> Result<(), Error> {
    let path = dir.join(name);
    let beside = dir.join(format!("{name}.new"));
    let write = || {
        let mut file = File::create(&beside)?;
        serde_json::to_writer(&mut file, value)?;
        file.sync_all()?;
        fs::rename(&beside, &path)?;
        File::open(dir)?.sync_all()
    };
    write().map_err(Error::io(format!("write {}", path.display())))
}

/// This machine: by its id, or where it has none, by its name.
pub(crate) fn host_id() -> HostId {
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let id = id.trim();
    let id = if id.is_empty() {
        users::hostname()
    } else {
        id.to_owned()
    };
    // FNV-1a: the number must stay the same from version to version.
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    HostId(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_its_lineage_and_its_lives() {
        let place = tempfile::tempdir().expect("a directory");
        let mut first = StateDir::open(place.path()).expect("opens");
        let lives = Lives {
            life: Life(3),
            boot: BootId(7),
            epoch: Epoch(9),
            dying: true,
        };
        assert_eq!(first.lives.life, Life(0));
        first.set_lives(lives).expect("writable");
        let lineage = first.lineage;
        drop(first);
        let second = StateDir::open(place.path()).expect("opens");
        assert_eq!((second.lineage, second.lives), (lineage, lives));
    }

    #[test]
    fn a_second_agent_is_told_who_has_the_directory() {
        let place = tempfile::tempdir().expect("a directory");
        let _first = StateDir::open(place.path()).expect("opens");
        let error = StateDir::open(place.path()).expect_err("locked");
        let me = std::process::id();
        assert!(error.to_string().contains(&format!("pid {me}")), "{error}");
    }

    #[test]
    fn two_directories_are_two_lineages() {
        let (one, other) = (tempfile::tempdir(), tempfile::tempdir());
        let lineage = |place: io::Result<tempfile::TempDir>| {
            let place = place.expect("a directory");
            StateDir::open(place.path()).expect("opens").lineage
        };
        assert_ne!(lineage(one), lineage(other));
    }
}
