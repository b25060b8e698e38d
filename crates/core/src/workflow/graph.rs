//! Reverse edges of a plan: which items wait for an item.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::workflow::{Condition, Edges, Items, Plan, PlanTask};

use super::template::Reference;
use super::texts;
use super::when::WhenExpr;

/// Reverse edges and references of a plan, by task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Graph {
    downstream: Vec<Vec<DownstreamTask>>,
    /// References that each task makes.
    references: Vec<TaskReferences>,
    /// References to each task's outputs.
    referenced: Vec<ReferencedOutputs>,
}

/// References in a task's texts and its `when`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct TaskReferences {
    /// Outputs that its texts refer to, as (task, key).
    required_outputs: Vec<(u32, String)>,
    /// Keys of its item value that its texts refer to.
    item_keys: Vec<String>,
    /// Upstream tasks connected item by item: each item sees the outputs of the item of the same
    /// index.
    per_item: BTreeSet<u32>,
    when: Option<WhenExpr>,
}

/// Output keys of a task that other tasks refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct ReferencedOutputs {
    keys: BTreeSet<String>,
    /// Those of them that are needed of the whole task, not item by item.
    joined: BTreeSet<String>,
}

/// A downstream edge of a task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DownstreamTask {
    pub task: u32,
    pub condition: Condition,
    pub edges: DownstreamEdges,
    /// The downstream task refers to outputs of the upstream task.
    pub needs_outputs: bool,
}

/// Which downstream items wait for an upstream item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DownstreamEdges {
    /// Every downstream item waits for every upstream item.
    All,
    /// The item of the same index.
    Same,
    /// An explicit list for each item.
    Lists(ReverseLists),
}

/// Reversed edge lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReverseLists {
    ends: Vec<u32>,
    downstream: Vec<u32>,
}

impl ReverseLists {
    fn new(lists: &baton_model::workflow::EdgeLists, upstream: usize) -> Self {
        let mut ends = vec![0_u32; upstream];
        for item in lists.all() {
            if let Some(count) = ends.get_mut(*item as usize) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        // Filled from the back: in the end each position is the start of its list.
        let mut places = ends.clone();
        let mut downstream = vec![0; sum as usize];
        for item in (0..u32::try_from(lists.len()).unwrap_or(u32::MAX)).rev() {
            for upstream in lists.of(item).iter().rev() {
                if let Some(place) = places.get_mut(*upstream as usize) {
                    *place -= 1;
                    downstream[*place as usize] = item;
                }
            }
        }
        Self { ends, downstream }
    }

    /// Downstream items that wait for this one.
    #[must_use]
    pub fn of(&self, item: u32) -> &[u32] {
        let at = item as usize;
        let Some(end) = self.ends.get(at) else {
            return &[];
        };
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.downstream[start as usize..*end as usize]
    }
}

impl Graph {
    /// The graph of a valid plan.
    #[must_use]
    pub fn new(plan: &Plan, names: &BTreeMap<String, u32>) -> Self {
        let mut graph = Self {
            downstream: vec![Vec::new(); plan.tasks.len()],
            references: Vec::with_capacity(plan.tasks.len()),
            referenced: vec![ReferencedOutputs::default(); plan.tasks.len()],
        };
        for (task, at) in plan.tasks.iter().zip(0_u32..) {
            let references = TaskReferences::new(task, names);
            graph.record_references(task, &references, names);
            for after in &task.after {
                let upstream = &plan.tasks[after.task as usize];
                let edges = match &after.edges {
                    Edges::All => DownstreamEdges::All,
                    Edges::Same => DownstreamEdges::Same,
                    Edges::Lists(lists) => {
                        let items = super::items::count(&upstream.items).unwrap_or(0);
                        DownstreamEdges::Lists(ReverseLists::new(lists, items as usize))
                    }
                };
                let source =
                    matches!(&task.items, Items::Output { task, .. } if *task == after.task);
                graph.downstream[after.task as usize].push(DownstreamTask {
                    task: at,
                    condition: after.condition,
                    edges,
                    needs_outputs: source
                        || references
                            .required_outputs
                            .iter()
                            .any(|(from, _)| *from == after.task),
                });
            }
            graph.references.push(references);
        }
        graph
    }

    /// Records a task's references to the outputs of others.
    fn record_references(
        &mut self,
        task: &PlanTask,
        references: &TaskReferences,
        names: &BTreeMap<String, u32>,
    ) {
        let in_condition = references.when.iter().flat_map(WhenExpr::references);
        let in_condition = in_condition.filter_map(|reference| output_reference(reference, names));
        let in_texts = references
            .required_outputs
            .iter()
            .map(|(from, key)| (*from, key.clone()));
        for (from, key) in in_texts.chain(in_condition) {
            let referenced = &mut self.referenced[from as usize];
            if !references.per_item.contains(&from) {
                referenced.joined.insert(key.clone());
            }
            referenced.keys.insert(key);
        }
        if let Items::Output { task: from, key } = &task.items {
            self.referenced[*from as usize].keys.insert(key.clone());
        }
    }

    /// Downstream edges of a task.
    #[must_use]
    pub fn downstream(&self, task: u32) -> &[DownstreamTask] {
        self.downstream
            .get(task as usize)
            .map_or(&[], Vec::as_slice)
    }

    /// Outputs without which an instance of this task cannot be made.
    pub(super) fn required_outputs(&self, task: u32) -> &[(u32, String)] {
        &self.references[task as usize].required_outputs
    }

    /// Keys of the item value without which an instance of this task cannot be made.
    pub(super) fn item_keys(&self, task: u32) -> &[String] {
        &self.references[task as usize].item_keys
    }

    /// The `when` of this task.
    pub(super) fn when(&self, task: u32) -> Option<&WhenExpr> {
        self.references[task as usize].when.as_ref()
    }

    /// Whether items of `task` see the outputs of `from` item by item.
    pub(super) fn is_per_item(&self, task: u32, from: u32) -> bool {
        self.references[task as usize].per_item.contains(&from)
    }

    /// Output keys of this task that other tasks refer to.
    pub(super) fn referenced_keys(&self, task: u32) -> &BTreeSet<String> {
        &self.referenced[task as usize].keys
    }

    /// Output keys that other tasks need of the whole task.
    pub(super) fn joined_keys(&self, task: u32) -> &BTreeSet<String> {
        &self.referenced[task as usize].joined
    }
}

impl TaskReferences {
    fn new(task: &PlanTask, names: &BTreeMap<String, u32>) -> Self {
        let mut references = Self::default();
        texts::references(&task.spec, &mut |reference| match reference {
            Reference::ItemKey(key) => references.item_keys.push(key),
            other => references
                .required_outputs
                .extend(output_reference(&other, names)),
        });
        references.required_outputs.sort();
        references.required_outputs.dedup();
        references.item_keys.sort();
        references.item_keys.dedup();
        let per_item = task.after.iter().filter(|it| it.edges == Edges::Same);
        references.per_item = per_item.map(|it| it.task).collect();
        references.when = task
            .when
            .as_deref()
            .and_then(|text| WhenExpr::parse(text).ok());
        references
    }
}

/// The (task, key) of a reference to an output.
pub(super) fn output_reference(
    reference: &Reference,
    names: &BTreeMap<String, u32>,
) -> Option<(u32, String)> {
    match reference {
        Reference::Output { task, key } => Some((*names.get(task)?, key.clone())),
        _ => None,
    }
}
