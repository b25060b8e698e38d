//! The processes of an attempt, for clients who watch it.
//!
//! A plain command has one process, which the agent knows. Those of a task are in the log of its
//! runner. That log belongs to the attempt's user and may be long, so another thread reads it, and
//! few do at a time: the loop must not miss a heartbeat.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use baton_core::supervision::attempts::{Attempt, Phase};
use baton_model::ids::{LeaseId, RequestId};
use baton_model::message::{
    AttemptProcesses, ProcessAnswer, ProcessQuery, ProcessStatus, UsageSample,
};
use baton_model::outcome::Outcome;
use baton_model::state::{AttemptState, ProcessState};
use baton_runner::logs::open_dir;
use baton_runner::root::{GuardedView, TaskId};
use baton_runner::samples::samples_limit;
use rustix::fs::CWD;

use crate::attempt_dir::{RUNNER_DIR, dir_name};
use crate::state::WORK;

/// Readings in flight at most.
const READINGS_MAX: usize = 4;

/// Describes a plain command that the worker holds.
pub(crate) fn of_command(
    attempt: &Attempt,
    usage: Vec<UsageSample>,
    samples_max: u32,
) -> ProcessAnswer {
    let (state, process) = match &attempt.phase {
        Phase::AwaitingSecrets | Phase::Requested | Phase::Waiting => {
            (AttemptState::Active, ProcessState::Waiting)
        }
        Phase::Running | Phase::Restarting(_) => (AttemptState::Active, ProcessState::Running),
        Phase::Concluded(report) | Phase::Ended(report) => match report.outcome {
            Outcome::Exited(0) => (AttemptState::Success, ProcessState::Success),
            Outcome::Killed(_) => (AttemptState::Killed, ProcessState::Killed),
            outcome if outcome.is_outside_kill() => (AttemptState::Killed, ProcessState::Killed),
            _ => (AttemptState::Failed, ProcessState::Failed),
        },
    };
    let last_end = match &attempt.phase {
        Phase::Concluded(report) | Phase::Ended(report) => Some(report.outcome.to_string()),
        _ => None,
    };
    let count = |is: ProcessState| u64::from(process == is);
    ProcessAnswer::Processes(AttemptProcesses {
        state,
        processes: vec![ProcessStatus {
            name: attempt.assignment.spec.name.clone(),
            state: process,
            runs: 1,
            successes: count(ProcessState::Success),
            failures: count(ProcessState::Failed),
            kills: count(ProcessState::Killed),
            losses: 0,
            pid: attempt
                .started
                .map(|(_, first)| first.pid)
                .filter(|_| last_end.is_none()),
            started: attempt.started.map(|(at, _)| at.wall),
            last_end,
            usage: UsageSample::spread(&usage, samples_limit(1, samples_max)),
        }],
        omitted: 0,
    })
}

/// Reads the log of a task's runner.
fn of_task(state: &Path, query: &ProcessQuery) -> ProcessAnswer {
    match load(state, query.lease) {
        Ok(Some(view)) => {
            ProcessAnswer::Processes(view.history.statuses(&view.samples, query.samples_max))
        }
        Ok(None) => ProcessAnswer::NotFound,
        Err(reason) => ProcessAnswer::Unavailable(format!(
            "the worker cannot read the log of the task's runner: {reason}"
        )),
    }
}

fn load(state: &Path, lease: LeaseId) -> Result<Option<GuardedView>, String> {
    let name = dir_name(lease);
    let id = TaskId::new(&name).map_err(|error| error.to_string())?;
    let open = || -> io::Result<_> {
        match open_dir(CWD, &*state.join(WORK).join(&name))? {
            Some(dir) => open_dir(dir, RUNNER_DIR),
            None => Ok(None),
        }
    };
    match open().map_err(|error| error.to_string())? {
        Some(root) => GuardedView::load(root, &id).map_err(|error| error.to_string()),
        None => Ok(None),
    }
}

/// Reads the logs of runners on other threads. Its descriptor is readable when an answer is there.
#[derive(Debug)]
pub(crate) struct ProcessReader {
    state: PathBuf,
    answers: Receiver<(RequestId, ProcessAnswer)>,
    sender: Sender<(RequestId, ProcessAnswer)>,
    ready: UnixStream,
    waker: Arc<UnixStream>,
    /// Every reading in flight holds a clone.
    in_flight: Arc<()>,
}

impl ProcessReader {
    pub(crate) fn new(state: &Path) -> io::Result<Self> {
        let (ready, waker) = UnixStream::pair()?;
        ready.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        let (sender, answers) = mpsc::channel();
        Ok(Self {
            state: state.to_owned(),
            answers,
            sender,
            ready,
            waker: Arc::new(waker),
            in_flight: Arc::new(()),
        })
    }

    /// Starts to read the processes of a task; the answer is in [`Self::take`].
    pub(crate) fn begin(&self, request: RequestId, query: ProcessQuery) {
        if Arc::strong_count(&self.in_flight) > READINGS_MAX {
            let reason = "the worker reads the processes of other attempts; try again";
            return self.answer(request, ProcessAnswer::Unavailable(reason.to_owned()));
        }
        let (state, sender) = (self.state.clone(), self.sender.clone());
        let (waker, held) = (Arc::clone(&self.waker), Arc::clone(&self.in_flight));
        let reading = thread::Builder::new()
            .name("processes".to_owned())
            .spawn(move || {
                let answer = of_task(&state, &query);
                // Before the wake: one that sees the answer may begin another.
                drop(held);
                // Fails only if the agent is exiting.
                let _ = sender.send((request, answer));
                let _ = (&*waker).write(&[0]);
            });
        if let Err(error) = reading {
            let reason = format!("the worker cannot start a thread: {error}");
            self.answer(request, ProcessAnswer::Unavailable(reason));
        }
    }

    fn answer(&self, request: RequestId, answer: ProcessAnswer) {
        // The receiver is our own. If the socket is full, it is readable already.
        let _ = self.sender.send((request, answer));
        let _ = (&*self.waker).write(&[0]);
    }

    /// The answers that are there.
    pub(crate) fn take(&mut self) -> Vec<(RequestId, ProcessAnswer)> {
        let mut bytes = [0; 64];
        while matches!(self.ready.read(&mut bytes), Ok(read) if read > 0) {}
        self.answers.try_iter().collect()
    }
}

impl AsFd for ProcessReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}
