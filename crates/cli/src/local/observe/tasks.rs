//! The tasks of the roots: listed, found by an address, and read.
//!
//! Everything is read as from a directory of another user: no link below a root is followed. The
//! log of a task names its sandbox, and the owner of a root may have written anything there, so as
//! root only logs are read that belong to that owner.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use baton_model::message::{LogStart, LogStream};
use baton_model::task::RunNo;
use baton_runner::logs::{LogSource, Piece, ProcessLogs};
use baton_runner::root::{Entry, Phase, Root, TaskView, ViewError, find_roots};
use baton_runner::sys::users;
use baton_web::pages::host::TaskSummary;
use sha2::{Digest as _, Sha256};

use crate::local::status::{counts, note_for};
use crate::output::Failure;

/// Where tasks are looked for.
#[derive(Clone, Debug)]
pub(super) enum Host {
    /// In these roots.
    Roots(Vec<Root>),
    /// In all roots of this host; this one is the caller's.
    All { own: Option<Root> },
}

/// A task that is listed.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) root: Root,
    pub(super) entry: Entry,
}

impl Host {
    pub(super) fn new(roots: &[PathBuf], own: Option<Root>) -> Result<Self, Failure> {
        if roots.is_empty() {
            return Ok(Self::All { own });
        }
        let roots = roots.iter().map(|path| {
            // The path of the command line may contain links; those below it are not followed.
            let found = std::fs::canonicalize(path);
            let found = found.map_err(|error| {
                let path = path.display();
                Failure::usage(format!(
                    "cannot open the root {path}: {error}; check --root"
                ))
            })?;
            Ok(Root::new(found)?)
        });
        roots.collect::<Result<_, Failure>>().map(Self::Roots)
    }

    fn roots(&self) -> Vec<Root> {
        match self {
            Self::Roots(roots) => roots.clone(),
            Self::All { own } => find_roots(own.as_ref(), users::effective_uid() == 0),
        }
    }

    /// The roots in words.
    pub(super) fn text(&self) -> String {
        let paths = |roots: &[Root]| {
            let paths = roots.iter().map(|root| root.path().display().to_string());
            paths.collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Roots(roots) => paths(roots),
            Self::All { .. } => "any root of this host".to_owned(),
        }
    }

    /// The tasks that match: those that run first, then the latest.
    pub(super) fn list(&self, phase: Option<Phase>, pattern: &str) -> Vec<Task> {
        let mut found = Vec::new();
        for root in self.roots() {
            let entries = root.list_guarded().into_iter();
            let entries = entries
                .filter(|entry| phase.is_none_or(|phase| entry.phase == phase))
                .filter(|entry| pattern.is_empty() || entry.id.matches(pattern));
            found.extend(entries.map(|entry| Task {
                root: root.clone(),
                entry,
            }));
        }
        found.sort_by_cached_key(|task| {
            let newest_first = std::cmp::Reverse(task.registered());
            (task.entry.phase, newest_first, task.entry.clone())
        });
        found
    }

    /// The task of an address: the key of its root, and its id.
    pub(super) fn find(&self, root: &str, id: &str) -> Option<Task> {
        let root = self.roots().into_iter().find(|it| key(it.path()) == root)?;
        let mut entries = root.list_guarded().into_iter();
        let entry = entries.find(|entry| entry.id.as_str() == id)?;
        Some(Task { root, entry })
    }
}

/// The name of a root in addresses.
fn key(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let digest = Sha256::digest(path.as_os_str().as_bytes());
    let digits = digest.iter().take(6).map(|byte| format!("{byte:02x}"));
    digits.collect()
}

impl Task {
    /// When its entry was written.
    fn registered(&self) -> Option<SystemTime> {
        let path = self.root.entry(&self.entry.id, self.entry.phase);
        std::fs::symlink_metadata(path).ok()?.modified().ok()
    }

    pub(super) fn view(&self) -> Result<TaskView, ViewError> {
        TaskView::load_guarded(&self.root, self.entry.clone())
    }

    pub(super) fn summary(&self, view: &Result<TaskView, ViewError>) -> TaskSummary {
        let summary = TaskSummary {
            root_key: key(self.root.path()),
            root: self.root.path().display().to_string(),
            id: self.entry.id.to_string(),
            state: None,
            note: String::new(),
            processes: String::new(),
            user: String::new(),
            began_ms: None,
            ended_ms: None,
        };
        let view = match view {
            Ok(view) => view,
            Err(error) => {
                return TaskSummary {
                    note: error.to_string(),
                    ..summary
                };
            }
        };
        let history = &view.history;
        TaskSummary {
            state: Some(view.state()),
            note: note_for(&self.root, view),
            processes: counts(&history.plan),
            user: history.header.user.clone(),
            began_ms: Some(history.header.began.wall.0),
            ended_ms: history.ended().map(|at| at.wall.0),
            ..summary
        }
    }

    /// The logs of a process in the definition of the task.
    pub(super) fn logs(&self, view: &TaskView, process: &str) -> Option<ProcessLogs> {
        let header = &view.history.header;
        let known = header.spec.processes.iter();
        let known = known
            .map(|spec| &*spec.name.0)
            .find(|name| *name == process)?;
        let logs = ProcessLogs::new(Path::new(&header.sandbox), known)?;
        // Without privileges the kernel decides what can be read.
        if users::effective_uid() != 0 {
            return Some(logs);
        }
        match self.root.owner().ok()? {
            0 => Some(logs),
            owner => Some(logs.owned_by(owner)),
        }
    }
}

/// At most the last `bytes_max` bytes of a run's output, and its size; `None` if it has no file.
pub(super) fn tail(
    logs: &ProcessLogs,
    stream: LogStream,
    run: RunNo,
    bytes_max: usize,
) -> std::io::Result<Option<(Vec<u8>, u64)>> {
    let source = LogSource::Process(logs.clone(), stream);
    let Some(Piece { size, .. }) = source.piece(run, LogStart::Offset(0), 0)? else {
        return Ok(None);
    };
    let start = LogStart::Offset(size.saturating_sub(bytes_max as u64));
    let piece = source.piece(run, start, bytes_max)?;
    Ok(piece.map(|piece| (piece.bytes, piece.size)))
}
