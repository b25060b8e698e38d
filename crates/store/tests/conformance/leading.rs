//! A leader for tests: it holds the epoch and makes batches.

use std::sync::Arc;

use baton_core::ledger::{Identity, Ledger};
use baton_core::step::{Batch, Outbox, Step};
use baton_model::fact::{Condemnation, Fact, Holder};
use baton_model::ids::{
    BootId, Epoch, HostId, Incarnation, IncarnationNo, InstanceId, LeaseId, Lineage, WorkerName,
};
use baton_model::outcome::{AttemptEnd, Outcome};
use baton_model::principal::Principal;
use baton_model::spec::{InstanceSpec, Work};
use baton_model::time::Wall;
use baton_store::{Store, StoreError, TakeOutcome};

pub(crate) const NOW: Wall = Wall(1_000_000);

/// The epoch of the next leader.
pub(crate) fn next(epoch: Epoch) -> Epoch {
    epoch.successor(7).expect("not the last")
}

/// Takes the identity of the store out of a ledger.
pub(crate) fn take_identity(ledger: &mut Ledger) -> Identity {
    let identity = ledger.identity().clone();
    ledger.identify(Identity::default());
    identity
}

/// One term, with the ledger that this leader expects.
pub(crate) struct Leader {
    pub(crate) epoch: Epoch,
    /// Without the identity of the store, in which every leader leaves its epoch.
    pub(crate) ledger: Ledger,
    pub(crate) identity: Identity,
    /// The client that asks for the next facts.
    pub(crate) by: Option<Arc<Principal>>,
    outbox: Outbox<()>,
}

impl Leader {
    /// Takes the row, whichever leader holds it.
    pub(crate) fn elect(store: &dyn Store) -> Self {
        let row = store.read_row().expect("the row can be read");
        match store
            .take(row.epoch, next(row.epoch))
            .expect("the row can be taken")
        {
            TakeOutcome::Won(epoch, mut ledger) => Self {
                epoch,
                identity: take_identity(&mut ledger),
                ledger: *ledger,
                by: None,
                outbox: Outbox::new(epoch),
            },
            TakeOutcome::Overtaken => panic!("no other leader takes the row"),
        }
    }

    /// A batch of consistent facts.
    pub(crate) fn batch(&mut self, facts: Vec<Fact>) -> Batch<Fact> {
        for fact in &facts {
            self.ledger.apply(fact).expect("the facts fit");
        }
        self.unchecked(facts)
    }

    /// A batch of any facts.
    pub(crate) fn unchecked(&mut self, facts: Vec<Fact>) -> Batch<Fact> {
        let step: Step<Fact, ()> = Step::keeping(facts).requested_by(self.by.clone());
        self.outbox.accept(step).expect("a batch")
    }

    pub(crate) fn try_commit(
        &mut self,
        store: &dyn Store,
        facts: Vec<Fact>,
    ) -> Result<(), StoreError> {
        let batch = self.unchecked(facts);
        let receipt = store.commit(batch, NOW)?;
        self.outbox.release(receipt);
        Ok(())
    }

    pub(crate) fn commit_at(&mut self, store: &dyn Store, at: Wall, facts: Vec<Fact>) {
        let batch = self.batch(facts);
        let receipt = store.commit(batch, at).expect("it commits");
        self.outbox.release(receipt);
    }

    pub(crate) fn commit(&mut self, store: &dyn Store, facts: Vec<Fact>) {
        self.commit_at(store, NOW, facts);
    }

    /// The ledger that the next leader must find: of ended instances only that their ids were used.
    pub(crate) fn left(&self) -> Ledger {
        let mut ledger = self.ledger.clone();
        ledger.drop_all_ended();
        ledger.runs_mut().drop_all_ended();
        ledger.forget_transient();
        ledger
    }

    /// One instance from its submission to DONE.
    pub(crate) fn done(&self, id: u64) -> Vec<Fact> {
        let lease = self.ledger.next_lease(InstanceId(id), self.epoch);
        vec![
            submitted(id),
            granted(lease),
            Fact::AttemptConfirmed { lease },
            ended(self, lease, AttemptEnd::Real(Outcome::Exited(0))),
        ]
    }
}

pub(crate) fn submitted(id: u64) -> Fact {
    array(id, id)
}

pub(crate) fn array(first: u64, last: u64) -> Fact {
    let command = vec!["run".to_owned(), format!("--shard={first}")];
    Fact::InstancesSubmitted {
        first: InstanceId(first),
        last: InstanceId(last),
        spec: Arc::new(InstanceSpec {
            work: Work::Command(command),
            ..InstanceSpec::default()
        }),
    }
}

pub(crate) fn halted(first: u64, last: u64) -> Fact {
    Fact::InstancesHalted {
        first: InstanceId(first),
        last: InstanceId(last),
        reason: None,
    }
}

pub(crate) fn granted(lease: LeaseId) -> Fact {
    Fact::LeaseGranted {
        lease,
        holder: holder(1),
        executor: None,
        others: Vec::new(),
    }
}

/// The end of an attempt, with the verdict that follows for its instance.
pub(crate) fn ended(leader: &Leader, lease: LeaseId, end: AttemptEnd) -> Fact {
    let mut fresh = Ledger::default();
    let id = lease.attempt.instance;
    fresh
        .apply(&submitted(id.0))
        .expect("a first submission fits");
    let instance = leader.ledger.find(id).or(fresh.find(id));
    Fact::AttemptEnded {
        lease,
        end,
        verdict: instance.expect("just submitted").verdict(end),
        stats: None,
        next_attempt: None,
        outputs: None,
        stderr_tail: None,
        progress: None,
    }
}

pub(crate) fn condemned(lineage: u64, number: u64) -> Fact {
    Fact::WorkerCondemned {
        worker: WorkerName::new("w"),
        incarnation: Incarnation {
            lineage: Lineage(lineage),
            number: IncarnationNo(number),
        },
        reason: Condemnation::Unhealthy,
    }
}

pub(crate) fn holder(n: u64) -> Holder {
    Holder {
        worker: WorkerName::new(&format!("würker \"{n}\"")),
        incarnation: Incarnation {
            lineage: Lineage(u64::MAX - n),
            number: IncarnationNo(n),
        },
        host: HostId(n << 60),
        boot: BootId(n.wrapping_mul(u64::MAX / 3)),
    }
}
