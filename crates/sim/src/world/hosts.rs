//! Machines: boots, agents and their incarnations.

use std::collections::BTreeMap;

use baton_core::protocol::worker::io::GuardOrder;
use baton_core::supervision::lifetime::Lifetime;
use baton_core::supervision::takeover::KnownAttempt;
use baton_model::fact::Holder;
use baton_model::ids::{
    BootId, Epoch, HostId, Incarnation, IncarnationNo, LeaseId, Lineage, WorkerName,
};
use baton_model::outcome::ExitStatus;
use baton_model::state::WorkerState;
use baton_model::task::RunKey;

use super::agents::Agent;
use super::coordinators::Coordinator;
use super::reapers::Reaper;
use super::suspend::Sleep;
use super::work::Workload;
use super::{Event, World};
use crate::machine::disk::Disk;
use crate::machine::processes::{Parent, Processes};
use crate::time::{Clock, Time};

/// The handover file: what is known of attempts that no living coordinator has on record.
#[derive(Clone, Debug, Default)]
pub(super) struct Handover {
    pub(super) guard: Option<GuardOrder>,
    pub(super) attempts: Vec<KnownAttempt>,
}

/// One machine.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) name: WorkerName,
    pub(super) id: HostId,
    pub(super) clock: Clock,
    pub(super) boot: BootId,
    /// The state directory.
    pub(super) lineage: Lineage,
    pub(super) incarnation: IncarnationNo,
    /// The boot in which the incarnation began.
    pub(super) incarnation_boot: BootId,
    /// The epoch of the last leader that was obeyed.
    pub(super) epoch: Epoch,
    pub(super) handover: Handover,
    /// The files of the coordinator.
    pub(super) disk: Disk,
    /// The incarnation was given up: it can only end.
    pub(super) is_dying: bool,
    /// The incarnation has not begun yet.
    pub(super) is_new_incarnation: bool,
    pub(super) processes: Processes,
    pub(super) workload: Workload,
    /// The attempts of runs that were launched.
    pub(super) leases: BTreeMap<RunKey, LeaseId>,
    pub(super) coordinator: Option<Coordinator>,
    pub(super) coordinator_wake: Option<Time>,
    pub(super) reaper: Option<Reaper>,
    pub(super) agent: Option<Agent>,
    pub(super) agent_wake: Option<Time>,
    /// Exit statuses that the agent has reaped, or taken from the reaper, by pid and start time.
    pub(super) exits: BTreeMap<(u32, u64), ExitStatus>,
    /// A held process tells its exit status, also if it was reaped.
    pub(super) tells_statuses: bool,
    pub(super) checks_fail: bool,
    /// It can start no process.
    pub(super) launches_fail: bool,
    pub(super) work_fails: bool,
    /// `None` while it is awake.
    pub(super) sleep: Option<Sleep>,
    /// When its worker ends by itself.
    pub(super) lifetime: Lifetime,
    /// Gone for good.
    pub(super) destroyed: bool,
    /// The coordinator was stopped at some time, or the clock is out of bounds.
    pub(super) excused: bool,
    /// It was cloned, or is a clone.
    pub(super) is_cloned: bool,
}

impl Host {
    pub(super) fn me(&self) -> Holder {
        Holder {
            worker: self.name.clone(),
            incarnation: Incarnation {
                lineage: self.lineage,
                number: self.incarnation,
            },
            host: self.id,
            boot: self.boot,
        }
    }

    /// Who becomes the parent of a part's children when it dies.
    pub(super) const fn heir(&self) -> Parent {
        if self.reaper.is_some() {
            Parent::Reaper
        } else if self.agent.is_some() {
            Parent::Agent
        } else {
            Parent::Init
        }
    }

    pub(super) fn agent_is_awake(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| !agent.paused)
    }
}

impl World {
    pub(super) fn add_host(&mut self, name: &str, clock: Clock) -> usize {
        let index = self.hosts.len();
        let lineage = self.new_lineage();
        let excused = !clock.in_bounds() || self.schedulers.iter().any(|it| !it.clock.in_bounds());
        let tells_statuses = self.host_rng.chance(500);
        self.by_lineage.insert(lineage, vec![index]);
        self.hosts.push(Host {
            name: WorkerName::new(name),
            id: HostId(index as u64 + 1),
            clock,
            boot: BootId(index as u64 * 1_000),
            lineage,
            incarnation: IncarnationNo(0),
            incarnation_boot: BootId(0),
            epoch: Epoch(0),
            handover: Handover::default(),
            disk: Disk::default(),
            is_dying: false,
            is_new_incarnation: false,
            processes: Processes::default(),
            workload: Workload::default(),
            leases: BTreeMap::new(),
            coordinator: None,
            coordinator_wake: None,
            reaper: None,
            agent: None,
            agent_wake: None,
            exits: BTreeMap::new(),
            tells_statuses,
            checks_fail: false,
            launches_fail: false,
            work_fails: false,
            sleep: None,
            lifetime: Lifetime::default(),
            destroyed: false,
            excused,
            is_cloned: false,
        });
        index
    }

    /// Adds a machine with the disk of another one, in a boot of its own.
    pub(super) fn add_clone(&mut self, original: usize, name: &str, mut clock: Clock) -> usize {
        clock.reboot(self.now);
        let index = self.add_host(name, clock);
        self.hosts[original].is_cloned = true;
        for machine in [original, index] {
            self.checkers.truth.cloned(machine, self.now);
        }
        let disk = &self.hosts[original];
        let (id, lineage, incarnation) = (disk.id, disk.lineage, disk.incarnation);
        let (incarnation_boot, epoch) = (disk.incarnation_boot, disk.epoch);
        let (handover, leases) = (disk.handover.clone(), disk.leases.clone());
        let mut files = disk.disk.clone();
        let survivors = self.host_rng.below(files.unsynced() as u64 + 1);
        files.tear(survivors as usize);
        let host = &mut self.hosts[index];
        host.is_cloned = true;
        host.id = id;
        host.lineage = lineage;
        host.incarnation = incarnation;
        host.incarnation_boot = incarnation_boot;
        host.epoch = epoch;
        host.handover = handover;
        host.leases = leases;
        host.disk = files;
        self.by_lineage.entry(lineage).or_default().push(index);
        index
    }

    /// Replaces the state directory of a machine.
    pub(super) fn renew_lineage(&mut self, index: usize) {
        let lineage = self.new_lineage();
        self.by_lineage.insert(lineage, vec![index]);
        let host = &mut self.hosts[index];
        host.lineage = lineage;
        host.incarnation = IncarnationNo(0);
        host.handover = Handover::default();
        host.disk = Disk::default();
    }

    /// Returns the lineage of a new state directory.
    fn new_lineage(&self) -> Lineage {
        Lineage(self.by_lineage.len() as u64 + 1)
    }

    /// Kills everything on the machine at once; the disk survives, unless the state directory is
    /// wiped, too.
    pub(super) fn host_reboot(&mut self, index: usize, wipe: bool, downtime: u64) {
        self.note(&(index, wipe), || {
            format!("h{index} reboots (wiped: {wipe})")
        });
        self.host_dies(index);
        let now = self.now;
        let host = &mut self.hosts[index];
        host.clock.reboot(now);
        host.boot = host.boot.next();
        let survivors = self.host_rng.below(host.disk.unsynced() as u64 + 1);
        host.disk.tear(survivors as usize);
        if wipe {
            self.renew_lineage(index);
        }
        self.at(downtime, Event::AgentStart(index));
    }

    /// Kills every process of a machine; nothing records the outcomes.
    pub(super) fn host_dies(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        host.agent = None;
        host.coordinator = None;
        host.reaper = None;
        host.exits.clear();
        self.all_processes_die(index);
    }

    /// Whether no worker holds an attempt or an unacknowledged record.
    pub(super) fn workers_hold_nothing(&self) -> bool {
        self.hosts.iter().enumerate().all(|(index, host)| {
            let idle = || {
                let coordinator = host.coordinator.iter();
                let mut processes = coordinator.map(|it| &it.process);
                let agent = host.agent.as_ref();
                processes.all(|it| it.host().known_runs() == 0 && !it.has_requests())
                    && agent.is_some_and(|it| it.supervisor.attempts().is_empty())
            };
            host.workload.leases().is_empty()
                && (host.destroyed || self.links.is_severed(index) || idle())
        })
    }

    /// Whether every reachable worker is HEALTHY.
    pub(super) fn workers_are_healthy(&self) -> bool {
        self.hosts.iter().enumerate().all(|(index, host)| {
            host.destroyed
                || self.links.is_severed(index)
                || host
                    .agent
                    .as_ref()
                    .is_some_and(|agent| agent.supervisor.worker().state() == WorkerState::Healthy)
        })
    }
}
