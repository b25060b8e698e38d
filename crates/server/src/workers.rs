//! The port of the workers: bytes in, messages to the driver, frames out.
//!
//! Nobody is trusted: what a peer costs is bounded by what it has really sent, its frames
//! stay small until it has said who it is, and whoever sends something else than the
//! protocol is cut off. Where tokens are demanded, a worker shows one before anything else; one
//! that shows none, or a wrong one, is told so, and one whose token is revoked is cut off.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_core::protocol::frame::{
    FrameError, PREAMBLE, check_preamble, decode_to_scheduler, decode_token, encode_refusal,
};
use baton_model::message::ToScheduler;
use baton_model::token::{Role, Secret};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::access::Access;
use crate::clock;
use crate::driver::links::{Link, LinkId};
use crate::driver::mail::{Inbox, Mail};
use crate::ends;
use crate::limits::{
    FIRST_FRAME_BYTES_MAX, HEARTBEAT_WAIT, PREAMBLE_WAIT, READ_BYTES, REFUSAL_WAIT,
    REFUSALS_LOGGED, UNREAD_INPUT_BYTES_MAX, WORKER_CONNECTIONS_MAX,
};

/// Accepts workers until the server ends.
pub(crate) async fn listen(
    listener: TcpListener,
    inbox: Inbox,
    door: Option<Access>,
    mut ending: watch::Receiver<bool>,
) {
    let door = door.map(|access| {
        Arc::new(Door {
            access,
            refusals: Seldom::new(REFUSALS_LOGGED),
        })
    });
    let room = Arc::new(Semaphore::new(WORKER_CONNECTIONS_MAX));
    let mut last = 0;
    loop {
        let accepted = tokio::select! {
            () = ends(&mut ending) => return,
            accepted = accept(&listener) => accepted,
        };
        let Some((stream, peer)) = accepted else {
            continue;
        };
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
            tracing::warn!("{peer} is turned away: {WORKER_CONNECTIONS_MAX} workers are connected");
            continue;
        };
        last += 1;
        let (inbox, door) = (inbox.clone(), door.clone());
        let mut ending = ending.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = ends(&mut ending) => {}
                () = serve(stream, peer, LinkId(last), inbox, door.as_deref()) => {}
            }
            drop(place);
        });
    }
}

/// The next connection. When there are no descriptors left, a pause lets some be closed.
pub(crate) async fn accept(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            tracing::warn!("cannot accept a connection: {error}");
            sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

/// Who decides whether a worker is let in.
struct Door {
    access: Access,
    refusals: Seldom,
}

async fn serve(stream: TcpStream, peer: SocketAddr, id: LinkId, inbox: Inbox, door: Option<&Door>) {
    if let Err(error) = stream.set_nodelay(true) {
        // It only makes answers slower.
        tracing::debug!("{peer}: {error}");
    }
    let (mut reader, mut writer) = stream.into_split();
    let greeted = timeout(PREAMBLE_WAIT, greet(&mut reader, &mut writer)).await;
    match greeted {
        Ok(Ok(())) => {}
        Ok(Err(why)) => return tracing::info!("{peer} is cut off: {why}"),
        Err(_) => return tracing::info!("{peer} is cut off: it does not introduce itself"),
    }
    let mut input = Input::default();
    let secret = match door {
        Some(door) => match admit(&mut reader, &mut input, door).await {
            Ok(secret) => Some((door, secret)),
            Err(why) => {
                if door.refusals.may_say() {
                    tracing::warn!("the worker at {peer} is refused: {why}");
                }
                return refuse(reader, writer, &why).await;
            }
        },
        None => None,
    };
    let (out, frames) = mpsc::unbounded_channel();
    let unread = Arc::new(AtomicUsize::new(0));
    let link = Link {
        out,
        unread: Arc::clone(&unread),
    };
    inbox.put(Mail::Opened(id, link));
    let why = tokio::select! {
        why = read(reader, input, id, &inbox) => why,
        why = write(writer, frames, &unread) => why,
        why = until_denied(secret) => Some(why),
    };
    if let Some(why) = why {
        tracing::info!("{peer} is cut off: {why}");
    }
    inbox.put(Mail::Closed(id));
}

async fn greet(reader: &mut OwnedReadHalf, writer: &mut OwnedWriteHalf) -> Result<(), String> {
    let sent = writer.write_all(&PREAMBLE).await;
    sent.map_err(|error| error.to_string())?;
    let mut preamble = PREAMBLE;
    let read = reader.read_exact(&mut preamble).await;
    read.map_err(|error| error.to_string())?;
    check_preamble(preamble).map_err(|error| error.to_string())
}

/// Lets a worker in that shows a good token; what it has said behind that stays in `input`.
async fn admit(
    reader: &mut OwnedReadHalf,
    input: &mut Input,
    door: &Door,
) -> Result<Secret, String> {
    const NONE: &str = "it shows no token; give it one with --token-file or BATON_TOKEN, made by \
                        `baton token create --role worker`";
    let opening = timeout(PREAMBLE_WAIT, opening(reader, input)).await;
    let secret = opening.map_err(|_| NONE.to_owned())??;
    let secret = secret.ok_or_else(|| NONE.to_owned())?;
    let caller = door.access.caller(&secret, clock::now().wall);
    let caller = caller.map_err(|denied| denied.to_string())?;
    match caller.role.covers(Role::Worker) {
        true => Ok(secret),
        false => Err(format!(
            "its token has the role {}, and a worker needs the role worker",
            caller.role
        )),
    }
}

/// The token that a worker begins with, if it begins with one.
async fn opening(reader: &mut OwnedReadHalf, input: &mut Input) -> Result<Option<Secret>, String> {
    loop {
        if let Some(secret) = input.opening().map_err(|error| error.to_string())? {
            return Ok(secret);
        }
        input.bytes.reserve(READ_BYTES);
        match reader.read_buf(&mut input.bytes).await {
            Ok(0) => return Err("it has closed the connection".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Tells a worker why it is not let in. What it has sent meanwhile is read and dropped:
/// otherwise the kernel might drop our words instead.
async fn refuse(mut reader: OwnedReadHalf, mut writer: OwnedWriteHalf, why: &str) {
    let mut words = Vec::new();
    if let Err(error) = encode_refusal(why, &mut words) {
        return tracing::error!("a refusal cannot be said: {error}");
    }
    let farewell = async {
        writer.write_all(&words).await?;
        writer.shutdown().await?;
        let mut dropped = vec![0; READ_BYTES];
        while reader.read(&mut dropped).await? > 0 {}
        Ok::<(), std::io::Error>(())
    };
    // If it does not want to know, it need not.
    let _ = timeout(REFUSAL_WAIT, farewell).await;
}

/// Resolves when a worker's token is not good any longer, if it had to show one.
async fn until_denied(secret: Option<(&Door, Secret)>) -> String {
    match secret {
        Some((door, secret)) => door.access.until_denied(&secret).await.to_string(),
        None => std::future::pending().await,
    }
}

/// Reads frames until the peer is gone, or why it is not listened to any longer.
async fn read(
    mut reader: OwnedReadHalf,
    mut input: Input,
    id: LinkId,
    inbox: &Inbox,
) -> Option<String> {
    let credit = Arc::new(Semaphore::new(UNREAD_INPUT_BYTES_MAX));
    let mut heartbeat_by = Instant::now() + HEARTBEAT_WAIT;
    loop {
        // Whatever came with a token is there already.
        loop {
            match input.take() {
                Ok(Some((message, bytes))) => {
                    if matches!(message, ToScheduler::ProcessHeartbeat(_)) {
                        heartbeat_by = Instant::now() + HEARTBEAT_WAIT;
                    }
                    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                    // A semaphore that nobody closes gives permits.
                    let permit = Arc::clone(&credit).acquire_many_owned(bytes).await.ok()?;
                    inbox.put(Mail::Message(id, Box::new(message), permit));
                }
                Ok(None) => break,
                Err(error) => return Some(error.to_string()),
            }
        }
        input.compact();
        input.bytes.reserve(READ_BYTES);
        match timeout_at(heartbeat_by, reader.read_buf(&mut input.bytes)).await {
            Ok(Ok(0)) => return None,
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Some(error.to_string()),
            Err(_) => return Some("no heartbeat for too long".to_owned()),
        }
    }
}

/// Bytes of one peer that are no whole frame yet.
#[derive(Debug, Default)]
struct Input {
    bytes: Vec<u8>,
    taken: usize,
    /// It is known whether they began with a token.
    begun: bool,
    introduced: bool,
}

impl Input {
    /// The next message, and how many bytes it took.
    fn take(&mut self) -> Result<Option<(ToScheduler, usize)>, FrameError> {
        // Where nobody demands a token, one that is shown all the same is passed over.
        if !self.begun && self.opening()?.is_none() {
            return Ok(None);
        }
        self.check_length()?;
        let Some((message, bytes)) = decode_to_scheduler(&self.bytes[self.taken..])? else {
            return Ok(None);
        };
        self.taken += bytes;
        self.introduced |= matches!(message, ToScheduler::ProcessHeartbeat(_));
        Ok(Some((message, bytes)))
    }

    /// The token that they begin with, or that they begin with none, as soon as that is
    /// known.
    fn opening(&mut self) -> Result<Option<Option<Secret>>, FrameError> {
        self.check_length()?;
        let Some((secret, bytes)) = decode_token(&self.bytes[self.taken..])? else {
            return Ok(None);
        };
        self.taken += bytes;
        self.begun = true;
        Ok(Some(secret))
    }

    fn check_length(&self) -> Result<(), FrameError> {
        let prefix = self.bytes[self.taken..].first_chunk::<4>();
        let length = prefix.map_or(0, |prefix| u32::from_le_bytes(*prefix) as usize);
        match !self.introduced && length > FIRST_FRAME_BYTES_MAX {
            true => Err(FrameError::TooLong(length)),
            false => Ok(()),
        }
    }

    /// Drops what was taken, and the memory that a large frame has needed.
    fn compact(&mut self) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > 4 * READ_BYTES {
            self.bytes.shrink_to(READ_BYTES);
        }
    }
}

/// Writes what the driver says until it has dropped the connection, or why that cannot be
/// done.
async fn write(
    mut writer: OwnedWriteHalf,
    mut frames: mpsc::UnboundedReceiver<Vec<u8>>,
    unread: &AtomicUsize,
) -> Option<String> {
    while let Some(bytes) = frames.recv().await {
        if let Err(error) = writer.write_all(&bytes).await {
            return Some(error.to_string());
        }
        unread.fetch_sub(bytes.len(), Ordering::AcqRel);
    }
    None
}

/// Lets something be said at most once in a while.
#[derive(Debug)]
struct Seldom {
    every: Duration,
    last: Mutex<Option<Instant>>,
}

impl Seldom {
    const fn new(every: Duration) -> Self {
        Self {
            every,
            last: Mutex::new(None),
        }
    }

    /// True if it was not said for that long.
    fn may_say(&self) -> bool {
        // Nothing under the lock can panic.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let due = last.is_none_or(|last| now.duration_since(last) >= self.every);
        if due {
            *last = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_may_not_announce_a_large_frame() {
        let mut input = Input::default();
        let length = u32::try_from(FIRST_FRAME_BYTES_MAX + 1).expect("small");
        input.bytes.extend_from_slice(&length.to_le_bytes());
        assert!(matches!(input.take(), Err(FrameError::TooLong(_))));
        let mut known = Input {
            begun: true,
            introduced: true,
            ..Input::default()
        };
        known.bytes.extend_from_slice(&length.to_le_bytes());
        assert!(matches!(known.take(), Ok(None)));
    }

    #[test]
    fn memory_for_a_large_frame_is_given_back() {
        let mut input = Input {
            bytes: vec![0; 1 << 20],
            taken: 1 << 20,
            begun: true,
            introduced: true,
        };
        input.compact();
        assert!(input.bytes.is_empty());
        assert!(input.bytes.capacity() <= 4 * READ_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn something_is_said_at_most_once_in_a_while() {
        let seldom = Seldom::new(Duration::from_secs(60));
        assert!(seldom.may_say());
        assert!(!seldom.may_say());
        sleep(Duration::from_secs(60)).await;
        assert!(seldom.may_say());
        assert!(!seldom.may_say());
    }
}
