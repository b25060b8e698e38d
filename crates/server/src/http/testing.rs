//! Shared test helpers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use baton_core::leader::ElectionTimeouts;
use baton_core::scheduler::Config;
use baton_model::ids::Epoch;
use baton_model::notify::NotifySettings;
use tokio::sync::watch;

use super::app::{App, Parts};
use super::bodies::BodyBudget;
use crate::access::Access;
use crate::driver::{self, Setup};
use crate::faulty::Faulty;
use crate::followers::Source;
use crate::followers::notifications::{Notifications, Setup as NotificationSetup};
use crate::leadership;
use crate::limits::Traffic;
use crate::mark::MarkFile;
use crate::metrics::Metrics;
use crate::peers::Contact;
use crate::prune::HistoryLock;
use crate::rate_limit::RateLimiter;
use crate::secrets::Secrets;

/// All that a router needs, over a store in memory. Its driver ends with the test process.
pub(super) fn app() -> App {
    over(Arc::default(), HistoryLock::default())
}

/// The same, with a given faulty store and history lock.
pub(super) fn over(store: Arc<Faulty>, history: HistoryLock) -> App {
    let store: Arc<dyn baton_store::Store> = store;
    let mark = Arc::new(MarkFile::temporary());
    let taken = leadership::take(&*store, &mark, Epoch(0), None).expect("free");
    let metrics = Arc::new(Metrics::default());
    let secrets = Secrets::for_tests(Arc::clone(&store));
    let setup = Setup {
        fleets: None,
        pilot_tokens: None,
        secrets: Arc::clone(&secrets),
        store: Arc::clone(&store) as _,
        config: Config::default(),
        limits: Vec::new(),
        mark,
        metrics: Arc::clone(&metrics),
        election: ElectionTimeouts::default(),
    };
    let driver = driver::start(setup, taken).expect("a thread");
    let (end, shutdown) = watch::channel(false);
    // Dropping the sender would look like a shutdown.
    std::mem::forget(end);
    let notifications = Notifications::new(NotificationSetup {
        settings: NotifySettings::default(),
        url: String::new(),
        scheduler: "test".to_owned(),
        source: Source {
            store: Arc::clone(&store),
            status: driver.status.clone(),
            committed: driver.committed.clone(),
        },
        inbox: driver.inbox.clone(),
        metrics: Arc::clone(&metrics),
    });
    App::new(Parts {
        notifications,
        access: Access::new(Arc::clone(&store) as _, None).expect("readable"),
        store,
        inbox: driver.inbox,
        status: driver.status,
        history,
        address: SocketAddr::from(([127, 0, 0, 1], 1)),
        requires_credentials: false,
        rate_limit: RateLimiter::new(0),
        bodies: BodyBudget::new(Traffic::default().body_bytes_max),
        shutdown,
        committed: driver.committed,
        metrics,
        problems: crate::library::Problems::of("library"),
        fleet_dir: None,
        fleet_problems: crate::library::Problems::of("fleets"),
        local_worker: None,
        contact: Contact {
            name: "test".to_owned(),
            url: "http://127.0.0.1:1".to_owned(),
            workers: "127.0.0.1:2".to_owned(),
            started: Instant::now(),
        },
        peers: None,
        log_reader: None,
        log_archive: None,
        fleet_site: None,
        secrets,
    })
}
