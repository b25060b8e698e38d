//! Starting a task, and reopening one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_core::plan::{Plan, PlanError};
use baton_core::step::Outbox;
use baton_model::ids::{BootId, Epoch};
use baton_model::task::TaskSpec;
use baton_model::time::Now;

use super::control::Control;
use super::launch::{INHERITED, LaunchBuilder};
use super::launch_limit::LaunchLimit;
use super::{Options, Task, TaskError};
use crate::checks::Checks;
use crate::coordinator::CoordinatorSpec;
use crate::log::{self, Kind, Log};
use crate::record::{Header, RunnerRecord, RunnerStart};
use crate::root::{Phase, Root, RunnerLock, TaskId};
use crate::samples::{Ring, Sampler};
use crate::sys::cgroup;
use crate::sys::exits::Exits;
use crate::sys::spawn::Spawner;
use crate::sys::{clock, identity, random, reap, signals, users};

/// Slots of the ring of samples: a quarter of an hour of four processes.
const SAMPLE_SLOTS: u32 = 3_600;

/// A task to start.
#[derive(Clone, Debug)]
pub struct NewTask {
    pub spec: TaskSpec,
    /// `None` for a directory of its own below the root.
    pub sandbox: Option<PathBuf>,
    /// Added to the environment of every process.
    pub env: Vec<(String, String)>,
    /// Variables that win over those of a process.
    pub assigned_env: Vec<(String, String)>,
    /// The directory with its secrets.
    pub secrets: Option<String>,
}

impl Task {
    /// Starts a task, or resumes the one of the same id if it was started with the same definition.
    ///
    /// # Errors
    /// [`TaskError`]; nothing has been started then.
    pub fn begin(
        root: &Root,
        id: &TaskId,
        new: NewTask,
        options: &Options,
    ) -> Result<Self, TaskError> {
        ignore_file_size_signal();
        // The request is validated completely before anything is created.
        let spec = Arc::new(new.spec);
        Plan::new(Arc::clone(&spec), clock::now()).map_err(TaskError::Spec)?;
        LaunchBuilder::check(&spec)?;
        root.prepare(id)?;
        let lock = root.lock(id)?;
        if root.runner_log(id).exists() {
            let task = Self::open(root, id, lock, options)?;
            if task.spec != spec {
                return Err(TaskError::Invalid(format!(
                    "task {id} was started with another definition; to resume it, use \
                     the original file; to run this one, choose another --task-id"
                )));
            }
            return Ok(task);
        }
        require_new(root, id)?;
        let mut header = header(root, id, &spec, new.sandbox, new.env)?;
        header.assigned_env = new.assigned_env;
        header.secrets = new.secrets;
        make_sandbox(&header)?;
        header.cgroup = new_cgroup(options, &header);
        let boot = identity::boot_id().map_err(TaskError::io("read the boot id"))?;
        let runner_start = this_start(boot, clock::now());
        let first = [
            RunnerRecord::Begun(Box::new(header.clone())),
            RunnerRecord::RunnerStarted(runner_start),
        ];
        let log = Log::create(&root.runner_log(id), Kind::Runner, &first)?;
        root.register(&header)?;
        let plan = Plan::new(Arc::clone(&spec), header.began.into()).map_err(TaskError::Spec)?;
        let replayed = ReplayedLog {
            header,
            plan,
            last_start: None,
        };
        Self::assemble(root, id, lock, options, replayed, log, runner_start)
    }

    /// Resumes a task.
    ///
    /// # Errors
    /// [`TaskError`]; nothing has been started then.
    pub fn resume(root: &Root, id: &TaskId, options: &Options) -> Result<Self, TaskError> {
        ignore_file_size_signal();
        if !root.runner_log(id).exists() {
            require_new(root, id)?;
            return Err(TaskError::Invalid(format!("there is no task {id}")));
        }
        let lock = root.lock(id)?;
        Self::open(root, id, lock, options)
    }

    fn open(
        root: &Root,
        id: &TaskId,
        lock: RunnerLock,
        options: &Options,
    ) -> Result<Self, TaskError> {
        let path = root.runner_log(id);
        let (mut log, recovered) = Log::open::<RunnerRecord>(&path, Kind::Runner)?;
        let replayed = replay(recovered.records)?;
        require_owner(&replayed.header)?;
        if replayed.plan.outcome().is_none() && root.phase(id)?.is_none() {
            // The runner died between creating the log and the entry.
            root.register(&replayed.header)?;
        }
        let boot = identity::boot_id().map_err(TaskError::io("read the boot id"))?;
        let runner_start = this_start(boot, clock::now());
        let ended = replayed.plan.outcome().is_some();
        let finished = ended && root.phase(id)? == Some(Phase::Finished);
        if !finished {
            log.append(&[RunnerRecord::RunnerStarted(runner_start)])?;
            log.sync()?;
        }
        let mut task = Self::assemble(root, id, lock, options, replayed, log, runner_start)?;
        task.finished = finished;
        Ok(task)
    }

    fn assemble(
        root: &Root,
        id: &TaskId,
        lock: RunnerLock,
        options: &Options,
        replayed: ReplayedLog,
        log: Log,
        runner_start: RunnerStart,
    ) -> Result<Self, TaskError> {
        let ReplayedLog {
            header,
            plan,
            last_start,
        } = replayed;
        let checkpoint = root.checkpoint(id);
        // The children of a dead coordinator become ours, with their exit status.
        reap::become_subreaper().map_err(TaskError::io("become the subreaper"))?;
        let spec = Arc::new(header.spec.clone());
        let coordinator = CoordinatorSpec {
            binary: options.binary.clone(),
            sandbox: PathBuf::from(&header.sandbox),
            mark: header.mark.clone(),
            cgroup: header.cgroup.as_ref().map(PathBuf::from),
            guarded: false,
            checkpoint,
        };
        // Not evidence: a task also runs without samples.
        let ring = Ring::open(&root.samples(id), SAMPLE_SLOTS).ok();
        Ok(Self {
            control: Control::open(&root.control_socket(id))
                .map_err(TaskError::io("open the control socket"))?,
            launch_builder: LaunchBuilder::new(&header)?,
            second_signal_kills: options.second_signal_kills,
            warning: options.warning,
            boot: runner_start.boot,
            boot_changed: last_start.is_some_and(|last| last.boot != runner_start.boot),
            successor: last_start.is_some(),
            root: root.clone(),
            id: id.clone(),
            header,
            spec,
            plan,
            runner_start,
            log,
            outbox: Outbox::new(Epoch(0)),
            batches: Vec::new(),
            orders: std::collections::VecDeque::new(),
            killing: None,
            killed_at: None,
            launch_limit: LaunchLimit::new(options.launch_timeout),
            to_forget: Vec::new(),
            foreign_children: identity::children(runner_start.boot),
            link: None,
            coordinator,
            spawner: Spawner::new().map_err(TaskError::io("prepare to start processes"))?,
            checks: Checks::default(),
            samples: ring.zip(Sampler::new().ok()),
            sample_at: clock::now().mono,
            early_inputs: Vec::new(),
            next_id: 1,
            exits: Exits::default(),
            finished: false,
            _lock: lock,
        })
    }
}

/// Checks that a task without a log is new. If it has lost its log, its progress is unknown, and it
/// must not start over silently.
fn require_new(root: &Root, id: &TaskId) -> Result<(), TaskError> {
    let path = root.runner_log(id);
    let aside =
        log::set_aside(&path).map_err(TaskError::io("check for a log that was set aside"))?;
    let lost = root.phase(id)? == Some(Phase::Active);
    let what = match aside {
        Some(aside) => format!("was damaged and set aside as {}", aside.display()),
        None if lost => "is missing".to_owned(),
        None => return Ok(()),
    };
    Err(TaskError::NoLog(format!(
        "task {id} was started, but its log {what}; restore a good copy as {}, or run the task \
         again under a new --task-id",
        path.display()
    )))
}

/// A file size limit must be a reported error, like a full disk, and must not kill us in the middle
/// of a record.
fn ignore_file_size_signal() {
    signals::ignore(&[libc::SIGXFSZ]);
}

/// Checks that we are the user who started the task: for another user, even root, its processes
/// would run as that user.
pub(super) fn require_owner(header: &Header) -> Result<(), TaskError> {
    if header.uid == users::effective_uid() {
        return Ok(());
    }
    Err(TaskError::Invalid(format!(
        "task {} belongs to user {}; run this command as that user",
        header.task_id, header.user
    )))
}

pub(super) struct ReplayedLog {
    pub(super) header: Header,
    pub(super) plan: Plan,
    /// The runner start that has made the last decision. A later one without a decision has not
    /// changed what the plan knows of boots and clocks.
    pub(super) last_start: Option<RunnerStart>,
}

pub(super) fn replay(records: Vec<RunnerRecord>) -> Result<ReplayedLog, TaskError> {
    let invalid = |text: &str| TaskError::Invalid(format!("the log of the task {text}"));
    let mut records = records.into_iter().peekable();
    let Some(RunnerRecord::Begun(header)) = records.next() else {
        return Err(invalid("does not begin with its definition"));
    };
    let header = *header;
    let spec = Arc::new(header.spec.clone());
    let snapshot = records.next_if(|record| matches!(record, RunnerRecord::Snapshot(_)));
    let mut plan = match snapshot {
        Some(RunnerRecord::Snapshot(snapshot)) => Plan::from_snapshot(spec, snapshot),
        _ => Plan::new(spec, header.began.into()).map_err(PlanError::Spec),
    }
    .map_err(TaskError::Plan)?;
    let (mut runner_start, mut last_start) = (None, None);
    for record in records {
        match record {
            RunnerRecord::Event(event) => {
                plan.apply(&event)?;
                last_start = runner_start;
            }
            RunnerRecord::RunnerStarted(began) => {
                runner_start = Some(began);
                last_start = last_start.or(runner_start);
            }
            RunnerRecord::Begun(_) | RunnerRecord::Snapshot(_) => {
                return Err(invalid("begins twice"));
            }
        }
    }
    Ok(ReplayedLog {
        header,
        plan,
        last_start,
    })
}

fn this_start(boot: BootId, now: Now) -> RunnerStart {
    RunnerStart {
        boot,
        pid: std::process::id(),
        began: now.into(),
    }
}

fn header(
    root: &Root,
    id: &TaskId,
    spec: &TaskSpec,
    sandbox: Option<PathBuf>,
    env: Vec<(String, String)>,
) -> Result<Header, TaskError> {
    let sandbox = match sandbox {
        Some(path) => {
            std::path::absolute(&path).map_err(TaskError::io("make the sandbox path absolute"))?
        }
        None => root.sandbox(id),
    };
    let Some(sandbox) = sandbox.to_str() else {
        return Err(TaskError::Invalid(
            "the path of the sandbox is not UTF-8; choose another with --sandbox".to_owned(),
        ));
    };
    // A later runner may have another environment; the task keeps its own.
    let inherited = INHERITED.into_iter();
    let inherited = inherited.filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
    let uid = users::effective_uid();
    let user = users::by_uid(uid).map_err(TaskError::io("look up the user"))?;
    Ok(Header {
        task_id: id.as_str().to_owned(),
        spec: spec.clone(),
        began: clock::now().into(),
        sandbox: sandbox.to_owned(),
        host: users::hostname(),
        user: user.map_or_else(|| uid.to_string(), |user| user.name),
        uid,
        env: inherited.chain(env).collect(),
        assigned_env: Vec::new(),
        secrets: None,
        mark: format!("{:016x}", random::number()),
        cgroup: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// Creates the sandbox, owned by the task's user. An existing one is not changed.
fn make_sandbox(header: &Header) -> Result<(), TaskError> {
    let path = Path::new(&header.sandbox);
    if path.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(path).map_err(TaskError::io("create the sandbox"))?;
    if let Some(user) = LaunchBuilder::task_user(&header.spec)? {
        std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid))
            .map_err(TaskError::io("change the owner of the sandbox"))?;
    }
    Ok(())
}

/// Creates the cgroup of a new task, where possible.
fn new_cgroup(options: &Options, header: &Header) -> Option<String> {
    if !options.cgroup {
        return None;
    }
    let cgroup = cgroup::create(&format!("{}{}", cgroup::PREFIX, header.mark))?;
    cgroup.path().to_str().map(str::to_owned)
}
