//! Restarts, and a store that fails.

use std::sync::atomic::Ordering;

use baton_model::time::Millis;
use baton_model::timeouts::Timeouts;
use baton_server::Config;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::disk::Disk;
use crate::rig::{Server, config, task, until};
use crate::worker::LOG;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_keeps_everything_and_running_work_goes_on() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let worker = server.worker("w1").await;
    let done = server.submit("hello").await;
    server.get(&format!("{done}?wait=60")).await;
    let held = server.submit("hold").await;
    server.until_state(&held, "RUNNING").await;
    let large = json!({"file": {"task": "x", "run": ["true"], "resources": {"memory": "64GiB"}}});
    let waits = server.send(Method::POST, "/instances/", &large).await;
    let waits = waits.body["links"]["control"]
        .as_str()
        .expect("a link")
        .to_owned();
    let again = Config {
        worker_listen: server.ready.workers,
        ..config(dir.path())
    };
    let first = server.ready.epoch;
    server.stop().await;
    let server = Server::start(again).await;
    assert!(server.ready.epoch > first);
    assert_eq!(server.get(&done).await.body["state"], "DONE");
    assert_eq!(server.get(&waits).await.body["state"], "QUEUED");
    let back = async || server.get("/workers/w1").await.body["state"] == "HEALTHY";
    assert!(until(back).await);
    let it = server.get(&held).await.body;
    assert_eq!(
        (&it["state"], &it["attempts"]),
        (&json!("RUNNING"), &json!(1))
    );
    assert_eq!(worker.observed.launched.load(Ordering::SeqCst), 2);
    server.delete(&held).await;
    let it = server.get(&format!("{held}?wait=60")).await.body;
    assert_eq!(it["endText"], "killed on request");
    assert_eq!(server.submit("hello").await, "/instances/i4");
    server.stop().await;
}

/// A lease of a few seconds, so that outliving it does not take long.
fn short_lease() -> Timeouts {
    Timeouts {
        heartbeat_period: Millis(100),
        heartbeat_gap: Millis(2_000),
        check_period: Millis(1_000),
        check_gap: Millis(60_000),
        lose_after: Millis(4_000),
        kill_grace: Millis(100),
        kill_slack: Millis(500),
        ..Timeouts::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_keeps_work_alive_and_heals_by_itself() {
    let Some(disk) = Disk::new("8m") else {
        return;
    };
    let timeouts = short_lease();
    let server = Server::start(Config {
        timeouts,
        ..config(disk.path())
    })
    .await;
    let worker = server.worker("w1").await;
    let path = server.submit("hold").await;
    server.until_state(&path, "RUNNING").await;
    // Something is due all the time, so that every look at the leader decides something.
    let often = json!({
        "task": "often",
        "owner": "o",
        "run": ["true"],
        "trigger": {"schedule": "every 1s"},
    });
    let defined = server.send(Method::POST, "/o/tasks/", &often).await;
    assert_eq!(defined.status, StatusCode::CREATED, "{defined:?}");
    disk.fill();
    let mut refused = None;
    let full = async || {
        // A little may still fit into pages that the store has already.
        let got = server.send(Method::POST, "/instances/", &large()).await;
        let full = got.status != StatusCode::CREATED;
        (full, got)
    };
    let reached = until(async || {
        let (is_full, got) = full().await;
        refused = Some(got);
        is_full
    });
    assert!(reached.await, "the disk never got full");
    let refused = refused.expect("tried");
    refused.is_problem(StatusCode::SERVICE_UNAVAILABLE, "store-failed");
    assert!(
        refused.detail().contains("recovers by itself"),
        "{refused:?}"
    );
    let ready = server.until_ready(false).await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(server.get("/healthz").await.status, StatusCode::OK);
    // Reads continue, and the worker survives its lease.
    let lease = timeouts.for_worker().lease.0;
    let failed_at = worker.now();
    let outlived = async || worker.observed.deadline.load(Ordering::SeqCst) > failed_at + 2 * lease;
    assert!(until(outlived).await, "the worker was not kept alive");
    assert_eq!(server.get(&path).await.body["state"], "RUNNING");
    let log = server.get(&format!("{path}/logs/stdout")).await;
    let whole = String::from_utf8_lossy(LOG).into_owned();
    assert_eq!((log.status, log.body), (StatusCode::OK, json!(whole)));
    let refused = server.delete(&path).await;
    refused.is_problem(StatusCode::SERVICE_UNAVAILABLE, "store-failed");
    disk.empty();
    let ready = server.until_ready(true).await;
    assert!(ready.body["epoch"].as_u64() > Some(1));
    server.delete(&path).await;
    let it = server.get(&format!("{path}?wait=60")).await.body;
    assert_eq!(
        (&it["endText"], &it["attempts"]),
        (&json!("killed on request"), &json!(1))
    );
    assert!(!worker.observed.dying.load(Ordering::SeqCst));
    server.stop().await;
}

/// A submission that takes some space.
fn large() -> serde_json::Value {
    let mut body = task("large");
    body["file"]["env"] = json!({"LARGE": "x".repeat(100_000)});
    body["file"]["resources"] = json!({"memory": "64GiB"});
    body
}
