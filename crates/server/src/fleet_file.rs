//! The file of fleets: fleets are defined, changed and drained as it says.
//!
//! It is read again when it has changed, as the library directory is. A file that is missing or has errors
//! changes nothing: the definitions before stay in force, and the error is shown with the fleets and logged once. A
//! fleet that the file no longer has is drained. Fleets that a command has defined are left alone, and one of the
//! same name in the file is an error. Of several schedulers that share a store, the leader reads its file.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use baton_core::scheduler::{Command, FleetCommand, Reply};
use baton_files::FleetsFile;
use baton_model::fleet::{FleetName, FleetSpec};
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use crate::driver::Status;
use crate::driver::event::{Event, Inbox, Unanswered};
use crate::library::{PendingScan, Problems};
use crate::limits::LIBRARY_SCAN_PAUSE;
use crate::shutdown::until_shutdown;

/// Keeps fleets in sync with a file.
pub(crate) struct FleetFileSync {
    pub(crate) file: PathBuf,
    pub(crate) inbox: Inbox,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) problems: Problems,
}

/// What identifies a version of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
}

/// The file as it was read last.
#[derive(Clone)]
struct Known {
    stamp: Stamp,
    read: Result<Arc<FleetsFile>, String>,
}

impl FleetFileSync {
    /// Follows the file until shutdown.
    pub(crate) async fn run(self, mut shutdown: watch::Receiver<bool>) {
        let mut known: Option<Known> = None;
        let mut is_settled = false;
        loop {
            if self.status.borrow().follows() {
                // The leader reads its own file. What it has changed meanwhile is not known here.
                (known, is_settled) = (None, false);
                self.problems.replace(BTreeMap::new());
            } else {
                let Some(read) = self.read(known.clone(), &mut shutdown).await else {
                    return;
                };
                let is_same =
                    known.as_ref().map(|it| it.stamp) == read.as_ref().ok().map(|it| it.stamp);
                is_settled = is_same && is_settled;
                if !is_settled {
                    is_settled = self.apply(&read).await;
                }
                known = read.ok();
            }
            tokio::select! {
                () = until_shutdown(&mut shutdown) => return,
                () = sleep(LIBRARY_SCAN_PAUSE) => {}
            }
        }
    }

    /// Reads the file if it has changed. `None` at shutdown.
    async fn read(
        &self,
        known: Option<Known>,
        shutdown: &mut watch::Receiver<bool>,
    ) -> Option<Result<Known, String>> {
        let path = self.file.clone();
        let started = PendingScan::start(move |place| {
            place.set(&path.display().to_string());
            read(&path, known).map_err(|error| error.to_string())
        });
        let scanned = match started {
            Ok(pending) => pending.result(&self.problems, shutdown).await,
            Err(error) => Some(Err(error.to_string())),
        };
        match scanned {
            None if *shutdown.borrow() => None,
            // It has panicked, which was logged; the next look starts anew.
            None => Some(Err("reading it has panicked".to_owned())),
            scanned => scanned,
        }
    }

    /// Applies what was read; true if nothing is left to do until the file changes.
    async fn apply(&self, read: &Result<Known, String>) -> bool {
        let read = match read {
            Ok(known) => known.read.as_ref().map_err(Clone::clone),
            Err(error) => Err(format!("the file cannot be read: {error}")),
        };
        let mut problems = Vec::new();
        match read {
            Ok(file) => {
                for (name, spec) in &file.fleets {
                    problems.extend(self.define(name, spec).await.err());
                }
                problems.extend(self.drain_others(file).await.err());
            }
            Err(text) => problems.push(text),
        }
        let is_settled = problems.is_empty();
        let text = problems.join("\n");
        let problems = (!is_settled).then(|| (self.shown(), text));
        self.problems.replace(problems.into_iter().collect());
        is_settled
    }

    async fn define(&self, name: &FleetName, spec: &FleetSpec) -> Result<(), String> {
        let define = FleetCommand::Define {
            name: name.clone(),
            spec: Arc::new(spec.clone()),
            file: Some(self.shown()),
        };
        self.command(define).await
    }

    /// Drains the fleets that a file has defined, and that this one does not have.
    async fn drain_others(&self, file: &FleetsFile) -> Result<(), String> {
        for name in self.defined_by_files().await? {
            if file.fleets.contains_key(&name) {
                continue;
            }
            let remove = FleetCommand::Remove {
                name: name.clone(),
                drain: true,
                by_file: true,
            };
            self.command(remove).await?;
            let file = self.file.display();
            tracing::info!("fleets: {name} is drained: {file} no longer defines it");
        }
        Ok(())
    }

    /// The fleets that files have defined.
    async fn defined_by_files(&self) -> Result<Vec<FleetName>, String> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Event::Query(Box::new(move |leader| {
            let names = leader.map(|leader| {
                let fleets = leader.ledger().fleets().iter();
                let live = fleets.filter(|it| it.file.is_some() && it.removed.is_none());
                live.map(|it| it.name.clone()).collect()
            });
            // This server may be ending.
            let _ = reply.send(names);
        })));
        match answer.await {
            Ok(names) => names.map_err(unanswered),
            Err(_) => Err("the scheduler does not answer".to_owned()),
        }
    }

    async fn command(&self, command: FleetCommand) -> Result<(), String> {
        let command = Command::Fleet(Box::new(command));
        match self.inbox.command(None, command).await {
            Ok(Ok(Reply::Fleet(done))) => done.map_err(|error| error.to_string()),
            Ok(Ok(_)) => Err("the scheduler gave the reply to another command".to_owned()),
            Ok(Err(error)) => Err(unanswered(error)),
            Err(_) => Err("the scheduler does not answer".to_owned()),
        }
    }

    fn shown(&self) -> String {
        self.file.display().to_string()
    }
}

fn unanswered(unanswered: Unanswered) -> String {
    match unanswered {
        Unanswered::StoreFailed(reason) => reason,
        Unanswered::Follows => "another scheduler leads".to_owned(),
    }
}

/// The file as it is now; not parsed again if it is as it was.
fn read(path: &Path, known: Option<Known>) -> io::Result<Known> {
    let metadata = std::fs::metadata(path)?;
    let stamp = Stamp {
        modified: metadata.modified().ok(),
        bytes: metadata.len(),
    };
    Ok(match known {
        Some(known) if known.stamp == stamp => known,
        _ => {
            let read = baton_files::load_fleets(path);
            Known {
                stamp,
                read: read.map(Arc::new).map_err(|errors| errors.to_string()),
            }
        }
    })
}
