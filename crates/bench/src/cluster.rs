//! A scheduler and a worker of this binary, on ports chosen by the kernel.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_client::{Client, ClientError, Span};
use baton_model::api::{Indices, Submit};
use baton_model::ids::InstanceId;
use baton_runner::sys::proc;
use baton_runner::{coordinator, reaper};
use baton_terminal::output::Failure;
use baton_terminal::runtime;
use baton_terminal::variables::CONFIG;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::compare::BenchStore;
use crate::rig::io_failure;

/// A step that takes longer has failed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(600);

/// A data directory, removed on drop.
pub(crate) struct BenchDir(PathBuf);

impl BenchDir {
    pub(crate) fn new(place: Option<&Path>) -> Result<Self, Failure> {
        let place = place.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let path = place.join(format!("baton-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| io_failure("make a directory", &error))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for BenchDir {
    fn drop(&mut self) {
        // Best effort: it is a temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running scheduler process.
pub(crate) struct Scheduler {
    child: Child,
    pub(crate) workers: String,
    pub(crate) client: Client,
    /// Time from its start until it led.
    pub(crate) ready_after: Duration,
}

impl Scheduler {
    /// Starts a scheduler on the data directory `data`, with its store in there.
    pub(crate) fn start(data: &Path) -> Result<Self, Failure> {
        Self::start_with(data, &BenchStore::Sqlite)
    }

    /// Starts a scheduler with this store.
    pub(crate) fn start_with(data: &Path, store: &BenchStore) -> Result<Self, Failure> {
        let begun = Instant::now();
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["scheduler", "--json", "--listen", "127.0.0.1:0"])
            .args(["--worker-listen", "127.0.0.1:0", "--data"])
            .arg(data)
            // The rate limit must not limit the benchmark.
            .args(["--max-requests", "1000000"])
            // In the environment, a password is hidden from other users. One that is set already
            // names a store in use.
            .env("BATON_STORE", store.name())
            .env("BATON_LOG", "warn")
            .env(CONFIG, "")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| io_failure("start a scheduler", &error))?;
        let line = child.stdout.take().map(|out| {
            let mut line = String::new();
            let read = BufReader::new(out).read_line(&mut line);
            read.map(|_| line)
        });
        let line = line.transpose().ok().flatten().unwrap_or_default();
        let ready: Value = serde_json::from_str(&line)
            .map_err(|_| Failure::failed("the scheduler did not start; its log is above"))?;
        let word = |key: &str| ready[key].as_str().unwrap_or_default().to_owned();
        let mut scheduler = Self {
            client: Client::new(&word("url")).map_err(Failure::failed)?,
            workers: word("workers"),
            child,
            ready_after: Duration::ZERO,
        };
        block_on(wait_until_leading(&scheduler.client))?;
        scheduler.ready_after = begun.elapsed();
        Ok(scheduler)
    }

    /// Current and peak resident memory, in bytes.
    pub(crate) fn memory(&self) -> Result<(u64, u64), Failure> {
        memory(self.child.id())
    }

    /// CPU time so far, of this process only.
    pub(crate) fn cpu(&self) -> Result<Duration, Failure> {
        cpu(self.child.id())
    }

    /// Kills it (SIGKILL), as a crash would.
    pub(crate) fn kill(mut self) -> Result<(), Failure> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map_err(|error| io_failure("kill a scheduler", &error))?;
        Ok(())
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running worker: an agent, with a coordinator and a reaper that are no children of it.
pub(crate) struct Worker {
    child: Child,
    state: PathBuf,
}

/// CPU time of each process of a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerCpu {
    pub(crate) agent: Duration,
    pub(crate) coordinator: Duration,
    pub(crate) reaper: Duration,
}

impl WorkerCpu {
    /// The time since an earlier moment.
    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            agent: self.agent.saturating_sub(earlier.agent),
            coordinator: self.coordinator.saturating_sub(earlier.coordinator),
            reaper: self.reaper.saturating_sub(earlier.reaper),
        }
    }
}

impl Worker {
    /// Starts a worker with `cpus` cores.
    pub(crate) fn start(scheduler: &Scheduler, state: &Path, cpus: usize) -> Result<Self, Failure> {
        let child = Command::new("/proc/self/exe")
            .args(["worker", "--name", "bench", "--scheduler"])
            .arg(&scheduler.workers)
            .arg("--state")
            .arg(state)
            .args(["--resources", &format!("cpu={cpus}")])
            .env("BATON_LOG", "warn")
            .env(CONFIG, "")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| io_failure("start a worker", &error))?;
        Ok(Self {
            child,
            state: state.to_owned(),
        })
    }

    /// Stops it when its work is done: on SIGTERM an idle worker dismisses its coordinator.
    pub(crate) fn stop(mut self) {
        self.end(Signal::TERM);
    }

    fn end(&mut self, signal: Signal) {
        let is_running = matches!(self.child.try_wait(), Ok(None));
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| is_running) {
            let _ = kill_process(pid, signal);
            let _ = self.child.wait();
        }
    }

    /// CPU time so far, of its own processes only.
    pub(crate) fn cpu(&self) -> Result<WorkerCpu, Failure> {
        Ok(WorkerCpu {
            agent: cpu(self.child.id())?,
            coordinator: cpu(self.find(coordinator::COMMAND)?)?,
            reaper: cpu(self.find(reaper::COMMAND)?)?,
        })
    }

    /// The process that was started with this hidden command and a directory of the worker.
    fn find(&self, command: &str) -> Result<u32, Failure> {
        let all = proc::all().map_err(|error| io_failure("read /proc", &error))?;
        let state = self.state.canonicalize();
        let state = state.map_err(|error| io_failure("find the worker's directory", &error))?;
        let is_own = |process: &proc::Stat| {
            // It may be gone.
            let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0).skip(1);
            let is_command = words.next() == Some(command.as_bytes());
            let dir = words.next().map(OsStr::from_bytes).unwrap_or_default();
            let dir = Path::new(dir).canonicalize();
            is_command && dir.is_ok_and(|dir| dir.starts_with(&state))
        };
        let found = all.iter().find(|process| is_own(process));
        let missing = || Failure::failed(format!("the worker has no process `baton {command}`"));
        found.map(|process| process.pid).ok_or_else(missing)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // On SIGINT a worker kills its attempts before it exits, and warns about it.
        self.end(Signal::INT);
    }
}

/// Submits a command as one instance, or as an array of `count`.
pub(crate) async fn submit(
    client: &Client,
    name: &str,
    argv: &[&str],
    count: Option<u64>,
) -> Result<Span, Failure> {
    let submit = Submit {
        file: json!({ "task": name, "run": argv, "resources": { "cpu": 1 } }),
        params: Default::default(),
        array: count.map(|count| Indices { from: 1, to: count }),
        ..Default::default()
    };
    let submitted = client.submit(&submit).await.map_err(Failure::failed)?;
    let id = |text: &str| {
        let number = text.trim_start_matches('i').parse().map(InstanceId);
        number.map_err(|_| Failure::failed(format!("`{text}` is not an instance id")))
    };
    Ok(Span {
        first: id(&submitted.first)?,
        last: id(&submitted.last)?,
    })
}

/// Waits until all instances of a range have ended; all must be DONE.
pub(crate) async fn finish(client: &Client, span: Span) -> Result<(), Failure> {
    let begun = Instant::now();
    loop {
        let left = TIMEOUT.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(Failure::failed(format!(
                "{span} did not end within {} s",
                TIMEOUT.as_secs()
            )));
        }
        let wait = left.min(Duration::from_secs(30));
        let summary = match client.wait_range(span, wait).await {
            Ok(summary) => summary,
            Err(ClientError::Problem(problem)) => return Err(Failure::failed(problem.detail)),
            Err(error) => return Err(Failure::failed(error)),
        };
        let of = |wanted: &str| {
            let counts = summary.counts.iter();
            counts
                .filter(|(state, _)| state.word() == wanted)
                .map(|(_, count)| *count)
                .sum::<u64>()
        };
        if of("DONE") == span.count() {
            return Ok(());
        }
        let bad = of("FAILED") + of("HALTED") + of("ABORTED");
        if bad > 0 {
            return Err(Failure::failed(format!("{bad} of {span} did not succeed")));
        }
    }
}

/// Waits until a scheduler leads: one with a shared store answers before.
async fn wait_until_leading(client: &Client) -> Result<(), Failure> {
    let begun = Instant::now();
    while begun.elapsed() < TIMEOUT {
        let ready = client.ready().await.map_err(Failure::failed)?;
        if ready.epoch.is_some() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Err(Failure::failed("the scheduler does not lead"))
}

/// Waits until a worker is HEALTHY.
pub(crate) async fn wait_until_healthy(client: &Client) -> Result<(), Failure> {
    let begun = Instant::now();
    loop {
        let workers = client.workers().await.map_err(Failure::failed)?;
        if workers.iter().any(|it| it.state.word() == "HEALTHY") {
            return Ok(());
        }
        if begun.elapsed() > Duration::from_secs(60) {
            return Err(Failure::failed("the worker is not HEALTHY after 60 s"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs the client on the current thread.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime::on_this_thread(work).map_err(|error| io_failure("start a runtime", &error))?
}

fn memory(pid: u32) -> Result<(u64, u64), Failure> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .map_err(|error| io_failure("read /proc", &error))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib = line
            .trim()
            .strip_suffix(" kB")?
            .trim()
            .parse::<u64>()
            .ok()?;
        Some(kib * 1_024)
    };
    field("VmRSS:")
        .zip(field("VmHWM:"))
        .ok_or_else(|| Failure::failed("/proc does not report the scheduler's memory"))
}

/// CPU time of one process, in kernel ticks of 10 ms.
fn cpu(pid: u32) -> Result<Duration, Failure> {
    let stat = proc::stat(pid).map_err(|error| io_failure("read /proc", &error))?;
    let stat = stat.ok_or_else(|| Failure::failed("a process of the cluster has ended"))?;
    let seconds = stat.cpu_ticks as f64 / proc::ticks_per_second() as f64;
    Ok(Duration::from_secs_f64(seconds))
}
