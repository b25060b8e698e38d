//! Command lines of Baton in the documents; part of `cargo xtask tidy`.
//!
//! A page keeps the name of an option that was renamed until a reader tries it. So every code span
//! and every `sh` line that begins with `baton` is compared with `docs/commands.md`, the generated page of all commands: the
//! command exists, and has the options. Values are not checked; tests run the commands of many pages.

use std::collections::{BTreeMap, BTreeSet};

use crate::Findings;
use crate::markdown::spans;

/// The page of all commands.
pub(crate) const PAGE: &str = "docs/commands.md";

/// Options that need not be in the page.
const COMMON: &[&str] = &["--help", "--version"];

/// All commands with their options.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    /// By words (`library put`), the options: whether each takes a value.
    options: BTreeMap<String, BTreeMap<String, bool>>,
    /// Those that several commands share.
    shared: BTreeMap<String, bool>,
}

impl Commands {
    /// Reads the page of all commands.
    pub(crate) fn read(page: &str) -> Self {
        let mut commands = Self::default();
        let mut current: Option<String> = None;
        for line in page.lines() {
            if line.starts_with('#') {
                let title = line.trim_start_matches('#').trim();
                current = title.strip_prefix("baton ").map(str::to_owned);
                if let Some(words) = &current {
                    commands.options.entry(words.clone()).or_default();
                }
            } else if line.starts_with("  ") && line.trim_start().starts_with('-') {
                let options = match &current {
                    Some(words) => commands.options.entry(words.clone()).or_default(),
                    None => &mut commands.shared,
                };
                for option in long_options(line) {
                    options.insert(option.to_owned(), line.contains('<'));
                }
            }
        }
        commands
    }

    /// Command lines of a page that name a missing command or option.
    pub(crate) fn check(&self, page: &str, text: &str) -> Findings {
        let mut findings = Findings::new();
        let quoted = spans(text).into_iter().chain(shell_lines(text));
        let found: BTreeSet<(usize, String)> = quoted
            .flat_map(|(number, code)| {
                let lines = command_lines(code);
                lines.filter_map(move |line| Some((number, self.missing(line)?)))
            })
            .collect();
        for (number, missing) in found {
            findings.push(format!("{page}:{number}: {missing}; see {PAGE}"));
        }
        findings
    }

    /// The first part of a command line, behind `baton`, that does not exist.
    fn missing(&self, line: &str) -> Option<String> {
        let mut command = String::new();
        let mut value_of_option = false;
        for word in line.split_whitespace() {
            if word == "--" || word.starts_with(['#', '|', '&', ';', '>', '<']) {
                break;
            }
            for option in long_options(word) {
                match self.takes_value(&command, option) {
                    Some(takes_value) => value_of_option = takes_value && !word.contains('='),
                    None if COMMON.contains(&option) => {}
                    None => return Some(format!("`baton {command}` has no option {option}")),
                }
            }
            if word.starts_with(['-', '[']) || std::mem::take(&mut value_of_option) {
                continue;
            }
            let longer = format!("{command} {word}").trim_start().to_owned();
            if self.options.contains_key(&longer) {
                command = longer;
            } else if command.is_empty() {
                let is_name = word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
                return is_name.then(|| format!("there is no command `baton {word}`"));
            }
        }
        None
    }

    /// Whether an option takes a value; `None` if neither the command nor one of its subcommands,
    /// which prose may leave out, has it.
    fn takes_value(&self, command: &str, option: &str) -> Option<bool> {
        let subcommand = format!("{command} ");
        let of_command = |words: &str| words == command || words.starts_with(&subcommand);
        let own = self.options.iter().filter(|(words, _)| of_command(words));
        let own = own.map(|(_, options)| options);
        let mut all = own.chain([&self.shared]);
        all.find_map(|options| options.get(option).copied())
    }
}

/// The lines of `sh` blocks, with their numbers from 1.
fn shell_lines(text: &str) -> Vec<(usize, &str)> {
    let mut is_shell = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            is_shell = kind == "sh" || kind.starts_with("sh,");
        } else if is_shell {
            lines.push((index + 1, line.split(" #").next().unwrap_or_default()));
        }
    }
    lines
}

/// What follows `baton` in code, for each time that it stands where a command does.
fn command_lines(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices("baton ").filter_map(move |(at, found)| {
        let before = code[..at].trim_end_matches(' ');
        let is_start = before.is_empty()
            || before.ends_with(['|', '&', ';', '(', '!', '\'', '"', '='])
            || ["bin/", "until", "if", "while", "do", "sudo", "run:"]
                .iter()
                .any(|word| before.ends_with(word));
        is_start.then_some(&code[at + found.len()..])
    })
}

/// The options of a text that begin with two hyphens, without their values.
fn long_options(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("--").filter_map(move |(at, _)| {
        let inside = text[..at].ends_with(|c: char| c.is_alphanumeric() || "-'\"/".contains(c));
        let name = text[at + 2..]
            .bytes()
            .take_while(|b| b.is_ascii_lowercase() || *b == b'-');
        let length = name.count();
        (!inside && length > 0).then(|| &text[at..at + 2 + length])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "# Commands\n\n## Run work\n\n### baton submit\n\n```text\nOptions:\n      --array <N>\n  -w, --wait\n```\n\
        ### baton library\n\n#### baton library put\n\n```text\n  --dry-run  Store nothing\n```\n\
        ## Shared options\n\n```text\n      --url <URL>\n```\n";

    fn findings(text: &str) -> Findings {
        Commands::read(HELP).check("a.md", text)
    }

    #[test]
    fn commands_that_exist_are_in_order() {
        let text = "`baton submit --array 1-9 --wait -- tool --fast`, `baton library put F --dry-run`\n\
                    ```sh\nls | baton --url http://a:1 submit --array=1 # --not\n```\n\
                    `baton COMMAND --help`, `baton submit [--wait\\|--array N]`, `baton.yaml`, `the baton is`, `baton library --dry-run`, `/lib/baton --x`\n\
                    ```text\nbaton nothing --here\n```\n";
        assert_eq!(findings(text), Findings::new());
    }

    #[test]
    fn an_option_that_does_not_exist_is_found() {
        assert_eq!(
            findings("x\n`baton submit --arrays 1`\n"),
            ["a.md:2: `baton submit` has no option --arrays; see docs/commands.md"]
        );
        assert_eq!(
            findings("```sh\nif baton library put f --wait; then\n```\n").len(),
            1
        );
        assert_eq!(
            findings("```sh,no-run\nsudo baton submit --dry-run\n```\n").len(),
            1
        );
    }

    #[test]
    fn a_command_that_does_not_exist_is_found() {
        assert_eq!(
            findings("`baton submitt -- true`\n"),
            ["a.md:1: there is no command `baton submitt`; see docs/commands.md"]
        );
    }
}
