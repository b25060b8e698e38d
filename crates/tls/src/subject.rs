//! The subject and the validity of a certificate.
//!
//! They decide roles, so a library parses them. The signature of a client's certificate was already
//! verified; anything unexpected is not a certificate.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{ASN1Time, AttributeTypeAndValue, FromDer as _, X509Certificate};

use crate::error::TlsError;
use crate::files;

/// The subject of a certificate, and its validity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// Its common name (CN), if it has exactly one.
    pub common_name: Option<String>,
    /// Its organizational units (OU), in order.
    pub units: Vec<String>,
    /// The start of its validity, in seconds since 1970.
    pub not_before: u64,
    pub not_after: u64,
}

impl Subject {
    /// Parses a certificate; `None` if it is not an X.509 certificate of the usual form.
    #[must_use]
    pub fn read(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let subject = parsed.subject();
        let mut names = texts(subject.iter_common_name());
        let validity = parsed.validity();
        Some(Self {
            common_name: names.pop().filter(|_| names.is_empty()),
            units: texts(subject.iter_organizational_unit()),
            not_before: seconds(validity.not_before)?,
            not_after: seconds(validity.not_after)?,
        })
    }
}

/// The certificates of a file in PEM, valid or not; those of an unusual form are left out.
///
/// # Errors
/// If the file cannot be read, or holds none.
pub fn of_file(path: &Path) -> Result<Vec<Subject>, TlsError> {
    let certificates = files::certificates(path)?;
    Ok(certificates.iter().filter_map(Subject::read).collect())
}

/// The values that are valid UTF-8; others cannot name a role.
fn texts<'a>(values: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>) -> Vec<String> {
    let texts = values.filter_map(|value| value.as_str().ok());
    texts.map(str::to_owned).collect()
}

/// Seconds since 1970; no certificate is older.
fn seconds(time: ASN1Time) -> Option<u64> {
    u64::try_from(time.timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject as _;

    use super::*;
    use baton_testing::ca::{Ca, CertRequest};

    fn read(text: &str) -> Subject {
        let der = CertificateDer::from_pem_slice(text.as_bytes()).expect("a certificate");
        Subject::read(&der).expect("of the usual kind")
    }

    #[test]
    fn names_units_and_times_are_read() {
        let ca = Ca::new("the CA");
        let (cert, _) = ca.issue(CertRequest {
            name: "rack7",
            hosts: &["a", "b"],
            units: &["Geräte", "worker"],
            days: (-1, 400),
        });
        let subject = read(&cert);
        assert_eq!(subject.common_name.as_deref(), Some("rack7"));
        assert_eq!(subject.units, ["Geräte", "worker"]);
        assert_eq!(subject.not_after - subject.not_before, 401 * 86_400);
        assert_eq!(read(&ca.pem()).common_name.as_deref(), Some("the CA"));
    }

    /// The start of the validity of a certificate, with the given text in its place.
    fn start(from: i32, text: &str) -> Option<u64> {
        let (cert, _) = Ca::new("ca").issue(CertRequest {
            days: (from, from + 1),
            ..CertRequest::PLAIN
        });
        let der = CertificateDer::from_pem_slice(cert.as_bytes()).expect("a certificate");
        let mut bytes = der.to_vec();
        let length = u8::try_from(text.len()).expect("short");
        let tag = if length == 13 { 0x17 } else { 0x18 };
        let mut places = bytes.windows(2);
        let place = places.position(|it| it == [tag, length]).expect("a time") + 2;
        bytes[place..place + text.len()].copy_from_slice(text.as_bytes());
        Some(Subject::read(&CertificateDer::from(bytes))?.not_before)
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(start(-1, "700101000000Z"), Some(0));
        assert_eq!(start(-1, "000229235959Z"), Some(951_868_799));
        assert_eq!(start(-1, "491231235959Z"), Some(2_524_607_999));
        // From 2050 on, years have four digits.
        let century = 36_500;
        assert_eq!(start(century, "99991231235959Z"), Some(253_402_300_799));
        for bad in ["701301000000Z", "7001010000000", "70010100000xZ"] {
            assert_eq!(start(-1, bad), None, "{bad}");
        }
        assert_eq!(start(-1, "690101000000Z"), None, "before 1970");
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let ca = Ca::new("ca");
        let (cert, _) = ca.issue(CertRequest::PLAIN);
        let der = CertificateDer::from_pem_slice(cert.as_bytes()).expect("a certificate");
        for at in 0..der.len() {
            let _ = Subject::read(&CertificateDer::from(der[..at].to_vec()));
            for value in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut bytes = der.to_vec();
                bytes[at] = value;
                let _ = Subject::read(&CertificateDer::from(bytes));
            }
        }
    }
}
