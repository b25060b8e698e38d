//! Handshake failures as text with a hint.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError};

/// Describes the TLS failure among an error's causes, if there is one, from the point of view of
/// the connecting side.
#[must_use]
pub fn describe(error: &(dyn Error + 'static)) -> Option<String> {
    Some(message(find(error)?))
}

/// The TLS error among the causes.
fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // The inner error of an `io::Error` is not among its sources.
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

fn message(error: &rustls::Error) -> String {
    use rustls::Error as E;
    match error {
        E::InvalidMessage(_) => {
            "it does not use TLS; use http:// for a scheduler without --tls-cert, and no --ca \
             for its workers"
                .to_owned()
        }
        E::InvalidCertificate(reason) => certificate(reason),
        E::AlertReceived(alert) => alert_message(*alert),
        other => other.to_string(),
    }
}

fn certificate(reason: &CertificateError) -> String {
    match reason {
        CertificateError::UnknownIssuer => "its certificate is not signed by a trusted CA; name \
                                            the CA's certificate with --ca"
            .to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired; renew it, or correct this machine's clock".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet; check the clocks".to_owned()
        }
        CertificateError::NotValidForName => {
            "its certificate is for another name; use the name in the certificate".to_owned()
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => format!(
            "its certificate is not for {}, but for {}; use one of its names",
            expected.to_str(),
            if presented.is_empty() {
                "no name".to_owned()
            } else {
                let names: Vec<&str> = presented.iter().map(|name| plain_name(name)).collect();
                names.join(", ")
            }
        ),
        other => format!("its certificate is invalid: {other}"),
    }
}

/// A name out of rustls's own form: `DnsName("sched")`, `IpAddress(127.0.0.1)`.
fn plain_name(name: &str) -> &str {
    let inner = name.split_once('(').map_or(name, |(_, inner)| inner);
    let inner = inner.strip_suffix(')').unwrap_or(inner);
    inner.trim_matches('"')
}

fn alert_message(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::DecryptError => "it does not trust the client certificate; the CA of \
                                             its --client-ca must have signed it"
            .to_owned(),
        AlertDescription::CertificateExpired => {
            "the client certificate has expired; get a new one signed".to_owned()
        }
        AlertDescription::CertificateRequired => {
            "it requires a client certificate; pass one with --cert and --key".to_owned()
        }
        AlertDescription::UnsupportedCertificate | AlertDescription::AccessDenied => {
            "the certificate is not valid for client authentication".to_owned()
        }
        other => format!("it aborted the TLS handshake: {other:?}"),
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
        assert_eq!(plain_name(r#"DnsName("sched")"#), "sched");
        assert_eq!(plain_name("IpAddress(127.0.0.1)"), "127.0.0.1");
        assert_eq!(plain_name("127.0.0.1"), "127.0.0.1");
    }
}
