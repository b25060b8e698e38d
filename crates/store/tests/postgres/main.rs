//! Tests of the PostgreSQL store alone: what schedulers that share it learn from each other, and how
//! the server can fail.

#[expect(dead_code, reason = "the conformance suite uses all of it")]
#[path = "../conformance/leading.rs"]
mod leading;

mod faults;
mod migrations;
mod plans;
mod pooler;
mod server;
mod sharing;

use baton_store::postgres::{PostgresStore, StoreUrl};

/// Opens the store of a database.
fn open(url: &str) -> PostgresStore {
    PostgresStore::connect(&StoreUrl::from(url)).expect("the store opens")
}
