//! Workers that end in order: lifetimes, drains, idle exits, and what becomes of their work.

use std::time::{Duration, Instant};

use baton_model::outcome::{AttemptEnd, KillCause, Outcome};
use baton_testing::cluster::{Cluster, lines};
use baton_testing::processes::{is_alive, send};
use baton_testing::until;
use rustix::process::Signal;
use serde_json::json;

use crate::api::Api;
use crate::effects::{SUCCESS, recorded};

/// The end of an attempt whose worker has ended in order.
const LOST: AttemptEnd = AttemptEnd::Real(Outcome::Killed(KillCause::WorkerEnded));

/// Far shorter than the lease: a worker that is still listed then was not heard to leave.
const AT_ONCE: Duration = Duration::from_secs(20);

/// Waits until a worker has no seat, and its agent has ended.
fn until_gone(cluster: &Cluster, name: &str) {
    let begun = Instant::now();
    let agent = cluster.worker_pid(name);
    until("the worker has ended", || !is_alive(agent));
    until("its seat is empty", || cluster.worker(name).is_none());
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
}

#[test]
fn work_that_outlasts_a_worker_waits_for_another_and_explain_says_why() {
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("brief", &["--lifetime", "5m", "--drain-grace", "5s"]);
    cluster.healthy("brief");
    let brief = cluster.worker("brief").expect("it has a seat");
    assert!(brief.ends_at.is_some() && !brief.leaving, "{brief:?}");
    assert_eq!(brief.version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(brief.dialled, Some(cluster.workers_at()));
    assert!(brief.clock_offset_seconds.is_some_and(|it| it.abs() < 1.0));
    let long = json!({ "task": "long", "run": "true", "time_request": "30m" });
    let long = cluster.submit(long, 1).first;
    let short = json!({ "task": "short", "run": "true", "timeout": "1m" });
    let short = cluster.finish(cluster.submit(short, 1).first);
    assert_eq!(short.worker.as_deref(), Some("brief"));
    let explained = cluster.run(&["explain", &long.to_string()]).good();
    let why = "worker brief ends in 5 min, and the task asks for 30 min";
    assert!(explained.contains(why), "{explained}");
    cluster.start_worker("lasting", &[]);
    let long = cluster.finish(long);
    assert_eq!(long.worker.as_deref(), Some("lasting"));
}

#[test]
fn a_task_that_is_warned_of_a_drain_goes_on_elsewhere_without_a_retry() {
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("one", &["--drain-grace", "15s"]);
    cluster.healthy("one");
    let trace = cluster.path("trace");
    let script = format!(
        "trap 'echo warned >> {0}; exit 75' USR1; echo started >> {0}; test $BATON_ATTEMPT = 2 || \
         while :; do sleep 0.05; done",
        trace.display()
    );
    let warn = json!({ "signal": "SIGUSR1", "before": "5s" });
    // A single command, and one that a runner runs.
    let plain = json!({ "task": "plain", "run": script, "warn": warn });
    let processes = json!([{ "name": "work", "run": script }, { "name": "other", "run": "true" }]);
    let task = json!({ "task": "several", "processes": processes, "warn": warn });
    let ids = [plain, task].map(|file| cluster.submit(file, 1).first);
    until("both have started", || lines(&trace).len() == 2);
    cluster.start_worker("two", &[]);
    cluster.healthy("two");
    send(cluster.worker_pid("one"), Signal::TERM);
    for id in ids {
        let over = cluster.finish(id);
        assert_eq!(over.state.word(), "DONE", "{over:?}");
        assert_eq!((over.attempts, over.failures, over.losses), (2, 0, 1));
        assert_eq!(over.worker.as_deref(), Some("two"));
        assert_eq!(recorded(&cluster, id), [(1, LOST), (2, SUCCESS)]);
    }
    let mut traced = lines(&trace);
    traced.sort();
    assert_eq!(
        traced,
        [
            "started", "started", "started", "started", "warned", "warned"
        ]
    );
    until_gone(&cluster, "one");
}

#[test]
fn what_does_not_end_in_a_drain_is_killed_and_lost_before_the_grace_ends() {
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("one", &["--drain-grace", "3s"]);
    cluster.healthy("one");
    let id = cluster.sh("stubborn", "test $BATON_ATTEMPT = 2 || sleep 1000");
    cluster.until_state(&id.to_string(), "RUNNING");
    cluster.start_worker("two", &[]);
    cluster.healthy("two");
    let begun = Instant::now();
    send(cluster.worker_pid("one"), Signal::TERM);
    let over = cluster.finish(id);
    assert_eq!(over.state.word(), "DONE");
    assert_eq!((over.attempts, over.failures, over.losses), (2, 0, 1));
    assert_eq!(recorded(&cluster, id)[0], (1, LOST));
    assert!(
        begun.elapsed() > Duration::from_secs(1),
        "it had time to end"
    );
    until_gone(&cluster, "one");
}

#[test]
fn a_worker_ends_with_its_lifetime_and_nothing_of_it_is_left() {
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("w", &["--lifetime", "9s", "--drain-grace", "4s"]);
    cluster.healthy("w");
    let id = cluster.sh("long", "sleep 1000");
    cluster.until_state(&id.to_string(), "RUNNING");
    until_gone(&cluster, "w");
    assert_eq!(
        cluster.state(&id.to_string()),
        "QUEUED",
        "lost, and requeued at once"
    );
    assert_eq!(recorded(&cluster, id), [(1, LOST)]);
    cluster.run(&["cancel", &id.to_string()]).good();
}

#[test]
fn an_idle_worker_ends_by_itself_also_without_a_scheduler() {
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("w", &["--idle-exit", "2s"]);
    let id = cluster.sh("work", "sleep 3");
    let over = cluster.finish(id);
    assert_eq!(over.state.word(), "DONE", "work keeps it: {over:?}");
    until_gone(&cluster, "w");
    cluster.kill_scheduler();
    cluster.start_worker("alone", &["--idle-exit", "1s"]);
    let agent = cluster.worker_pid("alone");
    until("it has ended alone", || !is_alive(agent));
}

#[test]
fn an_interrupted_worker_gives_back_what_it_has_not_started() {
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("w", &["--resources", "cpu=1"]);
    cluster.healthy("w");
    let on_it = |run: &str| {
        let labels = json!({ "worker": "w" });
        json!({ "task": "work", "run": run, "constraints": labels, "resources": { "cpu": 1 } })
    };
    let running = cluster.submit(on_it("sleep 1000"), 1).first;
    cluster.until_state(&running.to_string(), "RUNNING");
    let waiting = cluster.submit(on_it("true"), 1).first;
    send(cluster.worker_pid("w"), Signal::INT);
    until_gone(&cluster, "w");
    let waiting = cluster.instance(waiting);
    assert_eq!(
        (waiting.failures, waiting.losses),
        (0, 0),
        "it costs nothing"
    );
    let running = cluster.instance(running);
    assert_eq!((running.failures, running.losses), (0, 1));
}

#[test]
fn names_are_patterns_and_wrong_options_are_refused() {
    let cluster = Cluster::new(&[]);
    let refused = |args: &[&str], words: &str| {
        let mut all = vec!["worker", "--scheduler", "127.0.0.1:1", "--state", "s"];
        all.extend(args);
        let ended = cluster.run(&all);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.err);
        assert!(ended.err.contains(words), "{args:?}: {}", ended.err);
    };
    refused(&["--name", "{node}"], "{slurm_task}");
    refused(&["--name", "{slurm_job}"], "SLURM_JOB_ID");
    refused(&["--lifetime", "slurm"], "SLURM_JOB_ID");
    refused(&["--lifetime", "20s"], "--drain-grace");
    refused(&["--lifetime", "soon"], "duration");
    refused(&["--until", "2020-01-01"], "is over");
    refused(&["--label", "worker=w"], "--name");
}
