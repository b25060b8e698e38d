//! Checkers of gangs: as many members as asked for, of one group, and none used beyond what it has.
//!
//! A lease is judged when it becomes durable, by the state of the store then.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::ledger::{Lease, Ledger};
use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, LeaseId, WorkerName};

use super::Violation;

/// The checkers of gangs.
#[derive(Debug, Default)]
pub struct GangChecks {
    /// Groups of workers; none if the seed has no gangs.
    pub groups: u32,
    /// The nodes that gangs asked for, by the range of their instances.
    asked: BTreeMap<InstanceId, (InstanceId, u32)>,
    /// Attempts that have lost a member.
    incomplete: BTreeSet<LeaseId>,
}

/// The group of a worker: those of its machines' numbers with the same remainder.
#[must_use]
pub fn group_of(worker: &WorkerName, groups: u32) -> String {
    let digits: String = worker.0.chars().filter(char::is_ascii_digit).collect();
    let number: u32 = digits.parse().unwrap_or(0);
    format!("rack{}", number % groups.max(1))
}

impl GangChecks {
    pub(super) fn committed(&mut self, fact: &Fact) {
        match fact {
            Fact::InstancesSubmitted { first, last, spec } if spec.nodes.is_gang() => {
                self.asked.insert(*first, (*last, spec.nodes.get()));
            }
            // A copy of a store may use the ids again.
            Fact::InstancesSubmitted { first, last, .. } => {
                self.asked
                    .retain(|from, (to, _)| *to < *first || *from > *last);
            }
            Fact::MemberLost { lease, .. } => {
                self.incomplete.insert(*lease);
            }
            _ => {}
        }
    }

    /// True if an attempt has lost a member.
    pub(super) fn is_incomplete(&self, lease: LeaseId) -> bool {
        self.incomplete.contains(&lease)
    }

    /// Checks a lease that was granted. The ledger has it already. A worker has so many slots, and a thousandth of
    /// a core for each thousandth of them.
    pub(super) fn granted(
        &self,
        ledger: &Ledger,
        lease: LeaseId,
        slots: u32,
    ) -> Result<(), Violation> {
        let Some(granted) = ledger.open_lease(lease) else {
            return Ok(());
        };
        self.check_members(granted)?;
        if self.groups == 0 {
            return Ok(());
        }
        let holders = || std::iter::once(&granted.holder).chain(granted.others());
        for member in holders() {
            let takes = |it: &&Lease| {
                let mut all = std::iter::once(&it.holder).chain(it.others());
                all.any(|holder| holder.incarnation == member.incarnation)
            };
            let count = ledger.open_leases().filter(takes).count();
            if count > slots as usize {
                let worker = &member.worker;
                let what = format!("with {lease} {count} attempts take {worker}, of {slots}");
                return Err(violation("member-shared", what));
            }
        }
        if granted.others().is_empty() {
            return Ok(());
        }
        for worker in granted.workers() {
            let gangs = ledger.open_leases().filter(|it| !it.others().is_empty());
            let there = gangs.filter(|it| it.workers().any(|taken| taken == worker));
            let instances = there.filter_map(|it| ledger.instance(it.id.attempt.instance));
            let used: u64 = instances
                .map(|it| it.spec.request.resources.cpu_milli)
                .sum();
            if used > 1_000 * u64::from(slots) {
                let what = format!("with {lease} gangs take {used} of {worker}, of {slots} cores");
                return Err(violation("member-shared", what));
            }
        }
        Ok(())
    }

    fn check_members(&self, granted: &Lease) -> Result<(), Violation> {
        let (lease, instance) = (granted.id, granted.id.attempt.instance);
        let asked = self.asked.range(..=instance).next_back();
        let asked = asked.filter(|(_, (last, _))| instance <= *last);
        let asked = asked.map_or(1, |(_, (_, nodes))| *nodes as usize);
        let workers: BTreeSet<&WorkerName> = granted.workers().collect();
        let count = granted.workers().count();
        if count != asked || workers.len() != count {
            let what = format!("{lease} asks for {asked} workers, and starts on {workers:?}");
            return Err(violation("gang-incomplete", what));
        }
        let groups: BTreeSet<String> = workers
            .iter()
            .map(|worker| group_of(worker, self.groups))
            .collect();
        if count > 1 && groups.len() > 1 {
            let what = format!("{lease} starts on workers of {groups:?}");
            return Err(violation("gang-divided", what));
        }
        Ok(())
    }
}

fn violation(checker: &'static str, what: String) -> Violation {
    Violation { checker, what }
}
