//! Roots with tasks in them, for tests.

use std::sync::Arc;

use baton_core::plan::{Input, Plan};
use baton_model::ids::BootId;
use baton_model::outcome::Outcome;
use baton_model::task::{CommandLine, Moment, ProcessNo, ProcessSpec, Resources, RunNo, TaskSpec};
use baton_model::time::{Millis, Mono, Now, Wall};

use super::{Entry, Phase, Root, TaskId};
use crate::log::{Kind, Log};
use crate::record::{Header, RunnerRecord, RunnerStart};

/// The start time of tasks in tests.
pub(crate) const BEGAN: u64 = 1_700_000_000_000;

/// The boot of tasks in tests.
pub(crate) const BOOT: BootId = BootId(1);

pub(crate) fn temp_root() -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let root = Root::new(dir.path().join("root")).expect("a path");
    (dir, root)
}

pub(crate) fn entry(id: &str, phase: Phase) -> Entry {
    let id = TaskId::new(id).expect("a good id");
    Entry { id, phase }
}

/// A task of one process, in its default sandbox.
pub(crate) fn header(root: &Root, id: &str, began: u64) -> Header {
    let task = TaskId::new(id).expect("a good id");
    Header {
        task_id: id.to_owned(),
        spec: TaskSpec {
            name: "test".to_owned(),
            owner: None,
            processes: vec![ProcessSpec::new("p", CommandLine::Shell("true".to_owned()))],
            max_failures: 1,
            max_concurrency: 0,
            finalization_wait: Millis::from_secs(30),
            user: None,
            resources: Resources::default(),
            ports: std::collections::BTreeMap::new(),
        },
        began: moment(began),
        sandbox: root.sandbox(&task).display().to_string(),
        host: "host".to_owned(),
        user: "user".to_owned(),
        uid: 0,
        env: Vec::new(),
        assigned_env: Vec::new(),
        secrets: None,
        mark: "mark".to_owned(),
        cgroup: None,
        version: "0".to_owned(),
    }
}

/// A task of which one process runs; active, and without a runner.
pub(crate) fn started_task(root: &Root, id: &str, boot: BootId) {
    let header = header(root, id, BEGAN);
    write(root, &header, boot, &[(BEGAN, Input::Tick)]);
}

/// A task that has decided nothing yet; active, and without a runner.
pub(crate) fn begun_task(root: &Root, id: &str, boot: BootId) {
    write(root, &header(root, id, BEGAN), boot, &[]);
}

/// A task that succeeded at this time, and is filed as ended.
pub(crate) fn ended_task(root: &Root, id: &str, ended: Wall) {
    let header = header(root, id, BEGAN);
    ended_task_of(root, &header, ended);
}

/// The same, with this header.
pub(crate) fn ended_task_of(root: &Root, header: &Header, ended: Wall) {
    let started = Input::Started {
        process: ProcessNo(0),
        run: RunNo(0),
        at: now(BEGAN),
        identity: None,
    };
    let exited = Input::Exited {
        process: ProcessNo(0),
        run: RunNo(0),
        at: now(ended.0),
        outcome: Outcome::Exited(0),
        random: 0,
    };
    let inputs = [(BEGAN, Input::Tick), (BEGAN, started), (ended.0, exited)];
    write(root, header, BOOT, &inputs);
    let id = TaskId::new(&header.task_id).expect("a good id");
    root.finish(&id).expect("registered");
}

fn write(root: &Root, header: &Header, boot: BootId, inputs: &[(u64, Input)]) {
    let id = TaskId::new(&header.task_id).expect("a good id");
    root.prepare(&id).expect("made");
    root.register(header).expect("written");
    let mut plan = Plan::new(Arc::new(header.spec.clone()), now(BEGAN)).expect("a good task");
    let start = RunnerStart {
        boot,
        pid: 7,
        began: moment(BEGAN),
    };
    let mut records = vec![
        RunnerRecord::Begun(Box::new(header.clone())),
        RunnerRecord::RunnerStarted(start),
    ];
    for (at, input) in inputs {
        let step = plan.handle(now(*at), *input);
        records.extend(step.facts().iter().cloned().map(RunnerRecord::Event));
    }
    let mut log = Log::create(&root.runner_log(&id), Kind::Runner, &records).expect("written");
    log.sync().expect("synced");
}

fn now(at: u64) -> Now {
    Now {
        mono: Mono(at.saturating_sub(BEGAN)),
        wall: Wall(at),
    }
}

fn moment(at: u64) -> Moment {
    Moment::from(now(at))
}
