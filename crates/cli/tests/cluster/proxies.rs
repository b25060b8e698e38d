//! Workers that reach their scheduler by an HTTP proxy, here a small one of the test.

use std::io::{Read as _, Write as _, copy};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use baton_testing::PATIENCE;
use baton_testing::cluster::Cluster;
use serde_json::json;

use crate::api::Api;

/// A proxy that connects whatever is asked for, and tells for whom. It ends with the test process.
fn proxy() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let (sender, asked) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let sender = sender.clone();
            thread::spawn(move || {
                let mut worker = stream.expect("a connection");
                let mut request = Vec::new();
                let mut byte = [0];
                while !request.ends_with(b"\r\n\r\n") {
                    worker.read_exact(&mut byte).expect("a request");
                    request.push(byte[0]);
                }
                let request = String::from_utf8(request).expect("text");
                let target = request.split(' ').nth(1).expect("a target").to_owned();
                let mut scheduler = TcpStream::connect(&target).expect("it listens");
                worker.write_all(b"HTTP/1.1 200 OK\r\n\r\n").expect("open");
                // The test may be over.
                let _ = sender.send(target);
                let mut answers = scheduler.try_clone().expect("a descriptor");
                let mut back = worker.try_clone().expect("a descriptor");
                thread::spawn(move || copy(&mut answers, &mut back));
                let _ = copy(&mut worker, &mut scheduler);
            });
        }
    });
    (address, asked)
}

#[test]
fn a_worker_works_by_a_proxy_and_variables_count_only_if_they_are_to() {
    let mut cluster = Cluster::new(&[]);
    let (address, asked) = proxy();
    let url = format!("http://{address}");
    cluster.start_worker("w1", &["--proxy", &url]);
    let target = asked.recv_timeout(PATIENCE).expect("it asks the proxy");
    assert_eq!(target, cluster.workers_at());
    cluster.healthy("w1");
    let done = cluster
        .submit(json!({ "task": "t", "run": "true" }), 1)
        .first;
    assert_eq!(cluster.finish(done).worker.as_deref(), Some("w1"));

    // A proxy that nothing listens on: the worker would not come.
    let with_variable = |proxy: &str| {
        let mut command = std::process::Command::new("env");
        command.arg(format!("HTTPS_PROXY={proxy}"));
        command.arg(baton_testing::command::baton_path());
        command
    };
    cluster.start_worker_by(with_variable("http://127.0.0.1:9"), "w2", &[]);
    cluster.healthy("w2");
    cluster.start_worker_by(with_variable(&url), "w3", &["--proxy", "env"]);
    asked.recv_timeout(PATIENCE).expect("it asks the proxy");
    cluster.healthy("w3");
}
