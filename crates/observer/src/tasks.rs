//! The tasks of the roots: listed, found by an address, and read.
//!
//! Everything is read as from a directory of another user: no link below a root is followed. The
//! log of a task names its sandbox, and the owner of a root may have written anything there, so as
//! root only logs are read that belong to that owner.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use baton_agent::{CommandAttempt, command_attempts};
use baton_model::message::{LogStart, LogStream};
use baton_model::task::RunNo;
use baton_runner::logs::{LogSource, Piece, ProcessLogs};
use baton_runner::root::{
    Entry, Phase, Root, RootError, TaskView, ViewError, find_roots, find_workers,
};
use baton_runner::sys::users;
use baton_web::pages::host::TaskSummary;
use sha2::{Digest as _, Sha256};

use crate::status::{TaskStatus, counts, note_for};

/// Where tasks are looked for.
#[derive(Clone, Debug)]
pub enum Host {
    /// In these roots.
    Roots(Vec<Root>),
    /// In all roots of this host; this one is the caller's.
    All { own: Option<Root> },
}

/// Why a root cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("cannot open the root {}: {error}", path.display())]
    Unreadable {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error(transparent)]
    Root(#[from] RootError),
}

/// A task that is listed.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) root: Root,
    pub(crate) entry: Entry,
    /// Set for the single command of a worker, which has no root: then `root` is the worker's state
    /// directory.
    command: Option<Box<CommandAttempt>>,
}

/// The output of a process.
#[derive(Clone, Debug)]
pub(crate) enum TaskLogs {
    Process(ProcessLogs),
    /// Standard output and standard error of a single command.
    Command([PathBuf; 2]),
}

impl TaskLogs {
    /// The runs with output, in order.
    pub(crate) fn runs(&self) -> std::io::Result<Vec<RunNo>> {
        match self {
            Self::Process(logs) => logs.runs(),
            Self::Command(_) => Ok(vec![RunNo(0)]),
        }
    }

    pub(crate) fn source(&self, stream: LogStream) -> LogSource {
        match (self, stream) {
            (Self::Process(logs), _) => LogSource::Process(logs.clone(), stream),
            (Self::Command([path, _]), LogStream::Stdout)
            | (Self::Command([_, path]), LogStream::Stderr) => LogSource::File(path.clone()),
        }
    }
}

impl Host {
    /// The tasks of these roots, or without any those of all roots.
    pub fn new(roots: &[PathBuf], own: Option<Root>) -> Result<Self, HostError> {
        if roots.is_empty() {
            return Ok(Self::All { own });
        }
        let roots = roots.iter().map(|path| {
            // The path of the command line may contain links; those below it are not followed.
            let found = std::fs::canonicalize(path);
            let found = found.map_err(|error| HostError::Unreadable {
                path: path.clone(),
                error,
            })?;
            Ok(Root::new(found)?)
        });
        roots.collect::<Result<_, HostError>>().map(Self::Roots)
    }

    fn roots(&self) -> Vec<Root> {
        match self {
            Self::Roots(roots) => roots.clone(),
            Self::All { own } => find_roots(own.as_ref(), users::effective_uid() == 0),
        }
    }

    /// The roots in words.
    pub(crate) fn text(&self) -> String {
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
    pub(crate) fn list(&self, phase: Option<Phase>, pattern: &str) -> Vec<Task> {
        let mut found = Vec::new();
        for root in self.roots() {
            let entries = root.list_guarded().into_iter();
            let entries = entries
                .filter(|entry| phase.is_none_or(|phase| entry.phase == phase))
                .filter(|entry| pattern.is_empty() || entry.id.matches(pattern));
            found.extend(entries.map(|entry| Task {
                root: root.clone(),
                entry,
                command: None,
            }));
        }
        for state in self.workers() {
            let commands = commands(&state).into_iter();
            let commands = commands
                .filter(|task| phase.is_none_or(|phase| task.entry.phase == phase))
                .filter(|task| pattern.is_empty() || task.entry.id.matches(pattern));
            found.extend(commands);
        }
        found.sort_by_cached_key(|task| {
            let newest_first = std::cmp::Reverse(task.registered());
            (task.entry.phase, newest_first, task.entry.clone())
        });
        found
    }

    /// The task of an address: the key of its root, and its id.
    pub(crate) fn find(&self, root: &str, id: &str) -> Option<Task> {
        let is_it = |path: &Path| key(path) == root;
        let Some(root) = self.roots().into_iter().find(|it| is_it(it.path())) else {
            let state = self.workers().into_iter().find(|state| is_it(state))?;
            let mut commands = commands(&state).into_iter();
            return commands.find(|task| task.entry.id.as_str() == id);
        };
        let mut entries = root.list_guarded().into_iter();
        let entry = entries.find(|entry| entry.id.as_str() == id)?;
        Some(Task {
            root,
            entry,
            command: None,
        })
    }

    /// The state directories of workers, whose single commands have no roots.
    fn workers(&self) -> Vec<PathBuf> {
        match self {
            Self::Roots(_) => Vec::new(),
            Self::All { .. } => find_workers(),
        }
    }
}

/// The single commands of a worker.
fn commands(state: &Path) -> Vec<Task> {
    let Ok(root) = Root::new(state) else {
        return Vec::new();
    };
    let commands = command_attempts(state).into_iter();
    let task = |command: CommandAttempt| Task {
        root: root.clone(),
        entry: command.view.entry.clone(),
        command: Some(Box::new(command)),
    };
    commands.map(task).collect()
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
        if let Some(command) = &self.command {
            let began = command.view.history.header.began.wall;
            return SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(began.0));
        }
        let path = self.root.entry(&self.entry.id, self.entry.phase);
        std::fs::symlink_metadata(path).ok()?.modified().ok()
    }

    pub(crate) fn view(&self) -> Result<TaskView, ViewError> {
        match &self.command {
            Some(command) => Ok(command.view.clone()),
            None => TaskView::load_guarded(&self.root, self.entry.clone()),
        }
    }

    /// What `baton local status --json` tells of it.
    pub(crate) fn status(&self, view: Result<TaskView, ViewError>) -> TaskStatus {
        TaskStatus {
            root: self.root.clone(),
            entry: self.entry.clone(),
            view,
        }
    }

    pub(crate) fn summary(&self, view: &Result<TaskView, ViewError>) -> TaskSummary {
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
    pub(crate) fn logs(&self, view: &TaskView, process: &str) -> Option<TaskLogs> {
        if let Some(command) = &self.command {
            return self.command_logs(command);
        }
        let header = &view.history.header;
        let known = header.spec.processes.iter();
        let known = known
            .map(|spec| &*spec.name.0)
            .find(|name| *name == process)?;
        let logs = ProcessLogs::new(Path::new(&header.sandbox), known)?;
        // Without privileges the kernel decides what can be read.
        if users::effective_uid() != 0 {
            return Some(TaskLogs::Process(logs));
        }
        match self.root.owner().ok()? {
            0 => Some(TaskLogs::Process(logs)),
            owner => Some(TaskLogs::Process(logs.owned_by(owner))),
        }
    }

    fn command_logs(&self, command: &CommandAttempt) -> Option<TaskLogs> {
        let paths = command.logs.clone()?;
        if users::effective_uid() == 0 {
            let owner = self.root.owner().ok()?;
            let is_owned = |path: &PathBuf| {
                let file = std::fs::symlink_metadata(path);
                file.is_ok_and(|file| file.is_file() && (owner == 0 || file.uid() == owner))
            };
            if !paths.iter().all(is_owned) {
                return None;
            }
        }
        Some(TaskLogs::Command(paths))
    }
}

/// At most the last `bytes_max` bytes of a run's output, and its size; `None` if it has no file.
pub(crate) fn tail(
    logs: &TaskLogs,
    stream: LogStream,
    run: RunNo,
    bytes_max: usize,
) -> std::io::Result<Option<(Vec<u8>, u64)>> {
    let source = logs.source(stream);
    let Some(Piece { size, .. }) = source.piece(run, LogStart::Offset(0), 0)? else {
        return Ok(None);
    };
    let start = LogStart::Offset(size.saturating_sub(bytes_max as u64));
    let piece = source.piece(run, start, bytes_max)?;
    Ok(piece.map(|piece| (piece.bytes, piece.size)))
}
