//! What this process shows to a scheduler, and whom it trusts.
//!
//! A token comes from a file or from the environment, never from the command line, which
//! everybody on the machine can read. Certificates and keys are files. Workers take theirs from
//! the command line alone: what somebody has set for commands may be for another scheduler.

use std::path::{Path, PathBuf};

use baton_model::token::Secret;
use baton_tls::{ClientFiles, Trust};
use clap::Args;

use crate::output::Failure;

/// The variable that holds a token.
pub(crate) const TOKEN_VARIABLE: &str = "BATON_TOKEN";

const CA_VARIABLE: &str = "BATON_CA";
const CERT_VARIABLE: &str = "BATON_CERT";
const KEY_VARIABLE: &str = "BATON_KEY";

/// What commands are given for the way to a scheduler.
#[derive(Debug, Default, Args)]
pub(crate) struct CredentialArgs {
    /// The file with the token to show to the scheduler [default: $BATON_TOKEN itself]
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The certificate (PEM) of the CA that has signed the scheduler's [default: $BATON_CA, or
    /// those that the system trusts]
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The certificate (PEM) to show to the scheduler [default: $BATON_CERT]
    #[arg(long, global = true, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// The key (PEM) of that certificate [default: $BATON_KEY]
    #[arg(long, global = true, value_name = "FILE")]
    key: Option<PathBuf>,
}

impl CredentialArgs {
    /// The token, if there is one.
    pub(crate) fn token(&self) -> Result<Option<Secret>, Failure> {
        token(self.token_file.as_deref())
    }

    /// The files of a client, for `https`.
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

    /// The files of a worker, if it is to use TLS.
    pub(crate) fn worker_files(&self) -> Result<Option<ClientFiles>, Failure> {
        let identity = identity(self.cert.clone(), self.key.clone())?;
        match (&self.ca, &identity) {
            (Some(ca), _) => Ok(Some(ClientFiles {
                trust: Trust::Ca(ca.clone()),
                identity,
            })),
            (None, None) => Ok(None),
            (None, Some(_)) => Err(Failure::usage(
                "a worker with a certificate has to know whom to trust; name the CA of the \
                 scheduler with --ca",
            )),
        }
    }

    /// Refuses what is not for servers, where somebody may have meant something else.
    pub(crate) fn reject_for_server(&self) -> Result<(), Failure> {
        let given = self.ca.is_some() || self.cert.is_some() || self.key.is_some();
        if !given {
            Ok(())
        } else {
            Err(Failure::usage(
                "--ca, --cert and --key are for clients and workers; a server takes --tls-cert, \
                 --tls-key and --client-ca",
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
            "a certificate needs its key; name it with --key",
        )),
        (None, Some(_)) => Err(Failure::usage(
            "a key needs its certificate; name it with --cert",
        )),
    }
}

/// The token of the file, or else of the environment; `None` if nobody gave one.
fn token(file: Option<&Path>) -> Result<Option<Secret>, Failure> {
    if let Some(file) = file {
        let shown = file.display();
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|error| {
            Failure::usage(format!("cannot read the token in {shown}: {error}"))
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

/// Without the text: it may be a secret with a slip of the pen.
fn no_token(place: &str) -> Failure {
    Failure::usage(format!(
        "{place} holds no token; it should be one line as `baton token create` has printed it, \
         and begin with {}",
        Secret::PREFIX
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_has_a_key_and_a_worker_knows_whom_it_trusts() {
        let path = |name: &str| Some(PathBuf::from(name));
        let given = |ca, cert, key| CredentialArgs {
            token_file: None,
            ca,
            cert,
            key,
        };
        let whole = given(path("ca"), path("cert"), path("key"));
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
            given(path("ca"), path("cert"), None),
            given(path("ca"), None, path("key")),
            given(None, path("cert"), path("key")),
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
