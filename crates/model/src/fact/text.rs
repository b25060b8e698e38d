//! Facts as text: one sentence for each.

use std::fmt;

use super::{Condemnation, CopyEvidence, Fact, Verdict};
use crate::fleet::Removal;
use crate::ids::InstanceRange;
use crate::library::{Cause, Execution, TaskName, TriggerSource};
use crate::outcome::{AttemptEnd, KillMode, Synthetic};
use crate::principal::Principal;
use crate::rate::LimitValue;
use crate::schedule::TickVerdict;
use crate::workflow::{HaltCause, HaltMode};

impl Fact {
    /// The fact as one sentence, with the client that has asked for it, if it is known. The ids of instances and tasks are not in it: timelines and events
    /// show them beside it.
    #[must_use]
    pub fn sentence(&self, by: Option<&Principal>) -> String {
        self.sentence_of("an entry", by)
    }

    /// The sentence with the name of the library entry that the fact is about.
    #[must_use]
    pub fn sentence_about(&self, entry: &TaskName, by: Option<&Principal>) -> String {
        match self {
            Self::TaskDefined { .. }
            | Self::TaskRemoved { .. }
            | Self::TaskPaused { .. }
            | Self::TaskUnpaused { .. } => self.sentence_of(&entry.to_string(), by),
            _ => format!("{entry}: {}", self.sentence(by)),
        }
    }

    fn sentence_of(&self, entry: &str, by: Option<&Principal>) -> String {
        // The client after a verb, and in a clause with a verb of its own.
        let by = by.map(|it| format!(" by {it}")).unwrap_or_default();
        let clause = |verb: &str| match &*by {
            "" => String::new(),
            by => format!(", {verb}{by}"),
        };
        match self {
            Self::InstancesSubmitted { first, last, .. } => {
                let by = clause("submitted");
                match last.0 - first.0 + 1 {
                    1 => format!("accepted{by}"),
                    count => format!("accepted as one of {count}{by}"),
                }
            }
            Self::LeaseGranted {
                lease,
                holder,
                executor,
                others,
            } => {
                let (number, worker) = (lease.attempt.number.0, &holder.worker);
                let executor = executor.as_ref().map(|it| format!(" ({it})"));
                let executor = executor.unwrap_or_default();
                let others: Vec<&str> = others.iter().map(|it| &*it.worker.0).collect();
                let held = match &*others {
                    [] => String::new(),
                    others => format!("; {} held for it", list(others)),
                };
                format!("attempt {number} was assigned to worker {worker}{executor}{held}")
            }
            Self::MemberLost {
                lease,
                worker,
                loss,
            } => {
                let number = lease.attempt.number.0;
                format!("worker {worker}, a member of attempt {number}, was lost: {loss}")
            }
            Self::AttemptAdopted { lease, holder, .. } => {
                let number = lease.attempt.number.0;
                format!("attempt {number} was adopted on worker {}", holder.worker)
            }
            Self::AttemptConfirmed { lease } => {
                format!("attempt {} was started", lease.attempt.number.0)
            }
            Self::AttemptEnded {
                lease,
                end,
                verdict,
                stderr_tail,
                progress,
                ..
            } => {
                let number = lease.attempt.number.0;
                let is_host_fault = *end == AttemptEnd::Synthetic(Synthetic::HostFault);
                let fault = stderr_tail.as_deref().filter(|_| is_host_fault);
                let fault = fault.map(|it| format!(": {it}")).unwrap_or_default();
                // Of a success it would be all of it.
                let came_to = progress.as_ref().filter(|_| *verdict != Verdict::Done);
                let at = came_to.map(|it| format!(", at {}", it.text()));
                let at = at.unwrap_or_default();
                format!(
                    "attempt {number} ended: {end}{fault}{at}; {}",
                    verdict.word()
                )
            }
            Self::StopRequested { mode, reason, .. } => {
                let reason = reason.map(|it| format!(": {it}")).unwrap_or_default();
                let mode = mode.suffix();
                format!("stop requested{by}{mode}{reason}")
            }
            Self::AttemptKillRequested { lease, mode } => {
                let number = lease.attempt.number.0;
                format!("kill of attempt {number} requested{by}{}", mode.suffix())
            }
            Self::InstancesHalted { reason: None, .. } => {
                format!("halted while it waited{}", clause("requested"))
            }
            Self::InstancesHalted {
                reason: Some(reason),
                ..
            } => format!("halted while it waited: {reason}"),
            Self::InstanceRetried { .. } => {
                format!("retry requested{by}")
            }
            Self::WorkerDrained { worker, drained } => {
                let change = if *drained { "drained" } else { "undrained" };
                format!("worker {worker} is {change}{}", clause("requested"))
            }
            Self::WorkerNameAssigned {
                worker,
                owner: Some(owner),
            } => format!("the name of worker {worker} belongs to {owner}, which has used it first"),
            Self::WorkerNameAssigned {
                worker,
                owner: None,
            } => format!("the name of worker {worker} was released"),
            Self::LimitSet { name, total, rate } => {
                let requested = clause("requested");
                match total {
                    Some(total) => {
                        let (total, rate) = (*total, *rate);
                        let value = LimitValue { total, rate };
                        format!("the limit {name} is {value}{requested}")
                    }
                    None => format!("the limit {name} is no longer set at run time{requested}"),
                }
            }
            Self::ShareSet { owner, weight: 1 } => {
                let requested = clause("requested");
                format!("the share of owner {owner} is 1, as that of others{requested}")
            }
            Self::ShareSet { owner, weight } => {
                let requested = clause("requested");
                format!("the share of owner {owner} is {weight}{requested}")
            }
            Self::ArrayLimitSet { first, total, .. } => {
                let requested = clause("requested");
                match total {
                    Some(total) => {
                        format!("at most {total} of the array {first} run at once{requested}")
                    }
                    None => format!("the array {first} has no concurrency limit{requested}"),
                }
            }
            Self::LeaseTimeSet { lease } => format!("the lease time is {lease}"),
            Self::WorkerCondemned {
                worker,
                incarnation,
                reason: Condemnation::Left,
            } => format!("worker {worker} ({incarnation}) has ended"),
            Self::WorkerCondemned {
                worker,
                incarnation,
                reason,
            } => format!(
                "worker {worker} ({incarnation}) is condemned: {}{}",
                reason.sentence(),
                clause("requested")
            ),
            Self::CopyOpened { epoch, evidence } => format!(
                "the store is a copy: {}; generation {epoch} begins, and nothing is placed for a \
                 lease time",
                evidence.sentence()
            ),
            Self::CopySettled { epoch } => format!("generation {epoch} is settled"),
            Self::AttemptsDisowned {
                worker,
                attempts,
                example,
                ..
            } => format!(
                "worker {worker} holds {attempts} attempts of an unknown generation of the store, \
                 such as {example}: refused and killed"
            ),
            Self::WorkerFaulted {
                worker,
                incarnation,
                fault,
            } => match fault {
                Some(fault) => format!(
                    "worker {worker} ({incarnation}) gets no work, since it cannot launch any: {fault}"
                ),
                None => format!("worker {worker} ({incarnation}) can launch work again"),
            },
            Self::AlarmRaised(alarm) => format!("{}: {}", alarm.kind, alarm.sentence()),
            Self::AlarmCleared { alarm, .. } => format!("no longer {}", alarm.kind),
            Self::ChannelFaulted { channel, fault } => match fault {
                Some(fault) => {
                    format!("the channel {channel} cannot deliver notifications: {fault}")
                }
                None => format!("the channel {channel} delivers notifications again"),
            },
            Self::WorkerSuspected {
                worker,
                incarnation,
                suspicion,
            } => match suspicion {
                Some(suspicion) => format!(
                    "worker {worker} ({incarnation}) is suspicious: {suspicion}; it is tried with \
                     one attempt at a time"
                ),
                None => format!("worker {worker} ({incarnation}) is trusted again"),
            },
            Self::TaskDefined {
                name,
                revision,
                definition,
                ..
            } => {
                let (kind, revision, by) = (definition.kind, revision.0, clause("defined"));
                format!("{kind} {name} is at revision {revision}{by}")
            }
            Self::TaskRemoved { .. } => {
                format!("{entry} was removed from the library{by}")
            }
            Self::TaskPaused { reason, .. } => {
                let reason = reason.as_ref().map(|it| format!(": {it}"));
                let reason = reason.unwrap_or_default();
                format!("{entry} was paused{by}{reason}")
            }
            Self::TaskUnpaused { .. } => {
                format!("{entry} was unpaused{by}")
            }
            Self::KeyRecorded { created, .. } => {
                format!("{created} was submitted with an Idempotency-Key")
            }
            Self::Launched {
                cause,
                verdict,
                execution,
                ..
            } => cause.sentence(*verdict, *execution),
            Self::BackfillRegistered {
                backfill,
                due,
                taken,
                ..
            } => {
                let launches = due.saturating_sub(taken.len() as u64);
                let requested = clause("requested");
                format!("backfill {backfill} launches {launches} of {due} due times{requested}")
            }
            Self::BackfillHalted {
                backfill, cause, ..
            } => format!("backfill {backfill} is halted: {cause}{by}"),
            Self::BackfillResumed {
                backfill,
                remaining,
                ..
            } => {
                format!("backfill {backfill} was resumed{by}, {remaining} due times remain")
            }
            Self::BackfillEnded { backfill, .. } => format!("backfill {backfill} is DONE"),
            Self::BackfillCancelled { backfill, .. } => {
                format!("backfill {backfill} was cancelled{by}")
            }
            Self::RunRegistered {
                run, plan, open, ..
            } => {
                let stage = if *open {
                    "is being defined"
                } else {
                    "was accepted"
                };
                let by = clause("submitted");
                format!("run {run} of {} {stage}{by}", plan.name)
            }
            Self::RunExtended { run, .. } => format!("tasks were added to run {run}"),
            Self::RunDefined { run, .. } => format!("run {run} is fully defined"),
            Self::RunAdvanced { run, to, .. } => format!("run {run} is {}", to.word()),
            Self::RunHalting { run, mode, cause } => {
                let reason = match cause {
                    HaltCause::Requested => "requested",
                    HaltCause::TimedOut => "timed out",
                    HaltCause::Replaced => "a later run takes its place",
                };
                let what = match mode {
                    HaltMode::Drain => "starts no further instances",
                    HaltMode::Kill => "is being killed",
                    HaltMode::KillNow => "is being killed at once",
                };
                format!("run {run} {what}: {reason}{by}")
            }
            Self::RunEnded {
                run,
                generation,
                state,
            } => format!("run {run} is {}, generation {}", state.word(), generation.0),
            Self::RunResumed {
                run, generation, ..
            } => {
                format!("run {run} was resumed{by}, generation {}", generation.0)
            }
            Self::FleetDefined { .. }
            | Self::FleetPaused { .. }
            | Self::FleetRemoved { .. }
            | Self::JobRequested { .. }
            | Self::JobSubmitted { .. }
            | Self::JobObserved { .. }
            | Self::JobArrived { .. }
            | Self::JobCancelRequested { .. }
            | Self::JobEnded { .. } => self.fleet_sentence(&by),
        }
    }

    /// The sentence of a fact about a fleet or one of its jobs.
    fn fleet_sentence(&self, by: &str) -> String {
        let detail =
            |it: &Option<String>| it.as_ref().map_or_else(String::new, |it| format!(": {it}"));
        match self {
            Self::FleetDefined { fleet, spec, file } => {
                let (backend, max) = (spec.backend.word(), spec.max);
                let by = file
                    .as_ref()
                    .map_or_else(|| by.to_owned(), |it| format!(" by {it}"));
                format!("fleet {fleet} was defined{by}: {backend}, at most {max} workers")
            }
            Self::FleetPaused {
                fleet,
                paused: true,
            } => {
                format!("fleet {fleet} was paused{by}: it requests no more jobs")
            }
            Self::FleetPaused {
                fleet,
                paused: false,
            } => format!("fleet {fleet} was resumed{by}"),
            Self::FleetRemoved { fleet, removal } => match removal {
                Removal::Cancel => format!("fleet {fleet} was removed{by}; its jobs are cancelled"),
                Removal::Drain => format!(
                    "fleet {fleet} was removed{by}; its queued jobs are cancelled, and running ones \
                     end when they have no more work"
                ),
            },
            Self::JobRequested {
                job,
                fleet,
                workers,
                name,
                ..
            } => {
                format!("fleet {fleet} requests job {job} with {workers} workers, named {name}")
            }
            Self::JobSubmitted { job, fleet, native } => {
                format!("fleet {fleet}: job {job} was submitted as {native}")
            }
            Self::JobObserved {
                job,
                fleet,
                state,
                detail: it,
                nodes,
                ..
            } => {
                let nodes = match nodes.as_slice() {
                    [] => String::new(),
                    nodes => format!(" on {}", nodes.join(", ")),
                };
                format!(
                    "fleet {fleet}: job {job} is {}{nodes}{}",
                    state.word(),
                    detail(it)
                )
            }
            Self::JobArrived { job, fleet, .. } => {
                format!("fleet {fleet}: the first worker of job {job} is here")
            }
            Self::JobCancelRequested {
                job,
                fleet,
                cause,
                surplus,
            } => {
                let surplus = surplus
                    .as_ref()
                    .map_or_else(String::new, |it| format!(" ({it})"));
                format!(
                    "fleet {fleet}: job {job}{surplus} is cancelled, since {}",
                    cause.sentence()
                )
            }
            Self::JobEnded {
                job,
                fleet,
                end,
                detail: it,
                ..
            } => {
                format!(
                    "fleet {fleet}: job {job} is over, since {}{}",
                    end.sentence(),
                    detail(it)
                )
            }
            _ => String::new(),
        }
    }

    /// The ids that the sentence does not have.
    fn ids(&self) -> String {
        match self {
            Self::InstancesSubmitted { first, last, .. }
            | Self::InstancesHalted { first, last, .. } => InstanceRange(*first, *last).to_string(),
            Self::LeaseGranted { lease, holder, .. }
            | Self::AttemptAdopted { lease, holder, .. } => {
                format!("{lease} {}", holder.incarnation)
            }
            Self::AttemptConfirmed { lease }
            | Self::AttemptKillRequested { lease, .. }
            | Self::MemberLost { lease, .. }
            | Self::AttemptEnded { lease, .. } => lease.to_string(),
            Self::StopRequested { instance, .. } | Self::InstanceRetried { instance, .. } => {
                instance.to_string()
            }
            Self::Launched {
                entry,
                cause,
                execution,
                ..
            } => match (cause, execution) {
                (Cause::Due { first, last, .. }, _) => format!("{entry} {}..{}", first.0, last.0),
                (Cause::Upstream { at, .. }, _) => format!("{entry} {}..{}", at.0, at.0),
                (Cause::Backfill { nominal, .. }, _) => format!("{entry} {}", nominal.0),
                (Cause::Request { .. }, Some(execution)) => format!("{execution} {entry}"),
                (Cause::Request { .. }, None) => entry.to_string(),
            },
            Self::TaskDefined { task, revision, .. } | Self::TaskRemoved { task, revision, .. } => {
                format!("{task} {revision}")
            }
            Self::TaskPaused { task, .. } | Self::TaskUnpaused { task, .. } => task.to_string(),
            Self::BackfillRegistered { task, .. }
            | Self::BackfillHalted { task, .. }
            | Self::BackfillResumed { task, .. }
            | Self::BackfillEnded { task, .. }
            | Self::BackfillCancelled { task, .. } => task.to_string(),
            _ => String::new(),
        }
    }
}

/// A line of a transcript: the kind, the ids, and the sentence.
impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self.ids();
        let space = if ids.is_empty() { "" } else { " " };
        write!(
            f,
            "{}{space}{ids}: {}",
            self.kind().name(),
            self.sentence(None)
        )
    }
}

impl KillMode {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Graceful => "",
            Self::Now => ", at once",
        }
    }
}

impl Cause {
    fn sentence(self, verdict: TickVerdict, execution: Option<Execution>) -> String {
        match (self, execution) {
            (Self::Due { count, .. }, _) => verdict.sentence(count),
            (Self::Upstream { .. }, _) => verdict.sentence(1),
            (Self::Request { source, .. }, Some(Execution::Run(run))) => {
                format!("run {run} was {}", source.sentence())
            }
            (Self::Request { source, .. }, _) => source.sentence().to_owned(),
            (Self::Backfill { backfill, .. }, Some(launched)) => {
                format!("backfill {backfill} has launched {launched}")
            }
            (Self::Backfill { backfill, .. }, None) => {
                format!("backfill {backfill} has passed a due time")
            }
        }
    }
}

impl TriggerSource {
    const fn sentence(self) -> &'static str {
        match self {
            Self::Manual => "triggered by hand",
            Self::Remote => "triggered over HTTP",
        }
    }
}

impl TickVerdict {
    /// The verdict on this many due times, as a sentence.
    #[must_use]
    pub fn sentence(self, count: u64) -> String {
        match self {
            Self::Launch => "launched on time".to_owned(),
            Self::Late { by } => format!("launched {by} late"),
            Self::Skip(reason) if count == 1 => format!("skipped: {reason}"),
            Self::Skip(reason) => format!("{count} due times skipped: {reason}"),
        }
    }
}

impl CopyEvidence {
    /// The evidence as a clause.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::MarkMissing => "its mark is missing or damaged".to_owned(),
            Self::OtherFile => "its mark belongs to another file".to_owned(),
            Self::OlderThanMark => "its mark has seen a later state of it".to_owned(),
            Self::OtherHistory => {
                "a standby of its database was promoted, or a backup was restored".to_owned()
            }
            Self::LaterTermObeyed { worker, epoch } => {
                format!("worker {worker} has obeyed its term {epoch}, which it does not know")
            }
        }
    }
}

impl Condemnation {
    /// The reason as a sentence about the worker.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Unhealthy => "it was unhealthy for too long",
            Self::Displaced => "another worker has taken its seat",
            Self::SeatTaken => "another worker holds the seat that it requested",
            Self::Forgotten => "an operator declared it gone",
            Self::GaveItselfUp => "it gave itself up",
            Self::Left => "it has ended in order",
        }
    }
}

/// Names with their verb: `a is`, `a and b are`, `a, b and 2 more are`.
fn list(names: &[&str]) -> String {
    const SHOWN: usize = 8;
    match names {
        [one] => format!("{one} is"),
        [rest @ .., last] if rest.len() < SHOWN => format!("{} and {last} are", rest.join(", ")),
        _ => {
            let (shown, more) = names.split_at(SHOWN.min(names.len()));
            format!("{} and {} more are", shown.join(", "), more.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{BackfillId, TaskNo};
    use crate::time::Wall;

    #[test]
    fn a_sentence_about_an_entry_names_it() {
        let entry = TaskName {
            owner: "lab".into(),
            name: "etl".into(),
        };
        let unpaused = Fact::TaskUnpaused { task: TaskNo(1) };
        assert_eq!(unpaused.sentence(None), "an entry was unpaused");
        assert_eq!(
            unpaused.sentence_about(&entry, None),
            "lab/etl was unpaused"
        );
        let ann = Principal::Certificate {
            name: "ann".to_owned(),
        };
        let by_ann = unpaused.sentence_about(&entry, Some(&ann));
        assert_eq!(by_ann, "lab/etl was unpaused by ann (certificate)");
        let ended = Fact::BackfillEnded {
            backfill: BackfillId(2),
            task: TaskNo(1),
            at: Wall(0),
        };
        assert_eq!(
            ended.sentence_about(&entry, None),
            "lab/etl: backfill b2 is DONE"
        );
    }
}
