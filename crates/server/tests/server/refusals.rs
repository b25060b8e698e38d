//! Invalid requests get a clear answer, and change nothing.

use baton_server::{Config, ServeError, serve};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::rig::{Server, config, got, task};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_paths_and_methods_are_problems() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    for path in [
        "/nothing",
        "/instances/i1/else",
        "/instances/i1",
        "/instances/1..9",
        "/instances/7/explain",
        "/instances/7/timeline",
        "/instances/7/logs/stdout",
    ] {
        server
            .get(path)
            .await
            .is_problem(StatusCode::NOT_FOUND, "not-found");
    }
    for path in [
        "/instances/x",
        "/instances/9..1",
        "/instances/-1",
        "/bullpen/?limit=x",
        "/bullpen/?colour=red",
        "/bullpen/?limit=1&limit=2",
        "/bullpen/?cursor=z",
        "/instances/1?wait=soon",
        "/instances/99999999999999999999/explain",
    ] {
        server
            .get(path)
            .await
            .is_problem(StatusCode::BAD_REQUEST, "bad-request");
    }
    let got = server.delete("/bullpen/").await;
    got.is_problem(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed");
    assert!(got.headers["allow"].to_str().expect("text").contains("GET"));
    server
        .delete("/instances/i1")
        .await
        .is_problem(StatusCode::NOT_FOUND, "not-found");
    server
        .post("/instances/i1/retry")
        .await
        .is_problem(StatusCode::NOT_FOUND, "not-found");
    let drain = server
        .send(Method::PUT, "/workers/w/drained", &json!({"drained": true}))
        .await;
    drain.is_problem(StatusCode::NOT_FOUND, "not-found");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_bodies_are_refused_with_their_place_and_nothing_is_submitted() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let post = |body: String| got(server.request(Method::POST, "/instances/").body(body));
    let bad = post("{\"file\":\n  nonsense}".to_owned()).await;
    bad.is_problem(StatusCode::BAD_REQUEST, "bad-request");
    assert!(bad.detail().contains("line 2"), "{bad:?}");
    for body in ["", "[]", "{}", "{\"file\":{},\"files\":1}", "\u{0}"] {
        post(body.to_owned())
            .await
            .is_problem(StatusCode::BAD_REQUEST, "bad-request");
    }
    let wrong = server
        .send(
            Method::POST,
            "/instances/",
            &json!({"file": {"task": "x", "rum": "y"}}),
        )
        .await;
    wrong.is_problem(StatusCode::UNPROCESSABLE_ENTITY, "invalid");
    let errors = wrong.body["errors"].as_array().expect("errors");
    assert!(
        errors.iter().any(|error| error["field"] == "rum"),
        "{wrong:?}"
    );
    assert!(errors.iter().all(|error| error["hint"] != ""));
    for (from, to) in [(2, 1), (0, u64::MAX)] {
        let mut body = task("x");
        body["array"] = json!({"from": from, "to": to});
        let refused = server.send(Method::POST, "/instances/", &body).await;
        refused.is_problem(StatusCode::UNPROCESSABLE_ENTITY, "invalid");
        assert_eq!(refused.body["errors"][0]["field"], "array");
    }
    let large = server
        .request(Method::POST, "/instances/")
        .header("content-type", "application/json")
        .body(format!("\"{}\"", "x".repeat(9 << 20)))
        .send()
        .await;
    // It stops reading; whether its answer arrives first is up to the network.
    if let Ok(answer) = large {
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(answer.headers()["connection"], "close");
    }
    let request = server
        .request(Method::POST, "/instances/")
        .header("content-type", "text/plain");
    got(request.body("{}"))
        .await
        .is_problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "other-media-type");
    assert_eq!(server.get("/bullpen/").await.body["total"], 0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn web_pages_of_other_servers_are_kept_out() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let rebound = server
        .request(Method::GET, "/")
        .header("host", "evil.example");
    got(rebound)
        .await
        .is_problem(StatusCode::FORBIDDEN, "forbidden");
    let page = |origin: &str| {
        let request = server
            .request(Method::POST, "/instances/")
            .header("origin", origin);
        got(request.body(task("x").to_string()))
    };
    page("http://evil.example")
        .await
        .is_problem(StatusCode::FORBIDDEN, "forbidden");
    page("null")
        .await
        .is_problem(StatusCode::FORBIDDEN, "forbidden");
    let own = page(&server.url("")).await;
    assert_eq!(own.status, StatusCode::CREATED);
    let address = server.url("").replace("http://", "");
    let twice = [
        format!("Host: {address}\r\nHost: evil.example"),
        format!("Host: evil.example\r\nHost: {address}"),
        format!("Host: {address}\r\nOrigin: http://{address}\r\nOrigin: http://evil.example"),
        format!("Host: evil.example@{address}"),
    ];
    for headers in twice {
        let request = format!("GET / HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n");
        let answer = raw(&address, &request).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{headers}: {answer}");
    }
    server.stop().await;
}

async fn refused(config: Config) -> ServeError {
    let never = std::future::pending();
    serve(config, |_| (), never)
        .await
        .expect_err("it must not start")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_must_not_start_reports_why() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let error = refused(config(dir.path())).await.to_string();
    assert!(
        error.contains(&format!("pid {}", std::process::id())),
        "{error}"
    );
    server.stop().await;
    let busy = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = Config {
        listen: busy.local_addr().expect("bound"),
        ..config(dir.path())
    };
    let error = refused(taken).await.to_string();
    assert!(error.contains("cannot listen on"), "{error}");
    let mut hasty = config(dir.path());
    hasty.timeouts.lose_after = baton_model::time::Millis(1);
    assert!(matches!(refused(hasty).await, ServeError::Timeouts(_)));
}

/// Sends bytes as they are, and returns the whole answer.
async fn raw(address: &str, request: &str) -> String {
    let address = address.trim_end_matches('/');
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("readable");
    answer
}
