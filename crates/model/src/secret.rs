//! Secrets: named values of an owner that tasks are given, and that appear nowhere else.
//!
//! A spec names the secrets of its task. The values travel apart from everything else, from the scheduler to the
//! worker that holds the lease of an attempt, and [`SecretValue`] has no way into a fact, a log or an answer of the
//! API: it is not serialized, and its `Debug` does not print it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits::{SECRET_BYTES_MAX, SECRET_NAME_BYTES_MAX};
use crate::time::{Millis, Wall};

/// The directory with the secrets of an attempt, as its processes find it.
pub const SECRETS_VARIABLE: &str = "BATON_SECRETS";

/// The link to that directory in the sandbox.
pub const SECRETS_LINK: &str = "secrets";

/// The name of a secret: letters, digits, `.`, `_` and `-`, and no dot first, so that it can be a file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String))]
#[serde(try_from = "String", into = "String")]
pub struct SecretName(String);

impl SecretName {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SecretName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if text.is_empty()
            || text.len() > SECRET_NAME_BYTES_MAX
            || text.starts_with('.')
            || !text.bytes().all(plain)
        {
            return Err(format!(
                "the name of a secret has 1 to {SECRET_NAME_BYTES_MAX} letters, digits, dots, dashes and underscores, \
                 and begins with no dot"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for SecretName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<SecretName> for String {
    fn from(name: SecretName) -> Self {
        name.0
    }
}

/// A secret that a task is given, and how.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecretUse {
    /// Of the owner of the task.
    pub name: SecretName,
    /// The variable of its processes that has the value.
    #[serde(default)]
    pub env: Option<String>,
    /// The name of the file with the value in the directory of secrets; that of the secret, unless there is a variable.
    #[serde(default)]
    pub file: Option<String>,
}

impl SecretUse {
    /// The file that the task finds it in; none if it is only a variable.
    #[must_use]
    pub fn file_name(&self) -> Option<&str> {
        match (&self.file, &self.env) {
            (Some(file), _) => Some(file),
            (None, None) => Some(self.name.as_str()),
            (None, Some(_)) => None,
        }
    }
}

impl fmt::Display for SecretUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)?;
        match (&self.env, &self.file) {
            (None, None) => Ok(()),
            (Some(env), None) => write!(f, " (${env})"),
            (None, Some(file)) => write!(f, " (file {file})"),
            (Some(env), Some(file)) => write!(f, " (${env}, file {file})"),
        }
    }
}

/// The value of a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Vec<u8>);

impl SecretValue {
    /// Takes a value.
    ///
    /// # Errors
    /// If it is empty or too long.
    pub fn new(bytes: Vec<u8>) -> Result<Self, String> {
        match bytes.len() {
            0 => Err("the value of a secret is not empty".to_owned()),
            length if length > SECRET_BYTES_MAX => Err(format!(
                "the value of a secret has at most {} KiB, and this one has {length} bytes; store where it is kept, and \
                 let the task fetch it",
                SECRET_BYTES_MAX >> 10
            )),
            _ => Ok(Self(bytes)),
        }
    }

    /// The value itself.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

impl Drop for SecretValue {
    /// Memory that is given back should not have it.
    fn drop(&mut self) {
        self.0.fill(0);
        std::hint::black_box(&self.0);
    }
}

/// A secret of the store, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSecret {
    pub owner: String,
    pub name: SecretName,
    /// 1 for the first value, and one more for each that has replaced it.
    pub version: u64,
    pub set_at: Wall,
    /// Who has set this value.
    pub set_by: Option<String>,
    /// When it was last sent to a worker.
    pub used_at: Option<Wall>,
    /// The key that its value is encrypted with.
    pub key: String,
}

/// A stored secret with its encrypted value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSecret {
    pub secret: StoredSecret,
    pub sealed: Vec<u8>,
}

/// A secret that is kept elsewhere, by the scheduler's file of secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretSource {
    /// Its owner; none if it is one of every owner.
    pub owner: Option<String>,
    pub name: SecretName,
    pub from: SourceKind,
}

/// Where a secret is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceKind {
    File(PathBuf),
    /// A variable of the scheduler's environment.
    Environment(String),
    /// The standard output of a program.
    Command(CommandSource),
}

impl SourceKind {
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Environment(_) => "environment",
            Self::Command(_) => "command",
        }
    }
}

/// A program that prints the value of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSource {
    /// The program and its arguments, without a shell.
    pub argv: Vec<String>,
    /// It is killed then.
    pub timeout: Millis,
    /// How long what it has printed is used again.
    pub cache: Millis,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_be_file_names() {
        for good in ["a", "db-password", "API_KEY", "tls.pem", "7"] {
            assert_eq!(good.parse::<SecretName>().expect(good).as_str(), good);
        }
        for bad in ["", ".a", "..", "a/b", "a b", "ä", "a\n", &"x".repeat(200)] {
            assert!(bad.parse::<SecretName>().is_err(), "{bad:?}");
            assert!(crate::json::from_value::<SecretName>(&bad.into()).is_err());
        }
    }

    #[test]
    fn a_secret_is_a_file_unless_it_is_only_a_variable() {
        let name: SecretName = "k".parse().expect("a name");
        let used = |env: Option<&str>, file: Option<&str>| SecretUse {
            name: name.clone(),
            env: env.map(str::to_owned),
            file: file.map(str::to_owned),
        };
        assert_eq!(used(None, None).file_name(), Some("k"));
        assert_eq!(used(Some("K"), None).file_name(), None);
        assert_eq!(used(Some("K"), Some("f")).file_name(), Some("f"));
        assert_eq!(used(None, Some("f")).file_name(), Some("f"));
    }

    #[test]
    fn a_value_is_never_printed_and_has_bounds() {
        let value = SecretValue::new(b"hunter2".to_vec()).expect("a value");
        assert_eq!(value.expose(), b"hunter2");
        assert!(!format!("{value:?}").contains("hunter2"));
        assert!(SecretValue::new(Vec::new()).is_err());
        assert!(SecretValue::new(vec![b'x'; SECRET_BYTES_MAX]).is_ok());
        let error = SecretValue::new(vec![b'x'; SECRET_BYTES_MAX + 1]).expect_err("too long");
        assert!(error.contains("64 KiB") && !error.contains("xx"), "{error}");
    }
}
