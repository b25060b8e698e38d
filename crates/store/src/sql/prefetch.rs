//! The rows that a group is likely to need, fetched in one round trip.
//!
//! A change set asks for rows one by one. Where each question is a round trip, the answers are fetched before:
//! what facts name, and what the last group suggests. What was not foreseen is fetched when it is asked for.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use baton_core::ledger::RunHead;
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, InstanceId, RunId};

use super::db::{Db, Error, Row as SqlRow, Value};
use super::rows::{self, unsigned};
use super::runs;
use super::specs::SpecWriter;
use super::stored_rows::{COVERING_SPANS, GroupHead, INSTANCES, KNOWN, TOTALS, known_range};
use crate::change_set::{Row, Span, SpecId, split_by_sign};
use crate::facts::FactSubject;
use crate::limits::KNOWN_FETCH_ROWS;
use crate::postgres::session::{FetchedRows, Query, Session};
use crate::view::{Seq, sql_id};

/// Statements of every group, which PostgreSQL's writer plans in advance.
pub(super) const STATEMENTS: &[&str] = &[
    rows::LOCKED_LEADERSHIP,
    TOTALS,
    INSTANCES,
    COVERING_SPANS,
    KNOWN,
];

/// What the facts of a group are about.
#[derive(Default)]
pub(super) struct Subjects {
    instances: HashSet<InstanceId>,
    /// Those that may still be part of a range.
    in_spans: HashSet<InstanceId>,
    /// Those that may end an item of a run.
    ending: Vec<InstanceId>,
    runs: BTreeSet<RunId>,
    /// An id, as it is stored, before which the ranges of known ids are needed.
    known_before: Option<i64>,
}

impl Subjects {
    pub(super) fn of<'f>(facts: impl Iterator<Item = &'f Fact>, specs: &SpecWriter) -> Self {
        let mut subjects = Self::default();
        for fact in facts {
            subjects.add(fact);
        }
        // The items that end now are mostly of the run whose items were submitted last.
        if !subjects.ending.is_empty() {
            subjects.runs.extend(specs.latest_run());
        }
        subjects
    }

    fn add(&mut self, fact: &Fact) {
        match FactSubject::of(fact) {
            FactSubject::Instance(id) => {
                // Only what has left its range can go on.
                let continues = matches!(
                    fact,
                    Fact::AttemptConfirmed { .. } | Fact::AttemptEnded { .. }
                );
                if !continues {
                    self.in_spans.insert(id);
                }
                if matches!(
                    fact,
                    Fact::AttemptEnded { .. } | Fact::InstancesHalted { .. }
                ) {
                    self.ending.push(id);
                }
                self.instances.insert(id);
            }
            FactSubject::Submission(spec) => {
                self.runs.extend(spec.part.map(|part| part.run));
                if self.known_before.is_none()
                    && let Some((first, last)) = fact.instances()
                {
                    // Its neighbours are asked for, too. Later ids are mostly behind it.
                    let (from, to) = (first.0.saturating_sub(1), last.0.saturating_add(1));
                    let mut parts = split_by_sign(InstanceId(from), InstanceId(to));
                    self.known_before = parts.next().map(|(_, to)| sql_id(to));
                }
            }
            FactSubject::Run(run, _) => {
                self.runs.insert(run);
            }
            FactSubject::Range(..) | FactSubject::Other => {}
        }
    }
}

/// Rows that were fetched.
#[derive(Default)]
pub(super) struct Prefetched {
    /// The rows of instances, or that one has none.
    pub(super) rows: HashMap<InstanceId, Option<Row>>,
    /// The ranges of instances, by their last ids as they are stored.
    spans: BTreeMap<i64, Span>,
    /// The instances whose ranges were fetched.
    in_spans: HashSet<InstanceId>,
    /// Runs, or that one does not exist.
    pub(super) runs: HashMap<RunId, Option<RunHead>>,
    pub(super) last_run: Option<RunId>,
    pub(super) known: Option<FetchedKnown>,
}

/// The rows of [`KNOWN`] for one id.
pub(super) struct FetchedKnown {
    pub(super) before: i64,
    pub(super) ranges: Vec<(i64, i64)>,
}

impl Prefetched {
    pub(super) fn fetch(
        session: &Session<'_>,
        subjects: Subjects,
        db: &Db<'_>,
        specs: &mut SpecWriter,
    ) -> Result<(GroupHead, Self), Error> {
        let signed = |id: &InstanceId| sql_id(*id);
        let ids: Vec<i64> = subjects.instances.iter().map(signed).collect();
        let in_spans: Vec<i64> = subjects.in_spans.iter().map(signed).collect();
        let runs: Vec<i64> = subjects.runs.iter().map(|it| it.0.cast_signed()).collect();
        let before = subjects.known_before.unwrap_or_default();
        let known = [Value::Integer(before), Value::Integer(KNOWN_FETCH_ROWS)];
        let mut queries = vec![Query::Plain(rows::LOCKED_LEADERSHIP), Query::Plain(TOTALS)];
        let mut more = |query, is_wanted: bool| {
            if is_wanted {
                queries.push(query);
            }
            is_wanted
        };
        let has_rows = more(Query::OfIds(INSTANCES, &ids), !ids.is_empty());
        let has_spans = more(
            Query::OfIds(COVERING_SPANS, &in_spans),
            !in_spans.is_empty(),
        );
        let has_runs = more(Query::OfIds(runs::SELECT_MANY, &runs), !runs.is_empty());
        let has_known = more(Query::Of(KNOWN, &known), subjects.known_before.is_some());
        let mut found = session.query_together(&queries)?.into_iter();
        let mut next = || found.next().ok_or(Error::NoRow);

        let epoch = Epoch(one(next()?, |row| unsigned(row, 0))?);
        let (last_seq, last_run) = one(next()?, |row| Ok((unsigned(row, 0)?, unsigned(row, 1)?)))?;
        specs.begin(db, epoch)?;
        let mut fetched = Self {
            rows: subjects
                .instances
                .into_iter()
                .map(|id| (id, None))
                .collect(),
            in_spans: subjects.in_spans,
            last_run: Some(RunId(last_run)),
            ..Self::default()
        };
        if has_rows {
            let no_spec = Arc::default();
            each(next()?, |row| {
                let row = rows::instance_row(row, Arc::clone(&no_spec))?;
                fetched.rows.insert(row.instance.id, Some(row));
                Ok(())
            })?;
        }
        if has_spans {
            each(next()?, |row| {
                let span = rows::span(row)?;
                fetched.spans.insert(sql_id(span.last), span);
                Ok(())
            })?;
        }
        if has_runs {
            fetched.add_runs(next()?, subjects.runs)?;
        }
        if has_known {
            let mut ranges = Vec::new();
            each(next()?, |row| {
                ranges.push(known_range(row)?);
                Ok(())
            })?;
            fetched.known = Some(FetchedKnown { before, ranges });
        }
        fetched.fetch_claims(session, specs)?;
        fetched.fetch_runs_of(session, specs, &subjects.ending)?;
        let head = GroupHead {
            epoch,
            last_seq: Seq(last_seq),
        };
        Ok((head, fetched))
    }

    /// The range of an instance; `None` if it was not fetched.
    pub(super) fn span(&self, id: InstanceId) -> Option<Option<&Span>> {
        self.in_spans.contains(&id).then(|| {
            let next = self.spans.range(sql_id(id)..).next();
            next.map(|(_, span)| span)
                .filter(|span| sql_id(span.first) <= sql_id(id))
        })
    }

    fn spec(&self, id: InstanceId) -> Option<SpecId> {
        match self.rows.get(&id).and_then(Option::as_ref) {
            Some(row) => Some(row.lifecycle.spec),
            None => Some(self.span(id)??.lifecycle.spec),
        }
    }

    fn fetch_claims(&self, session: &Session<'_>, specs: &mut SpecWriter) -> Result<(), Error> {
        let of_rows = self.rows.values().flatten().map(|it| it.lifecycle.spec);
        let of_spans = self.spans.values().map(|it| it.lifecycle.spec);
        specs.fetch_claims(session, of_rows.chain(of_spans))
    }

    /// Fetches the runs of instances that may end an item, as far as they were not foreseen.
    fn fetch_runs_of(
        &mut self,
        session: &Session<'_>,
        specs: &SpecWriter,
        ending: &[InstanceId],
    ) -> Result<(), Error> {
        let parts = ending.iter().filter_map(|id| {
            let claim = specs.cached_claim(self.spec(*id)?)?;
            Some(claim.part?.run)
        });
        let missing: BTreeSet<RunId> = parts.filter(|it| !self.runs.contains_key(it)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let ids: Vec<i64> = missing.iter().map(|it| it.0.cast_signed()).collect();
        let found = session.query_together(&[Query::OfIds(runs::SELECT_MANY, &ids)])?;
        for rows in found {
            self.add_runs(rows, missing.iter().copied())?;
        }
        Ok(())
    }

    fn add_runs(
        &mut self,
        rows: FetchedRows<'_>,
        wanted: impl IntoIterator<Item = RunId>,
    ) -> Result<(), Error> {
        self.runs.extend(wanted.into_iter().map(|run| (run, None)));
        each(rows, |row| {
            let head = runs::head_of(row)?;
            self.runs.insert(head.id, Some(head));
            Ok(())
        })
    }
}

fn each(
    mut rows: FetchedRows<'_>,
    mut read: impl FnMut(&SqlRow<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    while let Some(row) = rows.next()? {
        read(&SqlRow::Postgres(row))?;
    }
    Ok(())
}

fn one<T>(
    mut rows: FetchedRows<'_>,
    read: impl FnOnce(&SqlRow<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let row = rows.next()?.ok_or(Error::NoRow)?;
    read(&SqlRow::Postgres(row))
}
