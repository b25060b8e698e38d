//! Workers that people start on hosts by `ssh`, without a fleet: `baton worker deploy`.
//!
//! A worker is a unit like a pilot, so it is found again by any later call, and never confused with another process.
//! The binary comes with the connection: a host needs nothing but a shell and `sha256sum`.

use std::time::Duration;

use super::each;
use super::shell::Shell;
use super::units::{self, StartError};
use crate::exec::Output;
use crate::quote::quote;
use crate::script::Around;
use crate::site::Site;

const PROBE: &str = include_str!("probe.sh");
const PLACE: &str = include_str!("place.sh");

/// How long the transfer of the binary may take.
const UPLOAD_TIME: Duration = Duration::from_secs(600);
/// How long a worker that is replaced may take to end, and the next one to start.
const PLACE_TIME: Duration = Duration::from_secs(90);

/// What is to run on hosts.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// Further arguments of `ssh`.
    pub ssh_args: Vec<String>,
    /// The directory of binary, token, state and log on the hosts; relative to the home directory.
    pub dir: String,
    pub binary: Vec<u8>,
    /// Its SHA-256, in hexadecimal digits.
    pub binary_hash: String,
    /// What `uname -sm` prints where the binary runs; none if that is unknown.
    pub system: Option<String>,
    /// The worker addresses of the schedulers.
    pub schedulers: String,
    pub token: Option<String>,
    /// Certificates that the worker trusts, as PEM.
    pub ca: Option<String>,
    /// Whether workers that run already are started again.
    pub restart: bool,
    /// Further variables of `ssh`.
    pub env: Vec<(String, String)>,
}

/// A host, and the arguments of `baton worker` there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub host: String,
    pub worker_args: Vec<String>,
}

/// The state of the worker of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeployState {
    /// It was started, with the pid of its shell.
    Started(u32),
    /// It runs already.
    Kept(u32),
    /// It has ended, with this status.
    Ended(i32),
    /// None was started, or it was killed.
    Absent,
}

/// The answer of a host to the probe.
#[derive(Debug, Default, PartialEq, Eq)]
struct HostReport {
    dir: String,
    node: String,
    system: String,
    binary: String,
    running: Option<u32>,
    ended: Option<i32>,
}

impl HostReport {
    /// The unit of the worker of this host.
    fn unit(&self) -> String {
        format!("worker-{}", self.node)
    }
}

impl Deployment {
    /// Brings the binary to the hosts where it is another one, and starts their workers, on several hosts at once.
    /// `report` is called for each host when it is done, and the results are in the order of the places.
    pub fn start(
        &self,
        places: Vec<Place>,
        report: impl Fn(&str, &Result<DeployState, String>) + Sync,
    ) -> Vec<(String, Result<DeployState, String>)> {
        each(places, |place| {
            let done = self.start_on(&place);
            report(&place.host, &done);
            (place.host, done)
        })
    }

    /// Ends the workers of hosts, by SIGTERM; the pid of each that ran.
    pub fn stop(&self, hosts: Vec<String>) -> Vec<(String, Result<Option<u32>, String>)> {
        each(hosts, |host| {
            let stopped = self.probe(&host).and_then(|found| {
                if found.running.is_some() {
                    let shell = self.shell(&host, Site::TIMEOUT);
                    // It may drain for as long as its arguments allow.
                    units::stop_in(&shell, &found.dir, &found.unit(), None)?;
                }
                Ok(found.running)
            });
            (host, stopped)
        })
    }

    /// The states of the workers of hosts.
    pub fn states(&self, hosts: Vec<String>) -> Vec<(String, Result<DeployState, String>)> {
        each(hosts, |host| {
            let found = self.probe(&host).map(|found| match found {
                HostReport {
                    running: Some(pid), ..
                } => DeployState::Kept(pid),
                HostReport {
                    ended: Some(status),
                    ..
                } => DeployState::Ended(status),
                _ => DeployState::Absent,
            });
            (host, found)
        })
    }

    fn start_on(&self, place: &Place) -> Result<DeployState, String> {
        let host = &*place.host;
        let found = self.probe(host)?;
        if let Some(system) = self.system.as_ref().filter(|it| **it != found.system) {
            return Err(format!(
                "the binary is for {system}, and the host is {}; pass one for it with --binary",
                found.system
            ));
        }
        if found.binary != self.binary_hash {
            self.upload(host, &found)?;
        }
        self.place(place, &found)
    }

    fn probe(&self, host: &str) -> Result<HostReport, String> {
        let program = units::program(&self.dir, &[], PROBE);
        let output = self.shell(host, Site::TIMEOUT).run(&program);
        let output = output.map_err(|error| error.reason())?;
        let found = parse(&units::complete(&output)?);
        let of_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if found.node.is_empty() || !found.node.chars().all(of_name) {
            return Err(format!(
                "its name, `{}`, is no host name; set one with `hostnamectl hostname`",
                found.node
            ));
        }
        Ok(found)
    }

    /// Puts the binary in its place at once, so that a worker that runs keeps its own, and tries it.
    fn upload(&self, host: &str, found: &HostReport) -> Result<(), String> {
        let program = format!(
            "umask 077 && mkdir -p {dir} && cd {dir} || exit 1; new=baton.{node}.$$; \
             cat >\"$new\" && chmod 700 \"$new\" && \"./$new\" version && mv \"$new\" baton && echo end || \
             {{ rm -f \"$new\"; exit 1; }}",
            dir = quote(&found.dir),
            node = found.node
        );
        let output = self.shell(host, UPLOAD_TIME).feed(&program, &self.binary);
        let output = output.map_err(|error| error.reason())?;
        match units::complete(&output) {
            Ok(_) => Ok(()),
            Err(_) => Err(format!(
                "the binary cannot be run on the host: {}",
                output.complaint()
            )),
        }
    }

    fn place(&self, place: &Place, found: &HostReport) -> Result<DeployState, String> {
        let (dir, unit) = (&*found.dir, found.unit());
        let token_file = self.token.as_ref().map(|_| format!("{dir}/token"));
        let around = Around::default();
        // Of hosts that share the directory, one has brought the binary for all.
        let script = units::unit_script(dir, &unit, around, self.command(place, found));
        let body = format!("{script}# binary {}\n", self.binary_hash);
        let values = [
            ("unit", &*unit),
            ("name", &unit),
            ("binary", &*format!("{dir}/baton")),
            ("token", token_file.as_deref().unwrap_or_default()),
            ("secret", self.token.as_deref().unwrap_or_default()),
            ("ca", self.ca.as_deref().unwrap_or_default()),
            ("again", if self.restart { "1" } else { "" }),
            ("body", &body),
        ];
        let text = format!("{PLACE}{}", units::START);
        let shell = self.shell(&place.host, PLACE_TIME);
        let output = shell.run(&units::program(dir, &values, &text));
        let output = output.map_err(|error| error.reason())?;
        if let Some(pid) = kept(&output) {
            return Ok(DeployState::Kept(pid));
        }
        match units::started(&output) {
            Ok(pid) => Ok(DeployState::Started(pid)),
            Err(StartError::Refused(reason) | StartError::Unclear(reason)) => Err(reason),
        }
    }

    /// The command line of a worker, in words of a shell.
    fn command(&self, place: &Place, found: &HostReport) -> String {
        let dir = &found.dir;
        let mut words = vec![
            format!("{dir}/baton"),
            "worker".to_owned(),
            "--scheduler".to_owned(),
            self.schedulers.clone(),
            "--state".to_owned(),
            format!("{dir}/state-{}", found.node),
        ];
        let files = [
            ("--token-file", "token", self.token.is_some()),
            ("--ca", "ca.pem", self.ca.is_some()),
        ];
        for (option, file, _) in files.into_iter().filter(|(.., is_used)| *is_used) {
            words.extend([option.to_owned(), format!("{dir}/{file}")]);
        }
        words.extend(place.worker_args.iter().cloned());
        let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
        words.join(" ")
    }

    fn shell<'a>(&'a self, host: &'a str, timeout: Duration) -> Shell<'a> {
        Shell {
            env: &self.env,
            timeout,
            ssh: Some((&self.ssh_args, host)),
        }
    }
}

fn kept(output: &Output) -> Option<u32> {
    let line = output.out.lines().next_back()?;
    line.strip_prefix("kept ")?.parse().ok()
}

fn parse(lines: &[&str]) -> HostReport {
    let value = |word: &str| {
        let lines = lines.iter().rev();
        let mut values = lines.filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        values.next().unwrap_or_default()
    };
    HostReport {
        dir: value("dir").to_owned(),
        node: value("node").to_owned(),
        system: value("system").to_owned(),
        binary: value("binary").to_owned(),
        running: value("running").parse().ok(),
        ended: value("ended").parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_of_the_host_is_no_answer() {
        let lines = [
            "dir of the day: none",
            "dir /srv/worker",
            "node n1",
            "system Linux x86_64",
            "binary 6a09",
            "running 17",
        ];
        let found = HostReport {
            dir: "/srv/worker".to_owned(),
            node: "n1".to_owned(),
            system: "Linux x86_64".to_owned(),
            binary: "6a09".to_owned(),
            running: Some(17),
            ended: None,
        };
        assert_eq!(parse(&lines), found);
    }
}
