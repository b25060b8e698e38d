//! A PostgreSQL database that goes back in time while workers hold what it has forgotten: a standby is
//! promoted, or a backup is restored.

use std::collections::BTreeSet;
use std::fs;

use baton_model::fact::Fact;
use baton_model::ids::{Epoch, InstanceId};
use baton_testing::cluster::Cluster;
use baton_testing::postgres::{Server, run_sql};
use baton_testing::processes::{is_alive, send};
use baton_testing::until;
use rustix::process::Signal;
use serde_json::json;

use crate::api::Api;
use crate::copies::{events, pid, task};

const LEASES: [&str; 4] = ["--lease", "6s", "--leader-lease", "2s"];

/// The URL of an empty database on a primary and its standby.
pub(crate) fn url_of(primary: &Server, standby: &Server) -> String {
    let url = primary.database();
    let name = url.split(['/', '?']).nth(3).expect("a database");
    let (one, other) = (primary.socket().display(), standby.socket().display());
    format!("postgres:///{name}?host={one}&host={other}&user=baton&target_session_attrs=read-write")
}

/// Waits until the standby has all that the primary has now.
pub(crate) fn caught_up(primary: &Server, standby: &Server) {
    let written = run_sql(primary.socket(), "postgres", "SELECT pg_current_wal_lsn()");
    let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
    until("the standby has caught up", || {
        run_sql(standby.socket(), "postgres", &replayed) == "t"
    });
}

/// Lets the standby receive nothing any more.
pub(crate) fn cut_off(standby: &Server) {
    let none = "ALTER SYSTEM SET primary_conninfo = ''";
    run_sql(standby.socket(), "postgres", none);
    run_sql(standby.socket(), "postgres", "SELECT pg_reload_conf()");
    until("nothing is received", || {
        let receivers = "SELECT count(*) FROM pg_stat_wal_receiver";
        run_sql(standby.socket(), "postgres", receivers) == "0"
    });
}

/// The epochs in which leases of an instance were granted.
fn epochs(cluster: &Cluster, id: InstanceId) -> BTreeSet<Epoch> {
    let granted = |event: baton_model::api::Event| match event.fact {
        Fact::LeaseGranted { lease, .. } => Some(lease.epoch),
        _ => None,
    };
    cluster
        .timeline(id)
        .into_iter()
        .filter_map(granted)
        .collect()
}

fn finish_all(cluster: &Cluster, ids: &[(InstanceId, &str)]) {
    fs::write(cluster.path("go"), "").expect("written");
    for (id, name) in ids {
        let over = cluster.finish(*id);
        assert_eq!(over.state.word(), "DONE", "{name}");
        let log = cluster.run(&["logs", &id.to_string()]).good();
        assert_eq!(log, format!("of-{name}\n"), "the output of another");
    }
}

/// The standby has missed the placement of one instance, and the submission of another.
#[test]
fn a_standby_that_has_missed_leases_runs_nothing_twice_at_once() {
    let mut primary = Server::start();
    let standby = primary.standby();
    let url = url_of(&primary, &standby);
    let options = [&LEASES[..], &["--store", &url]].concat();
    let mut cluster = Cluster::new(&options);
    let held = cluster.submit(task(&cluster, "held", ""), 1).first;
    caught_up(&primary, &standby);
    cut_off(&standby);
    cluster.start_worker("w1", &["--resources", "cpu=4"]);
    let lost = cluster.submit(task(&cluster, "lost", ""), 1).first;
    let (first, forgotten) = (pid(&cluster, "held"), pid(&cluster, "lost"));
    let before = epochs(&cluster, held);

    // The worker cannot tell in time what it runs.
    send(cluster.worker_pid("w1"), Signal::STOP);
    primary.kill();
    standby.promote();
    cluster.start_worker("w2", &["--resources", "cpu=4"]);
    let other = cluster.submit(task(&cluster, "other", ""), 1).first;
    assert_ne!(other, lost, "the id of another");
    let second = baton_testing::until_some("it runs again", || {
        let text = fs::read_to_string(cluster.path("held.pid")).ok()?;
        let pid: u32 = text.trim().parse().ok()?;
        (pid != first).then_some(pid)
    });
    assert!(is_alive(second));
    assert!(!is_alive(first), "two attempts of one instance at once");
    assert!(!is_alive(forgotten), "the store does not know it");
    send(cluster.worker_pid("w1"), Signal::CONT);
    pid(&cluster, "other");
    finish_all(&cluster, &[(held, "held"), (other, "other")]);
    let after = epochs(&cluster, held);
    assert!(after.first() > before.last(), "{before:?} {after:?}");

    let opened = events(&cluster, "copy-opened");
    assert_eq!(opened.len(), 1, "{opened:?}");
    assert_eq!(opened[0]["evidence"], "other-history");
    assert_eq!(events(&cluster, "copy-settled").len(), 1);
    let log = cluster.log("scheduler").join("\n");
    assert!(log.contains("the store is a copy"), "{log}");
    assert!(
        log.contains("a standby of its database was promoted"),
        "{log}"
    );
}

#[test]
fn a_synchronous_standby_has_all_that_was_acknowledged() {
    let mut primary = Server::start();
    let standby = primary.standby();
    primary.set(&["synchronous_standby_names=*"]);
    let url = url_of(&primary, &standby);
    let options = [&LEASES[..], &["--store", &url]].concat();
    let mut cluster = Cluster::new(&options);
    cluster.start_worker("w", &["--resources", "cpu=4"]);
    cluster.healthy("w");
    let runs = cluster.submit(task(&cluster, "runs", ""), 1).first;
    let shell = pid(&cluster, "runs");
    let more = json!({ "task": "more", "run": ["true"], "resources": { "cpu": 1 } });
    let more = cluster.submit(more, 20);
    primary.kill();
    standby.promote();
    until("what was acknowledged is there", || {
        cluster.states(more).get("DONE") == Some(&20)
    });
    assert!(is_alive(shell), "it goes on");
    finish_all(&cluster, &[(runs, "runs")]);
    assert_eq!(cluster.instance(runs).attempts, 1);
    assert!(
        events(&cluster, "copy-opened").is_empty(),
        "nothing is lost"
    );
}

/// The backup is of the term in which the worker got what it runs, so no epoch tells.
#[test]
fn a_restored_backup_takes_no_attempt_of_its_lost_future_for_its_own() {
    let server = Server::start();
    let url = server.database();
    let name = url.split(['/', '?']).nth(3).expect("a database");
    let options = [&LEASES[..], &["--store", &url]].concat();
    let mut cluster = Cluster::new(&options);
    cluster.start_worker("w", &["--resources", "cpu=4"]);
    cluster.healthy("w");
    let first = json!({ "task": "first", "run": "true" });
    let first = cluster.submit(first, 1).first;
    cluster.finish(first);
    cluster
        .run(&["store", "backup", "b.db", "--store", &url])
        .good();
    let lost = cluster.submit(task(&cluster, "lost", ""), 1).first;
    let forgotten = pid(&cluster, "lost");
    cluster.kill_scheduler();
    run_sql(server.socket(), name, "DROP SCHEMA baton CASCADE");
    cluster
        .run(&["store", "restore", "b.db", "--store", &url])
        .good();
    cluster.start_scheduler();
    let next = cluster.submit(task(&cluster, "next", ""), 1).first;
    assert_ne!(next, lost, "the id of another");
    pid(&cluster, "next");
    assert!(!is_alive(forgotten), "killed before anything is placed");
    assert_eq!(cluster.instance(first).state.word(), "DONE");
    finish_all(&cluster, &[(next, "next")]);
    assert!(!cluster.path("lost.end").exists());
    let opened = events(&cluster, "copy-opened");
    assert_eq!(opened.len(), 1, "{opened:?}");
    assert_eq!(opened[0]["evidence"], "other-history");
    let disowned = events(&cluster, "attempts-disowned");
    assert_eq!(disowned[0]["attempts"], 1, "{disowned:?}");
    let log = cluster.log("scheduler").join("\n");
    assert!(log.contains("the store is a copy"), "{log}");
}
