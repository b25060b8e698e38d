//! The capacity of this machine.

use std::fs;
use std::path::Path;

use baton_model::placement::Capacity;

/// The resources that this process may use: CPUs by its affinity and its control group's quota,
/// memory by the machine's and the group's limit, and the free disk space below `state`. For GPUs see
/// [`devices`](crate::devices).
#[must_use]
pub fn discover(state: &Path) -> Capacity {
    Capacity {
        cpu_milli: cpu_milli(),
        memory: memory(),
        disk: free_disk(state),
        ..Capacity::default()
    }
}

fn cpu_milli() -> u64 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let all = cores * 1_000;
    let quota = cgroup_file("cpu.max").and_then(|text| quota_milli(&text));
    quota.map_or(all, |quota| quota.clamp(1, all))
}

/// `MAX PERIOD`, in microseconds.
fn quota_milli(text: &str) -> Option<u64> {
    let (max, period) = text.trim().split_once(' ')?;
    let (max, period): (u64, u64) = (max.parse().ok()?, period.parse().ok()?);
    max.checked_mul(1_000)?.checked_div(period)
}

fn memory() -> u64 {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let all = total_memory(&info).unwrap_or(0);
    let limit = cgroup_file("memory.max").and_then(|text| text.trim().parse().ok());
    limit.map_or(all, |limit: u64| limit.min(all))
}

fn total_memory(info: &str) -> Option<u64> {
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1_024)
}

/// The free disk space at a path, or at its nearest existing ancestor.
fn free_disk(path: &Path) -> u64 {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path
        .ancestors()
        .find_map(|path| rustix::fs::statvfs(path).ok());
    found.map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// A file of this process's control group, if it is a version 2 group.
fn cgroup_file(name: &str) -> Option<String> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let path = Path::new("/sys/fs/cgroup").join(path).join(name);
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_something() {
        let all = discover(Path::new("/not/there"));
        assert!(all.cpu_milli > 0 && all.memory > 0, "{all:?}");
    }

    #[test]
    fn quotas_and_memory_are_read() {
        assert_eq!(quota_milli("150000 100000\n"), Some(1_500));
        assert_eq!(quota_milli("max 100000\n"), None);
        assert_eq!(quota_milli("1 0\n"), None);
        assert_eq!(
            total_memory("MemTotal:  2 kB\nMemFree: 1 kB\n"),
            Some(2_048)
        );
    }
}
