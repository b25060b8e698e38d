//! Messages come out as they went in, and nothing else does any harm.

use super::*;
use baton_model::fact::Holder;
use baton_model::hex::hex;
use baton_model::ids::{
    AttemptId, AttemptNo, BootId, CheckId, Epoch, HostId, Incarnation, IncarnationNo, InstanceId,
    Lineage, SessionId, StoreId, WorkerName,
};
use baton_model::message::{Greeting, HostSize, Status, Tenure};
use baton_model::progress::Progress;
use baton_model::spec::Work;
use baton_model::state::WorkerState;
use baton_model::time::{Millis, Mono, Wall};

const ASSOCIATION: Association = Association {
    store: StoreId(u64::MAX),
    epoch: Epoch::new(3, u32::MAX),
    incarnation: Incarnation {
        lineage: Lineage(u64::MAX),
        number: IncarnationNo(2),
    },
    session: SessionId(9),
};

const CONTEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn launch(instance: u64, spec: &Arc<InstanceSpec>) -> Launch {
    let attempt = AttemptId {
        instance: InstanceId(instance),
        number: AttemptNo(1),
    };
    Launch {
        lease: LeaseId {
            attempt,
            epoch: Epoch(3),
        },
        spec: Arc::clone(spec),
        allowance: (instance == 2).then(Box::default),
        trace: (instance == 2).then(|| CONTEXT.parse().expect("valid")),
    }
}

fn run_task(count: u64) -> ToWorker {
    let one = Arc::new(InstanceSpec {
        work: Work::Command(vec!["x".repeat(1_000)]),
        ..InstanceSpec::default()
    });
    let other = Arc::new(InstanceSpec::default());
    let launches = (0..count).map(|id| launch(id, if id == 5 { &other } else { &one }));
    ToWorker::RunTask {
        association: ASSOCIATION,
        seq: NotifySeq(4),
        stamp: Stamp(Mono(5)),
        launches: launches.collect(),
    }
}

#[test]
fn launches_come_out_as_they_went_in_however_they_are_cut() {
    let message = run_task(9);
    let mut bytes = Vec::new();
    encode_to_worker(&message, &mut bytes).expect("short enough");
    for cut in 0..bytes.len() {
        assert_eq!(decode_to_worker(&bytes[..cut]), Ok(None));
    }
    let read = decode_to_worker(&bytes).expect("well formed");
    assert_eq!(read, Some((message, bytes.len())));
}

#[test]
fn a_shared_spec_is_sent_once() {
    let size = |count| {
        let mut bytes = Vec::new();
        encode_to_worker(&run_task(count), &mut bytes).expect("short enough");
        bytes.len()
    };
    assert!(size(1_000) < size(5) + 20 * 1_000);
}

#[test]
fn a_worker_names_everything_that_it_holds_in_one_frame() {
    let held = |count| {
        let held = (0..count).map(|id| {
            // Each of a message of its own, as after a restart.
            let spec = Arc::new(InstanceSpec {
                work: Work::Command(vec!["x".repeat(100_000)]),
                ..InstanceSpec::default()
            });
            let Launch { lease, spec, .. } = launch(id, &spec);
            let ended = None;
            HeldAttempt { lease, spec, ended }
        });
        ToScheduler::RunningTasks {
            association: ASSOCIATION,
            held: held.collect(),
        }
    };
    let mut bytes = Vec::new();
    encode_to_scheduler(&held(1_000), &mut bytes).expect("short enough");
    assert!(bytes.len() < 200_000);
    let read = decode_to_scheduler(&bytes).expect("well formed");
    assert_eq!(read, Some((held(1_000), bytes.len())));
}

#[test]
fn messages_follow_each_other_in_one_buffer() {
    let ack = ToWorker::StatusAck {
        association: ASSOCIATION,
        leases: Vec::new(),
    };
    let mut bytes = Vec::new();
    encode_to_worker(&ack, &mut bytes).expect("short enough");
    let first = bytes.len();
    encode_to_worker(&run_task(2), &mut bytes).expect("short enough");
    assert_eq!(decode_to_worker(&bytes), Ok(Some((ack, first))));
    let second = decode_to_worker(&bytes[first..]).expect("well formed");
    assert_eq!(second, Some((run_task(2), bytes.len() - first)));
}

#[test]
fn a_token_comes_first_or_not_at_all() {
    let secret = Secret::from_bits([7; 32]);
    let mut bytes = Vec::new();
    encode_token(&secret, &mut bytes).expect("short enough");
    let token = bytes.len();
    let message = ToScheduler::RunningTasks {
        association: ASSOCIATION,
        held: Vec::new(),
    };
    encode_to_scheduler(&message, &mut bytes).expect("short enough");
    for cut in 0..token {
        assert_eq!(decode_token(&bytes[..cut]), Ok(None));
    }
    assert_eq!(decode_token(&bytes), Ok(Some((Some(secret), token))));
    assert_eq!(decode_token(&bytes[token..]), Ok(Some((None, 0))));
    let (read, _) = decode_to_scheduler(&bytes[token..])
        .expect("well formed")
        .expect("whole");
    assert_eq!(read, message);
    let late = decode_to_scheduler(&bytes);
    assert!(matches!(late, Err(FrameError::Malformed(_))));
}

#[test]
fn what_is_no_token_is_refused_and_not_repeated() {
    let mut bytes = Vec::new();
    encode(&OutgoingFrame::Token("baton_slip"), &mut bytes).expect("short enough");
    let error = decode_token(&bytes).expect_err("no token");
    assert!(!error.to_string().contains("slip"), "{error}");
    let long = [&1_000_u32.to_le_bytes()[..], &[TOKEN_TAG]].concat();
    let too_long = FrameTooLong {
        bytes: 1_000,
        bytes_max: TOKEN_FRAME_BYTES_MAX,
    };
    assert_eq!(decode_token(&long), Err(too_long.into()));
}

#[test]
fn a_worker_that_is_not_let_in_reads_why() {
    let mut bytes = Vec::new();
    encode_refusal("no token", &mut bytes).expect("short enough");
    let reason = FrameError::Refused("no token".to_owned());
    assert_eq!(decode_to_worker(&bytes), Err(reason));
}

#[test]
fn what_is_no_message_is_refused() {
    let long = decode_to_scheduler(&u32::MAX.to_le_bytes());
    assert!(matches!(long, Err(FrameError::TooLong(_))));
    let mut bytes = Vec::new();
    encode_to_worker(&run_task(1), &mut bytes).expect("short enough");
    let length = u32::try_from(bytes.len() - 4 + 1).expect("short");
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes.push(0);
    assert!(matches!(
        decode_to_worker(&bytes),
        Err(FrameError::Malformed(_))
    ));
}

#[test]
fn every_byte_may_be_wrong_without_a_panic() {
    let mut bytes = Vec::new();
    encode_to_worker(&run_task(3), &mut bytes).expect("short enough");
    for at in 4..bytes.len() {
        for flip in [1_u8, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            let _ = decode_to_worker(&damaged);
            let _ = decode_to_scheduler(&damaged);
        }
    }
}

#[test]
fn another_version_and_another_protocol_are_told_apart() {
    assert_eq!(check_preamble(PREAMBLE), Ok(()));
    assert_eq!(check_preamble(*b"GET / "), Err(FrameError::NotBaton));
    let [a, b, c, d, _, _] = PREAMBLE;
    assert_eq!(
        check_preamble([a, b, c, d, 0, 9]),
        Err(FrameError::OtherVersion(9 << 8))
    );
}

fn heartbeat(measured: Option<MeasuredUse>) -> ToScheduler {
    ToScheduler::ProcessHeartbeat(Heartbeat {
        version: PROTOCOL_VERSION,
        worker: Holder {
            worker: WorkerName::new("w"),
            incarnation: ASSOCIATION.incarnation,
            host: HostId(1),
            boot: BootId(2),
        },
        executor: None,
        slots: 3,
        offer: Arc::default(),
        association: Some(ASSOCIATION),
        epoch_seen: Epoch(3),
        stamp: Stamp(Mono(4)),
        state: WorkerState::Healthy,
        worker_set: None,
        tenure: Tenure {
            left: Some(Millis(5)),
            leaving: true,
        },
        greeting: Some(Greeting {
            version: "1.2.3".into(),
            wall: Wall(6),
            host: HostSize {
                cpu_milli: 7,
                memory: 8,
            },
            dialled: Some("s:9".into()),
        }),
        measured,
    })
}

#[test]
fn a_heartbeat_carries_the_measured_use_and_one_without_it_is_as_before() {
    let measured = MeasuredUse {
        cpu_milli: 980,
        memory: 1 << 40,
    };
    for message in [heartbeat(Some(measured)), heartbeat(None)] {
        let mut bytes = Vec::new();
        encode_to_scheduler(&message, &mut bytes).expect("short enough");
        let read = decode_to_scheduler(&bytes).expect("well formed");
        assert_eq!(read, Some((message, bytes.len())));
    }
    let mut bytes = Vec::new();
    encode_to_scheduler(&heartbeat(None), &mut bytes).expect("short enough");
    // What a worker that does not measure sends since version 12: frozen.
    let before = "4f00000001000c0177ffffffffffffffffff01020102000300000000000000000001ffffffffffffffff\
                  ff01ffffffff3fffffffffffffffffff010209030402000105010105312e322e330607080103733a39";
    assert_eq!(hex(&bytes), before);
}

#[test]
fn faults_are_further_kinds_and_the_others_are_as_before() {
    let lease = launch(1, &Arc::default()).lease;
    let status = |status| ToScheduler::UpdateStatus {
        association: ASSOCIATION,
        statuses: vec![(lease, status)],
    };
    let check = CheckId(7);
    let report = ToScheduler::HealthReport {
        association: ASSOCIATION,
        check,
        ok: true,
    };
    let fault = ToScheduler::HealthFault {
        association: ASSOCIATION,
        check,
        reason: "full".into(),
    };
    let progress = ToScheduler::Progress {
        association: ASSOCIATION,
        attempts: vec![(lease, Progress::parse("3/4 rows", Wall(5)).expect("a line"))],
    };
    // The kind of the frame, and that of the message: frozen.
    for (message, kind) in [
        (status(Status::WasNotRunning), 1),
        (status(Status::HostFault("full".into())), 1),
        (report, 5),
        (fault, 8),
        (progress, 12),
    ] {
        let mut bytes = Vec::new();
        encode_to_scheduler(&message, &mut bytes).expect("short enough");
        assert_eq!(bytes[4..6], [1, kind], "{message}");
        let read = decode_to_scheduler(&bytes).expect("well formed");
        assert_eq!(read, Some((message, bytes.len())));
    }
}

#[test]
fn secrets_come_out_as_they_went_in_and_a_worker_that_asks_for_none_gets_none() {
    let lease = launch(1, &Arc::default()).lease;
    let name: SecretName = "db".parse().expect("a name");
    let value = SecretValue::new(vec![0, b'x', 255]).expect("a value");
    for values in [Ok(vec![(name, value)]), Err("there is none".to_owned())] {
        let delivery = SecretDelivery { lease, values };
        let mut bytes = Vec::new();
        encode_secrets(&delivery, &mut bytes).expect("short enough");
        for cut in 0..bytes.len() {
            assert_eq!(decode_from_scheduler(&bytes[..cut]), Ok(None));
        }
        let read = decode_from_scheduler(&bytes).expect("well formed");
        assert_eq!(read, Some((FromScheduler::Secrets(delivery), bytes.len())));
        assert!(decode_to_worker(&bytes).is_err());
    }
}

#[test]
fn progress_is_encoded_as_it_was() {
    let lease = launch(1, &Arc::default()).lease;
    let attempts = ["3/4 rows", "words"].map(|line| {
        let progress = Progress::parse(line, Wall(5)).expect("a line");
        (lease, progress)
    });
    let message = ToScheduler::Progress {
        association: ASSOCIATION,
        attempts: attempts.to_vec(),
    };
    let mut bytes = Vec::new();
    encode_to_scheduler(&message, &mut bytes).expect("short enough");
    // Version 12: frozen.
    let before = "37000000010cffffffffffffffffff01ffffffff3fffffffffffffffffff0102090201010301030104\
                  04726f777305010103000005776f72647305";
    assert_eq!(hex(&bytes), before);
    let read = decode_to_scheduler(&bytes).expect("well formed");
    assert_eq!(read, Some((message, bytes.len())));
}
