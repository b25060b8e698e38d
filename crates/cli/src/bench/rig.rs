//! A root of its own, and commands of this very binary in it.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::output::Failure;

/// Whatever takes longer than this has gone wrong.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A root that is removed at the end.
pub(super) struct Rig {
    root: PathBuf,
}

/// A task under way.
pub(super) struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
    pub(super) begun: Instant,
}

impl Rig {
    pub(super) fn new(place: &Path) -> Result<Self, Failure> {
        let root = place.join(format!("baton-bench-{}", std::process::id()));
        std::fs::create_dir_all(&root).map_err(|error| io_failure("make a root", &error))?;
        Ok(Self { root })
    }

    /// Writes a task file of these processes.
    pub(super) fn task(&self, name: &str, processes: Vec<Value>) -> Result<PathBuf, Failure> {
        let path = self.root.join(format!("{name}.json"));
        let task = serde_json::json!({ "task": name, "processes": processes });
        std::fs::write(&path, task.to_string())
            .map_err(|error| io_failure("write a task", &error))?;
        Ok(path)
    }

    /// Begins a task, or goes on with it.
    pub(super) fn run(&self, id: &str, file: Option<&Path>) -> Result<Running, Failure> {
        let begun = Instant::now();
        let mut command = self.local();
        command.args(["run", "--json", "--task-id", id]).args(file);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| io_failure("start baton", &error))?;
        let Some(out) = child.stdout.take() else {
            return Err(io_failure("hear baton", &io::ErrorKind::BrokenPipe.into()));
        };
        Ok(Running {
            child,
            lines: BufReader::new(out),
            begun,
        })
    }

    /// Kills a task, with everything that it runs.
    pub(super) fn kill(&self, id: &str) -> Result<(), Failure> {
        let mut command = self.local();
        command.args(["kill", "--now", id]).stdout(Stdio::null());
        let status = command.status();
        status.map_err(|error| io_failure("kill a task", &error))?;
        Ok(())
    }

    pub(super) fn checkpoint(&self, id: &str) -> PathBuf {
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
        // Below the place for temporary files; nobody misses it.
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

impl Running {
    /// Reads on until something has happened; gives all changes up to it.
    pub(super) fn until(
        &mut self,
        mut reached: impl FnMut(&Value) -> bool,
    ) -> Result<Vec<Value>, Failure> {
        let mut all = Vec::new();
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.lines.read_line(&mut line);
            if read.map_err(|error| io_failure("hear baton", &error))? == 0 {
                return Err(Failure::failed("a task ended before its time"));
            }
            let value: Value = serde_json::from_str(&line)?;
            let done = reached(&value);
            all.push(value);
            if done {
                return Ok(all);
            }
            if self.begun.elapsed() > TIMEOUT {
                return Err(Failure::failed("a task takes too long to be measured"));
            }
        }
    }

    /// Kills the runner alone, as an accident would.
    pub(super) fn kill_runner(mut self) -> Result<(), Failure> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map_err(|error| io_failure("kill a runner", &error))?;
        Ok(())
    }

    pub(super) fn wait(mut self) -> Result<(), Failure> {
        let ended = self.child.wait();
        let status = ended.map_err(|error| io_failure("wait for baton", &error))?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::failed(format!("a task did not succeed: {status}")))
        }
    }
}

/// What stood in the way of measuring.
pub(super) fn io_failure(what: &str, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot {what}: {error}"))
}
