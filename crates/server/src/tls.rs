//! TLS on both ports: handshakes, and reload on SIGHUP.
//!
//! A connection uses the files as they are when it begins, to its end. `baton_tls` reads the files.

use std::io;
use std::sync::Arc;

use baton_tls::{ServerFiles, TlsError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

use crate::access::Certificate;
use crate::limits::{READ_BYTES, REFUSAL_WAIT};

/// The first byte of a TLS handshake record.
const HANDSHAKE_RECORD: u8 = 0x16;

/// TLS configuration of a server: certificate, key, and trusted client CAs.
#[derive(Debug)]
pub(crate) struct Tls {
    files: ServerFiles,
    config: watch::Sender<Arc<ServerConfig>>,
}

/// An established connection.
pub(crate) enum Channel {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Why a connection was not established.
pub(crate) enum HandshakeError {
    /// The peer does not speak TLS, so a plain-text error can still reach it.
    Plain(TcpStream),
    Failed(String),
}

impl Tls {
    pub(crate) fn load(files: ServerFiles) -> Result<Self, TlsError> {
        let (config, _) = watch::channel(files.load()?);
        Ok(Self { files, config })
    }

    /// Whether client certificates are accepted.
    pub(crate) const fn takes_certificates(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// Performs the handshake.
    pub(crate) async fn handshake(&self, stream: TcpStream) -> Result<Channel, HandshakeError> {
        let failed = |error: io::Error| HandshakeError::Failed(error.to_string());
        let mut first = [0];
        let seen = stream.peek(&mut first).await.map_err(failed)?;
        if seen > 0 && first[0] != HANDSHAKE_RECORD {
            return Err(HandshakeError::Plain(stream));
        }
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config.borrow()));
        match acceptor.accept(stream).into_fallible().await {
            Ok(stream) => Ok(Channel::Tls(Box::new(stream))),
            Err((error, stream)) => {
                close_gracefully(stream).await;
                Err(failed(error))
            }
        }
    }

    /// Reloads the files at every SIGHUP, until it is aborted. From this call on, SIGHUP does not
    /// end the process. If the new files are unusable, the old ones stay in force.
    pub(crate) fn reload_on_sighup(self: Arc<Self>) -> impl Future<Output = ()> {
        let hangups = signal(SignalKind::hangup());
        async move {
            let mut hangups = match hangups {
                Ok(hangups) => hangups,
                Err(error) => return tracing::warn!("cannot install the SIGHUP handler: {error}"),
            };
            while hangups.recv().await.is_some() {
                match self.files.load() {
                    Ok(config) => {
                        self.config.send_replace(config);
                        tracing::info!("TLS certificates reloaded");
                    }
                    Err(error) => {
                        tracing::error!(
                            "cannot reload the TLS certificates, so the old ones stay in force: {error}"
                        );
                    }
                }
            }
        }
    }
}

/// Closes a connection after a last message. Input is read and dropped: otherwise the kernel might
/// reset the connection before the peer reads the message.
pub(crate) async fn close_gracefully(mut stream: TcpStream) {
    let closing = async {
        stream.shutdown().await?;
        let mut dropped = vec![0; READ_BYTES];
        while stream.read(&mut dropped).await? > 0 {}
        Ok::<(), io::Error>(())
    };
    // The peer need not read it.
    let _ = timeout(REFUSAL_WAIT, closing).await;
}

impl Channel {
    /// The client certificate, if any; its signature was verified.
    pub(crate) fn certificate(&self) -> Option<Certificate> {
        let Self::Tls(stream) = self else {
            return None;
        };
        let chain = stream.get_ref().1.peer_certificates()?;
        Certificate::read(chain.first()?)
    }
}
