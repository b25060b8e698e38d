//! Checkers of devices: none is held twice, and none is lost.

use std::collections::BTreeMap;

use baton_model::coordinator::Launch;
use baton_model::cpu::{CpuList, Pin};
use baton_model::device::{GPU, WHOLE};
use baton_model::ids::LeaseId;

use super::{Truth, Violation};

/// The variable that names the devices of a process.
pub const DEVICES: &str = "BATON_GPUS";

/// The variable that names the CPUs of a process.
pub const CPUS: &str = "BATON_CPUS";

/// The devices of an attempt, as its first process was told.
#[derive(Clone, Debug)]
struct Held {
    host: usize,
    ids: Vec<String>,
    /// Thousandths of each.
    milli: u64,
    /// Those of the cores that it has for itself; what its processes are bound to, if it is pinned.
    cpus: CpuList,
    pin: Option<Pin>,
}

/// What attempts were told about their devices.
#[derive(Debug, Default)]
pub(super) struct DeviceChecks {
    held: BTreeMap<LeaseId, Held>,
}

impl DeviceChecks {
    /// Checks the devices of an attempt that starts: it has as many as it needs, and nothing that lives
    /// uses them.
    pub(super) fn started(
        &mut self,
        lease: LeaseId,
        host: usize,
        launch: &Launch,
        truth: &Truth,
    ) -> Result<(), Violation> {
        let needed = launch.devices.amounts.get(GPU).copied().unwrap_or(0);
        let held = Held {
            host,
            ids: devices(launch),
            milli: needed.min(WHOLE),
            cpus: launch.cpus.clone(),
            pin: launch.devices.pin,
        };
        let count = needed.div_ceil(WHOLE);
        if held.ids.len() as u64 != count {
            let what = format!("{lease} needs {count} devices, and has {:?}", held.ids);
            return Err(violation("device-missing", what));
        }
        check_cpus(lease, launch)?;
        self.held
            .retain(|other, _| *other != lease && truth.live(*other).is_some());
        for id in &held.ids {
            let users = self.held.iter();
            let users = users.filter(|(_, it)| it.host == host && it.ids.contains(id));
            let used: u64 = users.clone().map(|(_, it)| it.milli).sum();
            if used + held.milli > WHOLE {
                let users: Vec<String> = users.map(|(other, _)| other.to_string()).collect();
                let what = format!("{lease} got device {id} of h{host}, which {users:?} use");
                return Err(violation("device-shared", what));
            }
        }
        if held.pin == Some(Pin::Cores) {
            let exclusive = |it: &Held| it.host == host && it.pin == Some(Pin::Cores);
            let mut users = self.held.iter().filter(|(_, it)| exclusive(it));
            if let Some((other, _)) =
                users.find(|(_, it)| !it.cpus.intersection(&held.cpus).is_empty())
            {
                let what = format!(
                    "{lease} got CPUs {} of h{host}, which {other} uses",
                    held.cpus
                );
                return Err(violation("device-shared", what));
            }
        }
        self.held.insert(lease, held);
        Ok(())
    }

    /// Checks the devices of a later run: its task keeps them.
    pub(super) fn resumed(&self, lease: LeaseId, launch: &Launch) -> Result<(), Violation> {
        match self.held.get(&lease) {
            Some(held) if held.cpus != launch.cpus => {
                let (before, now) = (&held.cpus, &launch.cpus);
                let what = format!("{lease} had CPUs {before}, and its next runner has {now}");
                Err(violation("device-missing", what))
            }
            Some(held) if held.ids != devices(launch) => {
                let (before, now) = (&held.ids, devices(launch));
                let what = format!("{lease} had {before:?}, and its next runner has {now:?}");
                Err(violation("device-missing", what))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that a pinned process is told what it is bound to, and that it has a whole core.
fn check_cpus(lease: LeaseId, launch: &Launch) -> Result<(), Violation> {
    let mut variables = launch.env.iter();
    let told = variables.find(|(name, _)| name == CPUS);
    let told = told.map_or("", |(_, cpus)| cpus.as_str());
    let cores = launch.cpus.iter().count() / 2;
    let is_enough = match launch.devices.pin {
        None => cores == 0,
        Some(Pin::Cores) => cores == 1,
        Some(Pin::Socket) => cores >= 1,
    };
    if is_enough && told == launch.cpus.to_string() {
        return Ok(());
    }
    let what = format!(
        "{lease} is bound to CPUs {}, and is told {told:?}",
        launch.cpus
    );
    Err(violation("device-missing", what))
}

fn violation(checker: &'static str, what: String) -> Violation {
    Violation { checker, what }
}

/// The devices that a process is told.
fn devices(launch: &Launch) -> Vec<String> {
    let mut variables = launch.env.iter();
    let found = variables.find(|(name, _)| name == DEVICES);
    let ids = found.map_or("", |(_, ids)| ids.as_str()).split(',');
    ids.filter(|id| !id.is_empty()).map(str::to_owned).collect()
}
