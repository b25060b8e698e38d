//! `baton worker deploy`, by a real `sshd`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use baton_testing::cluster::Cluster;
use baton_testing::command::{self, Ended, baton_path};
use baton_testing::processes::{kill_all, processes};
use baton_testing::sshd::Sshd;
use baton_testing::until;
use serde_json::{Value, json};

/// A scheduler that requires tokens, two hosts, and a file that names them.
struct Lab {
    // Dropped first: its workers end before their scheduler.
    workers: Deployed,
    cluster: Cluster,
    sshd: Sshd,
}

/// The directory of what was deployed, which ends with the test.
struct Deployed(PathBuf);

impl Drop for Deployed {
    fn drop(&mut self) {
        let dir = self.0.display().to_string();
        kill_all(|text| text.contains(&dir));
    }
}

impl Lab {
    fn new() -> Self {
        let mut cluster = Cluster::idle(&["--require-tokens"]);
        for role in ["worker", "admin"] {
            let create = ["token", "create", "--role", role, "--data", "data"];
            let token = command::run(&cluster.path("."), &create).good();
            let file = cluster.path(&format!("{role}.token"));
            fs::write(&file, token).expect("written");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("ours");
        }
        cluster.start_scheduler();
        let sshd = Sshd::start(&cluster.path("ssh"));
        let [one, two] = Sshd::HOSTS;
        let hosts = format!("# both\n{one} --name one\n{two} --name two --label second=yes\n");
        fs::write(cluster.path("hosts"), hosts).expect("written");
        // Small, so that it comes fast.
        let binary = cluster.path("baton.sh");
        let script = format!("#!/bin/sh\nexec {} \"$@\"\n", baton_path().display());
        fs::write(&binary, script).expect("written");
        let workers = Deployed(cluster.path("deployed"));
        Self {
            workers,
            cluster,
            sshd,
        }
    }

    fn deploy(&self, options: &[&str]) -> Ended {
        let dir = self.workers.0.display().to_string();
        let args = self.sshd.client_args();
        let args = args.iter().flat_map(|arg| ["--ssh-arg", arg]);
        let deploy = ["worker", "deploy", "hosts", "--dir", &dir, "--json"];
        let all: Vec<&str> = deploy
            .into_iter()
            .chain(args)
            .chain(options.iter().copied())
            .collect();
        let mut command = self.cluster.command(&all);
        command.env("BATON_TOKEN_FILE", self.cluster.path("worker.token"));
        Ended::from(command.output().expect("it ends"))
    }

    /// Starts the workers, and returns the state of each host.
    fn start(&self, options: &[&str]) -> Vec<String> {
        let at = self.cluster.workers_at();
        let start = ["--scheduler", &at, "--binary", "baton.sh"];
        states(&self.deploy(&[&start[..], options].concat()).good())
    }

    fn as_admin(&self, args: &[&str]) -> String {
        let mut command = self.cluster.command(args);
        command.env("BATON_TOKEN_FILE", self.cluster.path("admin.token"));
        Ended::from(command.output().expect("it ends")).good()
    }

    fn state_of(&self, id: &str) -> Value {
        let shown = self.as_admin(&["show", id, "--json"]);
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        shown["instance"].clone()
    }
}

fn states(out: &str) -> Vec<String> {
    let rows: Vec<Value> = serde_json::from_str(out).expect("JSON");
    let state = |row: &Value| row["state"].as_str().expect("a word").to_owned();
    rows.iter().map(state).collect()
}

#[test]
fn workers_are_started_on_hosts_kept_changed_and_stopped() {
    let lab = Lab::new();
    assert_eq!(
        states(&lab.deploy(&["--status"]).good()),
        ["absent", "absent"]
    );
    let wrong = lab.deploy(&["--scheduler", "s:1", "--", "--slot", "3"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(
        wrong.err.contains("127.0.0.1") && wrong.err.contains("--slot"),
        "{wrong:?}"
    );

    assert_eq!(lab.start(&[]), ["started", "started"]);
    assert_eq!(lab.start(&[]), ["running", "running"]);
    let held = lab.cluster.path("held");
    let run = format!(
        "touch {0}.begun; until [ -e {0} ]; do sleep 0.05; done",
        held.display()
    );
    let task = json!({ "task": "held", "run": run, "constraints": { "second": "yes" } });
    fs::write(lab.cluster.path("task.json"), task.to_string()).expect("written");
    let submit = ["submit", "task.json", "--json"];
    let submitted: Value = serde_json::from_str(&lab.as_admin(&submit)).expect("JSON");
    let id = submitted["first"].as_str().expect("an id").to_owned();
    until("it runs on the second host", || {
        lab.cluster.path("held.begun").exists()
    });

    // The arguments of all change; what runs goes on under the next worker.
    assert_eq!(
        lab.start(&["--", "--label", "rack=7"]),
        ["started", "started"]
    );
    until("the next workers are here", || {
        let workers = lab.as_admin(&["workers", "--json"]);
        let workers: Vec<Value> = serde_json::from_str(&workers).expect("JSON");
        let is_here = |it: &Value| it["labels"]["rack"] == "7" && it["state"] == "HEALTHY";
        workers.iter().filter(|it| is_here(it)).count() == 2
    });
    fs::write(&held, "").expect("written");
    until("it has ended", || lab.state_of(&id)["state"] == "DONE");
    let over = lab.state_of(&id);
    assert_eq!(
        (&over["attempts"], &over["worker"]),
        (&json!(1), &json!("two")),
        "{over}"
    );

    // One host has brought another binary for both, and the other's worker still runs the old one.
    let hosts = fs::read_to_string(lab.cluster.path("hosts")).expect("ours");
    let script = format!(
        "#!/bin/sh\n# Next.\nexec {} \"$@\"\n",
        baton_path().display()
    );
    fs::write(lab.cluster.path("baton.sh"), script).expect("written");
    let first = "127.0.0.1 --name one\n";
    fs::write(lab.cluster.path("hosts"), first).expect("written");
    let label = ["--", "--label", "rack=7"];
    assert_eq!(lab.start(&label), ["started"]);
    fs::write(lab.cluster.path("hosts"), hosts).expect("written");
    assert_eq!(lab.start(&label), ["running", "started"]);

    // The token came with the connection, and is nowhere else.
    let secret = fs::read_to_string(lab.cluster.path("worker.token")).expect("ours");
    let brought = lab.workers.0.join("token");
    assert_eq!(
        fs::read_to_string(&brought).expect("brought").trim(),
        secret.trim()
    );
    let mode = fs::metadata(&brought).expect("there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let shows = |text: &str| text.contains(secret.trim());
    assert!(processes(shows).is_empty());

    assert_eq!(
        states(&lab.deploy(&["--stop"]).good()),
        ["stopping", "stopping"]
    );
    let dir = lab.workers.0.display().to_string();
    let is_killer = |text: &str| text.contains(&dir) && text.contains("sleep \"$3\"");
    let killers = processes(is_killer);
    assert!(killers.is_empty(), "they may drain for long: {killers:?}");
    until("both have ended", || {
        states(&lab.deploy(&["--status"]).good()) == ["ended", "ended"]
    });
}

#[test]
fn a_host_that_fails_is_named_and_the_others_are_served() {
    let lab = Lab::new();
    let hosts = "127.0.0.1 --name one\nnowhere.invalid\n";
    fs::write(lab.cluster.path("hosts"), hosts).expect("written");
    let at = lab.cluster.workers_at();
    let ended = lab.deploy(&["--scheduler", &at, "--binary", "baton.sh"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(states(&ended.out), ["started", "error"]);
    assert!(ended.err.contains("1 of 2 hosts"), "{ended:?}");
    // One that cannot run there is not left in place of one that can.
    fs::write(
        lab.cluster.path("bad"),
        "#!/bin/sh\necho this is no program >&2; exit 1\n",
    )
    .expect("written");
    let ended = lab.deploy(&["--scheduler", &at, "--binary", "bad"]);
    assert_eq!(states(&ended.out), ["error", "error"]);
    assert!(ended.out.contains("this is no program"), "{ended:?}");
    assert_eq!(states(&lab.deploy(&["--status"]).out), ["running", "error"]);
}
