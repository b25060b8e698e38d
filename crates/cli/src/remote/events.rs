//! `baton events`: the event stream of the cluster.

use std::io::{self, Write};
use std::time::Duration;

use baton_client::{Client, ClientError, EventMessage, EventQuery, EventStream};
use baton_model::api::{Event, EventGap};
use baton_model::ids::{InstanceId, RunId};
use baton_model::time::Wall;
use baton_terminal::interrupts::Interrupts;
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use tokio::time::timeout;

use super::waiting::retry_while_unreachable;
use crate::connection::refused;
use crate::ids;
use crate::output::{CommandResult, Failure, Output, Style, clean, note};
use crate::time::{past, stamp};

/// The scheduler sends a keep-alive every 15 seconds; a connection silent for this long is dead.
const SILENCE_MAX: Duration = Duration::from_secs(45);

/// Stream events as they happen
///
/// Runs until ^C. If the scheduler restarts, the stream resumes after the last event: none is
/// repeated, and none is missing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton events
  baton events --owner analytics --json | jq -r .text
  baton events --since 10m
  baton events --since '2026-11-01 06:00' --no-follow
  baton events --after 0 --no-follow    all retained events, then exit
  baton events --run r3 --after 0
  baton events --instance i12 --after 0")]
pub(crate) struct EventsCommand {
    /// Only events of this instance
    #[arg(long, value_name = "ID", value_parser = ids::instance)]
    instance: Option<InstanceId>,
    /// Only events of this run and its instances
    #[arg(long, value_name = "RUN", value_parser = ids::run, conflicts_with = "instance")]
    run: Option<RunId>,
    /// Only events of this owner's runs and instances
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// Start after this event number; 0 for all retained events [default: only new events]
    #[arg(long, value_name = "N")]
    after: Option<u64>,
    /// Start with the events of this time: how long ago, such as 10m, or when
    #[arg(long, value_name = "TIME", conflicts_with = "after")]
    since: Option<String>,
    /// Exit after the last existing event
    #[arg(long)]
    no_follow: bool,
    /// Print one JSON object per line for each event, in the API's format
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(command: &EventsCommand, client: &Client) -> CommandResult {
    let mut interrupts = Interrupts::new()?;
    tokio::select! {
        ended = follow(command, client) => ended,
                // Nothing is buffered: each event is flushed.
        _ = interrupts.next() => Ok(()),
    }
}

async fn follow(command: &EventsCommand, client: &Client) -> CommandResult {
    let mut printer = Printer::new(command.json);
    let since = command.since.as_deref().map(past).transpose();
    let since = since.map_err(|error| Failure::usage(format!("--since: {error}")))?;
    let mut query = EventQuery {
        instance: command.instance,
        run: command.run,
        owner: command.owner.clone(),
        after: command.after,
        since,
        follow: !command.no_follow,
    };
    let mut events = connect(client, &query).await.map_err(refused)?;
    loop {
        let cause = match next(&mut events).await {
            Ok(Some(message)) => {
                printer.print(&message)?;
                continue;
            }
            Ok(None) if command.no_follow => return Ok(()),
            Ok(None) => "the scheduler closed the connection".to_owned(),
            Err(error) if error.is_transient() => clean(&error.to_string()),
            Err(error) => return Err(refused(error)),
        };
        query.after = events.last();
        let last = query.after.unwrap_or_default();
        note(&format!("{cause}; reconnecting after event {last}"));
        let connected = retry_while_unreachable(note, || connect(client, &query)).await;
        events = connected.map_err(refused)?;
        note(&format!("reconnected; resuming after event {last}"));
    }
}

async fn connect(client: &Client, query: &EventQuery) -> Result<EventStream, ClientError> {
    let silent = |_| ClientError::Unreachable {
        url: client.url().to_owned(),
        reason: "timed out".to_owned(),
    };
    timeout(SILENCE_MAX, client.events(query))
        .await
        .map_err(silent)?
}

/// Returns the next event; `None` if the connection has ended or is silent.
async fn next(events: &mut EventStream) -> Result<Option<EventMessage>, ClientError> {
    match timeout(SILENCE_MAX, events.next()).await {
        Ok(message) => message,
        Err(_) => Ok(None),
    }
}

/// JSON object for lost events.
#[derive(Serialize)]
struct Gap<'a> {
    lost: &'a EventGap,
}

struct Printer {
    out: Output,
    json: bool,
}

impl Printer {
    fn new(json: bool) -> Self {
        let out = Output::new();
        Self { out, json }
    }

    fn print(&mut self, message: &EventMessage) -> CommandResult {
        match (message, self.json) {
            (EventMessage::Event(event), true) => self.object(event)?,
            (EventMessage::Event(event), false) => {
                let line = line(event, &self.out);
                writeln!(self.out, "{line}")?;
            }
            (EventMessage::Gap(lost), true) => self.object(&Gap { lost })?,
            (EventMessage::Gap(lost), false) => note(&clean(&lost.text)),
            // A closed output is noticed even if there is nothing to write.
            (EventMessage::KeepAlive, _) if is_closed() => return Err(Failure::Closed),
            (EventMessage::KeepAlive, _) => {}
        }
        // Events are shown as they happen.
        Ok(self.out.flush()?)
    }

    fn object(&mut self, value: &impl Serialize) -> CommandResult {
        serde_json::to_writer(&mut self.out, value)?;
        writeln!(self.out)?;
        Ok(())
    }
}

fn is_closed() -> bool {
    let out = io::stdout();
    let mut asked = [PollFd::new(&out, PollFlags::empty())];
    let at_once = Timespec::default();
    // If poll fails, the next write reports the problem.
    let message = poll(&mut asked, Some(&at_once)).unwrap_or(0);
    message > 0 && asked[0].revents().contains(PollFlags::ERR)
}

/// `2026-11-15 12:30:00Z  17  i3  attempt 1 was started`.
fn line(event: &Event, out: &Output) -> String {
    let about = event.links.get("instance").map(String::as_str);
    let about = about.and_then(|link| link.strip_prefix("/instances/"));
    format!(
        "{}  {}  {}  {}",
        out.paint(Style::Faint, &stamp(Wall(event.at))),
        event.seq,
        out.paint(Style::Strong, &clean(about.unwrap_or("-"))),
        clean(&event.text)
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use baton_model::fact::Fact;
    use baton_model::outcome::KillMode;

    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        let event = |link: Option<&str>| Event {
            seq: 17,
            at: 1_000,
            epoch: 1,
            text: "stopped\u{1b}[2J\nhere".to_owned(),
            fact: Fact::StopRequested {
                instance: InstanceId(3),
                mode: KillMode::Graceful,
                reason: None,
            },
            requested_by: None,
            links: link.map_or_else(BTreeMap::new, |link| {
                BTreeMap::from([("instance".to_owned(), link.to_owned())])
            }),
        };
        let out = Output::new();
        assert_eq!(
            line(&event(Some("/instances/i3..i9")), &out),
            "1970-01-01 00:00:01Z  17  i3..i9  stopped\\u{1b}[2J\\nhere"
        );
        assert!(line(&event(None), &out).contains("  17  -  "));
    }
}
