//! Views, page by page, workers, fleets, schedulers, and cluster-wide limits.

use baton_model::api::{
    self, DrainRequest, Fleet, FleetJob, FleetJobLog, FleetPage, FleetUsage, Instance,
    InstanceFilter, Limit, LimitRemoval, List, PauseFleet, Scheduler, SetLimit, SetShare, Share,
    Worker,
};
use baton_model::fleet::Trial;
use baton_model::time::Wall;
use reqwest::{Method, Url};
use serde::Serialize;
use serde_json::Value;

use crate::Client;
use crate::error::ClientError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum View {
    /// Ready, without a lease.
    Bullpen,
    Arena,
    History,
}

/// Order and size of the pages of a view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageOptions {
    /// The order, such as `-submitted`.
    pub sort: Option<String>,
    /// Maximum number of items on a page.
    pub limit: Option<u64>,
    /// Whether the scheduler says why each of the first waits; in the bullpen only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reasons: bool,
}

/// The pages of a view.
#[derive(Debug)]
pub struct Pages<'a> {
    client: &'a Client,
    next: Option<Url>,
}

impl Pages<'_> {
    /// The next page; `None` after the last.
    ///
    /// # Errors
    /// See [`ClientError`]; calling it again then requests the same page.
    pub async fn next(&mut self) -> Result<Option<List<Instance>>, ClientError> {
        let Some(url) = self.next.clone() else {
            return Ok(None);
        };
        let page: List<Instance> = self.client.transport.get(url).await?;
        self.next = match page.links.get("next") {
            Some(link) => Some(self.client.transport.link(link)?),
            None => None,
        };
        Ok(Some(page))
    }
}

impl Client {
    /// The pages of a view.
    #[must_use]
    pub fn view(&self, view: View, filter: &InstanceFilter, options: &PageOptions) -> Pages<'_> {
        let mut url = self.transport.at(&[view.into_str(), ""]);
        append_query(&mut url, filter);
        append_query(&mut url, options);
        Pages {
            client: self,
            next: Some(url),
        }
    }

    /// Every worker that the scheduler knows.
    pub async fn workers(&self) -> Result<Vec<Worker>, ClientError> {
        let url = self.transport.at(&["workers", ""]);
        let mut page: List<Worker> = self.transport.get(url).await?;
        let mut workers = std::mem::take(&mut page.items);
        while let Some(next) = page.links.get("next") {
            page = self.transport.get(self.transport.link(next)?).await?;
            workers.append(&mut page.items);
        }
        Ok(workers)
    }

    /// All schedulers of the store.
    pub async fn schedulers(&self) -> Result<Vec<Scheduler>, ClientError> {
        let url = self.transport.at(&["schedulers", ""]);
        let page: List<Scheduler> = self.transport.get(url).await?;
        Ok(page.items)
    }

    /// One worker.
    pub async fn worker(&self, name: &str) -> Result<Worker, ClientError> {
        let url = self.transport.at(&["workers", name]);
        self.transport.get(url).await
    }

    /// Drains a worker (no more work is placed on it), or undrains it.
    pub async fn drain(&self, name: &str, drained: bool) -> Result<(), ClientError> {
        let url = self.transport.at(&["workers", name, "drained"]);
        let body = DrainRequest { drained };
        self.transport
            .send_change(Method::PUT, url, Some(&body))
            .await?;
        Ok(())
    }

    /// Every fleet, and the errors of the file of fleets.
    pub async fn fleets(&self) -> Result<FleetPage, ClientError> {
        let url = self.transport.at(&["fleets", ""]);
        self.transport.get(url).await
    }

    /// One fleet.
    pub async fn fleet(&self, name: &str) -> Result<Fleet, ClientError> {
        self.transport
            .get(self.transport.at(&["fleets", name]))
            .await
    }

    /// The latest jobs of a fleet, those that have ended included.
    pub async fn fleet_jobs(&self, name: &str) -> Result<Vec<FleetJob>, ClientError> {
        let url = self.transport.at(&["fleets", name, "jobs", ""]);
        let page: List<FleetJob> = self.transport.get(url).await?;
        Ok(page.items)
    }

    /// The ends of the logs of a job that are files of the scheduler's host.
    pub async fn fleet_job_log(
        &self,
        name: &str,
        job: &str,
    ) -> Result<Vec<FleetJobLog>, ClientError> {
        let url = self.transport.at(&["fleets", name, "jobs", job, "log"]);
        let page: List<FleetJobLog> = self.transport.get(url).await?;
        Ok(page.items)
    }

    /// Defines a fleet, or changes it. The definition is that of a file of fleets.
    pub async fn define_fleet(&self, name: &str, definition: &Value) -> Result<Fleet, ClientError> {
        let url = self.transport.at(&["fleets", name]);
        self.transport
            .change(Method::PUT, url, Some(definition))
            .await
    }

    /// Asks the cluster manager whether it would take a job of a definition.
    pub async fn try_fleet(&self, name: &str, definition: &Value) -> Result<Trial, ClientError> {
        let url = self.transport.at(&["fleets", name, "trial"]);
        self.transport
            .change(Method::POST, url, Some(definition))
            .await
    }

    /// Pauses or resumes a fleet.
    pub async fn pause_fleet(&self, name: &str, paused: bool) -> Result<Fleet, ClientError> {
        let url = self.transport.at(&["fleets", name, "paused"]);
        let body = PauseFleet { paused };
        self.transport.change(Method::PUT, url, Some(&body)).await
    }

    /// Removes a fleet; with `drain`, its running jobs end when they have no more work.
    pub async fn remove_fleet(&self, name: &str, drain: bool) -> Result<(), ClientError> {
        let mut url = self.transport.at(&["fleets", name]);
        if drain {
            url.query_pairs_mut().append_pair("drain", "true");
        }
        let no_body: Option<&()> = None;
        self.transport
            .send_change(Method::DELETE, url, no_body)
            .await?;
        Ok(())
    }

    /// What the jobs of fleets have used in a period.
    pub async fn fleet_usage(&self, from: Wall, to: Wall) -> Result<Vec<FleetUsage>, ClientError> {
        let mut url = self.transport.at(&["usage", "fleets", ""]);
        url.query_pairs_mut()
            .append_pair("from", &from.0.to_string())
            .append_pair("to", &to.0.to_string());
        let page: List<FleetUsage> = self.transport.get(url).await?;
        Ok(page.items)
    }

    /// Every cluster-wide limit.
    pub async fn limits(&self) -> Result<Vec<Limit>, ClientError> {
        let url = self.transport.at(&["limits", ""]);
        let page: List<Limit> = self.transport.get(url).await?;
        Ok(page.items)
    }

    /// Sets a cluster-wide limit: a capacity, or a rate.
    pub async fn set_limit(&self, name: &str, value: &SetLimit) -> Result<Limit, ClientError> {
        let url = self.transport.at(&["limits", name]);
        self.transport.change(Method::PUT, url, Some(value)).await
    }

    /// Every share of an owner that was set.
    pub async fn shares(&self) -> Result<Vec<Share>, ClientError> {
        let url = self.transport.at(&["shares", ""]);
        let page: List<Share> = self.transport.get(url).await?;
        Ok(page.items)
    }

    /// Sets the share of an owner.
    pub async fn set_share(&self, owner: &str, weight: u32) -> Result<Share, ClientError> {
        let url = self.transport.at(&["shares", owner]);
        let body = SetShare { weight };
        self.transport.change(Method::PUT, url, Some(&body)).await
    }

    /// Removes the share of an owner, which then has weight 1.
    pub async fn remove_share(&self, owner: &str) -> Result<(), ClientError> {
        let url = self.transport.at(&["shares", owner]);
        let no_body: Option<&()> = None;
        self.transport
            .send_change(Method::DELETE, url, no_body)
            .await?;
        Ok(())
    }

    /// Removes a cluster-wide limit that was set at run time.
    pub async fn remove_limit(&self, name: &str) -> Result<LimitRemoval, ClientError> {
        let url = self.transport.at(&["limits", name]);
        let no_body: Option<&()> = None;
        self.transport.change(Method::DELETE, url, no_body).await
    }

    /// Declares that a worker is gone and none of its processes runs.
    pub async fn forget(&self, name: &str) -> Result<(), ClientError> {
        let url = self.transport.at(&["workers", name, "forget"]);
        let no_body: Option<&()> = None;
        self.transport
            .send_change(Method::POST, url, no_body)
            .await?;
        Ok(())
    }
}

/// Appends the fields that are set.
pub(crate) fn append_query(url: &mut Url, fields: &impl Serialize) {
    let pairs = api::query_pairs(fields);
    // A query without pairs would leave a question mark.
    if !pairs.is_empty() {
        url.query_pairs_mut().extend_pairs(pairs);
    }
}
