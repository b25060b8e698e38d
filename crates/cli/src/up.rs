//! `baton up`: the scheduler in this process, and one worker as a child process.
//!
//! The worker is a separate process, so that its attempts survive a crash of this one: the next
//! `up` starts another agent, which takes over the same incarnation. An agent left behind by an
//! earlier `up` may try a port that is no longer in use; it is terminated first, and its attempts
//! continue.
//!
//! SIGTERM is what a service manager sends before it starts the next `up`: the scheduler ends first,
//! so that it places nothing more, then the agent alone, and the attempts continue. SIGINT ends the
//! attempts with the worker.

use std::ffi::OsStr;
use std::io::Read as _;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use baton_fs::private;
use baton_model::api::LocalWorker;
use baton_model::token::Secret;
use baton_server::{serve, service};
use baton_store::data_dir;
use baton_terminal::interrupts::{Interrupt, Interrupts};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::config::FILE_VARIABLE;
use crate::credentials::{CredentialArgs, TOKEN_VARIABLE};
use crate::host_key::host_key;
use crate::logging;
use crate::output::{CommandResult, Failure};
use crate::scheduler::{ServerArgs, failure, on_threads};
use crate::worker::absolute;

/// Interval between two checks of the worker, and before a restart.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a worker may take to end its attempts.
const END_WAIT: Duration = Duration::from_secs(30);

/// How long an agent may take to exit that leaves its attempts running.
const DETACH_WAIT: Duration = Duration::from_secs(5);

/// An order to the supervisor of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// End the worker with its attempts; the second time, without waiting.
    End,
    /// End the agent, and leave the attempts running.
    Detach,
}

/// Run the scheduler and one worker on this host
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton up
  baton up --resources cpu=4,memory=8GiB --library tasks/

^C ends the worker with its attempts, then the scheduler; a second ^C does not wait for the worker.
SIGTERM ends both and leaves the attempts running; the next `baton up` on the same data directory
takes them over. Without one they are killed after a while (`lost_after`, usually 3m43s), and strict
ones never; the log says until when.")]
pub(crate) struct Up {
    #[command(flatten)]
    server: ServerArgs,
    /// Resources of the worker, such as cpu=4,memory=8GiB [default: those of this host]
    #[arg(long, value_name = "LIST")]
    resources: Option<String>,
    /// Label of the worker, for constraints; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// Directory in which, and below which, the worker runs work outside of its sandbox; may be
    /// repeated [default: /]
    #[arg(long = "allow-cwd", value_name = "DIR", value_parser = absolute)]
    directories: Vec<String>,
    /// Run all work in its sandbox
    #[arg(long, conflicts_with = "directories")]
    sandbox_only: bool,
}

impl Up {
    /// The directories that the worker allows.
    fn directories(&self) -> Vec<String> {
        match (self.sandbox_only, &*self.directories) {
            (true, _) => Vec::new(),
            (false, []) => vec!["/".to_owned()],
            (false, directories) => directories.to_vec(),
        }
    }

    /// Arguments of the worker that come from this command.
    fn worker_arguments(&self, directories: Vec<String>) -> Vec<String> {
        let mut arguments = vec!["--name".to_owned(), "local".to_owned()];
        if let Some(resources) = &self.resources {
            arguments.extend(["--resources".to_owned(), resources.clone()]);
        }
        for directory in directories {
            arguments.extend(["--allow-cwd".to_owned(), directory]);
        }
        for label in &self.labels {
            arguments.extend(["--label".to_owned(), label.clone()]);
        }
        arguments
    }
}

/// Runs until a signal. `configured` are options of the worker that this command does not have.
pub(crate) fn run(
    command: &Up,
    credentials: &CredentialArgs,
    configured: Vec<String>,
) -> CommandResult {
    let _logging = logging::init();
    credentials.reject_for_server()?;
    command.server.load_tzdata()?;
    // This same binary, even if its file was replaced.
    let binary = PathBuf::from("/proc/self/exe");
    let mut config = command.server.config()?;
    if config.workers_need_tokens() {
        let drawn = baton_store::token::generate();
        let failed = |error| Failure::failed(format!("cannot generate a secret: {error}"));
        config.own_worker = Some(drawn.map_err(failed)?);
    }
    let token = config.own_worker.clone();
    let directories = command.directories();
    config.local_worker = host_key()
        .filter(|_| !directories.is_empty())
        .map(|host| LocalWorker {
            host,
            directories: directories.clone(),
        });
    let (address_sender, address_receiver) = mpsc::channel::<SocketAddr>();
    let data = &command.server.data;
    let state = data_dir::open_with_worker(data).map_err(Failure::data_dir)?;
    let supervisor = WorkerSupervisor {
        binary,
        state,
        arguments: [command.worker_arguments(directories), configured].concat(),
        token,
        pin: config.tls.as_ref().map(|files| files.cert.clone()),
    };
    let (end, ending) = mpsc::channel();
    let (worker_done, worker_ended) = tokio::sync::oneshot::channel::<()>();
    let supervising = thread::spawn(move || {
        // Dropped at the end of this thread.
        let _worker_done = worker_done;
        if let Ok(address) = address_receiver.recv() {
            supervisor.run(address, &ending);
        }
    });
    let orders = end.clone();
    on_threads(async {
        let mut interrupts = Interrupts::new()?;
        let shutdown = async move {
            let signal = interrupts.next().await;
            service::stopping();
            match signal {
                Interrupt::Interrupted => end_worker(&orders, worker_ended, interrupts).await,
                Interrupt::Terminated => {
                    tracing::info!("exiting; the next start takes running attempts over")
                }
            }
        };
        let ready = |ready: baton_server::Ready| {
            command.server.announce(&ready);
            // The supervisor waits for it as long as the server runs.
            let _ = address_sender.send(ready.workers);
        };
        let served = serve(config, ready, shutdown).await;
        served.map_err(|error| failure(&error))
    })?;
    drop(address_sender);
    // The supervisor has exited if the worker was ended, or if there never was one.
    let _ = end.send(Order::Detach);
    if supervising.join().is_err() {
        tracing::error!("the worker supervisor has panicked");
    }
    Ok(())
}

/// Ends the worker while the scheduler still accepts its reports. A second signal stops waiting
/// for that.
async fn end_worker(
    orders: &Sender<Order>,
    worker_ended: tokio::sync::oneshot::Receiver<()>,
    mut interrupts: Interrupts,
) {
    tracing::info!("ending the worker with its attempts; press ^C again to exit without waiting");
    // The supervisor has exited if there never was a worker.
    let _ = orders.send(Order::End);
    let mut worker_ended = worker_ended;
    tokio::select! {
        _ = &mut worker_ended => {}
        _ = interrupts.next() => {
            // As above.
            let _ = orders.send(Order::End);
            let _ = worker_ended.await;
        }
    }
}

/// Restarts the worker whenever it exits.
struct WorkerSupervisor {
    binary: PathBuf,
    state: PathBuf,
    arguments: Vec<String>,
    token: Option<Secret>,
    /// The server's certificate, pinned: the worker needs neither its CA nor its name.
    pin: Option<PathBuf>,
}

impl WorkerSupervisor {
    /// Runs until an order; a second one stops waiting for the worker's end.
    fn run(&self, scheduler: SocketAddr, orders: &Receiver<Order>) {
        let mut child = None;
        let order = loop {
            child = self.ensure_worker(child, scheduler);
            match orders.recv_timeout(POLL_INTERVAL) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(order) => break order,
                // The scheduler has failed: the attempts continue, and the next start takes them
                // over.
                Err(RecvTimeoutError::Disconnected) => return,
            }
        };
        match (child, order) {
            (None, _) => {}
            (Some(child), Order::End) => end(child, orders),
            (Some(child), Order::Detach) => detach(child),
        }
    }

    /// Starts a worker if none is running.
    fn ensure_worker(&self, child: Option<Child>, scheduler: SocketAddr) -> Option<Child> {
        if let Some(mut child) = child {
            match child.try_wait() {
                Ok(None) => return Some(child),
                Ok(Some(status)) => tracing::warn!("the worker has exited: {status}"),
                Err(error) => tracing::warn!("cannot wait for the worker: {error}"),
            }
        }
        stop_earlier_worker(&self.state);
        let mut worker = Command::new(&self.binary);
        match &self.token {
            Some(token) => worker.env(TOKEN_VARIABLE, token.expose()),
            // A token in our environment is for other commands.
            None => worker.env_remove(TOKEN_VARIABLE),
        };
        for variable in service::VARIABLES {
            worker.env_remove(variable);
        }
        // It has what this process has read for it.
        worker.env(FILE_VARIABLE, "");
        let pin = self
            .pin
            .iter()
            .flat_map(|pin| [OsStr::new("--pin"), pin.as_os_str()]);
        let started = worker
            .arg0("baton")
            .arg("worker")
            .args(["--scheduler", &scheduler.to_string(), "--state"])
            .arg(&self.state)
            .args(&self.arguments)
            .args(pin)
            // ^C on the terminal must reach this process only, which ends the worker itself.
            .process_group(0)
            .spawn();
        match started {
            Ok(child) => Some(child),
            Err(error) => {
                tracing::error!("cannot start the worker: {error}; retrying");
                None
            }
        }
    }
}

/// Terminates the agent of an earlier `up`. Its attempts continue.
fn stop_earlier_worker(state: &Path) {
    // The lock shows whether it is running; the pid alone may have been reused.
    let path = state.join("agent.lock");
    let Ok(mut file) = private::file_options().read(true).open(&path) else {
        return;
    };
    if file.try_lock_shared().is_ok() {
        return;
    }
    let mut text = String::new();
    // Without a process id there is nothing to terminate.
    let _ = file.read_to_string(&mut text);
    let pid = text.trim().parse().ok().and_then(Pid::from_raw);
    let Some(pid) = pid else {
        return;
    };
    tracing::info!(
        "the worker of an earlier start is running (pid {}); a new agent takes over its attempts",
        pid.as_raw_nonzero()
    );
    if let Err(error) = kill_process(pid, Signal::TERM) {
        tracing::warn!("cannot terminate it: {error}");
    }
    let started = Instant::now();
    while test_kill_process(pid).is_ok() && started.elapsed() < POLL_INTERVAL * 5 {
        thread::sleep(POLL_INTERVAL / 50);
    }
}

/// Makes a worker kill its attempts, report them, and exit.
fn end(mut child: Child, orders: &Receiver<Order>) {
    signal(&child, Signal::INT);
    let hurried = || orders.try_recv().is_ok();
    match wait(&mut child, END_WAIT, hurried) {
        Wait::Over => {}
        Wait::Hurried => {
            // A second SIGINT makes the worker not wait, either.
            signal(&child, Signal::INT);
            tracing::warn!("not waiting for the worker, which exits by itself");
        }
        Wait::TimedOut => {
            tracing::warn!(
                "the worker has not exited in time; the next start takes over its attempts"
            );
        }
    }
}

/// Makes an agent exit and leave its attempts running. One that does not is terminated by the next
/// start.
fn detach(mut child: Child) {
    signal(&child, Signal::TERM);
    wait(&mut child, DETACH_WAIT, || false);
}

/// How a wait for a child has ended.
enum Wait {
    Over,
    Hurried,
    TimedOut,
}

fn wait(child: &mut Child, timeout: Duration, hurried: impl Fn() -> bool) -> Wait {
    let started = Instant::now();
    while started.elapsed() < timeout {
        if hurried() {
            return Wait::Hurried;
        }
        match child.try_wait() {
            Ok(None) => thread::sleep(POLL_INTERVAL / 50),
            Ok(Some(_)) => return Wait::Over,
            Err(error) => {
                tracing::warn!("cannot wait for the worker: {error}");
                return Wait::Over;
            }
        }
    }
    Wait::TimedOut
}

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid
        && let Err(error) = kill_process(pid, signal)
    {
        tracing::warn!("cannot send {signal:?} to the worker: {error}");
    }
}
