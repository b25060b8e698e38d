//! All keys as a file to edit, and as a page of the documentation.

use std::fmt::Write as _;

use clap::{Arg, Command};

use super::keys::{Section, is_flag, is_list, key};

/// The beginning of a new file.
const HEAD: &str = "\
# Configuration of Baton. `baton config show` prints what counts, and where it comes from;
# `baton config check` looks for mistakes.
";

/// The profiles of a new file.
const PROFILES: &str = "\
# Clients by name, with the keys of [client]: `baton --profile lab status`, or `baton context use lab`.
# [profiles.lab]
# url = \"https://scheduler.lab:8080\"
# token-file = \"/etc/baton/lab.token\"
";

/// A file with every key as a comment.
pub(super) fn template(cli: &Command) -> String {
    let mut text = HEAD.to_owned();
    for section in Section::ALL {
        let purpose = section.purpose();
        // A `String` takes all that is written.
        let _ = writeln!(text, "\n# Of {purpose}.\n[{}]", section.name());
        for option in section.options(cli) {
            for line in wrapped(&description(&option), 98) {
                let _ = writeln!(text, "# {line}");
            }
            let _ = writeln!(text, "# {} = {}", key(&option), example(&option));
        }
    }
    text.push('\n');
    text.push_str(PROFILES);
    text
}

/// The help of an option in one line.
fn description(option: &Arg) -> String {
    let help = option.get_help().map(ToString::to_string);
    help.unwrap_or_default().replace('\n', " ")
}

/// The default of an option, if it has a fixed one.
pub(super) fn default(option: &Arg) -> Option<String> {
    if is_flag(option) {
        return Some("false".to_owned());
    }
    let values = option.get_default_values().iter();
    let values: Vec<_> = values.map(|it| it.to_string_lossy().into_owned()).collect();
    let text = values.join(",");
    (!text.is_empty()).then_some(text)
}

/// A value in TOML, as a beginning.
fn example(option: &Arg) -> String {
    if is_flag(option) {
        return "false".to_owned();
    }
    match default(option) {
        Some(value) if value.bytes().all(|byte| byte.is_ascii_digit()) => value,
        Some(value) => format!("\"{value}\""),
        None => {
            let names = option.get_value_names().unwrap_or_default();
            let name = names.first().map_or("VALUE", |name| name.as_str());
            if is_list(option) {
                format!("[\"{name}\"]")
            } else {
                format!("\"{name}\"")
            }
        }
    }
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is a line");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use clap::CommandFactory as _;

    use super::super::file::parse;
    use super::*;
    use crate::Cli;

    /// The tables of keys, for the documentation.
    fn page(cli: &Command) -> String {
        let mut text = String::new();
        for section in Section::ALL {
            let _ = writeln!(
                text,
                "## `[{}]`\n\nOf {}.\n\n| key | default | variable | meaning |\n|---|---|---|---|",
                section.name(),
                section.purpose()
            );
            for option in section.options(cli) {
                let key = key(&option);
                let default = default(&option).map_or_else(String::new, |it| format!("`{it}`"));
                let variable = section.variable(key);
                let meaning = description(&option).replace('|', "\\|");
                let _ = writeln!(text, "| `{key}` | {default} | `{variable}` | {meaning} |");
            }
            text.push('\n');
        }
        text
    }

    #[test]
    fn a_new_file_is_valid_with_and_without_its_comments() {
        let text = template(&Cli::command());
        parse(Path::new("new.toml"), &text, &Cli::command()).expect("valid");
        assert!(text.contains("# slots = 4096"), "{text}");
        assert!(text.contains("# require-tokens = false"), "{text}");
    }

    #[test]
    fn the_page_of_the_documentation_lists_every_key() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        let committed = std::fs::read_to_string(&path).expect("the page is there");
        let start = committed.find("## `[scheduler]`").expect("its tables");
        let fresh = format!("{}{}", &committed[..start], page(&Cli::command()));
        let fresh = format!("{}\n", fresh.trim_end());
        if std::env::var_os("BATON_REWRITE").is_some() {
            std::fs::write(&path, fresh).expect("written");
        } else {
            assert_eq!(committed, fresh, "BATON_REWRITE=1 writes it");
        }
    }
}
