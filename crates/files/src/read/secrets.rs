//! The secrets that a task is given: their names, never their values.

use baton_model::limits::SECRETS_PER_TASK_MAX;
use std::path::PathBuf;

use baton_model::secret::{CommandSource, SecretName, SecretSource, SecretUse, SourceKind};
use baton_model::time::Millis;

use super::{Fields, Item, Reader};
use crate::error::{Kind, Problem, quote};
use crate::schema::secrets::{SECRET_SOURCE, SECRETS};
use crate::schema::task::SECRET;
use crate::tree::{Tree, Value};

const COMMAND_HINT: &str = "write a list, such as [vault, kv, get, -field=password, secret/db]";

const NAME_HINT: &str =
    "write the name of a secret, such as db-password; `baton secret set` stores its value";

/// Reads and checks a file of secrets that are kept elsewhere.
pub(crate) fn sources(root: &Tree) -> Result<Vec<SecretSource>, Vec<Problem>> {
    let mut reader = Reader::default();
    match reader.sources(&Item::root(root)) {
        Some(sources) if reader.problems.is_empty() => Ok(sources),
        _ => Err(reader.problems),
    }
}

impl Reader {
    pub(super) fn secrets(&mut self, item: &Item<'_>) -> Vec<SecretUse> {
        let hint = "write a list, such as [db-password, { name: api-key, env: API_KEY }]";
        let items = self.list(item, hint);
        if items.len() > SECRETS_PER_TASK_MAX {
            let message = format!(
                "{} secrets are listed, at most {SECRETS_PER_TASK_MAX} are allowed",
                items.len()
            );
            self.note(item, Kind::TooLarge, message, "put several into one value");
            return Vec::new();
        }
        let mut used: Vec<SecretUse> = Vec::with_capacity(items.len());
        for item in &items {
            let Some(new) = self.secret(item) else {
                continue;
            };
            let same_file = used.iter().any(|other| {
                other
                    .file_name()
                    .is_some_and(|it| Some(it) == new.file_name())
            });
            let same_variable = new.env.is_some() && used.iter().any(|other| other.env == new.env);
            if same_file || same_variable {
                let what = if same_file { "file" } else { "variable" };
                let message = format!("another secret has the same {what}");
                let hint = format!("name it: {{ name: {}, file: FILE }}", new.name);
                self.note(item, Kind::DuplicateName, message, hint);
                continue;
            }
            used.push(new);
        }
        used
    }

    /// Reads a name, or a map with one.
    fn secret(&mut self, item: &Item<'_>) -> Option<SecretUse> {
        if !matches!(item.tree.value, Value::Map(_)) {
            return Some(SecretUse {
                name: self.secret_name(item)?,
                env: None,
                file: None,
            });
        }
        let fields = self.fields(item, &SECRET, |key| {
            (key == "value").then(|| {
                "a file never has the value: store it by `baton secret set`, and name it here"
                    .to_owned()
            })
        })?;
        let Some(name) = fields.get("name") else {
            self.missing(&fields, "name", NAME_HINT);
            return None;
        };
        let name = self.secret_name(&name);
        let env = match fields.get("env") {
            Some(item) => Some(self.secret_variable(&item)?),
            None => None,
        };
        let file = match fields.get("file") {
            Some(item) => Some(self.file_name(&item)?),
            None => None,
        };
        Some(SecretUse {
            name: name?,
            env,
            file,
        })
    }

    fn sources(&mut self, item: &Item<'_>) -> Option<Vec<SecretSource>> {
        let fields = self.fields(item, &SECRETS, |_| None)?;
        let hint = "write a list of secrets, such as [{ name: db, file: /etc/baton/db }]";
        let Some(item) = fields.get("secrets") else {
            self.missing(&fields, "secrets", hint);
            return None;
        };
        let mut sources: Vec<SecretSource> = Vec::new();
        for item in self.list(&item, hint) {
            let Some(source) = self.source(&item) else {
                continue;
            };
            let same = |it: &SecretSource| (&it.owner, &it.name) == (&source.owner, &source.name);
            if sources.iter().any(same) {
                let message = format!("the secret {} is named twice", source.name);
                self.note(&item, Kind::DuplicateName, message, "remove one of them");
                continue;
            }
            sources.push(source);
        }
        // Of two that fit, that of the owner counts.
        sources.sort_by_key(|it| it.owner.is_none());
        Some(sources)
    }

    fn source(&mut self, item: &Item<'_>) -> Option<SecretSource> {
        let fields = self.fields(item, &SECRET_SOURCE, |key| {
            (key == "value").then(|| {
                "a file never has the value: write `file: PATH`, or store it by `baton secret set`"
                    .to_owned()
            })
        })?;
        let Some(name) = fields.get("name") else {
            self.missing(&fields, "name", NAME_HINT);
            return None;
        };
        let name = self.secret_name(&name);
        let owner = match fields.get("owner") {
            Some(item) => Some(self.name(&item)?),
            None => None,
        };
        let from = self.source_kind(&fields)?;
        Some(SecretSource {
            owner,
            name: name?,
            from,
        })
    }

    fn source_kind(&mut self, fields: &Fields<'_>) -> Option<SourceKind> {
        let kinds = ["file", "environment", "command"];
        let mut given = kinds.into_iter().filter(|kind| fields.has(kind));
        let (first, second) = (given.next(), given.next());
        if let Some(second) = second {
            let message = "a secret has one source".to_owned();
            let problem = fields.key_problem(second, Kind::Conflict, message, "remove one of them");
            self.problems.push(problem);
            return None;
        }
        match first.and_then(|kind| Some((kind, fields.get(kind)?))) {
            Some(("file", item)) => {
                let hint = "write an absolute path, such as /etc/baton/db-password";
                let text = self.text(&item, hint)?;
                if !text.starts_with('/') {
                    let message = format!("{} is no absolute path", quote(text));
                    self.note(&item, Kind::BadValue, message, hint);
                    return None;
                }
                Some(SourceKind::File(PathBuf::from(text)))
            }
            Some(("environment", item)) => {
                let text = self.text(&item, "write the name of a variable, such as VAULT_TOKEN")?;
                Some(SourceKind::Environment(text.to_owned()))
            }
            Some((_, item)) => {
                let words = self.list(&item, COMMAND_HINT);
                let words = words.iter().map(|word| self.text(word, COMMAND_HINT));
                let argv: Vec<String> = words
                    .map(|it| it.map(str::to_owned))
                    .collect::<Option<_>>()?;
                if argv.is_empty() {
                    let message = "the command is empty".to_owned();
                    self.note(&item, Kind::BadValue, message, COMMAND_HINT);
                    return None;
                }
                Some(SourceKind::Command(CommandSource {
                    argv,
                    timeout: self.duration_field(fields, "timeout").unwrap_or(Millis(0)),
                    cache: self.duration_field(fields, "cache").unwrap_or(Millis(0)),
                }))
            }
            None => {
                self.missing(fields, "file", "write one of file, environment and command");
                None
            }
        }
    }

    fn secret_name(&mut self, item: &Item<'_>) -> Option<SecretName> {
        let text = self.text(item, NAME_HINT)?;
        match text.parse() {
            Ok(name) => Some(name),
            Err(reason) => {
                let message = format!("{} is no name of a secret: {reason}", quote(text));
                self.note(item, Kind::BadName, message, NAME_HINT);
                None
            }
        }
    }

    fn secret_variable(&mut self, item: &Item<'_>) -> Option<String> {
        const HINT: &str = "write the name of a variable, such as API_KEY";
        let text = self.text(item, HINT)?;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let own = text.starts_with("BATON_");
        if text.is_empty()
            || text.starts_with(|c: char| c.is_ascii_digit())
            || !text.bytes().all(fits)
            || own
        {
            let reason = if own {
                "belongs to Baton"
            } else {
                "is not a valid variable name"
            };
            self.note(
                item,
                Kind::BadName,
                format!("{} {reason}", quote(text)),
                HINT,
            );
            return None;
        }
        Some(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, parse_bytes};

    fn secrets(text: &str) -> Result<Vec<SecretUse>, String> {
        let text = format!("task: t\nrun: x\nsecrets: {text}");
        let file = parse_bytes(text.as_bytes(), Format::Yaml, "t.yaml");
        Ok(file.map_err(|it| it.to_string())?.policy.secrets)
    }

    #[test]
    fn secrets_are_names_or_maps() {
        let used = secrets("[a, { name: b, env: B }, { name: c, file: c.pem }]").expect("valid");
        let shown: Vec<_> = used
            .iter()
            .map(|it| (it.name.as_str(), it.env.as_deref(), it.file_name()))
            .collect();
        assert_eq!(
            shown,
            [
                ("a", None, Some("a")),
                ("b", Some("B"), None),
                ("c", None, Some("c.pem"))
            ]
        );
    }

    #[test]
    fn wrong_secrets_are_refused_with_a_hint() {
        for (text, message) in [
            ("a", "expected a list"),
            ("[\"a b\"]", "no name of a secret"),
            ("[{ env: A }]", "the field `name` is missing"),
            ("[{ name: a, value: hunter2 }]", "baton secret set"),
            ("[{ name: a, env: \"A B\" }]", "not a valid variable name"),
            ("[{ name: a, env: BATON_X }]", "belongs to Baton"),
            ("[{ name: a, file: ../x }]", "not a plain file name"),
            ("[a, { name: b, file: a }]", "has the same file"),
            (
                "[{ name: a, env: A }, { name: b, env: A }]",
                "has the same variable",
            ),
        ] {
            let error = secrets(text).expect_err(text);
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    fn sources_of(text: &str) -> Result<Vec<SecretSource>, String> {
        crate::parse_secret_sources(text, Format::Yaml, "s.yaml").map_err(|it| it.to_string())
    }

    #[test]
    fn sources_are_files_variables_and_programs() {
        let text = "secrets:\n- { name: a, file: /a }\n- { name: a, owner: lab, environment: A }\n\
                    - { name: b, command: [vault, get], cache: 5m }";
        let sources = sources_of(text).expect("valid");
        let first = &sources[0];
        assert_eq!(
            first.owner.as_deref(),
            Some("lab"),
            "that of an owner goes first"
        );
        assert_eq!(first.from, SourceKind::Environment("A".to_owned()));
        assert_eq!(sources[1].from, SourceKind::File("/a".into()));
        let SourceKind::Command(command) = &sources[2].from else {
            panic!("{:?}", sources[2]);
        };
        assert_eq!(command.argv, ["vault", "get"]);
        let (timeout, cache) = (Millis::from_secs(10), Millis::from_secs(300));
        assert_eq!((command.timeout, command.cache), (timeout, cache));
    }

    #[test]
    fn wrong_sources_are_refused_with_a_hint() {
        for (text, message) in [
            ("{}", "the field `secrets` is missing"),
            (
                "secrets: [{ name: a }]",
                "one of file, environment and command",
            ),
            ("secrets: [{ file: /a }]", "the field `name` is missing"),
            ("secrets: [{ name: a, file: a }]", "no absolute path"),
            (
                "secrets: [{ name: a, file: /a, environment: A }]",
                "one source",
            ),
            (
                "secrets: [{ name: a, command: [] }]",
                "the command is empty",
            ),
            ("secrets: [{ name: a, value: x }]", "baton secret set"),
            (
                "secrets: [{ name: a, file: /a }, { name: a, file: /b }]",
                "named twice",
            ),
        ] {
            let error = sources_of(text).expect_err(text);
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
