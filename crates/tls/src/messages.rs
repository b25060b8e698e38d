//! What went wrong between two sides, for people.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError};

/// What the innermost failure of TLS was, if it was one: seen from the side that dials, about
/// the one that was dialled.
#[must_use]
pub fn describe(error: &(dyn Error + 'static)) -> Option<String> {
    Some(said(find(error)?))
}

/// The failure of TLS among the causes.
fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // What is inside an error of input and output is not among its sources.
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        cause = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

fn said(error: &rustls::Error) -> String {
    use rustls::Error as E;
    match error {
        E::InvalidMessage(_) => {
            "it does not speak TLS; use http:// for a scheduler without --tls-cert, and no --ca \
             for its workers"
                .to_owned()
        }
        E::InvalidCertificate(why) => certificate(why),
        E::AlertReceived(alert) => alerted(*alert),
        other => other.to_string(),
    }
}

fn certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer => "its certificate is not signed by anybody that is \
                                            trusted here; name the CA's certificate with --ca"
            .to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired; it needs a new one, or this machine another time"
                .to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet; check the clocks".to_owned()
        }
        CertificateError::NotValidForName => {
            "its certificate is for another name; use the name that the certificate has".to_owned()
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => format!(
            "its certificate is not for {}, but for {}; use a name that it has",
            expected.to_str(),
            match presented.is_empty() {
                true => "no name at all".to_owned(),
                false => presented.join(", "),
            }
        ),
        other => format!("its certificate is not good: {other}"),
    }
}

fn alerted(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::DecryptError => "it does not trust the certificate shown to it; the \
                                             CA of its --client-ca has to have signed it"
            .to_owned(),
        AlertDescription::CertificateExpired => {
            "it says that the certificate shown to it has expired; have a new one signed".to_owned()
        }
        AlertDescription::CertificateRequired => {
            "it wants a certificate; show one with --cert and --key".to_owned()
        }
        AlertDescription::UnsupportedCertificate | AlertDescription::AccessDenied => {
            "it says that the certificate shown to it is not made for clients".to_owned()
        }
        other => format!("it broke TLS off: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_found_however_deep_it_is_wrapped() {
        let failed = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let inner = io::Error::new(io::ErrorKind::InvalidData, failed);
        let outer = io::Error::other(inner);
        let text = describe(&outer).expect("it is there");
        assert!(text.contains("--ca"), "{text}");
        assert_eq!(describe(&io::Error::other("else")), None);
    }
}
