//! The kernel of this host: signals, walks through `/proc`, descriptors of processes, control
//! groups.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use baton_core::host::kernel::{Candidate, HeldExit, Kernel, Listing, StrayChild, Sweep};
use baton_model::coordinator::{AttemptPaths, Launch, Usage};
use baton_model::ids::BootId;
use baton_model::task::{Identity, RunKey};
use baton_model::time::{Millis, Now};

use super::launch::Launcher;
use super::mark::marked_run;
use super::{COMMAND, Config};
use crate::helpers;
use crate::stderr::log_line;
use crate::sys::cgroup::Cgroup;
use crate::sys::children::Children;
use crate::sys::identity::{self, Exit, Handle};
use crate::sys::memory::OomKills;
use crate::sys::proc::{self, Reader, Stat};
use crate::sys::{clock, kill, reap};

/// The maximum number of ancestors followed: a tree that changes during the walk may seem endless.
const ANCESTORS_MAX: usize = 1_000;

/// The processes of a coordinator, and how they are reached.
pub(super) struct System {
    mark: String,
    /// An earlier coordinator may have left processes behind.
    successor: bool,
    boot: BootId,
    pub(super) launcher: Launcher,
    /// Adopted processes.
    held: BTreeMap<RunKey, Handle>,
    /// The control groups of runs.
    pub(super) groups: BTreeMap<RunKey, Cgroup>,
    /// `None` if the kernel does not list them.
    children: Option<Children>,
    oom_kills: OomKills,
    /// The connected runner: its children belong to the task too, where we succeed another
    /// coordinator.
    runner: Option<u32>,
    /// Except these.
    spared: Vec<Identity>,
    /// The reaper of a worker, which outlives its agents.
    reaper: Option<Identity>,
}

impl System {
    pub(super) fn new(config: &Config, boot: BootId) -> io::Result<Self> {
        Ok(Self {
            mark: config.mark.clone(),
            successor: config.successor,
            boot,
            launcher: Launcher::new(config)?,
            held: BTreeMap::new(),
            groups: BTreeMap::new(),
            children: Children::open(),
            oom_kills: OomKills::new(),
            runner: None,
            spared: Vec::new(),
            reaper: None,
        })
    }

    pub(super) const fn boot(&self) -> BootId {
        self.boot
    }

    /// The runner that is connected from now on.
    pub(super) fn set_runner(&mut self, pid: Option<u32>) {
        self.runner = pid;
        self.spared.clear();
    }

    /// The descriptor of an adopted process.
    pub(super) fn held(&self, run: RunKey) -> Option<&Handle> {
        self.held.get(&run)
    }

    /// Kills children that an earlier coordinator was launching when it died. Such a child carries
    /// no mark yet, but still has the command line of its parent; and we are the only coordinator
    /// of this task. Must be called before anything is launched.
    pub(super) fn kill_unstarted_children(&self) -> io::Result<()> {
        let me = std::process::id();
        for stat in proc::all()? {
            if stat.pid == me || !self.is_unstarted_child(stat.pid) {
                continue;
            }
            let identity = Identity {
                boot: self.boot,
                pid: stat.pid,
                start_ticks: stat.start_ticks,
            };
            // If it has called exec meanwhile, it is found by its mark.
            if let Some(child) = Handle::open(&identity, self.boot)?
                && self.is_unstarted_child(stat.pid)
            {
                child.signal(libc::SIGKILL)?;
            }
        }
        Ok(())
    }

    fn is_unstarted_child(&self, pid: u32) -> bool {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let mut words = line.trim_end_matches('\0').split('\0').skip(1);
        if words.next() != Some(COMMAND) {
            return false;
        }
        let args: Vec<String> = words.map(str::to_owned).collect();
        Config::from_args(&args).is_some_and(|config| config.mark == self.mark)
    }

    fn with_sweep<T>(
        &self,
        sweep: &Sweep<'_>,
        act: impl FnOnce(&kill::Sweep<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let me = std::process::id();
        let is_marked = |text: &str| {
            let run = marked_run(&self.mark, text);
            run.is_some_and(|run| sweep.mark.is_some_and(|wanted| wanted(run)))
        };
        let marked: Option<&dyn Fn(&str) -> bool> = Some(&is_marked);
        let spare = |stat: &Stat| {
            stat.pid == me
                || (sweep.spares_rotators && self.successor && helpers::is_rotator(stat.pid))
                || !self.is_selected(sweep, stat)
                || (sweep.descendants && self.is_spared(stat))
        };
        let roots = if sweep.descendants {
            self.roots()
        } else {
            Vec::new()
        };
        act(&kill::Sweep {
            roots: &roots,
            spare: &spare,
            mark: marked.filter(|_| sweep.mark.is_some()),
        })
    }

    fn is_selected(&self, sweep: &Sweep<'_>, stat: &Stat) -> bool {
        let has_mark = |wanted: &dyn Fn(RunKey) -> bool| {
            proc::has_mark(stat.pid, &|text| {
                marked_run(&self.mark, text).is_some_and(wanted)
            })
        };
        (sweep.filter)(&Candidate {
            pid: stat.pid,
            pgrp: stat.pgrp,
            session: stat.session,
            has_mark: &has_mark,
        })
    }

    /// The processes whose descendants belong to the task: ourselves, those that we hold, and the
    /// runner or the reaper, which inherited the children of an earlier coordinator.
    fn roots(&self) -> Vec<u32> {
        let reaper = self.reaper.as_ref();
        let reaper = reaper.filter(|reaper| identity::is_alive(reaper, self.boot));
        let heirs = [self.runner, reaper.map(|reaper| reaper.pid)];
        let heirs = heirs.into_iter().flatten().filter(|_| self.successor);
        let held = self.held.values().map(|handle| handle.identity().pid);
        heirs.chain(held).chain([std::process::id()]).collect()
    }

    /// True for the reaper itself, and for descendants of children that the runner had before it
    /// began the task.
    fn is_spared(&self, stat: &Stat) -> bool {
        let is_it =
            |it: &Identity, stat: &Stat| (it.pid, it.start_ticks) == (stat.pid, stat.start_ticks);
        if self.reaper.as_ref().is_some_and(|it| is_it(it, stat)) {
            return true;
        }
        let Some(runner) = self.runner.filter(|_| !self.spared.is_empty()) else {
            return false;
        };
        let mut next = Some(*stat);
        for _ in 0..ANCESTORS_MAX {
            let Some(stat) = next.filter(|stat| stat.pid != runner && stat.pid > 1) else {
                return false;
            };
            if self.spared.iter().any(|spared| is_it(spared, &stat)) {
                return true;
            }
            next = proc::stat(stat.ppid).ok().flatten();
        }
        false
    }

    fn list(
        &mut self,
        is_known: &dyn Fn(u32) -> bool,
        found: &mut Vec<StrayChild>,
    ) -> io::Result<bool> {
        let Some(list) = &mut self.children else {
            return Ok(false);
        };
        let reader = &mut self.launcher.reader;
        let new: Vec<u32> = list.read()?.filter(|pid| !is_known(*pid)).collect();
        let mut again = false;
        for pid in new {
            match reader.stat(pid)? {
                Some(stat) if !stat.is_over() => {
                    let mark = read_run_mark(reader, &self.mark, pid);
                    // Read after its mark was looked for, not before.
                    let is_exiting = mark.is_none()
                        && (reader.stat(pid)?).is_none_or(|now| now.is_exiting || now.is_over());
                    found.push(StrayChild {
                        pid,
                        pgrp: stat.pgrp,
                        session: stat.session,
                        start_ticks: stat.start_ticks,
                        mark,
                        is_exiting,
                    });
                }
                _ => {
                    reap::reap(pid)?;
                    again = true;
                }
            }
        }
        Ok(again)
    }
}

impl Kernel for System {
    fn now(&self) -> Now {
        clock::now()
    }

    fn log(&mut self, line: fmt::Arguments<'_>) {
        log_line!("coordinator: {line}");
    }

    fn signal_group(&mut self, pid: u32, signal: i32) {
        log_failure(kill::group(pid, signal));
    }

    fn reap(&mut self, pid: u32) -> Option<Usage> {
        let used = log_failure(reap::reap_counted(pid)).flatten();
        used.map(|used| Usage {
            cpu: Millis(used.cpu_us / 1_000),
            memory_peak: used.memory_peak_bytes,
        })
    }

    fn has_children(&self) -> bool {
        reap::has_children().unwrap_or(true)
    }

    fn list_children(
        &mut self,
        is_known: &dyn Fn(u32) -> bool,
        found: &mut Vec<StrayChild>,
    ) -> Listing {
        if self.children.is_none() {
            return Listing::Unavailable;
        }
        match self.list(is_known, found) {
            Ok(false) => Listing::Complete,
            Ok(true) => Listing::Changing,
            Err(error) => {
                log_line!("coordinator: cannot list its children: {error}");
                self.children = None;
                Listing::Unavailable
            }
        }
    }

    fn hold(&mut self, run: RunKey, identity: &Identity) -> bool {
        match Handle::open(identity, self.boot) {
            Ok(Some(handle)) => {
                self.held.insert(run, handle);
                true
            }
            Ok(None) => false,
            Err(error) => {
                let pid = identity.pid;
                log_line!("coordinator: cannot adopt {run}, pid {pid}: {error}");
                false
            }
        }
    }

    fn signal_held(&mut self, run: RunKey, signal: i32) {
        log_failure(self.held.get(&run).map(|it| it.signal(signal)).transpose());
    }

    fn held_exit(&mut self, run: RunKey) -> HeldExit {
        match self.held.get(&run).map(Handle::exit) {
            Some(Ok(Exit::Running)) => HeldExit::Pending,
            Some(Ok(Exit::Status(status))) => HeldExit::Status(status),
            Some(Ok(Exit::Unknowable) | Err(_)) | None => HeldExit::Unknowable,
        }
    }

    fn is_held_alive(&self, run: RunKey) -> bool {
        let held = self.held.get(&run);
        held.is_some_and(|held| identity::is_alive(held.identity(), self.boot))
    }

    fn release(&mut self, run: RunKey) {
        self.held.remove(&run);
    }

    fn any(&mut self, sweep: &Sweep<'_>) -> Option<bool> {
        let found = self.with_sweep(sweep, |sweep| sweep.find());
        found.ok().map(|found| !found.is_empty())
    }

    fn signal(&mut self, sweep: &Sweep<'_>, signal: i32) {
        log_failure(self.with_sweep(sweep, |sweep| sweep.signal(signal)));
    }

    fn kill(&mut self, sweep: &Sweep<'_>, span: Millis) -> u32 {
        let deadline = clock::now().mono + span;
        match self.with_sweep(sweep, |sweep| sweep.kill(deadline)) {
            Ok(left) => u32::try_from(left).unwrap_or(u32::MAX),
            Err(error) => {
                log_line!("coordinator: cannot scan for remaining processes: {error}");
                1
            }
        }
    }

    fn kill_cgroup(&mut self, run: RunKey) {
        log_failure(self.groups.get(&run).map(Cgroup::kill).transpose());
    }

    fn is_cgroup_populated(&self, run: RunKey) -> Option<bool> {
        // A group that is gone is empty.
        let group = self.groups.get(&run)?;
        Some(group.populated().unwrap_or(false))
    }

    fn remove_cgroup(&mut self, run: RunKey, is_killed: bool) -> bool {
        let Some(group) = self.groups.remove(&run) else {
            return false;
        };
        let is_exceeded = is_killed && group.ran_out_of_memory();
        if let Err(error) = group.remove() {
            log_line!("coordinator: cannot remove the control group of {run}: {error}");
        }
        is_exceeded
    }

    /// The walk of the tree that follows makes up for a failure.
    fn kill_root_cgroup(&mut self) {
        self.launcher.kill_cgroup();
    }

    fn is_root_cgroup_populated(&self) -> bool {
        self.launcher.is_cgroup_populated()
    }

    fn has_run_out_of_memory(&mut self) -> bool {
        self.oom_kills.has_grown()
    }

    fn start_probe(&mut self, mut launch: Launch) -> Option<u32> {
        self.launcher.start_probe(&mut launch).ok()
    }

    fn attach(&mut self, spared: Vec<Identity>, reaper: Option<Identity>) {
        self.spared = spared;
        self.reaper = reaper;
    }

    fn recycle(&mut self, paths: AttemptPaths) {
        self.launcher.recycle(paths);
    }
}

fn read_run_mark(reader: &mut Reader, mark: &str, pid: u32) -> Option<RunKey> {
    let found = std::cell::Cell::new(None);
    reader.has_mark(pid, &|text| {
        found.set(marked_run(mark, text));
        found.get().is_some()
    });
    found.get()
}

/// Logs a call that has failed. That is not the end of the task: a kill polls again and reports
/// what is left.
pub(super) fn log_failure<T>(result: io::Result<T>) -> Option<T> {
    result
        .inspect_err(|error| log_line!("coordinator: {error}"))
        .ok()
}
