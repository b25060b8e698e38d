//! Notifications: what was told to whom, and whether channels deliver.

use askama::Template;
use baton_model::api::{List, Notification, NotificationChannel};
use baton_model::notify::{Delivery, DeliveryState, NoticeKind};

use super::filters::Filters;
use super::{Offer, actions, next};
use crate::frame::{Action, Frame};
use crate::time::Stamp;

/// The channels, and the notifications from the latest on.
#[derive(Template)]
#[template(path = "notifications.html")]
pub struct NotificationsPage {
    pub frame: Frame,
    pub filters: Filters,
    /// Choices of the filters.
    pub kinds: Vec<&'static str>,
    pub states: Vec<&'static str>,
    /// Not for a viewer who may not read the whole server.
    pub channels: Option<Vec<ChannelRow>>,
    pub rows: Vec<NotificationRow>,
    pub next: Option<String>,
}

/// A channel.
#[derive(Debug)]
pub struct ChannelRow {
    pub name: String,
    pub kind: String,
    pub sent: u64,
    pub waiting: u64,
    pub given_up: u64,
    /// Since when its deliveries fail, and why.
    pub failing: Option<(Stamp, String)>,
    pub actions: Vec<Action>,
}

/// A notification.
#[derive(Debug)]
pub struct NotificationRow {
    pub at: Stamp,
    pub kind: &'static str,
    pub class: &'static str,
    pub title: String,
    pub href: Option<String>,
    pub deliveries: Vec<DeliveryRow>,
}

/// What became of a notification on a channel.
#[derive(Debug)]
pub struct DeliveryRow {
    pub channel: String,
    pub state: &'static str,
    pub class: &'static str,
    /// How often it was tried, and the last error; empty if all is well.
    pub trouble: String,
}

impl NotificationsPage {
    #[must_use]
    pub fn new(
        frame: Frame,
        filters: Filters,
        channels: Option<List<NotificationChannel>>,
        list: &List<Notification>,
    ) -> Self {
        let mut kinds = NoticeKind::CHOICES.to_vec();
        kinds.push(NoticeKind::Digest.word());
        Self {
            frame,
            filters,
            kinds,
            states: DeliveryState::ALL.iter().map(|it| it.word()).collect(),
            channels: channels.map(|list| list.items.iter().map(ChannelRow::new).collect()),
            rows: list.items.iter().map(NotificationRow::new).collect(),
            next: next(&list.links),
        }
    }
}

const OFFERED: &[Offer] = &[("test", |target| Action::new("Send a test", target))];

impl ChannelRow {
    fn new(channel: &NotificationChannel) -> Self {
        let since = channel.failing_since_at.map(Stamp);
        Self {
            name: channel.name.clone(),
            kind: channel.kind.clone(),
            sent: channel.sent,
            waiting: channel.waiting,
            given_up: channel.given_up,
            failing: since.map(|at| (at, channel.error.clone().unwrap_or_default())),
            actions: actions(&channel.links, OFFERED),
        }
    }
}

impl NotificationRow {
    fn new(notification: &Notification) -> Self {
        let notice = &notification.notice;
        Self {
            at: Stamp(notice.at.0),
            kind: notice.kind.word(),
            class: match notice.kind {
                NoticeKind::Recovered => "s-DONE",
                NoticeKind::Failed => "s-FAILED",
                _ => "s-QUEUED",
            },
            title: notice.title.clone(),
            href: notification.links.get("subject").cloned(),
            deliveries: notification.deliveries.iter().map(delivery).collect(),
        }
    }
}

fn delivery(it: &Delivery) -> DeliveryRow {
    let error = it.error.as_deref().unwrap_or_default();
    DeliveryRow {
        channel: it.channel.clone(),
        state: it.state.word(),
        class: match it.state {
            DeliveryState::Sent => "s-DONE",
            DeliveryState::Waiting => "s-QUEUED",
            DeliveryState::GivenUp => "s-FAILED",
            DeliveryState::Digested => "s-HALTED",
        },
        trouble: match (it.state, it.attempts) {
            (DeliveryState::Waiting, 1) => format!("tried once: {error}"),
            (DeliveryState::Waiting, 2..) => format!("tried {} times: {error}", it.attempts),
            (DeliveryState::GivenUp, _) => error.to_owned(),
            _ => String::new(),
        },
    }
}
