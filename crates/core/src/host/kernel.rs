//! The kernel of the host, as the machine sees it: processes, signals and a clock.
//!
//! Its calls are system calls of the driver, and answered at once. What must wait for the log is no
//! call but an [`Effect`](super::io::Effect).

use std::fmt;

use baton_model::coordinator::{AttemptPaths, Launch, Usage};
use baton_model::outcome::ExitStatus;
use baton_model::task::{Identity, RunKey};
use baton_model::time::{Millis, Now};

/// The signal that asks a process to end.
pub const SIGTERM: i32 = 15;
/// The signal that no process survives.
pub const SIGKILL: i32 = 9;

/// The signal that tells the runner of a task to warn its processes: SIGURG, which a runner that does
/// not listen yet ignores.
pub const RUNNER_WARNING: i32 = 23;

/// True if a process carries the mark of such a run in its environment.
pub type HasMark<'a> = dyn Fn(&dyn Fn(RunKey) -> bool) -> bool + 'a;

/// A process that a walk has found.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    pub pid: u32,
    pub pgrp: u32,
    pub session: u32,
    pub has_mark: &'a HasMark<'a>,
}

/// A selection of processes. The host's own process is never selected.
#[derive(Clone, Copy)]
pub struct Sweep<'a> {
    /// Descendants of the host are selected, and of the processes that it holds or succeeds.
    pub descendants: bool,
    /// Processes with the mark of such a run are selected, with their descendants.
    pub mark: Option<&'a dyn Fn(RunKey) -> bool>,
    /// Processes that rotate logs are left out, also those of an earlier coordinator.
    pub spares_rotators: bool,
    /// Those for which it is false are left out.
    pub filter: &'a dyn Fn(&Candidate<'_>) -> bool,
}

/// A child that the host has not launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrayChild {
    pub pid: u32,
    pub pgrp: u32,
    pub session: u32,
    pub start_ticks: u64,
    /// The run whose mark it carries.
    pub mark: Option<RunKey>,
    /// It is exiting: its mark was lost with its memory.
    pub is_exiting: bool,
}

/// The result of listing children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    Complete,
    /// A child had just ended. Its children are ours since then, and may be missing.
    Changing,
    /// This kernel does not list children, or the list cannot be read.
    Unavailable,
}

/// The exit of a process that is held and is not a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldExit {
    /// It runs, or its parent has not reaped it yet.
    Pending,
    Status(ExitStatus),
    /// It has ended, and its status cannot be known.
    Unknowable,
}

/// The calls of the machine. A call that fails has no effect; the driver logs the error.
pub trait Kernel {
    fn now(&self) -> Now;
    /// Writes a line for the operator.
    fn log(&mut self, line: fmt::Arguments<'_>);

    /// Signals the process group of a child that is not reaped.
    fn signal_group(&mut self, pid: u32, signal: i32);
    /// Reaps a child that has ended, and returns the resources that it has used.
    fn reap(&mut self, pid: u32) -> Option<Usage>;
    /// True if there is a child, ended or not, or that is unknown.
    fn has_children(&self) -> bool;
    /// Appends the children that are not known to `found`; reaps those of them that have ended.
    fn list_children(
        &mut self,
        is_known: &dyn Fn(u32) -> bool,
        found: &mut Vec<StrayChild>,
    ) -> Listing;

    /// Holds a process that is not a child, as this run. False if it is gone, even if its pid was
    /// reused.
    fn hold(&mut self, run: RunKey, identity: &Identity) -> bool;
    fn signal_held(&mut self, run: RunKey, signal: i32);
    fn held_exit(&mut self, run: RunKey) -> HeldExit;
    fn is_held_alive(&self, run: RunKey) -> bool;
    fn release(&mut self, run: RunKey);

    /// True if a selected process lives; `None` if that cannot be found out.
    fn any(&mut self, sweep: &Sweep<'_>) -> Option<bool>;
    fn signal(&mut self, sweep: &Sweep<'_>, signal: i32);
    /// Kills all selected processes, and returns how many are left after this time; at least one if
    /// that is unknown.
    fn kill(&mut self, sweep: &Sweep<'_>, span: Millis) -> u32;

    /// Kills the processes in the control group of a run, if it has one.
    fn kill_cgroup(&mut self, run: RunKey);
    /// True if the control group of a run has processes; `None` if the run has none.
    fn is_cgroup_populated(&self, run: RunKey) -> Option<bool>;
    /// Removes the control group of a run. True if the run was limited in memory and has run out of
    /// it; asked only if `is_killed`.
    fn remove_cgroup(&mut self, run: RunKey, is_killed: bool) -> bool;
    /// Kills the processes in the control group of all runs, if there is one.
    fn kill_root_cgroup(&mut self);
    fn is_root_cgroup_populated(&self) -> bool;
    /// True if the kernel has killed a process for memory since the last call.
    fn has_run_out_of_memory(&mut self) -> bool;

    /// Starts a check, and returns its pid.
    fn start_probe(&mut self, launch: Launch) -> Option<u32>;
    /// These children of the runner do not belong to its task; this is the reaper of the worker.
    fn attach(&mut self, spared: Vec<Identity>, reaper: Option<Identity>);
    /// Offers the paths of an attempt that is over for reuse.
    fn recycle(&mut self, paths: AttemptPaths);
}
