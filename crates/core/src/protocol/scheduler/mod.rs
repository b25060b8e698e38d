//! The scheduler's half of the protocol: associations, attempts that may be running,
//! and loss detection.
//!
//! | file | concern |
//! |---|---|
//! | [`context`] | what a handler may touch: the time, the ledger, the step in the making |
//! | [`seat`] | one named worker: its incarnation, session, health and open calls |
//! | `identity` | copies of a state directory, and what a later incarnation or another boot proves |
//! | `names` | names of workers, which belong to credentials |
//! | `admission` | `processHeartbeat`: association, replacement of a seat's holder |
//! | `reconcile` | the reply to `getRunningTasks`, and what it proves |
//! | `launch` | `runTask` and its reply |
//! | `unsure` | `notifyIfTasksNotRunning`: attempts that may or may not have started |
//! | `status` | `updateStatus`: results, and the closing of leases |
//! | `suspicion` | workers on which unrelated work fails |
//! | `tenure` | how long workers stay, and their goodbyes |
//! | `loss` | condemning a worker, and closing its leases |
//! | `gang` | members of gangs, which are held for an attempt of another worker |
//! | `holdings` | the leases that each incarnation may be running, and until when |
//! | `upkeep` | health, health checks and timers |
//! | `initial_wait` | when a scheduler without a store, or with a copy of one, may start work |
//! | `queries` | `getLogs` and `getProcesses`, passed through |
//!
//! Three rules hold everywhere:
//!
//! 1. **"Running" errs on the side of running.** A lease is open from before
//!    `runTask` leaves until a status, a proof, or (timed mode) the end of the
//!    lease closes it. A failed send closes nothing.
//! 2. **Condemned is not lost.** Giving up a worker stops the extension of its
//!    lease and orders it to die; its attempts stay leased until they are proved
//!    over or, in timed mode, until the lease has run out.
//! 3. **Only the current association is heard**, apart from heartbeats.

mod admission;
pub mod context;
mod gang;
mod holdings;
mod identity;
mod initial_wait;
mod launch;
mod loss;
mod names;
mod queries;
mod reconcile;
pub mod seat;
mod status;
mod suspicion;
pub mod tenure;
mod unsure;
mod upkeep;

use std::collections::BTreeMap;

use baton_model::ids::{Association, CheckId, Incarnation, RequestId, SessionId, Term, WorkerName};
use baton_model::message::{ToScheduler, WorkerAddress};
use baton_model::time::Mono;

use crate::placement::Availability;
use crate::protocol::consensus::Consensus;
use crate::timers::Timers;

use context::Cx;
use holdings::Holdings;
use initial_wait::InitialWait;
use queries::WorkerQueries;
use seat::Seat;
use suspicion::Suspicions;

pub(crate) use loss::JobProof;

/// Timers of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Timer {
    /// Something of a seat is due: a check, a poll, a change of health.
    Seat(WorkerName),
    /// The lease of an incarnation runs out.
    Holding(Incarnation),
    /// The lease times promised by earlier leaders run out.
    Inherited,
    /// The initial wait may end.
    InitialWait,
    /// A request for logs or processes was not answered.
    Query(RequestId),
}

/// One leader's view of its workers, for one epoch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Protocol {
    term: Term,
    seats: BTreeMap<WorkerName, Seat>,
    /// Seats by incarnation.
    seated: BTreeMap<Incarnation, WorkerName>,
    holdings: Holdings,
    timers: Timers<Timer>,
    last_session: SessionId,
    last_check: CheckId,
    consensus: Option<Consensus>,
    initial_wait: Option<InitialWait>,
    queries: WorkerQueries,
    suspicions: Suspicions,
}

impl Protocol {
    /// Starts the protocol as the leader of `epoch`. Every open
    /// lease of the ledger may still be running: each gets a full lease time.
    pub(crate) fn new(cx: &Cx<'_>) -> Self {
        let mut protocol = Self {
            term: Term {
                store: cx.ledger().identity().store,
                epoch: cx.epoch,
            },
            seats: BTreeMap::new(),
            seated: BTreeMap::new(),
            holdings: Holdings::default(),
            timers: Timers::default(),
            last_session: SessionId(0),
            last_check: CheckId(0),
            consensus: None,
            initial_wait: None,
            queries: WorkerQueries::default(),
            suspicions: Suspicions::default(),
        };
        protocol.inherit_leases(cx);
        protocol.begin_initial_wait(cx);
        protocol
    }

    /// Handles a message from a worker.
    pub(crate) fn message(&mut self, cx: &mut Cx<'_>, message: ToScheduler) {
        match message {
            ToScheduler::ProcessHeartbeat(heartbeat) => self.heartbeat(cx, &heartbeat),
            ToScheduler::UpdateStatus {
                association,
                statuses,
            } => {
                self.statuses(cx, association, &statuses);
            }
            ToScheduler::RunningTasks { association, held } => {
                self.running_tasks(cx, association, &held);
            }
            ToScheduler::RunTaskReply {
                association,
                verdicts,
            } => {
                self.launch_verdicts(cx, association, &verdicts);
            }
            ToScheduler::HeldDevices { association, held } => {
                self.held_devices(cx, association, held);
            }
            ToScheduler::Progress {
                association,
                attempts,
            } => {
                self.progress(cx, association, attempts);
            }
            ToScheduler::GetSecrets { association, lease } => {
                self.secrets_wanted(cx, association, lease);
            }
            ToScheduler::NotifyReply {
                association,
                seq,
                held,
            } => {
                self.notify_answered(cx, association, seq, &held);
            }
            ToScheduler::HealthReport {
                association,
                check,
                ok,
            } => {
                self.health_report(cx, association, check, ok);
            }
            ToScheduler::HealthFault {
                association,
                check,
                reason,
            } => {
                self.health_fault(cx, association, check, &reason);
            }
            ToScheduler::Logs {
                association,
                request,
                answer,
            } => {
                self.logs_answered(cx, association, request, answer);
            }
            ToScheduler::Processes {
                association,
                request,
                answer,
            } => {
                self.processes_answered(cx, association, request, answer);
            }
            ToScheduler::Goodbye { association, cause } => self.goodbye(cx, association, cause),
        }
    }

    /// Does everything that is due.
    pub(crate) fn tick(&mut self, cx: &mut Cx<'_>) {
        while let Some(timer) = self.timers.pop_due(cx.now.mono) {
            match timer {
                Timer::Seat(name) => self.seat_due(cx, &name),
                Timer::Holding(incarnation) => self.holding_due(cx, incarnation),
                Timer::Inherited => self.inherited_ran_out(cx),
                Timer::InitialWait => self.end_initial_wait_if_safe(cx),
                Timer::Query(request) => self.query_overdue(cx, request),
            }
        }
    }

    /// The next time for [`Self::tick`].
    pub(crate) fn next_due(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// The term of the leader.
    pub(crate) const fn term(&self) -> Term {
        self.term
    }

    /// The seats by name.
    pub(crate) const fn seats(&self) -> &BTreeMap<WorkerName, Seat> {
        &self.seats
    }

    /// The latest health check that was sent.
    #[cfg(test)]
    pub(crate) const fn last_check(&self) -> CheckId {
        self.last_check
    }

    /// True during the initial wait: nothing may be placed yet.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.initial_wait.is_some()
    }

    /// The seat that this association belongs to, if it is the current one of
    /// that seat; a message of any other association is counted and ignored.
    pub(crate) fn hear(&mut self, cx: &mut Cx<'_>, association: Association) -> Option<WorkerName> {
        let heard = self
            .seated
            .get(&association.incarnation)
            .cloned()
            .filter(|name| {
                let current = self.seats[name].association(self.term);
                seeded! {
                    let association =
                        crate::bugs::protocol::ignore_epoch(cx.config.bugs, association, self.term.epoch);
                }
                current == association
            });
        if heard.is_none() {
            cx.notice("foreign-association");
        }
        heard
    }

    /// Checks the invariants of this half.
    ///
    /// # Panics
    /// If an open call concerns a lease that is no longer open, or an offer a
    /// seat that cannot take work.
    pub fn assert_invariants(&self, ledger: &crate::ledger::Ledger) {
        for (name, seat) in &self.seats {
            for lease in seat.unsettled() {
                assert!(
                    ledger.open_lease(lease).is_some(),
                    "worker {name}: an open call concerns {lease}, which is not leased: {seat:?}"
                );
            }
        }
        for (name, seat) in &self.seats {
            let offered = seat.offered.as_ref().map(|(_, offered, _)| offered);
            assert!(
                offered != Some(&Availability::Open) || seat.availability() == Availability::Open,
                "an offer of {name} that takes no work: {seat:?}"
            );
        }
    }
}

/// Where messages to the holder of a seat go.
fn address(name: &WorkerName, seat: &Seat) -> WorkerAddress {
    WorkerAddress {
        worker: name.clone(),
        incarnation: seat.holder.incarnation,
        boot: seat.holder.boot,
    }
}
