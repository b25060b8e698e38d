//! Notifications and their channels.

use serde::{Deserialize, Serialize};

use super::Links;
use crate::notify::{Delivery, DeliveryState, Notice, NoticeKind};

/// A notification and its deliveries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// In the order in which they were made.
    pub id: u64,
    pub notice: Notice,
    /// One for each channel.
    pub deliveries: Vec<Delivery>,
    /// `subject`: the resource that it is about.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// A channel of notifications.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NotificationChannel {
    pub name: String,
    /// `webhook`, `mail` or `command`.
    pub kind: String,
    /// Notices in a minute, beyond which they come as one digest.
    pub rate: u32,
    /// Deliveries that no receiver has acknowledged yet.
    pub waiting: u64,
    pub sent: u64,
    /// Deliveries that were given up.
    pub given_up: u64,
    /// Since when its deliveries fail, as far as this leader knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since_at: Option<u64>,
    /// The last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `POST …/test`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// Answer to a test of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChannelTest {
    pub channel: String,
    /// True if the receiver has acknowledged it.
    pub delivered: bool,
    /// What the receiver has answered, or why it did not.
    pub answer: String,
}

/// Filters of the list of notifications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotificationFilter {
    pub owner: Option<String>,
    pub kind: Option<NoticeKind>,
    pub channel: Option<String>,
    /// Only those with a delivery in this state.
    pub state: Option<DeliveryState>,
}
