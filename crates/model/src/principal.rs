//! Principals: who has made a request, as far as the server knows it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::fleet::FleetName;
use crate::ids::TokenId;

/// The client that has made a request. The history records it with its name: a token may be revoked later, and
/// certificates are in no store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Principal {
    /// The token that it presented.
    Token { id: TokenId, name: String },
    /// The common name of its certificate.
    Certificate { name: String },
    /// It presented the secret of the entry that it triggered.
    TriggerSecret,
    /// It was not authenticated. The name is the user that it claims to be.
    Unauthenticated { name: String },
}

impl Principal {
    /// The name of the token, the certificate or the user.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Token { name, .. }
            | Self::Certificate { name }
            | Self::Unauthenticated { name } => Some(name),
            Self::TriggerSecret => None,
        }
    }
}

/// The name, with how far it is proven: the names of tokens, certificates and users are chosen by different people.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token { id, name } => write!(f, "{name} (token {id})"),
            Self::Certificate { name } => write!(f, "{name} (certificate)"),
            Self::TriggerSecret => f.write_str("a client with its secret"),
            Self::Unauthenticated { name } => write!(f, "{name} (not authenticated)"),
        }
    }
}

/// The credential to which the name of a worker belongs: the first that has used it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NameOwner {
    /// A token or a certificate.
    Client(Arc<Principal>),
    /// Any token of this fleet: they are renewed, and only its own pilots have them.
    Fleet(FleetName),
    /// The token of the worker in the process of the scheduler, which is in no store.
    LocalWorker,
}

impl fmt::Display for NameOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(principal) => principal.fmt(f),
            Self::Fleet(fleet) => write!(f, "fleet {fleet}"),
            Self::LocalWorker => f.write_str("the worker of the scheduler itself"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_of_different_credentials_are_told_apart() {
        let name = || "ann".to_owned();
        let id = TokenId(3);
        let all = [
            Principal::Token { id, name: name() },
            Principal::Certificate { name: name() },
            Principal::Unauthenticated { name: name() },
        ];
        let texts = all.map(|it| it.to_string());
        let expected = [
            "ann (token t3)",
            "ann (certificate)",
            "ann (not authenticated)",
        ];
        assert_eq!(texts, expected);
    }
}
