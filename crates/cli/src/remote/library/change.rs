//! `baton library put`, `rm` and `diff`.

use std::io::Write;
use std::path::{Path, PathBuf};

use baton_client::{Client, ClientError, Condition};
use baton_model::api::DefineReply;
use baton_model::library::TaskName;
use clap::Args;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::show::{missing, text};
use super::{refused_entry, task_name};
use crate::connection::refused;
use crate::output::{CommandResult, FAILED, Failure, Output, Style, clean, note};

/// Context lines around a difference.
const CONTEXT: usize = 3;

/// Add tasks and workflows to the library, or update them with a new revision
///
/// A file that equals the current revision changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton library put report.yaml --dry-run")]
pub(super) struct Put {
    /// Task or workflow files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Store nothing; print what would change
    #[arg(long)]
    dry_run: bool,
    /// Only if the current revision is this one; 0 if there must be none
    #[arg(long, value_name = "N")]
    if_revision: Option<u32>,
    /// Print one JSON object per line for each file
    #[arg(long)]
    json: bool,
}

/// Remove a task or workflow from the library
///
/// Its instances and runs continue, and its revisions stay readable.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton library rm analytics/report")]
pub(super) struct Rm {
    /// Name of the task or workflow
    #[arg(value_name = "OWNER/NAME", value_parser = task_name)]
    task: TaskName,
}

/// Compare a task or workflow file with the library
///
/// Exits with 1 if there are differences.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton library diff report.yaml")]
pub(super) struct Diff {
    /// Task or workflow file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Revision to compare with [default: the current one]
    #[arg(long, value_name = "N")]
    revision: Option<u32>,
}

pub(super) async fn put(command: &Put, client: &Client) -> CommandResult {
    // All files are validated before the first is sent.
    let files: Vec<(TaskName, Value)> = command
        .files
        .iter()
        .map(|path| load(path))
        .collect::<Result<_, _>>()?;
    let mut out = Output::new();
    for (name, file) in &files {
        let defined = put_one(command, client, name, file).await?;
        if command.json {
            serde_json::to_writer(&mut out, &defined)?;
            writeln!(out)?;
            continue;
        }
        let would = if defined.dry_run { "would be " } else { "" };
        let change = clean(&defined.change);
        let name = clean(&name.to_string());
        writeln!(
            out,
            "{name}: {would}{change}, revision {}",
            defined.revision
        )?;
    }
    out.done()
}

/// Stores one entry; without `--if-revision`, replaces the revision that is current at this moment.
async fn put_one(
    command: &Put,
    client: &Client,
    name: &TaskName,
    file: &Value,
) -> Result<DefineReply, Failure> {
    let condition = match command.if_revision {
        Some(0) => Condition::Absent,
        Some(revision) => Condition::Revision(revision),
        None => match client.task(name, None).await.map_err(refused)? {
            Some(task) => Condition::Revision(task.revision),
            None => Condition::Absent,
        },
    };
    let defined = client.define(name, file, condition, command.dry_run).await;
    defined.map_err(|error| match &error {
        ClientError::Problem(problem) if problem.status == 409 && problem.kind == "from-file" => {
            Failure::Message(FAILED, clean(&problem.detail))
        }
        _ => refused(error),
    })
}

pub(super) async fn remove(command: &Rm, client: &Client) -> CommandResult {
    if let Err(error) = client.remove(&command.task).await {
        return Err(refused_entry(client, &command.task, error).await);
    }
    note(&format!("{} removed", clean(&command.task.to_string())));
    Ok(())
}

pub(super) async fn diff(command: &Diff, client: &Client) -> CommandResult {
    let (name, file) = load(&command.file)?;
    let stored = client
        .task(&name, command.revision)
        .await
        .map_err(refused)?;
    let stored = match (stored, command.revision) {
        (Some(task), _) => task.definition.unwrap_or_default(),
        (None, None) => Value::Object(serde_json::Map::new()),
        (None, revision) => return Err(missing(client, &name, revision).await),
    };
    let (old, new) = (text(&stored)?, text(&file)?);
    if old == new {
        return Ok(());
    }
    let mut out = Output::new();
    print(&mut out, &old, &new)?;
    out.done()?;
    Err(Failure::Silent(FAILED))
}

fn print(out: &mut Output, old: &str, new: &str) -> CommandResult {
    let diff = TextDiff::from_lines(old, new);
    for (at, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        if at > 0 {
            writeln!(out, "{}", out.paint(Style::Faint, "…"))?;
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (sign, style) = match change.tag() {
                ChangeTag::Delete => ('-', Style::Bad),
                ChangeTag::Insert => ('+', Style::Good),
                ChangeTag::Equal => (' ', Style::Plain),
            };
            let line = format!("{sign}{}", change.value().trim_end_matches('\n'));
            writeln!(out, "{}", out.paint(style, &line))?;
        }
    }
    Ok(())
}

/// Loads a task or workflow and its name, validated as the scheduler will validate it.
fn load(path: &Path) -> Result<(TaskName, Value), Failure> {
    let file = baton_files::load_any(path).map_err(Failure::usage)?;
    let (name, _) = file.definition(None).map_err(Failure::usage)?;
    Ok((name, file.to_json()))
}
