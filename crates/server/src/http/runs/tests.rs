//! Cost of concurrent clients, and of the page of a large run.

use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use baton_core::scheduler::{Command, Reply, RunCommand};
use baton_core::workflow::ItemState;
use baton_model::workflow::{HaltMode, Items, Plan, PlanTask};
use tower::ServiceExt as _;

use super::super::app::READERS_MAX;
use super::super::{service, testing};
use super::*;
use crate::clock;
use crate::driver::event::Event;
use crate::faulty::Faulty;
use crate::prune::HistoryLock;

async fn command(app: &App, command: RunCommand) -> RunId {
    let command = Command::Run(Box::new(command));
    let Ok(Reply::Run(Ok((run, _)))) = app.command(None, command).await else {
        panic!("it can be done");
    };
    run
}

/// An ended run.
async fn over(app: &App) -> RunRecord {
    let plan = Arc::new(Plan {
        name: "w".to_owned(),
        tasks: vec![PlanTask {
            name: "a".to_owned(),
            ..PlanTask::default()
        }],
        ..Plan::default()
    });
    let register = RunCommand::Register {
        plan,
        open: true,
        key: None,
    };
    let run = command(app, register).await;
    halt(app, run).await;
    let record = app.run_record(run).await.expect("kept");
    assert!(record.head.state.is_terminal());
    record
}

#[tokio::test]
async fn of_many_who_look_at_a_run_that_is_over_one_works_it_out() {
    let store = Arc::new(Faulty::default());
    let app = testing::over(Arc::clone(&store), HistoryLock::default());
    let (first, second) = (over(&app).await, over(&app).await);
    let reads = || store.kept_run_reads.swap(0, Ordering::SeqCst);
    reads();
    let look = |record| app.ended_run(record);
    // No read starts before all clients wait.
    let all = u32::try_from(READERS_MAX).expect("few");
    let held = app.0.readers.acquire_many(all).await.expect("open");
    let goes = async {
        tokio::task::yield_now().await;
        drop(held);
    };
    let seen = tokio::join!(
        look(&first),
        look(&first),
        look(&second),
        look(&first),
        goes
    );
    let (one, other) = (seen.0.expect("known"), seen.3.expect("known"));
    assert!(Arc::ptr_eq(&one, &other) && seen.1.is_ok());
    assert!(!Arc::ptr_eq(&one, &seen.2.expect("known")));
    assert_eq!(reads(), 2, "once for each run");
    assert!(look(&first).await.is_ok());
    reads();
    assert!(look(&first).await.is_ok());
    assert_eq!(reads(), 0, "the last one is remembered");
    // A client that gives up leaves the work to the others.
    let third = over(&app).await;
    let gives_up = tokio::time::timeout(std::time::Duration::ZERO, look(&third));
    let (_, stays) = tokio::join!(gives_up, look(&third));
    assert!(stays.is_ok());
    app.0.inbox.send(Event::Stop);
}

/// A run whose items are all in flight.
async fn large(app: &App, count: u32) -> RunId {
    let plan = Arc::new(Plan {
        name: "w".to_owned(),
        tasks: vec![PlanTask {
            name: "each".to_owned(),
            items: Items::Range {
                first: 1,
                step: 1,
                count,
            },
            ..PlanTask::default()
        }],
        ..Plan::default()
    });
    let register = RunCommand::Register {
        plan,
        open: false,
        key: None,
    };
    let run = command(app, register).await;
    loop {
        let view = app.query(move |leader| leader.run_view(run, 0, 0, clock::now()));
        let view = view.await.ok().flatten().expect("it has not ended");
        if view.total.of(ItemState::Live) == count {
            return run;
        }
        app.command(None, Command::Sync).await.expect("it leads");
    }
}

async fn halt(app: &App, run: RunId) {
    let halt = RunCommand::Halt {
        run,
        mode: HaltMode::Kill,
        generation: None,
    };
    command(app, halt).await;
}

#[tokio::test]
async fn the_page_of_an_ended_run_reads_its_first_items_and_counts_the_others() {
    let mut reads = Vec::new();
    for count in [500, 5_000] {
        let store = Arc::new(Faulty::default());
        let app = testing::over(Arc::clone(&store), HistoryLock::default());
        let run = large(&app, count).await;
        halt(&app, run).await;
        let record = app.run_record(run).await.expect("kept");
        assert!(record.head.state.is_terminal());
        store.records_read.store(0, Ordering::SeqCst);
        load(&app, run).await;
        assert_eq!(store.kept_run_reads.load(Ordering::SeqCst), 0);
        reads.push(store.records_read.load(Ordering::SeqCst));
        let ended = app.ended_run(&record).await.expect("known");
        let progress = app.ended_progress(run, &ended).await.expect("known");
        assert_eq!(ended.items, counts::counts(progress.total(), 0));
        assert_eq!(ended.items.halted, u64::from(count));
        app.0.inbox.send(Event::Stop);
    }
    assert_eq!(reads[0], reads[1]);
}

/// Loads the page of a run.
async fn load(app: &App, run: RunId) {
    let request = Request::get(path(run))
        .header("host", "localhost")
        .header("accept", "text/html")
        .body(Body::empty());
    let page = service(app.clone()).oneshot(request.expect("valid")).await;
    assert_eq!(page.expect("answered").status(), StatusCode::OK);
}

#[tokio::test]
async fn the_page_of_a_run_reads_as_much_of_a_large_one_as_of_a_small_one() {
    let mut reads = Vec::new();
    for count in [500, 5_000] {
        let store = Arc::new(Faulty::default());
        let app = testing::over(Arc::clone(&store), HistoryLock::default());
        // The page compares the second with the first.
        large(&app, count).await;
        let run = large(&app, count).await;
        store.records_read.store(0, Ordering::SeqCst);
        load(&app, run).await;
        reads.push(store.records_read.load(Ordering::SeqCst));
        app.0.inbox.send(Event::Stop);
    }
    assert_eq!(reads[0], reads[1]);
    assert!(reads[0] > 400, "items of both runs: {reads:?}");
}
