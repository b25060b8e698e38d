//! Inputs of the plan from the runner, and orders to it.

use baton_model::outcome::Outcome;
use baton_model::state::AttemptState;
use baton_model::task::{Identity, ProcessNo, RunNo};
use baton_model::time::{Millis, Now};

/// A report of the coordinator or the clock, or a request.
///
/// A report about a run may come late, twice, or for a run that is long over: the
/// plan counts it and continues. `at` is the time of the event, as the observer read it
/// on the same clock as `now`; it lies before `now` where the runner was dead in
/// between, and a pause or a timeout is measured from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// A launch has worked.
    Started {
        process: ProcessNo,
        run: RunNo,
        at: Now,
        /// None if it is not known.
        identity: Option<Identity>,
    },
    /// A launch has not worked; there is no process.
    LaunchFailed {
        process: ProcessNo,
        run: RunNo,
        at: Now,
        /// For the jitter of the backoff.
        random: u64,
    },
    /// A run is over.
    Exited {
        process: ProcessNo,
        run: RunNo,
        at: Now,
        /// How. `Killed` only where Baton itself has sent the signal.
        outcome: Outcome,
        /// For the jitter of the backoff.
        random: u64,
    },
    /// The outcome of a run is unknown. Also the answer to an order about a
    /// run that the coordinator does not know.
    Lost { process: ProcessNo, run: RunNo },
    /// A run has passed its readiness check.
    Ready { process: ProcessNo, run: RunNo },
    /// A run has failed its health check.
    Unhealthy { process: ProcessNo, run: RunNo },
    /// End the attempt: stop what runs, then run the final processes.
    Kill {
        /// The budget for both; `None` for the task's own `finalization_wait`.
        grace: Option<Millis>,
    },
    /// End the attempt at once: kill what runs, no final processes.
    KillNow,
    /// Give the attempt up: the outcome of its processes cannot be proved, and
    /// the runner stops waiting for the proof.
    GiveUp,
    /// The log has been replayed, and everything that the coordinator knew has
    /// been reported. Resume.
    Resumed {
        /// The host has booted since the log was last written.
        boot_changed: bool,
    },
}

/// An order to the runner. Orders are carried out in sequence.
///
/// Orders are repeated after a recovery, so each must be harmless when it has
/// been carried out before; (process, run) identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Start this run. Answer with `Started` or `LaunchFailed`.
    Launch { process: ProcessNo, run: RunNo },
    /// Ask this run to stop, and kill its whole tree after the grace. Answer with
    /// `Exited` when it is over.
    Stop {
        process: ProcessNo,
        run: RunNo,
        /// The first signal.
        signal: i32,
        /// From it to SIGKILL.
        grace: Millis,
    },
    /// Kill whatever may be left of this run, which counts as over.
    KillRun { process: ProcessNo, run: RunNo },
    /// Kill every process of the task, daemonised ones included, before any
    /// further order is carried out. Answer with `Exited` for each live run.
    KillEverything,
    /// End what has slipped away from runs that are over: ask it to stop, and kill
    /// it after the grace, before any further order is carried out. No run is live.
    KillLeftovers {
        /// For what does not stop at once.
        grace: Millis,
    },
    /// Begin the readiness and health checks of this run.
    StartChecks { process: ProcessNo, run: RunNo },
    /// End them.
    StopChecks { process: ProcessNo, run: RunNo },
    /// The attempt is over, in this state.
    Finish(AttemptState),
}
