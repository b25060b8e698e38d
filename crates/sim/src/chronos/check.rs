//! Checker of a library's facts: see [`super`] for the invariants.
//!
//! It tracks its own state, independently of `baton-core`: instances and runs in flight, remaining
//! launch rates, and the followers and launches that a batch must still contain.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::fact::{Fact, Verdict as End};
use baton_model::ids::{Epoch, InstanceId, Revision, RunId, TaskNo};
use baton_model::library::{
    Cause, Definition, Execution, IdempotencyKey, Overlap, RunOrigin, TaskName, Trigger,
};
use baton_model::limits::OVERLAP_QUEUE_MAX;
use baton_model::schedule::{SkipReason, TickVerdict};
use baton_model::spec::{Due, InstanceSpec};
use baton_model::state::UniversalState;
use baton_model::time::{Now, Wall};
use baton_model::workflow::HaltCause;

use super::account::{Account, Record};
use super::backfill::BackfillCheck;
use super::bucket::Bucket;
use super::tally::Tally;
use crate::checkers::Violation;

/// One durable fact.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The epoch of the leader.
    pub epoch: Epoch,
    /// The batch; its facts are consecutive.
    pub batch: u64,
    /// The clocks at the time of the decision.
    pub now: Now,
    pub fact: Fact,
}

/// A check of the clock by a leader; the resulting records are durable.
#[derive(Clone, Copy, Debug)]
pub struct ClockCheck {
    /// The number of facts so far.
    pub after: usize,
    pub wall: Wall,
}

/// The history of a run.
#[derive(Clone, Copy, Debug)]
pub struct History<'a> {
    /// In order.
    pub entries: &'a [Entry],
    /// In order.
    pub clock_checks: &'a [ClockCheck],
}

#[derive(Debug)]
struct Task {
    name: TaskName,
    revision: Revision,
    accounted: Wall,
    trigger: Option<Trigger>,
    account: Option<Account>,
    bucket: Option<Bucket>,
    paused: bool,
    live: u64,
}

/// An instance or a run in flight.
#[derive(Debug)]
struct LiveExecution {
    task: TaskNo,
    leased: bool,
    /// An instance once had a lease, or a run had an instance.
    started: bool,
    /// Another one takes its place.
    replaced: bool,
}

/// A launch that a record names: its entry, the range of allowed due times, and its upstream.
#[derive(Clone, Copy, Debug)]
struct Launch {
    task: TaskNo,
    due: Option<(Due, Due)>,
    after: Option<Execution>,
}

/// Facts that the current batch must still contain.
#[derive(Debug, Default)]
struct Obligations {
    /// Instances and runs that a record names.
    launches: BTreeMap<Execution, Launch>,
    /// Followers of instances and runs that are DONE.
    follows: BTreeSet<(TaskNo, Execution)>,
    /// Tasks with due times that were skipped as replaced.
    replacements: BTreeSet<TaskNo>,
}

#[derive(Debug, Default)]
struct LibraryState {
    tasks: BTreeMap<TaskNo, Task>,
    live: BTreeMap<Execution, LiveExecution>,
    /// Ended instances and runs, for retries and resumes.
    ended: BTreeMap<Execution, TaskNo>,
    /// The origin of each run.
    runs: BTreeMap<RunId, RunOrigin>,
    keys: BTreeSet<(TaskNo, (u64, u64))>,
    obligations: Obligations,
    /// Entries with `overlap: replace` of which the current batch has launched something. A later
    /// fact of the batch may remove or redefine them.
    replacing: BTreeSet<TaskNo>,
    backfills: BackfillCheck,
    tally: Tally,
}

type CheckResult = Result<(), Violation>;

/// The executions that an entry may have in flight, those included that wait for their turn.
fn most_in_flight(trigger: &Trigger) -> Option<u64> {
    let limit = u64::from(trigger.max_instances?);
    match trigger.overlap {
        Overlap::Skip => Some(limit),
        Overlap::Queue => Some(limit + u64::from(OVERLAP_QUEUE_MAX)),
        Overlap::Replace => None,
    }
}

fn broken<T>(checker: &'static str, what: String) -> Result<T, Violation> {
    Err(Violation { checker, what })
}

/// Checks a history.
///
/// # Errors
/// The first violation.
pub fn check(history: &History<'_>) -> Result<Tally, Violation> {
    let mut state = LibraryState::default();
    let mut clock_checks = history.clock_checks.iter().peekable();
    for (index, entry) in history.entries.iter().enumerate() {
        let begins = index
            .checked_sub(1)
            .is_none_or(|before| history.entries[before].batch != entry.batch);
        if begins {
            state.check_batch_end(entry)?;
            state.replacing.clear();
        }
        while let Some(check_clock) = clock_checks.next_if(|check_clock| check_clock.after <= index)
        {
            state.check_clock(check_clock.wall)?;
        }
        state.apply(entry)?;
    }
    if let Some(last) = history.entries.last() {
        state.check_batch_end(last)?;
    }
    clock_checks.try_for_each(|check_clock| state.check_clock(check_clock.wall))?;
    Ok(state.tally)
}

impl LibraryState {
    /// Checks that a batch left no obligation open.
    fn check_batch_end(&self, before: &Entry) -> CheckResult {
        let obligations = &self.obligations;
        if obligations.launches.is_empty()
            && obligations.follows.is_empty()
            && obligations.replacements.is_empty()
        {
            return Ok(());
        }
        let what = format!("the batch before {before:?} lacks {obligations:?}");
        broken("record-alone", what)
    }

    fn check_clock(&self, now: Wall) -> CheckResult {
        let accounts = self.tasks.values().filter_map(|task| task.account.as_ref());
        for account in accounts {
            account.check_settled(now)?;
        }
        let stalled = self.tasks.iter().find(|(number, task)| {
            let limit = task.trigger.as_ref().and_then(|it| it.max_instances);
            let room = limit.is_none_or(|limit| task.live < u64::from(limit));
            room && task.bucket.is_none() && self.backfills.is_pending(**number)
        });
        match stalled {
            Some((number, task)) => broken(
                "backfill-stalled",
                format!("{number} at {now:?}: {task:?}, {:?}", self.backfills),
            ),
            None => Ok(()),
        }
    }

    fn apply(&mut self, entry: &Entry) -> CheckResult {
        match &entry.fact {
            Fact::TaskDefined {
                task,
                name,
                revision,
                from,
                definition,
                ..
            } => self.defined(entry, *task, name, (*revision, *from), definition),
            Fact::TaskRemoved { task, .. } => self.removed(entry, *task),
            Fact::TaskPaused { task, .. } => self.paused(entry, *task, true),
            Fact::TaskUnpaused { task, .. } => self.paused(entry, *task, false),
            Fact::Launched { .. } => self.recorded(entry),
            Fact::BackfillRegistered { .. }
            | Fact::BackfillHalted { .. }
            | Fact::BackfillResumed { .. }
            | Fact::BackfillCancelled { .. } => self.backfills.apply(entry),
            Fact::BackfillEnded { .. } => {
                self.tally.backfills += 1;
                self.backfills.apply(entry)
            }
            Fact::InstancesSubmitted {
                first, last, spec, ..
            } => {
                if let Some(part) = spec.part {
                    self.started(entry, Execution::Run(part.run))?;
                }
                self.submitted(*first, *last, spec)
            }
            Fact::RunRegistered { run, origin, .. } => self.registered(*run, origin.as_ref()),
            Fact::RunEnded { run, state, .. } => {
                self.close(Execution::Run(*run), *state == UniversalState::Done);
                Ok(())
            }
            Fact::RunResumed { run, .. } => {
                self.begin_again(Execution::Run(*run));
                Ok(())
            }
            Fact::LeaseGranted { lease, .. } | Fact::AttemptAdopted { lease, .. } => {
                self.leased(lease.attempt.instance, true);
                self.started(entry, Execution::Instance(lease.attempt.instance))
            }
            Fact::RunHalting {
                run,
                cause: HaltCause::Replaced,
                ..
            } => self.replaced(entry, Execution::Run(*run)),
            Fact::AttemptEnded { lease, verdict, .. } => {
                self.ended(lease.attempt.instance, *verdict);
                Ok(())
            }
            Fact::InstancesHalted { first, last, .. } => {
                let range = Execution::Instance(*first)..=Execution::Instance(*last);
                let waiting = self.live.range(range).filter(|it| !it.1.leased);
                let waiting: Vec<_> = waiting.map(|(id, _)| *id).collect();
                waiting.into_iter().for_each(|id| self.end(id));
                Ok(())
            }
            Fact::InstanceRetried { instance, .. } => {
                self.begin_again(Execution::Instance(*instance));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn triggered(
        &mut self,
        entry: &Entry,
        task: TaskNo,
        key: Option<&IdempotencyKey>,
        execution: Option<Execution>,
    ) -> CheckResult {
        if let Some(key) = key
            && !self.keys.insert((task, key.key))
        {
            return broken(
                "key-twice",
                format!("{key:?} launched {execution:?} as well"),
            );
        }
        self.tally.keyed += u64::from(key.is_some());
        // It is already counted as live.
        self.check_launch(entry, task, 1)
    }

    fn defined(
        &mut self,
        entry: &Entry,
        number: TaskNo,
        name: &TaskName,
        (revision, from): (Revision, Wall),
        definition: &Definition,
    ) -> CheckResult {
        self.obligations.replacements.remove(&number);
        let schedule = definition.trigger.schedule.as_ref();
        let before = self.tasks.get(&number);
        if before.is_some_and(|it| it.name != *name || it.revision >= revision) {
            return broken("number-again", format!("{:?}", entry.fact));
        }
        let was = before.and_then(|it| it.trigger.as_ref()?.schedule.as_ref());
        let continues = was.is_some() && was == schedule;
        let old = before.and_then(|it| it.account.as_ref());
        let expected = match old {
            Some(account) if continues => account.until(),
            _ => entry.now.wall,
        };
        if from != expected {
            let what = format!("{:?} should begin at {expected:?}", entry.fact);
            return broken("false-start", what);
        }
        if let Some(account) = old.filter(|_| !continues) {
            account.check_closed(entry.now.wall)?;
        }
        let accounted = before.map_or(from, |it| it.accounted.max(from));
        let account = schedule.map(|it| Account::new(it, accounted)).transpose()?;
        let rate = definition.trigger.launch_rate;
        let task = Task {
            name: name.clone(),
            revision,
            accounted,
            trigger: Some(definition.trigger.clone()),
            account,
            bucket: rate.map(|rate| Bucket::full(rate, entry.now.mono, entry.epoch)),
            paused: before.is_some_and(|it| it.paused),
            live: before.map_or(0, |it| it.live),
        };
        self.tasks.insert(number, task);
        Ok(())
    }

    fn removed(&mut self, entry: &Entry, number: TaskNo) -> CheckResult {
        self.obligations.replacements.remove(&number);
        let Some(task) = self.tasks.get_mut(&number) else {
            return broken("unknown-task", format!("{:?}", entry.fact));
        };
        task.trigger = None;
        task.bucket = None;
        match task.account.take() {
            Some(account) => account.check_closed(entry.now.wall),
            None => Ok(()),
        }
    }

    /// Checks that a pause begins and ends in a defined entry, and leaves no due time to be launched
    /// after its end.
    fn paused(&mut self, entry: &Entry, number: TaskNo, paused: bool) -> CheckResult {
        let task = self.tasks.get_mut(&number);
        let Some(task) = task.filter(|task| task.trigger.is_some()) else {
            return broken("unknown-task", format!("{:?}", entry.fact));
        };
        let ends = task.paused && !paused;
        task.paused = paused;
        match &task.account {
            Some(account) if ends => account.check_closed(entry.now.wall),
            _ => Ok(()),
        }
    }

    /// Checks the record of a launch.
    fn recorded(&mut self, entry: &Entry) -> CheckResult {
        let Fact::Launched {
            entry: number,
            revision,
            cause,
            verdict,
            execution,
        } = entry.fact
        else {
            return Ok(());
        };
        let Some(task) = self.tasks.get(&number) else {
            return broken("unknown-task", format!("{:?}", entry.fact));
        };
        let skipped = matches!(verdict, TickVerdict::Skip(_));
        let wrong = skipped == execution.is_some();
        if wrong || task.revision != revision || task.trigger.is_none() {
            return broken("false-record", format!("{entry:?} of {task:?}"));
        }
        match cause {
            Cause::Due { first, last, count } => {
                let record = Record {
                    first,
                    last,
                    count,
                    verdict,
                };
                self.ticked(entry, number, &record, execution)
            }
            Cause::Upstream { execution: of, .. } => {
                self.followed(entry, number, of, verdict, execution)
            }
            Cause::Request { key, .. } => self.triggered(entry, number, key.as_ref(), execution),
            Cause::Backfill { nominal, .. } => self.backfilled(entry, number, nominal, execution),
        }
    }

    fn ticked(
        &mut self,
        entry: &Entry,
        number: TaskNo,
        record: &Record,
        execution: Option<Execution>,
    ) -> CheckResult {
        self.check_pause(entry, number, record.verdict)?;
        let Some(task) = self.tasks.get_mut(&number) else {
            return broken("unknown-task", format!("{:?}", entry.fact));
        };
        let Some(account) = &mut task.account else {
            return broken("never-due", format!("{entry:?} of {task:?}"));
        };
        account.record(record, entry.now.wall)?;
        task.accounted = record.last;
        let schedule = task.trigger.as_ref().and_then(|it| it.schedule.as_ref());
        let due = schedule.map(|schedule| {
            let planned = |at: Wall| Due {
                nominal: record.first,
                latest: Wall(at.0.saturating_add(schedule.slack.0)),
            };
            (
                planned(record.first),
                planned(account.planned_by(record.first)),
            )
        });
        self.tally.note(record.verdict, record.count);
        if execution.is_some() {
            self.backfills.launched(entry, number, record.first)?;
        }
        self.expect(execution, number, due, None);
        self.check_verdict(entry, number, record.verdict)
    }

    fn followed(
        &mut self,
        entry: &Entry,
        number: TaskNo,
        of: Execution,
        verdict: TickVerdict,
        execution: Option<Execution>,
    ) -> CheckResult {
        self.check_pause(entry, number, verdict)?;
        if !self.obligations.follows.remove(&(number, of))
            || matches!(verdict, TickVerdict::Late { .. })
        {
            return broken("false-follower", format!("{entry:?}"));
        }
        self.tally.followers += 1;
        self.expect(execution, number, None, Some(of));
        self.check_verdict(entry, number, verdict)
    }

    /// Expects that the batch starts what was launched, with this origin.
    fn expect(
        &mut self,
        execution: Option<Execution>,
        task: TaskNo,
        due: Option<(Due, Due)>,
        after: Option<Execution>,
    ) {
        if let Some(id) = execution {
            self.tally.runs += u64::from(id.run().is_some());
            let launch = Launch { task, due, after };
            self.obligations.launches.insert(id, launch);
        }
    }

    fn check_pause(&self, entry: &Entry, number: TaskNo, verdict: TickVerdict) -> CheckResult {
        let task = self.tasks.get(&number);
        let paused = task.is_some_and(|task| task.paused);
        if paused != (verdict == TickVerdict::Skip(SkipReason::Paused)) {
            return broken("pause-ignored", format!("{entry:?} of {task:?}"));
        }
        Ok(())
    }

    fn check_verdict(
        &mut self,
        entry: &Entry,
        number: TaskNo,
        verdict: TickVerdict,
    ) -> CheckResult {
        match verdict {
            TickVerdict::Skip(reason) => self.check_skip(entry, number, reason),
            TickVerdict::Launch | TickVerdict::Late { .. } => self.check_launch(entry, number, 0),
        }
    }

    /// Checks a launch of a backfill, which waits for `max_instances` whatever `overlap` says, and is
    /// launched while the entry is paused, too.
    fn backfilled(
        &mut self,
        entry: &Entry,
        number: TaskNo,
        nominal: Wall,
        execution: Option<Execution>,
    ) -> CheckResult {
        self.backfills.apply(entry)?;
        let Some(task) = self.tasks.get_mut(&number) else {
            return broken("unknown-task", format!("{:?}", entry.fact));
        };
        let limit = task.trigger.as_ref().and_then(|it| it.max_instances);
        let full = limit.is_some_and(|limit| task.live >= u64::from(limit));
        let bucket = task.bucket.as_mut();
        let refused = bucket.is_some_and(|it| !it.take(entry.now.mono, entry.epoch));
        if full || refused {
            return broken("limit-broken", format!("{entry:?} of {task:?}"));
        }
        let due = Due {
            nominal,
            latest: entry.now.wall,
        };
        self.tally.backfilled += 1;
        self.obligations.launches.extend(execution.map(|id| {
            let launch = Launch {
                task: number,
                due: Some((due, due)),
                after: None,
            };
            (id, launch)
        }));
        Ok(())
    }

    /// Checks the limits of a launch. `counted` of the live executions are this launch itself.
    fn check_launch(&mut self, entry: &Entry, number: TaskNo, counted: u64) -> CheckResult {
        let Some(task) = self.tasks.get_mut(&number) else {
            return broken("unknown-task", format!("{:?}", entry.fact));
        };
        let overlap = task.trigger.as_ref().map(|it| it.overlap);
        if overlap == Some(Overlap::Replace) {
            self.replacing.insert(number);
        }
        let limit = task.trigger.as_ref().and_then(most_in_flight);
        let others = task.live.saturating_sub(counted);
        if limit.is_some_and(|limit| others >= limit) {
            return broken(
                "limit-broken",
                format!("{entry:?}: {others} of {limit:?} live"),
            );
        }
        if let Some(bucket) = &mut task.bucket
            && !bucket.take(entry.now.mono, entry.epoch)
        {
            return broken("limit-broken", format!("{entry:?}: {bucket:?}"));
        }
        Ok(())
    }

    /// Checks that the reason of a skip is true.
    fn check_skip(&mut self, entry: &Entry, number: TaskNo, reason: SkipReason) -> CheckResult {
        let Some(task) = self.tasks.get_mut(&number) else {
            return broken("unknown-task", format!("{:?}", entry.fact));
        };
        let allowed = task.trigger.as_ref().and_then(|it| it.max_instances);
        let full = allowed.is_some_and(|allowed| task.live >= u64::from(allowed));
        let overlap = task.trigger.as_ref().map(|it| it.overlap);
        let is_true = match reason {
            SkipReason::MaxInstances { limit } => {
                full && allowed == Some(limit) && overlap == Some(Overlap::Skip)
            }
            SkipReason::QueueFull { .. } => {
                let most = task.trigger.as_ref().and_then(most_in_flight);
                overlap == Some(Overlap::Queue) && most.is_some_and(|most| task.live >= most)
            }
            SkipReason::LaunchRate => {
                let bucket = task.bucket.as_mut();
                let (now, epoch) = (entry.now.mono, entry.epoch);
                let full = full && overlap == Some(Overlap::Skip);
                !full && bucket.is_some_and(|bucket| !bucket.has_room(now, epoch))
            }
            SkipReason::Replaced => {
                self.obligations.replacements.insert(number);
                true
            }
            // Checked before: `Paused` exactly while it is paused.
            SkipReason::Missed | SkipReason::CatchUp | SkipReason::Paused => true,
        };
        if is_true {
            Ok(())
        } else {
            broken("false-verdict", format!("{entry:?} of {task:?}"))
        }
    }

    /// Checks that no more executions of an entry start than its policy allows. Those that were
    /// started under an earlier revision with a higher limit count, but are not its fault.
    fn started(&mut self, entry: &Entry, id: Execution) -> CheckResult {
        let Some(live) = self.live.get_mut(&id).filter(|live| !live.started) else {
            return Ok(());
        };
        live.started = true;
        let number = live.task;
        let trigger = self.tasks.get(&number).and_then(|it| it.trigger.as_ref());
        let Some(trigger) = trigger.filter(|it| it.overlap != Overlap::Skip) else {
            return Ok(());
        };
        let started = |it: &&LiveExecution| it.task == number && it.started;
        let started = self.live.values().filter(started).count() as u64;
        self.tally.turns += 1;
        match trigger.max_instances {
            Some(limit) if started > u64::from(limit) => broken(
                "overlap-broken",
                format!("{entry:?}: {id} is number {started} of {limit}"),
            ),
            _ => Ok(()),
        }
    }

    /// Checks that only `overlap: replace` stops a run, and only for another one. After a change of
    /// its kind, an entry may have instances and runs, whose ids have no common order.
    fn replaced(&mut self, entry: &Entry, id: Execution) -> CheckResult {
        let live = self.live.get(&id);
        let task = live.map(|live| live.task);
        let replaces = task.is_some_and(|number| {
            let other = |it: (&Execution, &LiveExecution)| *it.0 != id && it.1.task == number;
            self.replacing.contains(&number) && self.live.iter().any(other)
        });
        // A run that is being replaced may also time out, which halts it again for the same cause.
        let again = live.is_some_and(|live| live.replaced);
        if replaces || again {
            let live = self.live.get_mut(&id);
            live.into_iter().for_each(|live| live.replaced = true);
            Ok(())
        } else {
            broken("false-replacement", format!("{entry:?} of {task:?}"))
        }
    }

    fn submitted(
        &mut self,
        first: InstanceId,
        last: InstanceId,
        spec: &InstanceSpec,
    ) -> CheckResult {
        let named = |name: &str| spec.env.contains_key(name);
        if let Some(part) = spec.part {
            let origin = self.runs.get(&part.run);
            let due = origin.is_some_and(|origin| origin.due.is_some());
            let after = origin.is_some_and(|origin| origin.after.is_some());
            if named("BATON_NOMINAL_TIME") != due || named("BATON_AFTER") != after {
                return broken("false-origin", format!("{first} of {part:?}: {origin:?}"));
            }
        }
        let Some(origin) = spec.origin else {
            return Ok(());
        };
        let execution = Execution::Instance(first);
        let launch = self.obligations.launches.get(&execution);
        let after = launch.and_then(|launch| launch.after);
        let origin = RunOrigin {
            task: origin.task,
            revision: origin.revision,
            due: origin.due,
            after,
        };
        let told = named("BATON_NOMINAL_TIME") == origin.due.is_some()
            && named("BATON_AFTER") == after.is_some();
        if !told || first != last {
            return broken("false-origin", format!("{first} to {last} of {origin:?}"));
        }
        self.launched(execution, &origin)
    }

    fn registered(&mut self, run: RunId, origin: Option<&RunOrigin>) -> CheckResult {
        let Some(origin) = origin else {
            return Ok(());
        };
        self.runs.insert(run, *origin);
        self.launched(Execution::Run(run), origin)
    }

    /// Checks that a launch is the one that its record names.
    fn launched(&mut self, execution: Execution, origin: &RunOrigin) -> CheckResult {
        let launch = self.obligations.launches.remove(&execution);
        let fits = match launch {
            Some(launch) => {
                let fits = match (launch.due, origin.due) {
                    (Some((earliest, latest)), Some(due)) => {
                        due.nominal == earliest.nominal
                            && (earliest.latest..=latest.latest).contains(&due.latest)
                    }
                    (expected, due) => expected.is_none() && due.is_none(),
                };
                fits && launch.task == origin.task && launch.after == origin.after
            }
            // A client has triggered it.
            None => origin.due.is_none() && origin.after.is_none(),
        };
        if !fits {
            return broken(
                "record-alone",
                format!("{execution} of {origin:?} is not {launch:?}"),
            );
        }
        if self.live.contains_key(&execution) || self.ended.contains_key(&execution) {
            return broken("launched-twice", format!("{execution} of {origin:?}"));
        }
        self.begin(execution, origin.task);
        Ok(())
    }

    fn begin(&mut self, id: Execution, task: TaskNo) {
        let live = LiveExecution {
            task,
            leased: false,
            started: false,
            replaced: false,
        };
        self.backfills.set_live(id, true);
        if self.live.insert(id, live).is_none()
            && let Some(task) = self.tasks.get_mut(&task)
        {
            task.live += 1;
        }
    }

    fn begin_again(&mut self, id: Execution) {
        if let Some(task) = self.ended.remove(&id) {
            self.begin(id, task);
        }
    }

    fn end(&mut self, id: Execution) {
        self.backfills.set_live(id, false);
        if let Some(live) = self.live.remove(&id) {
            self.ended.insert(id, live.task);
            if let Some(task) = self.tasks.get_mut(&live.task) {
                task.live -= 1;
            }
        }
    }

    fn leased(&mut self, id: InstanceId, leased: bool) {
        if let Some(live) = self.live.get_mut(&Execution::Instance(id)) {
            live.leased = leased;
        }
    }

    fn ended(&mut self, id: InstanceId, verdict: End) {
        if verdict == End::Requeued {
            self.leased(id, false);
        } else {
            self.close(Execution::Instance(id), verdict == End::Done);
        }
    }

    /// Ends an execution; its followers must be launched or skipped if it is DONE.
    fn close(&mut self, id: Execution, done: bool) {
        if done
            && let Some(live) = self.live.get(&id)
            && let Some(of) = self.tasks.get(&live.task)
        {
            let after = |task: &Task| {
                let trigger = task.trigger.as_ref();
                trigger.is_some_and(|trigger| trigger.after.contains(&of.name))
            };
            let followers = self.tasks.iter().filter(|(_, task)| after(task));
            let obligations = followers.map(|(number, _)| (*number, id));
            self.obligations.follows.extend(obligations);
        }
        self.end(id);
    }
}
