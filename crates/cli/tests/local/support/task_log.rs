//! Queries over the replayed log of a task.

use std::path::Path;

use baton_core::plan::Plan;
use baton_model::outcome::Outcome;
use baton_model::task::{
    Identity, Moment, PlanChange, PlanEvent, ProcessNo, ProcessProgress, RunEnd, RunNo,
};
use baton_model::time::Mono;
use baton_runner::log::{self, Kind};
use baton_runner::record::{Header, RunnerRecord};
use baton_runner::root::History;

/// A log, replayed.
pub(crate) struct TaskLog {
    pub(super) history: History,
    pub(super) torn_bytes: u64,
}

/// One run of one process, as far as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedRun {
    pub(crate) ordered: Moment,
    pub(crate) started: Option<Moment>,
    pub(crate) identity: Option<Identity>,
    pub(crate) ended: Option<Moment>,
    pub(crate) end: Option<RunEnd>,
    pub(crate) failure: bool,
}

impl TaskLog {
    /// Reads and replays a log; every record must follow from the ones before it.
    pub(super) fn load(path: &Path) -> Self {
        let read = log::read::<RunnerRecord>(path, Kind::Runner);
        let read = read.unwrap_or_else(|error| panic!("the log cannot be read: {error}"));
        let (history, misfit) = History::replay(read.records).expect("a log with a beginning");
        assert_eq!(misfit, None, "the log contradicts itself");
        Self {
            history,
            torn_bytes: read.torn_bytes,
        }
    }

    pub(crate) fn header(&self) -> &Header {
        &self.history.header
    }

    /// The plan after the replay.
    pub(crate) fn plan(&self) -> &Plan {
        &self.history.plan
    }

    /// The state after the replay.
    pub(crate) fn state(&self) -> &'static str {
        self.history.plan.state().word()
    }

    pub(crate) fn events(&self) -> Vec<PlanEvent> {
        self.history.events().cloned().collect()
    }

    /// When such a change was first recorded.
    pub(crate) fn when(&self, what: &str, wanted: impl Fn(&PlanChange) -> bool) -> Mono {
        let found = self.history.events().find(|event| wanted(&event.change));
        found
            .unwrap_or_else(|| panic!("nothing in the log says: {what}"))
            .at
            .mono
    }

    fn no(&self, process: &str) -> ProcessNo {
        let all = self.history.header.spec.processes.iter();
        let place = all.clone().position(|spec| spec.name.0 == process);
        let place = place.unwrap_or_else(|| panic!("there is no process {process}"));
        ProcessNo(u32::try_from(place).expect("few processes"))
    }

    pub(crate) fn progress(&self, process: &str) -> ProcessProgress {
        *self.plan().process(self.no(process)).expect("known")
    }

    /// Every run of a process.
    pub(crate) fn runs(&self, process: &str) -> Vec<RecordedRun> {
        let no = self.no(process);
        let mut runs: Vec<RecordedRun> = Vec::new();
        let at = |run: RunNo| usize::try_from(run.0).expect("few runs");
        for event in self.history.events() {
            match event.change {
                PlanChange::RunOrdered { process, .. } if process == no => runs.push(RecordedRun {
                    ordered: event.at,
                    started: None,
                    identity: None,
                    ended: None,
                    end: None,
                    failure: false,
                }),
                PlanChange::RunStarted {
                    process,
                    run,
                    started,
                    identity,
                } if process == no => {
                    runs[at(run)].started = Some(started);
                    runs[at(run)].identity = identity;
                }
                PlanChange::RunEnded {
                    process,
                    run,
                    ended,
                    end,
                    failure,
                    ..
                } if process == no => {
                    let told = &mut runs[at(run)];
                    (told.ended, told.end, told.failure) = (Some(ended), Some(end), failure);
                }
                _ => {}
            }
        }
        runs
    }

    /// How each run of a process ended.
    pub(crate) fn ends(&self, process: &str) -> Vec<RunEnd> {
        let runs = self.runs(process);
        runs.into_iter().filter_map(|run| run.end).collect()
    }

    /// The pid of the first run of a process.
    pub(crate) fn pid(&self, process: &str) -> u32 {
        let run = self.runs(process).first().copied();
        let identity = run.and_then(|run| run.identity);
        identity.expect("a run that was started").pid
    }

    /// True if something of one process happened entirely before the other began.
    pub(crate) fn ended_before(&self, one: &str, other: &str) -> bool {
        let last = self.runs(one).last().and_then(|run| run.ended);
        let first = self.runs(other).first().map(|run| run.ordered);
        matches!((last, first), (Some(last), Some(first)) if last.mono <= first.mono)
    }
}

/// It exited by itself.
pub(crate) const fn exited(code: i32) -> RunEnd {
    RunEnd::Observed(Outcome::Exited(code))
}

/// It died of a signal that Baton did not send.
pub(crate) const fn signalled(signal: i32) -> RunEnd {
    RunEnd::Observed(Outcome::Signaled(signal))
}
