//! The calls of the host, on the processes of a machine.

use std::collections::BTreeMap;
use std::fmt;

use baton_core::host::kernel::{Candidate, HeldExit, Kernel, Listing, SIGKILL, StrayChild, Sweep};
use baton_model::coordinator::{AttemptPaths, Launch, Usage};
use baton_model::ids::BootId;
use baton_model::task::{Identity, RunKey};
use baton_model::time::{Millis, Now};

use super::processes::{Parent, Process, Processes};

/// The kernel, as a coordinator sees it.
pub struct Calls<'a> {
    pub now: Now,
    pub boot: BootId,
    pub processes: &'a mut Processes,
    /// The processes that the coordinator holds.
    pub held: &'a mut BTreeMap<RunKey, Identity>,
    /// A held process tells its exit status, also if it was reaped.
    pub tells_statuses: bool,
    /// Processes were searched and killed, which takes time.
    pub has_killed: bool,
}

impl Calls<'_> {
    fn selected(&self, sweep: &Sweep<'_>) -> Vec<u32> {
        let living = self.processes.living();
        let selected = living.filter(|(pid, process)| {
            let has_mark = |wanted: &dyn Fn(RunKey) -> bool| process.mark.is_some_and(wanted);
            let candidate = Candidate {
                pid: *pid,
                pgrp: process.pgrp,
                session: process.pgrp,
                has_mark: &has_mark,
            };
            // Children of a dead coordinator have become those of the reaper or of the agent.
            let is_descendant = || self.processes.ancestor(*pid) != Parent::Init;
            let is_marked = sweep.mark.is_some_and(has_mark);
            ((sweep.descendants && is_descendant()) || is_marked) && (sweep.filter)(&candidate)
        });
        selected.map(|(pid, _)| pid).collect()
    }

    fn find_held(&self, run: RunKey) -> Option<(u32, &Process)> {
        let identity = self.held.get(&run)?;
        let process = self.processes.get(identity.pid)?;
        (process.start_ticks == identity.start_ticks).then_some((identity.pid, process))
    }
}

impl Kernel for Calls<'_> {
    fn now(&self) -> Now {
        self.now
    }

    fn log(&mut self, _: fmt::Arguments<'_>) {}

    fn signal_group(&mut self, pid: u32, signal: i32) {
        let group = self.processes.living().filter(|(_, it)| it.pgrp == pid);
        for member in group.map(|(pid, _)| pid).collect::<Vec<_>>() {
            self.processes.signal(member, signal);
        }
    }

    fn reap(&mut self, pid: u32) -> Option<Usage> {
        self.processes.reap(pid)?;
        Some(Usage {
            cpu: Millis(0),
            memory_peak: 0,
        })
    }

    fn has_children(&self) -> bool {
        let mut all = self.processes.iter();
        all.any(|(_, process)| process.parent == Parent::Coordinator)
    }

    fn list_children(
        &mut self,
        is_known: &dyn Fn(u32) -> bool,
        found: &mut Vec<StrayChild>,
    ) -> Listing {
        let zombies = self.processes.zombies_of(Parent::Coordinator);
        let unknown = zombies.iter().filter(|(pid, _)| !is_known(*pid));
        let ended: Vec<u32> = unknown.map(|(pid, _)| *pid).collect();
        for pid in &ended {
            self.processes.reap(*pid);
        }
        let children = self.processes.living();
        let children = children
            .filter(|(pid, process)| process.parent == Parent::Coordinator && !is_known(*pid));
        found.extend(children.map(|(pid, process)| StrayChild {
            pid,
            pgrp: process.pgrp,
            session: process.pgrp,
            start_ticks: process.start_ticks,
            mark: process.mark,
            is_exiting: false,
        }));
        if ended.is_empty() {
            Listing::Complete
        } else {
            Listing::Changing
        }
    }

    fn hold(&mut self, run: RunKey, identity: &Identity) -> bool {
        let exists = self.processes.exists(identity, self.boot);
        if exists {
            self.held.insert(run, *identity);
        }
        exists
    }

    fn signal_held(&mut self, run: RunKey, signal: i32) {
        if let Some((pid, _)) = self.find_held(run) {
            self.processes.signal(pid, signal);
        }
    }

    fn held_exit(&mut self, run: RunKey) -> HeldExit {
        if self.find_held(run).is_some() {
            return HeldExit::Pending;
        }
        let held = self.held.get(&run).filter(|_| self.tells_statuses);
        let status = held.and_then(|identity| self.processes.reaped_status(identity));
        status.map_or(HeldExit::Unknowable, HeldExit::Status)
    }

    fn is_held_alive(&self, run: RunKey) -> bool {
        let held = self.find_held(run);
        held.is_some_and(|(_, process)| process.zombie.is_none())
    }

    fn release(&mut self, run: RunKey) {
        self.held.remove(&run);
    }

    fn any(&mut self, sweep: &Sweep<'_>) -> Option<bool> {
        Some(!self.selected(sweep).is_empty())
    }

    fn signal(&mut self, sweep: &Sweep<'_>, signal: i32) {
        for pid in self.selected(sweep) {
            self.processes.signal(pid, signal);
        }
    }

    fn kill(&mut self, sweep: &Sweep<'_>, _: Millis) -> u32 {
        let selected = self.selected(sweep);
        self.has_killed |= !selected.is_empty();
        for pid in selected {
            self.processes.signal(pid, SIGKILL);
        }
        0
    }

    fn kill_cgroup(&mut self, _: RunKey) {}

    fn is_cgroup_populated(&self, _: RunKey) -> Option<bool> {
        None
    }

    fn remove_cgroup(&mut self, _: RunKey, _: bool) -> bool {
        false
    }

    fn kill_root_cgroup(&mut self) {}

    fn is_root_cgroup_populated(&self) -> bool {
        false
    }

    fn has_run_out_of_memory(&mut self) -> bool {
        false
    }

    fn start_probe(&mut self, _: Launch) -> Option<u32> {
        None
    }

    fn attach(&mut self, _: Vec<Identity>, _: Option<Identity>) {}

    fn recycle(&mut self, _: AttemptPaths) {}
}
