//! Queries, records and cursors of readers.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use baton_core::ledger::{Instance, RunHead};
use baton_model::alarm::{Alarm, AlarmKind};
use baton_model::api::{InstanceFilter, RunFilter};
use baton_model::backfill::Backfill;
use baton_model::fact::Fact;
use baton_model::ids::{
    BackfillId, Epoch, Generation, InstanceId, LeaseId, Revision, RunId, TaskNo, WorkerName,
};
use baton_model::library::{Definition, Execution, Pause, TaskName};
use baton_model::outcome::{AttemptEnd, AttemptStats};
use baton_model::principal::Principal;
use baton_model::progress::Progress;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::workflow::ItemEnd;

use crate::limits::{ITEMS_PAGE_BYTES_MAX, PAGE_ITEMS_MAX, PAGE_SCAN_MAX};

/// Sequence number of a fact in the store: from 1, in commit order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

/// A view of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Ready without a lease, by id.
    Bullpen,
    /// Leased, by id.
    Arena,
    /// In a terminal state, the latest end first.
    History,
}

impl View {
    /// The states of the instances in the view. Exactly those in the arena have an open lease.
    #[must_use]
    pub const fn states(self) -> &'static [UniversalState] {
        use UniversalState as S;
        match self {
            Self::Bullpen => &[S::Queued],
            Self::Arena => &[S::Launched, S::Running],
            Self::History => &[S::Done, S::Failed, S::Halted, S::Aborted],
        }
    }
}

/// Position in a view: the rank (0 until the instance has ended, then the negated number of its
/// last fact), then the id, as the signed number that the database compares. A cursor is valid only
/// in its own view and order. Its text form is two numbers separated by a dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor(pub i64, pub i64);

impl Cursor {
    /// The cursor of a record in this state, last changed by that fact, whose last id is `last`.
    pub(crate) const fn new(state: UniversalState, changed: Seq, last: InstanceId) -> Self {
        let rank = if state.is_terminal() {
            -changed.0.cast_signed()
        } else {
            0
        };
        Self(rank, sql_id(last))
    }

    /// The instance of the record, or the last one of its range.
    #[must_use]
    pub const fn last(self) -> InstanceId {
        InstanceId(self.1.cast_unsigned())
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let (rank, id) = text.split_once('.').ok_or(BadCursor)?;
        let number = |text: &str| text.parse().map_err(|_| BadCursor);
        Ok(Self(number(rank)?, number(id)?))
    }
}

/// A text that is not a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cursor is two numbers separated by a dot, as returned with an earlier page")]
pub struct BadCursor;

/// Query for a page of instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    pub view: View,
    pub filter: InstanceFilter,
    /// In the opposite order of the view.
    pub reversed: bool,
    /// Only records after this position, in that order.
    pub after: Option<Cursor>,
    /// Maximum number of items; capped at [`PAGE_ITEMS_MAX`].
    pub limit: usize,
}

impl Query {
    /// Query for the first page of a view.
    #[must_use]
    pub fn first(view: View, limit: usize) -> Self {
        Self {
            view,
            filter: InstanceFilter::default(),
            reversed: false,
            after: None,
            limit,
        }
    }

    /// The states of the view that pass the filter.
    pub(crate) fn states(&self) -> impl Iterator<Item = UniversalState> + use<> {
        let wanted = self.filter.state;
        let of_view = self.view.states().iter().copied();
        of_view.filter(move |state| wanted.is_none_or(|wanted| wanted == *state))
    }

    /// True if specs of this owner and name pass the filters.
    pub(crate) fn matches(&self, owner: &str, name: &str) -> bool {
        let is = |wanted: &Option<String>, it| wanted.as_deref().is_none_or(|wanted| wanted == it);
        is(&self.filter.owner, owner) && is(&self.filter.name, name)
    }

    /// True if an instance that has last changed at this time passes the filters.
    pub(crate) fn is_within(&self, changed_at: Wall) -> bool {
        let InstanceFilter { since, until, .. } = &self.filter;
        since.is_none_or(|since| changed_at >= since)
            && until.is_none_or(|until| changed_at < until)
    }

    /// The position of a record in the order of the query. In the opposite order it is that of its
    /// first id: no part of a range that falls apart between two pages comes again after it.
    pub(crate) fn position(&self, record: &Record) -> Cursor {
        let cursor = record.cursor();
        if self.reversed {
            Cursor(cursor.0, sql_id(record.instance.id))
        } else {
            cursor
        }
    }

    /// A key that sorts positions in the order of the query.
    const fn key(&self, position: Cursor) -> Cursor {
        if self.reversed {
            // The complement inverts the order of all numbers, also of the least one.
            Cursor(!position.0, !position.1)
        } else {
            position
        }
    }

    #[must_use]
    pub const fn items_max(&self) -> usize {
        page_limit(self.limit)
    }
}

/// Clamps a requested limit.
pub(crate) const fn page_limit(asked: usize) -> usize {
    if asked == 0 {
        1
    } else if asked > PAGE_ITEMS_MAX {
        PAGE_ITEMS_MAX
    } else {
        asked
    }
}

/// Neighbouring instances in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub first: InstanceId,
    pub last: InstanceId,
    pub state: UniversalState,
}

/// Open alarms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlarmPage {
    /// The oldest.
    pub alarms: Vec<Alarm>,
    /// All of them, by kind.
    pub counts: BTreeMap<AlarmKind, u64>,
}

/// A page of items, and the cursor of the next page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, C = Cursor> {
    /// The items, in order. There may be fewer than requested, or none, before the end: one page
    /// scans a bounded number.
    pub items: Vec<T>,
    /// The cursor of the next page; `None` on the last one.
    pub next: Option<C>,
}

impl<C> Page<ItemRecord, C> {
    /// Fills a page with as many `items` as fit, by number and by bytes of outputs; at least one.
    pub(crate) fn fill<E>(
        items: impl IntoIterator<Item = Result<ItemRecord, E>>,
        limit: usize,
        cursor: impl Fn(&ItemRecord) -> C,
    ) -> Result<Self, E> {
        let (mut found, mut bytes) = (Vec::<ItemRecord>::new(), 0);
        for item in items {
            if found.len() >= limit || bytes >= ITEMS_PAGE_BYTES_MAX {
                let next = found.last().map(cursor);
                return Ok(Self { items: found, next });
            }
            let item = item?;
            bytes += item.outputs.as_deref().map_or(0, str::len);
            found.push(item);
        }
        Ok(Self {
            items: found,
            next: None,
        })
    }
}

impl<T, C> Page<T, C> {
    /// Builds a page from up to `limit + 1` items; the extra one proves that another page follows.
    pub(crate) fn from_lookahead(
        mut items: Vec<T>,
        limit: usize,
        cursor: impl Fn(&T) -> C,
    ) -> Self {
        let more = items.len() > limit;
        items.truncate(limit);
        let last = items.last().map(cursor);
        Self {
            items,
            next: last.filter(|_| more),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastEnd {
    pub lease: LeaseId,
    pub worker: WorkerName,
    pub end: AttemptEnd,
    pub stats: Option<AttemptStats>,
    /// The last lines of its standard error, if it has failed.
    pub stderr_tail: Option<Arc<str>>,
    /// How far it came, in its own words.
    pub progress: Option<Box<Progress>>,
}

/// An instance, or a range of instances without events of their own, with its submission and its
/// last change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The instance, or the first one of a range.
    pub instance: Instance,
    /// The last instance, if this is a range.
    pub span: Option<InstanceId>,
    pub submitted_at: Wall,
    /// Its first fact.
    pub submitted: Seq,
    /// The time of its last fact.
    pub changed_at: Wall,
    /// Its last fact.
    pub changed: Seq,
    /// When its open lease was granted.
    pub leased_at: Option<Wall>,
    /// The last attempt that has ended.
    pub last: Option<LastEnd>,
}

impl Record {
    /// Its position in its view: by id until it has ended, then by its end, the latest first.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        let last = self.span.unwrap_or(self.instance.id);
        Cursor::new(self.instance.state, self.changed, last)
    }
}

/// One fact as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedFact {
    pub seq: Seq,
    pub at: Wall,
    /// The epoch of the leader that recorded it.
    pub epoch: Epoch,
    /// The client that has asked for it, if it is known.
    pub requested_by: Option<Arc<Principal>>,
    pub fact: Fact,
}

/// A task of the library, in one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    pub number: TaskNo,
    pub name: TaskName,
    pub revision: Revision,
    /// True if the task is in the library and this is its current revision.
    pub current: bool,
    /// When this revision was defined.
    pub at: Wall,
    pub definition: Arc<Definition>,
    /// The pause of the task, whatever its revision.
    pub pause: Option<Pause>,
}

/// One revision of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionRecord {
    pub revision: Revision,
    pub at: Wall,
    pub definition: Arc<Definition>,
}

/// Query for a page of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskQuery {
    /// Only tasks of this owner.
    pub owner: Option<String>,
    /// Only tasks after this name.
    pub after: Option<TaskName>,
    /// Maximum number of items; capped at [`PAGE_ITEMS_MAX`].
    pub limit: usize,
}

/// Query for a page of ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickQuery {
    /// Only ticks of this task.
    pub task: Option<TaskNo>,
    /// Only ticks before this fact.
    pub before: Option<Seq>,
    /// Maximum number of items; capped at [`PAGE_ITEMS_MAX`].
    pub limit: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instances by state; states without instances may be missing.
    pub states: BTreeMap<UniversalState, u64>,
    /// Bytes of recorded facts, each with its spec. On disk, shared specs take less and everything
    /// else about twice as much.
    pub history_bytes: u64,
}

impl Counts {
    /// Instances in a terminal state.
    #[must_use]
    pub fn terminal(&self) -> u64 {
        self.states
            .iter()
            .filter_map(|(state, count)| state.is_terminal().then_some(count))
            .sum()
    }
}

/// Bounded scan of one source of a page, in the order of the query.
pub(crate) struct Scan<'a> {
    query: &'a Query,
    found: Vec<Record>,
    visited: usize,
    stopped: Option<Cursor>,
}

impl<'a> Scan<'a> {
    pub(crate) const fn new(query: &'a Query) -> Self {
        Self {
            query,
            found: Vec::new(),
            visited: 0,
            stopped: None,
        }
    }

    /// Visits the next record; false if the scan must stop after it.
    pub(crate) fn visit<E>(
        &mut self,
        cursor: Cursor,
        matches: bool,
        record: impl FnOnce() -> Result<Record, E>,
    ) -> Result<bool, E> {
        self.visited += 1;
        if matches {
            self.found.push(record()?);
        }
        // One more than fits on the page proves that another page follows.
        if self.found.len() > self.query.items_max() || self.visited >= PAGE_SCAN_MAX {
            self.stopped = Some(cursor);
            return Ok(false);
        }
        Ok(true)
    }
}

/// Merges the sources of a page: everything up to where the first of them stopped.
pub(crate) fn merge(scans: Vec<Scan<'_>>, query: &Query) -> Page<Record> {
    let stopped = scans.iter().filter_map(|scan| scan.stopped);
    let stopped = stopped.min_by_key(|position| query.key(*position));
    let mut found: Vec<_> = scans.into_iter().flat_map(|scan| scan.found).collect();
    let key = |record: &Record| query.key(query.position(record));
    found.sort_unstable_by_key(key);
    if let Some(stopped) = stopped {
        found.truncate(found.partition_point(|record| key(record) <= query.key(stopped)));
    }
    let position = |record: &Record| query.position(record);
    let mut page = Page::from_lookahead(found, query.items_max(), position);
    page.next = page.next.or(stopped);
    page
}

/// The id as the signed number that the database stores.
pub(crate) const fn sql_id(id: InstanceId) -> i64 {
    id.0.cast_signed()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// The run as the ledger holds it.
    pub head: RunHead,
    /// The client that has submitted or triggered it, if it is known. Kept here, because the history that
    /// records it is pruned before the run.
    pub submitted_by: Option<Arc<Principal>>,
    /// The time of its last fact.
    pub changed_at: Wall,
}

/// A backfill of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackfillRecord {
    pub head: Backfill,
    /// Its entry.
    pub name: TaskName,
}

/// Query for a page of backfills.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackfillQuery {
    /// Only of entries of this owner.
    pub owner: Option<String>,
    /// Only of entries of this name.
    pub name: Option<String>,
    /// Only backfills before this one.
    pub before: Option<BackfillId>,
    /// Maximum number of items; capped at [`PAGE_ITEMS_MAX`].
    pub limit: usize,
}

/// A due time that a backfill has launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchRecord {
    pub nominal: Wall,
    pub execution: Option<Execution>,
    /// The state of the instance or run; none if its history was removed.
    pub state: Option<UniversalState>,
}

/// Query for a page of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunQuery {
    pub filter: RunFilter,
    /// The oldest first, instead of the latest.
    pub oldest_first: bool,
    /// Only runs after this one, in that order.
    pub after: Option<RunId>,
    /// Maximum number of items; capped at [`PAGE_ITEMS_MAX`].
    pub limit: usize,
}

/// An item of a run whose instance has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemRecord {
    /// Index of the task in the plan.
    pub task: u32,
    pub item: u32,
    /// The generation that it ran in.
    pub generation: Generation,
    pub end: ItemEnd,
    pub instance: InstanceId,
    /// Its outputs, as the text of a JSON object.
    pub outputs: Option<Arc<str>>,
    /// The stored record of its instance, if it was not pruned.
    pub record: Option<Record>,
}

/// Query for a page of items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemQuery {
    pub run: RunId,
    /// Only items of this task.
    pub task: Option<u32>,
    /// Only items with this end.
    pub end: Option<ItemEnd>,
    /// Only items after this one.
    pub after: Option<(u32, u32)>,
    /// Maximum number of items; capped at [`PAGE_ITEMS_MAX`] and by
    /// [`crate::limits::ITEMS_PAGE_BYTES_MAX`].
    pub limit: usize,
}

/// Ended items of one task of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndCount {
    /// Index of the task in the plan.
    pub task: u32,
    pub end: ItemEnd,
    pub count: u64,
}

/// A group of equal failures, or of halted items, in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCount {
    /// Index of the task in the plan.
    pub task: u32,
    /// The end of the items: FAILED, or HALTED in a run that failed without being halted.
    pub item: ItemEnd,
    /// How the attempts of the failed items ended; `None` if that was pruned.
    pub end: Option<AttemptEnd>,
    pub count: u64,
    /// One instance of the group.
    pub example: InstanceId,
}

/// True if a run has failed without being halted by request or by its timeout.
pub(crate) fn failed_without_halt(head: &RunHead) -> bool {
    head.state == UniversalState::Failed && head.halting.is_none()
}
