//! Filters of lists. The server reads them from the query of a request, clients write them there, the
//! OpenAPI document describes their fields, and the queries of the store contain them.
//!
//! In queries, `since` and `until` are times: milliseconds since 1970, a duration before now, or a date
//! and time. Clients send milliseconds.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::state::UniversalState;
use crate::time::Wall;

/// Filter of instances: `GET /bullpen/`, `/arena/` and `/history/`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default, deny_unknown_fields)]
pub struct InstanceFilter {
    /// Only instances in this state.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>))]
    pub state: Option<UniversalState>,
    /// Only of this owner.
    #[cfg_attr(feature = "openapi", param(nullable = false))]
    pub owner: Option<String>,
    /// Only instances of this name.
    #[cfg_attr(feature = "openapi", param(nullable = false))]
    pub name: Option<String>,
    /// Only instances with this tag.
    #[cfg_attr(feature = "openapi", param(nullable = false))]
    pub tag: Option<String>,
    /// Only instances whose current attempt, or else the last one, is on this worker.
    #[cfg_attr(feature = "openapi", param(nullable = false))]
    pub worker: Option<String>,
    /// Only instances that were submitted, launched, started or have ended, whatever was last, at this
    /// time or later: in milliseconds since 1970, as a duration before now such as `2h`, or as a date
    /// and time, in UTC if it names no zone.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, nullable = false))]
    pub since: Option<Wall>,
    /// Only instances of which the last of these was before this time.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, nullable = false))]
    pub until: Option<Wall>,
}

impl InstanceFilter {
    /// True if all instances pass that are in its state, if it has one.
    #[must_use]
    pub fn is_by_state_only(&self) -> bool {
        let unfiltered = Self {
            state: self.state,
            ..Self::default()
        };
        *self == unfiltered
    }
}

/// Filter of runs: `GET /runs/`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default, deny_unknown_fields)]
pub struct RunFilter {
    /// Only runs in this state, such as RUNNING.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>))]
    pub state: Option<UniversalState>,
    /// Only of this owner.
    #[cfg_attr(feature = "openapi", param(nullable = false))]
    pub owner: Option<String>,
    /// Only runs of this workflow.
    #[cfg_attr(feature = "openapi", param(nullable = false))]
    pub name: Option<String>,
    /// Only runs that have begun at this time or later: in milliseconds since 1970, as a duration
    /// before now such as `2h`, or as a date and time, in UTC if it names no zone.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>))]
    pub since: Option<Wall>,
    /// Only runs that have begun before this time.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>))]
    pub until: Option<Wall>,
}

/// Filter of the items of a run: `GET /runs/{run}/items/`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default, deny_unknown_fields)]
pub struct ItemFilter {
    /// Only items of this task.
    #[cfg_attr(feature = "openapi", param(nullable = false))]
    pub task: Option<String>,
    /// Only the item of this index; requires `task`.
    #[cfg_attr(feature = "openapi", param(nullable = false))]
    pub item: Option<u32>,
    /// Only items in this state: QUEUED, LAUNCHED, RUNNING, DONE, FAILED or HALTED.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>))]
    pub state: Option<UniversalState>,
}

/// The parameters of a query for the fields that are set, sorted by name.
#[must_use]
pub fn query_pairs(filter: &impl Serialize) -> Vec<(String, String)> {
    let Ok(Value::Object(fields)) = serde_json::to_value(filter) else {
        unreachable!("a filter is a struct of texts and numbers");
    };
    let pairs = fields.into_iter().filter_map(|(name, value)| match value {
        Value::Null => None,
        Value::String(text) => Some((name, text)),
        other => Some((name, other.to_string())),
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_that_are_set_become_parameters() {
        let filter = InstanceFilter {
            state: Some(UniversalState::Failed),
            name: Some("a b".to_owned()),
            since: Some(Wall(17)),
            ..InstanceFilter::default()
        };
        let pairs = query_pairs(&filter);
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, it)| (&**name, &**it)).collect();
        assert_eq!(
            pairs,
            [("name", "a b"), ("since", "17"), ("state", "FAILED")]
        );
        let item = ItemFilter {
            item: Some(3),
            ..ItemFilter::default()
        };
        assert_eq!(query_pairs(&item), [("item".to_owned(), "3".to_owned())]);
        assert_eq!(query_pairs(&RunFilter::default()), []);
    }

    #[test]
    fn a_state_alone_leaves_the_counts_of_states_valid() {
        let mut filter = InstanceFilter {
            state: Some(UniversalState::Done),
            ..InstanceFilter::default()
        };
        assert!(filter.is_by_state_only());
        filter.until = Some(Wall(1));
        assert!(!filter.is_by_state_only());
    }
}
