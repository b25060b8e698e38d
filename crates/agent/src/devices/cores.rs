//! Cores: which CPUs this process may use, how they form cores, and on which NUMA nodes these are.
//!
//! A core has the hardware threads that the kernel calls siblings, as far as this process may use them: its
//! affinity, within the cpuset of its control group, comes from whatever started it, such as a step of Slurm
//! or `taskset`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use baton_model::cpu::{CpuList, NodeSizes};
use rustix::thread::{CpuSet, sched_getaffinity};

/// The cores of a host, node by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cores {
    /// Each as the list of its CPUs.
    pub ids: Vec<String>,
    pub nodes: NodeSizes,
}

/// The cores that this process may use.
///
/// # Errors
/// If the kernel does not tell the topology, as in some sandboxes.
pub fn discover() -> io::Result<Cores> {
    let set = sched_getaffinity(None)?;
    let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    let allowed: CpuList = cpus.filter_map(|cpu| u32::try_from(cpu).ok()).collect();
    read(Path::new("/sys"), &allowed)
}

/// The cores of the host with this file system, as far as these CPUs go.
fn read(sys: &Path, allowed: &CpuList) -> io::Result<Cores> {
    let cpus = sys.join("devices/system/cpu");
    // A kernel without hotplug has no list of CPUs that are online: all are.
    let usable = match list(&cpus.join("online")) {
        Ok(online) => online.intersection(allowed),
        Err(error) if error.kind() == io::ErrorKind::NotFound => allowed.clone(),
        Err(error) => return Err(error),
    };
    let nodes = memory_nodes(&sys.join("devices/system/node"))?;
    let mut found: BTreeMap<u32, BTreeMap<Option<u32>, CpuList>> = BTreeMap::new();
    for cpu in usable.iter() {
        let topology = cpus.join(format!("cpu{cpu}/topology"));
        let siblings = siblings(&topology)?.intersection(&usable);
        let node = match nodes.iter().find(|(_, cpus)| cpus.contains(cpu)) {
            Some((node, _)) => *node,
            None => package(&topology)?,
        };
        // Siblings of which this CPU is none would leave it without a core.
        let core = if siblings.contains(cpu) {
            siblings
        } else {
            [cpu].into_iter().collect()
        };
        let first = core.iter().next();
        found.entry(node).or_default().insert(first, core);
    }
    let cores = found.values().flat_map(BTreeMap::values);
    let ids: Vec<String> = cores.map(ToString::to_string).collect();
    if ids.is_empty() {
        return Err(io::Error::other(
            "none of the CPUs that it may use is online",
        ));
    }
    let nodes = found
        .values()
        .filter_map(|cores| u32::try_from(cores.len()).ok());
    let nodes = nodes.collect();
    Ok(Cores { ids, nodes })
}

/// The CPUs of each NUMA node; none where the kernel has no NUMA.
fn memory_nodes(dir: &Path) -> io::Result<BTreeMap<u32, CpuList>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(about(dir, &error)),
    };
    let mut nodes = BTreeMap::new();
    for entry in entries {
        let path = entry.map_err(|error| about(dir, &error))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix("node")?.parse().ok());
        if let Some(number) = number {
            nodes.insert(number, list(&path.join("cpulist"))?);
        }
    }
    Ok(nodes)
}

/// The CPUs of a core; kernels before 5.0 have the older name only.
fn siblings(topology: &Path) -> io::Result<CpuList> {
    match list(&topology.join("core_cpus_list")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            list(&topology.join("thread_siblings_list"))
        }
        found => found,
    }
}

/// The socket of a CPU, in place of its node; 0 where the kernel knows none, and says -1.
fn package(topology: &Path) -> io::Result<u32> {
    let file = topology.join("physical_package_id");
    match fs::read_to_string(&file) {
        Ok(text) => Ok(text.trim().parse().unwrap_or(0)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(about(&file, &error)),
    }
}

fn list(file: &Path) -> io::Result<CpuList> {
    let text = fs::read_to_string(file).map_err(|error| about(file, &error))?;
    let list = text.parse();
    list.map_err(|error| about(file, &io::Error::new(io::ErrorKind::InvalidData, error)))
}

fn about(file: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system of the kernel with these files below `devices/system`.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = root.path().join("devices/system").join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        }
        root
    }

    fn cores(files: &[(&str, &str)], allowed: &str) -> io::Result<Cores> {
        read(tree(files).path(), &allowed.parse().expect("a list"))
    }

    fn ids(cores: &Cores) -> String {
        cores.ids.join(" ")
    }

    /// Two sockets with two cores of two threads each, numbered as by most firmware: the second threads after
    /// all first ones, and the sockets in turn.
    const TWO_SOCKETS: &[(&str, &str)] = &[
        ("cpu/online", "0-7\n"),
        ("cpu/cpu0/topology/core_cpus_list", "0,4\n"),
        ("cpu/cpu1/topology/core_cpus_list", "1,5\n"),
        ("cpu/cpu2/topology/core_cpus_list", "2,6\n"),
        ("cpu/cpu3/topology/core_cpus_list", "3,7\n"),
        ("cpu/cpu4/topology/core_cpus_list", "0,4\n"),
        ("cpu/cpu5/topology/core_cpus_list", "1,5\n"),
        ("cpu/cpu6/topology/core_cpus_list", "2,6\n"),
        ("cpu/cpu7/topology/core_cpus_list", "3,7\n"),
        ("node/node0/cpulist", "0,2,4,6\n"),
        ("node/node1/cpulist", "1,3,5,7\n"),
        ("node/node2/cpulist", "\n"),
        ("node/possible", "0-2\n"),
    ];

    #[test]
    fn threads_form_cores_and_cores_form_nodes() {
        let all = cores(TWO_SOCKETS, "0-7").expect("read");
        assert_eq!(ids(&all), "0,4 2,6 1,5 3,7");
        assert_eq!(all.nodes, [2, 2]);
    }

    #[test]
    fn only_what_the_process_may_use_counts() {
        let some = cores(TWO_SOCKETS, "1-4,9").expect("read");
        assert_eq!(ids(&some), "2 4 1 3");
        assert_eq!(some.nodes, [2, 2]);
        let one = cores(TWO_SOCKETS, "5").expect("read");
        assert_eq!((ids(&one), one.nodes), ("5".to_owned(), vec![1]));
    }

    #[test]
    fn offline_cpus_are_left_out() {
        let mut files = TWO_SOCKETS.to_vec();
        files.retain(|(path, _)| !path.starts_with("cpu/cpu6"));
        files[0].1 = "0-5,7";
        let all = cores(&files, "0-7").expect("read");
        assert_eq!(ids(&all), "0,4 2 1,5 3,7");
    }

    #[test]
    fn one_core_without_nodes_and_threads_is_enough() {
        let files = [("cpu/cpu0/topology/thread_siblings_list", "0\n")];
        let all = cores(&files, "0").expect("read");
        assert_eq!((ids(&all), all.nodes), ("0".to_owned(), vec![1]));
    }

    #[test]
    fn sockets_stand_in_for_nodes() {
        let files = [
            ("cpu/cpu0/topology/core_cpus_list", "0\n"),
            ("cpu/cpu0/topology/physical_package_id", "1\n"),
            ("cpu/cpu1/topology/core_cpus_list", "1\n"),
            ("cpu/cpu1/topology/physical_package_id", "-1\n"),
        ];
        let all = cores(&files, "0-1").expect("read");
        assert_eq!((ids(&all), all.nodes), ("1 0".to_owned(), vec![1, 1]));
    }

    #[test]
    fn a_topology_that_cannot_be_read_is_an_error_with_its_file() {
        let error = cores(&[("cpu/online", "0-1\n")], "0-1").expect_err("no topology");
        assert!(error.to_string().contains("cpu0/topology"), "{error}");
        let error = cores(&[("cpu/online", "all\n")], "0").expect_err("no list");
        assert!(error.to_string().contains("cpu/online"), "{error}");
        let error = cores(TWO_SOCKETS, "8-9").expect_err("other CPUs");
        assert!(error.to_string().contains("online"), "{error}");
    }

    #[test]
    fn this_host_is_read() {
        let found = discover().expect("the test runs where Linux tells its topology");
        let sum: u32 = found.nodes.iter().sum();
        assert_eq!(sum as usize, found.ids.len());
    }
}
