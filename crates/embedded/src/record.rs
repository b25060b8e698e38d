//! The record of a `baton run` directory: its instance or run, durable across crashes.
//!
//! This process may crash between a submission and recording its id. So it first records the
//! submission with an idempotency key. The next process sends it again: whether or not it had
//! arrived, the answer is its id.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use baton_fs::private::file_options;
use baton_model::json;
use baton_terminal::output::{FAILED, Failure, INTERNAL, clean};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::io_failure;

const NAME: &str = "run.json";
const LOCK: &str = "run.lock";

/// The content of `run.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RunRecord {
    /// Id of the instance or run; `None` while its submission is in flight.
    instance: Option<u64>,
    /// Hash of the submitted file and parameters.
    hash: String,
    /// The submission in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    in_flight: Option<InFlight>,
}

/// A submission that may or may not have arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct InFlight {
    key: String,
    body: Value,
}

/// The locked data directory.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    _lock: File,
}

impl RunDirectory {
    /// Locks a data directory; the lock ends with the value.
    pub fn open(data: &Path) -> Result<Self, Failure> {
        let path = data.join(LOCK);
        let lock = lock(&path)?;
        Ok(Self {
            path: data.join(NAME),
            _lock: lock,
        })
    }

    /// Locks a directory in which a run was recorded; `None` while a command holds it.
    pub(crate) fn look_into(data: &Path) -> Result<Option<Self>, Failure> {
        let recorded = data.join(NAME);
        if !recorded.is_file() {
            return Err(Failure::usage(format!(
                "{} is not the data directory of a `baton run`, which prints it; a server is asked \
                 with --url",
                clean(&data.display().to_string())
            )));
        }
        match Self::open(data) {
            Ok(directory) => Ok(Some(directory)),
            Err(Failure::Message(FAILED, _)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Submits something, and records its id. `send` gets the submission and its idempotency key.
    pub async fn submit(
        &self,
        submit: &impl Serialize,
        hash: &str,
        send: impl AsyncFn(Value, &str) -> Result<u64, Failure>,
    ) -> Result<u64, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanos = now.map_or(0, |now| now.as_nanos());
        let record = RunRecord {
            instance: None,
            hash: hash.to_owned(),
            in_flight: Some(InFlight {
                key: format!("{}-{nanos}", std::process::id()),
                body: serde_json::to_value(submit)?,
            }),
        };
        self.write(&record)?;
        let sent = self.complete(record, send).await?;
        Ok(sent.map_or(0, |(id, _)| id))
    }

    /// The id of what an earlier process has submitted, and its hash. A submission in flight is
    /// completed first.
    pub async fn earlier(
        &self,
        send: impl AsyncFn(Value, &str) -> Result<u64, Failure>,
    ) -> Result<Option<(u64, String)>, Failure> {
        match self.read()? {
            Some(record) => self.complete(record, send).await,
            None => Ok(None),
        }
    }

    async fn complete(
        &self,
        record: RunRecord,
        send: impl AsyncFn(Value, &str) -> Result<u64, Failure>,
    ) -> Result<Option<(u64, String)>, Failure> {
        match (record.instance, record.in_flight) {
            (Some(id), _) => Ok(Some((id, record.hash))),
            (None, Some(InFlight { key, body })) => {
                let id = send(body, &key).await?;
                self.submitted(id, &record.hash)?;
                Ok(Some((id, record.hash)))
            }
            (None, None) => Ok(None),
        }
    }

    /// Records the id of what was submitted with this hash.
    pub fn submitted(&self, id: u64, hash: &str) -> Result<(), Failure> {
        self.write(&RunRecord {
            instance: Some(id),
            hash: hash.to_owned(),
            in_flight: None,
        })
    }

    fn read(&self) -> Result<Option<RunRecord>, Failure> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_failure(&self.path, &error)),
        };
        json::from_slice(&text).map(Some).map_err(|error| {
            Failure::Message(
                INTERNAL,
                format!(
                    "{} is damaged: {error}; repair it, or use another directory with --data",
                    self.path.display()
                ),
            )
        })
    }

    /// Writes the record atomically and durably.
    fn write(&self, record: &RunRecord) -> Result<(), Failure> {
        let written = || -> io::Result<()> {
            let temporary = self.path.with_extension("new");
            let mut file = private(&temporary)?;
            file.write_all(&serde_json::to_vec(record)?)?;
            file.sync_all()?;
            fs::rename(&temporary, &self.path)?;
            let dir = self.path.parent().unwrap_or(Path::new("."));
            File::open(dir)?.sync_all()
        };
        written().map_err(|error| io_failure(&self.path, &error))
    }
}

/// Creates an empty file that other users cannot read.
pub(crate) fn private(path: &Path) -> io::Result<File> {
    let mut options = file_options();
    options.write(true).create(true).truncate(true).open(path)
}

/// Locks the directory, and writes our pid into the lock file for the error of a second process.
fn lock(path: &Path) -> Result<File, Failure> {
    let open = file_options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    let mut file = open.map_err(|error| io_failure(path, &error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The pid is informative only.
            let _ = file.read_to_string(&mut holder);
            return Err(Failure::Message(
                FAILED,
                format!(
                    "already running, by pid {}; wait for it, or use another directory with --data",
                    clean(holder.trim())
                ),
            ));
        }
        Err(TryLockError::Error(error)) => return Err(io_failure(path, &error)),
    }
    let write_pid = || -> io::Result<()> {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    let mut write_pid = write_pid;
    write_pid().map_err(|error| io_failure(path, &error))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_is_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let directory = RunDirectory::open(dir.path()).expect("not locked");
        assert_eq!(directory.read().expect("readable"), None);
        for instance in [None, Some(7)] {
            let record = RunRecord {
                instance,
                hash: "h".to_owned(),
                in_flight: None,
            };
            directory.write(&record).expect("writable");
            assert_eq!(directory.read().expect("readable"), Some(record));
        }
        fs::write(dir.path().join(NAME), "{").expect("writable");
        assert!(matches!(
            directory.read(),
            Err(Failure::Message(INTERNAL, _))
        ));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_submission_whose_answer_was_lost_is_sent_again_with_its_key() {
        let dir = tempfile::tempdir().expect("a directory");
        let directory = RunDirectory::open(dir.path()).expect("not locked");
        let sent = RefCell::new(Vec::new());
        let lost = async |body: Value, key: &str| {
            sent.borrow_mut().push((body, key.to_owned()));
            Err(Failure::Silent(FAILED))
        };
        let submitted = directory.submit(&"a task", "h", lost).await;
        assert!(submitted.is_err());
        let answered = async |body: Value, key: &str| {
            sent.borrow_mut().push((body, key.to_owned()));
            Ok(7)
        };
        let earlier = directory.earlier(answered).await.expect("an answer");
        assert_eq!(earlier, Some((7, "h".to_owned())));
        let never = async |_: Value, _: &str| panic!("its id is known");
        let earlier = directory.earlier(never).await.expect("an answer");
        assert_eq!(earlier, Some((7, "h".to_owned())));
        let sent = sent.into_inner();
        assert_eq!(sent.len(), 2);
        assert_eq!(sent[0], sent[1], "the same submission, with the same key");
    }

    #[test]
    fn a_directory_is_run_once_at_a_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = RunDirectory::open(dir.path()).expect("not locked");
        match RunDirectory::open(dir.path()) {
            Err(Failure::Message(FAILED, message)) => {
                let pid = std::process::id();
                assert!(message.contains(&format!("by pid {pid};")), "{message}");
            }
            other => panic!("{other:?}"),
        }
        drop(first);
        RunDirectory::open(dir.path()).expect("it is free again");
    }
}
