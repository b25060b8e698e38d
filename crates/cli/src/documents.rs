//! Commands that no test of the pages runs are at least ones that Baton accepts.
//!
//! They need programs or hosts of a reader, end never, or build Baton: blocks `sh,no-run` and
//! `console` of the pages, and the examples in helps.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};

use crate::Cli;
use crate::help::{arrange, parse};

/// Words that begin a command which follows them.
const BEFORE: &[&str] = &["$", "sudo", "srun", "setsid", "-f", "until", "do", "then"];

#[test]
fn commands_of_pages_that_are_not_run_are_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    pages.extend(markdown(&root.join("docs")));
    let mut seen = 0;
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        for block in blocks(&text, &["```sh,no-run", "```console"]) {
            for command in of_baton(&block) {
                seen += 1;
                accept(&page.display().to_string(), command);
            }
        }
    }
    assert!(seen > 60, "only {seen} commands were found");
}

#[test]
fn examples_of_helps_are_accepted() {
    fn walk(command: &Command, name: &str, seen: &mut u32) {
        let after = command.get_after_help();
        let after = after.or(command.get_after_long_help());
        let text = after.map(ToString::to_string).unwrap_or_default();
        let examples = text.lines().filter(|line| line.starts_with("  "));
        for example in examples {
            // What it does follows after spaces.
            let example = example.trim().split("  ").next().unwrap_or_default();
            for command in of_baton(example) {
                *seen += 1;
                accept(name, command);
            }
        }
        for inner in command.get_subcommands() {
            walk(inner, &format!("{name} {}", inner.get_name()), seen);
        }
    }
    let mut seen = 0;
    walk(&arrange(Cli::command()), "baton", &mut seen);
    assert!(seen > 100, "only {seen} commands were found");
}

#[test]
fn a_command_is_found_between_others() {
    let text = "export A=1   # baton x\nA=b sudo /usr/bin/baton ls \\\n  --all >out | jq . && baton up & echo \"a\nb\"\n\
                cat > f <<END\nbaton no\nEND\necho baton; x=$(baton runs --json); until baton up; do\n";
    assert_eq!(
        of_baton(text),
        [
            &["baton", "ls", "--all"][..],
            &["baton", "up"],
            &["baton", "runs", "--json"],
            &["baton", "up"]
        ]
    );
}

fn accept(place: &str, words: Vec<String>) {
    // Its own help describes these.
    if words.iter().any(|word| word == "--help") {
        return;
    }
    let line = words.join(" ");
    let args = words.into_iter().map(OsString::from).collect();
    if let Err(error) = parse(Cli::command(), args) {
        panic!("{place}: `{line}`\n{error}");
    }
}

fn markdown(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of pages");
    let paths = entries.map(|entry| entry.expect("readable").path());
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            found.extend(markdown(&path));
        } else if path.extension().is_some_and(|it| it == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn blocks(text: &str, kinds: &[&str]) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !line.starts_with("```") {
            continue;
        }
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if kinds.contains(&line) {
            blocks.push(body.join("\n"));
        }
    }
    blocks
}

/// The commands of a script that start Baton, without redirections.
fn of_baton(script: &str) -> Vec<Vec<String>> {
    let script = script.replace("\\\n", " ").replace("$(", " ; ");
    let mut found = Vec::new();
    let mut lines = script.lines();
    while let Some(line) = lines.next() {
        let mut line = line.to_owned();
        let words = loop {
            // A quoted text may have several lines.
            match (shlex::split(&line), lines.clone().next()) {
                (Some(words), _) => break words,
                (None, Some(next)) => line = format!("{line}\n{next}"),
                (None, None) => panic!("a quote is open: {line}"),
            }
            lines.next();
        };
        if let Some((_, end)) = line.split_once("<<") {
            let end = end.trim().trim_matches('\'').to_owned();
            let _text = lines.by_ref().take_while(|line| *line != end).count();
        }
        let ends =
            |word: &String| ["|", "||", "&&", "&"].contains(&word.as_str()) || word.ends_with(';');
        for command in words.split_inclusive(ends) {
            found.extend(starts_baton(command));
        }
    }
    found
}

fn starts_baton(command: &[String]) -> Option<Vec<String>> {
    let is_before = |word: &&String| BEFORE.contains(&word.as_str()) || word.contains('=');
    let mut words = command.iter().skip_while(is_before);
    let first = words.next()?;
    let is_baton = first == "baton" || first.ends_with("/baton");
    let is_argument = |word: &&String| {
        let word = word.trim_start_matches(|it: char| it.is_ascii_digit());
        !word.starts_with(['>', '<', '|', '&', ';'])
    };
    let words = words.take_while(is_argument);
    let words = words.map(|word| word.trim_end_matches([';', ')']).to_owned());
    is_baton.then(|| ["baton".to_owned()].into_iter().chain(words).collect())
}
