//! Usage by owner and hour.

use baton_model::api::{List, Usage};
use baton_model::time::Wall;

use crate::Client;
use crate::error::ClientError;

/// Rows on a page: the maximum that a scheduler returns.
const PAGE_ROWS: &str = "1000";

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
}
