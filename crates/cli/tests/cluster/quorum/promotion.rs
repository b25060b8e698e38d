//! Several schedulers whose database fails over to a standby that lacks the last commits.

use std::fs;

use baton_testing::command::{Ended, baton};
use baton_testing::postgres::Server;
use baton_testing::processes::{is_alive, send};
use baton_testing::{until, until_some};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::Quorum;
use crate::api::Api;
use crate::promotions::{caught_up, cut_off, url_of};

/// Prints its name, and leaves its pid, until there is the file `go`.
fn task(quorum: &Quorum, name: &str) -> Value {
    let script = format!(
        "echo of-{name}; echo $$ > $DIR/{name}.pid; until [ -e $DIR/go ]; do sleep 0.05; done"
    );
    json!({ "task": name, "run": script, "env": { "DIR": quorum.path("") } })
}

/// Prints its name, leaves a line, and ends.
fn short_task(quorum: &Quorum, name: &str) -> Value {
    let script = format!("echo of-{name}; echo $BATON_ATTEMPT >> $DIR/{name}.attempts");
    json!({ "task": name, "run": script, "env": { "DIR": quorum.path("") } })
}

/// The process of a task, if it is another one than this.
fn pid_but(quorum: &Quorum, name: &str, other: Option<u32>) -> u32 {
    until_some("it starts", || {
        let text = fs::read_to_string(quorum.path(&format!("{name}.pid"))).ok()?;
        let pid = text.trim().parse().ok()?;
        (Some(pid) != other).then_some(pid)
    })
}

impl Quorum {
    fn run(&self, args: &[&str]) -> Ended {
        let mut command = baton(self.dir.path(), args);
        let output = command.env("BATON_URL", &self.clients).output();
        Ended::from(output.expect("baton runs"))
    }
}

#[test]
fn of_several_schedulers_one_leads_a_promoted_standby_and_runs_nothing_twice_at_once() {
    let primary = Server::start();
    let standby = primary.standby();
    let url = url_of(&primary, &standby);
    let leases = ["--lease", "6s", "--leader-lease", "2s"];
    let mut quorum = Quorum::on(url, primary, None, 3, &leases);
    let held = quorum.submit(task(&quorum, "held"), 1).first;
    let ended = quorum.submit(short_task(&quorum, "ended"), 1).first;
    caught_up(&quorum.database, &standby);
    cut_off(&standby);
    quorum.start_worker("w1");
    assert_eq!(quorum.finish(ended).state.word(), "DONE");
    let lost = quorum.submit(task(&quorum, "lost"), 1).first;
    let first = pid_but(&quorum, "held", None);
    let forgotten = pid_but(&quorum, "lost", None);

    // The worker cannot tell in time what it runs.
    let worker = quorum.workers["w1"].id();
    send(worker, Signal::STOP);
    quorum.database.kill();
    standby.promote();
    quorum.start_worker("w2");
    until("one leads, and the others follow", || {
        let mut roles: Vec<_> = (0..3).filter_map(|it| quorum.role(it)).collect();
        roles.sort_unstable();
        roles == ["follower", "follower", "leader"]
    });
    let other = quorum.submit(task(&quorum, "other"), 1).first;
    assert_ne!(other, lost, "the id of another");
    let second = pid_but(&quorum, "held", Some(first));
    assert!(is_alive(second));
    assert!(!is_alive(first), "two attempts of one instance at once");
    assert!(!is_alive(forgotten), "the store does not know it");
    send(worker, Signal::CONT);
    pid_but(&quorum, "other", None);
    fs::write(quorum.path("go"), "").expect("written");
    for (id, name) in [(held, "held"), (other, "other"), (ended, "ended")] {
        assert_eq!(quorum.finish(id).state.word(), "DONE", "{name}");
        let log = quorum.run(&["logs", &id.to_string()]).good();
        assert_eq!(log, format!("of-{name}\n"), "the output of another");
    }

    let attempts = fs::read_to_string(quorum.path("ended.attempts")).expect("it ran");
    assert_eq!(
        attempts.lines().count(),
        2,
        "its result was lost: it ran again, once"
    );

    let events = quorum.run(&["events", "--json", "--after", "0", "--no-follow"]);
    let events = events.good();
    let opened: Vec<_> = events
        .lines()
        .filter(|it| it.contains("copy-opened"))
        .collect();
    assert_eq!(opened.len(), 1, "one leader has noticed: {opened:?}");
    assert!(opened[0].contains("other-history"), "{opened:?}");
    let logs = (0..3).map(|it| fs::read_to_string(quorum.path(&format!("s{it}.log"))));
    let told = logs.filter(|log| {
        let log = log.as_deref().unwrap_or_default();
        log.contains("a standby of its database was promoted")
    });
    assert_eq!(told.count(), 1, "the operator is told, once");
}
