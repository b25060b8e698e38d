//! The tables of a store, as they are copied and checked.

use crate::sql::db::Kind;

/// A table whose rows are the same in every backend.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// Its columns; their order is that of the copied rows.
    pub(crate) columns: &'static [(&'static str, Kind)],
    /// The columns that give its rows an order.
    pub(crate) key: &'static str,
}

macro_rules! tables {
    ($($name:literal by $key:literal: $($column:literal $kind:ident),+;)+) => {
        &[$(Table {
            name: $name,
            columns: &[$(($column, Kind::$kind)),+],
            key: $key,
        }),+]
    };
}

/// Every table, except for what belongs to one backend alone.
pub(crate) const TABLES: &[Table] = tables! {
    "leader" by "one": "one" Integer, "epoch" Integer, "renewals" Integer;
    "totals" by "one": "one" Integer, "last_seq" Integer, "history_bytes" Integer,
        "lease_time_ms" Integer, "pruned_seq" Integer, "last_run" Integer;
    "identity" by "store": "store" Integer, "generation" Integer, "settled" Boolean;
    "term" by "epoch": "epoch" Integer;
    "tally" by "state": "state" Text, "instances" Integer;
    "known" by "first": "first" Integer, "last" Integer;
    "spec" by "id": "id" Integer, "uses" Integer, "name" Text, "owner" Text, "body" Text;
    "span" by "last": "last" Integer, "first" Integer, "state" Text, "rank" Integer,
        "spec" Integer, "submitted_at_ms" Integer, "submitted_seq" Integer,
        "changed_at_ms" Integer, "changed_seq" Integer;
    "instance" by "id": "id" Integer, "state" Text, "rank" Integer, "spec" Integer,
        "submitted_at_ms" Integer, "submitted_seq" Integer, "changed_at_ms" Integer,
        "changed_seq" Integer, "attempts" Integer, "failures" Integer, "losses" Integer,
        "stop_requested" Boolean, "lease_attempt" Integer, "lease_epoch" Integer,
        "lease_confirmed" Boolean, "worker" Text, "lineage" Integer, "life" Integer,
        "host" Integer, "boot" Integer, "again" Text, "last_end" Text, "leased_at_ms" Integer,
        "lease_kill" Integer, "lease_gang" Text;
    "condemned" by "lineage": "lineage" Integer, "life" Integer;
    "drained" by "worker": "worker" Text;
    "history" by "instance, seq": "instance" Integer, "seq" Integer, "epoch" Integer,
        "at_ms" Integer, "spec" Integer, "body" Text, "requested_by" Text;
    "wide" by "seq": "seq" Integer, "first" Integer, "last" Integer, "epoch" Integer,
        "at_ms" Integer, "spec" Integer, "body" Text, "task" Integer, "requested_by" Text;
    "token" by "id": "id" Integer, "name" Text, "role" Text, "hash" Bytes,
        "created_at_ms" Integer, "expires_at_ms" Integer, "revoked" Boolean, "owner" Text,
        "fleet" Text;
    "task" by "number": "number" Integer, "owner" Text, "name" Text, "revision" Integer,
        "defined" Boolean, "accounted_ms" Integer, "paused_ms" Integer, "pause_reason" Text,
        "launches" Integer, "launches_since_ms" Integer;
    "revision" by "task, revision": "task" Integer, "revision" Integer, "at_ms" Integer,
        "body" Text;
    "request" by "number": "number" Integer, "task" Integer, "high" Integer, "low" Integer,
        "request" Integer, "instance" Integer, "last" Integer, "run" Integer;
    "usage" by "hour, owner": "hour" Integer, "owner" Text, "done" Integer, "failed" Integer,
        "halted" Integer, "attempts" Integer, "cpu_claimed" Integer, "memory_claimed" Integer,
        "cpu_used_ms" Integer, "waited_ms" Integer;
    "task_usage" by "owner, workflow, task": "owner" Text, "workflow" Text, "task" Text,
        "attempts" Integer, "changed_ms" Integer, "requested" Text, "samples" Text;
    "run" by "id": "id" Integer, "name" Text, "owner" Text, "state" Text, "generation" Integer,
        "plan" Integer, "halting" Text, "cause" Text, "submitted_ms" Integer,
        "begun_ms" Integer, "changed_ms" Integer, "origin" Text,
        "submitted_by" Text;
    "plan" by "part": "part" Integer, "run" Integer, "generation" Integer, "body" Text;
    "item" by "run, plan, task, item": "run" Integer, "plan" Integer, "task" Integer,
        "item" Integer, "generation" Integer, "end" Text, "instance" Integer, "outputs" Text;
    "leftover" by "run": "run" Integer;
    "launch" by "task, nominal_ms": "task" Integer, "nominal_ms" Integer, "instance" Integer,
        "run" Integer, "backfill" Integer;
    "backfill" by "id": "id" Integer, "task" Integer, "open" Boolean, "body" Text;
    "backfill_taken" by "backfill": "backfill" Integer, "body" Text;
    "cluster_limit" by "name": "name" Text, "total" Integer, "rate" Text;
    "array_limit" by "first": "first" Integer, "last" Integer, "total" Integer;
    "share" by "owner": "owner" Text, "weight" Integer;
    "alarm" by "name": "name" Text, "kind" Text, "owner" Text, "at_ms" Integer, "body" Text;
    "secret" by "owner, name": "owner" Text, "name" Text, "version" Integer,
        "set_at_ms" Integer, "set_by" Text, "used_at_ms" Integer, "key" Text, "sealed" Bytes;
    "fleet" by "name": "name" Text, "body" Text;
    "fleet_job" by "id": "id" Integer, "fleet" Text, "open" Boolean, "body" Text;
    "name_owner" by "worker": "worker" Text, "owner" Text;
    "follower" by "name": "name" Text, "seq" Integer;
    "notice_state" by "name": "name" Text, "body" Text;
    "notice" by "id": "id" Integer, "name" Text, "kind" Text, "owner" Text, "at_ms" Integer,
        "body" Text;
    "delivery" by "notice, channel": "notice" Integer, "channel" Text, "series" Text,
        "state" Text, "attempts" Integer, "next_ms" Integer, "changed_ms" Integer, "error" Text;
};

impl Table {
    /// Selects all rows in their order.
    pub(crate) fn select(&self) -> String {
        let (names, name, key) = (self.names(), self.name, self.key);
        format!("SELECT {names} FROM {name} ORDER BY {key}")
    }

    /// Inserts one row.
    pub(crate) fn insert(&self) -> String {
        let values: Vec<_> = (1..=self.columns.len())
            .map(|at| format!("?{at}"))
            .collect();
        let (names, name, values) = (self.names(), self.name, values.join(", "));
        format!("INSERT INTO {name} ({names}) VALUES ({values})")
    }

    fn names(&self) -> String {
        // One of them is a word of SQL.
        let names = self.columns.iter().map(|(name, _)| format!("\"{name}\""));
        names.collect::<Vec<_>>().join(", ")
    }
}
