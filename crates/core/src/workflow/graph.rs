//! Who comes after whom, the other way round: what an end sets free.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::workflow::{Condition, Edges, Items, Plan, PlanTask};

use super::bind;
use super::template::Reference;
use super::when::When;

/// What follows from the edges of a plan, and from what its texts and conditions refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Graph {
    /// For each task those that come after it.
    downstream: Vec<Vec<Down>>,
    /// For each task what its texts and its condition refer to.
    own: Vec<Own>,
    /// For each task what others want to know of what it puts out.
    wanted: Vec<Wanted>,
}

/// What a task refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Own {
    /// Outputs, in its texts.
    needs: Vec<(u32, String)>,
    /// Parts of its items, in its texts.
    keys: Vec<String>,
    /// Tasks whose outputs it sees one by one: each item those of the item of the same place.
    same: BTreeSet<u32>,
    when: Option<When>,
}

/// What others want to know of what a task puts out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Wanted {
    keys: BTreeSet<String>,
    /// Those of them that somebody wants of the whole task, not of one item after the other.
    joined: BTreeSet<String>,
}

/// A task that comes after another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Down {
    pub task: u32,
    /// What must have become of the other.
    pub condition: Condition,
    /// Which of its items wait for which.
    pub edges: DownEdges,
    /// It cannot do without what the other puts out.
    pub needed: bool,
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
            own: Vec::with_capacity(plan.tasks.len()),
            wanted: vec![Wanted::default(); plan.tasks.len()],
        };
        for (task, at) in plan.tasks.iter().zip(0_u32..) {
            let own = Own::new(task, names);
            graph.want(task, &own, names);
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
                let source =
                    matches!(&task.items, Items::Output { task, .. } if *task == after.task);
                graph.downstream[after.task as usize].push(Down {
                    task: at,
                    condition: after.condition,
                    edges,
                    needed: source || own.needs.iter().any(|(from, _)| *from == after.task),
                });
            }
            graph.own.push(own);
        }
        graph
    }

    /// Notes what a task wants to know of others.
    fn want(&mut self, task: &PlanTask, own: &Own, names: &BTreeMap<String, u32>) {
        let asked = own.when.iter().flat_map(When::references);
        let asked = asked.filter_map(|reference| output(reference, names));
        let needed = own.needs.iter().map(|(from, key)| (*from, key.clone()));
        for (from, key) in needed.chain(asked) {
            let wanted = &mut self.wanted[from as usize];
            if !own.same.contains(&from) {
                wanted.joined.insert(key.clone());
            }
            wanted.keys.insert(key);
        }
        if let Items::Output { task: from, key } = &task.items {
            self.wanted[*from as usize].keys.insert(key.clone());
        }
    }

    /// The tasks that come after this one.
    #[must_use]
    pub fn downstream(&self, task: u32) -> &[Down] {
        self.downstream
            .get(task as usize)
            .map_or(&[], Vec::as_slice)
    }

    /// What must have been put out before an instance of this task can be made.
    pub(super) fn needs(&self, task: u32) -> &[(u32, String)] {
        &self.own[task as usize].needs
    }

    /// What its item must have before an instance of this task can be made.
    pub(super) fn item_keys(&self, task: u32) -> &[String] {
        &self.own[task as usize].keys
    }

    /// When an item of this task is wanted.
    pub(super) fn when(&self, task: u32) -> Option<&When> {
        self.own[task as usize].when.as_ref()
    }

    /// Whether items of this task see what the other puts out one by one.
    pub(super) fn is_one_by_one(&self, task: u32, from: u32) -> bool {
        self.own[task as usize].same.contains(&from)
    }

    /// What somebody wants to know of what this task puts out.
    pub(super) fn wanted(&self, task: u32) -> &BTreeSet<String> {
        &self.wanted[task as usize].keys
    }

    /// What somebody wants to know of all of it at once.
    pub(super) fn joined(&self, task: u32) -> &BTreeSet<String> {
        &self.wanted[task as usize].joined
    }
}

impl Own {
    fn new(task: &PlanTask, names: &BTreeMap<String, u32>) -> Self {
        let mut own = Self::default();
        bind::references(&task.spec, &mut |reference| match reference {
            Reference::ItemKey(key) => own.keys.push(key),
            other => own.needs.extend(output(&other, names)),
        });
        own.needs.sort();
        own.needs.dedup();
        own.keys.sort();
        own.keys.dedup();
        let same = task.after.iter().filter(|it| it.edges == Edges::Same);
        own.same = same.map(|it| it.task).collect();
        own.when = task.when.as_deref().and_then(|text| When::parse(text).ok());
        own
    }
}

/// Which output of which task a reference is about.
pub(super) fn output(
    reference: &Reference,
    names: &BTreeMap<String, u32>,
) -> Option<(u32, String)> {
    match reference {
        Reference::Output { task, key } => Some((*names.get(task)?, key.clone())),
        _ => None,
    }
}
