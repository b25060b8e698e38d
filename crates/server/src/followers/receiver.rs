//! Requests to receivers of what followers send.

use std::path::Path;
use std::sync::Arc;

use baton_tls::{ClientFiles, Trust, messages};
use reqwest::{Client, Url};

use crate::limits::{NOTICE_CONNECT_WAIT, NOTICE_SEND_WAIT};

/// A client for the receiver at this URL, with the CA of its certificate if it is not one of the system.
///
/// # Errors
/// If the CA cannot be used.
pub(super) fn client(url: &Url, ca: Option<&Path>) -> Result<Client, String> {
    let files = ClientFiles {
        trust: match ca {
            _ if url.scheme() == "http" => Trust::None,
            Some(ca) => Trust::Ca(ca.to_owned()),
            None => Trust::System,
        },
        identity: None,
    };
    let tls = files.load().map_err(|error| error.to_string())?;
    Client::builder()
        .connect_timeout(NOTICE_CONNECT_WAIT)
        .timeout(NOTICE_SEND_WAIT)
        .redirect(reqwest::redirect::Policy::none())
        .tls_backend_preconfigured(Arc::unwrap_or_clone(tls))
        .build()
        .map_err(|error| reason(&error))
}

/// The innermost cause. The outer ones name the URL, which may be secret.
pub(super) fn reason(error: &reqwest::Error) -> String {
    use std::error::Error as _;
    if error.is_timeout() {
        return "the receiver has not answered in time".to_owned();
    }
    if let Some(text) = messages::describe(error) {
        return text;
    }
    let Some(mut cause) = error.source() else {
        return "the connection failed".to_owned();
    };
    while let Some(next) = cause.source() {
        cause = next;
    }
    format!("the receiver cannot be reached: {cause}")
}
