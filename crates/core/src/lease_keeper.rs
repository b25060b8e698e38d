//! Lease keeper: extends the leases of workers while their leader cannot write.
//!
//! A leader whose store has failed is dropped, because its memory is ahead of the store. The
//! attempts on its workers are not affected, but would be killed when their leases run out. Until
//! the same process leads again, the lease keeper answers heartbeats in the name of the dropped
//! leader, and does nothing else: no launch, no order, no acknowledgement. Workers repeat the ends
//! of attempts until a leader has stored them.
//!
//! # Why an unconfirmed promise is safe here
//!
//! A heartbeat reply extends a lease, so a leader fences it: another leader might have taken the
//! leadership row, counted the lease from its own start, and given the attempt to another worker.
//! The lease keeper may therefore be used *only* where that is impossible: while this process holds
//! the lock of the data directory, without which no process leads. The next leader then belongs to
//! this process and starts after the last reply of the lease keeper; it treats each open lease as
//! good for a full lease time from its start, which is later than any deadline promised here.
//!
//! Only an association that the leader had granted is answered, with the health that it was last
//! sent: new workers wait, and a condemned worker is not kept alive.

use std::collections::BTreeMap;

use baton_model::ids::{Association, Incarnation, Term, WorkerName};
use baton_model::limits::PROTOCOL_VERSION;
use baton_model::message::{Heartbeat, HeartbeatReply, ToScheduler, ToWorker, WorkerAddress};
use baton_model::state::WorkerState;
use baton_model::time::Stamp;
use baton_model::timeouts::{Timeouts, WorkerTimeouts};

use crate::protocol::scheduler::seat::Seat;

/// The last known state of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WorkerLease {
    worker: WorkerName,
    association: Association,
    reported_state: WorkerState,
    stamp: Stamp,
    held: u32,
}

/// Answers heartbeats for a dropped leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseKeeper {
    timeouts: WorkerTimeouts,
    leases: BTreeMap<Incarnation, WorkerLease>,
}

impl LeaseKeeper {
    /// Takes over from the leader of `term`, which had these seats and timeouts.
    #[must_use]
    pub fn new(term: Term, timeouts: &Timeouts, seats: &BTreeMap<WorkerName, Seat>) -> Self {
        let lease = |(name, seat): (&WorkerName, &Seat)| {
            let lease = WorkerLease {
                worker: name.clone(),
                association: seat.association(term),
                reported_state: seat.reported_state,
                stamp: seat.stamp(),
                held: seat.held(),
            };
            (seat.holder.incarnation, lease)
        };
        let kept = |(_, seat): &(&WorkerName, &Seat)| {
            seat.state != WorkerState::MustDie && seat.reported_state != WorkerState::MustDie
        };
        Self {
            timeouts: timeouts.for_worker(),
            leases: seats.iter().filter(kept).map(lease).collect(),
        }
    }

    /// Replies to a heartbeat of a known association; ignores everything else.
    pub fn answer(&mut self, message: &ToScheduler) -> Option<(WorkerAddress, ToWorker)> {
        let ToScheduler::ProcessHeartbeat(heartbeat) = message else {
            return None;
        };
        let lease = self.leases.get_mut(&heartbeat.worker.incarnation)?;
        if !lease.may_be_answered(heartbeat) {
            return None;
        }
        assert!(
            lease.reported_state != WorkerState::MustDie,
            "a condemned worker is not kept alive: {lease:?}"
        );
        lease.stamp = heartbeat.stamp;
        let to = WorkerAddress::from(&heartbeat.worker);
        let reply = HeartbeatReply {
            association: lease.association,
            stamp: heartbeat.stamp,
            state: lease.reported_state,
            timeouts: self.timeouts,
            worker_set: None,
            held: lease.held,
        };
        Some((to, ToWorker::HeartbeatReply(reply)))
    }
}

impl WorkerLease {
    fn may_be_answered(&self, heartbeat: &Heartbeat) -> bool {
        heartbeat.version == PROTOCOL_VERSION
            && heartbeat.worker.worker == self.worker
            && heartbeat.association == Some(self.association)
            && heartbeat.epoch_seen <= self.association.epoch
            && heartbeat.state != WorkerState::MustDie
            && heartbeat.stamp > self.stamp
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use baton_model::fact::Holder;
    use baton_model::ids::{BootId, Epoch, HostId, IncarnationNo, Lineage, SessionId, StoreId};
    use baton_model::placement::Offer;
    use baton_model::time::Mono;

    use super::*;

    const TERM: Term = Term {
        store: StoreId(2),
        epoch: Epoch(7),
    };

    fn holder(lineage: u64) -> Holder {
        Holder {
            worker: WorkerName::new("w1"),
            incarnation: Incarnation {
                lineage: Lineage(lineage),
                number: IncarnationNo(1),
            },
            host: HostId(1),
            boot: BootId(1),
        }
    }

    fn lease_keeper(reported_state: WorkerState) -> (LeaseKeeper, Association) {
        let offer = Arc::new(Offer::default());
        let stamp = Stamp(Mono(10));
        let mut seat = Seat::new(holder(1), 1, offer, SessionId(3), stamp, Mono(10));
        seat.state = reported_state;
        seat.reported_state = reported_state;
        let association = seat.association(TERM);
        let seats = [(WorkerName::new("w1"), seat)].into();
        let lease_keeper = LeaseKeeper::new(TERM, &Timeouts::default(), &seats);
        (lease_keeper, association)
    }

    fn heartbeat(association: Option<Association>, at: u64) -> Heartbeat {
        Heartbeat {
            version: PROTOCOL_VERSION,
            worker: holder(1),
            executor: None,
            slots: 1,
            offer: Arc::new(Offer::default()),
            association,
            epoch_seen: TERM.epoch,
            stamp: Stamp(Mono(at)),
            state: WorkerState::Healthy,
            worker_set: None,
            tenure: baton_model::message::Tenure::default(),
            greeting: None,
            measured: None,
        }
    }

    fn answered(lease_keeper: &mut LeaseKeeper, heartbeat: Heartbeat) -> Option<HeartbeatReply> {
        let message = ToScheduler::ProcessHeartbeat(heartbeat);
        match lease_keeper.answer(&message) {
            Some((_, ToWorker::HeartbeatReply(reply))) => Some(reply),
            Some((_, other)) => panic!("a lease keeper does not send {other:?}"),
            None => None,
        }
    }

    #[test]
    fn an_associated_worker_is_answered_as_its_leader_would_have() {
        let (mut lease_keeper, association) = lease_keeper(WorkerState::Healthy);
        let reply = answered(&mut lease_keeper, heartbeat(Some(association), 11)).expect("kept");
        assert_eq!(reply.association, association);
        assert_eq!(reply.stamp, Stamp(Mono(11)));
        assert_eq!(reply.state, WorkerState::Healthy);
        assert_eq!(reply.timeouts, Timeouts::default().for_worker());
    }

    #[test]
    fn an_old_heartbeat_and_one_seen_before_extend_nothing() {
        let (mut lease_keeper, association) = lease_keeper(WorkerState::Healthy);
        assert_eq!(
            answered(&mut lease_keeper, heartbeat(Some(association), 10)),
            None
        );
        let fresh = heartbeat(Some(association), 11);
        assert!(answered(&mut lease_keeper, fresh.clone()).is_some());
        assert_eq!(answered(&mut lease_keeper, fresh), None);
    }

    #[test]
    fn an_unassociated_worker_waits_for_a_leader() {
        let (mut lease_keeper, association) = lease_keeper(WorkerState::Healthy);
        assert_eq!(answered(&mut lease_keeper, heartbeat(None, 11)), None);
        let earlier = Association {
            session: SessionId(2),
            ..association
        };
        assert_eq!(
            answered(&mut lease_keeper, heartbeat(Some(earlier), 11)),
            None
        );
        let mut stranger = heartbeat(Some(association), 11);
        stranger.worker = holder(2);
        assert_eq!(answered(&mut lease_keeper, stranger), None);
        let mut later = heartbeat(Some(association), 11);
        later.epoch_seen = Epoch(8);
        assert_eq!(answered(&mut lease_keeper, later), None);
    }

    #[test]
    fn no_condemned_worker_is_kept_alive() {
        let (mut lease_keeper, association) = lease_keeper(WorkerState::MustDie);
        let beat = heartbeat(Some(association), 11);
        assert_eq!(answered(&mut lease_keeper, beat), None);
        let (mut lease_keeper, association) = super::tests::lease_keeper(WorkerState::Healthy);
        let mut dying = heartbeat(Some(association), 11);
        dying.state = WorkerState::MustDie;
        assert_eq!(answered(&mut lease_keeper, dying), None);
    }

    #[test]
    fn ends_are_not_acknowledged() {
        let (mut lease_keeper, association) = lease_keeper(WorkerState::Healthy);
        let statuses = Vec::new();
        let status = ToScheduler::UpdateStatus {
            association,
            statuses,
        };
        assert_eq!(lease_keeper.answer(&status), None);
    }
}
