//! Properties of a client connection, which each of its requests carries.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::http::Extensions;

use crate::access::Certificate;
use crate::limits::Traffic;

/// The client of a connection.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) ip: IpAddr,
    /// Whether the connection is encrypted.
    pub(super) secure: bool,
    /// Its client certificate.
    pub(super) certificate: Option<Arc<Certificate>>,
    /// Timeout for sending a body.
    pub(super) body_wait: Duration,
}

/// Extension of a request that a page makes after its first: the rate limiter has counted the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartOfPage;

impl Peer {
    /// The peer of a request; an unknown one where there is no connection, as in tests.
    pub(super) fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_else(|| Self {
            ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            secure: false,
            certificate: None,
            body_wait: Traffic::default().body_wait,
        })
    }
}
