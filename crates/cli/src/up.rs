//! `baton up`: the scheduler in this process, and one worker beside it.
//!
//! The worker is a process of its own, so that what it runs outlives a crash of this one:
//! the next `up` starts another agent, which takes the same life over. An agent that an
//! earlier `up` has left behind may look for a port that is not there any more; it is
//! asked to leave first, and its work goes on.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use baton_model::token::Secret;
use baton_server::serve;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::credentials::{CredentialArgs, TOKEN_VARIABLE};
use crate::logging;
use crate::output::{CommandResult, Failure};
use crate::scheduler::{Interrupts, ServerArgs, failure, runtime};

/// Between two looks at the worker, and before a dead one is started again.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a worker may take to end its work.
const END_WAIT: Duration = Duration::from_secs(30);

/// Runs the scheduler and one worker on this host.
///
/// Example: baton up --resources cpu=4,memory=8GiB
#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    server: ServerArgs,
    /// What the worker offers, if not all of this host.
    #[arg(long, value_name = "LIST")]
    resources: Option<String>,
    /// What the worker is, for constraints.
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,
}

pub(crate) fn run(command: &Up, credentials: &CredentialArgs) -> CommandResult {
    logging::init();
    credentials.reject_for_server()?;
    // This very binary, also after its file was replaced.
    let binary = PathBuf::from("/proc/self/exe");
    let mut config = command.server.config();
    if config.workers_need_tokens() {
        let drawn = baton_store::token::generate();
        let failed = |error| Failure::failed(format!("no secret can be drawn: {error}"));
        config.own_worker = Some(drawn.map_err(failed)?);
    }
    let token = config.own_worker.clone();
    let (address_sender, address_receiver) = mpsc::channel::<SocketAddr>();
    let state = command.server.data.join("worker");
    let mut arguments = vec!["--name".to_owned(), "local".to_owned()];
    if let Some(resources) = &command.resources {
        arguments.extend(["--resources".to_owned(), resources.clone()]);
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
    runtime()?.block_on(async {
        let mut interrupts = Interrupts::new()?;
        let shutdown = async move {
            interrupts.next().await;
            stop(&end, supervising, interrupts).await;
        };
        let ready = |ready: baton_server::Ready| {
            command.server.announce(&ready);
            // The keeper waits for it as long as the server runs.
            let _ = address_sender.send(ready.workers);
        };
        let served = serve(config, ready, shutdown).await;
        served.map_err(|error| failure(&error))
    })
}

/// Ends the worker while the scheduler still listens to how its work ended. Whoever asks again
/// does not want to wait for that.
async fn stop(end: &Sender<()>, supervising: thread::JoinHandle<()>, mut interrupts: Interrupts) {
    tracing::info!("ending the worker with its work; once more to leave it to itself");
    // The keeper has gone if there never was a worker.
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
        tracing::error!("the keeper of the worker has panicked");
    }
}

/// Keeps one worker running.
struct WorkerSupervisor {
    binary: PathBuf,
    state: PathBuf,
    arguments: Vec<String>,
    token: Option<Secret>,
    /// The server's certificate: the worker need not know who has signed it, nor its name.
    pin: Option<PathBuf>,
}

impl WorkerSupervisor {
    /// Until `ending` says so; if it says so again, without waiting for the end.
    fn run(&self, scheduler: SocketAddr, ending: &Receiver<()>) {
        let mut child = None;
        loop {
            child = self.ensure_worker(child, scheduler);
            match ending.recv_timeout(POLL_INTERVAL) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) => break,
                // The scheduler has died: the work goes on, and the next start takes it over.
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        if let Some(child) = child {
            end(child, ending);
        }
    }

    /// Starts a worker if there is none, or none any more.
    fn ensure_worker(&self, child: Option<Child>, scheduler: SocketAddr) -> Option<Child> {
        if let Some(mut child) = child {
            match child.try_wait() {
                Ok(None) => return Some(child),
                Ok(Some(status)) => tracing::warn!("the worker has ended: {status}"),
                Err(error) => tracing::warn!("the worker cannot be waited for: {error}"),
            }
        }
        stop_earlier_worker(&self.state);
        let mut worker = Command::new(&self.binary);
        match &self.token {
            Some(token) => worker.env(TOKEN_VARIABLE, token.expose()),
            // Whoever started us may have one, which is for other things.
            None => worker.env_remove(TOKEN_VARIABLE),
        };
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
            // A key press on the terminal is for this process, which ends the worker itself.
            .process_group(0)
            .spawn();
        match started {
            Ok(child) => Some(child),
            Err(error) => {
                tracing::error!("cannot start the worker: {error}; tries again");
                None
            }
        }
    }
}

/// Asks the agent of an earlier `up` to leave. Its work goes on.
fn stop_earlier_worker(state: &Path) {
    // The lock says whether it lives; a pid alone may be somebody else's by now.
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
        "a worker of an earlier start lives (pid {}); another agent takes its work over",
        pid.as_raw_nonzero()
    );
    if let Err(error) = kill_process(pid, Signal::TERM) {
        tracing::warn!("it cannot be asked to leave: {error}");
    }
    let asked = Instant::now();
    while test_kill_process(pid).is_ok() && asked.elapsed() < POLL_INTERVAL * 5 {
        thread::sleep(POLL_INTERVAL / 50);
    }
}

/// Has a worker kill what it runs, report it, and end.
fn end(mut child: Child, ending: &Receiver<()>) {
    interrupt(&child);
    let asked = Instant::now();
    while asked.elapsed() < END_WAIT {
        if ending.try_recv().is_ok() {
            // Once more makes it kill its work without waiting, too.
            interrupt(&child);
            return tracing::warn!("not waiting for the worker, which ends by itself");
        }
        match child.try_wait() {
            Ok(None) => thread::sleep(POLL_INTERVAL / 50),
            Ok(Some(_)) => return,
            Err(error) => return tracing::warn!("the worker cannot be waited for: {error}"),
        }
    }
    tracing::warn!("the worker does not end; its work is taken over by the next start");
}

fn interrupt(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid
        && let Err(error) = kill_process(pid, Signal::INT)
    {
        tracing::warn!("the worker cannot be asked to end: {error}");
    }
}
