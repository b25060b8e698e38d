//! `baton worker deploy`: starts workers on hosts that `ssh` reaches.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{env, fs, io};

use baton_fleet::{DeployState, Deployment, Place};
use baton_model::hex::hex;
use clap::Args;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::credentials::CredentialArgs;
use crate::output::{CommandResult, FAILED, Failure, Output, Style, clean, note};
use crate::table::{Cell, Table};

/// Hosts in one file.
const HOSTS_MAX: usize = 10_000;

/// Start workers on the hosts of a file, by ssh
///
/// Brings this binary to each host on which it is another one, with the token and the CA certificate, and starts a
/// worker there. A worker that runs as it is to run is kept; one with another binary or other arguments is started
/// again, and its attempts go on. They do not start again with their host: for that, install the Debian package, or let
/// a fleet keep them (`backend: ssh`).
///
/// HOSTS has a line for each host: HOST or USER@HOST, and further arguments of its worker. Lines that begin with # do not
/// count.
///
/// With --json, an array: host, state (started, running, stopping, ended, absent, error), pid, status, problem.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton worker deploy hosts.txt --scheduler head:8081 --token-file worker.token
  baton worker deploy hosts.txt --scheduler head:8081 --binary baton-arm64 -- --label zone=eu
  baton worker deploy hosts.txt --status
  baton worker deploy hosts.txt --stop
  ssh node1 'tail .baton/worker/*.log'         why one does not come

Exit status: 0 all is well; 1 at least one host has failed.")]
pub(crate) struct Deploy {
    /// File with the hosts
    #[arg(value_name = "HOSTS")]
    hosts: PathBuf,
    /// Worker address of the scheduler, as the hosts reach it; several, separated by commas, are tried in turn
    #[arg(long, value_name = "HOST:PORT", required_unless_present_any = ["stop", "status"])]
    scheduler: Option<String>,
    /// Binary to bring to the hosts [default: this one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Directory on the hosts for binary, token, state and log; relative to the home directory
    #[arg(long, value_name = "DIR", default_value = ".baton/worker")]
    dir: String,
    /// Further argument of ssh; may be repeated
    #[arg(long = "ssh-arg", value_name = "ARG", allow_hyphen_values = true)]
    ssh_args: Vec<String>,
    /// Start workers again that run as they are to run; their attempts go on
    #[arg(long)]
    restart: bool,
    /// Stop the workers instead, by SIGTERM; without a drain among their arguments, their attempts go on until their
    /// leases end
    #[arg(long, conflicts_with_all = ["scheduler", "restart", "binary"])]
    stop: bool,
    /// Show what runs there instead
    #[arg(long, conflicts_with_all = ["scheduler", "restart", "binary", "stop"])]
    status: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Further arguments of each worker
    #[arg(last = true, value_name = "ARG")]
    worker_args: Vec<String>,
}

/// One line of the answer.
#[derive(Serialize)]
struct Row {
    host: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// Starts, stops or shows workers. `checked` refuses arguments that no worker takes.
pub(crate) fn run(
    command: &Deploy,
    credentials: &CredentialArgs,
    checked: impl Fn(&[String]) -> Result<(), clap::Error>,
) -> CommandResult {
    let mut places = read_hosts(&command.hosts)?;
    let hosts = places.iter().map(|place| place.host.clone()).collect();
    let rows: Vec<Row> = if command.status {
        let states = command.deployment(Vec::new(), credentials)?.states(hosts);
        states.into_iter().map(Row::placed).collect()
    } else if command.stop {
        let stopped = command.deployment(Vec::new(), credentials)?.stop(hosts);
        stopped.into_iter().map(Row::stopped).collect()
    } else {
        for place in &mut places {
            let own = std::mem::take(&mut place.worker_args);
            place.worker_args = [command.worker_args.clone(), own].concat();
            checked(&place.worker_args).map_err(|error| {
                let reason = error.to_string();
                let reason = reason.lines().next().unwrap_or_default();
                let reason = reason.trim_start_matches("error: ");
                Failure::usage(format!("the worker of {}: {reason}", place.host))
            })?;
        }
        let file = command.binary()?;
        let binary = fs::read(&file).map_err(|error| unreadable(&file, &error))?;
        let deployment = command.deployment(binary, credentials)?;
        let (all, done) = (places.len(), Mutex::new(0));
        let report = |host: &str, placed: &Result<DeployState, String>| {
            if let Ok(mut done) = done.lock() {
                *done += 1;
                let state = Row::placed((host.to_owned(), placed.clone())).text();
                note(&format!("{done} of {all}: {}: {state}", clean(host)));
            }
        };
        let started = deployment.start(places, report);
        started.into_iter().map(Row::placed).collect()
    };
    let failed = rows.iter().filter(|row| row.problem.is_some()).count();
    write(command, &rows)?;
    if failed > 0 {
        return Err(Failure::Message(
            FAILED,
            format!("{failed} of {} hosts have failed", rows.len()),
        ));
    }
    Ok(())
}

fn write(command: &Deploy, rows: &[Row]) -> CommandResult {
    let mut out = Output::new();
    if command.json {
        out.json(&rows)?;
        return out.done();
    }
    let mut table = Table::default();
    table.row(["HOST", "WORKER"].map(|it| Cell::new(it, Style::Faint)));
    for row in rows {
        let style = if row.problem.is_some() {
            Style::Bad
        } else {
            Style::Plain
        };
        table.row([
            clean(&row.host).into(),
            Cell::new(clean(&row.text()), style),
        ]);
    }
    table.print(&mut out)?;
    out.done()?;
    if !command.stop && !command.status {
        note(&format!(
            "`baton workers` shows those that have connected; the log of each is {}/worker-HOSTNAME.log on its host",
            clean(&command.dir)
        ));
    }
    Ok(())
}

impl Deploy {
    fn binary(&self) -> Result<PathBuf, Failure> {
        match &self.binary {
            Some(file) => Ok(file.clone()),
            None => env::current_exe().map_err(|error| Failure::failed(format!("/proc: {error}"))),
        }
    }

    fn deployment(
        &self,
        binary: Vec<u8>,
        credentials: &CredentialArgs,
    ) -> Result<Deployment, Failure> {
        let ca = match credentials.ca_alone()? {
            Some(file) => Some(fs::read_to_string(file).map_err(|error| unreadable(file, &error))?),
            None => None,
        };
        Ok(Deployment {
            ssh_args: self.ssh_args.clone(),
            dir: self.dir.clone(),
            binary_hash: hex(Sha256::digest(&binary)),
            binary,
            system: self.binary.is_none().then(system),
            schedulers: self.scheduler.clone().unwrap_or_default(),
            token: credentials.token()?.map(|it| it.expose().to_owned()),
            ca,
            restart: self.restart,
            env: Vec::new(),
        })
    }
}

/// What `uname -sm` prints here.
fn system() -> String {
    let uname = rustix::system::uname();
    format!(
        "{} {}",
        uname.sysname().to_string_lossy(),
        uname.machine().to_string_lossy()
    )
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot read {}: {error}", path.display()))
}

fn read_hosts(path: &Path) -> Result<Vec<Place>, Failure> {
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    let places = parse_hosts(&text);
    places.map_err(|problem| Failure::usage(format!("{}:{problem}", path.display())))
}

fn parse_hosts(text: &str) -> Result<Vec<Place>, String> {
    let (mut places, mut seen) = (Vec::new(), BTreeSet::new());
    for (number, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace().map(str::to_owned);
        let Some(host) = words.next().filter(|host| !host.starts_with('#')) else {
            continue;
        };
        let number = number + 1;
        if host.starts_with('-') {
            return Err(format!(
                "{number}: `{host}` is no host; a line begins with [USER@]HOST"
            ));
        }
        if !seen.insert(host.clone()) {
            return Err(format!("{number}: {host} is named twice; remove one line"));
        }
        if places.len() == HOSTS_MAX {
            return Err(format!(
                "{number}: more than {HOSTS_MAX} hosts; split the file"
            ));
        }
        let worker_args = words.collect();
        places.push(Place { host, worker_args });
    }
    if places.is_empty() {
        return Err(" no host; write one on each line".to_owned());
    }
    Ok(places)
}

impl Row {
    fn placed((host, placed): (String, Result<DeployState, String>)) -> Self {
        let (state, pid, status) = match &placed {
            Ok(DeployState::Started(pid)) => ("started", Some(*pid), None),
            Ok(DeployState::Kept(pid)) => ("running", Some(*pid), None),
            Ok(DeployState::Ended(status)) => ("ended", None, Some(*status)),
            Ok(DeployState::Absent) => ("absent", None, None),
            Err(_) => ("error", None, None),
        };
        Self {
            host,
            state,
            pid,
            status,
            problem: placed.err(),
        }
    }

    fn stopped((host, stopped): (String, Result<Option<u32>, String>)) -> Self {
        let (state, pid) = match &stopped {
            Ok(Some(pid)) => ("stopping", Some(*pid)),
            Ok(None) => ("absent", None),
            Err(_) => ("error", None),
        };
        Self {
            host,
            state,
            pid,
            status: None,
            problem: stopped.err(),
        }
    }

    fn text(&self) -> String {
        match (&self.problem, self.pid, self.status) {
            (Some(problem), ..) => problem.clone(),
            (None, Some(pid), _) => format!("{}, pid {pid}", self.state),
            (None, None, Some(status)) => format!("{} with status {status}", self.state),
            (None, None, None) => self.state.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_hosts_has_a_host_and_arguments_on_each_line() {
        let text = "# the lab\n\nnode1\nann@node2  --label rack=2\n";
        let places = parse_hosts(text).expect("valid");
        let hosts: Vec<&str> = places.iter().map(|place| &*place.host).collect();
        assert_eq!(hosts, ["node1", "ann@node2"]);
        assert_eq!(places[1].worker_args, ["--label", "rack=2"]);
        for (text, part) in [
            ("", "no host"),
            ("a\n-oProxyCommand=x\n", "2: `-oProxyCommand=x` is no host"),
            ("a\nb\na\n", "3: a is named twice"),
        ] {
            let error = parse_hosts(text).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }
}
