//! The length of the queue and the changes of workers and schedulers since this server has started.
//!
//! No fact tells when a worker was lost, when a term began or how long the queue was, so a task
//! samples them. They are in memory only: pages say since when. Only a leader knows its workers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_model::api::{Scheduler, SchedulerRole, Worker};
use baton_model::state::UniversalState;
use baton_web::pages::fleet::Change;
use baton_web::pages::overview::QueuePoint;
use tokio::time::{MissedTickBehavior, interval};

use super::App;
use crate::clock;
use crate::shutdown::until_shutdown;

/// Time from one sample to the next. A worker that is away for less may go unnoticed.
const PERIOD: Duration = Duration::from_secs(5);

const MINUTE_MS: u64 = 60_000;

/// Minutes of the queue that are kept: a day.
const POINTS_MAX: usize = 24 * 60;

/// Changes of a worker, and of all schedulers, that are kept.
const CHANGES_MAX: usize = 100;

/// Workers whose changes are kept, also after they are gone.
const WORKERS_MAX: usize = 10_000;

/// Samples of one server, shared with its pages.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<Sampled>);

#[derive(Debug, Default)]
struct Sampled {
    /// The highest length in each minute, oldest first.
    queue: VecDeque<QueuePoint>,
    workers: BTreeMap<String, WorkerChanges>,
    /// The last sample of the schedulers; `None` before the first one.
    schedulers: Option<Vec<Scheduler>>,
    leadership: VecDeque<Change>,
    /// The last term that was seen, and when it began; `None` if it is older than this server.
    term: Option<(u64, Option<u64>)>,
    /// Whether the workers were sampled before: then a new one has joined.
    is_begun: bool,
}

#[derive(Debug, Default)]
struct WorkerChanges {
    /// The last sample; `None` if it is gone.
    last: Option<Worker>,
    changes: VecDeque<Change>,
}

impl Recent {
    /// Samples until the server shuts down.
    pub(super) fn start(app: &App) -> Arc<Self> {
        let recent = Arc::new(Self::default());
        let (app, sampled) = (app.clone(), Arc::clone(&recent));
        tokio::spawn(async move {
            let mut shutdown = app.0.shutdown.clone();
            let sampling = async {
                let mut ticks = interval(PERIOD);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    ticks.tick().await;
                    sampled.sample(&app).await;
                }
            };
            tokio::select! {
                () = sampling => {}
                () = until_shutdown(&mut shutdown) => {}
            }
        });
        recent
    }

    /// The length of the queue, minute by minute.
    pub(super) fn queue(&self) -> Vec<QueuePoint> {
        self.lock().queue.iter().copied().collect()
    }

    /// The changes of a worker, the latest first.
    pub(super) fn worker(&self, name: &str) -> Vec<Change> {
        let sampled = self.lock();
        let found = sampled.workers.get(name);
        found.map_or_else(Vec::new, |it| it.changes.iter().rev().cloned().collect())
    }

    /// The changes of the schedulers, the latest first.
    pub(super) fn leadership(&self) -> Vec<Change> {
        self.lock().leadership.iter().rev().cloned().collect()
    }

    /// When the term began, if it was seen to begin; in milliseconds since 1970.
    pub(super) fn leads_since(&self, epoch: u64) -> Option<u64> {
        let (term, since) = self.lock().term?;
        since.filter(|_| term == epoch)
    }

    async fn sample(&self, app: &App) {
        let at = clock::now().wall.0;
        // What cannot be read is missing: the page then has a gap.
        if let Ok(counts) = app.read(|store| store.counts()).await {
            let waiting = counts.states.get(&UniversalState::Queued);
            self.lock().add_queue(at, waiting.copied().unwrap_or(0));
        }
        if let Ok(workers) = app.workers().await {
            self.lock().add_workers(at, workers);
        }
        if let Ok(schedulers) = app.schedulers().await {
            self.lock().add_schedulers(at, schedulers);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sampled> {
        // Every change leaves it valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sampled {
    fn add_queue(&mut self, at: u64, waiting: u64) {
        let minute = at - at % MINUTE_MS;
        match self.queue.back_mut() {
            Some(last) if last.at == minute => last.waiting = last.waiting.max(waiting),
            _ => self.queue.push_back(QueuePoint {
                at: minute,
                waiting,
            }),
        }
        if self.queue.len() > POINTS_MAX {
            self.queue.pop_front();
        }
    }

    fn add_schedulers(&mut self, at: u64, schedulers: Vec<Scheduler>) {
        let mut leaders = schedulers.iter();
        let leader = leaders.find(|it| it.role == SchedulerRole::Leader);
        if let Some((leader, epoch)) = leader.and_then(|leader| Some((leader, leader.epoch?))) {
            let is_first = self.schedulers.is_none();
            if self.term.is_none_or(|(term, _)| term != epoch) {
                // The first sample shows a term of this server, or one that is older than it.
                let is_older = is_first && !leader.answers;
                self.term = Some((epoch, (!is_older).then_some(at)));
            }
        }
        let changes = match &self.schedulers {
            Some(before) => leadership_changes(before, &schedulers),
            None => first_leadership(&schedulers),
        };
        for text in changes {
            add(&mut self.leadership, at, text);
        }
        self.schedulers = Some(schedulers);
    }

    fn add_workers(&mut self, at: u64, workers: Vec<Worker>) {
        let first = if self.is_begun {
            "joined"
        } else {
            "was known when the server started"
        };
        self.is_begun = true;
        for (name, known) in &mut self.workers {
            if known.last.is_some() && !workers.iter().any(|worker| worker.name == *name) {
                known.last = None;
                known.add(at, "gone: forgotten, or its seat was given up".to_owned());
            }
        }
        for worker in workers {
            if !self.workers.contains_key(&worker.name) && self.workers.len() >= WORKERS_MAX {
                continue;
            }
            let known = self.workers.entry(worker.name.clone()).or_default();
            for text in differences(known.last.as_ref(), &worker, first) {
                known.add(at, text);
            }
            known.last = Some(worker);
        }
    }
}

/// The leader in the first sample: this server, or one that may have led for long.
fn first_leadership(schedulers: &[Scheduler]) -> Vec<String> {
    let mut leaders = schedulers.iter();
    let leader = leaders.find(|it| it.role == SchedulerRole::Leader);
    let text = |leader: &Scheduler| {
        if leader.answers {
            leads(leader)
        } else {
            format!("{} led when this server started", leader.name)
        }
    };
    leader.map(text).into_iter().collect()
}

fn leads(leader: &Scheduler) -> String {
    let name = &leader.name;
    match leader.epoch {
        Some(epoch) => format!("{name} leads, epoch {epoch}"),
        None => format!("{name} leads"),
    }
}

/// The changes from one sample of the schedulers to the next.
fn leadership_changes(before: &[Scheduler], schedulers: &[Scheduler]) -> Vec<String> {
    let mut changes = Vec::new();
    for gone in before {
        if !schedulers.iter().any(|it| it.name == gone.name) {
            changes.push(format!("{} ended", gone.name));
        }
    }
    for scheduler in schedulers {
        let name = &scheduler.name;
        let last = before.iter().find(|it| it.name == *name);
        let is_same_role = last.is_some_and(|it| it.role == scheduler.role);
        let is_same_term = last.is_some_and(|it| it.epoch == scheduler.epoch);
        changes.extend(match scheduler.role {
            SchedulerRole::Leader if is_same_role && is_same_term => None,
            SchedulerRole::Leader => Some(leads(scheduler)),
            _ if is_same_role => None,
            SchedulerRole::Follower if last.is_none() => Some(format!("{name} joined")),
            SchedulerRole::Follower => Some(format!("{name} follows")),
            SchedulerRole::Silent => Some(format!("{name} fell silent")),
        });
    }
    changes
}

impl WorkerChanges {
    fn add(&mut self, at: u64, text: String) {
        add(&mut self.changes, at, text);
    }
}

fn add(changes: &mut VecDeque<Change>, at: u64, text: String) {
    changes.push_back(Change { at, text });
    if changes.len() > CHANGES_MAX {
        changes.pop_front();
    }
}

/// The changes from one sample of a worker to the next.
fn differences(before: Option<&Worker>, worker: &Worker, first: &str) -> Vec<String> {
    let drained = |worker: &Worker| if worker.drained { ", drained" } else { "" };
    let Some(before) = before else {
        let (state, drained) = (worker.state, drained(worker));
        return vec![format!("{first}, {state}{drained}")];
    };
    let mut changes = Vec::new();
    if (&before.lineage, before.incarnation) != (&worker.lineage, worker.incarnation) {
        changes.push(format!("started again, incarnation {}", worker.incarnation));
    }
    if before.state != worker.state {
        changes.push(format!("{} → {}", before.state, worker.state));
    }
    match (before.drained, worker.drained) {
        (false, true) => changes.push("drained".to_owned()),
        (true, false) => changes.push("the drain was ended".to_owned()),
        _ => {}
    }
    changes
}

#[cfg(test)]
mod tests {
    use baton_model::state::WorkerState;

    use super::*;

    fn worker(incarnation: u64, state: WorkerState, drained: bool) -> Worker {
        Worker {
            name: "w1".to_owned(),
            state,
            drained,
            fault: None,
            suspicion: None,
            lineage: "a".to_owned(),
            incarnation,
            executor: None,
            attempts: 0,
            slots: 1,
            capacity: baton_model::placement::Capacity::default(),
            used: baton_model::placement::Capacity::default(),
            measured: None,
            devices: Vec::new(),
            labels: BTreeMap::new(),
            leaving: false,
            ends_at: None,
            version: None,
            build: None,
            dialled: None,
            clock_offset_seconds: None,
            heard_seconds: 0.0,
            lost_at: None,
            links: BTreeMap::new(),
        }
    }

    #[test]
    fn the_changes_of_a_worker_are_kept_in_order() {
        let mut sampled = Sampled::default();
        for (at, workers) in [
            vec![],
            vec![worker(1, WorkerState::Healthy, false)],
            vec![worker(1, WorkerState::Healthy, false)],
            vec![worker(1, WorkerState::Unhealthy, true)],
            vec![worker(2, WorkerState::Healthy, true)],
            vec![],
        ]
        .into_iter()
        .enumerate()
        {
            sampled.add_workers(at as u64, workers);
        }
        let changes = &sampled.workers["w1"].changes;
        let changes: Vec<(u64, &str)> = changes.iter().map(|it| (it.at, &*it.text)).collect();
        assert_eq!(
            changes,
            [
                (1, "joined, HEALTHY"),
                (3, "HEALTHY → UNHEALTHY"),
                (3, "drained"),
                (4, "started again, incarnation 2"),
                (4, "UNHEALTHY → HEALTHY"),
                (5, "gone: forgotten, or its seat was given up"),
            ]
        );
        for at in 0..1_000 {
            sampled.add_workers(10 + at, vec![worker(at, WorkerState::Healthy, false)]);
        }
        assert_eq!(sampled.workers["w1"].changes.len(), CHANGES_MAX);
    }

    #[test]
    fn terms_and_silence_of_schedulers_are_kept_in_order() {
        let scheduler = |name: &str, role, epoch| Scheduler {
            name: name.to_owned(),
            url: String::new(),
            workers: String::new(),
            role,
            answers: false,
            epoch,
            heard_seconds: 0.0,
            started_seconds: 0.0,
        };
        use SchedulerRole::{Follower, Leader, Silent};
        let mut sampled = Sampled::default();
        let mut terms = Vec::new();
        for (at, schedulers) in [
            vec![scheduler("a", Leader, Some(1))],
            vec![
                scheduler("a", Leader, Some(1)),
                scheduler("b", Follower, None),
            ],
            vec![
                scheduler("a", Silent, Some(1)),
                scheduler("b", Leader, Some(2)),
            ],
            vec![
                scheduler("a", Follower, Some(1)),
                scheduler("b", Leader, Some(2)),
            ],
            vec![scheduler("b", Leader, Some(3))],
            vec![scheduler("b", Leader, Some(3))],
        ]
        .into_iter()
        .enumerate()
        {
            sampled.add_schedulers(at as u64, schedulers);
            terms.push(sampled.term);
        }
        let terms: Vec<_> = terms.into_iter().flatten().collect();
        let (first, second, third) = ((1, None), (2, Some(2)), (3, Some(4)));
        assert_eq!(terms, [first, first, second, second, third, third]);
        let changes = sampled.leadership.iter();
        let changes: Vec<(u64, &str)> = changes.map(|it| (it.at, &*it.text)).collect();
        assert_eq!(
            changes,
            [
                (0, "a led when this server started"),
                (1, "b joined"),
                (2, "a fell silent"),
                (2, "b leads, epoch 2"),
                (3, "a follows"),
                (4, "a ended"),
                (4, "b leads, epoch 3"),
            ]
        );
    }

    #[test]
    fn a_minute_of_the_queue_has_its_highest_length_and_a_day_is_kept() {
        let mut sampled = Sampled::default();
        for (at, waiting) in [(0, 3), (5_000, 9), (59_999, 1), (60_000, 4)] {
            sampled.add_queue(at, waiting);
        }
        let points: Vec<(u64, u64)> = sampled.queue.iter().map(|it| (it.at, it.waiting)).collect();
        assert_eq!(points, [(0, 9), (60_000, 4)]);
        for minute in 0..3_000 {
            sampled.add_queue(minute * MINUTE_MS, 0);
        }
        assert_eq!(sampled.queue.len(), POINTS_MAX);
    }
}
