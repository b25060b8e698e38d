//! `baton ui`: the web page of a thing, in a browser.

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

use baton_client::Client;
use clap::Args;
use serde_json::json;

use super::library::{suggestion, task_name, unknown};
use super::selection;
use crate::connection::{REFUSED, refused};
use crate::ids::{self, IdArg, Target};
use crate::output::{CommandResult, Failure, Output, clean, note};

/// Opens an address with the browser of the desktop.
const OPENER: &str = "xdg-open";

/// Open the web page of an instance, a run, an entry of the library or a worker
///
/// Prints its address, and opens it with the command in $BROWSER, or else with xdg-open. Without a
/// display it is only printed. With --json, an object: url, and whether it was opened.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton ui                             the overview
  baton ui i12                         an instance; also i1..i9, i1523[3]
  baton ui r3                          a run
  baton ui analytics/report            an entry of the library
  baton ui w1                          a worker
  baton ui r3 --print                  print the address only
  BROWSER='firefox --new-window %s' baton ui

Exit status: 1 there is no such thing, or no browser opens it; 3 the scheduler cannot be reached,
or serves no pages.")]
pub(crate) struct Ui {
    /// Instance (i12), range (i1..i9), run (r3), backfill (b4), entry (owner/name) or worker
    /// [default: the overview]
    id: Option<String>,
    /// Print the address, and open nothing
    #[arg(long)]
    print: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(command: &Ui, client: &Client) -> CommandResult {
    if !client.serves_pages().await.map_err(refused)? {
        let url = clean(client.url());
        return Err(Failure::Message(
            REFUSED,
            format!(
                "the server at {url} serves no web pages; check --url and BATON_URL, and the \
                 version of the scheduler with `baton status`"
            ),
        ));
    }
    let path = match &command.id {
        None => vec![String::new()],
        Some(text) => path(text, client).await?,
    };
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let url = client.page(&path);
    let opener = if command.print {
        None
    } else {
        Opener::of_environment()
    };
    let mut out = Output::new();
    if !command.json {
        writeln!(out, "{url}")?;
        // Before the browser starts: one in the terminal draws over it.
        out.flush()?;
    }
    if let Some(opener) = &opener {
        opener.open(&url)?;
    } else if !command.print {
        note(
            "there is no display, so no browser was started; set BROWSER to a command, or open the address elsewhere",
        );
    }
    if command.json {
        out.json(&json!({ "url": url, "opened": opener.is_some() }))?;
    }
    out.done()
}

/// The path of the page of what was named, after a check that it exists.
async fn path(text: &str, client: &Client) -> Result<Vec<String>, Failure> {
    let path = |parts: &[&str]| parts.iter().map(|&part| part.to_owned()).collect();
    if let Ok(id) = ids::arg(text) {
        return by_id(id, client).await;
    }
    if is_backfill(text) {
        client.show_backfill(text).await.map_err(refused)?;
        return Ok(path(&["backfills", text]));
    }
    if !text.contains('/') {
        match client.worker(text).await {
            Ok(worker) => return Ok(path(&["workers", &worker.name])),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(refused(error)),
        }
    }
    let name = task_name(text).map_err(Failure::usage)?;
    if client.task(&name, None).await.map_err(refused)?.is_some() {
        return Ok(path(&[&name.owner, "tasks", &name.name]));
    }
    if text.contains('/') {
        return Err(unknown(client, &name).await);
    }
    let hint = suggestion(client, &name).await;
    let hint = hint
        .as_deref()
        .unwrap_or("list them with `baton workers` and `baton library ls`");
    let (text, name) = (clean(text), clean(&name.to_string()));
    Err(Failure::failed(format!(
        "`{text}` is no id such as i12 or r3, no worker, and no entry {name} of the library; {hint}"
    )))
}

/// The path of a page of instances or of a run.
async fn by_id(id: IdArg, client: &Client) -> Result<Vec<String>, Failure> {
    selection::check_indices(&[id], client).await?;
    let of = match id.target {
        Target::Run(run) => {
            client.run(run).await.map_err(refused)?;
            "runs"
        }
        Target::Instances(span) => {
            if span.count() == 1 {
                client.instance(span.first).await.map_err(refused)?;
            } else {
                client.range(span).await.map_err(refused)?;
            }
            "instances"
        }
    };
    Ok(vec![of.to_owned(), id.target.to_string()])
}

fn is_backfill(text: &str) -> bool {
    let digits = text.strip_prefix('b').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Commands that may open an address: the first that can be started does it.
#[derive(Debug, PartialEq, Eq)]
struct Opener {
    commands: Vec<Vec<String>>,
}

impl Opener {
    /// The browser of the environment; `None` if it has neither one nor a display.
    fn of_environment() -> Option<Self> {
        Self::choose(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    fn choose(variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        if let Some(browser) = variable("BROWSER") {
            // Several are separated by colons, as for man and Python.
            let browser = browser.to_string_lossy();
            let commands = browser.split(':').map(words);
            let commands: Vec<_> = commands.filter(|words| !words.is_empty()).collect();
            if !commands.is_empty() {
                return Some(Self { commands });
            }
        }
        let has_display = variable("DISPLAY").is_some() || variable("WAYLAND_DISPLAY").is_some();
        has_display.then(|| Self {
            commands: vec![words(OPENER)],
        })
    }

    /// Opens an address, and waits for the command: a browser in the terminal needs it.
    fn open(&self, url: &str) -> CommandResult {
        let mut tried = Vec::new();
        for words in &self.commands {
            let words = with_url(words, url);
            let Some((program, arguments)) = words.split_first() else {
                continue;
            };
            let mut command = Command::new(program);
            // Standard output is for the address alone.
            command.args(arguments).stdout(Stdio::null());
            match command.status() {
                Ok(status) if status.success() => return Ok(()),
                Ok(status) => tried.push(format!("`{}`: {status}", clean(program))),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    tried.push(format!("`{}` is not installed", clean(program)));
                }
                Err(error) => tried.push(format!("`{}`: {error}", clean(program))),
            }
        }
        Err(Failure::failed(format!(
            "cannot open the page: {}; open {url} yourself, or set BROWSER to another command",
            tried.join("; ")
        )))
    }
}

fn words(command: &str) -> Vec<String> {
    command.split_whitespace().map(str::to_owned).collect()
}

/// The command for an address, which replaces `%s` or is the last argument.
fn with_url(words: &[String], url: &str) -> Vec<String> {
    let mut with: Vec<String> = words.iter().map(|word| word.replace("%s", url)).collect();
    if !words.iter().any(|word| word.contains("%s")) {
        with.push(url.to_owned());
    }
    with
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(variables: &[(&str, &str)]) -> Option<Vec<Vec<String>>> {
        let opener = Opener::choose(|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        });
        opener.map(|opener| opener.commands)
    }

    #[test]
    fn the_browser_of_the_environment_comes_before_that_of_the_desktop() {
        assert_eq!(chosen(&[]), None);
        assert_eq!(
            chosen(&[("DISPLAY", ":0")]),
            Some(vec![vec!["xdg-open".to_owned()]])
        );
        assert_eq!(
            chosen(&[("WAYLAND_DISPLAY", "w"), ("BROWSER", "a --new %s:b")]),
            Some(vec![words("a --new %s"), words("b")])
        );
        assert_eq!(chosen(&[("BROWSER", " : ")]), None);
    }

    #[test]
    fn the_address_is_one_argument() {
        let of = |command: &str| with_url(&words(command), "http://h/a?b=c d");
        assert_eq!(of("b"), ["b", "http://h/a?b=c d"]);
        assert_eq!(of("b --url=%s -n"), ["b", "--url=http://h/a?b=c d", "-n"]);
    }
}
