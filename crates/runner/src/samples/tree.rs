//! Assignment of processes to trees.
//!
//! A tree is a root, all its descendants, and all processes of its session with theirs: a
//! daemonised process has another parent, but keeps its session. A process belongs to at most one
//! tree: to its own where it is a root, else to that of its session, else to its parent's.

use std::collections::HashMap;

use crate::sys::proc::Stat;

/// For each process the index of its root in `roots`, if it has one. Each process is visited once,
/// whatever the parent links: a list that was read while processes came and went may even have a
/// cycle.
pub(super) fn owners(stats: &[Stat], roots: &[u32]) -> Vec<Option<usize>> {
    let by_pid: HashMap<u32, usize> = roots.iter().copied().zip(0..).collect();
    let mut children: HashMap<u32, Vec<usize>> = HashMap::new();
    let mut owners = vec![None; stats.len()];
    let mut found = Vec::new();
    for (index, stat) in stats.iter().enumerate() {
        children.entry(stat.ppid).or_default().push(index);
        let root = by_pid.get(&stat.pid).or_else(|| by_pid.get(&stat.session));
        if let Some(root) = root {
            owners[index] = Some(*root);
            found.push(index);
        }
    }
    while let Some(index) = found.pop() {
        for child in children.remove(&stats[index].pid).unwrap_or_default() {
            if owners[child].is_none() {
                owners[child] = owners[index];
                found.push(child);
            }
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: u32, ppid: u32, session: u32) -> Stat {
        Stat {
            pid,
            ppid,
            session,
            ..Stat::default()
        }
    }

    #[test]
    fn descendants_and_their_descendants_belong_to_the_root() {
        let stats = [
            stat(1, 0, 1),
            stat(12, 11, 5),
            stat(11, 10, 5),
            stat(10, 1, 5),
            stat(20, 1, 5),
        ];
        let all = owners(&stats, &[10]);
        assert_eq!(all, [None, Some(0), Some(0), Some(0), None]);
    }

    #[test]
    fn an_orphan_of_the_session_and_its_children_belong_to_the_root() {
        let stats = [stat(10, 1, 10), stat(11, 1, 10), stat(12, 11, 12)];
        assert_eq!(owners(&stats, &[10]), [Some(0); 3]);
    }

    #[test]
    fn the_session_outlives_its_root() {
        assert_eq!(owners(&[stat(11, 1, 10)], &[10]), [Some(0)]);
    }

    #[test]
    fn a_process_belongs_to_one_tree_and_a_root_to_its_own() {
        let stats = [stat(10, 1, 10), stat(20, 10, 10), stat(21, 20, 10)];
        let all = owners(&stats, &[20, 10]);
        assert_eq!(all, [Some(1), Some(0), Some(1)]);
    }

    #[test]
    fn a_cycle_of_parents_ends() {
        let stats = [stat(10, 12, 10), stat(11, 10, 1), stat(12, 11, 1)];
        assert_eq!(owners(&stats, &[10]), [Some(0); 3]);
        assert_eq!(owners(&stats, &[]), [None; 3]);
    }
}
