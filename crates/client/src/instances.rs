//! Instances: submitting them, looking at them, waiting for them, stopping them; what
//! they print.

use std::fmt;
use std::time::Duration;

use baton_model::api::{
    Cancelled, Event, Explanation, Instance, List, RangeSummary, Ready, Root, Submit, Submitted,
};
use baton_model::ids::InstanceId;
use reqwest::{Method, Response};

use crate::Client;
use crate::error::ClientError;

/// No body.
pub(crate) const NOTHING: Option<&()> = None;

/// Instances from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub first: InstanceId,
    /// The last.
    pub last: InstanceId,
}

impl Span {
    #[must_use]
    pub const fn count(self) -> u64 {
        self.last.0.saturating_sub(self.first.0).saturating_add(1)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.last)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Its name in a path.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Which part of which log.
#[derive(Clone, Debug)]
pub struct LogQuery {
    pub instance: InstanceId,
    pub stream: Stream,
    /// Of which attempt; the last one if none is named.
    pub attempt: Option<u32>,
    /// Of which process; the first one if none is named.
    pub process: Option<String>,
    /// Of which run of that process; the last one if none is named.
    pub run: Option<u32>,
    /// The first byte.
    pub offset: u64,
}

/// A part of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogChunk {
    pub bytes: Vec<u8>,
    pub offset: u64,
    /// The attempt is over, or its process was started again, and this is the end of the log.
    pub end: bool,
    pub attempt: u32,
    /// Of which run of its process, if it has begun.
    pub run: Option<u32>,
    /// The run that has followed it; then there is no more of this one.
    pub next_run: Option<u32>,
    /// False if its worker has no such file: nothing was printed, or it was cleared away.
    pub kept: bool,
}

impl Client {
    /// `GET /`.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn root(&self) -> Result<Root, ClientError> {
        self.transport.get(self.transport.at(&[""])).await
    }

    /// Whether the scheduler leads and can write, and if not, why.
    ///
    /// # Errors
    /// As [`ClientError`] says; that it is not ready is no error.
    pub async fn ready(&self) -> Result<Ready, ClientError> {
        let url = self.transport.at(&["readyz"]);
        self.transport.get_either_way(url).await
    }

    /// Submits a task, as JSON of the schema of task files. The answer means that it is
    /// durable.
    ///
    /// # Errors
    /// As [`ClientError`] says; what is wrong with the task is a problem with `errors`.
    pub async fn submit(
        &self,
        submit: &Submit<serde_json::Value>,
    ) -> Result<Submitted, ClientError> {
        let url = self.transport.at(&["instances", ""]);
        self.transport.change(Method::POST, url, Some(submit)).await
    }

    /// One instance.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn instance(&self, id: InstanceId) -> Result<Instance, ClientError> {
        self.wait(id, Duration::ZERO).await
    }

    /// One instance, as soon as it is over, or else as it stands after so long.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn wait(&self, id: InstanceId, wait: Duration) -> Result<Instance, ClientError> {
        self.wait_at(&id.to_string(), wait).await
    }

    /// How many of a range are in which state.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn range(&self, span: Span) -> Result<RangeSummary, ClientError> {
        self.wait_range(span, Duration::ZERO).await
    }

    /// The same, as soon as all of them are over, or else after so long.
    ///
    /// # Errors
    /// As [`ClientError`] says.
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

    /// Stops one instance, or a range.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn cancel(&self, span: Span) -> Result<Cancelled, ClientError> {
        let which = match span.count() {
            1 => span.first.to_string(),
            _ => span.to_string(),
        };
        let url = self.transport.at(&["instances", &which]);
        self.transport.change(Method::DELETE, url, NOTHING).await
    }

    /// Gives an instance that has ended badly another chance.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn retry(&self, id: InstanceId) -> Result<(), ClientError> {
        let url = self.of(id, "retry");
        self.transport.ask(Method::POST, url, NOTHING).await?;
        Ok(())
    }

    /// Everything that happened to an instance.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn timeline(&self, id: InstanceId) -> Result<Vec<Event>, ClientError> {
        let mut page: List<Event> = self.transport.get(self.of(id, "timeline")).await?;
        let mut events = std::mem::take(&mut page.items);
        while let Some(next) = page.links.get("next") {
            page = self.transport.get(self.transport.link(next)?).await?;
            events.append(&mut page.items);
        }
        Ok(events)
    }

    /// Why an instance is where it is.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn explain(&self, id: InstanceId) -> Result<Explanation, ClientError> {
        self.transport.get(self.of(id, "explain")).await
    }

    /// A part of what an attempt printed: as much as there is, or as the scheduler gives
    /// at once.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn logs(&self, wish: &LogQuery) -> Result<LogChunk, ClientError> {
        let id = wish.instance.to_string();
        let mut url = self
            .transport
            .at(&["instances", &id, "logs", wish.stream.word()]);
        {
            let mut query = url.query_pairs_mut();
            query.append_pair("offset", &wish.offset.to_string());
            if let Some(attempt) = wish.attempt {
                query.append_pair("attempt", &attempt.to_string());
            }
            if let Some(run) = wish.run {
                query.append_pair("run", &run.to_string());
            }
            if let Some(process) = &wish.process {
                query.append_pair("process", process);
            }
        }
        let answer = self.transport.raw(url).await?;
        let offset = header(&answer, "Baton-Offset")?;
        let end = header(&answer, "Baton-End")?;
        let attempt = header(&answer, "Baton-Attempt")?;
        let run = optional(&answer, "Baton-Run")?;
        let next_run = optional(&answer, "Baton-Next-Run")?;
        let kept = answer.headers().get("Baton-Note").is_none();
        Ok(LogChunk {
            kept,
            bytes: self.transport.bytes(answer).await?,
            offset,
            end,
            attempt,
            run,
            next_run,
        })
    }

    fn of(&self, id: InstanceId, what: &str) -> reqwest::Url {
        self.transport.at(&["instances", &id.to_string(), what])
    }
}

/// A header that may be missing.
fn optional<T: std::str::FromStr>(answer: &Response, name: &str) -> Result<Option<T>, ClientError> {
    let there = answer.headers().contains_key(name);
    there.then(|| header(answer, name)).transpose()
}

fn header<T: std::str::FromStr>(answer: &Response, name: &str) -> Result<T, ClientError> {
    let value = answer.headers().get(name);
    let text = value.and_then(|value| value.to_str().ok());
    let parsed = text.and_then(|text| text.trim_start_matches('#').parse().ok());
    parsed.ok_or_else(|| ClientError::InvalidResponse {
        url: answer.url().to_string(),
        why: format!("its header `{name}` is missing or says nothing"),
    })
}
