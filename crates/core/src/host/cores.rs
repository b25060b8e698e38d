//! Cores: which of them an attempt gets, and the CPUs that its processes may use.
//!
//! A core is a device whose id is the list of its CPUs, so everything about an attempt follows from what
//! it holds, also after a restart.
//!
//! **The choice.** Of the NUMA nodes that have enough free cores, the one with the fewest: larger gaps are
//! left for larger requests. Where none has enough, whole free parts of nodes, the largest first, so an
//! attempt is on as few nodes as possible.
//!
//! **A socket** is one node, the attempt's *home*. Its cores are counted there, and only if the node has too few
//! free ones the others are counted elsewhere: an attempt that does not exceed the free cores of the host
//! never waits for a certain node. A node without as many cores, used or not, is no home.

use std::cmp::Reverse;

use baton_model::cpu::{CORE, CpuList, NodeSizes, Pin};
use baton_model::device::DeviceShare;

/// The cores of a host, by node.
#[derive(Clone, Debug)]
pub(super) struct Cores<'a> {
    nodes: Vec<&'a [String]>,
}

impl<'a> Cores<'a> {
    /// Cores beyond the given nodes are one more node.
    pub(super) fn new(list: &'a [String], sizes: &NodeSizes) -> Self {
        let mut rest = list;
        let mut nodes = Vec::new();
        for size in sizes {
            let size = usize::try_from(*size).unwrap_or(usize::MAX);
            let (node, others) = rest.split_at(size.min(rest.len()));
            nodes.push(node);
            rest = others;
        }
        nodes.push(rest);
        nodes.retain(|node| !node.is_empty());
        Self { nodes }
    }

    pub(super) fn largest_node(&self) -> usize {
        self.nodes.iter().map(|node| node.len()).max().unwrap_or(0)
    }

    /// As many free cores; none if there are too few.
    pub(super) fn select(
        &self,
        count: usize,
        pin: Pin,
        is_free: impl Fn(&String) -> bool,
    ) -> Option<Vec<&'a String>> {
        let free = |node: &&'a [String]| node.iter().filter(|id| is_free(id)).collect();
        let mut free: Vec<Vec<&'a String>> = self.nodes.iter().map(free).collect();
        if free.iter().map(Vec::len).sum::<usize>() < count {
            return None;
        }
        let mut chosen = Vec::new();
        if pin == Pin::Socket {
            let home = self.home(&free, count)?;
            let node = &mut free[home];
            chosen.extend(node.drain(..count.min(node.len())));
        }
        while chosen.len() < count {
            let left = count - chosen.len();
            let next = nearest(&free, left)?;
            let node = &mut free[next];
            chosen.extend(node.drain(..left.min(node.len())));
        }
        Some(chosen)
    }

    /// The node for a socket: the fewest free cores that are enough, or else the most.
    fn home(&self, free: &[Vec<&String>], count: usize) -> Option<usize> {
        let large = (0..free.len()).filter(|at| self.nodes[*at].len() >= count);
        let enough = large.clone().filter(|at| free[*at].len() >= count);
        let tightest = enough.min_by_key(|at| (free[*at].len(), *at));
        tightest.or_else(|| large.min_by_key(|at| (Reverse(free[*at].len()), *at)))
    }

    /// The CPUs of an attempt that holds these devices.
    pub(super) fn cpus(&self, shares: &[DeviceShare], pin: Pin) -> CpuList {
        let held = shares.iter().filter(|share| share.resource == CORE);
        let held: Vec<&String> = held.map(|share| &share.id).collect();
        if pin == Pin::Socket
            && let Some(home) = self.home_of(&held)
        {
            return join(home.iter());
        }
        join(held.into_iter())
    }

    /// The node for which these cores were selected: of those that are large enough the one with most of
    /// them. `select` takes all that is free of it before anything else, so no other has more.
    fn home_of(&self, held: &[&String]) -> Option<&'a [String]> {
        let large = self.nodes.iter().filter(|node| node.len() >= held.len());
        let held_of = |node: &[String]| node.iter().filter(|id| held.contains(id)).count();
        let (_, home) = large
            .enumerate()
            .max_by_key(|(at, node)| (held_of(node), Reverse(*at)))?;
        Some(*home)
    }
}

/// The node to take the next cores from, for so many that are left: the fewest that are enough, or else the
/// most. None if all are used.
fn nearest(free: &[Vec<&String>], left: usize) -> Option<usize> {
    let nodes = || (0..free.len()).filter(|at| !free[*at].is_empty());
    let enough = nodes().filter(|at| free[*at].len() >= left);
    let tightest = enough.min_by_key(|at| (free[*at].len(), *at));
    tightest.or_else(|| nodes().min_by_key(|at| (Reverse(free[*at].len()), *at)))
}

/// The CPUs of these cores. An id that is none, such as one from `--resources`, has no CPU.
fn join<'a>(cores: impl Iterator<Item = &'a String>) -> CpuList {
    let lists = cores.filter_map(|id| id.parse::<CpuList>().ok());
    lists
        .flat_map(|list| list.iter().collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes with four cores of two threads each, and one with two.
    fn list() -> Vec<String> {
        (0..10)
            .map(|core| format!("{core},{}", core + 10))
            .collect()
    }

    fn sizes() -> NodeSizes {
        vec![4, 4, 2]
    }

    /// The first threads of the cores that are chosen while these are used.
    fn chosen(used: &[u32], count: usize, pin: Pin) -> Option<Vec<u32>> {
        let (list, sizes) = (list(), sizes());
        let first = |id: &String| id.parse::<CpuList>().expect("a list").iter().next();
        let is_free = |id: &String| !used.contains(&first(id).expect("a CPU"));
        let chosen = Cores::new(&list, &sizes).select(count, pin, is_free)?;
        Some(chosen.into_iter().filter_map(first).collect())
    }

    #[test]
    fn cores_come_from_the_tightest_node() {
        let cores = |used: &[u32], count| chosen(used, count, Pin::Cores);
        assert_eq!(cores(&[], 2), Some(vec![8, 9]));
        assert_eq!(cores(&[], 3), Some(vec![0, 1, 2]));
        assert_eq!(cores(&[0, 8], 1), Some(vec![9]));
        assert_eq!(cores(&[0, 8, 9], 3), Some(vec![1, 2, 3]));
        assert_eq!(cores(&[0, 4, 5, 8, 9], 2), Some(vec![6, 7]));
        assert_eq!(cores(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 1), None);
    }

    #[test]
    fn more_than_a_node_has_comes_from_few_nodes() {
        let cores = |used: &[u32], count| chosen(used, count, Pin::Cores);
        assert_eq!(cores(&[], 6), Some(vec![0, 1, 2, 3, 8, 9]));
        assert_eq!(cores(&[0], 5), Some(vec![4, 5, 6, 7, 8]));
        assert_eq!(cores(&[], 11), None);
    }

    #[test]
    fn a_socket_is_one_node_that_is_large_enough() {
        let (list, sizes) = (list(), sizes());
        let cores = Cores::new(&list, &sizes);
        let cpus = |used: &[u32], count| {
            let chosen = chosen(used, count, Pin::Socket).expect("enough");
            let shares: Vec<DeviceShare> = chosen
                .into_iter()
                .map(|core| DeviceShare {
                    resource: CORE.to_owned(),
                    id: format!("{core},{}", core + 10),
                    milli: 1_000,
                })
                .collect();
            assert_eq!(shares.len(), count);
            cores.cpus(&shares, Pin::Socket).to_string()
        };
        assert_eq!(cpus(&[], 2), "8-9,18-19");
        assert_eq!(cpus(&[], 3), "0-3,10-13");
        assert_eq!(cpus(&[0, 1], 3), "4-7,14-17");
        // No node has three free: home is the one with the most, and the others are counted elsewhere.
        assert_eq!(cpus(&[0, 1, 4, 5, 6], 3), "0-3,10-13");
        assert_eq!(cpus(&[0, 1, 2, 4, 5], 3), "4-7,14-17");
        // The small node is no home for three, though it alone is free.
        assert_eq!(cpus(&[0, 1, 2, 3, 4, 5, 6], 3), "4-7,14-17");
        assert_eq!(chosen(&[], 5, Pin::Socket), None);
    }

    #[test]
    fn ids_without_cpus_bind_to_nothing() {
        let list = ["a".to_owned(), "3".to_owned()];
        let cores = Cores::new(&list, &NodeSizes::new());
        assert_eq!(cores.largest_node(), 2);
        let share = |id: &str| DeviceShare {
            resource: CORE.to_owned(),
            id: id.to_owned(),
            milli: 1_000,
        };
        let cpus = |ids: &[&str]| {
            let shares: Vec<DeviceShare> = ids.iter().map(|id| share(id)).collect();
            cores.cpus(&shares, Pin::Cores).to_string()
        };
        assert_eq!(cpus(&["a"]), "");
        assert_eq!(cpus(&["a", "3", "7"]), "3,7", "held from before is kept");
    }
}
