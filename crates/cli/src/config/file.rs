//! One configuration file, checked against the options of the commands.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use baton_files::nearest;
use baton_fs::regular;
use clap::{Arg, Command};
use serde::Serialize;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::keys::{Section, is_flag, is_list, key};

/// The table of profiles.
const PROFILES: &str = "profiles";

/// The bytes that a file may have: more is no configuration.
const BYTES_MAX: u64 = 1 << 20;

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// `true` or `false` of a flag, otherwise the values of the option.
    pub(crate) values: Vec<String>,
    pub(crate) line: usize,
}

/// The keys of a table.
pub(crate) type Table = BTreeMap<String, Setting>;

/// A configuration file.
#[derive(Debug, Default)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    pub(crate) sections: BTreeMap<Section, Table>,
    /// Clients by name.
    pub(crate) profiles: BTreeMap<String, Table>,
}

/// An error of a file, with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    #[serde(rename = "file")]
    pub(crate) path: PathBuf,
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.message)
    }
}

/// Reads a file; `None` if there is none.
pub(crate) fn read(path: &Path, cli: &Command) -> Result<Option<ConfigFile>, Vec<Problem>> {
    let problem = |message| {
        vec![Problem {
            path: path.to_owned(),
            line: None,
            message,
        }]
    };
    let unreadable = |error| problem(format!("it cannot be read: {error}"));
    let file = match regular::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(unreadable)?,
    };
    let mut text = String::new();
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(unreadable)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(problem(format!("it has more than {BYTES_MAX} bytes")));
    }
    parse(path, &text, cli).map(Some)
}

/// Reads the text of a file.
pub(crate) fn parse(path: &Path, text: &str, cli: &Command) -> Result<ConfigFile, Vec<Problem>> {
    let mut reader = Reader {
        path,
        text,
        cli,
        problems: Vec::new(),
    };
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let start = error.span().map_or(0, |span| span.start);
        reader.report(start, error.message().to_owned());
    }
    let file = reader.file(root.get_ref());
    if reader.problems.is_empty() {
        Ok(file)
    } else {
        Err(reader.problems)
    }
}

/// Reads a file, and collects its problems.
struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    cli: &'a Command,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn line(&self, offset: usize) -> usize {
        let before = self.text.as_bytes().iter().take(offset);
        before.filter(|byte| **byte == b'\n').count() + 1
    }

    fn report(&mut self, offset: usize, message: String) {
        self.problems.push(Problem {
            path: self.path.to_owned(),
            line: Some(self.line(offset)),
            message,
        });
    }

    fn file(&mut self, root: &DeTable<'_>) -> ConfigFile {
        let mut file = ConfigFile {
            path: self.path.to_owned(),
            ..ConfigFile::default()
        };
        for (name, value) in root {
            let start = name.span().start;
            let name = name.get_ref();
            let section = Section::ALL.into_iter().find(|it| it.name() == name);
            let DeValue::Table(table) = value.get_ref() else {
                let hint = match section {
                    Some(_) => format!("write it as [{name}]"),
                    None => "keys are in [scheduler], [worker] or [client]".to_owned(),
                };
                self.report(start, format!("`{name}` is no table; {hint}"));
                continue;
            };
            if let Some(section) = section {
                let table = self.table(section, section.name(), table);
                file.sections.insert(section, table);
            } else if name == PROFILES {
                file.profiles = self.profiles(table);
            } else {
                let known = Section::ALL.map(Section::name).into_iter();
                let hint = suggestion(name, known.chain([PROFILES]));
                self.report(start, format!("unknown table [{name}]{hint}"));
            }
        }
        file
    }

    fn profiles(&mut self, raw: &DeTable<'_>) -> BTreeMap<String, Table> {
        let mut profiles = BTreeMap::new();
        for (name, value) in raw {
            let start = name.span().start;
            let name = name.get_ref().to_string();
            let DeValue::Table(table) = value.get_ref() else {
                self.report(
                    start,
                    format!("`{name}` is no profile; write it as [profiles.{name}]"),
                );
                continue;
            };
            let table = self.table(Section::Client, &format!("profiles.{name}"), table);
            profiles.insert(name, table);
        }
        profiles
    }

    fn table(&mut self, section: Section, shown: &str, raw: &DeTable<'_>) -> Table {
        let options = section.options(self.cli);
        let mut table = Table::new();
        for (name, value) in raw {
            let start = name.span().start;
            let spelled = name.get_ref().replace('_', "-");
            let Some(option) = options.iter().find(|option| key(option) == spelled) else {
                let hint = suggestion(&spelled, options.iter().map(key));
                let name = name.get_ref();
                self.report(start, format!("unknown key `{name}` in [{shown}]{hint}"));
                continue;
            };
            let setting = values(option, value).and_then(|values| {
                accepts(option, &values)?;
                let line = self.line(start);
                Ok(Setting { values, line })
            });
            match setting {
                Ok(setting) => {
                    if table.insert(spelled.clone(), setting).is_some() {
                        let text = format!("`{spelled}` is in [{shown}] twice, with - and with _");
                        self.report(start, text);
                    }
                }
                Err(reason) => self.report(start, format!("`{spelled}` in [{shown}]: {reason}")),
            }
        }
        table
    }
}

/// `; did you mean …?`, or the list of what there is.
fn suggestion<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match nearest(word, known.clone()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!("; known are {}", known.collect::<Vec<_>>().join(", ")),
    }
}

/// The values of an option as its flag would have them.
fn values(option: &Arg, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, String> {
    match value.get_ref() {
        DeValue::Boolean(value) if is_flag(option) => return Ok(vec![value.to_string()]),
        _ if is_flag(option) => return Err("expected true or false".to_owned()),
        _ => {}
    }
    let values = match value.get_ref() {
        DeValue::Array(items) => items
            .iter()
            .map(|item| scalar(item.get_ref()))
            .collect::<Result<_, _>>()?,
        DeValue::Table(entries) => entries
            .iter()
            .map(|(name, value)| Ok(format!("{}={}", name.get_ref(), scalar(value.get_ref())?)))
            .collect::<Result<_, String>>()?,
        value => vec![scalar(value)?],
    };
    if is_list(option) {
        Ok(values)
    } else {
        Ok(vec![values.join(",")])
    }
}

fn scalar(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(decimal(number)),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
            Err("expected text or a number".to_owned())
        }
    }
}

fn decimal(value: &DeInteger<'_>) -> String {
    let number = i128::from_str_radix(value.as_str(), value.radix());
    number.map_or_else(|_| value.as_str().to_owned(), |number| number.to_string())
}

/// Lets the option itself judge the values.
pub(crate) fn accepts(option: &Arg, values: &[String]) -> Result<(), String> {
    if is_flag(option) {
        return match values {
            [value] if value == "true" || value == "false" => Ok(()),
            _ => Err("expected true or false".to_owned()),
        };
    }
    let words = values
        .iter()
        .map(|value| format!("--{}={value}", key(option)));
    let words = std::iter::once("baton".to_owned()).chain(words);
    let parsed = Command::new("baton")
        .arg(alone(option))
        .try_get_matches_from(words);
    parsed.map(drop).map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        line.trim_start_matches("error: ").to_owned()
    })
}

/// The option without what it requires of others, which are not there.
fn alone(option: &Arg) -> Arg {
    let mut alone = Arg::new(option.get_id().clone())
        .action(option.get_action().clone())
        .value_parser(option.get_value_parser().clone())
        .long(key(option).to_owned());
    if let Some(names) = option.get_value_names() {
        alone = alone.value_names(names.to_vec());
    }
    alone
}
