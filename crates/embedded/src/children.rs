//! The scheduler and the worker of `baton run`, as child processes.
//!
//! They end with this process, even if it crashes: a child starts as [`TETHER`], which requests a
//! parent-death signal (prctl) and then executes the command. The scheduler receives SIGTERM, the
//! worker SIGKILL: its coordinator then keeps the attempts until the lease expires, and running the
//! same file again in time continues the same attempt. A worker that crashes is restarted; its
//! coordinator has kept the attempts meanwhile. A worker that exits with an error, or a scheduler
//! that exits at all, ends the command. The children have their own process groups, so that ^C on a
//! terminal reaches this process only.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use baton_client::Client;
use baton_fs::private::file_options;
use baton_terminal::connection::{in_trace, refused};
use baton_terminal::output::{Failure, INTERNAL, STORE_IN_USE, USAGE, clean, note};
use baton_terminal::variables;
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::io_failure;
use crate::record::private;

/// The hidden command that binds a process to the lifetime of its parent.
pub const TETHER: &str = "__tether";

/// The file with the address of the scheduler.
const URL_FILE: &str = "scheduler.url";
/// Names of the children, also of their log files.
const SCHEDULER: &str = "scheduler";
const WORKER: &str = "worker";

/// Short, so that attempts left behind by a crash of this process end soon. Long enough for a busy
/// machine.
const LEASE: &str = "15s";
/// Timeout for the scheduler of an earlier run to end, and for the new one to be ready.
const READY_MAX: Duration = Duration::from_secs(60);
/// Interval between two attempts to start a child.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// Timeouts for the worker to end its attempts, and for the scheduler to exit.
const WORKER_END_MAX: Duration = Duration::from_secs(60);
const SCHEDULER_END_MAX: Duration = Duration::from_secs(15);
/// After this many crashes of the worker in a row, each after an uptime shorter than
/// `UPTIME_MIN`, it is not restarted.
const CRASHES_MAX: u32 = 10;
const UPTIME_MIN: Duration = Duration::from_secs(10);
/// Log lines shown in an error.
const LOG_LINES: usize = 5;

/// The line that a scheduler prints when it is ready.
#[derive(Debug, Deserialize)]
struct Ready {
    url: String,
    workers: String,
}

/// The running scheduler and worker.
#[derive(Debug)]
pub(crate) struct Children {
    pub(crate) client: Client,
    scheduler: Child,
    worker: Child,
    /// Address of the scheduler for workers.
    address: String,
    data: PathBuf,
}

impl Children {
    pub(crate) async fn start(data: &Path, secrets: Option<&Path>) -> Result<Self, Failure> {
        for name in [SCHEDULER, WORKER] {
            let path = log_path(data, name);
            private(&path).map_err(|error| io_failure(&path, &error))?;
        }
        let (scheduler, ready) = scheduler(data, false, secrets).await?;
        write_url(data, &ready.url)?;
        Ok(Self {
            client: in_trace(Client::new(&ready.url).map_err(refused)?),
            scheduler,
            worker: worker(data, &ready.workers)?,
            address: ready.workers,
            data: data.to_owned(),
        })
    }

    /// Restarts the worker after crashes; returns when a child has ended for another reason.
    pub(crate) async fn supervise(&mut self) -> Failure {
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
                    "the {name} of this run has exited: {status}{}\nbaton: nothing is lost; repeat \
                     the command to resume",
                    log_end(&self.data, name)
                ),
            );
        }
    }

    /// Ends the worker with its attempts, then the scheduler.
    pub(crate) async fn end(&mut self) {
        end(&mut self.worker, Signal::INT, WORKER_END_MAX).await;
        end(&mut self.scheduler, Signal::TERM, SCHEDULER_END_MAX).await;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.worker, signal);
        send(&self.scheduler, signal);
    }
}

/// A scheduler without a worker: it places nothing, and answers questions.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) client: Client,
    scheduler: Child,
}

impl Reader {
    pub(crate) async fn start(data: &Path) -> Result<Self, Failure> {
        let (scheduler, ready) = scheduler(data, true, None).await?;
        Ok(Self {
            client: in_trace(Client::new(&ready.url).map_err(refused)?),
            scheduler,
        })
    }

    pub(crate) async fn end(&mut self) {
        end(&mut self.scheduler, Signal::TERM, SCHEDULER_END_MAX).await;
    }
}

/// Records the address of the scheduler, for a look at what runs.
fn write_url(data: &Path, url: &str) -> Result<(), Failure> {
    let path = data.join(URL_FILE);
    let written = private(&path).and_then(|mut file| file.write_all(url.as_bytes()));
    written.map_err(|error| io_failure(&path, &error))
}

/// The address of the scheduler of the command that holds the directory.
pub(crate) fn read_url(data: &Path) -> Result<String, Failure> {
    let path = data.join(URL_FILE);
    std::fs::read_to_string(&path).map_err(|error| io_failure(&path, &error))
}

async fn end(child: &mut Child, signal: Signal, timeout: Duration) {
    send(child, signal);
    if tokio::time::timeout(timeout, child.wait()).await.is_err() {
        // It may have exited already.
        let _ = child.kill().await;
    }
}

fn send(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(pid) = pid.and_then(Pid::from_raw) {
        // It may have exited already, but is not reaped yet, so the pid is not reused.
        let _ = kill_process(pid, signal);
    }
}

/// True if it was ended by a signal, or exited with 0. A worker that exits with an error has logged
/// the reason, and would fail again.
fn is_crash(status: ExitStatus) -> bool {
    status.success() || status.signal().is_some()
}

/// State directory of the worker.
pub fn worker_state(data: &Path) -> PathBuf {
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
        OsStr::new("--allow-cwd"),
        OsStr::new("/"),
    ];
    spawn(data, WORKER, Signal::KILL, &args, false)
}

/// Starts the scheduler. If the scheduler of an earlier run is still shutting down and holds the
/// store, retries until it has exited; other failures are final.
///
/// With `reads_logs` it reads the logs of the worker, which is not started, from its directory.
async fn scheduler(
    data: &Path,
    reads_logs: bool,
    secrets: Option<&Path>,
) -> Result<(Child, Ready), Failure> {
    let state = worker_state(data);
    let mut args = vec![
        OsStr::new("scheduler"),
        OsStr::new("--data"),
        data.as_os_str(),
        OsStr::new("--listen"),
        OsStr::new("127.0.0.1:0"),
        OsStr::new("--worker-listen"),
        OsStr::new("127.0.0.1:0"),
        OsStr::new("--lost-after"),
        OsStr::new(LEASE),
        OsStr::new("--json"),
    ];
    if reads_logs {
        args.extend([OsStr::new("--worker-state"), state.as_os_str()]);
    }
    if let Some(file) = secrets {
        args.extend([OsStr::new("--secrets-file"), file.as_os_str()]);
    }
    let began = Instant::now();
    loop {
        let mut child = spawn(data, SCHEDULER, Signal::TERM, &args, true)?;
        let left = READY_MAX.saturating_sub(began.elapsed());
        let taken = match tokio::time::timeout(left, ready(&mut child)).await {
            Ok(Some(ready)) => return Ok((child, ready)),
            // It has closed its output, so it is exiting.
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
                format!("the scheduler of this run did not start{log}"),
            ));
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// Waits for the ready line; `None` if the process ends before.
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
    let log = file_options().create(true).append(true).open(&path);
    let log = log.map_err(|error| io_failure(&path, &error))?;
    let stdout = if piped { Stdio::piped() } else { Stdio::null() };
    // This same binary, even if its file was replaced.
    let binary = Path::new("/proc/self/exe");
    let mut command = Command::new(binary);
    for variable in baton_service::VARIABLES {
        command.env_remove(variable);
    }
    command
        .arg(TETHER)
        .arg(std::process::id().to_string())
        .arg(parent_death.as_raw().to_string())
        .args(args)
        // The token in the environment is for another scheduler.
        .env_remove(variables::TOKEN)
        // So is the configuration.
        .env(variables::CONFIG, "")
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

/// The last lines of a child's log, to append to an error.
fn log_end(data: &Path, name: &str) -> String {
    let path = log_path(data, name);
    // An unreadable log is treated as empty.
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

/// `__tether PARENT SIGNAL ARGS…`: executes this binary with these arguments, and receives the
/// signal when its parent dies.
pub fn tether(args: &[String]) -> i32 {
    let [parent, signal, command @ ..] = args else {
        return i32::from(USAGE);
    };
    let known = [Signal::TERM, Signal::KILL];
    let signal = known
        .into_iter()
        .find(|known| known.as_raw().to_string() == *signal);
    if let Err(error) = set_parent_process_death_signal(signal) {
        note(&format!(
            "cannot request a signal at the end of `baton run`: {error}"
        ));
        return i32::from(INTERNAL);
    }
    // No signal is sent if the parent died before the request.
    let parent_alive = getppid().is_some_and(|pid| pid.as_raw_nonzero().to_string() == *parent);
    if !parent_alive {
        return i32::from(INTERNAL);
    }
    let error = std::process::Command::new("/proc/self/exe")
        .arg0("baton")
        .args(command)
        .exec();
    note(&format!("cannot start: {error}"));
    i32::from(INTERNAL)
}
