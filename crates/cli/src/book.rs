//! `baton help`: the help of a command, or a chapter of the book.
//!
//! A command counts more than a chapter of the same name, so that help about commands is what the
//! argument parser makes of it; `--book` chooses the chapter.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::{Command as Process, Stdio};

use baton_book::{CHAPTERS, Chapter};
use clap::{Args, Command};

use crate::help;
use crate::output::{CommandResult, Failure, Output, Style};
use crate::painter;

/// Columns of text that no terminal shows.
const PLAIN_WIDTH: usize = 80;

/// Show the help of a command, or a chapter of the book
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton help                       list commands and chapters
  baton help submit                the help of a command
  baton help schedules             a chapter
  baton help --book library        the chapter, where a command has the same name
  PAGER=less baton help tasks      page by page")]
pub(crate) struct Help {
    /// Command with its subcommands, or topic of a chapter; without it, both are listed
    #[arg(value_name = "COMMAND|TOPIC")]
    words: Vec<String>,
    /// Show a chapter only, also where a command has the same name
    #[arg(long)]
    book: bool,
    /// Print 80 columns of plain text, without styles and without $PAGER
    #[arg(long)]
    plain: bool,
}

pub(crate) fn run(command: &Help, cli: &Command) -> CommandResult {
    let arranged = help::arrange(cli.clone());
    let [word, ..] = command.words.as_slice() else {
        return list(arranged, command.book);
    };
    if !command.book && has_command(&arranged, &command.words) {
        return command_help(cli.clone(), &command.words);
    }
    match baton_book::find(word).filter(|_| command.words.len() == 1) {
        Some(chapter) => show(chapter, command.plain),
        None => Err(Failure::usage(unknown(&arranged, command))),
    }
}

/// True if the words are a command with its subcommands.
fn has_command(cli: &Command, words: &[String]) -> bool {
    let mut found = Some(cli);
    for word in words {
        found = found.and_then(|command| command.find_subcommand(word));
    }
    found.is_some()
}

/// The help as `--help` prints it.
fn command_help(cli: Command, words: &[String]) -> CommandResult {
    let mut args = vec![OsString::from("baton")];
    args.extend(words.iter().map(OsString::from));
    args.push("--help".into());
    if let Err(help) = help::parse(cli, args) {
        help.print()?;
    }
    if let [word] = words
        && let Some(chapter) = baton_book::find(word)
    {
        let mut out = Output::new();
        writeln!(
            out,
            "\nThe book has a chapter of this name: `baton help --book {}`.",
            chapter.topic
        )?;
        return out.done();
    }
    Ok(())
}

/// Commands, and the chapters of the book in its parts.
fn list(mut cli: Command, is_book: bool) -> CommandResult {
    let mut out = Output::new();
    if !is_book {
        let help = cli.render_help();
        let help = if out.colours {
            help.ansi().to_string()
        } else {
            help.to_string()
        };
        writeln!(out, "{}", help.trim_end())?;
        writeln!(out)?;
    }
    let title = "The book";
    writeln!(
        out,
        "{}: `baton help TOPIC` shows a chapter.",
        out.paint(Style::Strong, title)
    )?;
    let width = CHAPTERS.iter().map(|it| it.topic.len()).max();
    let width = width.unwrap_or_default();
    let mut part = "";
    for chapter in CHAPTERS {
        if chapter.part != part {
            part = chapter.part;
            writeln!(out, "\n{}", out.paint(Style::Strong, &format!("{part}:")))?;
        }
        let is_command = cli.find_subcommand(chapter.topic).is_some();
        let note = if is_command {
            format!("  (baton help --book {})", chapter.topic)
        } else {
            String::new()
        };
        writeln!(out, "  {:width$}  {}{note}", chapter.topic, chapter.title)?;
    }
    out.done()
}

fn show(chapter: &Chapter, is_plain: bool) -> CommandResult {
    let mut out = Output::new();
    let is_terminal = out.terminal && !is_plain;
    let width = if is_terminal {
        painter::size(std::io::stdout()).0
    } else {
        PLAIN_WIDTH
    };
    let colours = out.colours && !is_plain;
    let text = baton_book::render::render(&chapter.page(), width, colours);
    let pager = std::env::var("PAGER").ok().filter(|it| !it.is_empty());
    if let Some(pager) = pager.filter(|_| is_terminal)
        && paged(&pager, &text)
    {
        return Ok(());
    }
    out.write_all(text.as_bytes())?;
    out.done()
}

/// Shows a text in the user's pager; false if there is none of that name.
fn paged(pager: &str, text: &str) -> bool {
    let mut process = Process::new("sh");
    process.args(["-c", pager]).stdin(Stdio::piped());
    // Styles as they are, and no pager for what fits on the screen.
    if std::env::var_os("LESS").is_none() {
        process.env("LESS", "FRX");
    }
    let Ok(mut pager) = process.spawn() else {
        return false;
    };
    if let Some(mut stdin) = pager.stdin.take() {
        // A pager that is left early closes the pipe.
        let _ = stdin.write_all(text.as_bytes());
    }
    /// The shell's, for a program that it does not find.
    const NOT_FOUND: i32 = 127;
    !matches!(
        pager.wait().map(|it| it.code()),
        Ok(Some(NOT_FOUND)) | Err(_)
    )
}

/// Why there is no help on the words, and what there is.
fn unknown(cli: &Command, command: &Help) -> String {
    let words = command.words.join(" ");
    let known: Vec<&String> = command
        .words
        .iter()
        .scan(Some(cli), |found, word| {
            *found = found.and_then(|command| command.find_subcommand(word));
            found.map(|_| word)
        })
        .collect();
    if !known.is_empty() && !command.book {
        let known = known.iter().map(|it| it.as_str()).collect::<Vec<_>>();
        let known = known.join(" ");
        return format!(
            "there is no command `baton {words}`; `baton help {known}` has what there is"
        );
    }
    let kind = if command.book {
        "no chapter"
    } else {
        "neither a command nor a chapter"
    };
    let hints = hints(cli, &words, command.book);
    format!("{kind} has the name {words:?}; {hints}")
}

fn hints(cli: &Command, word: &str, is_book: bool) -> String {
    let topic = baton_book::nearest(word).map(|it| format!("`baton help {it}`"));
    let named = help::similar(cli, word).filter(|_| !is_book);
    let named = named.map(|it| format!("`baton help {it}`"));
    let near: Vec<String> = named.into_iter().chain(topic).collect();
    if !near.is_empty() {
        return format!("did you mean {}?", near.join(" or "));
    }
    let headings = baton_book::headings(word);
    if headings.is_empty() {
        return "`baton help` lists them all".to_owned();
    }
    let headings = headings
        .into_iter()
        .map(|(topic, heading)| format!("\n  baton help {topic:<16} {heading}"));
    format!(
        "chapters with that word in a heading:{}",
        headings.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::Cli;

    fn told(words: &[&str], book: bool) -> String {
        let command = Help {
            words: words.iter().map(|it| (*it).to_owned()).collect(),
            book,
            plain: true,
        };
        match run(&command, &Cli::command()) {
            Err(Failure::Message(_, message)) => message,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    #[test]
    fn an_unknown_topic_has_a_suggestion() {
        for (words, hint) in [
            (&["shedules"][..], "`baton help schedules`"),
            (&["submt"], "`baton help submit`"),
            (&["stop"], "`baton help cancel`"),
            (&["slurm-array"], "`baton help from-slurm-arrays`"),
            (&["environment"], "baton help local"),
            (&["zzz"], "`baton help` lists them all"),
            (&["library", "zzz"], "`baton help library` has"),
        ] {
            let message = told(words, false);
            assert!(message.contains(hint), "{message}");
        }
        let message = told(&["submit"], true);
        assert!(message.starts_with("no chapter"), "{message}");
    }
}
