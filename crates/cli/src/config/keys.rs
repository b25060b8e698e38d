//! The keys of a configuration file: the options of three commands.

use std::borrow::Cow;

use clap::{Arg, ArgAction, Command};

use crate::help::CONNECTION;

/// A table of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
    Scheduler,
    Worker,
    Client,
}

/// Options that belong to one call of a command, not to a file.
const CALLS: &[&str] = &["help", "json", "profile", "detach"];

/// Variables with names of their own. Commands read these themselves.
const VARIABLES: &[(Section, &str, &str)] = &[
    (Section::Scheduler, "store", "BATON_STORE"),
    (Section::Scheduler, "tzdata", "BATON_TZDATA"),
    (Section::Worker, "token-file", "BATON_TOKEN_FILE"),
    (Section::Client, "url", "BATON_URL"),
    (Section::Client, "token-file", "BATON_TOKEN_FILE"),
    (Section::Client, "ca", "BATON_CA"),
    (Section::Client, "cert", "BATON_CERT"),
    (Section::Client, "key", "BATON_KEY"),
];

/// The token itself, instead of a file with it.
const TOKEN: &str = "BATON_TOKEN";

impl Section {
    pub(crate) const ALL: [Self; 3] = [Self::Scheduler, Self::Worker, Self::Client];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::Worker => "worker",
            Self::Client => "client",
        }
    }

    /// The commands that it configures, for people.
    pub(crate) const fn purpose(self) -> &'static str {
        match self {
            Self::Scheduler => "`baton scheduler`, and the scheduler of `baton up`",
            Self::Worker => "`baton worker`, and the worker of `baton up`",
            Self::Client => "commands that ask a scheduler, such as `baton submit`",
        }
    }

    /// The options that are its keys, of the whole command line.
    pub(crate) fn options(self, cli: &Command) -> Vec<Arg> {
        let shared = |arg: &&Arg| arg.is_global_set();
        let own = |name| {
            let command = cli.find_subcommand(name);
            command.into_iter().flat_map(Command::get_arguments)
        };
        let options: Vec<&Arg> = match self {
            Self::Scheduler => own("scheduler").collect(),
            Self::Worker => {
                let credentials = cli.get_arguments().filter(shared).filter(|arg| {
                    arg.get_help_heading() == Some(CONNECTION) && arg.get_id() != "url"
                });
                own("worker").chain(credentials).collect()
            }
            Self::Client => cli.get_arguments().filter(shared).collect(),
        };
        let kept = options.into_iter().filter(|arg| {
            let long = arg.get_long();
            !arg.is_hide_set() && long.is_some_and(|long| !CALLS.contains(&long))
        });
        kept.cloned().collect()
    }

    /// The variable that a command reads itself, and that counts more than a file.
    fn own_variable(self, key: &str) -> Option<&'static str> {
        let mut known = VARIABLES.iter();
        let found = known.find(|(section, of, _)| *section == self && *of == key)?;
        Some(found.2)
    }

    /// The variable of a key: `BATON_WORKER_SLOTS`.
    pub(crate) fn variable(self, key: &str) -> Cow<'static, str> {
        match self.own_variable(key) {
            Some(name) => name.into(),
            None if self == Self::Worker && key == "scheduler" => "BATON_SCHEDULER".into(),
            None => {
                let text = format!("BATON_{}_{key}", self.name());
                text.to_ascii_uppercase().replace('-', "_").into()
            }
        }
    }

    /// True if the command reads the variable of the key itself.
    pub(crate) fn reads_variable(self, key: &str) -> bool {
        self.own_variable(key).is_some()
    }

    /// The variable that counts for a key, and its value, if one is set.
    pub(crate) fn set_variable(
        self,
        key: &str,
        get: &dyn Fn(&str) -> Option<String>,
    ) -> Option<(Cow<'static, str>, String)> {
        let name = self.variable(key);
        let set = |name: &str| get(name).filter(|value| !value.is_empty());
        if key == "token-file" && set(TOKEN).is_some() {
            return Some((TOKEN.into(), String::new()));
        }
        let value = set(&name)?;
        Some((name, value))
    }
}

/// The name of an option as a key.
pub(crate) fn key(option: &Arg) -> &str {
    option.get_long().unwrap_or_default()
}

/// True for an option without a value.
pub(crate) fn is_flag(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::SetTrue)
}

/// True for an option that may be repeated.
pub(crate) fn is_list(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::Append)
}
