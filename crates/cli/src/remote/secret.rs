//! `baton secret`: named values that tasks are given.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use baton_client::Client;
use baton_model::api::{Secret, SecretEncoding, SetSecret};
use baton_model::limits::SECRET_BYTES_MAX;
use baton_model::secret::SecretName;
use baton_model::time::Wall;
use clap::{Args, Subcommand};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::connection::refused;
use crate::output::{CommandResult, Failure, Output, clean, note};
use crate::table::{Cell, Table};
use crate::text::count;
use crate::time::stamp;

/// Owner of a secret that is named without one.
const DEFAULT_OWNER: &str = "default";
/// A shorter value is found in words that have nothing to do with it, so it is not masked.
const MASKED_BYTES_MIN: usize = 4;

/// Store, list and remove secrets: values that tasks are given, and that appear nowhere else
///
/// A task names its secrets with `secrets:`, or `baton submit --secret NAME`, and finds each in a file below
/// $BATON_SECRETS, or in a variable. The scheduler stores them encrypted, sends them only to the worker that
/// runs the task, and masks them in its output. No command prints a value.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton secret set lab/db-password < password.txt
  baton secret set lab/tls.pem --file server.pem
  baton secret ls
  baton secret rm lab/db-password
  baton submit --owner lab --secret db-password -- ./load.sh   reads $BATON_SECRETS/db-password")]
pub(crate) struct SecretCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Set a secret, or replace its value; attempts that start later get the new one
    ///
    /// The value is read from standard input, without the end of its last line, or from a file, as it is. On a
    /// terminal it is typed without being shown.
    #[command(after_help = "\
Examples:
  baton secret set lab/db-password < password.txt
  vault kv get -field=key secret/api | baton secret set lab/api-key")]
    Set {
        /// Name of the secret; without an owner, it is one of `default`
        #[arg(value_name = "[OWNER/]NAME", value_parser = path)]
        secret: SecretPath,
        /// File with the value
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List secrets, without their values
    #[command(after_help = "Example:\n  baton secret ls --owner lab")]
    Ls {
        /// Only those that work of this owner may have
        #[arg(long)]
        owner: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a secret; attempts that start later do not get it
    #[command(after_help = "Example:\n  baton secret rm lab/db-password")]
    Rm {
        /// Name of the secret; without an owner, it is one of `default`
        #[arg(value_name = "[OWNER/]NAME", value_parser = path)]
        secret: SecretPath,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Encrypt all stored secrets with the first key of the scheduler's file of keys
    ///
    /// To replace a key: put a new one before it into the file of each scheduler, run this, and remove the old
    /// one.
    #[command(after_help = "\
Example:
  (baton secret key; cat secret.key) > new.key && mv new.key secret.key && baton secret rekey")]
    Rekey {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a new random key for a file of keys
    #[command(after_help = "Example:\n  (umask 077; baton secret key > /etc/baton/secret.key)")]
    Key,
}

/// `OWNER/NAME`.
#[derive(Clone, Debug)]
struct SecretPath {
    owner: String,
    name: String,
}

fn path(text: &str) -> Result<SecretPath, String> {
    let (owner, name) = text.split_once('/').unwrap_or((DEFAULT_OWNER, text));
    if owner.is_empty() {
        return Err("expected OWNER/NAME, such as lab/db-password".to_owned());
    }
    Ok(SecretPath {
        owner: owner.to_owned(),
        name: name.parse::<SecretName>()?.to_string(),
    })
}

pub(super) async fn run(command: &SecretCommand, client: &Client) -> CommandResult {
    let mut out = Output::new();
    match &command.action {
        Action::Set { secret, file, json } => {
            let value = read_value(file.as_deref(), secret)?;
            let length = value.len();
            let (value, encoding) = match String::from_utf8(value) {
                Ok(text) => (text, SecretEncoding::Text),
                Err(bytes) => (STANDARD.encode(bytes.as_bytes()), SecretEncoding::Base64),
            };
            let value = SetSecret { value, encoding };
            let set = client.set_secret(&secret.owner, &secret.name, &value);
            let set = set.await.map_err(refused)?;
            if *json {
                out.json(&set)?;
            } else {
                let version = set.version.unwrap_or(1);
                writeln!(
                    out,
                    "{}/{}: version {version}",
                    clean(&set.owner),
                    clean(&set.name)
                )?;
            }
            if length < MASKED_BYTES_MIN {
                note("it is too short to be masked in the output of tasks");
            }
        }
        Action::Ls { owner, json } => {
            let secrets = client.secrets(owner.as_deref()).await.map_err(refused)?;
            list(&secrets, *json, &mut out)?;
        }
        Action::Rm { secret, json } => {
            let removed = client.remove_secret(&secret.owner, &secret.name);
            let removed = removed.await.map_err(refused)?;
            if *json {
                out.json(&removed)?;
            } else {
                writeln!(
                    out,
                    "{}/{}: removed",
                    clean(&removed.owner),
                    clean(&removed.name)
                )?;
            }
        }
        Action::Rekey { json } => {
            let done = client.rekey_secrets().await.map_err(refused)?;
            if *json {
                out.json(&done)?;
            } else {
                let changed = count(done.changed, "secret", "secrets");
                writeln!(
                    out,
                    "{changed} encrypted again, with the key {}",
                    clean(&done.key)
                )?;
            }
        }
        Action::Key => {
            let key = baton_server::new_key().map_err(Failure::failed)?;
            writeln!(out, "{key}")?;
        }
    }
    out.done()
}

fn list(secrets: &[Secret], json: bool, out: &mut Output) -> CommandResult {
    if json {
        out.json(&secrets)?;
    } else if secrets.is_empty() {
        note("no secrets; set one with `baton secret set OWNER/NAME < FILE`");
    } else {
        let mut table =
            Table::headed(&["OWNER", "NAME", "KEPT IN", "VERSION", "SET", "BY", "USED"]);
        for secret in secrets {
            table.row(row(secret));
        }
        table.print(out)?;
    }
    Ok(())
}

fn row(secret: &Secret) -> [Cell; 7] {
    let at = |at: Option<u64>| at.map_or_else(String::new, |at| stamp(Wall(at)));
    [
        clean(&secret.owner).into(),
        clean(&secret.name).into(),
        clean(&secret.source).into(),
        secret
            .version
            .map_or_else(String::new, |it| it.to_string())
            .into(),
        at(secret.set_at).into(),
        clean(secret.set_by.as_deref().unwrap_or_default()).into(),
        at(secret.used_at).into(),
    ]
}

/// The value: of a file as it is, typed, or of standard input without the end of its last line.
fn read_value(file: Option<&Path>, secret: &SecretPath) -> Result<Vec<u8>, Failure> {
    let failed =
        |what: &str, error: io::Error| Failure::usage(format!("cannot read {what}: {error}"));
    let value = match file {
        Some(path) => {
            let shown = path.display().to_string();
            let file = File::open(path).map_err(|error| failed(&shown, error))?;
            bounded(file).map_err(|error| failed(&shown, error))?
        }
        None => {
            let what = "the value from standard input";
            let mut value = if io::stdin().is_terminal() {
                typed(secret).map_err(|error| failed(what, error))?
            } else {
                bounded(io::stdin().lock()).map_err(|error| failed(what, error))?
            };
            for end in [b'\n', b'\r'] {
                if value.last() == Some(&end) {
                    value.pop();
                }
            }
            value
        }
    };
    if value.is_empty() {
        return Err(Failure::usage(
            "the value is empty; write it to standard input, or use --file",
        ));
    }
    if value.len() > SECRET_BYTES_MAX {
        return Err(Failure::usage(format!(
            "the value has more than {} KiB; store where it is kept, and let the task fetch it",
            SECRET_BYTES_MAX >> 10
        )));
    }
    Ok(value)
}

fn bounded(input: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // More than may be, to tell.
    input
        .take(SECRET_BYTES_MAX as u64 + 3)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// One line of the terminal, which does not show it.
fn typed(secret: &SecretPath) -> io::Result<Vec<u8>> {
    let stdin = io::stdin();
    let before = tcgetattr(&stdin)?;
    let mut hidden = before.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    eprint!("value of {}/{}: ", secret.owner, secret.name);
    tcsetattr(&stdin, OptionalActions::Now, &hidden)?;
    let mut line = String::new();
    let read = stdin.read_line(&mut line);
    tcsetattr(&stdin, OptionalActions::Now, &before)?;
    eprintln!();
    read.map(|_| line.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_an_owner_and_a_name() {
        let parts = |text| path(text).map(|it| (it.owner, it.name));
        let pair = |owner: &str, name: &str| Ok((owner.to_owned(), name.to_owned()));
        assert_eq!(parts("lab/db"), pair("lab", "db"));
        assert_eq!(parts("db"), pair("default", "db"));
        for bad in ["", "/db", "lab/", "lab/a/b", "lab/a b", "lab/.a"] {
            assert!(path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_is_the_value_as_it_is_and_has_bounds() {
        let dir = tempfile::tempdir().expect("a directory");
        let secret = path("db").expect("a secret");
        let file = dir.path().join("v");
        let read = |bytes: &[u8]| {
            std::fs::write(&file, bytes).expect("written");
            read_value(Some(&file), &secret)
        };
        assert_eq!(read(b"key\n").expect("a value"), b"key\n");
        assert!(read(b"").is_err());
        assert!(read(&vec![b'x'; SECRET_BYTES_MAX]).is_ok());
        assert!(read(&vec![b'x'; SECRET_BYTES_MAX + 1]).is_err());
        assert!(read_value(Some(Path::new("/nonexistent")), &secret).is_err());
    }
}
