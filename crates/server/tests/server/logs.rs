//! Ranges of logs, and logs that grow.

use std::path::Path;
use std::time::Duration;

use reqwest::{Method, Response, StatusCode};
use tokio::time::timeout;

use crate::rig::{Server, config, got};
use crate::worker::{LOG, Worker};

/// Longer than anything takes on a slow machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

async fn ranged(server: &Server, path: &str, range: &str) -> Response {
    let request = server.request(Method::GET, path).header("Range", range);
    request.send().await.expect("an answer")
}

async fn whole(answer: Response) -> Vec<u8> {
    let bytes = timeout(TEST_TIMEOUT, answer.bytes())
        .await
        .expect("it ends");
    bytes.expect("to its end").to_vec()
}

/// A server with a worker that has run one task, and the path of its whole log.
async fn with_whole_log(dir: &Path) -> (Server, Worker, String) {
    let server = Server::start(config(dir)).await;
    let worker = server.worker("w1").await;
    let path = server.submit("a").await;
    server.until_state(&path, "DONE").await;
    (server, worker, format!("{path}/logs/stdout"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_of_a_log_is_answered_as_the_standard_says() {
    let dir = tempfile::tempdir().expect("a place");
    let (server, _worker, log) = with_whole_log(dir.path()).await;
    let size = LOG.len();
    for (range, first, last) in [
        ("bytes=0-3", 0, 3),
        ("bytes=4-", 4, size - 1),
        ("bytes=-7", size - 7, size - 1),
        ("bytes=-999", 0, size - 1),
        ("bytes=3-999", 3, size - 1),
    ] {
        let answer = ranged(&server, &log, range).await;
        assert_eq!(answer.status(), StatusCode::PARTIAL_CONTENT, "{range}");
        let headers = answer.headers().clone();
        assert_eq!(
            headers["content-range"],
            format!("bytes {first}-{last}/{size}")
        );
        assert_eq!(headers["content-length"], (last - first + 1).to_string());
        assert_eq!(whole(answer).await, LOG[first..=last], "{range}");
    }
    for range in ["bytes=21-", "bytes=-0"] {
        let request = server.request(Method::GET, &log).header("Range", range);
        let refused = got(request).await;
        refused.is_problem(StatusCode::RANGE_NOT_SATISFIABLE, "no-such-range");
        assert_eq!(refused.headers["content-range"], format!("bytes */{size}"));
    }
    for ignored in ["bytes=0-1,3-4", "lines=1-2", "nonsense"] {
        let answer = ranged(&server, &log, ignored).await;
        assert_eq!(answer.status(), StatusCode::OK, "{ignored}");
        assert_eq!(answer.headers()["accept-ranges"], "bytes");
        assert_eq!(whole(answer).await, LOG);
    }
    // With both, the query takes precedence.
    let answer = ranged(&server, &format!("{log}?offset=4&limit=4"), "bytes=0-1").await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(whole(answer).await, LOG[4..8]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_piece_continues_at_the_cursor_of_the_one_before() {
    let dir = tempfile::tempdir().expect("a place");
    let (server, _worker, log) = with_whole_log(dir.path()).await;
    let get = |query: &str| server.request(Method::GET, &format!("{log}?{query}"));
    let first = get("limit=4").send().await.expect("an answer");
    assert_eq!(first.headers()["baton-offset"], "0");
    let cursor = first.headers()["baton-cursor"].clone();
    let cursor = format!("cursor={}", cursor.to_str().expect("text"));
    assert_eq!(whole(first).await, LOG[..4]);
    let rest = get(&cursor).send().await.expect("an answer");
    assert_eq!(rest.headers().get("baton-offset"), None);
    assert_eq!(rest.headers()["baton-end"], "true");
    assert_eq!(whole(rest).await, LOG[4..]);
    let rest = get(&format!("{cursor}&follow=true")).send().await;
    assert_eq!(whole(rest.expect("an answer")).await, LOG[4..]);
    for wrong in ["cursor=1-2", "cursor=x", &format!("{cursor}&offset=0")] {
        let refused = got(get(wrong)).await;
        refused.is_problem(StatusCode::BAD_REQUEST, "bad-request");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_followed_to_the_end_of_its_attempt_and_no_further() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w1").await;
    let path = server.submit("hold").await;
    server.until_state(&path, "RUNNING").await;
    let log = format!("{path}/logs/stdout?follow=true");
    let request = server.request(Method::GET, &log);
    let mut answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers().get("baton-end"), None);
    let first = timeout(TEST_TIMEOUT, answer.chunk())
        .await
        .expect("in time");
    assert_eq!(first.expect("sound").as_deref(), Some(LOG));
    // While it may grow its size is unknown.
    let ranged = ranged(&server, &format!("{path}/logs/stdout"), "bytes=0-0").await;
    assert_eq!(ranged.headers()["content-range"], "bytes 0-0/*");
    server.delete(&path).await;
    assert_eq!(whole(answer).await, b"");
    // The log of an ended attempt ends at once.
    server.until_state(&path, "HALTED").await;
    let request = server.request(Method::GET, &format!("{log}&offset=4"));
    let answer = request.send().await.expect("an answer");
    assert_eq!(whole(answer).await, LOG[4..]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_followed_breaks_off_when_the_server_ends_and_does_not_hold_it_up() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w1").await;
    let path = server.submit("hold").await;
    server.until_state(&path, "RUNNING").await;
    let log = format!("{path}/logs/stdout?follow=true");
    let answer = server.request(Method::GET, &log).send().await;
    let answer = answer.expect("an answer");
    server.stop().await;
    let bytes = timeout(TEST_TIMEOUT, answer.bytes())
        .await
        .expect("it ends");
    assert!(bytes.is_err(), "a part was taken for the whole");
}
