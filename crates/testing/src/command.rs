//! The built `baton`: commands to their end, servers until they are ready.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use rustix::process::Signal;
use serde_json::Value;

use crate::PATIENCE;
use crate::processes::send;

/// Options of a server on ports that the kernel chooses, which reports them as JSON.
pub const PORTS: [&str; 5] = [
    "--listen",
    "127.0.0.1:0",
    "--worker-listen",
    "127.0.0.1:0",
    "--json",
];

/// The binary, which cargo puts beside the directory of the test programs.
pub fn baton_path() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let built = test.parent().and_then(Path::parent);
    built.expect("target/PROFILE/deps").join("baton")
}

/// The binary with these arguments, in a directory.
pub fn baton(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(baton_path());
    command
        .args(args)
        .current_dir(dir)
        .env_remove("BATON_URL")
        .env_remove("BATON_TOKEN")
        .env_remove("BATON_TOKEN_FILE")
        // Whatever the host is configured for.
        .env("BATON_CONFIG", "")
        .env("TZ", "UTC")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
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
    pub fn good(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// The same as JSON.
    pub fn json(self) -> Value {
        serde_json::from_str(&self.good()).expect("it is JSON")
    }
}

/// Runs the binary to its end.
pub fn run(dir: &Path, args: &[&str]) -> Ended {
    baton(dir, args).output().expect("it ends").into()
}

/// The addresses that a server has bound, with the ports that the kernel chose.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// For clients.
    pub url: String,
    /// For workers.
    pub workers: String,
}

/// Waits until a server with `--json` is ready; `None` if it ends before.
pub fn ready(server: &mut Child) -> Option<Addresses> {
    let mut line = String::new();
    let out = server.stdout.take().expect("it is piped");
    BufReader::new(out).read_line(&mut line).expect("readable");
    let ready: Value = serde_json::from_str(&line).ok()?;
    let word = |key: &str| ready[key].as_str().expect("a word").to_owned();
    Some(Addresses {
        url: word("url"),
        workers: word("workers"),
    })
}

/// True if this worker is in the output of `baton workers --json`, and HEALTHY.
pub fn is_healthy(workers: &Value, name: &str) -> bool {
    let mut all = workers.as_array().expect("a list").iter();
    all.any(|it| it["name"] == name && it["state"] == "HEALTHY")
}

/// Ends a child with a signal, and after a timeout with SIGKILL.
pub fn end(child: &mut Child, signal: Signal) {
    if !matches!(child.try_wait(), Ok(None)) {
        return;
    }
    send(child.id(), signal);
    let deadline = Instant::now() + PATIENCE;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    // One that is gone needs no signal; a panic in a drop would hide the first one.
    let _ = child.kill();
    let _ = child.wait();
}

/// A reserved port without a listener, while the socket lives.
pub fn silent_port() -> (OwnedFd, u16) {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = getsockname(&socket).expect("bound");
    let address = SocketAddrV4::try_from(address).expect("of the same family");
    (socket, address.port())
}
