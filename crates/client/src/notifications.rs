//! Notifications, and their channels.

use baton_model::api::{ChannelTest, List, Notification, NotificationChannel, NotificationFilter};
use reqwest::Method;

use crate::Client;
use crate::error::ClientError;

impl Client {
    /// Notifications, the latest first.
    pub async fn notifications(
        &self,
        filter: &NotificationFilter,
        limit: usize,
    ) -> Result<Vec<Notification>, ClientError> {
        let mut url = self.transport.at(&["notifications", ""]);
        {
            let mut pairs = url.query_pairs_mut();
            pairs.append_pair("limit", &limit.clamp(1, 1_000).to_string());
            let texts = [
                ("owner", filter.owner.as_deref()),
                ("kind", filter.kind.map(|kind| kind.word())),
                ("channel", filter.channel.as_deref()),
                ("state", filter.state.map(|state| state.word())),
            ];
            for (name, value) in texts {
                if let Some(value) = value {
                    pairs.append_pair(name, value);
                }
            }
        }
        let mut found = Vec::new();
        loop {
            let mut page: List<Notification> = self.transport.get(url).await?;
            found.append(&mut page.items);
            match page.links.get("next") {
                Some(next) if found.len() < limit => url = self.transport.link(next)?,
                _ => break,
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// The channels of the scheduler.
    pub async fn notification_channels(&self) -> Result<Vec<NotificationChannel>, ClientError> {
        let url = self.transport.at(&["notifications", "channels", ""]);
        let list: List<NotificationChannel> = self.transport.get(url).await?;
        Ok(list.items)
    }

    /// Sends a test by a channel.
    pub async fn test_channel(&self, channel: &str) -> Result<ChannelTest, ClientError> {
        let url = self
            .transport
            .at(&["notifications", "channels", channel, "test"]);
        let no_body: Option<&()> = None;
        self.transport.change(Method::POST, url, no_body).await
    }
}
