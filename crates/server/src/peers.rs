//! The other schedulers of a shared store: this one announces itself in the store, and learns from it
//! which one leads.
//!
//! Nothing here is needed for safety. An announcement that is out of date sends a request to a
//! scheduler that does not lead, which refuses it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use baton_store::sharing::{Announcement, Sharing};
use baton_store::{FactLog, StoreError};
use baton_tls::ClientFiles;
use reqwest::Url;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::driver::Status;
use crate::error::ServeError;
use crate::limits::{
    ANNOUNCE_INTERVAL, FORWARD_CONNECT_WAIT, FORWARD_KEEPALIVE, LEADER_WAIT, PEERS_READ_PAUSE,
    REPLACED_CHECK_INTERVAL,
};

/// What this scheduler knows of the others.
#[derive(Debug)]
pub(crate) struct Peers {
    /// The name of this scheduler.
    pub(crate) name: String,
    /// The leader, if it is another scheduler.
    leader: watch::Receiver<Option<Announcement>>,
    refresh: Arc<Notify>,
    /// Sends requests to them.
    pub(crate) client: reqwest::Client,
}

impl Peers {
    /// The leader as last seen, if it is another scheduler.
    pub(crate) fn last_leader(&self) -> Option<Announcement> {
        self.leader.borrow().clone()
    }

    /// The leader, if it is another scheduler than `failed`, which could not be reached; waits a
    /// moment for one to be elected.
    pub(crate) async fn leader_but(&self, failed: Option<&Announcement>) -> Option<Announcement> {
        let found = |leader: &Option<Announcement>| {
            leader.is_some() && leader.as_ref().map(|it| it.epoch) != failed.map(|it| it.epoch)
        };
        let mut leader = self.leader.clone();
        let until = Instant::now() + LEADER_WAIT;
        while !found(&leader.borrow()) && Instant::now() < until {
            // The next leader may not have announced itself yet when the announcements are read.
            self.look_again();
            let waited = timeout(2 * PEERS_READ_PAUSE, leader.wait_for(found)).await;
            if matches!(waited, Ok(Err(_))) {
                // The server ends.
                return None;
            }
        }
        let leader = leader.borrow().clone();
        leader.filter(|leader| found(&Some(leader.clone())))
    }

    /// Resolves when another scheduler than this one leads: it may be frozen.
    pub(crate) async fn replaced(&self, before: &Announcement) {
        let mut leader = self.leader.clone();
        let is_next = |leader: &Option<Announcement>| {
            leader.as_ref().is_some_and(|it| it.epoch > before.epoch)
        };
        loop {
            let waited = timeout(REPLACED_CHECK_INTERVAL, leader.wait_for(is_next)).await;
            match waited.map(|next| next.is_ok()) {
                Ok(true) => return,
                // The server ends.
                Ok(false) => std::future::pending().await,
                Err(_) => self.look_again(),
            }
        }
    }

    /// Reads the announcements soon: what is known may be out of date.
    pub(crate) fn look_again(&self) {
        self.refresh.notify_one();
    }
}

/// What an operator has configured about this scheduler among others.
#[derive(Clone, Debug)]
pub(crate) struct Advertised {
    /// For people.
    pub(crate) name: String,
    /// URL of the client port, if not that of its address.
    pub(crate) clients: Option<String>,
    /// Address of the worker port, likewise.
    pub(crate) workers: Option<String>,
    /// Whether the client port has TLS.
    pub(crate) secure: bool,
}

/// How others reach this scheduler.
#[derive(Clone, Debug)]
pub(crate) struct Contact {
    pub(crate) name: String,
    /// URL of the client port.
    pub(crate) url: String,
    /// Address of the worker port.
    pub(crate) workers: String,
    pub(crate) started: Instant,
}

impl Contact {
    /// The contact of a scheduler that listens on these addresses.
    pub(crate) fn new(advertised: Advertised, clients: SocketAddr, workers: SocketAddr) -> Self {
        let scheme = if advertised.secure { "https" } else { "http" };
        let (url, address) = (advertised.clients, advertised.workers);
        Self {
            name: advertised.name,
            url: url.unwrap_or_else(|| format!("{scheme}://{clients}")),
            workers: address.unwrap_or_else(|| workers.to_string()),
            started: Instant::now(),
        }
    }
}

/// Keeps the announcement of this scheduler, and what it knows of the others, up to date.
pub(crate) struct Keeper {
    store: Arc<dyn FactLog>,
    announcement: Announcement,
    status: watch::Receiver<Status>,
    leader: watch::Sender<Option<Announcement>>,
    refresh: Arc<Notify>,
}

/// What a scheduler of a shared store needs to join the others, checked before it does.
pub(crate) struct Entry {
    announcement: Announcement,
    client: reqwest::Client,
}

/// Prepares a scheduler that listens on these addresses.
pub(crate) fn prepare(
    advertised: Advertised,
    files: &ClientFiles,
    clients: SocketAddr,
    workers: SocketAddr,
) -> Result<Entry, ServeError> {
    let announcement = announcement(advertised, clients, workers)?;
    let tls = files.load().map_err(ServeError::Tls)?;
    let client = reqwest::Client::builder()
        .connect_timeout(FORWARD_CONNECT_WAIT)
        .tcp_nodelay(true)
        // A stream may be silent for long; a peer that is gone must not look like one.
        .tcp_keepalive(FORWARD_KEEPALIVE)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .tls_backend_preconfigured(Arc::unwrap_or_clone(tls))
        .build()
        .map_err(|error| ServeError::PeerClient(error.to_string()))?;
    Ok(Entry {
        announcement,
        client,
    })
}

impl Entry {
    /// Joins the other schedulers of the store. The keeper must run.
    pub(crate) fn join(
        self,
        store: Arc<dyn FactLog>,
        status: watch::Receiver<Status>,
    ) -> (Arc<Peers>, Keeper) {
        let (leader, known) = watch::channel(None);
        let refresh = Arc::new(Notify::new());
        let peers = Peers {
            name: self.announcement.name.clone(),
            leader: known,
            refresh: Arc::clone(&refresh),
            client: self.client,
        };
        let keeper = Keeper {
            store,
            announcement: self.announcement,
            status,
            leader,
            refresh,
        };
        (Arc::new(peers), keeper)
    }
}

fn announcement(
    advertised: Advertised,
    clients: SocketAddr,
    workers: SocketAddr,
) -> Result<Announcement, ServeError> {
    let unreachable = |flag, address: SocketAddr| ServeError::NotAdvertised { flag, address };
    if advertised.clients.is_none() && clients.ip().is_unspecified() {
        return Err(unreachable("--advertise", clients));
    }
    if advertised.workers.is_none() && workers.ip().is_unspecified() {
        return Err(unreachable("--advertise-workers", workers));
    }
    let contact = Contact::new(advertised, clients, workers);
    // Two schedulers of one name, or one after a restart, must not be taken for each other.
    let random = getrandom::u32().map_err(ServeError::Random)?;
    Ok(Announcement {
        name: format!("{}-{random:08x}", contact.name),
        clients: client_url(&contact.url)?,
        workers: contact.workers,
        epoch: baton_model::ids::Epoch(0),
    })
}

/// A URL of the client port, without a trailing slash.
fn client_url(url: &str) -> Result<String, ServeError> {
    let bad = |reason: String| ServeError::BadAdvertise {
        url: url.to_owned(),
        reason,
    };
    let parsed = Url::parse(url).map_err(|error| bad(error.to_string()))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(bad("expected http:// or https://".to_owned()));
    }
    if parsed.path() != "/" || parsed.query().is_some() {
        return Err(bad("expected no path".to_owned()));
    }
    Ok(parsed.origin().ascii_serialization())
}

impl Keeper {
    /// Runs until it is aborted.
    pub(crate) async fn run(mut self) {
        let mut announce = true;
        let mut reported = false;
        loop {
            if let Status::Leading(epoch) = *self.status.borrow_and_update() {
                self.announcement.epoch = epoch;
            }
            match self.exchange(announce).await {
                Ok(leader) => {
                    self.leader.send_if_modified(|known| {
                        let changed = *known != leader;
                        *known = leader;
                        changed
                    });
                    reported = false;
                }
                // The election reports a store that cannot be reached.
                Err(error) if !reported => {
                    tracing::debug!("cannot read the announcements of schedulers: {error}");
                    reported = true;
                }
                Err(_) => {}
            }
            announce = tokio::select! {
                () = sleep(ANNOUNCE_INTERVAL) => true,
                changed = self.status.changed() => match changed {
                    Ok(()) => true,
                    Err(_) => return,
                },
                () = self.refresh.notified() => {
                    // However many requests ask for it.
                    sleep(PEERS_READ_PAUSE).await;
                    false
                }
            };
        }
    }

    /// Announces this scheduler, and reads which other one leads.
    async fn exchange(&self, announce: bool) -> Result<Option<Announcement>, StoreError> {
        let (store, own) = (Arc::clone(&self.store), self.announcement.clone());
        let exchanged = tokio::task::spawn_blocking(move || {
            let Some(sharing) = store.sharing() else {
                return Ok(None);
            };
            if announce {
                sharing.announce(&own)?;
            }
            leader(&*store, sharing, &own.name)
        });
        match exchanged.await {
            Ok(leader) => leader,
            Err(error) => Err(StoreError::Failed(error.to_string())),
        }
    }
}

/// The scheduler whose term is in force, unless it has this name.
fn leader(
    store: &dyn FactLog,
    sharing: &dyn Sharing,
    own: &str,
) -> Result<Option<Announcement>, StoreError> {
    let epoch = store.read_row()?.epoch;
    if epoch.number() == 0 {
        return Ok(None);
    }
    let announced = sharing.announced()?.into_iter();
    let mut announced = announced.map(|it| it.scheduler);
    let leader = announced.find(|it| it.epoch == epoch && it.name != own);
    Ok(leader)
}

/// Removes the announcement of this scheduler, at its end.
pub(crate) async fn withdraw(store: Arc<dyn FactLog>, peers: Arc<Peers>) {
    let withdrawn = tokio::task::spawn_blocking(move || match store.sharing() {
        Some(sharing) => sharing.withdraw(&peers.name),
        None => Ok(()),
    });
    match withdrawn.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!("cannot withdraw the announcement: {error}"),
        Err(error) => tracing::error!("withdrawing the announcement panicked: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(url: Option<&str>, clients: &str) -> Result<Announcement, ServeError> {
        let advertised = Advertised {
            name: "a".to_owned(),
            clients: url.map(str::to_owned),
            workers: None,
            secure: false,
        };
        let clients = clients.parse().expect("an address");
        let workers = SocketAddr::from(([127, 0, 0, 1], 8081));
        announcement(advertised, clients, workers)
    }

    #[test]
    fn a_scheduler_announces_where_others_reach_it() {
        let plain = announced(None, "10.0.0.7:8080").expect("reachable");
        assert_eq!(plain.clients, "http://10.0.0.7:8080");
        assert_eq!(plain.workers, "127.0.0.1:8081");
        let again = announced(None, "10.0.0.7:8080").expect("reachable");
        assert_ne!(plain.name, again.name, "a restart has another name");
        let named = announced(Some("https://a.example:8080/"), "0.0.0.0:8080");
        let named = named.expect("reachable");
        assert_eq!(named.clients, "https://a.example:8080");
    }

    #[test]
    fn an_address_that_others_cannot_reach_is_an_error() {
        let error = announced(None, "0.0.0.0:80").expect_err("unreachable");
        assert!(error.to_string().contains("--advertise"), "{error}");
        for bad in ["a:8080", "ftp://a", "http://a/path", "http://a/?x=1", ""] {
            let error = announced(Some(bad), "127.0.0.1:80").expect_err("no URL of a scheduler");
            assert!(matches!(error, ServeError::BadAdvertise { .. }), "{bad}");
        }
    }
}
