//! Notifications: notices about facts, and their deliveries to people.
//!
//! ```text
//!   facts ──▶ observe ──▶ store: position + notices + deliveries ──▶ deliver (one task per channel)
//!                                      ▲                                   │
//!                                      └──────── sent, or tried again ◀────┘
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `observe` | the follower: reads facts, and stores what `baton_core::notify` raises |
//! | `deliver` | the deliveries of one channel, in the order of each series |
//! | `message` | the texts and bodies of a notice |
//! | `webhook`, `mail`, `command` | the transports |
//!
//! The leader alone observes and delivers. A delivery is recorded after the receiver has acknowledged
//! it; a leader that dies in between has a successor that delivers again, with the same key.

mod command;
mod deliver;
mod mail;
mod message;
mod observe;
mod webhook;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_model::ids::Epoch;
use baton_model::notify::{Notice, NoticeKind, NotifySettings, Transport};
use baton_model::time::Wall;
use baton_store::notices::NoticeBatch;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::{Source, follow};
use crate::clock;
use crate::driver::Status;
use crate::driver::event::Inbox;
use crate::metrics::Metrics;
use message::Message;

/// The notifications of a server, for its tasks and its clients.
#[derive(Clone)]
pub(crate) struct Notifications(Arc<Shared>);

struct Shared {
    settings: NotifySettings,
    /// The address of this scheduler in links.
    url: String,
    /// Name of this scheduler.
    scheduler: String,
    source: Source,
    inbox: Inbox,
    metrics: Arc<Metrics>,
    /// Wakes a channel when it may have something to deliver.
    wakers: BTreeMap<String, Notify>,
    health: Mutex<BTreeMap<String, Health>>,
}

/// Whether a channel delivers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// Failures in a row.
    pub(crate) failures: u32,
    pub(crate) failing_since: Option<Wall>,
    pub(crate) error: Option<String>,
}

/// What a notification needs besides the store.
pub(crate) struct Setup {
    pub(crate) settings: NotifySettings,
    pub(crate) url: String,
    pub(crate) scheduler: String,
    pub(crate) source: Source,
    pub(crate) inbox: Inbox,
    pub(crate) metrics: Arc<Metrics>,
}

impl Notifications {
    pub(crate) fn new(setup: Setup) -> Self {
        let Setup {
            settings,
            url,
            scheduler,
            source,
            inbox,
            metrics,
        } = setup;
        let names = settings.channels.keys();
        let wakers = names.map(|name| (name.clone(), Notify::new())).collect();
        Self(Arc::new(Shared {
            url: settings.url.clone().unwrap_or(url),
            settings,
            scheduler,
            source,
            inbox,
            metrics,
            wakers,
            health: Mutex::default(),
        }))
    }

    /// Starts the follower and the channels. Without channels it only forgets its position, so that old
    /// facts are not told when there are some again.
    pub(crate) fn start(&self) -> Vec<JoinHandle<()>> {
        let observer = observe::Observer::new(self.clone());
        let source = self.0.source.clone();
        let mut tasks = vec![tokio::spawn(follow(source, observer))];
        for name in self.0.settings.channels.keys() {
            let channel = deliver::ChannelTask::new(self.clone(), name.clone());
            tasks.push(tokio::spawn(channel.run()));
        }
        tasks
    }

    pub(crate) fn settings(&self) -> &NotifySettings {
        &self.0.settings
    }

    /// Whether a channel delivers, as this leader knows it.
    pub(crate) fn health(&self, channel: &str) -> Health {
        let health = self.lock().get(channel).cloned();
        health.unwrap_or_default()
    }

    /// Sends a test, and returns what the receiver has answered. None if there is no such channel.
    ///
    /// # Errors
    /// The error, in words.
    pub(crate) async fn test(&self, channel: &str) -> Option<Result<String, String>> {
        let transport = &self.0.settings.channels.get(channel)?.transport;
        let now = clock::now().wall;
        let scheduler = &self.0.scheduler;
        let notice = Notice {
            key: format!("test-{channel}-{}", now.0),
            kind: NoticeKind::Test,
            at: now,
            series: format!("test:{channel}"),
            title: format!("this is a test of the channel {channel} of {scheduler}"),
            subject: channel.to_owned(),
            owner: None,
            entry: None,
            tags: Vec::new(),
            reason: None,
            failures: None,
            counts: None,
            examples: Vec::new(),
            stderr: None,
            command: None,
            path: None,
        };
        Some(self.send(transport, &notice).await)
    }

    /// Sends a notice once.
    async fn send(&self, transport: &Transport, notice: &Notice) -> Result<String, String> {
        let message = Message {
            notice,
            url: &self.0.url,
            scheduler: &self.0.scheduler,
        };
        match transport {
            Transport::Webhook(webhook) => webhook::send(webhook, &message).await,
            Transport::Mail(mail) => mail::send(mail, &message).await,
            Transport::Command(command) => command::send(command, &message).await,
        }
    }

    /// The epoch, while this scheduler leads.
    fn epoch(&self) -> Option<Epoch> {
        match &*self.0.source.status.borrow() {
            Status::Leading(epoch) => Some(*epoch),
            Status::Failed(_) | Status::Following(_) => None,
        }
    }

    /// Writes under the epoch of this leader; false if it was not written.
    async fn record(&self, batch: NoticeBatch) -> bool {
        let Some(epoch) = self.epoch() else {
            return false;
        };
        let recorded = self
            .0
            .source
            .call(move |store| store.record_notices(epoch, batch))
            .await;
        if let Err(error) = &recorded {
            tracing::warn!("cannot record notifications: {error}; trying again");
        }
        recorded.is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Health>> {
        // Nothing under the lock can panic half-way through a change.
        self.0.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
