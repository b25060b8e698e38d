//! A scheduler and a worker of the real binary, on ports that the kernel chooses, and
//! commands against them.
//!
//! No test sleeps to synchronise: [`until`] polls a condition,
//! and fails with its description. Dropping a cluster, also in a
//! panic, kills its processes.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A timeout for slow and busy machines.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// Waits for a condition, and fails with its description.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain for this: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ended {
    /// What it printed, after it ended well.
    pub(crate) fn good(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// The same as JSON.
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.good()).expect("it is JSON")
    }
}

/// The binary with these arguments, in a directory.
pub(crate) fn baton(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(BATON);
    command
        .args(args)
        .current_dir(dir)
        .env_remove("BATON_URL")
        .env_remove("BATON_TOKEN")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Sends a signal to a child that was not waited for yet.
pub(crate) fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("it has a pid"), signal).expect("it is not reaped yet");
}

/// A reserved port without a listener, while the socket lives.
pub(crate) fn silent_port() -> (OwnedFd, u16) {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = getsockname(&socket).expect("bound");
    let address = SocketAddrV4::try_from(address).expect("of the same family");
    (socket, address.port())
}

/// A scheduler with one worker.
pub(crate) struct Cluster {
    dir: TempDir,
    url: String,
    scheduler: Child,
    worker: Child,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut scheduler = baton(
            dir.path(),
            &[
                "scheduler",
                "--data",
                "data",
                "--listen",
                "127.0.0.1:0",
                "--worker-listen",
                "127.0.0.1:0",
                "--json",
            ],
        )
        .stderr(Stdio::inherit())
        .spawn()
        .expect("it starts");
        let stdout = scheduler.stdout.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("it says something");
        let ready: Value = serde_json::from_str(&line).expect("it says that it is ready");
        let text = |key: &str| ready[key].as_str().expect("a text").to_owned();
        let workers = text("workers");
        let worker = baton(
            dir.path(),
            &[
                "worker",
                "--scheduler",
                &workers,
                "--state",
                "worker",
                "--name",
                "w1",
                "--resources",
                "cpu=4,memory=4GiB",
                "--label",
                "zone=eu",
            ],
        )
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("it starts");
        let cluster = Self {
            url: text("url"),
            dir,
            scheduler,
            worker,
        };
        until("the worker is healthy", || {
            cluster.run(&["workers", "--json"]).json()[0]["state"] == "HEALTHY"
        });
        cluster
    }

    /// A directory for the test, where commands are run.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Where clients find the scheduler.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A command in the background.
    pub(crate) fn begin(&self, args: &[&str]) -> Child {
        let mut command = baton(self.dir.path(), args);
        command.env("BATON_URL", &self.url);
        command.spawn().expect("it starts")
    }

    /// A command from beginning to end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        let child = self.begin(args);
        child.wait_with_output().expect("it ends").into()
    }

    /// The state of an instance.
    pub(crate) fn state(&self, id: &str) -> String {
        let shown = self.run(&["show", id, "--json"]).json();
        let state = shown["instance"]["state"].as_str();
        state.expect("it has one").to_owned()
    }

    pub(crate) fn until_state(&self, id: &str, state: &str) {
        until(&format!("{id} is {state}"), || self.state(id) == state);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The worker ends its work and reports it; then the scheduler can stop.
        for (child, signal) in [
            (&mut self.worker, Signal::INT),
            (&mut self.scheduler, Signal::TERM),
        ] {
            end(child, signal);
        }
    }
}

/// Ends a child with SIGTERM, and after a timeout with SIGKILL.
pub(crate) fn end(child: &mut Child, signal: Signal) {
    if !matches!(child.try_wait(), Ok(None)) {
        return;
    }
    send(child, signal);
    let deadline = Instant::now() + PATIENCE;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    // One that is gone needs no signal; a panic in a drop would hide the first one.
    let _ = child.kill();
    let _ = child.wait();
}
