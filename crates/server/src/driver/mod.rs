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
//! * **A failed commit ends the leader.** See [`failed`].
//!
//! Turns follow one another as fast as mail comes, and a commit costs the same for one fact as
//! for fifty. So while workers have work ahead and no client waits, what was decided is gathered
//! over several turns.
//!
//! | file | holds |
//! |---|---|
//! | [`mail`] | what reaches the driver |
//! | [`links`] | the connections of workers |
//! | `asks` | what clients want |
//! | `pending` | who waits for which answer |
//! | `watch` | who waits for instances to end |
//! | [`failed`] | life without a store |

mod asks;
mod failed;
pub(crate) mod links;
pub(crate) mod mail;
mod pending;
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
    COMMIT_PACE_MS, EPOCHS_SKIPPED_MAX, FAREWELL_WAIT, READ_MAIL_FIRST_MS, SLEEP_MAX,
    STOPPED_AFTER_MS, TURN_MAIL_MAX,
};
use crate::metrics::{Kinds, Metrics};
use failed::Failed;
use links::Links;
use mail::{Inbox, Mail};
use pending::Pending;
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
    pub(crate) landed: latest::Receiver<()>,
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
    awaited: bool,
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
    fn gathers_until(&self) -> Option<Mono> {
        let until = self.committed + Millis(COMMIT_PACE_MS);
        (self.core.is_ahead() && !self.awaited).then_some(until)
    }
}

enum State {
    Leading(Box<Leading>),
    Failed(Failed),
}

struct Driver {
    setup: Arc<Setup>,
    inbox: Inbox,
    mail: mpsc::Receiver<Mail>,
    status: latest::Sender<Status>,
    landed: latest::Sender<()>,
    state: State,
    links: Links,
    pending: Pending,
    watch: Watch,
    last_request: RequestId,
    /// The driver has written to itself that a tick is due.
    due: bool,
    looked: Mono,
    /// Until then only mail is read.
    mail_first_until: Mono,
    overtaken: Option<Epoch>,
    stop_by: Option<Mono>,
    /// Why it cannot go on.
    dead: Option<String>,
}

/// Starts to lead under an epoch that was just taken.
pub(crate) fn start(setup: Setup, epoch: Epoch, ledger: Ledger) -> io::Result<Handle> {
    let (sender, mail) = mpsc::channel();
    let inbox = Inbox(sender);
    let (status, seen) = latest::channel(Status::Leading(epoch));
    let (landed, seen_landed) = latest::channel(());
    let (tell, ended) = oneshot::channel();
    let leading = lead(&setup, epoch, ledger);
    let driver = Driver {
        setup: Arc::new(setup),
        inbox: inbox.clone(),
        mail,
        status,
        landed,
        state: State::Leading(Box::new(leading)),
        links: Links::default(),
        pending: Pending::default(),
        watch: Watch::default(),
        last_request: RequestId(0),
        due: false,
        looked: clock::now().mono,
        mail_first_until: Mono(0),
        overtaken: None,
        stop_by: None,
        dead: None,
    };
    thread::Builder::new()
        .name("driver".to_owned())
        .spawn(move || {
            let dead = driver.run();
            // Nobody may be left who wants to know.
            let _ = tell.send(dead);
        })?;
    Ok(Handle {
        inbox,
        status: seen,
        landed: seen_landed,
        ended,
    })
}

fn lead(setup: &Setup, epoch: Epoch, ledger: Ledger) -> Leading {
    let leases = ledger.open_leases().count();
    tracing::info!("leads as {epoch}; {leases} leases are open");
    let now = clock::now();
    Leading {
        core: Scheduler::with_limits(setup.config, &setup.limits, epoch, ledger, now),
        outbox: Outbox::new(epoch),
        decided: Step::default(),
        committed: Mono(0),
        awaited: false,
    }
}

impl Driver {
    fn run(mut self) -> Option<String> {
        while !self.is_finished() {
            if let Some(first) = self.next_mail() {
                self.handle(first);
                for _ in 1..TURN_MAIL_MAX {
                    // That all senders are gone cannot be: the driver has one itself.
                    let Ok(mail) = self.mail.try_recv() else {
                        break;
                    };
                    self.handle(mail);
                }
            }
            self.commit();
            self.perform();
            self.finish_turn();
        }
        self.dead
    }

    /// Sleeps until there is mail, or something is due.
    fn next_mail(&mut self) -> Option<Mail> {
        let now = self.look();
        let mut sleep = SLEEP_MAX;
        if !self.due
            && let Some(due) = self.next_due()
        {
            let due = due.max(self.mail_first_until);
            if due <= now {
                self.due = true;
                self.inbox.put(Mail::Due);
            } else {
                sleep = sleep.min(Duration::from_millis(due.since(now).0));
            }
        }
        if let State::Leading(leading) = &self.state
            && !leading.decided.is_empty()
            && let Some(until) = leading.gathers_until()
        {
            sleep = sleep.min(Duration::from_millis(until.since(now).0));
        }
        match self.mail.recv_timeout(sleep) {
            Ok(mail) => {
                self.look();
                Some(mail)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Reads the clock, and notices if that was not done for suspiciously long.
    fn look(&mut self) -> Mono {
        let now = clock::now().mono;
        let sleep_max = u64::try_from(SLEEP_MAX.as_millis()).unwrap_or(u64::MAX);
        if now.since(self.looked).0 > sleep_max.saturating_add(STOPPED_AFTER_MS) {
            let gap = now.since(self.looked);
            tracing::warn!("was stopped for {gap}; reads what arrived meanwhile first");
            self.mail_first_until = now + Millis(READ_MAIL_FIRST_MS);
        }
        self.looked = now;
        now
    }

    fn next_due(&self) -> Option<Mono> {
        match &self.state {
            State::Leading(leading) => leading.next_due(),
            State::Failed(failed) => failed.next_due(),
        }
    }

    fn handle(&mut self, mail: Mail) {
        // Also within a turn: it may have been stopped in the middle of one.
        let now = self.look();
        match mail {
            Mail::Opened(id, link) => self.links.opened(id, link),
            Mail::Message(id, message, _permit) => {
                if let Some(left) = self.links.heard(id, &message) {
                    self.input(Input::Disconnected(left));
                }
                if let State::Failed(failed) = &mut self.state {
                    if let Some((to, answer)) = failed.answer(&message) {
                        self.links.send(&to, &answer);
                    }
                } else {
                    self.input(Input::Message(*message));
                }
            }
            Mail::Closed(id) => {
                if let Some(who) = self.links.closed(id) {
                    self.input(Input::Disconnected(who));
                }
            }
            Mail::Stored(epoch, fate) => self.stored(epoch, fate),
            Mail::Taken(taken) => self.taken(taken),
            Mail::Ask(ask) => self.ask(ask),
            Mail::Due => {
                self.due = false;
                self.watch.sweep();
                self.tick(now);
            }
            Mail::Stop => {
                let wait = u64::try_from(FAREWELL_WAIT.as_millis()).unwrap_or(u64::MAX);
                self.stop_by = Some(clock::now().mono + Millis(wait));
            }
        }
    }

    /// What was due when the driver wrote to itself may not be any longer: the leader it was
    /// written for is gone, or there is more mail to be read first.
    fn tick(&mut self, now: Mono) {
        if now < self.mail_first_until || self.next_due().is_none_or(|due| due > now) {
            return;
        }
        match self.state {
            State::Leading(_) => self.input(Input::Tick),
            State::Failed(_) => self.retake(),
        }
    }

    /// Lets the leader decide about something.
    fn input(&mut self, input: Input) {
        if let State::Leading(leading) = &mut self.state {
            leading.awaited |= !matches!(
                input,
                Input::Message(_) | Input::Disconnected(_) | Input::Tick
            );
            let step = leading.core.handle(clock::now(), input);
            self.setup.metrics.decided();
            announce(step.facts());
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
        let gathers = leading
            .gathers_until()
            .is_some_and(|until| now.mono < until);
        if leading.decided.is_empty() || (gathers && self.stop_by.is_none()) {
            return;
        }
        (leading.committed, leading.awaited) = (now.mono, false);
        let decided = std::mem::take(&mut leading.decided);
        if let Some(batch) = leading.outbox.accept(decided) {
            self.watch.submitted();
            let fate = Fate {
                inbox: self.inbox.clone(),
                epoch: batch.epoch(),
                metrics: Arc::clone(&self.setup.metrics),
                kinds: Kinds::of(batch.facts()),
                begun: Instant::now(),
                told: false,
            };
            let done = Box::new(move |result| fate.tell(result));
            self.setup.store.submit(batch, now.wall, done);
        }
    }

    fn stored(&mut self, epoch: Epoch, fate: Result<Receipt, StoreError>) {
        let State::Leading(leading) = &mut self.state else {
            return;
        };
        if leading.core.epoch() != epoch {
            return;
        }
        match fate {
            Ok(receipt) => {
                leading.outbox.release(receipt);
                self.landed.send_replace(());
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
        for deaf in self.links.flush() {
            self.input(Input::Disconnected(deaf));
        }
        self.commit();
        if let Some(seen) = self.overtaken.take() {
            self.rise_above(seen);
        }
    }

    /// A worker has obeyed an epoch that this store never had: the store came from a
    /// backup. The lock of the data directory says that nobody else leads.
    fn rise_above(&mut self, seen: Epoch) {
        let State::Leading(leading) = &self.state else {
            return;
        };
        let epoch = leading.core.epoch();
        if seen <= epoch {
            return;
        }
        if seen.0 - epoch.0 > EPOCHS_SKIPPED_MAX {
            tracing::error!(
                "a worker says that it has obeyed {seen}, and this scheduler is at {epoch}; it \
                 belongs to another scheduler, or its state is damaged: it gets no work"
            );
            return;
        }
        let reason = format!("a worker has obeyed {seen}; an epoch above it is being taken");
        self.fail(reason, seen);
        self.retake();
    }

    fn is_finished(&self) -> bool {
        if self.dead.is_some() {
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
struct Fate {
    inbox: Inbox,
    epoch: Epoch,
    metrics: Arc<Metrics>,
    kinds: Kinds,
    begun: Instant,
    told: bool,
}

impl Fate {
    fn tell(mut self, result: Result<Receipt, StoreError>) {
        self.told = true;
        match &result {
            Ok(_) => self.metrics.committed(&self.kinds, self.begun.elapsed()),
            Err(_) => self.metrics.store_failed(),
        }
        self.inbox.put(Mail::Stored(self.epoch, result));
    }
}

impl Drop for Fate {
    fn drop(&mut self) {
        if !self.told {
            self.metrics.store_failed();
            let fate = Err(StoreError::Closed);
            self.inbox.put(Mail::Stored(self.epoch, fate));
        }
    }
}

/// Says what an operator wants to know. Nothing about single instances.
fn announce(facts: &[Fact]) {
    for fact in facts {
        match fact {
            Fact::WorkerCondemned {
                worker,
                incarnation,
                reason,
            } => tracing::warn!("worker {worker} ({incarnation}) is given up: {reason:?}"),
            Fact::WorkerDrained { worker, drained } => {
                tracing::info!("worker {worker} is drained: {drained}");
            }
            _ => {}
        }
    }
}
