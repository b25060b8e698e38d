//! A host on a small kernel of its own, with a log and a runner.

use std::collections::BTreeMap;
use std::fmt;

use baton_model::coordinator::{
    AttemptPaths, CoordinatorRecord, Guard, Launch, Reply, Request, Usage,
};
use baton_model::device::DeviceLists;
use baton_model::ids::{BootId, Epoch};
use baton_model::outcome::{ExitStatus, KillCause};
use baton_model::task::{Identity, Moment, ProcessNo, RunKey, RunNo};
use baton_model::time::{Millis, Mono, Now, Stamp, Wall};

use crate::bugs::Bugs;
use crate::host::Host;
use crate::host::io::{Effect, HostStep, Input, Settings, StartFault, Urgency};
use crate::host::kernel::{
    Candidate, HeldExit, Kernel, Listing, SIGKILL, SIGTERM, StrayChild, Sweep,
};
use crate::step::Outbox;

/// A process of the test's kernel.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) pgrp: u32,
    pub(super) mark: Option<RunKey>,
    pub(super) start_ticks: u64,
    /// It is a child of the host.
    pub(super) is_child: bool,
    pub(super) zombie: Option<ExitStatus>,
    pub(super) ignores_term: bool,
}

/// The kernel of a test: it carries signals out at once.
#[derive(Debug, Default)]
pub(super) struct TestKernel {
    pub(super) now: Mono,
    pub(super) processes: BTreeMap<u32, Process>,
    held: BTreeMap<RunKey, u32>,
    /// Held processes whose status cannot be known.
    pub(super) has_no_statuses: bool,
    pub(super) signals: Vec<(u32, i32)>,
    pub(super) recycled: Vec<AttemptPaths>,
}

impl TestKernel {
    fn deliver(&mut self, pid: u32, signal: i32) {
        self.signals.push((pid, signal));
        if let Some(process) = self.processes.get_mut(&pid)
            && (signal == SIGKILL || !process.ignores_term)
        {
            process.zombie.get_or_insert(ExitStatus::Signal(signal));
            if !process.is_child {
                self.processes.remove(&pid);
            }
        }
    }

    fn selected(&self, sweep: &Sweep<'_>) -> Vec<u32> {
        let living = self.processes.iter().filter(|(_, it)| it.zombie.is_none());
        let selected = living.filter(|(pid, process)| {
            let has_mark = |wanted: &dyn Fn(RunKey) -> bool| process.mark.is_some_and(wanted);
            let candidate = Candidate {
                pid: **pid,
                pgrp: process.pgrp,
                session: process.pgrp,
                has_mark: &has_mark,
            };
            let is_marked = sweep.mark.is_some_and(has_mark);
            ((sweep.descendants && process.is_child) || is_marked) && (sweep.filter)(&candidate)
        });
        selected.map(|(pid, _)| *pid).collect()
    }
}

impl Kernel for TestKernel {
    fn now(&self) -> Now {
        Now {
            mono: self.now,
            wall: Wall(0),
        }
    }

    fn log(&mut self, _: fmt::Arguments<'_>) {}

    fn signal_group(&mut self, pid: u32, signal: i32) {
        let leader = self.processes.get(&pid);
        assert!(
            leader.is_some_and(|it| it.is_child),
            "the number of the group {pid} may be reused"
        );
        let group = self.processes.iter().filter(|(_, it)| it.pgrp == pid);
        for member in group.map(|(pid, _)| *pid).collect::<Vec<_>>() {
            self.deliver(member, signal);
        }
    }

    fn reap(&mut self, pid: u32) -> Option<Usage> {
        let process = self.processes.remove(&pid).expect("it is there");
        assert!(process.zombie.is_some(), "{pid} has not ended");
        Some(Usage {
            cpu: Millis(7),
            memory_peak: 1,
        })
    }

    fn has_children(&self) -> bool {
        self.processes.values().any(|it| it.is_child)
    }

    fn list_children(
        &mut self,
        is_known: &dyn Fn(u32) -> bool,
        found: &mut Vec<StrayChild>,
    ) -> Listing {
        let children = self
            .processes
            .iter()
            .filter(|(pid, it)| it.is_child && it.zombie.is_none() && !is_known(**pid));
        found.extend(children.map(|(pid, it)| StrayChild {
            pid: *pid,
            pgrp: it.pgrp,
            session: it.pgrp,
            start_ticks: it.start_ticks,
            mark: it.mark,
            is_exiting: false,
        }));
        Listing::Complete
    }

    fn hold(&mut self, run: RunKey, identity: &Identity) -> bool {
        let process = self.processes.get(&identity.pid);
        let same = process.is_some_and(|it| it.start_ticks == identity.start_ticks);
        if same {
            self.held.insert(run, identity.pid);
        }
        same
    }

    fn signal_held(&mut self, run: RunKey, signal: i32) {
        self.deliver(self.held[&run], signal);
    }

    fn held_exit(&mut self, run: RunKey) -> HeldExit {
        let process = self.processes.get(&self.held[&run]);
        match process.map(|it| it.zombie) {
            Some(None) => HeldExit::Pending,
            Some(Some(status)) if !self.has_no_statuses => HeldExit::Status(status),
            Some(Some(_)) | None => HeldExit::Unknowable,
        }
    }

    fn is_held_alive(&self, run: RunKey) -> bool {
        let process = self.held.get(&run).and_then(|pid| self.processes.get(pid));
        process.is_some_and(|it| it.zombie.is_none())
    }

    fn release(&mut self, run: RunKey) {
        self.held.remove(&run);
    }

    fn any(&mut self, sweep: &Sweep<'_>) -> Option<bool> {
        Some(!self.selected(sweep).is_empty())
    }

    fn signal(&mut self, sweep: &Sweep<'_>, signal: i32) {
        for pid in self.selected(sweep) {
            self.deliver(pid, signal);
        }
    }

    fn kill(&mut self, sweep: &Sweep<'_>, _: Millis) -> u32 {
        for pid in self.selected(sweep) {
            self.deliver(pid, SIGKILL);
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

    fn recycle(&mut self, paths: AttemptPaths) {
        self.recycled.push(paths);
    }
}

/// A host with its driver.
pub(super) struct Rig {
    pub(super) host: Host,
    pub(super) kernel: TestKernel,
    pub(super) step: HostStep,
    pub(super) outbox: Outbox<Effect>,
    /// The records in the log.
    pub(super) log: Vec<CoordinatorRecord>,
    pub(super) replies: Vec<Reply>,
    next_pid: u32,
    pub(super) fault: Option<StartFault>,
    /// The environment of each process that was started.
    pub(super) environments: BTreeMap<RunKey, Vec<(String, String)>>,
}

pub(super) const fn run(process: u32, run: u64) -> RunKey {
    RunKey {
        process: ProcessNo(process),
        run: RunNo(run),
    }
}

/// So much room, of one resource.
pub(super) fn capacity(amount: u64) -> Request {
    Request::Capacity {
        amounts: vec![amount],
        devices: DeviceLists::new(),
        core_nodes: Vec::new(),
    }
}

pub(super) const BOOT: BootId = BootId(1);

impl Rig {
    /// The host of a worker, with a lease that ends at this time.
    pub(super) fn new(successor: bool, deadline: u64) -> Self {
        let settings = Settings {
            mark: "m".to_owned(),
            pid: 1,
            successor,
            guarded: true,
            bugs: Bugs::NONE,
        };
        let mut rig = Self {
            host: Host::new(settings, Mono(0)),
            kernel: TestKernel::default(),
            step: HostStep::default(),
            outbox: Outbox::new(Epoch(1)),
            log: Vec::new(),
            replies: Vec::new(),
            next_pid: 100,
            fault: None,
            environments: BTreeMap::new(),
        };
        rig.input(Input::Connected);
        rig.request(Request::Guard(Guard {
            deadline: Mono(deadline),
            grace: Millis(50),
            kill_max: Millis(100),
            epoch: Epoch(1),
            stamp: Stamp(Mono(0)),
        }));
        rig.replies.clear();
        rig.log.clear();
        rig
    }

    pub(super) fn decide(&mut self, input: Input) -> Urgency {
        self.host.handle(input, &mut self.kernel, &mut self.step)
    }

    /// Passes an input, and commits what it has decided.
    pub(super) fn input(&mut self, input: Input) {
        let _ = self.decide(input);
        self.commit();
    }

    pub(super) fn request(&mut self, request: Request) {
        self.input(Input::Request(request));
    }

    pub(super) fn commit(&mut self) {
        let batch = self.outbox.accept(std::mem::take(&mut self.step));
        if let Some(batch) = batch {
            self.log.extend_from_slice(batch.facts());
            self.outbox.release(batch.durable());
        }
        for effect in self.outbox.drain().collect::<Vec<_>>() {
            match effect {
                Effect::Reply(reply) => self.replies.push(reply),
                Effect::Spawn { run, launch } => self.spawn(run, launch),
                Effect::Reap { pid } => {
                    let usage = self.kernel.reap(pid);
                    self.input(Input::Reaped { pid, usage });
                }
            }
        }
    }

    fn spawn(&mut self, run: RunKey, launch: Box<Launch>) {
        let result = match self.fault.clone() {
            Some(fault) => Err(fault),
            None => {
                self.environments.insert(run, launch.env.clone());
                Ok(self.start_process(Some(run), None))
            }
        };
        self.input(Input::Spawned {
            run,
            launch,
            at: Moment {
                mono: self.kernel.now,
                wall: Wall(0),
            },
            rotators: Vec::new(),
            result,
        });
    }

    /// A new child of the host, in a group of its own or in this one.
    pub(super) fn start_process(&mut self, mark: Option<RunKey>, pgrp: Option<u32>) -> Identity {
        let pid = self.next_pid;
        self.next_pid += 1;
        let process = Process {
            pgrp: pgrp.unwrap_or(pid),
            mark,
            start_ticks: self.kernel.now.0,
            is_child: true,
            zombie: None,
            ignores_term: false,
        };
        self.kernel.processes.insert(pid, process);
        Identity {
            boot: BOOT,
            pid,
            start_ticks: self.kernel.now.0,
        }
    }

    /// Asks for an attempt of a worker with this claim.
    pub(super) fn launch(&mut self, run: RunKey, claim: &[u64]) {
        let name = run.to_string();
        self.request(Request::Launch {
            run,
            launch: Box::new(Launch {
                tag: format!("lease of {run}"),
                claim: claim.to_vec(),
                paths: Some(AttemptPaths {
                    dir: name.clone(),
                    stdout: name.clone(),
                    stderr: name,
                }),
                ..Launch::default()
            }),
        });
    }

    pub(super) fn stop(&mut self, run: RunKey, grace: u64) {
        self.request(Request::Stop {
            run,
            signal: SIGTERM,
            grace: Millis(grace),
            cause: KillCause::Requested,
        });
    }

    /// Ends a process by itself.
    pub(super) fn exit(&mut self, pid: u32, code: i32) {
        let process = self.kernel.processes.get_mut(&pid).expect("it is there");
        process.zombie = Some(ExitStatus::Code(code));
    }

    /// One turn of the loop at this time.
    pub(super) fn turn(&mut self, now: u64) {
        self.kernel.now = Mono(now);
        self.input(Input::Deadlines);
        let exited = self.kernel.processes.iter();
        let exited: Vec<(u32, ExitStatus)> = exited
            .filter(|(_, it)| it.is_child)
            .filter_map(|(pid, it)| Some((*pid, it.zombie?)))
            .collect();
        for (pid, status) in exited {
            self.input(Input::Exited { pid, status });
        }
        self.input(Input::ExitsTaken);
        for run in self.host.watched().collect::<Vec<_>>() {
            if self.kernel.held_exit(run) != HeldExit::Pending {
                self.input(Input::HeldEnded(run));
            }
        }
        self.input(Input::Tick);
        self.input(Input::Fill);
    }

    /// The pid of a run that was started.
    pub(super) fn pid_of(&self, run: RunKey) -> u32 {
        let started = self.host.known().find(|known| known.run == run);
        let started = started.and_then(|known| known.started);
        started.expect("it was started").1.pid
    }

    pub(super) fn take_replies(&mut self) -> Vec<Reply> {
        std::mem::take(&mut self.replies)
    }
}
