//! The way in through one port: how many may come, and how they begin.
//!
//! Whoever finds no room is closed at once, and counted; it costs no more than that. One address
//! gets at most half of the room, the server's own machine included, so that nobody alone can
//! lock everybody else out. A handshake has its own time and holds up nobody.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::limits::{REFUSALS_LOGGED, Traffic};
use crate::metrics::{Cut, Metrics, Port};
use crate::rates::one_address;
use crate::seldom::Seldom;
use crate::tls::{Channel, Missed, Tls};

/// One port.
pub(crate) struct Entrance {
    pub(crate) port: Port,
    pub(crate) traffic: Traffic,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) metrics: Arc<Metrics>,
    most: usize,
    room: Arc<Semaphore>,
    peers: Arc<Peers>,
    turned_away: Seldom,
}

/// How many connections each address has.
#[derive(Debug, Default)]
struct Peers(Mutex<HashMap<IpAddr, usize>>);

/// Somebody's place, until it is dropped.
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    peers: Arc<Peers>,
    address: IpAddr,
    metrics: Arc<Metrics>,
    port: Port,
}

impl Entrance {
    pub(crate) fn new(
        port: Port,
        traffic: Traffic,
        tls: Option<Arc<Tls>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let most = match port {
            Port::Clients => traffic.client_connections_max,
            Port::Workers => traffic.worker_connections_max,
        };
        // So many fit into a semaphore; nobody has as many descriptors.
        let most = most.clamp(1, u32::MAX as usize >> 4);
        Self {
            port,
            traffic,
            tls,
            metrics,
            most,
            room: Arc::new(Semaphore::new(most)),
            peers: Arc::default(),
            turned_away: Seldom::new(REFUSALS_LOGGED),
        }
    }

    /// The next connection for which there is room.
    pub(crate) async fn next(&self, listener: &TcpListener) -> (TcpStream, SocketAddr, Place) {
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // When there are no descriptors left, a pause lets some be closed.
                    tracing::warn!("cannot accept a connection: {error}");
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            match self.place(peer.ip()) {
                Ok(place) => return (stream, peer, place),
                Err(cut) => {
                    self.metrics.cut(self.port, cut);
                    if self.turned_away.may_say() {
                        tracing::warn!(
                            "{peer} is turned away: {} connections are the most for {}, and half \
                             of them for one address",
                            self.most,
                            self.port.word()
                        );
                    }
                }
            }
        }
    }

    /// How a connection begins: with a handshake where there is TLS, within its time.
    pub(crate) async fn meet(&self, stream: TcpStream) -> Result<Channel, Missed> {
        let Some(tls) = &self.tls else {
            return Ok(Channel::Plain(stream));
        };
        let met = timeout(self.traffic.handshake_wait, tls.meet(stream)).await;
        let met = met.unwrap_or_else(|_| Err(Missed::Failed("it is too slow".to_owned())));
        if let Err(missed) = &met {
            let cut = match missed {
                Missed::Plain(_) => Cut::Plain,
                Missed::Failed(_) => Cut::Tls,
            };
            self.metrics.cut(self.port, cut);
        }
        met
    }

    /// Resolves when nobody is inside; nobody may be let in any longer.
    pub(crate) async fn until_empty(&self) {
        let all = u32::try_from(self.most).unwrap_or(u32::MAX);
        // Fails only if somebody had closed it, which nobody does.
        let _everything = self.room.acquire_many(all).await;
    }

    fn place(&self, ip: IpAddr) -> Result<Place, Cut> {
        let address = one_address(ip);
        let permit = Arc::clone(&self.room).try_acquire_owned();
        let permit = permit.map_err(|_| Cut::Full)?;
        if !self.peers.enter(address, self.most.div_ceil(2)) {
            return Err(Cut::Peer);
        }
        self.metrics.connected(self.port);
        Ok(Place {
            _permit: permit,
            peers: Arc::clone(&self.peers),
            address,
            metrics: Arc::clone(&self.metrics),
            port: self.port,
        })
    }
}

impl Peers {
    fn enter(&self, address: IpAddr, most: usize) -> bool {
        // Nothing under the lock can panic.
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = peers.entry(address).or_default();
        let fits = *count < most;
        *count += usize::from(fits);
        fits
    }

    fn leave(&self, address: IpAddr) {
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

impl Drop for Place {
    fn drop(&mut self) {
        self.peers.leave(self.address);
        self.metrics.disconnected(self.port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_has_left_is_forgotten() {
        let peers = Peers::default();
        let address = IpAddr::from([10, 0, 0, 1]);
        assert!(peers.enter(address, 2) && peers.enter(address, 2));
        assert!(!peers.enter(address, 2));
        peers.leave(address);
        assert!(peers.enter(address, 2));
        peers.leave(address);
        peers.leave(address);
        assert!(peers.0.lock().expect("sound").is_empty());
    }
}
