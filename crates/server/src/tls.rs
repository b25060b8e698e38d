//! TLS on the ports: handshakes, and files that are read again when somebody says so.
//!
//! A connection takes the files as they are when it begins, and keeps them to its end. What is
//! in the files is `baton_tls`.

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

/// The first byte of whoever begins with TLS.
const HANDSHAKE_RECORD: u8 = 0x16;

/// A server's certificate, its key, and whom it trusts.
#[derive(Debug)]
pub(crate) struct Tls {
    files: ServerFiles,
    config: watch::Sender<Arc<ServerConfig>>,
}

/// A connection that is ready to be talked over.
pub(crate) enum Channel {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

pub(crate) enum HandshakeError {
    /// It does not begin with TLS, so it can still be told that it should.
    Plain(TcpStream),
    Failed(String),
}

impl Tls {
    pub(crate) fn load(files: ServerFiles) -> Result<Self, TlsError> {
        let (config, _) = watch::channel(files.load()?);
        Ok(Self { files, config })
    }

    /// Whether clients may show certificates.
    pub(crate) const fn takes_certificates(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// Begins a connection.
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

    /// Reads the files again at every SIGHUP, until the server ends; from this call on it does not
    /// end the process. What cannot be used does not count, and what was read before goes on to.
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

/// Closes a connection behind words that should be read. What has come meanwhile is read and
/// dropped: otherwise the kernel might drop our words instead.
pub(crate) async fn close_gracefully(mut stream: TcpStream) {
    let farewell = async {
        stream.shutdown().await?;
        let mut dropped = vec![0; READ_BYTES];
        while stream.read(&mut dropped).await? > 0 {}
        Ok::<(), io::Error>(())
    };
    // If it does not want to know, it need not.
    let _ = timeout(REFUSAL_WAIT, farewell).await;
}

impl Channel {
    /// The certificate that was shown, if any; who has signed it was checked.
    pub(crate) fn certificate(&self) -> Option<Certificate> {
        let Self::Tls(stream) = self else {
            return None;
        };
        let chain = stream.get_ref().1.peer_certificates()?;
        Certificate::read(chain.first()?)
    }
}
