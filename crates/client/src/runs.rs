//! Runs of workflows.

use std::time::Duration;

use baton_model::api::{
    self, ErrorGroup, HaltRun, ItemFilter, List, ResumePreview, ResumeRun, RetryRun, Run,
    RunFilter, RunReply, RunTask, SubmitRun,
};
use baton_model::ids::RunId;
use baton_model::outcome::KillMode;
use reqwest::{Method, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Client;
use crate::dispatch::IDEMPOTENCY_KEY;
use crate::error::ClientError;
use crate::instances::{NO_BODY, append_mode};
use crate::lists::append_query;

/// An item, with its value.
pub type RunItem = api::RunItem<Value>;

/// How to continue a run.
#[derive(Clone, Debug)]
pub enum ResumeRequest {
    /// Run everything that is not DONE, perhaps under another plan.
    Resume(ResumeRun<Value>),
    /// Rerun a task.
    Retry(RetryRun),
}

impl Client {
    /// Submits a workflow, as JSON of the schema of workflow files. When it returns, the run is
    /// durable. With several schedulers it has an idempotency key of its own, as [`Self::submit`] has.
    ///
    /// # Errors
    /// See [`ClientError`]; errors in the workflow are in the problem's `errors`.
    pub async fn submit_run(&self, submit: &SubmitRun<Value>) -> Result<RunReply, ClientError> {
        if let Some(key) = self.transport.fresh_key() {
            return self.submit_run_once(submit, &key).await;
        }
        let url = self.transport.at(&["runs", ""]);
        self.transport.change(Method::POST, url, Some(submit)).await
    }

    /// Submits a workflow with an idempotency key: repeated, it creates nothing new and returns the
    /// same run.
    ///
    /// # Errors
    /// As [`Self::submit_run`].
    pub async fn submit_run_once(
        &self,
        submit: &SubmitRun<Value>,
        key: &str,
    ) -> Result<RunReply, ClientError> {
        let url = self.transport.at(&["runs", ""]);
        let headers = self.headers([(IDEMPOTENCY_KEY, key.to_owned())])?;
        let transport = &self.transport;
        transport
            .change_with(Method::POST, url, Some(submit), headers)
            .await
    }

    /// A run.
    pub async fn run(&self, run: RunId) -> Result<Run, ClientError> {
        self.wait_run(run, Duration::ZERO).await
    }

    /// Waits until a run has ended, at most `wait`, and returns it.
    pub async fn wait_run(&self, run: RunId, wait: Duration) -> Result<Run, ClientError> {
        let mut url = self.run_at(run, &[]);
        if wait > Duration::ZERO {
            let seconds = wait.as_secs().max(1).to_string();
            url.query_pairs_mut().append_pair("wait", &seconds);
        }
        self.transport.get_within(url, wait).await
    }

    /// Runs, at most `limit`: the latest first, unless `sort` is `submitted`.
    pub async fn runs(
        &self,
        filter: &RunFilter,
        sort: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Run>, ClientError> {
        let mut url = self.transport.at(&["runs", ""]);
        append_query(&mut url, filter);
        query(&mut url, "sort", sort);
        self.all(url, limit).await
    }

    /// The tasks of a run in the order of its plan, at most `limit`.
    pub async fn run_tasks(&self, run: RunId, limit: usize) -> Result<Vec<RunTask>, ClientError> {
        self.all(self.run_at(run, &["tasks", ""]), limit).await
    }

    /// Items of a run that have ended or are in flight, at most `limit`.
    pub async fn run_items(
        &self,
        run: RunId,
        filter: &ItemFilter,
        limit: usize,
    ) -> Result<Vec<RunItem>, ClientError> {
        let mut url = self.run_at(run, &["items", ""]);
        append_query(&mut url, filter);
        self.all(url, limit).await
    }

    /// The failures of a run, grouped.
    pub async fn run_errors(&self, run: RunId) -> Result<Vec<ErrorGroup>, ClientError> {
        let list: List<ErrorGroup> = self.transport.get(self.run_at(run, &["errors"])).await?;
        Ok(list.items)
    }

    /// Halts a run.
    pub async fn halt_run(&self, run: RunId, halt: &HaltRun) -> Result<RunReply, ClientError> {
        let url = self.run_at(run, &["halt"]);
        self.transport.change(Method::POST, url, Some(halt)).await
    }

    /// Kills a run.
    pub async fn kill_run(&self, run: RunId, mode: KillMode) -> Result<RunReply, ClientError> {
        let mut url = self.run_at(run, &[]);
        append_mode(&mut url, mode);
        self.transport.change(Method::DELETE, url, NO_BODY).await
    }

    /// Continues a run.
    pub async fn resume_run(
        &self,
        run: RunId,
        request: &ResumeRequest,
    ) -> Result<RunReply, ClientError> {
        self.continue_run(run, request, false).await
    }

    /// What [`Client::resume_run`] would do.
    pub async fn preview_resume(
        &self,
        run: RunId,
        request: &ResumeRequest,
    ) -> Result<ResumePreview, ClientError> {
        self.continue_run(run, request, true).await
    }

    async fn continue_run<T: DeserializeOwned>(
        &self,
        run: RunId,
        request: &ResumeRequest,
        dry: bool,
    ) -> Result<T, ClientError> {
        match request {
            ResumeRequest::Resume(body) => self.post(run, "resume", dry, body).await,
            ResumeRequest::Retry(body) => self.post(run, "retry", dry, body).await,
        }
    }

    async fn post<T: DeserializeOwned>(
        &self,
        run: RunId,
        verb: &str,
        dry: bool,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let mut url = self.run_at(run, &[verb]);
        if dry {
            query(&mut url, "dryRun", Some("true"));
        }
        self.transport.change(Method::POST, url, Some(body)).await
    }

    fn run_at(&self, run: RunId, more: &[&str]) -> Url {
        let run = run.to_string();
        let mut parts = vec!["runs", &run];
        parts.extend(more);
        self.transport.at(&parts)
    }

    /// Reads a list page by page, up to `limit` items.
    async fn all<T: DeserializeOwned>(
        &self,
        mut url: Url,
        limit: usize,
    ) -> Result<Vec<T>, ClientError> {
        const PAGE: usize = 1_000;
        query(&mut url, "limit", Some(&limit.clamp(1, PAGE).to_string()));
        let mut list: List<T> = self.transport.get(url).await?;
        let mut all = list.items;
        while all.len() < limit
            && let Some(next) = list.links.remove("next")
        {
            let url = self.transport.link(&next)?;
            list = self.transport.get(url).await?;
            all.append(&mut list.items);
        }
        all.truncate(limit);
        Ok(all)
    }
}

fn query(url: &mut Url, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        url.query_pairs_mut().append_pair(name, value);
    }
}
