//! Resource usage by owner and hour.

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::rig::{Server, config, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ends_is_counted_for_its_owner_and_still_after_a_restart() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w1").await;
    for (name, owner) in [("a", "red"), ("fail", "red"), ("a", "blue")] {
        let file = json!({"task": name, "owner": owner, "run": ["true"], "resources": {"cpu": 2}});
        let body = json!({ "file": file });
        let got = server.send(Method::POST, "/instances/", &body).await;
        assert_eq!(got.status, StatusCode::CREATED, "{got:?}");
    }
    // An hour may end meanwhile.
    let sum = async |server: &Server, owner: &str, key: &str| {
        let page = server.get(&format!("/usage/?owner={owner}")).await.body;
        let rows = page["items"].as_array().expect("items").clone();
        assert!(rows.iter().all(|row| row["owner"] == owner));
        rows.iter()
            .map(|row| row[key].as_f64().expect("a number"))
            .sum::<f64>()
    };
    let all_ended = until(async || {
        let red = sum(&server, "red", "attempts").await;
        red + sum(&server, "blue", "attempts").await == 3.0
    });
    assert!(all_ended.await);
    let mut before = Vec::new();
    for (owner, key, value) in [
        ("red", "done", 1.0),
        ("red", "failed", 1.0),
        ("red", "halted", 0.0),
        ("red", "cpuUsedSeconds", 0.5),
        ("blue", "done", 1.0),
        ("blue", "cpuUsedSeconds", 0.25),
    ] {
        assert_eq!(sum(&server, owner, key).await, value, "{owner} {key}");
        before.push((owner, key, value));
    }
    server.stop().await;
    let server = Server::start(config(dir.path())).await;
    for (owner, key, value) in before {
        assert_eq!(sum(&server, owner, key).await, value, "{owner} {key}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_comes_in_pages_and_of_the_hours_that_are_asked_for() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    for owner in ["a.b", "a b", "ü&c"] {
        let body = json!({"file": {"task": "t", "owner": owner, "run": ["true"]}});
        let got = server.send(Method::POST, "/instances/", &body).await;
        if got.status == StatusCode::CREATED {
            let control = got.body["links"]["control"].as_str().expect("a link");
            server.delete(control).await;
        }
    }
    let all = server.get("/usage/").await.body;
    let all = all["items"].as_array().expect("items").clone();
    assert!(!all.is_empty());
    let mut next = Some("/usage?limit=1".to_owned());
    let mut seen = Vec::new();
    while let Some(path) = next {
        let page = server.get(&path).await;
        assert_eq!(page.status, StatusCode::OK, "{page:?}");
        seen.extend(page.body["items"].as_array().expect("items").clone());
        assert!(seen.len() <= all.len(), "a row was shown twice");
        next = page.body["links"]["next"].as_str().map(str::to_owned);
    }
    assert_eq!(seen, all);
    let past = server.get("/usage/?to=3600000").await.body;
    assert_eq!(past["items"], json!([]));
    for bad in ["from=x", "cursor=x", "cursor=x.y", "hour=1"] {
        let refused = server.get(&format!("/usage/?{bad}")).await;
        refused.is_problem(StatusCode::BAD_REQUEST, "bad-request");
    }
    server.stop().await;
}

/// The usage of tasks, when as many attempts were measured.
async fn task_usage(server: &Server, query: &str, attempts: u64) -> Vec<serde_json::Value> {
    let path = format!("/usage/tasks/?{query}");
    let mut items = Vec::new();
    let is_measured = until(async || {
        let page = server.get(&path).await.body;
        items = page["items"].as_array().expect("items").clone();
        let measured = items.iter().map(|it| it["measured"].as_u64().unwrap_or(0));
        measured.sum::<u64>() == attempts
    });
    assert!(is_measured.await, "{items:?}");
    items
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_tasks_are_compared_with_their_use() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w1").await;
    let resources = json!({"cpu": 2, "memory": "1GiB"});
    let file = json!({"task": "big", "owner": "red", "run": ["true"], "resources": resources});
    let body = json!({ "file": file, "array": {"from": 1, "to": 6} });
    let got = server.send(Method::POST, "/instances/", &body).await;
    assert_eq!(got.status, StatusCode::CREATED, "{got:?}");
    let file = json!({"task": "fail", "owner": "blue", "run": ["true"]});
    let body = json!({ "file": file });
    server.send(Method::POST, "/instances/", &body).await;
    let all = task_usage(&server, "", 7).await;
    let paths: Vec<_> = all.iter().map(|it| (&it["owner"], &it["task"])).collect();
    assert_eq!(
        paths,
        [
            (&json!("blue"), &json!("fail")),
            (&json!("red"), &json!("big"))
        ]
    );
    assert_eq!(all[0]["failed"], 1);
    let reason = "too few attempts: 0 of at least 5 have succeeded";
    assert_eq!(
        all[0]["suggestion"],
        json!({"lines": [], "reasons": [reason]})
    );
    let big = &all[1];
    assert_eq!(
        (&big["attempts"], &big["succeeded"]),
        (&json!(6), &json!(6))
    );
    assert_eq!(
        big["elapsedSeconds"],
        json!({"p50": 1.5, "p95": 1.5, "max": 1.5})
    );
    assert_eq!(big["memory"]["max"], 4096.0);
    assert_eq!(big["requested"]["cpus"], 2.0);
    assert_eq!(big["cpuPercent"], 8);
    assert_eq!(
        big["suggestion"]["lines"],
        json!([
            "resources: { cpu: 0.2, memory: 10MiB }",
            "time_request: 10s"
        ])
    );
    let of_blue = task_usage(&server, "owner=blue", 1).await;
    assert_eq!(of_blue.len(), 1);
    let mut next = Some("/usage/tasks/?limit=1".to_owned());
    let mut seen = Vec::new();
    while let Some(path) = next {
        let page = server.get(&path).await;
        assert_eq!(page.status, StatusCode::OK, "{page:?}");
        seen.extend(page.body["items"].as_array().expect("items").clone());
        assert!(seen.len() <= all.len(), "a task was shown twice");
        next = page.body["links"]["next"].as_str().map(str::to_owned);
    }
    assert_eq!(seen, all);
    for bad in ["cursor=x", "cursor=%5B%22a%22%5D", "hour=1", "limit=x"] {
        let refused = server.get(&format!("/usage/tasks/?{bad}")).await;
        refused.is_problem(StatusCode::BAD_REQUEST, "bad-request");
    }
    server.stop().await;
    let server = Server::start(config(dir.path())).await;
    assert_eq!(
        task_usage(&server, "", 7).await,
        all,
        "as after a change of the leader"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_tells_how_long_a_task_usually_takes() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let body = json!({"file": {"task": "t", "owner": "red", "run": ["true"]}});
    let got = server.send(Method::POST, "/instances/", &body).await;
    let first = got.body["links"]["control"]
        .as_str()
        .expect("a link")
        .to_owned();
    let explained = server.get(&format!("{first}/explain")).await.body;
    assert_eq!(explained.get("estimate"), None, "{explained}");
    let worker = server.worker("w1").await;
    task_usage(&server, "", 1).await;
    drop(worker);
    server.stop().await;
    // The next leader has learned it from the store.
    let server = Server::start(config(dir.path())).await;
    let got = server.send(Method::POST, "/instances/", &body).await;
    let second = got.body["links"]["control"].as_str().expect("a link");
    let explained = server.get(&format!("{second}/explain")).await.body;
    assert_eq!(explained["estimate"], 1_500, "{explained}");
    server.stop().await;
}
