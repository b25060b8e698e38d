//! Databases of earlier schema versions.

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::{BackfillId, InstanceId, Revision, RunId, TaskNo, TokenId};
use baton_model::library::{Cause, Execution, IdempotencyKey, TriggerSource};
use baton_model::principal::Principal;
use baton_model::schedule::{SkipReason, TickVerdict};
use baton_model::time::{Millis, Wall};
use baton_store::facts::FactQuery;
use baton_store::{FactLog as _, Retention, Views as _};
use baton_testing::postgres::{Server, run_sql};

use crate::leading::{Leader, halted, submitted};
use crate::open;

/// Removes what versions after 14 have created.
const UNDO_LATER_VERSIONS: &str = "DROP TABLE baton.fleet, baton.fleet_job, \
     baton.follower, baton.notice_state, baton.notice, baton.delivery, baton.alarm, \
     baton.secret, baton.task_usage, baton.array_limit, baton.share; \
     ALTER TABLE baton.cluster_limit DROP COLUMN rate; \
     ALTER TABLE baton.token DROP COLUMN fleet; ALTER TABLE baton.instance DROP COLUMN lease_gang;";

#[test]
fn a_database_of_the_first_version_is_migrated_with_its_rows() {
    let server = Server::start();
    let url = server.database();
    let name = url.split(['/', '?']).nth(3).expect("a database").to_owned();
    let store = open(&url);
    let registered = Fact::RunRegistered {
        run: RunId(1),
        at: Wall(5),
        plan: Arc::default(),
        open: true,
        origin: None,
    };
    Leader::elect(&store).commit(&store, vec![submitted(1), registered]);
    drop(store);
    let first_version = "ALTER TABLE baton.history DROP COLUMN requested_by; \
                         ALTER TABLE baton.wide DROP COLUMN requested_by; \
                         ALTER TABLE baton.run DROP COLUMN submitted_by; \
                         DROP TABLE baton.name_owner; \
                         UPDATE baton.schema_version SET version = 11";
    let sql = format!("{UNDO_LATER_VERSIONS}{first_version}");
    run_sql(server.socket(), &name, &sql);
    let store = open(&url);
    let run = store.run(RunId(1)).expect("readable").expect("kept");
    assert_eq!(run.submitted_by, None, "that version recorded none");
    let mut leader = Leader::elect(&store);
    leader.commit(&store, vec![submitted(2)]);
    let found = |id| store.instance(InstanceId(id)).expect("readable").is_some();
    assert!(found(1) && found(2));
}

/// Makes an empty database one of schema version 13.
const TO_VERSION_13: &str = "ALTER TABLE baton.history DROP COLUMN requested_by; \
     ALTER TABLE baton.wide DROP COLUMN requested_by; \
     UPDATE baton.schema_version SET version = 13;";

/// Facts as schema version 13 wrote them.
const VERSION_13: &str = r#"
    INSERT INTO baton.wide (seq, epoch, at_ms, body) VALUES
        (101, 1, 5, '{"limit-set":{"name":"a\u0000,\"requested_by\":1}}","total":3,"requested_by":{"token":{"id":7,"name":"ü \"q\""}}}}'),
        (102, 1, 6, '{"limit-set":{"name":"b","total":null}}'),
        (103, 1, 7, '{"run-registered":{"run":9,"at":7,"plan":{"name":"","owner":"","params":{"requested_by":"x"},"max_concurrent":null,"fail_fast":false,"timeout":null,"pools":[],"tasks":[]},"open":true,"submitted_by":"trigger-secret"}}');
    UPDATE baton.totals SET last_seq = 103, history_bytes = history_bytes
        + (SELECT sum(octet_length(body)) FROM baton.wide WHERE seq > 100);
"#;

#[test]
fn the_clients_in_the_facts_of_version_13_are_kept() {
    let server = Server::start();
    let url = server.database();
    let name = url.split(['/', '?']).nth(3).expect("a database").to_owned();
    let store = open(&url);
    Leader::elect(&store).commit(&store, vec![submitted(1)]);
    drop(store);
    let sql = format!("{UNDO_LATER_VERSIONS}{TO_VERSION_13}{VERSION_13}");
    run_sql(server.socket(), &name, &sql);
    let store = open(&url);
    let facts = store.facts(&FactQuery::default()).expect("readable").items;
    let found: Vec<_> = facts
        .iter()
        .map(|it| (it.seq.0, it.requested_by.as_deref()))
        .collect();
    let token = Principal::Token {
        id: TokenId(7),
        name: "ü \"q\"".to_owned(),
    };
    let secret = Principal::TriggerSecret;
    let expected = [
        (1, None),
        (101, Some(&token)),
        (102, None),
        (103, Some(&secret)),
    ];
    assert_eq!(found, expected);
    let Fact::LimitSet { name, .. } = &facts[1].fact else {
        panic!("{facts:?}");
    };
    assert_eq!(name, "a\0,\"requested_by\":1}}");
    let Fact::RunRegistered { plan, .. } = &facts[3].fact else {
        panic!("{facts:?}");
    };
    assert_eq!(plan.params["requested_by"], "x");
    let mut leader = Leader::elect(&store);
    leader.commit(&store, vec![halted(1, 1)]);
    let none = Retention {
        history_age: None,
        history_bytes: Some(0),
        terminal_instances_max: Some(0),
    };
    let bytes = || store.counts().expect("readable").history_bytes;
    while bytes() > 0 {
        let pruned = store.prune(leader.epoch, Wall(u64::MAX), &none, usize::MAX);
        assert!(pruned.expect("prunable").facts > 0, "{} left", bytes());
    }
}

/// Launches as schema version 13 recorded them.
const LAUNCHES_OF_VERSION_13: &str = r#"
    INSERT INTO baton.spec (id, uses, name, owner, body) VALUES
        (99, 1, '', '', '{"origin":{"task":1,"revision":4,"due":null}}');
    INSERT INTO baton.history (instance, seq, epoch, at_ms, spec, body) VALUES
        (7, 101, 1, 5, 99, '{"instances-submitted":{"first":7,"last":7}}'),
        (7, 102, 1, 5, NULL, '{"instance-triggered":{"instance":7,"task":1,"by":"remote","key":{"key":[1,18446744073709551615],"request":2}}}');
    INSERT INTO baton.wide (seq, epoch, at_ms, task, body) VALUES
        (103, 1, 5, NULL, '{"run-registered":{"run":9,"at":7,"plan":{"name":"","owner":"","params":{},"max_concurrent":null,"fail_fast":false,"timeout":null,"pools":[],"tasks":[]},"open":true,"origin":{"task":1,"revision":5,"due":null,"after":null}}}'),
        (104, 1, 5, NULL, '{"run-triggered":{"run":9,"task":1,"by":"hand","key":null}}'),
        (105, 1, 5, 1, '{"tick-recorded":{"task":1,"revision":2,"first":3,"last":8,"count":4,"verdict":{"skip":{"max-instances":{"limit":2}}},"instance":null,"after":null}}'),
        (106, 1, 5, 1, '{"tick-recorded":{"task":1,"revision":2,"first":9,"last":9,"count":1,"verdict":{"late":{"by":6}},"instance":null,"run":4,"after":null}}'),
        (107, 1, 5, 1, '{"tick-recorded":{"task":1,"revision":2,"first":9,"last":9,"count":1,"verdict":"launch","instance":5,"after":6}}'),
        (108, 1, 5, 1, '{"tick-recorded":{"task":1,"revision":2,"first":9,"last":9,"count":1,"verdict":"launch","instance":5,"after":null,"after_run":7}}'),
        (109, 1, 5, 1, '{"backfill-launched":{"backfill":3,"task":1,"revision":2,"nominal":4,"instance":8}}');
    UPDATE baton.totals SET last_seq = 109;
"#;

#[test]
fn the_launches_of_version_13_are_kept() {
    let server = Server::start();
    let url = server.database();
    let name = url.split(['/', '?']).nth(3).expect("a database").to_owned();
    drop(open(&url));
    let sql = format!("{UNDO_LATER_VERSIONS}{TO_VERSION_13}{LAUNCHES_OF_VERSION_13}");
    run_sql(server.socket(), &name, &sql);
    let store = open(&url);
    let facts = store.facts(&FactQuery::default()).expect("readable").items;
    let facts = facts.into_iter().map(|it| it.fact);
    let launched = facts.filter(|it| matches!(it, Fact::Launched { .. }));
    let launch = |revision, cause, verdict, execution| Fact::Launched {
        entry: TaskNo(1),
        revision: Revision(revision),
        cause,
        verdict,
        execution,
    };
    let (instance, run) = (
        |id| Execution::Instance(InstanceId(id)),
        |id| Execution::Run(RunId(id)),
    );
    let request = |source, key| Cause::Request { source, key };
    let key = IdempotencyKey {
        key: (1, u64::MAX),
        request: 2,
    };
    let due = |first, last, count| Cause::Due {
        first: Wall(first),
        last: Wall(last),
        count,
    };
    let upstream = |execution| Cause::Upstream {
        execution,
        at: Wall(9),
    };
    let on_time = TickVerdict::Launch;
    let expected = [
        launch(
            4,
            request(TriggerSource::Remote, Some(key)),
            on_time,
            Some(instance(7)),
        ),
        launch(
            5,
            request(TriggerSource::Manual, None),
            on_time,
            Some(run(9)),
        ),
        launch(
            2,
            due(3, 8, 4),
            TickVerdict::Skip(SkipReason::MaxInstances { limit: 2 }),
            None,
        ),
        launch(
            2,
            due(9, 9, 1),
            TickVerdict::Late { by: Millis(6) },
            Some(run(4)),
        ),
        launch(2, upstream(instance(6)), on_time, Some(instance(5))),
        launch(2, upstream(run(7)), on_time, Some(instance(5))),
        launch(
            2,
            Cause::Backfill {
                backfill: BackfillId(3),
                nominal: Wall(4),
            },
            on_time,
            Some(instance(8)),
        ),
    ];
    assert_eq!(launched.collect::<Vec<_>>(), expected);
}
