//! The one thread that owns the leader.
//!
//! ```text
//!   connections ─┐                                   ┌─▶ frames, one write per turn
//!   clients ─────┼─▶ inbox ─▶ Scheduler ─▶ Outbox ───┼─▶ answers
//!   store ───────┘      ▲                  │         └─▶ word to those who wait
//!                       └── receipts ◀── store
//! ```
//!
//! A turn takes what has arrived, decides about each piece, hands the facts to the store
//! and lets out what is durable. `baton_core::scheduler` has the calling contract; this
//! is how it is kept:
//!
//! * **Mail before the clock.** When a tick is due, the driver writes to itself, and ticks
//!   when it reads that: everything that had arrived comes first. After the process was
//!   stopped, what arrived is still in the kernel; then the driver only reads for a while.
//! * **A failed commit ends the leader.** See [`recovery`].
//!
//! Turns follow one another as fast as mail comes, and a commit costs the same for one fact as
//! for fifty. So while workers have work ahead and no client waits, what was decided is gathered
//! over several turns.
//!
//! | file | holds |
//! |---|---|
//! | [`event`] | what reaches the driver |
//! | [`links`] | the connections of workers |
//! | `requests` | what clients want |
//! | `pending` | who waits for which answer |
//! | `watch` | who waits for instances to end |
//! | [`recovery`] | life without a store |

pub(crate) mod event;
pub(crate) mod links;
mod pending;
mod recovery;
mod requests;
#[cfg(test)]
mod tests;
mod watch;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use baton_core::ledger::Ledger;
use baton_core::scheduler::{Config, Effect, Input, Scheduler};
use baton_core::step::{Outbox, Receipt, Step};
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, RequestId};
use baton_model::time::{Millis, Mono};
use baton_store::{Store, StoreError};
use tokio::sync::{oneshot, watch as latest};

use crate::clock;
use crate::leadership::EpochFile;
use crate::limits::{
    COMMIT_INTERVAL_MS, EPOCHS_SKIPPED_MAX, INBOX_FIRST_MS, SHUTDOWN_WAIT, SLEEP_MAX,
    STOPPED_AFTER_MS, TURN_EVENTS_MAX,
};
use crate::metrics::{Kinds, Metrics};
use event::{Event, Inbox};
use links::Links;
use pending::Pending;
use recovery::Failed;
use watch::Watch;

/// Whether anything can be kept at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It leads under this epoch.
    Leading(Epoch),
    /// It does not, for this reason.
    Failed(String),
}

/// What stays the same from leader to leader.
pub(crate) struct Setup {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) config: Config,
    pub(crate) limits: Vec<(String, u64)>,
    /// Where epochs are kept, if not in the store.
    pub(crate) epochs: Option<EpochFile>,
    pub(crate) metrics: Arc<Metrics>,
}

/// How the rest of the server sees the driver.
pub(crate) struct Handle {
    pub(crate) inbox: Inbox,
    pub(crate) status: latest::Receiver<Status>,
    /// Changes whenever facts have landed, or may have.
    pub(crate) committed: latest::Receiver<()>,
    /// Resolves when the driver has ended: with why it could not go on, if it could not; with
    /// an error if it has panicked.
    pub(crate) ended: oneshot::Receiver<Option<String>>,
}

struct Leading {
    core: Scheduler,
    outbox: Outbox<Effect>,
    /// What was decided since the last batch, on its way to the store.
    decided: Step<Fact, Effect>,
    /// When the last batch was handed to the store.
    committed: Mono,
    /// A client waits for what was decided.
    client_waits: bool,
}

impl Leading {
    /// When the leader has something to do by itself. A schedule's time is the wall clock's;
    /// since nobody sleeps for long, it is looked at again soon if that is set.
    fn next_due(&self) -> Option<Mono> {
        let now = clock::now();
        let tick = self.core.next_tick();
        let tick = tick.map(|at| now.mono + at.since(now.wall));
        self.core.next_due().into_iter().chain(tick).min()
    }

    /// Until when what was decided may be gathered, if it may.
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
    pending: Pending,
    watch: Watch,
    last_request: RequestId,
    /// The driver has written to itself that a tick is due.
    due: bool,
    clock_read: Mono,
    /// Until then only mail is read.
    inbox_first_until: Mono,
    overtaken: Option<Epoch>,
    stop_by: Option<Mono>,
    /// Why it cannot go on.
    fatal: Option<String>,
}

/// Starts to lead under an epoch that was just taken.
pub(crate) fn start(setup: Setup, epoch: Epoch, ledger: Ledger) -> io::Result<Handle> {
    let (sender, event) = mpsc::channel();
    let inbox = Inbox(sender);
    let (status, seen) = latest::channel(Status::Leading(epoch));
    let (committed, committed_receiver) = latest::channel(());
    let (report, ended) = oneshot::channel();
    let leading = lead(&setup, epoch, ledger);
    let driver = Driver {
        setup: Arc::new(setup),
        inbox: inbox.clone(),
        event,
        status,
        committed,
        state: State::Leading(Box::new(leading)),
        links: Links::default(),
        pending: Pending::default(),
        watch: Watch::default(),
        last_request: RequestId(0),
        due: false,
        clock_read: clock::now().mono,
        inbox_first_until: Mono(0),
        overtaken: None,
        stop_by: None,
        fatal: None,
    };
    thread::Builder::new()
        .name("driver".to_owned())
        .spawn(move || {
            let fatal = driver.run();
            // Nobody may be left who wants to know.
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
        while !self.is_finished() {
            if let Some(first) = self.next_event() {
                self.handle(first);
                for _ in 1..TURN_EVENTS_MAX {
                    // That all senders are gone cannot be: the driver has one itself.
                    let Ok(event) = self.event.try_recv() else {
                        break;
                    };
                    self.handle(event);
                }
            }
            self.commit();
            self.perform();
            self.finish_turn();
        }
        self.fatal
    }

    /// Sleeps until there is mail, or something is due.
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

    /// Reads the clock, and notices if that was not done for suspiciously long.
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
        // Also within a turn: it may have been stopped in the middle of one.
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
            Event::Request(request) => self.request(request),
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

    /// What was due when the driver wrote to itself may not be any longer: the leader it was
    /// written for is gone, or there is more mail to be read first.
    fn tick(&mut self, now: Mono) {
        if now < self.inbox_first_until || self.next_due().is_none_or(|due| due > now) {
            return;
        }
        match self.state {
            State::Leading(_) => self.input(Input::Tick),
            State::Failed(_) => self.retry_takeover(),
        }
    }

    /// Lets the leader decide about something.
    fn input(&mut self, input: Input) {
        if let State::Leading(leading) = &mut self.state {
            leading.client_waits |= !matches!(
                input,
                Input::Message(_) | Input::Disconnected(_) | Input::Tick
            );
            let step = leading.core.handle(clock::now(), input);
            self.setup.metrics.decided();
            log_facts(step.facts());
            self.watch.decided(step.facts());
            leading.decided.append(step);
        }
    }

    /// Hands what was decided to the store, as one batch, unless more is to be gathered.
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
            Err(error) => self.fail(error.to_string(), epoch),
        }
    }

    /// Carries out what is durable.
    fn perform(&mut self) {
        let State::Leading(leading) = &mut self.state else {
            return;
        };
        for effect in leading.outbox.drain() {
            match effect {
                Effect::Send(to, message) => self.links.send(&to, &message),
                Effect::EpochOvertaken(seen) => self.overtaken = self.overtaken.max(Some(seen)),
                answer => self.pending.answer(answer),
            }
        }
    }

    fn finish_turn(&mut self) {
        for stalled in self.links.flush() {
            self.input(Input::Disconnected(stalled));
        }
        self.commit();
        if let Some(seen) = self.overtaken.take() {
            self.take_higher_epoch(seen);
        }
    }

    /// A worker has obeyed an epoch that this store never had: the store came from a
    /// backup. The lock of the data directory says that nobody else leads.
    fn take_higher_epoch(&mut self, seen: Epoch) {
        let State::Leading(leading) = &self.state else {
            return;
        };
        let epoch = leading.core.epoch();
        if seen <= epoch {
            return;
        }
        if seen.0 - epoch.0 > EPOCHS_SKIPPED_MAX {
            tracing::error!(
                "a worker reports epoch {seen}, and this scheduler is at {epoch}; the worker \
                 belongs to another scheduler, or its state is damaged: it gets no work"
            );
            return;
        }
        let reason = format!("a worker reports epoch {seen}; taking a higher epoch");
        self.fail(reason, seen);
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

/// Tells the driver what became of a batch, also if the store dies over it.
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

/// Says what an operator wants to know. Nothing about single instances.
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
            _ => {}
        }
    }
}
