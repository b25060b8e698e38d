//! The single commands of a worker, for views of its host.
//!
//! A command has no root of its own: that would cost each of them several files. The log of the
//! worker's coordinator has those that wait, run, or have ended without an acknowledgement of the
//! scheduler. The state directory may belong to another user than the reader, so no link below it is
//! followed.

use std::path::{Path, PathBuf};

use baton_core::supervision::attempts::Assignment;
use baton_model::message::LogStream;
use baton_model::spec::Work;
use baton_model::task::{CommandLine, Moment, ProcessSpec, Resources, TaskSpec};
use baton_model::time::Millis;
use baton_runner::log::{self, Kind};
use baton_runner::logs::{open_dir, open_file};
use baton_runner::record::{CoordinatorRecord, Evidence, Header};
use baton_runner::root::TaskView;
use baton_runner::sys::{clock, users};
use baton_runner::wire::KnownRun;
use rustix::fs::{CWD, fstat};

use crate::attempt_dir::dir_name;
use crate::logs::own_log;
use crate::state::{CHECKPOINT, LOGS, WORK};
use crate::tag::Tags;

/// The log of a coordinator, within its checkpoint.
const COORDINATOR_LOG: &str = "coordinator";
/// It is compacted before it is longer, unless the worker has very many attempts.
const LOG_BYTES_MAX: u64 = 64 << 20;

/// A single command that a worker holds.
#[derive(Clone, Debug)]
pub struct CommandAttempt {
    pub view: TaskView,
    /// Its standard output and standard error, if they are below the worker's own directory.
    pub logs: Option<[PathBuf; 2]>,
}

/// The single commands that the worker with this state directory holds; none if its files cannot be
/// read.
#[must_use]
pub fn command_attempts(state: &Path) -> Vec<CommandAttempt> {
    load(state).unwrap_or_default()
}

fn load(state: &Path) -> Option<Vec<CommandAttempt>> {
    let dir = open_dir(CWD, state).ok()??;
    let owner = fstat(&dir).ok()?.st_uid;
    let has_logs = matches!(open_dir(&dir, LOGS), Ok(Some(_)));
    let checkpoint = open_dir(&dir, CHECKPOINT).ok()??;
    let file = open_file(checkpoint, COORDINATOR_LOG).ok()??;
    let path = state.join(CHECKPOINT).join(COORDINATOR_LOG);
    let read = log::read_open::<CoordinatorRecord>(&file, &path, LOG_BYTES_MAX, Kind::Coordinator);
    let Evidence { runs, .. } = Evidence::from_iter(read.ok()?.records);
    let mut tags = Tags::default();
    let commands = runs.iter().filter_map(|run| {
        let assignment = tags.read(&run.tag)?;
        let view = view(state, owner, run, &assignment)?;
        let log = |stream| own_log(state, assignment.lease, stream);
        let logs = has_logs.then(|| [LogStream::Stdout, LogStream::Stderr].map(log));
        Some(CommandAttempt { view, logs })
    });
    Some(commands.collect())
}

/// The view of a run, if it is a single command.
fn view(state: &Path, owner: u32, run: &KnownRun, assignment: &Assignment) -> Option<TaskView> {
    let spec = &*assignment.spec;
    let Work::Command(argv) = &spec.work else {
        return None;
    };
    let name = dir_name(assignment.lease);
    let user = spec.user.clone().or_else(|| {
        let user = users::by_uid(owner).ok()??;
        Some(user.name)
    });
    let process = ProcessSpec {
        env: spec.env.clone(),
        cwd: spec.paths.cwd.clone(),
        ..ProcessSpec::new(&spec.name, CommandLine::Exec(argv.clone()))
    };
    let started = run.started;
    let began = started.map(|(at, _)| at);
    let began = began.or_else(|| run.ended.as_ref().map(|end| end.at));
    let header = Header {
        spec: TaskSpec {
            name: spec.name.clone(),
            owner: Some(spec.owner.clone()),
            processes: vec![process],
            max_failures: 1,
            max_concurrency: 0,
            finalization_wait: Millis(0),
            user: spec.user.clone(),
            resources: Resources::default(),
            ports: std::collections::BTreeMap::new(),
        },
        began: began.unwrap_or_else(|| Moment::from(clock::now())),
        sandbox: state.join(WORK).join(&name).display().to_string(),
        host: users::hostname(),
        user: user.unwrap_or_else(|| owner.to_string()),
        uid: owner,
        env: Vec::new(),
        assigned_env: Vec::new(),
        secrets: None,
        mark: String::new(),
        cgroup: None,
        version: String::new(),
        task_id: name,
    };
    TaskView::of_command(header, started, run.ended.as_ref()).ok()
}
