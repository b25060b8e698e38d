//! The exporter: follows facts, and sends the spans of what has ended.
//!
//! A receiver that does not answer delays the spans, never the work: the exporter stays where it is, and tries
//! again. What ended more than [`TRACE_AGE_MAX`] ago is dropped and counted, so an outage of any length costs one
//! look at each fact.

use std::sync::Arc;
use std::time::Duration;

use baton_model::fact::{Fact, Verdict};
use baton_model::ids::{Epoch, Generation, InstanceId, RunId, StoreId};
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_store::facts::FactPage;
use baton_store::followers::FollowerName;
use baton_store::view::{RecordedFact, Seq};
use baton_store::{Store, StoreError};
use reqwest::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode};
use tokio::time::{Instant, sleep, sleep_until};

use super::otlp;
use super::settings::TraceSettings;
use super::spans::{self, Basis, Span};
use crate::clock;
use crate::driver::Status;
use crate::followers::receiver::{client, reason};
use crate::followers::{Follower, Next, Source};
use crate::limits::{
    TRACE_AGE_MAX, TRACE_BACKOFF, TRACE_ENDS_MAX, TRACE_FACTS_MAX, TRACE_HALTED_MAX, TRACE_LINGER,
    TRACE_POSITION_PAUSE, TRACE_SPANS_MAX,
};
use crate::metrics::{DropReason, Metrics};

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 4 << 10;

/// Sends spans while this scheduler leads.
pub(super) struct Exporter {
    settings: Option<TraceSettings>,
    source: Source,
    metrics: Arc<Metrics>,
    /// None until it is known.
    store: Option<StoreId>,
    stored: Option<Seq>,
    stored_at: Instant,
    sent_at: Option<Instant>,
    /// The failure that was logged last, until a request succeeds.
    failure: Option<String>,
    /// Made anew after a failure: a certificate may have been replaced.
    client: Option<Client>,
    /// There is no receiver, and no position is stored.
    has_forgotten: bool,
}

/// Work that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    seq: Seq,
    at: Wall,
    subject: Subject,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Instance(InstanceId),
    /// All instances of a range that waited.
    Halted(InstanceId, InstanceId),
    Run(RunId, Generation, UniversalState),
}

/// The failure of a request.
enum Failure {
    /// Its content is refused; it would be again.
    Refused(String),
    /// It may succeed later, after this time if the receiver has named one.
    Unavailable(String, Option<Duration>),
}

/// Spans of some ends, and the number of ends without.
#[derive(Default)]
struct Reading {
    spans: Vec<Span>,
    gone: u64,
    beyond: u64,
}

impl Exporter {
    pub(super) fn new(
        settings: Option<TraceSettings>,
        source: Source,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            settings,
            source,
            metrics,
            store: None,
            stored: None,
            stored_at: Instant::now(),
            sent_at: None,
            failure: None,
            client: None,
            has_forgotten: false,
        }
    }

    fn epoch(&self) -> Option<Epoch> {
        match &*self.source.status.borrow() {
            Status::Leading(epoch) => Some(*epoch),
            Status::Failed(_) | Status::Following(_) => None,
        }
    }

    /// Stores the position, or removes it; false if that failed.
    async fn record(&mut self, seq: Option<Seq>) -> bool {
        let Some(epoch) = self.epoch() else {
            return false;
        };
        let source = &self.source;
        let recorded = source
            .call(move |store| store.record_position(epoch, FollowerName::Traces, seq))
            .await;
        if let Err(error) = &recorded {
            tracing::warn!("cannot record how far traces were sent: {error}; trying again");
            return false;
        }
        self.stored = seq;
        self.stored_at = Instant::now();
        true
    }

    /// Sends the spans of these ends; false if another scheduler leads, or the store cannot be read.
    async fn export(&mut self, settings: &TraceSettings, ends: Vec<End>) -> bool {
        let Some(store) = self.store else {
            return false;
        };
        let basis = Basis {
            store,
            sampling: settings.sampling,
        };
        for ends in ends.chunks(TRACE_ENDS_MAX) {
            let last = ends.iter().map(|end| end.at).max().unwrap_or_default();
            let ends = ends.to_vec();
            let found = self.source.call(move |store| find(store, basis, &ends));
            let Ok(found) = found.await else {
                return false;
            };
            self.metrics.spans_dropped(DropReason::Late, found.gone);
            self.metrics.spans_dropped(DropReason::Many, found.beyond);
            for spans in found.spans.chunks(TRACE_SPANS_MAX) {
                if !self.deliver(settings, spans, last).await {
                    return false;
                }
            }
        }
        true
    }

    /// Sends spans until the receiver has them, refuses them, or they are too old; false if another scheduler
    /// leads.
    async fn deliver(&mut self, settings: &TraceSettings, spans: &[Span], last: Wall) -> bool {
        let count = spans.len() as u64;
        let body = otlp::body(spans);
        let mut status = self.source.status.clone();
        let [mut pause, pause_max] = TRACE_BACKOFF;
        loop {
            status.mark_unchanged();
            if self.epoch().is_none() {
                return false;
            }
            let sent = self.send(settings, body.clone()).await;
            self.sent_at = Some(Instant::now());
            let (error, wait) = match sent {
                Ok((rejected, why)) => {
                    self.succeeded();
                    let rejected = rejected.min(count);
                    self.metrics.spans_sent(count - rejected);
                    if rejected > 0 {
                        self.metrics.spans_dropped(DropReason::Refused, rejected);
                        tracing::warn!("the receiver of traces rejects {rejected} spans: {why}");
                    }
                    return true;
                }
                Err(Failure::Refused(error)) => {
                    self.failed(&error);
                    self.metrics.spans_dropped(DropReason::Refused, count);
                    return true;
                }
                Err(Failure::Unavailable(error, wait)) => (error, wait),
            };
            self.failed(&error);
            if is_late(last) {
                self.metrics.spans_dropped(DropReason::Late, count);
                return true;
            }
            tokio::select! {
                () = sleep(wait.unwrap_or(pause).min(pause_max)) => pause = pause_max.min(pause * 2),
                changed = status.changed() => if changed.is_err() {
                    return false;
                },
            }
        }
    }

    /// Sends one request; the number of spans that the receiver rejects, and why.
    async fn send(
        &mut self,
        settings: &TraceSettings,
        body: String,
    ) -> Result<(u64, String), Failure> {
        let unavailable = |error| Failure::Unavailable(error, None);
        let url = settings.endpoint.url();
        let mut headers = settings.headers().map_err(unavailable)?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let client = match self.client.take() {
            Some(client) => client,
            None => client(url, settings.ca_file.as_deref()).map_err(unavailable)?,
        };
        let sent = client.post(url.clone()).headers(headers).body(body).send();
        let mut answer = sent.await.map_err(|error| unavailable(reason(&error)))?;
        let status = answer.status();
        let wait = retry_after(&answer);
        let mut bytes = Vec::new();
        while bytes.len() < ANSWER_BYTES_MAX
            && let Ok(Some(chunk)) = answer.chunk().await
        {
            bytes.extend_from_slice(&chunk);
        }
        self.client = Some(client);
        let error = || format!("the receiver answers {status}");
        match status {
            status if status.is_success() => Ok(otlp::rejected(&bytes)),
            // These are about the content. What else it refuses, an operator may mend.
            StatusCode::BAD_REQUEST
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY => Err(Failure::Refused(error())),
            _ => Err(Failure::Unavailable(error(), wait)),
        }
    }

    fn failed(&mut self, error: &str) {
        self.metrics.span_export_failed();
        if self.failure.as_deref() != Some(error) {
            tracing::warn!("cannot send traces: {error}");
            self.failure = Some(error.to_owned());
        }
    }

    fn succeeded(&mut self) {
        if self.failure.take().is_some() {
            tracing::warn!("the receiver of traces works again");
        }
    }
}

impl Follower for Exporter {
    fn is_active(&self) -> bool {
        self.epoch().is_some() && !self.has_forgotten
    }

    async fn begin(&mut self) -> Option<Seq> {
        let source = self.source.clone();
        let found = source.call(|store| {
            let position = store.follower_position(FollowerName::Traces)?;
            Ok((position, store.fingerprint()?.store))
        });
        let (position, store) = found.await.ok()?;
        self.store = Some(store);
        self.stored = position;
        self.stored_at = Instant::now();
        if self.settings.is_none() {
            self.has_forgotten = position.is_none() || self.record(None).await;
            return None;
        }
        if position.is_none() {
            // Work of the time before is not sent.
            let last = source.last().await.ok()?;
            if !self.record(Some(last)).await {
                return None;
            }
        }
        self.stored
    }

    async fn handle(&mut self, _: Seq, reached: Seq, page: FactPage) -> Next {
        let Some(settings) = self.settings.clone() else {
            return Next::Restart;
        };
        let mut ends: Vec<End> = page.items.iter().filter_map(end).collect();
        let known = ends.len();
        ends.retain(|end| !is_late(end.at));
        let late = (known - ends.len()) as u64;
        self.metrics.spans_dropped(DropReason::Late, late);
        if let Some(at) = self.sent_at.filter(|_| !page.more && !ends.is_empty()) {
            sleep_until(at + TRACE_LINGER).await;
        }
        if !self.export(&settings, ends).await {
            return Next::Restart;
        }
        let is_due = self.stored_at.elapsed() >= TRACE_POSITION_PAUSE;
        if self.stored != Some(reached) && is_due && !self.record(Some(reached)).await {
            return Next::Restart;
        }
        let is_stored = self.stored == Some(reached);
        Next::Continue((!is_stored).then_some(TRACE_POSITION_PAUSE))
    }
}

fn is_late(at: Wall) -> bool {
    clock::now().wall.since(at) > TRACE_AGE_MAX
}

/// The work that a fact ends.
fn end(entry: &RecordedFact) -> Option<End> {
    let subject = match &entry.fact {
        Fact::AttemptEnded { lease, verdict, .. } if *verdict != Verdict::Requeued => {
            Subject::Instance(lease.attempt.instance)
        }
        Fact::InstancesHalted { first, last, .. } => Subject::Halted(*first, *last),
        Fact::RunEnded {
            run,
            generation,
            state,
        } => Subject::Run(*run, *generation, *state),
        _ => return None,
    };
    Some(End {
        seq: entry.seq,
        at: entry.at,
        subject,
    })
}

/// Reads the history of these ends.
fn find(store: &dyn Store, basis: Basis, ends: &[End]) -> Result<Reading, StoreError> {
    let mut found = Reading::default();
    for end in ends {
        match end.subject {
            Subject::Instance(id) => instance(store, basis, id, end.seq, &mut found)?,
            Subject::Halted(first, last) => {
                halted(store, basis, (first, last), end.seq, &mut found)?
            }
            Subject::Run(run, generation, state) => match store.run(run)? {
                Some(record) => {
                    let submitter = store.plan(run)?.and_then(|plan| plan.trace);
                    let ended = (generation, state);
                    let spans = spans::of_run(basis, &record.head, submitter, ended, end.at);
                    found.spans.extend(spans);
                }
                None => found.gone += 1,
            },
        }
    }
    Ok(found)
}

fn instance(
    store: &dyn Store,
    basis: Basis,
    id: InstanceId,
    until: Seq,
    found: &mut Reading,
) -> Result<(), StoreError> {
    let mut timeline: Vec<RecordedFact> = Vec::new();
    let mut after = None;
    while timeline.len() < TRACE_FACTS_MAX {
        let page = store.timeline(id, after, TRACE_FACTS_MAX)?;
        timeline.extend(page.items);
        after = page.next;
        if after.is_none_or(|after| after >= until) {
            break;
        }
    }
    found.gone += u64::from(timeline.is_empty());
    let spans = spans::of_instance(basis, id, &timeline, until);
    found.spans.extend(spans);
    Ok(())
}

/// The instances of a range that this fact has halted.
fn halted(
    store: &dyn Store,
    basis: Basis,
    (first, last): (InstanceId, InstanceId),
    seq: Seq,
    found: &mut Reading,
) -> Result<(), StoreError> {
    let records = store.within(first, last, &[UniversalState::Halted], TRACE_HALTED_MAX)?;
    let mut room = TRACE_HALTED_MAX as u64;
    for record in records.iter().filter(|record| record.changed == seq) {
        let from = record.instance.id.0.max(first.0);
        let to = record.span.unwrap_or(record.instance.id).0.min(last.0);
        let count = (to - from + 1).min(room);
        for id in from..from + count {
            instance(store, basis, InstanceId(id), seq, found)?;
        }
        room -= count;
        found.beyond += to - from + 1 - count;
    }
    Ok(())
}

/// The time that the receiver wants to be left alone.
fn retry_after(answer: &Response) -> Option<Duration> {
    let value = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
    value.parse().ok().map(Duration::from_secs)
}
