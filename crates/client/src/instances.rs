//! Instances: submit, read, wait, cancel; logs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use baton_model::api::{
    ArrayLimit, AttemptProcesses, CancelReply, Event, Explanation, Instance, KillCounts, KillReply,
    List, RangeSummary, Readiness, RetryCounts, Root, SetArrayLimit, Submit, SubmitReply,
};
use baton_model::ids::InstanceId;
use baton_model::outcome::KillMode;
use baton_model::state::UniversalState;
use reqwest::{Method, Response};

use crate::Client;
use crate::dispatch::IDEMPOTENCY_KEY;
use crate::error::ClientError;

/// An empty request body.
pub(crate) const NO_BODY: Option<&()> = None;

/// Instances from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub first: InstanceId,
    pub last: InstanceId,
}

impl Span {
    #[must_use]
    pub const fn count(self) -> u64 {
        self.last.0.saturating_sub(self.first.0).saturating_add(1)
    }
}

impl Span {
    /// As it is written in a path.
    fn short(self) -> String {
        match self.count() {
            1 => self.first.to_string(),
            _ => self.to_string(),
        }
    }
}

/// Ids and ranges that one request names; a scheduler accepts twice as many.
const RANGES_PER_REQUEST: usize = 100;

/// Instances that a scheduler retries or kills by one request.
const BULK_INSTANCES_MAX: u64 = 10_000;

/// The paths of as many requests as ranges need: each names some of them, and at most `instances_max`
/// instances. It is a range or a list, so that the reply has counts.
fn requests(spans: &[Span], instances_max: u64) -> Vec<String> {
    let mut requests = Vec::new();
    let (mut parts, mut instances) = (Vec::new(), 0);
    for span in spans {
        let mut rest = Some(*span);
        while let Some(span) = rest {
            if parts.len() == RANGES_PER_REQUEST || instances == instances_max {
                requests.push(std::mem::take(&mut parts).join(","));
                instances = 0;
            }
            let room = instances_max - instances;
            let fits = Span {
                first: span.first,
                last: span
                    .last
                    .min(InstanceId(span.first.0.saturating_add(room - 1))),
            };
            parts.push(fits.to_string());
            instances += fits.count();
            rest = (fits.last < span.last).then(|| Span {
                first: fits.last.next(),
                last: span.last,
            });
        }
    }
    if !parts.is_empty() {
        requests.push(parts.join(","));
    }
    requests
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.last)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Query for a part of a log.
#[derive(Clone, Debug)]
pub struct LogQuery {
    pub instance: InstanceId,
    pub stream: Stream,
    /// The attempt; the last one if `None`.
    pub attempt: Option<u32>,
    /// The process; the first one if `None`.
    pub process: Option<String>,
    /// The run of that process; the last one if `None`.
    pub run: Option<u32>,
    /// The first byte, counted from the oldest that is retained.
    pub offset: u64,
    /// Where an earlier part has ended; the offset does not count then.
    pub cursor: Option<String>,
}

/// A part of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogChunk {
    pub bytes: Vec<u8>,
    /// Where the next part begins, also after the log was rotated.
    pub cursor: Option<String>,
    /// The log is complete: the attempt has ended, or its process was started again.
    pub end: bool,
    pub attempt: u32,
    /// The run of its process, if it has started.
    pub run: Option<u32>,
    /// The next run of the process; this run's log is then complete.
    pub next_run: Option<u32>,
    /// Bytes of the whole log so far, if there is one.
    pub size: Option<u64>,
    /// False if its worker has no such file: nothing was printed, or it was removed.
    pub kept: bool,
}

impl Client {
    /// `GET /`.
    pub async fn root(&self) -> Result<Root, ClientError> {
        self.transport.get(self.transport.at(&[""])).await
    }

    /// Whether the scheduler leads and can write, and if not, why.
    ///
    /// # Errors
    /// See [`ClientError`]; a scheduler that is not ready is not an error.
    pub async fn ready(&self) -> Result<Readiness, ClientError> {
        let url = self.transport.at(&["readyz"]);
        self.transport.get_any_status(url).await
    }

    /// Submits a task, as JSON of the schema of task files. When it returns, the submission is
    /// durable. With several schedulers it has an idempotency key of its own, so that another one may be asked
    /// if the first does not answer.
    ///
    /// # Errors
    /// See [`ClientError`]; errors in the task are in the problem's `errors`.
    pub async fn submit(
        &self,
        submit: &Submit<serde_json::Value>,
    ) -> Result<SubmitReply, ClientError> {
        if let Some(key) = self.transport.fresh_key() {
            return self.submit_once(submit, &key).await;
        }
        let url = self.transport.at(&["instances", ""]);
        self.transport.change(Method::POST, url, Some(submit)).await
    }

    /// Submits instances with an idempotency key: repeated, it creates nothing new and returns the
    /// same ids.
    pub async fn submit_once(
        &self,
        submit: &Submit<serde_json::Value>,
        key: &str,
    ) -> Result<SubmitReply, ClientError> {
        let url = self.transport.at(&["instances", ""]);
        let headers = self.headers([(IDEMPOTENCY_KEY, key.to_owned())])?;
        let transport = &self.transport;
        transport
            .change_with(Method::POST, url, Some(submit), headers)
            .await
    }

    /// One instance.
    pub async fn instance(&self, id: InstanceId) -> Result<Instance, ClientError> {
        self.wait(id, Duration::ZERO).await
    }

    /// Waits until an instance has ended, at most `wait`, and returns it.
    pub async fn wait(&self, id: InstanceId, wait: Duration) -> Result<Instance, ClientError> {
        self.wait_at(&id.to_string(), wait).await
    }

    /// Counts the instances of a range by state.
    pub async fn range(&self, span: Span) -> Result<RangeSummary, ClientError> {
        self.wait_range(span, Duration::ZERO).await
    }

    /// Waits until all instances of a range have ended, at most `wait`, and returns their counts.
    pub async fn wait_range(
        &self,
        span: Span,
        wait: Duration,
    ) -> Result<RangeSummary, ClientError> {
        self.wait_at(&span.to_string(), wait).await
    }

    async fn wait_at<T: serde::de::DeserializeOwned>(
        &self,
        which: &str,
        wait: Duration,
    ) -> Result<T, ClientError> {
        let mut url = self.transport.at(&["instances", which]);
        if wait > Duration::ZERO {
            let seconds = wait.as_secs().max(1).to_string();
            url.query_pairs_mut().append_pair("wait", &seconds);
        }
        self.transport.get_within(url, wait).await
    }

    /// Cancels one instance, or a range.
    pub async fn cancel(&self, span: Span, mode: KillMode) -> Result<CancelReply, ClientError> {
        let mut url = self.transport.at(&["instances", &span.short()]);
        append_mode(&mut url, mode);
        self.transport.change(Method::DELETE, url, NO_BODY).await
    }

    /// Cancels the instances of several ranges, with as few requests as they need.
    pub async fn cancel_all(
        &self,
        spans: &[Span],
        mode: KillMode,
    ) -> Result<CancelReply, ClientError> {
        let mut all = CancelReply {
            halted: 0,
            stopping: 0,
        };
        for which in requests(spans, u64::MAX) {
            let mut url = self.transport.at(&["instances", &which]);
            append_mode(&mut url, mode);
            let reply: CancelReply = self.transport.change(Method::DELETE, url, NO_BODY).await?;
            all.halted += reply.halted;
            all.stopping += reply.stopping;
        }
        Ok(all)
    }

    /// Kills the attempts that run in several ranges.
    pub async fn kill_all(
        &self,
        spans: &[Span],
        mode: KillMode,
    ) -> Result<KillCounts, ClientError> {
        let mut all = KillCounts::default();
        for which in requests(spans, BULK_INSTANCES_MAX) {
            let mut url = self.transport.at(&["instances", &which, "kill"]);
            append_mode(&mut url, mode);
            let reply: KillCounts = self.transport.change(Method::POST, url, NO_BODY).await?;
            all.killed += reply.killed;
            all.skipped += reply.skipped;
        }
        Ok(all)
    }

    /// Retries the instances of several ranges that are in this state, FAILED or HALTED.
    pub async fn retry_all(
        &self,
        spans: &[Span],
        state: UniversalState,
    ) -> Result<RetryCounts, ClientError> {
        let mut all = RetryCounts::default();
        for which in requests(spans, BULK_INSTANCES_MAX) {
            let mut url = self.transport.at(&["instances", &which, "retry"]);
            url.query_pairs_mut().append_pair("state", state.word());
            let reply: RetryCounts = self.transport.change(Method::POST, url, NO_BODY).await?;
            all.retried += reply.retried;
            all.skipped += reply.skipped;
        }
        Ok(all)
    }

    /// Waits until all instances of several ranges have ended, at most `wait`, and returns their
    /// counts. Many ranges take several requests, of which only the first waits.
    pub async fn wait_all(
        &self,
        spans: &[Span],
        wait: Duration,
    ) -> Result<BTreeMap<UniversalState, u64>, ClientError> {
        let mut all = BTreeMap::new();
        let mut wait = wait;
        for which in requests(spans, u64::MAX) {
            let summary: RangeSummary = self.wait_at(&which, wait).await?;
            for (state, count) in summary.counts {
                *all.entry(state).or_default() += count;
            }
            let over = all.keys().all(|state: &UniversalState| state.is_terminal());
            if !over {
                wait = Duration::ZERO;
            }
        }
        Ok(all)
    }

    /// Kills the attempt that runs, only if it has this number; retries follow.
    pub async fn kill_attempt(
        &self,
        id: InstanceId,
        attempt: Option<u32>,
        mode: KillMode,
    ) -> Result<KillReply, ClientError> {
        let mut url = self.of(id, "kill");
        if let Some(attempt) = attempt {
            url.query_pairs_mut()
                .append_pair("attempt", &attempt.to_string());
        }
        append_mode(&mut url, mode);
        self.transport.change(Method::POST, url, NO_BODY).await
    }

    /// Changes how many elements of the array of these instances run at once; none for no limit.
    pub async fn limit_array(
        &self,
        span: Span,
        max_concurrent: Option<u32>,
    ) -> Result<ArrayLimit, ClientError> {
        let url = self.transport.at(&["instances", &span.short(), "limit"]);
        let body = SetArrayLimit { max_concurrent };
        self.transport.change(Method::PUT, url, Some(&body)).await
    }

    /// Retries an instance that ended without success.
    pub async fn retry(&self, id: InstanceId) -> Result<(), ClientError> {
        let url = self.of(id, "retry");
        self.transport
            .send_change(Method::POST, url, NO_BODY)
            .await?;
        Ok(())
    }

    /// All events of an instance.
    pub async fn timeline(&self, id: InstanceId) -> Result<Vec<Event>, ClientError> {
        let mut page: List<Event> = self.transport.get(self.of(id, "timeline")).await?;
        let mut events = std::mem::take(&mut page.items);
        while let Some(next) = page.links.get("next") {
            page = self.transport.get(self.transport.link(next)?).await?;
            events.append(&mut page.items);
        }
        Ok(events)
    }

    /// Explains the state of an instance.
    pub async fn explain(&self, id: InstanceId) -> Result<Explanation, ClientError> {
        self.transport.get(self.of(id, "explain")).await
    }

    /// The processes of an attempt, the given one or the last, with at most so many samples of each.
    pub async fn processes(
        &self,
        id: InstanceId,
        attempt: Option<u32>,
        samples: u32,
    ) -> Result<AttemptProcesses, ClientError> {
        let mut url = self.of(id, "processes");
        url.query_pairs_mut()
            .append_pair("samples", &samples.to_string());
        if let Some(attempt) = attempt {
            url.query_pairs_mut()
                .append_pair("attempt", &attempt.to_string());
        }
        self.transport.get(url).await
    }

    /// Reads a part of an attempt's log: as much as exists, or as the scheduler returns at once.
    pub async fn logs(&self, query: &LogQuery) -> Result<LogChunk, ClientError> {
        let id = query.instance.to_string();
        let mut url = self
            .transport
            .at(&["instances", &id, "logs", query.stream.into_str()]);
        {
            let mut pairs = url.query_pairs_mut();
            match &query.cursor {
                Some(cursor) => pairs.append_pair("cursor", cursor),
                None => pairs.append_pair("offset", &query.offset.to_string()),
            };
            if let Some(attempt) = query.attempt {
                pairs.append_pair("attempt", &attempt.to_string());
            }
            if let Some(run) = query.run {
                pairs.append_pair("run", &run.to_string());
            }
            if let Some(process) = &query.process {
                pairs.append_pair("process", process);
            }
        }
        let response = self.transport.raw(url).await?;
        let cursor = optional(&response, "Baton-Cursor")?;
        let end = header(&response, "Baton-End")?;
        let attempt = header(&response, "Baton-Attempt")?;
        let run = optional(&response, "Baton-Run")?;
        let next_run = optional(&response, "Baton-Next-Run")?;
        let size = optional(&response, "Baton-Size")?;
        let kept = response.headers().get("Baton-Note").is_none();
        Ok(LogChunk {
            kept,
            bytes: self.transport.bytes(response).await?,
            cursor,
            end,
            attempt,
            run,
            next_run,
            size,
        })
    }

    fn of(&self, id: InstanceId, what: &str) -> reqwest::Url {
        self.transport.at(&["instances", &id.to_string(), what])
    }
}

/// Adds how attempts are killed, unless that is the default.
pub(crate) fn append_mode(url: &mut reqwest::Url, mode: KillMode) {
    if mode == KillMode::Now {
        url.query_pairs_mut().append_pair("now", "true");
    }
}

/// Parses an optional header.
fn optional<T: std::str::FromStr>(
    response: &Response,
    name: &str,
) -> Result<Option<T>, ClientError> {
    let there = response.headers().contains_key(name);
    there.then(|| header(response, name)).transpose()
}

fn header<T: std::str::FromStr>(response: &Response, name: &str) -> Result<T, ClientError> {
    let value = response.headers().get(name);
    let text = value.and_then(|value| value.to_str().ok());
    let parsed = text.and_then(|text| text.trim_start_matches('#').parse().ok());
    parsed.ok_or_else(|| ClientError::InvalidResponse {
        url: response.url().to_string(),
        reason: format!("the header `{name}` is missing or invalid"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first: u64, last: u64) -> Span {
        Span {
            first: InstanceId(first),
            last: InstanceId(last),
        }
    }

    #[test]
    fn requests_are_few_and_each_is_within_the_limits() {
        assert!(requests(&[], 10).is_empty());
        assert_eq!(requests(&[span(1, 1)], 10), ["i1..i1"]);
        assert_eq!(
            requests(&[span(1, 4), span(7, 21)], 10),
            ["i1..i4,i7..i12", "i13..i21"]
        );
        let million = span(1, 1_000_000);
        assert_eq!(requests(&[million], u64::MAX), ["i1..i1000000"]);
        let many: Vec<Span> = (0..250).map(|id| span(id * 2, id * 2)).collect();
        let sent = requests(&many, 10_000);
        let names: Vec<usize> = sent.iter().map(|it| it.split(',').count()).collect();
        assert_eq!(names, [100, 100, 50]);
    }
}
