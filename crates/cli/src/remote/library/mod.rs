//! `baton library`: the stored definitions of tasks and workflows.

mod change;
mod pause;
mod show;
mod unknown;

use baton_client::Client;
use baton_model::library::TaskName;
use clap::{Args, Subcommand};

pub(super) use unknown::{refused_entry, suggestion, unknown};

use crate::output::CommandResult;

/// Manage the library of tasks and workflows: list, show, add, remove, compare, pause
///
/// An entry of the library is named OWNER/NAME. Each change creates a revision; old revisions stay
/// readable. Entries defined in the directory of `baton up --library` are changed in their files.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton library put report.yaml etl.yaml
  baton library put report.yaml --dry-run
  baton library diff report.yaml
  baton library ls --owner analytics
  baton library show analytics/report
  baton library show analytics/report --revision 2 --json
  baton library pause analytics/report --reason 'the warehouse is being moved'
  baton library unpause analytics/report
  baton library rm analytics/report

Exit status: 0 success; 1 no such entry, or `diff` found differences; 2 wrong usage, or a file with
errors; 3 the scheduler cannot be reached, or refuses.")]
pub(crate) struct Library {
    #[command(subcommand)]
    command: LibraryCommand,
}

#[derive(Debug, Subcommand)]
enum LibraryCommand {
    Ls(show::Ls),
    Show(show::Show),
    Put(change::Put),
    Rm(change::Rm),
    Diff(change::Diff),
    Pause(pause::Pause),
    Unpause(pause::Unpause),
}

pub(super) async fn run(command: &Library, client: &Client) -> CommandResult {
    match &command.command {
        LibraryCommand::Ls(command) => show::list(command, client).await,
        LibraryCommand::Show(command) => show::show(command, client).await,
        LibraryCommand::Put(command) => change::put(command, client).await,
        LibraryCommand::Rm(command) => change::remove(command, client).await,
        LibraryCommand::Diff(command) => change::diff(command, client).await,
        LibraryCommand::Pause(command) => pause::pause(command, client).await,
        LibraryCommand::Unpause(command) => pause::unpause(command, client).await,
    }
}

/// Parses `OWNER/NAME`; a name alone has the default owner.
pub(super) fn task_name(text: &str) -> Result<TaskName, String> {
    if text.contains('/') {
        return text.parse();
    }
    if text.is_empty() {
        return Err("expected a task or workflow such as analytics/report".to_owned());
    }
    Ok(TaskName {
        owner: baton_files::DEFAULT_OWNER.to_owned(),
        name: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_is_of_the_usual_owner() {
        assert_eq!(
            task_name("a/b").map(|it| it.to_string()),
            Ok("a/b".to_owned())
        );
        assert_eq!(
            task_name("b").map(|it| it.to_string()),
            Ok("default/b".to_owned())
        );
        for bad in ["", "a/", "/b", "a/b/c"] {
            assert!(task_name(bad).is_err(), "{bad}");
        }
    }
}
