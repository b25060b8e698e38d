//! Filing the ends of task attempts in their own roots.
//!
//! A worker that kills an attempt at once kills its runner too, which then cannot record the end. The
//! root of the attempt would show it as a task to resume, for ever. So the agent records it: after
//! each end that it sees, and when it starts, for those that it has not seen. Another thread does
//! so, with the rights of the attempt's user: everything in the directory may be a link or a pipe,
//! and the loop must not miss a heartbeat.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use baton_core::supervision::attempts::Attempts;
use baton_model::ids::LeaseId;
use baton_runner::logs::open_dir;
use baton_runner::root::{GuardedView, Root, TaskId};
use baton_runner::sys::users;
use baton_runner::task::Task;
use rustix::fs::{CWD, fstat};

use crate::attempt_dir::{RUNNER_DIR, dir_name};
use crate::state::WORK;
use crate::sweep::lease_of;

/// Attempts that an agent looks at when it starts.
const ATTEMPTS_MAX: usize = 100_000;

/// Files ends, one batch at a time.
#[derive(Debug)]
pub(crate) struct EndFiler {
    state: PathBuf,
    /// Attempts whose runs have ended: for good, or until their runners are started again.
    ended: Vec<LeaseId>,
    /// The names of attempts that have ended for good and are not looked at yet.
    pending: Vec<String>,
    busy: Option<JoinHandle<()>>,
}

impl EndFiler {
    pub(crate) fn new(state: &Path) -> Self {
        Self {
            state: state.to_owned(),
            ended: Vec::new(),
            pending: Vec::new(),
            busy: None,
        }
    }

    /// A run of an attempt at a task has ended.
    pub(crate) fn add(&mut self, lease: LeaseId) {
        self.ended.push(lease);
    }

    /// Adds all attempts whose directories exist and that are not held.
    pub(crate) fn add_all(&mut self, is_held: impl Fn(LeaseId) -> bool) {
        let dirs = match std::fs::read_dir(self.state.join(WORK)) {
            Ok(dirs) => dirs,
            Err(error) => {
                tracing::warn!("cannot list the attempts of earlier agents: {error}");
                return;
            }
        };
        let names = dirs.filter_map(|dir| dir.ok()?.file_name().into_string().ok());
        let ended = names.filter(|name| lease_of(name).is_some_and(|lease| !is_held(lease)));
        self.pending.extend(ended.take(ATTEMPTS_MAX));
    }

    /// Starts the next batch, unless one is under way.
    pub(crate) fn turn(&mut self, attempts: &Attempts) {
        let pending = &mut self.pending;
        self.ended.retain(|lease| {
            let is_open = attempts
                .of(*lease)
                .is_some_and(|attempt| !attempt.is_over());
            if !is_open {
                pending.push(dir_name(*lease));
            }
            is_open
        });
        if self.pending.is_empty() || self.busy.as_ref().is_some_and(|it| !it.is_finished()) {
            return;
        }
        let (state, batch) = (self.state.clone(), std::mem::take(&mut self.pending));
        let file = move || batch.iter().for_each(|name| file(&state, name));
        let begun = thread::Builder::new()
            .name("file-ends".to_owned())
            .spawn(file);
        match begun {
            Ok(busy) => self.busy = Some(busy),
            Err(error) => tracing::warn!("cannot start a thread to file ended tasks: {error}"),
        }
    }
}

/// Files the end of one attempt, if its root shows it as active. A root that cannot be read stays.
fn file(state: &Path, name: &str) {
    match try_file(state, name) {
        Ok(None) => {}
        Ok(Some(word)) => tracing::info!("{name} is filed as {word}"),
        Err(error) => tracing::warn!("the end of {name} cannot be filed: {error}"),
    }
}

fn try_file(state: &Path, name: &str) -> Result<Option<&'static str>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let path = state.join(WORK).join(name);
    let open = || -> io::Result<_> {
        match open_dir(CWD, &*path)? {
            Some(dir) => open_dir(dir, RUNNER_DIR),
            None => Ok(None),
        }
    };
    // A single command has no root.
    let Some(dir) = open().map_err(|error| text(&error))? else {
        return Ok(None);
    };
    let id = TaskId::new(name).map_err(|error| text(&error))?;
    let owner = fstat(&dir).map_err(|error| text(&error))?;
    // Follows no link and waits for no pipe. Most tasks have been filed by their runners.
    let root = Root::new(path.join(RUNNER_DIR)).map_err(|error| text(&error))?;
    if !root.list_guarded().iter().any(|it| it.is_active(&id)) {
        return Ok(None);
    }
    match GuardedView::load(dir, &id).map_err(|error| text(&error))? {
        Some(view) if !view.driven => {}
        Some(_) | None => return Ok(None),
    }
    let filed = users::with_files_of(owner.st_uid, owner.st_gid, || Task::file_end(&root, &id));
    let filed = filed.map_err(|error| text(&error))?;
    let state = filed.map_err(|error| text(&error))?;
    Ok(state.map(|state| state.word()))
}
