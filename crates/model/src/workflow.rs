//! Workflows: the plan that a run carries out, and the words for where it stands.
//!
//! A plan is what a workflow file says once its parameters are filled in: its tasks in an order
//! in which each stands behind those it comes after. A task has *items*, one instance each: one,
//! or as many as its `for_each` or `matrix` has values. Items are counted, not listed: a plan of
//! a million items is as long as its tasks, its values and its explicit edges.
//!
//! Invariants, which `baton_core::workflow::check` holds a plan to:
//! * a task comes only after tasks before it in the list, so there is no circle;
//! * edges item by item name items that exist, and lists are as long as the task has items;
//! * names are unique.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{Generation, RunId};
use crate::spec::InstanceSpec;
use crate::time::Millis;

/// A workflow, ready to be run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    pub name: String,
    pub owner: String,
    /// The parameters that it was given, and the defaults of the others.
    pub params: BTreeMap<String, String>,
    /// Instances that may be on their way at once.
    pub max_concurrent: Option<u32>,
    /// The first failure lets nothing more begin.
    pub fail_fast: bool,
    /// How long the run may take.
    pub timeout: Option<Millis>,
    /// Limits that several tasks share.
    pub pools: Vec<Pool>,
    /// Each behind those that it comes after.
    pub tasks: Vec<PlanTask>,
}

/// A limit that several tasks share: that of the template they are made from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pool {
    /// The template.
    pub name: String,
    /// Instances that may be on their way at once.
    pub max_concurrent: u32,
}

/// One task of a workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanTask {
    /// Unique in its plan.
    pub name: String,
    /// What each instance asks for. Its texts are templates: `{{ item }}` and
    /// `{{ tasks.NAME.outputs.KEY }}` are filled in when it is ready, `{{{{` stands for `{{`.
    pub spec: Arc<InstanceSpec>,
    /// One instance for each.
    pub items: Items,
    pub after: Vec<Upstream>,
    /// It is skipped unless this holds, for each item by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Instances of it that may be on their way at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    /// The limit that it shares, as a place in the plan's list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<u32>,
}

/// What a task has one instance for each of. Values are JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Items {
    /// Only itself.
    #[default]
    One,
    /// These values.
    Values(Vec<String>),
    Range {
        /// The first.
        first: i64,
        /// From one to the next.
        step: i64,
        count: u32,
    },
    /// Every combination; the last axis goes fastest.
    Product(Vec<Axis>),
    /// The values of a list that a task before it has put out.
    Output {
        /// Which task, as a place in the plan's list.
        task: u32,
        key: String,
    },
}

/// One name of a matrix, with its values as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: Vec<String>,
}

/// That a task comes after another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Upstream {
    /// Which, as a place in the plan's list.
    pub task: u32,
    /// What must have become of it.
    #[serde(default, skip_serializing_if = "Condition::is_success")]
    pub condition: Condition,
    /// Which of its items an item waits for.
    #[serde(default, skip_serializing_if = "Edges::is_all")]
    pub edges: Edges,
}

/// What must have become of what a task comes after.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AfterCondition))]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// It is DONE.
    #[default]
    Success,
    /// It has not succeeded.
    Failure,
    /// It is over, whatever came of it.
    End,
}

impl Condition {
    const fn is_success(&self) -> bool {
        matches!(self, Self::Success)
    }

    /// The word for it in files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::End => "end",
        }
    }
}

/// Which items of the task before it an item waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Edges {
    /// All of them.
    #[default]
    All,
    /// The one of the same place.
    Same,
    /// For each item a list.
    Lists(EdgeLists),
}

impl Edges {
    const fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }
}

/// For each item the items that it waits for. Written as `0,5,7;3;;1`, since there may be
/// millions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EdgeLists {
    /// Where the list of each item ends in `upstream`.
    ends: Vec<u32>,
    upstream: Vec<u32>,
}

impl EdgeLists {
    /// How many items have a list.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All that are named, item by item.
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

    /// Puts the list of the next item behind the others.
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

/// Which part of a run an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Part {
    /// The run.
    pub run: RunId,
    pub generation: Generation,
    /// The task, as a place in the plan's list.
    pub task: u32,
    pub item: u32,
}

/// How a run is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HaltMode {
    /// What has begun may end by itself; nothing more begins.
    Drain,
    /// What has begun is killed.
    Kill,
}

/// Why a run is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HaltCause {
    /// A person asked for it.
    Requested,
    /// It took longer than its workflow allows.
    TimedOut,
}

/// How an item ended, as it is kept.
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
    /// The task, as a place in the plan's list.
    pub task: u32,
    /// The first.
    pub first: u32,
    /// The last.
    pub last: u32,
}

/// Items that are DONE and stay it under another plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CarriedItems {
    /// Where they were in the plan before.
    pub from: ItemSpan,
    /// The task that they are items of now.
    pub task: u32,
    /// Which item the first of them is now.
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
