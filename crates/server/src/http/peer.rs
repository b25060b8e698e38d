//! What is known of a client before it asks: it goes with each of its requests.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::http::Extensions;

use crate::access::Certificate;
use crate::limits::Traffic;

/// Whoever is at the other end of a connection.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) ip: IpAddr,
    /// Whether nobody can listen.
    pub(super) secure: bool,
    /// The certificate that it has shown.
    pub(super) certificate: Option<Arc<Certificate>>,
    /// How long it may take to send a body.
    pub(super) body_wait: Duration,
}

impl Peer {
    /// The peer of a request; somebody unknown where there is no connection, as in tests.
    pub(super) fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_else(|| Self {
            ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            secure: false,
            certificate: None,
            body_wait: Traffic::default().body_wait,
        })
    }
}
