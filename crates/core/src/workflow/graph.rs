//! Who comes after whom, the other way round: what an end sets free.

use std::collections::BTreeMap;

use baton_model::workflow::{Condition, Edges, Items, Plan, PlanTask};

use super::bind;
use super::template::Reference;
use super::when::When;

/// What follows from the edges of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Graph {
    /// For each task those that come after it.
    downstream: Vec<Vec<Down>>,
    /// For each task what it has to know before it may begin.
    needs: Vec<Vec<(u32, String)>>,
    /// For each task whether somebody wants to know what it puts out.
    wanted: Vec<bool>,
}

/// A task that comes after another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Down {
    /// Which.
    pub task: u32,
    /// What must have become of the other.
    pub condition: Condition,
    /// Which of its items wait for which.
    pub edges: DownEdges,
}

/// Which items wait for an item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DownEdges {
    /// All, for all.
    All,
    /// The one of the same place.
    Same,
    /// For each item a list.
    Lists(Reverse),
}

/// Lists of edges, turned round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reverse {
    ends: Vec<u32>,
    downstream: Vec<u32>,
}

impl Reverse {
    fn new(lists: &baton_model::workflow::Lists, upstream: usize) -> Self {
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
        // Filled from the back, each list ends where it shall begin.
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

    /// Those that wait for this one.
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
    /// The graph of a plan that was checked.
    #[must_use]
    pub fn new(plan: &Plan, names: &BTreeMap<String, u32>) -> Self {
        let mut graph = Self {
            downstream: vec![Vec::new(); plan.tasks.len()],
            needs: Vec::with_capacity(plan.tasks.len()),
            wanted: vec![false; plan.tasks.len()],
        };
        for (task, at) in plan.tasks.iter().zip(0_u32..) {
            for after in &task.after {
                let upstream = &plan.tasks[after.task as usize];
                let edges = match &after.edges {
                    Edges::All => DownEdges::All,
                    Edges::Same => DownEdges::Same,
                    Edges::Lists(lists) => {
                        let items = super::items::count(&upstream.items).unwrap_or(0);
                        DownEdges::Lists(Reverse::new(lists, items as usize))
                    }
                };
                graph.downstream[after.task as usize].push(Down {
                    task: at,
                    condition: after.condition,
                    edges,
                });
            }
            let needs = needs(task, names);
            for (from, _) in &needs {
                graph.wanted[*from as usize] = true;
            }
            if let Some(when) = task.when.as_deref().and_then(|text| When::parse(text).ok()) {
                for reference in when.references() {
                    if let Reference::Output { task, .. } = reference
                        && let Some(from) = names.get(task)
                    {
                        graph.wanted[*from as usize] = true;
                    }
                }
            }
            if let Items::Output { task, .. } = &task.items {
                graph.wanted[*task as usize] = true;
            }
            graph.needs.push(needs);
        }
        graph
    }

    /// The tasks that come after this one.
    #[must_use]
    pub fn downstream(&self, task: u32) -> &[Down] {
        self.downstream
            .get(task as usize)
            .map_or(&[], Vec::as_slice)
    }

    /// What must have been put out before an instance of this task can be made.
    #[must_use]
    pub fn needs(&self, task: u32) -> &[(u32, String)] {
        self.needs.get(task as usize).map_or(&[], Vec::as_slice)
    }

    /// Whether somebody wants to know what this task puts out.
    #[must_use]
    pub fn is_wanted(&self, task: u32) -> bool {
        self.wanted.get(task as usize).copied().unwrap_or_default()
    }
}

fn needs(task: &PlanTask, names: &BTreeMap<String, u32>) -> Vec<(u32, String)> {
    let mut needs = Vec::new();
    bind::references(&task.spec, &mut |reference| {
        if let Reference::Output { task, key } = reference
            && let Some(from) = names.get(&task)
        {
            needs.push((*from, key));
        }
    });
    needs.sort();
    needs.dedup();
    needs
}
