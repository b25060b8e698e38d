//! Certificates and keys in PEM, validated when they are loaded.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use crate::error::TlsError;
use crate::provider;
use crate::subject::Subject;

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// A certificate with its key, valid at this time.
pub(crate) fn identity(cert: &Path, key: &Path) -> Result<Arc<SingleCertAndKey>, TlsError> {
    let chain = certificates(cert)?;
    check_validity(cert, &chain[0])?;
    let certified = CertifiedKey::from_der(chain, private_key(key)?, &provider());
    let certified = certified.map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => TlsError::file(
            key,
            format!("is not the key of the certificate in {}", cert.display()),
            "name a certificate and key that belong together",
        ),
        other => TlsError::file(
            key,
            format!(
                "cannot be used with the certificate in {}: {other}",
                cert.display()
            ),
            "use a common key type, such as ECDSA P-256",
        ),
    })?;
    Ok(Arc::new(SingleCertAndKey::from(certified)))
}

/// The CA certificates of a file.
pub(crate) fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| {
            TlsError::file(
                path,
                format!("holds a certificate that is not valid for a CA: {error}"),
                "name the certificate of the CA, not one that it has signed",
            )
        })?;
    }
    Ok(roots)
}

/// All certificates of a file; at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    const HINT: &str = "expected certificates in PEM (`-----BEGIN CERTIFICATE-----`)";
    let text = read(path)?;
    let all: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    let all = all.map_err(|error| {
        let reason = format!("cannot be parsed: {}", reason(&error));
        TlsError::file(path, reason, HINT)
    })?;
    if all.is_empty() {
        Err(TlsError::file(path, "holds no certificate", HINT))
    } else {
        Ok(all)
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    const HINT: &str =
        "expected one private key in PEM, without a password, as created by `openssl genpkey`";
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|error| {
        let reason = match error {
            pem::Error::NoItemsFound => "holds no private key".to_owned(),
            other => format!("cannot be parsed: {}", reason(&other)),
        };
        TlsError::file(path, reason, HINT)
    })
}

/// Descriptions that quote nothing of the file: it may hold a key.
fn reason(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no end",
        pem::Error::IllegalSectionStart { .. } => "the start of a section is invalid",
        pem::Error::Base64Decode(_) => "a section is not Base64",
        _ => "it is not PEM",
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| {
        TlsError::file(
            path,
            format!("cannot be read: {error}"),
            "check its name and its permissions",
        )
    })
}

/// Refuses a certificate that every peer would refuse.
fn check_validity(path: &Path, certificate: &CertificateDer<'_>) -> Result<(), TlsError> {
    let Some(subject) = Subject::read(certificate) else {
        return Err(TlsError::file(
            path,
            "does not hold an X.509 certificate of the usual form",
            "create another with `openssl x509`",
        ));
    };
    let now = UnixTime::now().as_secs();
    if now >= subject.not_after {
        let days = (now - subject.not_after) / DAY_SECONDS;
        return Err(TlsError::file(
            path,
            format!("holds a certificate that expired {days} days ago"),
            "get a new one signed",
        ));
    }
    if now < subject.not_before {
        return Err(TlsError::file(
            path,
            "holds a certificate that is not valid yet",
            "check the clock of this machine",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_testing::ca::{Ca, CertRequest};

    #[test]
    fn what_cannot_be_used_is_refused_with_its_file_and_a_hint() {
        let dir = tempfile::tempdir().expect("a place");
        let at = |name: &str| dir.path().join(name);
        let ca = Ca::new("ca");
        let (cert, key) = ca.issue(CertRequest::PLAIN);
        let days = |days| CertRequest {
            days,
            ..CertRequest::PLAIN
        };
        let (old, old_key) = ca.issue(days((-9, -3)));
        let (early, early_key) = ca.issue(days((2, 3)));
        for (name, text) in [
            ("cert", &*cert),
            ("key", &*key),
            ("old", &*old),
            ("old.key", &*old_key),
            ("early", &*early),
            ("early.key", &*early_key),
            ("empty", ""),
            ("cut", &cert[..cert.len() / 2]),
            (
                "odd",
                "-----BEGIN CERTIFICATE-----\n?!\n-----END CERTIFICATE-----\n",
            ),
            (
                "nothing",
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            ),
        ] {
            fs::write(at(name), text).expect("written");
        }
        assert!(identity(&at("cert"), &at("key")).is_ok());
        for (cert, key, blamed, word) in [
            ("none", "key", "none", "cannot be read"),
            ("cert", "none", "none", "cannot be read"),
            ("empty", "key", "empty", "no certificate"),
            ("key", "key", "key", "no certificate"),
            ("cert", "cert", "cert", "no private key"),
            ("cut", "key", "cut", "no end"),
            ("odd", "key", "odd", "cannot be parsed"),
            (
                "nothing",
                "key",
                "nothing",
                "X.509 certificate of the usual",
            ),
            ("cert", "old.key", "old.key", "is not the key"),
            ("old", "old.key", "old", "expired 3 days ago"),
            ("early", "early.key", "early", "not valid yet"),
        ] {
            let error = identity(&at(cert), &at(key)).expect_err(blamed);
            let text = error.to_string();
            let blamed = format!("{} ", at(blamed).display());
            assert!(text.starts_with(&blamed) && text.contains(word), "{text}");
            assert!(text.contains("; "), "and a hint: {text}");
        }
        assert!(roots(&at("nothing")).is_err());
    }
}
