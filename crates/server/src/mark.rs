//! The mark of the store: a file beside it that recognises copies (`baton_core::leader`).
//!
//! It is written before a term is taken, and once a second while facts are committed. What it has
//! seen is durable, so a store that was not touched never contradicts it; a copy that is up to a
//! second older than the last write of its original may go unnoticed here.
//!
//! For a store in memory it keeps the epochs of the directory growing: workers obey no others.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use baton_fs::private;
use baton_model::json;
use baton_model::mark::{FileId, Mark, StoreState};
use baton_store::{FactLog, Fingerprint, StoreError};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::error::ServeError;
use crate::limits::MARK_PAUSE;

/// The mark of the store of one data directory.
#[derive(Debug)]
pub(crate) struct MarkFile {
    path: PathBuf,
    /// The file of the store; none if it is in memory.
    database: Option<PathBuf>,
    /// The last mark that was written.
    written: Mutex<Option<Mark>>,
    /// A directory of its own, which goes with it.
    #[cfg(test)]
    _temporary: Option<tempfile::TempDir>,
}

impl MarkFile {
    /// The mark of a store in a file.
    pub(crate) fn of(data: &Path, database: &Path) -> Self {
        Self {
            database: Some(database.to_owned()),
            ..Self::in_memory(data)
        }
    }

    /// The mark of a store in memory.
    pub(crate) fn in_memory(data: &Path) -> Self {
        Self {
            path: data.join("baton.mark"),
            database: None,
            written: Mutex::default(),
            #[cfg(test)]
            _temporary: None,
        }
    }

    /// The mark of a store in memory, in a directory that goes with it.
    #[cfg(test)]
    pub(crate) fn temporary() -> Self {
        let dir = tempfile::tempdir().expect("a place");
        let mark = Self::in_memory(dir.path());
        Self {
            _temporary: Some(dir),
            ..mark
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// False for a store in memory, which has no copies.
    pub(crate) const fn is_durable(&self) -> bool {
        self.database.is_some()
    }

    /// The state of the store.
    pub(crate) fn state_of(&self, store: &dyn FactLog) -> Result<StoreState, ServeError> {
        let found = store.fingerprint().map_err(ServeError::Store)?;
        self.state(&found)
    }

    fn state(&self, found: &Fingerprint) -> Result<StoreState, ServeError> {
        let file = match &self.database {
            Some(path) => file_id(path).map_err(failed(path))?,
            None => FileId::default(),
        };
        Ok(StoreState {
            store: found.store,
            file,
            epoch: found.epoch,
            last_fact: found.last_fact.0,
        })
    }

    /// The mark; none if there is none, or a damaged one.
    pub(crate) fn read(&self) -> Result<Option<Mark>, ServeError> {
        let text = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(failed(&self.path))?,
        };
        let mark = json::from_slice(&text);
        if let Err(error) = &mark {
            tracing::error!("{} is damaged: {error}", self.path.display());
        }
        Ok(mark.ok())
    }

    /// Writes the mark durably.
    pub(crate) fn write(&self, mark: Mark) -> Result<(), ServeError> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        self.replace(&mark).map_err(failed(&self.path))?;
        *written = Some(mark);
        Ok(())
    }

    /// Writes what has become durable since.
    fn refresh(&self, store: &dyn FactLog) -> Result<(), ServeError> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = &*written else {
            return Ok(());
        };
        let found = store.fingerprint().map_err(ServeError::Store)?;
        let seen = self.state(&found)?;
        if seen.epoch != last.next || seen == last.seen {
            return Ok(());
        }
        let recorded = found.generation == last.next;
        let mark = Mark {
            seen,
            next: last.next,
            copied: last.copied.clone().filter(|_| !recorded),
        };
        self.replace(&mark).map_err(failed(&self.path))?;
        *written = Some(mark);
        Ok(())
    }

    fn replace(&self, mark: &Mark) -> io::Result<()> {
        let new = self.path.with_extension("mark.new");
        let mut file = private::file_options()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&new)?;
        file.write_all(&serde_json::to_vec(mark)?)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        match self.path.parent() {
            Some(data) => File::open(data)?.sync_all(),
            None => Ok(()),
        }
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> ServeError {
    let path = path.to_owned();
    |error| match error.kind() {
        io::ErrorKind::StorageFull => {
            let what = format!("{}: the disk is full", path.display());
            ServeError::Store(StoreError::DiskFull(what))
        }
        _ => ServeError::Data { path, error },
    }
}

/// The identity of a file. Its device is no part of it: many file systems get another number with
/// each mount.
fn file_id(path: &Path) -> io::Result<FileId> {
    let file = fs::metadata(path)?;
    let created = file.created().ok();
    let created = created.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Ok(FileId {
        inode: file.ino(),
        created_ns: created.map_or(0, |at| u64::try_from(at.as_nanos()).unwrap_or(0)),
    })
}

/// Refreshes the mark after commits, at most once a second.
pub(crate) async fn keep(
    mark: Arc<MarkFile>,
    store: Arc<dyn FactLog>,
    mut committed: watch::Receiver<()>,
) {
    let mut reported = false;
    while committed.changed().await.is_ok() {
        sleep(MARK_PAUSE).await;
        committed.mark_unchanged();
        let (mark, store) = (Arc::clone(&mark), Arc::clone(&store));
        let refreshed = tokio::task::spawn_blocking(move || mark.refresh(&*store)).await;
        match refreshed {
            Ok(Ok(())) => reported = false,
            // An older mark recognises fewer copies, and does no harm.
            Ok(Err(error)) if !reported => {
                tracing::warn!("cannot refresh the mark of the store: {error}");
                reported = true;
            }
            Ok(Err(_)) => {}
            Err(error) => tracing::error!("refreshing the mark of the store panicked: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_core::step::{Outbox, Step};
    use baton_model::fact::{CopyEvidence, Fact};
    use baton_model::ids::Epoch;
    use baton_model::time::Wall;
    use baton_store::SqliteStore;

    use super::*;
    use crate::leadership::{self, Taken};

    /// Opens the store of a directory and takes it.
    fn take(data: &Path) -> (SqliteStore, MarkFile, Taken) {
        let path = data.join("baton.db");
        let store = SqliteStore::open(&path).expect("opens");
        let mark = MarkFile::of(data, &path);
        let taken = leadership::take(&store, &mark, Epoch(0), None).expect("free");
        (store, mark, taken)
    }

    fn evidence(data: &Path) -> Option<CopyEvidence> {
        take(data).2.copied
    }

    fn commit(store: &SqliteStore, epoch: Epoch, fact: Fact) {
        let step: Step<Fact, ()> = Step::keeping(vec![fact]);
        let batch = Outbox::new(epoch).accept(step).expect("a batch");
        let _receipt = store.commit(batch, Wall(0)).expect("it commits");
    }

    #[test]
    fn restarts_are_no_copies_and_a_damaged_mark_is_one_until_the_store_has_recorded_it() {
        let dir = tempfile::tempdir().expect("a place");
        let data = dir.path();
        assert_eq!([evidence(data), evidence(data)], [None, None]);
        fs::write(data.join("baton.mark"), "{").expect("written");
        let missing = Some(CopyEvidence::MarkMissing);
        assert_eq!(evidence(data), missing);
        let (store, mark, taken) = take(data);
        assert_eq!(taken.copied, missing, "not recorded yet");
        mark.refresh(&store).expect("written");
        drop(store);
        let (store, mark, taken) = take(data);
        assert_eq!(taken.copied, missing, "a term is no record");
        let (epoch, evidence_found) = (taken.epoch, CopyEvidence::MarkMissing);
        let opened = Fact::CopyOpened {
            epoch,
            evidence: evidence_found,
        };
        commit(&store, epoch, opened);
        mark.refresh(&store).expect("written");
        drop(store);
        assert_eq!(evidence(data), None);
    }

    #[test]
    fn a_mark_has_seen_what_was_committed_and_a_killed_take_is_no_copy() {
        let dir = tempfile::tempdir().expect("a place");
        let data = dir.path();
        let (store, mark, taken) = take(data);
        drop(store);
        let old = fs::read(data.join("baton.db")).expect("readable");
        let (store, mark_again, again) = take(data);
        assert!(again.epoch > taken.epoch);
        let lease = baton_model::time::Millis(7);
        commit(&store, again.epoch, Fact::LeaseTimeSet { lease });
        mark_again.refresh(&store).expect("written");
        // The mark of a leader that was killed before it took the store.
        let seen = mark_again.state_of(&store).expect("readable");
        drop(store);
        let next = seen.epoch.successor(1).expect("not the last");
        let killed = Mark {
            seen,
            next,
            copied: None,
        };
        mark.write(killed).expect("written");
        assert_eq!(evidence(data), None);
        fs::write(data.join("baton.db"), old).expect("written");
        assert_eq!(evidence(data), Some(CopyEvidence::OlderThanMark));
    }

    #[test]
    fn a_copied_directory_is_another_file() {
        let dir = tempfile::tempdir().expect("a place");
        let (data, clone) = (dir.path().join("data"), dir.path().join("clone"));
        for path in [&data, &clone] {
            fs::create_dir(path).expect("made");
        }
        drop(take(&data));
        for name in ["baton.db", "baton.mark"] {
            fs::copy(data.join(name), clone.join(name)).expect("copied");
        }
        assert_eq!(evidence(&clone), Some(CopyEvidence::OtherFile));
        assert_eq!(evidence(&data), None);
    }
}
