//! Notifications, and their channels.

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use baton_model::api::{ChannelTest, List, Notification, NotificationChannel};
use baton_model::notify::DeliveryState;
use baton_store::notices::{DeliveryTally, NoticeQuery, NoticeRecord};

use super::app::App;
use super::conditional::tagged;
use super::extract::Parameters;
use super::lists::page_links;
#[cfg(feature = "openapi")]
use super::openapi::answers::Unchanged;
use super::problem::{Answer, Fault};
use super::response::respond;
use super::views;
use crate::limits::PAGE_ITEMS_DEFAULT;

/// Notifications, the latest first
///
/// Each with what became of it on every channel. The latest 10,000 are kept, and those that wait.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/notifications/",
    tag = "notifications",
    operation_id = "notifications",
    params(
        ("owner" = Option<String>, Query, description = "Only about work of this owner."),
        ("kind" = Option<String>, Query, description = "Only of this kind: `failed`, `recovered`, `missed`, `late`, `stuck`, `unusual`, `worker`, `fleet`, `store` or `digest`."),
        ("channel" = Option<String>, Query, description = "Only those that go to this channel."),
        ("state" = Option<String>, Query, description = "Only those with a delivery in this state: `waiting`, `sent`, `given-up` or `digested`."),
        ("limit" = Option<u64>, Query, description = "Maximum number of entries."),
        ("cursor" = Option<String>, Query, description = "Start of the page; from the link `next`."),
    ),
    responses(
        (status = 200, description = "A page.", body = List<Notification>),
        Unchanged
    )
))]
pub(super) async fn list(State(app): State<App>, uri: Uri) -> Answer<Response> {
    let known = ["owner", "kind", "channel", "state", "limit", "cursor"];
    let parameters = Parameters::of(&uri, &known)?;
    let query = NoticeQuery {
        owner: parameters.text("owner").map(str::to_owned),
        kind: parameters.parsed("kind", "a kind of notification, such as failed")?,
        channel: parameters.text("channel").map(str::to_owned),
        state: parameters.parsed("state", "waiting, sent, given-up or digested")?,
        before: parameters.number("cursor")?,
        limit: parameters.number("limit")?.unwrap_or(PAGE_ITEMS_DEFAULT),
    };
    let page = app.read(move |store| store.notices(&query)).await?;
    let next = page.next.map(|next| next.to_string());
    let list = List {
        items: page.items.into_iter().map(view).collect(),
        total: None,
        links: page_links("/notifications/", &parameters, next),
    };
    Ok(tagged(&list))
}

/// Channels of notifications
///
/// Those of the scheduler that answers, as its `--notify-file` has them.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/notifications/channels/",
    tag = "notifications",
    operation_id = "notification-channels",
    responses(
        (status = 200, description = "All channels.", body = List<NotificationChannel>),
        Unchanged
    )
))]
pub(super) async fn channels(State(app): State<App>) -> Answer<Response> {
    let list = List {
        items: app.notification_channels().await?,
        total: None,
        links: views::links([("self", "/notifications/channels/".to_owned())]),
    };
    Ok(tagged(&list))
}

/// Test a channel
///
/// Sends a message to its receiver, once, and answers with what that has said.
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/notifications/channels/{channel}/test",
    tag = "notifications",
    operation_id = "test-notification-channel",
    responses(
        (status = 200, description = "Whether the receiver has acknowledged it.", body = ChannelTest)
    )
))]
pub(super) async fn test(State(app): State<App>, Path(channel): Path<String>) -> Answer<Response> {
    let Some(tested) = app.0.notifications.test(&channel).await else {
        return Err(Fault::not_found(format!(
            "the scheduler has no channel {channel:?}; `baton notifications channels` lists them"
        )));
    };
    let delivered = tested.is_ok();
    let (Ok(answer) | Err(answer)) = tested;
    let test = ChannelTest {
        channel,
        delivered,
        answer,
    };
    Ok(respond(axum::http::StatusCode::OK, &test))
}

fn view(record: NoticeRecord) -> Notification {
    let subject = record.notice.path.clone();
    let links = subject.map(|path| ("subject".to_owned(), path));
    Notification {
        id: record.id,
        deliveries: record.deliveries,
        notice: record.notice,
        links: links.into_iter().collect(),
    }
}

impl App {
    /// The channels of this scheduler.
    pub(super) async fn notification_channels(&self) -> Answer<Vec<NotificationChannel>> {
        let tallies = self.read(|store| store.delivery_tallies()).await?;
        let notifications = &self.0.notifications;
        let channels = notifications.settings().channels.iter();
        let channels = channels.map(|(name, channel)| {
            let count = |state| {
                let of_state = |it: &&DeliveryTally| it.channel == *name && it.state == state;
                tallies.iter().filter(of_state).map(|it| it.count).sum()
            };
            let health = notifications.health(name);
            let path = format!("POST /notifications/channels/{}/test", views::encoded(name));
            NotificationChannel {
                name: name.clone(),
                kind: channel.transport.word().to_owned(),
                rate: channel.rate,
                waiting: count(DeliveryState::Waiting),
                sent: count(DeliveryState::Sent),
                given_up: count(DeliveryState::GivenUp),
                failing_since_at: health.failing_since.map(|at| at.0),
                error: health.error,
                links: views::links([("test", path)]),
            }
        });
        Ok(channels.collect())
    }
}
