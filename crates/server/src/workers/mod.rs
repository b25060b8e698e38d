//! The worker port: bytes in, messages to the driver, frames out.
//!
//! Peers are not trusted: the cost of a peer is bounded by what it has actually sent, its frames
//! stay small until it has identified itself, and a peer that violates the protocol is
//! disconnected. Where credentials are required (`handshake`), a worker without valid ones is
//! refused with the reason, as is every worker while this scheduler follows; a worker whose credentials are revoked or expire is disconnected.

mod handshake;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_core::framing;
use baton_core::protocol::frame::{
    FrameError, PREAMBLE, check_preamble, decode_to_scheduler, decode_token, encode_refusal,
};
use baton_model::message::ToScheduler;
use baton_model::token::Secret;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::accept::Acceptor;
use crate::access::{Access, Certificate};
use crate::driver::Status;
use crate::driver::event::{Event, Inbox};
use crate::driver::links::{Link, LinkCredential, LinkId};
use crate::limits::{
    FIRST_FRAME_BYTES_MAX, HEARTBEAT_WAIT, PREAMBLE_WAIT, READ_BYTES, REFUSAL_LOG_INTERVAL,
    REFUSAL_WAIT, UNREAD_INPUT_BYTES_MAX,
};
use crate::log_throttle::LogThrottle;
use crate::peers::Peers;
use crate::shutdown::until_shutdown;
use crate::tls::{Channel, HandshakeError, Tls};
use handshake::{Authenticator, authenticate, until_invalid};

/// The two halves of a connection, with TLS or without.
type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Accepts workers until the server ends.
pub(crate) async fn listen(
    listener: TcpListener,
    acceptor: Acceptor,
    inbox: Inbox,
    access: Option<Access>,
    shared: Option<(Arc<Peers>, watch::Receiver<Status>)>,
    mut shutdown: watch::Receiver<bool>,
) {
    let tls = acceptor.tls.as_deref();
    let requires_certificate = tls.is_some_and(Tls::takes_certificates);
    let port = Arc::new(Port {
        acceptor,
        authenticator: access.map(|access| Authenticator {
            access,
            requires_certificate,
        }),
        refusals: LogThrottle::new(REFUSAL_LOG_INTERVAL),
        shared,
    });
    let mut last = 0;
    loop {
        let (stream, peer, slot) = tokio::select! {
            () = until_shutdown(&mut shutdown) => return,
            next = port.acceptor.next(&listener) => next,
        };
        last += 1;
        let (inbox, port) = (inbox.clone(), Arc::clone(&port));
        let mut shutdown = shutdown.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = until_shutdown(&mut shutdown) => {}
                () = accept_worker(stream, peer, LinkId(last), inbox, &port) => {}
            }
            drop(slot);
        });
    }
}

struct Port {
    acceptor: Acceptor,
    /// Authenticates workers; `None` if no credentials are required.
    authenticator: Option<Authenticator>,
    refusals: LogThrottle,
    /// The other schedulers, and whether this one leads, if the store is shared.
    shared: Option<(Arc<Peers>, watch::Receiver<Status>)>,
}

impl Port {
    /// Where a worker finds the leader, if this scheduler follows.
    fn elsewhere(&self) -> Option<String> {
        let (peers, status) = self.shared.as_ref()?;
        if !status.borrow().follows() {
            return None;
        }
        Some(match peers.last_leader() {
            Some(leader) => format!(
                "this scheduler follows; the leader {} has its workers at {}",
                leader.name, leader.workers
            ),
            None => "this scheduler follows, and knows no leader yet".to_owned(),
        })
    }
}

/// Establishes a connection, with TLS if it is on, and serves it.
async fn accept_worker(stream: TcpStream, peer: SocketAddr, id: LinkId, inbox: Inbox, port: &Port) {
    if let Err(error) = stream.set_nodelay(true) {
        // Without it only latency suffers.
        tracing::debug!("{peer}: {error}");
    }
    let refused = |reason: &str| {
        if port.refusals.allow() {
            tracing::warn!("worker at {peer} refused: {reason}");
        }
    };
    match port.acceptor.handshake(stream).await {
        Ok(channel) => {
            let certificate = channel.certificate();
            let is_private = matches!(channel, Channel::Tls(_)) || peer.ip().is_loopback();
            let (reader, writer): (Reader, Writer) = match channel {
                Channel::Plain(stream) => {
                    let (reader, writer) = stream.into_split();
                    (Box::new(reader), Box::new(writer))
                }
                Channel::Tls(stream) => {
                    let (reader, writer) = tokio::io::split(stream);
                    (Box::new(reader), Box::new(writer))
                }
            };
            if let Err(reason) = serve(
                reader,
                writer,
                certificate,
                (peer, is_private),
                id,
                inbox,
                port,
            )
            .await
            {
                refused(&reason);
            }
        }
        Err(HandshakeError::Failed(reason)) => refused(&reason),
        Err(HandshakeError::Plain(stream)) => {
            let reason = "this port requires TLS; name the CA certificate with --ca";
            refused(reason);
            let (reader, mut writer) = stream.into_split();
            // A peer that cannot take the preamble cannot take the reason either.
            if writer.write_all(&PREAMBLE).await.is_ok() {
                refuse(Box::new(reader), Box::new(writer), reason).await;
            }
        }
    }
}

/// Serves a worker until it disconnects; an error is the reason of a refusal, which was sent to it.
async fn serve(
    mut reader: Reader,
    mut writer: Writer,
    certificate: Option<Certificate>,
    (peer, is_private): (SocketAddr, bool),
    id: LinkId,
    inbox: Inbox,
    port: &Port,
) -> Result<(), String> {
    let preambles = timeout(PREAMBLE_WAIT, exchange_preambles(&mut reader, &mut writer)).await;
    let preambles = preambles.unwrap_or_else(|_| Err("it sent no preamble in time".to_owned()));
    if let Err(reason) = preambles {
        tracing::info!("disconnected {peer}: {reason}");
        return Ok(());
    }
    let mut input = Input::default();
    let credential = match &port.authenticator {
        Some(authenticator) => {
            match authenticate(&mut reader, &mut input, certificate, authenticator).await {
                Ok(credential) => Some((authenticator, credential)),
                Err(reason) => {
                    refuse(reader, writer, &reason).await;
                    return Err(reason);
                }
            }
        }
        None => None,
    };
    if let Some(reason) = port.elsewhere() {
        tracing::debug!("worker at {peer}: {reason}");
        refuse(reader, writer, &reason).await;
        return Ok(());
    }
    let (out, frames) = mpsc::unbounded_channel();
    let unread = Arc::new(AtomicUsize::new(0));
    let link = Link {
        out,
        unread: Arc::clone(&unread),
        is_private,
        credential: credential
            .as_ref()
            .map(|(authenticator, it)| LinkCredential {
                owner: it.owner.clone(),
                access: authenticator.access.clone(),
            }),
    };
    inbox.send(Event::Opened(id, link));
    let reason = tokio::select! {
        reason = read(reader, input, id, &inbox) => reason,
        reason = write(writer, frames, &unread) => reason,
        reason = until_invalid(credential) => Some(reason),
    };
    if let Some(reason) = reason {
        tracing::info!("disconnected {peer}: {reason}");
    }
    inbox.send(Event::Closed(id));
    Ok(())
}

async fn exchange_preambles(reader: &mut Reader, writer: &mut Writer) -> Result<(), String> {
    let sent = writer.write_all(&PREAMBLE).await;
    sent.map_err(|error| error.to_string())?;
    let sent = writer.flush().await;
    sent.map_err(|error| error.to_string())?;
    let mut preamble = PREAMBLE;
    let read = reader.read_exact(&mut preamble).await;
    read.map_err(|error| error.to_string())?;
    check_preamble(preamble).map_err(|error| error.to_string())
}

/// Sends a worker the reason of its refusal. Input is read and dropped: otherwise the kernel might
/// reset the connection before the worker reads the reason.
async fn refuse(mut reader: Reader, mut writer: Writer, reason: &str) {
    let mut frame = Vec::new();
    if let Err(error) = encode_refusal(reason, &mut frame) {
        return tracing::error!("cannot encode a refusal: {error}");
    }
    let sent = async {
        writer.write_all(&frame).await?;
        writer.shutdown().await?;
        let mut dropped = vec![0; READ_BYTES];
        while reader.read(&mut dropped).await? > 0 {}
        Ok::<(), std::io::Error>(())
    };
    // The peer need not read it.
    let _ = timeout(REFUSAL_WAIT, sent).await;
}

/// Reads frames until the peer disconnects; returns the reason if the server gives up on it.
async fn read(mut reader: Reader, mut input: Input, id: LinkId, inbox: &Inbox) -> Option<String> {
    let credit = Arc::new(Semaphore::new(UNREAD_INPUT_BYTES_MAX));
    let mut heartbeat_by = Instant::now() + HEARTBEAT_WAIT;
    loop {
        // Frames that arrived with the token are already in the buffer.
        loop {
            match input.take() {
                Ok(Some((message, bytes))) => {
                    if matches!(message, ToScheduler::ProcessHeartbeat(_)) {
                        heartbeat_by = Instant::now() + HEARTBEAT_WAIT;
                    }
                    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                    // The semaphore is never closed.
                    let permit = Arc::clone(&credit).acquire_many_owned(bytes).await.ok()?;
                    inbox.send(Event::Message(id, Box::new(message), permit));
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
            Err(_) => return Some("no heartbeat in time".to_owned()),
        }
    }
}

/// Input buffer of one peer, from which frames are decoded.
#[derive(Debug, Default)]
struct Input {
    bytes: Vec<u8>,
    taken: usize,
    /// Whether a leading token was already looked for.
    token_checked: bool,
    introduced: bool,
}

impl Input {
    /// The next message, and its length in bytes.
    fn take(&mut self) -> Result<Option<(ToScheduler, usize)>, FrameError> {
        // Where no token is required, one that is sent is skipped.
        if !self.token_checked && self.take_token()?.is_none() {
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

    /// The leading token, or `Some(None)` if there is none; `None` while that is not known yet.
    fn take_token(&mut self) -> Result<Option<Option<Secret>>, FrameError> {
        self.check_length()?;
        let Some((secret, bytes)) = decode_token(&self.bytes[self.taken..])? else {
            return Ok(None);
        };
        self.taken += bytes;
        self.token_checked = true;
        Ok(Some(secret))
    }

    fn check_length(&self) -> Result<(), FrameError> {
        if !self.introduced {
            framing::announced(&self.bytes[self.taken..], FIRST_FRAME_BYTES_MAX)?;
        }
        Ok(())
    }

    /// Drops consumed bytes, and the memory of a large frame.
    fn compact(&mut self) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > 4 * READ_BYTES {
            self.bytes.shrink_to(READ_BYTES);
        }
    }
}

/// Writes the frames of the driver until it drops the connection; returns the error if that fails.
async fn write(
    mut writer: Writer,
    mut frames: mpsc::UnboundedReceiver<Vec<u8>>,
    unread: &AtomicUsize,
) -> Option<String> {
    while let Some(bytes) = frames.recv().await {
        let mut written = writer.write_all(&bytes).await;
        if written.is_ok() {
            // TLS buffers writes.
            written = writer.flush().await;
        }
        if let Err(error) = written {
            return Some(error.to_string());
        }
        unread.fetch_sub(bytes.len(), Ordering::AcqRel);
    }
    // The driver has dropped it, perhaps with a reason, which input that is not read would cut off.
    if let Err(error) = writer.shutdown().await {
        return Some(error.to_string());
    }
    sleep(REFUSAL_WAIT).await;
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
            token_checked: true,
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
            token_checked: true,
            introduced: true,
        };
        input.compact();
        assert!(input.bytes.is_empty());
        assert!(input.bytes.capacity() <= 4 * READ_BYTES);
    }
}
