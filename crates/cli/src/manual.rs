//! `baton man`: manual pages, from the same definitions as `--help`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man as Page;

use crate::output::{CommandResult, Failure, Output};

/// Print a manual page, or write all of them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton man submit | man -l -
  baton man library put > baton-library-put.1
  baton man --dir ~/.local/share/man/man1          so that `man baton` finds them")]
pub(crate) struct Man {
    /// Command of the page [default: baton itself]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write the pages of all commands into this directory, which is created
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(command: &Man, cli: Command) -> CommandResult {
    let cli = built(cli);
    if let Some(dir) = &command.dir {
        return write_all(dir, &cli);
    }
    let mut found = &cli;
    for (at, name) in command.command.iter().enumerate() {
        found = found.find_subcommand(name).ok_or_else(|| {
            let words = command.command[..=at].join(" ");
            Failure::usage(format!(
                "there is no command `baton {words}`; `baton --help` lists all"
            ))
        })?;
    }
    let mut out = Output::new();
    out.write_all(&page(found)?)?;
    out.done()
}

/// The command line with the full name of each command.
fn built(cli: Command) -> Command {
    let mut cli = cli.disable_help_subcommand(true);
    cli.build();
    cli
}

fn write_all(dir: &Path, cli: &Command) -> CommandResult {
    let failed =
        |path: &Path, error| Failure::failed(format!("cannot write {}: {error}", path.display()));
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    let mut out = Output::new();
    for command in with_descendants(cli) {
        let path = dir.join(format!("{}.1", full_name(command)));
        std::fs::write(&path, page(command)?).map_err(|error| failed(&path, error))?;
        writeln!(out, "{}", path.display())?;
    }
    out.done()
}

/// A command and all below it that are not hidden.
fn with_descendants(command: &Command) -> Vec<&Command> {
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
    let below = shown.flat_map(with_descendants);
    std::iter::once(command).chain(below).collect()
}

/// `baton-library-put`
fn full_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or(command.get_name())
}

fn page(command: &Command) -> Result<Vec<u8>, Failure> {
    let command = command.clone().version(env!("CARGO_PKG_VERSION"));
    let title = full_name(&command).to_owned();
    let page = Page::new(command)
        .title(title.to_uppercase())
        .source(concat!("Baton ", env!("CARGO_PKG_VERSION")))
        .manual("Baton");
    let mut text = Vec::new();
    page.render(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::Cli;
    use crate::help::arrange;

    fn text(words: &[&str]) -> String {
        let cli = built(arrange(Cli::command()));
        let found = words.iter().fold(&cli, |command, word| {
            command.find_subcommand(word).expect("a command")
        });
        String::from_utf8(page(found).expect("rendered")).expect("UTF-8")
    }

    #[test]
    fn every_command_has_a_page_of_its_own() {
        let cli = built(arrange(Cli::command()));
        let all = with_descendants(&cli);
        let mut names: BTreeSet<&str> = all.iter().map(|it| full_name(it)).collect();
        assert_eq!(names.len(), all.len());
        for name in ["baton", "baton-submit", "baton-library-put", "baton-man"] {
            assert!(names.contains(name), "{name}");
        }
        // clap adds a command `help` to each that has others; only that of the root is Baton's own.
        names.remove("baton-help");
        assert!(
            !names
                .iter()
                .any(|name| name.contains("__") || name.ends_with("-help"))
        );
    }

    #[test]
    fn a_page_has_the_options_and_examples_of_its_command() {
        let page = text(&["library", "put"]);
        assert!(page.contains(".TH BATON-LIBRARY-PUT 1"), "{page}");
        let root = text(&[]);
        assert!(root.contains("baton\\-submit(1)"), "{root}");
        let submit = text(&["submit"]);
        for part in ["\\-\\-wait", "Examples:", "\\-\\-url"] {
            assert!(submit.contains(part), "{part}: {submit}");
        }
        let check = text(&["check"]);
        assert!(!check.contains("\\-\\-url"), "{check}");
    }
}
