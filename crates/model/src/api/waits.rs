//! What all that waits is waiting for.

use serde::{Deserialize, Serialize};

use super::Links;

/// Queued instances that wait for the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WaitGroup {
    /// Number of instances.
    pub count: u64,
    /// Id of the first of them.
    pub first: String,
    /// Machine-readable reason, as in the explanation of an instance.
    pub reason: String,
    /// What they wait for, as a sentence, with a hint.
    pub text: String,
    /// `instance`: the first of them; `explain`: why it waits.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}
