//! What a handler of the scheduler's half may touch.

use baton_model::fact::Fact;
use baton_model::ids::{Epoch, Generation, InstanceId, RequestId, Revision, RunId};
use baton_model::message::{LogAnswer, ToWorker, WorkerAddress};
use baton_model::spec::Origin;
use baton_model::state::UniversalState;
use baton_model::time::Now;
use baton_model::timeouts::Timeouts;

use crate::bugs::{Bug, Bugs};
use crate::counts::Counts;
use crate::ledger::Ledger;
use crate::scheduler::bullpen::Bullpen;
use crate::scheduler::{DefineReply, LibraryError, RunError, TriggerError, TriggerReply};
use crate::step::Step;

/// Whether facts outlive the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreMode {
    /// They do: after a restart only the open leases are waited for.
    Durable,
    /// They do not: after a restart the workers are the only truth, and nothing
    /// starts before all of them have been heard or must be dead.
    Memory,
}

/// How a scheduler is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Whether facts outlive the scheduler.
    pub store: StoreMode,
    /// The time budget.
    pub timeouts: Timeouts,
    /// Whether a worker on another machine may take the seat of one that is
    /// UNHEALTHY or NEW, instead of only that of one that MUST_DIE.
    pub allow_bump_unhealthy: bool,
    /// Mistakes to make on purpose.
    pub bugs: Bugs,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            store: StoreMode::Durable,
            timeouts: Timeouts::default(),
            allow_bump_unhealthy: false,
            bugs: Bugs::NONE,
        }
    }
}

/// What a scheduler tells the outside, once its facts are durable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// A message for a worker.
    Send(WorkerAddress, ToWorker),
    /// A submission is durable.
    Submitted(RequestId),
    /// A submission was refused; nothing was changed.
    SubmitRefused(RequestId, SubmitError),
    /// What came of a wish to stop instances.
    Cancelled(RequestId, CancelCounts),
    /// An instance waits again, or why not.
    Retried(RequestId, Result<(), RetryError>),
    /// A worker is drained, or no longer.
    Drained(RequestId),
    /// What was decided before is durable.
    Synced(RequestId),
    /// A task is defined, or why not.
    Defined(RequestId, Result<DefineReply, LibraryError>),
    /// A task is removed, with the revision that it had, or why not.
    Removed(RequestId, Result<Revision, LibraryError>),
    /// A task was triggered, or why not.
    Triggered(RequestId, Result<TriggerReply, TriggerError>),
    /// A wish about a run is carried out, under which generation, or why not.
    Run(RequestId, Result<(RunId, Generation), RunError>),
    /// A log request is answered.
    Logs(RequestId, LogAnswer),
    /// A worker has obeyed a leader of a higher epoch. A leader with a store
    /// renews its lease at once to learn the truth; if the store says that it still
    /// leads, the store came from a backup, and it takes an epoch above that one. A
    /// leader without a store starts again above it.
    EpochOvertaken(Epoch),
}

/// What came of a wish to stop instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CancelCounts {
    /// So many had waited, and are HALTED.
    pub halted: u64,
    /// So many may be running: their workers are told, and they end when they are dead.
    pub stopping: u64,
}

/// Why an instance cannot be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RetryError {
    /// It is neither FAILED nor HALTED.
    NotEnded(UniversalState),
    /// Only with its run.
    PartOfRun,
}

impl std::fmt::Display for RetryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotEnded(state) => write!(
                f,
                "it is {}; only what is FAILED or HALTED can be tried again",
                state.word()
            ),
            Self::PartOfRun => {
                f.write_str("it is a part of a run; use `baton retry RUN --task NAME`")
            }
        }
    }
}

impl std::error::Error for RetryError {}

/// Why a submission was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubmitError {
    /// Without a store nothing but time separates two executions.
    StrictNeedsStore,
    /// Some of the ids are in use, others are not.
    IdsTaken,
}

impl std::fmt::Display for SubmitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::StrictNeedsStore => f.write_str(
                "exclusive: strict needs a store that survives a restart; \
                 use --store sqlite or postgres, or exclusive: timed",
            ),
            Self::IdsTaken => f.write_str("some of its ids belong to other instances"),
        }
    }
}

impl std::error::Error for SubmitError {}

/// One input's surroundings.
pub(crate) struct Cx<'a> {
    pub(crate) now: Now,
    pub(crate) epoch: Epoch,
    pub(crate) config: &'a Config,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) bullpen: &'a mut Bullpen,
    pub(crate) step: &'a mut Step<Fact, Effect>,
    pub(crate) counts: &'a mut Counts,
    /// Instances of the library's tasks that this input has brought to a good end.
    pub(crate) done: &'a mut Vec<(InstanceId, Origin)>,
}

impl Cx<'_> {
    /// Records a fact and lets it take effect.
    ///
    /// # Panics
    /// If the fact contradicts the ledger: every handler has checked before.
    pub(crate) fn commit(&mut self, fact: Fact) {
        let applied = self.ledger.apply(&fact);
        #[cfg(feature = "seeded-bugs")]
        let applied = crate::bugs::protocol::tolerate(self.config.bugs, applied);
        if let Err(error) = applied {
            panic!("a fact of our own does not fit: {fact}: {error}");
        }
        self.step.record(fact);
    }

    /// Says something that must by no means leave before it is durable; with the
    /// named mistake switched on, it does.
    pub(crate) fn send_durably(&mut self, to: WorkerAddress, message: ToWorker, bug: Bug) {
        #[cfg(feature = "seeded-bugs")]
        if self.config.bugs.has(bug) {
            self.step.leak(Effect::Send(to, message));
            return;
        }
        let _ = bug;
        self.send(to, message);
    }

    /// Says something to a worker, once everything so far is durable.
    pub(crate) fn send(&mut self, to: WorkerAddress, message: ToWorker) {
        self.step.emit(Effect::Send(to, message));
    }
}
