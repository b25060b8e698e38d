//! The words of the protocol as bytes.
//!
//! A connection begins with a [`PREAMBLE`] from each side: who speaks, and in which
//! version, in a form that never changes, so that two versions can tell each other that
//! they do not understand each other. Then frames: a length of four bytes, little endian,
//! and that many bytes of one message.
//!
//! What many attempts share is sent once per message: a million elements of an array have
//! one spec. A worker that holds thousands of them can name them all in one frame.

use std::fmt;
use std::sync::Arc;

use baton_model::ids::{Association, LeaseId, NotifySeq};
use baton_model::limits::{FRAME_BYTES_MAX, PROTOCOL_VERSION};
use baton_model::message::{Held, Launch, ToScheduler, ToWorker};
use baton_model::outcome::Report;
use baton_model::spec::{Allowance, InstanceSpec};
use baton_model::time::Stamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What each side sends first: a word, and the version, little endian.
pub const PREAMBLE: [u8; 6] = {
    let version = PROTOCOL_VERSION.to_le_bytes();
    [b'b', b'a', b't', b'n', version[0], version[1]]
};

/// Why bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The other side is not Baton at all.
    NotBaton,
    /// The other side speaks another version.
    OtherVersion(u16),
    /// A frame is longer than allowed.
    TooLong(usize),
    /// A frame holds something else than one message.
    Malformed(String),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBaton => f.write_str("the other side does not speak Baton's protocol"),
            Self::OtherVersion(version) => write!(
                f,
                "the other side speaks version {version} of the protocol, this one version \
                 {PROTOCOL_VERSION}; run the same version of Baton on both"
            ),
            Self::TooLong(bytes) => {
                write!(f, "a frame of {bytes} bytes; the most is {FRAME_BYTES_MAX}")
            }
            Self::Malformed(why) => write!(f, "a frame that is no message: {why}"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Checks the preamble of the other side.
///
/// # Errors
/// If it is not Baton, or another version.
pub fn check_preamble(bytes: [u8; 6]) -> Result<(), FrameError> {
    let (word, version) = bytes.split_at(4);
    if word != &PREAMBLE[..4] {
        return Err(FrameError::NotBaton);
    }
    match u16::from_le_bytes([version[0], version[1]]) {
        PROTOCOL_VERSION => Ok(()),
        other => Err(FrameError::OtherVersion(other)),
    }
}

/// Appends a message to a scheduler as a frame.
///
/// # Errors
/// If it is longer than a frame may be.
pub fn encode_to_scheduler(message: &ToScheduler, out: &mut Vec<u8>) -> Result<(), FrameError> {
    match message {
        ToScheduler::RunningTasks { association, held } => {
            encode(&Said::RunningTasks(SharedHeld::of(*association, held)), out)
        }
        other => encode(&Said::Other(other), out),
    }
}

/// Appends a message to a worker as a frame.
///
/// # Errors
/// If it is longer than a frame may be.
pub fn encode_to_worker(message: &ToWorker, out: &mut Vec<u8>) -> Result<(), FrameError> {
    match message {
        ToWorker::RunTask {
            association,
            seq,
            stamp,
            launches,
        } => encode(
            &Worded::RunTask(Shared::of(*association, *seq, *stamp, launches)),
            out,
        ),
        other => encode(&Worded::Other(other), out),
    }
}

/// Takes the first whole message to a scheduler; `None` if there is none yet. With it
/// comes how many bytes it took.
///
/// # Errors
/// If the frame is too long, or no message.
pub fn decode_to_scheduler(read: &[u8]) -> Result<Option<(ToScheduler, usize)>, FrameError> {
    let Some((message, taken)) = decode::<Heard>(read)? else {
        return Ok(None);
    };
    let message = match message {
        Heard::Other(message) => message,
        Heard::RunningTasks(shared) => shared.apart()?,
    };
    Ok(Some((message, taken)))
}

/// Takes the first whole message to a worker, likewise.
///
/// # Errors
/// If the frame is too long, or no message.
pub fn decode_to_worker(read: &[u8]) -> Result<Option<(ToWorker, usize)>, FrameError> {
    let Some((message, taken)) = decode::<Read>(read)? else {
        return Ok(None);
    };
    let message = match message {
        Read::Other(message) => message,
        Read::RunTask(shared) => shared.apart()?,
    };
    Ok(Some((message, taken)))
}

/// A message to a scheduler as it is written.
#[derive(Serialize)]
enum Said<'a> {
    RunningTasks(SharedHeld),
    Other(&'a ToScheduler),
}

/// A message to a scheduler as it is read.
#[derive(Deserialize)]
enum Heard {
    RunningTasks(SharedHeld),
    Other(ToScheduler),
}

/// What a worker holds, with each spec once.
#[derive(Serialize, Deserialize)]
struct SharedHeld {
    association: Association,
    specs: Vec<Arc<InstanceSpec>>,
    held: Vec<(LeaseId, u32, Option<Report>)>,
}

impl SharedHeld {
    fn of(association: Association, held: &[Held]) -> Self {
        let mut specs = Vec::new();
        let held = held.iter().map(|it| {
            let spec = share(&mut specs, &it.spec);
            (it.lease, spec, it.ended)
        });
        let held = held.collect();
        Self {
            association,
            specs,
            held,
        }
    }

    fn apart(self) -> Result<ToScheduler, FrameError> {
        let mut held = Vec::with_capacity(self.held.len());
        for (lease, spec, ended) in self.held {
            let spec = shared(&self.specs, spec, lease)?;
            held.push(Held { lease, spec, ended });
        }
        Ok(ToScheduler::RunningTasks {
            association: self.association,
            held,
        })
    }
}

/// The place of a spec among those that are sent. Elements of one array follow each other;
/// they share their spec in memory, unless they came in different messages.
fn share(specs: &mut Vec<Arc<InstanceSpec>>, spec: &Arc<InstanceSpec>) -> u32 {
    let same = |last: &Arc<InstanceSpec>| Arc::ptr_eq(last, spec) || last == spec;
    if !specs.last().is_some_and(same) {
        specs.push(Arc::clone(spec));
    }
    u32::try_from(specs.len() - 1).unwrap_or(u32::MAX)
}

/// The spec at a place.
fn shared(
    specs: &[Arc<InstanceSpec>],
    at: u32,
    lease: LeaseId,
) -> Result<Arc<InstanceSpec>, FrameError> {
    let spec = usize::try_from(at).ok().and_then(|at| specs.get(at));
    let spec = spec.map(Arc::clone);
    spec.ok_or_else(|| FrameError::Malformed(format!("{lease} names no spec")))
}

/// A message to a worker as it is written.
#[derive(Serialize)]
enum Worded<'a> {
    RunTask(Shared),
    Other(&'a ToWorker),
}

/// A message to a worker as it is read.
#[derive(Deserialize)]
enum Read {
    RunTask(Shared),
    Other(ToWorker),
}

/// `runTask` with each spec once.
#[derive(Serialize, Deserialize)]
struct Shared {
    association: Association,
    seq: NotifySeq,
    stamp: Stamp,
    specs: Vec<Arc<InstanceSpec>>,
    launches: Vec<(LeaseId, u32, Option<Box<Allowance>>)>,
}

impl Shared {
    fn of(association: Association, seq: NotifySeq, stamp: Stamp, launches: &[Launch]) -> Self {
        let mut shared = Self {
            association,
            seq,
            stamp,
            specs: Vec::new(),
            launches: Vec::with_capacity(launches.len()),
        };
        for launch in launches {
            let spec = share(&mut shared.specs, &launch.spec);
            let allowance = launch.allowance.clone();
            shared.launches.push((launch.lease, spec, allowance));
        }
        shared
    }

    fn apart(self) -> Result<ToWorker, FrameError> {
        let mut launches = Vec::with_capacity(self.launches.len());
        for (lease, spec, allowance) in self.launches {
            let spec = shared(&self.specs, spec, lease)?;
            launches.push(Launch {
                lease,
                spec,
                allowance,
            });
        }
        Ok(ToWorker::RunTask {
            association: self.association,
            seq: self.seq,
            stamp: self.stamp,
            launches,
        })
    }
}

fn encode(message: &impl Serialize, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let body = std::mem::take(out);
    *out = postcard::to_extend(message, body)
        .map_err(|error| FrameError::Malformed(error.to_string()))?;
    let length = out.len() - start - 4;
    if length > FRAME_BYTES_MAX {
        out.truncate(start);
        return Err(FrameError::TooLong(length));
    }
    let prefix = u32::try_from(length).map_err(|_| FrameError::TooLong(length))?;
    out[start..start + 4].copy_from_slice(&prefix.to_le_bytes());
    Ok(())
}

fn decode<T: DeserializeOwned>(read: &[u8]) -> Result<Option<(T, usize)>, FrameError> {
    let Some(prefix) = read.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*prefix) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::TooLong(length));
    }
    let Some(body) = read.get(4..4 + length) else {
        return Ok(None);
    };
    let malformed = |error: postcard::Error| FrameError::Malformed(error.to_string());
    let (message, rest) = postcard::take_from_bytes(body).map_err(malformed)?;
    if !rest.is_empty() {
        let left = format!("{} bytes are left over", rest.len());
        return Err(FrameError::Malformed(left));
    }
    Ok(Some((message, 4 + length)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::ids::SessionId;
    use baton_model::ids::{AttemptId, AttemptNo, Epoch, Incarnation, InstanceId, Life, Lineage};
    use baton_model::spec::Work;
    use baton_model::time::Mono;

    const ASSOCIATION: Association = Association {
        epoch: Epoch(3),
        incarnation: Incarnation {
            lineage: Lineage(u64::MAX),
            life: Life(2),
        },
        session: SessionId(9),
    };

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
                Held { lease, spec, ended }
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
    fn what_is_no_message_is_refused() {
        let long = u32::MAX.to_le_bytes();
        assert_eq!(
            decode_to_scheduler(&long),
            Err(FrameError::TooLong(u32::MAX as usize))
        );
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
}
