//! Tokens with the real binary: the first one, its rights, and that no secret is left on disk.

use std::fs::{self, File};
use std::path::Path;
use std::process::Child;

use baton_model::token::Secret;
use baton_testing::command::{Addresses, Ended, PORTS, baton, end, is_healthy, ready};
use baton_testing::until;
use rustix::process::Signal;
use tempfile::TempDir;

/// A server that requires tokens, and an admin's token.
struct Server {
    dir: TempDir,
    child: Child,
    url: String,
    workers: String,
    admin: Secret,
}

impl Server {
    /// Starts `up` or `scheduler` on a store with one token.
    fn start(command: &str) -> Self {
        let dir = tempfile::tempdir().expect("a place");
        let args = ["token", "create", "--role", "admin", "--data", "data"];
        let made = run(dir.path(), &args);
        assert!(made.err.contains("t1"), "{made:?}");
        assert!(!made.err.contains(Secret::PREFIX), "{made:?}");
        let text = made.good();
        fs::write(dir.path().join("admin.token"), &text).expect("written");
        let admin = Secret::parse(text.trim()).expect("a token and nothing else");
        let log = File::create(dir.path().join("server.log")).expect("a log");
        let mut child = baton(dir.path(), &[command, "--require-tokens", "--data", "data"])
            .args(PORTS)
            .env("BATON_LOG", "debug")
            .stderr(log)
            .spawn()
            .expect("it starts");
        let Some(Addresses { url, workers }) = ready(&mut child) else {
            panic!(
                "it does not start: {}",
                read(&dir.path().join("server.log"))
            );
        };
        Self {
            dir,
            child,
            url,
            workers,
            admin,
        }
    }

    /// A command with this token.
    fn run_with_token(&self, token: Option<&str>, args: &[&str]) -> Ended {
        let mut command = baton(self.dir.path(), args);
        command.env("BATON_URL", &self.url);
        if let Some(token) = token {
            command.env("BATON_TOKEN", token);
        }
        command.output().expect("it ends").into()
    }

    fn admin(&self, args: &[&str]) -> Ended {
        self.run_with_token(Some(self.admin.expose()), args)
    }

    fn healthy(&self, worker: &str) {
        until("the worker is healthy", || {
            let workers = self.admin(&["workers", "--json"]).json();
            is_healthy(&workers, worker)
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child, Signal::INT);
        if std::thread::panicking() {
            eprintln!("{}", read(&self.dir.path().join("server.log")));
        }
    }
}

fn run(dir: &Path, args: &[&str]) -> Ended {
    baton(dir, args).output().expect("it ends").into()
}

fn read(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// True if a text has a secret.
fn has_secret(text: &str) -> bool {
    let mut places = text.match_indices(Secret::PREFIX);
    places.any(|(at, _)| {
        text.get(at..at + 70)
            .is_some_and(|it| Secret::parse(it).is_some())
    })
}

#[test]
fn a_server_for_others_does_not_start_without_a_token_and_says_how_to_make_one() {
    let dir = tempfile::tempdir().expect("a place");
    let start = |port: &str| {
        let args = ["scheduler", "--data", "data", port, "0.0.0.0:0"];
        run(dir.path(), &args)
    };
    let missing = run(dir.path(), &["token", "ls", "--data", "data"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert!(
        !dir.path().join("data").exists(),
        "nothing is made by looking"
    );
    for port in ["--listen", "--worker-listen"] {
        let refused = start(port);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        let hint = "baton token create --role admin --data data";
        assert!(refused.err.contains(hint), "{refused:?}");
    }
}

#[test]
fn a_health_check_needs_no_token() {
    let server = Server::start("scheduler");
    let check = ["status", "--ready"];
    assert_eq!(server.run_with_token(None, &check).good(), "ready\n");
    let whole = server.run_with_token(None, &["status"]);
    assert_eq!(whole.code, Some(3), "{whole:?}");
    let json = server.run_with_token(None, &["status", "--ready", "--json"]);
    assert_eq!(json.json()["ready"], true);
}

#[test]
fn a_token_opens_what_its_role_may_do_and_is_found_nowhere_else() {
    let server = Server::start("up");
    let refused = server.run_with_token(None, &["workers"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains("--token-file"), "{refused:?}");
    // The worker of `up` has a token of its own.
    server.healthy("local");
    let args = [
        "--token-file",
        "admin.token",
        "submit",
        "--wait",
        "--",
        "env",
    ];
    server.run_with_token(None, &args).good();
    let printed = server.admin(&["logs", "i1"]).good();
    assert!(printed.contains("BATON_INSTANCE=") && !printed.contains("BATON_TOKEN="));

    let create = [
        "token",
        "create",
        "--role",
        "viewer",
        "--name",
        "ci",
        "--expires",
        "1d",
    ];
    let viewer = server.admin(&create).good();
    let viewer = Some(viewer.trim());
    server.run_with_token(viewer, &["history"]).good();
    let refused = server.run_with_token(viewer, &["cancel", "i1"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains("role operator"), "{refused:?}");
    let listed = server.admin(&["token", "ls"]).good();
    assert!(
        listed.contains("viewer  -      -      valid") && listed.contains("ci"),
        "{listed}"
    );
    let same = run(
        server.dir.path(),
        &["token", "ls", "--data", "data", "--json"],
    )
    .json();
    assert_eq!(
        (&same[1]["id"], &same[1]["role"]),
        (&"t2".into(), &"viewer".into())
    );
    server.admin(&["token", "revoke", "t2"]).good();
    let revoked = server.run_with_token(viewer, &["history"]);
    assert!(revoked.err.contains("was revoked"), "{revoked:?}");
    assert_eq!(server.admin(&["token", "revoke", "t9"]).code, Some(1));

    for process in fs::read_dir("/proc").expect("there").flatten() {
        let line = read(&process.path().join("cmdline"));
        assert!(!has_secret(&line), "in the command line of {process:?}");
    }
    let texts = [
        listed,
        same.to_string(),
        read(&server.dir.path().join("server.log")),
    ];
    assert!(!texts.iter().any(|text| has_secret(text)), "{texts:?}");
    assert!(texts[2].contains("t2"), "but who made what is told");
}

#[test]
fn a_worker_that_is_refused_says_why_stays_and_gets_in_with_a_token() {
    let server = Server::start("scheduler");
    let dir = server.dir.path();
    let start = |name: &str, options: &[&str]| {
        let log = File::create(dir.join(format!("{name}.log"))).expect("a log");
        baton(
            dir,
            &["worker", "--scheduler", &server.workers, "--name", name],
        )
        .args(["--state", name])
        .args(options)
        .stderr(log)
        .spawn()
        .expect("it starts")
    };
    let mut stranger = start("stranger", &[]);
    until("it says why", || {
        read(&dir.join("stranger.log")).contains("sends no token")
    });
    let args = ["token", "create", "--role", "worker", "--data", "data"];
    let token = run(dir, &args).good();
    fs::write(dir.join("worker.token"), token).expect("written");
    let mut worker = start("worker", &["--token-file", "worker.token"]);
    server.healthy("worker");
    assert!(matches!(stranger.try_wait(), Ok(None)), "it tries again");
    let said = read(&dir.join("stranger.log"));
    assert_eq!(said.matches("refuses this worker").count(), 1, "{said}");
    assert!(!said.contains("lost the scheduler"), "{said}");
    end(&mut stranger, Signal::INT);
    end(&mut worker, Signal::INT);
    let bad = baton(dir, &["worker", "--scheduler", &server.workers])
        .env("BATON_TOKEN", "baton_slip")
        .output();
    let bad: Ended = bad.expect("it ends").into();
    assert_eq!(bad.code, Some(2), "{bad:?}");
    assert!(!bad.err.contains("slip"), "{bad:?}");
}
