//! An S3-compatible server with one bucket, which `scripts/tools.sh` installs.
//!
//! It checks the signature of every request; its objects are in memory.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The name of the bucket.
pub const BUCKET: &str = "logs";
/// The credentials that it accepts.
pub const ACCESS_KEY: &str = "test-key";
pub const SECRET_KEY: &str = "test-secret";

/// A server of its own; it is killed when it is dropped.
#[derive(Debug)]
pub struct Server {
    port: u16,
    /// Its certificate and private key.
    files: Option<(PathBuf, PathBuf)>,
    process: Option<Child>,
}

impl Server {
    /// Starts a server on a port that the kernel chooses, with TLS if there are files for it.
    ///
    /// # Panics
    /// If it is not installed.
    #[must_use]
    pub fn start(files: Option<(PathBuf, PathBuf)>) -> Self {
        let mut server = Self {
            port: 0,
            files,
            process: None,
        };
        server.run();
        server
    }

    /// Starts it, on the port that it had before, with an empty bucket.
    ///
    /// # Panics
    /// If it does not start.
    pub fn run(&mut self) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let python = root.join(target).join("tools/s3/bin/python");
        let mut command = Command::new(python);
        command.arg(root.join("scripts/s3-server.py")).args([
            &self.port.to_string(),
            ACCESS_KEY,
            SECRET_KEY,
            BUCKET,
        ]);
        if let Some((certificate, key)) = &self.files {
            command.arg(certificate).arg(key);
        }
        let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut process = started.expect("scripts/tools.sh has installed it");
        let out = process.stdout.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).expect("readable");
        self.port = line.trim().parse().expect("it prints its port");
        self.process = Some(process);
    }

    /// Ends it, with its objects.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// The URL of a bucket of this server, for `--collect-logs-to`.
    #[must_use]
    pub fn bucket(&self, name: &str) -> String {
        let scheme = self.files.as_ref().map_or("http", |_| "https");
        let port = self.port;
        format!("s3://{name}/some/prefix?endpoint={scheme}://127.0.0.1:{port}")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
