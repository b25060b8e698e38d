//! What signals to `baton up` do to its work.

use std::fs;
use std::path::Path;
use std::process::Child;

use baton_testing::command::{Addresses, Ended, PORTS, baton, end, ready};
use baton_testing::processes::send;
use baton_testing::until;
use rustix::process::Signal;

/// A started `baton up`; ends with its work.
struct Up {
    child: Child,
    addresses: Addresses,
}

impl Up {
    fn start(dir: &Path) -> Self {
        let mut child = baton(dir, &["up", "--data", "data"])
            .args(PORTS)
            .spawn()
            .expect("it starts");
        let addresses = ready(&mut child).expect("it is ready");
        Self { child, addresses }
    }

    fn run(&self, dir: &Path, args: &[&str]) -> Ended {
        let mut command = baton(dir, args);
        command.env("BATON_URL", &self.addresses.url);
        command.output().expect("it ends").into()
    }

    fn stop(&mut self, signal: Signal) {
        send(self.child.id(), signal);
        until("up ends", || !matches!(self.child.try_wait(), Ok(None)));
        let status = self.child.wait().expect("ours");
        assert!(status.success(), "{status}");
    }

    /// The state of i1, and how many attempts it has had.
    fn shown(&self, dir: &Path) -> (String, u64) {
        let shown = self.run(dir, &["show", "i1", "--json"]).json();
        let instance = &shown["instance"];
        let state = instance["state"].as_str().expect("a state").to_owned();
        (state, instance["attempts"].as_u64().expect("a number"))
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        end(&mut self.child, Signal::INT);
    }
}

/// Submits work that notes its beginning and waits for a file.
fn submit(up: &Up, dir: &Path) {
    let script = format!(
        "echo x >> {0}/begun; until test -e {0}/go; do sleep 0.05; done",
        dir.display()
    );
    up.run(dir, &["submit", "--", "sh", "-c", &script]).good();
    until("the work has begun", || dir.join("begun").exists());
}

#[test]
fn sigterm_leaves_the_work_to_the_next_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut first = Up::start(dir.path());
    submit(&first, dir.path());
    first.stop(Signal::TERM);
    let second = Up::start(dir.path());
    fs::write(dir.path().join("go"), "").expect("writable");
    until("it is done", || second.shown(dir.path()).0 == "DONE");
    assert_eq!(second.shown(dir.path()).1, 1, "one attempt");
    let begun = fs::read_to_string(dir.path().join("begun")).expect("readable");
    assert_eq!(begun, "x\n");
}

#[test]
fn sigint_ends_the_work_and_the_ending_worker_gets_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut first = Up::start(dir.path());
    submit(&first, dir.path());
    first.stop(Signal::INT);
    fs::write(dir.path().join("go"), "").expect("writable");
    let second = Up::start(dir.path());
    until("it is done", || second.shown(dir.path()).0 == "DONE");
    assert_eq!(second.shown(dir.path()).1, 2, "the second is the next one");
}
