//! `baton backfill`: launches for past due times that have none.

use std::io::Write;
use std::time::Duration;

use baton_client::Client;
use baton_core::clock::Zone;
use baton_model::api::{self, BackfillReply, BackfillRequest};
use baton_model::library::TaskName;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use clap::{Args, Subcommand};

use super::library::{task_name, unknown};
use super::readiness::ReadinessReport;
use super::waiting::retry_while_unreachable;
use crate::connection::refused;
use crate::output::{CommandResult, FAILED, Failure, Output, Style, clean, note};
use crate::painter::{Progress, done_bar};
use crate::table::{Cell, Table};
use crate::text::Line;
use crate::time::{self, stamp};

/// Time between two looks at a backfill that is waited for.
const PAUSE: Duration = Duration::from_millis(500);

/// Launch each due time of a past interval that has no launch
///
/// One instance or run for each due time from --from to --to (not included) that neither the
/// schedule nor an earlier backfill has launched, each with its nominal time. The scheduler continues
/// it by itself; --wait follows it. A task or workflow that is paused can be backfilled.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  baton backfill analytics/report --from 2026-11-01 --to 2026-11-08 --dry-run
  baton backfill analytics/report --from 2026-11-01 --to now --max-concurrent 4 --wait
  baton backfill list
  baton backfill show b1
  baton backfill halt b1
  baton backfill resume b1 --wait
  baton backfill cancel b1

Exit status: 0 success; 1 no such entry or backfill, or with --wait a launch has failed, or the
backfill was halted or cancelled; 2 wrong usage, or an interval that cannot be backfilled; 3 the scheduler cannot be
reached, or refuses."
)]
pub(crate) struct Backfill {
    #[command(subcommand)]
    command: Option<BackfillCommand>,
    #[command(flatten)]
    start: Option<Start>,
}

#[derive(Debug, Subcommand)]
enum BackfillCommand {
    List(List),
    Show(Show),
    Halt(Halt),
    Resume(Resume),
    Cancel(Cancel),
}

#[derive(Debug, Args)]
struct Start {
    /// Name of the task or workflow
    #[arg(value_name = "OWNER/NAME", value_parser = task_name)]
    task: TaskName,
    /// Start of the interval: a date, with or without a time, in the time zone of the schedule
    #[arg(long, value_name = "TIME")]
    from: String,
    /// End of the interval, not included; also `now`
    #[arg(long, value_name = "TIME")]
    to: String,
    /// Print the due times, launch nothing
    #[arg(long)]
    dry_run: bool,
    /// Instances or runs of the backfill in flight at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    max_concurrent: u32,
    /// Launch the latest due time first
    #[arg(long)]
    reverse: bool,
    /// Wait until all launches have ended
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// Print JSON; with --wait, also the ended backfill, one object per line
    #[arg(long)]
    json: bool,
}

/// List backfills, the latest first
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton backfill list analytics/report")]
struct List {
    /// Only those of this task or workflow
    #[arg(value_name = "OWNER/NAME", value_parser = task_name)]
    task: Option<TaskName>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Show a backfill and its launches
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton backfill show b1")]
struct Show {
    /// Id of the backfill, such as b1
    id: String,
    /// Wait until it has ended or is halted
    #[arg(long)]
    wait: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Halt a backfill: it launches nothing more; what it has launched continues
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton backfill halt b1")]
struct Halt {
    /// Id of the backfill, such as b1
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Resume a halted backfill with the due times that it has not passed
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton backfill resume b1 --wait")]
struct Resume {
    /// Id of the backfill, such as b1
    id: String,
    /// Wait until all launches have ended
    #[arg(long)]
    wait: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Cancel a backfill: it launches nothing more, and cannot be resumed; what it has launched continues
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton backfill cancel b1")]
struct Cancel {
    /// Id of the backfill, such as b1
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(command: &Backfill, client: &Client) -> CommandResult {
    match (&command.command, &command.start) {
        (Some(BackfillCommand::List(command)), _) => list(command, client).await,
        (Some(BackfillCommand::Show(command)), _) => show(command, client).await,
        (Some(BackfillCommand::Halt(command)), _) => {
            let halted = client.change_backfill(&command.id, "halt").await;
            print_change(&halted.map_err(refused)?, command.json)
        }
        (Some(BackfillCommand::Resume(command)), _) => {
            let resumed = client.change_backfill(&command.id, "resume").await;
            let resumed = resumed.map_err(refused)?;
            if command.wait {
                return wait(client, &resumed.id, command.json).await;
            }
            print_change(&resumed, command.json)
        }
        (Some(BackfillCommand::Cancel(command)), _) => {
            let cancelled = client.change_backfill(&command.id, "cancel").await;
            print_change(&cancelled.map_err(refused)?, command.json)
        }
        (None, Some(command)) => start(command, client).await,
        // The command line requires one of them.
        (None, None) => Err(Failure::usage("name a task or workflow to backfill")),
    }
}

async fn start(command: &Start, client: &Client) -> CommandResult {
    let task = client.task(&command.task, None).await.map_err(refused)?;
    let Some(task) = task else {
        return Err(unknown(client, &command.task).await);
    };
    let zone = task.trigger.schedule.map(|schedule| schedule.zone);
    let zone = zone.and_then(|zone| Zone::named(&zone).ok());
    let zone = zone.unwrap_or(Zone::UTC);
    let request = BackfillRequest {
        from: instant(&command.from, "--from", &zone)?.0,
        to: instant(&command.to, "--to", &zone)?.0,
        max_concurrent: Some(command.max_concurrent),
        reverse: command.reverse,
    };
    let reply = client
        .backfill(&command.task, &request, command.dry_run)
        .await
        .map_err(refused)?;
    let mut out = Output::new();
    if command.json {
        serde_json::to_writer(&mut out, &reply)?;
        writeln!(out)?;
    } else {
        print_start(&mut out, &reply, &zone)?;
    }
    out.done()?;
    match &reply.id {
        Some(id) if command.wait => wait(client, id, command.json).await,
        _ => Ok(()),
    }
}

/// An instant, in the time zone of the schedule if the text names none.
fn instant(text: &str, option: &str, zone: &Zone) -> Result<Wall, Failure> {
    time::instant(text, zone).map_err(|error| {
        Failure::usage(format!(
            "{option}: {error}; write it as 2026-11-01, '2026-11-01 06:00', 2026-11-01T06:00:00Z or now"
        ))
    })
}

fn print_start(out: &mut Output, reply: &BackfillReply, zone: &Zone) -> CommandResult {
    let BackfillReply { due, at, .. } = reply;
    if at.is_empty() {
        note(&format!("all {due} due times have a launch"));
    } else {
        note(&format!("{} of {due} due times have no launch", at.len()));
    }
    if let Some(id) = &reply.id {
        writeln!(out, "{}", clean(id))?;
        return Ok(());
    }
    for at in at {
        writeln!(out, "{}", zone.rfc3339(Wall(*at)))?;
    }
    Ok(())
}

async fn list(command: &List, client: &Client) -> CommandResult {
    let all = client.backfills(command.task.as_ref()).await;
    let all = all.map_err(refused)?;
    if let (Some(name), true) = (&command.task, all.is_empty())
        && client.task(name, None).await.map_err(refused)?.is_none()
    {
        return Err(unknown(client, name).await);
    }
    let mut out = Output::new();
    if command.json {
        out.json(&all)?;
    } else if all.is_empty() {
        note("no backfills; start one with `baton backfill OWNER/NAME --from TIME --to TIME`");
    } else {
        let mut table = Table::headed(&["ID", "NAME", "STATE", "FROM", "TO", "LAUNCHED", "LEFT"]);
        for backfill in &all {
            table.row([
                Cell::from(clean(&backfill.id)),
                clean(&format!("{}/{}", backfill.owner, backfill.name)).into(),
                clean(&backfill.state).into(),
                stamp(Wall(backfill.from)).into(),
                stamp(Wall(backfill.to)).into(),
                backfill.launched.to_string().into(),
                backfill.remaining.to_string().into(),
            ]);
        }
        table.print(&mut out)?;
    }
    out.done()
}

async fn show(command: &Show, client: &Client) -> CommandResult {
    if command.wait {
        return wait(client, &command.id, command.json).await;
    }
    let backfill = client.show_backfill(&command.id).await.map_err(refused)?;
    let mut out = Output::new();
    if command.json {
        out.json(&backfill)?;
        return out.done();
    }
    let launches = client.backfill_launches(&command.id).await;
    let launches = launches.map_err(refused)?;
    print(&mut out, &backfill)?;
    if !launches.is_empty() {
        writeln!(out)?;
        let mut table = Table::headed(&["DUE", "LAUNCHED", "STATE"]);
        for launch in &launches {
            let id = launch.instance.as_deref().or(launch.run.as_deref());
            let state = launch.state.as_deref();
            table.row([
                Cell::from(stamp(Wall(launch.nominal_at))),
                clean(id.unwrap_or("-")).into(),
                clean(state.unwrap_or("-")).into(),
            ]);
        }
        table.print(&mut out)?;
    }
    out.done()
}

fn print(out: &mut Output, backfill: &api::Backfill) -> CommandResult {
    let mut table = Table::default();
    let mut line = |name: &str, text: String| {
        table.row([Cell::new(name, Style::Faint), clean(&text).into()]);
    };
    line("backfill", backfill.id.clone());
    line("of", format!("{}/{}", backfill.owner, backfill.name));
    let halted = backfill.halted.map(|cause| format!(", {cause}"));
    let halted = halted.unwrap_or_default();
    line("state", format!("{}{halted}", backfill.state));
    let (from, to) = (stamp(Wall(backfill.from)), stamp(Wall(backfill.to)));
    let order = if backfill.reverse {
        ", the latest first"
    } else {
        ""
    };
    line("interval", format!("{from} to {to}{order}"));
    line(
        "schedule",
        format!("{} ({})", backfill.schedule, backfill.zone),
    );
    line("at once", format!("at most {}", backfill.max_concurrent));
    line("progress", progress(backfill));
    table.print(out)?;
    Ok(())
}

/// How far a backfill has come: `3 of 7 launched (2 DONE, 1 RUNNING), 4 left`.
fn progress(backfill: &api::Backfill) -> String {
    let states: Vec<String> = backfill
        .states
        .iter()
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    let states = if states.is_empty() {
        String::new()
    } else {
        format!(" ({})", states.join(", "))
    };
    let (launched, left) = (backfill.launched, backfill.remaining);
    let all = launched + left;
    format!("{launched} of {all} launched{states}, {left} left")
}

fn print_change(backfill: &api::Backfill, json: bool) -> CommandResult {
    let mut out = Output::new();
    if json {
        out.json(backfill)?;
    } else {
        writeln!(
            out,
            "{}: {}, {}",
            clean(&backfill.id),
            clean(&backfill.state),
            clean(&progress(backfill))
        )?;
    }
    out.done()
}

/// Shows how far a backfill has come: a bar on a terminal, else a line for each change.
fn show_progress(shown: &mut Progress, backfill: &api::Backfill) {
    let mut line = Line::new();
    line.add(Style::Plain, format!("{}: ", clean(&backfill.id)));
    if shown.terminal {
        let ended = UniversalState::ALL.iter().filter(|it| it.is_terminal());
        let counts = ended.filter_map(|state| backfill.states.get(state.word()));
        let ended: u64 = counts.sum();
        line.extend(done_bar(ended, backfill.launched + backfill.remaining));
        line.add(Style::Plain, " ");
    }
    line.add(Style::Plain, clean(&progress(backfill)));
    shown.update(line, "");
}

/// Waits until a backfill has ended or is halted, and reports its progress.
async fn wait(client: &Client, id: &str, json: bool) -> CommandResult {
    let mut shown = Progress::new();
    let mut readiness = ReadinessReport::new();
    let ended = loop {
        let request = || client.show_backfill(id);
        let backfill = retry_while_unreachable(|text| shown.note(text), request).await;
        let backfill = backfill.map_err(refused)?;
        if !json {
            show_progress(&mut shown, &backfill);
        }
        if backfill.state != "RUNNING" {
            break backfill;
        }
        readiness.update(client, |text| shown.note(text)).await;
        tokio::time::sleep(PAUSE).await;
    };
    shown.clear();
    if shown.terminal && !json {
        note(&format!("{}: {}", clean(id), clean(&progress(&ended))));
    }
    let mut out = Output::new();
    if json {
        serde_json::to_writer(&mut out, &ended)?;
        writeln!(out)?;
    }
    out.done()?;
    let done = ended.states.get("DONE").copied().unwrap_or_default();
    let known: u64 = ended.states.values().sum();
    if ended.state == "DONE" && done == known {
        Ok(())
    } else {
        Err(Failure::Silent(FAILED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_in_the_zone_of_the_schedule_unless_it_names_one() {
        let zone = Zone::named("Europe/Berlin").expect("a zone");
        let read = |text: &str| instant(text, "--from", &zone).ok().map(|at| at.0 / 1_000);
        assert_eq!(read("2026-01-01"), Some(1_767_222_000));
        assert_eq!(read("2026-01-01 06:00"), Some(1_767_222_000 + 6 * 3_600));
        assert_eq!(read("2026-01-01T00:00:00Z"), Some(1_767_225_600));
        for bad in ["", "tomorrow", "2026-13-01", "2026-01"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
