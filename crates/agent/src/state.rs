//! The state directory: the worker's identity and its incarnation counter.
//!
//! | name | holds |
//! |---|---|
//! | `agent.lock` | held by the one agent; its process id |
//! | `lineage` | a random number, generated with the directory, and the directory that it belongs to |
//! | `lives` | the counter of the last incarnation, its boot, the highest epoch obeyed |
//! | `inherited` | handover: the attempts that an earlier coordinator had on record |
//! | `checkpoint/` | the coordinator's own log |
//! | `work/`, `logs/` | directories and output of attempts |
//! | `cache/` | fetched files, in one directory for each user |
//!
//! A lineage belongs to one directory on one machine. In a copy, of the directory or of the whole machine,
//! it finds another machine id, inode or creation time, and a new lineage begins: the incarnations of the
//! original say nothing about the processes here, and its processes are not ours to kill. The device is not
//! compared, since many file systems get another number with each mount.
//!
//! Other users may read nothing here: directories are 0700 and files 0600. A worker of root runs
//! work as other users, who must be able to reach their own directory below `work/` and `cache/`:
//! there the way is 0711. Directories of older versions are repaired when they are opened. A directory that another
//! user owns or may write is refused, and so are links in it ([`baton_fs::private`]).
//!
//! A file is replaced atomically: written to a temporary file, synced, renamed, and the directory
//! synced.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use baton_core::supervision::takeover::KnownAttempt;
use baton_fs::private::{self, PrivateDir};
use baton_model::ids::{BootId, Epoch, HostId, IncarnationNo, Lineage};
use baton_model::json;
use baton_runner::coordinator::is_running;
use baton_runner::sys::{random, users};
use baton_runner::wire::Guard;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;

const LOCK_FILE: &str = "agent.lock";
const LINEAGE_FILE: &str = "lineage";
const WORKER_STATE_FILE: &str = "lives";
const HANDOVER_FILE: &str = "inherited";

/// Directories of attempts, relative to the coordinator's sandbox.
pub(crate) const WORK: &str = "work";
/// Output of attempts, likewise.
pub(crate) const LOGS: &str = "logs";

/// Fetched files, in one directory for each user.
pub(crate) const CACHE: &str = "cache";
/// The directory of the coordinator's log.
pub(crate) const CHECKPOINT: &str = "checkpoint";

/// The durable state of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkerState {
    /// The counter of the last incarnation; 0 if there was none.
    #[serde(alias = "life")]
    pub(crate) incarnation: IncarnationNo,
    pub(crate) boot: BootId,
    /// The highest epoch ever obeyed.
    pub(crate) epoch: Epoch,
    /// The incarnation was given up: it can only end.
    pub(crate) dying: bool,
}

/// The record of a coordinator that is gone, for its successor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Handover {
    /// Its order of the dead-man timer.
    pub(crate) guard: Option<Guard>,
    #[serde(rename = "runs")]
    pub(crate) attempts: Vec<KnownAttempt>,
}

/// The state directory, locked by its one agent.
#[derive(Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
    pub(crate) lineage: Lineage,
    pub(crate) worker_state: WorkerState,
    _lock: File,
}

/// What a lineage belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    /// Of the machine, if it has a machine id.
    machine: Option<HostId>,
    inode: u64,
    /// 0 if the file system does not record it.
    created_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LineageRecord {
    lineage: Lineage,
    place: Place,
}

/// The file `lineage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum LineageFile {
    Bound(LineageRecord),
    /// Of an older version.
    Unbound(Lineage),
}

impl LineageFile {
    const fn lineage(self) -> Lineage {
        match self {
            Self::Bound(record) => record.lineage,
            Self::Unbound(lineage) => lineage,
        }
    }
}

impl StateDir {
    /// Opens the directory, and creates it if it is missing.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let path = std::path::absolute(path).map_err(Error::io("resolve the state directory"))?;
        if path.to_str().is_none() {
            let text = "the path of the state directory is not UTF-8; choose another with --state";
            return Err(Error::Invalid(text.to_owned()));
        }
        let dir = PrivateDir::create(&path)?;
        if let Some(parent) = dir.exposed_parent() {
            tracing::warn!(
                "every user may write in {} and so replace {}; take away that right, or set the sticky bit",
                parent.display(),
                path.display()
            );
        }
        dir.restrict_file(LOCK_FILE, 0o600)?;
        let lock = lock(&path)?;
        protect(&dir)?;
        let lineage = open_lineage(&path)?;
        let worker_state = load(&path, WORKER_STATE_FILE)?.unwrap_or(WorkerState {
            incarnation: IncarnationNo(0),
            boot: BootId(0),
            epoch: Epoch(0),
            dying: false,
        });
        Ok(Self {
            path,
            lineage,
            worker_state,
            _lock: lock,
        })
    }

    /// Begins a new lineage, because this directory is a copy. No process of ours runs.
    pub(crate) fn renew_lineage(&mut self) -> Result<(), Error> {
        self.lineage = renew_lineage(&self.path)?;
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The mark that every process of this worker carries, in every incarnation.
    pub(crate) fn mark(&self) -> String {
        mark_of(self.lineage)
    }

    /// Replaces the worker's state; durable when this returns.
    pub(crate) fn set_worker_state(&mut self, worker_state: WorkerState) -> Result<(), Error> {
        save(&self.path, WORKER_STATE_FILE, &worker_state)?;
        self.worker_state = worker_state;
        Ok(())
    }

    /// Reads the handover. If it cannot be read, its attempts are treated as unobserved.
    pub(crate) fn handover(&self) -> Handover {
        match load(&self.path, HANDOVER_FILE) {
            Ok(handover) => handover.unwrap_or_default(),
            Err(error) => {
                tracing::error!("{error}; its attempts are treated as lost");
                Handover::default()
            }
        }
    }

    /// Saves what the next coordinator does not know.
    pub(crate) fn set_handover(&self, handover: &Handover) -> Result<(), Error> {
        if !handover.attempts.is_empty() || handover.guard.is_some() {
            return save(&self.path, HANDOVER_FILE, handover);
        }
        remove(&self.path, HANDOVER_FILE)
    }
}

/// Reads the lineage, or begins a new one.
fn open_lineage(path: &Path) -> Result<Lineage, Error> {
    let here = place_of(path)?;
    let record = match load::<LineageFile>(path, LINEAGE_FILE)? {
        None => new_lineage(here),
        Some(LineageFile::Bound(record)) if record.place == here => return Ok(record.lineage),
        // A coordinator that runs in it has not been copied.
        Some(LineageFile::Bound(_)) if !is_running(&path.join(CHECKPOINT)) => {
            tracing::warn!(
                "{} is a copy of the state directory of another worker; it gets an identity of its own",
                path.display()
            );
            return renew_lineage(path);
        }
        Some(file) => LineageRecord {
            lineage: file.lineage(),
            place: here,
        },
    };
    save(path, LINEAGE_FILE, &record)?;
    Ok(record.lineage)
}

/// Begins a new lineage. What the directory knows of the one before is removed first: the processes on
/// record are those of the original.
fn renew_lineage(path: &Path) -> Result<Lineage, Error> {
    let checkpoint = path.join(CHECKPOINT);
    let failed = Error::io(format!("clear {}", checkpoint.display()));
    fs::remove_dir_all(&checkpoint).map_err(failed)?;
    for name in [WORKER_STATE_FILE, HANDOVER_FILE] {
        remove(path, name)?;
    }
    protect(&PrivateDir::open(path)?)?;
    let record = new_lineage(place_of(path)?);
    save(path, LINEAGE_FILE, &record)?;
    Ok(record.lineage)
}

fn new_lineage(place: Place) -> LineageRecord {
    let lineage = Lineage(random::number());
    LineageRecord { lineage, place }
}

fn place_of(path: &Path) -> Result<Place, Error> {
    let metadata = fs::metadata(path).map_err(Error::io("inspect the state directory"))?;
    let created = metadata.created().ok();
    let created = created.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Ok(Place {
        machine: machine_id().map(|id| hashed(&id)),
        inode: metadata.ino(),
        created_ns: created.map_or(0, |at| u64::try_from(at.as_nanos()).unwrap_or(0)),
    })
}

/// Takes the rights of other users to everything but the way to their own directories. Missing directories
/// are made.
fn protect(dir: &PrivateDir) -> Result<(), Error> {
    let way = if users::effective_uid() == 0 {
        0o711
    } else {
        0o700
    };
    for name in [LOCK_FILE, LINEAGE_FILE, WORKER_STATE_FILE, HANDOVER_FILE] {
        dir.restrict_file(name, 0o600)?;
    }
    for (name, mode) in [
        (WORK, way),
        (CACHE, way),
        (LOGS, 0o700),
        (CHECKPOINT, 0o700),
    ] {
        dir.subdirectory(name, mode)?;
    }
    dir.set_mode(way)?;
    Ok(())
}

fn mark_of(lineage: Lineage) -> String {
    format!("w{:016x}", lineage.0)
}

/// The mark of the worker whose directory this is, even if the directory cannot be used.
pub(crate) fn known_mark(path: &Path) -> Option<String> {
    let file: Option<LineageFile> = load(path, LINEAGE_FILE).ok().flatten();
    file.map(|file| mark_of(file.lineage()))
}

fn lock(path: &Path) -> Result<File, Error> {
    let name = path.join(LOCK_FILE);
    let failed = || Error::io(format!("lock {}", name.display()));
    let mut file = private::file_options()
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
            // The process id is only a hint.
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
    let read = || {
        let mut bytes = Vec::new();
        let mut file = private::file_options().read(true).open(&path)?;
        file.read_to_end(&mut bytes).map(|_| bytes)
    };
    match read() {
        Ok(bytes) => json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| failed()(error.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed()(error)),
    }
}

fn remove(dir: &Path, name: &str) -> Result<(), Error> {
    match fs::remove_file(dir.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io(format!("remove the file {name}"))(error))
        }
        _ => Ok(()),
    }
}

fn save(dir: &Path, name: &str, value: &impl Serialize) -> Result<(), Error> {
    let path = dir.join(name);
    let temporary = dir.join(format!("{name}.new"));
    let write = || {
        let mut file = private::file_options()
            .create(true)
            .truncate(true)
            .write(true)
            .open(&temporary)?;
        serde_json::to_writer(&mut file, value)?;
        file.sync_all()?;
        fs::rename(&temporary, &path)?;
        File::open(dir)?.sync_all()
    };
    write().map_err(Error::io(format!("write {}", path.display())))
}

/// An id of this machine: from its machine id, or from its host name if it has none.
pub(crate) fn host_id() -> HostId {
    hashed(&machine_id().unwrap_or_else(users::hostname))
}

fn machine_id() -> Option<String> {
    let id = fs::read_to_string("/etc/machine-id").ok()?;
    let id = id.trim();
    (!id.is_empty()).then(|| id.to_owned())
}

fn hashed(id: &str) -> HostId {
    // FNV-1a: the id must be the same in every version.
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    HostId(hash)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_directory_keeps_its_lineage_and_its_worker_state() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut first = StateDir::open(dir.path()).expect("opens");
        let worker_state = WorkerState {
            incarnation: IncarnationNo(3),
            boot: BootId(7),
            epoch: Epoch(9),
            dying: true,
        };
        assert_eq!(first.worker_state.incarnation, IncarnationNo(0));
        first.set_worker_state(worker_state).expect("writable");
        let lineage = first.lineage;
        drop(first);
        let second = StateDir::open(dir.path()).expect("opens");
        assert_eq!(
            (second.lineage, second.worker_state),
            (lineage, worker_state)
        );
    }

    #[test]
    fn the_worker_state_of_an_older_version_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        drop(StateDir::open(dir.path()).expect("opens"));
        let older = r#"{"life":3,"boot":7,"epoch":9,"dying":false}"#;
        std::fs::write(dir.path().join(WORKER_STATE_FILE), older).expect("writable");
        let opened = StateDir::open(dir.path()).expect("opens");
        assert_eq!(opened.worker_state.incarnation, IncarnationNo(3));
    }

    #[test]
    fn a_directory_of_an_older_version_is_closed_to_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let mode = |name: &str| {
            let metadata = fs::metadata(dir.path().join(name)).expect("there");
            metadata.permissions().mode() & 0o777
        };
        fs::write(dir.path().join(HANDOVER_FILE), "{\"runs\":[]}").expect("written");
        for name in ["", HANDOVER_FILE] {
            let open = Permissions::from_mode(0o755);
            fs::set_permissions(dir.path().join(name), open).expect("ours");
        }
        let state = StateDir::open(dir.path()).expect("opens");
        for name in [LOCK_FILE, LINEAGE_FILE, HANDOVER_FILE] {
            assert_eq!(mode(name), 0o600, "{name}");
        }
        assert_eq!((mode(LOGS), mode(CHECKPOINT)), (0o700, 0o700));
        for name in ["", WORK] {
            assert_eq!(mode(name) & 0o066, 0, "{name}");
        }
        let guard = Handover::default();
        state.set_handover(&guard).expect("writable");
    }

    #[test]
    fn links_are_refused_and_their_targets_stay() {
        let parent = tempfile::tempdir().expect("a directory");
        let at = |name: &str| parent.path().join(name);
        let (file, folder) = (at("file"), at("folder"));
        fs::write(&file, "text").expect("written");
        fs::create_dir(&folder).expect("made");
        for (path, mode) in [(&file, 0o644), (&folder, 0o755)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
        }
        let files = [LOCK_FILE, LINEAGE_FILE, WORKER_STATE_FILE, HANDOVER_FILE];
        let folders = [WORK, LOGS, CACHE, CHECKPOINT];
        let files = files.map(|name| (name, &file));
        for (name, target) in files.into_iter().chain(folders.map(|name| (name, &folder))) {
            let state = at(&format!("state-{name}"));
            fs::create_dir(&state).expect("made");
            symlink(target, state.join(name)).expect("made");
            let error = StateDir::open(&state).expect_err("a link").to_string();
            assert!(error.contains("a symbolic link"), "{error}");
            assert!(error.contains(name) && error.contains("--state"), "{error}");
        }
        let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o777;
        assert_eq!((mode(&file), mode(&folder)), (0o644, 0o755));
        assert_eq!(fs::read(&file).expect("there"), b"text");
        assert_eq!(fs::read_dir(&folder).expect("there").count(), 0);
    }

    #[test]
    fn a_second_agent_learns_which_process_uses_the_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let _first = StateDir::open(dir.path()).expect("opens");
        let error = StateDir::open(dir.path()).expect_err("locked");
        let me = std::process::id();
        assert!(error.to_string().contains(&format!("pid {me}")), "{error}");
    }

    #[test]
    fn a_copy_of_a_directory_is_another_worker() {
        let parent = tempfile::tempdir().expect("a directory");
        let (original, copy) = (parent.path().join("original"), parent.path().join("copy"));
        let mut state = StateDir::open(&original).expect("opens");
        let worker_state = WorkerState {
            incarnation: IncarnationNo(3),
            boot: BootId(7),
            epoch: Epoch(9),
            dying: false,
        };
        state.set_worker_state(worker_state).expect("writable");
        let guard = Guard {
            deadline: baton_model::time::Mono(5),
            grace: baton_model::time::Millis(1),
            kill_max: baton_model::time::Millis(9),
            epoch: Epoch(9),
            stamp: baton_model::time::Stamp(baton_model::time::Mono(4)),
        };
        let (guard, attempts) = (Some(guard), Vec::new());
        state
            .set_handover(&Handover { guard, attempts })
            .expect("writable");
        fs::write(original.join(CHECKPOINT).join("coordinator"), "log").expect("writable");
        let copied = std::process::Command::new("cp")
            .arg("-a")
            .arg(&original)
            .arg(&copy)
            .status();
        assert!(copied.is_ok_and(|status| status.success()));

        let other = StateDir::open(&copy).expect("opens");
        assert_ne!(other.lineage, state.lineage);
        assert_eq!(other.worker_state.incarnation, IncarnationNo(0));
        assert_eq!(other.handover(), Handover::default());
        let left = fs::read_dir(copy.join(CHECKPOINT)).expect("there").count();
        assert_eq!(left, 0, "the processes of the original are not ours");
        let lineage = other.lineage;
        drop(other);
        assert_eq!(StateDir::open(&copy).expect("opens").lineage, lineage);
        // Moving a directory within its file system copies nothing.
        drop(state);
        let before = known_mark(&original);
        let moved = parent.path().join("moved");
        fs::rename(&original, &moved).expect("moved");
        assert_eq!(
            StateDir::open(&moved).expect("opens").worker_state,
            worker_state
        );
        assert_eq!(known_mark(&moved), before);
    }

    #[test]
    fn a_lineage_of_an_older_version_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join(LINEAGE_FILE), "77").expect("writable");
        for _ in 0..2 {
            assert_eq!(
                StateDir::open(dir.path()).expect("opens").lineage,
                Lineage(77)
            );
        }
    }

    #[test]
    fn two_directories_are_two_lineages() {
        let (one, other) = (tempfile::tempdir(), tempfile::tempdir());
        let lineage = |dir: io::Result<tempfile::TempDir>| {
            let dir = dir.expect("a directory");
            StateDir::open(dir.path()).expect("opens").lineage
        };
        assert_ne!(lineage(one), lineage(other));
    }
}
