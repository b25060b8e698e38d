//! The programs for a host: start, list and stop its pilots.

use std::time::Duration;

use baton_model::fleet::{Backend, JobState};

use super::shell::Shell;
use super::unit;
use crate::driver::{Fleet, JobRequest};
use crate::exec::{ExecError, Output};
use crate::quote::quote;
use crate::script::{Around, Lifetime, Number, Pilots, SIGNAL_CHILDREN, run_all};
use crate::site::PilotToken;

const COMMON: &str = include_str!("common.sh");
pub(super) const START: &str = include_str!("start.sh");
pub(super) const LIST: &str = include_str!("list.sh");
const STOP: &str = include_str!("stop.sh");
const KILL: &str = include_str!("kill.sh");

/// A unit without a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StartError {
    Refused(String),
    Unclear(String),
}

/// A unit as its host lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnitSighting {
    /// The name of its job.
    pub(super) name: String,
    pub(super) state: JobState,
    /// The host's word for the state.
    pub(super) word: String,
    /// 0 if it has none.
    pub(super) pid: u32,
    pub(super) reason: Option<String>,
}

/// Starts a pilot, unless it was started before, and returns the pid of its shell.
pub(super) fn start(
    shell: &Shell<'_>,
    fleet: Fleet<'_>,
    job: JobRequest<'_>,
    number: u32,
) -> Result<u32, StartError> {
    let binary = match &fleet.spec.backend {
        Backend::Ssh(options) => options.binary.as_deref(),
        _ => None,
    };
    let of_site = fleet.site.binary.display().to_string();
    let (token, secret) = token(fleet);
    let program = program(
        &directory(fleet),
        &[
            ("unit", &unit(job.name, number)),
            ("name", job.name),
            ("binary", binary.unwrap_or(&of_site)),
            ("token", &token),
            ("secret", &secret),
            ("body", &script(fleet, job, number, binary)),
        ],
        START,
    );
    started(&shell.run(&program)?)
}

/// The pid in the answer to a program that ends with [`START`].
pub(super) fn started(output: &Output) -> Result<u32, StartError> {
    let line = output.out.lines().next_back().unwrap_or_default();
    if let Some(reason) = line.strip_prefix("refused ") {
        return Err(StartError::Refused(reason.trim().to_owned()));
    }
    let pid = line.strip_prefix("started ").and_then(|it| it.parse().ok());
    pid.ok_or_else(|| StartError::Unclear(unreadable(output)))
}

impl From<ExecError> for StartError {
    fn from(error: ExecError) -> Self {
        match error {
            ExecError::NotStarted(reason) => Self::Refused(reason),
            ExecError::NoAnswer(reason) => Self::Unclear(reason),
        }
    }
}

/// The file with the token of a fleet, and what it must have on another host, to which no shared directory may bring it.
fn token(fleet: Fleet<'_>) -> (String, String) {
    let path = fleet.site.token_path(fleet.name);
    let is_brought =
        fleet.site.token == PilotToken::Issued && matches!(fleet.spec.backend, Backend::Ssh(_));
    let secret = path.as_ref().filter(|_| is_brought);
    let secret = secret.and_then(|path| crate::token::read(path));
    (
        path.map(|it| it.display().to_string()).unwrap_or_default(),
        secret.map(|it| it.expose().to_owned()).unwrap_or_default(),
    )
}

/// The units of a host.
pub(super) fn list(shell: &Shell<'_>, fleet: Fleet<'_>) -> Result<Vec<UnitSighting>, String> {
    let (token, secret) = token(fleet);
    let values = [("token", &*token), ("secret", &*secret)];
    let output = shell.run(&program(&directory(fleet), &values, LIST));
    let output = output.map_err(ExecError::reason)?;
    // A host may greet with lines of its own, which are no units.
    let units = complete(&output)?.into_iter().filter_map(parse);
    let is_ours = |unit: &UnitSighting| fleet.site.job_of(fleet.name, &unit.name).is_some();
    Ok(units.filter(is_ours).collect())
}

/// Stops units of a host, and voids those that have not been started.
pub(super) fn stop(shell: &Shell<'_>, fleet: Fleet<'_>, units: &[String]) -> Result<(), String> {
    let units = units.join(" ");
    let kill_after = Some(fleet.site.kill_after);
    stop_in(shell, &directory(fleet), &units, kill_after)
}

/// Stops units, whose names are separated by spaces, and kills them after a while, if one is given.
pub(super) fn stop_in(
    shell: &Shell<'_>,
    dir: &str,
    units: &str,
    kill_after: Option<Duration>,
) -> Result<(), String> {
    let after = kill_after.map_or(String::new(), |after| after.as_secs().to_string());
    let killer = format!("{COMMON}{KILL}");
    let values = [
        ("units", units),
        ("kill_after", &after),
        ("killer", &killer),
    ];
    let output = shell.run(&program(dir, &values, STOP));
    complete(&output.map_err(ExecError::reason)?)?;
    Ok(())
}

pub(super) fn parse(line: &str) -> Option<UnitSighting> {
    let mut words = line.splitn(5, ' ');
    let (_, name, word) = (words.next()?, words.next()?, words.next()?);
    let pid = words.next()?.parse().ok()?;
    let reason = words.next().map(str::trim).filter(|it| !it.is_empty());
    let state = match word {
        "starting" => JobState::Queued,
        "running" => JobState::Running,
        "ended" => JobState::Ended,
        "failed" => JobState::Failed,
        _ => JobState::Unsure,
    };
    Some(UnitSighting {
        name: name.to_owned(),
        state,
        word: word.to_owned(),
        pid,
        reason: reason.map(str::to_owned),
    })
}

/// The lines of an answer that has its end: a connection that broke is no shorter list.
pub(super) fn complete(output: &Output) -> Result<Vec<&str>, String> {
    let mut lines: Vec<&str> = output.out.lines().collect();
    match lines.pop() {
        Some("end") if output.code == 0 => Ok(lines),
        _ => Err(unreadable(output)),
    }
}

fn unreadable(output: &Output) -> String {
    let complaint = output.complaint();
    format!("the answer of the host cannot be read: {complaint}")
}

/// The directory of a fleet on its hosts.
fn directory(fleet: Fleet<'_>) -> String {
    fleet.site.fleet_path(fleet.name).display().to_string()
}

/// A program with its variables.
pub(super) fn program(dir: &str, values: &[(&str, &str)], text: &str) -> String {
    let all = [("dir", dir)].into_iter().chain(values.iter().copied());
    let assign = |(name, value): (&str, &str)| format!("{name}={}\n", quote(value));
    let values: String = all.map(assign).collect();
    // In braces, so that it is read to its end before it is run: programs that it runs share its input.
    format!("{{\n{values}{COMMON}{text}exit 0\n}}\n")
}

/// The script of a pilot.
fn script(fleet: Fleet<'_>, job: JobRequest<'_>, number: u32, binary: Option<&str>) -> String {
    let pilots = Pilots {
        fleet,
        job,
        binary,
        lifetime: Lifetime::TimeLimit,
    };
    let around = Around::of(fleet.spec);
    let command = pilots.command(Number::Fixed(number));
    unit_script(&directory(fleet), &unit(job.name, number), around, command)
}

/// The script of a unit. It claims its start before it does anything.
pub(super) fn unit_script(dir: &str, unit: &str, around: Around<'_>, command: String) -> String {
    let dir = quote(dir);
    let claim = format!(
        "#!/bin/sh\n\
         cd {dir} || exit 1\n\
         {COMMON}\
         start_time $$\n\
         echo \"$boot $$ $started\" >{unit}.run.$$\n\
         ln {unit}.run.$$ {unit}.run 2>/dev/null && claimed=1 || claimed=\n\
         rm -f {unit}.run.$$\n\
         [ -n \"$claimed\" ] || exit 0\n",
    );
    // Lines of the user may change the directory.
    let ended =
        format!("cd {dir} && echo \"$status\" >{unit}.end.new && mv {unit}.end.new {unit}.end\n");
    claim + &run_all(around, &[command], SIGNAL_CHILDREN, &ended)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use baton_model::fleet::{FleetName, FleetSpec, Shape};
    use baton_model::time::Millis;

    use super::*;
    use crate::site::tests::site;

    #[test]
    fn a_list_brings_the_token_to_a_host_that_has_another() {
        let dir = tempfile::tempdir().expect("a directory");
        let site = site(dir.path());
        let name: FleetName = "gpu".parse().expect("valid");
        let spec = FleetSpec {
            backend: Backend::Local,
            shape: Shape::default(),
            workers_per_job: 1,
            min: 0,
            max: 1,
            backlog: 1,
            time_limit: None,
            idle_timeout: Millis(1),
            before: None,
            after: None,
            worker_args: Vec::new(),
        };
        let fleet = Fleet {
            name: &name,
            spec: &spec,
            site: &site,
        };
        fs::create_dir(site.fleet_path(&name)).expect("made");
        let path = dir.path().join("it's a token");
        for secret in ["one", "two", ""] {
            let token = path.display().to_string();
            let values = [("token", &*token), ("secret", secret)];
            let program = program(&directory(fleet), &values, LIST);
            let shell = Shell {
                env: &site.env,
                timeout: site.timeout,
                ssh: None,
            };
            let output = shell.run(&program).expect("a shell");
            assert_eq!(complete(&output), Ok(Vec::new()));
            let kept = if secret.is_empty() { "two" } else { secret };
            let text = fs::read_to_string(&path).expect("brought");
            assert_eq!(text, format!("{kept}\n"));
            let mode = fs::metadata(&path).expect("there").permissions().mode();
            assert_eq!(mode & 0o7777, 0o600);
        }
    }
}
