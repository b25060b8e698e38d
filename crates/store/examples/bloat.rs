//! Size of a PostgreSQL store while instances pass through it: `cargo run --release --package baton-store
//! --example bloat -- URL [INSTANCES] [KEPT]`.
//!
//! The URL names an empty database. Arrays are submitted, run and pruned, so that KEPT ended instances
//! remain; after each tenth it prints the bytes of the largest tables and their indexes. The sizes must
//! stop growing: autovacuum makes the space of removed rows usable again.

mod common;

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use baton_core::step::{Outbox, Step};
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, InstanceId};
use baton_model::spec::{InstanceSpec, Work};
use baton_model::time::Wall;
use baton_store::postgres::{PostgresStore, StoreUrl};
use baton_store::{FactLog as _, Retention, TakeOutcome};

use common::{done, granted};

/// Instances of one submission.
const ARRAY: u64 = 1_000;

/// Attempts that start in one group, while as many end.
const GROUP: u64 = 250;

/// Instances after which history is pruned.
const PRUNE_EVERY: u64 = 5_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().ok_or("usage: bloat URL [INSTANCES] [KEPT]")?;
    let mut number = |default: u64| args.next().map_or(Ok(default), |text| text.parse());
    let (instances, kept) = (number(2_000_000)?, number(100_000)?);
    let store = PostgresStore::connect(&StoreUrl::from(&*url))?;
    let row = store.read_row()?;
    let TakeOutcome::Won(epoch, _) = store.take(row.epoch, Epoch(row.epoch.0 + 1))? else {
        return Err("overtaken".into());
    };
    let mut outbox: Outbox<()> = Outbox::new(epoch);
    let retention = Retention {
        terminal_instances_max: Some(kept),
        ..Retention::default()
    };
    let step = (instances / 10).max(ARRAY).next_multiple_of(PRUNE_EVERY);
    let began = Instant::now();
    println!("| instances | seconds | table MiB, index MiB |\n|---|---|---|");
    for first in (1..=instances).step_by(ARRAY as usize) {
        for facts in pass(epoch, first) {
            if let Some(batch) = outbox.accept(Step::keeping(facts)) {
                outbox.release(store.commit(batch, Wall(first))?);
            }
        }
        let passed = first + ARRAY - 1;
        if passed.is_multiple_of(PRUNE_EVERY) {
            store.prune(epoch, Wall(passed), &retention, usize::MAX)?;
        }
        if passed.is_multiple_of(step) {
            let seconds = began.elapsed().as_secs();
            println!("| {passed} | {seconds} | {} |", sizes(&store)?);
        }
    }
    Ok(())
}

/// The largest tables and the whole.
fn sizes(store: &PostgresStore) -> Result<String, Box<dyn Error>> {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mut sizes = store.table_sizes()?;
    let (table, index) = sizes
        .iter()
        .fold((0, 0), |sum, it| (sum.0 + it.table, sum.1 + it.indexes));
    sizes.retain(|it| it.table + it.indexes > 1 << 20);
    let mut texts = vec![format!("all: {:.1}, {:.1}", mib(table), mib(index))];
    let large = sizes.iter();
    texts.extend(
        large.map(|it| format!("{}: {:.1}, {:.1}", it.name, mib(it.table), mib(it.indexes))),
    );
    Ok(texts.join("; "))
}

/// The groups of facts of one array: submitted, then each attempt granted, confirmed and ended.
fn pass(epoch: Epoch, first: u64) -> Vec<Vec<Fact>> {
    let command = vec!["simulate".to_owned(), format!("--shard={first}")];
    let mut groups = vec![vec![Fact::InstancesSubmitted {
        first: InstanceId(first),
        last: InstanceId(first + ARRAY - 1),
        spec: Arc::new(InstanceSpec {
            work: Work::Command(command),
            ..InstanceSpec::default()
        }),
    }]];
    for from in (first..first + ARRAY).step_by(GROUP as usize) {
        let ids = from..from + GROUP;
        groups.push(ids.clone().map(|id| granted(epoch, id)).collect());
        groups.push(ids.flat_map(|id| done(epoch, id)).collect());
    }
    groups
}
