//! Checkers of workflow runs, judging by facts and by what really happened on the hosts.
//!
//! | checker | invariant |
//! |---|---|
//! | `generation` | instances are created, leased and alive only in the current generation; an ended run has none alive |
//! | `done-again` | a DONE item is not started again unless a resume requests it; no item starts twice in a generation |
//! | `too-early` | an item starts only when its dependencies are settled as required |
//! | `halt-broken` | a halting run starts and retries nothing; nothing is halted without a request |
//! | `limit` | no more instances are in flight than the plan allows |
//! | `run-end` | a run ends in the state that follows from its items, and no earlier |
//! | `resume-unasked` | a generation matches a resume request of a client that had seen the previous one |
//! | `resumed-twice` | of all resumes of one generation, only one succeeds |
//! | `stale-accepted` | a request for a generation is answered for that generation |
//! | `rebuilt` | the runs of a leader equal those restored from the store |
//!
//! `oracle` and `retained` compute the expected state, `rows` holds the recorded one.

mod oracle;
mod retained;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_core::bugs::Bug;
use baton_model::fact::{Fact, Verdict};
use baton_model::ids::{Generation, InstanceId, LeaseId, RunId};
use baton_model::spec::Exclusive;
use baton_model::state::UniversalState;
use baton_model::workflow::{HaltCause, HaltMode, ItemEnd, Part, Plan};

use super::{Truth, Violation};
use oracle::ItemStatus;

pub use rows::{Row, Rows};

/// The seeded bugs that only workflows detect.
pub const BUGS: &[Bug] = &[
    Bug::RunEndsEarly,
    Bug::ResumeKeepsNothing,
    Bug::ResumeByIndex,
    Bug::ResumeStaleAccepted,
    Bug::GateIgnored,
    Bug::HaltForgets,
    Bug::RunIdsUsedAgain,
];

/// Indexes of a task and of one of its items.
type ItemPosition = (u32, u32);

/// The result of a check.
type Check = Result<(), Violation>;

/// A resume that a client has sent.
#[derive(Clone, Debug)]
pub struct ResumeRequest {
    pub run: RunId,
    /// The generation whose end the client had seen.
    pub seen: Generation,
    /// A changed plan.
    pub plan: Option<Arc<Plan>>,
    /// A task to rerun, and whether to rerun its downstream tasks.
    pub rerun: Option<(String, bool)>,
}

/// The checkers of runs.
#[derive(Debug, Default)]
pub struct RunChecks {
    pub rows: Rows,
    requests: Vec<ResumeRequest>,
    resumed: BTreeSet<(RunId, Generation)>,
    /// Instances that the store has lost, by the name of their workflow. Hosts may still run them.
    lost: BTreeMap<String, BTreeSet<InstanceId>>,
    /// Ids of runs that the store has lost, until it is settled.
    lost_ids: BTreeSet<RunId>,
}

/// The runs of a store at one time.
#[derive(Clone, Debug)]
pub struct RunRecord {
    rows: Rows,
    resumed: BTreeSet<(RunId, Generation)>,
}

fn broken(checker: &'static str, what: String) -> Check {
    Err(Violation { checker, what })
}

impl RunChecks {
    /// Records a resume request.
    pub fn record_request(&mut self, requests: ResumeRequest) {
        self.requests.push(requests);
    }

    /// The runs as the store has them.
    #[must_use]
    pub fn record(&self) -> RunRecord {
        RunRecord {
            rows: self.rows.clone(),
            resumed: self.resumed.clone(),
        }
    }

    /// The store has gone back to what it was then.
    pub fn restore(&mut self, record: RunRecord) {
        for (run, row) in self.rows.iter() {
            let remaining = record.rows.run(run).map(|it| &it.instances);
            let is_lost = |id: &&InstanceId| remaining.is_none_or(|it| !it.contains(*id));
            let lost = self.lost.entry(row.plan.name.clone()).or_default();
            lost.extend(row.instances.iter().filter(is_lost));
            if remaining.is_none() {
                self.lost_ids.insert(run);
            }
        }
        self.rows = record.rows;
        self.resumed = record.resumed;
    }

    /// Ids of lost runs may be used again.
    pub fn forget_lost_ids(&mut self) {
        self.lost_ids.clear();
    }

    /// Checks the acknowledgement of a resume.
    ///
    /// # Errors
    /// If the generation is wrong, or another resume of it was acknowledged.
    pub fn resume_answered(&mut self, run: RunId, seen: Generation, now: Generation) -> Check {
        if now != seen.next() {
            return broken(
                "stale-accepted",
                format!("a resume of {run} {seen} was answered with {now}"),
            );
        }
        if !self.resumed.insert((run, now)) {
            return broken("resumed-twice", format!("{run} {now} was begun twice"));
        }
        self.answered(run, now)
    }

    /// Checks the acknowledgement of a command about a generation of a run.
    ///
    /// # Errors
    /// If it is not on record.
    pub fn answered(&self, run: RunId, generation: Generation) -> Check {
        match self.rows.run(run) {
            Some(row) if row.generation >= generation => Ok(()),
            _ => broken(
                "lost-acknowledged",
                format!("{run} {generation} was acknowledged but is not in the store"),
            ),
        }
    }

    /// Checks a fact that became durable.
    ///
    /// # Errors
    /// If it violates an invariant.
    pub fn committed(&mut self, fact: &Fact, truth: &Truth) -> Check {
        match fact {
            Fact::InstancesSubmitted {
                first, last, spec, ..
            } => {
                for lost in self.lost.values_mut() {
                    lost.retain(|id| !(first..=last).contains(&id));
                }
                let Some(part) = spec.part else {
                    return Ok(());
                };
                let checked = if first == last {
                    self.check_begin(part)
                } else {
                    broken("done-again", format!("{part:?} has two instances"))
                };
                self.rows.began(*first, part);
                checked
            }
            Fact::LeaseGranted { lease, .. } => {
                let id = lease.attempt.instance;
                self.rows.leased(id, true);
                self.check_lease(id)
            }
            Fact::AttemptEnded { lease, verdict, .. } => {
                self.attempt_ended(lease.attempt.instance, *verdict)
            }
            Fact::InstancesHalted { first, last, .. } => {
                let mut checked = Ok(());
                for (id, part) in self.rows.waiting(*first, *last) {
                    checked = checked.and(self.check_halt(id, part));
                    self.rows.ended(id, part, ItemEnd::Halted);
                }
                checked
            }
            Fact::RunEnded { run, state, .. } => {
                let checked = self.check_end(*run, *state, truth);
                self.rows.apply(fact);
                checked
            }
            Fact::RunResumed { .. } => self.resumed(fact, truth),
            Fact::RunRegistered { run, .. } if self.lost_ids.contains(run) => {
                self.rows.apply(fact);
                broken(
                    "id-reused",
                    format!("{run} is new, and another run had this id"),
                )
            }
            Fact::CopySettled { .. } => {
                self.forget_lost_ids();
                Ok(())
            }
            _ => {
                self.rows.apply(fact);
                Ok(())
            }
        }
    }

    /// Checks the start of a process.
    ///
    /// # Errors
    /// If another generation of its run is alive.
    pub fn started(&self, id: InstanceId, truth: &Truth) -> Check {
        let Some(member) = self.rows.member(id) else {
            return Ok(());
        };
        let Some(row) = self.rows.run(member.part.run) else {
            return Ok(());
        };
        let others = row.instances.iter().filter(|other| {
            let other = self.rows.member(**other);
            other.is_some_and(|other| other.part.generation != member.part.generation)
        });
        let lost = self.lost.get(&row.plan.name).into_iter().flatten();
        check_none_alive(member.part.run, others.chain(lost), truth, |_| true)
    }

    fn row(&self, part: Part) -> Result<&Row, Violation> {
        self.rows.run(part.run).ok_or_else(|| Violation {
            checker: "generation",
            what: format!("{part:?} is of a run that does not exist"),
        })
    }

    fn check_begin(&self, part: Part) -> Check {
        let row = self.row(part)?;
        let position = (part.task, part.item);
        if row.open || row.over.is_some() || row.generation != part.generation {
            let (now, over) = (row.generation, row.over);
            let what = format!(
                "{part:?} begins where {now} is, open: {}, {over:?}",
                row.open
            );
            return broken("generation", what);
        }
        if let Some(end) = row.ends.get(&position) {
            return broken("done-again", format!("{part:?} begins, and is {end:?}"));
        }
        if row.live.contains_key(&position) {
            return broken("done-again", format!("{part:?} begins while it lives"));
        }
        if row.halting.is_some() {
            let what = format!("{part:?} begins while its run is stopped");
            return broken("halt-broken", what);
        }
        match row.oracle().status(position) {
            ItemStatus::Ready => within_limits(row, part),
            status => {
                let what = format!("{part:?} is {status:?}, and begins: {}", row.describe());
                broken("too-early", what)
            }
        }
    }

    fn check_lease(&self, id: InstanceId) -> Check {
        let Some(part) = self.rows.member(id).map(|it| it.part) else {
            return Ok(());
        };
        let row = self.row(part)?;
        if row.generation != part.generation || row.over.is_some() {
            return broken("generation", format!("{id}, {part:?}, is leased too late"));
        }
        if row.halting.is_some() || row.oracle().is_closed(part.task) {
            let what = format!("{id}, {part:?}, is leased while its run is stopped");
            return broken("halt-broken", what);
        }
        Ok(())
    }

    fn attempt_ended(&mut self, id: InstanceId, verdict: Verdict) -> Check {
        let Some(part) = self.rows.member(id).map(|it| it.part) else {
            return Ok(());
        };
        let end = match verdict {
            Verdict::Requeued => {
                self.rows.leased(id, false);
                return Ok(());
            }
            Verdict::Done => ItemEnd::Done,
            Verdict::GaveUp => ItemEnd::Failed,
            Verdict::Stopped => ItemEnd::Halted,
        };
        let halting = self.row(part)?.halting;
        let checked = match (end, halting) {
            (ItemEnd::Halted, Some((HaltMode::Kill | HaltMode::KillNow, _)))
            | (ItemEnd::Done | ItemEnd::Failed, _) => Ok(()),
            _ => broken("halt-broken", format!("{id}, {part:?}, was killed unasked")),
        };
        self.rows.ended(id, part, end);
        checked
    }

    fn check_halt(&self, id: InstanceId, part: Part) -> Check {
        let row = self.row(part)?;
        if row.halting.is_some() || row.oracle().is_closed(part.task) {
            return Ok(());
        }
        broken(
            "halt-broken",
            format!("{id}, {part:?}, was stopped unasked"),
        )
    }

    fn check_end(&self, run: RunId, state: UniversalState, truth: &Truth) -> Check {
        let Some(row) = self.rows.run(run) else {
            return broken("run-end", format!("{run} ends, and never was"));
        };
        if let Some((position, id)) = row.live.first_key_value() {
            let what = format!("{run} ends while {id}, {position:?}, is in flight");
            return broken("generation", what);
        }
        let is_known = |lease| !truth.is_lost(lease);
        check_none_alive(run, row.instances.iter(), truth, is_known)?;
        let statuses = if row.open {
            Vec::new()
        } else {
            row.oracle().all()
        };
        let good = statuses.iter().all(|(_, status)| status.is_good());
        let settled = statuses.iter().all(|(_, status)| status.is_settled());
        let cause = row.halting.map(|it| it.1);
        let right = match state {
            UniversalState::Aborted => row.open,
            UniversalState::Done => !row.open && good,
            UniversalState::Halted => !row.open && !good && cause == Some(HaltCause::Requested),
            UniversalState::Failed => {
                let timed_out = cause == Some(HaltCause::TimedOut);
                !row.open && !good && (timed_out || cause.is_none() && settled)
            }
            _ => false,
        };
        if right && row.over.is_none() {
            Ok(())
        } else {
            broken(
                "run-end",
                format!(
                    "{run} ends {}, halting {cause:?}: {statuses:?} of {}",
                    state.word(),
                    row.describe()
                ),
            )
        }
    }

    fn resumed(&mut self, fact: &Fact, truth: &Truth) -> Check {
        let Fact::RunResumed {
            run,
            generation,
            plan,
            ..
        } = fact
        else {
            return Ok(());
        };
        let Some(before) = self.rows.run(*run).cloned() else {
            return broken("generation", format!("{run} goes on, and never was"));
        };
        self.rows.apply(fact);
        let ended = matches!(
            before.over,
            Some(UniversalState::Halted | UniversalState::Failed | UniversalState::Done)
        );
        if !ended || *generation != before.generation.next() {
            let (was, over) = (before.generation, before.over);
            let what = format!("{run} {generation} begins after {was}, {over:?}");
            return broken("generation", what);
        }
        let is_known = |lease| !truth.is_lost(lease);
        check_none_alive(*run, before.instances.iter(), truth, is_known)?;
        let stays: BTreeSet<ItemPosition> = match self.rows.run(*run) {
            Some(row) => row.ends.keys().copied().collect(),
            None => BTreeSet::new(),
        };
        let about = |it: &&ResumeRequest| {
            it.run == *run && it.seen == before.generation && it.plan == *plan
        };
        let right = |it: &ResumeRequest| {
            let (plan, rerun) = (plan.as_deref(), it.rerun.as_ref());
            retained::done_items(&before.plan, &before.ends, plan, rerun)
        };
        let right: Vec<_> = self.requests.iter().filter(about).map(right).collect();
        if right.contains(&stays) {
            Ok(())
        } else {
            broken(
                "resume-unasked",
                format!(
                    "{run} {generation} keeps {stays:?} of {:?}, where {right:?} would be right; it was {}, and is {plan:?}",
                    before.ends,
                    before.describe()
                ),
            )
        }
    }
}

/// Checks that no process that counts lives, unless a frozen host or an out-of-bounds clock excuses it.
fn check_none_alive<'a>(
    run: RunId,
    mut instances: impl Iterator<Item = &'a InstanceId>,
    truth: &Truth,
    counts: impl Fn(LeaseId) -> bool,
) -> Check {
    let alive = instances.find_map(|id| {
        let (lease, excused) = truth.live_of(*id, None)?;
        // Nothing proves the end of an attempt that the store has forgotten, except time.
        let is_strict = truth.live(lease)?.exclusive == Exclusive::Strict && !truth.is_lost(lease);
        (counts(lease) && (is_strict || !excused)).then_some(lease)
    });
    match alive {
        None => Ok(()),
        Some(lease) => broken("generation", format!("{lease} of {run} is still alive")),
    }
}

/// Checks the concurrency limits before one more start.
fn within_limits(row: &Row, part: Part) -> Check {
    let plan = &row.plan;
    let own = &plan.tasks[part.task as usize];
    let live = |counts: &dyn Fn(u32) -> bool| {
        let live = row.live.keys().filter(|(task, _)| counts(*task));
        u32::try_from(live.count()).unwrap_or(u32::MAX)
    };
    let full = |limit: Option<u32>, counts: &dyn Fn(u32) -> bool| {
        limit.is_some_and(|limit| live(counts) >= limit)
    };
    let shared = own
        .pool
        .map(|pool| plan.pools[pool as usize].max_concurrent);
    let in_pool = |task: u32| plan.tasks[task as usize].pool == own.pool;
    if full(plan.max_concurrent, &|_| true)
        || full(own.max_concurrent, &|task| task == part.task)
        || full(shared, &in_pool)
    {
        return broken("limit", format!("{part:?} is one too many"));
    }
    Ok(())
}
