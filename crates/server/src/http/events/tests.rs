//! Clients that request events: one that does not read them, and one that sets a rate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use baton_core::step::{Outbox, Step};
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, WorkerName};
use baton_model::time::Wall;
use baton_store::FactLog as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::sync::watch;

use super::super::connection::serve;
use super::super::peer::Peer;
use super::super::{service, testing};
use super::*;
use crate::accept::Acceptor;
use crate::driver::event::Event;
use crate::faulty::Faulty;
use crate::limits::{STREAMS_MAX, Traffic};
use crate::metrics::Port;
use crate::prune::HistoryLock;

/// More than fits on several pages.
const FACTS: usize = 20_000;

fn fill(store: &Faulty) {
    let epoch = store.read_row().map(|row| row.epoch);
    let mut outbox: Outbox<()> = Outbox::new(epoch.expect("readable"));
    let fact = |number: usize| Fact::WorkerDrained {
        worker: WorkerName::new(&format!("worker-{number}")),
        drained: true,
    };
    let step: Step<Fact, ()> = Step::keeping((0..FACTS).map(fact).collect());
    let batch = outbox.accept(step).expect("a batch");
    let receipt = store.commit(batch, Wall(1)).expect("kept");
    outbox.release(receipt);
}

/// On the paused clock of the test, which advances when all tasks wait.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_costs_a_page_and_is_cut_off() {
    let store = Arc::new(Faulty::default());
    let app = testing::over(Arc::clone(&store), HistoryLock::default());
    fill(&store);
    assert_ne!(store.read_row().map(|row| row.epoch), Ok(Epoch(0)));
    let (near, mut far) = duplex(1_024);
    let (_end, shutdown) = watch::channel(false);
    let traffic = Traffic::default();
    let metrics = Arc::clone(&app.0.metrics);
    let acceptor = Acceptor::new(Port::Clients, traffic, None, metrics);
    let peer = Peer::of(&axum::http::Extensions::new());
    let begun = Instant::now();
    let service = service(app.clone());
    let serving =
        tokio::spawn(async move { serve(near, peer, service, shutdown, &acceptor).await });
    let request = b"GET /events?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    far.write_all(request).await.expect("taken");
    let mut head = [0; 12];
    far.read_exact(&mut head).await.expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 200");
    serving.await.expect("no panic");
    assert!(
        begun.elapsed() >= traffic.write_wait,
        "{:?}",
        begun.elapsed()
    );
    let reads = store.fact_reads.load(Ordering::SeqCst);
    // The end position; the page that is not taken; one ahead in each buffer on the way.
    assert!(reads <= 6, "{reads} unneeded reads");
    // And its permit is released.
    let all = u32::try_from(STREAMS_MAX).expect("few");
    drop(app.0.streams.acquire_many(all).await.expect("open"));
    app.0.inbox.send(Event::Stop);
}

#[tokio::test]
async fn what_a_rate_leaves_out_is_not_read() {
    let store = Arc::new(Faulty::default());
    let app = testing::over(Arc::clone(&store), HistoryLock::default());
    fill(&store);
    let mut follower = Follower {
        app: app.clone(),
        caller: Caller::ANONYMOUS,
        instance: None,
        run: None,
        owner: None,
        position: Seq(0),
        since: Wall(0),
        reported: Seq(0),
        follow: true,
        rate: Some(40),
        names: BTreeMap::new(),
    };
    let text = follower.newest(40).await.expect("readable");
    assert_eq!(text.matches("event: worker-drained").count(), 40);
    assert_eq!(text.matches("event: skipped").count(), 1);
    // The end position, and one page.
    assert_eq!(store.fact_reads.load(Ordering::SeqCst), 2);
    app.0.inbox.send(Event::Stop);
}
