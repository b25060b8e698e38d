//! Roots with tasks in them, built as a runner would, and the real `baton` to inspect
//! them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use baton_core::plan::{Input, Plan};
use baton_model::ids::BootId;
use baton_model::outcome::Outcome;
use baton_model::task::{
    CommandLine, Condition, Dependency, Identity, Moment, ProcessName, ProcessNo, ProcessSpec,
    Resources, RunNo, TaskSpec,
};
use baton_model::time::{Millis, Mono, Now, Wall};
use baton_runner::log::{Kind, Log};
use baton_runner::record::{Header, RunnerRecord, RunnerStart};
use baton_runner::root::{Root, TaskId};

/// When every task begins: 2023-11-14 22:13:20 UTC.
pub(crate) const BEGAN: u64 = 1_700_000_000_000;

/// A root in a directory of its own.
pub(crate) struct TestRoot {
    dir: tempfile::TempDir,
    pub(crate) root: Root,
}

/// The exit code and output of `baton`.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl TestRoot {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let root = Root::new(dir.path().join("root")).expect("a path");
        Self { dir, root }
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).expect("written");
        path
    }

    /// `baton local --root ROOT …`, with an empty stdin.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command
            .arg("local")
            .arg("--root")
            .arg(self.root.path())
            .args(args)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn baton(&self, args: &[&str]) -> CommandOutput {
        command_output(self.command(args).output().expect("baton runs"))
    }

    /// The same, where the answer is JSON.
    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        let said = self.baton(args);
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
    }

    pub(crate) fn log_file(&self, id: &str, process: &str, name: &str) -> PathBuf {
        let path = self.root.sandbox(&task_id(id)).join(".logs").join(process);
        let path = path.join(name);
        fs::create_dir_all(path.parent().expect("below")).expect("made");
        path
    }

    /// Adds to what a process has printed; `name` is `RUN/FILE`.
    pub(crate) fn printed(&self, id: &str, process: &str, name: &str, text: &str) {
        append(&self.log_file(id, process, name), text.as_bytes());
    }
}

pub(crate) fn command_output(output: Output) -> CommandOutput {
    CommandOutput {
        code: output.status.code().expect("it was not killed"),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

pub(crate) fn append(path: &Path, bytes: &[u8]) {
    let file = File::options().append(true).create(true).open(path);
    let written = file.and_then(|mut file| file.write_all(bytes));
    written.expect("written");
}

pub(crate) fn task_id(id: &str) -> TaskId {
    TaskId::new(id).expect("a good id")
}

/// `fetch`, which may fail twice; `build` after it; `cleanup` at the end.
pub(crate) fn spec() -> TaskSpec {
    let process = |name: &str| ProcessSpec::new(name, CommandLine::Shell(format!("./{name}")));
    let fetch = ProcessSpec {
        max_failures: 3,
        ..process("fetch")
    };
    let build = ProcessSpec {
        after: vec![Dependency {
            process: ProcessName("fetch".to_owned()),
            condition: Condition::Success,
        }],
        ..process("build")
    };
    let cleanup = ProcessSpec {
        is_final: true,
        ..process("cleanup")
    };
    TaskSpec {
        name: "report".to_owned(),
        owner: None,
        processes: vec![fetch, build, cleanup],
        max_failures: 1,
        max_concurrency: 0,
        finalization_wait: Millis::from_secs(30),
        user: None,
        resources: Resources::default(),
        ports: BTreeMap::from([("http".to_owned(), 8080)]),
    }
}

/// A task and the log that its runner writes.
pub(crate) struct Task {
    id: TaskId,
    plan: Plan,
    log: Log,
}

impl Task {
    /// Registers a task; nothing of it runs yet.
    pub(crate) fn begin(world: &TestRoot, id: &str, spec: TaskSpec) -> Self {
        let root = &world.root;
        let id = task_id(id);
        let header = Header {
            task_id: id.to_string(),
            sandbox: root.sandbox(&id).display().to_string(),
            began: Moment::from(at(0)),
            host: "earth".to_owned(),
            user: "ada".to_owned(),
            uid: 1000,
            env: vec![("TOKEN".to_owned(), "secret".to_owned())],
            assigned_env: Vec::new(),
            secrets: None,
            mark: "mark".to_owned(),
            cgroup: None,
            version: "0.1.0".to_owned(),
            spec,
        };
        root.prepare(&id).expect("made");
        root.register(&header).expect("written");
        let plan = Plan::new(Arc::new(header.spec.clone()), at(0)).expect("a good task");
        let life = RunnerStart {
            boot: BootId(1),
            pid: 40,
            began: Moment::from(at(0)),
        };
        let first = [
            RunnerRecord::Begun(Box::new(header)),
            RunnerRecord::RunnerStarted(life),
        ];
        let log = Log::create(&root.runner_log(&id), Kind::Runner, &first).expect("written");
        Self { id, plan, log }
    }

    pub(crate) fn handle(&mut self, ms: u64, input: Input) -> &mut Self {
        let step = self.plan.handle(at(ms), input);
        let events = step.facts().iter().cloned().map(RunnerRecord::Event);
        let events: Vec<RunnerRecord> = events.collect();
        self.log.append(&events).expect("written");
        self.log.sync().expect("synced");
        self
    }

    pub(crate) fn tick(&mut self, ms: u64) -> &mut Self {
        self.handle(ms, Input::Tick)
    }

    pub(crate) fn started(&mut self, ms: u64, process: u32, run: u64) -> &mut Self {
        let identity = Identity {
            boot: BootId(1),
            pid: 41 + process,
            start_ticks: 7,
        };
        let input = Input::Started {
            process: ProcessNo(process),
            run: RunNo(run),
            at: at(ms),
            identity: Some(identity),
        };
        self.handle(ms, input)
    }

    pub(crate) fn exited(&mut self, ms: u64, process: u32, run: u64, code: i32) -> &mut Self {
        let input = Input::Exited {
            process: ProcessNo(process),
            run: RunNo(run),
            at: at(ms),
            outcome: Outcome::Exited(code),
            random: 0,
        };
        self.handle(ms, input)
    }

    /// `fetch` fails once, then everything goes well.
    pub(crate) fn succeeds(&mut self, world: &TestRoot) {
        self.tick(0).started(100, 0, 0).exited(1_100, 0, 0, 1);
        self.tick(6_100).started(6_200, 0, 1).exited(7_000, 0, 1, 0);
        self.started(7_100, 1, 0).exited(8_000, 1, 0, 0);
        self.started(8_100, 2, 0).exited(8_250, 2, 0, 0);
        world.root.finish(&self.id).expect("registered");
    }
}

fn at(ms: u64) -> Now {
    Now {
        mono: Mono(5_000 + ms),
        wall: Wall(BEGAN + ms),
    }
}
