//! Views, pages and explanations.

use baton_model::api::MEDIA_TYPE;
use baton_server::Config;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::rig::{Server, config, got, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_root_leads_to_everything_and_it_is_alive_and_ready() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let root = server.get("/").await;
    assert_eq!(root.headers["content-type"], MEDIA_TYPE);
    assert_eq!(root.body["name"], "baton");
    assert_eq!(root.body["tzdata"]["source"], "built-in");
    assert!(root.body["tzdata"]["version"].is_string());
    for (relation, target) in root.body["links"].as_object().expect("links") {
        let target = target.as_str().expect("a path");
        // The event stream does not end; it has tests of its own.
        if !target.contains(' ') && relation != "events" {
            assert_eq!(
                server.get(target).await.status,
                StatusCode::OK,
                "{relation}"
            );
        }
    }
    assert_eq!(server.get("/healthz").await.body, "ok");
    let ready = server.get("/readyz").await;
    assert_eq!(
        (&ready.body["ready"], &ready.body["epoch"]),
        (&json!(true), &json!(1))
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accept_is_honoured_and_a_refused_request_changes_nothing() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let ask = async |method: Method, path: &str, accept: &str| {
        let request = server.request(method, path).header("accept", accept);
        let request = request.header("content-type", MEDIA_TYPE);
        let body = json!({"file": {"task": "t", "run": "true"}});
        got(request.body(body.to_string())).await
    };
    for (accept, media) in [
        ("*/*", MEDIA_TYPE),
        (MEDIA_TYPE, MEDIA_TYPE),
        ("application/json", "application/json"),
    ] {
        let page = ask(Method::GET, "/bullpen/", accept).await;
        assert_eq!(page.status, StatusCode::OK, "{accept}");
        assert_eq!(page.headers["content-type"], media, "{accept}");
        assert_eq!(
            page.headers["link"],
            "</openapi.json#/paths/~1bullpen~1/get>; rel=\"profile\""
        );
    }
    for accept in ["text/plain", "application/vnd.baton.v2+json"] {
        for (method, path) in [(Method::GET, "/bullpen/"), (Method::POST, "/instances/")] {
            let refused = ask(method, path, accept).await;
            refused.is_problem(StatusCode::NOT_ACCEPTABLE, "not-acceptable");
        }
    }
    assert_eq!(server.get("/bullpen/").await.body["total"], 0);
    // What is no JSON is answered as it is.
    let alive = ask(Method::GET, "/healthz", "text/html").await;
    assert_eq!(alive.status, StatusCode::OK);
    let created = ask(Method::POST, "/instances/", "application/json").await;
    assert_eq!(created.status, StatusCode::CREATED);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_follow_each_other_and_filters_hold_across_them() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    for name in ["a", "b", "a", "b", "a"] {
        server.submit(name).await;
    }
    let all = server.get("/bullpen/").await.body;
    assert_eq!(
        (all["items"].as_array().map(Vec::len), &all["total"]),
        (Some(5), &json!(5))
    );
    let mut next = Some("/bullpen/?limit=2&name=a".to_owned());
    let mut seen = Vec::new();
    while let Some(path) = next {
        let page = server.get(&path).await;
        assert_eq!(page.status, StatusCode::OK, "{page:?}");
        let items = page.body["items"].as_array().expect("items").clone();
        assert!(items.len() <= 2 && items.iter().all(|item| item["name"] == "a"));
        seen.extend(items.iter().map(|item| item["id"].clone()));
        assert!(seen.len() <= 3, "a page was shown twice: {seen:?}");
        next = page.body["links"]["next"].as_str().map(str::to_owned);
        assert!(next.as_ref().is_none_or(|next| next.contains("name=a")));
    }
    assert_eq!(seen, [json!("i1"), json!("i3"), json!("i5")]);
    let none = server.get("/bullpen/?owner=unknown").await.body;
    assert_eq!(none["items"], json!([]));
    assert_eq!(server.get("/arena").await.body["items"], json!([]));
    server
        .get("/history/?state=QUEUED")
        .await
        .is_problem(StatusCode::BAD_REQUEST, "bad-request");
    let halted = server.get("/history?state=halted").await;
    assert_eq!(halted.body["total"], 0);
    server.stop().await;
}

async fn explained(server: &Server, path: &str, reason: &str) -> Value {
    let mut last = Value::Null;
    let reached = until(async || {
        last = server.get(&format!("{path}/explain")).await.body;
        last["reason"] == reason
    });
    assert!(reached.await, "{reason} never came: {last}");
    last
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_instance_explains_what_it_waits_for() {
    let dir = tempfile::tempdir().expect("a place");
    let limited = Config {
        limits: vec![("db".to_owned(), 1)],
        ..config(dir.path())
    };
    let server = Server::start(limited).await;
    let path = server.submit("hold").await;
    let why = explained(&server, &path, "no-worker").await;
    assert!(why["text"].as_str().expect("text").contains("baton worker"));
    assert_eq!(why["links"]["instance"], path);
    let _worker = server.worker("w1").await;
    let why = explained(&server, &path, "running").await;
    assert_eq!(why["worker"], "w1");
    let large = json!({"file": {"task": "x", "run": ["true"], "resources": {"memory": "64GiB"}}});
    let large = server.send(Method::POST, "/instances/", &large).await;
    let large = large.body["links"]["control"]
        .as_str()
        .expect("a link")
        .to_owned();
    let why = explained(&server, &large, "never-fits").await;
    assert_eq!(
        (&why["resource"], &why["worker"]),
        (&json!("memory"), &json!("w1"))
    );
    assert_eq!(why["short"], 56_u64 << 30);
    server.delete(&path).await;
    server.get(&format!("{path}?wait=60")).await;
    let why = explained(&server, &path, "ended").await;
    assert!(
        why["text"]
            .as_str()
            .expect("text")
            .contains("killed on request")
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_are_listed_with_what_they_have() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    server
        .get("/workers/w1")
        .await
        .is_problem(StatusCode::NOT_FOUND, "not-found");
    let _worker = server.worker("w1").await;
    let healthy = async || server.get("/workers/w1").await.body["state"] == "HEALTHY";
    assert!(until(healthy).await);
    let list = server.get("/workers/").await.body;
    let worker = &list["items"][0];
    assert_eq!((&list["total"], &worker["name"]), (&json!(1), &json!("w1")));
    assert_eq!(worker["labels"], json!({"zone": "a"}));
    assert_eq!(worker["slots"], 64);
    assert_eq!(worker["links"]["drain"], "PUT /workers/w1/drained");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn head_and_options_answer_without_a_body() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let head = got(server.request(Method::HEAD, "/bullpen/")).await;
    assert_eq!((head.status, head.body), (StatusCode::OK, json!("")));
    let options = got(server.request(Method::OPTIONS, "/instances/i1")).await;
    assert_eq!(options.status, StatusCode::NO_CONTENT);
    let allow = options.headers["allow"].to_str().expect("text");
    for method in ["GET", "DELETE"] {
        assert!(allow.contains(method), "{allow}");
    }
    server.stop().await;
}
