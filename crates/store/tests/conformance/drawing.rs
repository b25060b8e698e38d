//! Facts that fit, drawn by chance.

use std::sync::Arc;

use baton_core::ledger::Ledger;
use baton_model::fact::Fact;
use baton_model::ids::{AttemptId, AttemptNo, Epoch, InstanceId, LeaseId};
use baton_model::outcome::{AttemptEnd, KillCause, LossProof, Outcome, Synthetic};
use baton_model::spec::{Exclusive, InstanceSpec, RetryBudget};
use baton_model::time::Millis;

use crate::leading::{Leader, Rng, condemned, ended, holder};

impl Leader {
    /// A fact that fits, drawn by chance.
    pub(crate) fn draw(&self, rng: &mut Rng) -> Fact {
        loop {
            let fact = self.propose(rng);
            // The part of the ledger that the fact looks at is enough to try it out.
            let instance = fact.instance().and_then(|id| self.ledger.instance(id));
            let part = Ledger::restore(instance.cloned(), [], Millis(0));
            if part.expect("a part is a ledger").apply(&fact).is_ok() {
                return fact;
            }
        }
    }

    fn propose(&self, rng: &mut Rng) -> Fact {
        let id = match rng.below(10) {
            0 => InstanceId(u64::MAX - rng.below(5)),
            _ => InstanceId(rng.below(40)),
        };
        let open = self.ledger.instance(id).and_then(|it| it.lease.as_ref());
        let next = self.ledger.next_lease(id, self.epoch);
        let lease = open.map_or(next, |open| open.id);
        match rng.below(10) {
            0 | 1 => Fact::InstanceSubmitted {
                instance: id,
                spec: spec(rng),
            },
            2 | 3 => Fact::LeaseGranted {
                lease: next,
                holder: holder(rng.below(9)),
            },
            4 => Fact::AttemptConfirmed { lease },
            5 | 6 => ended(self, lease, end(rng)),
            7 => match rng.below(2) {
                0 => Fact::StopRequested { instance: id },
                _ => Fact::InstanceHalted { instance: id },
            },
            8 => Fact::AttemptAdopted {
                lease: LeaseId {
                    attempt: AttemptId {
                        instance: id,
                        number: AttemptNo(1 + rng.below(5) as u32),
                    },
                    epoch: Epoch(rng.below(3)),
                },
                holder: holder(rng.below(9)),
                spec: spec(rng),
            },
            _ => match rng.below(4) {
                0 => Fact::LeaseTimeSet {
                    lease: Millis(rng.below(90_000)),
                },
                _ => condemned(u64::MAX / 7 * rng.below(7), rng.below(4)),
            },
        }
    }
}

fn spec(rng: &mut Rng) -> Arc<InstanceSpec> {
    let exclusive = match rng.below(2) {
        0 => Exclusive::Timed,
        _ => Exclusive::Strict,
    };
    Arc::new(InstanceSpec {
        command: vec!["sh".to_owned(), "-c".to_owned(), "echo 'ü' \\\n".to_owned()],
        exclusive,
        retry: RetryBudget {
            failures_max: rng.below(4) as u32,
            losses_max: rng.below(4) as u32,
        },
    })
}

fn end(rng: &mut Rng) -> AttemptEnd {
    match rng.below(7) {
        0 => AttemptEnd::Real(Outcome::Exited(0)),
        1 => AttemptEnd::Real(Outcome::Exited(3)),
        2 => AttemptEnd::Real(Outcome::Signaled(9)),
        3 => AttemptEnd::Real(Outcome::Killed(KillCause::LeaseLapsed)),
        4 => AttemptEnd::Real(Outcome::LaunchFailed),
        5 => AttemptEnd::Synthetic(Synthetic::WasNotRunning),
        _ => AttemptEnd::Synthetic(Synthetic::WorkerLost(LossProof::HostRebooted)),
    }
}
