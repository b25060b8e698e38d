//! What a configuration changes in a command line: the defaults of options.

use clap::Command;

use super::file::Problem;
use super::keys::{Section, is_flag, key};
use super::layers::{Config, Origin, Variables, arguments};

/// Keys of the worker that are options of `baton up`, too.
const UP: &[&str] = &["resources", "label", "allow-cwd"];

/// Keys of a worker that has its scheduler elsewhere. The worker of `baton up` has one of its own.
const REMOTE: &[&str] = &[
    "scheduler",
    "proxy",
    "name",
    "state",
    "token-file",
    "ca",
    "cert",
    "key",
];

/// Makes the values of a configuration the defaults of the options of a command.
pub(super) fn apply(
    config: &Config,
    cli: Command,
    command: &str,
    variables: Variables<'_>,
) -> Result<Command, Vec<Problem>> {
    let all = |section, cli| defaults(config, cli, section, command, variables, |_| true);
    match command {
        "scheduler" => all(Section::Scheduler, cli),
        "worker" => all(Section::Worker, cli),
        "up" => {
            let cli = all(Section::Scheduler, cli)?;
            let shared = |key: &str| UP.contains(&key);
            defaults(config, cli, Section::Worker, command, variables, shared)
        }
        "down" => {
            let shared = |key: &str| key == "data";
            defaults(config, cli, Section::Scheduler, command, variables, shared)
        }
        "doctor" => {
            let cli = all(Section::Client, cli)?;
            let shared = |key: &str| key == "data";
            defaults(config, cli, Section::Scheduler, command, variables, shared)
        }
        _ => all(Section::Client, cli),
    }
}

fn defaults(
    config: &Config,
    mut cli: Command,
    section: Section,
    command: &str,
    variables: Variables<'_>,
    applies: impl Fn(&str) -> bool,
) -> Result<Command, Vec<Problem>> {
    let resolved = config.resolve(section, variables, &cli)?;
    for option in section.options(&cli) {
        let name = key(&option);
        let Some(value) = resolved.get(name).filter(|_| applies(name)) else {
            continue;
        };
        let is_read = section.reads_variable(name) && matches!(value.origin, Origin::Variable(_));
        if is_read || (is_flag(&option) && value.values != ["true"]) {
            continue;
        }
        let values = value.values.clone();
        let id = option.get_id().clone();
        if option.is_global_set() {
            cli = cli.mut_arg(id, |arg| arg.default_values(values));
        } else {
            cli = cli.mut_subcommand(command, |of| {
                of.mut_arg(id, |arg| arg.required(false).default_values(values))
            });
        }
    }
    Ok(cli)
}

/// Options of the worker of `baton up` that come from the configuration, and that `baton up` has not.
pub(super) fn worker_arguments(
    config: &Config,
    cli: &Command,
    variables: Variables<'_>,
) -> Result<Vec<String>, Vec<Problem>> {
    let resolved = config.resolve(Section::Worker, variables, cli)?;
    let options = Section::Worker.options(cli).into_iter();
    Ok(options
        .filter(|option| !UP.contains(&key(option)) && !REMOTE.contains(&key(option)))
        .filter_map(|option| Some(arguments(&option, &resolved.get(key(&option))?.values)))
        .flatten()
        .collect())
}
