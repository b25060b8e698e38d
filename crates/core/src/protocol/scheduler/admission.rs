//! `processHeartbeat`: admission of a worker to a seat.
//!
//! The rules for a seat, in the order in which they apply:
//!
//! | incoming incarnation | result |
//! |---|---|
//! | its name, or its state directory's, belongs to another credential, see `names` | its connection is refused; not an order to die |
//! | speaks another protocol version | refused; not an order to die |
//! | has obeyed a higher epoch, or one of a lost future of this store | not answered; the driver learns that it may be deposed, or that its store is a copy |
//! | is a copy of a worker that is known, see `identity` | refused as copied |
//! | was condemned and is not seated | refused as condemned |
//! | seat empty | admitted |
//! | holds the seat | refreshed; if MUST_DIE, ordered to die again |
//! | a later incarnation of the holder's state directory | replaces it in any state, at once |
//! | an earlier incarnation of a state directory that is seated, under any name | refused as superseded |
//! | another state directory, holder MUST_DIE | replaces it |
//! | another state directory, holder NEW or UNHEALTHY | replaces it if `allow_bump_unhealthy` or the holder is silent, else refused: seat taken |
//! | another state directory, holder HEALTHY | refused: seat taken |
//!
//! "Another state directory" is another machine, or the same one after its state
//! was wiped: neither can vouch for what the holder runs. Replacing a holder never
//! closes its leases; see [`super::loss`].

use std::sync::Arc;

use baton_model::fact::{Condemnation, CopyEvidence, Fact, Holder};
use baton_model::ids::WorkerName;
use baton_model::limits::PROTOCOL_VERSION;
use baton_model::message::{Heartbeat, HeartbeatReply, Refusal, ToWorker, WorkerAddress};
use baton_model::outcome::LossProof;
use baton_model::state::WorkerState;
use baton_model::worker_set::KnownSet;

use super::context::Cx;
use super::seat::Seat;
use super::{Protocol, Timer, address};
use crate::config::StoreMode;
use crate::fsm::WorkerEvent;

impl Protocol {
    pub(super) fn heartbeat(&mut self, cx: &mut Cx<'_>, heartbeat: &Heartbeat) {
        let incoming = heartbeat.worker.incarnation;
        let name = heartbeat.worker.worker.clone();
        if heartbeat.version != PROTOCOL_VERSION {
            return self.refuse(cx, heartbeat, Refusal::OtherVersion);
        }
        let evidence = self.copy_evidence(cx, heartbeat);
        if heartbeat.epoch_seen > self.term.epoch || evidence.is_some() {
            cx.notice("higher-epoch-seen");
            cx.leader.epoch_overtaken(heartbeat.epoch_seen, evidence);
            return;
        }
        // Whether it is admitted or refused: a worker that is heard is not silent.
        let holding = self.holdings.0.get_mut(&incoming);
        if let Some(holding) = holding.filter(|it| it.holder.boot == heartbeat.worker.boot) {
            holding.heard = cx.now.mono;
        }
        if self.is_copy(cx, heartbeat) {
            cx.notice("copied-state-directory");
            return self.refuse(cx, heartbeat, Refusal::Copied);
        }
        if self.is_superseded(cx, heartbeat) {
            return self.refuse(cx, heartbeat, Refusal::Superseded);
        }
        let Some(seat) = self.seats.get(&name) else {
            if cx.ledger().is_condemned(incoming) {
                return self.refuse_condemned(cx, heartbeat);
            }
            return self.admit(cx, heartbeat);
        };
        let holder = seat.holder.incarnation;
        if holder == incoming {
            return self.refresh(cx, heartbeat);
        }
        if cx.ledger().is_condemned(incoming) {
            return self.refuse_condemned(cx, heartbeat);
        }
        if incoming.supersedes(holder) {
            self.vacate(cx, &name);
            if self.is_ended_by(cx, holder, &heartbeat.worker) {
                self.leave_consensus(holder);
            }
            return self.admit(cx, heartbeat);
        }
        self.contest(cx, heartbeat);
    }

    /// The evidence that the store is a copy: the worker is associated with a term of this store
    /// that the store does not know.
    fn copy_evidence(&self, cx: &Cx<'_>, heartbeat: &Heartbeat) -> Option<CopyEvidence> {
        let obeyed = heartbeat.association?;
        let identity = cx.ledger().identity();
        let unknown = identity.is_lost_future(obeyed.store, obeyed.epoch);
        (unknown && cx.config.store == StoreMode::Durable).then(|| CopyEvidence::LaterTermObeyed {
            worker: heartbeat.worker.worker.clone(),
            epoch: obeyed.epoch,
        })
    }

    /// True if a later incarnation of the same state directory is seated, under any
    /// name. If not, the incarnations before this one, and this one itself under another
    /// name, are cleared from their seats: a worker may have been renamed.
    fn is_superseded(&mut self, cx: &mut Cx<'_>, heartbeat: &Heartbeat) -> bool {
        let incoming = heartbeat.worker.incarnation;
        let incarnations = super::holdings::incarnations_of(incoming.lineage);
        let seated: Vec<_> = self
            .seated
            .range(incarnations)
            .map(|(incarnation, name)| (*incarnation, name.clone()))
            .collect();
        if seated
            .iter()
            .any(|(incarnation, _)| incarnation.supersedes(incoming))
        {
            return true;
        }
        for (incarnation, name) in seated {
            if name != heartbeat.worker.worker {
                self.vacate(cx, &name);
                if self.is_ended_by(cx, incarnation, &heartbeat.worker) {
                    self.leave_consensus(incarnation);
                }
            }
        }
        false
    }

    /// An incarnation of another state directory claims a seat that is held.
    fn contest(&mut self, cx: &mut Cx<'_>, heartbeat: &Heartbeat) {
        let name = heartbeat.worker.worker.clone();
        self.update_health(cx, &name);
        let seat = &self.seats[&name];
        let replaceable = match seat.state {
            WorkerState::MustDie => true,
            WorkerState::New | WorkerState::Unhealthy => {
                let silent_at = seat.last_heartbeat + cx.config.timeouts.silence();
                cx.config.allow_bump_unhealthy || silent_at <= cx.now.mono
            }
            WorkerState::Healthy => false,
        };
        if replaceable {
            self.condemn(cx, &name, Condemnation::Displaced);
            self.vacate(cx, &name);
            self.admit(cx, heartbeat);
        } else {
            // The order to die must be final: were it forgotten, the same incarnation
            // could be admitted later while it is already killing its attempts.
            cx.commit(Fact::WorkerCondemned {
                worker: name,
                incarnation: heartbeat.worker.incarnation,
                reason: Condemnation::SeatTaken,
            });
            self.close_earlier_incarnations(cx, &heartbeat.worker);
            self.refuse(cx, heartbeat, Refusal::SeatTaken);
        }
    }

    fn admit(&mut self, cx: &mut Cx<'_>, heartbeat: &Heartbeat) {
        let name = heartbeat.worker.worker.clone();
        let now = cx.now.mono;
        self.last_session = self.last_session.next();
        let mut seat = Seat::new(
            heartbeat.worker.clone(),
            heartbeat.slots,
            Arc::clone(&heartbeat.offer),
            self.last_session,
            heartbeat.stamp,
            now,
        );
        seat.executor.clone_from(&heartbeat.executor);
        seat.measured = heartbeat.measured;
        seat.take_tenure(heartbeat, cx.now);
        seat.count(self.holdings.load(heartbeat.worker.incarnation));
        self.seated
            .insert(heartbeat.worker.incarnation, name.clone());
        self.seats.insert(name.clone(), seat);
        self.extend_lease(cx, &name);
        if let Some(consensus) = &mut self.consensus {
            let settled = heartbeat.worker_set.filter(|known| known.settled);
            consensus.join(heartbeat.worker.incarnation, settled.map(|known| known.id));
        }
        self.reply(cx, &name);
        self.seat_due(cx, &name);
    }

    fn refresh(&mut self, cx: &mut Cx<'_>, heartbeat: &Heartbeat) {
        let name = heartbeat.worker.worker.clone();
        let now = cx.now.mono;
        let association = self.seats[&name].association(self.term);
        let Some(seat) = self.seats.get_mut(&name) else {
            return;
        };
        if heartbeat.stamp <= seat.last_stamp {
            // A duplicate, or one overtaken by a later one: the later one counts.
            cx.notice("heartbeat-overtaken");
            return;
        }
        seat.last_stamp = heartbeat.stamp;
        seat.slots = heartbeat.slots;
        seat.executor.clone_from(&heartbeat.executor);
        seat.measured = heartbeat.measured;
        seat.take_tenure(heartbeat, cx.now);
        if seat.offer != heartbeat.offer {
            seat.offer = Arc::clone(&heartbeat.offer);
        }
        if seat.state == WorkerState::MustDie {
            return self.order_suicide_again(cx, &name);
        }
        seat.last_heartbeat = now;
        seat.held_back = false;
        let awaits_permission = !seat.has_been_healthy;
        let knows_me = heartbeat
            .association
            .is_some_and(|it| it.epoch == self.term.epoch)
            && !seat.must_list;
        if !knows_me {
            if let Some(consensus) = &mut self.consensus {
                let settled = heartbeat.worker_set;
                let settled = settled.filter(|it| it.settled || it.id.epoch == self.term.epoch);
                consensus.recall(heartbeat.worker.incarnation, settled.map(|known| known.id));
            }
            self.begin_session(cx, &name);
        } else if heartbeat.association == Some(association)
            && let (Some(consensus), Some(known)) = (&mut self.consensus, heartbeat.worker_set)
        {
            consensus.echo(heartbeat.worker.incarnation, known.id);
            if awaits_permission {
                consensus.propagate();
            }
        }
        if heartbeat.state == WorkerState::MustDie && !heartbeat.tenure.leaving {
            // It has given up; its results are still accepted.
            self.condemn(cx, &name, Condemnation::GaveItselfUp);
        } else {
            self.extend_lease(cx, &name);
            self.update_health(cx, &name);
            self.repeat_kills(cx, &name);
        }
        self.reply(cx, &name);
        self.seat_due(cx, &name);
    }

    /// The holder has lost its association (its agent was restarted), has none
    /// with this leader, or was silent for longer than attempts may be: it must report its attempts anew.
    fn begin_session(&mut self, cx: &mut Cx<'_>, name: &WorkerName) {
        self.last_session = self.last_session.next();
        let session = self.last_session;
        let now = cx.now.mono;
        let Some(seat) = self.seats.get_mut(name) else {
            return;
        };
        seat.session = session;
        seat.drop_calls();
        // Another agent may have another lifetime.
        seat.ends_at = None;
        seat.next_ask = now;
        seat.next_check = now;
        if seat.state != WorkerState::New {
            seat.became_unhealthy = now;
            seat.step(cx, WorkerEvent::Reassociated);
        }
    }

    /// Answers the latest heartbeat. The reply extends a lease, so it leaves only
    /// after the store has confirmed that this leader is still the leader.
    fn reply(&mut self, cx: &mut Cx<'_>, name: &WorkerName) {
        let seat = &self.seats[name];
        let mut timeouts = cx.config.timeouts.for_worker();
        if seeded!(cx.config.bugs, DeadlineTooLong) {
            timeouts.lease = cx.config.timeouts.lease().scaled(3, 2);
        }
        let reply = HeartbeatReply {
            association: seat.association(self.term),
            stamp: seat.last_stamp,
            state: seat.state,
            timeouts,
            worker_set: self.consensus.as_ref().map(|consensus| KnownSet {
                id: consensus.current(),
                settled: !self.is_waiting(),
            }),
            held: seat.held,
        };
        if !seeded!(cx.config.bugs, HeartbeatUnfenced) {
            cx.leader.fence();
        }
        cx.send(address(name, seat), ToWorker::HeartbeatReply(reply));
        if let Some(seat) = self.seats.get_mut(name) {
            seat.reported_state = seat.state;
        }
        self.update_offer(cx, name);
    }

    /// Answers a condemned holder: no lease, only the order to die, every time.
    fn order_suicide_again(&mut self, cx: &mut Cx<'_>, name: &WorkerName) {
        if seeded!(cx.config.bugs, SuicideNotRepeated) {
            return;
        }
        self.reply(cx, name);
        let seat = &self.seats[name];
        let association = seat.association(self.term);
        cx.send(
            address(name, seat),
            ToWorker::RequestSuicide { association },
        );
        // The results of its attempts are still wanted.
        self.ask_running_tasks(cx, name);
    }

    fn refuse_condemned(&mut self, cx: &mut Cx<'_>, heartbeat: &Heartbeat) {
        if seeded!(cx.config.bugs, SuicideNotRepeated) {
            return;
        }
        self.close_earlier_incarnations(cx, &heartbeat.worker);
        self.refuse(cx, heartbeat, Refusal::Condemned);
    }

    fn refuse(&mut self, cx: &mut Cx<'_>, heartbeat: &Heartbeat, refusal: Refusal) {
        cx.send(
            WorkerAddress::from(&heartbeat.worker),
            ToWorker::HeartbeatRefused {
                epoch: self.term.epoch,
                incarnation: heartbeat.worker.incarnation,
                stamp: heartbeat.stamp,
                refusal,
            },
        );
    }

    /// An incarnation exists that will never report: no attempt of an earlier one
    /// runs any more.
    fn close_earlier_incarnations(&mut self, cx: &mut Cx<'_>, later: &Holder) {
        for earlier in self.holdings.lineage_up_to(later.incarnation) {
            if self.is_ended_by(cx, earlier, later) {
                self.lose_all(cx, earlier, LossProof::NewerIncarnation);
            }
        }
    }

    /// Empties a seat whose holder was replaced. Its holding stays.
    pub(super) fn vacate(&mut self, cx: &mut Cx<'_>, name: &WorkerName) {
        let Some(seat) = self.seats.remove(name) else {
            return;
        };
        cx.leader.left(name);
        self.seated.remove(&seat.holder.incarnation);
        self.timers.disarm(&Timer::Seat(name.clone()));
        if seeded!(cx.config.bugs, ReplacedTasksKept) {
            self.holdings.0.remove(&seat.holder.incarnation);
        }
        let ran_out = self
            .holdings
            .0
            .get(&seat.holder.incarnation)
            .is_some_and(|holding| holding.expires <= cx.now.mono);
        if ran_out {
            self.forget_incarnation(cx, seat.holder.incarnation);
        }
    }

    /// A heartbeat was received: the lease of its sender runs from now.
    fn extend_lease(&mut self, cx: &mut Cx<'_>, name: &WorkerName) {
        let holder = self.seats[name].holder.clone();
        let expires = cx.now.mono + cx.config.timeouts.lease();
        let holding = self.holdings.of(&holder, cx.now.mono, expires);
        holding.heard = cx.now.mono;
        holding.extended = cx.now.mono;
        holding.expires = expires;
        self.arm_holding(cx, holder.incarnation);
    }
}
