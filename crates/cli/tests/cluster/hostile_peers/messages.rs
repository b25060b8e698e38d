//! Hostile input on the worker port.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::protocol::frame::{PREAMBLE, encode_to_scheduler};
use baton_model::fact::Holder;
use baton_model::ids::{
    Association, AttemptId, AttemptNo, BootId, CheckId, Epoch, HostId, Incarnation, IncarnationNo,
    InstanceId, LeaseId, Lineage, NotifySeq, SessionId, StoreId, WorkerName,
};
use baton_model::limits::PROTOCOL_VERSION;
use baton_model::message::{Heartbeat, Status, Tenure, ToScheduler};
use baton_model::outcome::Outcome;
use baton_model::placement::{Capacity, Offer};
use baton_model::state::WorkerState;
use baton_model::time::{Mono, Stamp};
use baton_testing::Rng;

fn heartbeat() -> Heartbeat {
    Heartbeat {
        version: PROTOCOL_VERSION,
        worker: Holder {
            worker: WorkerName::new("stranger"),
            incarnation: Incarnation {
                lineage: Lineage(77),
                number: IncarnationNo(1),
            },
            host: HostId(1),
            boot: BootId(1),
        },
        executor: None,
        slots: 4,
        offer: Arc::new(Offer {
            open: true,
            ..Offer::default()
        }),
        association: None,
        epoch_seen: Epoch(0),
        stamp: Stamp(Mono(1)),
        state: WorkerState::Healthy,
        worker_set: None,
        tenure: Tenure::default(),
        greeting: None,
        measured: None,
    }
}

/// Heartbeats with one value that no worker would send, each from another peer.
pub(crate) fn absurd() -> Vec<(&'static str, Vec<ToScheduler>)> {
    let most = u64::MAX;
    let mut all = Vec::new();
    let mut lineage = 1_000;
    let mut add = |what, change: &dyn Fn(&mut Heartbeat)| {
        lineage += 1;
        let mut heartbeat = heartbeat();
        heartbeat.worker.worker = WorkerName::new(what);
        heartbeat.worker.incarnation.lineage = Lineage(lineage);
        change(&mut heartbeat);
        let again = heartbeat.clone();
        let both = [heartbeat, again].map(ToScheduler::ProcessHeartbeat);
        all.push((what, both.to_vec()));
    };
    add("another version", &|it| it.version = u16::MAX);
    add("no name", &|it| it.worker.worker = WorkerName::new(""));
    add("a long name", &|it| {
        it.worker.worker = WorkerName::new(&"x".repeat(100_000));
    });
    add("life 0", &|it| {
        it.worker.incarnation.number = IncarnationNo(0)
    });
    add("the last life", &|it| {
        it.worker.incarnation.number = IncarnationNo(most)
    });
    add("no slots", &|it| it.slots = 0);
    add("all slots", &|it| it.slots = u32::MAX);
    add("the last stamp", &|it| it.stamp = Stamp(Mono(most)));
    add("an epoch far away", &|it| it.epoch_seen = Epoch(most));
    add("an epoch nearby", &|it| it.epoch_seen = Epoch(20));
    add("must die", &|it| it.state = WorkerState::MustDie);
    add("everything there is", &|it| {
        it.offer = Arc::new(Offer {
            capacity: Capacity {
                cpu_milli: most,
                memory: most,
                disk: most,
                gpu: baton_model::device::DeviceAmount::from_milli(u64::MAX),
                named: BTreeMap::from([("licence".to_owned(), most)]),
            },
            labels: (0..10_000)
                .map(|it| (it.to_string(), it.to_string()))
                .collect(),
            devices: BTreeMap::from([("gpu".to_owned(), vec![String::new(); 10_000])]),
            core_nodes: vec![u32::MAX; 10_000],
            open: true,
        });
    });
    add("an association of its own", &|it| {
        it.association = Some(association(it.worker.incarnation, Epoch(most)));
    });
    all
}

fn association(incarnation: Incarnation, epoch: Epoch) -> Association {
    Association {
        store: StoreId(u64::MAX),
        epoch,
        incarnation,
        session: SessionId(u64::MAX),
    }
}

/// Messages that answer nothing, from a peer with a seat.
pub(crate) fn nonsense_of_the_seated() -> Vec<(&'static str, Vec<ToScheduler>)> {
    let heartbeat = heartbeat();
    let incarnation = heartbeat.worker.incarnation;
    let lease = LeaseId {
        attempt: AttemptId {
            instance: InstanceId(u64::MAX),
            number: AttemptNo(u32::MAX),
        },
        epoch: Epoch(u64::MAX),
    };
    let mut all = Vec::new();
    for epoch in [0, 1, 2, u64::MAX] {
        let association = association(incarnation, Epoch(epoch));
        let messages = [
            ToScheduler::UpdateStatus {
                association,
                statuses: vec![(lease, Status::Ended(Outcome::Exited(0).into())); 5_000],
            },
            ToScheduler::RunningTasks {
                association,
                held: Vec::new(),
            },
            ToScheduler::NotifyReply {
                association,
                seq: NotifySeq(u64::MAX),
                held: vec![lease],
            },
            ToScheduler::HealthReport {
                association,
                check: CheckId(u64::MAX),
                ok: true,
            },
        ];
        for message in messages {
            let first = ToScheduler::ProcessHeartbeat(heartbeat.clone());
            all.push(("nonsense of the seated", vec![first, message]));
        }
    }
    all
}

/// The input of one hostile peer on the worker port.
pub(crate) fn stranger(rng: &mut Rng, round: u64) -> Vec<u8> {
    let mut bytes = PREAMBLE.to_vec();
    let some = usize::try_from(rng.below(2_000)).expect("small");
    match round % 6 {
        0 => return rng.bytes(some),
        // A frame of random bytes.
        1 => {
            bytes.extend(u32::try_from(some).expect("small").to_le_bytes());
            bytes.extend(rng.bytes(some));
        }
        // A heartbeat with some bytes changed.
        2 => {
            let start = bytes.len();
            let mut told = heartbeat();
            told.worker.incarnation.lineage = Lineage(10_000 + round);
            encode_to_scheduler(&ToScheduler::ProcessHeartbeat(told), &mut bytes).expect("short");
            change(rng, &mut bytes[start..]);
        }
        // Another message with some bytes changed, from a peer with a seat.
        3 => {
            let mut all = nonsense_of_the_seated();
            let which = usize::try_from(rng.below(all.len() as u64)).expect("small");
            let (_, messages) = all.swap_remove(which);
            encode_to_scheduler(&messages[0], &mut bytes).expect("short");
            let start = bytes.len();
            encode_to_scheduler(&messages[1], &mut bytes).expect("short");
            change(rng, &mut bytes[start..]);
        }
        // An excessive length, before and after a heartbeat.
        4 => {
            let mut told = heartbeat();
            told.worker.incarnation.lineage = Lineage(10_000 + round);
            if rng.below(2) == 0 {
                encode_to_scheduler(&ToScheduler::ProcessHeartbeat(told), &mut bytes)
                    .expect("short");
            }
            let length = u32::try_from(rng.below(1 << 32)).expect("it fits");
            bytes.extend(length.to_le_bytes());
            bytes.extend(rng.bytes(some));
        }
        // Half of a frame.
        _ => {
            bytes.extend(1_000_000_u32.to_le_bytes());
            bytes.extend(rng.bytes(some));
        }
    }
    bytes
}

/// Changes some bytes.
fn change(rng: &mut Rng, bytes: &mut [u8]) {
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len() as u64);
        bytes[usize::try_from(at).expect("small")] = rng.bytes(1)[0];
    }
}
