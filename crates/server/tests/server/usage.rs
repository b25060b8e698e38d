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
