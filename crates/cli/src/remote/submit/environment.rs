//! The environment of submitted work: its directory, and variables of this command.
//!
//! Variables are stored with the task, and shown by `baton show`. So what is taken without being asked for is
//! little: that with which a program is found, and its language.

use std::env;

use super::Submit;
use super::directory::Directory;
use crate::output::{Failure, note};

/// Variables of a command that runs in the directory of its submission, on this host and as this user.
const OWN: [&str; 6] = [
    "PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "LANG",
    "LC_ALL",
    "TZ",
];
/// Variables of the shell that has started this command, which mean nothing elsewhere.
const OF_THE_SHELL: [&str; 4] = ["PWD", "OLDPWD", "SHLVL", "_"];
/// What Baton itself sets, and reads.
const RESERVED_PREFIX: &str = "BATON_";
/// Ends of names whose values are often secret.
const SECRET_ENDS: [&str; 5] = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "_KEY"];

/// Which variables of this command a task gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Export {
    None,
    All,
    Names(Vec<String>),
}

/// Reads the value of `--export`.
pub(super) fn export(text: &str) -> Result<Export, String> {
    match text {
        "NONE" => Ok(Export::None),
        "ALL" => Ok(Export::All),
        _ => {
            let names: Vec<String> = text.split(',').map(str::to_owned).collect();
            if names
                .iter()
                .any(|name| name.is_empty() || name.contains('='))
            {
                return Err(
                    "expected NONE, ALL or names such as PATH,LANG; a value is set with -E NAME=VALUE"
                        .to_owned(),
                );
            }
            Ok(Export::Names(names))
        }
    }
}

/// Directory and variables of submitted work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Environment {
    pub(super) directory: Directory,
    /// Those of the task file count more.
    pub(super) variables: Vec<(String, String)>,
    /// Those of `-E`, which count most.
    pub(super) named: Vec<(String, String)>,
}

impl Environment {
    /// That of work elsewhere.
    pub(super) fn new(directory: Directory, command: &Submit) -> Result<Self, Failure> {
        let export = command.export.as_ref().unwrap_or(&Export::None);
        let named = command.options.env.iter();
        let named = named.map(|(name, value)| match value {
            Some(value) => Ok((name.clone(), value.clone())),
            None => own("-E", name),
        });
        Ok(Self {
            directory,
            variables: variables(export)?,
            named: named.collect::<Result<_, _>>()?,
        })
    }

    /// Sets the directory of a command that named none. In the current one it gets what it needs there.
    pub(super) fn place(&mut self, directory: Directory, command: &Submit) {
        if matches!(directory, Directory::Path(_)) && command.export.is_none() {
            let own = OWN.iter().filter_map(|name| {
                let value = env::var(name).ok()?;
                Some(((*name).to_owned(), value))
            });
            self.variables = own.collect();
        }
        self.directory = directory;
    }
}

fn variables(export: &Export) -> Result<Vec<(String, String)>, Failure> {
    match export {
        Export::None => Ok(Vec::new()),
        Export::All => {
            let all = env::vars_os().filter_map(|(name, value)| {
                // What is not UTF-8 cannot be sent.
                Some((name.into_string().ok()?, value.into_string().ok()?))
            });
            let all: Vec<_> = all.filter(|(name, _)| is_exported(name)).collect();
            let names = all.iter().map(|(name, _)| name.as_str());
            let secret: Vec<&str> = names.filter(|name| is_secret(name)).collect();
            if !secret.is_empty() {
                note(&format!(
                    "{} may be secret, and `baton show` shows it; use --secret-env, or --export with names",
                    secret.join(", ")
                ));
            }
            Ok(all)
        }
        Export::Names(names) => {
            let named = names.iter().map(|name| own("--export", name));
            named.collect()
        }
    }
}

/// A variable of this command, which an option names.
fn own(option: &str, name: &str) -> Result<(String, String), Failure> {
    match env::var(name) {
        Ok(value) => Ok((name.to_owned(), value)),
        Err(env::VarError::NotPresent) => Err(Failure::usage(format!(
            "{option} {name}: it is not set here; set it, or write -E {name}=VALUE"
        ))),
        Err(error) => Err(Failure::usage(format!("{option} {name}: {error}"))),
    }
}

fn is_exported(name: &str) -> bool {
    !name.is_empty() && !OF_THE_SHELL.contains(&name) && !name.starts_with(RESERVED_PREFIX)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_ENDS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_are_words_or_names() {
        assert_eq!(export("NONE"), Ok(Export::None));
        assert_eq!(export("ALL"), Ok(Export::All));
        let names = vec!["PATH".to_owned(), "LANG".to_owned()];
        assert_eq!(export("PATH,LANG"), Ok(Export::Names(names)));
        for bad in ["", "A,", "A=1"] {
            assert!(export(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_shell_and_baton_keep_their_variables() {
        for (name, exported) in [("PATH", true), ("PWD", false), ("BATON_TOKEN", false)] {
            assert_eq!(is_exported(name), exported, "{name}");
        }
        assert!(is_secret("AWS_SECRET_ACCESS_KEY") && is_secret("github_token"));
        assert!(!is_secret("KEYBOARD"));
    }
}
