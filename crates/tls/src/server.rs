//! TLS of the listening side.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;

use crate::error::TlsError;
use crate::files::{identity, roots};
use crate::provider;

/// The TLS files of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// Its certificate, and the intermediate ones.
    pub cert: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// The CA that signs client certificates, if clients may present one. A presented certificate
    /// is verified during the handshake; whether one is required is decided by the caller, which
    /// can report what is missing.
    pub client_ca: Option<PathBuf>,
}

impl ServerFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// If one of them cannot be used, or the certificate is not valid at this time.
    pub fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let identity = identity(&self.cert, &self.key)?;
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Provider)?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(roots(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
                let verifier = verifier.allow_unauthenticated().build();
                builder.with_client_cert_verifier(verifier.map_err(|error| {
                    let reason = format!("cannot be used: {error}");
                    TlsError::file(path, reason, "name the certificate of the CA")
                })?)
            }
        };
        Ok(Arc::new(builder.with_cert_resolver(identity)))
    }
}
