//! Scheduler processes: all are candidates of the election, and one of them leads.

use std::collections::VecDeque;

use baton_core::leader::{Action, Election, ElectionTimeouts};
use baton_core::ledger::Ledger;
use baton_core::scheduler::{Effect, Input, Reply, Scheduler, SubmitError};
use baton_core::step::{Batch, Receipt, Step};
use baton_model::fact::{CopyEvidence, Fact};
use baton_model::ids::Epoch;
use baton_model::message::{ToScheduler, ToWorker, WorkerAddress};
use baton_model::state::WorkerState;

use super::store::{StoreOp, StoreReply};
use super::{Event, World};
use crate::checkers::{ConditionChecks, RunChecks, SuspicionChecks};
use crate::leader::Leader;
use crate::time::{Clock, SECOND, Time};

/// An input for a stopped process.
#[derive(Debug)]
enum MailboxEntry {
    Input(Box<Input>),
    Store(StoreReply),
}

/// One scheduler process, or its absence.
#[derive(Debug)]
pub(super) struct SchedulerProcess {
    pub(super) clock: Clock,
    pub(super) up: bool,
    pub(super) paused: bool,
    election: Option<Election>,
    leading: Option<Leader>,
    mailbox: VecDeque<MailboxEntry>,
    wake: Option<Time>,
    /// One connection to the store; a new one after every failure.
    pub(super) term: u64,
    pub(super) ops_sent: u64,
    pub(super) ops_applied: u64,
    pub(super) store_free: Time,
    /// Its connection breaks with the next request.
    pub(super) loses_outcome: bool,
    /// Groups whose outcome it does not know yet.
    pub(super) unconfirmed: VecDeque<Batch<Fact>>,
    /// What a worker has obeyed elsewhere: the next epoch must be above, and the store may be a
    /// copy. Of a shared store also the last term that it has led itself.
    overtaken: Option<(Epoch, Option<CopyEvidence>)>,
}

impl SchedulerProcess {
    pub(super) const fn new(clock: Clock) -> Self {
        Self {
            clock,
            up: false,
            paused: false,
            election: None,
            leading: None,
            mailbox: VecDeque::new(),
            wake: None,
            term: 0,
            ops_sent: 0,
            ops_applied: 0,
            store_free: Time(0),
            loses_outcome: false,
            unconfirmed: VecDeque::new(),
            overtaken: None,
        }
    }
}

impl World {
    /// The leader with the highest epoch, with its core.
    pub(super) fn leader(&self) -> Option<(usize, &Scheduler)> {
        self.schedulers
            .iter()
            .enumerate()
            .filter(|(_, process)| process.up)
            .filter_map(|(index, process)| process.leading.as_ref().map(|it| (index, it.core())))
            .max_by_key(|(_, core)| core.epoch())
    }

    /// The core of a current leader without pending commits. None if its connection is broken, whether
    /// or not it has noticed: the store may have lost what it has committed.
    pub(super) fn leading_core(&self, index: usize) -> Option<&Scheduler> {
        let process = &self.schedulers[index];
        let applied = process.ops_sent == process.ops_applied;
        let broken = self.store.cuts.contains_key(&(index, process.term));
        let is_current = applied && !broken;
        let core = process.leading.as_ref().filter(|_| is_current)?.core();
        (core.epoch() == self.store.row.epoch).then_some(core)
    }

    pub(super) fn scheduler_start(&mut self, index: usize) {
        if self.schedulers[index].up {
            return;
        }
        self.note(&index, || format!("s{index} starts"));
        let now = self.schedulers[index].clock.mono(self.now);
        let process = &mut self.schedulers[index];
        process.up = true;
        process.paused = false;
        if self.is_durable() {
            self.schedulers[index].election = Some(Election::new(ElectionTimeouts::default(), now));
        } else {
            self.memory_epoch += 1;
            self.store.ledger = Ledger::default();
            self.checkers.runs = RunChecks::default();
            self.checkers.conditions = ConditionChecks::default();
            self.checkers.suspicion = SuspicionChecks::default();
            self.lead(index, Epoch(self.memory_epoch), Ledger::default());
            self.at(SECOND / 2, Event::ClientNotices);
        }
        self.rearm_scheduler(index);
    }

    pub(super) fn scheduler_crash(&mut self, index: usize) {
        if !self.schedulers[index].up {
            return;
        }
        self.note(&index, || format!("s{index} is killed"));
        self.store_cut(index);
        if self.is_leading(index) {
            self.announce_vacancy(index);
        }
        let process = &mut self.schedulers[index];
        process.loses_outcome = false;
        process.unconfirmed.clear();
        process.up = false;
        process.paused = false;
        process.election = None;
        process.leading = None;
        process.overtaken = None;
        process.mailbox.clear();
        self.checkers.cancel_expected_orders();
    }

    pub(super) fn scheduler_pause(&mut self, index: usize) {
        self.note(&index, || format!("s{index} is stopped"));
        self.schedulers[index].paused = true;
        self.checkers.cancel_expected_orders();
    }

    /// A resumed process reads its mailbox before it looks at the clock.
    pub(super) fn scheduler_resume(&mut self, index: usize) {
        if !self.schedulers[index].paused {
            return;
        }
        self.note(&index, || format!("s{index} continues"));
        self.schedulers[index].paused = false;
        self.checkers.cancel_expected_orders();
        while let Some(entry) = self.schedulers[index].mailbox.pop_front() {
            match entry {
                MailboxEntry::Input(input) => self.scheduler_handle(index, *input),
                MailboxEntry::Store(reply) => self.store_reply_read(index, reply),
            }
        }
        self.scheduler_tick(index);
    }

    pub(super) fn scheduler_wake(&mut self, index: usize) {
        let process = &mut self.schedulers[index];
        if process.wake != Some(self.now) {
            return;
        }
        process.wake = None;
        if process.up && !process.paused {
            self.scheduler_tick(index);
        }
    }

    fn scheduler_tick(&mut self, index: usize) {
        let now = self.schedulers[index].clock.mono(self.now);
        let action = self.schedulers[index]
            .election
            .as_mut()
            .and_then(|it| it.tick(now));
        if let Some(action) = action {
            self.election_action(index, action);
        }
        self.scheduler_handle(index, Input::Tick);
    }

    fn election_action(&mut self, index: usize, action: Action) {
        match action {
            Action::Read => self.store_send(index, StoreOp::Read),
            Action::Take(expected) => {
                let overtaken = &mut self.schedulers[index].overtaken;
                let overtaken = if self.is_shared {
                    // Kept until the term is won.
                    overtaken.clone()
                } else {
                    overtaken.take()
                };
                let (above, copied) = overtaken.unwrap_or_default();
                let take = StoreOp::Take {
                    expected,
                    above,
                    copied,
                };
                self.store_send(index, take);
            }
            Action::Renew(epoch) => self.store_send(index, StoreOp::Renew(epoch)),
            Action::StepDown => self.step_down(index),
        }
    }

    /// Drops a leader that is ahead of its store, and restarts it as a follower.
    fn step_down(&mut self, index: usize) {
        self.note(&index, || format!("s{index} steps down"));
        self.store_cut(index);
        if self.is_leading(index) {
            self.announce_vacancy(index);
        }
        let now = self.schedulers[index].clock.mono(self.now);
        let process = &mut self.schedulers[index];
        process.leading = None;
        process.unconfirmed.clear();
        let pace = ElectionTimeouts::default();
        process.election = Some(Election::new(pace, now + pace.renew));
        self.checkers.cancel_expected_orders();
        self.rearm_scheduler(index);
    }

    fn lead(&mut self, index: usize, epoch: Epoch, ledger: Ledger) {
        self.note(&epoch, || format!("s{index} leads as {epoch}"));
        let now = self.schedulers[index].clock.read(self.now);
        let limits = &self.arrays.default_limits;
        let core = Scheduler::with_limits(self.config, limits, epoch, ledger, now);
        self.schedulers[index].leading = Some(Leader::new(core));
        self.checkers.cancel_expected_orders();
    }

    pub(super) fn deliver_to_scheduler(&mut self, index: usize, message: ToScheduler) {
        self.note(&message, || format!("s{index} <- {message}"));
        self.scheduler_input(index, Input::Message(message));
    }

    pub(super) fn disconnect(&mut self, index: usize, who: WorkerAddress) {
        self.scheduler_input(index, Input::Disconnected(who));
    }

    /// Passes an input to a process, queues it for a stopped one, or drops it.
    pub(super) fn scheduler_input(&mut self, index: usize, input: Input) {
        let process = &mut self.schedulers[index];
        if !process.up {
            return;
        }
        if process.paused {
            process
                .mailbox
                .push_back(MailboxEntry::Input(Box::new(input)));
        } else {
            self.scheduler_handle(index, input);
        }
    }

    fn scheduler_handle(&mut self, index: usize, input: Input) {
        self.note_expected_order(index, &input);
        let process = &mut self.schedulers[index];
        let now = process.clock.read(self.now);
        if let Some(leading) = &mut process.leading {
            let step = leading.decide(now, input);
            self.absorb(index, step);
        }
        self.rearm_scheduler(index);
    }

    /// A new heartbeat of a condemned incarnation must be answered with an order to die.
    fn note_expected_order(&mut self, index: usize, input: &Input) {
        let Input::Message(ToScheduler::ProcessHeartbeat(heartbeat)) = input else {
            return;
        };
        let Some(leading) = &self.schedulers[index].leading else {
            return;
        };
        let who = heartbeat.worker.incarnation;
        let stale = leading
            .core()
            .seats()
            .get(&heartbeat.worker.worker)
            .is_some_and(|seat| seat.holder.incarnation == who && heartbeat.stamp <= seat.stamp());
        let store_answers = self.schedulers[index].store_free <= self.now.after(5 * SECOND);
        let identity = leading.core().ledger().identity();
        let obeyed = heartbeat.association;
        let foreign = obeyed.is_some_and(|it| identity.is_lost_future(it.store, it.epoch));
        let overtaken = heartbeat.epoch_seen > leading.core().epoch() || foreign;
        let heard = !overtaken && !stale && store_answers;
        let is_newest = self.leader().is_some_and(|(newest, _)| newest == index);
        let sender = &heartbeat.worker;
        let mut hosts = self.hosts.iter();
        let host = hosts.position(|it| it.id == sender.host && it.boot == sender.boot);
        if let Some(host) = host.filter(|_| is_newest) {
            self.checkers.truth.heard(host, self.now);
        }
        if heard && is_newest && leading.core().ledger().is_condemned(who) {
            self.checkers.expect_order(self.now, who);
        }
    }

    fn absorb(&mut self, index: usize, step: Step<Fact, Effect>) {
        let Some(leading) = &mut self.schedulers[index].leading else {
            return;
        };
        for fact in step.facts() {
            if let Fact::LeaseGranted { lease, .. } = fact {
                self.checkers.rates.decided(*lease, self.now);
            }
        }
        leading.accept(step);
        if let Some(batch) = leading.next_batch() {
            if self.is_durable() {
                self.send_commit(index, batch);
            } else {
                for fact in batch.facts() {
                    self.commit_fact(fact);
                }
                self.checkers.group_complete();
                let receipt = batch.durable();
                if let Some(leading) = &mut self.schedulers[index].leading {
                    leading.release(receipt);
                }
            }
        }
        self.perform_ready(index);
    }

    /// Releases the effects of a group that is in the store.
    pub(super) fn release(&mut self, index: usize, receipt: Receipt) {
        if let Some(leading) = &mut self.schedulers[index].leading {
            leading.release(receipt);
        }
        self.perform_ready(index);
    }

    pub(super) fn is_leading(&self, index: usize) -> bool {
        self.schedulers[index].leading.is_some()
    }

    /// The session of the leader has ended: a follower reads the row at once.
    pub(super) fn vacancy(&mut self, index: usize) {
        let epoch = self.store.row.epoch;
        let is_led = self.leader().is_some_and(|(_, core)| core.epoch() == epoch);
        let process = &mut self.schedulers[index];
        if !process.up || process.paused || is_led {
            return;
        }
        let now = process.clock.mono(self.now);
        if let Some(action) = process.election.as_mut().and_then(|it| it.vacant(now)) {
            self.election_action(index, action);
        }
        self.rearm_scheduler(index);
    }

    fn perform_ready(&mut self, index: usize) {
        let Some(leading) = &mut self.schedulers[index].leading else {
            return;
        };
        for effect in leading.take_ready() {
            self.perform(index, effect);
        }
    }

    fn perform(&mut self, index: usize, effect: Effect) {
        match effect {
            Effect::Send(to, message) => {
                if orders_death(&message) {
                    self.checkers.order_sent(to.incarnation);
                }
                self.send_to_host(index, to, message);
            }
            Effect::Reply(request, Reply::Submitted(Ok((first, last)))) => {
                self.submission_acknowledged(request, first);
                self.array_acknowledged(request, (first, last));
            }
            // The upstream work has ended meanwhile: it is submitted again without.
            Effect::Reply(request, Reply::Submitted(Err(SubmitError::NeverMet(_)))) => {
                self.array_refused(request);
            }
            // Another leader than the one that was asked for a mark.
            Effect::Reply(_, Reply::Submitted(Err(SubmitError::Outdated))) => {}
            Effect::Reply(request, Reply::Submitted(Err(error))) => {
                self.checkers
                    .violate("panic", format!("{request} was refused: {error}"));
            }
            Effect::Reply(request, Reply::Run(answer)) => self.run_answered(request, answer),
            // Simulated clients do not wait for the others.
            Effect::Reply(..) => {}
            // Fleets have a world of their own; simulated work has no secrets.
            Effect::Fleet(_) | Effect::GrantSecrets(_) => {}
            Effect::EpochOvertaken(seen, copied) => {
                let process = &mut self.schedulers[index];
                let epoch = process.leading.as_ref().map(|it| it.core().epoch());
                process.overtaken = Some((seen, copied));
                if self.is_shared {
                    return self.step_down(index);
                }
                if let (true, Some(epoch)) = (self.is_durable(), epoch) {
                    self.store_send(index, StoreOp::Renew(epoch));
                }
            }
        }
    }

    pub(super) fn store_replied(&mut self, index: usize, term: u64, reply: StoreReply) {
        let process = &mut self.schedulers[index];
        if !process.up || process.term != term {
            return;
        }
        if process.paused {
            process.mailbox.push_back(MailboxEntry::Store(reply));
        } else {
            self.store_reply_read(index, reply);
        }
    }

    fn store_reply_read(&mut self, index: usize, reply: StoreReply) {
        let now = self.schedulers[index].clock.mono(self.now);
        match reply {
            StoreReply::Row(row) => {
                let election = self.schedulers[index].election.as_mut();
                if let Some(action) = election.and_then(|it| it.observed(now, row)) {
                    self.election_action(index, action);
                }
            }
            StoreReply::Won(epoch, ledger, copied) => {
                if let Some(election) = &mut self.schedulers[index].election {
                    election.won(now, epoch);
                }
                if self.is_shared {
                    self.schedulers[index].overtaken = Some((epoch, None));
                }
                self.lead(index, epoch, *ledger);
                if let Some(evidence) = copied {
                    self.scheduler_handle(index, Input::CopyOpened(evidence));
                }
            }
            StoreReply::Overtaken => {
                if !self.is_shared {
                    self.schedulers[index].overtaken = None;
                }
                let election = self.schedulers[index].election.as_mut();
                if let Some(action) = election.and_then(|it| it.lost(now)) {
                    self.election_action(index, action);
                }
            }
            // It still leads: the worker has obeyed a leader of another copy of the store.
            StoreReply::Renewed
                if !self.is_shared && self.schedulers[index].overtaken.is_some() =>
            {
                self.step_down(index);
            }
            StoreReply::Renewed => {}
            StoreReply::Durable(receipt) => {
                self.schedulers[index].unconfirmed.pop_front();
                self.release(index, receipt);
                self.check_live_runs(index);
            }
            StoreReply::Failed if self.guess_outcome(index) => {}
            // Whether the last groups are in the store is unknown; its next leader reads it.
            StoreReply::Failed => self.step_down(index),
        }
        self.rearm_scheduler(index);
    }

    fn rearm_scheduler(&mut self, index: usize) {
        let process = &mut self.schedulers[index];
        if !process.up || process.paused {
            return;
        }
        let election = process.election.as_ref().map(Election::next_due);
        let core = process.leading.as_ref().and_then(|it| it.core().next_due());
        let Some(due) = [election, core].into_iter().flatten().min() else {
            return;
        };
        let at = process.clock.when(due).max(self.now.after(1));
        if process.wake.is_none_or(|wake| wake > at || wake < self.now) {
            process.wake = Some(at);
            self.at_time(at, Event::SchedulerWake(index));
        }
    }
}

const fn orders_death(message: &ToWorker) -> bool {
    match message {
        ToWorker::RequestSuicide { .. } => true,
        ToWorker::HeartbeatReply(reply) => matches!(reply.state, WorkerState::MustDie),
        ToWorker::HeartbeatRefused { refusal, .. } => refusal.is_order_to_die(),
        _ => false,
    }
}
