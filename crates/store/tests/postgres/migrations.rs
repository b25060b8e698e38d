//! Databases of earlier schema versions.

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, RunId, TokenId};
use baton_model::principal::Principal;
use baton_model::time::Wall;
use baton_store::facts::FactQuery;
use baton_store::{Retention, Store};
use baton_testing::postgres::{Server, run_sql};

use crate::leading::{Leader, halted, submitted};
use crate::open;

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
    run_sql(server.socket(), &name, first_version);
    let store = open(&url);
    let run = store.run(RunId(1)).expect("readable").expect("kept");
    assert_eq!(run.submitted_by, None, "that version recorded none");
    let mut leader = Leader::elect(&store);
    leader.commit(&store, vec![submitted(2)]);
    let found = |id| store.instance(InstanceId(id)).expect("readable").is_some();
    assert!(found(1) && found(2));
}

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
    let version_13 = "ALTER TABLE baton.history DROP COLUMN requested_by; \
                      ALTER TABLE baton.wide DROP COLUMN requested_by; \
                      UPDATE baton.schema_version SET version = 13;";
    run_sql(server.socket(), &name, &format!("{version_13}{VERSION_13}"));
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
