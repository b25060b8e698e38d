//! The certificates that a server presents, whether they are valid or not.
//!
//! For examination only: the connection carries nothing but a handshake, and whatever the server
//! presents is believed to be what it presents, and no more.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};

use crate::provider;
use crate::subject::Subject;

/// Performs a handshake on a new connection, and returns the certificates of the server, its own
/// first. Those of an unusual form are left out.
///
/// # Errors
/// If the name is not one of a server, or the server does not speak TLS, or closes the connection
/// before it has presented a certificate.
pub fn presented(host: &str, stream: &mut (impl Read + Write)) -> io::Result<Vec<Subject>> {
    let provider = provider();
    let recorder = Arc::new(Recorder {
        presented: Mutex::default(),
        algorithms: provider.signature_verification_algorithms,
    });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&recorder) as Arc<dyn ServerCertVerifier>)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let mut session = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let ended = session.complete_io(stream);
    let presented = recorder.presented.lock();
    let presented = presented.map(|it| it.clone()).unwrap_or_default();
    // A server that wants a certificate of the client ends the handshake after it has presented its own.
    match ended {
        Err(error) if presented.is_empty() => Err(error),
        _ => Ok(presented),
    }
}

/// Accepts every certificate, and records it.
#[derive(Debug)]
struct Recorder {
    presented: Mutex<Vec<Subject>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Recorder {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let all = std::iter::once(end_entity).chain(intermediates);
        if let Ok(mut presented) = self.presented.lock() {
            presented.extend(all.filter_map(Subject::read));
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
