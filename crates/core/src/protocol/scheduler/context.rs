//! The context of a handler: configuration, time, ledger, and the step in the making.

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

/// Durability of the facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreMode {
    /// Facts survive a restart: after it only open leases are waited for.
    Durable,
    /// Facts are lost in a restart: after it only the workers know what runs, and nothing
    /// starts before all of them have connected or must be dead.
    Memory,
}

/// The configuration of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    pub store: StoreMode,
    pub timeouts: Timeouts,
    /// Whether a worker on another machine may take the seat of one that is
    /// UNHEALTHY or NEW, instead of only that of one that MUST_DIE.
    pub allow_bump_unhealthy: bool,
    /// Seeded bugs.
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

/// Effects of the scheduler, released once its facts are durable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// A message for a worker.
    Send(WorkerAddress, ToWorker),
    /// A submission is durable.
    Submitted(RequestId),
    /// A submission was refused; nothing was changed.
    SubmitRefused(RequestId, SubmitError),
    /// The result of a cancellation.
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
    /// renews its lease at once to learn the truth; if the store confirms that it still
    /// leads, the store came from a backup, and it takes an epoch above that one. A
    /// leader without a store starts again above it.
    EpochOvertaken(Epoch),
}

/// The result of a cancellation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CancelCounts {
    /// Instances that were waiting, and are HALTED now.
    pub halted: u64,
    /// Instances that may be running: kills are sent, and they end when their processes are dead.
    pub stopping: u64,
}

/// The reason for which an instance cannot be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RetryError {
    /// It is neither FAILED nor HALTED.
    NotEnded(UniversalState),
    /// It belongs to a run, and is retried with it.
    PartOfRun,
}

impl std::fmt::Display for RetryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotEnded(state) => write!(
                f,
                "it is {}; only FAILED or HALTED instances can be retried",
                state.word()
            ),
            Self::PartOfRun => {
                f.write_str("it belongs to a run; use `baton retry RUN --task NAME`")
            }
        }
    }
}

impl std::error::Error for RetryError {}

/// The reason for which a submission was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubmitError {
    /// Without a store only time separates two executions.
    StrictNeedsStore,
    /// Some of the ids are in use, others are not.
    IdsTaken,
}

impl std::fmt::Display for SubmitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::StrictNeedsStore => f.write_str(
                "exclusive: strict needs a store that survives a restart; \
                 use --store sqlite, or exclusive: timed",
            ),
            Self::IdsTaken => f.write_str("some of its ids belong to other instances"),
        }
    }
}

impl std::error::Error for SubmitError {}

/// The context of one input.
pub(crate) struct Cx<'a> {
    pub(crate) now: Now,
    pub(crate) epoch: Epoch,
    pub(crate) config: &'a Config,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) bullpen: &'a mut Bullpen,
    pub(crate) step: &'a mut Step<Fact, Effect>,
    pub(crate) counts: &'a mut Counts,
    /// Instances of library tasks that this input has made DONE.
    pub(crate) done: &'a mut Vec<(InstanceId, Origin)>,
}

impl Cx<'_> {
    /// Records a fact and applies it to the ledger.
    ///
    /// # Panics
    /// If the ledger refuses the fact: every handler has checked before.
    pub(crate) fn commit(&mut self, fact: Fact) {
        let applied = self.ledger.apply(&fact);
        #[cfg(feature = "seeded-bugs")]
        let applied = crate::bugs::protocol::tolerate(self.config.bugs, applied);
        if let Err(error) = applied {
            panic!("the ledger refuses {fact}: {error}");
        }
        self.step.record(fact);
    }

    /// Sends a message that must not leave before its facts are durable. With the
    /// seeded bug switched on it does.
    pub(crate) fn send_durably(&mut self, to: WorkerAddress, message: ToWorker, bug: Bug) {
        #[cfg(feature = "seeded-bugs")]
        if self.config.bugs.has(bug) {
            self.step.leak(Effect::Send(to, message));
            return;
        }
        let _ = bug;
        self.send(to, message);
    }

    /// Sends a message to a worker, once all facts so far are durable.
    pub(crate) fn send(&mut self, to: WorkerAddress, message: ToWorker) {
        self.step.emit(Effect::Send(to, message));
    }
}
