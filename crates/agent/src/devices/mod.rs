//! Devices of this host: which GPUs it has, which of them the worker may use, and what their users
//! are told.
//!
//! | file | holds |
//! |---|---|
//! | `parse` | the formats of drivers, as pure functions |
//! | `cores` | the cores that this process may use, by NUMA node |
//! | `granted` | what an outer scheduler has granted, from environment variables |

mod cores;
mod granted;
mod parse;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_model::coordinator::DeviceClaim;
use baton_model::cpu::CORE;
use baton_model::device::{GPU, WHOLE};
use baton_model::placement::Offer;
use baton_model::task::Resources;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

pub use cores::{Cores, discover as discover_cores};

/// How long `nvidia-smi` may take: loading the driver takes seconds, and a broken card blocks it.
const LISTING_MAX: Duration = Duration::from_secs(20);
/// Bytes that are read of its output, and of a file of a driver.
const LISTING_BYTES_MAX: usize = 256 << 10;

/// The maker of GPUs, which decides how a process is told which ones it may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vendor {
    #[default]
    Nvidia,
    Amd,
}

/// The GPUs of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpus {
    pub vendor: Vendor,
    /// Their UUIDs where these are known, else their indices.
    pub ids: Vec<String>,
}

/// The GPUs that this process may use.
#[must_use]
pub fn discover() -> Gpus {
    let found = find(Path::new("/proc"), Path::new("/sys"), || {
        let mut command = Command::new("nvidia-smi");
        listing(command.arg("-L"), LISTING_MAX)
    });
    let ids = granted::restrict(found.ids, |name| std::env::var(name).ok());
    Gpus { ids, ..found }
}

/// The GPUs of the host with these file systems. NVIDIA's tool knows parts of cards (MIG), and is
/// asked first.
fn find(proc: &Path, sys: &Path, nvidia_smi: impl FnOnce() -> Option<String>) -> Gpus {
    let cards = entries(&proc.join("driver/nvidia/gpus"), "information");
    let listed = nvidia_smi().map(|text| parse::nvidia_list(&text));
    let nvidia = match listed {
        Some(ids) if !ids.is_empty() => ids,
        _ => parse::nvidia_cards(cards.iter().map(|(_, text)| text.as_str())),
    };
    if !nvidia.is_empty() {
        let (vendor, ids) = (Vendor::Nvidia, nvidia);
        return Gpus { vendor, ids };
    }
    let nodes = sys.join("class/kfd/kfd/topology/nodes");
    let properties: BTreeMap<u32, String> = entries(&nodes, "properties")
        .into_iter()
        .filter_map(|(name, text)| Some((name.parse().ok()?, text)))
        .collect();
    let ids = parse::kfd_nodes(properties.values().map(String::as_str));
    let vendor = if ids.is_empty() {
        Vendor::Nvidia
    } else {
        Vendor::Amd
    };
    Gpus { vendor, ids }
}

/// The content of this file in every directory below `dir`, ordered by the directory's name. What
/// cannot be read, such as the device of another container, is left out.
fn entries(dir: &Path, file: &str) -> Vec<(String, String)> {
    let read = |path: &Path| {
        let mut text = String::new();
        let file = fs::File::open(path).ok()?;
        let limit = u64::try_from(LISTING_BYTES_MAX).ok()?;
        file.take(limit).read_to_string(&mut text).ok()?;
        Some(text)
    };
    let found = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<(String, String)> = found
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((name, read(&entry.path().join(file))?))
        })
        .collect();
    found.sort();
    found
}

/// The output of a command that has succeeded in time.
fn listing(command: &mut Command, wait: Duration) -> Option<String> {
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
    let read = read_until(&mut child, Instant::now() + wait);
    if read.is_none() {
        tracing::warn!("{command:?} takes too long; its devices are looked for elsewhere");
        // One that is stuck in the kernel is not waited for.
        let _ = child.kill();
        let _ = child.try_wait();
        return None;
    }
    let succeeded = child.wait().is_ok_and(|status| status.success());
    read.filter(|_| succeeded)
}

/// The output of a process up to its end; `None` if that does not come in time, or it is too long.
fn read_until(child: &mut Child, until: Instant) -> Option<String> {
    let mut out = child.stdout.take()?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 4_096];
    while bytes.len() <= LISTING_BYTES_MAX {
        let left = until.checked_duration_since(Instant::now())?;
        let left = Timespec::try_from(left).ok()?;
        if poll(&mut [PollFd::new(&out, PollFlags::IN)], Some(&left)).ok()? == 0 {
            return None;
        }
        match out.read(&mut buffer).ok()? {
            0 => return String::from_utf8(bytes).ok(),
            read => bytes.extend_from_slice(&buffer[..read]),
        }
    }
    None
}

/// The variable with the CPUs of a pinned attempt.
const CPUS: &str = "BATON_CPUS";

/// The devices that a worker can assign, and the variables that name them.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceVariables {
    /// The resource that each variable lists.
    by_name: BTreeMap<String, String>,
}

impl DeviceVariables {
    pub(crate) fn new(offer: &Offer, vendor: Vendor) -> Self {
        let mut by_name = BTreeMap::new();
        for (resource, _) in offer.devices.iter().filter(|it| !it.1.is_empty()) {
            let names = match (resource.as_str(), vendor) {
                (CORE, _) => vec![CPUS.to_owned()],
                (GPU, Vendor::Nvidia) => [
                    "BATON_GPUS",
                    "CUDA_VISIBLE_DEVICES",
                    "NVIDIA_VISIBLE_DEVICES",
                ]
                .map(str::to_owned)
                .to_vec(),
                // CUDA_VISIBLE_DEVICES would count among those that ROCR leaves.
                (GPU, Vendor::Amd) => ["BATON_GPUS", "ROCR_VISIBLE_DEVICES"]
                    .map(str::to_owned)
                    .to_vec(),
                (other, _) => vec![variable(other)],
            };
            by_name.extend(names.into_iter().map(|name| (name, resource.clone())));
        }
        Self { by_name }
    }

    /// The names, in their order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// The claim of an attempt. It claims nothing of resources whose devices are not known here,
    /// except GPUs and cores: without them it must not start.
    pub(crate) fn claim(&self, offer: &Offer, resources: &Resources) -> DeviceClaim {
        let mut amounts = BTreeMap::new();
        if !resources.gpu.is_zero() {
            amounts.insert(GPU.to_owned(), resources.gpu.milli());
        }
        let mut variables = self.by_name.clone();
        if resources.pin.is_some() {
            amounts.insert(CORE.to_owned(), resources.cores().saturating_mul(WHOLE));
        } else {
            // It is bound to nothing, so there is nothing to say.
            variables.remove(CPUS);
        }
        for resource in offer
            .devices
            .keys()
            .filter(|name| *name != GPU && *name != CORE)
        {
            let count = resources.named.get(resource).copied().unwrap_or(0);
            if count > 0 {
                amounts.insert(resource.clone(), count.saturating_mul(WHOLE));
            }
        }
        DeviceClaim {
            amounts,
            variables,
            held: Vec::new(),
            pin: resources.pin,
        }
    }
}

/// The variable that lists the devices of a resource: `BATON_RESOURCE_DB_ORDERS` for `db/orders`.
fn variable(resource: &str) -> String {
    let word = resource.chars().map(|letter| match letter {
        'a'..='z' => letter.to_ascii_uppercase(),
        'A'..='Z' | '0'..='9' => letter,
        _ => '_',
    });
    format!("BATON_RESOURCE_{}", word.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::device::DeviceAmount;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }

    #[test]
    fn the_tool_comes_first_and_the_files_of_drivers_follow() {
        let root = tempfile::tempdir().expect("a directory");
        let (proc, sys) = (root.path().join("proc"), root.path().join("sys"));
        let found = |listed: Option<&str>| find(&proc, &sys, || listed.map(str::to_owned));
        assert_eq!(found(None), Gpus::default());
        let nodes = "class/kfd/kfd/topology/nodes";
        write(
            &sys,
            &format!("{nodes}/0/properties"),
            "cpu_cores_count 8\nsimd_count 0\n",
        );
        for node in [10, 2] {
            let text = format!("cpu_cores_count 0\nsimd_count 240\nunique_id {node}\n");
            write(&sys, &format!("{nodes}/{node}/properties"), &text);
        }
        let amd = found(None);
        let ids = ["GPU-0000000000000002", "GPU-000000000000000a"].map(str::to_owned);
        assert_eq!((amd.vendor, amd.ids), (Vendor::Amd, ids.to_vec()));
        let cards = "driver/nvidia/gpus";
        write(
            &proc,
            &format!("{cards}/0000:01:00.0/information"),
            "GPU UUID: \t GPU-b\n",
        );
        write(
            &proc,
            &format!("{cards}/0000:00:06.0/information"),
            "GPU UUID: \t GPU-a\n",
        );
        assert_eq!(
            found(Some("")).ids,
            ["GPU-a", "GPU-b"],
            "the tool has failed"
        );
        let listed = found(Some("GPU 0: NVIDIA H200 (UUID: GPU-c)\n"));
        assert_eq!(
            (listed.vendor, listed.ids),
            (Vendor::Nvidia, vec!["GPU-c".to_owned()])
        );
    }

    #[test]
    fn a_tool_that_hangs_or_fails_is_not_believed() {
        let shell = |script: &str, wait: Duration| {
            let mut command = Command::new("sh");
            listing(command.args(["-c", script]), wait)
        };
        let long = Duration::from_secs(60);
        assert_eq!(shell("echo GPU", long).as_deref(), Some("GPU\n"));
        assert_eq!(shell("echo GPU; exit 1", long), None);
        assert_eq!(shell("yes", long), None, "it says too much");
        assert_eq!(shell("exec sleep 600", Duration::from_millis(50)), None);
        assert_eq!(listing(&mut Command::new("/not/there"), long), None);
    }

    #[test]
    fn variables_follow_the_vendor_and_the_names_of_resources() {
        let ids = |count: usize| (0..count).map(|id| id.to_string()).collect();
        let offer = Offer {
            devices: [("gpu", 2), ("db/fpga-x", 1), ("none", 0)]
                .map(|(name, count)| (name.to_owned(), ids(count)))
                .into(),
            ..Offer::default()
        };
        let names = |vendor| {
            let variables = DeviceVariables::new(&offer, vendor);
            variables.names().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            names(Vendor::Nvidia),
            [
                "BATON_GPUS",
                "BATON_RESOURCE_DB_FPGA_X",
                "CUDA_VISIBLE_DEVICES",
                "NVIDIA_VISIBLE_DEVICES"
            ]
        );
        assert_eq!(
            names(Vendor::Amd),
            [
                "BATON_GPUS",
                "BATON_RESOURCE_DB_FPGA_X",
                "ROCR_VISIBLE_DEVICES"
            ]
        );
        let mut resources = Resources {
            gpu: DeviceAmount::from_milli(500),
            ..Resources::default()
        };
        resources.named.insert("db/fpga-x".to_owned(), 1);
        resources.named.insert("licence".to_owned(), 3);
        let claim = DeviceVariables::new(&offer, Vendor::Nvidia).claim(&offer, &resources);
        let amounts: Vec<(String, u64)> = claim.amounts.into_iter().collect();
        let expected = [("db/fpga-x", 1_000), ("gpu", 500)];
        assert_eq!(
            amounts,
            expected.map(|(name, milli)| (name.to_owned(), milli))
        );
    }
}
