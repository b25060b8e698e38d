//! Random consistent facts, and a reference model of their sum: every instance separate, nothing
//! ever forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::ledger::{Ledger, Run};
use baton_core::workflow::{Dag, bind, compare, invalidate};
use baton_model::fact::{Fact, NextAttempt, Verdict};
use baton_model::ids::{
    AttemptId, AttemptNo, Epoch, InstanceId, LeaseId, Revision, RunId, TaskNo, TokenId, WorkerName,
};
use baton_model::outcome::{
    AttemptEnd, AttemptStats, KillCause, KillMode, LossProof, MemberLoss, Outcome, Synthetic,
};
use baton_model::placement::{Constraint, Rule};
use baton_model::principal::{NameOwner, Principal};
use baton_model::progress::Progress;
use baton_model::rate::Rate;
use baton_model::spec::{Allowance, Exclusive, InstanceSpec, Origin, RetryBudget, Work};
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};
use baton_model::workflow::{Condition, HaltCause, HaltMode, Part, Plan};
use baton_store::view::LastEnd;
use baton_testing::Rng;

use crate::leading::{condemned, halted, holder};
use crate::library;
use crate::running::{advanced, many, mapped, plan, registered, task};

/// All events so far, instance by instance.
#[derive(Default)]
pub(crate) struct Model {
    /// Every range in it is a range of one, and ended instances stay.
    pub(crate) ledger: Ledger,
    pub(crate) timelines: BTreeMap<InstanceId, Vec<Fact>>,
    pub(crate) last: BTreeMap<InstanceId, LastEnd>,
}

impl Model {
    /// Draws a random consistent fact and applies it. `base` determines the new ids.
    pub(crate) fn draw(&mut self, rng: &mut Rng, epoch: Epoch, base: u64) -> Fact {
        loop {
            let fact = self.propose(rng, epoch, base);
            let mut tried = self.ledger.clone();
            let fits = !self.is_part_retried(&fact)
                && self
                    .per_instance(&fact)
                    .iter()
                    .all(|it| tried.apply(it).is_ok());
            if fits {
                self.note(&fact);
                self.ledger = tried;
                return fact;
            }
        }
    }

    /// The fact split into one fact for each of its instances.
    fn per_instance(&self, fact: &Fact) -> Vec<Fact> {
        match fact {
            Fact::InstancesSubmitted { first, last, spec } => (first.0..=last.0)
                .map(|id| Fact::InstancesSubmitted {
                    first: InstanceId(id),
                    last: InstanceId(id),
                    spec: Arc::clone(spec),
                })
                .collect(),
            Fact::InstancesHalted { first, last, .. } if first != last => {
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
            lease,
            end,
            stats,
            stderr_tail,
            progress,
            ..
        } = fact
            && let Some(open) = self.ledger.open_lease(*lease)
        {
            let last = LastEnd {
                lease: *lease,
                worker: open.holder.worker.clone(),
                end: *end,
                stats: *stats,
                stderr_tail: stderr_tail.clone(),
                progress: progress.clone(),
            };
            self.last.insert(first, last);
        }
        let new = matches!(
            fact,
            Fact::InstancesSubmitted { .. } | Fact::AttemptAdopted { .. }
        );
        if new {
            for id in first.0..=last.0 {
                self.timelines.entry(InstanceId(id)).or_default();
            }
        }
        for (_, timeline) in self.timelines.range_mut(first..=last) {
            timeline.push(fact.clone());
        }
    }

    /// True if a fact retries an item of a run by itself: a leader never does that.
    fn is_part_retried(&self, fact: &Fact) -> bool {
        let Fact::InstanceRetried { instance, .. } = fact else {
            return false;
        };
        let instance = self.ledger.find(*instance);
        instance.is_some_and(|it| it.spec.part.is_some())
    }

    /// The fact that a leader records about a run in the step in which the run advances.
    pub(crate) fn pending_advance(&self) -> Option<Fact> {
        self.ledger.runs().iter().find_map(|run| {
            let still = run.progress.is_idle();
            match run.head.state {
                UniversalState::Queued if !still => Some(advanced(run.head.id, false)),
                UniversalState::Launched if run.has_begun => Some(advanced(run.head.id, true)),
                _ => None,
            }
        })
    }

    fn propose(&self, rng: &mut Rng, epoch: Epoch, base: u64) -> Fact {
        if let Some(pending_advance) = self.pending_advance() {
            return pending_advance;
        }
        let id = match rng.below(10) {
            0 => InstanceId(u64::MAX - rng.below(30)),
            1 => InstanceId((1 << 63) - 15 + rng.below(30)),
            2..=5 if self.parts().next().is_some() => {
                let count = self.parts().count() as u64;
                let mut parts = self.parts().skip(rng.below(count) as usize);
                parts.next().expect("one of them")
            }
            _ => InstanceId(base + rng.below(40)),
        };
        let last = InstanceId(id.0.saturating_add(rng.below(3) * rng.below(8)));
        let open = self.ledger.instance(id).and_then(|it| it.lease.as_ref());
        let next = self.ledger.next_lease(id, epoch);
        let lease = open.map_or(next, |open| open.id);
        match rng.below(16) {
            12.. => self.about_runs(rng),
            0 | 1 => Fact::InstancesSubmitted {
                first: id,
                last,
                spec: spec(rng),
            },
            2 | 3 => Fact::LeaseGranted {
                lease: next,
                holder: holder(rng.below(9)),
                executor: None,
                others: match rng.below(3) {
                    0 => vec![holder(10 + rng.below(3)), holder(20)],
                    _ => Vec::new(),
                },
            },
            4 if rng.below(2) == 0 => Fact::MemberLost {
                lease,
                worker: holder(20).worker,
                loss: MemberLoss::Left,
            },
            4 => Fact::AttemptConfirmed { lease },
            5 | 6 => self.end(rng, lease),
            7 if rng.below(2) == 0 => Fact::AttemptKillRequested {
                lease,
                mode: mode(rng),
            },
            7 => Fact::StopRequested {
                instance: id,
                mode: mode(rng),
                reason: None,
            },
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
            _ => match rng.below(19) {
                7.. => self.about_library(rng, id),
                0 => Fact::LeaseTimeSet {
                    lease: Millis(rng.below(90_000)),
                },
                1 | 2 => Fact::WorkerDrained {
                    worker: WorkerName::new(&format!("w{}", rng.below(3))),
                    drained: rng.below(2) == 0,
                },
                4 => Fact::WorkerNameAssigned {
                    worker: WorkerName::new(&format!("w{}", rng.below(3))),
                    owner: (rng.below(3) > 0).then(|| {
                        NameOwner::Client(Arc::new(Principal::Token {
                            id: TokenId(rng.below(3)),
                            name: "rack".to_owned(),
                        }))
                    }),
                },
                3 => Fact::LimitSet {
                    name: format!("l{}", rng.below(3)),
                    total: (rng.below(3) > 0).then(|| rng.below(1 << 40)),
                    rate: (rng.below(3) == 0).then(|| Rate {
                        count: 1 + rng.below(9) as u32,
                        per: Millis(1_000),
                    }),
                },
                5 => Fact::ShareSet {
                    owner: format!("o{}", rng.below(3)),
                    weight: 1 + rng.below(3) as u32,
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
        match rng.below(5) {
            4 => library::paused(task, rng.chance(500)),
            0 => library::defined(task, &name, revision + 1, &format!("{}", rng.below(9))),
            1 => library::removed(task, revision),
            2 => library::ticked(task, accounted + 1, accounted + 1 + rng.below(9)),
            // Known ids only; otherwise the fact would seldom apply.
            _ => match self.timelines.range(id..).next() {
                Some((id, _)) => library::triggered(id.0, task, rng.below(1 << 60)),
                None => library::ticked(task, accounted, accounted),
            },
        }
    }

    /// Instances of runs in flight.
    fn parts(&self) -> impl Iterator<Item = InstanceId> {
        let runs = self.ledger.runs().iter();
        runs.flat_map(|run| run.progress.live().map(|(_, _, id)| id))
    }

    fn about_runs(&self, rng: &mut Rng) -> Fact {
        let runs = self.ledger.runs();
        let (at, last) = (Wall(rng.below(1 << 40)), runs.last().0);
        let run = match rng.below(20) {
            0 => RunId(last + 1),
            _ => RunId(last.saturating_sub(rng.below(4)).max(1)),
        };
        let Some(known) = runs.run(run) else {
            return registered(run, at, workflow(rng), rng.below(3) == 0);
        };
        let generation = known.head.generation;
        match known.head.state {
            UniversalState::Registering => match rng.below(3) {
                0 => Fact::RunExtended {
                    run,
                    at,
                    plan: Arc::new(Plan {
                        tasks: vec![task(&format!("more {}", at.0), &[0])],
                        ..Plan::default()
                    }),
                },
                1 => Fact::RunDefined { run, at },
                _ => Fact::RunEnded {
                    run,
                    generation,
                    state: UniversalState::Aborted,
                },
            },
            state if state.is_terminal() => resumed(rng, known, at),
            _ => self.of_run(rng, known),
        }
    }

    /// The next event of a run in flight.
    fn of_run(&self, rng: &mut Rng, known: &Run) -> Fact {
        // Adjacent ones are items, too, so that a range of them can be halted.
        let id = InstanceId((1 << 40) + self.timelines.len() as u64);
        let (run, generation) = (known.head.id, known.head.generation);
        let progress = &known.progress;
        let state = match known.head.halting {
            _ if progress.is_over() && progress.is_successful() => Some(UniversalState::Done),
            _ if progress.is_over() => Some(UniversalState::Failed),
            Some(_) if progress.is_idle() => Some(UniversalState::Halted),
            _ => None,
        };
        let next = progress.next_ready(&known.dag);
        match (state, next, known.head.halting) {
            (Some(state), ..) => Fact::RunEnded {
                run,
                generation,
                state,
            },
            (None, Some((task, item)), None) if rng.below(20) > 0 => {
                let part = Part {
                    run,
                    generation,
                    task,
                    item,
                };
                Fact::InstancesSubmitted {
                    first: id,
                    last: id,
                    spec: Arc::new(bind::spec(&known.dag, progress, part)),
                }
            }
            _ => Fact::RunHalting {
                run,
                mode: [HaltMode::Drain, HaltMode::Kill, HaltMode::KillNow][rng.below(3) as usize],
                cause: HaltCause::Requested,
            },
        }
    }

    fn end(&self, rng: &mut Rng, lease: LeaseId) -> Fact {
        let instance = self.ledger.find(lease.attempt.instance);
        let part = instance.as_ref().and_then(|it| it.spec.part);
        let end = match part {
            Some(_) if rng.below(3) > 0 => AttemptEnd::Real(Outcome::Exited(0)),
            _ => end(rng),
        };
        let verdict = instance.map_or(Verdict::Done, |it| it.verdict(end));
        let again = (verdict == Verdict::Requeued && rng.below(2) == 0).then(|| NextAttempt {
            not_before: (rng.below(2) == 0).then_some(Wall(rng.below(1 << 40))),
            allowance: (rng.below(2) == 0).then(|| Allowance {
                memory_min: rng.below(1 << 40),
                memory_max: u64::MAX - rng.below(2),
                timeout: Some(Millis(rng.below(1 << 30))),
                memory_step: 1,
                timeout_step: 0,
                requests: Vec::new(),
                constraints: (rng.below(2) == 0).then(|| {
                    vec![Constraint {
                        label: "pool".to_owned(),
                        rule: Rule::Present,
                    }]
                }),
            }),
        });
        Fact::AttemptEnded {
            lease,
            end,
            verdict,
            stats: (rng.below(2) == 0).then(|| AttemptStats {
                started: Wall(rng.below(1 << 40)),
                ended: Wall(rng.below(1 << 40)),
                elapsed: Millis(rng.below(1 << 30)),
                cpu: Millis(rng.below(1 << 30)),
                memory_peak: rng.below(1 << 40),
            }),
            next_attempt: again.map(Box::new),
            outputs: (verdict == Verdict::Done).then(|| outputs(rng)),
            stderr_tail: (verdict == Verdict::GaveUp).then(|| "boom".into()),
            progress: rng.chance(30).then(|| progress(rng)),
        }
    }
}

/// Outputs of a task: sometimes not the ones that another task needs.
fn progress(rng: &mut Rng) -> Box<Progress> {
    let line = rng.pick(&["7/9 rows", "50%", "words only"]);
    Box::new(Progress::parse(line, Wall(rng.below(1 << 40))).expect("a line"))
}

fn outputs(rng: &mut Rng) -> Arc<str> {
    let files = vec![7; rng.below(4) as usize];
    match rng.below(4) {
        0 => "{}".into(),
        1 => format!(r#"{{"files":{files:?}}}"#).into(),
        _ => format!(r#"{{"files":{files:?},"n":{}}}"#, rng.below(3)).into(),
    }
}

/// A plan with counted items, items listed by another task, conditions, and a failure handler.
fn workflow(rng: &mut Rng) -> Plan {
    let mut plan = plan(vec![
        task("list", &[]),
        mapped("each", 0),
        many("wide", &[], 1 + rng.below(4) as u32),
        task("last", &[1, 2]),
        task("tidy", &[2]),
        many("some", &[0], 2),
    ]);
    plan.tasks[4].after[0].condition = Condition::Failure;
    plan.tasks[5].when = Some("item < tasks.list.outputs.n".to_owned());
    if rng.below(3) == 0 {
        plan.tasks[1].after[0].condition = Condition::End;
    }
    plan.fail_fast = rng.below(2) == 0;
    plan.max_concurrent = (rng.below(2) == 0).then_some(2);
    if rng.below(2) == 0 {
        let spec = Arc::make_mut(&mut plan.tasks[3].spec);
        spec.work = Work::Command(vec![format!("v{}", rng.below(3))]);
    }
    plan
}

/// The next generation: with another plan, with items to rerun, or neither.
fn resumed(rng: &mut Rng, known: &Run, at: Wall) -> Fact {
    let lengths = |task| known.progress.item_count(task);
    let plan = (rng.below(2) == 0).then(|| Arc::new(workflow(rng)));
    let mut spans = match rng.below(2) {
        0 => Vec::new(),
        _ => {
            invalidate::requested_spans(&known.dag, rng.below(3) as u32, rng.below(2) == 0, lengths)
        }
    };
    let done = invalidate::without(known.done(), &spans);
    let carried = match &plan {
        None => {
            spans.extend(invalidate::stale_spans(&known.dag, &done));
            Vec::new()
        }
        Some(plan) => {
            let after = Dag::new(Arc::clone(plan));
            let carried = compare::compare(&known.dag, &after, lengths).carried;
            let undone = invalidate::stale_spans(&after, &compare::carry_over(done, &carried));
            invalidate::carried_without(carried, &undone)
        }
    };
    Fact::RunResumed {
        run: known.head.id,
        generation: known.head.generation.next(),
        at,
        plan,
        carried,
        rerun: spans,
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
    match rng.below(8) {
        0 => AttemptEnd::Real(Outcome::Exited(0)),
        1 => AttemptEnd::Real(Outcome::Exited(3)),
        2 => AttemptEnd::Real(Outcome::Signaled(9)),
        3 => AttemptEnd::Real(Outcome::Killed(KillCause::LeaseLapsed)),
        4 => AttemptEnd::Real(Outcome::LaunchFailed),
        5 => AttemptEnd::Real(Outcome::BadOutput),
        6 => AttemptEnd::Synthetic(Synthetic::WasNotRunning),
        _ => AttemptEnd::Synthetic(Synthetic::WorkerLost(LossProof::HostRebooted)),
    }
}

fn mode(rng: &mut Rng) -> KillMode {
    [KillMode::Graceful, KillMode::Now][rng.below(2) as usize]
}
