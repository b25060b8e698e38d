//! The lifecycle of instances.

use std::sync::atomic::Ordering;

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::rig::{Server, config, got, until};
use crate::worker::LOG;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_is_run_and_its_timeline_is_kept() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let worker = server.worker("w1").await;
    let path = server.submit("hello").await;
    let got = server.get(&format!("{path}?wait=60")).await;
    assert_eq!(got.status, StatusCode::OK);
    let it = got.body;
    assert_eq!(it["state"], "DONE", "{it}");
    assert_eq!(
        (&it["worker"], &it["endText"]),
        (&json!("w1"), &json!("exit 0"))
    );
    assert_eq!(
        (&it["attempts"], &it["elapsedSeconds"]),
        (&json!(1), &json!(1.5))
    );
    assert_eq!(it["memoryPeakBytes"], 4_096);
    assert_eq!(it["links"].get("cancel"), None);
    let timeline = server
        .get(it["links"]["timeline"].as_str().expect("a link"))
        .await;
    let texts: Vec<&str> = timeline.body["items"]
        .as_array()
        .expect("events")
        .iter()
        .filter_map(|event| event["text"].as_str())
        .collect();
    assert_eq!(texts.first(), Some(&"accepted"));
    assert!(
        texts.contains(&"attempt 1 was assigned to worker w1 (host-of-w1:7:00000005)"),
        "{texts:?}"
    );
    assert_eq!(texts.last(), Some(&"attempt 1 ended: exit 0; done"));
    // Ids of 64 random bits are texts, counters and ids of instances numbers.
    let items = timeline.body["items"].as_array().expect("a list");
    let lease = items.iter().find_map(|it| it["fact"].get("lease-granted"));
    let lease = lease.expect("a lease");
    assert_eq!(
        lease["lease"]["attempt"],
        json!({"instance": 1, "number": 1})
    );
    for large in [
        &lease["lease"]["epoch"],
        &lease["holder"]["incarnation"]["lineage"],
        &lease["holder"]["host"],
        &lease["holder"]["boot"],
    ] {
        let number = large.as_str().and_then(|text| text.parse::<u64>().ok());
        assert!(number.is_some(), "{lease}");
    }
    assert_eq!(lease["holder"]["incarnation"]["number"], 1);
    assert_eq!(worker.observed.launched.load(Ordering::SeqCst), 1);
    let history = server.get("/history/").await.body;
    assert_eq!(history["items"][0]["id"], it["id"]);
    assert_eq!(history["total"], 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_element_of_an_array_runs_with_its_own_index() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let path = server.submit_array("many", 5, 304).await;
    let summary = server.get(&path).await.body;
    assert_eq!(summary["counts"], json!({"QUEUED": 300}));
    let worker = server.worker("w1").await;
    let done = async || {
        let summary = server.get(&format!("{path}?wait=10")).await.body;
        summary["counts"] == json!({"DONE": 300})
    };
    assert!(until(done).await, "{:?}", server.get(&path).await);
    let indices = worker.observed.indices.lock().expect("no panic").clone();
    let indices: Vec<u64> = indices.into_values().collect();
    assert_eq!(indices, (5..=304).collect::<Vec<u64>>());
    let one = path
        .trim_start_matches("/instances/")
        .split_once("..")
        .expect("a range")
        .0;
    let first = server.get(&format!("/instances/{one}")).await.body;
    assert_eq!(first["arrayIndex"], 5);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_array_has_the_indices_and_items_that_were_asked_for() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let file = json!({ "task": "hello", "run": ["echo", "{{ item.name }}", "{{ item }}"] });
    let items = json!([{"name": "a b"}, {"name": "{{ item }}"}]);
    let body = json!({ "file": file, "items": items });
    let many = server.send(Method::POST, "/instances/", &body).await;
    assert_eq!(many.status, StatusCode::CREATED, "{many:?}");
    assert_eq!(
        (&many.body["first"], &many.body["count"]),
        (&json!("i1"), &json!(2))
    );
    let second = server.get("/instances/i2").await.body;
    assert_eq!(second["item"], r#"{"name":"{{ item }}"}"#);
    assert_eq!(second["arrayIndex"], 1);
    let timeline = server.get("/instances/i2/timeline").await.body;
    let work = &timeline["items"][0]["fact"]["instances-submitted"]["spec"]["work"];
    assert_eq!(
        work["command"],
        json!(["echo", "{{ item }}", r#"{"name":"{{ item }}"}"#])
    );

    let file = json!({ "task": "hello", "run": "true" });
    let body = json!({ "file": file, "indices": "1-10:3,20,30-31" });
    let listed = server.send(Method::POST, "/instances/", &body).await;
    assert_eq!(listed.body["count"], 7, "{listed:?}");
    let index =
        async |id: &str| server.get(&format!("/instances/{id}")).await.body["arrayIndex"].clone();
    assert_eq!(index("i4").await, 4);
    assert_eq!(index("i7").await, 20);
    server.delete("/instances/i9").await;
    assert_eq!(index("i9").await, 31);

    for (field, value, at) in [
        ("indices", json!("3-1"), "indices"),
        ("indices", json!("0-99999999"), "array"),
        ("indices", json!("9007199254740992"), "array"),
        ("items", json!([]), "items"),
        ("items", json!([1, "a\u{0}b"]), "items[1]"),
        ("items", json!([{"name": "a"}, {}]), "run[1]"),
    ] {
        let file = json!({ "task": "hello", "run": ["echo", if at == "run[1]" { "{{ item.name }}" } else { "x" }] });
        let mut body = json!({ "file": file });
        body[field] = value;
        let refused = server.send(Method::POST, "/instances/", &body).await;
        assert_eq!(
            refused.status,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{refused:?}"
        );
        assert_eq!(refused.body["errors"][0]["field"], at, "{refused:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_and_what_runs_can_be_cancelled_and_tried_again() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let path = server.submit("hold").await;
    let waiting = server.submit_array("many", 0, 9).await;
    let cancelled = server.delete(&waiting).await;
    assert_eq!(cancelled.status, StatusCode::ACCEPTED);
    assert_eq!(cancelled.body, json!({"halted": 10, "stopping": 0}));
    assert_eq!(
        server.get(&waiting).await.body["counts"],
        json!({"HALTED": 10})
    );
    let _worker = server.worker("w1").await;
    server.until_state(&path, "RUNNING").await;
    let cancelled = server.delete(&path).await;
    assert_eq!(cancelled.body, json!({"halted": 0, "stopping": 1}));
    let it = server.get(&format!("{path}?wait=60")).await.body;
    assert_eq!(
        (&it["state"], &it["endText"]),
        (&json!("HALTED"), &json!("killed on request"))
    );
    assert_eq!(it["failures"], 0, "a stop is no failure: {it}");
    server
        .post(&format!("{path}/retry?state=FAILED"))
        .await
        .is_problem(StatusCode::CONFLICT, "wrong-state");
    let retried = server.post(&format!("{path}/retry?state=HALTED")).await;
    assert_eq!(retried.status, StatusCode::ACCEPTED, "{retried:?}");
    let it = server.until_state(&path, "RUNNING").await;
    assert_eq!(it["attempts"], 2);
    let worker = server.get("/workers/w1").await.body;
    assert_eq!(
        (
            &worker["used"]["cpu_milli"],
            &worker["capacity"]["cpu_milli"]
        ),
        (&it["details"]["resources"]["cpu_milli"], &json!(4_000)),
        "{worker}"
    );
    server
        .post(&format!("{path}/retry"))
        .await
        .is_problem(StatusCode::CONFLICT, "not-ended");
    let failed = server.submit("fail").await;
    let it = server.get(&format!("{failed}?wait=60")).await.body;
    assert_eq!(
        (&it["state"], &it["endText"]),
        (&json!("FAILED"), &json!("exit 3"))
    );
    assert_eq!(it["links"]["retry"], format!("POST {failed}/retry"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_and_lists_are_retried_and_killed_as_far_as_they_can_be() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let halted = server.submit_array("many", 0, 4).await;
    server.delete(&halted).await;
    let _worker = server.worker("w1").await;
    let failed = server.submit_array("fail", 0, 9).await;
    let it = server.get(&format!("{failed}?wait=60")).await.body;
    assert_eq!(it["counts"], json!({"FAILED": 10}));
    let held = server.submit_array("hold", 0, 1).await;
    let list = format!("{halted},{}", failed.trim_start_matches("/instances/"));
    let it = server.get(&list).await.body;
    assert_eq!(it["counts"], json!({"FAILED": 10, "HALTED": 5}));
    assert_eq!((&it["first"], &it["last"]), (&json!("i1"), &json!("i15")));
    assert_eq!(it["links"]["self"], list);
    let both = async || server.get(&held).await.body["counts"] == json!({"RUNNING": 2});
    assert!(until(both).await, "{:?}", server.get(&held).await);

    let retried = server.post("/instances/i1..i17/retry").await;
    assert_eq!(retried.status, StatusCode::ACCEPTED, "{retried:?}");
    assert_eq!(retried.body, json!({"retried": 10, "skipped": 7}));
    let again = server.post("/instances/i2,i4..i5/retry?state=halted").await;
    assert_eq!(again.body, json!({"retried": 3, "skipped": 0}));
    let killed = server.post("/instances/i1..i17/kill").await;
    assert_eq!(killed.body["killed"].as_u64().map(|it| it >= 2), Some(true));
    let it = server.get(&format!("{held}?wait=60")).await.body;
    assert_eq!(it["counts"], json!({"FAILED": 2}), "{it}");

    let bad = async |path: &str| server.post(path).await.status;
    assert_eq!(
        bad("/instances/i1..i10001/retry").await,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(
        bad("/instances/i1..i2/retry?state=DONE").await,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(
        bad("/instances/i1..i2/kill?attempt=1").await,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(
        bad("/instances/i88..i99/retry").await,
        StatusCode::NOT_FOUND
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_worker_gets_nothing_until_it_is_undrained() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let worker = server.worker("w1").await;
    let healthy = async || server.get("/workers/w1").await.body["state"] == "HEALTHY";
    assert!(until(healthy).await);
    let drained = server
        .send(
            Method::PUT,
            "/workers/w1/drained",
            &json!({"drained": true}),
        )
        .await;
    assert_eq!(
        (drained.status, &drained.body["drained"]),
        (StatusCode::OK, &json!(true))
    );
    let path = server.submit("hello").await;
    let explanation = server.get(&format!("{path}/explain")).await.body;
    assert_eq!(explanation["reason"], "no-worker", "{explanation}");
    assert!(
        explanation["text"]
            .as_str()
            .expect("text")
            .contains("w1 would do, and is drained: undrain it with `baton drain --undo w1`"),
        "{explanation}"
    );
    assert_eq!(worker.observed.launched.load(Ordering::SeqCst), 0);
    let drained = server
        .send(
            Method::PUT,
            "/workers/w1/drained",
            &json!({"drained": false}),
        )
        .await;
    assert_eq!(drained.body["drained"], false);
    let it = server.get(&format!("{path}?wait=60")).await.body;
    assert_eq!(it["state"], "DONE", "{it}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_instance_has_a_start_a_duration_and_processes() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let path = server.submit("hold").await;
    let processes = format!("{path}/processes");
    let refused = server.get(&processes).await;
    refused.is_problem(StatusCode::NOT_FOUND, "not-found");
    let worker = server.worker("w1").await;
    server.until_state(&path, "RUNNING").await;
    let shown = server.get("/workers/w1").await.body;
    assert_eq!(shown["executor"], "host-of-w1:7:00000005");
    let first = server.get(&path).await;
    let started = first.body["startedAt"].as_u64().expect("a start");
    assert_eq!(first.body["executor"], "host-of-w1:7:00000005");
    assert!(started >= first.body["submittedAt"].as_u64().expect("a time"));
    let grows = async || {
        let now = &server.get("/arena/").await.body["items"][0];
        now["elapsedSeconds"].as_f64() > first.body["elapsedSeconds"].as_f64()
    };
    assert!(until(grows).await, "its duration stands still");
    // Time alone is no change.
    let again = server.request(Method::GET, &path);
    let again = got(again.header("If-None-Match", &first.headers["etag"])).await;
    assert_eq!(again.status, StatusCode::NOT_MODIFIED);

    assert_eq!(first.body["links"]["processes"], processes);
    let found = server.get(&format!("{processes}?samples=3")).await;
    assert_eq!(found.status, StatusCode::OK);
    let it = &found.body["processes"][0];
    let text = json!(["main", "RUNNING", 77, 2, 1, "exit 3"]);
    let shown = json!([
        it["name"],
        it["state"],
        it["pid"],
        it["runs"],
        it["failures"],
        it["lastEndText"]
    ]);
    assert_eq!(shown, text);
    assert_eq!(it["usage"].as_array().map(Vec::len), Some(3));
    assert_eq!(it["usage"][2]["cpuSeconds"], 1.0);
    assert_eq!(
        (&found.body["worker"], &found.body["attempt"]),
        (&json!("w1"), &json!(1))
    );
    let most = server.get(&format!("{processes}?samples=4000000000")).await;
    let most = most.body["processes"][0]["usage"].as_array().map(Vec::len);
    assert_eq!(most, Some(120));
    let odd = server.get(&format!("{processes}?samples=many")).await;
    odd.is_problem(StatusCode::BAD_REQUEST, "bad-request");

    // A stop that takes long hides neither.
    server.delete(&path).await;
    let over = server.get(&format!("{path}?wait=60")).await.body;
    assert_eq!(over["elapsedSeconds"], 1.5, "as its worker measured it");
    let gone = server.get(&processes).await;
    gone.is_problem(StatusCode::NOT_FOUND, "not-found");
    drop(worker);
    let path = server.submit("hold").await;
    let it = server.get(&path).await.body;
    assert_eq!(it.get("startedAt"), None, "{it}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_read_piece_by_piece_and_its_end_is_reported() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let path = server.submit("hold").await;
    let log = format!("{path}/logs/stdout");
    server
        .get(&log)
        .await
        .is_problem(StatusCode::NOT_FOUND, "not-found");
    let worker = server.worker("w1").await;
    server.until_state(&path, "RUNNING").await;
    let piece = server.get(&format!("{log}?offset=4&limit=4")).await;
    assert_eq!(piece.body, "line");
    assert_eq!(piece.headers["baton-offset"], "4");
    assert_eq!(piece.headers["baton-end"], "false");
    assert_eq!(piece.headers["baton-attempt"], "1");
    let whole = String::from_utf8_lossy(LOG).into_owned();
    let piece = server.get(&log).await;
    assert_eq!(
        (piece.body, &piece.headers["baton-end"]),
        (json!(whole), &"false".parse().expect("plain"))
    );
    server.delete(&path).await;
    server.get(&format!("{path}?wait=60")).await;
    let piece = server.get(&format!("{log}?attempt=1")).await;
    assert_eq!(piece.headers["baton-end"], "true");
    server
        .get(&format!("{log}?process=x"))
        .await
        .is_problem(StatusCode::NOT_FOUND, "not-found");
    server
        .get(&format!("{log}?attempt=9"))
        .await
        .is_problem(StatusCode::NOT_FOUND, "not-found");
    server
        .get(&format!("{path}/logs/else"))
        .await
        .is_problem(StatusCode::NOT_FOUND, "not-found");
    drop(worker);
    let gone = async || server.get(&log).await.status == StatusCode::SERVICE_UNAVAILABLE;
    assert!(until(gone).await);
    server
        .get(&log)
        .await
        .is_problem(StatusCode::SERVICE_UNAVAILABLE, "worker-unavailable");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_poll_ends_when_its_time_is_up() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let path = server.submit("hello").await;
    let it = server.get(&format!("{path}?wait=0")).await.body;
    assert_eq!(it["state"], "QUEUED");
    let it = server.get(&format!("{path}?wait=1")).await.body;
    assert_eq!(it["state"], "QUEUED");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forgotten_worker_loses_its_work_to_another() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let gone = server.worker("w1").await;
    let path = server.submit("hold").await;
    server.until_state(&path, "RUNNING").await;
    drop(gone);
    server
        .post("/workers/unknown/forget")
        .await
        .is_problem(StatusCode::NOT_FOUND, "not-found");
    let forgotten = server.post("/workers/w1/forget").await;
    assert_eq!(forgotten.status, StatusCode::ACCEPTED, "{forgotten:?}");
    let _other = server.worker("w2").await;
    let moved = async || server.get(&path).await.body["worker"] == "w2";
    assert!(until(moved).await, "{:?}", server.get(&path).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_store_work_runs_and_strict_work_is_refused() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::memory(dir.path()).await;
    let first = server.ready.epoch;
    let strict = json!({"file": {"task": "x", "run": ["true"], "exclusive": "strict"}});
    let refused = server.send(Method::POST, "/instances/", &strict).await;
    refused.is_problem(StatusCode::UNPROCESSABLE_ENTITY, "invalid");
    assert_eq!(refused.body["errors"][0]["field"], "exclusive");
    let stored = server
        .send(Method::POST, "/o/tasks/", &strict["file"])
        .await;
    stored.is_problem(StatusCode::UNPROCESSABLE_ENTITY, "invalid");
    for refused in [refused, stored] {
        let hint = &refused.body["errors"][0]["hint"];
        assert_eq!(
            hint,
            "use --store sqlite, or exclusive: timed and a single node"
        );
    }
    let path = server.submit("hello").await;
    let explanation = server.get(&format!("{path}/explain")).await.body;
    assert_eq!(explanation["reason"], "initial-wait");
    server.stop().await;
    let server = Server::memory(dir.path()).await;
    assert!(server.ready.epoch > first);
    got(server.request(Method::GET, &path))
        .await
        .is_problem(StatusCode::NOT_FOUND, "not-found");
    assert_ne!(server.submit("hello").await, path);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_retries_that_come_together_each_makes_one_attempt_or_is_refused() {
    const ROUNDS: usize = 10;
    const TOGETHER: usize = 8;
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w1").await;
    let path = server.submit("fail").await;
    server.until_state(&path, "FAILED").await;
    let mut accepted = 0;
    for _ in 0..ROUNDS {
        let asked: Vec<_> = (0..TOGETHER)
            .map(|_| {
                let request = server.request(Method::POST, &format!("{path}/retry"));
                tokio::spawn(got(request))
            })
            .collect();
        for answer in asked {
            let answer = answer.await.expect("no panic");
            match answer.status {
                StatusCode::ACCEPTED => accepted += 1,
                _ => _ = answer.is_problem(StatusCode::CONFLICT, "not-ended"),
            }
        }
        server.until_state(&path, "FAILED").await;
    }
    assert!(accepted >= ROUNDS, "one of each round at least");
    let it = server.get(&path).await.body;
    assert_eq!(it["attempts"], accepted + 1, "one attempt for each");
    let ready = server.get("/readyz").await.body;
    assert_eq!(
        ready["epoch"],
        server.ready.epoch.expect("it leads").number(),
        "the store never failed"
    );
    server.stop().await;
}
