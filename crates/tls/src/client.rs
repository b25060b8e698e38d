//! TLS of the connecting side.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::error::TlsError;
use crate::files::{certificates, identity, roots};
use crate::provider;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Certificates signed by a CA that the system trusts.
    #[default]
    System,
    None,
    /// Only certificates signed by a CA in this file.
    Ca(PathBuf),
    /// Certificates signed by a CA that the system trusts, or by one in this file.
    SystemAndCa(PathBuf),
    /// Only the first certificate of this file, whatever its name: for a client on the same machine
    /// that can read the server's own file.
    Pin(PathBuf),
}

/// The TLS files of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFiles {
    pub trust: Trust,
    /// Its certificate and private key, if it has one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl ClientFiles {
    /// No files: for a client that does not use TLS and must not read any.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            trust: Trust::None,
            identity: None,
        }
    }

    /// Reads the files.
    ///
    /// # Errors
    /// If one of them cannot be used, or the certificate is not valid at this time.
    pub fn load(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let provider = provider();
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Provider)?;
        let builder = match &self.trust {
            Trust::System => builder.with_root_certificates(system_roots()),
            Trust::None => builder.with_root_certificates(RootCertStore::empty()),
            Trust::Ca(path) => builder.with_root_certificates(roots(path)?),
            Trust::SystemAndCa(path) => {
                let mut all = system_roots();
                all.extend(roots(path)?.roots);
                builder.with_root_certificates(all)
            }
            Trust::Pin(path) => {
                let certificate = certificates(path)?.swap_remove(0);
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(PinnedVerifier {
                        certificate,
                        algorithms,
                    }))
            }
        };
        Ok(Arc::new(match &self.identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => builder.with_client_cert_resolver(identity(cert, key)?),
        }))
    }
}

/// The system's CA certificates. If there are none, that is reported when a server presents its
/// certificate: only then does it matter.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // Certificates of the system that cannot be parsed are skipped.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Accepts exactly one certificate.
#[derive(Debug)]
struct PinnedVerifier {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if *end_entity == self.certificate {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
        }
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::{ClientConnection, ServerConfig, ServerConnection};

    use super::*;
    use crate::messages;
    use baton_testing::ca::{Ca, CertRequest};

    /// Performs a handshake with a server that has this certificate, which may be invalid.
    fn handshake(
        files: &ClientFiles,
        name: &str,
        (cert, key): &(String, String),
    ) -> Result<(), String> {
        let chain = vec![CertificateDer::from_pem_slice(cert.as_bytes()).expect("a certificate")];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
        let server = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("ours")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("they belong together");
        let mut server = ServerConnection::new(Arc::new(server)).expect("a session");
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let config = files.load().expect("good files");
        let mut client = ClientConnection::new(config, name).expect("a session");
        while client.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).expect("into memory");
            server.read_tls(&mut &*bytes).expect("from memory");
            server.process_new_packets().expect("a good client");
            let mut bytes = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut bytes).expect("into memory");
            }
            client.read_tls(&mut &*bytes).expect("from memory");
            let processed = client.process_new_packets();
            processed.map_err(|error| messages::describe(&error).expect("it is about TLS"))?;
        }
        Ok(())
    }

    fn trusting(trust: Trust) -> ClientFiles {
        ClientFiles {
            trust,
            identity: None,
        }
    }

    #[test]
    fn a_server_needs_the_right_ca_the_right_name_and_the_right_time() {
        let dir = tempfile::tempdir().expect("a place");
        let (ca, other) = (Ca::new("ca"), Ca::new("another"));
        let own = |ca: &Ca, name: &Path| trusting(Trust::Ca(ca.write_own(&dir.path().join(name))));
        let files = own(&ca, Path::new("ca.pem"));
        let wanted = CertRequest {
            hosts: &["sched.example"],
            ..CertRequest::PLAIN
        };
        let good = ca.issue(wanted);
        assert_eq!(handshake(&files, "sched.example", &good), Ok(()));
        fn refused(files: &ClientFiles, name: &str, shown: &(String, String), word: &str) {
            let text = handshake(files, name, shown).expect_err(word);
            assert!(text.contains(word), "{text}");
        }
        let expected = "not for else.example, but for";
        refused(&files, "else.example", &good, expected);
        let strange = own(&other, Path::new("other.pem"));
        refused(&strange, "sched.example", &good, "name the CA's");
        refused(&ClientFiles::none(), "sched.example", &good, "not signed");
        for (days, word) in [((-9, -2), "has expired"), ((2, 3), "not valid yet")] {
            let shown = ca.issue(CertRequest { days, ..wanted });
            refused(&files, "sched.example", &shown, word);
        }
    }

    #[test]
    fn a_pinned_certificate_is_good_by_any_name_and_no_other_is() {
        let dir = tempfile::tempdir().expect("a place");
        let ca = Ca::new("ca");
        let (cert, key) = ca.write(dir.path(), CertRequest::PLAIN);
        let text = |path| std::fs::read_to_string(path).expect("there");
        let files = trusting(Trust::Pin(cert.clone()));
        let shown = (text(&cert), text(&key));
        assert_eq!(handshake(&files, "127.0.0.1", &shown), Ok(()));
        let other = ca.issue(CertRequest::PLAIN);
        assert!(handshake(&files, "127.0.0.1", &other).is_err());
    }
}
