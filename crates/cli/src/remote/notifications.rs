//! `baton notifications`: what was told to whom, the channels, and tests of them.

use std::io::Write;

use baton_client::Client;
use baton_model::api::{Notification, NotificationChannel, NotificationFilter};
use baton_model::notify::{DeliveryState, NoticeKind};
use baton_model::time::Wall;
use clap::{Args, Subcommand};

use crate::connection::refused;
use crate::output::{CommandResult, Failure, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::text::grouped;
use crate::time::stamp;

/// List notifications, what became of them, and their channels
///
/// The scheduler's --notify-file names the channels, and who is told of what; `notify:` in a task or
/// workflow file adds to that. A notification is tried until its receiver acknowledges it, for three
/// days.
///
/// With --json, an array of notifications or channels, in the API's format.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton notifications
  baton notifications --channel ops --state waiting
  baton notifications channels
  baton notify test ops              send a test, and show the receiver's answer")]
pub(crate) struct Notifications {
    #[command(subcommand)]
    action: Option<Action>,
    /// Only about work of this owner
    #[arg(long)]
    owner: Option<String>,
    /// Only of this kind: failed, recovered, missed, late, stuck, unusual, worker, fleet, store or digest
    #[arg(long, value_parser = kind)]
    kind: Option<NoticeKind>,
    /// Only those that go to this channel
    #[arg(long)]
    channel: Option<String>,
    /// Only those with a delivery in this state: waiting, sent, given-up or digested
    #[arg(long, value_parser = state)]
    state: Option<DeliveryState>,
    /// Maximum number of rows
    #[arg(short = 'n', value_name = "N", default_value_t = 50)]
    number: usize,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the channels, and whether they deliver
    Channels,
    /// Send a test by a channel, and show the receiver's answer
    Test {
        /// Name of the channel
        channel: String,
    },
}

fn kind(text: &str) -> Result<NoticeKind, String> {
    let choices = NoticeKind::CHOICES.join(", ");
    text.parse()
        .map_err(|_| format!("expected one of {choices}, digest"))
}

fn state(text: &str) -> Result<DeliveryState, String> {
    let wrong = |_| "expected waiting, sent, given-up or digested".to_owned();
    text.parse().map_err(wrong)
}

pub(super) async fn run(command: &Notifications, client: &Client) -> CommandResult {
    let mut out = Output::new();
    match &command.action {
        None => list(command, client, &mut out).await?,
        Some(Action::Channels) => {
            let channels = client.notification_channels().await.map_err(refused)?;
            if command.json {
                out.json(&channels)?;
            } else if channels.is_empty() {
                note("no channels; name them in the file of `baton scheduler --notify-file`");
            } else {
                channel_table(&channels).print(&mut out)?;
            }
        }
        Some(Action::Test { channel }) => {
            let test = client.test_channel(channel).await.map_err(refused)?;
            if command.json {
                out.json(&test)?;
            } else if test.delivered {
                writeln!(out, "{}: {}", clean(&test.channel), clean(&test.answer))?;
            }
            if !test.delivered {
                out.done()?;
                return Err(Failure::failed(format!(
                    "the channel {} does not deliver: {}",
                    clean(&test.channel),
                    clean(&test.answer)
                )));
            }
        }
    }
    out.done()
}

async fn list(command: &Notifications, client: &Client, out: &mut Output) -> CommandResult {
    let filter = NotificationFilter {
        owner: command.owner.clone(),
        kind: command.kind,
        channel: command.channel.clone(),
        state: command.state,
    };
    let found = client.notifications(&filter, command.number).await;
    let found = found.map_err(refused)?;
    if command.json {
        out.json(&found)?;
        return Ok(());
    }
    if found.is_empty() {
        note("no notifications");
        return Ok(());
    }
    let mut table = Table::headed(&["AT", "KIND", "WHAT", "DELIVERY"]);
    for notification in &found {
        table.row(row(notification));
    }
    table.print(out)?;
    Ok(())
}

fn row(notification: &Notification) -> [Cell; 4] {
    let notice = &notification.notice;
    let style = match notice.kind {
        NoticeKind::Recovered => Style::Good,
        NoticeKind::Failed => Style::Bad,
        _ => Style::Odd,
    };
    let deliveries = notification.deliveries.iter().map(|it| {
        let state = match (it.state, it.attempts) {
            (DeliveryState::Waiting, 0) => "waiting".to_owned(),
            (DeliveryState::Waiting, attempts) => {
                let error = it.error.as_deref().unwrap_or_default();
                format!("waiting, tried {attempts} times: {error}")
            }
            (DeliveryState::GivenUp, _) => {
                format!("given up: {}", it.error.as_deref().unwrap_or_default())
            }
            (state, _) => state.word().to_owned(),
        };
        format!("{}: {state}", it.channel)
    });
    let deliveries: Vec<String> = deliveries.collect();
    [
        stamp(Wall(notice.at.0)).into(),
        Cell::new(notice.kind.word(), style),
        clean(&notice.title).into(),
        clean(&deliveries.join("; ")).into(),
    ]
}

fn channel_table(channels: &[NotificationChannel]) -> Table {
    let head = ["NAME", "KIND", "SENT", "WAITING", "GIVEN UP", "STATE"];
    let mut table = Table::headed(&head);
    for channel in channels {
        let (state, style) = match (&channel.error, channel.failing_since_at) {
            (Some(error), Some(since)) => (
                format!("failing since {}: {}", stamp(Wall(since)), clean(error)),
                Style::Bad,
            ),
            _ => ("ok".to_owned(), Style::Good),
        };
        table.row([
            clean(&channel.name).into(),
            clean(&channel.kind).into(),
            grouped(channel.sent).into(),
            grouped(channel.waiting).into(),
            grouped(channel.given_up).into(),
            Cell::new(state, style),
        ]);
    }
    table
}
