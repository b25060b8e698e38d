//! The stream of facts as they become durable.
//!
//! Facts are read from the store by sequence number; the driver only signals that something was
//! committed. So past and present have one order without a seam: the last id that a client has seen
//! is all it needs to continue, after a lost connection as after a crash of the server. A client
//! that lags reads older rows, and the server buffers nothing for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use baton_model::api::{Event, EventGap, Links, Submitter};
use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, RunId, TaskNo};
use baton_model::library::TaskName;
use baton_model::time::Wall;
use baton_store::facts::{FactPage, FactQuery};
use baton_store::view::{RecordedFact, Seq};
use baton_store::{StoreError, Views};
use tokio::time::{Instant, sleep, sleep_until};

use super::app::App;
use super::extract::{self, Parameters};
#[cfg(feature = "openapi")]
use super::openapi::answers::NotFound;
use super::problem::{Answer, Fault};
use super::redaction::visible;
use super::streams::{Pipe, StreamRequest};
use super::{library, runs, views};
use crate::access::Caller;
use crate::limits::{EVENTS_HEARTBEAT, EVENTS_PACE, EVENTS_RATE_MAX, EVENTS_RATE_PACE};

/// Header with the last event that a client has seen; browsers send it by themselves.
const LAST_EVENT_ID: &str = "last-event-id";

/// Stream of facts as they become durable
///
/// Server-sent events. The `id` of an event is its sequence number in the history, its name is the
/// kind of the fact, and its data is what timelines show. A client that sends the last id it has
/// seen receives everything after it, once and in order. If some of that was pruned, an event
/// `lost` reports up to which number; what is left follows. With `rate`, an event `skipped` tells
/// how many were left out before the ones that follow it. The server sends a comment at least
/// every 15 seconds. A client that does not read is disconnected and may reconnect.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/events",
    tag = "views",
    operation_id = "events",
    params(
        ("after" = Option<u64>, Query, description = "Start after the event of this number; 0 for all retained events. Default: only new events."),
        ("since" = Option<u64>, Query, description = "Only events from this time on, in milliseconds since 1970. Starts with the first of them, unless `after` is set."),
        ("last-event-id" = Option<u64>, Header, description = "Like `after`, and takes precedence over it."),
        ("instance" = Option<String>, Query, description = "Only facts of this instance: `i12` or `12`.", pattern = "^i?[0-9]{1,18}$", example = "i12"),
        ("run" = Option<String>, Query, description = "Only facts of this run and its instances: `r12` or `12`.", pattern = "^r?[0-9]{1,18}$", example = "r12"),
        ("owner" = Option<String>, Query, description = "Only facts of instances and runs of this owner."),
        ("follow" = Option<bool>, Query, description = "`false`: end after the last existing event."),
        ("rate" = Option<u32>, Query, description = "At most this many events a second, the newest ones, up to 1000. Default: all events.", minimum = 1, maximum = 1000),
    ),
    responses(
        (status = 200, description = "Events, until the client disconnects.", content_type = "text/event-stream", body = String),
        NotFound,
        (status = 503, description = "The store cannot be read, or too many streams are open.",
            headers(("retry-after" = u64, description = "Seconds to wait before a retry.")))
    )
))]
pub(super) async fn follow(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: StreamRequest,
    uri: Uri,
) -> Answer<Response> {
    let parameters = Parameters::of(
        &uri,
        &[
            "after", "since", "instance", "run", "owner", "follow", "rate",
        ],
    )?;
    let seen = match last_event_id(&request.headers)? {
        Some(seen) => Some(seen),
        None => parameters.number("after")?,
    };
    let instance = parameters
        .text("instance")
        .map(extract::instance)
        .transpose()?;
    let owner = parameters.text("owner").map(str::to_owned);
    if let Some(id) = instance {
        let record = app.record(id).await?;
        let its = &record.instance.spec.owner;
        if owner.as_ref().is_some_and(|owner| owner != its) {
            return Err(Fault::unknown_instance(id));
        }
    }
    let run = parameters.text("run").map(extract::run).transpose()?;
    if let Some(id) = run {
        if instance.is_some() {
            let wrong = "`instance` and `run` exclude each other";
            return Err(Fault::bad_request(wrong));
        }
        let its = app.run_record(id).await?.head.owner;
        if owner.as_ref().is_some_and(|owner| *owner != its) {
            return Err(Fault::unknown_run(id));
        }
    }
    let since = parameters.number("since")?.map(Wall);
    let read = move |store: &dyn Views| {
        let last = store.facts(&END)?.last;
        let start = match (seen, since) {
            (Some(seen), _) => Seq(seen),
            (None, Some(since)) => position_before(store, since, last)?,
            (None, None) => last,
        };
        Ok((last, start))
    };
    let (last, position) = app.follow_read(read).await?;
    let follower = Follower {
        app: app.clone(),
        caller,
        instance,
        run,
        owner,
        position,
        since: since.unwrap_or_default(),
        reported: Seq(0),
        follow: parameters
            .parsed("follow", "true or false")?
            .unwrap_or(true),
        rate: rate(&parameters)?,
        names: BTreeMap::new(),
    };
    let body = app.stream(&request, false, move |pipe| follower.run(last, pipe))?;
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that buffer responses would delay events.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    Ok((headers, body).into_response())
}

/// Reads nothing but the end of the history.
const END: FactQuery = FactQuery {
    after: Seq(u64::MAX),
    owner: None,
    run: None,
};

impl App {
    /// The number of the last event.
    pub(super) async fn last_event(&self) -> Answer<Seq> {
        self.follow_read(|store| Ok(store.facts(&END)?.last)).await
    }
}

fn rate(parameters: &Parameters) -> Answer<Option<usize>> {
    let what = format!("a number from 1 to {EVENTS_RATE_MAX}");
    let rate = parameters.parsed("rate", &what)?;
    if rate.is_some_and(|rate| rate == 0 || rate > EVENTS_RATE_MAX) {
        return Err(Fault::bad_request(format!("rate must be {what}")));
    }
    Ok(rate)
}

/// The position before the first fact that is not earlier than this time. Facts are in the order of
/// their times, unless the clock was set back.
fn position_before(store: &dyn Views, since: Wall, last: Seq) -> Result<Seq, StoreError> {
    let (mut low, mut high) = (0, last.0);
    while low < high {
        let middle = low + (high - low) / 2;
        let query = FactQuery {
            after: Seq(middle),
            owner: None,
            run: None,
        };
        match store.facts(&query)?.items.first() {
            Some(entry) if entry.at < since => low = entry.seq.0,
            _ => high = middle,
        }
    }
    Ok(Seq(low))
}

fn last_event_id(headers: &HeaderMap) -> Answer<Option<u64>> {
    let Some(value) = headers.get(LAST_EVENT_ID) else {
        return Ok(None);
    };
    let number = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let wrong = || Fault::bad_request("Last-Event-ID must be the number of an event");
    number.map(Some).ok_or_else(wrong)
}

/// One client, and its position.
struct Follower {
    app: App,
    caller: Caller,
    instance: Option<InstanceId>,
    run: Option<RunId>,
    owner: Option<String>,
    position: Seq,
    /// Earlier facts are left out.
    since: Wall,
    /// Up to where gaps were reported.
    reported: Seq,
    follow: bool,
    /// Maximum number of events a second.
    rate: Option<usize>,
    /// Names of the library entries that its events were about.
    names: BTreeMap<TaskNo, TaskName>,
}

impl Follower {
    async fn run(mut self, last: Seq, pipe: Pipe) {
        let mut text = String::new();
        if self.position > last {
            let lost = EventGap {
                after: self.position.0,
                through: last.0,
                text: format!(
                    "event {} does not exist: the history was started anew; all of it follows",
                    self.position.0
                ),
            };
            self.position = Seq(0);
            write(&mut text, self.position, "lost", &lost);
        }
        // Without data it is no event, but a client that is cut off before the first one knows
        // where to continue.
        text.push_str(&format!("retry: 1000\nid: {}\n\n", self.position.0));
        if !pipe.put(text).await {
            return;
        }
        let mut committed = self.app.0.committed.clone();
        loop {
            committed.mark_unchanged();
            let pace = self.rate.map_or(EVENTS_PACE, |_| EVENTS_RATE_PACE);
            let paced = Instant::now() + pace;
            // A client that is cut off because the store cannot be read may reconnect, and gets the
            // reason.
            let next = match self.rate {
                Some(rate) => self.newest(rate).await.map(|text| (text, false)),
                None => self.next().await,
            };
            let Ok((text, more)) = next else {
                return;
            };
            if !text.is_empty() && !pipe.put(text).await {
                return;
            }
            if more {
                continue;
            }
            if !self.follow {
                return;
            }
            loop {
                tokio::select! {
                    changed = committed.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    () = sleep(EVENTS_HEARTBEAT) => {
                        // With the position: filtered facts need not be scanned again.
                        let here = format!(": still here\nid: {}\n\n", self.position.0);
                        if !pipe.put(here).await {
                            return;
                        }
                    }
                }
            }
            sleep_until(paced).await;
        }
    }

    /// The next events, and whether there are more.
    async fn next(&mut self) -> Answer<(String, bool)> {
        let mut text = String::new();
        let page = self.page(&mut text).await?;
        for entry in page.items {
            self.write(&mut text, entry);
        }
        Ok((text, page.more))
    }

    const fn is_unfiltered(&self) -> bool {
        let is_any = self.instance.is_none() && self.run.is_none() && self.owner.is_none();
        is_any && self.since.0 == 0
    }

    /// The newest events, after the number of those that are left out.
    async fn newest(&mut self, rate: usize) -> Answer<String> {
        let mut text = String::new();
        let (before, mut skipped) = (self.position, 0);
        if self.is_unfiltered() {
            // Without a filter every number is an event: the ones that are left out need not be read.
            let last = self.app.last_event().await?;
            let from = last.0.saturating_sub(rate as u64).max(before.0);
            skipped = from - before.0;
            self.position = Seq(from);
        }
        let mut newest = VecDeque::with_capacity(rate);
        loop {
            let page = self.page(&mut text).await?;
            for entry in page.items {
                if newest.len() == rate {
                    newest.pop_front();
                    skipped += 1;
                }
                newest.push_back(entry);
            }
            if !page.more {
                break;
            }
        }
        if skipped > 0 {
            let first = newest.front().map_or(self.position.0 + 1, |it| it.seq.0);
            let gap = EventGap {
                after: before.0,
                through: first - 1,
                text: match skipped {
                    1 => "1 more event".to_owned(),
                    _ => format!("{skipped} more events"),
                },
            };
            write(&mut text, Seq(gap.through), "skipped", &gap);
        }
        for entry in newest {
            self.write(&mut text, entry);
        }
        Ok(text)
    }

    /// The next page of facts; reports in `text` if some before it were pruned.
    async fn page(&mut self, text: &mut String) -> Answer<FactPage> {
        let query = FactQuery {
            after: self.position,
            owner: self.owner.clone(),
            run: self.run,
        };
        let instance = self.instance;
        let page = self.app.follow_read(move |store| match instance {
            Some(id) => facts_of_instance(store, id, query.after),
            None => store.facts(&query).map(Some),
        });
        // A pruned instance has no further facts.
        let gone = || Fault::not_found("the instance was pruned from the history");
        let mut page = page.await?.ok_or_else(gone)?;
        page.items.retain(|entry| entry.at >= self.since);
        if page.pruned > self.position.max(self.reported) {
            self.reported = page.pruned;
            let lost = EventGap {
                after: self.position.0,
                through: page.pruned.0,
                text: format!(
                    "some of the events from {} to {} were pruned; the remaining ones follow",
                    self.position.0 + 1,
                    page.pruned.0
                ),
            };
            write(text, self.position, "lost", &lost);
        }
        self.position = page.scanned_to;
        self.read_names(&page.items).await?;
        Ok(page)
    }

    /// Reads the names of the library entries that these facts are about.
    async fn read_names(&mut self, facts: &[RecordedFact]) -> Answer<()> {
        let about = facts.iter().filter_map(|entry| entry.fact.task());
        let unknown: BTreeSet<TaskNo> = about
            .filter(|task| !self.names.contains_key(task))
            .collect();
        if !unknown.is_empty() {
            let names = self
                .app
                .follow_read(move |store| store.task_names(&unknown));
            self.names.extend(names.await?);
        }
        Ok(())
    }

    fn write(&self, text: &mut String, entry: RecordedFact) {
        let (seq, name) = (entry.seq, entry.fact.kind().name());
        let task = entry.fact.task().and_then(|task| self.names.get(&task));
        let event = event(entry, task);
        write(text, seq, name, &visible(&self.caller, &event));
    }
}

/// The facts of one instance, if it is retained. They are pruned together or not at all.
fn facts_of_instance(
    store: &dyn Views,
    id: InstanceId,
    after: Seq,
) -> Result<Option<FactPage>, StoreError> {
    if store.instance(id)?.is_none() {
        return Ok(None);
    }
    let page = store.timeline(id, Some(after), usize::MAX)?;
    let scanned_to = page.items.last().map_or(after, |entry| entry.seq);
    Ok(Some(FactPage {
        items: page.items,
        scanned_to,
        more: page.next.is_some(),
        last: scanned_to,
        pruned: Seq(0),
    }))
}

/// A fact as an event, with links; `task` is the library entry that it is about.
fn event(entry: RecordedFact, task: Option<&TaskName>) -> Event {
    let about = entry.fact.instances();
    let mut links = about.map_or_else(Links::new, |(first, last)| {
        views::links([("instance", views::path(first, last))])
    });
    let run = match &entry.fact {
        Fact::InstancesSubmitted { spec, .. } => spec.part.map(|part| part.run),
        fact => fact.run(),
    };
    if let Some(run) = run {
        links.insert("run".to_owned(), runs::path(run));
    }
    if let Some(task) = task {
        links.insert("task".to_owned(), library::path(task));
    }
    if let Some(fleet) = entry.fact.fleet() {
        links.insert("fleet".to_owned(), format!("/fleets/{fleet}"));
    }
    let by = entry.requested_by.as_deref();
    Event {
        seq: entry.seq.0,
        at: entry.at.0,
        epoch: entry.epoch.number().into(),
        text: match task {
            Some(task) => entry.fact.sentence_about(task, by),
            None => entry.fact.sentence(by),
        },
        fact: entry.fact,
        requested_by: by.map(Submitter::from),
        links,
    }
}

fn write(text: &mut String, id: Seq, name: &str, data: &impl serde::Serialize) {
    // Plain data always serializes, on one line.
    let data = serde_json::to_string(data).unwrap_or_default();
    text.push_str(&format!("id: {}\nevent: {name}\ndata: {data}\n\n", id.0));
}

#[cfg(test)]
mod tests;
