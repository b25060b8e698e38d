//! The side that listens.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;

use crate::error::TlsError;
use crate::files::{identity, roots};
use crate::provider;

/// The files of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// Its certificate, and those between it and the CA.
    pub cert: PathBuf,
    /// The certificate's key.
    pub key: PathBuf,
    /// Who signs the certificates of clients, if they may show any. One that is shown is checked
    /// during the handshake; whether one has to be shown is for the caller to see to, who can
    /// say in its own words what is missing.
    pub client_ca: Option<PathBuf>,
}

impl ServerFiles {
    /// Reads them.
    ///
    /// # Errors
    /// If one of them cannot be used, or the certificate is not valid today.
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
                    let why = format!("cannot be used: {error}");
                    TlsError::file(path, why, "name the certificate of the CA")
                })?)
            }
        };
        Ok(Arc::new(builder.with_cert_resolver(identity)))
    }
}
