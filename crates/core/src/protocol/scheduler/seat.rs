//! One named worker as its scheduler knows it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use baton_model::device::DeviceShare;
use baton_model::fact::Holder;
use baton_model::ids::{Association, CheckId, ExecutorId, LeaseId, NotifySeq, SessionId, Term};
use baton_model::limits::CHECKS_OPEN_MAX;
use baton_model::message::HostSize;
use baton_model::outcome::KillMode;
use baton_model::placement::{HOST_LABEL, MeasuredUse, Offer};
use baton_model::progress::Progress;
use baton_model::state::WorkerState;
use baton_model::time::{Millis, Mono, Stamp};
use baton_model::timeouts::Timeouts;

use super::context::Cx;
use super::tenure::ClockReading;
use crate::fsm::{self, Transition, WorkerEvent, transition};
use crate::placement::Availability;
use crate::wait::Exclusion;

/// The launches of one association that have no reply yet, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct InFlight {
    leases: BTreeSet<LeaseId>,
    order: VecDeque<(Mono, LeaseId)>,
}

impl InFlight {
    pub(crate) fn add(&mut self, lease: LeaseId, at: Mono) {
        let last = self.order.back();
        assert!(
            last.is_none_or(|(before, _)| *before <= at),
            "{lease} was sent before {last:?}"
        );
        self.leases.insert(lease);
        self.order.push_back((at, lease));
    }

    /// Removes a lease; true if it was there.
    pub(crate) fn settle(&mut self, lease: LeaseId) -> bool {
        self.leases.remove(&lease)
    }

    /// Takes those sent at least `wait` ago.
    pub(crate) fn take_overdue(&mut self, now: Mono, wait: Millis) -> Vec<LeaseId> {
        let mut overdue = Vec::new();
        while let Some((at, lease)) = self.order.front().copied() {
            if self.leases.contains(&lease) && now.since(at) < wait {
                break;
            }
            self.order.pop_front();
            if self.leases.remove(&lease) {
                overdue.push(lease);
            }
        }
        overdue
    }

    /// When the oldest was sent.
    pub(crate) fn oldest(&mut self) -> Option<Mono> {
        while let Some((at, lease)) = self.order.front().copied() {
            if self.leases.contains(&lease) {
                return Some(at);
            }
            self.order.pop_front();
        }
        None
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = LeaseId> + '_ {
        self.leases.iter().copied()
    }
}

/// Attempts of one association that may or may not have started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Unsure {
    pub(crate) leases: BTreeSet<LeaseId>,
    /// When to ask again; meaningless while `leases` is empty.
    pub(crate) next_poll: Mono,
    /// The pause after the next question.
    pub(crate) pause: Millis,
    /// What was asked under which number.
    pub(crate) asked: VecDeque<(NotifySeq, Vec<LeaseId>)>,
}

/// One seat and the incarnation that holds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seat {
    pub holder: Holder,
    /// Its agent, as it last reported it.
    pub executor: Option<ExecutorId>,
    /// How many attempts it can hold.
    pub slots: u32,
    /// The handshake in force.
    pub session: SessionId,
    /// Its health.
    pub state: WorkerState,
    pub(crate) last_heartbeat: Mono,
    pub(crate) last_stamp: Stamp,
    pub(crate) became_unhealthy: Mono,
    pub(crate) has_been_healthy: bool,
    /// When the last good check was *sent*: a slow reply must not look fresh.
    pub(crate) check_ok: Option<Mono>,
    /// When the last check was sent that was answered, well or with the reason of its failure.
    pub(crate) check_answered: Option<Mono>,
    /// Why it cannot launch anything, if it cannot. Its host is there and answers: only new work
    /// is kept from it.
    pub fault: Option<Arc<str>>,
    /// Launches in a row that a fault of its host has prevented.
    pub(crate) launch_faults: u32,
    pub(crate) checks_open: VecDeque<(CheckId, Mono)>,
    pub(crate) next_check: Mono,
    /// When the last check was sent.
    pub(crate) last_check: Option<Mono>,
    /// True if its holder has reported its attempts in this session. Until then its
    /// statuses are not accepted, even if it was condemned meanwhile.
    pub(crate) listed: bool,
    /// Attempts of it were given up because it was silent: the next heartbeat begins a session.
    pub(crate) must_list: bool,
    pub(crate) next_ask: Mono,
    pub(crate) seq: NotifySeq,
    pub(crate) in_flight: InFlight,
    pub(crate) unsure: Unsure,
    /// Attempts to kill; repeated with every heartbeat until they have ended.
    pub(crate) kills: BTreeMap<LeaseId, KillMode>,
    /// It refused a launch at once: no more launches until its next heartbeat, or the next attempt
    /// that ends there, or both sides would exchange refusals as fast as the network allows.
    pub(crate) held_back: bool,
    /// The health that was last sent to its holder. A worker that does not know yet
    /// that it is HEALTHY would refuse work.
    pub(crate) reported_state: WorkerState,
    /// The devices that its attempts hold, as far as it has reported them. Only for people.
    pub devices: BTreeMap<LeaseId, Vec<DeviceShare>>,
    /// How far its attempts have come, as they have last said. Only for people, and in memory only: a new leader
    /// learns it with the next heartbeats.
    pub progress: BTreeMap<LeaseId, Progress>,
    /// How many leases it may be running.
    pub(crate) load: u32,
    /// How many of these are attempts of others, of whose gangs it is a member.
    pub(crate) held: u32,
    /// The offer that it reported.
    pub offer: Arc<Offer>,
    /// What its attempts use, as it last reported it; none if it does not measure. Only for
    /// display: no decision depends on it.
    pub measured: Option<MeasuredUse>,
    /// The last update of the bullpen.
    pub(crate) offered: Option<(Arc<Offer>, Availability, Option<Mono>)>,
    /// It is ending in order.
    pub leaving: bool,
    /// When it stops taking work by itself, at the latest.
    pub(crate) ends_at: Option<Mono>,
    /// The version of its binary, once it has greeted.
    pub version: Option<Arc<str>>,
    /// The scheduler as it has dialled it, if it has said.
    pub dialled: Option<Arc<str>>,
    /// What it may use of its host, once it has greeted.
    pub host: HostSize,
    /// Its wall clock, likewise.
    pub clock: Option<ClockReading>,
    /// When the first call of this session was sent.
    pub(crate) asked_at: Option<Mono>,
}

impl Seat {
    pub(crate) fn new(
        holder: Holder,
        slots: u32,
        offer: Arc<Offer>,
        session: SessionId,
        stamp: Stamp,
        now: Mono,
    ) -> Self {
        Self {
            holder,
            executor: None,
            slots,
            session,
            state: WorkerState::New,
            last_heartbeat: now,
            last_stamp: stamp,
            became_unhealthy: now,
            has_been_healthy: false,
            check_ok: None,
            check_answered: None,
            fault: None,
            launch_faults: 0,
            checks_open: VecDeque::new(),
            next_check: now,
            last_check: None,
            listed: false,
            must_list: false,
            next_ask: now,
            seq: NotifySeq(0),
            in_flight: InFlight::default(),
            unsure: Unsure::default(),
            kills: BTreeMap::new(),
            held_back: false,
            reported_state: WorkerState::New,
            devices: BTreeMap::new(),
            progress: BTreeMap::new(),
            load: 0,
            held: 0,
            offer,
            measured: None,
            offered: None,
            leaving: false,
            ends_at: None,
            version: None,
            dialled: None,
            host: HostSize::default(),
            clock: None,
            asked_at: None,
        }
    }

    /// The association of every message to and from its holder.
    #[must_use]
    pub const fn association(&self, leader: Term) -> Association {
        Association {
            store: leader.store,
            epoch: leader.epoch,
            incarnation: self.holder.incarnation,
            session: self.session,
        }
    }

    /// The latest heartbeat of its holder, in the holder's own time.
    #[must_use]
    pub const fn stamp(&self) -> Stamp {
        self.last_stamp
    }

    /// The time of the last heartbeat.
    #[must_use]
    pub const fn heard(&self) -> Mono {
        self.last_heartbeat
    }

    /// How many attempts of gangs its holder is held for, which run elsewhere.
    #[must_use]
    pub const fn held(&self) -> u32 {
        self.held
    }

    /// How many attempts its holder may be running, or is held for.
    #[must_use]
    pub const fn load(&self) -> u32 {
        self.load
    }

    /// Takes in how many attempts its holder holds, and for how many of others it is held.
    pub(crate) const fn count(&mut self, (leases, held): (u32, u32)) {
        self.load = leases.saturating_add(held);
        self.held = held;
    }

    /// The name under which other hosts of its group reach its host: its label, or the host's own name.
    pub(crate) fn host_name(&self) -> &str {
        let label = self.offer.labels.get(HOST_LABEL).map(String::as_str);
        let own = || self.executor.as_ref().map(ExecutorId::host);
        label.or_else(own).unwrap_or(&self.holder.worker.0)
    }

    /// Leases about which a call is open.
    pub(crate) fn unsettled(&self) -> impl Iterator<Item = LeaseId> + '_ {
        self.in_flight
            .iter()
            .chain(self.unsure.leases.iter().copied())
    }

    /// Whether it can be given one more attempt.
    pub(crate) const fn availability(&self) -> Availability {
        let closed = match (self.state, self.reported_state) {
            (WorkerState::Healthy | WorkerState::Unhealthy | WorkerState::New, _)
                if self.leaving =>
            {
                Exclusion::Leaving
            }
            (WorkerState::Healthy, WorkerState::Healthy) => {
                if !self.held_back && self.load < self.slots {
                    return Availability::Open;
                }
                Exclusion::Busy
            }
            (WorkerState::Healthy | WorkerState::New, _) => Exclusion::New,
            (WorkerState::Unhealthy, _) if !self.has_been_healthy => Exclusion::New,
            (WorkerState::Unhealthy, _) => Exclusion::Unhealthy,
            (WorkerState::MustDie, _) => Exclusion::Condemned,
        };
        Availability::Closed(closed)
    }

    /// Forgets the calls of an association that is over.
    pub(crate) fn drop_calls(&mut self) {
        self.seq = NotifySeq(0);
        self.in_flight = InFlight::default();
        self.unsure = Unsure::default();
        self.checks_open.clear();
        self.devices.clear();
        // Progress is kept: what an attempt has said remains true, and is what a lost one has said last.
        self.reported_state = WorkerState::New;
        self.listed = false;
        self.must_list = false;
    }

    /// Forgets what was open about one lease; true if something was.
    pub(crate) fn settle(&mut self, lease: LeaseId) -> bool {
        let in_flight = self.in_flight.settle(lease);
        self.unsure.leases.remove(&lease) || in_flight
    }

    /// Lets the next check be due now, unless one was sent just now.
    pub(crate) fn check_soon(&mut self, now: Mono, wait: Millis) {
        if self.last_check.is_none_or(|sent| now.since(sent) >= wait) {
            self.next_check = now;
        }
    }

    /// Notes that a check was sent.
    pub(crate) fn check_sent(&mut self, check: CheckId, now: Mono) {
        self.last_check = Some(now);
        self.checks_open.push_back((check, now));
        if self.checks_open.len() > CHECKS_OPEN_MAX {
            self.checks_open.pop_front();
        }
    }

    /// Whether both gaps are closed.
    pub(crate) fn is_prompt(&self, now: Mono, timeouts: &Timeouts) -> bool {
        now.since(self.last_heartbeat) <= timeouts.heartbeat_gap
            && self
                .check_answered
                .is_some_and(|sent| now.since(sent) <= timeouts.check_gap)
    }

    /// Moves its health along the worker machine's table.
    ///
    /// # Panics
    /// If the table has no such row: the callers know the state.
    pub(crate) fn step(&mut self, cx: &mut Cx<'_>, event: WorkerEvent) {
        match transition::<fsm::Worker>(self.state, event) {
            Ok(Transition::Moved(state)) => self.state = state,
            Ok(Transition::Late(name)) => cx.leader.counts().late::<fsm::Worker>(name),
            Err(illegal) => panic!("{illegal}: {self:?}"),
        }
    }
}
