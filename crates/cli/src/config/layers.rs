//! The configuration of a command: files and environment, the later ones first.
//!
//! Defaults < `/etc/baton/baton.toml` < the user's file < the profile < `BATON_*` < options.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};

pub(crate) use baton_terminal::variables::CONFIG as FILE_VARIABLE;

use super::file::{self, ConfigFile, Problem, Setting, Table};
use super::keys::{Section, is_flag, is_list, key};

/// The file of all users of this host.
const SYSTEM_FILE: &str = "/etc/baton/baton.toml";
/// Names the profile of clients.
pub(crate) const PROFILE_VARIABLE: &str = "BATON_PROFILE";

/// Reads a variable of the environment.
pub(crate) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The files of this user and this host.
#[derive(Debug)]
pub(crate) struct Places {
    /// The files, those that count less first.
    pub(crate) files: Vec<PathBuf>,
    /// The file that `baton context use` writes.
    pub(crate) context: Option<PathBuf>,
}

impl Places {
    pub(crate) fn of(variables: Variables<'_>) -> Self {
        let user = user_dir(variables);
        let files = match variables(FILE_VARIABLE) {
            Some(path) if path.is_empty() => Vec::new(),
            Some(path) => vec![PathBuf::from(path)],
            None => {
                let user = user.as_ref().map(|dir| dir.join("baton.toml"));
                [Some(PathBuf::from(SYSTEM_FILE)), user]
                    .into_iter()
                    .flatten()
                    .collect()
            }
        };
        Self {
            files,
            context: user.map(|dir| dir.join("context")),
        }
    }

    /// The file that `baton config init` writes.
    pub(crate) fn own(&self) -> Option<&Path> {
        self.files.last().map(PathBuf::as_path)
    }
}

/// The user's directory of configuration.
fn user_dir(variables: Variables<'_>) -> Option<PathBuf> {
    let set = |name| variables(name).filter(|value| !value.is_empty());
    let base = set("XDG_CONFIG_HOME").map(PathBuf::from);
    let base = base.or_else(|| Some(PathBuf::from(set("HOME")?).join(".config")))?;
    Some(base.join("baton"))
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File(PathBuf, usize),
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => write!(f, "${name}"),
        }
    }
}

/// A value with its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) values: Vec<String>,
    pub(crate) origin: Origin,
}

/// The files of a command, and the profile of its client.
#[derive(Debug, Default)]
pub(crate) struct Config {
    files: Vec<ConfigFile>,
    /// The profile, and what selects it.
    profile: Option<(String, String)>,
}

impl Config {
    /// Reads the files. `profile` is that of the command line.
    pub(crate) fn read(
        places: &Places,
        profile: Option<String>,
        variables: Variables<'_>,
        cli: &Command,
    ) -> Result<Self, Vec<Problem>> {
        let mut config = Self::default();
        let mut problems = Vec::new();
        for path in &places.files {
            match file::read(path, cli) {
                Ok(file) => config.files.extend(file),
                Err(found) => problems.extend(found),
            }
        }
        if variables(FILE_VARIABLE).is_some_and(|path| !path.is_empty())
            && config.files.is_empty()
            && problems.is_empty()
        {
            problems.push(Problem {
                path: places.files.first().cloned().unwrap_or_default(),
                line: None,
                message: format!("there is no such file; ${FILE_VARIABLE} names it"),
            });
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        config.profile = selected(profile, places, variables)?;
        config.check_profile()?;
        for section in Section::ALL {
            config.check_relations(section, cli)?;
        }
        Ok(config)
    }

    /// The files that were read.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| &*file.path)
    }

    /// The selected profile, and what selects it.
    pub(crate) fn profile(&self) -> Option<(&str, &str)> {
        let (name, by) = self.profile.as_ref()?;
        Some((name, by))
    }

    /// The names of all profiles.
    pub(crate) fn profiles(&self) -> Vec<&str> {
        let names = self.files.iter().flat_map(|file| file.profiles.keys());
        let mut names: Vec<&str> = names.map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The value of a key in a profile.
    pub(crate) fn profile_value(&self, name: &str, key: &str) -> Option<&str> {
        let tables = self.files.iter().rev();
        let mut tables = tables.filter_map(|file| file.profiles.get(name));
        let setting = tables.find_map(|table| table.get(key))?;
        setting.values.first().map(String::as_str)
    }

    /// The values of the files, without the environment.
    fn of_files(&self, section: Section) -> BTreeMap<String, Resolved> {
        let mut resolved = BTreeMap::new();
        let mut put = |file: &ConfigFile, table: &Table| {
            for (key, Setting { values, line }) in table {
                let origin = Origin::File(file.path.clone(), *line);
                let values = values.clone();
                resolved.insert(key.clone(), Resolved { values, origin });
            }
        };
        for file in &self.files {
            if let Some(table) = file.sections.get(&section) {
                put(file, table);
            }
        }
        if let (Section::Client, Some((name, _))) = (section, &self.profile) {
            for file in &self.files {
                if let Some(table) = file.profiles.get(name) {
                    put(file, table);
                }
            }
        }
        resolved
    }

    /// The value of each key that a file or a variable sets.
    pub(crate) fn resolve(
        &self,
        section: Section,
        variables: Variables<'_>,
        cli: &Command,
    ) -> Result<BTreeMap<String, Resolved>, Vec<Problem>> {
        let mut resolved = self.of_files(section);
        let mut problems = Vec::new();
        for option in section.options(cli) {
            let key = key(&option);
            let Some((name, value)) = section.set_variable(key, variables) else {
                continue;
            };
            let values: Vec<String> = if is_list(&option) {
                value.split(',').map(str::to_owned).collect()
            } else {
                vec![value]
            };
            // Commands judge the variables that they read.
            let judged = section.reads_variable(key);
            if let Err(message) = file::accepts(&option, &values)
                && !judged
            {
                problems.push(Problem {
                    path: format!("${name}").into(),
                    line: None,
                    message,
                });
            }
            let origin = Origin::Variable(name.into_owned());
            resolved.insert(key.to_owned(), Resolved { values, origin });
        }
        if problems.is_empty() {
            Ok(resolved)
        } else {
            Err(problems)
        }
    }

    fn check_profile(&self) -> Result<(), Vec<Problem>> {
        let Some((name, by)) = &self.profile else {
            return Ok(());
        };
        let known = self.profiles();
        if known.contains(&&**name) {
            return Ok(());
        }
        let hint = match &*known {
            [] => "no file has a table [profiles.NAME]".to_owned(),
            known => format!("there are {}", known.join(", ")),
        };
        Err(vec![Problem {
            path: by.into(),
            line: None,
            message: format!("there is no profile `{name}`; {hint}"),
        }])
    }

    /// Lets the command judge which options need or exclude each other.
    fn check_relations(&self, section: Section, cli: &Command) -> Result<(), Vec<Problem>> {
        let resolved = self.of_files(section);
        let options = section.options(cli);
        let mut words = vec!["baton".to_owned()];
        for option in &options {
            if let Some(Resolved { values, .. }) = resolved.get(key(option)) {
                words.extend(arguments(option, values));
            }
        }
        let options = options
            .into_iter()
            .map(|option| option.required(false).global(false));
        let checked = Command::new("baton")
            .args(options)
            .try_get_matches_from(words);
        checked.map(drop).map_err(|error| {
            let text = error.to_string();
            let told: Vec<&str> = text
                .lines()
                .map(str::trim)
                .take_while(|line| !line.starts_with("Usage"))
                .filter(|line| !line.is_empty())
                .collect();
            let told = told.join(" ");
            let message = format!(
                "[{}]: {}",
                section.name(),
                told.trim_start_matches("error: ")
            );
            let file = self.files.iter().rev();
            let mut file = file.filter(|file| file.sections.contains_key(&section));
            let path = file.next().map(|file| file.path.clone());
            vec![Problem {
                path: path.unwrap_or_default(),
                line: None,
                message,
            }]
        })
    }
}

/// The profile that counts, and what selects it.
fn selected(
    option: Option<String>,
    places: &Places,
    variables: Variables<'_>,
) -> Result<Option<(String, String)>, Vec<Problem>> {
    if let Some(name) = option {
        return Ok(Some((name, "--profile".to_owned())));
    }
    if let Some(name) = variables(PROFILE_VARIABLE).filter(|name| !name.is_empty()) {
        return Ok(Some((name, format!("${PROFILE_VARIABLE}"))));
    }
    let Some(file) = places.context.as_deref() else {
        return Ok(None);
    };
    match std::fs::read_to_string(file) {
        Ok(name) if name.trim().is_empty() => Ok(None),
        Ok(name) => Ok(Some((name.trim().to_owned(), file.display().to_string()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(vec![Problem {
            path: file.to_owned(),
            line: None,
            message: format!("it cannot be read: {error}"),
        }]),
    }
}

/// The words with which a command line sets an option.
pub(crate) fn arguments(option: &Arg, values: &[String]) -> Vec<String> {
    let key = key(option);
    if is_flag(option) {
        let is_set = values.first().is_some_and(|value| value == "true");
        return is_set.then(|| format!("--{key}")).into_iter().collect();
    }
    values
        .iter()
        .map(|value| format!("--{key}={value}"))
        .collect()
}
