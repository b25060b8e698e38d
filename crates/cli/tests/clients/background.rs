//! `baton up --detach` and `baton down`.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use baton_testing::command::{Ended, PORTS, baton, run};
use baton_testing::until;
use serde_json::Value;

/// A server in the background; ends with its work.
struct Background<'a> {
    dir: &'a Path,
    url: String,
}

impl<'a> Background<'a> {
    fn start(dir: &'a Path) -> Self {
        let ended = up(dir, &PORTS);
        assert!(ended.err.contains("`baton down` ends it"), "{ended:?}");
        let url = ended.json()["url"].as_str().expect("a URL").to_owned();
        Self { dir, url }
    }

    fn run(&self, args: &[&str]) -> Ended {
        let mut command = baton(self.dir, args);
        command.env("BATON_URL", &self.url);
        command.output().expect("it ends").into()
    }

    /// The state of i1, and how many attempts it has had.
    fn shown(&self) -> (String, u64) {
        let shown = self.run(&["show", "i1", "--json"]).json();
        let instance = &shown["instance"];
        let state = instance["state"].as_str().expect("a state").to_owned();
        (state, instance["attempts"].as_u64().expect("a number"))
    }
}

impl Drop for Background<'_> {
    fn drop(&mut self) {
        // A panic in a drop would hide the first one.
        let _ = baton(self.dir, &["down"]).output();
    }
}

fn up(dir: &Path, options: &[&str]) -> Ended {
    let command = baton(dir, &["up", "--detach"]).args(options).output();
    command.expect("it returns").into()
}

#[test]
fn a_detached_up_is_ready_when_it_returns_and_down_ends_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Background::start(dir.path());
    server.run(&["status"]).good();
    server
        .run(&["submit", "--wait", "--", "echo", "hello"])
        .good();
    let log = dir.path().join(".baton/baton.log");
    let mode = fs::metadata(&log).expect("a log").mode();
    assert_eq!(mode & 0o777, 0o600);

    let ended = run(dir.path(), &["down", "--json"]).json();
    assert_eq!(ended["ended"], Value::Bool(true));
    let unreachable = server.run(&["status"]);
    assert_eq!(unreachable.code, Some(3), "{unreachable:?}");
    let text = fs::read_to_string(log).expect("readable");
    assert!(text.contains("ending the worker"), "{text}");
    assert!(!text.contains('\x1b'), "a file has no colours: {text}");

    let again = run(dir.path(), &["down"]).good();
    assert_eq!(again, "no scheduler runs on .baton\n");
}

#[test]
fn down_ends_the_work_or_leaves_it_running() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Background::start(dir.path());
    let begun = dir.path().join("begun");
    let script = format!(
        "echo x >> {0}/begun; until test -e {0}/go; do sleep 0.05; done",
        dir.path().display()
    );
    server.run(&["submit", "--", "sh", "-c", &script]).good();
    until("the work has begun", || begun.exists());
    run(dir.path(), &["down", "--leave-running"]).good();
    let server = {
        std::mem::forget(server);
        Background::start(dir.path())
    };
    until("it is taken over", || server.shown().0 == "RUNNING");
    assert_eq!(server.shown().1, 1, "one attempt");
    run(dir.path(), &["down", "--now"]).good();
    let server = {
        std::mem::forget(server);
        fs::write(dir.path().join("go"), "").expect("writable");
        Background::start(dir.path())
    };
    until("it is done", || server.shown().0 == "DONE");
    assert_eq!(server.shown().1, 2, "the first one was killed");
    assert!(
        dir.path().join(".baton/baton.log.1").exists(),
        "the log of the one before is kept"
    );
}

#[test]
fn an_up_whose_worker_refuses_its_options_ends_with_the_error() {
    for way in [&["--detach"][..], &[]] {
        let dir = tempfile::tempdir().expect("a directory");
        let options = [way, &PORTS, &["--resources", "cpu=four"]].concat();
        let ended = run(dir.path(), &[&["up"], &*options].concat());
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains("`four` is not a decimal"), "{ended:?}");
        assert_eq!(ended.out, "", "it is never ready");
        let down = run(dir.path(), &["down"]).good();
        assert_eq!(down, "no scheduler runs on .baton\n");
    }
}

#[test]
fn an_up_at_a_used_port_names_its_process_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let holder = format!("process {}", std::process::id());
    for command in [&["up"][..], &["up", "--detach"], &["scheduler"]] {
        let ended = baton(dir.path(), command)
            .args(["--listen", &address])
            .output();
        let ended = Ended::from(ended.expect("it ends"));
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains(&holder), "{ended:?}");
        assert!(ended.err.contains(&address), "{ended:?}");
        assert!(!dir.path().join(".baton").exists(), "{command:?}");
    }
}

#[test]
fn a_second_up_on_the_same_directory_and_ports_names_the_first() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Background::start(dir.path());
    let address = server.url.trim_start_matches("http://").to_owned();
    let second = up(dir.path(), &["--listen", &address]);
    assert_eq!(second.code, Some(75), "{second:?}");
    assert!(
        second
            .err
            .contains("another scheduler is using .baton (pid ")
    );
    server.run(&["status"]).good();
    let log = dir.path().join(".baton/baton.log.1");
    assert!(!log.exists(), "the log of the first is still its log");
}

#[test]
fn a_scheduler_that_cannot_be_seen_is_not_ended() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join(".baton")).expect("created");
    // As that of another container: it holds the lock, and its number means nothing here.
    let lock = File::create(dir.path().join(".baton/scheduler.lock")).expect("created");
    lock.try_lock().expect("free");
    for (pid, text) in [
        ("1999999999\n", "cannot be seen from here"),
        ("", "names no process"),
    ] {
        fs::write(dir.path().join(".baton/scheduler.lock"), pid).expect("written");
        let ended = run(dir.path(), &["down"]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains(text), "{ended:?}");
    }
}
