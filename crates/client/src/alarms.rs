//! Open alarms.

use baton_model::api::{Alarm, List};

use crate::Client;
use crate::error::ClientError;

impl Client {
    /// The oldest open alarms of an owner, or of all, and the number of all of them.
    pub async fn alarms(
        &self,
        owner: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Alarm>, u64), ClientError> {
        let mut url = self.transport.at(&["alarms", ""]);
        {
            let mut pairs = url.query_pairs_mut();
            pairs.append_pair("limit", &limit.clamp(1, 1_000).to_string());
            if let Some(owner) = owner {
                pairs.append_pair("owner", owner);
            }
        }
        let list: List<Alarm> = self.transport.get(url).await?;
        let total = list.total.unwrap_or(list.items.len() as u64);
        Ok((list.items, total))
    }
}
