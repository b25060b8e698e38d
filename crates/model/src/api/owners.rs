//! Owners.

use serde::{Deserialize, Serialize};

use super::Links;

/// An owner of tasks, workflows, instances and runs: a name, under which they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// Name of the owner.
    pub name: String,
    /// `self`; what belongs to it: `tasks` (with its workflows), `usage`, `secrets`, `bullpen`, `arena`, `history`, `runs`,
    /// `backfills`, `alarms`, `notifications`, `events`; and `create-task`.
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub links: Links,
}
