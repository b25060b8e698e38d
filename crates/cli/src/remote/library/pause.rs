//! `baton library pause` and `unpause`, of one entry or of several.

use std::io::Write;

use baton_client::Client;
use baton_model::api::{PauseRequest, Task};
use baton_model::library::TaskName;
use clap::Args;
use serde_json::Value;

use super::{refused_entry, task_name};
use crate::connection::refused;
use crate::output::{CommandResult, FAILED, Failure, Output, clean, note};
use crate::text::count;

/// Pause tasks and workflows: their schedules and upstream entries launch nothing
///
/// Each due time is recorded as skipped. What runs or waits for its turn continues, and `baton
/// trigger` still launches it. The pause survives new revisions. Several are named, or chosen by --owner,
/// --matching or --all; those that are paused already stay as they are.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton library pause analytics/report --reason \"the warehouse is being moved\"
  baton library pause --owner analytics --matching 'load-*' --reason \"the warehouse is being moved\"
  baton library pause --all --reason maintenance")]
pub(super) struct Pause {
    #[command(flatten)]
    selection: Selection,
    /// Why, for other operators
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print JSON: the entry, or an array of several
    #[arg(long)]
    json: bool,
}

/// End the pause of tasks and workflows
///
/// Due times during the pause stay skipped. Several are named, or chosen by --owner, --matching, --reason
/// or --all.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton library unpause analytics/report
  baton library unpause --all --reason maintenance")]
pub(super) struct Unpause {
    #[command(flatten)]
    selection: Selection,
    /// Only those that were paused with this reason
    #[arg(long, value_name = "TEXT", conflicts_with = "tasks")]
    reason: Option<String>,
    /// Print JSON: the entry, or an array of several
    #[arg(long)]
    json: bool,
}

/// The entries of a command.
#[derive(Debug, Args)]
struct Selection {
    /// Names of tasks and workflows
    #[arg(value_name = "OWNER/NAME", value_parser = task_name, required_unless_present_any = ["owner", "matching", "all"])]
    tasks: Vec<TaskName>,
    /// All of this owner
    #[arg(long, value_name = "OWNER", conflicts_with = "tasks")]
    owner: Option<String>,
    /// All whose name, without the owner, fits this pattern: `*` stands for any text, `?` for one character
    #[arg(long, value_name = "PATTERN", conflicts_with = "tasks")]
    matching: Option<String>,
    /// All of the library, or all that fit the other options
    #[arg(long, conflicts_with = "tasks")]
    all: bool,
}

impl Selection {
    /// The names that are meant; of a filter, those of entries for which `wanted` holds.
    async fn names(
        &self,
        client: &Client,
        wanted: impl Fn(&Task<Value>) -> bool,
    ) -> Result<Vec<TaskName>, Failure> {
        if !self.tasks.is_empty() {
            return Ok(self.tasks.clone());
        }
        let library = client.library(self.owner.as_deref()).await;
        let entries = library.map_err(refused)?.items.into_iter();
        let fits = |task: &Task<Value>| {
            let pattern = self.matching.as_deref();
            pattern.is_none_or(|pattern| matches(pattern, &task.name)) && wanted(task)
        };
        let names = entries.filter(fits).map(|task| TaskName {
            owner: task.owner,
            name: task.name,
        });
        Ok(names.collect())
    }
}

/// True if a text fits a pattern with `*` and `?`.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut seen) = (0, 0);
    // Where to go on with the last `*`, and the text that it stands for until now.
    let mut star = None;
    while seen < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at + 1, seen));
                at += 1;
            }
            Some(c) if *c == '?' || *c == text[seen] => (at, seen) = (at + 1, seen + 1),
            _ => {
                let Some((after, until)) = star else {
                    return false;
                };
                star = Some((after, until + 1));
                (at, seen) = (after, until + 1);
            }
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

pub(super) async fn pause(command: &Pause, client: &Client) -> CommandResult {
    let request = PauseRequest {
        paused: true,
        reason: command.reason.clone(),
    };
    let names = command
        .selection
        .names(client, |task| task.paused_at.is_none());
    let text = "paused, due times are skipped";
    let names = names.await?;
    let single = command.selection.tasks.len() == 1;
    set(client, &names, &request, (command.json, single), text).await
}

pub(super) async fn unpause(command: &Unpause, client: &Client) -> CommandResult {
    let request = PauseRequest {
        paused: false,
        reason: None,
    };
    let reason = &command.reason;
    let names = command.selection.names(client, |task| {
        let fits = reason.is_none() || task.pause_reason == *reason;
        task.paused_at.is_some() && fits
    });
    let text = "unpaused, the next due time is launched";
    let names = names.await?;
    let single = command.selection.tasks.len() == 1;
    set(client, &names, &request, (command.json, single), text).await
}

/// Changes the entries one after the other; an error leaves those before it changed. As JSON a single one that was
/// named is an object, and all else an array.
async fn set(
    client: &Client,
    names: &[TaskName],
    request: &PauseRequest,
    (json, single): (bool, bool),
    text: &str,
) -> CommandResult {
    let mut out = Output::new();
    let mut changed = Vec::with_capacity(names.len());
    for name in names {
        match client.pause(name, request).await {
            Ok(task) => changed.push(task),
            Err(error) => return Err(refused_entry(client, name, error).await),
        }
        if !json {
            writeln!(out, "{}: {text}", clean(&name.to_string()))?;
        }
    }
    match &*changed {
        [only] if json && single => out.json(only)?,
        several if json => out.json(&several)?,
        [] | [_] => {}
        several => note(&count(several.len() as u64, "entry", "entries")),
    }
    out.done()?;
    if changed.is_empty() {
        note("no entry fits; `baton library ls` lists them");
        return Err(Failure::Silent(FAILED));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_stars_and_question_marks() {
        for (pattern, text) in [
            ("load-*", "load-a"),
            ("load-*", "load-"),
            ("*", ""),
            ("*-daily", "a-b-daily"),
            ("a*b*c", "axxbyybzzc"),
            ("?oad", "load"),
            ("load", "load"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("load-*", "load"),
            ("load", "loads"),
            ("", "a"),
            ("a*b", "abc"),
            ("?", ""),
            ("a?c", "ac"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
