//! The log replays to the observed state.

use std::collections::BTreeMap;

use baton_model::state::ProcessState;
use baton_runner::root::Step;
use serde_json::{Value, json};

use super::runner::{Ended, change};
use super::{Scenario, is_alive, marked, until};

impl Scenario {
    /// Proves, at the end of a task: the log is complete and replays; each runner process
    /// printed what its part of the log holds; the state it announced, the exit status,
    /// `status` and the replay agree; nothing that belonged to the task is left.
    pub(super) fn prove(&self, ended: &Ended) {
        let log = self.task_log();
        let context = format!("{ended:?}");
        assert_eq!(log.torn_bytes, 0, "{context}");
        let outcome = log.plan().outcome();
        let state = outcome.map(|state| state.word());
        assert!(
            state.is_some(),
            "the log does not lead to an end: {context}"
        );
        assert_eq!(ended.state(), state, "announced and replayed: {context}");
        let code = match state {
            Some("SUCCESS") => 0,
            Some("FAILED") => 1,
            Some("KILLED") => 3,
            Some("LOST") => 4,
            _ => -1,
        };
        assert_eq!(ended.code, code, "{context}");
        self.prove_runner_outputs();
        self.prove_status();
        assert!(self.is_finished(), "filed as ended: {context}");
        self.prove_nothing_is_left();
    }

    /// Each runner process has printed its part of the log, and nothing else.
    pub(crate) fn prove_runner_outputs(&self) {
        let kept = self.records_by_runner();
        for printed in self.printed.borrow().iter() {
            let seen: Vec<Value> = printed
                .lines
                .iter()
                .filter(|line| change(line).is_some())
                .map(|line| json!({ "wall_ms": line["wall_ms"], "change": line["change"] }))
                .collect();
            let kept = kept
                .get(&printed.pid)
                .map(Vec::as_slice)
                .unwrap_or_default();
            if printed.killed {
                assert!(
                    kept.starts_with(&seen),
                    "printed, but not kept: {seen:#?} is not how this begins: {kept:#?}"
                );
            } else {
                assert_eq!(seen, kept, "printed and kept");
            }
        }
    }

    /// The records of each runner process, by its number.
    fn records_by_runner(&self) -> BTreeMap<u32, Vec<Value>> {
        let mut kept: BTreeMap<u32, Vec<Value>> = BTreeMap::new();
        let mut life = 0;
        for step in &self.task_log().history.steps {
            match step {
                Step::RunnerStarted(begun) => life = begun.pid,
                Step::Event(event) => {
                    let value = json!({ "wall_ms": event.at.wall, "change": event.change });
                    kept.entry(life).or_default().push(value);
                }
            }
        }
        kept
    }

    /// `status` shows what the log replays to.
    pub(crate) fn prove_status(&self) {
        let (status, log) = (self.status(), self.task_log());
        assert_eq!(status["state"], log.state(), "{status}");
        let shown = status["processes"].as_array().expect("a list").clone();
        let specs = &log.header().spec.processes;
        assert_eq!(shown.len(), specs.len());
        for (shown, spec) in shown.iter().zip(specs) {
            let kept = log.progress(&spec.name.0);
            // One that would have run again, had its task not ended, is shown as its last run.
            let last = kept.last.filter(|_| status["state"] != json!("ACTIVE"));
            let state = match last {
                Some(last) if kept.state == ProcessState::Waiting => last.state,
                _ => kept.state,
            };
            let kept = json!({
                "name": spec.name, "state": state, "fate": kept.disposition, "runs": kept.runs,
                "successes": kept.successes, "failures": kept.failures, "kills": kept.kills,
                "losses": kept.losses, "pid": kept.live.and_then(|live| live.identity).map(|it| it.pid),
            });
            for (name, value) in kept.as_object().expect("an object") {
                assert_eq!(&shown[name], value, "{name} of {}", spec.name);
            }
        }
    }

    fn prove_nothing_is_left(&self) {
        let coordinator = self.coordinator();
        until("the end of the coordinator", || !is_alive(coordinator));
        if self.allow_leftovers {
            return;
        }
        let left = marked(&self.task_log().header().mark);
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}
