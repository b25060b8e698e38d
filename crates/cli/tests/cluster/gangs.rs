//! Tasks of several nodes: host files, restarts of everything, and the loss of a member.

use baton_model::outcome::{AttemptEnd, KillCause, Outcome};
use baton_testing::cluster::{Cluster, lines};
use baton_testing::processes::send;
use baton_testing::until;
use rustix::process::Signal;
use serde_json::json;

use crate::api::Api;
use crate::effects::{SUCCESS, recorded};

const MEMBERS: [&str; 3] = ["one", "three", "two"];

/// The end of an attempt that has lost a member.
const LOST: AttemptEnd = AttemptEnd::Real(Outcome::Killed(KillCause::MemberLost));

fn start_member(cluster: &mut Cluster, name: &str) {
    let host = format!("host=node-{name}");
    let options = [
        "--label",
        "group=rack",
        "--label",
        &host,
        "--idle-exit",
        "1h",
    ];
    cluster.start_worker(name, &options);
    cluster.healthy(name);
}

#[test]
fn a_task_of_three_nodes_survives_restarts_and_is_lost_with_a_member() {
    let mut cluster = Cluster::new(&[]);
    for name in &MEMBERS[..2] {
        start_member(&mut cluster, name);
    }
    let (trace, go) = (cluster.path("trace"), cluster.path("go"));
    let script = format!(
        "{{ echo $BATON_NODES $BATON_NODE_LIST; cat $BATON_HOSTFILE $BATON_MACHINEFILE; }} \
         >> {}.$BATON_ATTEMPT; until test -e {}; do sleep 0.05; done",
        trace.display(),
        go.display()
    );
    let resources = json!({ "cpu": 1 });
    let task = json!({ "task": "solve", "run": script, "nodes": 3, "resources": resources });
    let id = cluster.submit(task, 1).first;
    let explained = cluster.run(&["explain", &id.to_string()]).good();
    let why = "not in a group of 3 workers, which it needs at the same time (the largest has 2)";
    assert!(explained.contains(why), "{explained}");
    start_member(&mut cluster, MEMBERS[2]);
    cluster.until_state(&id.to_string(), "RUNNING");
    let first = cluster.path("trace.1");
    let wanted = [
        "3 node-one,node-three,node-two",
        "node-one slots=1",
        "node-three slots=1",
        "node-two slots=1",
        "node-one:1",
        "node-three:1",
        "node-two:1",
    ];
    until("it has read its files", || {
        lines(&first).len() == wanted.len()
    });
    assert_eq!(lines(&first), wanted);
    let shown = cluster.run(&["show", &id.to_string()]).good();
    assert!(shown.contains("three and two are held for it"), "{shown}");
    assert!(shown.contains("nodes      3: one, three, two"), "{shown}");
    let held = cluster.worker("two").expect("it has a seat");
    assert_eq!(held.attempts, 1, "a held member is busy");

    // Its agent is back before its lease has run out, and the next leader knows the members.
    cluster.kill_worker("two");
    cluster.kill_scheduler();
    cluster.start_scheduler();
    start_member(&mut cluster, "two");
    for name in MEMBERS {
        cluster.healthy(name);
    }
    until("it is held again", || {
        cluster.worker("two").is_some_and(|it| it.attempts == 1)
    });
    assert_eq!(recorded(&cluster, id), []);

    send(cluster.worker_pid("two"), Signal::INT);
    until("the attempt is lost", || {
        recorded(&cluster, id) == [(1, LOST)]
    });
    std::fs::write(&go, "").expect("it is writable");
    cluster.until_state(&id.to_string(), "QUEUED");
    start_member(&mut cluster, "two");
    let over = cluster.finish(id);
    assert_eq!(over.state.word(), "DONE");
    assert_eq!((over.attempts, over.failures, over.losses), (2, 0, 1));
    assert_eq!(recorded(&cluster, id), [(1, LOST), (2, SUCCESS)]);
    let second = lines(&cluster.path("trace.2"));
    assert_eq!(second, wanted, "of the next attempt");
}
