//! Rows of runs.

use std::sync::Arc;

use baton_core::ledger::{RunHead, StoredRun};
use baton_core::workflow::ItemResult;
use baton_model::ids::{Generation, InstanceId, RunId};
use baton_model::time::Wall;
use baton_model::workflow::{CarriedItems, HaltCause, HaltMode, ItemEnd, Plan};
use serde::de::DeserializeOwned;

use super::db::{Db, Error, OptionalRow as _, Row, corrupt_column, params};
use super::rows::{self, to_json, unsigned};
use crate::change_set::{ChangeSet, RunChange};
use crate::limits::RUN_ERRORS_MAX;
use crate::view::{
    EndCount, ErrorCount, ItemQuery, ItemRecord, Page, RunQuery, RunRecord, failed_without_halt,
    page_limit, sql_id,
};

/// A statement whose columns [`record`] reads.
macro_rules! run {
    ($($rest:literal),+) => {
        concat!(
            "SELECT id, name, owner, state, generation, plan, halting, cause, submitted_ms, \
             begun_ms, changed_ms, origin, submitted_by FROM run ",
            $($rest),+
        )
    };
}

/// Items of a run after a position, up to a task.
macro_rules! item {
    ($from:literal, $which:literal) => {
        concat!(
            "SELECT task, item, generation, \"end\", instance, outputs FROM ",
            $from,
            " WHERE run = ?1 AND plan = ?2 AND (task, item) > (?3, ?4) AND task <= ?5 ",
            $which,
            " ORDER BY task, item LIMIT ?7"
        )
    };
}

/// Statements of most groups, which PostgreSQL's writer plans in advance.
pub(super) const STATEMENTS: &[&str] = &[PUT, INSERT_PLAN, INSERT_ITEM, UPDATE_LAST, SELECT_MANY];

const PUT: &str = "INSERT INTO run (id, name, owner, state, generation, plan, halting, cause, \
    submitted_ms, begun_ms, changed_ms, origin, submitted_by) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) \
    ON CONFLICT (id) DO UPDATE SET state = ?4, generation = ?5, plan = ?6, halting = ?7, \
    cause = ?8, begun_ms = ?10, changed_ms = ?11";

const UPDATE_LAST: &str = "UPDATE totals SET last_run = max(last_run, ?1)";

const INSERT_PLAN: &str = "INSERT INTO plan (part, run, generation, body) VALUES (?1, ?2, ?3, ?4)";

const INSERT_ITEM: &str = "INSERT INTO item \
    (run, plan, task, item, generation, \"end\", instance, outputs) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING";

/// PostgreSQL only.
pub(super) const SELECT_MANY: &str = run!("WHERE id = ANY(?1)");

/// Writes the runs' part of a change set.
pub(super) fn write(db: &Db<'_>, change_set: &ChangeSet) -> Result<(), Error> {
    let runs = change_set.runs();
    for change in runs.changes() {
        write_change(db, change)?;
    }
    let mut put = db.prepare_cached(PUT)?;
    let mut last = RunId(0);
    for (head, changed) in runs.heads() {
        let (halt, cause) = head.halting.unzip();
        put.write_in_order(params![
            head.id.0.cast_signed(),
            head.name,
            head.owner,
            head.state.word(),
            head.generation.0,
            head.plan.0,
            halt.map(|it| to_json(&it)).transpose()?,
            cause.map(|it| to_json(&it)).transpose()?,
            head.submitted.0.cast_signed(),
            head.begun.0.cast_signed(),
            changed.0.cast_signed(),
            head.origin.map(|it| to_json(&it)).transpose()?,
            runs.submitter(head.id).map(to_json).transpose()?,
        ])?;
        last = last.max(head.id);
    }
    if last > RunId(0) {
        db.prepare_cached(UPDATE_LAST)?
            .write_in_order([last.0.cast_signed()])?;
    }
    Ok(())
}

fn write_change(db: &Db<'_>, change: &RunChange) -> Result<(), Error> {
    match change {
        RunChange::PlanPart {
            run,
            generation,
            part,
            plan,
        } => {
            db.prepare_cached(INSERT_PLAN)?.write_in_order(params![
                part.0.cast_signed(),
                run.0.cast_signed(),
                generation.0,
                to_json(plan)?
            ])?;
        }
        RunChange::ItemEnded {
            part,
            plan,
            instance,
            end,
            outputs,
        } => {
            db.prepare_cached(INSERT_ITEM)?.write(params![
                part.run.0.cast_signed(),
                plan.0,
                part.task,
                part.item,
                part.generation.0,
                end_word(*end),
                sql_id(*instance),
                outputs.as_deref(),
            ])?;
        }
        RunChange::Invalidate { run, plan, rerun } => {
            let run = run.0.cast_signed();
            db.prepare_cached(
                "DELETE FROM item WHERE run = ?1 AND plan = ?2 AND \"end\" <> 'done'",
            )?
            .write_in_order(params![run, plan.0])?;
            let mut forget = db.prepare_cached(
                "DELETE FROM item WHERE run = ?1 AND plan = ?2 AND task = ?3 \
                 AND item BETWEEN ?4 AND ?5",
            )?;
            for span in rerun {
                forget.write_in_order(params![run, plan.0, span.task, span.first, span.last])?;
            }
        }
        RunChange::CarryOver {
            run,
            from,
            to,
            carried,
        } => carry_over(db, *run, *from, *to, carried)?,
    }
    Ok(())
}

fn carry_over(
    db: &Db<'_>,
    run: RunId,
    from: Generation,
    to: Generation,
    carried: &[CarriedItems],
) -> Result<(), Error> {
    let run = run.0.cast_signed();
    let mut copy = db.prepare_cached(
        "INSERT INTO item (run, plan, task, item, generation, \"end\", instance, outputs) \
         SELECT run, ?6, ?7, item - ?4 + ?8, generation, \"end\", instance, outputs FROM item \
         WHERE run = ?1 AND plan = ?2 AND task = ?3 AND item BETWEEN ?4 AND ?5",
    )?;
    for it in carried {
        let span = it.from;
        copy.write_in_order(params![
            run, from.0, span.task, span.first, span.last, to.0, it.task, it.first
        ])?;
    }
    db.prepare_cached("DELETE FROM item WHERE run = ?1 AND plan = ?2")?
        .write_in_order(params![run, from.0])?;
    Ok(())
}

pub(super) fn head(db: &Db<'_>, run: RunId) -> Result<Option<RunHead>, Error> {
    Ok(find(db, run)?.map(|record| record.head))
}

/// A row of [`SELECT_MANY`].
pub(super) fn head_of(row: &Row<'_>) -> Result<RunHead, Error> {
    Ok(record(row)?.head)
}

/// One run.
pub(super) fn find(db: &Db<'_>, run: RunId) -> Result<Option<RunRecord>, Error> {
    db.prepare_cached(run!("WHERE id = ?1"))?
        .query_row([run.0.cast_signed()], record)
        .optional()
}

/// A page of runs that pass the filters, in the order of their ids.
macro_rules! runs {
    ($after:literal, $order:literal) => {
        run!(
            "WHERE ",
            $after,
            " AND owner = coalesce(?3, owner) AND name = coalesce(?4, name) \
             AND begun_ms >= ?5 AND begun_ms < ?6 ORDER BY ",
            $order,
            " LIMIT ?7"
        )
    };
}

/// Runs, the latest or the oldest first.
pub(super) fn page(db: &Db<'_>, query: &RunQuery) -> Result<Page<RunRecord, RunId>, Error> {
    let (limit, filter) = (page_limit(query.limit), &query.filter);
    // Ids and times are stored signed, and none is that high.
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let beginning = if query.oldest_first { -1 } else { i64::MAX };
    // Each statement stops at the limit; with a filter that few runs match it scans all runs, or
    // all in that state, which are thousands.
    let mut statement = db.prepare_cached(match (filter.state, query.oldest_first) {
        (None, false) => runs!("id < ?1", "id DESC"),
        (None, true) => runs!("id > ?1", "id"),
        (Some(_), false) => runs!("id < ?1 AND state = ?2", "id DESC"),
        (Some(_), true) => runs!("id > ?1 AND state = ?2", "id"),
    })?;
    let values = params![
        query.after.map_or(beginning, |it| signed(it.0)),
        filter.state.map(|it| it.word()),
        filter.owner,
        filter.name,
        filter.since.map_or(0, |it| signed(it.0)),
        filter.until.map_or(i64::MAX, |it| signed(it.0)),
        limit as i64 + 1
    ];
    let found = statement.query_map(values, record)?;
    let found = found.collect::<Result<Vec<_>, _>>()?;
    Ok(Page::from_lookahead(found, limit, |it: &RunRecord| {
        it.head.id
    }))
}

/// A run with its plan and its ended items.
pub(super) fn stored(db: &Db<'_>, run: RunId) -> Result<Option<StoredRun>, Error> {
    let Some(head) = head(db, run)? else {
        return Ok(None);
    };
    let plan = plan(db, &head)?;
    let ended = ended(db, &head)?;
    Ok(Some(StoredRun { head, plan, ended }))
}

/// The plan in force of a run, assembled from its parts.
pub(super) fn plan(db: &Db<'_>, head: &RunHead) -> Result<Arc<Plan>, Error> {
    let mut parts = db
        .prepare_cached("SELECT body FROM plan WHERE run = ?1 AND generation = ?2 ORDER BY part")?;
    let mut rows = parts.query(params![head.id.0.cast_signed(), head.plan.0])?;
    let mut whole: Option<Plan> = None;
    while let Some(row) = rows.next()? {
        let part: Plan = from_json(row.text(0)?, 0)?;
        match &mut whole {
            None => whole = Some(part),
            Some(whole) => {
                whole.tasks.extend(part.tasks);
                whole.pools.extend(part.pools);
            }
        }
    }
    whole
        .map(Arc::new)
        .ok_or_else(|| corrupt_column(0, format!("run {} has no plan", head.id)))
}

fn ended(db: &Db<'_>, head: &RunHead) -> Result<Vec<ItemResult>, Error> {
    db.prepare_cached(
        "SELECT task, item, \"end\", outputs FROM item WHERE run = ?1 AND plan = ?2 \
         ORDER BY task, item",
    )?
    .query_map(params![head.id.0.cast_signed(), head.plan.0], |row| {
        let outputs = row.text_or_null(3)?;
        Ok(ItemResult {
            task: row.get(0)?,
            item: row.get(1)?,
            end: end_of(row.text(2)?, 2)?,
            outputs: outputs.map(Arc::from),
        })
    })?
    .collect()
}

/// The runs of a new leader's ledger: live ones, heads of ended ones, and the highest id.
pub(super) fn all(db: &Db<'_>) -> Result<(Vec<StoredRun>, Vec<RunHead>, RunId), Error> {
    let (mut live, mut ended) = (Vec::new(), Vec::new());
    let mut statement = db.prepare_cached(run!("ORDER BY id"))?;
    let heads = statement.query_map((), record)?;
    for found in heads {
        let head = found?.head;
        if head.state.is_terminal() {
            ended.push(head);
        } else if let Some(run) = stored(db, head.id)? {
            live.push(run);
        }
    }
    Ok((live, ended, last(db)?))
}

/// The highest run id ever used.
pub(super) fn last(db: &Db<'_>) -> Result<RunId, Error> {
    db.prepare_cached("SELECT last_run FROM totals")?
        .query_row((), |row| Ok(RunId(unsigned(row, 0)?)))
}

/// Ended items of a run, by task and item.
pub(super) fn items(db: &Db<'_>, query: &ItemQuery) -> Result<Page<ItemRecord, (u32, u32)>, Error> {
    let limit = page_limit(query.limit);
    let Some(head) = head(db, query.run)? else {
        return Page::fill([], limit, item_cursor);
    };
    let after = query
        .after
        .map_or((-1, -1), |(task, item)| (i64::from(task), i64::from(item)));
    let first = query.task.map_or((-1, -1), |task| (i64::from(task), -1));
    let (task, item) = after.max(first);
    let mut statement = db.prepare_cached(match query.end {
        // Most items are DONE; the others have a partial index, whose condition must be repeated.
        Some(ItemEnd::Failed | ItemEnd::Halted) => {
            item!(
                "item INDEXED BY item_not_done",
                "AND \"end\" = ?6 AND \"end\" <> 'done'"
            )
        }
        _ => item!("item", "AND \"end\" = coalesce(?6, \"end\")"),
    })?;
    let values = params![
        query.run.0.cast_signed(),
        head.plan.0,
        task,
        item,
        query.task.unwrap_or(u32::MAX),
        query.end.map(end_word),
        limit as i64 + 1
    ];
    let found = statement.query_map(values, |row| {
        let instance = InstanceId(unsigned(row, 4)?);
        Ok(ItemRecord {
            task: row.get(0)?,
            item: row.get(1)?,
            generation: Generation(row.get(2)?),
            end: end_of(row.text(3)?, 3)?,
            instance,
            outputs: row.text_or_null(5)?.map(Arc::from),
            record: rows::find(db, instance)?,
        })
    })?;
    Page::fill(found, limit, item_cursor)
}

/// Number of ended items of a run, by task and end.
pub(super) fn ends(db: &Db<'_>, run: RunId) -> Result<Vec<EndCount>, Error> {
    let Some(head) = head(db, run)? else {
        return Ok(Vec::new());
    };
    db.prepare_cached(
        "SELECT task, \"end\", count(*) FROM item WHERE run = ?1 AND plan = ?2 \
         GROUP BY task, \"end\" ORDER BY task, \"end\"",
    )?
    .query_map(params![run.0.cast_signed(), head.plan.0], |row| {
        Ok(EndCount {
            task: row.get(0)?,
            end: end_of(row.text(1)?, 1)?,
            count: unsigned(row, 2)?,
        })
    })?
    .collect()
}

/// Failed or halted items of a run, grouped by task and kind of end, the most frequent first.
pub(super) fn errors(db: &Db<'_>, run: RunId) -> Result<Vec<ErrorCount>, Error> {
    let Some(head) = head(db, run)? else {
        return Ok(Vec::new());
    };
    let also = if failed_without_halt(&head) {
        ItemEnd::Halted
    } else {
        ItemEnd::Failed
    };
    let values = params![
        run.0.cast_signed(),
        head.plan.0,
        end_word(ItemEnd::Failed),
        end_word(also),
        RUN_ERRORS_MAX as i64
    ];
    db.prepare_cached(
        "SELECT i.task, CASE i.\"end\" WHEN ?3 THEN json_extract(n.last_end, '$[3]') END, \
         count(*), min(i.instance), i.\"end\" \
         FROM item AS i INDEXED BY item_not_done LEFT JOIN instance AS n ON n.id = i.instance \
         WHERE i.run = ?1 AND i.plan = ?2 AND i.\"end\" IN (?3, ?4) AND i.\"end\" <> 'done' \
         GROUP BY 1, 2, 5 ORDER BY 3 DESC, 1, 4 LIMIT ?5",
    )?
    .query_map(values, |row| {
        let end = row.text_or_null(1)?;
        Ok(ErrorCount {
            task: row.get(0)?,
            item: end_of(row.text(4)?, 4)?,
            end: end.map(|text| from_json(text, 1)).transpose()?,
            count: unsigned(row, 2)?,
            example: InstanceId(unsigned(row, 3)?),
        })
    })?
    .collect()
}

fn item_cursor(record: &ItemRecord) -> (u32, u32) {
    (record.task, record.item)
}

fn record(row: &Row<'_>) -> Result<RunRecord, Error> {
    let halt: Option<HaltMode> = optional(row, 6)?;
    let cause: Option<HaltCause> = optional(row, 7)?;
    Ok(RunRecord {
        head: RunHead {
            id: RunId(unsigned(row, 0)?),
            name: row.get(1)?,
            owner: row.get(2)?,
            state: rows::state(row, 3)?,
            generation: Generation(row.get(4)?),
            plan: Generation(row.get(5)?),
            halting: halt.zip(cause),
            submitted: Wall(unsigned(row, 8)?),
            begun: Wall(unsigned(row, 9)?),
            origin: optional(row, 11)?,
        },
        submitted_by: optional(row, 12)?,
        changed_at: Wall(unsigned(row, 10)?),
    })
}

fn optional<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<Option<T>, Error> {
    let text = row.text_or_null(column)?;
    text.map(|text| from_json(text, column)).transpose()
}

fn from_json<T: DeserializeOwned>(text: &str, column: usize) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| corrupt_column(column, error))
}

const fn end_word(end: ItemEnd) -> &'static str {
    match end {
        ItemEnd::Done => "done",
        ItemEnd::Failed => "failed",
        ItemEnd::Halted => "halted",
    }
}

fn end_of(word: &str, column: usize) -> Result<ItemEnd, Error> {
    Ok(match word {
        "done" => ItemEnd::Done,
        "failed" => ItemEnd::Failed,
        "halted" => ItemEnd::Halted,
        other => {
            return Err(corrupt_column(
                column,
                format!("`{other}` is not an end of an item"),
            ));
        }
    })
}
