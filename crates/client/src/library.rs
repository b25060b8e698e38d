//! The library: tasks and workflows, revisions and due times; triggers.

use baton_model::api::{
    DefineReply, DueTimes, LibraryPage, List, PauseRequest, Task, Tick, TriggerReply, TriggerTask,
};
use baton_model::library::TaskName;
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use serde_json::Value;

use crate::Client;
use crate::dispatch::IDEMPOTENCY_KEY;
use crate::error::ClientError;

/// Precondition for defining a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// There is no task of this name.
    Absent,
    /// The task has this revision.
    Revision(u32),
}

/// A trigger of a task or a workflow.
#[derive(Clone, Debug, Default)]
pub struct TriggerRequest {
    /// Values of its parameters.
    pub request: TriggerTask,
    /// Use its trigger URL instead of a manual run.
    pub remote: bool,
    /// Idempotency key: the request is carried out once, however often it is sent. Without one, a request to
    /// one of several schedulers gets a fresh one.
    pub key: Option<String>,
    /// The secret of the entry.
    pub secret: Option<String>,
}

impl Client {
    /// Every task of the library, of one owner or of all, with the errors in files of its
    /// directory.
    pub async fn library(&self, owner: Option<&str>) -> Result<LibraryPage<Value>, ClientError> {
        let mut url = self.transport.at(&["library", ""]);
        if let Some(owner) = owner {
            url.query_pairs_mut().append_pair("owner", owner);
        }
        let mut all: LibraryPage<Value> = self.transport.get(url).await?;
        while let Some(next) = all.links.remove("next") {
            let url = self.transport.link(&next)?;
            let mut page: LibraryPage<Value> = self.transport.get(url).await?;
            all.items.append(&mut page.items);
            all.links = page.links;
        }
        Ok(all)
    }

    /// A task, in its current revision or the given one; `None` if there is none.
    pub async fn task(
        &self,
        name: &TaskName,
        revision: Option<u32>,
    ) -> Result<Option<Task<Value>>, ClientError> {
        let mut url = self.task_at(name, &[]);
        if let Some(revision) = revision {
            let revision = revision.to_string();
            url.query_pairs_mut().append_pair("revision", &revision);
        }
        match self.transport.get(url).await {
            Ok(task) => Ok(Some(task)),
            Err(ClientError::Problem(problem)) if problem.status == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The latest revisions of a task.
    pub async fn revisions(&self, name: &TaskName) -> Result<List<Task<Value>>, ClientError> {
        self.transport
            .get(self.task_at(name, &["revisions", ""]))
            .await
    }

    /// The next due times of a task.
    pub async fn due(&self, name: &TaskName, count: u32) -> Result<DueTimes, ClientError> {
        let mut url = self.task_at(name, &["due"]);
        url.query_pairs_mut()
            .append_pair("limit", &count.to_string());
        self.transport.get(url).await
    }

    /// Defines a task, or with `dry_run` returns what that would change.
    pub async fn define(
        &self,
        name: &TaskName,
        file: &Value,
        condition: Condition,
        dry_run: bool,
    ) -> Result<DefineReply, ClientError> {
        let mut url = self.task_at(name, &[]);
        if dry_run {
            url.query_pairs_mut().append_pair("dryRun", "true");
        }
        let header = match condition {
            Condition::Absent => (IF_NONE_MATCH, "*".to_owned()),
            Condition::Revision(revision) => (IF_MATCH, format!("\"r{revision}\"")),
        };
        let headers = self.headers([header])?;
        self.transport
            .change_with(Method::PUT, url, Some(file), headers)
            .await
    }

    /// Removes a task.
    pub async fn remove(&self, name: &TaskName) -> Result<(), ClientError> {
        let url = self.task_at(name, &[]);
        let no_body: Option<&()> = None;
        self.transport
            .send_change(Method::DELETE, url, no_body)
            .await?;
        Ok(())
    }

    /// Pauses an entry, or ends its pause.
    pub async fn pause(
        &self,
        name: &TaskName,
        request: &PauseRequest,
    ) -> Result<Task<Value>, ClientError> {
        let url = self.task_at(name, &["paused"]);
        self.transport
            .change_with(Method::PUT, url, Some(request), Vec::new())
            .await
    }

    /// Triggers a task or a workflow. When it returns, the instance or run is durable.
    pub async fn trigger(
        &self,
        name: &TaskName,
        trigger: &TriggerRequest,
    ) -> Result<TriggerReply, ClientError> {
        let last = if trigger.remote { "trigger" } else { "run" };
        let key = trigger.key.clone().or_else(|| self.transport.fresh_key());
        let key = key.map(|key| (IDEMPOTENCY_KEY, key));
        let secret = trigger.secret.clone();
        let secret = secret.map(|it| (HeaderName::from_static("baton-trigger-secret"), it));
        let headers = self.headers(key.into_iter().chain(secret))?;
        let url = self.task_at(name, &[last]);
        self.transport
            .change_with(Method::POST, url, Some(&trigger.request), headers)
            .await
    }

    /// The latest ticks of one task or of all, at most `limit`, the latest first.
    pub async fn ticks(
        &self,
        name: Option<&TaskName>,
        limit: usize,
    ) -> Result<Vec<Tick>, ClientError> {
        let mut url = match name {
            Some(name) => self.task_at(name, &["ticks", ""]),
            None => self.transport.at(&["history", "ticks", ""]),
        };
        let page = limit.clamp(1, 1_000).to_string();
        url.query_pairs_mut().append_pair("limit", &page);
        let mut ticks = Vec::new();
        loop {
            let mut page: List<Tick> = self.transport.get(url).await?;
            ticks.append(&mut page.items);
            match page.links.get("next") {
                Some(next) if ticks.len() < limit => url = self.transport.link(next)?,
                _ => break,
            }
        }
        ticks.truncate(limit);
        Ok(ticks)
    }

    fn task_at(&self, name: &TaskName, more: &[&str]) -> reqwest::Url {
        let mut parts = vec![name.owner.as_str(), "tasks", name.name.as_str()];
        parts.extend(more);
        self.transport.at(&parts)
    }

    pub(crate) fn headers(
        &self,
        pairs: impl IntoIterator<Item = (HeaderName, String)>,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, ClientError> {
        let pairs = pairs.into_iter().map(|(name, text)| {
            let value = HeaderValue::from_str(&text).map_err(|_| ClientError::InvalidResponse {
                url: self.transport.url().to_owned(),
                reason: format!("`{name}` must be one line of plain text"),
            });
            value.map(|mut value| {
                value.set_sensitive(true);
                (name, value)
            })
        });
        pairs.collect()
    }
}
