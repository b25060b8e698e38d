//! TLS with the real binary: servers, workers and commands, with certificates made here.

use std::fs::{self, File};
use std::path::Path;
use std::process::Child;

use baton_testing::ca::{Ca, CertRequest};
use baton_testing::command::{Addresses, Ended, PORTS, baton, end, is_healthy, ready};
use baton_testing::processes::send;
use baton_testing::until;
use rustix::process::Signal;
use tempfile::TempDir;

const TLS: [&str; 4] = ["--tls-cert", "server.pem", "--tls-key", "server.key"];

/// A server's certificate, for the address that clients dial.
const SERVER: CertRequest<'_> = CertRequest {
    name: "server",
    hosts: &["127.0.0.1"],
    ..CertRequest::PLAIN
};

fn holder<'a>(name: &'a str, units: &'a [&'a str]) -> CertRequest<'a> {
    CertRequest {
        name,
        units,
        ..CertRequest::PLAIN
    }
}

/// A directory with a CA (`ca.pem`), a server's certificate and key, and what a test adds.
struct CertificateDir {
    dir: TempDir,
    ca: Ca,
}

impl CertificateDir {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a place");
        let ca = Ca::new("ca");
        ca.write_own(&dir.path().join("ca.pem"));
        let place = Self { dir, ca };
        place.issue(SERVER);
        place
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// `NAME.pem` and `NAME.key`.
    fn issue(&self, wanted: CertRequest<'_>) {
        self.ca.write(self.path(), wanted);
    }

    fn run(&self, args: &[&str]) -> Ended {
        baton(self.path(), args).output().expect("it ends").into()
    }

    fn serve(&self, command: &str, options: &[&str]) -> Server<'_> {
        let log = File::create(self.path().join("server.log")).expect("a log");
        let mut child = baton(self.path(), &[command, "--data", "data"])
            .args(PORTS)
            .args(options)
            .stderr(log)
            .spawn()
            .expect("it starts");
        let Some(Addresses { url, workers }) = ready(&mut child) else {
            panic!("it does not start: {}", self.read("server.log"));
        };
        Server {
            place: self,
            child,
            url,
            workers,
        }
    }

    fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

struct Server<'a> {
    place: &'a CertificateDir,
    child: Child,
    url: String,
    workers: String,
}

impl Server<'_> {
    fn run(&self, args: &[&str]) -> Ended {
        let mut command = baton(self.place.path(), args);
        command.env("BATON_URL", &self.url);
        command.output().expect("it ends").into()
    }

    /// The same, with the CA in its variable.
    fn trusted(&self, args: &[&str]) -> Ended {
        let mut command = baton(self.place.path(), args);
        command
            .env("BATON_URL", &self.url)
            .env("BATON_CA", "ca.pem");
        command.output().expect("it ends").into()
    }

    /// A worker that dials this address, and logs into `NAME.log`.
    fn worker_at(&self, address: &str, name: &str, options: &[&str]) -> Worker {
        let log = File::create(self.place.path().join(format!("{name}.log")));
        let args = ["worker", "--scheduler", address, "--name", name];
        let child = baton(self.place.path(), &args)
            .args(["--state", name])
            .args(options)
            .stderr(log.expect("a log"))
            .spawn();
        Worker(child.expect("it starts"))
    }

    fn worker(&self, name: &str, options: &[&str]) -> Worker {
        self.worker_at(&self.workers, name, options)
    }

    fn healthy(&self, worker: &str) {
        until("the worker is healthy", || {
            let workers = self.trusted(&["workers", "--json"]).json();
            is_healthy(&workers, worker)
        });
    }

    fn log_has(&self, log: &str, words: &str) {
        until(words, || self.place.read(log).contains(words));
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        end(&mut self.child, Signal::INT);
        if std::thread::panicking() {
            eprintln!("{}", self.place.read("server.log"));
        }
    }
}

struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        end(&mut self.0, Signal::INT);
    }
}

#[test]
fn up_runs_a_task_over_tls_with_a_worker_that_needs_no_further_files() {
    let place = CertificateDir::new();
    let options = [&TLS[..], &["--client-ca", "ca.pem"]].concat();
    let server = place.serve("up", &options);
    assert!(server.url.starts_with("https://"), "{}", server.url);
    server.healthy("local");
    server.trusted(&["submit", "--wait", "--", "true"]).good();
}

#[test]
fn a_worker_over_tls_runs_a_task_and_trusts_no_other_server() {
    let place = CertificateDir::new();
    let server = place.serve("scheduler", &TLS);
    let _worker = server.worker("good", &["--ca", "ca.pem"]);
    server.healthy("good");
    let args = ["--ca", "ca.pem", "submit", "--wait", "--", "echo", "hello"];
    server.run(&args).good();
    assert_eq!(server.trusted(&["logs", "i1"]).good(), "hello\n");

    let other = Ca::new("another");
    other.write_own(&place.path().join("other.pem"));
    let _stranger = server.worker("stranger", &["--ca", "other.pem"]);
    server.log_has("stranger.log", "not signed by a trusted CA");
    let port = server.workers.rsplit_once(':').expect("a port").1;
    let _misnamed = server.worker_at(
        &format!("localhost:{port}"),
        "misnamed",
        &["--ca", "ca.pem"],
    );
    server.log_has("misnamed.log", "not for localhost");
    let _plain = server.worker("plain", &[]);
    server.log_has("plain.log", "requires TLS");
    let workers = server.trusted(&["workers", "--json"]).json();
    assert_eq!(workers.as_array().map(Vec::len), Some(1), "{workers}");
}

#[test]
fn a_worker_fetches_files_from_servers_that_its_ca_has_signed() {
    let place = CertificateDir::new();
    let server = place.serve("scheduler", &TLS);
    let _worker = server.worker("w", &["--ca", "ca.pem"]);
    server.healthy("w");
    let file = format!(
        "task: fetch\nrun: head -c 1 task.json\nuris: ['{}/schemas/task.json']\n",
        server.url
    );
    fs::write(place.path().join("fetch.yaml"), file).expect("written");
    server.trusted(&["submit", "fetch.yaml", "--wait"]).good();
    assert_eq!(server.trusted(&["logs", "i1"]).good(), "{");
}

#[test]
fn workers_show_certificates_and_a_role_or_a_token() {
    let place = CertificateDir::new();
    for (name, units) in [
        ("worker", &["worker"][..]),
        ("viewer", &["viewer"]),
        ("nothing", &[]),
    ] {
        place.issue(holder(name, units));
    }
    let other = Ca::new("another");
    other.write(place.path(), holder("foreign", &["worker"]));
    let token = ["token", "create", "--role", "worker", "--data", "data"];
    fs::write(place.path().join("token"), place.run(&token).good()).expect("written");
    let options = [&TLS[..], &["--client-ca", "ca.pem"]].concat();
    let server = place.serve("scheduler", &options);
    let with = |name: &str, cert: Option<&str>, token: bool| {
        let mut options = vec!["--ca", "ca.pem"];
        let files = cert.map(|cert| (format!("{cert}.pem"), format!("{cert}.key")));
        if let Some((cert, key)) = &files {
            options.extend(["--cert", cert, "--key", key]);
        }
        if token {
            options.extend(["--token-file", "token"]);
        }
        server.worker(name, &options)
    };
    let _good = with("good", Some("worker"), false);
    server.healthy("good");
    let _both = with("both", Some("nothing"), true);
    server.healthy("both");
    let _none = with("none", None, true);
    server.log_has("none.log", "it sends no certificate");
    let _nothing = with("roleless", Some("nothing"), false);
    server.log_has("roleless.log", "names no role");
    let _viewer = with("looker", Some("viewer"), false);
    server.log_has("looker.log", "has the role viewer");
    let _foreign = with("foreign", Some("foreign"), false);
    server.log_has("foreign.log", "does not trust the client certificate");
    let workers = server.trusted(&["workers", "--json"]).json();
    assert_eq!(workers.as_array().map(Vec::len), Some(2), "{workers}");
}

#[test]
fn commands_trust_whom_they_are_told_and_show_what_they_have() {
    let place = CertificateDir::new();
    place.issue(holder("ann", &["operator"]));
    let other = Ca::new("another");
    other.write_own(&place.path().join("other.pem"));
    let create = ["token", "create", "--role", "viewer", "--data", "data"];
    let token = place.run(&create).good();
    fs::write(place.path().join("token"), token).expect("written");
    let options = [&TLS[..], &["--client-ca", "ca.pem", "--require-tokens"]].concat();
    let server = place.serve("scheduler", &options);
    let refused = |args: &[&str], word: &str| {
        let refused = server.run(args);
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert!(refused.err.contains(word), "{refused:?}");
    };
    let ca = ["--ca", "ca.pem"];
    let ann = ["--cert", "ann.pem", "--key", "ann.key"];
    refused(&["workers"], "name the CA's certificate with --ca");
    refused(
        &["--ca", "other.pem", "workers"],
        "not signed by a trusted CA",
    );
    refused(&[&ca[..], &["workers"]].concat(), "requires authentication");
    server
        .run(&[&ca[..], &ann, &["submit", "--", "true"]].concat())
        .good();
    refused(&[&ca[..], &ann, &["token", "ls"]].concat(), "role admin");
    let token = ["--token-file", "token", "workers"];
    server.run(&[&ca[..], &token].concat()).good();
    let port = server.url.rsplit_once(':').expect("a port").1;
    let misnamed = format!("https://localhost:{port}");
    let args = ["--ca", "ca.pem", "--url", &misnamed, "workers"];
    refused(&args, "not for localhost, but for");
    let plain = server.url.replace("https", "http");
    let told = server.run(&["--url", &plain, "workers"]);
    assert_eq!(told.code, Some(2), "{told:?}");
    assert!(told.err.contains("use https://"), "{told:?}");
    let half = server.run(&[&ca[..], &ann[..2], &["workers"]].concat());
    assert_eq!(half.code, Some(2), "{half:?}");
}

#[test]
fn a_client_with_tls_is_refused_by_a_server_without_it() {
    let place = CertificateDir::new();
    let server = place.serve("scheduler", &[]);
    let url = server.url.replace("http", "https");
    let told = server.trusted(&["--url", &url, "workers"]);
    assert_eq!(told.code, Some(3), "{told:?}");
    assert!(told.err.contains("does not use TLS"), "{told:?}");
    let _worker = server.worker("eager", &["--ca", "ca.pem"]);
    server.log_has("eager.log", "does not use TLS");
}

#[test]
fn files_that_cannot_be_used_are_wrong_usage_and_are_named() {
    let place = CertificateDir::new();
    let days = |name, days| {
        place.issue(CertRequest {
            name,
            days,
            ..SERVER
        });
    };
    days("expired", (-9, -2));
    fs::write(place.path().join("empty.pem"), "").expect("written");
    for (cert, key, ca, blamed) in [
        (
            "none.pem",
            "server.key",
            "ca.pem",
            "none.pem cannot be read",
        ),
        (
            "empty.pem",
            "server.key",
            "ca.pem",
            "empty.pem holds no certificate",
        ),
        (
            "server.pem",
            "expired.key",
            "ca.pem",
            "expired.key is not the key",
        ),
        ("expired.pem", "expired.key", "ca.pem", "expired 2 days ago"),
        (
            "server.pem",
            "server.key",
            "server.key",
            "server.key holds no certificate",
        ),
    ] {
        let options = ["--tls-cert", cert, "--tls-key", key, "--client-ca", ca];
        let args = [&["scheduler", "--data", "data"][..], &PORTS, &options].concat();
        let refused = place.run(&args);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(blamed), "{blamed}: {refused:?}");
    }
    let worker = ["worker", "--scheduler", "127.0.0.1:1", "--ca", "none.pem"];
    let refused = place.run(&worker);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let args = [
        "--url",
        "https://127.0.0.1:1",
        "--ca",
        "none.pem",
        "workers",
    ];
    let refused = place.run(&args);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let mixed = place.run(&["up", "--cert", "server.pem", "--key", "server.key"]);
    assert_eq!(mixed.code, Some(2), "{mixed:?}");
    assert!(mixed.err.contains("--tls-cert"), "{mixed:?}");
}

#[test]
fn new_certificates_count_from_sighup_on_and_bad_ones_never() {
    let place = CertificateDir::new();
    let server = place.serve("scheduler", &TLS);
    server.trusted(&["workers"]).good();
    let next = Ca::new("next");
    next.write_own(&place.path().join("next.pem"));
    next.write(place.path(), SERVER);
    server.trusted(&["workers"]).good();
    send(server.child.id(), Signal::HUP);
    let trusts = |ca| server.run(&["--ca", ca, "workers"]).code == Some(0);
    until("the new certificate is shown", || trusts("next.pem"));
    assert!(!trusts("ca.pem"));
    fs::write(place.path().join("server.key"), "").expect("written");
    send(server.child.id(), Signal::HUP);
    server.log_has("server.log", "the old ones stay in force");
    assert!(trusts("next.pem"));
}
