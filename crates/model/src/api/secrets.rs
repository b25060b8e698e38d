//! Secrets, by their names: no answer has a value.

use serde::{Deserialize, Serialize};

use super::Links;
use crate::secret::StoredSecret;

/// A secret, without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    /// `*` for a secret of every owner, which the scheduler's file has.
    pub owner: String,
    pub name: String,
    /// `store`, or what the scheduler's file names: `file`, `environment` or `command`.
    pub source: String,
    /// 1 for the first value, and one more for each that has replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_at: Option<u64>,
    /// Who has set this value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_by: Option<String>,
    /// When it was last sent to a worker, to the minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_at: Option<u64>,
    /// The id of the key that it is encrypted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

impl From<StoredSecret> for Secret {
    fn from(secret: StoredSecret) -> Self {
        Self {
            source: "store".to_owned(),
            version: Some(secret.version),
            set_at: Some(secret.set_at.0),
            set_by: secret.set_by,
            used_at: secret.used_at.map(|at| at.0),
            key: Some(secret.key),
            links: Links::new(),
            owner: secret.owner,
            name: secret.name.to_string(),
        }
    }
}

/// A new value of a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetSecret {
    /// At most 64 KiB.
    pub value: String,
    #[serde(default)]
    pub encoding: SecretEncoding,
}

/// How a request has a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum SecretEncoding {
    /// The text is the value.
    #[default]
    Text,
    /// The text is the value in base64, with padding.
    Base64,
}

/// What `rekey` has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Rekeyed {
    /// Secrets that were encrypted again.
    pub changed: u64,
    /// Secrets that were encrypted with this key already.
    pub unchanged: u64,
    /// The id of the key that all are encrypted with now: the first of the file.
    pub key: String,
}
