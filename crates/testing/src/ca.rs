//! A CA for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A certificate authority.
#[derive(Debug)]
pub struct Ca(CertifiedIssuer<'static, KeyPair>);

/// Contents of a certificate to issue.
#[derive(Clone, Copy, Debug)]
pub struct CertRequest<'a> {
    /// The common name.
    pub name: &'a str,
    /// The names and addresses of a server.
    pub hosts: &'a [&'a str],
    /// The organizational units; two at most.
    pub units: &'a [&'a str],
    /// The validity, in days from now.
    pub days: (i32, i32),
}

impl CertRequest<'_> {
    /// Valid now, and without host names.
    pub const PLAIN: Self = Self {
        name: "plain",
        hosts: &[],
        units: &[],
        days: (-1, 1),
    };
}

impl Ca {
    /// Creates a CA.
    ///
    /// # Panics
    /// If there are no random bits.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("random bits");
        Self(CertifiedIssuer::self_signed(params, key).expect("signed"))
    }

    /// The CA's own certificate.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate with its key.
    ///
    /// # Panics
    /// If a host is not a valid name.
    #[must_use]
    pub fn issue(&self, request: CertRequest<'_>) -> (String, String) {
        let hosts: Vec<String> = request.hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts).expect("names");
        let names = &mut params.distinguished_name;
        names.push(DnType::CommonName, request.name);
        // The library stores one entry of each kind, but this kind has two spellings.
        let kinds = [
            DnType::OrganizationalUnitName,
            DnType::CustomDnType(vec![2, 5, 4, 11]),
        ];
        for (kind, unit) in kinds.into_iter().zip(request.units) {
            names.push(kind, *unit);
        }
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.not_before = day(request.days.0).into();
        params.not_after = day(request.days.1).into();
        let key = KeyPair::generate().expect("random bits");
        let cert = params.signed_by(&key, &self.0).expect("signed");
        (cert.pem(), key.serialize_pem())
    }

    /// Issues a certificate and writes it and its key to `NAME.pem` and `NAME.key` in a directory.
    ///
    /// # Panics
    /// If they cannot be written.
    pub fn write(&self, dir: &Path, request: CertRequest<'_>) -> (PathBuf, PathBuf) {
        let (cert, key) = self.issue(request);
        let at = |end: &str| dir.join(format!("{}.{end}", request.name));
        let paths = (at("pem"), at("key"));
        fs::write(&paths.0, cert).expect("written");
        fs::write(&paths.1, key).expect("written");
        paths
    }

    /// Writes the CA's own certificate.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write_own(&self, path: &Path) -> PathBuf {
        fs::write(path, self.pem()).expect("written");
        path.to_owned()
    }
}

fn day(days: i32) -> SystemTime {
    let span = DAY * days.unsigned_abs();
    if days < 0 {
        SystemTime::now() - span
    } else {
        SystemTime::now() + span
    }
}
