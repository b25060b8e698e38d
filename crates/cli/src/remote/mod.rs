//! Client commands, which call a scheduler's API.
//!
//! | module | command |
//! |---|---|
//! | `submit` | submit a task, a workflow or a command |
//! | `list` | list queued, running and ended instances |
//! | `show`, `explain` | details of an instance or run, and the reason of its state |
//! | `top` | running instances with their processes, live |
//! | `logs` | output of an instance |
//! | `events` | the event stream |
//! | `ui` | the web page of a thing, in a browser |
//! | `usage` | resource usage by owner and time |
//! | `cancel` | cancel, kill and retry |
//! | `status` | one screen of everything |
//! | `wait` | wait for instances and runs |
//! | `library`, `trigger`, `ticks` | stored tasks, triggering them, outcomes of due times |
//! | `backfill` | launches for past due times |
//! | `runs` | workflow runs |
//! | `schedulers` | list the schedulers of the store |
//! | `workers` | list, drain and forget workers |
//! | `array` | change an array while it runs |
//! | `limits` | cluster-wide limits |
//! | `share` | shares of owners in fair turns |
//! | `secret` | values that tasks are given |
//! | `alarms` | what is late, slow, short or stuck |
//! | `notifications` | what was told to whom |
//! | `fleet` | where the scheduler obtains workers |
//!
//! Shared by them: `selection`, ids and filters of one command; `data`, the directory of a `baton run`;
//! `processes`, table rows; `waiting`, waiting for instances to end.
//!
//! Exit codes: 0 success; 1 the work has failed, or nothing was found; 2 wrong usage, or a file
//! with errors; 3 the scheduler cannot be reached, or refuses; 130 the awaited work was cancelled.
//! A command that waits for a single instance exits with the exit code of its command.

mod alarms;
mod array;
mod backfill;
mod cancel;
mod data;
mod details;
mod events;
mod explain;
mod filters;
mod fleet;
mod library;
mod limits;
mod list;
mod logs;
mod notifications;
mod processes;
pub(crate) mod readiness;
pub(crate) mod runs;
mod schedulers;
mod secret;
mod selection;
mod share;
mod show;
mod status;
mod submit;
mod ticks;
mod top;
mod trigger;
mod ui;
mod usage;
mod wait;
pub(crate) mod waiting;
mod workers;

use std::path::Path;

use baton_client::Client;
use clap::Subcommand;

use crate::connection::{block_on, client};
use crate::credentials::CredentialArgs;
use crate::output::CommandResult;

/// The client commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Remote {
    Submit(Box<submit::Submit>),
    Trigger(trigger::Trigger),
    Library(library::Library),
    Backfill(backfill::Backfill),
    Ticks(ticks::Ticks),
    Status(status::Status),
    Bullpen(list::Bullpen),
    Arena(list::Arena),
    History(list::History),
    Runs(runs::list::Runs),
    Watch(runs::follow::Watch),
    Report(runs::report::Report),
    Top(top::Top),
    Show(show::Show),
    Explain(explain::Explain),
    Logs(logs::Logs),
    Events(events::EventsCommand),
    Usage(usage::Usage),
    Ui(ui::Ui),
    Halt(runs::change::HaltCommand),
    Resume(runs::change::ResumeCommand),
    Cancel(cancel::Cancel),
    Kill(cancel::Kill),
    Retry(cancel::Retry),
    Wait(wait::Wait),
    Schedulers(schedulers::Schedulers),
    Workers(workers::Workers),
    Drain(workers::Drain),
    Forget(workers::Forget),
    Array(array::Array),
    Limits(limits::Limits),
    #[command(visible_alias = "shares")]
    Share(share::ShareCommand),
    #[command(visible_alias = "secrets")]
    Secret(secret::SecretCommand),
    Alarms(alarms::Alarms),
    #[command(visible_alias = "notify")]
    Notifications(notifications::Notifications),
    Fleet(fleet::FleetCommand),
}

/// Runs a command against the scheduler at `url`, or at the URL of the environment.
pub(crate) fn run(
    command: &Remote,
    url: Option<&str>,
    credentials: &CredentialArgs,
) -> CommandResult {
    if let Some(data) = command.data() {
        return baton_embedded::inspect(data, async |client| execute(command, client).await);
    }
    let client = client(url, credentials)?;
    block_on(execute(command, &client))
}

impl Remote {
    /// The data directory of the `baton run` that it asks about.
    fn data(&self) -> Option<&Path> {
        match self {
            Self::Show(command) => command.data.data.as_deref(),
            Self::Explain(command) => command.data.data.as_deref(),
            Self::Logs(command) => command.data.data.as_deref(),
            _ => None,
        }
    }
}

async fn execute(command: &Remote, client: &Client) -> CommandResult {
    match command {
        Remote::Submit(command) => submit::run(command, client).await,
        Remote::Trigger(command) => trigger::run(command, client).await,
        Remote::Library(command) => library::run(command, client).await,
        Remote::Backfill(command) => backfill::run(command, client).await,
        Remote::Ticks(command) => ticks::run(command, client).await,
        Remote::Status(command) => status::run(command, client).await,
        Remote::Bullpen(command) => list::bullpen(command, client).await,
        Remote::Arena(command) => list::arena(command, client).await,
        Remote::History(command) => list::history(command, client).await,
        Remote::Runs(command) => runs::list::run(command, client).await,
        Remote::Watch(command) => runs::follow::run(command, client).await,
        Remote::Report(command) => runs::report::run(command, client).await,
        Remote::Top(command) => top::run(command, client).await,
        Remote::Show(command) => show::run(command, client).await,
        Remote::Explain(command) => explain::run(command, client).await,
        Remote::Logs(command) => logs::run(command, client).await,
        Remote::Events(command) => events::run(command, client).await,
        Remote::Usage(command) => usage::run(command, client).await,
        Remote::Ui(command) => ui::run(command, client).await,
        Remote::Halt(command) => runs::change::halt(command, client).await,
        Remote::Resume(command) => runs::change::resume(command, client).await,
        Remote::Cancel(command) => cancel::cancel(command, client).await,
        Remote::Kill(command) => cancel::kill(command, client).await,
        Remote::Retry(command) => cancel::retry(command, client).await,
        Remote::Wait(command) => wait::run(command, client).await,
        Remote::Schedulers(command) => schedulers::schedulers(command, client).await,
        Remote::Workers(command) => workers::workers(command, client).await,
        Remote::Drain(command) => workers::drain(command, client).await,
        Remote::Forget(command) => workers::forget(command, client).await,
        Remote::Array(command) => array::run(command, client).await,
        Remote::Share(command) => share::run(command, client).await,
        Remote::Limits(command) => limits::run(command, client).await,
        Remote::Secret(command) => secret::run(command, client).await,
        Remote::Alarms(command) => alarms::run(command, client).await,
        Remote::Notifications(command) => notifications::run(command, client).await,
        Remote::Fleet(command) => fleet::run(command, client).await,
    }
}
