//! Writing a change set: each touched row is written once.

use rusqlite::{Connection, params};

use super::backfills;
use super::library;
use super::rows::{end_body, kill_number, to_json};
use super::runs;
use super::specs::{SpecId, SpecWriter};
use super::usage;
use crate::change_set::{ChangeSet, InstanceChange, SpanChange};
use crate::view::{Cursor, sql_id};

/// Writes all changes of a change set.
pub(super) fn write(
    db: &Connection,
    change_set: &ChangeSet<SpecId>,
    specs: &mut SpecWriter,
) -> Result<(), rusqlite::Error> {
    specs.write(db)?;
    write_history(db, change_set)?;
    write_spans(db, change_set)?;
    write_instances(db, change_set)?;
    write_known(db, change_set)?;
    write_workers(db, change_set)?;
    library::write(db, change_set)?;
    backfills::write(db, change_set)?;
    runs::write(db, change_set)?;
    usage::write(db, change_set.usage())?;
    if let Some((generation, settled)) = change_set.generation() {
        db.execute(
            "UPDATE identity SET generation = ?1, settled = ?2",
            params![generation.0.cast_signed(), settled],
        )?;
    }
    let mut count = db.prepare_cached(
        "INSERT INTO tally (state, instances) VALUES (?1, ?2) \
         ON CONFLICT (state) DO UPDATE SET instances = instances + excluded.instances",
    )?;
    for (state, by) in change_set.tally() {
        count.execute(params![state.word(), by])?;
    }
    db.prepare_cached(
        "UPDATE totals SET last_seq = ?1, history_bytes = history_bytes + ?2, \
         lease_time_ms = coalesce(?3, lease_time_ms)",
    )?
    .execute(params![
        change_set.next().0.cast_signed() - 1,
        change_set.bytes().cast_signed(),
        change_set.lease_time().map(|lease| lease.0.cast_signed()),
    ])?;
    Ok(())
}

fn write_history(db: &Connection, change_set: &ChangeSet<SpecId>) -> Result<(), rusqlite::Error> {
    let mut own = db.prepare_cached(
        "INSERT INTO history (instance, seq, epoch, at_ms, spec, body) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let mut wide = db.prepare_cached(
        "INSERT INTO wide (first, seq, epoch, at_ms, spec, body, last, task) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for entry in change_set.entries() {
        let first = entry.instances.map(|(first, _)| sql_id(first));
        let seq = entry.seq.0.cast_signed();
        let epoch = entry.epoch.0.cast_signed();
        let at = entry.at.0.cast_signed();
        if entry.single_instance().is_some() {
            own.execute(params![first, seq, epoch, at, entry.spec, entry.body])?;
        } else {
            let last = entry.instances.map(|(_, last)| sql_id(last));
            let task = entry.task.map(|task| task.0.cast_signed());
            wide.execute(params![
                first, seq, epoch, at, entry.spec, entry.body, last, task
            ])?;
        }
    }
    Ok(())
}

fn write_spans(db: &Connection, change_set: &ChangeSet<SpecId>) -> Result<(), rusqlite::Error> {
    let mut remove = db.prepare_cached("DELETE FROM span WHERE last = ?1")?;
    let mut shrink = db.prepare_cached("UPDATE span SET first = ?2 WHERE last = ?1")?;
    let mut change = db.prepare_cached(
        "INSERT INTO span (last, first, state, rank, spec, submitted_at_ms, submitted_seq, \
         changed_at_ms, changed_seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
         ON CONFLICT (last) DO UPDATE SET first = ?2, state = ?3, rank = ?4, \
         changed_at_ms = ?8, changed_seq = ?9",
    )?;
    for SpanChange { before, after } in change_set.span_changes() {
        match (before, after) {
            (Some(before), None) => remove.execute([sql_id(before.last)])?,
            (Some(before), Some(after)) if before.state == after.state => {
                shrink.execute([sql_id(after.last), sql_id(after.first)])?
            }
            (_, Some(after)) => {
                let lifecycle = &after.lifecycle;
                let cursor = Cursor::new(after.state, lifecycle.changed, after.last);
                change.execute(params![
                    sql_id(after.last),
                    sql_id(after.first),
                    after.state.word(),
                    cursor.0,
                    lifecycle.spec,
                    lifecycle.submitted_at.0.cast_signed(),
                    lifecycle.submitted.0.cast_signed(),
                    lifecycle.changed_at.0.cast_signed(),
                    lifecycle.changed.0.cast_signed(),
                ])?
            }
            (None, None) => 0,
        };
    }
    Ok(())
}

/// Inserts new rows, and updates existing ones.
fn write_instances(db: &Connection, change_set: &ChangeSet<SpecId>) -> Result<(), rusqlite::Error> {
    let mut insert = db.prepare_cached(
        "INSERT INTO instance (id, state, rank, changed_at_ms, changed_seq, attempts, failures, \
         losses, stop_requested, lease_attempt, lease_epoch, lease_confirmed, worker, lineage, \
         life, host, boot, again, last_end, spec, submitted_at_ms, submitted_seq, leased_at_ms, \
         lease_kill) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, \
         ?19, ?20, ?21, ?22, ?23, ?24)",
    )?;
    let mut update = db.prepare_cached(
        "UPDATE instance SET state = ?2, rank = ?3, changed_at_ms = ?4, changed_seq = ?5, \
         attempts = ?6, failures = ?7, losses = ?8, stop_requested = ?9, lease_attempt = ?10, \
         lease_epoch = ?11, lease_confirmed = ?12, worker = ?13, lineage = ?14, life = ?15, \
         host = ?16, boot = ?17, again = ?18, last_end = ?19, spec = ?20, submitted_at_ms = ?21, \
         submitted_seq = ?22, leased_at_ms = ?23, lease_kill = ?24 WHERE id = ?1",
    )?;
    for change in change_set.changes() {
        let statement = match change.before {
            Some(_) => &mut update,
            None => &mut insert,
        };
        write_instance(statement, &change)?;
    }
    Ok(())
}

fn write_instance(
    statement: &mut rusqlite::Statement<'_>,
    change: &InstanceChange<'_, SpecId>,
) -> Result<(), rusqlite::Error> {
    let (instance, lifecycle) = (change.instance, change.lifecycle);
    let lease = instance.lease.as_ref();
    let holder = lease.map(|lease| &lease.holder);
    let next_attempt = instance.next_attempt.as_ref().map(to_json).transpose()?;
    let last_end = change.last.map(end_body).transpose()?;
    statement.execute(params![
        sql_id(instance.id),
        instance.state.word(),
        Cursor::new(instance.state, lifecycle.changed, instance.id).0,
        lifecycle.changed_at.0.cast_signed(),
        lifecycle.changed.0.cast_signed(),
        instance.attempts.0,
        instance.failures,
        instance.losses,
        instance.stop_requested,
        lease.map(|it| it.id.attempt.number.0),
        lease.map(|it| it.id.epoch.0.cast_signed()),
        lease.map(|it| it.confirmed),
        holder.map(|it| &*it.worker.0),
        holder.map(|it| it.incarnation.lineage.0.cast_signed()),
        holder.map(|it| it.incarnation.number.0.cast_signed()),
        holder.map(|it| it.host.0.cast_signed()),
        holder.map(|it| it.boot.0.cast_signed()),
        next_attempt,
        last_end,
        lifecycle.spec,
        lifecycle.submitted_at.0.cast_signed(),
        lifecycle.submitted.0.cast_signed(),
        change.leased_at.map(|at| at.0.cast_signed()),
        lease.and_then(|it| it.kill).map(kill_number),
    ])?;
    Ok(())
}

fn write_known(db: &Connection, change_set: &ChangeSet<SpecId>) -> Result<(), rusqlite::Error> {
    let (gone, new) = change_set.known();
    let mut forget = db.prepare_cached("DELETE FROM known WHERE first = ?1")?;
    for (first, _) in gone {
        forget.execute([sql_id(first)])?;
    }
    let mut add = db.prepare_cached("INSERT INTO known (first, last) VALUES (?1, ?2)")?;
    for (first, last) in new {
        add.execute([sql_id(first), sql_id(last)])?;
    }
    Ok(())
}

fn write_workers(db: &Connection, change_set: &ChangeSet<SpecId>) -> Result<(), rusqlite::Error> {
    let mut drain = db.prepare_cached("INSERT OR IGNORE INTO drained (worker) VALUES (?1)")?;
    let mut open = db.prepare_cached("DELETE FROM drained WHERE worker = ?1")?;
    for (worker, drained) in change_set.drained() {
        let statement = if *drained { &mut drain } else { &mut open };
        statement.execute([&*worker.0])?;
    }
    let mut set =
        db.prepare_cached("INSERT OR REPLACE INTO cluster_limit (name, total) VALUES (?1, ?2)")?;
    let mut unset = db.prepare_cached("DELETE FROM cluster_limit WHERE name = ?1")?;
    for (name, total) in change_set.limits() {
        match total {
            Some(total) => set.execute(params![name, total.cast_signed()])?,
            None => unset.execute([name])?,
        };
    }
    let (new, gone) = change_set.condemned();
    let mut remember =
        db.prepare_cached("INSERT OR REPLACE INTO condemned (lineage, life) VALUES (?1, ?2)")?;
    for it in new {
        remember.execute([it.lineage.0.cast_signed(), it.number.0.cast_signed()])?;
    }
    let mut forget = db.prepare_cached("DELETE FROM condemned WHERE lineage = ?1")?;
    for lineage in gone {
        forget.execute([lineage.0.cast_signed()])?;
    }
    Ok(())
}
