//! Runs real tasks with the real binary, and proves what they leave behind.
//!
//! A [`Scenario`] is one task file in a root of its own. [`Scenario::start`] runs it in
//! the background, as a person would with `--json`; the [`Runner`] that it gives collects
//! its output, and can be waited for, signalled and killed. The last runner of a task
//! proves that the log replays to the observed state: see `proof`.
//!
//! No test sleeps to synchronise: [`until`] polls a condition,
//! and fails with its description. Processes of a task wait for files
//! in their sandbox, which tests make with [`Scenario::touch`].
//!
//! Dropping a scenario, also in a panic, kills every process with its mark.

mod processes;
mod proof;
mod runner;
mod server;
mod task_log;

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use baton_runner::log::{self, Kind};
use baton_runner::record::CoordinatorRecord;
use baton_runner::root::{Phase, Root, TaskId};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) use baton_testing::processes::{is_alive, is_root, lacks_root, send};
pub(crate) use baton_testing::until;
pub(crate) use processes::{ends_of_orphans_are_known, marked};
pub(crate) use runner::{Ended, Runner};
pub(crate) use rustix::process::Signal;
pub(crate) use server::{Server, reserved_port};
pub(crate) use task_log::{TaskLog, exited, signalled};

use runner::RunnerOutput;

/// The binary under test.
pub(crate) const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// One task, in a root of its own.
pub(crate) struct Scenario {
    dir: TempDir,
    pub(crate) root: Root,
    pub(crate) id: TaskId,
    /// Further arguments of `run`.
    args: Vec<String>,
    /// Added to the environment of the runner.
    env: Vec<(String, String)>,
    /// A shell command that ends with `exec "$@"`, which becomes the runner.
    wrapper: Option<String>,
    /// The output of its runners, in the order of their start.
    printed: RefCell<Vec<RunnerOutput>>,
    /// Something may be left after the end.
    allow_leftovers: bool,
}

impl Scenario {
    /// A task with this definition.
    pub(crate) fn new(definition: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        // Processes of other users must be able to pass.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("our own");
        let scenario = Self {
            root: Root::new(dir.path().join("root")).expect("an absolute path"),
            id: TaskId::new("t-1").expect("a good id"),
            dir,
            args: Vec::new(),
            env: Vec::new(),
            wrapper: None,
            printed: RefCell::new(Vec::new()),
            allow_leftovers: false,
        };
        scenario.define(definition);
        scenario
    }

    /// Replaces the definition.
    pub(crate) fn define(&self, definition: &str) {
        fs::write(self.task_file(), definition).expect("our own directory");
    }

    /// More arguments for `run`, when the task begins.
    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// A variable in the environment of the runner.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The runner is begun by this shell command, which ends with `exec "$@"`.
    pub(crate) fn through(mut self, command: &str) -> Self {
        self.wrapper = Some(command.to_owned());
        self
    }

    /// Allows leftovers: the test is about processes that cannot be killed.
    pub(crate) fn allow_leftovers(mut self) -> Self {
        self.allow_leftovers = true;
        self
    }

    /// The directory that holds the root and the task file.
    pub(crate) fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub(crate) fn task_file(&self) -> PathBuf {
        self.dir.path().join("task.yaml")
    }

    pub(crate) fn sandbox(&self, name: &str) -> PathBuf {
        self.root.sandbox(&self.id).join(name)
    }

    /// The text of a file in the sandbox, without the end of its last line.
    pub(crate) fn text(&self, name: &str) -> String {
        let path = self.sandbox(name);
        let text = fs::read_to_string(&path);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.trim_end().to_owned()
    }

    /// How many lines a file in the sandbox has; none if it is not there.
    pub(crate) fn count_lines(&self, name: &str) -> usize {
        let text = fs::read_to_string(self.sandbox(name)).unwrap_or_default();
        text.lines().count()
    }

    /// True if the sandbox has such a file.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.sandbox(name).exists()
    }

    /// Makes a file in the sandbox, for processes that wait for it.
    pub(crate) fn touch(&self, name: &str) {
        fs::write(self.sandbox(name), "").expect("the sandbox is there");
    }

    /// Waits until a process has made a file.
    pub(crate) fn wait_for(&self, name: &str) {
        until(&format!("the file {name}"), || self.has(name));
    }

    /// Waits until a process has written its number, or a child's, as a whole line.
    pub(crate) fn wait_for_pid(&self, name: &str) -> u32 {
        let mut pid = None;
        until(&format!("a number in {name}"), || {
            let text = fs::read_to_string(self.sandbox(name)).unwrap_or_default();
            let whole = text.strip_suffix('\n');
            pid = whole.and_then(|text| text.lines().last()?.parse().ok());
            pid.is_some()
        });
        pid.expect("just seen")
    }

    /// What one run has printed.
    pub(crate) fn output(&self, process: &str, run: u64, stream: &str) -> String {
        self.text(&format!(".logs/{process}/{run}/{stream}"))
    }

    /// Starts the task.
    pub(crate) fn start(&self) -> Runner<'_> {
        let file = self.task_file();
        let mut args = vec![file.to_str().expect("UTF-8").to_owned()];
        args.extend(self.args.iter().cloned());
        self.drive(&args)
    }

    /// Resumes the task.
    pub(crate) fn resume(&self) -> Runner<'_> {
        self.drive(&[])
    }

    /// Starts the task, and waits for its end.
    pub(crate) fn run(&self) -> Ended {
        self.start().wait()
    }

    fn drive(&self, args: &[String]) -> Runner<'_> {
        let mut words = vec![BATON.to_owned(), "local".to_owned(), "run".to_owned()];
        words.extend(args.iter().cloned());
        words.extend(["--task-id".to_owned(), self.id.to_string()]);
        words.extend(self.root_args());
        words.push("--json".to_owned());
        Runner::begin(self, self.command(&words))
    }

    fn root_args(&self) -> [String; 2] {
        let root = self.root.path().to_str().expect("UTF-8").to_owned();
        ["--root".to_owned(), root]
    }

    fn command(&self, words: &[String]) -> Command {
        let mut command = match &self.wrapper {
            None => Command::new(&words[0]),
            Some(wrapper) => {
                let mut command = Command::new("bash");
                command.args(["-c", wrapper, "bash", &words[0]]);
                command
            }
        };
        command.args(&words[1..]).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(self.env.iter().cloned());
        command
    }

    /// `baton local …` for this root, to its end.
    pub(crate) fn baton(&self, args: &[&str]) -> Output {
        let mut command = Command::new(BATON);
        command.arg("local").args(self.root_args()).args(args);
        command.output().expect("the binary is there")
    }

    /// The same, for an answer in JSON.
    pub(crate) fn baton_json(&self, args: &[&str]) -> Value {
        let output = self.baton(args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
    }

    /// `baton local status --json` of this task.
    pub(crate) fn status(&self) -> Value {
        let all = self.baton_json(&["status", self.id.as_str(), "--json"]);
        let all = all.as_array().expect("a list").clone();
        assert_eq!(all.len(), 1, "one task: {all:?}");
        all.into_iter().next().expect("one")
    }

    pub(crate) fn task_log(&self) -> TaskLog {
        TaskLog::load(&self.root.runner_log(&self.id))
    }

    /// True if it is filed as ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.root.phase(&self.id).expect("readable") == Some(Phase::Finished)
    }

    /// The number of its coordinator, dead or alive.
    pub(crate) fn coordinator(&self) -> u32 {
        let mut pid = None;
        until("a coordinator", || {
            pid = self.coordinator_now();
            pid.is_some()
        });
        pid.expect("just seen")
    }

    fn coordinator_now(&self) -> Option<u32> {
        let path = self.root.coordinator_log(&self.id);
        let read = log::read::<CoordinatorRecord>(&path, Kind::Coordinator).ok()?;
        match read.records.first() {
            Some(CoordinatorRecord::Begun { pid, .. }) => Some(*pid),
            _ => None,
        }
    }

    /// Kills the coordinator, and waits until it is gone.
    pub(crate) fn kill_coordinator(&self) -> u32 {
        let pid = self.coordinator();
        assert!(send(pid, Signal::KILL), "the coordinator is there");
        until("the end of the coordinator", || !is_alive(pid));
        pid
    }

    /// Waits until another coordinator than this one has taken over.
    pub(crate) fn wait_for_successor(&self, of: u32) {
        until("another coordinator", || {
            self.coordinator_now().is_some_and(|pid| pid != of)
        });
    }

    /// Waits until another coordinator than this one watches this run of the first process.
    pub(crate) fn wait_for_adoption(&self, dead: u32, number: u64) {
        let path = self.root.coordinator_log(&self.id);
        until("a coordinator that watches the run", || {
            let read = log::read::<CoordinatorRecord>(&path, Kind::Coordinator);
            read.is_ok_and(|read| {
                let first = read.records.first();
                let another =
                    matches!(first, Some(CoordinatorRecord::Begun { pid, .. }) if *pid != dead);
                another
                    && read.records.iter().any(|record| {
                        matches!(record, CoordinatorRecord::Started { run, .. }
                        if run.process.index() == 0 && run.run.0 == number)
                    })
            })
        });
    }

    /// Discards the output so far: the log was rewritten.
    pub(crate) fn discard_output(&self) {
        self.printed.borrow_mut().clear();
    }

    /// The mark of every process of the task.
    pub(crate) fn mark(&self) -> Option<String> {
        let path = self.root.runner_log(&self.id);
        path.exists()
            .then(|| TaskLog::load(&path).header().mark.clone())
    }
}

impl Drop for Scenario {
    fn drop(&mut self) {
        // In a panic too; so nothing here may panic, and all of it is tried.
        for pid in processes::coordinators(self.root.path()) {
            send(pid, Signal::KILL);
        }
        let mark = log::salvage(&self.root.runner_log(&self.id), Kind::Runner)
            .ok()
            .and_then(
                |(recovered, _)| match recovered.records.into_iter().next() {
                    Some(baton_runner::record::RunnerRecord::Begun(header)) => Some(header.mark),
                    _ => None,
                },
            );
        if let Some(mark) = mark {
            for _ in 0..100 {
                let left = marked(&mark);
                if left.is_empty() {
                    break;
                }
                for pid in left {
                    send(pid, Signal::KILL);
                }
            }
        }
    }
}
