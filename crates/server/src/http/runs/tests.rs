//! Cost of concurrent clients.

use std::sync::atomic::Ordering;

use baton_core::scheduler::{Command, Reply, RunCommand};
use baton_model::workflow::{HaltMode, Plan, PlanTask};

use super::super::app::READERS_MAX;
use super::super::testing;
use super::*;
use crate::driver::event::Event;
use crate::faulty::Faulty;
use crate::prune::HistoryLock;

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
    let command = async |command| {
        let command = Command::Run(Box::new(command));
        let Ok(Reply::Run(Ok((run, _)))) = app.command(command).await else {
            panic!("it can be done");
        };
        run
    };
    let run = command(RunCommand::Register {
        plan,
        open: true,
        key: None,
        submitted_by: None,
    })
    .await;
    command(RunCommand::Halt {
        run,
        how: HaltMode::Kill,
        generation: None,
    })
    .await;
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
