//! `baton library ls` and `show`.

use std::io::Write;

use baton_client::Client;
use baton_model::api::{DueTimes, Task};
use baton_model::library::{TaskName, Trigger};
use baton_model::schedule::CatchUp;
use baton_model::time::Wall;
use clap::Args;
use serde_json::{Value, json};

use super::{task_name, unknown};
use crate::connection::refused;
use crate::output::{CommandResult, Failure, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::time::{between, now, span, stamp};

/// Due times listed by `show`.
const DUE_SHOWN: u32 = 3;

/// List the tasks and workflows of the library
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton library ls --owner analytics")]
pub(super) struct Ls {
    /// Only those of this owner
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Show the definition and triggers of a task or workflow, in its current or an earlier revision
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton library show analytics/report --revision 2 --json
  baton library show analytics/report --yaml > report.yaml")]
pub(super) struct Show {
    /// Name of the task or workflow
    #[arg(value_name = "OWNER/NAME", value_parser = task_name)]
    task: TaskName,
    /// Revision to show [default: the current one]
    #[arg(long, value_name = "N")]
    revision: Option<u32>,
    /// Print JSON, with the definition in the schema of its file
    #[arg(long)]
    json: bool,
    /// Print the definition alone, as YAML
    #[arg(long, conflicts_with = "json")]
    yaml: bool,
}

pub(super) async fn list(command: &Ls, client: &Client) -> CommandResult {
    let library = client.library(command.owner.as_deref()).await;
    let library = library.map_err(refused)?;
    let mut out = Output::new();
    if command.json {
        out.json(&library)?;
        return out.done();
    }
    if library.items.is_empty() {
        note("the library is empty; add a task or workflow with `baton library put FILE`");
    } else {
        let mut table = Table::headed(&["NAME", "KIND", "REV", "DUE", "STARTS", "FROM"]);
        let now = now();
        for task in &library.items {
            table.row(row(task, now));
        }
        table.print(&mut out)?;
    }
    out.done()?;
    for problem in &library.problems {
        let text: Vec<String> = problem.text.lines().map(clean).collect();
        note(&format!(
            "{} has errors; its previous definition stays in effect\n{}",
            clean(&problem.file),
            text.join("\n")
        ));
    }
    Ok(())
}

fn row(task: &Task<Value>, now: Wall) -> [Cell; 6] {
    let due = match task.paused_at {
        Some(_) => {
            let reason = task.pause_reason.as_deref();
            let reason = reason.map(|reason| format!(": {}", clean(reason)));
            Some(format!("paused{}", reason.unwrap_or_default()))
        }
        None => task.next_at.map(|at| {
            let at = Wall(at);
            format!("{} (in {})", stamp(at), span(between(now, at)))
        }),
    };
    let from = task.file.as_deref().unwrap_or("API");
    [
        clean(&format!("{}/{}", task.owner, task.name)).into(),
        task.kind.word().into(),
        task.revision.to_string().into(),
        due.unwrap_or_else(|| "-".to_owned()).into(),
        clean(&describe_triggers(task)).into(),
        Cell::new(clean(from), Style::Faint),
    ]
}

/// Describes briefly what starts a task or workflow.
fn describe_triggers(task: &Task<Value>) -> String {
    let mut triggers = Vec::new();
    let Trigger {
        schedule,
        after,
        remote,
        ..
    } = &task.trigger;
    // Due times are shown in the zone of the viewer.
    let zone = schedule.as_ref().map(|schedule| schedule.zone.as_str());
    let zone = zone.filter(|zone| *zone != "UTC");
    let zone = zone.map(|zone| format!(", {zone}")).unwrap_or_default();
    let text = task.schedule_text.as_deref();
    triggers.extend(text.map(|text| format!("{text}{zone}")));
    if !after.is_empty() {
        let names: Vec<String> = after.iter().map(ToString::to_string).collect();
        triggers.push(format!("after {}", names.join(", ")));
    }
    if *remote {
        triggers.push("over HTTP".to_owned());
    }
    if triggers.is_empty() {
        "manually".to_owned()
    } else {
        triggers.join("; ")
    }
}

/// Describes which due times are launched that were missed.
const fn describe_catch_up(policy: CatchUp) -> &'static str {
    match policy {
        CatchUp::None => "none: only what is on time",
        CatchUp::Last => "last: of the late ones within slack, the newest",
        CatchUp::All => "all that are within slack",
    }
}

pub(super) async fn show(command: &Show, client: &Client) -> CommandResult {
    let name = &command.task;
    let task = client.task(name, command.revision).await.map_err(refused)?;
    let Some(task) = task else {
        return Err(missing(client, name, command.revision).await);
    };
    let due = if task.current && task.trigger.schedule.is_some() {
        Some(client.due(name, DUE_SHOWN).await.map_err(refused)?)
    } else {
        None
    };
    let mut out = Output::new();
    if command.json {
        out.json(&task)?
    } else if command.yaml {
        let definition = task.definition.as_ref();
        let text = definition.map(baton_web::yaml::render).unwrap_or_default();
        out.write_all(text.as_bytes())?
    } else {
        print(&mut out, &task, due.as_ref())?
    }
    out.done()
}

/// The failure if there is no such entry, or no such revision of it.
pub(super) async fn missing(client: &Client, name: &TaskName, revision: Option<u32>) -> Failure {
    let Some(revision) = revision else {
        return unknown(client, name).await;
    };
    match client.task(name, None).await {
        Ok(Some(_)) => {
            let name = clean(&name.to_string());
            Failure::failed(format!("the library has no revision {revision} of {name}"))
        }
        Ok(None) => unknown(client, name).await,
        Err(error) => refused(error),
    }
}

fn print(out: &mut Output, task: &Task<Value>, due: Option<&DueTimes>) -> CommandResult {
    facts(task, due).print(out)?;
    if let Some(definition) = &task.definition {
        writeln!(out)?;
        out.write_all(baton_web::yaml::render(definition).as_bytes())?;
    }
    Ok(())
}

fn facts(task: &Task<Value>, due: Option<&DueTimes>) -> Table {
    let mut table = Table::default();
    let mut line = |name: &str, text: String| {
        table.row([Cell::new(name, Style::Faint), clean(&text).into()]);
    };
    line(task.kind.word(), format!("{}/{}", task.owner, task.name));
    let current = if task.current {
        ""
    } else {
        ", not the current one"
    };
    let defined = stamp(Wall(task.defined_at));
    line(
        "revision",
        format!("{} of {defined}{current}", task.revision),
    );
    if let Some(file) = &task.file {
        line("file", file.clone());
    }
    if let Some(at) = task.paused_at {
        let reason = task.pause_reason.as_deref();
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        line("paused", format!("since {}{reason}", stamp(Wall(at))));
    }
    line("starts", describe_triggers(task));
    if let Some(due) = due {
        let times: Vec<String> = due.at.iter().map(|at| stamp(Wall(*at))).collect();
        line("due", times.join(", "));
    }
    if let Some(schedule) = &task.trigger.schedule {
        line("slack", format!("at most {} late", span(schedule.slack)));
        line("catch_up", describe_catch_up(schedule.catch_up).to_owned());
    }
    if let Some(limit) = task.trigger.max_instances {
        line("at once", format!("at most {limit}"));
    }
    table
}

/// Formats a definition deterministically.
pub(super) fn text(definition: &Value) -> Result<String, Failure> {
    let empty = json!({});
    let definition = if definition.is_object() {
        definition
    } else {
        &empty
    };
    let text = serde_json::to_string_pretty(definition)?;
    // JSON escapes control characters; the line ends come from pretty-printing.
    let lines: Vec<String> = text.lines().map(clean).collect();
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_shown_with_its_slack_and_catch_up() {
        let shown = |schedule: Value| {
            let task = json!({
                "owner": "ann", "name": "nightly", "revision": 2, "current": true, "definedAt": 0,
                "trigger": {"schedule": schedule}, "scheduleText": "daily at 3:00", "links": {},
            });
            let task: Task<Value> = baton_model::json::from_value(&task).expect("an entry");
            facts(&task, None).lines(&Output::new())
        };
        let schedule = |catch_up: &str| {
            json!({
                "text": "every day at 3:00", "zone": "UTC", "slack": 3_600_000, "jitter": 0,
                "dst": {"gap": "late", "fold": "auto"}, "catch_up": catch_up,
            })
        };
        assert_eq!(
            shown(schedule("last")),
            [
                "task      ann/nightly",
                "revision  2 of 1970-01-01 00:00:00Z",
                "starts    daily at 3:00",
                "slack     at most 1h00m late",
                "catch_up  last: of the late ones within slack, the newest",
            ]
        );
        let none = "catch_up  none: only what is on time".to_owned();
        assert!(shown(schedule("none")).contains(&none));
        assert_eq!(shown(Value::Null).len(), 3, "it has no schedule");
    }
}
