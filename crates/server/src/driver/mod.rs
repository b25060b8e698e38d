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

pub(crate) mod event;
pub(crate) mod links;
mod recovery;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use baton_core::ledger::Ledger;
use baton_core::scheduler::{Command, Config, Effect, Input, Scheduler};
use baton_core::step::{Outbox, Receipt, Step};
use baton_model::fact::{CopyEvidence, Fact};
use baton_model::ids::{Epoch, RequestId};
use baton_model::message::ToScheduler;
use baton_model::time::{Millis, Mono};
use baton_store::{Store, StoreError};
use tokio::sync::{oneshot, watch as latest};

use crate::clock;
use crate::leadership::Taken;
use crate::limits::{
    COMMIT_INTERVAL_MS, EPOCHS_SKIPPED_MAX, INBOX_FIRST_MS, INVARIANTS_CHECK_MS, SHUTDOWN_WAIT,
    SLEEP_MAX, STOPPED_AFTER_MS, TURN_EVENTS_MAX,
};
use crate::mark::MarkFile;
use crate::metrics::{Kinds, Metrics};
use crate::service::Watchdog;
use event::{Event, Inbox, ReplyTo, StoreFailed};
use links::Links;
use recovery::Failed;
use watch::Watch;

/// Whether the server leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It leads in this epoch.
    Leading(Epoch),
    /// It does not lead, for this reason.
    Failed(String),
}

/// What all leaders of this process share.
pub(crate) struct Setup {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) config: Config,
    pub(crate) limits: Vec<(String, u64)>,
    pub(crate) mark: Arc<MarkFile>,
    pub(crate) metrics: Arc<Metrics>,
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
}

struct Driver {
    setup: Arc<Setup>,
    inbox: Inbox,
    event: mpsc::Receiver<Event>,
    status: latest::Sender<Status>,
    committed: latest::Sender<()>,
    state: State,
    links: Links,
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

/// Starts the driver thread, as leader in an epoch that was just taken.
pub(crate) fn start(setup: Setup, taken: Taken) -> io::Result<Handle> {
    let Taken {
        epoch,
        ledger,
        copied,
    } = taken;
    let (sender, event) = mpsc::channel();
    let inbox = Inbox(sender);
    let (status, seen) = latest::channel(Status::Leading(epoch));
    let (committed, committed_receiver) = latest::channel(());
    let (report, ended) = oneshot::channel();
    let leading = lead(&setup, epoch, *ledger);
    let mut driver = Driver {
        setup: Arc::new(setup),
        inbox: inbox.clone(),
        event,
        status,
        committed,
        state: State::Leading(Box::new(leading)),
        links: Links::default(),
        pending: HashMap::new(),
        watch: Watch::default(),
        last_request: RequestId(0),
        due: false,
        clock_read: clock::now().mono,
        inbox_first_until: Mono(0),
        overtaken: None,
        invariants_due: Mono(0),
        watchdog: Watchdog::from_env(),
        stop_by: None,
        fatal: None,
    };
    driver.open_copy(copied);
    thread::Builder::new()
        .name("driver".to_owned())
        .spawn(move || {
            let fatal = driver.run();
            // The receiver may be gone.
            let _ = report.send(fatal);
        })?;
    Ok(Handle {
        inbox,
        status: seen,
        committed: committed_receiver,
        ended,
    })
}

fn lead(setup: &Setup, epoch: Epoch, ledger: Ledger) -> Leading {
    let leases = ledger.open_leases().count();
    tracing::info!("leading in epoch {epoch}; {leases} open leases");
    let now = clock::now();
    Leading {
        core: Scheduler::with_limits(setup.config, &setup.limits, epoch, ledger, now),
        outbox: Outbox::new(epoch),
        decided: Step::default(),
        committed: Mono(0),
        client_waits: false,
    }
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
        self.fatal
    }

    /// Sleeps until an event arrives, or something is due.
    fn next_event(&mut self) -> Option<Event> {
        let now = self.read_clock();
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
        }
    }

    fn handle(&mut self, event: Event) {
        // The process may be suspended within a turn, too.
        let now = self.read_clock();
        match event {
            Event::Opened(id, link) => self.links.opened(id, link),
            Event::Message(id, message, _permit) => {
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
            Event::Command(command, reply) => self.command(command, reply),
            Event::Query(query) => match &self.state {
                State::Leading(leading) => query(Ok(&leading.core)),
                State::Failed(failed) => query(failed.leader()),
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
        }
    }

    fn command(&mut self, command: Command, client: ReplyTo) {
        let only_reads = matches!(
            command,
            Command::ReadLogs { .. } | Command::ReadProcesses { .. }
        );
        if let State::Failed(failed) = &self.state
            && !only_reads
        {
            let _ = client.send(Err(failed.reason()));
            return;
        }
        self.last_request = self.last_request.next();
        let request = self.last_request;
        self.pending.insert(request, client);
        let input = Input::Command(request, command);
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
            let _ = client.send(Err(StoreFailed(reason.to_owned())));
        }
    }

    /// Passes an input to the leader.
    fn input(&mut self, input: Input) {
        if let State::Leading(leading) = &mut self.state {
            leading.client_waits |= matches!(input, Input::Command(..));
            let step = leading.core.handle(clock::now(), input);
            self.setup.metrics.decided();
            log_facts(step.facts());
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
            let guard = CommitGuard {
                inbox: self.inbox.clone(),
                epoch: batch.epoch(),
                metrics: Arc::clone(&self.setup.metrics),
                kinds: Kinds::of(batch.facts()),
                begun: Instant::now(),
                reported: false,
            };
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
                tracing::error!("the store cannot be written: {error}; retrying every second");
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
    /// other scheduler leads.
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
            State::Failed(_) => true,
        };
        idle || clock::now().mono >= stop_by
    }
}

/// Reports the result of a commit to the driver, even if the store dies.
struct CommitGuard {
    inbox: Inbox,
    epoch: Epoch,
    metrics: Arc<Metrics>,
    kinds: Kinds,
    begun: Instant,
    reported: bool,
}

impl CommitGuard {
    fn report(mut self, result: Result<Receipt, StoreError>) {
        self.reported = true;
        match &result {
            Ok(_) => self.metrics.committed(&self.kinds, self.begun.elapsed()),
            Err(_) => self.metrics.store_failed(),
        }
        self.inbox.send(Event::CommitResult(self.epoch, result));
    }
}

impl Drop for CommitGuard {
    fn drop(&mut self) {
        if !self.reported {
            self.metrics.store_failed();
            let result = Err(StoreError::Closed);
            self.inbox.send(Event::CommitResult(self.epoch, result));
        }
    }
}

/// Logs facts that concern operators; none about single instances.
fn log_facts(facts: &[Fact]) {
    for fact in facts {
        match fact {
            Fact::WorkerCondemned {
                worker,
                incarnation,
                reason,
            } => tracing::warn!("worker {worker} ({incarnation}) is condemned: {reason:?}"),
            Fact::WorkerDrained { worker, drained } => {
                let change = if *drained { "drained" } else { "undrained" };
                tracing::info!("worker {worker} is {change}");
            }
            Fact::CopyOpened { .. } | Fact::AttemptsDisowned { .. } => {
                tracing::warn!("{}", fact.sentence());
            }
            Fact::CopySettled { .. } | Fact::LimitSet { .. } => {
                tracing::info!("{}", fact.sentence())
            }
            _ => {}
        }
    }
}
