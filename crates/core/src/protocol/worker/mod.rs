//! The worker's half of the protocol.
//!
//! | file | concern |
//! |---|---|
//! | [`io`] | what goes in and comes out |
//! | `association` | heartbeats, their replies, and the current association |
//! | `attempts` | `runTask`, `killTask`, `notifyIfTasksNotRunning`, `getRunningTasks` |
//! | `statuses` | `updateStatus`: ends, repeated until they are acknowledged |
//! | `table` | the attempts it holds |
//! | `incarnation` | our own health, giving up, and the end of an incarnation |
//! | `departure` | ending in order: the remaining time, and the goodbye |
//! | `tombstones` | leases that must never be started again |
//! | [`guard`] | the dead-man timer, which runs in the coordinator |
//!
//! # Calling contract
//!
//! 1. [`Worker::begin`] with the identity, and with what the coordinator has on
//!    record: a restarted agent continues the same incarnation with its running attempts. The
//!    records are taken after every order of an earlier agent was carried out or
//!    dropped. Then [`Worker::resume`] with the last guard order, and, if the
//!    incarnation was given up before, [`io::Input::GiveUp`]. A later
//!    incarnation begins with [`Worker::obeyed`] instead.
//! 2. [`Worker::handle`] for every input, with times of one boot's monotonic clock
//!    that never go back. The effects of one call are carried out in their order.
//! 3. [`Worker::next_due`] is the next time for [`io::Input::Tick`].
//! 4. After [`io::Effect::EndLife`] every process of this incarnation is dead. Raise the
//!    counter in the state directory, or begin a new lineage if [`Worker::is_copy`]; then begin the
//!    next incarnation.
//! 5. A worker that leaves (`Input::Leave`) begins no other incarnation: when every process is dead,
//!    [`io::Input::AllDead`], and its driver exits after [`io::Effect::Left`].
//!
//! The worker has no facts of its own to make durable: the coordinator records
//! every launch and every end before it reports it, and survives the agent.

mod association;
mod attempts;
mod departure;
pub mod guard;
mod incarnation;
pub mod io;
mod statuses;
mod table;
mod tombstones;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::fact::Holder;
use baton_model::ids::{Association, Epoch, ExecutorId, LeaseId, NotifySeq, RequestId};
use baton_model::message::{HostSize, LogAnswer, ProcessAnswer, ToScheduler, ToWorker};
use baton_model::placement::{MeasuredUse, Offer};
use baton_model::progress::Progress;
use baton_model::state::WorkerState;
use baton_model::time::{Millis, Mono, Stamp, Wall};
use baton_model::timeouts::{Timeouts, WorkerTimeouts};
use baton_model::worker_set::KnownSet;

use crate::bugs::Bugs;
use crate::counts::Counts;

use departure::Departure;
use io::{Effect, GuardOrder, Input, Record};
use table::{Entry, Phase, Table};
use tombstones::Tombstones;

/// One incarnation of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Worker {
    me: Holder,
    /// Its agent, as operators read it.
    executor: Option<ExecutorId>,
    slots: u32,
    offer: Arc<Offer>,
    measured: Option<MeasuredUse>,
    bugs: Bugs,
    timeouts: WorkerTimeouts,
    association: Option<Association>,
    /// The highest epoch ever obeyed; an older leader is not heard again.
    epoch_seen: Epoch,
    state: WorkerState,
    /// The first heartbeat of this agent, and its latest: a reply to any other is
    /// not for us, but for an earlier agent of the same incarnation.
    first_sent: Option<Stamp>,
    last_sent: Option<Stamp>,
    /// The latest heartbeat of ours that a leader has answered.
    last_answered: Option<Stamp>,
    /// Attempts of others for which it is held, by that answer.
    held_for: u32,
    /// When the last check was made, well or with the reason of its failure.
    last_checked: Option<Mono>,
    seq: NotifySeq,
    worker_set: Option<KnownSet>,
    attempts: Table,
    /// Attempts that are not here and never will be; with the fault of the host that has prevented
    /// their start, if one has.
    not_running: BTreeMap<LeaseId, Option<Arc<str>>>,
    tombstones: Tombstones,
    next_heartbeat: Mono,
    next_status: Mono,
    /// How long a dying incarnation without processes reports their ends.
    report_until: Option<Mono>,
    life_ended: bool,
    /// Another machine has the same state directory.
    is_copy: bool,
    /// The version of its binary.
    version: Arc<str>,
    /// What it may use of its host.
    host: HostSize,
    /// Its wall clock, if its driver has read it.
    wall: Option<Wall>,
    /// The scheduler as it was dialled, for its greeting.
    dialled: Option<Arc<str>>,
    /// When it stops taking work by itself.
    closes_at: Option<Mono>,
    departure: Option<Departure>,
    /// The last attempt whose progress was sent.
    told_progress_of: Option<LeaseId>,
    counts: Counts,
}

impl Worker {
    /// Begins an incarnation, or continues it with what the coordinator has on record.
    #[must_use]
    pub fn begin(
        me: Holder,
        slots: u32,
        offer: Arc<Offer>,
        records: Vec<Record>,
        now: Mono,
    ) -> Self {
        let mut attempts = Table::default();
        for record in records {
            let phase = record.ended.map_or(Phase::Running, Phase::Ended);
            let entry = Entry {
                spec: record.spec,
                phase,
                devices: record.devices,
                progress: None,
                stamp: Stamp(now),
            };
            attempts.insert(record.lease, entry);
        }
        Self {
            me,
            executor: None,
            slots,
            offer,
            measured: None,
            bugs: Bugs::NONE,
            timeouts: Timeouts::default().for_worker(),
            association: None,
            epoch_seen: Epoch(0),
            state: WorkerState::New,
            first_sent: None,
            last_sent: None,
            last_answered: None,
            held_for: 0,
            last_checked: None,
            seq: NotifySeq(0),
            worker_set: None,
            attempts,
            not_running: BTreeMap::new(),
            tombstones: Tombstones::default(),
            // Later than any heartbeat of an agent before this one.
            next_heartbeat: now + Millis(1),
            next_status: now,
            report_until: None,
            life_ended: false,
            is_copy: false,
            version: Arc::default(),
            host: HostSize::default(),
            wall: None,
            dialled: None,
            closes_at: None,
            departure: None,
            told_progress_of: None,
            counts: Counts::default(),
        }
    }

    /// For an incarnation that is not the first: the highest epoch that the earlier ones
    /// have obeyed.
    pub const fn obeyed(&mut self, epoch: Epoch) {
        self.epoch_seen = epoch;
    }

    /// What the coordinator remembers of the time before this agent started:
    /// which leader was obeyed, and until when the lease runs.
    pub fn resume(&mut self, order: GuardOrder) {
        self.epoch_seen = order.epoch;
        self.last_answered = Some(order.stamp);
        // The budget of the leader that was obeyed, not the default one.
        self.timeouts.lease = order.deadline.since(order.stamp.0);
        self.timeouts.kill_grace = order.grace;
        self.timeouts.kill_max = order.kill_max;
    }

    /// Decides about one input.
    pub fn handle(&mut self, now: Mono, input: Input) -> Vec<Effect> {
        let mut out = Vec::new();
        // A worker that was stopped must notice how late it is before it acts.
        self.observe_time(now, &mut out);
        match input {
            Input::Tick => {}
            Input::Message(message) => self.message(now, message, &mut out),
            Input::DevicesAssigned(lease, devices) => self.attempts.set_devices(lease, devices),
            Input::Launched(lease) => self.launched(lease, &mut out),
            Input::LaunchRefused(lease) => self.launch_refused(lease, &mut out),
            Input::Withdrawn(lease) => self.withdrawn(now, lease, &mut out),
            Input::HostFault(lease, reason) => self.host_fault(now, lease, reason, &mut out),
            Input::Ended(lease, outcome) => self.ended(now, lease, outcome, &mut out),
            Input::GiveUp => {
                if self.state != WorkerState::MustDie {
                    // Before the ends of its attempts, which would be placed here again.
                    self.next_heartbeat = now;
                }
                self.give_up(now, &mut out);
            }
            Input::CheckDone(check, result) => self.check_done(now, check, result, &mut out),
            Input::LogsRead(request, answer) => self.logs_read(request, answer, &mut out),
            Input::ProcessesRead(request, answer) => {
                self.processes_read(request, answer, &mut out);
            }
            Input::Leave(cause, by) => self.leave(now, cause, by),
            Input::AllDead => self.say_goodbye(now, &mut out),
        }
        self.send_due(now, &mut out);
        self.end_life_if_over(now, &mut out);
        self.finish_goodbye(now, &mut out);
        out
    }

    /// The next time for [`Input::Tick`].
    #[must_use]
    pub fn next_due(&self) -> Option<Mono> {
        if self.life_ended {
            return self.next_goodbye();
        }
        let mut due = self.next_heartbeat;
        if self.has_unsent_statuses() {
            due = due.min(self.next_status);
        }
        self.next_change_of_health()
            .map_or(Some(due), |change| Some(due.min(change)))
    }

    /// Its offer has changed: the next heartbeat reports it, at once.
    pub fn offer(&mut self, now: Mono, offer: Arc<Offer>) {
        self.offer = offer;
        self.next_heartbeat = self.next_heartbeat.min(now);
    }

    /// Heartbeats report this use from now on; the next one is not sent earlier for it.
    pub const fn measure(&mut self, measured: Option<MeasuredUse>) {
        self.measured = measured;
    }

    /// How far an attempt has come, in its own words. Heartbeats report it from now on; the next one is not sent
    /// earlier for it.
    pub fn note_progress(&mut self, lease: LeaseId, progress: Progress) {
        self.attempts.set_progress(lease, progress);
    }

    /// The reading of its wall clock that the next greeting reports.
    pub const fn note_wall(&mut self, wall: Wall) {
        self.wall = Some(wall);
    }

    /// The address by which it has reached a scheduler, which the next greeting reports.
    pub fn note_dialled(&mut self, address: Arc<str>) {
        self.dialled = Some(address);
        // What was sent on an earlier connection may be lost.
        self.attempts.untell_progress();
    }

    /// Its own view of its health.
    #[must_use]
    pub const fn state(&self) -> WorkerState {
        self.state
    }

    /// Names the agent in every heartbeat from now on.
    #[must_use]
    pub fn with_executor(mut self, executor: Option<ExecutorId>) -> Self {
        self.executor = executor;
        self
    }

    /// Reports this version of its binary, and stops taking work at this time.
    #[must_use]
    pub fn with_tenure(mut self, version: Arc<str>, closes_at: Option<Mono>) -> Self {
        self.version = version;
        self.closes_at = closes_at;
        self
    }

    /// Reports that it may use so much of its host.
    #[must_use]
    pub const fn with_host(mut self, host: HostSize) -> Self {
        self.host = host;
        self
    }

    /// Attempts that are launched or about to be, and have not ended.
    #[must_use]
    pub const fn alive(&self) -> usize {
        self.attempts.alive()
    }

    /// Switches seeded bugs on.
    #[cfg(feature = "seeded-bugs")]
    #[must_use]
    pub fn with_bugs(mut self, bugs: Bugs) -> Self {
        self.bugs = bugs;
        self
    }

    #[must_use]
    pub const fn me(&self) -> &Holder {
        &self.me
    }

    /// True if a leader has refused it as a copy: the next incarnation begins a new lineage.
    #[must_use]
    pub const fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// The attempts it holds: running, or ended and not acknowledged.
    pub fn held(&self) -> impl Iterator<Item = LeaseId> + '_ {
        self.attempts.iter().map(|(lease, _)| lease)
    }

    /// Counters of ignored events.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The same, and starts at zero again.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    fn message(&mut self, now: Mono, message: ToWorker, out: &mut Vec<Effect>) {
        match message {
            ToWorker::HeartbeatReply(reply) => return self.answered(now, &reply, out),
            ToWorker::HeartbeatRefused {
                epoch,
                incarnation,
                stamp,
                refusal,
            } => {
                return self.refused(now, (epoch, incarnation, stamp), refusal, out);
            }
            _ => {}
        }
        if self.association.is_none() || self.association != association_of(&message) {
            self.counts.notice("foreign-association");
            return;
        }
        match message {
            ToWorker::HeartbeatReply(_) | ToWorker::HeartbeatRefused { .. } => {}
            ToWorker::GetRunningTasks { .. } => self.report_running(now, out),
            ToWorker::RunTask {
                seq,
                stamp,
                launches,
                ..
            } => {
                self.run_tasks(now, seq, stamp, launches, out);
            }
            ToWorker::NotifyIfTasksNotRunning { seq, leases, .. } => {
                self.notify(now, seq, &leases, out);
            }
            ToWorker::RequestSuicide { .. } => self.give_up(now, out),
            ToWorker::KillTask { lease, grace, .. } => self.kill(lease, grace, out),
            ToWorker::CheckHealth { check, .. } => out.push(Effect::RunCheck(check)),
            ToWorker::StatusAck { leases, .. } => self.acknowledged(&leases, out),
            ToWorker::GetLogs { request, query, .. } => {
                out.push(Effect::ReadLogs(request, query));
            }
            ToWorker::GetProcesses { request, query, .. } => {
                out.push(Effect::ReadProcesses(request, query));
            }
            ToWorker::GoodbyeAck { .. } => self.goodbye_acknowledged(),
        }
    }

    fn logs_read(&self, request: RequestId, answer: LogAnswer, out: &mut Vec<Effect>) {
        if let Some(association) = self.association {
            out.push(Effect::Send(ToScheduler::Logs {
                association,
                request,
                answer,
            }));
        }
    }

    fn processes_read(&self, request: RequestId, answer: ProcessAnswer, out: &mut Vec<Effect>) {
        if let Some(association) = self.association {
            out.push(Effect::Send(ToScheduler::Processes {
                association,
                request,
                answer,
            }));
        }
    }
}

/// The association a call names; heartbeat replies are told apart before.
const fn association_of(message: &ToWorker) -> Option<Association> {
    match message {
        ToWorker::HeartbeatReply(_) | ToWorker::HeartbeatRefused { .. } => None,
        ToWorker::GetRunningTasks { association }
        | ToWorker::RunTask { association, .. }
        | ToWorker::NotifyIfTasksNotRunning { association, .. }
        | ToWorker::RequestSuicide { association }
        | ToWorker::KillTask { association, .. }
        | ToWorker::CheckHealth { association, .. }
        | ToWorker::StatusAck { association, .. }
        | ToWorker::GetLogs { association, .. }
        | ToWorker::GetProcesses { association, .. }
        | ToWorker::GoodbyeAck { association } => Some(*association),
    }
}
