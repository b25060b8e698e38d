//! Authentication of workers, at the start and for the whole connection.
//!
//! A certificate with the worker role is sufficient. Any other worker sends a token; where
//! certificates are required, in addition to a certificate, except for the worker of this process.
//! The credentials must stay valid for as long as the worker is connected.

use std::sync::Arc;

use baton_model::principal::NameOwner;
use baton_model::token::{Role, Secret};
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::{Input, Reader};
use crate::access::{Access, CERTIFICATE_WITHOUT_ROLE, Certificate, Identity};
use crate::clock;
use crate::limits::{PREAMBLE_WAIT, READ_BYTES};

/// Decides whether a worker is authorized.
pub(super) struct Authenticator {
    pub(super) access: Access,
    /// Whether a worker must have a certificate, in addition to anything else.
    pub(super) requires_certificate: bool,
}

/// The credentials of a worker, which must stay valid.
pub(super) struct Credential {
    certificate: Option<Certificate>,
    secret: Option<Secret>,
    /// The owner of the names that the worker uses.
    pub(super) owner: NameOwner,
}

/// Authenticates a worker by certificate or token; frames after the token stay in `input`.
pub(super) async fn authenticate(
    reader: &mut Reader,
    input: &mut Input,
    certificate: Option<Certificate>,
    authenticator: &Authenticator,
) -> Result<Credential, String> {
    const NO_TOKEN: &str = "it sends no token; pass one with --token-file or BATON_TOKEN, created \
                            by `baton token create --role worker`";
    const NO_CERTIFICATE: &str = "it sends no certificate; pass one with --cert and --key, \
                                  signed by the CA of the scheduler's --client-ca";
    let now = clock::now().wall;
    let missing = match &certificate {
        Some(shown) => match shown.role(now)? {
            Some(role) if role.covers(Role::Worker) => {
                let owner = NameOwner::Client(Arc::new(shown.principal()));
                return Ok(Credential {
                    certificate,
                    secret: None,
                    owner,
                });
            }
            Some(role) => wrong_role("certificate", role),
            None => CERTIFICATE_WITHOUT_ROLE.to_owned(),
        },
        None if authenticator.requires_certificate => NO_CERTIFICATE.to_owned(),
        None => NO_TOKEN.to_owned(),
    };
    let read_token = timeout(PREAMBLE_WAIT, read_token(reader, input)).await;
    let secret = match read_token {
        Ok(Ok(Some(secret))) => secret,
        Ok(Err(reason)) => return Err(reason),
        Ok(Ok(None)) | Err(_) => return Err(missing),
    };
    let caller = authenticator.access.caller(&secret, now);
    // The worker of this process needs only its token.
    let own = matches!(&caller, Ok(caller) if caller.identity == Identity::LocalWorker);
    if authenticator.requires_certificate && certificate.is_none() && !own {
        return Err(missing);
    }
    let caller = caller.map_err(|denied| denied.to_string())?;
    if caller.role.covers(Role::Worker) {
        let owner = match (&caller.identity, caller.principal()) {
            // Any of them: they are renewed while the pilots run.
            (Identity::Pilot(_, fleet), _) => NameOwner::Fleet(fleet.clone()),
            (_, Some(principal)) => NameOwner::Client(principal),
            (_, None) => NameOwner::LocalWorker,
        };
        Ok(Credential {
            certificate,
            secret: Some(secret),
            owner,
        })
    } else {
        Err(wrong_role("token", caller.role))
    }
}

fn wrong_role(what: &str, role: Role) -> String {
    format!("its {what} has the role {role}; a worker needs the role worker")
}

/// Reads the leading token of a worker, if it sends one.
async fn read_token(reader: &mut Reader, input: &mut Input) -> Result<Option<Secret>, String> {
    loop {
        if let Some(secret) = input.take_token().map_err(|error| error.to_string())? {
            return Ok(secret);
        }
        input.bytes.reserve(READ_BYTES);
        match reader.read_buf(&mut input.bytes).await {
            Ok(0) => return Err("it closed the connection".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Resolves when the credentials are no longer valid.
pub(super) async fn until_invalid(credential: Option<(&Authenticator, Credential)>) -> String {
    let Some((authenticator, credential)) = credential else {
        return std::future::pending().await;
    };
    let token = async {
        match &credential.secret {
            Some(secret) => authenticator.access.until_invalid(secret).await.to_string(),
            None => std::future::pending().await,
        }
    };
    let certificate = async {
        match &credential.certificate {
            Some(certificate) => certificate.until_invalid().await.to_owned(),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        reason = token => reason,
        reason = certificate => reason,
    }
}
