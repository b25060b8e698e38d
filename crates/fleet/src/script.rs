//! The command line of a pilot, and the shell script of a job.
//!
//! Scripts have no secret: the token is in a file, whose path they have. All values are quoted, so
//! that a shell reads each as the text that it is.

use baton_model::fleet::{FleetSpec, Shape};
use baton_model::ids::JobId;
use baton_model::placement::{Capacity, GROUP_LABEL};

use crate::driver::{Fleet, JobRequest};
use crate::quote::quote;

/// The label that every pilot has: its fleet.
const FLEET_LABEL: &str = "fleet";

/// The number of a pilot within its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Fixed(u32),
    /// The value of this shell variable.
    Variable(&'static str),
}

/// The source of a pilot's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// The allocation of Slurm that it runs in.
    Slurm,
    /// The time limit of the fleet, if it has one.
    TimeLimit,
}

/// The pilots of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pilots<'a> {
    pub(crate) fleet: Fleet<'a>,
    pub(crate) job: JobRequest<'a>,
    /// The binary, if it is another one than that of the site.
    pub(crate) binary: Option<&'a str>,
    pub(crate) lifetime: Lifetime,
}

impl Pilots<'_> {
    /// The command line of a pilot, in words of a shell.
    pub(crate) fn command(&self, number: Number) -> String {
        let Fleet { name, spec, site } = self.fleet;
        let of_site = site.binary.display().to_string();
        // Names of fleets and jobs have no characters that a shell expands.
        let number = match number {
            Number::Fixed(number) => number.to_string(),
            Number::Variable(variable) => format!("\"${variable}\""),
        };
        let dir = site.fleet_path(name).display().to_string();
        let mut words = vec![
            quote(self.binary.unwrap_or(&of_site)),
            "worker".to_owned(),
            format!("--name {name}-{}-{number}", self.job.id),
        ];
        match (self.lifetime, spec.time_limit) {
            (Lifetime::Slurm, _) => words.push("--lifetime slurm".to_owned()),
            (Lifetime::TimeLimit, Some(limit)) => words.push(format!("--lifetime {limit}")),
            (Lifetime::TimeLimit, None) => {}
        }
        words.push(format!("--idle-exit {}", spec.idle_timeout));
        words.push(format!("--scheduler {}", quote(&site.schedulers.join(","))));
        if let Some(file) = site.token_path(name) {
            words.push(format!(
                "--token-file {}",
                quote(&file.display().to_string())
            ));
        }
        words.push(format!(
            "--state {}/{}-{number}",
            quote(&dir),
            self.job.name
        ));
        words.extend(offer(name.as_str(), self.job.id, &spec.shape));
        words.extend(spec.worker_args.iter().map(|arg| quote(arg)));
        words.join(" ")
    }
}

/// The options with the declared resources and labels, and those of its fleet and its job.
fn offer(fleet: &str, job: JobId, shape: &Shape) -> Vec<String> {
    let mut words = vec![
        format!("--label {FLEET_LABEL}={fleet}"),
        format!("--label {GROUP_LABEL}={fleet}-{job}"),
    ];
    // A pilot's own fleet and job are no matter of its definition.
    let own = [FLEET_LABEL, GROUP_LABEL];
    let declared = shape.labels.iter();
    for (name, value) in declared.filter(|(name, _)| !own.contains(&name.as_str())) {
        words.push(format!("--label {}", quote(&format!("{name}={value}"))));
    }
    words.push(format!(
        "--resources {}",
        quote(&resources(&shape.capacity))
    ));
    words
}

/// The declared resources, also those of which there is nothing: several pilots of one node would each find, and offer,
/// what the whole node has.
fn resources(capacity: &Capacity) -> String {
    let (whole, rest) = (capacity.cpu_milli / 1_000, capacity.cpu_milli % 1_000);
    let cpu = format!("{whole}.{rest:03}");
    let mut parts = vec![
        format!("cpu={}", cpu.trim_end_matches('0').trim_end_matches('.')),
        format!("memory={}B", capacity.memory),
        format!("disk={}B", capacity.disk),
        format!("gpu={}", capacity.gpu),
    ];
    let named = capacity.named.iter();
    parts.extend(named.map(|(name, amount)| format!("{name}={amount}")));
    parts.join(",")
}

/// Lines of the user before and after the pilots of a script.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Around<'a> {
    pub(crate) before: Option<&'a str>,
    pub(crate) after: Option<&'a str>,
}

impl<'a> Around<'a> {
    pub(crate) fn of(spec: &'a FleetSpec) -> Self {
        Self {
            before: spec.before.as_deref(),
            after: spec.after.as_deref(),
        }
    }
}

/// The command that signals the pilots of [`run_all`], where they are its children.
pub(crate) const SIGNAL_CHILDREN: &str = "kill -TERM $pilots";

/// The part of a script that runs commands beside each other: between the lines before
/// and after them. SIGTERM is passed on to them, once, by the command `signal`; the status of the script
/// is that of one that failed, or 0. `ended` is run with it.
pub(crate) fn run_all(
    around: Around<'_>,
    commands: &[String],
    signal: &str,
    ended: &str,
) -> String {
    let mut text = format!(
        "pilots= stopped=\n\
         signal() {{ {signal} 2>/dev/null; }}\n\
         trap 'stopped=1; [ -z \"$pilots\" ] || signal' TERM\n",
    );
    push_lines(&mut text, around.before);
    text.push_str("status=0\nif [ -z \"$stopped\" ]; then\n");
    for command in commands {
        text.push_str(&format!(
            "    {command} </dev/null &\n    pilots=\"$pilots $!\"\n"
        ));
    }
    // A signal ends `wait` early; then the pilot is still there, and waited for again.
    text.push_str(
        "    [ -z \"$stopped\" ] || signal\n    \
             for pilot in $pilots; do\n        \
                 wait \"$pilot\"; code=$?\n        \
                 while [ \"$code\" -gt 128 ] && kill -0 \"$pilot\" 2>/dev/null; do\n            \
                     wait \"$pilot\"; code=$?\n        \
                 done\n        \
                 [ \"$code\" -eq 0 ] || status=$code\n    \
             done\nfi\n",
    );
    push_lines(&mut text, around.after);
    text.push_str(ended);
    text.push_str("exit \"$status\"\n");
    text
}

/// Appends lines of the user.
pub(crate) fn push_lines(text: &mut String, lines: Option<&str>) {
    if let Some(lines) = lines {
        text.push_str(lines);
        if !lines.ends_with('\n') {
            text.push('\n');
        }
    }
}
