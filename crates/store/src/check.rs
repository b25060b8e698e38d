//! Checks a store against itself: what its tables say about the same things must agree.

use std::collections::BTreeMap;

use baton_core::ledger::Ledger;
use baton_model::ids::Epoch;

use crate::facts::FactQuery;
use crate::sql::db::{Db, Error};
use crate::sql::rows::unsigned;
use crate::sql::{self, on_snapshot};
use crate::view::Seq;
use crate::{Store, StoreError, Views};

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    pub instances: u64,
    pub facts: u64,
    /// Whether the whole history was there, so that the state was computed from it again.
    pub replayed: bool,
    /// What contradicts what, one sentence each; none in a sound store.
    pub contradictions: Vec<String>,
}

/// A rule: the statement finds what breaks it, as two texts at most.
struct Rule {
    sql: &'static str,
    /// What is wrong, with `{}` for the first text.
    says: &'static str,
}

/// Rows that contradict other rows. Each statement returns some examples.
const RULES: &[Rule] = &[
    Rule {
        sql: "SELECT CAST(i.id AS TEXT) FROM instance AS i LEFT JOIN spec AS s ON s.id = i.spec \
              WHERE s.id IS NULL LIMIT 5",
        says: "instance i{} has no spec",
    },
    Rule {
        sql: "SELECT CAST(i.last AS TEXT) FROM span AS i LEFT JOIN spec AS s ON s.id = i.spec \
              WHERE s.id IS NULL LIMIT 5",
        says: "the range that ends with i{} has no spec",
    },
    Rule {
        sql: "SELECT CAST(s.id AS TEXT) FROM spec AS s WHERE s.uses <> \
              (SELECT count(*) FROM instance AS i WHERE i.spec = s.id) + \
              (SELECT coalesce(CAST(sum(r.last - r.first + 1) AS BIGINT), 0) FROM span AS r \
              WHERE r.spec = s.id) LIMIT 5",
        says: "spec {} is not used as often as it counts",
    },
    Rule {
        sql: "SELECT CAST(i.id AS TEXT) FROM instance AS i WHERE NOT EXISTS \
              (SELECT 1 FROM known AS k WHERE i.id BETWEEN k.first AND k.last) LIMIT 5",
        says: "the id i{} is used and not known",
    },
    Rule {
        sql: "SELECT CAST(i.id AS TEXT) FROM instance AS i JOIN span AS s \
              ON i.id BETWEEN s.first AND s.last LIMIT 5",
        says: "instance i{} has a row of its own and is in a range",
    },
    Rule {
        sql: "SELECT CAST(k.first AS TEXT) FROM known AS k JOIN known AS other \
              ON other.first > k.first AND other.first <= k.last LIMIT 5",
        says: "the known ids from i{} overlap others",
    },
    Rule {
        sql: "SELECT CAST(i.id AS TEXT) FROM instance AS i WHERE i.changed_seq > \
              (SELECT last_seq FROM totals) LIMIT 5",
        says: "instance i{} was changed by a fact that was never recorded",
    },
    Rule {
        sql: "SELECT CAST(i.id AS TEXT) FROM instance AS i WHERE NOT EXISTS (SELECT 1 FROM history AS h \
              WHERE h.instance = i.id AND h.seq = i.changed_seq) AND NOT EXISTS (SELECT 1 FROM wide AS w \
              WHERE w.seq = i.changed_seq) LIMIT 5",
        says: "the last fact about instance i{} is missing from the history",
    },
    Rule {
        sql: "SELECT CAST(h.seq AS TEXT) FROM history AS h WHERE h.seq > \
              (SELECT last_seq FROM totals) LIMIT 5",
        says: "fact {} lies beyond the last one",
    },
    Rule {
        sql: "SELECT CAST(r.id AS TEXT) FROM run AS r WHERE NOT EXISTS \
              (SELECT 1 FROM plan AS p WHERE p.run = r.id AND p.generation = r.plan) LIMIT 5",
        says: "run r{} has no plan",
    },
    Rule {
        sql: "SELECT CAST(l.epoch AS TEXT) FROM leader AS l WHERE l.epoch <> 0 \
              AND NOT EXISTS (SELECT 1 FROM term AS t WHERE t.epoch = l.epoch)",
        says: "the term {} that is in force is not among the terms",
    },
];

/// Checks a store that no scheduler writes meanwhile.
///
/// # Errors
/// If it cannot be read; contradictions are reported, not returned as errors.
pub fn check(store: &dyn Store) -> Result<CheckReport, StoreError> {
    let mut report = CheckReport::default();
    let pruned = on_snapshot(store, |db| {
        for rule in RULES {
            let mut found = db.prepare_cached(rule.sql)?;
            for example in found.query_map((), |row| row.get::<String>(0))? {
                report
                    .contradictions
                    .push(rule.says.replace("{}", &example?));
            }
        }
        tally(db, &mut report)?;
        let sql = "SELECT (SELECT count(*) FROM history) + (SELECT count(*) FROM wide), pruned_seq \
                   FROM totals";
        let pruned;
        (report.facts, pruned) = db.query_row(sql, (), |row| {
            Ok((unsigned(row, 0)?, Seq(unsigned(row, 1)?)))
        })?;
        Ok(pruned)
    })?;
    let epoch = store.read_row()?.epoch;
    let restored = restore(store, epoch)?;
    match restored {
        Err(error) => report.contradictions.push(error),
        Ok(Some(restored)) if pruned == Seq(0) => replay(store, &restored, &mut report)?,
        Ok(_) => {}
    }
    Ok(report)
}

/// Compares the counted states with the rows.
fn tally(db: &Db<'_>, report: &mut CheckReport) -> Result<(), Error> {
    let rows = |sql: &str| {
        let mut found = db.prepare_cached(sql)?;
        let found = found.query_map((), |row| Ok((row.get(0)?, unsigned(row, 1)?)))?;
        found.collect::<Result<BTreeMap<String, u64>, Error>>()
    };
    let counted = rows("SELECT state, instances FROM tally WHERE instances <> 0")?;
    let mut actual = rows("SELECT state, count(*) FROM instance GROUP BY state")?;
    let ranges =
        rows("SELECT state, CAST(sum(last - first + 1) AS BIGINT) FROM span GROUP BY state")?;
    for (state, instances) in ranges {
        *actual.entry(state).or_default() += instances;
    }
    report.instances = actual.values().sum();
    for state in counted.keys().chain(actual.keys()) {
        let of = |map: &BTreeMap<String, u64>| map.get(state).copied().unwrap_or_default();
        let sentence = format!(
            "{} instances are {state}, and {} are counted",
            of(&actual),
            of(&counted)
        );
        if of(&counted) != of(&actual) && !report.contradictions.contains(&sentence) {
            report.contradictions.push(sentence);
        }
    }
    Ok(())
}

/// The ledger that a leader would start with; the sentence that says why it cannot.
fn restore(store: &dyn Views, epoch: Epoch) -> Result<Result<Option<Ledger>, String>, StoreError> {
    on_snapshot(store, |db| {
        let restored = sql::restore(db, epoch)?.transpose();
        Ok(restored.map_err(|error| error.to_string()))
    })
}

/// Computes the state from the whole history again, and compares it with the rows.
fn replay(
    store: &dyn Views,
    restored: &Ledger,
    report: &mut CheckReport,
) -> Result<(), StoreError> {
    let mut ledger = Ledger::default();
    let mut query = FactQuery::default();
    loop {
        let page = store.facts(&query)?;
        for entry in &page.items {
            if let Err(error) = ledger.apply(&entry.fact) {
                let seq = entry.seq.0;
                let sentence = format!("fact {seq} contradicts those before it: {error}");
                report.contradictions.push(sentence);
                return Ok(());
            }
        }
        if page.scanned_to == query.after {
            break;
        }
        query.after = page.scanned_to;
    }
    ledger.drop_all_ended();
    ledger.runs_mut().drop_all_ended();
    ledger.forget_transient();
    ledger.identify(restored.identity().clone());
    report.replayed = true;
    if ledger != *restored {
        let sentence = "the rows differ from what the history adds up to".to_owned();
        report.contradictions.push(sentence);
    }
    Ok(())
}
