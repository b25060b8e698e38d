//! The command line as users meet it: commands in groups, aliases, suggestions, and the options of a
//! connection, and of all output, under headings of their own.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command};

use crate::text::shell;

/// Heading of the options of a connection.
pub(crate) const CONNECTION: &str = "Connection";

/// Heading of the options that change the output of every command.
pub(crate) const OUTPUT: &str = "Output";

/// Position of those options among all: the last.
pub(crate) const LAST: usize = 900;

/// Commands by what they are for. Each command is in one group.
const GROUPS: &[(&str, &[&str])] = &[
    ("Run work", &["run", "submit", "trigger", "wait", "check"]),
    (
        "Look at work",
        &[
            "status", "bullpen", "arena", "history", "runs", "top", "show", "explain", "logs",
            "watch", "report", "events", "usage", "ui",
        ],
    ),
    (
        "Change work",
        &["cancel", "kill", "retry", "halt", "resume", "array"],
    ),
    (
        "Library and schedules",
        &["library", "backfill", "ticks", "schedule"],
    ),
    (
        "Servers",
        &[
            "up",
            "down",
            "scheduler",
            "worker",
            "schedulers",
            "workers",
            "drain",
            "forget",
            "fleet",
            "limits",
            "share",
            "alarms",
            "notifications",
            "secret",
            "token",
            "store",
            "doctor",
        ],
    ),
    (
        "Tools",
        &[
            "help",
            "local",
            "config",
            "context",
            "schema",
            "import",
            "bench",
            "completions",
            "man",
            "version",
        ],
    ),
];

/// Words of other schedulers that mean exactly one command.
const ALIASES: &[(&str, &str)] = &[
    ("arena", "ps"),
    ("bullpen", "queue"),
    ("status", "ls"),
    ("logs", "log"),
    ("show", "info"),
    ("workers", "nodes"),
];

/// Words of other schedulers that mean one of several commands, or need another argument.
const SUGGESTIONS: &[(&[&str], &str)] = &[
    (&["validate", "lint", "verify", "plan"], "check FILE"),
    (
        &["stop", "delete", "rm", "abort", "scancel", "terminate"],
        "cancel ID",
    ),
    (
        &["jobs", "tasks", "list", "squeue", "instances"],
        "bullpen, arena or history",
    ),
    (&["sacct"], "history or usage"),
    (
        &["sbatch", "exec", "enqueue", "add", "apply", "batch", "srun"],
        "submit -- CMD",
    ),
    (&["sinfo", "node", "clients", "agents"], "workers"),
    (
        &["describe", "get", "inspect", "scontrol", "details"],
        "show ID",
    ),
    (&["why", "reason"], "explain ID"),
    (&["rerun", "restart", "requeue", "clear"], "retry ID"),
    (&["server", "serve", "start", "standalone", "daemon"], "up"),
    (&["shutdown", "quit", "teardown"], "down"),
    (&["agent", "executor"], "worker"),
    (
        &["pause", "suspend", "hold"],
        "halt RUN, or library pause NAME",
    ),
    (
        &["unpause", "continue", "release"],
        "resume RUN, or library unpause NAME",
    ),
    (&["workflows", "dags", "dag"], "runs, or library ls"),
    (&["tail", "output"], "logs ID -f"),
    (&["cron", "schedules"], "library ls, or schedule preview"),
    (&["health", "overview"], "status, or doctor"),
    (&["diagnose", "diagnostics", "checkup"], "doctor"),
    (&["dashboard", "web", "browse", "open"], "ui"),
];

/// The commands of a suggestion.
fn commands(suggestion: &str) -> impl Iterator<Item = &str> {
    let parts = suggestion.split(", ").flat_map(|it| it.split(" or "));
    parts.map(|it| it.trim_start_matches("or "))
}

/// Commands that connect to no scheduler, or by other options.
const UNCONNECTED: &[&str] = &[
    "help",
    "run",
    "up",
    "down",
    "scheduler",
    "local",
    "config",
    "context",
    "schedule",
    "schema",
    "import",
    "bench",
    "completions",
    "man",
    "version",
    "check",
];

/// True for a command that connects to a scheduler by the options of a connection.
pub(crate) fn is_connected(command: &str) -> bool {
    !UNCONNECTED.contains(&command)
}

/// Arranges the whole command line.
pub(crate) fn arrange(mut cli: Command) -> Command {
    let globals: Vec<Arg> = cli
        .get_arguments()
        .filter(|arg| arg.get_help_heading() == Some(CONNECTION))
        .cloned()
        .collect();
    let names: Vec<String> = cli
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect();
    for name in names {
        let hidden = globals
            .iter()
            .filter(|arg| {
                UNCONNECTED.contains(&&*name) || (name == "worker" && arg.get_id() == "url")
            })
            .map(|arg| arg.clone().hide(true))
            .collect::<Vec<_>>();
        let aliases = ALIASES.iter().filter(|(of, _)| *of == name);
        let aliases: Vec<&str> = aliases.map(|(_, alias)| *alias).collect();
        cli = cli.mut_subcommand(&name, |command| command.args(hidden).aliases(aliases));
    }
    let template = template(&cli);
    cli.help_template(template)
}

/// Parses the command line; the error of an unknown command, or of one to submit that does not follow
/// `--`, has a suggestion.
pub(crate) fn parse(cli: Command, args: Vec<OsString>) -> Result<ArgMatches, clap::Error> {
    let cli = arrange(cli);
    let args = nested_help(&cli, args);
    let parsed = cli.try_get_matches_from(args.clone());
    parsed.map_err(|error| {
        let suggestion = unknown(&error).and_then(|word| suggestion(&word));
        match (suggestion, submitted_command(&error, &args)) {
            (Some(suggestion), _) => with_suggestion(error, suggestion),
            (None, Some(tip)) => with_tip(error, tip),
            (None, None) => error,
        }
    })
}

/// `baton library put --help` for `baton library help put`: the parser's own command `help` can be turned
/// off for the root only together with those below it.
fn nested_help(cli: &Command, args: Vec<OsString>) -> Vec<OsString> {
    let is_help = |word: &OsString| word == "help";
    let Some(at) = args.iter().position(is_help).filter(|at| *at > 1) else {
        return args;
    };
    let mut found = Some(cli);
    for word in &args[1..at] {
        found = found.and_then(|command| command.find_subcommand(word));
    }
    if !found.is_some_and(Command::has_subcommands) {
        return args;
    }
    let mut words = [&args[..at], &args[at + 1..]].concat();
    words.push("--help".into());
    words
}

/// `baton submit -- echo hello` for `baton submit echo hello`, which names a file and one word more.
fn submitted_command(error: &clap::Error, args: &[OsString]) -> Option<String> {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(extra))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return None;
    };
    let words: Option<Vec<&str>> = args.iter().skip(1).map(|word| word.to_str()).collect();
    let words = words?;
    let submit = words.iter().position(|word| *word == "submit")?;
    let is_extra = |word: &&str| word == extra || word.split('=').next() == Some(extra);
    let after_file = submit + 2;
    let extra = after_file + words.get(after_file..)?.iter().position(is_extra)?;
    let program = words[extra - 1];
    let is_file = [".yaml", ".yml", ".toml", ".json"]
        .iter()
        .any(|end| program.ends_with(end));
    if program.starts_with('-') || is_file {
        return None;
    }
    let quoted = |words: &[&str]| {
        let words = words.iter().map(|word| {
            let rest = word.trim_start_matches('-');
            let is_plain = shell(rest) == rest;
            if is_plain {
                format!(" {word}")
            } else {
                format!(" {}", shell(word))
            }
        });
        words.collect::<String>()
    };
    let (options, command) = words.split_at(extra - 1);
    Some(format!(
        "a command follows `--`: `baton{} --{}`",
        quoted(options),
        quoted(command)
    ))
}

fn unknown(error: &clap::Error) -> Option<String> {
    match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) => Some(word.clone()),
        _ => None,
    }
}

fn suggestion(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    let mut known = SUGGESTIONS.iter();
    let found = known.find(|(words, _)| words.contains(&&*word));
    found.map(|(_, suggestion)| *suggestion)
}

/// The command that a word means in another scheduler, or whose spelling is nearest to it.
pub(crate) fn similar(cli: &Command, word: &str) -> Option<String> {
    if let Some(suggestion) = suggestion(word) {
        let command = commands(suggestion).next()?;
        return command.split(' ').next().map(str::to_owned);
    }
    let args = [OsString::from("baton"), OsString::from(word)];
    let error = cli.clone().try_get_matches_from(args).err()?;
    match error.get(ContextKind::SuggestedSubcommand)? {
        ContextValue::String(name) => Some(name.clone()),
        // The nearest is the last.
        ContextValue::Strings(names) => names.last().cloned(),
        _ => None,
    }
}

/// The same error with another tip than the nearest spelling.
fn with_suggestion(mut error: clap::Error, suggestion: &str) -> clap::Error {
    error.remove(ContextKind::SuggestedSubcommand);
    let tip = commands(suggestion).map(|it| format!("`baton {it}`"));
    let tip = format!("use {}", tip.collect::<Vec<_>>().join(" or "));
    with_tip(error, tip)
}

fn with_tip(mut error: clap::Error, tip: String) -> clap::Error {
    error.insert(
        ContextKind::Suggested,
        ContextValue::StyledStrs(vec![tip.into()]),
    );
    error
}

/// The help of the root: its commands in groups.
fn template(cli: &Command) -> String {
    let width = GROUPS.iter().flat_map(|(_, names)| names.iter());
    let width = width.map(|name| name.len()).max().unwrap_or_default();
    let mut text = "{about}\n\n{usage-heading} {usage}\n".to_owned();
    for (title, names) in GROUPS {
        let _ = write!(text, "\n{title}:\n");
        for name in *names {
            let command = cli.find_subcommand(name);
            let about = command.and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:width$}  {about}");
        }
    }
    text.push_str("\n`baton COMMAND --help` tells more about a command; `baton help` lists the chapters of the book, too.\n\n");
    text.push_str(&options(cli));
    text.push_str("{after-help}");
    text
}

/// The options of the root under their headings: a template has one list of all options, and the
/// lists under headings only together with the commands.
fn options(cli: &Command) -> String {
    let mut options = Command::new("options")
        .version(env!("CARGO_PKG_VERSION"))
        .args(cli.get_arguments())
        .help_template("{all-args}");
    options.render_help().ansi().to_string()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::Cli;

    #[test]
    fn every_command_is_in_one_group() {
        let cli = Cli::command();
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| names.to_vec())
            .collect();
        let mut all: Vec<&str> = cli
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(Command::get_name)
            .collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
        arrange(Cli::command()).debug_assert();
    }

    #[test]
    fn a_command_to_submit_is_told_to_follow_two_dashes() {
        let told = |line: &str| {
            let args = line.split(' ').map(OsString::from).collect();
            parse(Cli::command(), args)
                .expect_err("a wrong command line")
                .to_string()
        };
        for (line, right) in [
            ("baton submit echo hello", "baton submit -- echo hello"),
            ("baton submit sleep 5", "baton submit -- sleep 5"),
            ("baton submit ./x.sh a a", "baton submit -- ./x.sh a a"),
            (
                "baton submit --wait --cpu 2 echo -n hi",
                "baton submit --wait --cpu 2 -- echo -n hi",
            ),
        ] {
            let error = told(line);
            assert!(error.contains(&format!("`{right}`")), "{error}");
        }
        let option = told("baton submit etl.yaml --sandbx");
        assert!(!option.contains("follows"), "{option}");
    }

    #[test]
    fn words_of_other_schedulers_lead_to_commands_that_exist() {
        let cli = arrange(Cli::command());
        for (words, suggestion) in SUGGESTIONS {
            for command in commands(suggestion) {
                let name = command.split(' ').next().unwrap_or_default();
                assert!(cli.find_subcommand(name).is_some(), "{words:?}: {name}");
            }
            for word in *words {
                assert!(cli.find_subcommand(word).is_none(), "{word} is a command");
            }
        }
        let args = ["baton", "validate"].map(OsString::from).to_vec();
        let error = parse(Cli::command(), args)
            .expect_err("no such command")
            .to_string();
        assert!(error.contains("use `baton check FILE`"), "{error}");
        let args = ["baton", "schedules"].map(OsString::from).to_vec();
        let error = parse(Cli::command(), args)
            .expect_err("no such command")
            .to_string();
        let tip = "use `baton library ls` or `baton schedule preview`";
        assert!(error.contains(tip), "{error}");
        assert!(
            cli.find_subcommand("ps")
                .is_some_and(|it| it.get_name() == "arena")
        );
    }

    #[test]
    fn help_has_groups_and_options_of_a_connection_only_where_they_are_used() {
        let help = arrange(Cli::command()).render_help().to_string();
        let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text}: {help}"));
        assert!(at("Run work:") < at("  submit "), "{help}");
        assert!(at("Servers:") < at("  up "), "{help}");
        assert!(at("Tools:") < at("\nOptions:\n"), "{help}");
        assert!(at("\nOptions:\n") < at("--version"), "{help}");
        assert!(at("--version") < at("\nConnection:\n"), "{help}");
        assert!(at("\nConnection:\n") < at("--url <URL>"), "{help}");
        assert!(at("--url <URL>") < at("\nOutput:\n"), "{help}");
        assert!(at("\nOutput:\n") < at("--utc"), "{help}");
        assert!(at("--utc") < at("\nExamples:\n"), "{help}");
        let of = |names: &[&str]| {
            let mut cli = arrange(Cli::command());
            cli.build();
            let mut found = &mut cli;
            for name in names {
                found = found.find_subcommand_mut(name).expect("a command");
            }
            found.render_long_help().to_string()
        };
        for used in [&["submit"][..], &["library", "ls"], &["token", "create"]] {
            let help = of(used);
            let connection = help.find("Connection:").unwrap_or_else(|| panic!("{help}"));
            assert!(help[connection..].contains("--url"), "{help}");
            assert!(!help[..connection].contains("--url <URL>"), "{help}");
        }
        for unused in [
            &["up"][..],
            &["check"],
            &["schedule", "preview"],
            &["local", "run"],
        ] {
            let help = of(unused);
            assert!(!help.contains("--token-file"), "{unused:?}: {help}");
        }
        let worker = of(&["worker"]);
        assert!(
            worker.contains("--ca <FILE>") && !worker.contains("--url <URL>"),
            "{worker}"
        );
    }
}
