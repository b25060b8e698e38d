//! Contents of the memory store, and how they change.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use baton_core::leader::Row as Leadership;
use baton_core::ledger::{IdSet, Ledger, LedgerParts, Range, RunHead};
use baton_core::step::{Batch, Receipt};
use baton_model::fact::Fact;
use baton_model::ids::{
    Epoch, Incarnation, IncarnationNo, InstanceId, Lineage, RunId, TaskNo, WorkerName,
};
use baton_model::library::TaskName;
use baton_model::outcome::AttemptEnd;
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};
use baton_model::workflow::ItemEnd;

use crate::change_set::{
    self, ChangeSet, InstanceChange, KnownRanges, SpanChange, StoredRows, StoredTask,
};
use crate::limits::RUN_ERRORS_MAX;
use crate::usage::{Claim, Hour, UsageTotals};
use crate::view::{
    self, Counts, Cursor, ErrorCount, ItemQuery, ItemRecord, Page, Query, Record, RecordedFact,
    Scan, Seq, TickQuery,
};
use crate::{StoreError, body};

use super::library::Library;
use super::runs::Runs;

/// This backend's handle of a spec.
type Spec = Arc<InstanceSpec>;
pub(super) type HistoryEntry = change_set::HistoryEntry<Spec>;
pub(super) type Row = change_set::Row<Spec>;
pub(super) type Span = change_set::Span<Spec>;

/// All stored data.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) row: Leadership,
    broken_term: Option<Epoch>,
    pub(super) last: Seq,
    lease_time: Millis,
    known: IdSet,
    condemned: BTreeMap<Lineage, IncarnationNo>,
    drained: BTreeSet<WorkerName>,
    pub(super) rows: BTreeMap<InstanceId, Row>,
    /// By their last id.
    pub(super) spans: BTreeMap<InstanceId, Span>,
    /// Index of rows and spans by state and cursor; the value is the id that they are stored under.
    pub(super) positions: BTreeMap<(UniversalState, Cursor), InstanceId>,
    pub(super) timelines: BTreeMap<InstanceId, Vec<HistoryEntry>>,
    /// Facts about ranges of instances, and about none.
    pub(super) wide: BTreeMap<Seq, HistoryEntry>,
    pub(super) library: Library,
    pub(super) runs: Runs,
    /// The instance whose timeline holds a fact, for facts about exactly one.
    pub(super) instance_of_fact: BTreeMap<Seq, InstanceId>,
    pub(super) pruned: Seq,
    pub(super) usage: BTreeMap<(Hour, Arc<str>), UsageTotals>,
    pub(super) counts: Counts,
}

impl Contents {
    pub(super) fn check(&self, epoch: Epoch) -> Result<(), StoreError> {
        if self.row.epoch != epoch {
            Err(StoreError::Overtaken)
        } else if self.broken_term == Some(epoch) {
            Err(StoreError::TermBroken)
        } else {
            Ok(())
        }
    }

    /// Counts a range of instances by state.
    pub(super) fn tally(
        &self,
        first: InstanceId,
        last: InstanceId,
    ) -> BTreeMap<UniversalState, u64> {
        let mut tally = BTreeMap::new();
        for row in self.rows.range(first..=last).map(|(_, row)| row) {
            *tally.entry(row.instance.state).or_default() += 1;
        }
        let spans = self.spans.range(first..);
        for (end, span) in spans.take_while(|(_, span)| span.first <= last) {
            let (from, to) = (span.first.max(first), (*end).min(last));
            *tally.entry(span.state).or_default() += to.0 - from.0 + 1;
        }
        tally
    }

    /// Restores the ledger of a new leader.
    pub(super) fn ledger(&self) -> Result<Ledger, StoreError> {
        let living = self.rows.values().map(|row| &row.instance);
        let living = living.filter(|instance| !instance.state.is_terminal());
        let waiting = self.spans.values().filter(|span| is_queued(span));
        let (runs, ended_runs, last_run) = self.runs.all();
        let mut ledger = Ledger::restore(LedgerParts {
            instances: living.cloned().collect(),
            waiting: waiting
                .map(|span| Range {
                    first: span.first,
                    last: span.last,
                    spec: Arc::clone(&span.lifecycle.spec),
                })
                .collect(),
            known: self.known.ranges().collect(),
            condemned: self.condemned_incarnations().collect(),
            drained: self.drained.iter().cloned().collect(),
            lease_time: self.lease_time,
            tasks: self.library.tasks(),
            keys: self.library.keys(),
            runs,
            ended_runs,
            last_run,
        })?;
        ledger.settle();
        Ok(ledger)
    }

    pub(super) fn run_items(&self, query: &ItemQuery) -> Page<ItemRecord, (u32, u32)> {
        let mut page = self.runs.items(query);
        for item in &mut page.items {
            item.record = self.record(item.instance);
        }
        page
    }

    pub(super) fn run_errors(&self, run: RunId) -> Vec<ErrorCount> {
        type Kind = (u32, ItemEnd, Option<AttemptEnd>);
        let mut groups: BTreeMap<Kind, (u64, InstanceId)> = BTreeMap::new();
        let head = self.runs.head(run);
        let halted = head.is_some_and(|head| view::failed_without_halt(&head));
        let mut query = ItemQuery {
            run,
            task: None,
            end: (!halted).then_some(ItemEnd::Failed),
            after: None,
            limit: usize::MAX,
        };
        loop {
            let page = self.run_items(&query);
            for item in page.items {
                let end = match item.end {
                    ItemEnd::Done => continue,
                    ItemEnd::Halted => None,
                    ItemEnd::Failed => item.record.and_then(|it| it.last).map(|last| last.end),
                };
                let kind = (item.task, item.end, end);
                let group = groups.entry(kind).or_insert((0, item.instance));
                *group = (group.0 + 1, group.1.min(item.instance));
            }
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        let groups = groups.into_iter();
        let mut found: Vec<_> = groups
            .map(|((task, item, end), (count, example))| ErrorCount {
                task,
                item,
                end,
                count,
                example,
            })
            .collect();
        found.sort_by_key(|it| (std::cmp::Reverse(it.count), it.task, it.example));
        found.truncate(RUN_ERRORS_MAX);
        found
    }

    fn condemned_incarnations(&self) -> impl Iterator<Item = Incarnation> + '_ {
        self.condemned.iter().map(|(lineage, life)| Incarnation {
            lineage: *lineage,
            number: *life,
        })
    }

    pub(super) fn commit(&mut self, batch: Batch<Fact>, wall: Wall) -> Result<Receipt, StoreError> {
        let epoch = batch.epoch();
        self.check(epoch)?;
        let mut change_set = ChangeSet::new(Seq(self.last.0 + 1));
        for fact in batch.facts() {
            if let Err(error) = change_set.apply(self, epoch, wall, fact) {
                self.broken_term = Some(epoch);
                return Err(error);
            }
        }
        self.write(change_set);
        Ok(batch.durable())
    }

    fn write(&mut self, change_set: ChangeSet<Spec>) {
        self.last = Seq(change_set.next().0 - 1);
        self.lease_time = change_set.lease_time().unwrap_or(self.lease_time);
        let (new, gone) = change_set.condemned();
        self.condemned
            .extend(new.into_iter().map(|it| (it.lineage, it.number)));
        gone.iter().for_each(|lineage| {
            self.condemned.remove(lineage);
        });
        for (worker, drained) in change_set.drained() {
            if *drained {
                self.drained.insert(worker.clone());
            } else {
                self.drained.remove(worker);
            }
        }
        self.library.write(&change_set);
        self.runs.write(&change_set);
        for (first, last) in change_set.known().1 {
            self.known.insert(first, last);
        }
        for (state, by) in change_set.tally() {
            let count = self.counts.states.entry(state).or_default();
            *count = count.saturating_add_signed(by);
        }
        self.counts.history_bytes += change_set.bytes();
        for change in change_set.span_changes() {
            self.write_span(&change);
        }
        for change in change_set.changes() {
            self.write_row(&change);
        }
        for (place, used) in change_set.usage() {
            self.usage.entry(place.clone()).or_default().add(used);
        }
        for entry in change_set.into_entries() {
            match entry.single_instance() {
                Some(id) => {
                    self.instance_of_fact.insert(entry.seq, id);
                    self.timelines.entry(id).or_default().push(entry);
                }
                None => drop(self.wide.insert(entry.seq, entry)),
            }
        }
    }

    pub(super) fn write_span(&mut self, change: &SpanChange<'_, Spec>) {
        if let Some(before) = change.before {
            self.spans.remove(&before.last);
            self.positions.remove(&span_position(before));
        }
        if let Some(after) = change.after {
            self.positions.insert(span_position(after), after.last);
            self.spans.insert(after.last, after.clone());
        }
    }

    fn write_row(&mut self, change: &InstanceChange<'_, Spec>) {
        let mut row = Row {
            instance: change.instance.clone(),
            lifecycle: change.lifecycle.clone(),
            last: change.last.cloned(),
            leased_at: change.leased_at,
        };
        row.instance.spec = Arc::clone(&row.lifecycle.spec);
        let id = row.instance.id;
        if let Some(old) = self.rows.get(&id) {
            self.positions.remove(&row_position(old));
        }
        self.positions.insert(row_position(&row), id);
        self.rows.insert(id, row);
    }

    /// One instance, also one of a range.
    pub(super) fn record(&self, id: InstanceId) -> Option<Record> {
        let of_span = || {
            let span = self.covering(id)?;
            Some(record_of_span(span, id, None))
        };
        self.rows.get(&id).map(record_of_row).or_else(of_span)
    }

    pub(super) fn covering(&self, id: InstanceId) -> Option<&Span> {
        let (_, span) = self.spans.range(id..).next()?;
        (span.first <= id).then_some(span)
    }

    /// The row or range stored under this id.
    fn record_at(&self, id: InstanceId) -> Option<Record> {
        let of_span = || {
            let span = self.spans.get(&id)?;
            let range = (span.first != span.last).then_some(span.last);
            Some(record_of_span(span, span.first, range))
        };
        self.rows.get(&id).map(record_of_row).or_else(of_span)
    }

    pub(super) fn page(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        let mut scans = Vec::new();
        for state in query.states() {
            let from = query.after.unwrap_or(Cursor(i64::MIN, i64::MIN));
            let positions = self.positions.range((state, from)..);
            let mut scan = Scan::new(query);
            for ((_, place), id) in positions
                .take_while(|((of, _), _)| *of == state)
                .filter(|((_, place), _)| query.after.is_none_or(|after| *place > after))
            {
                let Some(record) = self.record_at(*id) else {
                    continue;
                };
                let matches = view::matches(query, &record.instance.spec);
                let Ok(more) = scan.visit(*place, matches, || Ok::<_, Infallible>(record));
                if !more {
                    break;
                }
            }
            scans.push(scan);
        }
        Ok(view::merge(scans, query))
    }

    pub(super) fn timeline(
        &self,
        id: InstanceId,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Page<RecordedFact, Seq>, StoreError> {
        let limit = view::page_limit(limit);
        let after = after.unwrap_or_default();
        let mut entries = Vec::new();
        if let Some(record) = self.record(id) {
            let own = self.timelines.get(&id).map_or(&[][..], Vec::as_slice);
            let start = own.partition_point(|entry| entry.seq <= after);
            // Facts about a range before this instance was part of it do not concern it.
            let wide = self.wide.range(record.submitted..).map(|(_, entry)| entry);
            let wide = wide.filter(|entry| entry.seq > after && covers(entry, id));
            for entry in own[start..].iter().take(limit + 1) {
                entries.push(recorded_fact(entry)?);
            }
            for entry in wide.take(limit + 1) {
                entries.push(recorded_fact(entry)?);
            }
        }
        entries.sort_unstable_by_key(|entry| entry.seq);
        Ok(Page::from_lookahead(
            entries,
            limit,
            |entry: &RecordedFact| entry.seq,
        ))
    }
}

impl Contents {
    /// Recorded ticks, the latest first.
    pub(super) fn ticks(&self, query: &TickQuery) -> Result<Page<RecordedFact, Seq>, StoreError> {
        let limit = view::page_limit(query.limit);
        let before = query.before.unwrap_or(Seq(u64::MAX));
        let entries = self.wide.range(..before).rev().map(|(_, entry)| entry);
        let entries = entries.filter(|entry| entry.task.is_some());
        let entries = entries.filter(|entry| query.task.is_none() || entry.task == query.task);
        let mut items = Vec::new();
        for entry in entries {
            let entry = recorded_fact(entry)?;
            if matches!(entry.fact, Fact::TickRecorded { .. }) {
                items.push(entry);
            }
            if items.len() > limit {
                break;
            }
        }
        Ok(Page::from_lookahead(
            items,
            limit,
            |entry: &RecordedFact| entry.seq,
        ))
    }
}

impl StoredRows for Contents {
    type Spec = Spec;

    fn add_spec(
        &mut self,
        _seq: Seq,
        spec: &Arc<InstanceSpec>,
        _uses: u64,
    ) -> Result<(Spec, u64), StoreError> {
        let bytes = body::write_spec(spec)?.len() as u64;
        Ok((Arc::clone(spec), bytes))
    }

    fn claim(&mut self, spec: &Spec) -> Result<Arc<Claim>, StoreError> {
        Ok(Arc::new(Claim::of(spec)))
    }

    fn row(&mut self, id: InstanceId) -> Result<Option<Row>, StoreError> {
        Ok(self.rows.get(&id).cloned())
    }

    fn span(&mut self, id: InstanceId) -> Result<Option<Span>, StoreError> {
        Ok(self.covering(id).cloned())
    }

    fn queued_spans(
        &mut self,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<Vec<Span>, StoreError> {
        let spans = self.spans.range(first..).map(|(_, span)| span);
        let spans = spans.take_while(|span| span.first <= last);
        Ok(spans.filter(|span| is_queued(span)).cloned().collect())
    }

    fn queued_rows(&mut self, first: InstanceId, last: InstanceId) -> Result<Vec<Row>, StoreError> {
        let rows = self.rows.range(first..=last).map(|(_, row)| row);
        let queued = rows.filter(|row| row.instance.state == UniversalState::Queued);
        Ok(queued.cloned().collect())
    }

    fn known_ranges(
        &mut self,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<KnownRanges, StoreError> {
        let mut ranges = Vec::new();
        let mut to = last;
        while let Some((start, end)) = self.known.overlap(first, to) {
            ranges.push((start, end));
            if start <= first {
                break;
            }
            to = InstanceId(start.0 - 1);
        }
        Ok(KnownRanges {
            ranges,
            clear_to: last,
        })
    }

    fn condemned(&mut self) -> Result<Vec<Incarnation>, StoreError> {
        Ok(self.condemned_incarnations().collect())
    }

    fn task(&mut self, number: TaskNo) -> Result<Option<StoredTask>, StoreError> {
        Ok(self.library.stored(number))
    }

    fn task_named(&mut self, name: &TaskName) -> Result<Option<TaskNo>, StoreError> {
        Ok(self.library.number_of(name))
    }

    fn run(&mut self, run: RunId) -> Result<Option<RunHead>, StoreError> {
        Ok(self.runs.head(run))
    }

    fn last_run(&mut self) -> Result<RunId, StoreError> {
        Ok(self.runs.last())
    }
}

fn is_queued(span: &Span) -> bool {
    span.state == UniversalState::Queued
}

pub(super) fn covers(entry: &HistoryEntry, id: InstanceId) -> bool {
    entry
        .instances
        .is_some_and(|(first, last)| first <= id && id <= last)
}

pub(super) fn row_position(row: &Row) -> (UniversalState, Cursor) {
    let instance = &row.instance;
    let place = Cursor::new(instance.state, row.lifecycle.changed, instance.id);
    (instance.state, place)
}

pub(super) fn span_position(span: &Span) -> (UniversalState, Cursor) {
    let place = Cursor::new(span.state, span.lifecycle.changed, span.last);
    (span.state, place)
}

fn record_of_row(row: &Row) -> Record {
    Record {
        instance: row.instance.clone(),
        span: None,
        submitted_at: row.lifecycle.submitted_at,
        submitted: row.lifecycle.submitted,
        changed_at: row.lifecycle.changed_at,
        changed: row.lifecycle.changed,
        last: row.last.clone(),
    }
}

fn record_of_span(span: &Span, id: InstanceId, range: Option<InstanceId>) -> Record {
    let lifecycle = &span.lifecycle;
    Record {
        instance: change_set::unleased_instance(id, Arc::clone(&lifecycle.spec), span.state),
        span: range,
        submitted_at: lifecycle.submitted_at,
        submitted: lifecycle.submitted,
        changed_at: lifecycle.changed_at,
        changed: lifecycle.changed,
        last: None,
    }
}

pub(super) fn recorded_fact(entry: &HistoryEntry) -> Result<RecordedFact, StoreError> {
    Ok(RecordedFact {
        seq: entry.seq,
        at: entry.at,
        epoch: entry.epoch,
        fact: body::read(&entry.body, entry.spec.clone())
            .map_err(|error| StoreError::Corrupt(format!("fact {}: {error}", entry.seq.0)))?,
    })
}
