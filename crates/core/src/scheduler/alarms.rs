//! Alarms: work that is late, slow, short or stuck.
//!
//! An alarm is raised once for its work, as a whole: an instance, an array, or a run with all its items.
//! It is open until the work has ended or, if it was stuck, was placed. Open alarms are in the ledger;
//! what is still to be watched follows from the specs of what is live, so a new leader watches the same.
//!
//! | kind | watched |
//! |---|---|
//! | late, slow | by a timer, which is checked when it fires and never removed before |
//! | short | at the end of an attempt or a run |
//! | stuck | by a look at the heads of all queues, now and then: its cost does not depend on the backlog |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_model::alarm::{Alarm, AlarmKey, AlarmKind, Deadline, Expectations};
use baton_model::conditions::Subject;
use baton_model::fact::{Fact, Verdict};
use baton_model::ids::{AttemptNo, InstanceId, RunId};
use baton_model::measurement::TaskPath;
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Mono, Now, Wall};

use super::bullpen::Bullpen;
use crate::clock::{Dst, Schedule, Zone};
use crate::ledger::{Ledger, Run};
use crate::scheduler::context::Cx;
use crate::timers::Timers;

/// Looks at what waits, in the time after which it is stuck.
const LOOKS: u64 = 8;

/// The shortest time between two looks.
const LOOK_MIN: Millis = Millis(1_000);

/// A time at which something may have to be raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Watch {
    Late(Subject),
    SlowInstance(InstanceId),
    SlowRun(RunId),
}

/// An alarm to raise when the facts of the current commit are complete.
#[derive(Clone, Debug)]
struct Finding {
    kind: AlarmKind,
    subject: Subject,
    reason: String,
    /// The owner and the name of the work.
    work: (Arc<str>, Arc<str>),
}

/// What may become an alarm.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alarms {
    timers: Timers<Watch>,
    /// The heads of queues in the last look, and when they were first seen.
    heads: BTreeMap<(InstanceId, AttemptNo), Mono>,
    looked: Mono,
    found: Vec<Finding>,
    /// Open alarms whose work has changed.
    touched: BTreeSet<AlarmKey>,
    /// Running instances whose run time is learned, and since when they run: the longest may grow meanwhile.
    learned: BTreeMap<InstanceId, Wall>,
}

/// The shortest and the longest run time that are expected, and where they come from.
struct RunTimeRange {
    min: Option<Millis>,
    max: Option<Millis>,
    /// Runs from which they were learned.
    learned: Option<usize>,
}

impl RunTimeRange {
    /// The range of a task, or of a workflow: as its file has it, or learned from its history.
    fn new(
        ledger: &Ledger,
        expected: &Expectations,
        path: impl FnOnce() -> Option<TaskPath>,
    ) -> Self {
        let usual = || ledger.run_times().usual(&path()?);
        match expected.learned.then(usual) {
            None => Self {
                min: expected.min,
                max: expected.max,
                learned: None,
            },
            Some(usual) => Self {
                min: usual.map(|it| it.min),
                max: usual.map(|it| it.max),
                learned: usual.map(|it| it.runs),
            },
        }
    }

    fn of_instance(ledger: &Ledger, spec: &InstanceSpec) -> Self {
        Self::new(ledger, &spec.expected, || ledger.task_path(spec))
    }

    fn of_run(ledger: &Ledger, run: &Run) -> Self {
        let path = || TaskPath::of_runs(&run.head.owner, &run.head.name);
        Self::new(ledger, &run.dag.plan.expected, || Some(path()))
    }

    fn too_short(&self, elapsed: Millis) -> Option<String> {
        let min = self.min.filter(|min| elapsed < *min)?;
        Some(match self.learned {
            None => {
                format!("succeeded after {elapsed}, in less time than expected (at least {min})")
            }
            Some(runs) => format!(
                "succeeded after {elapsed}, in less time than usual (at least {min}, by its last {runs} successes)"
            ),
        })
    }

    fn too_long(&self, max: Millis) -> String {
        match self.learned {
            None => format!("runs for longer than expected: more than {max}"),
            Some(runs) => {
                format!("runs for longer than usual: more than {max}, by its last {runs} successes")
            }
        }
    }
}

impl Alarms {
    /// Those of a leader that takes this ledger over.
    pub(crate) fn restore(ledger: &Ledger, now: Now) -> Self {
        let mut alarms = Self {
            looked: now.mono,
            ..Self::default()
        };
        for range in ledger.waiting() {
            alarms.watch_submission(range.first, &range.spec, now);
        }
        for (id, instance) in ledger.instances() {
            if instance.state.is_terminal() {
                continue;
            }
            alarms.watch_submission(id, &instance.spec, now);
            let lease = instance.lease.as_ref();
            if lease.is_some_and(|lease| lease.confirmed) {
                let since = ledger.leased_at(id).unwrap_or(now.wall);
                alarms.watch_attempt(ledger, id, &instance.spec, since, now);
            }
        }
        for run in ledger.runs().iter() {
            alarms.watch_run(ledger, run, now);
        }
        alarms.touched = ledger.alarms().keys().copied().collect();
        alarms
    }

    fn arm(&mut self, watch: Watch, at: Wall, now: Now) {
        let left = at.0.saturating_sub(now.wall.0);
        self.timers.arm(watch, now.mono + Millis(left));
    }

    fn watch_submission(&mut self, id: InstanceId, spec: &InstanceSpec, now: Now) {
        if let Some(at) = spec.expected.late_at() {
            self.arm(Watch::Late(subject(id, spec)), at, now);
        }
    }

    fn watch_attempt(
        &mut self,
        ledger: &Ledger,
        id: InstanceId,
        spec: &InstanceSpec,
        since: Wall,
        now: Now,
    ) {
        if let Some(max) = RunTimeRange::of_instance(ledger, spec).max {
            let at = Wall(since.0.saturating_add(max.0));
            self.arm(Watch::SlowInstance(id), at, now);
            if spec.expected.learned {
                self.learned.insert(id, since);
            }
        }
    }

    fn watch_run(&mut self, ledger: &Ledger, run: &Run, now: Now) {
        let (head, expected) = (&run.head, &run.dag.plan.expected);
        if let Some(at) = expected.late_at() {
            self.arm(Watch::Late(Subject::Run(head.id)), at, now);
        }
        if let Some(max) = RunTimeRange::of_run(ledger, run).max {
            let at = Wall(head.begun.0.saturating_add(max.0));
            self.arm(Watch::SlowRun(head.id), at, now);
        }
    }

    /// Follows a fact that was just applied.
    pub(crate) fn observe(&mut self, ledger: &Ledger, fact: &Fact, now: Now) {
        match fact {
            Fact::InstancesSubmitted { first, spec, .. } => {
                self.watch_submission(*first, spec, now);
            }
            Fact::InstanceRetried { instance } => {
                if let Some(instance) = ledger.instance(*instance) {
                    self.watch_submission(instance.id, &instance.spec, now);
                }
            }
            Fact::AttemptAdopted { lease, spec, .. } => {
                self.watch_submission(lease.attempt.instance, spec, now);
            }
            Fact::AttemptConfirmed { lease } => {
                if let Some(instance) = ledger.instance(lease.attempt.instance) {
                    self.watch_attempt(ledger, instance.id, &instance.spec, now.wall, now);
                }
            }
            Fact::LeaseGranted { lease, .. } => self.touch(ledger, one(lease.attempt.instance)),
            Fact::AttemptEnded {
                lease,
                verdict,
                stats,
                ..
            } => {
                let id = lease.attempt.instance;
                self.learned.remove(&id);
                if let Some(instance) = ledger.instance(id) {
                    self.timers.disarm(&Watch::SlowInstance(id));
                    let elapsed = stats.map(|stats| stats.elapsed);
                    if let (Verdict::Done, Some(elapsed)) = (verdict, elapsed) {
                        self.check_shortest(ledger, id, &instance.spec, elapsed);
                    }
                    self.touch(ledger, subject(id, &instance.spec));
                }
            }
            Fact::InstancesHalted { first, last, .. } => self.touch_within(ledger, *first, *last),
            Fact::RunRegistered { run, .. }
            | Fact::RunDefined { run, .. }
            | Fact::RunAdvanced { run, .. }
            | Fact::RunResumed { run, .. } => {
                if let Some(run) = ledger.runs().run(*run) {
                    self.watch_run(ledger, run, now);
                }
            }
            Fact::RunEnded { run, state, .. } => {
                self.touch(ledger, Subject::Run(*run));
                if let (UniversalState::Done, Some(run)) = (state, ledger.runs().run(*run)) {
                    let elapsed = now.wall.since(run.head.begun);
                    let head = &run.head;
                    if let Some(reason) = RunTimeRange::of_run(ledger, run).too_short(elapsed) {
                        self.found.push(Finding {
                            kind: AlarmKind::Short,
                            subject: Subject::Run(head.id),
                            reason,
                            work: (head.owner.as_str().into(), head.name.as_str().into()),
                        });
                    }
                }
            }
            _ => {}
        }
    }

    fn check_shortest(
        &mut self,
        ledger: &Ledger,
        id: InstanceId,
        spec: &InstanceSpec,
        elapsed: Millis,
    ) {
        if let Some(reason) = RunTimeRange::of_instance(ledger, spec).too_short(elapsed) {
            let subject = subject(id, spec);
            let Some(work) = work(ledger, subject).or_else(|| Some(names(spec))) else {
                return;
            };
            self.found.push(Finding {
                kind: AlarmKind::Short,
                subject,
                reason: format!("{reason}{}", element(id, spec)),
                work,
            });
        }
    }

    /// Notes that the alarms of this work may have to be cleared.
    fn touch(&mut self, ledger: &Ledger, subject: Subject) {
        if ledger.alarms().is_empty() {
            return;
        }
        let keys = AlarmKind::ALL.map(|kind| AlarmKey { subject, kind });
        let open = keys
            .into_iter()
            .filter(|key| ledger.alarms().contains_key(key));
        self.touched.extend(open);
    }

    fn touch_within(&mut self, ledger: &Ledger, first: InstanceId, last: InstanceId) {
        let touched = ledger.alarms().keys().filter(|key| {
            let instances = key.subject.instances();
            instances.is_some_and(|(from, to)| from <= last && first <= to)
        });
        self.touched.extend(touched.copied());
    }

    /// When [`due`] has something to do, by the timers and the looks at what waits.
    pub(crate) fn next_due(&self, has_waiting: bool, stuck_after: Millis) -> Option<Mono> {
        let is_looking = has_waiting && stuck_after > Millis(0);
        let look = is_looking.then(|| self.looked + pause(stuck_after));
        [self.timers.next(), look].into_iter().flatten().min()
    }

    /// The heads of queues that are stuck, and have no alarm yet. To be called for each tick; the caller
    /// adds what they wait for, and passes them to [`due`].
    pub(crate) fn look(
        &mut self,
        ledger: &Ledger,
        bullpen: &Bullpen,
        stuck_after: Millis,
        now: Mono,
    ) -> Vec<InstanceId> {
        if stuck_after == Millis(0) || now.since(self.looked) < pause(stuck_after) {
            return Vec::new();
        }
        self.looked = now;
        let before = std::mem::take(&mut self.heads);
        let mut stuck = Vec::new();
        for id in bullpen.heads() {
            let attempts = ledger.instance(id).map(|it| it.attempts);
            let key = (id, attempts.unwrap_or(AttemptNo(0)));
            let since = before.get(&key).copied().unwrap_or(now);
            self.heads.insert(key, since);
            let alarm = AlarmKey {
                subject: one(id),
                kind: AlarmKind::Stuck,
            };
            if now.since(since) >= stuck_after && !ledger.alarms().contains_key(&alarm) {
                stuck.push(id);
            }
        }
        stuck
    }
}

/// Raises what is due: timers that have fired, and heads of queues that are stuck, with what they wait
/// for.
pub(super) fn due(cx: &mut Cx<'_>, stuck: Vec<(InstanceId, String)>) {
    while let Some(watch) = cx.alarms.timers.pop_due(cx.now.mono) {
        match watch {
            Watch::Late(subject) => late(cx, subject),
            Watch::SlowInstance(id) => slow_instance(cx, id),
            Watch::SlowRun(run) => slow_run(cx, run),
        }
    }
    for (id, reason) in stuck {
        let after = cx.config.stuck_after;
        let reason = format!("waits for a worker for more than {after}: {reason}");
        raise(cx, AlarmKind::Stuck, one(id), reason);
    }
}

/// Raises and clears what follows from the facts of this input.
pub(super) fn settle(cx: &mut Cx<'_>) {
    for finding in std::mem::take(&mut cx.alarms.found) {
        let Finding {
            kind,
            subject,
            reason,
            work,
        } = finding;
        raise_named(cx, kind, subject, reason, work);
    }
    for key in std::mem::take(&mut cx.alarms.touched) {
        if cx.ledger.alarms().contains_key(&key) && is_over(cx.ledger, key) {
            let at = cx.now.wall;
            cx.commit(Fact::AlarmCleared { alarm: key, at });
        }
    }
}

fn late(cx: &mut Cx<'_>, subject: Subject) {
    let at = match subject {
        Subject::Run(run) => {
            let run = cx.ledger.runs().run(run);
            run.and_then(|run| run.dag.plan.expected.late_at())
        }
        Subject::Instances { first, last } => {
            live_spec(cx.ledger, first, last).and_then(|spec| spec.expected.late_at())
        }
    };
    if let Some(at) = at.filter(|_| is_live(cx.ledger, subject)) {
        // A deadline is a time of the wall clock, which may run slower, or have been set back.
        if at > cx.now.wall {
            cx.alarms.arm(Watch::Late(subject), at, cx.now);
            return;
        }
        let at = Zone::UTC.format("%Y-%m-%d %H:%M:%S UTC", at);
        let reason = format!("has not ended by its deadline, {at}");
        raise(cx, AlarmKind::Late, subject, reason);
    }
}

fn slow_instance(cx: &mut Cx<'_>, id: InstanceId) {
    let Some(instance) = cx.ledger.instance(id) else {
        return;
    };
    let spec = Arc::clone(&instance.spec);
    let lease = instance.lease.as_ref().filter(|lease| lease.confirmed);
    let times = RunTimeRange::of_instance(cx.ledger, &spec);
    if let (Some(lease), Some(max)) = (lease, times.max) {
        // More was learned since its timer was set.
        if let Some(since) = cx.alarms.learned.get(&id) {
            let end = Wall(since.0.saturating_add(max.0));
            if end > cx.now.wall {
                cx.alarms.arm(Watch::SlowInstance(id), end, cx.now);
                return;
            }
        }
        let worker = &lease.holder.worker;
        let element = element(id, &spec);
        let reason = format!("{} on worker {worker}{element}", times.too_long(max));
        raise(cx, AlarmKind::Slow, subject(id, &spec), reason);
    }
}

fn slow_run(cx: &mut Cx<'_>, id: RunId) {
    let Some(run) = cx.ledger.runs().run(id) else {
        return;
    };
    let has_begun = matches!(
        run.head.state,
        UniversalState::Launched | UniversalState::Running
    );
    let times = RunTimeRange::of_run(cx.ledger, run);
    let Some(max) = times.max.filter(|_| has_begun) else {
        return;
    };
    // It may have begun later than its timer was set: when it had its turn.
    let end = Wall(run.head.begun.0.saturating_add(max.0));
    if end > cx.now.wall {
        cx.alarms.arm(Watch::SlowRun(id), end, cx.now);
        return;
    }
    let reason = times.too_long(max);
    raise(cx, AlarmKind::Slow, Subject::Run(id), reason);
}

fn raise(cx: &mut Cx<'_>, kind: AlarmKind, subject: Subject, reason: String) {
    if let Some(work) = work(cx.ledger, subject) {
        raise_named(cx, kind, subject, reason, work);
    }
}

fn raise_named(
    cx: &mut Cx<'_>,
    kind: AlarmKind,
    subject: Subject,
    reason: String,
    (owner, name): (Arc<str>, Arc<str>),
) {
    let key = AlarmKey { subject, kind };
    if cx.ledger.alarms().contains_key(&key) && !seeded!(cx.config.bugs, AlarmRepeated) {
        return;
    }
    let alarm = Alarm {
        kind,
        subject,
        at: cx.now.wall,
        owner,
        name,
        reason: reason.into(),
    };
    cx.commit(Fact::AlarmRaised(Box::new(alarm)));
    // What has ended already is raised for those who are told, and cleared at once.
    cx.alarms.touched.insert(key);
}

/// True if the work of an open alarm gives no reason for it any more.
fn is_over(ledger: &Ledger, key: AlarmKey) -> bool {
    match (key.kind, key.subject) {
        (AlarmKind::Stuck, Subject::Instances { first, .. }) => {
            let instance = ledger.find(first);
            instance.is_none_or(|instance| instance.state != UniversalState::Queued)
        }
        (_, subject) => !is_live(ledger, subject),
    }
}

fn is_live(ledger: &Ledger, subject: Subject) -> bool {
    match subject {
        Subject::Instances { first, last } => ledger.is_live(first, last),
        Subject::Run(run) => {
            let run = ledger.runs().run(run);
            run.is_some_and(|run| !run.head.state.is_terminal())
        }
    }
}

/// The work that an alarm about an instance is about: its run, its submission, or itself.
fn subject(id: InstanceId, spec: &InstanceSpec) -> Subject {
    match (spec.part, spec.conditions.instances) {
        (Some(part), _) => Subject::Run(part.run),
        (None, Some((first, last))) => Subject::Instances { first, last },
        (None, None) => one(id),
    }
}

const fn one(id: InstanceId) -> Subject {
    Subject::Instances {
        first: id,
        last: id,
    }
}

/// The instance in a reason, if the alarm is about more than it.
fn element(id: InstanceId, spec: &InstanceSpec) -> String {
    match spec.part {
        Some(_) => format!(" (task {}, {id})", spec.name),
        None if subject(id, spec) != one(id) => format!(" ({id})"),
        None => String::new(),
    }
}

/// The owner and the name of live work.
fn work(ledger: &Ledger, subject: Subject) -> Option<(Arc<str>, Arc<str>)> {
    match subject {
        Subject::Run(run) => {
            let head = &ledger.runs().run(run)?.head;
            Some((head.owner.as_str().into(), head.name.as_str().into()))
        }
        Subject::Instances { first, last } => live_spec(ledger, first, last).map(|it| names(&it)),
    }
}

fn names(spec: &InstanceSpec) -> (Arc<str>, Arc<str>) {
    (spec.owner.as_str().into(), spec.name.as_str().into())
}

/// The spec of any live instance of a range.
fn live_spec(ledger: &Ledger, first: InstanceId, last: InstanceId) -> Option<Arc<InstanceSpec>> {
    let leased = ledger
        .leased(first, last)
        .chain(ledger.requeued(first, last));
    let spec = leased.map(|it| Arc::clone(&it.spec)).next();
    spec.or_else(|| Some(ledger.waiting_within(first, last).next()?.spec))
}

fn pause(stuck_after: Millis) -> Millis {
    Millis(stuck_after.0 / LOOKS).max(LOOK_MIN)
}

/// Fixes the deadline of work that is due or submitted then.
pub(super) fn fix_deadline(expected: &mut Expectations, from: Wall) {
    let at = match &expected.deadline {
        None | Some(Deadline::At(_)) => return,
        Some(Deadline::After(after)) => Some(Wall(from.0.saturating_add(after.0))),
        Some(Deadline::Daily(time)) => {
            // Both were checked when they were read.
            let zone = Zone::named(&time.zone).unwrap_or(Zone::UTC);
            let text = format!("{} {} * * *", time.minute % 60, time.minute / 60);
            let schedule = Schedule::parse(&text, &zone, Dst::default());
            schedule
                .ok()
                .and_then(|it| it.after(from))
                .map(|next| next.at)
        }
    };
    expected.deadline = at.map(Deadline::At);
}
