//! Items of a run, in pages: those in flight from the leader, and ended ones from the store.
//!
//! The leader is read first. An item that ends before the store is read is then in both, and shown
//! as ended; the other way round it could be in neither. A page ends by number, by bytes, or at the
//! end of the items; the next one begins after the last item that was scanned, whether it matched
//! or not.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use baton_core::scheduler::{Command, Scheduler};
use baton_core::workflow::{Dag, items as plain_items};
use baton_model::api::{ItemFilter, List, RunItem};
use baton_model::ids::{InstanceId, RunId};
use baton_model::state::UniversalState;
use baton_model::workflow::{ItemEnd, Items};
use baton_store::limits::ITEMS_PAGE_BYTES_MAX;
use baton_store::view::{ItemQuery, RunRecord};
use serde_json::Value;

use super::super::app::App;
use super::super::conditional::tagged;
use super::super::extract;
use super::super::filters;
use super::super::lists::page_links;
#[cfg(feature = "openapi")]
use super::super::openapi::answers::Unchanged;
use super::super::problem::{Answer, Fault};
use super::read::PAGE_MAX;
use super::{path, views};
use crate::limits::{LIVE_ITEMS_SCANNED_MAX, PAGE_ITEMS_DEFAULT};

/// Bytes of an item beside its value and its outputs.
const ITEM_BYTES: usize = 512;

/// Indices of a task and of one of its items.
type Position = (u32, u32);

/// Items of a run that are in flight or have ended, by task
///
/// A page has up to `limit` items, fewer where items are large.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/runs/{run}/items/",
    tag = "runs",
    operation_id = "run-items",
    params(
        ItemFilter,
        ("cursor" = Option<String>, Query, description = "Start after this item; from the link `next`.", pattern = "^[0-9]{1,9}\\.[0-9]{1,9}$"),
        ("limit" = Option<u64>, Query, description = "Maximum number of entries."),
    ),
    responses(
        (status = 200, description = "A page.", body = List<RunItem<Value>>),
        Unchanged
    )
))]
pub(in super::super) async fn list(
    State(app): State<App>,
    Path(run): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    let run = extract::run(&run)?;
    let states = &UniversalState::OF_ITEMS;
    let (filter, parameters) = filters::read::<ItemFilter>(&uri, states, &["cursor", "limit"])?;
    let limit = parameters
        .number("limit")?
        .unwrap_or(PAGE_ITEMS_DEFAULT)
        .clamp(1, PAGE_MAX);
    let after = parameters.text("cursor").map(place).transpose()?;
    let record = app.run_record(run).await?;
    let dag = app.run_progress(&record, 0, 0).await?.dag;
    let task = filter.task.as_deref().map(|name| task(&dag, name));
    let mut selection = ItemSelection {
        record,
        task: task.transpose()?,
        state: filter.state,
        after,
        limit,
        dag,
    };
    let (items, next) = match (filter.item, selection.task) {
        (None, _) => app.selection(selection).await?,
        (Some(_), None) => {
            let wrong = "`item` requires `task`";
            return Err(Fault::bad_request(wrong));
        }
        (Some(item), Some(task)) => {
            // Regardless of its state: otherwise the next item in that state would be searched.
            selection.state = None;
            selection.after = item.checked_sub(1).map(|before| (task, before));
            selection.limit = 1;
            let (mut found, _) = app.selection(selection).await?;
            let passes = |state| filter.state.is_none_or(|wanted| wanted == state);
            found.retain(|it| it.item == item && passes(it.state));
            (found, None)
        }
    };
    let next = next.map(|(task, item)| format!("{task}.{item}"));
    let list = List::<RunItem<Value>> {
        items,
        total: None,
        links: page_links(&format!("{}/items/", path(run)), &parameters, next),
    };
    Ok(tagged(&list))
}

fn task(dag: &Dag, name: &str) -> Answer<u32> {
    dag.index_of(name).ok_or_else(|| {
        let name: String = name.chars().take(60).collect();
        Fault::bad_request(format!("the run has no task {name:?}"))
    })
}

/// Parses a cursor: `task.item`.
fn place(text: &str) -> Answer<Position> {
    let parsed = text
        .split_once('.')
        .and_then(|(task, item)| Some((task.parse().ok()?, item.parse().ok()?)));
    parsed.ok_or_else(|| Fault::bad_request("invalid cursor; use the link `next` of a page"))
}

/// Selects items of a run.
struct ItemSelection {
    record: RunRecord,
    dag: Arc<Dag>,
    task: Option<u32>,
    state: Option<UniversalState>,
    after: Option<Position>,
    limit: usize,
}

impl ItemSelection {
    const fn run(&self) -> RunId {
        self.record.head.id
    }

    /// The end to filter by; `None` if only items in flight match.
    fn end(&self) -> Option<Option<ItemEnd>> {
        match self.state {
            None => Some(None),
            Some(UniversalState::Done) => Some(Some(ItemEnd::Done)),
            Some(UniversalState::Failed) => Some(Some(ItemEnd::Failed)),
            Some(UniversalState::Halted) => Some(Some(ItemEnd::Halted)),
            Some(_) => None,
        }
    }
}

/// Some items by position, and the position to continue after.
type ItemBatch = (Vec<(Position, RunItem<Value>)>, Option<Position>);

impl App {
    /// A page of items, and where the next one begins.
    async fn selection(
        &self,
        mut selection: ItemSelection,
    ) -> Answer<(Vec<RunItem<Value>>, Option<Position>)> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        loop {
            let (found, next) = self.next_items(&selection).await?;
            let places: Vec<Position> = found.iter().map(|(place, _)| *place).collect();
            let values = self.values(&selection, places).await?;
            for ((place, mut item), value) in found.into_iter().zip(values) {
                if page.len() >= selection.limit || bytes >= ITEMS_PAGE_BYTES_MAX {
                    return Ok((page, selection.after));
                }
                item.value = value;
                bytes += length(&item);
                page.push(item);
                selection.after = Some(place);
            }
            let full = page.len() >= selection.limit || bytes >= ITEMS_PAGE_BYTES_MAX;
            if full || next.is_none() {
                return Ok((page, next));
            }
            selection.after = next;
        }
    }

    /// The next items, at most a page; may be empty before the end.
    async fn next_items(&self, selection: &ItemSelection) -> Answer<ItemBatch> {
        let live = self.live_items(selection).await?;
        let mut found = Vec::new();
        let mut stopped = live.next;
        if let Some(end) = selection.end() {
            let query = ItemQuery {
                run: selection.run(),
                task: selection.task,
                end,
                after: selection.after,
                limit: selection.limit,
            };
            let page = self.read(move |store| store.run_items(&query)).await?;
            stopped = stopped.into_iter().chain(page.next).min();
            let ended = page.items.iter();
            let shown = ended.map(|it| ((it.task, it.item), views::ended(&selection.dag, it)));
            found.extend(shown);
        }
        let read = self.read(move |store| {
            let mut records = Vec::with_capacity(live.items.len());
            for (task, item, instance) in live.items {
                if let Some(record) = store.instance(instance)? {
                    records.push(((task, item), record));
                }
            }
            Ok(records)
        });
        for (place, record) in read.await? {
            // The leader may be ahead of the store.
            let state = record.instance.state;
            if selection.state.is_none_or(|wanted| wanted == state) {
                found.push((place, views::live(&selection.dag, place, &record)));
            }
        }
        // Stable sort: an ended item precedes its copy in flight.
        found.sort_by_key(|(place, _)| *place);
        found.dedup_by_key(|(place, _)| *place);
        if let Some(stopped) = stopped {
            found.truncate(found.partition_point(|(place, _)| *place <= stopped));
        }
        Ok((found, stopped))
    }

    async fn live_items(&self, selection: &ItemSelection) -> Answer<LiveItems> {
        if selection.state.is_some_and(UniversalState::is_terminal) {
            return Ok(LiveItems::default());
        }
        let query = LiveQuery {
            run: selection.run(),
            task: selection.task,
            state: selection.state,
            after: selection.after,
            limit: selection.limit,
        };
        let live = self.query(move |leader| live(leader, &query)).await?;
        // Items that are no longer in flight must be in the store before it is read.
        self.command(None, Command::Sync).await?;
        Ok(live)
    }

    /// Values of these items. Most are in the plan; values from outputs come from the leader, or,
    /// for an ended run, from the store.
    async fn values(
        &self,
        selection: &ItemSelection,
        places: Vec<Position>,
    ) -> Answer<Vec<Option<Value>>> {
        let tasks = &selection.dag.plan.tasks;
        let items = |place: &Position| tasks.get(place.0 as usize).map(|task| &task.items);
        let from_outputs = |place: &Position| matches!(items(place), Some(Items::Output { .. }));
        if !places.iter().any(from_outputs) {
            let of = |place| plain_items::value(items(place)?, place.1);
            return Ok(places.iter().map(of).collect());
        }
        let run = selection.run();
        if !selection.record.head.state.is_terminal() {
            let places = places.clone();
            let values = self.query(move |leader| {
                let run = leader.ledger().runs().run(run)?;
                let of = |(task, item)| run.progress.value(&run.dag, task, item);
                Some(places.into_iter().map(of).collect())
            });
            if let Some(values) = values.await? {
                return Ok(values);
            }
        }
        let ended = self.ended_run(&selection.record).await?;
        let progress = self.ended_progress(run, &ended).await?;
        let of = |(task, item)| progress.value(&ended.dag, task, item);
        Ok(places.into_iter().map(of).collect())
    }
}

/// Selects items of a run in flight.
#[derive(Clone, Copy, Debug)]
struct LiveQuery {
    run: RunId,
    /// Only of this task.
    task: Option<u32>,
    /// Only in this state.
    state: Option<UniversalState>,
    /// Start after this item.
    after: Option<Position>,
    limit: usize,
}

/// Items of a run in flight.
#[derive(Debug, Default)]
struct LiveItems {
    items: Vec<(u32, u32, InstanceId)>,
    /// Where to continue; `None` if all were scanned.
    next: Option<Position>,
}

/// Items of a run in flight. Scans a bounded number of them: a run has up to 200,000, and all
/// other clients wait meanwhile.
fn live(leader: &Scheduler, query: &LiveQuery) -> LiveItems {
    let before = query.task.and_then(|task| task.checked_sub(1));
    let after = query.after.max(before.map(|task| (task, u32::MAX)));
    let live = leader.run_live(query.run, after);
    let live = live.take_while(|(task, ..)| query.task.is_none_or(|wanted| wanted == *task));
    let state = |id| {
        let instance = leader.ledger().instance(id);
        instance.map_or(UniversalState::Queued, |instance| instance.state)
    };
    let (mut found, mut last) = (LiveItems::default(), None);
    for (scanned, (task, item, id)) in live.enumerate() {
        if scanned >= LIVE_ITEMS_SCANNED_MAX || found.items.len() >= query.limit {
            found.next = last;
            break;
        }
        last = Some((task, item));
        if query.state.is_none_or(|wanted| wanted == state(id)) {
            found.items.push((task, item, id));
        }
    }
    found
}

/// Approximate size of an item in the response.
fn length(item: &RunItem<Value>) -> usize {
    let value = item.value.as_ref().map_or(0, |it| it.to_string().len());
    let outputs = item.outputs.as_deref().map_or(0, str::len);
    ITEM_BYTES + value + outputs
}
