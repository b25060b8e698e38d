//! A host's shell, here or by `ssh`.

use baton_model::fleet::SshOptions;

use crate::exec::{ExecError, Invocation, Output};
use crate::site::Site;

/// Messages of `ssh` that there is no connection: nothing was run.
const NOT_CONNECTED: &[&str] = &[
    "ssh: connect to host",
    "ssh: Could not resolve hostname",
    "Host key verification failed",
    "Permission denied",
    "Too many authentication failures",
    "Bad configuration option",
    "Unable to negotiate with",
    "kex_exchange_identification",
    "Connection timed out during banner exchange",
];

/// The exit status of `ssh` for errors of its own.
const SSH_ERROR: i32 = 255;

/// The shell of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shell<'a> {
    pub(super) site: &'a Site,
    /// The host, if it is not this one.
    pub(super) ssh: Option<(&'a SshOptions, &'a str)>,
}

impl Shell<'_> {
    /// Runs a program. It is read from standard input: neither a login shell of the user interprets
    /// it, nor does a list of processes show it.
    pub(super) fn run(&self, program: &str) -> Result<Output, ExecError> {
        let mut command = match self.ssh {
            None => Invocation::new("/bin/sh").arg("-s"),
            Some((options, host)) => Invocation::new("ssh")
                .args(["-T", "-o", "BatchMode=yes"])
                .args(&options.args)
                // Of two values of an option the first counts.
                .args(["-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5"])
                .args(["--", host, "/bin/sh -s"]),
        };
        for (name, value) in &self.site.env {
            command = command.env(name, value);
        }
        let output = command.input(program).run(self.site.timeout)?;
        if self.ssh.is_some() && output.code == SSH_ERROR {
            let error = last_line(&output);
            let is_known = NOT_CONNECTED.iter().any(|it| output.err.contains(it));
            return Err(if is_known && output.out.is_empty() {
                ExecError::NotStarted(error)
            } else {
                ExecError::NoAnswer(error)
            });
        }
        Ok(output)
    }
}

/// The last line of the errors: before it, a host may print its banner.
fn last_line(output: &Output) -> String {
    let mut lines = output.err.lines().map(str::trim);
    let line = lines.rfind(|line| !line.is_empty());
    line.map_or_else(|| output.complaint(), str::to_owned)
}
