//! Safety properties of every state, and witnesses that must be reached.

use std::collections::BTreeSet;

use baton_model::ids::LeaseId;
use baton_model::message::{LaunchRefusal, LaunchVerdict, Status, ToScheduler};
use baton_model::outcome::{AttemptEnd, KillCause, LossProof, Outcome, Synthetic};
use baton_model::state::UniversalState;

use super::cluster::Cluster;
use super::explore::Exploration;
use super::network::Message;

/// A predicate on states, with its name.
pub(crate) type Named = (&'static str, fn(&Exploration, &Cluster) -> bool);

/// Safety properties.
pub(crate) const ALWAYS: &[Named] = &[
    ("no two live executions of one instance", |_, cluster| {
        let mut instances = BTreeSet::new();
        let mut alive = cluster.hosts.iter().flat_map(|host| host.alive());
        alive.all(|lease| instances.insert(lease.attempt.instance))
    }),
    (
        "a process starts only under a lease that is open in the store",
        |_, cluster| !cluster.history.started_unleased,
    ),
    ("no lease starts twice", |_, cluster| {
        !cluster.history.started_twice
    }),
    (
        "a lease closed as not running has no process, before or after",
        |_, cluster| {
            cluster.store.closed.iter().all(|(lease, closed)| {
                let denied = matches!(
                    closed.end,
                    AttemptEnd::Synthetic(
                        Synthetic::NeverStarted | Synthetic::WasNotRunning | Synthetic::HostFault
                    )
                );
                !denied || !cluster.history.executions.contains_key(lease)
            })
        },
    ),
    ("an acknowledged end is durable", |_, cluster| {
        !cluster.history.acknowledged_early
    }),
    ("a recorded end is how the process ended", |_, cluster| {
        cluster
            .store
            .closed
            .iter()
            .all(|(lease, closed)| match closed.end {
                AttemptEnd::Real(outcome) => ended_as(cluster, *lease, outcome),
                AttemptEnd::Synthetic(_) => true,
            })
    }),
    (
        "an attempt lost with its worker's life has left no end on record",
        |_, cluster| {
            let lost = AttemptEnd::Synthetic(Synthetic::WorkerLost(LossProof::NewerIncarnation));
            cluster
                .store
                .closed
                .iter()
                .filter(|(_, closed)| closed.end == lost)
                .all(|(lease, _)| {
                    let end = cluster
                        .history
                        .executions
                        .get(lease)
                        .and_then(|(_, end)| *end);
                    end.is_none()
                })
        },
    ),
];

/// An instance is done.
pub(crate) const DONE: Named = ("an instance is done", |_, cluster| {
    cluster
        .store
        .ledger
        .instances()
        .any(|(_, it)| it.state == UniversalState::Done)
});

/// All instances are done.
pub(crate) const ALL_DONE: Named = ("every instance is done", |_, cluster| {
    cluster
        .store
        .ledger
        .instances()
        .all(|(_, it)| it.state == UniversalState::Done)
});

/// Lost on one worker, restarted on the other.
pub(crate) const RETRIED_ELSEWHERE: Named = (
    "a lost attempt is tried again on the other worker",
    |_, cluster| {
        cluster.store.closed.iter().any(|(lost, closed)| {
            let executions = &cluster.history.executions;
            is_loss(closed.end)
                && executions.get(lost).is_some_and(|(first, _)| {
                    executions.iter().any(|(lease, (host, _))| {
                        lease.attempt.instance == lost.attempt.instance && host != first
                    })
                })
        })
    },
);

/// The sequence number rejected a stale launch.
pub(crate) const STALE_SEQUENCE: Named = (
    "a stale runTask is refused by its sequence",
    |_, cluster| was_refused(cluster, LaunchRefusal::StaleSequence),
);

/// A duplicate launch of an ended attempt was refused.
pub(crate) const COPY_SUPPRESSED: Named = ("a copy of a runTask is refused", |_, cluster| {
    was_refused(cluster, LaunchRefusal::AlreadyOver)
});

/// A worker reported an attempt as not running, and the store recorded it.
pub(crate) const WAS_NOT_RUNNING: Named =
    ("a notify is answered with was not running", |_, cluster| {
        any_status(cluster, |lease, status| {
            let closed = cluster.store.closed.get(&lease).map(|closed| closed.end);
            *status == Status::WasNotRunning
                && closed == Some(AttemptEnd::Synthetic(Synthetic::WasNotRunning))
        })
    });

/// One leader leased it, a later one recorded its success.
pub(crate) const OUTLIVED_LEADER: Named = (
    "an attempt outlives its leader and finishes under the next",
    |_, cluster| {
        cluster.store.closed.iter().any(|(lease, closed)| {
            lease.epoch < closed.by && closed.end == AttemptEnd::Real(Outcome::Exited(0))
        })
    },
);

/// Running when its agent was killed, and recorded as done later.
pub(crate) const READOPTED: Named = (
    "a restarted agent takes up what runs, and it finishes",
    |_, cluster| {
        cluster
            .hosts
            .iter()
            .flat_map(|host| &host.readopted)
            .any(|lease| {
                let closed = cluster.store.closed.get(lease).map(|closed| closed.end);
                closed == Some(AttemptEnd::Real(Outcome::Exited(0)))
            })
    },
);

/// A later incarnation proves the end of an earlier one.
pub(crate) const NEWER_INCARNATION: Named =
    ("an attempt is lost with its worker's life", |_, cluster| {
        any_closed(
            cluster,
            AttemptEnd::Synthetic(Synthetic::WorkerLost(LossProof::NewerIncarnation)),
        )
    });

/// An end survives its incarnation.
pub(crate) const TOLD_BY_NEXT_LIFE: Named = (
    "an end is told by the worker's next life",
    |_, cluster| {
        cluster.network.iter().any(|message| match &**message {
        Message::ToScheduler(ToScheduler::UpdateStatus { association, statuses }) => {
            statuses.iter().any(|(lease, status)| {
                let recorded = cluster.store.closed.get(lease).map(|closed| closed.end);
                association.incarnation.number.0 > 1
                    && matches!(status, Status::Ended(end) if recorded == Some(AttemptEnd::Real(end.outcome)))
            })
        }
        _ => false,
    })
    },
);

/// Timed mode: time alone closed a lease.
pub(crate) const RAN_OUT: Named = ("a lease runs out", |_, cluster| {
    any_closed(
        cluster,
        AttemptEnd::Synthetic(Synthetic::WorkerLost(LossProof::LeaseRanOut)),
    )
});

/// A kill by the dead-man timer was reported in time.
pub(crate) const KILLED_BY_GUARD: Named =
    ("the dead-man timer's kill is recorded", |_, cluster| {
        any_closed(
            cluster,
            AttemptEnd::Real(Outcome::Killed(KillCause::LeaseLapsed)),
        )
    });

/// Strict mode: the lease expired, and the result still counts.
pub(crate) const OUTLIVED_LEASE: Named = (
    "an attempt outlives its lease, and its result counts",
    |_, cluster| {
        cluster.faults.leases_out > 0
            && cluster.store.closed.iter().any(|(lease, closed)| {
                closed.end == AttemptEnd::Real(Outcome::Exited(0))
                    && cluster
                        .history
                        .executions
                        .get(lease)
                        .is_some_and(|(host, _)| *host == 0)
            })
    },
);

fn ended_as(cluster: &Cluster, lease: LeaseId, outcome: Outcome) -> bool {
    let end = cluster
        .history
        .executions
        .get(&lease)
        .and_then(|(_, end)| *end);
    end == Some(outcome)
}

fn any_closed(cluster: &Cluster, end: AttemptEnd) -> bool {
    cluster
        .store
        .closed
        .values()
        .any(|closed| closed.end == end)
}

const fn is_loss(end: AttemptEnd) -> bool {
    match end {
        AttemptEnd::Real(outcome) => outcome.is_loss(),
        AttemptEnd::Synthetic(synthetic) => matches!(synthetic, Synthetic::WorkerLost(_)),
    }
}

fn was_refused(cluster: &Cluster, reason: LaunchRefusal) -> bool {
    cluster.network.iter().any(|message| match &**message {
        Message::ToScheduler(ToScheduler::RunTaskReply { verdicts, .. }) => verdicts
            .iter()
            .any(|(_, verdict)| *verdict == LaunchVerdict::Refused(reason)),
        _ => false,
    })
}

fn any_status(cluster: &Cluster, wanted: impl Fn(LeaseId, &Status) -> bool) -> bool {
    cluster.network.iter().any(|message| match &**message {
        Message::ToScheduler(ToScheduler::UpdateStatus { statuses, .. }) => statuses
            .iter()
            .any(|(lease, status)| wanted(*lease, status)),
        _ => false,
    })
}
