//! A draft as rows: each touched row is written once.

use rusqlite::{Connection, params};

use super::library;
use super::rows::{end_body, to_json};
use super::runs;
use super::specs::{SpecId, Written};
use super::usage;
use crate::draft::{Change, Draft, SpanChange};
use crate::view::{Cursor, key};

/// Writes everything that a draft has changed.
pub(super) fn write(
    db: &Connection,
    draft: &Draft<SpecId>,
    specs: &mut Written,
) -> Result<(), rusqlite::Error> {
    specs.write(db)?;
    write_lines(db, draft)?;
    write_spans(db, draft)?;
    write_instances(db, draft)?;
    write_known(db, draft)?;
    write_workers(db, draft)?;
    library::write(db, draft)?;
    runs::write(db, draft)?;
    usage::write(db, draft.usage())?;
    let mut count = db.prepare_cached(
        "INSERT INTO tally (state, instances) VALUES (?1, ?2) \
         ON CONFLICT (state) DO UPDATE SET instances = instances + excluded.instances",
    )?;
    for (state, by) in draft.tally() {
        count.execute(params![state.word(), by])?;
    }
    db.prepare_cached(
        "UPDATE totals SET last_seq = ?1, history_bytes = history_bytes + ?2, \
         lease_time_ms = coalesce(?3, lease_time_ms)",
    )?
    .execute(params![
        draft.next().0.cast_signed() - 1,
        draft.bytes().cast_signed(),
        draft.lease_time().map(|lease| lease.0.cast_signed()),
    ])?;
    Ok(())
}

fn write_lines(db: &Connection, draft: &Draft<SpecId>) -> Result<(), rusqlite::Error> {
    let mut own = db.prepare_cached(
        "INSERT INTO history (instance, seq, epoch, at_ms, spec, body) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let mut wide = db.prepare_cached(
        "INSERT INTO wide (first, seq, epoch, at_ms, spec, body, last, task) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for line in draft.lines() {
        let first = line.about.map(|(first, _)| key(first));
        let seq = line.seq.0.cast_signed();
        let epoch = line.epoch.0.cast_signed();
        let at = line.at.0.cast_signed();
        if line.own().is_some() {
            own.execute(params![first, seq, epoch, at, line.spec, line.body])?;
        } else {
            let last = line.about.map(|(_, last)| key(last));
            let task = line.task.map(|task| task.0.cast_signed());
            wide.execute(params![
                first, seq, epoch, at, line.spec, line.body, last, task
            ])?;
        }
    }
    Ok(())
}

fn write_spans(db: &Connection, draft: &Draft<SpecId>) -> Result<(), rusqlite::Error> {
    let mut remove = db.prepare_cached("DELETE FROM span WHERE last = ?1")?;
    let mut shrink = db.prepare_cached("UPDATE span SET first = ?2 WHERE last = ?1")?;
    let mut change = db.prepare_cached(
        "INSERT INTO span (last, first, state, rank, spec, submitted_at_ms, submitted_seq, \
         changed_at_ms, changed_seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
         ON CONFLICT (last) DO UPDATE SET first = ?2, state = ?3, rank = ?4, \
         changed_at_ms = ?8, changed_seq = ?9",
    )?;
    for SpanChange { before, after } in draft.span_changes() {
        match (before, after) {
            (Some(before), None) => remove.execute([key(before.last)])?,
            (Some(before), Some(after)) if before.state == after.state => {
                shrink.execute([key(after.last), key(after.first)])?
            }
            (_, Some(after)) => {
                let story = &after.story;
                let place = Cursor::of(after.state, story.changed, after.last);
                change.execute(params![
                    key(after.last),
                    key(after.first),
                    after.state.word(),
                    place.0,
                    story.spec,
                    story.submitted_at.0.cast_signed(),
                    story.submitted.0.cast_signed(),
                    story.changed_at.0.cast_signed(),
                    story.changed.0.cast_signed(),
                ])?
            }
            (None, None) => 0,
        };
    }
    Ok(())
}

/// New rows, or the changed columns of old ones: what was asked for never changes.
fn write_instances(db: &Connection, draft: &Draft<SpecId>) -> Result<(), rusqlite::Error> {
    let mut insert = db.prepare_cached(
        "INSERT INTO instance (id, state, rank, changed_at_ms, changed_seq, attempts, failures, \
         losses, stop_requested, lease_attempt, lease_epoch, lease_confirmed, worker, lineage, \
         life, host, boot, again, last_end, spec, submitted_at_ms, submitted_seq, leased_at_ms) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, \
         ?19, ?20, ?21, ?22, ?23)",
    )?;
    let mut update = db.prepare_cached(
        "UPDATE instance SET state = ?2, rank = ?3, changed_at_ms = ?4, changed_seq = ?5, \
         attempts = ?6, failures = ?7, losses = ?8, stop_requested = ?9, lease_attempt = ?10, \
         lease_epoch = ?11, lease_confirmed = ?12, worker = ?13, lineage = ?14, life = ?15, \
         host = ?16, boot = ?17, again = ?18, last_end = ?19, spec = ?20, submitted_at_ms = ?21, \
         submitted_seq = ?22, leased_at_ms = ?23 WHERE id = ?1",
    )?;
    for change in draft.changes() {
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
    change: &Change<'_, SpecId>,
) -> Result<(), rusqlite::Error> {
    let (instance, story) = (change.instance, change.story);
    let lease = instance.lease.as_ref();
    let holder = lease.map(|lease| &lease.holder);
    let again = instance.next_attempt.as_ref().map(to_json).transpose()?;
    let last_end = change.last.map(end_body).transpose()?;
    statement.execute(params![
        key(instance.id),
        instance.state.word(),
        Cursor::of(instance.state, story.changed, instance.id).0,
        story.changed_at.0.cast_signed(),
        story.changed.0.cast_signed(),
        instance.attempts.0,
        instance.failures,
        instance.losses,
        instance.stop_requested,
        lease.map(|it| it.id.attempt.number.0),
        lease.map(|it| it.id.epoch.0.cast_signed()),
        lease.map(|it| it.confirmed),
        holder.map(|it| &*it.worker.0),
        holder.map(|it| it.incarnation.lineage.0.cast_signed()),
        holder.map(|it| it.incarnation.life.0.cast_signed()),
        holder.map(|it| it.host.0.cast_signed()),
        holder.map(|it| it.boot.0.cast_signed()),
        again,
        last_end,
        story.spec,
        story.submitted_at.0.cast_signed(),
        story.submitted.0.cast_signed(),
        change.leased_at.map(|at| at.0.cast_signed()),
    ])?;
    Ok(())
}

fn write_known(db: &Connection, draft: &Draft<SpecId>) -> Result<(), rusqlite::Error> {
    let (gone, new) = draft.known();
    let mut forget = db.prepare_cached("DELETE FROM known WHERE first = ?1")?;
    for (first, _) in gone {
        forget.execute([key(first)])?;
    }
    let mut add = db.prepare_cached("INSERT INTO known (first, last) VALUES (?1, ?2)")?;
    for (first, last) in new {
        add.execute([key(first), key(last)])?;
    }
    Ok(())
}

fn write_workers(db: &Connection, draft: &Draft<SpecId>) -> Result<(), rusqlite::Error> {
    let mut drain = db.prepare_cached("INSERT OR IGNORE INTO drained (worker) VALUES (?1)")?;
    let mut open = db.prepare_cached("DELETE FROM drained WHERE worker = ?1")?;
    for (worker, drained) in draft.drained() {
        let statement = if *drained { &mut drain } else { &mut open };
        statement.execute([&*worker.0])?;
    }
    let (new, gone) = draft.condemned();
    let mut remember =
        db.prepare_cached("INSERT OR REPLACE INTO condemned (lineage, life) VALUES (?1, ?2)")?;
    for it in new {
        remember.execute([it.lineage.0.cast_signed(), it.life.0.cast_signed()])?;
    }
    let mut forget = db.prepare_cached("DELETE FROM condemned WHERE lineage = ?1")?;
    for lineage in gone {
        forget.execute([lineage.0.cast_signed()])?;
    }
    Ok(())
}
