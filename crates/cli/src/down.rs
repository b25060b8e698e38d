//! `baton down`: ends the scheduler of a data directory.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use baton_server::DataLock;
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;

use crate::output::{CommandResult, Failure, Output, note};

/// How long a scheduler may take before it is said why.
const QUIET_WAIT: Duration = Duration::from_secs(2);
/// How often the process is looked for. One that is not visible here holds the directory all the same.
const FIND_TRIES: usize = 10;
/// Interval between two signals with `--now`. A signal that follows another at once is lost.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(200);

/// End the scheduler of a data directory, such as that of `baton up --detach`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton down
  baton down --data /var/lib/baton --now
  baton down --leave-running && baton up --detach

The worker of `baton up` ends with its attempts: they get SIGTERM, and SIGKILL after their grace
period. What was running is queued again, and runs after the next `baton up`. Workers of their own
stay. If nothing runs, that is no error.")]
pub(crate) struct Down {
    /// Data directory
    #[arg(long, value_name = "DIR", default_value = ".baton")]
    data: PathBuf,
    /// Do not wait for the worker, which ends its attempts by itself
    #[arg(long, conflicts_with = "leave_running")]
    now: bool,
    /// Leave the attempts running for the next `baton up`, which must start before they are lost
    /// (`lost_after`, usually 3m43s)
    #[arg(long)]
    leave_running: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &Down) -> CommandResult {
    let process = find(&command.data)?;
    if let Some((pid, process)) = &process {
        let signal = if command.leave_running {
            Signal::TERM
        } else {
            Signal::INT
        };
        let ended = end(process, signal, command.now);
        ended.map_err(|error| not_ended(*pid, &error))?;
    }
    let pid = process.map(|(pid, _)| pid.as_raw_nonzero().get());
    let mut out = Output::new();
    if command.json {
        out.json(&json!({ "data": command.data, "pid": pid, "ended": pid.is_some() }))?;
    } else {
        let data = command.data.display();
        match pid {
            Some(pid) => writeln!(out, "the scheduler of {data} has ended (process {pid})")?,
            None => writeln!(out, "no scheduler runs on {data}")?,
        }
    }
    out.done()
}

/// The process that holds a data directory.
fn find(data: &Path) -> Result<Option<(Pid, OwnedFd)>, Failure> {
    let unknown = || {
        let data = data.display();
        Failure::failed(format!(
            "a scheduler is using {data}, but its lock file names no process; end it by hand"
        ))
    };
    // Another process may get the number of one that ends meanwhile. If the directory is still held
    // by that number after it was opened, it was its own.
    let mut last = None;
    for _ in 0..FIND_TRIES {
        let Some(holder) = DataLock::holder(data) else {
            return Ok(None);
        };
        let pid = holder.pid.and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw).ok_or_else(unknown)?;
        if let Some((_, process)) = last.take_if(|(known, _)| *known == pid) {
            return Ok(Some((pid, process)));
        }
        // One that is gone is not found again.
        let process = pidfd_open(pid, PidfdFlags::empty());
        last = process.ok().map(|process| (pid, process));
    }
    let data = data.display();
    Err(Failure::failed(format!(
        "the scheduler that uses {data} cannot be seen from here; end it where it was started, such as in \
         its container"
    )))
}

/// Sends a signal, and waits until the process has ended. If it is in a hurry, it is told so by a
/// second signal.
fn end(process: &OwnedFd, signal: Signal, now: bool) -> io::Result<()> {
    let started = Instant::now();
    let mut is_told = false;
    send(process, signal)?;
    while !has_ended(process, SIGNAL_INTERVAL)? {
        if now {
            send(process, signal)?;
        } else if started.elapsed() > QUIET_WAIT && !std::mem::replace(&mut is_told, true) {
            note("waiting until its attempts have ended; `baton down --now` does not");
        }
    }
    Ok(())
}

/// Sends a signal. One that has ended meanwhile needs none.
fn send(process: &OwnedFd, signal: Signal) -> io::Result<()> {
    match pidfd_send_signal(process, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn has_ended(process: &OwnedFd, wait: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(wait).ok();
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    match poll(&mut fds, timeout.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn not_ended(pid: Pid, error: &io::Error) -> Failure {
    let pid = pid.as_raw_nonzero();
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => "; it belongs to another user",
        _ => "",
    };
    Failure::failed(format!("cannot end process {pid}: {error}{hint}"))
}
