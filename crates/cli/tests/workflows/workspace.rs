//! A directory in which workflows are written and their tasks leave lines, with a scheduler and
//! a worker beside it.
//!
//! In the text of a workflow, `DIR` is that directory. A line is appended with one write, so
//! lines of several tasks never mix.

use std::path::{Path, PathBuf};
use std::process::Child;

use baton_testing::cluster::{Cluster, lines};
use baton_testing::command::Ended;
use serde_json::Value;

/// A scheduler, a worker, and a directory.
pub(crate) struct Workspace {
    cluster: Cluster,
}

/// A run that was waited for.
#[derive(Debug)]
pub(crate) struct FinishedRun {
    /// The exit status of the command that waited.
    pub(crate) code: Option<i32>,
    /// The run, as JSON.
    pub(crate) run: Value,
}

impl FinishedRun {
    /// Its id.
    pub(crate) fn id(&self) -> &str {
        self.run["id"].as_str().expect("it has an id")
    }

    /// Fails unless it is DONE.
    pub(crate) fn is_done(&self) {
        assert_eq!((self.code, &self.run["state"]), (Some(0), &"DONE".into()));
    }

    /// Fails unless it has FAILED.
    pub(crate) fn has_failed(&self) {
        assert_eq!((self.code, &self.run["state"]), (Some(1), &"FAILED".into()));
    }

    /// Where its items are: `3 done, 1 failed`.
    pub(crate) fn items(&self) -> String {
        counts(&self.run["items"])
    }
}

impl Workspace {
    pub(crate) fn start() -> Self {
        Self {
            cluster: Cluster::with_worker(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.cluster.path(name)
    }

    pub(crate) fn url(&self) -> &str {
        self.cluster.url()
    }

    /// Writes a workflow.
    pub(crate) fn write(&self, name: &str, text: &str) {
        write(&self.path(""), name, text);
    }

    /// A command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.cluster.run(args)
    }

    /// A command in the background.
    pub(crate) fn begin(&self, args: &[&str]) -> Child {
        self.cluster.begin(args)
    }

    /// Writes a workflow, submits it, and waits for its end.
    pub(crate) fn finished(&self, text: &str) -> FinishedRun {
        self.finished_with(text, &[])
    }

    /// The same, with more arguments.
    pub(crate) fn finished_with(&self, text: &str, args: &[&str]) -> FinishedRun {
        self.write("wf.yaml", text);
        let args = [&["submit", "wf.yaml", "--wait", "--json"][..], args].concat();
        finished(&self.run(&args))
    }

    /// Writes a workflow and submits it; gives the id of its run.
    pub(crate) fn submit(&self, text: &str) -> String {
        self.write("wf.yaml", text);
        let accepted = self.run(&["submit", "wf.yaml", "--json"]).json();
        accepted["id"].as_str().expect("an id").to_owned()
    }

    /// Waits for the end of a run.
    pub(crate) fn wait(&self, run: &str) -> FinishedRun {
        let code = self.run(&["watch", run, "--quiet"]).code;
        let run = self.show(run)["run"].take();
        FinishedRun { code, run }
    }

    /// `show RUN --json`.
    pub(crate) fn show(&self, run: &str) -> Value {
        self.run(&["show", run, "--json"]).json()
    }

    /// Where the items of one task are: `3 done, 1 failed`.
    pub(crate) fn task(&self, run: &str, name: &str) -> String {
        let shown = self.show(run);
        let mut tasks = shown["tasks"].as_array().expect("a list").iter();
        let task = tasks.find(|task| task["name"] == name);
        counts(&task.expect("it has such a task")["items"])
    }

    /// The items of a run that have an instance.
    pub(crate) fn items(&self, run: &str) -> Vec<Value> {
        let items = self.run(&["show", run, "--timeline", "--json"]).json();
        items.as_array().expect("a list").clone()
    }

    /// The lines of a file.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        lines(&self.path(name))
    }

    /// The same, in no order.
    pub(crate) fn sorted(&self, name: &str) -> Vec<String> {
        let mut lines = self.lines(name);
        lines.sort();
        lines
    }

    /// Makes a file, for tasks that wait for it.
    pub(crate) fn touch(&self, name: &str) {
        std::fs::write(self.path(name), "").expect("writable");
    }
}

/// How a command ended that has waited for a run with `--json`.
pub(crate) fn finished(ended: &Ended) -> FinishedRun {
    let last = ended.out.lines().last();
    let run = last.and_then(|line| serde_json::from_str(line).ok());
    FinishedRun {
        code: ended.code,
        run: run.unwrap_or_else(|| panic!("{ended:?}")),
    }
}

/// Writes a workflow whose tasks leave lines in the same directory.
pub(crate) fn write(dir: &Path, name: &str, text: &str) {
    let workspace = dir.display().to_string();
    let text = text.replace("DIR", workspace.trim_end_matches('/'));
    std::fs::write(dir.join(name), text).expect("writable");
}

/// The counts that are not zero.
fn counts(items: &Value) -> String {
    let all = [
        "waiting", "ready", "queued", "running", "done", "failed", "halted", "skipped", "blocked",
    ];
    let some = all.iter().filter_map(|name| {
        let count = items[name].as_u64().expect("a number");
        (count > 0).then(|| format!("{count} {name}"))
    });
    some.collect::<Vec<_>>().join(", ")
}

/// Where a line is, which is there once.
pub(crate) fn place_of(lines: &[String], line: &str) -> usize {
    let mut found = (0..).zip(lines).filter(|(_, it)| *it == line);
    match (found.next(), found.next()) {
        (Some((workspace, _)), None) => workspace,
        (none, _) => panic!(
            "{line} is there {} in {lines:?}",
            match none {
                None => "never",
                Some(_) => "more than once",
            }
        ),
    }
}
