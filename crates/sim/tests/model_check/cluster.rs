//! The whole cluster at one moment: one state of the model.
//!
//! This module has the mechanisms: how messages reach their receivers, and what is then stored,
//! counted and sent. [`super::action`] chooses the transition.

use std::collections::{BTreeMap, VecDeque};

use baton_core::protocol::worker::io;
use baton_core::scheduler::{Command, Effect, Input, Submission};
use baton_model::ids::{Association, Epoch, LeaseId, RequestId};
use baton_model::message::{ToScheduler, ToWorker};
use baton_model::outcome::Outcome;
use baton_model::spec::{Exclusive, InstanceSpec, RetryBudget};
use baton_model::state::WorkerState;
use baton_model::time::Millis;

use super::bound::timeouts;
use super::hashed::Hashed;
use super::host::{Host, HostEffects};
use super::leader::Leader;
use super::network::{Message, Network};
use super::store::Store;
use super::world::{LeaderReply, World};

/// Counts of faults so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct FaultCounts {
    /// Broken connections.
    pub breaks: u8,
    /// Killed agents.
    pub agent_restarts: u8,
    /// Crashed incarnations.
    pub deaths: u8,
    /// Fired dead-man timers.
    pub guard_firings: u8,
    /// Expired leases.
    pub leases_out: u8,
}

/// The ground truth, which no part of the cluster sees as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct History {
    /// Every process so far: its host and its outcome.
    pub executions: BTreeMap<LeaseId, (usize, Option<Outcome>)>,
    /// A process began without a lease that was open in the store.
    pub started_unleased: bool,
    /// A process began a second time under one lease.
    pub started_twice: bool,
    /// An end was acknowledged, or forgotten by its worker, that the store lacks.
    pub acknowledged_early: bool,
}

/// One state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cluster {
    pub leader: Hashed<Leader>,
    pub store: Hashed<Store>,
    /// Workers `a` and `b`.
    pub hosts: [Hashed<Host>; 2],
    pub network: Hashed<Network>,
    pub history: Hashed<History>,
    /// The faults so far.
    pub faults: FaultCounts,
}

impl Cluster {
    /// A settled cluster: both workers are HEALTHY on both sides, and the instances
    /// have just been submitted.
    pub(crate) fn settled(world: &World) -> Self {
        let host = |name, number| Host::new(name, number, world.bound.slots, world.bound.bugs);
        let mut store = Store::new();
        store.epoch = Epoch(1);
        let leader = Leader::new(world.bound.config(), store.epoch, store.ledger.clone());
        let mut cluster = Self {
            leader: Hashed::new(leader),
            store: Hashed::new(store),
            hosts: [Hashed::new(host("a", 1)), Hashed::new(host("b", 2))],
            network: Hashed::new(Network::default()),
            history: Hashed::new(History::default()),
            faults: FaultCounts::default(),
        };
        for host in 0..2 {
            cluster.run_handshake(host);
            assert!(
                cluster.is_settled(host),
                "the handshake of worker {host} failed"
            );
        }
        for submission in submissions(world) {
            cluster.schedule(world, submission);
        }
        cluster
    }

    /// True if a worker and its leader agree that it is HEALTHY.
    pub(crate) fn is_settled(&self, host: usize) -> bool {
        self.host_state(host) == WorkerState::Healthy
            && self.seat_state(host) == Some(WorkerState::Healthy)
    }

    /// The health that a worker assumes.
    pub(crate) fn host_state(&self, host: usize) -> WorkerState {
        self.hosts[host].state()
    }

    /// The health that the leader assumes, if the incarnation holds the seat.
    pub(crate) fn seat_state(&self, host: usize) -> Option<WorkerState> {
        let host = &self.hosts[host];
        let seat = self.leader.scheduler().seats().get(host.name())?;
        (seat.holder.incarnation == host.incarnation()).then_some(seat.state)
    }

    /// The term of the current leader.
    pub(crate) fn epoch(&self) -> Epoch {
        self.store.epoch
    }

    /// Feeds an input to the leader.
    pub(crate) fn schedule(&mut self, world: &World, input: Input) {
        let heard = LeaderReply::new(&self.leader, input);
        self.scheduled(world, heard);
    }

    /// Delivers a message to the leader.
    pub(crate) fn deliver_to_leader(&mut self, world: &World, key: u64, message: &ToScheduler) {
        let heard = world.deliver_to_leader(&self.leader, key, message);
        self.scheduled(world, heard);
    }

    fn scheduled(&mut self, world: &World, heard: LeaderReply) {
        let (leader, effects) = heard.after(|effect| self.was_sent(effect));
        self.leader = leader;
        self.leave(&effects);
        if !world.bound.slow_store || self.epoch().0 >= world.bound.leaders {
            // Without a further leader, a later commit could only delay messages, and every
            // delay is explored anyway. With one, a batch that is not durable by then is
            // equivalent to one that was never decided: nothing that depends on it has been
            // sent, and its input can still arrive. A slow store explores whether the outbox
            // guarantees that.
            self.commit_all(world);
        }
    }

    /// Makes the leader's oldest batch durable.
    pub(crate) fn commit(&mut self, world: &World) {
        let (leader, store, effects) = world.commit(&self.leader, &self.store);
        self.leader = leader;
        self.store = store;
        self.leave(&effects);
    }

    /// Makes everything durable.
    fn commit_all(&mut self, world: &World) {
        while self.leader.has_uncommitted() {
            self.commit(world);
        }
    }

    /// Replaces the leader; everything that was not durable is lost.
    pub(crate) fn change_leader(&mut self, world: &World) {
        let epoch = Epoch(self.epoch().0 + 1);
        self.store.edit(|store| store.epoch = epoch);
        let ledger = self.store.ledger.clone();
        self.leader = Hashed::new(Leader::new(world.bound.config(), epoch, ledger));
        for host in &mut self.hosts {
            host.edit(|host| host.beats = Default::default());
        }
    }

    /// Delivers a message to a host's agent.
    pub(crate) fn deliver_to_host(
        &mut self,
        world: &World,
        host: usize,
        key: u64,
        message: &ToWorker,
    ) {
        let (after, effects) = world.deliver_to_host(&self.hosts[host], key, message);
        self.hosts[host] = after;
        self.note(host, &effects);
        self.post(&effects.sent);
    }

    /// Feeds an input to a host's agent.
    fn work(&mut self, host: usize, input: io::Input) -> HostEffects {
        let mut effects = HostEffects::default();
        self.hosts[host].edit(|host| host.handle(input, &mut effects));
        self.note(host, &effects);
        effects
    }

    /// A process ends.
    pub(crate) fn end(&mut self, host: usize, lease: LeaseId, outcome: Outcome) {
        let mut effects = HostEffects::default();
        self.hosts[host].edit(|host| host.end(lease, outcome, &mut effects));
        self.history
            .edit(|history| history.executions.insert(lease, (host, Some(outcome))));
        self.note(host, &effects);
        self.post(&effects.sent);
    }

    /// The dead-man timer of a host fires.
    pub(crate) fn fire_guard(&mut self, host: usize) {
        let mut effects = HostEffects::default();
        self.hosts[host].edit(|host| host.fire_guard(&mut effects));
        self.note(host, &effects);
        self.post(&effects.sent);
    }

    /// Advances a whole lease time without a heartbeat of `silent`. The other worker exchanges
    /// heartbeats and replies normally: otherwise both would be given up.
    pub(crate) fn run_lease_out(&mut self, world: &World, silent: usize) {
        self.commit_all(world);
        let other = 1 - silent;
        let pace = timeouts().heartbeat_gap;
        let mut passed = Millis(0);
        while passed <= timeouts().lease() {
            passed = passed + pace;
            self.leader.edit(|leader| leader.advance(pace));
            // Messages are read before the clock: the order that the core requires.
            self.exchange_heartbeat(other);
            self.schedule(world, Input::Tick);
            self.commit_all(world);
        }
    }

    /// Runs a handshake from the first heartbeat to HEALTHY, without other events in between.
    /// A copy of the last reply may still arrive later.
    pub(crate) fn run_handshake(&mut self, host: usize) {
        for _ in 0..2 {
            let reply = self.exchange_heartbeat(host);
            if let (true, Some(reply)) = (self.is_settled(host), reply) {
                self.leave(&[reply]);
            }
        }
    }

    /// Sends the messages of a host, except its heartbeat.
    fn post(&mut self, messages: &[ToScheduler]) {
        for message in messages {
            self.send(Message::ToScheduler(message.clone()));
        }
    }

    /// Adds a message to the network.
    pub(crate) fn send(&mut self, message: Message) {
        let message = Hashed::new(message);
        if !self.network.contains(&message) {
            self.network.edit(|network| network.add(message));
        }
    }

    /// Health checks always pass once the worker has joined their association: they are not
    /// explored here.
    pub(crate) fn pass_check(&mut self, world: &World, host: usize, joined: Association) {
        let Some(check) = self.open_check(joined) else {
            return;
        };
        let effects = self.work(host, io::Input::Message(check.clone()));
        let mut reported = false;
        for report in effects.sent {
            reported = true;
            self.schedule(world, Input::Message(report));
        }
        if reported {
            self.network.edit(|network| {
                network.drop_if(|it| matches!(it, Message::ToWorker(_, sent) if *sent == check));
            });
        }
    }

    fn open_check(&self, joined: Association) -> Option<ToWorker> {
        self.network.iter().find_map(|message| match &**message {
            Message::ToWorker(_, check @ ToWorker::CheckHealth { association, .. })
                if *association == joined =>
            {
                Some(check.clone())
            }
            _ => None,
        })
    }

    /// Exchanges one heartbeat and its direct consequences at once.
    /// Returns the last reply.
    fn exchange_heartbeat(&mut self, host: usize) -> Option<Effect> {
        let heartbeat = self.hosts[host].edit(Host::beat)?;
        let mut reply = None;
        let mut inbox = VecDeque::from([ToScheduler::ProcessHeartbeat(heartbeat)]);
        while let Some(message) = inbox.pop_front() {
            let mut effects = self
                .leader
                .edit(|leader| leader.handle(Input::Message(message)).left);
            while self.leader.has_uncommitted() {
                let Self { leader, store, .. } = self;
                effects.extend(leader.edit(|leader| store.edit(|store| leader.commit(store))));
            }
            for effect in effects {
                let Some(greeting) = self.handshake_message(host, &effect) else {
                    self.leave(&[effect]);
                    continue;
                };
                if let ToWorker::HeartbeatReply(_) = greeting {
                    reply = Some(effect);
                }
                let mut effects = self.work(host, io::Input::Message(greeting));
                inbox.extend(effects.sent.extract_if(.., |message| is_handshake(message)));
                self.post(&effects.sent);
            }
        }
        reply
    }

    /// The message of an effect, if it is part of a handshake with that host.
    fn handshake_message(&self, host: usize, effect: &Effect) -> Option<ToWorker> {
        let Effect::Send(to, message) = effect else {
            return None;
        };
        let greeting = matches!(
            message,
            ToWorker::HeartbeatReply(_)
                | ToWorker::GetRunningTasks { .. }
                | ToWorker::CheckHealth { .. }
        );
        (greeting && to.incarnation == self.hosts[host].incarnation()).then(|| message.clone())
    }

    /// Sends the effects of the leader.
    fn leave(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Send(to, message) = effect {
                if let ToWorker::StatusAck { leases, .. } = message {
                    self.note_acknowledged(leases);
                }
                let lives = self
                    .hosts
                    .iter()
                    .any(|host| host.incarnation() == to.incarnation);
                if lives {
                    self.send(Message::ToWorker(to.clone(), message.clone()));
                }
            }
        }
    }

    fn was_sent(&self, effect: &Effect) -> bool {
        match effect {
            Effect::Send(to, message) => {
                let message = Message::ToWorker(to.clone(), message.clone());
                self.network.contains(&Hashed::new(message))
            }
            _ => false,
        }
    }

    fn note(&mut self, host: usize, effects: &HostEffects) {
        for lease in &effects.started {
            let leased = self.store.ledger.open_lease(*lease).is_some();
            self.history.edit(|history| {
                history.started_unleased |= !leased;
                let before = history.executions.insert(*lease, (host, None));
                history.started_twice |= before.is_some();
            });
        }
        self.note_acknowledged(&effects.forgotten);
    }

    fn note_acknowledged(&mut self, leases: &[LeaseId]) {
        if leases
            .iter()
            .any(|lease| !self.store.closed.contains_key(lease))
        {
            self.history
                .edit(|history| history.acknowledged_early = true);
        }
    }
}

/// True for a message of a handshake.
const fn is_handshake(message: &ToScheduler) -> bool {
    matches!(
        message,
        ToScheduler::ProcessHeartbeat(_)
            | ToScheduler::RunningTasks { .. }
            | ToScheduler::HealthReport { .. }
    )
}

fn submissions(world: &World) -> Vec<Input> {
    let submission = |(exclusive, request): (&Exclusive, u64)| {
        let spec = InstanceSpec {
            exclusive: *exclusive,
            retry: RetryBudget {
                failures_max: 0,
                losses_max: 2,
                ..RetryBudget::default()
            },
            ..InstanceSpec::default()
        };
        let submission = Submission {
            spec: Box::new(spec),
            array: None,
            more: Vec::new(),
            key: None,
        };
        Input::command(
            RequestId(request),
            Command::Submit {
                submission,
                mark: None,
            },
        )
    };
    let exclusive = world.bound.exclusive.iter();
    exclusive.zip(1..).map(submission).collect()
}
