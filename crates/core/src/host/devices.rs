//! Devices: which ones a launch gets, and when they are free again.
//!
//! **Invariants.**
//! * A device is held by one attempt, or by several whose parts fit on it together.
//! * An attempt gets all devices that it needs, or it does not start.
//! * The devices of an attempt are on record before its process exists, and held until its end is on
//!   record. A task whose runner has died keeps them for its next run, because its processes go on.
//! * The lowest device of the list that is free comes first, so the same requests get the same devices.
//!   Cores are chosen by their nodes instead: see `cores`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use baton_model::coordinator::{CoordinatorRecord, DeviceClaim, Launch};
use baton_model::cpu::{CORE, NodeSizes, Pin};
use baton_model::device::{DeviceLists, DeviceShare, WHOLE};
use baton_model::task::{ProcessNo, RunKey, RunNo};

use super::cores::Cores;
use super::{Host, Turn};

/// The devices of a host, and their holders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Devices {
    /// Those that can be assigned.
    lists: DeviceLists,
    core_nodes: NodeSizes,
    /// Thousandths in use, by resource and device; no entry for a free one. An adopted attempt may
    /// hold a device that is in no list any more.
    used: BTreeMap<(String, String), u64>,
    holders: BTreeMap<ProcessNo, Vec<DeviceShare>>,
}

impl Devices {
    pub(super) fn set_lists(&mut self, lists: DeviceLists, core_nodes: NodeSizes) {
        (self.lists, self.core_nodes) = (lists, core_nodes);
    }

    /// True if they could be assigned, were all devices free.
    pub(super) fn exist_for(&self, claim: &DeviceClaim) -> bool {
        claim.amounts.iter().all(|(resource, milli)| {
            let known = self.lists.get(resource).map_or(0, Vec::len);
            let fits_node = resource != CORE
                || claim.pin != Some(Pin::Socket)
                || milli.div_ceil(WHOLE) <= self.cores().largest_node() as u64;
            milli.div_ceil(WHOLE) <= known as u64 && fits_node
        })
    }

    fn cores(&self) -> Cores<'_> {
        let list = self.lists.get(CORE).map_or(&[][..], Vec::as_slice);
        Cores::new(list, &self.core_nodes)
    }

    /// True if all that a claim needs is free.
    pub(super) fn has_free(&self, claim: &DeviceClaim) -> bool {
        self.select(claim).is_some()
    }

    /// The devices that a claim gets now; `None` if too few are free.
    fn select(&self, claim: &DeviceClaim) -> Option<Vec<DeviceShare>> {
        let mut shares = Vec::new();
        for (resource, milli) in claim.amounts.iter().filter(|(_, milli)| **milli > 0) {
            let (count, part) = match *milli {
                part if part < WHOLE => (1, part),
                whole => (usize::try_from(whole.div_ceil(WHOLE)).ok()?, WHOLE),
            };
            let is_free = |id: &String| self.used_of(resource, id) + part <= WHOLE;
            let chosen: Vec<&String> = match claim.pin {
                Some(pin) if resource == CORE => self.cores().select(count, pin, is_free)?,
                _ => {
                    let list = self.lists.get(resource)?.iter();
                    list.filter(|id| is_free(id)).take(count).collect()
                }
            };
            if chosen.len() < count {
                return None;
            }
            shares.extend(chosen.into_iter().map(|id| DeviceShare {
                resource: resource.clone(),
                id: id.clone(),
                milli: part,
            }));
        }
        Some(shares)
    }

    fn used_of(&self, resource: &str, id: &str) -> u64 {
        let key = (resource.to_owned(), id.to_owned());
        self.used.get(&key).copied().unwrap_or(0)
    }

    /// Lets an attempt hold devices, unless it holds some already.
    pub(super) fn hold(&mut self, process: ProcessNo, shares: Vec<DeviceShare>) {
        if shares.is_empty() || self.holders.contains_key(&process) {
            return;
        }
        for share in &shares {
            let key = (share.resource.clone(), share.id.clone());
            *self.used.entry(key).or_default() += share.milli;
        }
        self.holders.insert(process, shares);
    }

    /// The devices of an attempt.
    pub(super) fn of(&self, process: ProcessNo) -> &[DeviceShare] {
        self.holders.get(&process).map_or(&[], Vec::as_slice)
    }

    fn holders(&self) -> impl Iterator<Item = ProcessNo> + '_ {
        self.holders.keys().copied()
    }

    pub(super) fn are_free(&self) -> bool {
        self.holders.is_empty()
    }

    /// Frees the devices of an attempt that is over.
    pub(super) fn free(&mut self, process: ProcessNo) {
        for share in self.holders.remove(&process).unwrap_or_default() {
            let key = (share.resource.clone(), share.id.clone());
            let used = self.used.remove(&key).unwrap_or(0);
            assert!(
                used >= share.milli,
                "{share} is freed, and {used} were in use"
            );
            if used > share.milli {
                self.used.insert(key, used - share.milli);
            }
        }
    }
}

impl Host {
    /// True if no device could ever be assigned to a launch: this host does not have them.
    pub(super) fn lacks_devices(&self, run: RunKey, launch: &Launch) -> bool {
        run.run == RunNo(0) && !self.devices.exist_for(&launch.devices)
    }

    /// Assigns the devices of a launch, and tells its process. A later run has those of the run
    /// before it: its processes use them.
    pub(super) fn assign_devices(&mut self, turn: &mut Turn<'_>, run: RunKey, launch: &mut Launch) {
        let claim = &launch.devices;
        if run.run > RunNo(0) {
            self.devices.hold(run.process, claim.held.clone());
        } else {
            let shares = self.devices.select(claim);
            let shares = shares.unwrap_or_else(|| panic!("{run} starts without its devices"));
            self.devices.hold(run.process, shares);
        }
        let shares = self.devices.of(run.process);
        if let Some(pin) = launch.devices.pin {
            launch.cpus = self.devices.cores().cpus(shares, pin);
        }
        for (variable, resource) in &launch.devices.variables {
            let value = if resource == CORE {
                launch.cpus.to_string()
            } else {
                let ids = shares.iter().filter(|share| share.resource == *resource);
                let ids: Vec<&str> = ids.map(|share| share.id.as_str()).collect();
                ids.join(",")
            };
            launch.env.retain(|(name, _)| name != variable);
            launch.env.push((variable.clone(), value));
        }
        if !shares.is_empty() {
            turn.record(CoordinatorRecord::Assigned {
                run,
                devices: shares.to_vec(),
            });
        }
    }

    /// Frees the devices of an attempt of which no run is left.
    pub(super) fn free_absent(&mut self, process: ProcessNo) {
        let mut runs = self.table.runs.range(runs_of(process));
        if !runs.any(|(_, run)| run.is_live()) && !self.queue.has_process(process) {
            self.devices.free(process);
        }
    }

    /// Frees the devices of all attempts of which no run is left: everything was killed, and the next
    /// incarnation does not know them.
    pub(super) fn free_all_absent(&mut self) {
        for process in self.devices.holders().collect::<Vec<_>>() {
            self.free_absent(process);
        }
    }
}

/// The keys of all runs of a process.
pub(super) fn runs_of(process: ProcessNo) -> RangeInclusive<RunKey> {
    let key = |run| RunKey { process, run };
    key(RunNo(0))..=key(RunNo(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(ids: &[&str]) -> Devices {
        let mut devices = Devices::default();
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        devices.set_lists([("gpu".to_owned(), ids)].into(), NodeSizes::new());
        devices
    }

    fn claim(milli: u64) -> DeviceClaim {
        DeviceClaim {
            amounts: [("gpu".to_owned(), milli)].into(),
            ..DeviceClaim::default()
        }
    }

    /// The ids that a new attempt gets.
    fn assign(devices: &mut Devices, process: u32, milli: u64) -> Option<Vec<String>> {
        let shares = devices.select(&claim(milli))?;
        devices.hold(ProcessNo(process), shares.clone());
        Some(shares.into_iter().map(|share| share.id).collect())
    }

    #[test]
    fn the_lowest_free_devices_are_assigned() {
        let mut devices = devices(&["a", "b", "c"]);
        assert_eq!(
            assign(&mut devices, 1, 2_000),
            Some(vec!["a".into(), "b".into()])
        );
        assert_eq!(assign(&mut devices, 2, 2_000), None);
        assert_eq!(assign(&mut devices, 3, 1_000), Some(vec!["c".into()]));
        devices.free(ProcessNo(1));
        devices.free(ProcessNo(1));
        assert_eq!(assign(&mut devices, 4, 1_000), Some(vec!["a".into()]));
        assert_eq!(assign(&mut devices, 5, 1_000), Some(vec!["b".into()]));
        assert_eq!(assign(&mut devices, 6, 1), None);
    }

    #[test]
    fn parts_share_a_device_only_if_they_fit() {
        let mut devices = devices(&["a", "b"]);
        assert_eq!(assign(&mut devices, 1, 600), Some(vec!["a".into()]));
        assert_eq!(assign(&mut devices, 2, 600), Some(vec!["b".into()]));
        assert_eq!(assign(&mut devices, 3, 600), None);
        assert_eq!(assign(&mut devices, 4, 400), Some(vec!["a".into()]));
        devices.free(ProcessNo(1));
        assert_eq!(
            assign(&mut devices, 5, 1_000),
            None,
            "a part of each is in use"
        );
        assert_eq!(assign(&mut devices, 6, 600), Some(vec!["a".into()]));
    }

    #[test]
    fn an_adopted_device_is_held_also_if_it_is_in_no_list() {
        let mut devices = devices(&["a"]);
        let held = |id: &str| DeviceShare {
            resource: "gpu".to_owned(),
            id: id.to_owned(),
            milli: WHOLE,
        };
        devices.hold(ProcessNo(1), vec![held("a"), held("gone")]);
        assert_eq!(assign(&mut devices, 2, 1_000), None);
        devices.free(ProcessNo(1));
        assert_eq!(assign(&mut devices, 2, 1_000), Some(vec!["a".into()]));
        assert!(!devices.exist_for(&claim(2_000)), "it was never there");
    }
}
