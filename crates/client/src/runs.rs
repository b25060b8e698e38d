//! Runs of workflows.

use std::time::Duration;

use baton_model::api::{
    self, ErrorGroup, HaltRun, List, ResumePreview, ResumeRun, RetryRun, Run, RunAccepted, RunTask,
    SubmitRun,
};
use baton_model::ids::RunId;
use reqwest::{Method, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Client;
use crate::error::ClientError;
use crate::instances::NOTHING;

/// Which runs are asked for.
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    /// In this state only.
    pub state: Option<String>,
    /// Of this owner only.
    pub owner: Option<String>,
    /// Of this workflow only.
    pub name: Option<String>,
}

/// An item, with its value.
pub type RunItem = api::RunItem<Value>;

/// Which items are asked for.
#[derive(Clone, Debug, Default)]
pub struct ItemFilter {
    /// In this state only.
    pub state: Option<String>,
    /// Of this task only.
    pub task: Option<String>,
    /// This item of that task only.
    pub item: Option<u32>,
}

/// How a run goes on.
#[derive(Clone, Debug)]
pub enum ResumeRequest {
    /// With what is not DONE, perhaps under another plan.
    Resume(ResumeRun<Value>),
    /// With a task that is done again.
    Retry(RetryRun),
}

impl Client {
    /// Submits a workflow, as JSON of the schema of workflow files. The answer means that it is
    /// durable.
    ///
    /// # Errors
    /// As [`ClientError`] says; what is wrong with the workflow is a problem with `errors`.
    pub async fn submit_run(&self, submit: &SubmitRun<Value>) -> Result<RunAccepted, ClientError> {
        let url = self.transport.at(&["runs", ""]);
        self.transport.change(Method::POST, url, Some(submit)).await
    }

    /// A run.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn run(&self, run: RunId) -> Result<Run, ClientError> {
        self.wait_run(run, Duration::ZERO).await
    }

    /// A run, when it is over or after so long.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn wait_run(&self, run: RunId, wait: Duration) -> Result<Run, ClientError> {
        let mut url = self.run_at(run, &[]);
        if wait > Duration::ZERO {
            let seconds = wait.as_secs().max(1).to_string();
            url.query_pairs_mut().append_pair("wait", &seconds);
        }
        self.transport.get_within(url, wait).await
    }

    /// Runs, the latest first, at most so many.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn runs(&self, filter: &RunFilter, most: usize) -> Result<Vec<Run>, ClientError> {
        let mut url = self.transport.at(&["runs", ""]);
        query(&mut url, "state", filter.state.as_deref());
        query(&mut url, "owner", filter.owner.as_deref());
        query(&mut url, "name", filter.name.as_deref());
        self.all(url, most).await
    }

    /// The tasks of a run in the order of its plan, at most so many.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn run_tasks(&self, run: RunId, most: usize) -> Result<Vec<RunTask>, ClientError> {
        self.all(self.run_at(run, &["tasks", ""]), most).await
    }

    /// Items of a run that have ended or are on their way, at most so many.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn run_items(
        &self,
        run: RunId,
        filter: &ItemFilter,
        most: usize,
    ) -> Result<Vec<RunItem>, ClientError> {
        let mut url = self.run_at(run, &["items", ""]);
        query(&mut url, "state", filter.state.as_deref());
        query(&mut url, "task", filter.task.as_deref());
        let item = filter.item.map(|item| item.to_string());
        query(&mut url, "item", item.as_deref());
        self.all(url, most).await
    }

    /// What has failed of a run.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn run_errors(&self, run: RunId) -> Result<Vec<ErrorGroup>, ClientError> {
        let list: List<ErrorGroup> = self.transport.get(self.run_at(run, &["errors"])).await?;
        Ok(list.items)
    }

    /// Stops a run.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn halt_run(&self, run: RunId, halt: &HaltRun) -> Result<RunAccepted, ClientError> {
        let url = self.run_at(run, &["halt"]);
        self.transport.change(Method::POST, url, Some(halt)).await
    }

    /// Kills a run.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn kill_run(&self, run: RunId) -> Result<RunAccepted, ClientError> {
        let url = self.run_at(run, &[]);
        self.transport.change(Method::DELETE, url, NOTHING).await
    }

    /// Lets a run go on.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn resume_run(
        &self,
        run: RunId,
        how: &ResumeRequest,
    ) -> Result<RunAccepted, ClientError> {
        self.on(run, how, false).await
    }

    /// What [`Client::resume_run`] would do.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn preview_resume(
        &self,
        run: RunId,
        how: &ResumeRequest,
    ) -> Result<ResumePreview, ClientError> {
        self.on(run, how, true).await
    }

    async fn on<T: DeserializeOwned>(
        &self,
        run: RunId,
        how: &ResumeRequest,
        dry: bool,
    ) -> Result<T, ClientError> {
        match how {
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

    /// A list with its next pages, until there are so many.
    async fn all<T: DeserializeOwned>(
        &self,
        mut url: Url,
        most: usize,
    ) -> Result<Vec<T>, ClientError> {
        const PAGE: usize = 1_000;
        query(&mut url, "limit", Some(&most.clamp(1, PAGE).to_string()));
        let mut list: List<T> = self.transport.get(url).await?;
        let mut all = list.items;
        while all.len() < most
            && let Some(next) = list.links.remove("next")
        {
            let url = self.transport.link(&next)?;
            list = self.transport.get(url).await?;
            all.append(&mut list.items);
        }
        all.truncate(most);
        Ok(all)
    }
}

fn query(url: &mut Url, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        url.query_pairs_mut().append_pair(name, value);
    }
}
