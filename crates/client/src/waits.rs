//! What queued instances wait for.

use baton_model::api::{List, WaitGroup};

use crate::Client;
use crate::error::ClientError;

impl Client {
    /// What the queued instances of an owner, or of all, wait for, the largest group first; and the number of all
    /// that wait.
    pub async fn wait_groups(
        &self,
        owner: Option<&str>,
    ) -> Result<(Vec<WaitGroup>, u64), ClientError> {
        let mut url = self.transport.at(&["bullpen", "reasons"]);
        if let Some(owner) = owner {
            url.query_pairs_mut().append_pair("owner", owner);
        }
        let list: List<WaitGroup> = self.transport.get(url).await?;
        let total = list.total.unwrap_or_default();
        Ok((list.items, total))
    }
}
