//! One configuration file for scheduler, worker and client.
//!
//! | module | holds |
//! |---|---|
//! | `keys` | the keys: options of commands, and the variable of each |
//! | `file` | one file, checked |
//! | `layers` | files, profile and environment in their order |
//! | `apply` | the defaults that they give to a command line |
//! | `reference` | all keys as a file to edit, and as a page |
//! | `context` | `baton context`: the profile of clients |
//!
//! The options of the commands are the only table: a new option is a new key.

mod apply;
pub(crate) mod context;
mod file;
mod keys;
mod layers;
mod reference;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use baton_store::postgres::StoreUrl;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Subcommand};
use serde_json::json;

use self::file::Problem;
pub(crate) use self::keys::Section;
use self::keys::key;
use self::layers::{Config, Origin, PROFILE_VARIABLE, Places};
use crate::help;
use crate::output::{CommandResult, Failure, Output, Style, USAGE, note};
use crate::table::{Cell, Table};
use crate::text::shell;

pub(crate) use self::layers::FILE_VARIABLE;

/// Examine and write the configuration file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton config init                  write a commented file
  baton config show                  print each value with its origin
  baton config check /etc/baton/baton.toml

Defaults < /etc/baton/baton.toml < the user's file, ~/.config/baton/baton.toml < a profile < variables
of the environment < options. BATON_CONFIG names another file instead of those two; if it is empty, none
is read.")]
pub(crate) struct ConfigCommand {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Show(Show),
    Check(Check),
    Init(Init),
}

/// Print every key with its value and where it comes from
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton config show
  baton config show worker --set
  baton config show client --profile lab")]
struct Show {
    /// Only this table: scheduler, worker or client
    #[arg(value_name = "TABLE", value_parser = section)]
    section: Option<Section>,
    /// Only keys that a file or a variable sets
    #[arg(long)]
    set: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Check a configuration file
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton config check /etc/baton/baton.toml")]
struct Check {
    /// File to check [default: those that commands read]
    file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Write a commented configuration file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton config init
  baton config init - > baton.toml")]
struct Init {
    /// File to write, - for standard output [default: the user's file]
    file: Option<PathBuf>,
}

fn section(text: &str) -> Result<Section, String> {
    let mut all = Section::ALL.into_iter();
    all.find(|section| section.name() == text)
        .ok_or_else(|| "expected scheduler, worker or client".to_owned())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn failure(problems: Vec<Problem>) -> Failure {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Failure::usage(lines.join("\n"))
}

/// The configuration of a command line.
pub(crate) struct Configured {
    /// The command line, with the configured values as its defaults.
    pub(crate) cli: Command,
    /// Options of the worker of `baton up`.
    pub(crate) worker_arguments: Vec<String>,
}

/// Applies files and environment to a command line.
pub(crate) fn configured(cli: Command, args: &[OsString]) -> Result<Configured, Failure> {
    let plain = |cli| Configured {
        cli,
        worker_arguments: Vec::new(),
    };
    let places = Places::of(&variable);
    if !is_configured(&places, args) {
        return Ok(plain(cli));
    }
    // Also of a command line with mistakes, which are reported later, with all that belongs to them.
    let scan = help::arrange(cli.clone()).ignore_errors(true);
    let Ok(matches) = scan.try_get_matches_from(args) else {
        return Ok(plain(cli));
    };
    let reads =
        |name: &&str| matches!(*name, "scheduler" | "up" | "down") || help::is_connected(name);
    let Some(command) = matches.subcommand_name().filter(reads) else {
        return Ok(plain(cli));
    };
    let profile = matches.get_one::<String>("profile").cloned();
    let config = Config::read(&places, profile, &variable, &cli).map_err(failure)?;
    let worker_arguments = if command == "up" {
        apply::worker_arguments(&config, &cli, &variable).map_err(failure)?
    } else {
        Vec::new()
    };
    let cli = apply::apply(&config, cli, command, &variable).map_err(failure)?;
    Ok(Configured {
        cli,
        worker_arguments,
    })
}

/// The values that files and environment set for each table, by key. `profile` is that of the command line.
pub(crate) fn values(
    profile: Option<String>,
    cli: &Command,
) -> Result<BTreeMap<Section, BTreeMap<String, Vec<String>>>, Failure> {
    let config = Config::read(&Places::of(&variable), profile, &variable, cli).map_err(failure)?;
    let tables = Section::ALL.into_iter().map(|section| {
        let resolved = config.resolve(section, &variable, cli).map_err(failure)?;
        let values = resolved.into_iter().map(|(key, it)| (key, it.values));
        Ok((section, values.collect()))
    });
    tables.collect()
}

/// True if anything is configured; most commands of most users find nothing, and lose no time.
fn is_configured(places: &Places, args: &[OsString]) -> bool {
    const PREFIXES: [&str; 4] = [
        "BATON_SCHEDULER",
        "BATON_WORKER_",
        "BATON_CLIENT_",
        PROFILE_VARIABLE,
    ];
    let starts = |text: &OsStr, prefix: &str| text.as_bytes().starts_with(prefix.as_bytes());
    let is_off = variable(FILE_VARIABLE).is_some_and(|path| path.is_empty());
    let set = || std::env::vars_os().any(|(name, _)| PREFIXES.iter().any(|it| starts(&name, it)));
    let mut files = places.files.iter().chain(&places.context);
    !is_off
        && (variable(FILE_VARIABLE).is_some()
            || files.any(|file| file.exists())
            || args.iter().any(|arg| starts(arg, "--profile"))
            || set())
}

/// Refuses a password on the command line, where every user of the host can read it.
pub(crate) fn reject_password(matches: &ArgMatches) -> CommandResult {
    let mut next = matches.subcommand();
    // The commands of others, after `submit --`, are not ours to judge.
    if !next.is_some_and(|(name, _)| matches!(name, "scheduler" | "up" | "store" | "bench")) {
        return Ok(());
    }
    while let Some((_, command)) = next {
        if command.ids().any(|id| holds_password(command, id.as_str())) {
            return Err(Failure::usage(
                "the URL has a password, which every user of this host can read on a command line; put \
                 it into the variable BATON_STORE, or into `store` of [scheduler] in a configuration \
                 file that only its user can read",
            ));
        }
        next = command.subcommand();
    }
    Ok(())
}

fn holds_password(command: &ArgMatches, id: &str) -> bool {
    let is_typed = command.value_source(id) == Some(ValueSource::CommandLine);
    let raw = is_typed.then(|| command.try_get_raw(id).ok().flatten());
    let mut values = raw.flatten().into_iter().flatten();
    values.any(|text| {
        let text = text.to_string_lossy();
        StoreUrl::is_one(&text) && StoreUrl::from(&*text).has_password()
    })
}

/// Runs one of the commands; `profile` is that of the command line.
pub(crate) fn run(
    command: &ConfigCommand,
    profile: Option<String>,
    cli: &Command,
) -> CommandResult {
    match &command.command {
        Action::Show(command) => show(command, profile, cli),
        Action::Check(command) => check(command, cli),
        Action::Init(command) => init(command, cli),
    }
}

fn show(command: &Show, profile: Option<String>, cli: &Command) -> CommandResult {
    let places = Places::of(&variable);
    let config = Config::read(&places, profile, &variable, cli).map_err(failure)?;
    let mut out = Output::new();
    let mut table = Table::headed(&["KEY", "VALUE", "ORIGIN"]);
    let mut values = serde_json::Map::new();
    for section in Section::ALL {
        if command.section.is_some_and(|only| only != section) {
            continue;
        }
        let resolved = config.resolve(section, &variable, cli).map_err(failure)?;
        let mut keys = serde_json::Map::new();
        for option in section.options(cli) {
            let name = key(&option);
            let (value, origin) = match resolved.get(name) {
                Some(value) => (
                    Some(shown(&value.values.join(","))),
                    value.origin.to_string(),
                ),
                None if command.set => continue,
                None => (reference::default(&option), Origin::Default.to_string()),
            };
            let style = if resolved.contains_key(name) {
                Style::Plain
            } else {
                Style::Faint
            };
            table.row([
                Cell::new(format!("{}.{name}", section.name()), style),
                Cell::new(value.clone().unwrap_or_else(|| "-".to_owned()), style),
                Cell::new(&origin, style),
            ]);
            keys.insert(name.to_owned(), json!({"value": value, "origin": origin}));
        }
        values.insert(section.name().to_owned(), keys.into());
    }
    if command.json {
        let files: Vec<_> = config
            .paths()
            .map(|path| path.display().to_string())
            .collect();
        let profile = config.profile().map(|(name, _)| name);
        out.json(&json!({"files": files, "profile": profile, "values": values}))?;
        return out.done();
    }
    for line in table.lines(&out) {
        writeln!(out, "{line}")?;
    }
    if config.paths().next().is_none() {
        let file = places.own().map(|path| path.display().to_string());
        let file = file.unwrap_or_else(|| "a file".to_owned());
        note(&format!(
            "no configuration file is read; `baton config init` writes {file}"
        ));
    }
    out.done()
}

/// A value without its password.
fn shown(value: &str) -> String {
    if !StoreUrl::is_one(value) {
        return value.to_owned();
    }
    let place = StoreUrl::from(value).place();
    place.unwrap_or_else(|| "postgres://…".to_owned())
}

fn check(command: &Check, cli: &Command) -> CommandResult {
    let places = match &command.file {
        Some(file) => Places {
            files: vec![file.clone()],
            context: None,
        },
        None => Places::of(&variable),
    };
    let read = match command.file.as_ref().map(|file| (file, file.metadata())) {
        Some((file, Err(error))) => Err(vec![Problem {
            path: file.clone(),
            line: None,
            message: format!("it cannot be read: {error}"),
        }]),
        _ => Config::read(&places, None, &|_| None, cli),
    };
    let checked = read.and_then(|config| {
        let exposed = exposed_password(&config, cli)?;
        let files: Vec<PathBuf> = config.paths().map(Path::to_owned).collect();
        Ok((files, exposed))
    });
    let mut out = Output::new();
    if command.json {
        let ((files, exposed), problems) = match checked {
            Ok(valid) => (valid, Vec::new()),
            Err(problems) => ((Vec::new(), None), problems),
        };
        let warnings: Vec<Problem> = exposed.into_iter().collect();
        out.json(&json!({ "files": files, "problems": problems, "warnings": warnings }))?;
        out.done()?;
        return match &*problems {
            [] => Ok(()),
            _ => Err(Failure::Silent(USAGE)),
        };
    }
    let (files, exposed) = checked.map_err(failure)?;
    for path in &files {
        writeln!(out, "{}: valid", path.display())?;
    }
    if let Some(exposed) = exposed {
        note(&exposed.to_string());
    }
    if files.is_empty() {
        writeln!(out, "no configuration file is read")?;
    }
    out.done()
}

/// A password in a file that other users can read.
fn exposed_password(config: &Config, cli: &Command) -> Result<Option<Problem>, Vec<Problem>> {
    let scheduler = config.resolve(Section::Scheduler, &|_| None, cli)?;
    let Some(store) = scheduler.get("store") else {
        return Ok(None);
    };
    let Origin::File(path, line) = &store.origin else {
        return Ok(None);
    };
    let mut urls = store.values.iter();
    let has_password = urls.any(|url| StoreUrl::from(&**url).has_password());
    if !has_password || !others_can_read(path) {
        return Ok(None);
    }
    let file = shell(&path.display().to_string());
    Ok(Some(Problem {
        path: path.clone(),
        line: Some(*line),
        message: format!(
            "`store` has a password, and other users can read the file; `chmod 600 {file}`"
        ),
    }))
}

fn others_can_read(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path).map(|about| about.permissions().mode());
    mode.is_ok_and(|mode| mode & 0o077 != 0)
}

fn init(command: &Init, cli: &Command) -> CommandResult {
    let text = reference::template(cli);
    let places = Places::of(&variable);
    let file = command.file.as_deref().or(places.own());
    let Some(file) = file else {
        return Err(Failure::usage(
            "there is no home directory; name the file: baton config init FILE",
        ));
    };
    let mut out = Output::new();
    if file == Path::new("-") {
        write!(out, "{text}")?;
        return out.done();
    }
    write_new(file, &text)?;
    writeln!(out, "{}", file.display())?;
    out.done()
}

/// Writes a file that is not there yet, for its user alone: it may come to hold a password.
fn write_new(file: &Path, text: &str) -> CommandResult {
    use std::os::unix::fs::OpenOptionsExt as _;
    let failed = |error| Failure::failed(format!("cannot write {}: {error}", file.display()));
    if let Some(dir) = file.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        std::fs::create_dir_all(dir).map_err(failed)?;
    }
    let opened = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file);
    match opened {
        Ok(mut opened) => opened.write_all(text.as_bytes()).map_err(failed),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(Failure::usage(
            format!("{} exists; edit it, or remove it first", file.display()),
        )),
        Err(error) => Err(failed(error)),
    }
}
