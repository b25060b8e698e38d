//! `baton events` and `baton usage`, against real processes that are killed meanwhile.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use baton_model::json;
use baton_testing::cluster::Cluster;
use baton_testing::processes::send;
use baton_testing::{PATIENCE, until_some};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::api::Api;

/// A `baton events --json` that runs.
struct Follower {
    child: Child,
    lines: Receiver<String>,
}

impl Follower {
    fn start(cluster: &Cluster, args: &[&str]) -> Self {
        let mut command = cluster.command(&["events", "--json"]);
        let mut child = command.args(args).spawn().expect("baton starts");
        let lines = lines_of(child.stdout.take().expect("piped"));
        Self { child, lines }
    }

    fn next(&self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("an event");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Ends it with a signal; returns its stderr.
    fn end(mut self, with: Signal) -> String {
        send(self.child.id(), with);
        let status = self.child.wait().expect("ours");
        assert!(status.success(), "{status}");
        let mut printed = String::new();
        let mut errors = self.child.stderr.take().expect("piped");
        errors.read_to_string(&mut printed).expect("text");
        printed
    }
}

fn lines_of(out: ChildStdout) -> Receiver<String> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    told
}

#[test]
fn every_fact_is_told_once_and_in_order_while_the_scheduler_is_killed() {
    const ROUNDS: u64 = 4;
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("w", &["--resources", "cpu=4"]);
    cluster.healthy("w");
    let follower = Follower::start(&cluster, &["--after", "0"]);
    let mut seen = vec![follower.next()];
    for round in 0..ROUNDS {
        let file = json!({ "task": format!("round-{round}"), "run": "true" });
        cluster.submit(file, 25);
        // In the middle of running instances, and while a client follows.
        let is_new = |event: &Value| event["text"] == "accepted as one of 25";
        while seen.iter().filter(|event| is_new(event)).count() as u64 <= round {
            seen.push(follower.next());
        }
        seen.extend((0..10).map(|_| follower.next()));
        cluster.kill_scheduler();
        cluster.start_scheduler();
    }
    let last = cluster.sh("last", "true");
    cluster.finish(last);
    until_some("all have ended", || {
        let counts = cluster.ask(|client| async move {
            let span = baton_client::Span {
                first: baton_model::ids::InstanceId(1),
                last,
            };
            client.range(span).await
        });
        counts
            .counts
            .keys()
            .all(|it| it.is_terminal())
            .then_some(())
    });
    let kept = cluster.run(&["events", "--json", "--after", "0", "--no-follow"]);
    let kept: Vec<Value> = kept
        .good()
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let numbers: Vec<u64> = kept.iter().filter_map(|it| it["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=kept.len() as u64).collect::<Vec<_>>());
    while seen.len() < kept.len() {
        seen.push(follower.next());
    }
    assert_eq!(seen, kept);
    let printed = follower.end(Signal::TERM);
    let again = printed.matches("reconnected; resuming after event").count();
    assert_eq!(again as u64, ROUNDS, "{printed}");
}

#[test]
fn it_exits_cleanly_on_an_interrupt_and_without_a_reader() {
    let cluster = Cluster::new(&[]);
    let follower = Follower::start(&cluster, &["--after", "0"]);
    cluster.sh("a", "true");
    follower.next();
    assert_eq!(follower.end(Signal::INT), "");
    let mut child = cluster.command(&["events"]).spawn().expect("baton starts");
    drop(child.stdout.take());
    let status = until_some("it ends", || {
        // Whatever happens next cannot be written.
        cluster.sh("b", "true");
        thread::sleep(Duration::from_millis(20));
        child.try_wait().expect("ours")
    });
    assert!(status.success(), "{status}");
}

#[test]
fn filters_and_what_is_wrong_are_told() {
    let cluster = Cluster::new(&[]);
    for owner in ["red", "blue"] {
        cluster.submit(json!({ "task": "t", "owner": owner, "run": "true" }), 1);
    }
    let told = |args: &[&str]| {
        let mut command = cluster.command(&["events", "--no-follow", "--after", "0"]);
        let ended = command.args(args).output().expect("it ends");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (ended.status.code(), text(ended.stdout), text(ended.stderr))
    };
    let (code, out, _) = told(&["--owner", "blue"]);
    assert_eq!((code, out.lines().count()), (Some(0), 1), "{out}");
    assert!(out.ends_with("  i2  accepted\n"), "{out}");
    let (code, out, _) = told(&["--instance", "i1"]);
    assert_eq!((code, out.lines().count()), (Some(0), 1), "{out}");
    let (code, out, err) = told(&["--instance", "i99"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("there is no instance i99"), "{err}");
    let (code, ..) = told(&["--instance", "x"]);
    assert_eq!(code, Some(2));
    let since = |time: &str| cluster.run(&["events", "--no-follow", "--since", time]);
    let shown = since("10m").good();
    assert!(shown.ends_with("  i2  accepted\n"), "{shown}");
    assert_eq!(since("2999-01-01").good(), "");
    let wrong = since("soon");
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("--since: "), "{}", wrong.err);
}

#[test]
fn what_was_used_is_shown_by_owner_and_survives_a_kill_of_the_scheduler() {
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("w", &["--resources", "cpu=4"]);
    cluster.healthy("w");
    for (owner, run, count) in [("red", "true", 5), ("blue", "exit 3", 2)] {
        let file = json!({ "task": "t", "owner": owner, "run": run, "resources": { "cpu": 1 } });
        let span = cluster.submit(file, count);
        until_some("all have ended", || {
            let ended = cluster
                .states(span)
                .into_keys()
                .all(|it| it == "DONE" || it == "FAILED");
            ended.then_some(())
        });
    }
    let used = |cluster: &Cluster| -> Value {
        let ended = cluster
            .command(&["usage", "--by", "owner", "--json"])
            .output();
        let ended = ended.expect("it ends");
        assert!(ended.status.success(), "{ended:?}");
        json::from_slice(&ended.stdout).expect("JSON")
    };
    let before = used(&cluster);
    let key = |row: usize, key: &str| before[row][key].clone();
    assert_eq!(
        (key(0, "owner"), key(0, "failed")),
        (json!("blue"), json!(2))
    );
    assert_eq!((key(1, "owner"), key(1, "done")), (json!("red"), json!(5)));
    assert_eq!(
        (key(0, "attempts"), key(1, "attempts")),
        (json!(2), json!(5))
    );
    assert!(key(1, "cpuClaimedSeconds").as_f64().expect("a number") > 0.0);
    cluster.kill_scheduler();
    cluster.start_scheduler();
    assert_eq!(used(&cluster), before);
    let table = cluster.command(&["usage", "--by", "owner"]).output();
    let table = String::from_utf8(table.expect("it ends").stdout).expect("text");
    let first: Vec<&str> = table
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(first, ["OWNER", "blue", "red", "total"]);
}
