//! Credentials of clients and workers: token, CA, certificate and key.
//!
//! A token comes from a file or from the environment, never from the command line, which every
//! user of the machine can read. Certificates and keys are files. Workers take TLS files from the
//! command line only: the environment variables are set for client commands, and may be meant for
//! another scheduler.

use std::path::{Path, PathBuf};

use baton_model::token::Secret;
pub(crate) use baton_terminal::variables::TOKEN as TOKEN_VARIABLE;
use baton_tls::{ClientFiles, Trust};
use clap::Args;

use crate::help::{CONNECTION, LAST};
use crate::output::Failure;

/// Environment variable that names a file with a token.
const TOKEN_FILE_VARIABLE: &str = "BATON_TOKEN_FILE";

const CA_VARIABLE: &str = "BATON_CA";
const CERT_VARIABLE: &str = "BATON_CERT";
const KEY_VARIABLE: &str = "BATON_KEY";

/// Options of a connection to a scheduler.
#[derive(Debug, Default, Args)]
pub(crate) struct CredentialArgs {
    /// File with the token to authenticate with [default: the token in $BATON_TOKEN, or the file
    /// that $BATON_TOKEN_FILE names]
    #[arg(long, global = true, value_name = "FILE", help_heading = CONNECTION, display_order = LAST)]
    token_file: Option<PathBuf>,
    /// CA certificate (PEM) to verify the scheduler's certificate with [default: $BATON_CA, or the
    /// system's trust store]
    #[arg(long, global = true, value_name = "FILE", help_heading = CONNECTION, display_order = LAST)]
    ca: Option<PathBuf>,
    /// Client certificate (PEM) for mutual TLS [default: $BATON_CERT]
    #[arg(long, global = true, value_name = "FILE", help_heading = CONNECTION, display_order = LAST)]
    cert: Option<PathBuf>,
    /// Private key (PEM) of the client certificate [default: $BATON_KEY]
    #[arg(long, global = true, value_name = "FILE", help_heading = CONNECTION, display_order = LAST)]
    key: Option<PathBuf>,
}

impl CredentialArgs {
    /// Returns the token, if one is configured.
    pub(crate) fn token(&self) -> Result<Option<Secret>, Failure> {
        token(self.token_file.as_deref())
    }

    /// The file that the token is from, unless the environment has it.
    pub(crate) fn used_token_file(&self) -> Option<PathBuf> {
        used_file(self.token_file.as_deref())
    }

    /// Returns the TLS files of a client, for `https` URLs.
    pub(crate) fn client_files(&self) -> Result<ClientFiles, Failure> {
        let or = |flag: &Option<PathBuf>, variable| {
            let set = || std::env::var_os(variable).filter(|text| !text.is_empty());
            flag.clone().or_else(|| set().map(PathBuf::from))
        };
        Ok(ClientFiles {
            trust: or(&self.ca, CA_VARIABLE).map_or(Trust::System, Trust::Ca),
            identity: identity(or(&self.cert, CERT_VARIABLE), or(&self.key, KEY_VARIABLE))?,
        })
    }

    /// Returns the TLS files of a worker; `None` without TLS.
    pub(crate) fn worker_files(&self) -> Result<Option<ClientFiles>, Failure> {
        let identity = identity(self.cert.clone(), self.key.clone())?;
        match (&self.ca, &identity) {
            (Some(ca), _) => Ok(Some(ClientFiles {
                trust: Trust::Ca(ca.clone()),
                identity,
            })),
            (None, None) => Ok(None),
            (None, Some(_)) => Err(Failure::usage(
                "--cert and --key of a worker need a CA to verify the scheduler with; add --ca FILE",
            )),
        }
    }

    /// The CA of workers on other hosts. A certificate of this host is none of theirs.
    pub(crate) fn ca_alone(&self) -> Result<Option<&Path>, Failure> {
        if self.cert.is_some() || self.key.is_some() {
            return Err(Failure::usage(
                "each host has its own certificate and key: put them there, and pass their paths to the workers, \
                 after `--`",
            ));
        }
        Ok(self.ca.as_deref())
    }

    /// Refuses client options on a server command, where the server's TLS options were meant.
    pub(crate) fn reject_for_server(&self) -> Result<(), Failure> {
        let is_set = self.ca.is_some() || self.cert.is_some() || self.key.is_some();
        if !is_set {
            Ok(())
        } else {
            Err(Failure::usage(
                "--ca, --cert and --key are options of clients and workers; for a server use \
                 --tls-cert, --tls-key and --client-ca",
            ))
        }
    }
}

fn identity(
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
) -> Result<Option<(PathBuf, PathBuf)>, Failure> {
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some((cert, key))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(Failure::usage(
            "a certificate needs its private key; add --key FILE",
        )),
        (None, Some(_)) => Err(Failure::usage(
            "a private key needs its certificate; add --cert FILE",
        )),
    }
}

/// The file to read the token from, if there is one: that of the option, or that of the environment, unless it has a
/// token itself.
fn used_file(file: Option<&Path>) -> Option<PathBuf> {
    let has_token = std::env::var_os(TOKEN_VARIABLE).is_some_and(|text| !text.is_empty());
    let named = std::env::var_os(TOKEN_FILE_VARIABLE);
    let named = named.filter(|name| !has_token && !name.is_empty());
    file.map(Path::to_owned)
        .or_else(|| named.map(PathBuf::from))
}

/// Reads the token from the file, or else from the environment, or from the file that it names;
/// `None` if none is set.
fn token(file: Option<&Path>) -> Result<Option<Secret>, Failure> {
    if let Some(file) = &used_file(file) {
        let shown = file.display();
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|error| {
            Failure::usage(format!("cannot read the token file {shown}: {error}"))
        })?;
        return secret(&text, &shown.to_string()).map(Some);
    }
    match std::env::var(TOKEN_VARIABLE) {
        Ok(text) if !text.is_empty() => secret(&text, TOKEN_VARIABLE).map(Some),
        Ok(_) | Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(no_token(TOKEN_VARIABLE)),
    }
}

fn secret(text: &str, place: &str) -> Result<Secret, Failure> {
    Secret::parse(text.trim()).ok_or_else(|| no_token(place))
}

/// The message does not quote the text: it may be a mistyped secret.
fn no_token(place: &str) -> Failure {
    Failure::usage(format!(
        "{place} holds no valid token; expected one line as printed by `baton token create`, \
         starting with {}",
        Secret::PREFIX
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_has_a_key_and_a_worker_knows_whom_it_trusts() {
        let path = |name: &str| Some(PathBuf::from(name));
        let args = |ca, cert, key| CredentialArgs {
            token_file: None,
            ca,
            cert,
            key,
        };
        let whole = args(path("ca"), path("cert"), path("key"));
        let wanted = ClientFiles {
            trust: Trust::Ca("ca".into()),
            identity: Some(("cert".into(), "key".into())),
        };
        assert!(matches!(whole.worker_files(), Ok(Some(files)) if files == wanted));
        assert!(matches!(whole.client_files(), Ok(files) if files == wanted));
        assert!(whole.reject_for_server().is_err());
        let none = CredentialArgs::default();
        assert!(matches!(none.worker_files(), Ok(None)));
        assert!(none.reject_for_server().is_ok());
        for half in [
            args(path("ca"), path("cert"), None),
            args(path("ca"), None, path("key")),
            args(None, path("cert"), path("key")),
        ] {
            assert!(half.worker_files().is_err(), "{half:?}");
        }
    }

    #[test]
    fn a_file_holds_one_token_and_what_it_holds_instead_is_not_printed() {
        let dir = tempfile::tempdir().expect("a place");
        let path = dir.path().join("token");
        let good = Secret::from_bits([7; 32]);
        std::fs::write(&path, format!("{}\n", good.expose())).expect("written");
        assert!(matches!(token(Some(&path)), Ok(Some(read)) if read == good));
        std::fs::write(&path, "baton_slip").expect("written");
        let Err(Failure::Message(2, text)) = token(Some(&path)) else {
            panic!("it must be wrong usage");
        };
        assert!(!text.contains("slip"), "{text}");
        assert!(token(Some(&dir.path().join("none"))).is_err());
    }
}
