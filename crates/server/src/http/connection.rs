//! One client connection, with TLS or without.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use super::peer::Peer;
use super::problem::PROBLEM;
use super::routes::Service;
use crate::accept::Acceptor;
use crate::limits::{HEAD_BYTES_MAX, REFUSAL_WAIT};
use crate::metrics::CloseReason;
use crate::shutdown::until_shutdown;
use crate::tls::{Channel, HandshakeError, close_gracefully};
use crate::write_timeout::WriteTimeout;
use baton_model::api::Problem;
use baton_web::headers;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

/// Establishes a connection, and serves it to its end.
pub(super) async fn accept_client(
    stream: TcpStream,
    peer: SocketAddr,
    service: Service,
    mut shutdown: watch::Receiver<bool>,
    acceptor: &Acceptor,
) {
    if let Err(error) = stream.set_nodelay(true) {
        // Without it only latency suffers.
        tracing::debug!("{peer}: {error}");
    }
    let handshake = tokio::select! {
        () = until_shutdown(&mut shutdown) => return,
        handshake = acceptor.handshake(stream) => handshake,
    };
    let channel = match handshake {
        Ok(channel) => channel,
        Err(HandshakeError::Plain(stream)) => return refuse(stream).await,
        Err(HandshakeError::Failed(reason)) => {
            return tracing::debug!("TLS handshake with client {peer} failed: {reason}");
        }
    };
    let peer = Peer {
        ip: peer.ip(),
        secure: matches!(channel, Channel::Tls(_)),
        certificate: channel.certificate().map(Arc::new),
        body_wait: acceptor.traffic.body_wait,
    };
    match channel {
        Channel::Plain(stream) => serve(stream, peer, service, shutdown, acceptor).await,
        Channel::Tls(stream) => serve(stream, peer, service, shutdown, acceptor).await,
    }
}

pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: Peer,
    service: Service,
    mut shutdown: watch::Receiver<bool>,
    acceptor: &Acceptor,
) {
    let traffic = &acceptor.traffic;
    let mut protocol = http1::Builder::new();
    protocol
        .timer(TokioTimer::new())
        .max_buf_size(HEAD_BYTES_MAX)
        .header_read_timeout(traffic.head_wait);
    let api = TowerToHyperService::new(service);
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        api.call(request)
    });
    let stream = TokioIo::new(WriteTimeout::new(stream, traffic.write_wait));
    let connection = protocol.serve_connection(stream, service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = until_shutdown(&mut shutdown) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        if let Some(cut) = cut(&error) {
            acceptor.metrics.cut(acceptor.port, cut);
        }
        // Clients may disconnect at any time.
        tracing::debug!("client connection ended: {error}");
    }
}

/// The reason, if it was the server that closed the connection.
fn cut(error: &hyper::Error) -> Option<CloseReason> {
    if error.is_timeout() {
        return Some(CloseReason::Idle);
    }
    let source: Option<&io::Error> = error.source()?.downcast_ref();
    (source?.kind() == io::ErrorKind::TimedOut).then_some(CloseReason::Stalled)
}

/// Answers a client that should have begun with TLS in plain HTTP.
async fn refuse(mut stream: TcpStream) {
    let problem = Problem {
        kind: "tls".to_owned(),
        title: "Bad Request".to_owned(),
        status: 400,
        detail: "this port requires TLS; use https:// instead of http://".to_owned(),
        errors: Vec::new(),
    };
    let Ok(body) = serde_json::to_string(&problem) else {
        return;
    };
    let (name, value) = headers::EVERY;
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: {PROBLEM}\r\nContent-Length: {}\r\n\
         Connection: close\r\n{name}: {value}\r\n\r\n{body}",
        body.len()
    );
    // The peer need not read it.
    if let Ok(Ok(())) = timeout(REFUSAL_WAIT, stream.write_all(answer.as_bytes())).await {
        close_gracefully(stream).await;
    }
}
