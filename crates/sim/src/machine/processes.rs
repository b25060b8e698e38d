//! Processes: pids that are reused, parents, groups, signals and zombies.

use std::collections::BTreeMap;

use baton_core::host::kernel::SIGKILL;
use baton_model::coordinator::Launch;
use baton_model::ids::BootId;
use baton_model::outcome::ExitStatus;
use baton_model::task::{Identity, RunKey};
use baton_model::timeouts::LeaseTerm;

/// The first pid of a process that is not a part of Baton.
const FIRST_PID: u32 = 2;

/// The parent of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parent {
    Coordinator,
    Reaper,
    Agent,
    /// Outside of Baton: it reaps at once, and the status is lost.
    Init,
    /// Another process, which reaps at once.
    Process(u32),
}

/// One process, or its zombie.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub parent: Parent,
    /// The group, which is its session, too.
    pub pgrp: u32,
    /// The run in its environment.
    pub mark: Option<RunKey>,
    /// The term in its environment.
    pub term: LeaseTerm,
    /// Tells it apart from all others on this machine, in any boot.
    pub start_ticks: u64,
    /// Its exit status, if it is a zombie.
    pub zombie: Option<ExitStatus>,
}

/// Something that happened to a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ProcessEvent {
    /// The coordinator has launched it.
    Launched {
        run: RunKey,
        launch: Box<Launch>,
        start_ticks: u64,
    },
    /// The coordinator could not launch a run.
    LaunchFailed { run: RunKey, launch: Box<Launch> },
    /// The coordinator has sent it a signal.
    Signalled { start_ticks: u64, signal: i32 },
    /// It has ended.
    Ended {
        start_ticks: u64,
        status: ExitStatus,
    },
}

/// All processes of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Processes {
    table: BTreeMap<u32, Process>,
    last_ticks: u64,
    /// Not taken yet.
    events: Vec<ProcessEvent>,
    /// Exit statuses of processes that were reaped, for those who hold them.
    reaped: BTreeMap<(u32, u64), ExitStatus>,
}

impl Processes {
    /// Starts a process, in a group of its own. It gets the lowest pid that is free, so that one is
    /// reused as soon as it can be.
    pub fn start(&mut self, parent: Parent, mark: Option<RunKey>, term: LeaseTerm) -> (u32, u64) {
        let mut pid = FIRST_PID;
        while self.is_used(pid) {
            pid += 1;
        }
        self.last_ticks += 1;
        let process = Process {
            parent,
            pgrp: pid,
            mark,
            term,
            start_ticks: self.last_ticks,
            zombie: None,
        };
        self.table.insert(pid, process);
        (pid, self.last_ticks)
    }

    /// A number is in use while a process or a group has it.
    fn is_used(&self, pid: u32) -> bool {
        self.table.contains_key(&pid) || self.table.values().any(|it| it.pgrp == pid)
    }

    #[must_use]
    pub fn get(&self, pid: u32) -> Option<&Process> {
        self.table.get(&pid)
    }

    /// All processes, with zombies.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Process)> {
        self.table.iter().map(|(pid, process)| (*pid, process))
    }

    /// The processes that have not ended.
    pub fn living(&self) -> impl Iterator<Item = (u32, &Process)> {
        self.iter().filter(|(_, process)| process.zombie.is_none())
    }

    /// The pid of a process that has not ended.
    #[must_use]
    pub fn pid_of(&self, start_ticks: u64) -> Option<u32> {
        let mut living = self.living();
        let found = living.find(|(_, process)| process.start_ticks == start_ticks);
        found.map(|(pid, _)| pid)
    }

    /// True if this process exists, if only as a zombie.
    #[must_use]
    pub fn exists(&self, identity: &Identity, boot: BootId) -> bool {
        let process = self.table.get(&identity.pid);
        identity.boot == boot && process.is_some_and(|it| it.start_ticks == identity.start_ticks)
    }

    /// The exit status of a process that was reaped by any parent.
    #[must_use]
    pub fn reaped_status(&self, identity: &Identity) -> Option<ExitStatus> {
        let key = (identity.pid, identity.start_ticks);
        self.reaped.get(&key).copied()
    }

    /// The part of Baton that a process descends from.
    #[must_use]
    pub fn ancestor(&self, pid: u32) -> Parent {
        match self.table.get(&pid).map(|process| process.parent) {
            Some(Parent::Process(parent)) => self.ancestor(parent),
            Some(parent) => parent,
            None => Parent::Init,
        }
    }

    /// The children of a part of Baton that are zombies.
    #[must_use]
    pub fn zombies_of(&self, parent: Parent) -> Vec<(u32, ExitStatus)> {
        self.zombies(parent).collect()
    }

    /// A child of a part of Baton that is a zombie.
    #[must_use]
    pub fn zombie_of(&self, parent: Parent) -> Option<(u32, ExitStatus)> {
        self.zombies(parent).next()
    }

    fn zombies(&self, parent: Parent) -> impl Iterator<Item = (u32, ExitStatus)> {
        let children = self.iter().filter(move |(_, it)| it.parent == parent);
        children.filter_map(|(pid, it)| Some((pid, it.zombie?)))
    }

    /// The coordinator sends a signal.
    pub fn signal(&mut self, pid: u32, signal: i32) {
        let process = self.table.get(&pid).filter(|it| it.zombie.is_none());
        if let Some(start_ticks) = process.map(|it| it.start_ticks) {
            self.events.push(ProcessEvent::Signalled {
                start_ticks,
                signal,
            });
            if signal == SIGKILL {
                self.end(pid, ExitStatus::Signal(SIGKILL));
            }
        }
    }

    /// Ends a process. Its children get another parent.
    pub fn end(&mut self, pid: u32, status: ExitStatus) {
        let Some(process) = self.table.get_mut(&pid) else {
            return;
        };
        if process.zombie.is_some() {
            return;
        }
        process.zombie = Some(status);
        let (start_ticks, parent) = (process.start_ticks, process.parent);
        self.events.push(ProcessEvent::Ended {
            start_ticks,
            status,
        });
        let ancestor = self.ancestor(pid);
        self.reparent(Parent::Process(pid), ancestor);
        if matches!(parent, Parent::Process(_) | Parent::Init) {
            self.reap(pid);
        }
    }

    /// Gives the children of one parent to another.
    pub fn reparent(&mut self, from: Parent, to: Parent) {
        for process in self.table.values_mut().filter(|it| it.parent == from) {
            process.parent = to;
        }
        if to == Parent::Init {
            for (pid, _) in self.zombies_of(Parent::Init) {
                self.reap(pid);
            }
        }
    }

    /// Reaps a zombie; its pid is free.
    pub fn reap(&mut self, pid: u32) -> Option<(u64, ExitStatus)> {
        let process = self.table.get(&pid)?;
        let (start_ticks, status) = (process.start_ticks, process.zombie?);
        self.table.remove(&pid);
        self.reaped.insert((pid, start_ticks), status);
        Some((start_ticks, status))
    }

    pub(super) fn note(&mut self, event: ProcessEvent) {
        self.events.push(event);
    }

    /// What has happened since the last call, in order.
    pub fn take_events(&mut self) -> Vec<ProcessEvent> {
        std::mem::take(&mut self.events)
    }

    /// Ends everything at once; no parent learns how.
    pub fn clear(&mut self) {
        self.table.clear();
        self.events.clear();
        self.reaped.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::host::kernel::SIGTERM;

    const KILLED: ExitStatus = ExitStatus::Signal(SIGKILL);

    fn start(processes: &mut Processes, parent: Parent) -> u32 {
        processes.start(parent, None, LeaseTerm::Lease).0
    }

    #[test]
    fn a_zombie_keeps_its_pid_and_a_reaped_one_does_not() {
        let mut processes = Processes::default();
        let first = start(&mut processes, Parent::Coordinator);
        processes.end(first, ExitStatus::Code(3));
        assert_ne!(start(&mut processes, Parent::Agent), first);
        assert_eq!(
            processes.zombies_of(Parent::Coordinator),
            [(first, ExitStatus::Code(3))]
        );
        assert_eq!(processes.reap(first), Some((1, ExitStatus::Code(3))));
        assert_eq!(start(&mut processes, Parent::Agent), first);
    }

    #[test]
    fn an_orphan_becomes_a_child_of_the_nearest_reaper() {
        let mut processes = Processes::default();
        let shell = start(&mut processes, Parent::Coordinator);
        let child = start(&mut processes, Parent::Process(shell));
        let grandchild = start(&mut processes, Parent::Process(child));
        processes.end(child, KILLED);
        assert!(
            processes.get(child).is_none(),
            "its parent has reaped it at once"
        );
        let parent = |processes: &Processes| processes.get(grandchild).map(|it| it.parent);
        assert_eq!(parent(&processes), Some(Parent::Coordinator));
        processes.reparent(Parent::Coordinator, Parent::Init);
        assert_eq!(parent(&processes), Some(Parent::Init));
    }

    #[test]
    fn only_sigkill_ends_a_process_by_itself() {
        let mut processes = Processes::default();
        let pid = start(&mut processes, Parent::Coordinator);
        processes.signal(pid, SIGTERM);
        assert!(processes.living().count() == 1);
        processes.signal(pid, SIGKILL);
        processes.signal(pid, SIGKILL);
        let signalled = |signal| ProcessEvent::Signalled {
            start_ticks: 1,
            signal,
        };
        let ended = ProcessEvent::Ended {
            start_ticks: 1,
            status: KILLED,
        };
        let events = [signalled(SIGTERM), signalled(SIGKILL), ended];
        assert_eq!(processes.take_events(), events);
    }
}
