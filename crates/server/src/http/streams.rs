//! Streaming responses: bodies that are produced while the client reads.
//!
//! The producer is a task of its own. It is at most one piece ahead of the connection, so a slow
//! client costs one piece of memory; a client that reads nothing is disconnected by
//! `crate::write_timeout`. The task ends with the client, at shutdown, or when the token or the
//! certificate of the request is no longer valid.

use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use hyper::body::{Body as HttpBody, Frame};
use thiserror::Error;
use tokio::sync::mpsc;

use super::app::App;
use super::peer::Peer;
use super::problem::{Answer, Fault};
use super::roles;
use crate::limits::STREAMS_MAX;
use crate::shutdown::until_shutdown;

/// The parts of a request that a streaming response needs.
pub(super) struct StreamRequest {
    pub(super) headers: HeaderMap,
    peer: Peer,
}

impl<S: Sync> FromRequestParts<S> for StreamRequest {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(parts))
    }
}

impl StreamRequest {
    /// The request with this head.
    pub(super) fn of(parts: &Parts) -> Self {
        Self {
            headers: parts.headers.clone(),
            peer: Peer::of(&parts.extensions),
        }
    }
}

/// Sender of body pieces.
pub(super) struct Pipe(mpsc::Sender<Result<Bytes, Truncated>>);

/// The response ends before its content does.
#[derive(Debug, Error)]
#[error("the response was cut off")]
pub(super) struct Truncated;

impl Pipe {
    /// Sends a piece, as soon as the one before is taken; false if the client is gone.
    pub(super) async fn put(&self, piece: impl Into<Bytes>) -> bool {
        self.0.send(Ok(piece.into())).await.is_ok()
    }

    /// Aborts the response, so that the client cannot mistake it for complete.
    pub(super) async fn truncate(&self) {
        // The client may be gone.
        let _ = self.0.send(Err(Truncated)).await;
    }
}

/// The receiving end, as the body of a response.
struct StreamBody(mpsc::Receiver<Result<Bytes, Truncated>>);

impl HttpBody for StreamBody {
    type Data = Bytes;
    type Error = Truncated;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Truncated>>> {
        let piece = self.0.poll_recv(cx);
        piece.map(|piece| piece.map(|bytes| bytes.map(Frame::data)))
    }
}

impl App {
    /// A body produced by `feed`. If `has_end`, the body is aborted when anything but its end stops
    /// it, so that the client cannot mistake a part for the whole.
    pub(super) fn stream<F>(
        &self,
        request: &StreamRequest,
        has_end: bool,
        feed: impl FnOnce(Pipe) -> F,
    ) -> Answer<Body>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let permit = Arc::clone(&self.0.streams).try_acquire_owned();
        let permit = permit.map_err(|_| {
            Fault::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too-many-streams",
                format!("the limit of {STREAMS_MAX} open streams is reached; try again later"),
            )
        })?;
        let requires_credentials = self.0.requires_credentials;
        let secret = if requires_credentials {
            roles::secret(&request.headers)?
        } else {
            None
        };
        let certificate = request
            .peer
            .certificate
            .clone()
            .filter(|_| requires_credentials);
        let (sender, receiver) = mpsc::channel(1);
        let reader = sender.clone();
        let feed = feed(Pipe(sender));
        let (access, mut shutdown) = (self.0.access.clone(), self.0.shutdown.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let denied = async {
                // As in `roles`: a token takes precedence over a certificate.
                match (&secret, &certificate) {
                    (Some(secret), _) => drop(access.until_invalid(secret).await),
                    (None, Some(certificate)) => drop(certificate.until_invalid().await),
                    (None, None) => pending().await,
                }
            };
            tokio::select! {
                () = feed => return,
                () = reader.closed() => return,
                () = until_shutdown(&mut shutdown) => {}
                () = denied => {}
            }
            if has_end {
                Pipe(reader).truncate().await;
            }
        });
        Ok(Body::new(StreamBody(receiver)))
    }
}
