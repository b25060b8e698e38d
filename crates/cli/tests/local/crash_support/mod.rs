//! Support for the crash tests: a task with its root, its runners, and the verdict.
//!
//! | file | holds |
//! |---|---|
//! | here | the rig: starting runners, waiting, cleanup |
//! | `tasks` | task files whose processes record their own runs |
//! | `processes` | the processes of a rig, found in `/proc` |
//! | `orphans` | subreaper of orphaned processes |
//! | `verdict` | invariants at the end |
//! | `strace` | failing a system call of a runner or its coordinator |

pub(crate) mod orphans;
pub(crate) mod processes;
pub(crate) mod strace;
pub(crate) mod tasks;
pub(crate) mod verdict;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use baton_runner::log::{self, Kind};
use baton_runner::record::RunnerRecord;
use baton_runner::root::{Root, TaskId};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) use baton_testing::until;

/// One process of the runner.
pub(crate) struct RunnerProcess {
    pub(crate) pid: u32,
    /// While it runs.
    child: Option<Child>,
    /// Once it has ended: its exit code, none after a signal.
    pub(crate) code: Option<i32>,
    out: PathBuf,
    err: PathBuf,
}

impl RunnerProcess {
    /// What it printed: every whole line.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.out).unwrap_or_default();
        let whole = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        whole
            .map(|line| serde_json::from_str(line).expect("each line is an object"))
            .collect()
    }

    /// Its standard error.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(&self.err).unwrap_or_default()
    }

    /// True if it has ended by now.
    pub(crate) fn is_over(&mut self) -> bool {
        let Some(child) = &mut self.child else {
            return true;
        };
        match child.try_wait().expect("our child") {
            Some(status) => {
                self.code = status.code();
                self.child = None;
                orphans::disown(self.pid);
                true
            }
            None => false,
        }
    }
}

/// One task, with a root of its own.
pub(crate) struct Rig {
    pub(crate) dir: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) file: PathBuf,
    pub(crate) id: TaskId,
    pub(crate) lives: Vec<RunnerProcess>,
    /// The sandbox, where it is not below the root.
    elsewhere: Option<PathBuf>,
    /// Added to the command line.
    args: Vec<String>,
    /// Added to the environment of runners.
    pub(crate) env: Vec<(String, String)>,
}

impl Rig {
    /// A task from this file, not yet begun.
    pub(crate) fn new(yaml: &str) -> Self {
        orphans::adopt();
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("task.yaml");
        fs::write(&file, yaml).expect("written");
        Self {
            root: dir.path().join("root"),
            file,
            id: TaskId::new("crash").expect("a good id"),
            lives: Vec::new(),
            elsewhere: None,
            args: Vec::new(),
            env: Vec::new(),
            dir,
        }
    }

    /// The root, for the library.
    pub(crate) fn layout(&self) -> Root {
        Root::new(&self.root).expect("absolute")
    }

    pub(crate) fn runner_log(&self) -> PathBuf {
        self.layout().runner_log(&self.id)
    }

    pub(crate) fn coordinator_log(&self) -> PathBuf {
        self.layout().coordinator_log(&self.id)
    }

    /// Puts the sandbox there.
    pub(crate) fn move_sandbox(&mut self, sandbox: &Path) {
        fs::create_dir_all(sandbox).expect("made");
        self.args = vec!["--sandbox".to_owned(), sandbox.display().to_string()];
        self.elsewhere = Some(sandbox.to_owned());
    }

    /// A file in the sandbox.
    pub(crate) fn sandbox(&self, name: &str) -> PathBuf {
        let place = self.elsewhere.clone();
        let place = place.unwrap_or_else(|| self.layout().sandbox(&self.id));
        place.join(name)
    }

    /// Creates the file that a process waits for.
    pub(crate) fn allow(&self, name: &str) {
        fs::write(self.sandbox(name), "").expect("written");
    }

    /// The command that starts or resumes the task.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        self.complete(&mut command);
        command
    }

    /// Adds everything behind the program.
    fn complete(&self, command: &mut Command) {
        command.args(["local", "run"]).arg(&self.file);
        command.arg("--root").arg(&self.root);
        command.args(["--task-id", self.id.as_str(), "--json"]);
        command.args(&self.args);
        command.envs(self.env.iter().cloned());
    }

    /// Starts a runner.
    pub(crate) fn start(&mut self) -> &mut RunnerProcess {
        let command = self.command();
        self.start_with(command)
    }

    /// Starts a runner with this command.
    pub(crate) fn start_with(&mut self, mut command: Command) -> &mut RunnerProcess {
        let number = self.lives.len();
        let path = |stream: &str| self.dir.path().join(format!("life-{number}.{stream}"));
        let (out, err) = (path("out"), path("err"));
        let file = |path: &Path| Stdio::from(File::create(path).expect("created"));
        command.stdin(Stdio::null());
        command.stdout(file(&out)).stderr(file(&err));
        let child = orphans::start(&mut command);
        self.lives.push(RunnerProcess {
            pid: child.id(),
            child: Some(child),
            code: None,
            out,
            err,
        });
        self.last_runner()
    }

    /// The last runner process.
    pub(crate) fn last_runner(&mut self) -> &mut RunnerProcess {
        self.lives.last_mut().expect("it was started")
    }

    /// Waits for the end of the last runner process; returns its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let life = self.last_runner();
        until("the end of a runner", || life.is_over());
        life.code
    }

    /// Runs to the end, which must be SUCCESS.
    pub(crate) fn finish(&mut self) {
        self.start();
        self.must_succeed();
    }

    /// Waits for the last runner process, which must end with SUCCESS.
    pub(crate) fn must_succeed(&mut self) {
        let code = self.wait();
        assert_eq!(
            code,
            Some(0),
            "the runner ends well; {}",
            self.stderr_of_last_runner()
        );
    }

    /// Kills the last runner process, and waits until it is gone.
    pub(crate) fn kill_runner(&mut self) {
        let life = self.last_runner();
        if let Some(child) = &mut life.child {
            child.kill().expect("our child");
        }
        until("the end of a killed runner", || life.is_over());
    }

    /// Kills the runner, its coordinator and all processes.
    pub(crate) fn kill_all(&mut self) {
        self.kill_runner();
        let sweep = || {
            processes::of_rig(self.dir.path())
                .iter()
                .all(|who| !who.kill())
        };
        until("the end of everything", sweep);
    }

    /// `baton local ARGS` at this root, to its end.
    pub(crate) fn local(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command
            .arg("local")
            .args(args)
            .arg("--root")
            .arg(&self.root);
        orphans::run(&mut command)
    }

    /// The standard error of the last runner process.
    pub(crate) fn stderr_of_last_runner(&self) -> String {
        self.lives
            .last()
            .map(RunnerProcess::stderr)
            .unwrap_or_default()
    }

    /// The records of the runner's log.
    pub(crate) fn records(&self) -> Vec<RunnerRecord> {
        let read = log::read(&self.runner_log(), Kind::Runner);
        read.expect("a log that is not damaged").records
    }

    /// The lines of a file in the sandbox; none if there is no such file.
    pub(crate) fn recorded_lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.sandbox(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until a file of the sandbox is there.
    pub(crate) fn wait_for(&self, name: &str) {
        until(name, || self.sandbox(name).exists());
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // Also after a failed test, no process stays.
        for _ in 0..100 {
            let left = processes::of_rig(self.dir.path());
            if left.iter().all(|who| !who.kill()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        for life in &mut self.lives {
            if let Some(child) = &mut life.child {
                // It is dead already, or was never ours; only its status is taken.
                let _ = child.kill();
                let _ = child.wait();
                orphans::disown(life.pid);
            }
        }
    }
}
