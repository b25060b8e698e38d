//! Accept loop of one port: connection limits and TLS handshakes.
//!
//! A connection above a limit is closed at once and counted. One address gets at most half of the
//! connections, including addresses of this machine, so that no single peer can lock out all
//! others. Each handshake has its own timeout and blocks no other connection.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::limits::{REFUSAL_LOG_INTERVAL, Traffic};
use crate::log_throttle::LogThrottle;
use crate::metrics::{CloseReason, Metrics, Port};
use crate::rate_limit::address_group;
use crate::tls::{Channel, HandshakeError, Tls};

/// Accepts the connections of one port.
pub(crate) struct Acceptor {
    pub(crate) port: Port,
    pub(crate) traffic: Traffic,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) metrics: Arc<Metrics>,
    connections_max: usize,
    permits: Arc<Semaphore>,
    peers: Arc<PeerCounts>,
    refusal_log: LogThrottle,
}

/// Number of connections of each address.
#[derive(Debug, Default)]
struct PeerCounts(Mutex<HashMap<IpAddr, usize>>);

/// A counted connection; released on drop.
pub(crate) struct ConnectionSlot {
    _permit: OwnedSemaphorePermit,
    peers: Arc<PeerCounts>,
    address: IpAddr,
    metrics: Arc<Metrics>,
    port: Port,
}

impl Acceptor {
    pub(crate) fn new(
        port: Port,
        traffic: Traffic,
        tls: Option<Arc<Tls>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let connections_max = match port {
            Port::Clients => traffic.client_connections_max,
            Port::Workers => traffic.worker_connections_max,
        };
        // The maximum of a semaphore; no process has as many descriptors.
        let connections_max = connections_max.clamp(1, u32::MAX as usize >> 4);
        Self {
            port,
            traffic,
            tls,
            metrics,
            connections_max,
            permits: Arc::new(Semaphore::new(connections_max)),
            peers: Arc::default(),
            refusal_log: LogThrottle::new(REFUSAL_LOG_INTERVAL),
        }
    }

    /// The next connection within the limits.
    pub(crate) async fn next(
        &self,
        listener: &TcpListener,
    ) -> (TcpStream, SocketAddr, ConnectionSlot) {
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // If descriptors are exhausted, a pause lets some be closed.
                    tracing::warn!("cannot accept a connection: {error}");
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            match self.admit(peer.ip()) {
                Ok(admit) => return (stream, peer, admit),
                Err(reason) => {
                    self.metrics.cut(self.port, reason);
                    if self.refusal_log.allow() {
                        tracing::warn!(
                            "refused {peer}: the limit is {} connections for {}, half of them for one \
                             address",
                            self.connections_max,
                            self.port.word()
                        );
                    }
                }
            }
        }
    }

    /// Performs the TLS handshake, if TLS is on, within its timeout.
    pub(crate) async fn handshake(&self, stream: TcpStream) -> Result<Channel, HandshakeError> {
        let Some(tls) = &self.tls else {
            return Ok(Channel::Plain(stream));
        };
        let result = timeout(self.traffic.handshake_wait, tls.handshake(stream)).await;
        let result = result.unwrap_or_else(|_| {
            Err(HandshakeError::Failed(
                "the TLS handshake timed out".to_owned(),
            ))
        });
        if let Err(error) = &result {
            let reason = match error {
                HandshakeError::Plain(_) => CloseReason::Plain,
                HandshakeError::Failed(_) => CloseReason::Tls,
            };
            self.metrics.cut(self.port, reason);
        }
        result
    }

    /// Resolves when no connection is left. No new ones may be accepted meanwhile.
    pub(crate) async fn until_idle(&self) {
        let all = u32::try_from(self.connections_max).unwrap_or(u32::MAX);
        // Fails only if the semaphore is closed, which never happens.
        let _everything = self.permits.acquire_many(all).await;
    }

    fn admit(&self, ip: IpAddr) -> Result<ConnectionSlot, CloseReason> {
        let address = address_group(ip);
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        let permit = permit.map_err(|_| CloseReason::Full)?;
        if !self
            .peers
            .try_add(address, self.connections_max.div_ceil(2))
        {
            return Err(CloseReason::Peer);
        }
        self.metrics.connected(self.port);
        Ok(ConnectionSlot {
            _permit: permit,
            peers: Arc::clone(&self.peers),
            address,
            metrics: Arc::clone(&self.metrics),
            port: self.port,
        })
    }
}

impl PeerCounts {
    fn try_add(&self, address: IpAddr, connections_max: usize) -> bool {
        // Nothing under the lock can panic.
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = peers.entry(address).or_default();
        let fits = *count < connections_max;
        *count += usize::from(fits);
        fits
    }

    fn remove(&self, address: IpAddr) {
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = peers.entry(address) {
            match *count.get() {
                0 | 1 => drop(count.remove()),
                more => {
                    count.insert(more - 1);
                }
            }
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.peers.remove(self.address);
        self.metrics.disconnected(self.port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_has_left_is_forgotten() {
        let peers = PeerCounts::default();
        let address = IpAddr::from([10, 0, 0, 1]);
        assert!(peers.try_add(address, 2) && peers.try_add(address, 2));
        assert!(!peers.try_add(address, 2));
        peers.remove(address);
        assert!(peers.try_add(address, 2));
        peers.remove(address);
        peers.remove(address);
        assert!(peers.0.lock().expect("sound").is_empty());
    }
}
