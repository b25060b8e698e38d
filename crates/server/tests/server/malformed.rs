//! Malformed input on both ports.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use baton_core::protocol::frame::{PREAMBLE, encode_to_scheduler};
use baton_model::fact::Holder;
use baton_model::ids::{BootId, Epoch, HostId, Incarnation, IncarnationNo, Lineage, WorkerName};
use baton_model::limits::PROTOCOL_VERSION;
use baton_model::message::{Heartbeat, Tenure, ToScheduler};
use baton_model::placement::Offer;
use baton_model::state::WorkerState;
use baton_model::time::{Mono, Stamp};
use baton_testing::Rng;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::rig::{Server, config, got, task, until};

fn heartbeat(stamp: u64) -> Vec<u8> {
    let message = ToScheduler::ProcessHeartbeat(Heartbeat {
        version: PROTOCOL_VERSION,
        worker: Holder {
            worker: WorkerName::new("noise"),
            incarnation: Incarnation {
                lineage: Lineage(stamp),
                number: IncarnationNo(1),
            },
            host: HostId(1),
            boot: BootId(1),
        },
        executor: None,
        slots: 1,
        offer: Arc::new(Offer::default()),
        association: None,
        epoch_seen: Epoch(0),
        stamp: Stamp(Mono(stamp)),
        state: WorkerState::New,
        worker_set: None,
        tenure: Tenure::default(),
        greeting: None,
        measured: None,
    });
    let mut bytes = Vec::new();
    encode_to_scheduler(&message, &mut bytes).expect("short");
    bytes
}

/// Sends something and disconnects; the server may have done so before.
async fn send_and_close(address: SocketAddr, pieces: &[&[u8]]) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    for piece in pieces {
        if stream.write_all(piece).await.is_err() {
            return;
        }
    }
    let _ = stream.shutdown().await;
}

/// Sends something and waits until the server disconnects.
async fn cut_off(address: SocketAddr, pieces: &[&[u8]]) -> bool {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    for piece in pieces {
        // It may already be refused.
        let _ = stream.write_all(piece).await;
    }
    let mut rest = Vec::new();
    let hung_up = stream.read_to_end(&mut rest);
    tokio::time::timeout(Duration::from_secs(60), hung_up)
        .await
        .is_ok()
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let digits = line.expect("a line").split_whitespace().nth(1);
    digits.expect("a number").parse::<u64>().expect("a number") << 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_input_on_the_worker_port_is_cut_off_and_does_no_harm() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let address = server.ready.workers;
    let mut noise = Rng::new(1);
    assert!(cut_off(address, &[b"GET / HTTP/1.1\r\n\r\n"]).await);
    assert!(cut_off(address, &[&PREAMBLE, &u32::MAX.to_le_bytes()]).await);
    assert!(
        cut_off(
            address,
            &[&PREAMBLE, &(32_u32 << 20).to_le_bytes(), &[0; 64]]
        )
        .await
    );
    assert!(cut_off(address, &[&PREAMBLE, &4_u32.to_le_bytes(), &[0xff; 4]]).await);
    for round in 1..200 {
        let random = noise.bytes(300);
        send_and_close(address, &[&random]).await;
        send_and_close(address, &[&PREAMBLE, &random]).await;
        let mut mutated = heartbeat(round);
        let at = 4 + usize::try_from(noise.next()).expect("64 bits") % (mutated.len() - 4);
        mutated[at] ^= noise.next().to_le_bytes()[0] | 1;
        send_and_close(address, &[&PREAMBLE, &mutated]).await;
        send_and_close(address, &[&PREAMBLE, &heartbeat(round), &mutated[..at]]).await;
    }
    let _worker = server.worker("w1").await;
    // Noise that decodes as a higher epoch makes the server take over anew.
    let mut path = String::new();
    let accepted = until(async || {
        let got = server
            .send(Method::POST, "/instances/", &task("hello"))
            .await;
        let control = got.body["links"]["control"].as_str();
        path = control.unwrap_or_default().to_owned();
        got.status == StatusCode::CREATED
    });
    assert!(accepted.await, "the server never led again");
    server.until_state(&path, "DONE").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claimed_length_costs_only_what_was_sent() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let before = resident();
    let mut held = Vec::new();
    for lineage in 1..100 {
        let stream = TcpStream::connect(server.ready.workers).await;
        let mut stream = stream.expect("it listens");
        stream.write_all(&PREAMBLE).await.expect("open");
        stream.write_all(&heartbeat(lineage)).await.expect("open");
        let claim = (60_u32 << 20).to_le_bytes();
        stream.write_all(&claim).await.expect("open");
        stream.write_all(&[0; 100]).await.expect("open");
        held.push(stream);
    }
    let _worker = server.worker("w1").await;
    let path = server.submit("hello").await;
    let it = server.get(&format!("{path}?wait=60")).await.body;
    assert_eq!(it["state"], "DONE", "{it}");
    let grown = resident().saturating_sub(before);
    assert!(grown < 200 << 20, "{grown} bytes for nothing");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_input_on_the_client_port_is_answered_or_cut_off() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let address = server.ready.clients;
    let mut noise = Rng::new(0x2545_f491_4f6c_dd1d);
    assert!(cut_off(address, &[b"\x16\x03\x01\x02\x00\x01"]).await);
    assert!(cut_off(address, &[&PREAMBLE]).await);
    let long = "x".repeat(1 << 20);
    assert!(cut_off(address, &[b"GET /", long.as_bytes(), b" HTTP/1.1\r\n"]).await);
    for _ in 0..200 {
        let random = noise.bytes(200);
        send_and_close(address, &[&random]).await;
        let head = b"POST /instances/ HTTP/1.1\r\nhost: localhost\r\ncontent-length: 200\r\n\r\n";
        send_and_close(address, &[head, &random]).await;
        send_and_close(address, &[head, &random[..50]]).await;
    }
    let got = server.get("/bullpen/").await;
    assert_eq!(got.body["total"], 0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_with_a_duplicate_key_is_refused() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::memory(dir.path()).await;
    for (method, path, body) in [
        (
            Method::POST,
            "/instances/",
            r#"{"file": {"task": "t", "run": "true", "run": "false"}}"#,
        ),
        (
            Method::POST,
            "/lab/tasks/",
            r#"{"task": "t", "run": "true", "\u0072un": "false"}"#,
        ),
    ] {
        let request = server.request(method, path);
        let request = request
            .header("content-type", "application/json")
            .body(body);
        let refused = got(request).await;
        refused.is_problem(StatusCode::BAD_REQUEST, "bad-request");
        assert!(refused.detail().contains("run"), "{path}: {refused:?}");
    }
    assert_eq!(server.get("/bullpen/").await.body["items"], json!([]));
    server
        .get("/arena/?owner=a&owner=b")
        .await
        .is_problem(StatusCode::BAD_REQUEST, "bad-request");
    server.stop().await;
}
