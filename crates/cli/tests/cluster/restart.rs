//! `kill -9` of the scheduler while its workers continue.

use std::fs::OpenOptions;
use std::time::{Duration, Instant};

use baton_client::{PageOptions, View};
use baton_model::api::InstanceFilter;
use baton_testing::cluster::{Cluster, lines};
use baton_testing::processes::is_alive;
use baton_testing::{until, until_some};
use serde_json::json;

use crate::api::Api;

/// The default lease.
const LEASE: Duration = Duration::from_secs(90);

#[test]
fn a_thousand_running_are_kept_and_the_waiting_start_before_the_lease_is_over() {
    const COUNT: u64 = 1_000;
    let mut cluster = Cluster::new(&[]);
    let dir = cluster.path("effects");
    std::fs::create_dir(&dir).expect("made");
    let fifo = dir.join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).expect("made");
    cluster.start_worker("one", &["--resources", "cpu=1200"]);
    cluster.healthy("one");
    // A process that waits for a writer costs nothing.
    let file = json!({
        "task": "held",
        "run": "echo \"$BATON_ATTEMPT $$\" >> \"$DIR/$BATON_ARRAY_INDEX\"; exec cat \"$DIR/fifo\"",
        "env": { "DIR": dir },
        "resources": { "cpu": 1 },
    });
    let held = cluster.submit(file, COUNT);
    let started = |index: u64| lines(&dir.join(index.to_string()));
    until_some("all run", || {
        (1..=COUNT).all(|it| !started(it).is_empty()).then_some(())
    });
    let before: Vec<_> = (1..=COUNT).map(started).collect();
    let waits = json!({ "task": "waits", "run": "true", "resources": { "late": 1 } });
    let waits = cluster.submit(waits, 1).first;

    cluster.kill_scheduler();
    let begun = Instant::now();
    cluster.start_scheduler();
    cluster.start_worker("two", &["--resources", "late=1"]);
    assert_eq!(cluster.finish(waits).state.word(), "DONE");
    let room = json!({ "task": "room", "run": "true", "resources": { "cpu": 100 } });
    let room = cluster.finish(cluster.submit(room, 1).first);
    assert_eq!(room.worker.as_deref(), Some("one"), "beside the running");
    let took = begun.elapsed();
    assert!(
        took < LEASE,
        "no worker waits for the leases of others: {took:?}"
    );

    let now: Vec<_> = (1..=COUNT).map(started).collect();
    assert_eq!(before, now, "same attempt, same process");
    let pids = now
        .iter()
        .map(|it| it[0].split_once(' ').expect("two words").1);
    let dead = pids.filter(|it| !is_alive(it.parse().expect("a number")));
    assert_eq!(dead.count(), 0, "all live");
    // Opened and closed: a process that waits for a writer reads the end.
    drop(OpenOptions::new().write(true).open(&fifo).expect("opened"));
    until("all are done", || {
        cluster.states(held).get("DONE") == Some(&COUNT)
    });
    let over: Vec<_> = (1..=COUNT).map(started).collect();
    assert_eq!(before, over, "each ran once");
}

#[test]
fn work_outlives_its_scheduler_by_its_own_lost_after() {
    let mut cluster = Cluster::new(&["--lost-after", "3s"]);
    let dir = cluster.path("effects");
    std::fs::create_dir(&dir).expect("made");
    let fifo = dir.join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).expect("made");
    cluster.start_worker("one", &["--resources", "cpu=3"]);
    cluster.healthy("one");
    let task = |name: &str, field: &str, value: &str| {
        let mut file = json!({
            "task": name,
            "run": "echo $$ >> \"$DIR/$BATON_INSTANCE\"; exec cat \"$DIR/fifo\"",
            "env": { "DIR": dir },
        });
        file[field] = value.into();
        cluster.submit(file, 1).first
    };
    let short = task("short", "exclusive", "timed");
    let long = task("long", "lost_after", "1m");
    let strict = task("strict", "exclusive", "strict");
    let starts = |id| lines(&dir.join(format!("{id}")));
    let pid = |id| starts(id).first().and_then(|line| line.parse().ok());
    let of = |id| until_some("it runs", || pid(id));
    let (first, second, third) = (of(short), of(long), of(strict));
    cluster.kill_scheduler();
    until("the time of the scheduler is over", || !is_alive(first));
    assert!(is_alive(second) && is_alive(third), "theirs is not");
    cluster.start_scheduler();
    until("it runs again", || starts(short).len() == 2);
    drop(OpenOptions::new().write(true).open(&fifo).expect("opened"));
    for id in [long, strict] {
        let ended = cluster.finish(id);
        assert_eq!((ended.state.word(), ended.attempts), ("DONE", 1), "{id}");
        assert_eq!(starts(id).len(), 1, "{id}");
    }
}

#[test]
fn what_has_finished_stays_finished_and_is_still_listed() {
    const COUNT: u64 = 300;
    let mut cluster = Cluster::new(&[]);
    let dir = cluster.path("effects");
    std::fs::create_dir(&dir).expect("made");
    cluster.start_worker("w", &["--resources", "cpu=2"]);
    cluster.healthy("w");
    let earlier = cluster.sh("earlier", "true");
    assert_eq!(cluster.finish(earlier).state.word(), "DONE");
    let file = json!({
        "task": "fast",
        "run": "echo \"$BATON_ATTEMPT\" >> \"$DIR/$BATON_ARRAY_INDEX\"",
        "env": { "DIR": dir },
        "resources": { "cpu": 1 },
    });
    let span = cluster.submit(file, COUNT);
    let ran = || std::fs::read_dir(&dir).expect("readable").count();
    for part in [50, 120, 190] {
        until("some have run", || ran() >= part);
        cluster.kill_scheduler();
        cluster.start_scheduler();
    }
    until("all are done", || {
        cluster.states(span).get("DONE") == Some(&COUNT)
    });
    for index in 1..=COUNT {
        let runs = lines(&dir.join(index.to_string()));
        // An attempt that was leased and never started leaves no line.
        assert_eq!(runs.len(), 1, "{index} ran once: {runs:?}");
    }
    let listed = cluster.ask(|client| async move {
        let filter = InstanceFilter {
            name: Some("earlier".to_owned()),
            ..InstanceFilter::default()
        };
        let options = PageOptions::default();
        let page = client.view(View::History, &filter, &options).next().await?;
        Ok(page.expect("a page").items)
    });
    let ids: Vec<_> = listed.iter().map(|it| it.id.clone()).collect();
    assert_eq!(ids, [earlier.to_string()]);
}
