//! The port of the workers: bytes in, messages to the driver, frames out.
//!
//! Nobody is trusted: what a peer costs is bounded by what it has really sent, its frames
//! stay small until it has said who it is, and whoever sends something else than the
//! protocol is cut off.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use baton_core::protocol::frame::{FrameError, PREAMBLE, check_preamble, decode_to_scheduler};
use baton_model::message::ToScheduler;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::driver::links::{Link, LinkId};
use crate::driver::mail::{Inbox, Mail};
use crate::ends;
use crate::limits::{
    FIRST_FRAME_BYTES_MAX, HEARTBEAT_WAIT, PREAMBLE_WAIT, READ_BYTES, UNREAD_INPUT_BYTES_MAX,
    WORKER_CONNECTIONS_MAX,
};

/// Accepts workers until the server ends.
pub(crate) async fn listen(listener: TcpListener, inbox: Inbox, mut ending: watch::Receiver<bool>) {
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
        let inbox = inbox.clone();
        let mut ending = ending.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = ends(&mut ending) => {}
                () = serve(stream, peer, LinkId(last), inbox) => {}
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

async fn serve(stream: TcpStream, peer: SocketAddr, id: LinkId, inbox: Inbox) {
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
    let (out, frames) = mpsc::unbounded_channel();
    let unread = Arc::new(AtomicUsize::new(0));
    let link = Link {
        out,
        unread: Arc::clone(&unread),
    };
    inbox.put(Mail::Opened(id, link));
    let why = tokio::select! {
        why = read(reader, id, &inbox) => why,
        why = write(writer, frames, &unread) => why,
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

/// Reads frames until the peer is gone, or why it is not listened to any longer.
async fn read(mut reader: OwnedReadHalf, id: LinkId, inbox: &Inbox) -> Option<String> {
    let credit = Arc::new(Semaphore::new(UNREAD_INPUT_BYTES_MAX));
    let mut input = Input::default();
    let mut heartbeat_by = Instant::now() + HEARTBEAT_WAIT;
    loop {
        input.bytes.reserve(READ_BYTES);
        match timeout_at(heartbeat_by, reader.read_buf(&mut input.bytes)).await {
            Ok(Ok(0)) => return None,
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Some(error.to_string()),
            Err(_) => return Some("no heartbeat for too long".to_owned()),
        }
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
    }
}

/// Bytes of one peer that are no whole frame yet.
#[derive(Debug, Default)]
struct Input {
    bytes: Vec<u8>,
    taken: usize,
    introduced: bool,
}

impl Input {
    /// The next message, and how many bytes it took.
    fn take(&mut self) -> Result<Option<(ToScheduler, usize)>, FrameError> {
        let rest = &self.bytes[self.taken..];
        if !self.introduced
            && let Some(prefix) = rest.first_chunk::<4>()
        {
            let length = u32::from_le_bytes(*prefix) as usize;
            if length > FIRST_FRAME_BYTES_MAX {
                return Err(FrameError::TooLong(length));
            }
        }
        let Some((message, bytes)) = decode_to_scheduler(rest)? else {
            return Ok(None);
        };
        self.taken += bytes;
        self.introduced |= matches!(message, ToScheduler::ProcessHeartbeat(_));
        Ok(Some((message, bytes)))
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
            introduced: true,
        };
        input.compact();
        assert!(input.bytes.is_empty());
        assert!(input.bytes.capacity() <= 4 * READ_BYTES);
    }
}
