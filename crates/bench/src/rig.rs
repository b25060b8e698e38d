//! A temporary root, and `baton local` commands of this binary in it.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use baton_terminal::output::Failure;
use serde_json::Value;

/// A step that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A root directory, removed on drop.
pub(crate) struct Rig {
    root: PathBuf,
}

/// A running task.
pub(crate) struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
    pub(crate) begun: Instant,
}

impl Rig {
    pub(crate) fn new(place: &Path) -> Result<Self, Failure> {
        let root = place.join(format!("baton-bench-{}", std::process::id()));
        std::fs::create_dir_all(&root).map_err(|error| io_failure("make a root", &error))?;
        Ok(Self { root })
    }

    /// Writes a task file of these processes.
    pub(crate) fn task(&self, name: &str, processes: Vec<Value>) -> Result<PathBuf, Failure> {
        let path = self.root.join(format!("{name}.json"));
        let task = serde_json::json!({ "task": name, "processes": processes });
        std::fs::write(&path, task.to_string())
            .map_err(|error| io_failure("write a task", &error))?;
        Ok(path)
    }

    /// Starts a task from a file, or resumes it.
    pub(crate) fn run(&self, id: &str, file: Option<&Path>) -> Result<Running, Failure> {
        let begun = Instant::now();
        let mut command = self.local();
        command.args(["run", "--json", "--task-id", id]).args(file);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| io_failure("start baton", &error))?;
        let Some(out) = child.stdout.take() else {
            return Err(io_failure(
                "read baton's output",
                &io::ErrorKind::BrokenPipe.into(),
            ));
        };
        Ok(Running {
            child,
            lines: BufReader::new(out),
            begun,
        })
    }

    /// Kills a task with all its processes.
    pub(crate) fn kill(&self, id: &str) -> Result<(), Failure> {
        let mut command = self.local();
        command.args(["kill", "--now", id]).stdout(Stdio::null());
        let status = command.status();
        status.map_err(|error| io_failure("kill a task", &error))?;
        Ok(())
    }

    pub(crate) fn checkpoint(&self, id: &str) -> PathBuf {
        self.root.join("checkpoints").join(id)
    }

    fn local(&self) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.arg("local").arg("--root").arg(&self.root);
        command
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // Best effort: it is a temporary directory.
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

impl Running {
    /// Reads changes until one satisfies `reached`; returns all changes up to it.
    pub(crate) fn until(
        &mut self,
        mut reached: impl FnMut(&Value) -> bool,
    ) -> Result<Vec<Value>, Failure> {
        let mut all = Vec::new();
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.lines.read_line(&mut line);
            if read.map_err(|error| io_failure("read baton's output", &error))? == 0 {
                return Err(Failure::failed("a task ended too early"));
            }
            let value: Value = serde_json::from_str(&line)?;
            let done = reached(&value);
            all.push(value);
            if done {
                return Ok(all);
            }
            if self.begun.elapsed() > TIMEOUT {
                return Err(Failure::failed(format!(
                    "a task did not end within {} s",
                    TIMEOUT.as_secs()
                )));
            }
        }
    }

    /// Kills only the runner, as a crash would.
    pub(crate) fn kill_runner(mut self) -> Result<(), Failure> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map_err(|error| io_failure("kill a runner", &error))?;
        Ok(())
    }

    pub(crate) fn wait(mut self) -> Result<(), Failure> {
        let ended = self.child.wait();
        let status = ended.map_err(|error| io_failure("wait for baton", &error))?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::failed(format!("a task failed: {status}")))
        }
    }
}

/// Reports an I/O error of a benchmark step.
pub(crate) fn io_failure(what: &str, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot {what}: {error}"))
}
