//! Workflows: the plan of a run, and its items.
//!
//! A plan is a workflow file with its parameters bound: its tasks in dependency order. A task has
//! *items*, one instance each: one item, or one per value of its `for_each` or `matrix`. Items are
//! counted, not listed: a plan of a million items is as long as its tasks, its values and its
//! explicit edges.
//!
//! Invariants, which `baton_core::workflow::check` enforces:
//! * a task depends only on tasks before it in the list, so there is no cycle;
//! * edges item by item name items that exist, and lists are as long as the task has items;
//! * names are unique.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::alarm::Expectations;
use crate::ids::{Generation, RunId};
use crate::notify::NotifyRule;
use crate::outcome::KillMode;
use crate::spec::InstanceSpec;
use crate::time::Millis;
use crate::trace::TraceContext;

/// A workflow with its parameters bound, ready to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    pub name: String,
    pub owner: String,
    /// Values of the parameters, defaults included.
    pub params: BTreeMap<String, String>,
    /// Instances that may be in flight at once.
    pub max_concurrent: Option<u32>,
    /// After the first failure no further items start.
    pub fail_fast: bool,
    /// The longest duration of the run.
    pub timeout: Option<Millis>,
    /// Limits that several tasks share.
    pub pools: Vec<Pool>,
    /// In dependency order.
    pub tasks: Vec<PlanTask>,
    /// Who is told of its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notify: Option<NotifyRule>,
    /// When it is late, and how long it runs.
    #[serde(default, skip_serializing_if = "Expectations::is_empty")]
    pub expected: Expectations,
    /// The span of its submitter that those of the run are children of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// The workflow file as JSON with unbound parameters, so that a resume can bind others. None
    /// if the library stores it, it was sent in parts, or it exceeds `WORKFLOW_SOURCE_BYTES_MAX`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<str>>,
}

/// A concurrency limit that several tasks share: that of their common template.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pool {
    /// The template.
    pub name: String,
    /// Instances that may be in flight at once.
    pub max_concurrent: u32,
}

/// One task of a workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanTask {
    /// Unique in its plan.
    pub name: String,
    /// The specification of each instance. Its texts are templates: `{{ item }}` and
    /// `{{ tasks.NAME.outputs.KEY }}` are resolved when the item is ready; `{{{{` stands for `{{`.
    pub spec: Arc<InstanceSpec>,
    pub items: Items,
    pub after: Vec<Upstream>,
    /// The condition without which an item is skipped; evaluated per item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Instances of it that may be in flight at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    /// The shared limit, as an index into `pools` of the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<u32>,
}

/// The items of a task. Values are JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Items {
    /// A single item without a value.
    #[default]
    One,
    /// These values.
    Values(Vec<String>),
    Range {
        first: i64,
        step: i64,
        count: u32,
    },
    /// Every combination; the last axis goes fastest.
    Product(Vec<Axis>),
    /// The values of a list in the outputs of an upstream task.
    Output {
        /// An index into `tasks` of the plan.
        task: u32,
        key: String,
    },
}

/// One axis of a matrix, with its values as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Axis {
    pub name: String,
    pub values: Vec<String>,
}

/// A dependency of a task on an upstream task.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Upstream {
    /// An index into `tasks` of the plan.
    pub task: u32,
    #[serde(default, skip_serializing_if = "Condition::is_success")]
    pub condition: Condition,
    #[serde(default, skip_serializing_if = "Edges::is_all")]
    pub edges: Edges,
}

/// The required result of an upstream item.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AfterCondition))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Condition {
    /// It is DONE.
    #[default]
    Success,
    /// It has not succeeded.
    Failure,
    /// It has ended, with any result.
    End,
}

impl Condition {
    const fn is_success(&self) -> bool {
        matches!(self, Self::Success)
    }
}

/// The upstream items that an item waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Edges {
    /// All of them.
    #[default]
    All,
    /// The item with the same index.
    Same,
    /// A list per item.
    Lists(EdgeLists),
}

impl Edges {
    const fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }
}

/// The upstream items of each item. Serialized as `0,5,7;3;;1`, since there may be millions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EdgeLists {
    /// Where the list of each item ends in `upstream`.
    ends: Vec<u32>,
    upstream: Vec<u32>,
}

impl EdgeLists {
    /// The number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All upstream items, item by item.
    #[must_use]
    pub fn all(&self) -> &[u32] {
        &self.upstream
    }

    /// The list of one item; empty beyond the last.
    #[must_use]
    pub fn of(&self, item: u32) -> &[u32] {
        let at = item as usize;
        let Some(end) = self.ends.get(at) else {
            return &[];
        };
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.upstream[start as usize..*end as usize]
    }

    /// Appends the list of the next item.
    ///
    /// # Errors
    /// If there are more entries than can be counted.
    pub fn push(&mut self, list: &[u32]) -> Result<(), String> {
        self.upstream.extend_from_slice(list);
        let end = u32::try_from(self.upstream.len()).map_err(|_| "too many edges".to_owned())?;
        self.ends.push(end);
        Ok(())
    }
}

impl TryFrom<String> for EdgeLists {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut lists = Self::default();
        let mut list = Vec::new();
        for item in text.split(';') {
            list.clear();
            for number in item.split(',').map(str::trim).filter(|it| !it.is_empty()) {
                let number = number.parse::<u32>();
                list.push(number.map_err(|_| {
                    "a list of edges holds numbers: 0,5,7 for one item, `;` before the next"
                        .to_owned()
                })?);
            }
            lists.push(&list)?;
        }
        Ok(lists)
    }
}

impl From<EdgeLists> for String {
    fn from(lists: EdgeLists) -> Self {
        lists.to_string()
    }
}

impl fmt::Display for EdgeLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for item in 0..self.ends.len() {
            if item > 0 {
                f.write_str(";")?;
            }
            let list = self.of(u32::try_from(item).unwrap_or(u32::MAX));
            for (at, number) in list.iter().enumerate() {
                let comma = if at > 0 { "," } else { "" };
                write!(f, "{comma}{number}")?;
            }
        }
        Ok(())
    }
}

/// The item of a run that an instance executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Part {
    pub run: RunId,
    pub generation: Generation,
    /// An index into `tasks` of the plan.
    pub task: u32,
    pub item: u32,
}

/// The way in which a run is halted. A later request may be harder than an earlier one, never
/// gentler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HaltMode {
    /// Instances in flight may end; no further items start.
    Drain,
    /// Instances in flight are killed: their tasks run their final processes.
    Kill,
    /// Instances in flight are killed at once, without final processes.
    KillNow,
}

impl HaltMode {
    /// How instances in flight are killed, if they are.
    #[must_use]
    pub const fn kill_mode(self) -> Option<KillMode> {
        match self {
            Self::Drain => None,
            Self::Kill => Some(KillMode::Graceful),
            Self::KillNow => Some(KillMode::Now),
        }
    }
}

/// The reason for which a run is halted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HaltCause {
    /// A client requested it.
    Requested,
    /// It has exceeded the timeout of its workflow.
    TimedOut,
    /// A later run of its library workflow takes its place (`overlap: replace`).
    Replaced,
}

/// The stored result of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ItemEnd {
    /// Its instance is DONE.
    Done,
    /// Its instance is FAILED.
    Failed,
    /// Its instance was stopped.
    Halted,
}

/// Items of one task, the last included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ItemSpan {
    /// An index into `tasks` of the plan.
    pub task: u32,
    pub first: u32,
    pub last: u32,
}

/// DONE items that stay DONE under a changed plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CarriedItems {
    /// Their position in the previous plan.
    pub from: ItemSpan,
    /// Their task in the new plan.
    pub task: u32,
    /// The new index of the first of them.
    pub first: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_edges_are_read_as_they_are_written() {
        for text in ["0,5,7;3;;1", "", ";", "4"] {
            let lists = EdgeLists::try_from(text.to_owned()).expect("edges");
            assert_eq!(lists.to_string(), text);
        }
        let lists = EdgeLists::try_from("0, 5 ;3;;1".to_owned()).expect("edges");
        assert_eq!(lists.len(), 4);
        assert_eq!((lists.of(0), lists.of(1)), (&[0, 5][..], &[3][..]));
        assert_eq!((lists.of(2), lists.of(3)), (&[][..], &[1][..]));
        assert!(lists.of(4).is_empty());
        assert!(EdgeLists::try_from("1;x".to_owned()).is_err());
    }
}
