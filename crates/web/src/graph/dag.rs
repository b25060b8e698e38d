//! The dependency graph of a run's tasks, by index.
//!
//! Built from the API's response, which may hold only a part of a run: edges to missing tasks are
//! left out. Edges always lead forward in [`Dag::order`], so that traversal ends even if the
//! received graph has a cycle.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::api::{RunEdge, RunTask};

/// Tasks and edges. A task is its index in `tasks`.
#[derive(Debug)]
pub struct Dag<'a> {
    pub tasks: &'a [RunTask],
    /// Topological order; otherwise the order of `tasks`.
    pub order: Vec<usize>,
    /// By task: upstream tasks.
    pub upstream: Vec<Vec<usize>>,
    /// By task: downstream tasks.
    pub downstream: Vec<Vec<usize>>,
    /// By task: length of the longest chain of upstream tasks.
    pub layer: Vec<usize>,
    /// By task: incoming edges; there may be several from the same task.
    pub edges: Vec<Vec<(usize, &'a RunEdge)>>,
}

impl<'a> Dag<'a> {
    pub fn new(tasks: &'a [RunTask]) -> Self {
        let names: BTreeMap<&str, usize> = tasks
            .iter()
            .enumerate()
            .map(|(position, task)| (task.name.as_str(), position))
            .collect();
        let known = |task: &'a RunTask| {
            let edges = task.after.iter();
            edges.filter_map(|edge| Some((*names.get(edge.task.as_str())?, edge)))
        };
        let mut edges: Vec<Vec<(usize, &RunEdge)>> =
            tasks.iter().map(|task| known(task).collect()).collect();
        let order = order(&edges);
        let mut position = vec![0; tasks.len()];
        for (at, task) in order.iter().enumerate() {
            position[*task] = at;
        }
        let mut upstream = vec![Vec::new(); tasks.len()];
        let mut downstream = vec![Vec::new(); tasks.len()];
        for (to, edges) in edges.iter_mut().enumerate() {
            edges.retain(|(from, _)| position[*from] < position[to]);
            let distinct: BTreeSet<usize> = edges.iter().map(|(from, _)| *from).collect();
            for from in distinct {
                upstream[to].push(from);
                downstream[from].push(to);
            }
        }
        let mut layer = vec![0; tasks.len()];
        for task in &order {
            let after = upstream[*task].iter().map(|from| layer[*from] + 1);
            layer[*task] = after.max().unwrap_or(0);
        }
        Self {
            tasks,
            order,
            upstream,
            downstream,
            layer,
            edges,
        }
    }

    /// The tasks by layer.
    pub fn layers(&self) -> Vec<Vec<usize>> {
        let count = self.layer.iter().max().map_or(0, |last| last + 1);
        let mut layers = vec![Vec::new(); count];
        for (task, layer) in self.layer.iter().enumerate() {
            layers[*layer].push(task);
        }
        layers
    }
}

/// Topological order. A cycle is broken at its first task.
fn order(edges: &[Vec<(usize, &RunEdge)>]) -> Vec<usize> {
    let count = edges.len();
    let mut missing: Vec<usize> = edges.iter().map(Vec::len).collect();
    let mut downstream = vec![Vec::new(); count];
    for (to, edges) in edges.iter().enumerate() {
        for (from, _) in edges {
            downstream[*from].push(to);
        }
    }
    let mut left: BTreeSet<usize> = (0..count).collect();
    let mut ready: BTreeSet<usize> = (0..count).filter(|task| missing[*task] == 0).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(task) = ready.pop_first().or_else(|| left.first().copied()) {
        left.remove(&task);
        order.push(task);
        for to in &downstream[task] {
            missing[*to] = missing[*to].saturating_sub(1);
            if missing[*to] == 0 && left.contains(to) {
                ready.insert(*to);
            }
        }
    }
    order
}
