//! The side that dials.

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
    /// Those that the system trusts.
    #[default]
    System,
    None,
    /// Those that a CA in this file has signed, and no others.
    Ca(PathBuf),
    /// Only the first certificate of this file itself, whatever name it has: for somebody on the
    /// same machine who can read the server's own file.
    Pin(PathBuf),
}

/// The files of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFiles {
    pub trust: Trust,
    /// Its certificate and the key of that, if it has one to show.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl ClientFiles {
    /// None: for a client that does not mean to use TLS, and need not read anything for it.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            trust: Trust::None,
            identity: None,
        }
    }

    /// Reads them.
    ///
    /// # Errors
    /// If one of them cannot be used, or the certificate is not valid today.
    pub fn load(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let provider = provider();
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Provider)?;
        let builder = match &self.trust {
            Trust::System => builder.with_root_certificates(system()),
            Trust::None => builder.with_root_certificates(RootCertStore::empty()),
            Trust::Ca(path) => builder.with_root_certificates(roots(path)?),
            Trust::Pin(path) => {
                let certificate = certificates(path)?.swap_remove(0);
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(Pinned {
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

/// Whom the system trusts. Where it trusts nobody, that is told when a server shows its
/// certificate: then it matters.
fn system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // A system may have odd certificates beside good ones; those count.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Takes one certificate for good, and no other.
#[derive(Debug)]
struct Pinned {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match *end_entity == self.certificate {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
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

    /// Shakes hands with a server of this certificate, which need not be a good one.
    fn meets(
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
        assert_eq!(meets(&files, "sched.example", &good), Ok(()));
        fn refused(files: &ClientFiles, name: &str, shown: &(String, String), word: &str) {
            let text = meets(files, name, shown).expect_err(word);
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
        assert_eq!(meets(&files, "127.0.0.1", &shown), Ok(()));
        let other = ca.issue(CertRequest::PLAIN);
        assert!(meets(&files, "127.0.0.1", &other).is_err());
    }
}
