//! Rows of notifications.

use std::collections::BTreeMap;

use baton_model::ids::InstanceId;
use baton_model::notify::{Delivery, DeliveryState, Notice};
use baton_model::state::UniversalState;
use baton_model::time::Wall;

use super::db::{Db, Error, OptionalRow as _, Row, corrupt_column, params};
use super::rows::{self, to_json, unsigned};
use super::{followers, read};
use crate::followers::FollowerName;
use crate::limits::NOTICES_MAX;
use crate::notices::{
    DeliveryTally, DueDeliveries, NoticeBatch, NoticePosition, NoticeQuery, NoticeRecord,
};
use crate::view::{Page, Seq, page_limit};

/// The columns of a delivery, in the order in which [`delivery`] reads them.
macro_rules! deliveries {
    ($($rest:tt)+) => {
        concat!(
            "SELECT d.channel, d.state, d.attempts, d.next_ms, d.changed_ms, d.error, n.id, n.body \
             FROM delivery AS d JOIN notice AS n ON n.id = d.notice ",
            $($rest)+
        )
    };
}

/// The first waiting delivery of each series of a channel.
macro_rules! heads {
    ($rest:literal) => {
        concat!(
            "WHERE d.channel = ?1 AND d.state = 'waiting' AND d.notice = (SELECT min(e.notice) \
             FROM delivery AS e WHERE e.channel = d.channel AND e.series = d.series AND \
             e.state = 'waiting') ",
            $rest
        )
    };
}

pub(super) fn write(db: &Db<'_>, batch: &NoticeBatch) -> Result<(), Error> {
    if batch.forgets {
        followers::record(db, FollowerName::Notifications, None)?;
        db.execute("DELETE FROM notice_state", ())?;
    }
    if batch.position.is_some() {
        followers::record(db, FollowerName::Notifications, batch.position)?;
    }
    for (name, body) in &batch.rows {
        match body {
            Some(body) => db.execute(
                "INSERT INTO notice_state (name, body) VALUES (?1, ?2) \
                 ON CONFLICT (name) DO UPDATE SET body = excluded.body",
                params![name, body],
            )?,
            None => db.execute("DELETE FROM notice_state WHERE name = ?1", [name])?,
        };
    }
    insert(db, &batch.notices)?;
    for (notice, it) in &batch.deliveries {
        db.execute(
            "UPDATE delivery SET state = ?3, attempts = ?4, next_ms = ?5, changed_ms = ?6, \
             error = ?7 WHERE notice = ?1 AND channel = ?2",
            params![
                notice.cast_signed(),
                it.channel,
                it.state.word(),
                it.attempts,
                it.next_at.map_or(0, signed),
                signed(it.changed_at),
                it.error,
            ],
        )?;
    }
    Ok(())
}

fn insert(db: &Db<'_>, notices: &[(Notice, Vec<Delivery>)]) -> Result<(), Error> {
    if notices.is_empty() {
        return Ok(());
    }
    let last = "SELECT coalesce(max(id), 0) FROM notice";
    let mut last: i64 = db.query_row(last, (), |row| row.get(0))?;
    for (notice, deliveries) in notices {
        let is_new = db.execute(
            "INSERT INTO notice (id, name, kind, owner, at_ms, body) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (name) DO NOTHING",
            params![
                last + 1,
                notice.key,
                notice.kind.word(),
                notice.owner,
                signed(notice.at),
                to_json(notice)?,
            ],
        )?;
        if is_new == 0 {
            continue;
        }
        last += 1;
        for it in deliveries {
            db.execute(
                "INSERT INTO delivery (notice, channel, series, state, attempts, next_ms, \
                 changed_ms, error) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    last,
                    it.channel,
                    notice.series,
                    it.state.word(),
                    it.attempts,
                    it.next_at.map_or(0, signed),
                    signed(it.changed_at),
                    it.error,
                ],
            )?;
        }
    }
    // What still waits is kept: the rate of a channel and the time after which it is given up bound it.
    let cut = last.saturating_sub(i64::try_from(NOTICES_MAX).unwrap_or(i64::MAX));
    db.execute(
        "DELETE FROM notice WHERE id <= ?1 AND NOT EXISTS (SELECT 1 FROM delivery AS d \
         WHERE d.notice = notice.id AND d.state = 'waiting')",
        [cut],
    )?;
    db.execute(
        "DELETE FROM delivery WHERE notice <= ?1 AND NOT EXISTS (SELECT 1 FROM notice AS n \
         WHERE n.id = delivery.notice)",
        [cut],
    )?;
    Ok(())
}

/// Reads the position of the follower, with its rows.
pub(super) fn position(db: &Db<'_>) -> Result<NoticePosition, Error> {
    let seq = followers::position(db, FollowerName::Notifications)?;
    let mut rows = db.prepare_cached("SELECT name, body FROM notice_state")?;
    let rows = rows.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let rows = rows.collect::<Result<BTreeMap<String, String>, _>>()?;
    Ok(NoticePosition { seq, rows })
}

/// One page, the latest first.
pub(super) fn page(db: &Db<'_>, query: &NoticeQuery) -> Result<Page<NoticeRecord, u64>, Error> {
    let limit = page_limit(query.limit);
    let before = query
        .before
        .map_or(i64::MAX, |id| i64::try_from(id).unwrap_or(i64::MAX));
    let mut statement = db.prepare_cached(
        "SELECT n.id, n.body FROM notice AS n WHERE n.id < ?1 \
         AND (?2 IS NULL OR n.owner = ?2) AND (?3 IS NULL OR n.kind = ?3) \
         AND ((?4 IS NULL AND ?5 IS NULL) OR EXISTS (SELECT 1 FROM delivery AS d \
         WHERE d.notice = n.id AND (?4 IS NULL OR d.channel = ?4) AND (?5 IS NULL OR d.state = ?5))) \
         ORDER BY n.id DESC LIMIT ?6",
    )?;
    let values = params![
        before,
        query.owner,
        query.kind.map(|kind| kind.word()),
        query.channel,
        query.state.map(DeliveryState::word),
        limit as i64 + 1,
    ];
    let found = statement.query_map(values, |row| Ok((unsigned(row, 0)?, parsed(row, 1)?)))?;
    let found = found.collect::<Result<Vec<(u64, Notice)>, _>>()?;
    let mut records = Vec::with_capacity(found.len());
    for (id, notice) in found {
        let mut statement =
            db.prepare_cached(deliveries!("WHERE d.notice = ?1 ORDER BY d.channel"))?;
        let all = statement.query_map([id.cast_signed()], delivery)?;
        records.push(NoticeRecord {
            id,
            notice,
            deliveries: all.collect::<Result<_, _>>()?,
        });
    }
    Ok(Page::from_lookahead(records, limit, |it| it.id))
}

/// The deliveries of a channel that are due.
pub(super) fn due(
    db: &Db<'_>,
    channel: &str,
    now: Wall,
    limit: usize,
) -> Result<DueDeliveries, Error> {
    let mut statement = db.prepare_cached(deliveries!(heads!(
        "AND d.next_ms <= ?2 ORDER BY d.notice LIMIT ?3"
    )))?;
    let values = params![channel, signed(now), limit as i64];
    let found = statement.query_map(values, |row| {
        Ok(NoticeRecord {
            deliveries: vec![delivery(row)?],
            id: unsigned(row, 6)?,
            notice: parsed(row, 7)?,
        })
    })?;
    let due = found.collect::<Result<_, _>>()?;
    let next_at = db
        .prepare_cached(deliveries!(heads!(
            "AND d.next_ms > ?2 ORDER BY d.next_ms LIMIT 1"
        )))?
        .query_row(params![channel, signed(now)], |row| {
            Ok(Wall(unsigned(row, 3)?))
        })
        .optional()?;
    Ok(DueDeliveries { due, next_at })
}

/// Counts deliveries by channel and state.
pub(super) fn tallies(db: &Db<'_>) -> Result<Vec<DeliveryTally>, Error> {
    let mut statement = db.prepare_cached(
        "SELECT d.channel, d.state, count(*), min(n.at_ms) FROM delivery AS d \
         JOIN notice AS n ON n.id = d.notice GROUP BY d.channel, d.state \
         ORDER BY d.channel, d.state",
    )?;
    let found = statement.query_map((), |row| {
        Ok(DeliveryTally {
            channel: row.get(0)?,
            state: state(row, 1)?,
            count: unsigned(row, 2)?,
            oldest: Wall(unsigned(row, 3)?),
        })
    })?;
    found.collect()
}

/// Number of instances of a range that have not ended, and the last fact that this knows.
pub(super) fn live(db: &Db<'_>, first: InstanceId, last: InstanceId) -> Result<(Seq, u64), Error> {
    let seq = "SELECT last_seq FROM totals";
    let seq = db.query_row(seq, (), |row| Ok(Seq(unsigned(row, 0)?)))?;
    let tally: BTreeMap<UniversalState, u64> = read::tally(db, first, last)?;
    let live = tally.iter().filter(|(state, _)| !state.is_terminal());
    Ok((seq, live.map(|(_, count)| count).sum()))
}

fn delivery(row: &Row<'_>) -> Result<Delivery, Error> {
    let state = state(row, 1)?;
    let next_at = Wall(unsigned(row, 3)?);
    Ok(Delivery {
        channel: row.get(0)?,
        state,
        attempts: row.get(2)?,
        next_at: (state == DeliveryState::Waiting).then_some(next_at),
        changed_at: Wall(unsigned(row, 4)?),
        error: row.get(5)?,
    })
}

fn state(row: &Row<'_>, at: usize) -> Result<DeliveryState, Error> {
    let word = row.text(at)?;
    word.parse()
        .map_err(|_| corrupt_column(at, "not a state of a delivery"))
}

fn parsed(row: &Row<'_>, at: usize) -> Result<Notice, Error> {
    let value = rows::json(row, at)?;
    value.ok_or_else(|| corrupt_column(at, "it is empty"))
}

fn signed(wall: Wall) -> i64 {
    i64::try_from(wall.0).unwrap_or(i64::MAX)
}
