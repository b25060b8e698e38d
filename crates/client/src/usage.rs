//! Usage by owner and hour, and by task.

use baton_model::api::{List, TaskUsage, Usage};
use baton_model::time::Wall;

use crate::Client;
use crate::error::ClientError;

/// Rows on a page: the maximum that a scheduler returns.
const PAGE_ROWS: &str = "1000";

/// Tasks on a page: each of them is computed from 200 measurements.
const TASK_ROWS: &str = "200";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageQuery {
    /// Only this owner.
    pub owner: Option<String>,
    /// A time in the first hour.
    pub from: Wall,
    /// A time in the last hour.
    pub to: Wall,
}

impl Client {
    /// Usage by hour and owner.
    pub async fn usage(&self, query: &UsageQuery) -> Result<Vec<Usage>, ClientError> {
        let mut url = self.transport.at(&["usage", ""]);
        {
            let mut pairs = url.query_pairs_mut();
            pairs.append_pair("from", &query.from.0.to_string());
            pairs.append_pair("to", &query.to.0.to_string());
            pairs.append_pair("limit", PAGE_ROWS);
            if let Some(owner) = &query.owner {
                pairs.append_pair("owner", owner);
            }
        }
        let mut page: List<Usage> = self.transport.get(url).await?;
        let mut rows = std::mem::take(&mut page.items);
        while let Some(next) = page.links.get("next") {
            page = self.transport.get(self.transport.link(next)?).await?;
            rows.append(&mut page.items);
        }
        Ok(rows)
    }

    /// What the tasks of an owner, or of all, have requested and used, by owner, workflow and task.
    pub async fn task_usage(&self, owner: Option<&str>) -> Result<Vec<TaskUsage>, ClientError> {
        let mut url = self.transport.at(&["usage", "tasks", ""]);
        {
            let mut pairs = url.query_pairs_mut();
            pairs.append_pair("limit", TASK_ROWS);
            if let Some(owner) = owner {
                pairs.append_pair("owner", owner);
            }
        }
        let mut page: List<TaskUsage> = self.transport.get(url).await?;
        let mut rows = std::mem::take(&mut page.items);
        while let Some(next) = page.links.get("next") {
            page = self.transport.get(self.transport.link(next)?).await?;
            rows.append(&mut page.items);
        }
        Ok(rows)
    }
}
