//! Notifications as they are stored: the position of their follower, what it remembers, the notices, and
//! their deliveries.
//!
//! All of a [`NoticeBatch`] is written in one transaction under the leader's epoch. So a notice and the
//! position behind its fact are durable together, and the next leader makes none twice.

use std::collections::BTreeMap;

use baton_model::notify::{Delivery, DeliveryState, Notice, NoticeKind};
use baton_model::time::Wall;

use crate::view::Seq;

/// Where the follower of notifications continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoticePosition {
    /// The last fact that was handled; none before the first start.
    pub seq: Option<Seq>,
    /// Rows of the machine, by name.
    pub rows: BTreeMap<String, String>,
}

/// Changes that are written together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoticeBatch {
    /// The last fact that was handled.
    pub position: Option<Seq>,
    /// Rows to write; none for those to remove.
    pub rows: BTreeMap<String, Option<String>>,
    /// New notices with their deliveries. One whose key is stored already is left out.
    pub notices: Vec<(Notice, Vec<Delivery>)>,
    /// Changed deliveries, each of the notice of this number.
    pub deliveries: Vec<(u64, Delivery)>,
    /// Removes the position and all rows first: there are no channels any more.
    pub forgets: bool,
}

/// A stored notice with its deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeRecord {
    /// In the order in which they were made.
    pub id: u64,
    pub notice: Notice,
    pub deliveries: Vec<Delivery>,
}

/// Query for a page of notices, the latest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoticeQuery {
    pub owner: Option<String>,
    pub kind: Option<NoticeKind>,
    /// Only those that go to this channel.
    pub channel: Option<String>,
    /// Only those with a delivery in this state.
    pub state: Option<DeliveryState>,
    /// Only notices before this one.
    pub before: Option<u64>,
    /// Maximum number of items; capped at [`crate::limits::PAGE_ITEMS_MAX`].
    pub limit: usize,
}

/// Deliveries of one channel that are due, and when the next one is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueDeliveries {
    /// The first of each series, with this delivery alone.
    pub due: Vec<NoticeRecord>,
    pub next_at: Option<Wall>,
}

/// Number of deliveries of a channel in one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryTally {
    pub channel: String,
    pub state: DeliveryState,
    pub count: u64,
    /// The time of the oldest notice among them.
    pub oldest: Wall,
}
