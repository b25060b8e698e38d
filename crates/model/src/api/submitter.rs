//! The client of a request.

use serde::{Deserialize, Serialize};

use crate::principal::Principal;

/// The client that has submitted, triggered or asked for something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Submitter {
    /// What is known about it.
    pub kind: SubmitterKind,
    /// Name of its token or certificate, or of its user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Id of its token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The same as text.
    pub text: String,
}

/// How a submitter was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SubmitterKind {
    /// By a token.
    Token,
    /// By a certificate.
    Certificate,
    /// By the secret of the entry that it triggered.
    TriggerSecret,
    /// Not at all: the name is what the client says.
    Unauthenticated,
}

impl From<&Principal> for Submitter {
    fn from(principal: &Principal) -> Self {
        let (kind, token) = match principal {
            Principal::Token { id, .. } => (SubmitterKind::Token, Some(id.to_string())),
            Principal::Certificate { .. } => (SubmitterKind::Certificate, None),
            Principal::TriggerSecret => (SubmitterKind::TriggerSecret, None),
            Principal::Unauthenticated { .. } => (SubmitterKind::Unauthenticated, None),
        };
        Self {
            kind,
            name: principal.name().map(str::to_owned),
            token,
            text: principal.to_string(),
        }
    }
}
