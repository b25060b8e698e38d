//! A server that restarts, crashes, refuses or is a standby.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use baton_model::ids::InstanceId;
use baton_store::postgres::{PostgresStore, StoreUrl};
use baton_store::{FactLog as _, StoreError, Views as _};
use baton_testing::postgres::{Server, database, run_sql};
use baton_testing::until;

use crate::leading::{Leader, submitted};
use crate::open;

#[test]
fn a_server_that_restarts_fails_a_term_and_the_next_goes_on() {
    let mut server = Server::start();
    let store = open(&server.database());
    let mut leader = Leader::elect(&store);
    leader.commit(&store, vec![submitted(1)]);
    server.stop();
    let error = leader.try_commit(&store, vec![submitted(2)]);
    assert!(matches!(error, Err(StoreError::Failed(_))), "{error:?}");
    let error = store.instance(InstanceId(1)).expect_err("no server");
    assert!(error.to_string().contains("postgres://baton@"), "{error}");
    server.run();
    let error = leader.try_commit(&store, vec![submitted(3)]);
    assert_eq!(error, Err(StoreError::TermBroken), "the prefix is kept");
    let mut leader = Leader::elect(&store);
    leader.commit(&store, vec![submitted(4)]);
    let found = |id| store.instance(InstanceId(id)).expect("readable").is_some();
    assert!(found(1) && found(4));
    assert!(!found(2) && !found(3));
}

/// The server is killed under load, as by a power loss, again and again: what was acknowledged is
/// there, in order.
#[test]
fn what_was_acknowledged_survives_crashes_of_the_server() {
    let mut server = Server::start();
    let url = server.database();
    let acknowledged = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let store = open(&url);
            let mut id = 0;
            while !over.load(Ordering::Relaxed) {
                let Ok(row) = store.read_row() else { continue };
                let next = row.epoch.successor(7).expect("not the last");
                if store.take(row.epoch, next).is_err() {
                    continue;
                }
                let mut leader = Leader::elect(&store);
                loop {
                    // An id whose outcome is unknown is not used again.
                    id += 1;
                    if leader.try_commit(&store, vec![submitted(id)]).is_err() {
                        break;
                    }
                    acknowledged.store(id, Ordering::Relaxed);
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            }
        });
        for _ in 0..3 {
            let before = acknowledged.load(Ordering::Relaxed);
            until("work is acknowledged", || {
                acknowledged.load(Ordering::Relaxed) > before + 20
            });
            server.kill();
            server.run();
        }
        over.store(true, Ordering::Relaxed);
    });
    let store = open(&url);
    let last = acknowledged.load(Ordering::Relaxed);
    let missing = (1..=last).filter(|id| {
        let found = store.instance(InstanceId(*id)).expect("readable");
        found.is_none()
    });
    // One of each crash may have failed; nothing else is missing.
    assert!(missing.count() <= 3);
    let row = |id| store.instance(InstanceId(id)).expect("readable");
    assert!(row(last).is_some());
}

#[test]
fn a_standby_refuses_writes_with_the_reason() {
    let server = Server::start();
    let url = server.database();
    let store = open(&url);
    let mut leader = Leader::elect(&store);
    leader.commit(&store, vec![submitted(1)]);
    let name = url.split(['/', '?']).nth(3).expect("a database");
    let read_only = format!("ALTER DATABASE {name} SET default_transaction_read_only = on");
    run_sql(server.socket(), "postgres", &read_only);
    // Of the connections that are opened from now on.
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '";
    run_sql(server.socket(), "postgres", &format!("{kill}{name}'"));
    let lost = leader.try_commit(&store, vec![submitted(2)]);
    assert!(matches!(lost, Err(StoreError::Failed(_))), "{lost:?}");
    let row = store.read_row().expect("a standby can be read");
    let refused = store.take(row.epoch, row.epoch.successor(7).expect("not the last"));
    assert!(
        matches!(refused, Err(StoreError::ReadOnly(_))),
        "{refused:?}"
    );
}

#[test]
fn a_server_that_cannot_be_used_is_named_with_the_reason() {
    let url = database();
    let refused = |url: &str| {
        let result = PostgresStore::connect(&StoreUrl::from(url));
        result.err().expect("refused").to_string()
    };
    let missing = refused(&url.replacen("test_", "no_", 1));
    assert!(missing.contains("does not exist"), "{missing}");
    let nowhere = refused("postgres://me:secret@127.0.0.1:1/baton");
    assert!(
        nowhere.contains("refused") && !nowhere.contains("secret"),
        "{nowhere}"
    );
    let socket = refused("postgres:///baton?host=/nonexistent&user=me");
    assert!(socket.contains("No such file"), "{socket}");
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let server = Server::start();
    let url = server.database();
    let name = url.split(['/', '?']).nth(3).expect("a database").to_owned();
    let store = open(&url);
    let newer = "UPDATE baton.schema_version SET version = 9999";
    run_sql(server.socket(), &name, newer);
    for result in [
        store.read_row().map(|_| ()),
        store
            .take(baton_model::ids::Epoch(0), baton_model::ids::Epoch(1))
            .map(|_| ()),
        PostgresStore::connect(&StoreUrl::from(&*url)).map(|_| ()),
    ] {
        assert!(
            matches!(result, Err(StoreError::NewerSchema { found: 9999, .. })),
            "{result:?}"
        );
    }
}
