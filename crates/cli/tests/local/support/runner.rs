//! One runner process, in the background.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use baton_model::json;
use baton_model::task::{PlanChange, RunNo};
use serde_json::Value;

use super::{Scenario, Signal, is_alive, send, until};

/// The exit status of a runner that failed itself.
const OWN_ERROR: i32 = 5;

/// The output of one runner process.
#[derive(Clone, Debug)]
pub(super) struct RunnerOutput {
    /// The number of the runner.
    pub(super) pid: u32,
    pub(super) lines: Vec<Value>,
    /// It was killed, or a write to its log failed halfway: its last changes may not have been
    /// printed.
    pub(super) killed: bool,
}

#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit status.
    pub(crate) code: i32,
    /// Every object that was printed.
    pub(crate) lines: Vec<Value>,
    pub(crate) stderr: String,
}

/// A runner at work.
pub(crate) struct Runner<'a> {
    scenario: &'a Scenario,
    child: Child,
    lines: Arc<Mutex<Vec<Value>>>,
    stdout: Option<JoinHandle<()>>,
    stderr: Option<JoinHandle<String>>,
}

impl<'a> Runner<'a> {
    pub(super) fn begin(scenario: &'a Scenario, mut command: Command) -> Self {
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary is there");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (stdout, mut stderr) = (
            child.stdout.take().expect("piped"),
            child.stderr.take().expect("piped"),
        );
        let kept = Arc::clone(&lines);
        let stdout = std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let line = line.expect("UTF-8");
                // A runner that was killed may have been in the middle of a line.
                if let Ok(value) = serde_json::from_str(&line) {
                    kept.lock().expect("not poisoned").push(value);
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).expect("UTF-8");
            text
        });
        Self {
            scenario,
            child,
            lines,
            stdout: Some(stdout),
            stderr: Some(stderr),
        }
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.lines.lock().expect("not poisoned").clone()
    }

    /// Waits until it has printed something like this.
    pub(crate) fn wait_for(&self, what: &str, wanted: impl Fn(&Value) -> bool) {
        until(what, || {
            self.lines().iter().any(&wanted) || !is_alive(self.pid())
        });
        // It may have printed that and ended: then its output is still in flight.
        until(&format!("{what}, before the runner's end"), || {
            self.lines().iter().any(&wanted)
        });
    }

    /// Waits for such a change of the plan.
    pub(crate) fn wait_for_change(&self, what: &str, wanted: impl Fn(&PlanChange) -> bool) {
        self.wait_for(what, |line| change(line).is_some_and(|it| wanted(&it)));
    }

    /// Waits until this run of this process is there.
    pub(crate) fn wait_for_start(&self, process: &str, number: u64) {
        self.wait_for(&format!("the start of {process}, run {number}"), |line| {
            let started = matches!(change(line), Some(PlanChange::RunStarted { run, .. }) if run == RunNo(number));
            started && line["process"] == process
        });
    }

    /// Waits until this run of this process is over.
    pub(crate) fn wait_for_end(&self, process: &str, number: u64) {
        self.wait_for(&format!("the end of {process}, run {number}"), |line| {
            let ended = matches!(change(line), Some(PlanChange::RunEnded { run, .. }) if run == RunNo(number));
            ended && line["process"] == process
        });
    }

    /// Signals the runner.
    pub(crate) fn signal(&self, signal: Signal) {
        assert!(send(self.pid(), signal), "the runner is there");
    }

    /// Kills the runner; its processes continue.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.finish(true);
    }

    /// Waits for its end, and proves that its output agrees with the log.
    pub(crate) fn wait(mut self) -> Ended {
        let ended = self.finish(false);
        self.scenario.prove(&ended);
        ended
    }

    /// Waits for its end where the task is not at its own.
    pub(crate) fn wait_unproved(mut self) -> Ended {
        self.finish(false)
    }

    fn finish(&mut self, killed: bool) -> Ended {
        let mut status = None;
        until("the end of the runner", || {
            status = self.child.try_wait().expect("our child");
            status.is_some()
        });
        if let Some(reader) = self.stdout.take() {
            reader.join().expect("lines of JSON");
        }
        let stderr = self.stderr.take().map(JoinHandle::join);
        let lines = self.lines();
        let code = status.and_then(|status| status.code()).unwrap_or(-1);
        self.scenario.printed.borrow_mut().push(RunnerOutput {
            pid: self.pid(),
            lines: lines.clone(),
            killed: killed || code == OWN_ERROR,
        });
        Ended {
            code,
            lines,
            stderr: stderr.and_then(Result::ok).unwrap_or_default(),
        }
    }
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        // After a failed test; a runner that has ended is ignored.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Ended {
    /// The lines of processes that log to the console.
    pub(crate) fn output(&self) -> Vec<(String, String, String)> {
        let lines = self.lines.iter().filter(|line| line["kind"] == "output");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        lines
            .map(|line| {
                (
                    text(&line["process"]),
                    text(&line["stream"]),
                    text(&line["text"]),
                )
            })
            .collect()
    }

    /// The state that was announced.
    pub(crate) fn state(&self) -> Option<&str> {
        let ended = self.lines.iter().find(|line| line["kind"] == "ended")?;
        ended["state"].as_str()
    }
}

/// The change that a line reports.
pub(super) fn change(line: &Value) -> Option<PlanChange> {
    (line["kind"] == "change").then(|| json::from_value(&line["change"]).expect("a change"))
}
