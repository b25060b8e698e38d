//! The scheduler and the worker of `baton run`, as child processes.
//!
//! They end with us, whatever becomes of us: a child begins as [`TETHER`], which asks the
//! kernel for a signal at our death and then becomes the command. The scheduler is asked
//! to end, the worker is killed: then its coordinator keeps the work until the lease is
//! over, and whoever runs the same file again in time goes on with the same attempt.
//! A worker that dies is started again: its coordinator has kept the work meanwhile. One that
//! gives up has a reason, and so has the scheduler, whose word is needed for everything.
//! The children have process groups of their own, so that ^C on a terminal reaches us
//! alone.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use baton_client::Client;
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::{INTERNAL, io_failure};
use crate::credentials::TOKEN_VARIABLE;
use crate::output::{Failure, clean};
use crate::remote::refused;
use crate::scheduler::STORE_IN_USE;

/// The hidden command that binds a process to the life of its parent.
pub(crate) const TETHER: &str = "__tether";

/// What the children are called, here and in the names of their logs.
const SCHEDULER: &str = "scheduler";
const WORKER: &str = "worker";

/// Short, because nobody else waits for these workers: what our own death leaves behind is
/// gone after this. Long enough for a machine that is busy.
const LEASE: &str = "15s";
/// For the scheduler of an earlier run to end, and for ours to be ready.
const READY_MAX: Duration = Duration::from_secs(60);
/// Between two tries.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// For the worker to end its work, and for the scheduler to write it down.
const WORKER_END_MAX: Duration = Duration::from_secs(60);
const SCHEDULER_END_MAX: Duration = Duration::from_secs(15);
/// So many crashes of the worker in a row, each after a life shorter than this, have a reason
/// that does not pass by itself.
const CRASHES_MAX: u32 = 10;
const UPTIME_MIN: Duration = Duration::from_secs(10);
/// Of a log, when something went wrong.
const LOG_LINES: usize = 5;

/// What a scheduler says when it is ready.
#[derive(Debug, Deserialize)]
struct Ready {
    url: String,
    workers: String,
}

/// Both, running.
#[derive(Debug)]
pub(super) struct Children {
    pub(super) client: Client,
    scheduler: Child,
    worker: Child,
    /// Where the worker finds the scheduler.
    address: String,
    data: PathBuf,
}

impl Children {
    pub(super) async fn start(data: &Path) -> Result<Self, Failure> {
        for name in [SCHEDULER, WORKER] {
            let path = log_path(data, name);
            File::create(&path).map_err(|error| io_failure(&path, &error))?;
        }
        let (scheduler, ready) = scheduler(data).await?;
        Ok(Self {
            client: Client::new(&ready.url).map_err(refused)?,
            scheduler,
            worker: worker(data, &ready.workers)?,
            address: ready.workers,
            data: data.to_owned(),
        })
    }

    /// Waits until one of them has ended for good, which it should not.
    pub(super) async fn supervise(&mut self) -> Failure {
        let mut crashes = 0;
        loop {
            let began = Instant::now();
            let (name, status) = tokio::select! {
                status = self.scheduler.wait() => (SCHEDULER, status),
                status = self.worker.wait() => (WORKER, status),
            };
            crashes = if began.elapsed() < UPTIME_MIN {
                crashes + 1
            } else {
                1
            };
            let status = match status {
                Ok(status) if name == WORKER && is_crash(status) && crashes < CRASHES_MAX => {
                    tokio::time::sleep(RETRY_INTERVAL).await;
                    match worker(&self.data, &self.address) {
                        Ok(worker) => self.worker = worker,
                        Err(failure) => return failure,
                    }
                    continue;
                }
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            };
            return Failure::Message(
                INTERNAL,
                format!(
                    "the {name} of this run has ended: {status}{}\nbaton: nothing is lost: run \
                     again to go on",
                    log_end(&self.data, name)
                ),
            );
        }
    }

    /// Ends the worker with its work, then the scheduler.
    pub(super) async fn end(&mut self) {
        end(&mut self.worker, Signal::INT, WORKER_END_MAX).await;
        end(&mut self.scheduler, Signal::TERM, SCHEDULER_END_MAX).await;
    }

    pub(super) fn signal(&self, signal: Signal) {
        send(&self.worker, signal);
        send(&self.scheduler, signal);
    }
}

async fn end(child: &mut Child, signal: Signal, timeout: Duration) {
    send(child, signal);
    if tokio::time::timeout(timeout, child.wait()).await.is_err() {
        // One that is gone needs no signal.
        let _ = child.kill().await;
    }
}

fn send(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(pid) = pid.and_then(Pid::from_raw) {
        // One that is gone needs no signal; it is not reaped yet, so the pid is its own.
        let _ = kill_process(pid, signal);
    }
}

/// True if somebody has ended it. One that ends by itself and not well has said why, and would
/// say it again.
fn is_crash(status: ExitStatus) -> bool {
    status.success() || status.signal().is_some()
}

/// Where the worker keeps its files.
pub(super) fn worker_state(data: &Path) -> PathBuf {
    data.join("worker")
}

fn worker(data: &Path, address: &str) -> Result<Child, Failure> {
    let state = worker_state(data);
    let args = [
        OsStr::new("worker"),
        OsStr::new("--scheduler"),
        OsStr::new(address),
        OsStr::new("--state"),
        state.as_os_str(),
        OsStr::new("--name"),
        OsStr::new("local"),
    ];
    spawn(data, WORKER, Signal::KILL, &args, false)
}

/// Starts the scheduler. That of an earlier run may still be on its way out, and holds the
/// data until then: only for that it is waited.
async fn scheduler(data: &Path) -> Result<(Child, Ready), Failure> {
    let args = [
        OsStr::new("scheduler"),
        OsStr::new("--data"),
        data.as_os_str(),
        OsStr::new("--listen"),
        OsStr::new("127.0.0.1:0"),
        OsStr::new("--worker-listen"),
        OsStr::new("127.0.0.1:0"),
        OsStr::new("--lease"),
        OsStr::new(LEASE),
        OsStr::new("--json"),
    ];
    let began = Instant::now();
    loop {
        let mut child = spawn(data, SCHEDULER, Signal::TERM, &args, true)?;
        let left = READY_MAX.saturating_sub(began.elapsed());
        let taken = match tokio::time::timeout(left, ready(&mut child)).await {
            Ok(Some(ready)) => return Ok((child, ready)),
            // It has closed its output, so it ends.
            Ok(None) => {
                let status = tokio::time::timeout(SCHEDULER_END_MAX, child.wait()).await;
                matches!(status, Ok(Ok(status)) if status.code() == Some(STORE_IN_USE.into()))
            }
            Err(_) => false,
        };
        if !taken || began.elapsed() > READY_MAX {
            end(&mut child, Signal::KILL, SCHEDULER_END_MAX).await;
            let log = log_end(data, SCHEDULER);
            return Err(Failure::Message(
                INTERNAL,
                format!("the scheduler of this run does not start{log}"),
            ));
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// Reads the line that says it is ready; none if it ends before.
async fn ready(child: &mut Child) -> Option<Ready> {
    let mut lines = BufReader::new(child.stdout.as_mut()?).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Ok(ready) = serde_json::from_str(&line) {
            return Some(ready);
        }
    }
    None
}

fn spawn(
    data: &Path,
    name: &str,
    parent_death: Signal,
    args: &[&OsStr],
    piped: bool,
) -> Result<Child, Failure> {
    let path = log_path(data, name);
    let log = File::options().create(true).append(true).open(&path);
    let log = log.map_err(|error| io_failure(&path, &error))?;
    let stdout = if piped { Stdio::piped() } else { Stdio::null() };
    // This very binary, also after its file was replaced.
    let binary = Path::new("/proc/self/exe");
    Command::new(binary)
        .arg(TETHER)
        .arg(std::process::id().to_string())
        .arg(parent_death.as_raw().to_string())
        .args(args)
        // It is for another scheduler than this one.
        .env_remove(TOKEN_VARIABLE)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(log)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| io_failure(binary, &error))
}

fn log_path(data: &Path, name: &str) -> PathBuf {
    data.join(format!("{name}.log"))
}

/// The last lines of a child's log, to go on with after what is said about it.
fn log_end(data: &Path, name: &str) -> String {
    let path = log_path(data, name);
    // A log that cannot be read has nothing to say.
    let text = std::fs::read(&path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
    let mut end = String::new();
    for line in last {
        end.push_str(&format!("\n  {}", clean(line)));
    }
    end.push_str(&format!("\n  more: {}", path.display()));
    end
}

/// `__tether PARENT SIGNAL ARGS…`: becomes this binary with these arguments, and gets the
/// signal when its parent dies.
pub(crate) fn tether(args: &[String]) -> i32 {
    let [parent, signal, command @ ..] = args else {
        return i32::from(crate::output::USAGE);
    };
    let known = [Signal::TERM, Signal::KILL];
    let signal = known
        .into_iter()
        .find(|known| known.as_raw().to_string() == *signal);
    if let Err(error) = set_parent_process_death_signal(signal) {
        crate::output::note(&format!(
            "cannot be bound to the life of `baton run`: {error}"
        ));
        return i32::from(INTERNAL);
    }
    // A parent that died before the kernel was asked sends nothing.
    let parent_alive = getppid().is_some_and(|pid| pid.as_raw_nonzero().to_string() == *parent);
    if !parent_alive {
        return i32::from(INTERNAL);
    }
    let error = std::process::Command::new("/proc/self/exe")
        .arg0("baton")
        .args(command)
        .exec();
    crate::output::note(&format!("cannot start: {error}"));
    i32::from(INTERNAL)
}
