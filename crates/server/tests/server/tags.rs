//! ETags and conditional requests.

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::rig::{Got, Server, config, got, until};

/// The ETag of a resource.
async fn tag(server: &Server, path: &str) -> String {
    let fresh = server.get(path).await;
    assert_eq!(fresh.status, StatusCode::OK, "{path}: {fresh:?}");
    assert_eq!(fresh.headers["cache-control"], "no-cache", "{path}");
    let tag = fresh.headers["etag"].to_str().expect("text");
    assert!(tag.starts_with("W/\""), "{tag}");
    tag.to_owned()
}

async fn conditional(server: &Server, method: Method, path: &str, tag: &str) -> Got {
    let request = server.request(method, path);
    got(request.header("if-none-match", tag)).await
}

async fn is_unchanged(server: &Server, path: &str, known: &str, tag: &str) {
    for method in [Method::GET, Method::HEAD] {
        let same = conditional(server, method, path, known).await;
        assert_eq!(same.status, StatusCode::NOT_MODIFIED, "{path}: {same:?}");
        assert_eq!(same.body, "");
        assert_eq!(same.headers["etag"], tag);
        assert_eq!(same.headers["cache-control"], "no-cache");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_has_is_not_sent_again_until_it_has_changed() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let one = server.submit("one").await;
    let range = server.submit_array("many", 0, 9).await;
    let timeline = format!("{one}/timeline");
    let paths = [
        one.as_str(),
        range.as_str(),
        "/bullpen/",
        "/history/",
        &timeline,
    ];
    let mut tags = Vec::new();
    for path in paths {
        let tag = tag(&server, path).await;
        is_unchanged(&server, path, &tag, &tag).await;
        is_unchanged(&server, path, &format!("\"other\", {tag}"), &tag).await;
        tags.push(tag);
    }
    for path in [&one, &range] {
        assert_eq!(server.delete(path).await.status, StatusCode::ACCEPTED);
    }
    for (path, old) in paths.into_iter().zip(tags) {
        let fresh = conditional(&server, Method::GET, path, &old).await;
        assert_eq!(fresh.status, StatusCode::OK, "{path}");
        assert_ne!(fresh.headers["etag"], old, "{path}");
    }
    for path in ["/", "/openapi.json", "/schemas/task.json"] {
        let tag = tag(&server, path).await;
        is_unchanged(&server, path, &tag, &tag).await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_heard_again_has_not_changed_and_a_drained_one_has() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w1").await;
    let healthy = async || server.get("/workers/w1").await.body["state"] == "HEALTHY";
    assert!(until(healthy).await);
    let before = server.get("/workers/w1").await;
    let (one, all) = (
        tag(&server, "/workers/w1").await,
        tag(&server, "/workers/").await,
    );
    let aged = async || {
        let now = server.get("/workers/w1").await.body;
        now["heardSeconds"] != before.body["heardSeconds"]
    };
    assert!(until(aged).await);
    is_unchanged(&server, "/workers/w1", &one, &one).await;
    is_unchanged(&server, "/workers/", &all, &all).await;
    let drained = json!({"drained": true});
    let put = server
        .send(Method::PUT, "/workers/w1/drained", &drained)
        .await;
    assert_eq!(put.status, StatusCode::OK, "{put:?}");
    assert_ne!(tag(&server, "/workers/w1").await, one);
    assert_ne!(tag(&server, "/workers/").await, all);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_or_a_refusal_gets_the_whole_response() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let missing = conditional(&server, Method::GET, "/instances/i7", "*").await;
    missing.is_problem(StatusCode::NOT_FOUND, "not-found");
    assert_eq!(missing.headers["cache-control"], "no-cache");
    let one = server.submit("one").await;
    let cancelled = conditional(&server, Method::DELETE, &one, "*").await;
    assert_eq!(cancelled.status, StatusCode::ACCEPTED);
    assert_eq!(cancelled.body["halted"], 1);
    server.stop().await;
}
