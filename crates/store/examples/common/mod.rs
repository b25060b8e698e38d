//! Facts of attempts, as a worker makes them.

use baton_model::fact::{Fact, Holder, Verdict};
use baton_model::ids::{
    AttemptId, AttemptNo, BootId, Epoch, HostId, Incarnation, IncarnationNo, InstanceId, LeaseId,
    Lineage, WorkerName,
};
use baton_model::outcome::{AttemptEnd, AttemptStats, Outcome};
use baton_model::time::{Millis, Wall};

/// The first attempt of an instance.
fn lease(epoch: Epoch, id: u64) -> LeaseId {
    LeaseId {
        attempt: AttemptId {
            instance: InstanceId(id),
            number: AttemptNo(1),
        },
        epoch,
    }
}

pub(crate) fn granted(epoch: Epoch, id: u64) -> Fact {
    Fact::LeaseGranted {
        lease: lease(epoch, id),
        holder: Holder {
            worker: WorkerName::new("worker-17"),
            incarnation: Incarnation {
                lineage: Lineage(u64::MAX / 3),
                number: IncarnationNo(1),
            },
            host: HostId(u64::MAX / 5),
            boot: BootId(u64::MAX / 7),
        },
        executor: None,
        others: Vec::new(),
    }
}

/// The attempt starts and ends.
pub(crate) fn done(epoch: Epoch, id: u64) -> [Fact; 2] {
    let lease = lease(epoch, id);
    let ended = Fact::AttemptEnded {
        lease,
        end: AttemptEnd::Real(Outcome::Exited(0)),
        verdict: Verdict::Done,
        stats: Some(AttemptStats {
            started: Wall(1_700_000_000_000),
            ended: Wall(1_700_000_001_000),
            elapsed: Millis(1_000),
            cpu: Millis(900),
            memory_peak: 10_000_000,
        }),
        next_attempt: None,
        outputs: None,
        stderr_tail: None,
        progress: None,
    };
    [Fact::AttemptConfirmed { lease }, ended]
}
