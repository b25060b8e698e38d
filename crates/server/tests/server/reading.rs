//! Views, pages and explanations.

use baton_model::api::MEDIA_TYPE;
use baton_server::Config;
use baton_server::limits::TARGET_RANGES_MAX;
use baton_store::limits::PAGE_SCAN_MAX;
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
        // The event stream does not end; it has tests of its own. Templates need an owner.
        if !target.contains([' ', '{']) && relation != "events" {
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
            "</openapi.json#/components/schemas/List_Instance>; rel=\"profile\"; title=\"baton.v1.List_Instance\""
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_its_filters_leave_short_names_the_last_instance_it_has_looked_at() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    // Neighbours would be one record.
    let ended: Vec<String> = (0..PAGE_SCAN_MAX + 10)
        .map(|number| format!("i{}", 1 + 2 * number))
        .collect();
    server.submit_array("many", 1, 2 * ended.len() as u64).await;
    for some in ended.chunks(TARGET_RANGES_MAX) {
        let got = server
            .delete(&format!("/instances/{}", some.join(",")))
            .await;
        assert!(got.status.is_success(), "{got:?}");
    }
    let page = server.get("/history/?name=few").await.body;
    assert_eq!(page["items"], json!([]));
    // The most recent ones come first.
    let last = format!("/instances/{}", ended[10]);
    assert_eq!(page["links"]["last"], json!(last));
    let next = page["links"]["next"].as_str().expect("more to look at");
    let rest = server.get(next).await.body;
    assert_eq!(rest["items"], json!([]));
    let ends = |relation: &str| rest["links"][relation].is_null();
    assert!(ends("next") && ends("last"), "{rest}");
    let full = server.get("/history/?limit=2").await.body;
    assert!(full["links"]["next"].is_string() && full["links"]["last"].is_null());
    server.stop().await;
}

/// The ids of all pages of a list.
async fn ids(server: &Server, list: &str) -> Vec<String> {
    let mut next = Some(list.to_owned());
    let mut ids = Vec::new();
    while let Some(path) = next {
        let page = server.get(&path).await;
        assert_eq!(page.status, StatusCode::OK, "{page:?}");
        let items = page.body["items"].as_array().expect("items");
        let found = items.iter().map(|item| item["id"].as_str().expect("an id"));
        ids.extend(found.map(str::to_owned));
        assert!(ids.len() <= 10, "a page was shown twice: {ids:?}");
        next = page.body["links"]["next"].as_str().map(str::to_owned);
    }
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_follow_each_other_in_every_order() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let workflow = json!({"file": {"workflow": "w", "tasks": {"a": {"run": "true"}}}});
    for _ in 0..3 {
        server.send(Method::POST, "/runs/", &workflow).await;
    }
    assert!(until(async || server.get("/bullpen/").await.body["total"] == 3).await);
    assert_eq!(ids(&server, "/runs/?limit=2").await, ["r3", "r2", "r1"]);
    let oldest = ids(&server, "/runs/?limit=2&sort=submitted").await;
    assert_eq!(oldest, ["r1", "r2", "r3"]);
    for path in ["bullpen", "arena"] {
        let list = format!("/{path}/?limit=2&sort=");
        let forward = ids(&server, &format!("{list}submitted")).await;
        let mut backward = ids(&server, &format!("{list}-submitted")).await;
        backward.reverse();
        assert_eq!(forward, backward, "{path}");
        assert_eq!(forward.len(), if path == "bullpen" { 3 } else { 0 });
    }
    let mut cancelled = Vec::new();
    for name in ["x", "y", "z"] {
        let path = server.submit(name).await;
        server.delete(&path).await;
        cancelled.push(path.replace("/instances/", ""));
    }
    assert_eq!(
        ids(&server, "/history/?limit=2&sort=ended").await,
        cancelled
    );
    cancelled.reverse();
    assert_eq!(
        ids(&server, "/history/?limit=2&sort=-ended").await,
        cancelled
    );
    assert_eq!(ids(&server, "/history/?limit=2").await, cancelled);
    for wrong in [
        "/history/?sort=submitted",
        "/arena/?sort=ended",
        "/runs/?sort=x",
    ] {
        let refused = server.get(wrong).await;
        refused.is_problem(StatusCode::BAD_REQUEST, "bad-request");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_and_times_are_filters_of_lists() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let ended = server.submit("ended").await;
    server.delete(&ended).await;
    let ended = ended.replace("/instances/", "");
    let at = server.get("/history/").await.body["items"][0]["changedAt"].clone();
    let at = at.as_u64().expect("a time");
    for (filter, found) in [
        ("since=1h".to_owned(), true),
        ("until=1h".to_owned(), false),
        (format!("since={at}&until={}", at + 1), true),
        (format!("since={}", at + 1), false),
        (format!("until={at}"), false),
        ("since=2020-01-01&until=now".to_owned(), true),
        (
            "since=2020-01-01&until=2020-01-02%2006:00".to_owned(),
            false,
        ),
        ("worker=w1".to_owned(), false),
    ] {
        let page = server.get(&format!("/history/?{filter}")).await.body;
        assert_eq!(page["items"][0]["id"] == *ended, found, "{filter}: {page}");
        assert_eq!(page["total"], Value::Null, "a filtered list counts nothing");
    }
    let run = json!({"file": {"workflow": "w", "tasks": {"a": {"run": "true"}}}});
    server.send(Method::POST, "/runs/", &run).await;
    assert_eq!(ids(&server, "/runs/?since=1h").await, ["r1"]);
    assert!(ids(&server, "/runs/?until=1h").await.is_empty());
    let hold = server.submit("hold").await.replace("/instances/", "");
    let _worker = server.worker("w1").await;
    let held = async || ids(&server, "/arena/?worker=w1").await == [&*hold];
    assert!(until(held).await);
    assert!(ids(&server, "/arena/?worker=w2").await.is_empty());
    let refused = server.get("/history/?since=yesterday").await;
    refused.is_problem(StatusCode::BAD_REQUEST, "bad-request");
    let detail = refused.body["detail"].as_str().expect("a text");
    assert!(
        detail.starts_with("since: ") && detail.contains("2h"),
        "{detail}"
    );
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
        limits: vec![("db".to_owned(), 1.into())],
        ..config(dir.path())
    };
    let server = Server::start(limited).await;
    let path = server.submit("hold").await;
    let explanation = explained(&server, &path, "no-worker").await;
    assert!(
        explanation["text"]
            .as_str()
            .expect("text")
            .contains("baton worker")
    );
    assert_eq!(explanation["links"]["instance"], path);
    let _worker = server.worker("w1").await;
    let explanation = explained(&server, &path, "running").await;
    assert_eq!(explanation["worker"], "w1");
    let large = json!({"file": {"task": "x", "run": ["true"], "resources": {"memory": "64GiB"}}});
    let large = server.send(Method::POST, "/instances/", &large).await;
    let large = large.body["links"]["control"]
        .as_str()
        .expect("a link")
        .to_owned();
    let explanation = explained(&server, &large, "never-fits").await;
    assert_eq!(
        (&explanation["resource"], &explanation["worker"]),
        (&json!("memory"), &json!("w1"))
    );
    assert_eq!(explanation["short"], 56_u64 << 30);
    server.delete(&path).await;
    server.get(&format!("{path}?wait=60")).await;
    let explanation = explained(&server, &path, "ended").await;
    assert!(
        explanation["text"]
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
