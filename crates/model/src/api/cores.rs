//! The cores of a worker, in words.

use super::Worker;
use crate::cpu::{CORE, CpuList};

impl Worker {
    /// Its CPUs by the attempts that hold their cores, in the order of the CPUs; `free` for those of none. Empty if
    /// all are free: most workers run nothing that is pinned.
    #[must_use]
    pub fn cores(&self) -> Vec<(CpuList, String)> {
        let mut groups: Vec<(CpuList, String)> = Vec::new();
        for device in self.devices.iter().filter(|it| it.resource == CORE) {
            let holders = device.holders.iter();
            let holders: Vec<String> = holders
                .map(|holder| format!("{}.{}", holder.instance, holder.attempt))
                .collect();
            let holders = if holders.is_empty() {
                "free".to_owned()
            } else {
                holders.join(" ")
            };
            // An id of another worker's version may be none of CPUs.
            let cpus: CpuList = device.id.parse().unwrap_or_default();
            match groups.iter_mut().find(|(_, known)| *known == holders) {
                Some((group, _)) => group.extend(cpus.iter()),
                None => groups.push((cpus, holders)),
            }
        }
        groups.sort();
        if groups.iter().all(|(_, holders)| holders == "free") {
            groups.clear();
        }
        groups
    }
}
