//! Beginning a task, and finding one again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_core::plan::{Plan, PlanError};
use baton_core::step::Outbox;
use baton_model::ids::{BootId, Epoch};
use baton_model::task::TaskSpec;
use baton_model::time::Now;

use super::control::Control;
use super::launch::{INHERITED, Launches};
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

/// A task that is to begin.
#[derive(Clone, Debug)]
pub struct NewTask {
    pub spec: TaskSpec,
    /// Where; `None` for a directory of its own below the root.
    pub sandbox: Option<PathBuf>,
    /// Added to the environment of every process.
    pub env: Vec<(String, String)>,
}

impl Task {
    /// Begins a task, or goes on with the one of the same id if it was begun with the same
    /// definition.
    ///
    /// # Errors
    /// [`TaskError`]; nothing has been started then.
    pub fn begin(
        root: &Root,
        id: &TaskId,
        new: NewTask,
        options: &Options,
    ) -> Result<Self, TaskError> {
        survive_limits();
        // Everything that can be wrong with the request is, before anything is made.
        let spec = Arc::new(new.spec);
        Plan::new(Arc::clone(&spec), clock::now()).map_err(TaskError::Spec)?;
        Launches::check(&spec)?;
        root.prepare(id)?;
        let lock = root.lock(id)?;
        if root.runner_log(id).exists() {
            let task = Self::open(root, id, lock, options)?;
            if task.spec != spec {
                return Err(TaskError::Invalid(format!(
                    "task {id} was begun with another definition; to go on with that one, use \
                     the file as it was; to run this one, choose another --task-id"
                )));
            }
            return Ok(task);
        }
        must_be_new(root, id)?;
        let mut header = header(root, id, &spec, new.sandbox, new.env)?;
        make_sandbox(&header)?;
        header.cgroup = new_cgroup(options, &header);
        let boot = identity::boot_id().map_err(TaskError::io("read the boot id"))?;
        let life = life(boot, clock::now());
        let first = [
            RunnerRecord::Begun(Box::new(header.clone())),
            RunnerRecord::RunnerStarted(life),
        ];
        let log = Log::create(&root.runner_log(id), Kind::Runner, &first)?;
        root.register(&header)?;
        let plan = Plan::new(Arc::clone(&spec), header.began.into()).map_err(TaskError::Spec)?;
        let replayed = Replayed {
            header,
            plan,
            last_life: None,
        };
        Self::assemble(root, id, lock, options, replayed, log, life)
    }

    /// Goes on with a task that was begun.
    ///
    /// # Errors
    /// [`TaskError`]; nothing has been started then.
    pub fn resume(root: &Root, id: &TaskId, options: &Options) -> Result<Self, TaskError> {
        survive_limits();
        if !root.runner_log(id).exists() {
            must_be_new(root, id)?;
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
        must_be_ours(&replayed.header)?;
        if replayed.plan.outcome().is_none() && root.phase(id)?.is_none() {
            // It died between its log and its entry.
            root.register(&replayed.header)?;
        }
        let boot = identity::boot_id().map_err(TaskError::io("read the boot id"))?;
        let life = life(boot, clock::now());
        let ended = replayed.plan.outcome().is_some();
        let finished = ended && root.phase(id)? == Some(Phase::Finished);
        if !finished {
            log.append(&[RunnerRecord::RunnerStarted(life)])?;
            log.sync()?;
        }
        let mut task = Self::assemble(root, id, lock, options, replayed, log, life)?;
        task.finished = finished;
        Ok(task)
    }

    fn assemble(
        root: &Root,
        id: &TaskId,
        lock: RunnerLock,
        options: &Options,
        replayed: Replayed,
        log: Log,
        life: RunnerStart,
    ) -> Result<Self, TaskError> {
        let Replayed {
            header,
            plan,
            last_life,
        } = replayed;
        let checkpoint = root.checkpoint(id);
        // The children of a coordinator that dies come to us, with their exit status.
        reap::become_subreaper().map_err(TaskError::io("become the subreaper"))?;
        let spec = Arc::new(header.spec.clone());
        let start = CoordinatorSpec {
            binary: options.binary.clone(),
            sandbox: PathBuf::from(&header.sandbox),
            mark: header.mark.clone(),
            cgroup: header.cgroup.as_ref().map(PathBuf::from),
            guarded: false,
            checkpoint,
        };
        // Not evidence: a task without samples runs as well.
        let ring = Ring::open(&root.samples(id), SAMPLE_SLOTS).ok();
        Ok(Self {
            control: Control::open(&root.control_socket(id))
                .map_err(TaskError::io("open the control socket"))?,
            launches: Launches::new(&header)?,
            boot: life.boot,
            boot_changed: last_life.is_some_and(|last| last.boot != life.boot),
            successor: last_life.is_some(),
            root: root.clone(),
            id: id.clone(),
            header,
            spec,
            plan,
            life,
            log,
            outbox: Outbox::new(Epoch(0)),
            batches: Vec::new(),
            orders: std::collections::VecDeque::new(),
            killing: None,
            killed_at: None,
            forgets: Vec::new(),
            strangers: identity::children(life.boot),
            link: None,
            start,
            spawner: Spawner::new().map_err(TaskError::io("prepare to start processes"))?,
            checks: Checks::default(),
            samples: ring.zip(Sampler::new().ok()),
            sample_at: clock::now().mono,
            asked: Vec::new(),
            next_id: 1,
            exits: Exits::default(),
            finished: false,
            _lock: lock,
        })
    }
}

/// A task without a log is new, unless it has lost its log: then nobody knows what it has
/// done, and it does not begin again just because it is started again.
fn must_be_new(root: &Root, id: &TaskId) -> Result<(), TaskError> {
    let path = root.runner_log(id);
    let aside = log::set_aside(&path).map_err(TaskError::io("look for the log of the task"))?;
    let lost = root.phase(id)? == Some(Phase::Active);
    let what = match aside {
        Some(aside) => format!("was damaged and set aside as {}", aside.display()),
        None if lost => "is not there".to_owned(),
        None => return Ok(()),
    };
    Err(TaskError::NoLog(format!(
        "task {id} was begun, but its log {what}; put a good copy back as {}, or run the task \
         again under a new --task-id",
        path.display()
    )))
}

/// A limit on the size of files must be an error that is told, as a full disk is, and not
/// our death in the middle of a record.
fn survive_limits() {
    signals::ignore(&[libc::SIGXFSZ]);
}

/// A task runs as whoever began it: somebody else, and be it root, would run its processes
/// as somebody else.
pub(super) fn must_be_ours(header: &Header) -> Result<(), TaskError> {
    if header.uid == users::effective_uid() {
        return Ok(());
    }
    Err(TaskError::Invalid(format!(
        "task {} belongs to user {}; do this as that user",
        header.task_id, header.user
    )))
}

struct Replayed {
    header: Header,
    plan: Plan,
    /// The life that has decided last. One that came after it and decided nothing has not
    /// changed what the plan knows of boots and clocks.
    last_life: Option<RunnerStart>,
}

fn replay(records: Vec<RunnerRecord>) -> Result<Replayed, TaskError> {
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
    let (mut life, mut last_life) = (None, None);
    for record in records {
        match record {
            RunnerRecord::Event(event) => {
                plan.apply(&event)?;
                last_life = life;
            }
            RunnerRecord::RunnerStarted(began) => {
                life = Some(began);
                last_life = last_life.or(life);
            }
            RunnerRecord::Begun(_) | RunnerRecord::Snapshot(_) => {
                return Err(invalid("begins twice"));
            }
        }
    }
    Ok(Replayed {
        header,
        plan,
        last_life,
    })
}

fn life(boot: BootId, now: Now) -> RunnerStart {
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
        Some(path) => std::path::absolute(&path).map_err(TaskError::io("name the sandbox"))?,
        None => root.sandbox(id),
    };
    let Some(sandbox) = sandbox.to_str() else {
        return Err(TaskError::Invalid(
            "the path of the sandbox is not UTF-8; choose another with --sandbox".to_owned(),
        ));
    };
    // A later life of the runner may have another environment; the task keeps its own.
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
        mark: format!("{:016x}", random::number()),
        cgroup: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// Makes the sandbox, and gives it to the task's user. One that is there already is
/// somebody's own, and is left as it is.
fn make_sandbox(header: &Header) -> Result<(), TaskError> {
    let path = Path::new(&header.sandbox);
    if path.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(path).map_err(TaskError::io("make the sandbox"))?;
    if let Some(user) = Launches::task_user(&header.spec)? {
        std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid))
            .map_err(TaskError::io("give the sandbox to its user"))?;
    }
    Ok(())
}

/// A cgroup for a new task, where one can be had.
fn new_cgroup(options: &Options, header: &Header) -> Option<String> {
    if !options.cgroup {
        return None;
    }
    let cgroup = cgroup::create(&format!("baton-{}", header.mark))?;
    cgroup.path().to_str().map(str::to_owned)
}
