//! The hosts of a gang, in the files that MPI launchers read.
//!
//! The scheduler sends the host of each member in the environment of the launch; slots are the whole cores that the
//! task requests of each. Two members on one host are one line with the sum of their slots, since launchers disagree
//! about a host that is named twice.

use baton_model::spec::{InstanceSpec, NODE_LIST_VARIABLE};

/// The file in the form of Open MPI: `HOST slots=N`.
pub(crate) const HOST_FILE: &str = "baton-hostfile";

/// The file in the form of MPICH: `HOST:N`.
pub(crate) const MACHINE_FILE: &str = "baton-machinefile";

/// The hosts of a gang with their slots, in the order of their first members.
#[derive(Debug)]
pub(crate) struct GangHosts<'a>(Vec<(&'a str, u64)>);

impl<'a> GangHosts<'a> {
    /// Those of an attempt; none if it takes one worker.
    pub(crate) fn of(spec: &'a InstanceSpec) -> Option<Self> {
        if !spec.nodes.is_gang() {
            return None;
        }
        let slots = (spec.request.resources.cpu_milli / 1_000).max(1);
        let list = spec.env.get(NODE_LIST_VARIABLE).map_or("", String::as_str);
        let mut hosts: Vec<(&str, u64)> = Vec::new();
        for host in list.split(',').filter(|host| !host.is_empty()) {
            match hosts.iter_mut().find(|(known, _)| *known == host) {
                Some((_, known)) => *known += slots,
                None => hosts.push((host, slots)),
            }
        }
        Some(Self(hosts))
    }

    pub(crate) fn host_file(&self) -> String {
        let lines = self.0.iter();
        lines
            .map(|(host, slots)| format!("{host} slots={slots}\n"))
            .collect()
    }

    pub(crate) fn machine_file(&self) -> String {
        let lines = self.0.iter();
        lines
            .map(|(host, slots)| format!("{host}:{slots}\n"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use baton_model::spec::Nodes;

    use super::*;

    #[test]
    fn members_on_one_host_add_up() {
        let mut spec = InstanceSpec {
            nodes: Nodes::new(3),
            ..InstanceSpec::default()
        };
        spec.request.resources.cpu_milli = 2_500;
        let list = "node7,node9,node7".to_owned();
        spec.env.insert(NODE_LIST_VARIABLE.to_owned(), list);
        let hosts = GangHosts::of(&spec).expect("a gang");
        assert_eq!(hosts.host_file(), "node7 slots=4\nnode9 slots=2\n");
        assert_eq!(hosts.machine_file(), "node7:4\nnode9:2\n");
    }

    #[test]
    fn a_task_of_one_node_has_no_host_file() {
        assert!(GangHosts::of(&InstanceSpec::default()).is_none());
    }
}
