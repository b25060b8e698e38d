//! A CA for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Somebody who signs.
#[derive(Debug)]
pub struct Ca(CertifiedIssuer<'static, KeyPair>);

/// What is to be signed.
#[derive(Clone, Copy, Debug)]
pub struct CertRequest<'a> {
    /// The common name.
    pub name: &'a str,
    /// The names and addresses of a server.
    pub hosts: &'a [&'a str],
    /// The organizational units; two at most.
    pub units: &'a [&'a str],
    /// From when to when it is valid, in days from now.
    pub days: (i32, i32),
}

impl CertRequest<'_> {
    /// Valid today, and without names.
    pub const PLAIN: Self = Self {
        name: "plain",
        hosts: &[],
        units: &[],
        days: (-1, 1),
    };
}

impl Ca {
    /// A new one.
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

    /// Its own certificate.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate and its key.
    ///
    /// # Panics
    /// If a host is no name.
    #[must_use]
    pub fn issue(&self, wanted: CertRequest<'_>) -> (String, String) {
        let hosts: Vec<String> = wanted.hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts).expect("names");
        let names = &mut params.distinguished_name;
        names.push(DnType::CommonName, wanted.name);
        // Of each kind there is one, but one kind has two spellings.
        let kinds = [
            DnType::OrganizationalUnitName,
            DnType::CustomDnType(vec![2, 5, 4, 11]),
        ];
        for (kind, unit) in kinds.into_iter().zip(wanted.units) {
            names.push(kind, *unit);
        }
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.not_before = day(wanted.days.0).into();
        params.not_after = day(wanted.days.1).into();
        let key = KeyPair::generate().expect("random bits");
        let cert = params.signed_by(&key, &self.0).expect("signed");
        (cert.pem(), key.serialize_pem())
    }

    /// Writes both into files of a directory, `NAME.pem` and `NAME.key`.
    ///
    /// # Panics
    /// If they cannot be written.
    pub fn write(&self, dir: &Path, wanted: CertRequest<'_>) -> (PathBuf, PathBuf) {
        let (cert, key) = self.issue(wanted);
        let at = |end: &str| dir.join(format!("{}.{end}", wanted.name));
        let paths = (at("pem"), at("key"));
        fs::write(&paths.0, cert).expect("written");
        fs::write(&paths.1, key).expect("written");
        paths
    }

    /// Writes its own certificate.
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
    match days < 0 {
        true => SystemTime::now() - span,
        false => SystemTime::now() + span,
    }
}
