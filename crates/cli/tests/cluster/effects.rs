//! An instance whose executions are observable: it holds a lock for as long
//! as one of its processes lives, and writes a line when it starts and one when it ends.

use std::path::PathBuf;

use baton_model::fact::Fact;
use baton_model::ids::InstanceId;
use baton_model::outcome::{AttemptEnd, Outcome};
use baton_testing::cluster::{Cluster, lines};
use baton_testing::until_some;
use serde_json::{Value, json};

use crate::api::Api;

/// Runs until the file `go` is there.
const SCRIPT: &str = r#"
exec 9>"$DIR/lock"
flock -n 9 || echo "$BATON_ATTEMPT" >> "$DIR/overlap"
echo "$BATON_ATTEMPT $$" >> "$DIR/start"
until [ -e "$DIR/go" ]; do sleep 0.05; done
echo "$BATON_ATTEMPT" >> "$DIR/end"
"#;

/// The files of one such instance.
#[derive(Debug)]
pub(crate) struct Effects {
    dir: PathBuf,
}

impl Effects {
    /// Files of this name.
    pub(crate) fn new(cluster: &Cluster, name: &str) -> Self {
        let dir = cluster.path(name);
        std::fs::create_dir(&dir).expect("made");
        Self { dir }
    }

    /// A task that runs until it is let go, after these commands.
    pub(crate) fn task(&self, before: &str) -> Value {
        json!({ "task": "effects", "run": format!("{before}\n{SCRIPT}"), "env": { "DIR": self.dir } })
    }

    /// The same as a task of processes, with a runner of its own.
    pub(crate) fn task_of_processes(&self) -> Value {
        let process = json!({ "name": "one", "run": SCRIPT, "env": { "DIR": self.dir } });
        // With one process alone it would need no runner.
        let other = json!({ "name": "other", "run": "true" });
        json!({ "task": "effects", "processes": [process, other] })
    }

    /// Lets it end.
    pub(crate) fn go(&self) {
        std::fs::write(self.dir.join("go"), "").expect("written");
    }

    /// The attempt and the shell of each start so far.
    pub(crate) fn starts(&self) -> Vec<(u32, u32)> {
        let starts = lines(&self.dir.join("start"));
        let words = starts.iter().filter_map(|line| line.split_once(' '));
        words
            .map(|(attempt, pid)| {
                let number = |text: &str| text.parse().expect("a number");
                (number(attempt), number(pid))
            })
            .collect()
    }

    /// Waits for the n-th start; gives its attempt and its shell.
    pub(crate) fn started(&self, nth: usize) -> (u32, u32) {
        until_some("it starts", || self.starts().get(nth - 1).copied())
    }

    /// The attempts that have come to their end.
    pub(crate) fn ends(&self) -> Vec<String> {
        lines(&self.dir.join("end"))
    }

    /// Fails if two executions overlapped.
    pub(crate) fn never_overlapped(&self) {
        let overlaps = lines(&self.dir.join("overlap"));
        assert!(
            overlaps.is_empty(),
            "attempts {overlaps:?} met another one: {:?}",
            self.starts()
        );
    }
}

/// How the attempts of an instance ended, in their order, as recorded.
pub(crate) fn recorded(cluster: &Cluster, id: InstanceId) -> Vec<(u32, AttemptEnd)> {
    let events = cluster.timeline(id).into_iter();
    let ends = events.filter_map(|event| match event.fact {
        Fact::AttemptEnded { lease, end, .. } => Some((lease.attempt.number.0, end)),
        _ => None,
    });
    ends.collect()
}

/// How an attempt ends that has exited with 0.
pub(crate) const SUCCESS: AttemptEnd = AttemptEnd::Real(Outcome::Exited(0));
