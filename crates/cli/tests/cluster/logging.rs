//! Standard error that is closed, full, or a pipe that is not read: it costs log lines, and neither
//! ends nor blocks a scheduler, an agent or a coordinator.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

use baton_client::Client;
use baton_model::api::Submit;
use baton_model::ids::InstanceId;
use baton_testing::PATIENCE;
use baton_testing::command::{Addresses, PORTS, baton, end, ready};
use baton_testing::processes::send;
use rustix::pipe::{fcntl_setpipe_size, pipe};
use rustix::process::Signal;
use serde_json::{Value, json};

/// More log lines than the pipe holds.
const LINES: usize = 100;

#[test]
fn log_lines_are_objects_on_request() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = baton(dir.path(), &["up", "--data", "."])
        .args(PORTS)
        .env("BATON_LOG_FORMAT", "json")
        .spawn()
        .expect("baton starts");
    ready(&mut child).expect("it starts");
    assert!(send(child.id(), Signal::INT));
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8(output.stderr).expect("text");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    let leading = lines.iter().find(|line| {
        let message = line["message"].as_str().unwrap_or_default();
        message.starts_with("leading in epoch")
    });
    let leading = leading.expect("it leads");
    assert_eq!(leading["level"], "INFO", "{text}");
    assert!(leading["timestamp"].is_string() && leading["target"].is_string());
    let wrong = baton(dir.path(), &["scheduler", "--data", "."])
        .env("BATON_LOG_FORMAT", "xml")
        .output()
        .expect("it ends");
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

/// A scheduler and a worker in one process, which logs to `stderr`.
struct Server {
    _dir: tempfile::TempDir,
    child: Child,
    url: String,
}

impl Server {
    fn start(stderr: Stdio) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut child = baton(dir.path(), &["up", "--data", "."])
            .args(PORTS)
            .env("BATON_LOG", "info")
            .stderr(stderr)
            .spawn()
            .expect("baton starts");
        let Addresses { url, .. } = ready(&mut child).expect("it starts");
        Self {
            _dir: dir,
            child,
            url,
        }
    }

    /// Makes the server log, and runs a task.
    fn works(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let client = Client::new(&self.url).expect("a URL");
        runtime.block_on(async {
            let file = json!({ "task": "t", "run": "exit 3" });
            let submit = Submit {
                file,
                params: Default::default(),
                array: None,
                ..Default::default()
            };
            client.submit(&submit).await.expect("it is accepted");
            let over = client.wait(InstanceId(1), PATIENCE).await;
            let over = over.expect("it answers");
            assert_eq!(over.state.word(), "FAILED");
            for number in 0..LINES {
                let drained = client.drain("local", number % 2 == 0).await;
                drained.expect("it answers");
            }
        });
    }

    /// The log lines that could not be written, as the metrics report them.
    fn dropped_lines(&self) -> u64 {
        let address = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).expect("it listens");
        let request =
            format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("readable");
        let name = "baton_log_lines_dropped_total ";
        let count = answer.lines().find_map(|line| line.strip_prefix(name));
        count.expect(name).parse().expect("a number")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends its worker by itself.
        end(&mut self.child, Signal::INT);
    }
}

#[test]
fn a_closed_stderr_ends_nothing() {
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    let server = Server::start(writer.into());
    server.works();
    assert!(server.dropped_lines() > 0, "they are counted");
}

#[test]
fn a_full_stderr_ends_nothing() {
    let full: OwnedFd = File::options()
        .write(true)
        .open("/dev/full")
        .expect("Linux")
        .into();
    let server = Server::start(full.into());
    server.works();
    assert!(server.dropped_lines() > 0, "they are counted");
}

#[test]
fn a_stderr_that_is_not_read_blocks_nothing() {
    let (reader, writer) = pipe().expect("a pipe");
    fcntl_setpipe_size(&writer, 4_096).expect("a small pipe");
    Server::start(writer.into()).works();
    drop(reader);
}
