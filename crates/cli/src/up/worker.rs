//! The worker of `baton up`: a child process, restarted whenever it exits. One that refuses its options
//! is not: it would refuse them again.

use std::ffi::OsStr;
use std::io::Read as _;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use baton_fs::private;
use baton_model::token::Secret;
use baton_service::ReadySocket;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::config::FILE_VARIABLE;
use crate::credentials::TOKEN_VARIABLE;
use crate::output::USAGE;

/// Interval between two checks of the worker, and before a restart.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How soon an exit of a worker that is not ready is seen.
const READY_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long a worker may take to end its attempts.
const END_WAIT: Duration = Duration::from_secs(30);

/// How long a first start of the worker is waited for. It may ask a driver for its devices.
const READY_WAIT: Duration = Duration::from_secs(30);

/// How long an agent may take to exit that leaves its attempts running.
const DETACH_WAIT: Duration = Duration::from_secs(5);

/// An order to the supervisor of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// End the worker with its attempts; the second time, without waiting.
    End,
    /// End the agent, and leave the attempts running.
    Detach,
}

/// How the first start of the worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstStart {
    /// It runs, or is started again until it does.
    Begun,
    /// It has refused its options, and written why.
    Refused,
}

/// Restarts the worker whenever it exits.
pub(super) struct WorkerSupervisor {
    pub(super) binary: PathBuf,
    pub(super) state: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) token: Option<Secret>,
    /// The server's certificate, pinned: the worker needs neither its CA nor its name.
    pub(super) pin: Option<PathBuf>,
}

impl WorkerSupervisor {
    /// Runs until an order; a second one stops waiting for the worker's end. `begun` learns how the
    /// first start ended; after a refusal there is no other.
    pub(super) fn run(
        &self,
        scheduler: SocketAddr,
        orders: &Receiver<Order>,
        begun: impl FnOnce(FirstStart),
    ) {
        let (mut child, first) = self.first_start(scheduler);
        begun(first);
        if first == FirstStart::Refused {
            return;
        }
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

    /// Starts the worker, and waits until it is ready, or has exited.
    fn first_start(&self, scheduler: SocketAddr) -> (Option<Child>, FirstStart) {
        let socket = match ReadySocket::open() {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!("cannot wait for the worker: {error}");
                return (None, FirstStart::Begun);
            }
        };
        let Some(mut child) = self.start(scheduler, Some(&socket)) else {
            return (None, FirstStart::Begun);
        };
        let started = Instant::now();
        while started.elapsed() < READY_WAIT {
            match socket.wait(READY_POLL_INTERVAL) {
                Ok(false) => {}
                Ok(true) => break,
                Err(error) => {
                    tracing::warn!("cannot wait for the worker: {error}");
                    break;
                }
            }
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) if status.code() == Some(i32::from(USAGE)) => {
                    return (None, FirstStart::Refused);
                }
                // The next look reports it.
                Ok(Some(_)) | Err(_) => break,
            }
        }
        (Some(child), FirstStart::Begun)
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
        self.start(scheduler, None)
    }

    fn start(&self, scheduler: SocketAddr, ready: Option<&ReadySocket>) -> Option<Child> {
        stop_earlier_worker(&self.state);
        let mut worker = Command::new(&self.binary);
        match &self.token {
            Some(token) => worker.env(TOKEN_VARIABLE, token.expose()),
            // A token in our environment is for other commands.
            None => worker.env_remove(TOKEN_VARIABLE),
        };
        for variable in baton_service::VARIABLES {
            worker.env_remove(variable);
        }
        worker.envs(ready.map(ReadySocket::variable));
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
