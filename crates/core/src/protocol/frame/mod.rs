//! Wire format of the protocol: framing and encoding.
//!
//! A connection begins with a [`PREAMBLE`] from each side: a magic word and the protocol version,
//! in a form that never changes, so that two different versions can report that they differ. Then
//! [frames](crate::framing) follow, one message each.
//!
//! Before its first message a worker may present a token, in a frame of its own. A scheduler that
//! does not authorize it sends the reason in the last frame of the connection. Both concern the
//! connection, not the protocol, whose state machines never see them.
//!
//! Secrets of an attempt travel in a frame of their own, too, so that their values are in no message that the state
//! machines see.
//!
//! A heartbeat with a measured use has a frame of its own kind, which workers that do not measure
//! never send.
//!
//! Specs that many attempts share are sent once per message: a million elements of an array have
//! one spec. A worker that holds thousands of attempts can list them all in one frame.

use std::sync::Arc;

use baton_model::ids::{Association, LeaseId, NotifySeq};
use baton_model::limits::{FRAME_BYTES_MAX, PROTOCOL_VERSION};
use baton_model::message::{Heartbeat, HeldAttempt, Launch, ToScheduler, ToWorker};
use baton_model::outcome::Report;
use baton_model::placement::MeasuredUse;
use baton_model::secret::{SecretName, SecretValue};
use baton_model::spec::{Allowance, InstanceSpec};
use baton_model::time::Stamp;
use baton_model::token::Secret;
use baton_model::trace::TraceContext;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::framing::{self, FrameTooLong};

/// The first bytes of each side: a magic word, and the version, little endian.
pub const PREAMBLE: [u8; 6] = {
    let version = PROTOCOL_VERSION.to_le_bytes();
    [b'b', b'a', b't', b'n', version[0], version[1]]
};

/// An error of framing or decoding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("the other side does not speak Baton's protocol")]
    NotBaton,
    #[error(
        "the other side speaks version {0} of the protocol, this one version {PROTOCOL_VERSION}; \
         run the same version of Baton on both"
    )]
    OtherVersion(u16),
    #[error(transparent)]
    TooLong(#[from] FrameTooLong),
    #[error("a frame that is no message: {0}")]
    Malformed(String),
    /// The scheduler does not authorize this worker, for this reason.
    #[error("it refuses this worker: {0}")]
    Refused(String),
}

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
        ToScheduler::RunningTasks { association, held } => encode(
            &OutgoingFrame::RunningTasks(SharedHeld::of(*association, held)),
            out,
        ),
        ToScheduler::ProcessHeartbeat(
            heartbeat @ Heartbeat {
                measured: Some(measured),
                ..
            },
        ) => encode(&OutgoingFrame::MeasuredHeartbeat(heartbeat, *measured), out),
        other => encode(&OutgoingFrame::Other(other), out),
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

/// Appends the token that a worker shows before its first message.
///
/// # Errors
/// Never: a token is short.
pub fn encode_token(secret: &Secret, out: &mut Vec<u8>) -> Result<(), FrameError> {
    encode(&OutgoingFrame::Token(secret.expose()), out)
}

/// Appends why a worker is not let in.
///
/// # Errors
/// If that is longer than a frame may be.
pub fn encode_refusal(reason: &str, out: &mut Vec<u8>) -> Result<(), FrameError> {
    encode(&Worded::Refused(reason), out)
}

/// Takes the token that a worker may begin with: `None` if that cannot be known yet; no token
/// and no bytes if it begins with something else.
///
/// # Errors
/// If it begins with a frame that is meant to be a token, and is none.
pub fn decode_token(read: &[u8]) -> Result<Option<(Option<Secret>, usize)>, FrameError> {
    let Some(length) = framing::announced(read, FRAME_BYTES_MAX)? else {
        return Ok(None);
    };
    match read.get(framing::PREFIX_BYTES) {
        Some(&TOKEN_TAG) => {
            framing::announced(read, TOKEN_FRAME_BYTES_MAX)?;
            match decode::<IncomingFrame>(read)? {
                Some((IncomingFrame::Token(text), taken)) => match Secret::parse(&text) {
                    Some(secret) => Ok(Some((Some(secret), taken))),
                    // It is not repeated: it may be a secret with a slip of the pen.
                    None => Err(FrameError::Malformed("that is no token".to_owned())),
                },
                Some(_) => Ok(Some((None, 0))),
                None => Ok(None),
            }
        }
        Some(_) => Ok(Some((None, 0))),
        // An empty frame is no message either; its reader reports that.
        None if length == 0 => Ok(Some((None, 0))),
        None => Ok(None),
    }
}

/// Takes the first whole message to a scheduler; `None` if there is none yet. With it
/// comes how many bytes it took.
///
/// # Errors
/// If the frame is too long, or no message.
pub fn decode_to_scheduler(read: &[u8]) -> Result<Option<(ToScheduler, usize)>, FrameError> {
    let Some((message, taken)) = decode::<IncomingFrame>(read)? else {
        return Ok(None);
    };
    let message = match message {
        IncomingFrame::Other(message) => message,
        IncomingFrame::RunningTasks(shared) => shared.apart()?,
        IncomingFrame::MeasuredHeartbeat(heartbeat, measured) => {
            ToScheduler::ProcessHeartbeat(Heartbeat {
                measured: Some(measured),
                ..heartbeat
            })
        }
        IncomingFrame::Token(_) => {
            let reason = "a token, which comes before everything else".to_owned();
            return Err(FrameError::Malformed(reason));
        }
    };
    Ok(Some((message, taken)))
}

/// The secrets of an attempt, or the reason why there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretDelivery {
    pub lease: LeaseId,
    pub values: Result<Vec<(SecretName, SecretValue)>, String>,
}

/// What a scheduler sends to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromScheduler {
    Message(ToWorker),
    Secrets(SecretDelivery),
}

/// Appends the secrets of an attempt as a frame.
///
/// # Errors
/// If they are longer than a frame may be.
pub fn encode_secrets(delivery: &SecretDelivery, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let values = delivery.values.as_ref().map_err(String::as_str);
    let values = values.map(|values| {
        let exposed = values.iter().map(|(name, value)| (name, value.expose()));
        exposed.collect()
    });
    encode(&Worded::Secrets(delivery.lease, values), out)
}

/// Takes the first whole frame to a worker, likewise.
///
/// # Errors
/// If the frame is too long, or no message; [`FrameError::Refused`] if it says why the worker is
/// not let in.
pub fn decode_from_scheduler(read: &[u8]) -> Result<Option<(FromScheduler, usize)>, FrameError> {
    let Some((message, taken)) = decode::<Read>(read)? else {
        return Ok(None);
    };
    let message = match message {
        Read::Other(message) => FromScheduler::Message(message),
        Read::RunTask(shared) => FromScheduler::Message(shared.apart()?),
        Read::Refused(reason) => return Err(FrameError::Refused(reason)),
        Read::Secrets(lease, Err(reason)) => FromScheduler::Secrets(SecretDelivery {
            lease,
            values: Err(reason),
        }),
        Read::Secrets(lease, Ok(values)) => {
            let values = values.into_iter().map(|(name, value)| {
                let value = SecretValue::new(value).map_err(FrameError::Malformed)?;
                Ok((name, value))
            });
            let values = Ok(values.collect::<Result<_, FrameError>>()?);
            FromScheduler::Secrets(SecretDelivery { lease, values })
        }
    };
    Ok(Some((message, taken)))
}

/// Takes the first whole message to a worker that never asks for secrets.
///
/// # Errors
/// As [`decode_from_scheduler`], and if they are secrets.
pub fn decode_to_worker(read: &[u8]) -> Result<Option<(ToWorker, usize)>, FrameError> {
    match decode_from_scheduler(read)? {
        None => Ok(None),
        Some((FromScheduler::Message(message), taken)) => Ok(Some((message, taken))),
        Some((FromScheduler::Secrets(_), _)) => {
            let reason = "secrets, which it has not asked for".to_owned();
            Err(FrameError::Malformed(reason))
        }
    }
}

/// The tag of [`OutgoingFrame::Token`] in a frame.
const TOKEN_TAG: u8 = 2;

/// Bytes in a frame that holds a token. It is read before the peer is authenticated.
const TOKEN_FRAME_BYTES_MAX: usize = 256;

/// A message to a scheduler as it is written.
#[derive(Serialize)]
enum OutgoingFrame<'a> {
    RunningTasks(SharedHeld),
    Other(&'a ToScheduler),
    Token(&'a str),
    MeasuredHeartbeat(&'a Heartbeat, MeasuredUse),
}

/// A message to a scheduler as it is read.
#[derive(Deserialize)]
enum IncomingFrame {
    RunningTasks(SharedHeld),
    Other(ToScheduler),
    Token(String),
    MeasuredHeartbeat(Heartbeat, MeasuredUse),
}

/// The attempts that a worker holds, with each spec once.
#[derive(Serialize, Deserialize)]
struct SharedHeld {
    association: Association,
    specs: Vec<Arc<InstanceSpec>>,
    held: Vec<(LeaseId, u32, Option<Report>)>,
}

impl SharedHeld {
    fn of(association: Association, held: &[HeldAttempt]) -> Self {
        let mut specs = Vec::new();
        let held = held.iter().map(|it| {
            let spec = share(&mut specs, &it.spec);
            (it.lease, spec, it.ended.clone())
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
            held.push(HeldAttempt { lease, spec, ended });
        }
        Ok(ToScheduler::RunningTasks {
            association: self.association,
            held,
        })
    }
}

/// The index of a spec among those that are sent. Elements of one array are adjacent; they share
/// their spec in memory, unless they arrived in different messages.
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
    Refused(&'a str),
    Secrets(LeaseId, Result<Vec<(&'a SecretName, &'a [u8])>, &'a str>),
}

/// A message to a worker as it is read.
#[derive(Deserialize)]
enum Read {
    RunTask(Shared),
    Other(ToWorker),
    Refused(String),
    Secrets(LeaseId, Result<Vec<(SecretName, Vec<u8>)>, String>),
}

/// A launch with the index of its spec.
#[derive(Serialize, Deserialize)]
struct SharedLaunch {
    lease: LeaseId,
    spec: u32,
    allowance: Option<Box<Allowance>>,
    trace: Option<TraceContext>,
}

/// `runTask` with each spec once.
#[derive(Serialize, Deserialize)]
struct Shared {
    association: Association,
    seq: NotifySeq,
    stamp: Stamp,
    specs: Vec<Arc<InstanceSpec>>,
    launches: Vec<SharedLaunch>,
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
            shared.launches.push(SharedLaunch {
                lease: launch.lease,
                spec,
                allowance: launch.allowance.clone(),
                trace: launch.trace,
            });
        }
        shared
    }

    fn apart(self) -> Result<ToWorker, FrameError> {
        let mut launches = Vec::with_capacity(self.launches.len());
        for launch in self.launches {
            let spec = shared(&self.specs, launch.spec, launch.lease)?;
            launches.push(Launch {
                lease: launch.lease,
                spec,
                allowance: launch.allowance,
                trace: launch.trace,
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
    framing::append(out, FRAME_BYTES_MAX, |out| {
        *out = postcard::to_extend(message, std::mem::take(out))
            .map_err(|error| FrameError::Malformed(error.to_string()))?;
        Ok(())
    })
}

fn decode<T: DeserializeOwned>(read: &[u8]) -> Result<Option<(T, usize)>, FrameError> {
    let Some((body, taken)) = framing::first(read, FRAME_BYTES_MAX)? else {
        return Ok(None);
    };
    let malformed = |error: postcard::Error| FrameError::Malformed(error.to_string());
    let (message, rest) = postcard::take_from_bytes(body).map_err(malformed)?;
    if !rest.is_empty() {
        let left = format!("{} bytes are left over", rest.len());
        return Err(FrameError::Malformed(left));
    }
    Ok(Some((message, taken)))
}

#[cfg(test)]
mod tests;
