//! Facts that fit, drawn by chance, and what they add up to, told in the plainest way:
//! every instance by itself, nothing ever forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::ledger::Ledger;
use baton_model::fact::{Again, Fact, Verdict};
use baton_model::ids::{
    AttemptId, AttemptNo, Epoch, InstanceId, LeaseId, Revision, TaskNo, WorkerName,
};
use baton_model::outcome::{AttemptEnd, KillCause, LossProof, Outcome, Ran, Synthetic};
use baton_model::spec::{Allowance, Exclusive, InstanceSpec, Origin, RetryBudget, Work};
use baton_model::time::{Millis, Wall};
use baton_store::view::LastEnd;

use crate::leading::{Rng, condemned, halted, holder};
use crate::library;

/// All that ever happened, instance by instance.
#[derive(Default)]
pub(crate) struct Model {
    /// Every range in it is a range of one, and what has ended stays.
    pub(crate) ledger: Ledger,
    pub(crate) told: BTreeMap<InstanceId, Vec<Fact>>,
    pub(crate) last: BTreeMap<InstanceId, LastEnd>,
}

impl Model {
    /// A fact that fits, drawn by chance and taken in. `base` says which ids are new.
    pub(crate) fn draw(&mut self, rng: &mut Rng, epoch: Epoch, base: u64) -> Fact {
        loop {
            let fact = self.propose(rng, epoch, base);
            let mut tried = self.ledger.clone();
            let fits = self.alone(&fact).iter().all(|it| tried.apply(it).is_ok());
            if fits {
                self.note(&fact);
                self.ledger = tried;
                return fact;
            }
        }
    }

    /// What a fact is to each of its instances.
    fn alone(&self, fact: &Fact) -> Vec<Fact> {
        match fact {
            Fact::InstancesSubmitted { first, last, spec } => (first.0..=last.0)
                .map(|id| Fact::InstancesSubmitted {
                    first: InstanceId(id),
                    last: InstanceId(id),
                    spec: Arc::clone(spec),
                })
                .collect(),
            Fact::InstancesHalted { first, last } if first != last => {
                let waiting = self.ledger.waiting_within(*first, *last);
                let requeued = self.ledger.requeued(*first, *last);
                let ids = waiting.map(|it| it.first).chain(requeued.map(|it| it.id));
                ids.map(|id| halted(id.0, id.0)).collect()
            }
            other => vec![other.clone()],
        }
    }

    fn note(&mut self, fact: &Fact) {
        let Some((first, last)) = fact.instances() else {
            return;
        };
        if let Fact::AttemptEnded {
            lease, end, ran, ..
        } = fact
            && let Some(open) = self.ledger.open_lease(*lease)
        {
            let last = LastEnd {
                lease: *lease,
                worker: open.holder.worker.clone(),
                end: *end,
                ran: *ran,
            };
            self.last.insert(first, last);
        }
        let new = matches!(
            fact,
            Fact::InstancesSubmitted { .. } | Fact::AttemptAdopted { .. }
        );
        if new {
            for id in first.0..=last.0 {
                self.told.entry(InstanceId(id)).or_default();
            }
        }
        for (_, told) in self.told.range_mut(first..=last) {
            told.push(fact.clone());
        }
    }

    fn propose(&self, rng: &mut Rng, epoch: Epoch, base: u64) -> Fact {
        let id = match rng.below(10) {
            0 => InstanceId(u64::MAX - rng.below(30)),
            1 => InstanceId((1 << 63) - 15 + rng.below(30)),
            _ => InstanceId(base + rng.below(40)),
        };
        let last = InstanceId(id.0.saturating_add(rng.below(3) * rng.below(8)));
        let open = self.ledger.instance(id).and_then(|it| it.lease.as_ref());
        let next = self.ledger.next_lease(id, epoch);
        let lease = open.map_or(next, |open| open.id);
        match rng.below(12) {
            0 | 1 => Fact::InstancesSubmitted {
                first: id,
                last,
                spec: spec(rng),
            },
            2 | 3 => Fact::LeaseGranted {
                lease: next,
                holder: holder(rng.below(9)),
            },
            4 => Fact::AttemptConfirmed { lease },
            5 | 6 => self.end(rng, lease),
            7 => Fact::StopRequested { instance: id },
            8 => match rng.below(20) {
                0 => halted(0, u64::MAX),
                _ => halted(id.0, last.0),
            },
            9 => Fact::InstanceRetried { instance: id },
            10 => Fact::AttemptAdopted {
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
            _ => match rng.below(18) {
                6.. => self.about_library(rng, id),
                0 => Fact::LeaseTimeSet {
                    lease: Millis(rng.below(90_000)),
                },
                1 | 2 => Fact::WorkerDrained {
                    worker: WorkerName::new(&format!("w{}", rng.below(3))),
                    drained: rng.below(2) == 0,
                },
                _ => condemned(u64::MAX / 7 * rng.below(7), rng.below(4)),
            },
        }
    }

    fn about_library(&self, rng: &mut Rng, id: InstanceId) -> Fact {
        let task = 1 + rng.below(3);
        let name = library::named("o", &format!("t{task}"));
        let before = self.ledger.library().find(&name);
        let (revision, accounted) = before.map_or((0, 0), |it| (it.revision.0, it.accounted.0));
        match rng.below(4) {
            0 => library::defined(task, &name, revision + 1, &format!("{}", rng.below(9))),
            1 => library::removed(task, revision),
            2 => library::ticked(task, accounted + 1, accounted + 1 + rng.below(9)),
            // Of the known only; what it is about is otherwise drawn too seldom.
            _ => match self.told.range(id..).next() {
                Some((id, _)) => library::triggered(id.0, task, rng.below(1 << 60)),
                None => library::ticked(task, accounted, accounted),
            },
        }
    }

    fn end(&self, rng: &mut Rng, lease: LeaseId) -> Fact {
        let end = end(rng);
        let instance = self.ledger.find(lease.attempt.instance);
        let verdict = instance.map_or(Verdict::Done, |it| it.verdict(end));
        let again = (verdict == Verdict::Requeued && rng.below(2) == 0).then(|| Again {
            not_before: (rng.below(2) == 0).then_some(Wall(rng.below(1 << 40))),
            allowance: (rng.below(2) == 0).then(|| Allowance {
                memory_min: rng.below(1 << 40),
                memory_max: u64::MAX - rng.below(2),
                timeout: Some(Millis(rng.below(1 << 30))),
            }),
        });
        Fact::AttemptEnded {
            lease,
            end,
            verdict,
            ran: (rng.below(2) == 0).then(|| Ran {
                started: Wall(rng.below(1 << 40)),
                ended: Wall(rng.below(1 << 40)),
                elapsed: Millis(rng.below(1 << 30)),
                cpu: Millis(rng.below(1 << 30)),
                memory_peak: rng.below(1 << 40),
            }),
            again: again.map(Box::new),
        }
    }
}

fn spec(rng: &mut Rng) -> Arc<InstanceSpec> {
    let exclusive = match rng.below(2) {
        0 => Exclusive::Timed,
        _ => Exclusive::Strict,
    };
    let command = ["sh", "-c", "echo 'ü' \\\n"].map(str::to_owned);
    Arc::new(InstanceSpec {
        name: format!("n{}", rng.below(2)),
        owner: format!("o{}", rng.below(2)),
        work: Work::Command(command.to_vec()),
        exclusive,
        retry: RetryBudget {
            failures_max: rng.below(3) as u32,
            losses_max: rng.below(3) as u32,
            ..RetryBudget::default()
        },
        origin: (rng.below(2) == 0).then(|| Origin {
            task: TaskNo(1 + rng.below(3)),
            revision: Revision(1),
            due: None,
        }),
        ..InstanceSpec::default()
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
