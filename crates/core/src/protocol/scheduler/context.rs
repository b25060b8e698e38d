//! The context of a handler: configuration, time, ledger, and the step in the making.

use baton_model::fact::Fact;
use baton_model::ids::{Epoch, InstanceId, RequestId};
use baton_model::message::{ToWorker, WorkerAddress};
use baton_model::spec::Origin;
use baton_model::time::Now;
use baton_model::timeouts::Timeouts;

use crate::bugs::{Bug, Bugs};
use crate::counts::Counts;
use crate::ledger::Ledger;
use crate::scheduler::bullpen::Bullpen;
use crate::scheduler::command::Reply;
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
    /// The reply to a command.
    Reply(RequestId, Reply),
    /// A worker has obeyed a leader of a higher epoch. A leader with a store
    /// renews its lease at once to learn the truth; if the store confirms that it still
    /// leads, the store came from a backup, and it takes an epoch above that one. A
    /// leader without a store starts again above it.
    EpochOvertaken(Epoch),
}

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
