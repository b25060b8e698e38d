//! The library directory: files that define tasks and workflows, scanned periodically.
//!
//! A new or changed file becomes a revision, unless its definition equals the current one. An
//! unusable file changes nothing: its previous definition stays in force, and the error is shown
//! with the library and logged once. A task whose file is gone is removed. Tasks that were defined
//! over the API are left alone, unless a file takes one over.
//!
//! Of several schedulers that share a store, the leader reads its directory; so all of them need the
//! same files.
//!
//! Scans compare modification times and sizes every second: that works on every file system, and a
//! thousand files cost some milliseconds.

mod pending;
mod scan;

pub(crate) use pending::PendingScan;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use baton_core::scheduler::{Change, Command, DefineCommand, Precondition, RemoveCommand, Reply};
use baton_model::api::FileProblem;
use baton_model::library::{Definition, TaskName};
use baton_store::view::TaskQuery;
use baton_store::{StoreError, Views};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::driver::Status;
use crate::driver::event::{Inbox, Unanswered};
use crate::limits::LIBRARY_SCAN_PAUSE;
use crate::shutdown::until_shutdown;

use scan::FileStamp;

/// Errors of files that a server follows, as shown by the API.
#[derive(Clone, Debug)]
pub(crate) struct Problems {
    /// Their subject in the log.
    subject: &'static str,
    held: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Problems {
    pub(crate) fn of(subject: &'static str) -> Self {
        Self {
            subject,
            held: Arc::default(),
        }
    }

    pub(crate) fn all(&self) -> Vec<FileProblem> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let problems = held.iter().map(|(file, text)| FileProblem {
            file: file.clone(),
            text: text.clone(),
        });
        problems.collect()
    }

    /// Replaces all errors, and logs those that are new.
    pub(crate) fn replace(&self, new: BTreeMap<String, String>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        for (file, text) in &new {
            if held.get(file) != Some(text) {
                tracing::error!("{}: {file}: {text}", self.subject);
            }
        }
        *held = new;
    }

    /// Adds an error until the next scan has ended, and logs it.
    fn add(&self, file: &str, text: String) {
        tracing::error!("{}: {file}: {text}", self.subject);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.insert(file.to_owned(), text);
    }
}

/// Keeps the library in sync with a directory.
pub(crate) struct LibrarySync {
    pub(crate) directory: PathBuf,
    pub(crate) store: Arc<dyn Views>,
    pub(crate) inbox: Inbox,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) problems: Problems,
}

/// Stamp and definition of each file when it was last read; no stamp for what cannot be read at all.
type ParsedFiles = BTreeMap<
    String,
    (
        Option<FileStamp>,
        Result<(TaskName, Arc<Definition>), String>,
    ),
>;

/// Definitions that the scheduler has accepted.
#[derive(Default)]
struct AppliedFiles {
    /// By file.
    defined: BTreeMap<String, (TaskName, Arc<Definition>)>,
    /// The files and the owner of each task when orphaned tasks were last removed.
    settled: Option<(BTreeSet<String>, BTreeMap<TaskName, String>)>,
}

impl LibrarySync {
    /// Scans until shutdown.
    pub(crate) async fn run(self, mut shutdown: watch::Receiver<bool>) {
        let mut known = ParsedFiles::new();
        let mut applied = AppliedFiles::default();
        loop {
            if self.status.borrow().follows() {
                // The leader reads its own directory. What it has changed meanwhile is not known here.
                applied = AppliedFiles::default();
                self.problems.replace(BTreeMap::new());
            } else {
                let Some(read) = self.scan(known, &mut shutdown).await else {
                    return;
                };
                known = self.sync_once(read, &mut applied).await;
            }
            tokio::select! {
                () = until_shutdown(&mut shutdown) => return,
                () = sleep(LIBRARY_SCAN_PAUSE) => {}
            }
        }
    }

    /// Scans once. `None` at shutdown.
    async fn scan(
        &self,
        known: ParsedFiles,
        shutdown: &mut watch::Receiver<bool>,
    ) -> Option<Result<ParsedFiles, (io::Error, ParsedFiles)>> {
        let directory = self.directory.clone();
        let started = PendingScan::start(move |place| {
            let read = scan::scan(&directory, &known, place);
            read.map_err(|error| (error, known))
        });
        let scanned = match started {
            Ok(pending) => pending.result(&self.problems, shutdown).await,
            Err(error) => Some(Err((error, ParsedFiles::new()))),
        };
        match scanned {
            Some(scanned) => Some(scanned),
            None if *shutdown.borrow() => None,
            // It has panicked, which was logged; the next scan starts anew.
            None => Some(Err((
                io::Error::other("the scan has panicked"),
                ParsedFiles::new(),
            ))),
        }
    }

    /// Applies the changes that a scan has found.
    async fn sync_once(
        &self,
        read: Result<ParsedFiles, (io::Error, ParsedFiles)>,
        applied: &mut AppliedFiles,
    ) -> ParsedFiles {
        let read = match read {
            Ok(read) => read,
            Err((error, known)) => {
                // An unreadable directory is not an empty one: all tasks stay.
                let text = format!("cannot read the library directory: {error}");
                self.problems
                    .replace(BTreeMap::from([(".".to_owned(), text)]));
                return known;
            }
        };
        let mut problems = BTreeMap::new();
        let mut owners: BTreeMap<TaskName, String> = BTreeMap::new();
        for (file, (_, parsed)) in &read {
            let (name, definition) = match parsed {
                Ok(parsed) => parsed,
                Err(text) => {
                    problems.insert(file.clone(), text.clone());
                    continue;
                }
            };
            if let Some(other) = owners.get(name) {
                let text = format!("{other} already defines {name}; remove one of the two");
                problems.insert(file.clone(), text);
                continue;
            }
            owners.insert(name.clone(), file.clone());
            let before = applied.defined.get(file);
            if before.is_some_and(|it| it.0 == *name && it.1 == *definition) {
                continue;
            }
            match self.define(name, definition).await {
                Ok(()) => {
                    let defined = (name.clone(), Arc::clone(definition));
                    applied.defined.insert(file.clone(), defined);
                }
                Err(text) => drop(problems.insert(file.clone(), text)),
            }
        }
        applied.defined.retain(|file, _| read.contains_key(file));
        let now = Some((read.keys().cloned().collect(), owners));
        if applied.settled != now
            && let Some((files, owners)) = &now
        {
            match self.remove_others(files, owners).await {
                Ok(()) => applied.settled = now,
                Err(text) => drop(problems.insert(".".to_owned(), text)),
            }
        }
        self.problems.replace(problems);
        read
    }

    async fn define(&self, name: &TaskName, definition: &Arc<Definition>) -> Result<(), String> {
        let command = Box::new(DefineCommand {
            name: name.clone(),
            definition: Arc::clone(definition),
            expected: Precondition::Anything,
            by_file: true,
            dry: false,
        });
        let Reply::Defined(defined) = self.command(Command::Define(command)).await? else {
            return Err("the scheduler gave the reply to another command".to_owned());
        };
        let defined = defined.map_err(|error| error.to_string())?;
        if defined.change != Change::Unchanged {
            let file = definition.file.as_deref().unwrap_or_default();
            let revision = defined.revision.0;
            tracing::info!("library: {name} is at revision {revision}, from {file}");
        }
        Ok(())
    }

    /// Removes tasks whose file is gone, or defines another task now.
    async fn remove_others(
        &self,
        files: &BTreeSet<String>,
        owners: &BTreeMap<TaskName, String>,
    ) -> Result<(), String> {
        let store = Arc::clone(&self.store);
        let from_files = tokio::task::spawn_blocking(move || from_files(&*store));
        let from_files = match from_files.await {
            Ok(found) => found.map_err(|error| format!("cannot read the store: {error}"))?,
            Err(error) => return Err(format!("cannot read the store: {error}")),
        };
        for (name, file) in from_files {
            let stays = match owners.get(&name) {
                Some(_) => true,
                // An unusable file, or one in an unusable directory, may be the one that defined it.
                None => is_among(files, &file) && !owners.values().any(|it| *it == file),
            };
            if stays {
                continue;
            }
            let command = RemoveCommand {
                name: name.clone(),
                expected: Precondition::Anything,
                by_file: true,
            };
            let Reply::Removed(removed) = self.command(Command::Remove(command)).await? else {
                return Err("the scheduler gave the reply to another command".to_owned());
            };
            removed.map_err(|error| format!("{name}: {error}"))?;
            tracing::info!("library: {name} is removed: {file} no longer defines it");
        }
        Ok(())
    }

    async fn command(&self, command: Command) -> Result<Reply, String> {
        match self.inbox.command(None, command).await {
            Ok(answer) => answer.map_err(|unanswered| match unanswered {
                Unanswered::StoreFailed(reason) => reason,
                Unanswered::Follows => "another scheduler leads".to_owned(),
            }),
            Err(_) => Err("the scheduler does not answer".to_owned()),
        }
    }
}

/// True if the file, or a directory that it is in, is among these.
fn is_among(files: &BTreeSet<String>, file: &str) -> bool {
    let mut ancestors = Path::new(file).ancestors();
    ancestors.any(|it| it.to_str().is_some_and(|it| files.contains(it)))
}

/// The tasks defined by files, with their files.
fn from_files(store: &dyn Views) -> Result<Vec<(TaskName, String)>, StoreError> {
    let mut found = Vec::new();
    let mut query = TaskQuery {
        limit: usize::MAX,
        ..TaskQuery::default()
    };
    loop {
        let page = store.tasks(&query)?;
        for task in page.items {
            if let Some(file) = &task.definition.file {
                found.push((task.name.clone(), file.clone()));
            }
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(found),
        }
    }
}
