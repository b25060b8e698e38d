//! The subject and the validity of a certificate.
//!
//! Parsed by hand: only three fields of X.509 are needed, of a certificate whose signature was
//! already verified. Anything unexpected is not a certificate; nothing panics.

use rustls::pki_types::CertificateDer;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT: u8 = 0x06;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// UTF8String, PrintableString and IA5String: those that are valid UTF-8.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];

/// `id-at-commonName`, without its tag.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// `id-at-organizationalUnitName`.
const UNIT: [u8; 3] = [0x55, 0x04, 0x0b];

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
        let mut whole = Der(certificate);
        let mut signed = Der(Der(whole.take(SEQUENCE)?).take(SEQUENCE)?);
        if signed.0.first() == Some(&VERSION) {
            signed.take(VERSION)?;
        }
        signed.take(INTEGER)?;
        // The algorithm and the issuer.
        signed.take(SEQUENCE)?;
        signed.take(SEQUENCE)?;
        let mut validity = Der(signed.take(SEQUENCE)?);
        let (not_before, not_after) = (validity.time()?, validity.time()?);
        let mut subject = Self {
            not_before,
            not_after,
            ..Self::default()
        };
        let mut names = Vec::new();
        let mut parts = Der(signed.take(SEQUENCE)?);
        while !parts.0.is_empty() {
            let mut part = Der(parts.take(SET)?);
            while !part.0.is_empty() {
                let mut pair = Der(part.take(SEQUENCE)?);
                let kind = pair.take(OBJECT)?;
                let (tag, value) = pair.next()?;
                let text = TEXTS.contains(&tag).then(|| std::str::from_utf8(value));
                if let Some(Ok(text)) = text {
                    match kind {
                        kind if kind == COMMON_NAME => names.push(text.to_owned()),
                        kind if kind == UNIT => subject.units.push(text.to_owned()),
                        _ => {}
                    }
                }
            }
        }
        subject.common_name = names.pop().filter(|_| names.is_empty());
        Some(subject)
    }
}

/// A sequence of DER values.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next value with its tag.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match *first {
            short if short < 0x80 => (usize::from(short), rest),
            long => {
                // More than three bytes of length would be more than 16 MiB.
                let bytes = usize::from(long & 0x7f);
                let digits = rest.get(..bytes).filter(|_| (1..=3).contains(&bytes))?;
                let length = digits
                    .iter()
                    .fold(0, |length, digit| length << 8 | usize::from(*digit));
                (length, &rest[bytes..])
            }
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, value))
    }

    /// The next value, if it has this tag.
    fn take(&mut self, wanted: u8) -> Option<&'a [u8]> {
        let (tag, value) = self.next()?;
        (tag == wanted).then_some(value)
    }

    /// The next value as a time.
    fn time(&mut self) -> Option<u64> {
        let (tag, text) = self.next()?;
        let digits = text.strip_suffix(b"Z")?;
        let (year, rest) = match tag {
            UTC_TIME => {
                let (year, rest) = digits.split_at_checked(2)?;
                let year = number(year)?;
                // As RFC 5280 defines it.
                (
                    if year < 50 {
                        2_000 + year
                    } else {
                        1_900 + year
                    },
                    rest,
                )
            }
            GENERALIZED_TIME => {
                let (year, rest) = digits.split_at_checked(4)?;
                (number(year)?, rest)
            }
            _ => return None,
        };
        let mut parts = rest.chunks_exact(2).map(number);
        let mut part = || parts.next().flatten();
        let (month, day) = (part()?, part()?);
        let (hour, minute, second) = (part()?, part()?, part()?);
        let plain = rest.len() == 10 && (1..=12).contains(&month) && (1..=31).contains(&day);
        // No certificate is older than 1970.
        let days = plain.then(|| days(year, month, day))??;
        Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Days from 1970 to a date; years start in March here, so that the leap day comes last.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, month) = match month {
        1 | 2 => (year.checked_sub(1)?, month + 9),
        _ => (year, month - 3),
    };
    let leaps = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leaps + (month * 153 + 2) / 5 + day;
    // The number of days before 1 January 1970.
    days.checked_sub(719_469)
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

    #[test]
    fn times_are_those_of_the_calendar() {
        let time = |tag, text: &str| {
            let mut bytes = vec![tag, u8::try_from(text.len()).expect("short")];
            bytes.extend_from_slice(text.as_bytes());
            Der(&bytes).time()
        };
        assert_eq!(time(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(time(UTC_TIME, "000229235959Z"), Some(951_868_799));
        assert_eq!(time(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        let far = time(GENERALIZED_TIME, "99991231235959Z");
        assert_eq!(far, Some(253_402_300_799));
        for bad in [
            "",
            "Z",
            "7001010000Z",
            "701301000000Z",
            "7001010000000",
            "70010100000xZ",
        ] {
            assert_eq!(time(UTC_TIME, bad), None, "{bad}");
        }
        assert_eq!(time(UTC_TIME, "690101000000Z"), time(0x0c, "x"), "neither");
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
