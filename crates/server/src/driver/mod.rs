//! The one thread that owns the leader.
//!
//! ```text
//!   connections ─┐                                   ┌─▶ frames, one write per turn
//!   clients ─────┼─▶ inbox ─▶ Scheduler ─▶ Outbox ───┼─▶ answers
//!   store ───────┘      ▲                  │         └─▶ notifications to waiters
//!                       └── receipts ◀── store
//! ```
//!
//! A turn takes the events that have arrived, decides about each, submits the facts to the store
//! and performs the effects that are durable. `baton_core::scheduler` defines the calling contract;
//! the driver fulfils it as follows:
//!
//! * **Inbox before the clock.** When a tick is due, the driver sends itself an event, and ticks
//!   when it reads that: everything that had arrived comes first. After the process was suspended,
//!   input is still in the kernel; then the driver only reads for a while.
//! * **A failed commit ends the leader.** See [`recovery`].
//!
//! Turns follow one another as fast as events arrive, and a commit costs the same for one fact as
//! for fifty. So there is a group commit: while workers have queued work and no client waits,
//! decisions of several turns are committed together.
//!
//! | file | holds |
//! |---|---|
//! | [`event`] | the events of the driver, and its inbox |
//! | [`links`] | the connections of workers |
//! | `watch` | clients that wait for instances to end |
//! | [`recovery`] | operation without a store |
//! | [`following`] | operation as a follower, of a shared store |
//! | `election` | the election of a shared store, on a thread of its own |
//! | `report` | reports of what was committed |
//! | [`start`] | the start of the thread |

mod election;
pub(crate) mod event;
mod following;
pub(crate) mod links;
mod recovery;
mod report;
mod start;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use baton_core::leader::ElectionTimeouts;
use baton_core::scheduler::{Command, Config, Effect, Input, Scheduler};
use baton_core::step::{Outbox, Receipt, Step};
use baton_model::fact::{CopyEvidence, Fact, Holder};
use baton_model::ids::{Epoch, RequestId, WorkerName};
use baton_model::message::{Heartbeat, ToScheduler};
use baton_model::principal::{NameOwner, Principal};
use baton_model::rate::LimitValue;
use baton_model::time::{Millis, Mono};
use baton_store::{FactLog, StoreError};
use tokio::sync::{oneshot, watch as latest};

use crate::clock;
use crate::fleets::{FleetCalls, FleetSettings};
use crate::limits::{
    COMMIT_INTERVAL_MS, EPOCHS_SKIPPED_MAX, INBOX_FIRST_MS, INVARIANTS_CHECK_MS, SHUTDOWN_WAIT,
    SLEEP_MAX, STOPPED_AFTER_MS, TURN_EVENTS_MAX,
};
use crate::mark::MarkFile;
use crate::metrics::Metrics;
use crate::pilot_tokens::PilotTokens;
use crate::secrets::Secrets;
use crate::secrets::courier::Courier;
use baton_service::Watchdog;
use election::Elector;
use event::{Event, Inbox, ReplyTo, Unanswered};
use links::{LinkId, Links};
use recovery::Failed;
use report::{CommitGuard, log_facts};
use watch::Watch;

pub(crate) use start::{start, start_following};

/// Whether the server leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It leads in this epoch.
    Leading(Epoch),
    /// It does not lead, for this reason.
    Failed(String),
    /// It follows another scheduler of a shared store, or waits for one to be elected; with the
    /// reason if the store cannot be reached.
    Following(Option<String>),
}

impl Status {
    /// True if the scheduler follows.
    pub(crate) const fn follows(&self) -> bool {
        matches!(self, Self::Following(_))
    }
}

/// What all leaders of this process share.
pub(crate) struct Setup {
    pub(crate) store: Arc<dyn FactLog>,
    pub(crate) config: Config,
    pub(crate) limits: Vec<(String, LimitValue)>,
    pub(crate) mark: Arc<MarkFile>,
    pub(crate) metrics: Arc<Metrics>,
    /// Intervals of the election, for a shared store.
    pub(crate) election: ElectionTimeouts,
    pub(crate) fleets: Option<FleetSettings>,
    /// Issues tokens for pilots, where workers need any.
    pub(crate) pilot_tokens: Option<PilotTokens>,
    pub(crate) secrets: Arc<Secrets>,
}

/// Handle of the driver for the rest of the server.
pub(crate) struct Handle {
    pub(crate) inbox: Inbox,
    pub(crate) status: latest::Receiver<Status>,
    /// Changes whenever facts were committed, or may have been.
    pub(crate) committed: latest::Receiver<()>,
    /// Resolves when the driver has ended: with the reason if it could not continue; with an error
    /// if it has panicked.
    pub(crate) ended: oneshot::Receiver<Option<String>>,
}

struct Leading {
    core: Scheduler,
    outbox: Outbox<Effect>,
    /// Decisions since the last batch, not yet submitted to the store.
    decided: Step<Fact, Effect>,
    /// When the last batch was submitted to the store.
    committed: Mono,
    /// A client waits for one of the decisions.
    client_waits: bool,
}

impl Leading {
    /// When the leader has to act next. A schedule is due by the wall clock; since the driver never
    /// sleeps for long, it soon notices if that clock is set.
    fn next_due(&self) -> Option<Mono> {
        let now = clock::now();
        let tick = self.core.next_tick();
        let tick = tick.map(|at| now.mono + at.since(now.wall));
        self.core.next_due().into_iter().chain(tick).min()
    }

    /// End of the current group commit, if decisions may wait.
    fn group_commit_until(&self) -> Option<Mono> {
        let until = self.committed + Millis(COMMIT_INTERVAL_MS);
        (self.core.is_ahead() && !self.client_waits).then_some(until)
    }
}

enum State {
    Leading(Box<Leading>),
    Failed(Failed),
    /// Only with a shared store.
    Following,
}

struct Driver {
    setup: Arc<Setup>,
    inbox: Inbox,
    event: mpsc::Receiver<Event>,
    status: latest::Sender<Status>,
    committed: latest::Sender<()>,
    state: State,
    /// The election, for a shared store.
    election: Option<Elector>,
    links: Links,
    fleets: FleetCalls,
    courier: Courier,
    /// Clients that wait for the reply to a command.
    pending: HashMap<RequestId, ReplyTo>,
    watch: Watch,
    last_request: RequestId,
    /// A tick event is in the inbox.
    due: bool,
    clock_read: Mono,
    /// Until then only the inbox is read.
    inbox_first_until: Mono,
    /// The highest epoch that a worker has obeyed elsewhere, and the evidence that the store is a
    /// copy.
    overtaken: Option<(Epoch, Option<CopyEvidence>)>,
    /// When the invariants of the leader are checked next.
    invariants_due: Mono,
    watchdog: Watchdog,
    stop_by: Option<Mono>,
    /// Why the driver cannot continue.
    fatal: Option<String>,
}

impl Driver {
    fn run(mut self) -> Option<String> {
        self.commit();
        while !self.is_finished() {
            if let Some(first) = self.next_event() {
                self.handle(first);
                for _ in 1..TURN_EVENTS_MAX {
                    // The channel is never disconnected: the driver holds a sender itself.
                    let Ok(event) = self.event.try_recv() else {
                        break;
                    };
                    self.handle(event);
                }
            }
            self.commit();
            self.perform();
            self.finish_turn();
            self.watchdog.turn(self.clock_read);
        }
        self.end_election();
        self.fatal
    }

    /// Sleeps until an event arrives, or something is due.
    fn next_event(&mut self) -> Option<Event> {
        let now = self.read_clock();
        self.end_lapsed_term(now);
        let mut sleep = SLEEP_MAX;
        if !self.due
            && let Some(due) = self.next_due()
        {
            let due = due.max(self.inbox_first_until);
            if due <= now {
                self.due = true;
                self.inbox.send(Event::Due);
            } else {
                sleep = sleep.min(Duration::from_millis(due.since(now).0));
            }
        }
        if let State::Leading(leading) = &self.state
            && !leading.decided.is_empty()
            && let Some(until) = leading.group_commit_until()
        {
            sleep = sleep.min(Duration::from_millis(until.since(now).0));
        }
        match self.event.recv_timeout(sleep) {
            Ok(event) => {
                self.read_clock();
                Some(event)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Reads the clock, and detects a suspension of the process.
    fn read_clock(&mut self) -> Mono {
        let now = clock::now().mono;
        let sleep_max = u64::try_from(SLEEP_MAX.as_millis()).unwrap_or(u64::MAX);
        if now.since(self.clock_read).0 > sleep_max.saturating_add(STOPPED_AFTER_MS) {
            let gap = now.since(self.clock_read);
            tracing::warn!(
                "the process was suspended for {gap}; reading what arrived meanwhile before any timer"
            );
            self.inbox_first_until = now + Millis(INBOX_FIRST_MS);
        }
        self.clock_read = now;
        now
    }

    fn next_due(&self) -> Option<Mono> {
        match &self.state {
            State::Leading(leading) => leading.next_due(),
            State::Failed(recovery) => recovery.next_due(),
            State::Following => None,
        }
    }

    fn handle(&mut self, event: Event) {
        // The process may be suspended within a turn, too.
        let now = self.read_clock();
        self.end_lapsed_term(now);
        match event {
            // Dropping the connection sends the worker to the leader.
            Event::Opened(_, link) if matches!(self.state, State::Following) => drop(link),
            Event::Opened(id, link) => self.links.opened(id, link),
            Event::Message(id, message, _permit) => {
                if !self.admits(id, &message) {
                    return;
                }
                if let Some(left) = self.links.identify(id, &message) {
                    self.input(Input::Disconnected(left));
                }
                if let State::Failed(recovery) = &mut self.state {
                    if let Some((to, answer)) = recovery.answer(&message) {
                        self.links.send(&to, &answer);
                    }
                    if matches!(
                        *message,
                        ToScheduler::Logs { .. } | ToScheduler::Processes { .. }
                    ) {
                        // Without its effects, the command that waits for it times out.
                        let effects = recovery.read(Input::Message(*message));
                        self.carry_out_all(effects.unwrap_or_default());
                    }
                } else {
                    self.input(Input::Message(*message));
                }
            }
            Event::Closed(id) => {
                if let Some(who) = self.links.closed(id) {
                    self.input(Input::Disconnected(who));
                }
            }
            Event::CommitResult(epoch, result) => self.commit_done(epoch, result),
            Event::TakeoverResult(takeover_done) => self.takeover_done(takeover_done),
            Event::Election(event) => self.election_event(event),
            Event::FleetAnswered(epoch, answer) => {
                if matches!(&self.state, State::Leading(it) if it.core.epoch() == epoch) {
                    self.input(Input::FleetAnswered(*answer));
                }
            }
            Event::Secrets(to, delivery) => {
                let allow_plain = self.setup.secrets.allow_plain;
                self.links.send_secrets(&to, *delivery, allow_plain);
            }
            Event::Command(by, command, reply) => self.command(by, command, reply),
            Event::Query(query) => match &self.state {
                State::Leading(leading) => query(Ok(&leading.core)),
                State::Failed(failed) => query(failed.leader()),
                State::Following => query(Err(Unanswered::Follows)),
            },
            Event::Watch {
                first,
                last,
                notify,
            } => {
                // Without a leader it waits for the next one.
                let ledger = match &self.state {
                    State::Leading(leading) => Some(leading.core.ledger()),
                    State::Failed(_) => None,
                    // Dropping `notify` sends the client to the leader.
                    State::Following => return,
                };
                self.watch.add(ledger, (first, last), notify);
            }
            Event::Due => {
                self.due = false;
                self.watch.sweep();
                self.tick(now);
            }
            Event::Stop => {
                let wait = u64::try_from(SHUTDOWN_WAIT.as_millis()).unwrap_or(u64::MAX);
                self.stop_by = Some(clock::now().mono + Millis(wait));
            }
        }
    }

    /// Checks the leader now and then. One that contradicts itself must not lead on: the panic ends the
    /// server with the offending state, and the next leader starts from what is durable.
    fn check_invariants(&mut self, now: Mono) {
        if now < self.invariants_due {
            return;
        }
        self.invariants_due = now + Millis(INVARIANTS_CHECK_MS);
        if let State::Leading(leading) = &self.state {
            leading.core.assert_invariants();
        }
    }

    /// Ticks, if still due: the leader may have been replaced since the event was sent, or the
    /// inbox goes first.
    fn tick(&mut self, now: Mono) {
        self.check_invariants(now);
        if now < self.inbox_first_until || self.next_due().is_none_or(|due| due > now) {
            return;
        }
        match self.state {
            State::Leading(_) => self.input(Input::Tick),
            State::Failed(_) => self.retry_takeover(),
            State::Following => {}
        }
    }

    fn command(&mut self, by: Option<Arc<Principal>>, command: Command, client: ReplyTo) {
        let only_reads = matches!(
            command,
            Command::ReadLogs { .. } | Command::ReadProcesses { .. }
        );
        let refused = match &self.state {
            State::Failed(failed) if !only_reads => Some(failed.reason()),
            State::Following => Some(Unanswered::Follows),
            State::Leading(_) | State::Failed(_) => None,
        };
        if let Some(refused) = refused {
            let _ = client.send(Err(refused));
            return;
        }
        self.last_request = self.last_request.next();
        let request = self.last_request;
        self.pending.insert(request, client);
        let input = Input::Command {
            request,
            by,
            command,
        };
        match &mut self.state {
            State::Leading(_) => self.input(input),
            State::Failed(failed) => match failed.read(input) {
                Ok(effects) => self.carry_out_all(effects),
                Err(reason) => {
                    if let Some(client) = self.pending.remove(&request) {
                        let _ = client.send(Err(reason));
                    }
                }
            },
            State::Following => {}
        }
    }

    fn carry_out_all(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.carry_out(effect);
        }
    }

    /// Tells all clients that their commands have no reply.
    fn fail_pending(&mut self, reason: &str) {
        for (_, client) in self.pending.drain() {
            let _ = client.send(Err(Unanswered::StoreFailed(reason.to_owned())));
        }
    }

    /// Passes an input to the leader.
    /// Refuses the connection of a worker that uses the name of another credential. Otherwise the name is
    /// that of its own credential from now on.
    fn admits(&mut self, id: LinkId, message: &ToScheduler) -> bool {
        if self.links.is_refused(id) {
            return false;
        }
        let ToScheduler::ProcessHeartbeat(Heartbeat { worker, .. }) = message else {
            return true;
        };
        let Some(credential) = self.links.credential(id) else {
            return true;
        };
        if let NameOwner::Fleet(fleet) = &credential.owner
            && fleet.pilot_of(&worker.worker).is_none()
        {
            let reason = format!(
                "its token is for the pilots of fleet {fleet}, which are named {fleet}-pJOB-NUMBER; a worker of \
                 its own needs another, by `baton token create --role worker`"
            );
            self.refuse(id, &worker.worker, &reason);
            return false;
        }
        let leader = match &self.state {
            State::Leading(leading) => &leading.core,
            // It records no name, and answers only workers that it knows.
            State::Failed(failed) => match failed.leader() {
                Ok(leader) => leader,
                Err(_) => return true,
            },
            State::Following => return true,
        };
        let is_void = |owner: &NameOwner| credential.is_void(owner);
        let foreign = leader.foreign_name(worker, &credential.owner, &is_void);
        if let Some((name, owner)) = foreign {
            let reason = foreign_name(worker, &name, owner);
            self.refuse(id, &worker.worker, &reason);
            return false;
        }
        let owner = &credential.owner;
        if leader.ledger().name_owners().get(&worker.worker) != Some(owner) {
            let used = Input::NameUsed(worker.worker.clone(), owner.clone());
            self.input(used);
        }
        true
    }

    /// Ends the connection of a worker, with the reason.
    fn refuse(&mut self, id: LinkId, worker: &WorkerName, reason: &str) {
        if let Some(credential) = self.links.credential(id) {
            tracing::warn!("worker {worker} of {} refused: {reason}", credential.owner);
        }
        if let Some(left) = self.links.refuse(id, reason) {
            self.input(Input::Disconnected(left));
        }
    }

    fn input(&mut self, input: Input) {
        if let State::Leading(leading) = &mut self.state {
            leading.client_waits |= matches!(input, Input::Command { .. });
            let step = leading.core.handle(clock::now(), input);
            self.setup.metrics.decided();
            log_facts(&step);
            self.watch.decided(step.facts());
            leading.decided.append(step);
        }
    }

    /// Begins a new generation, if the store that was just taken is a copy.
    fn open_copy(&mut self, copied: Option<CopyEvidence>) {
        if let Some(evidence) = copied {
            self.input(Input::CopyOpened(evidence));
        }
    }

    /// Submits the decisions to the store as one batch, unless a group commit waits for more.
    fn commit(&mut self) {
        let State::Leading(leading) = &mut self.state else {
            return;
        };
        let now = clock::now();
        let groups = leading
            .group_commit_until()
            .is_some_and(|until| now.mono < until);
        if leading.decided.is_empty() || (groups && self.stop_by.is_none()) {
            return;
        }
        (leading.committed, leading.client_waits) = (now.mono, false);
        let decided = std::mem::take(&mut leading.decided);
        if let Some(batch) = leading.outbox.accept(decided) {
            self.watch.submitted();
            let metrics = Arc::clone(&self.setup.metrics);
            let guard = CommitGuard::new(&batch, self.inbox.clone(), metrics);
            let done = Box::new(move |result| guard.report(result));
            self.setup.store.submit(batch, now.wall, done);
        }
    }

    fn commit_done(&mut self, epoch: Epoch, result: Result<Receipt, StoreError>) {
        let State::Leading(leading) = &mut self.state else {
            return;
        };
        if leading.core.epoch() != epoch {
            return;
        }
        match result {
            Ok(receipt) => {
                leading.outbox.release(receipt);
                self.committed.send_replace(());
                self.watch.confirmed(leading.core.ledger());
            }
            Err(error) => {
                if self.election.is_none() {
                    tracing::error!("the store cannot be written: {error}; retrying every second");
                }
                self.fail(error.to_string(), epoch, None);
            }
        }
    }

    /// Performs the effects that are durable.
    fn perform(&mut self) {
        let State::Leading(leading) = &mut self.state else {
            return;
        };
        let effects: Vec<Effect> = leading.outbox.drain().collect();
        effects
            .into_iter()
            .for_each(|effect| self.carry_out(effect));
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Send(to, message) => self.links.send(&to, &message),
            Effect::GrantSecrets(grant) => self.courier.grant(grant),
            Effect::Fleet(call) => {
                if let State::Leading(leading) = &self.state {
                    let store = leading.core.ledger().identity().store;
                    self.fleets.start(leading.core.epoch(), store, call);
                }
            }
            Effect::EpochOvertaken(seen, copied) => {
                let (highest, evidence) = self.overtaken.take().unwrap_or_default();
                self.overtaken = Some((highest.max(seen), evidence.or(copied)));
            }
            Effect::Reply(request, reply) => {
                if let Some(client) = self.pending.remove(&request) {
                    let _ = client.send(Ok(reply));
                }
            }
        }
    }

    fn finish_turn(&mut self) {
        for stalled in self.links.flush() {
            self.input(Input::Disconnected(stalled));
        }
        self.commit();
        if let Some((seen, copied)) = self.overtaken.take() {
            self.take_higher_epoch(seen, copied);
        }
    }

    /// Handles a worker that has obeyed an epoch that this store never had: of another store, or, by
    /// the evidence, of another copy of this one. The lock of the data directory guarantees that no
    /// other scheduler leads; of a shared store, the election decides again.
    fn take_higher_epoch(&mut self, seen: Epoch, copied: Option<CopyEvidence>) {
        let State::Leading(leading) = &self.state else {
            return;
        };
        let epoch = leading.core.epoch();
        if seen <= epoch && copied.is_none() {
            return;
        }
        if seen.number().saturating_sub(epoch.number()) > EPOCHS_SKIPPED_MAX {
            tracing::error!(
                "a worker reports epoch {seen}, and this scheduler is at {epoch}; the worker \
                 belongs to another scheduler, or its state is damaged: it gets no work"
            );
            return;
        }
        let reason = format!("a worker reports epoch {seen}; taking a higher epoch");
        tracing::warn!("{reason}");
        self.fail(reason, seen, copied);
        self.retry_takeover();
    }

    fn is_finished(&self) -> bool {
        if self.fatal.is_some() {
            return true;
        }
        let Some(stop_by) = self.stop_by else {
            return false;
        };
        let idle = match &self.state {
            State::Leading(leading) => leading.decided.is_empty() && leading.outbox.is_idle(),
            State::Failed(_) | State::Following => true,
        };
        idle || clock::now().mono >= stop_by
    }
}

/// Why a worker may not use a name, and what to do about it.
fn foreign_name(worker: &Holder, name: &WorkerName, owner: &NameOwner) -> String {
    let about = if worker.worker == *name {
        "use another name (--name)"
    } else {
        "its state directory is that of this worker; use another one (--state)"
    };
    format!(
        "the name {name} belongs to {owner}, which has used it first; {about}, or release the name: \
         revoke that token, or `baton forget {name}` if that worker is gone"
    )
}
