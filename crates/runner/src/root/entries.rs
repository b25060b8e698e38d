//! Registering a task, finishing it, and listing tasks.
//!
//! An entry shows that a task exists, and by its directory whether it has ended. Each change is one
//! rename, made durable before the call returns.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use baton_fs::private;
use baton_model::json;

use super::{Root, RootError, TaskId};
use crate::record::Header;

/// Whether a task has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Phase {
    /// It has not ended, whether or not a runner drives it.
    Active,
    /// It has ended.
    Finished,
}

/// A registered task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub id: TaskId,
    pub phase: Phase,
}

/// Readable by all users; private data is in the checkpoints.
const OPEN_DIR: u32 = 0o755;
/// The logs hold environments, and a process that can connect to a socket can kill the task.
const PRIVATE_DIR: u32 = 0o700;

impl Entry {
    /// True for the entry of this task, if it has not ended.
    #[must_use]
    pub fn is_active(&self, id: &TaskId) -> bool {
        self.phase == Phase::Active && self.id == *id
    }
}

impl Root {
    /// Creates the directories that a new task needs, except its sandbox: that one may be
    /// elsewhere, and belongs to the user that the task runs as.
    ///
    /// # Errors
    /// If one cannot be created.
    pub fn prepare(&self, id: &TaskId) -> Result<(), RootError> {
        make_dir_all(&self.entries(Phase::Active), OPEN_DIR)?;
        make_dir_all(&self.entries(Phase::Finished), OPEN_DIR)?;
        make_dir_all(&self.sandboxes(), OPEN_DIR)?;
        make_dir_all(&self.checkpoints(), OPEN_DIR)?;
        make_dir_all(&self.checkpoint(id), PRIVATE_DIR)
    }

    /// Registers the task, durably. From here on it is listed.
    ///
    /// # Errors
    /// If its id is invalid, or the entry cannot be written.
    pub fn register(&self, header: &Header) -> Result<(), RootError> {
        let id = TaskId::new(&header.task_id)?;
        let dir = self.entries(Phase::Active);
        let path = self.entry(&id, Phase::Active);
        // No id begins with a dot, so a partial file is never listed.
        let temporary = dir.join(format!(".{id}.new"));
        let bytes = serde_json::to_vec_pretty(header).map_err(|error| RootError::BadEntry {
            path: path.clone(),
            error,
        })?;
        write_durably(&temporary, &bytes)
            .map_err(|error| RootError::io("write", &temporary, error))?;
        fs::rename(&temporary, &path).map_err(|error| RootError::io("write", &path, error))?;
        sync_dir(&dir)
    }

    /// Files the task as ended. Idempotent.
    ///
    /// # Errors
    /// If there is no such task, or the entry cannot be moved.
    pub fn finish(&self, id: &TaskId) -> Result<(), RootError> {
        let (from, to) = (
            self.entry(id, Phase::Active),
            self.entry(id, Phase::Finished),
        );
        match fs::rename(&from, &to) {
            Ok(()) => {}
            // Moved by an earlier call, which may have died before its sync.
            Err(error) if error.kind() == io::ErrorKind::NotFound && to.exists() => {}
            Err(error) => return Err(RootError::io("finish", &from, error)),
        }
        sync_dir(&self.entries(Phase::Finished))?;
        sync_dir(&self.entries(Phase::Active))
    }

    /// Every task, ordered by id. A root that does not exist has none.
    ///
    /// # Errors
    /// If a directory of entries cannot be read.
    pub fn list(&self) -> Result<Vec<Entry>, RootError> {
        let mut found = BTreeMap::new();
        // In this order: a task with both entries has ended.
        for phase in [Phase::Active, Phase::Finished] {
            for id in ids_in(&self.entries(phase))? {
                found.insert(id, phase);
            }
        }
        let entries = found.into_iter();
        Ok(entries.map(|(id, phase)| Entry { id, phase }).collect())
    }

    /// Whether this task has ended; `None` if there is no such task.
    ///
    /// # Errors
    /// If the entries cannot be read.
    pub fn phase(&self, id: &TaskId) -> Result<Option<Phase>, RootError> {
        for phase in [Phase::Finished, Phase::Active] {
            let path = self.entry(id, phase);
            let exists = path.try_exists();
            if exists.map_err(|error| RootError::io("check", &path, error))? {
                return Ok(Some(phase));
            }
        }
        Ok(None)
    }

    /// The header of the task, read from its entry.
    ///
    /// # Errors
    /// If the entry cannot be read or parsed.
    pub fn header(&self, entry: &Entry) -> Result<Header, RootError> {
        let path = self.entry(&entry.id, entry.phase);
        let bytes = fs::read(&path).map_err(|error| RootError::io("read", &path, error))?;
        json::from_slice(&bytes).map_err(|error| RootError::BadEntry { path, error })
    }
}

/// The names in a directory that are ids; none if there is no such directory.
pub(super) fn ids_in(dir: &Path) -> Result<Vec<TaskId>, RootError> {
    let names = match fs::read_dir(dir) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(RootError::io("list", dir, error)),
    };
    let mut ids = Vec::new();
    for name in names {
        let name = name.map_err(|error| RootError::io("list", dir, error))?;
        // Other names are not ours: a partial entry, or a foreign file.
        ids.extend(
            name.file_name()
                .to_str()
                .and_then(|text| TaskId::new(text).ok()),
        );
    }
    ids.sort();
    Ok(ids)
}

/// Creates a directory and, readable by all users, its ancestors. Each new one is durable.
fn make_dir_all(path: &Path, mode: u32) -> Result<(), RootError> {
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => path.parent().map_or(Ok(()), sync_dir),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = path
                .parent()
                .ok_or_else(|| RootError::io("make", path, error))?;
            make_dir_all(parent, OPEN_DIR)?;
            // Another runner may have been faster.
            match DirBuilder::new().mode(mode).create(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    Err(RootError::io("make", path, error))
                }
                _ => sync_dir(parent),
            }
        }
        Err(error) => Err(RootError::io("make", path, error)),
    }
}

/// Writes a file that other users cannot read: a header holds an environment too.
fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = private::file_options()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

pub(super) fn sync_dir(path: &Path) -> Result<(), RootError> {
    File::open(path)
        .and_then(|dir| dir.sync_all())
        .map_err(|error| RootError::io("sync", path, error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::testing::{entry, header, temp_root};
    use super::*;

    fn mode(path: &Path) -> u32 {
        let meta = fs::metadata(path).expect("it was made");
        meta.permissions().mode() & 0o777
    }

    #[test]
    fn checkpoints_and_headers_are_private() {
        let (_dir, root) = temp_root();
        let id = TaskId::new("a").expect("good");
        root.prepare(&id).expect("made");
        root.prepare(&id).expect("made twice is made");
        root.register(&header(&root, "a", 0)).expect("written");
        assert_eq!(mode(&root.checkpoint(&id)), 0o700);
        assert_eq!(mode(&root.entry(&id, Phase::Active)), 0o600);
        assert!(root.entries(Phase::Finished).is_dir());
        assert!(root.sandboxes().is_dir() && !root.sandbox(&id).exists());
    }

    #[test]
    fn a_task_is_active_from_registering_to_finishing() {
        let (_dir, root) = temp_root();
        assert_eq!(root.list().expect("no root, no tasks"), []);
        let id = TaskId::new("a").expect("good");
        root.prepare(&id).expect("made");
        assert_eq!(root.phase(&id).expect("readable"), None);
        let header = header(&root, "a", 0);
        root.register(&header).expect("written");
        assert_eq!(root.list().expect("listed"), [entry("a", Phase::Active)]);
        let read = root.header(&entry("a", Phase::Active));
        assert_eq!(read.expect("as it was written"), header);
        root.finish(&id).expect("moved");
        root.finish(&id).expect("finished twice is finished");
        assert_eq!(root.list().expect("listed"), [entry("a", Phase::Finished)]);
        assert_eq!(root.phase(&id).expect("readable"), Some(Phase::Finished));
    }

    #[test]
    fn a_task_with_both_entries_has_ended() {
        let (_dir, root) = temp_root();
        for name in ["b", "a"] {
            root.prepare(&TaskId::new(name).expect("good"))
                .expect("made");
            root.register(&header(&root, name, 0)).expect("written");
        }
        let id = TaskId::new("b").expect("good");
        root.finish(&id).expect("moved");
        root.register(&header(&root, "b", 0)).expect("written");
        let both = [entry("a", Phase::Active), entry("b", Phase::Finished)];
        assert_eq!(root.list().expect("listed"), both);
        root.finish(&id)
            .expect("the later entry replaces the earlier");
        assert!(!root.entry(&id, Phase::Active).exists());
    }

    #[test]
    fn finishing_what_does_not_exist_is_an_error() {
        let (_dir, root) = temp_root();
        root.prepare(&TaskId::new("a").expect("good"))
            .expect("made");
        let error = root.finish(&TaskId::new("b").expect("good"));
        assert!(
            error
                .expect_err("no such task")
                .to_string()
                .starts_with("cannot finish ")
        );
    }

    #[test]
    fn what_is_no_entry_is_not_listed() {
        let (_dir, root) = temp_root();
        root.prepare(&TaskId::new("a").expect("good"))
            .expect("made");
        let dir = root.entries(Phase::Active);
        fs::write(dir.join(".a.new"), "half an ent").expect("written");
        fs::write(dir.join("not an id"), "").expect("written");
        assert_eq!(root.list().expect("listed"), []);
    }
}
