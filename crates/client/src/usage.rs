//! What was used, by owner and hour.

use baton_model::api::{List, Usage};
use baton_model::time::Wall;

use crate::Client;
use crate::error::ClientError;

/// Rows on a page: the most that a scheduler gives.
const PAGE_ROWS: &str = "1000";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageQuery {
    /// Of this owner only.
    pub owner: Option<String>,
    /// From the hour on that this moment is in.
    pub from: Wall,
    /// To the hour that this moment is in.
    pub to: Wall,
}

impl Client {
    /// What was used, by hour and owner.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub async fn usage(&self, wish: &UsageQuery) -> Result<Vec<Usage>, ClientError> {
        let mut url = self.transport.at(&["usage", ""]);
        {
            let mut query = url.query_pairs_mut();
            query.append_pair("from", &wish.from.0.to_string());
            query.append_pair("to", &wish.to.0.to_string());
            query.append_pair("limit", PAGE_ROWS);
            if let Some(owner) = &wish.owner {
                query.append_pair("owner", owner);
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
