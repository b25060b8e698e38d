//! What readers ask for, and what they get.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use baton_core::ledger::{Instance, RunHead};
use baton_model::fact::Fact;
use baton_model::ids::{
    Epoch, Generation, InstanceId, LeaseId, Revision, RunId, TaskNo, WorkerName,
};
use baton_model::library::{Definition, TaskName};
use baton_model::outcome::{AttemptEnd, Ran};
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::workflow::ItemEnd;

use crate::limits::{ITEMS_PAGE_BYTES_MAX, PAGE_ITEMS_MAX, PAGE_SCAN_MAX};

/// Numbers the facts of a store, from 1, in the order in which they landed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

/// Which instances are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Ready without a lease, by id.
    Bullpen,
    /// Leased, by id.
    Arena,
    /// In a terminal state, the latest to end first.
    History,
}

impl View {
    /// The states of the instances in it. A lease is open in exactly those of the
    /// arena.
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

/// A place in a view: the rank (of the living 0, of the ended the negative number of
/// their last fact), then the id, as the signed number that databases compare. Only a
/// cursor of the same view makes sense. It is printed and read as two numbers with a
/// dot between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor(pub i64, pub i64);

impl Cursor {
    /// Of something in this state, last changed by that fact, whose last id is this.
    pub(crate) const fn of(state: UniversalState, changed: Seq, last: InstanceId) -> Self {
        let rank = if state.is_terminal() {
            -changed.0.cast_signed()
        } else {
            0
        };
        Self(rank, key(last))
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

/// A text that no page ever gave out as its cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadCursor;

impl fmt::Display for BadCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cursor is two numbers with a dot between them, as an earlier page gave it")
    }
}

impl std::error::Error for BadCursor {}

/// One question for a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    pub view: View,
    /// Of instances in this state only.
    pub state: Option<UniversalState>,
    /// Of instances of this owner only.
    pub owner: Option<String>,
    /// Of instances of this name only.
    pub name: Option<String>,
    /// From behind this place on.
    pub after: Option<Cursor>,
    /// How many at most; never more than [`PAGE_ITEMS_MAX`].
    pub limit: usize,
}

impl Query {
    /// The first page of a view.
    #[must_use]
    pub const fn first(view: View, limit: usize) -> Self {
        Self {
            view,
            state: None,
            owner: None,
            name: None,
            after: None,
            limit,
        }
    }

    /// The states to look for.
    pub(crate) fn states(&self) -> impl Iterator<Item = UniversalState> + use<> {
        let wanted = self.state;
        let of_view = self.view.states().iter().copied();
        of_view.filter(move |state| wanted.is_none_or(|wanted| wanted == *state))
    }

    /// Whether it asks for specs of this owner and name.
    pub(crate) fn wants(&self, owner: &str, name: &str) -> bool {
        let is = |wanted: &Option<String>, it| wanted.as_deref().is_none_or(|wanted| wanted == it);
        is(&self.owner, owner) && is(&self.name, name)
    }

    pub(crate) const fn items_max(&self) -> usize {
        page_limit(self.limit)
    }
}

/// A limit that was asked for, within bounds.
pub(crate) const fn page_limit(asked: usize) -> usize {
    if asked == 0 {
        1
    } else if asked > PAGE_ITEMS_MAX {
        PAGE_ITEMS_MAX
    } else {
        asked
    }
}

/// Some items, and where the next ones begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, C = Cursor> {
    /// The items, in order. There may be fewer than asked for, or none, before the end:
    /// one page looks at so many only.
    pub items: Vec<T>,
    /// Where to go on; nothing if these were the last.
    pub next: Option<C>,
}

impl<C> Page<ItemRecord, C> {
    /// As many of `items` as fit on a page, by number and by the bytes of their outputs, and at
    /// least one.
    pub(crate) fn fill<E>(
        items: impl IntoIterator<Item = Result<ItemRecord, E>>,
        limit: usize,
        place: impl Fn(&ItemRecord) -> C,
    ) -> Result<Self, E> {
        let (mut found, mut bytes) = (Vec::<ItemRecord>::new(), 0);
        for item in items {
            if found.len() >= limit || bytes >= ITEMS_PAGE_BYTES_MAX {
                let next = found.last().map(place);
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
    /// The first `limit` of `items`, of which there is one more if a page follows.
    pub(crate) fn cut(mut items: Vec<T>, limit: usize, place: impl Fn(&T) -> C) -> Self {
        let more = items.len() > limit;
        items.truncate(limit);
        let last = items.last().map(place);
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
    pub ran: Option<Ran>,
}

/// An instance, or a range of them that nothing else has happened to, and when it came
/// and changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The instance itself; the first one of a range.
    pub instance: Instance,
    /// The last one, if this stands for a range.
    pub span: Option<InstanceId>,
    pub submitted_at: Wall,
    /// Its first fact.
    pub submitted: Seq,
    /// When its last fact was recorded.
    pub changed_at: Wall,
    /// Its last fact.
    pub changed: Seq,
    /// The last of its attempts that has ended.
    pub last: Option<LastEnd>,
}

impl Record {
    /// Its place in the view it is in: the living by id, the ended by their end, the
    /// latest first.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        let last = self.span.unwrap_or(self.instance.id);
        Cursor::of(self.instance.state, self.changed, last)
    }
}

/// One fact as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedFact {
    /// Its number.
    pub seq: Seq,
    pub at: Wall,
    /// In whose name.
    pub epoch: Epoch,
    pub fact: Fact,
}

/// A task of the library, in one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    /// Its number.
    pub number: TaskNo,
    pub name: TaskName,
    pub revision: Revision,
    /// Whether the task is in the library, and this is what it is now.
    pub current: bool,
    /// When it was defined so.
    pub at: Wall,
    pub definition: Arc<Definition>,
}

/// One revision of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionRecord {
    /// Its number.
    pub revision: Revision,
    pub at: Wall,
    pub definition: Arc<Definition>,
}

/// One question for tasks of the library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskQuery {
    /// Of this owner only.
    pub owner: Option<String>,
    /// From behind this name on.
    pub after: Option<TaskName>,
    /// How many at most; never more than [`PAGE_ITEMS_MAX`].
    pub limit: usize,
}

/// One question for what became of due times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickQuery {
    /// Of this task only.
    pub task: Option<TaskNo>,
    /// Before this fact only.
    pub before: Option<Seq>,
    /// How many at most; never more than [`PAGE_ITEMS_MAX`].
    pub limit: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instances by state; a state without any may be missing.
    pub states: BTreeMap<UniversalState, u64>,
    /// Bytes of recorded facts, each with its spec. On a disk shared specs take less,
    /// everything else some two times as much.
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

/// A walk over one source of a page, in the order of the view.
pub(crate) struct Scan<'a> {
    query: &'a Query,
    found: Vec<Record>,
    looked: usize,
    stopped: Option<Cursor>,
}

impl<'a> Scan<'a> {
    pub(crate) const fn new(query: &'a Query) -> Self {
        Self {
            query,
            found: Vec::new(),
            looked: 0,
            stopped: None,
        }
    }

    /// Looks at the next one; false if it was the last one to look at.
    pub(crate) fn look<E>(
        &mut self,
        place: Cursor,
        wanted: bool,
        record: impl FnOnce() -> Result<Record, E>,
    ) -> Result<bool, E> {
        self.looked += 1;
        if wanted {
            self.found.push(record()?);
        }
        // One more than fits on the page tells that another one follows.
        if self.found.len() > self.query.items_max() || self.looked >= PAGE_SCAN_MAX {
            self.stopped = Some(place);
            return Ok(false);
        }
        Ok(true)
    }
}

/// Puts the sources of a page together: everything up to where the first of them
/// stopped.
pub(crate) fn merge(scans: Vec<Scan<'_>>, query: &Query) -> Page<Record> {
    let stopped = scans.iter().filter_map(|scan| scan.stopped).min();
    let mut found: Vec<_> = scans.into_iter().flat_map(|scan| scan.found).collect();
    found.sort_unstable_by_key(Record::cursor);
    if let Some(stopped) = stopped {
        found.truncate(found.partition_point(|record| record.cursor() <= stopped));
    }
    let mut page = Page::cut(found, query.items_max(), Record::cursor);
    page.next = page.next.or(stopped);
    page
}

/// The id as a database keeps it.
pub(crate) const fn key(id: InstanceId) -> i64 {
    id.0.cast_signed()
}

/// Whether a spec is asked for.
pub(crate) fn asked_for(query: &Query, spec: &InstanceSpec) -> bool {
    query.wants(&spec.owner, &spec.name)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// What the ledger knows of it.
    pub head: RunHead,
    /// When its last fact was recorded.
    pub changed_at: Wall,
}

/// Which runs are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunQuery {
    /// In this state only.
    pub state: Option<UniversalState>,
    /// Of this owner only.
    pub owner: Option<String>,
    /// Of this workflow only.
    pub name: Option<String>,
    /// From before this one on.
    pub before: Option<RunId>,
    /// How many at most; never more than [`PAGE_ITEMS_MAX`].
    pub limit: usize,
}

/// An item of a run whose instance has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemRecord {
    /// The task, as a place in the plan's list.
    pub task: u32,
    pub item: u32,
    /// In which generation it ran.
    pub generation: Generation,
    pub end: ItemEnd,
    /// Its instance.
    pub instance: InstanceId,
    /// What it has put out, as the text of a JSON object.
    pub outputs: Option<Arc<str>>,
    /// What is kept of its instance.
    pub record: Option<Record>,
}

/// Which items are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemQuery {
    pub run: RunId,
    /// Of this task only.
    pub task: Option<u32>,
    /// That ended so only.
    pub end: Option<ItemEnd>,
    /// From behind this one on.
    pub after: Option<(u32, u32)>,
    /// How many at most; never more than [`PAGE_ITEMS_MAX`], nor than fit into
    /// [`crate::limits::ITEMS_PAGE_BYTES_MAX`].
    pub limit: usize,
}

/// What has failed of a run, or was stopped, and is alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCount {
    /// The task, as a place in the plan's list.
    pub task: u32,
    /// What became of the items: FAILED, or HALTED in a run that has failed all the same.
    pub item: ItemEnd,
    /// How the attempts of those that failed ended; nothing where it is not kept any more.
    pub end: Option<AttemptEnd>,
    pub count: u64,
    /// One of them.
    pub example: InstanceId,
}

/// Whether a run has failed, and not because somebody or its time had it stopped.
pub(crate) fn failed_by_itself(head: &RunHead) -> bool {
    head.state == UniversalState::Failed && head.halting.is_none()
}
