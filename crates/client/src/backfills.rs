//! Backfills of tasks and workflows.

use baton_model::api::{Backfill, BackfillLaunch, BackfillReply, BackfillRequest, List};
use baton_model::library::TaskName;
use reqwest::Method;

use crate::Client;
use crate::error::ClientError;

impl Client {
    /// Registers a backfill, or with `dry_run` returns what it would launch.
    pub async fn backfill(
        &self,
        name: &TaskName,
        request: &BackfillRequest,
        dry_run: bool,
    ) -> Result<BackfillReply, ClientError> {
        let mut url = self
            .transport
            .at(&[&name.owner, "tasks", &name.name, "backfills", ""]);
        if dry_run {
            url.query_pairs_mut().append_pair("dryRun", "true");
        }
        self.transport
            .change_with(Method::POST, url, Some(request), Vec::new())
            .await
    }

    /// Every backfill of an entry, or of all, the latest first.
    pub async fn backfills(&self, name: Option<&TaskName>) -> Result<Vec<Backfill>, ClientError> {
        let mut url = self.transport.at(&["backfills", ""]);
        if let Some(name) = name {
            url.query_pairs_mut()
                .append_pair("owner", &name.owner)
                .append_pair("name", &name.name);
        }
        let mut page: List<Backfill> = self.transport.get(url).await?;
        let mut all = std::mem::take(&mut page.items);
        while let Some(next) = page.links.remove("next") {
            page = self.transport.get(self.transport.link(&next)?).await?;
            all.append(&mut page.items);
        }
        Ok(all)
    }

    /// A backfill.
    pub async fn show_backfill(&self, id: &str) -> Result<Backfill, ClientError> {
        let url = self.transport.at(&["backfills", id]);
        self.transport.get(url).await
    }

    /// Every launch of a backfill, by due time.
    pub async fn backfill_launches(&self, id: &str) -> Result<Vec<BackfillLaunch>, ClientError> {
        let url = self.transport.at(&["backfills", id, "launches", ""]);
        let mut page: List<BackfillLaunch> = self.transport.get(url).await?;
        let mut all = std::mem::take(&mut page.items);
        while let Some(next) = page.links.remove("next") {
            page = self.transport.get(self.transport.link(&next)?).await?;
            all.append(&mut page.items);
        }
        Ok(all)
    }

    /// Changes a backfill: `halt`, `resume` or `cancel`.
    pub async fn change_backfill(&self, id: &str, verb: &str) -> Result<Backfill, ClientError> {
        let url = self.transport.at(&["backfills", id, verb]);
        let no_body: Option<&()> = None;
        self.transport
            .change_with(Method::POST, url, no_body, Vec::new())
            .await
    }
}
