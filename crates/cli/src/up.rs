//! `baton up`: the scheduler in this process, and one worker as a child process.
//!
//! The worker is a separate process, so that its attempts survive a crash of this one: the next
//! `up` starts another agent, which takes over the same incarnation. An agent left behind by an
//! earlier `up` may try a port that is no longer in use; it is terminated first, and its attempts
//! continue.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use baton_model::api::LocalWorker;
use baton_model::token::Secret;
use baton_server::{serve, service};
use baton_store::data_dir;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::credentials::{CredentialArgs, TOKEN_VARIABLE};
use crate::host_key::host_key;
use crate::logging;
use crate::output::{CommandResult, Failure};
use crate::scheduler::{Interrupts, ServerArgs, failure, on_threads};
use crate::worker::absolute;

/// Interval between two checks of the worker, and before a restart.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a worker may take to end its attempts.
const END_WAIT: Duration = Duration::from_secs(30);

/// Run the scheduler and one worker on this host
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton up
  baton up --resources cpu=4,memory=8GiB --library tasks/

^C ends the worker with its attempts, then the scheduler; a second ^C does not wait for the worker.")]
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
}

pub(crate) fn run(command: &Up, credentials: &CredentialArgs) -> CommandResult {
    let _logging = logging::init();
    credentials.reject_for_server()?;
    command.server.load_tzdata()?;
    // This same binary, even if its file was replaced.
    let binary = PathBuf::from("/proc/self/exe");
    let mut config = command.server.config();
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
    let state = data_dir::open_with_worker(data)
        .map_err(|error| Failure::failed(format!("cannot use {}: {error}", data.display())))?;
    let mut arguments = vec!["--name".to_owned(), "local".to_owned()];
    if let Some(resources) = &command.resources {
        arguments.extend(["--resources".to_owned(), resources.clone()]);
    }
    for directory in directories {
        arguments.extend(["--allow-cwd".to_owned(), directory]);
    }
    for label in &command.labels {
        arguments.extend(["--label".to_owned(), label.clone()]);
    }
    let supervisor = WorkerSupervisor {
        binary,
        state,
        arguments,
        token,
        pin: config.tls.as_ref().map(|files| files.cert.clone()),
    };
    let (end, ending) = mpsc::channel();
    let supervising = thread::spawn(move || {
        if let Ok(address) = address_receiver.recv() {
            supervisor.run(address, &ending);
        }
    });
    on_threads(async {
        let mut interrupts = Interrupts::new()?;
        let shutdown = async move {
            interrupts.next().await;
            service::stopping();
            stop(&end, supervising, interrupts).await;
        };
        let ready = |ready: baton_server::Ready| {
            command.server.announce(&ready);
            // The supervisor waits for it as long as the server runs.
            let _ = address_sender.send(ready.workers);
        };
        let served = serve(config, ready, shutdown).await;
        served.map_err(|error| failure(&error))
    })
}

/// Ends the worker while the scheduler still accepts its reports. A second signal stops waiting
/// for that.
async fn stop(end: &Sender<()>, supervising: thread::JoinHandle<()>, mut interrupts: Interrupts) {
    tracing::info!("ending the worker with its attempts; press ^C again to exit without waiting");
    // The supervisor has exited if there never was a worker.
    let _ = end.send(());
    let mut joined = tokio::task::spawn_blocking(move || supervising.join());
    let joined = tokio::select! {
        joined = &mut joined => joined,
        () = interrupts.next() => {
            // As above.
            let _ = end.send(());
            joined.await
        }
    };
    if !matches!(joined, Ok(Ok(()))) {
        tracing::error!("the worker supervisor has panicked");
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
    /// Runs until a message on `ending`; a second message stops waiting for the worker's end.
    fn run(&self, scheduler: SocketAddr, ending: &Receiver<()>) {
        let mut child = None;
        loop {
            child = self.ensure_worker(child, scheduler);
            match ending.recv_timeout(POLL_INTERVAL) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) => break,
                // The scheduler has failed: the attempts continue, and the next start takes them
                // over.
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        if let Some(child) = child {
            end(child, ending);
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
    let Ok(file) = std::fs::File::open(&path) else {
        return;
    };
    if file.try_lock_shared().is_ok() {
        return;
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
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
fn end(mut child: Child, ending: &Receiver<()>) {
    interrupt(&child);
    let started = Instant::now();
    while started.elapsed() < END_WAIT {
        if ending.try_recv().is_ok() {
            // A second SIGINT makes the worker not wait, either.
            interrupt(&child);
            return tracing::warn!("not waiting for the worker, which exits by itself");
        }
        match child.try_wait() {
            Ok(None) => thread::sleep(POLL_INTERVAL / 50),
            Ok(Some(_)) => return,
            Err(error) => return tracing::warn!("cannot wait for the worker: {error}"),
        }
    }
    tracing::warn!("the worker has not exited in time; the next start takes over its attempts");
}

fn interrupt(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid
        && let Err(error) = kill_process(pid, Signal::INT)
    {
        tracing::warn!("cannot send SIGINT to the worker: {error}");
    }
}
