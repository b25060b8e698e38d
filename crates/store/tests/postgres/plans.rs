//! Statements that are planned before the first group needs them.

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, RunId};
use baton_model::library::{Created, IdempotencyKey};
use baton_model::time::Wall;
use baton_model::workflow::Plan;
use baton_testing::postgres::Server;

use crate::leading::{Leader, array, submitted};
use crate::open;

/// The statements that all sessions have prepared, in order.
fn prepared(server: &Server) -> Vec<String> {
    let log = server.log();
    let prepared = log.lines().filter_map(|line| {
        let (_, statement) = line.split_once(" ms  parse ")?;
        Some(statement.split_once(": ")?.1.to_owned())
    });
    prepared.collect()
}

#[test]
fn the_first_groups_of_a_leader_wait_for_no_plan() {
    let mut server = Server::start();
    server.set(&["log_min_duration_statement=0"]);
    let store = open(&server.database());
    let mut leader = Leader::elect(&store);
    let before = prepared(&server);
    assert!(
        before.iter().any(|it| it.starts_with("INSERT INTO spec ")),
        "{before:#?}"
    );

    leader.commit(&store, vec![array(1, 1_000_000)]);
    let one = leader.done(1_000_001);
    leader.commit(&store, one);
    let (first, last) = (InstanceId(1_000_002), InstanceId(1_000_002));
    let key = IdempotencyKey {
        key: (1, 2),
        request: 3,
    };
    let created = Created::Instances { first, last };
    let recorded = Fact::KeyRecorded { key, created };
    leader.commit(&store, vec![submitted(first.0), recorded]);
    let mut several = leader.done(1_000_003);
    several.extend(leader.done(1_000_004));
    leader.commit(&store, several);
    let registered = Fact::RunRegistered {
        run: RunId(1),
        at: Wall(5),
        plan: Arc::new(Plan::default()),
        open: true,
        origin: None,
    };
    leader.commit(&store, vec![registered]);

    let after = prepared(&server);
    assert_eq!(after[before.len()..], [""; 0]);
}
