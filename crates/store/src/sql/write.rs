//! Writing a change set: each touched row is written once.

use super::alarms;
use super::backfills;
use super::db::{Db, Error, Statement, Value, params};
use super::fleets;
use super::library;
use super::limits;
use super::measurements;
use super::rows::{end_body, kill_number, to_json};
use super::runs;
use super::specs::SpecWriter;
use super::usage;
use crate::change_set::{ChangeSet, InstanceChange, SpanChange};
use crate::postgres::listener::CHANNEL;
use crate::view::{Cursor, sql_id};

/// Statements of most groups, which PostgreSQL's writer plans in advance.
pub(super) const STATEMENTS: &[&str] = &[
    INSERT_HISTORY,
    INSERT_WIDE,
    DELETE_SPAN,
    SHRINK_SPAN,
    PUT_SPAN,
    INSERT_INSTANCE,
    PUT_INSTANCE,
    DELETE_KNOWN,
    INSERT_KNOWN,
    COUNT_STATE,
    UPDATE_TOTALS,
    NOTIFY,
];

const INSERT_HISTORY: &str = "INSERT INTO history (instance, seq, epoch, at_ms, spec, body, \
    requested_by) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

const INSERT_WIDE: &str = "INSERT INTO wide (first, seq, epoch, at_ms, spec, body, \
    requested_by, last, task) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

const DELETE_SPAN: &str = "DELETE FROM span WHERE last = ?1";

const SHRINK_SPAN: &str = "UPDATE span SET first = ?2 WHERE last = ?1";

const PUT_SPAN: &str = "INSERT INTO span (last, first, state, rank, spec, submitted_at_ms, \
    submitted_seq, changed_at_ms, changed_seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
    ON CONFLICT (last) DO UPDATE SET first = excluded.first, state = excluded.state, \
    rank = excluded.rank, changed_at_ms = excluded.changed_at_ms, \
    changed_seq = excluded.changed_seq";

macro_rules! instance {
    ($rest:literal) => {
        concat!(
            "INSERT INTO instance (id, state, rank, changed_at_ms, changed_seq, attempts, \
             failures, losses, stop_requested, lease_attempt, lease_epoch, lease_confirmed, \
             worker, lineage, life, host, boot, again, last_end, spec, submitted_at_ms, \
             submitted_seq, leased_at_ms, lease_kill, lease_gang) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, \
             ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)",
            $rest
        )
    };
}

const INSERT_INSTANCE: &str = instance!("");

const PUT_INSTANCE: &str = instance!(
    " ON CONFLICT (id) DO UPDATE SET state = excluded.state, \
     rank = excluded.rank, changed_at_ms = excluded.changed_at_ms, \
     changed_seq = excluded.changed_seq, attempts = excluded.attempts, \
     failures = excluded.failures, losses = excluded.losses, \
     stop_requested = excluded.stop_requested, lease_attempt = excluded.lease_attempt, \
     lease_epoch = excluded.lease_epoch, lease_confirmed = excluded.lease_confirmed, \
     worker = excluded.worker, lineage = excluded.lineage, life = excluded.life, \
     host = excluded.host, boot = excluded.boot, again = excluded.again, \
     last_end = excluded.last_end, spec = excluded.spec, \
     submitted_at_ms = excluded.submitted_at_ms, submitted_seq = excluded.submitted_seq, \
     leased_at_ms = excluded.leased_at_ms, lease_kill = excluded.lease_kill, \
     lease_gang = excluded.lease_gang"
);

const DELETE_KNOWN: &str = "DELETE FROM known WHERE first = ?1";

const INSERT_KNOWN: &str = "INSERT INTO known (first, last) VALUES (?1, ?2)";

const COUNT_STATE: &str = "INSERT INTO tally (state, instances) VALUES (?1, ?2) \
    ON CONFLICT (state) DO UPDATE SET instances = tally.instances + excluded.instances";

const UPDATE_TOTALS: &str = "UPDATE totals SET last_seq = ?1, \
    history_bytes = history_bytes + ?2, lease_time_ms = coalesce(?3, lease_time_ms)";

/// PostgreSQL only.
const NOTIFY: &str = "SELECT pg_notify(?1, '')";

/// Writes all changes of a change set.
pub(super) fn write(
    db: &Db<'_>,
    change_set: &ChangeSet,
    specs: &mut SpecWriter,
) -> Result<(), Error> {
    specs.write(db)?;
    write_history(db, change_set)?;
    write_spans(db, change_set)?;
    write_instances(db, change_set)?;
    write_known(db, change_set)?;
    write_workers(db, change_set)?;
    library::write(db, change_set)?;
    backfills::write(db, change_set)?;
    fleets::write(db, change_set)?;
    runs::write(db, change_set)?;
    usage::write(db, change_set.usage())?;
    measurements::write(db, change_set.measured())?;
    if let Some((generation, settled)) = change_set.generation() {
        db.prepare_cached("UPDATE identity SET generation = ?1, settled = ?2")?
            .write(params![generation.0.cast_signed(), settled])?;
    }
    let mut count = db.prepare_cached(COUNT_STATE)?;
    for (state, by) in change_set.tally() {
        count.write(params![state.word(), by])?;
    }
    db.prepare_cached(UPDATE_TOTALS)?.write(params![
        change_set.next().0.cast_signed() - 1,
        change_set.bytes().cast_signed(),
        change_set.lease_time().map(|lease| lease.0.cast_signed()),
    ])?;
    if let Db::Postgres(session) = db {
        session.defer(NOTIFY, &[Value::Text(CHANNEL)]);
    }
    Ok(())
}

fn write_history(db: &Db<'_>, change_set: &ChangeSet) -> Result<(), Error> {
    let mut own = db.prepare_cached(INSERT_HISTORY)?;
    let mut wide = db.prepare_cached(INSERT_WIDE)?;
    for entry in change_set.entries() {
        let first = entry.instances.map(|(first, _)| sql_id(first));
        let seq = entry.seq.0.cast_signed();
        let epoch = entry.epoch.0.cast_signed();
        let at = entry.at.0.cast_signed();
        let by = entry.requested_by.as_deref();
        if entry.single_instance().is_some() {
            own.write(params![first, seq, epoch, at, entry.spec, entry.body, by])?;
        } else {
            let last = entry.instances.map(|(_, last)| sql_id(last));
            let task = entry.task.map(|task| task.0.cast_signed());
            wide.write(params![
                first, seq, epoch, at, entry.spec, entry.body, by, last, task
            ])?;
        }
    }
    Ok(())
}

fn write_spans(db: &Db<'_>, change_set: &ChangeSet) -> Result<(), Error> {
    let mut remove = db.prepare_cached(DELETE_SPAN)?;
    let mut shrink = db.prepare_cached(SHRINK_SPAN)?;
    let mut change = db.prepare_cached(PUT_SPAN)?;
    for SpanChange { before, after } in change_set.span_changes() {
        match (before, after) {
            (Some(before), None) => remove.write([sql_id(before.last)])?,
            (Some(before), Some(after)) if before.state == after.state => {
                shrink.write([sql_id(after.last), sql_id(after.first)])?
            }
            (_, Some(after)) => {
                let lifecycle = &after.lifecycle;
                let cursor = Cursor::new(after.state, lifecycle.changed, after.last);
                change.write(params![
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
            (None, None) => {}
        };
    }
    Ok(())
}

/// Inserts new rows, and updates existing ones. An upsert would do for both, but PostgreSQL pays for each
/// row that it inserts tentatively.
fn write_instances(db: &Db<'_>, change_set: &ChangeSet) -> Result<(), Error> {
    let mut insert = db.prepare_cached(INSERT_INSTANCE)?;
    let mut update = db.prepare_cached(PUT_INSTANCE)?;
    for change in change_set.changes() {
        let statement = match change.before {
            None => &mut insert,
            Some(_) => &mut update,
        };
        write_instance(statement, &change)?;
    }
    Ok(())
}

fn write_instance(statement: &mut Statement<'_>, change: &InstanceChange<'_>) -> Result<(), Error> {
    let (instance, lifecycle) = (change.instance, change.lifecycle);
    let lease = instance.lease.as_ref();
    let holder = lease.map(|lease| &lease.holder);
    let next_attempt = instance.next_attempt.as_ref().map(to_json).transpose()?;
    let gang = lease.and_then(|it| it.gang.as_ref());
    let gang = gang.map(to_json).transpose()?;
    let last_end = change.last.map(end_body).transpose()?;
    statement.write(params![
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
        gang,
    ])?;
    Ok(())
}

fn write_known(db: &Db<'_>, change_set: &ChangeSet) -> Result<(), Error> {
    let (gone, new) = change_set.known();
    let mut forget = db.prepare_cached(DELETE_KNOWN)?;
    for (first, _) in gone {
        forget.write([sql_id(first)])?;
    }
    let mut add = db.prepare_cached(INSERT_KNOWN)?;
    for (first, last) in new {
        add.write([sql_id(first), sql_id(last)])?;
    }
    Ok(())
}

fn write_workers(db: &Db<'_>, change_set: &ChangeSet) -> Result<(), Error> {
    let mut drain =
        db.prepare_cached("INSERT INTO drained (worker) VALUES (?1) ON CONFLICT DO NOTHING")?;
    let mut open = db.prepare_cached("DELETE FROM drained WHERE worker = ?1")?;
    for (worker, drained) in change_set.drained() {
        let statement = if *drained { &mut drain } else { &mut open };
        statement.write([&*worker.0])?;
    }
    let mut assign = db.prepare_cached(
        "INSERT INTO name_owner (worker, owner) VALUES (?1, ?2) \
         ON CONFLICT (worker) DO UPDATE SET owner = excluded.owner",
    )?;
    let mut release = db.prepare_cached("DELETE FROM name_owner WHERE worker = ?1")?;
    for (worker, owner) in change_set.name_owners() {
        match owner {
            Some(owner) => assign.write(params![&*worker.0, to_json(owner)?])?,
            None => release.write([&*worker.0])?,
        };
    }
    limits::write(db, change_set)?;
    alarms::write(db, change_set)?;
    let (new, gone) = change_set.condemned();
    let mut remember = db.prepare_cached(
        "INSERT INTO condemned (lineage, life) VALUES (?1, ?2) \
         ON CONFLICT (lineage) DO UPDATE SET life = excluded.life",
    )?;
    for it in new {
        remember.write([it.lineage.0.cast_signed(), it.number.0.cast_signed()])?;
    }
    let mut forget = db.prepare_cached("DELETE FROM condemned WHERE lineage = ?1")?;
    for lineage in gone {
        forget.write([lineage.0.cast_signed()])?;
    }
    Ok(())
}
