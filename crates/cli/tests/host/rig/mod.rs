//! A scheduler in the test process, and real workers that dial it.
//!
//! The scheduler is the real machine with a ledger in memory, driven by one thread behind a
//! real socket. It can be made silent, as if it were gone. Workers are `baton worker` with a
//! state directory of the rig.
//!
//! Dropping a rig, also in a panic, kills all processes of its workers.

mod scheduler;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use baton_core::scheduler::{Command as LeaderCommand, Input, Submission};
use baton_model::fact::{Fact, Holder};
use baton_model::ids::{AttemptId, AttemptNo, Epoch, InstanceId, LeaseId, RequestId, WorkerName};
use baton_model::message::{LogAnswer, LogQuery, LogStart, LogStream, ProcessAnswer, ProcessQuery};
use baton_model::outcome::{AttemptEnd, AttemptStats, KillMode, Outcome};
use baton_model::spec::{InstanceSpec, Work};
use baton_model::time::Millis;
use baton_model::timeouts::Timeouts;
use baton_runner::sys::proc;
use baton_testing::processes::{parent, send};
use baton_testing::until;
use rustix::process::Signal;
use tempfile::TempDir;

use scheduler::Scheduler;

/// Heartbeats that do not make a test wait, and a lease that nothing outlasts.
pub(crate) fn long_timeouts() -> Timeouts {
    Timeouts {
        heartbeat_period: Millis(200),
        kill_grace: Millis(500),
        ..Timeouts::default()
    }
}

/// A lease that runs out while one waits for it.
pub(crate) fn short_timeouts() -> Timeouts {
    Timeouts {
        heartbeat_period: Millis(100),
        heartbeat_gap: Millis(1_500),
        lose_after: Millis(4_500),
        kill_grace: Millis(300),
        kill_slack: Millis(500),
        ..Timeouts::default()
    }
}

/// A scheduler, and a place for one worker.
pub(crate) struct Rig {
    dir: TempDir,
    pub(crate) scheduler: Scheduler,
}

/// One agent.
pub(crate) struct Agent(Child);

impl Agent {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.0.id(), signal);
    }

    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.0.wait().expect("our child");
    }

    pub(crate) fn wait(mut self) -> ExitStatus {
        let mut status = None;
        until("the agent ends", || {
            status = self.0.try_wait().expect("our child");
            status.is_some()
        });
        status.expect("it has ended")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Rig {
    pub(crate) fn new(timeouts: Timeouts) -> Self {
        Self {
            dir: tempfile::tempdir().expect("a directory"),
            scheduler: Scheduler::start(timeouts),
        }
    }

    /// A place of the test's own.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path("state")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command
            .arg("worker")
            .args(["--scheduler", &self.scheduler.address.to_string()])
            .args(["--name", "w"])
            .arg("--state")
            .arg(self.state())
            .args(args)
            .stdin(Stdio::null());
        command
    }

    /// Runs `baton local`, and returns all that it printed.
    pub(crate) fn local(&self, args: &[&str]) -> (ExitStatus, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.arg("local").args(args);
        let output = command.env("BATON_ROOT", self.path("root")).output();
        let output = output.expect("the binary is there");
        let text = [output.stdout, output.stderr].concat();
        (output.status, String::from_utf8_lossy(&text).into_owned())
    }

    /// Starts an agent with these further arguments.
    pub(crate) fn start(&self, args: &[&str]) -> Agent {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("agent.err"))
            .expect("a log");
        let command = self.command(args).stderr(log).spawn();
        Agent(command.expect("the binary is there"))
    }

    /// Starts an agent with two cores and a gibibyte.
    pub(crate) fn worker(&self) -> Agent {
        self.start(&["--resources", "cpu=2,memory=1GiB"])
    }

    /// Submits instances; the scheduler numbers them from 1, and `first` is the next number.
    pub(crate) fn submit(&self, first: u64, count: u64, spec: InstanceSpec) {
        let from = spec.array.map_or(0, |array| array.from);
        let submission = Submission {
            spec: Box::new(spec),
            array: (count > 1).then_some((count, from)),
            more: Vec::new(),
            key: None,
        };
        let submit = LeaderCommand::Submit {
            submission,
            mark: None,
        };
        self.scheduler
            .input(Input::command(RequestId(first), submit));
    }

    pub(crate) fn cancel(&self, instance: u64) {
        self.cancel_by(instance, KillMode::Graceful);
    }

    pub(crate) fn cancel_by(&self, instance: u64, mode: KillMode) {
        self.scheduler.input(Input::command(
            RequestId(1_000_000 + instance),
            LeaderCommand::Cancel {
                first: InstanceId(instance),
                last: InstanceId(instance),
                mode,
            },
        ));
    }

    /// How the attempts of an instance have ended, and what was measured.
    pub(crate) fn ends(&self, instance: u64) -> Vec<(AttemptEnd, Option<AttemptStats>)> {
        let facts = self.scheduler.facts();
        let ends = facts.iter().filter_map(|fact| match fact {
            Fact::AttemptEnded {
                lease, end, stats, ..
            } if lease.attempt.instance == InstanceId(instance) => Some((*end, *stats)),
            _ => None,
        });
        ends.collect()
    }

    /// Waits for the end of the first attempt.
    pub(crate) fn end(&self, instance: u64) -> (AttemptEnd, Option<AttemptStats>) {
        until("the attempt ends", || !self.ends(instance).is_empty());
        self.ends(instance)[0]
    }

    /// Waits for the end of the first attempt, and returns its outputs.
    pub(crate) fn outputs(&self, instance: u64) -> Option<Arc<str>> {
        self.end(instance);
        let facts = self.scheduler.facts();
        facts.into_iter().find_map(|fact| match fact {
            Fact::AttemptEnded { lease, outputs, .. }
                if lease.attempt.instance == InstanceId(instance) =>
            {
                Some(outputs)
            }
            _ => None,
        })?
    }

    /// Waits for an end that the worker saw.
    pub(crate) fn outcome(&self, instance: u64) -> Outcome {
        match self.end(instance).0 {
            AttemptEnd::Real(outcome) => outcome,
            AttemptEnd::Synthetic(end) => panic!("not observed: {end}"),
        }
    }

    /// All holders of a lease of this instance.
    pub(crate) fn holders(&self, instance: u64) -> Vec<Holder> {
        let facts = self.scheduler.facts();
        let granted = facts.iter().filter_map(|fact| match fact {
            Fact::LeaseGranted { lease, holder, .. }
                if lease.attempt.instance == InstanceId(instance) =>
            {
                Some(holder.clone())
            }
            _ => None,
        });
        granted.collect()
    }

    /// The directory of the first attempt of an instance.
    pub(crate) fn work(&self, instance: u64) -> PathBuf {
        self.state().join(format!("work/i{instance}.1.e1"))
    }

    /// What the first attempt of an instance has printed.
    pub(crate) fn logs(
        &self,
        instance: u64,
        stream: LogStream,
        process: Option<&str>,
    ) -> LogAnswer {
        let request = RequestId(2_000_000 + instance);
        self.scheduler.forget_logs(request);
        let worker = WorkerName::new("w");
        let query = LogQuery {
            lease: lease(instance),
            stream,
            start: LogStart::Offset(0),
            bytes_max: 1 << 20,
            process: process.map(str::to_owned),
            run: None,
        };
        self.scheduler.input(Input::command(
            request,
            LeaderCommand::ReadLogs { worker, query },
        ));
        let mut answer = None;
        until("the log is read", || {
            answer = self.scheduler.logs(request);
            answer.is_some()
        });
        let mut answer = answer.expect("an answer");
        if let LogAnswer::Chunk(chunk) = &mut answer {
            // It names an inode.
            chunk.cursor = None;
        }
        answer
    }

    /// The processes of the first attempt of an instance.
    pub(crate) fn attempt_processes(&self, instance: u64) -> ProcessAnswer {
        let request = RequestId(3_000_000 + instance);
        let read = LeaderCommand::ReadProcesses {
            worker: WorkerName::new("w"),
            query: ProcessQuery {
                lease: lease(instance),
                samples_max: 10,
            },
        };
        self.scheduler.input(Input::command(request, read));
        let mut answer = None;
        until("the processes are read", || {
            answer = self.scheduler.take_processes(request);
            answer.is_some()
        });
        answer.expect("an answer")
    }

    /// The one coordinator of the worker.
    pub(crate) fn coordinator(&self) -> u32 {
        let all = self.coordinators();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0]
    }

    pub(crate) fn coordinators(&self) -> Vec<u32> {
        self.processes("__coordinator")
    }

    pub(crate) fn reapers(&self) -> Vec<u32> {
        self.processes("__reaper")
    }

    /// The processes of the worker with this hidden command.
    fn processes(&self, command: &str) -> Vec<u32> {
        let state = self.state().display().to_string();
        let command = format!("\0{command}\0");
        let is_it = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains(&command) && line.contains(&state)
        };
        // The runner of a task has a coordinator of its own.
        let attempts = self.attempts();
        let is_it = |pid: &u32| is_it(pid) && !attempts.contains(pid);
        let all: Vec<u32> = live().into_iter().filter(is_it).collect();
        // A child has the arguments of its parent until it calls exec, as that of a health check.
        let is_first = |pid: &u32| parent(*pid).is_some_and(|parent| !all.contains(&parent));
        all.iter().copied().filter(is_first).collect()
    }

    /// Every live process of an attempt.
    pub(crate) fn attempts(&self) -> Vec<u32> {
        let file = fs::read_to_string(self.state().join("lineage")).unwrap_or_default();
        let file: serde_json::Value = serde_json::from_str(&file).unwrap_or_default();
        let Some(lineage) = file["lineage"].as_u64() else {
            return Vec::new();
        };
        let mark = format!("w{lineage:016x}:");
        let marked = |pid: &u32| proc::has_mark(*pid, &|text| text.starts_with(&mark));
        live().into_iter().filter(marked).collect()
    }

    /// The log of the agents.
    pub(crate) fn agent_log(&self) -> String {
        fs::read_to_string(self.path("agent.err")).unwrap_or_default()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the agents said:\n{}", self.agent_log());
            let path = self.state().join("checkpoint/coordinator.err");
            eprintln!("{}", fs::read_to_string(path).unwrap_or_default());
        }
        let hidden = ["__reaper", "__coordinator"].map(|command| self.processes(command));
        for pid in hidden.into_iter().flatten().chain(self.attempts()) {
            send(pid, Signal::KILL);
        }
    }
}

/// The lease of the first attempt, from the first leader.
pub(crate) fn lease(instance: u64) -> LeaseId {
    LeaseId {
        attempt: AttemptId {
            instance: InstanceId(instance),
            number: AttemptNo(1),
        },
        epoch: Epoch(1),
    }
}

/// A shell script, on one core.
pub(crate) fn script(text: &str) -> InstanceSpec {
    command(&["/bin/sh", "-c", text])
}

pub(crate) fn command(argv: &[&str]) -> InstanceSpec {
    let mut spec = InstanceSpec {
        name: "test".to_owned(),
        owner: "ann".to_owned(),
        work: Work::Command(argv.iter().map(|word| (*word).to_owned()).collect()),
        ..InstanceSpec::default()
    };
    spec.request.resources.cpu_milli = 1_000;
    spec
}

/// Waits in its directory for a file, and exits with 7.
pub(crate) const GATED: &str = "touch begun; while [ ! -e go ]; do sleep 0.02; done; exit 7";

pub(crate) fn touch(path: &Path) {
    fs::write(path, b"").expect("writable");
}

fn live() -> Vec<u32> {
    let all = proc::all().unwrap_or_default().into_iter();
    let live = all.filter(|stat| !stat.is_over());
    live.map(|stat| stat.pid).collect()
}
