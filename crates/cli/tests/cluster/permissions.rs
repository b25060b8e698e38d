//! What another user of the machine can read of a scheduler and its worker.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use baton_testing::command::{Addresses, Ended, baton_path, is_healthy, ready, run};
use baton_testing::processes::send;
use baton_testing::{until, until_some};
use rustix::process::Signal;
use serde_json::Value;

/// Of the user `daemon`.
const OTHER: u32 = 1;

/// `baton up` in a directory that every user can reach.
struct Up {
    child: Child,
    addresses: Addresses,
}

impl Up {
    fn start(dir: &Path) -> Self {
        let listen = ["--listen", "127.0.0.1:0", "--worker-listen", "127.0.0.1:0"];
        let mut child = Command::new(baton_path())
            .args(["up", "--json", "--data", "data"])
            .args(listen)
            .current_dir(dir)
            .env("BATON_LOG", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("baton starts");
        let addresses = ready(&mut child).expect("it is ready");
        let up = Self { child, addresses };
        until("the worker is healthy", || {
            let workers = up.run(dir, &["workers", "--json"]);
            workers.code == Some(0) && is_healthy(&workers.json(), "local")
        });
        up
    }

    fn run(&self, dir: &Path, args: &[&str]) -> Ended {
        let mut all = args.to_vec();
        all.extend(["--url", &self.addresses.url]);
        run(dir, &all)
    }

    /// Runs a task to its end; returns its output.
    fn task(&self, dir: &Path, file: &Value) -> String {
        let path = dir.join("task.json");
        fs::write(&path, file.to_string()).expect("written");
        let submitted = self.run(dir, &["submit", "task.json", "--json"]).json();
        let id = submitted["first"].as_str().expect("an id").to_owned();
        let state = until_some("it ends", || {
            let shown = self.run(dir, &["show", &id, "--json"]).json();
            let state = shown["instance"]["state"].as_str()?.to_owned();
            ["DONE", "FAILED"].contains(&&*state).then_some(state)
        });
        assert_eq!(
            state,
            "DONE",
            "{}",
            self.run(dir, &["logs", &id, "--stderr"]).out
        );
        self.run(dir, &["logs", &id]).good()
    }

    fn stop(mut self) {
        send(self.child.id(), Signal::INT);
        let status = self.child.wait().expect("ours");
        assert!(status.success(), "{status}");
    }
}

/// The paths that another user can read or write, or list.
fn open_to_others(dir: &Path) -> Vec<String> {
    let found = Command::new("find")
        .arg(dir.join("data"))
        .args(["(", "-readable", "-o", "-writable", ")", "-print"])
        .uid(OTHER)
        .gid(OTHER)
        .output()
        .expect("find runs");
    let paths = String::from_utf8_lossy(&found.stdout);
    paths.lines().map(ToOwned::to_owned).collect()
}

#[test]
fn another_user_reads_nothing_of_a_scheduler_and_its_worker() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can look as another user");
        return;
    }
    let parent = tempfile::tempdir().expect("a directory");
    let dir = parent.path();
    fs::set_permissions(dir, Permissions::from_mode(0o755)).expect("ours");
    let up = Up::start(dir);
    let secret = serde_json::json!({
        "task": "secret", "run": "echo told; echo x > file", "env": { "PASSWORD": "p" },
    });
    assert_eq!(up.task(dir, &secret), "told\n");
    assert_eq!(open_to_others(dir), [""; 0], "while it runs");
    // The user of a task reaches its own directory, through ours.
    let other = serde_json::json!({
        "task": "other", "user": "daemon", "run": "echo x > file && cat file && id -u",
    });
    assert_eq!(up.task(dir, &other), format!("x\n{OTHER}\n"));
    up.stop();

    // As an older version has left it.
    for name in ["", "baton.db", "scheduler.lock", "baton.mark"] {
        let path = dir.join("data").join(name);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("ours");
    }
    let up = Up::start(dir);
    up.stop();
    let theirs = dir.join("data/worker/work");
    let open: Vec<String> = open_to_others(dir)
        .into_iter()
        .filter(|path| !Path::new(path).starts_with(&theirs))
        .collect();
    assert_eq!(open, [""; 0], "after it has ended");
}

/// Every command that uses a data or state directory, each with a directory called `D`.
const COMMANDS: [&[&str]; 7] = [
    &["up", "--data", "D", "--listen", "127.0.0.1:0"],
    &["scheduler", "--data", "D", "--listen", "127.0.0.1:0"],
    &["worker", "--state", "D", "--scheduler", "127.0.0.1:1"],
    &["run", "task.json", "--data", "D"],
    &["store", "check", "--data", "D"],
    &["store", "backup", "copy.db", "--data", "D"],
    &["token", "create", "--role", "admin", "--data", "D"],
];

/// Runs a command that should be refused; one that is not would run on.
fn run_briefly(dir: &Path, args: &[&str]) -> Ended {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "60"]).arg(baton_path());
    let ended = command.args(args).current_dir(dir).output();
    ended.expect("it ends").into()
}

#[test]
fn a_directory_that_others_may_change_is_refused() {
    let parent = tempfile::tempdir().expect("a directory");
    let dir = parent.path();
    let refuse = |reason: &str| {
        for command in COMMANDS {
            let refused = run_briefly(dir, command);
            assert!(refused.err.contains(reason), "{command:?}: {refused:?}");
        }
    };
    fs::write(dir.join("task.json"), r#"{"task": "a", "run": "true"}"#).expect("written");
    fs::create_dir(dir.join("D")).expect("made");
    fs::write(dir.join("D/baton.db"), "").expect("written");
    fs::set_permissions(dir.join("D"), Permissions::from_mode(0o1777)).expect("ours");
    refuse("run `chmod go-w ");
    fs::set_permissions(dir.join("D"), Permissions::from_mode(0o755)).expect("ours");
    // The table of what a link made root do, by way of the locks of both.
    let target = dir.join("target");
    for (name, command) in [("scheduler.lock", COMMANDS[1]), ("agent.lock", COMMANDS[2])] {
        fs::write(&target, "text").expect("written");
        fs::set_permissions(&target, Permissions::from_mode(0o644)).expect("ours");
        symlink(&target, dir.join("D").join(name)).expect("made");
        let refused = run_briefly(dir, command);
        assert!(refused.err.contains("a symbolic link"), "{refused:?}");
        assert_eq!(fs::read(&target).expect("there"), b"text");
        let mode = fs::metadata(&target).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        fs::remove_file(dir.join("D").join(name)).expect("removed");
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can give a directory away");
        return;
    }
    chown(dir.join("D"), Some(OTHER), None).expect("given");
    refuse("user 1 owns it");
    // A link of that user to a directory of ours.
    chown(dir.join("D"), Some(0), None).expect("ours again");
    fs::rename(dir.join("D"), dir.join("ours")).expect("renamed");
    symlink("ours", dir.join("D")).expect("made");
    std::os::unix::fs::lchown(dir.join("D"), Some(OTHER), None).expect("given");
    refuse("user 1 owns it");
}
