//! A host's shell, here or by `ssh`.

use std::time::Duration;

use crate::exec::{ExecError, Invocation, Output};
use crate::quote::quote;

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
    /// Further variables of `ssh`, or of the shell.
    pub(super) env: &'a [(String, String)],
    pub(super) timeout: Duration,
    /// Further arguments of `ssh`, and the host, if it is not this one.
    pub(super) ssh: Option<(&'a [String], &'a str)>,
}

impl Shell<'_> {
    /// Runs a program. It is read from standard input: neither a login shell of the user interprets
    /// it, nor does a list of processes show it.
    pub(super) fn run(&self, program: &str) -> Result<Output, ExecError> {
        self.call(&["-s"], program.as_bytes())
    }

    /// Runs a short program, which reads this input.
    pub(super) fn feed(&self, program: &str, input: &[u8]) -> Result<Output, ExecError> {
        self.call(&["-c", program], input)
    }

    fn call(&self, words: &[&str], input: &[u8]) -> Result<Output, ExecError> {
        let mut command = match self.ssh {
            None => Invocation::new("/bin/sh").args(words),
            Some((args, host)) => {
                let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
                Invocation::new("ssh")
                    .args(["-T", "-o", "BatchMode=yes"])
                    .args(args)
                    // Of two values of an option the first counts.
                    .args(["-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5"])
                    .args(["--", host, &format!("/bin/sh {}", words.join(" "))])
            }
        };
        for (name, value) in self.env {
            command = command.env(name, value);
        }
        let output = command.input(input).run(self.timeout)?;
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
