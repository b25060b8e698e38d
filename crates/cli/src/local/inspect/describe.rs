//! Description of a task for people.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use baton_files::{Param, Policy};
use baton_model::placement::{Constraint, Rule};
use baton_model::spec::Exclusive;
use baton_model::task::{
    Backoff, Check, CommandLine, Probe, ProcessName, ProcessSpec, Resources, TaskSpec,
};

use super::Missing;
use super::trigger::trigger;
use crate::output::{Output, Style, clean};
use crate::table::{Cell, Table};
use crate::time::{size, span};
use baton_observer::messages::arrow;

/// Maximum length of a command, which is shown on one line.
const COMMAND_CHARS_MAX: usize = 72;

pub(super) fn task(
    out: &mut Output,
    task: &TaskSpec,
    policy: &Policy,
    env: &[(String, String)],
) -> io::Result<()> {
    let title = match &task.owner {
        Some(owner) => format!("{}/{}", clean(owner), clean(&task.name)),
        None => clean(&task.name),
    };
    writeln!(out, "{}", out.paint(Style::Strong, &title))?;
    let mut facts = Table::indented(2);
    for (name, value) in facts_of(task, policy, env) {
        facts.row([Cell::new(name, Style::Faint), value.into()]);
    }
    facts.print(out)?;
    for (title, is_final) in [("processes", false), ("final processes", true)] {
        let members: Vec<&ProcessSpec> = task
            .processes
            .iter()
            .filter(|process| process.is_final == is_final)
            .collect();
        if !members.is_empty() {
            writeln!(out, "\n{}", out.paint(Style::Strong, title))?;
            processes(out, &members)?;
        }
    }
    Ok(())
}

/// Prints each parameter with its value and its type.
pub(super) fn params(
    out: &mut Output,
    params: &BTreeMap<String, Param>,
    given: &BTreeMap<String, String>,
) -> io::Result<()> {
    if params.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", out.paint(Style::Strong, "parameters"))?;
    let mut table = Table::indented(2);
    for (name, param) in params {
        let value = given.get(name).or(param.default.as_ref());
        let about = match &param.description {
            Some(description) => format!("{}; {description}", param.kind),
            None => param.kind.to_string(),
        };
        table.row([
            Cell::new(clean(name), Style::Strong),
            clean(value.map(String::as_str).unwrap_or_default()).into(),
            Cell::new(clean(&about), Style::Faint),
        ]);
    }
    table.print(out)
}

pub(super) fn missing(out: &mut Output, missing: &[Missing]) -> io::Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", out.paint(Style::Odd, "not given"))?;
    let mut table = Table::indented(2);
    for each in missing {
        table.row([
            clean(&each.what).into(),
            clean(&format!("run it with {}", each.give)).into(),
            clean(&format!("shown as {}", each.shown)).into(),
        ]);
    }
    table.print(out)
}

fn facts_of(
    task: &TaskSpec,
    policy: &Policy,
    env: &[(String, String)],
) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let mut add = |name, value: String| {
        if !value.is_empty() {
            facts.push((name, value));
        }
    };
    add("resources", resources(&task.resources));
    add("user", task.user.as_deref().map(clean).unwrap_or_default());
    let ports = task.ports.iter();
    add(
        "ports",
        list(ports.map(|(name, port)| format!("{}:{port}", clean(name)))),
    );
    let variables = env.iter();
    add(
        "variables",
        list(variables.map(|(name, value)| clean(&format!("{name}={value}")))),
    );
    if task.max_concurrency > 0 {
        add(
            "at once",
            format!("at most {} processes", task.max_concurrency),
        );
    }
    add(
        "fails",
        match task.max_failures {
            0 => "never because of failed processes alone".to_owned(),
            1 => "when one process has failed permanently".to_owned(),
            many => format!("when {many} processes have failed permanently"),
        },
    );
    add(
        "ending",
        format!(
            "{} to stop processes and run final processes",
            span(task.finalization_wait)
        ),
    );
    if let Some(timeout) = policy.timeout {
        add("timeout", span(timeout));
    }
    if policy.retry.attempts > 1 {
        let pause = policy.retry.backoff.map(|b| format!(", {}", backoff(&b)));
        add(
            "attempts",
            format!("{}{}", policy.retry.attempts, pause.unwrap_or_default()),
        );
    }
    if let Some(losses) = policy.retry.losses {
        add(
            "losses",
            format!("{losses} losses of its worker are tolerated"),
        );
    }
    if policy.exclusive == Exclusive::Strict {
        add("exclusive", "strict".to_owned());
    }
    if let Some(lost_after) = policy.lost_after {
        add("lost after", span(lost_after));
    }
    for (name, value) in placed(policy) {
        add(name, value);
    }
    add("trigger", trigger(&policy.trigger));
    facts
}

/// Priority, worker constraints, and files to fetch.
fn placed(policy: &Policy) -> [(&'static str, String); 3] {
    let priority = match policy.priority {
        0 => String::new(),
        priority => priority.to_string(),
    };
    let names = policy.uris.iter().map(|uri| clean(&uri.name));
    [
        ("priority", priority),
        ("workers", list(policy.constraints.iter().map(constraint))),
        ("fetches", list(names)),
    ]
}

fn constraint(constraint: &Constraint) -> String {
    let label = clean(&constraint.label);
    let any = |values: &BTreeSet<String>| {
        let values: Vec<String> = values.iter().map(|value| clean(value)).collect();
        values.join(" or ")
    };
    match &constraint.rule {
        Rule::OneOf(values) => format!("{label} is {}", any(values)),
        Rule::NoneOf(values) => format!("{label} is not {}", any(values)),
        Rule::Present => format!("with {label}"),
        Rule::Absent => format!("without {label}"),
    }
}

fn resources(resources: &Resources) -> String {
    let mut parts = Vec::new();
    if resources.cpu_milli > 0 {
        parts.push(format!("cpu {}", thousandths(resources.cpu_milli)));
    }
    match (resources.memory_min, resources.memory_max) {
        (0, 0) => {}
        (min, max) if min == max => parts.push(format!("memory {}", size(min))),
        (min, 0) => parts.push(format!("memory {} or more", size(min))),
        (min, max) => parts.push(format!("memory {} to {}", size(min), size(max))),
    }
    if resources.disk > 0 {
        parts.push(format!("disk {}", size(resources.disk)));
    }
    if !resources.gpu.is_zero() {
        parts.push(format!("gpu {}", resources.gpu));
    }
    let named = resources.named.iter();
    parts.extend(named.map(|(name, count)| format!("{} {count}", clean(name))));
    parts.join(", ")
}

/// Prints each process with its tier: one more than the highest tier it depends on.
fn processes(out: &mut Output, members: &[&ProcessSpec]) -> io::Result<()> {
    let tiers = tiers(members);
    let mut order: Vec<usize> = (0..members.len()).collect();
    // Stable: within a tier, as in the file.
    order.sort_by_key(|&index| tiers[index]);
    let mut table = Table::indented(2);
    for index in order {
        let process = members[index];
        table.row([
            format!("{}.", tiers[index]).into(),
            Cell::new(clean(&process.name.0), Style::Strong),
            command(&process.run).into(),
        ]);
        for detail in details(process) {
            table.row(["".into(), "".into(), Cell::new(detail, Style::Faint)]);
        }
    }
    table.print(out)
}

fn tiers(members: &[&ProcessSpec]) -> Vec<usize> {
    let place: BTreeMap<&ProcessName, usize> = members
        .iter()
        .enumerate()
        .map(|(index, process)| (&process.name, index))
        .collect();
    let mut tiers = vec![1; members.len()];
    // A valid file has no cycle, so each round settles at least one tier.
    for _ in 0..members.len() {
        let mut settled = true;
        for (index, process) in members.iter().enumerate() {
            let before = process.after.iter().filter_map(|d| place.get(&d.process));
            let tier = before.map(|&other| tiers[other] + 1).max().unwrap_or(1);
            settled &= tiers[index] == tier;
            tiers[index] = tier;
        }
        if settled {
            break;
        }
    }
    tiers
}

/// Settings that differ from their defaults.
fn details(process: &ProcessSpec) -> Vec<String> {
    let usual = ProcessSpec::new("", CommandLine::Exec(Vec::new()));
    let mut details = Vec::new();
    if !process.after.is_empty() {
        let after = process.after.iter();
        let names = after.map(|d| format!("{}{}", clean(&d.process.0), arrow(d.condition)));
        details.push(format!("after {}", list(names)));
    }
    if process.daemon {
        details.push("daemon: restarted when it succeeds".to_owned());
    }
    if process.ephemeral {
        details.push("ephemeral: the task does not wait for it".to_owned());
    }
    if process.max_failures != usual.max_failures {
        details.push(match process.max_failures {
            0 => "retried after every failure".to_owned(),
            many => format!("fails permanently with failure {many}"),
        });
    }
    if let Some(codes) = &process.retryable {
        let codes = codes.iter().map(ToString::to_string);
        details.push(format!("retried only after exit code {}", list(codes)));
    }
    if process.min_duration != usual.min_duration {
        details.push(format!("{} between runs", span(process.min_duration)));
    }
    if let Some(pause) = &process.backoff {
        details.push(backoff(pause));
    }
    if let Some(timeout) = process.timeout {
        details.push(format!("stopped after {}", span(timeout)));
    }
    let checks = [
        ("ready when", &process.ready),
        ("healthy while", &process.health),
    ];
    for (what, check) in checks {
        details.extend(
            check
                .as_ref()
                .map(|check| format!("{what} {}", probe(check))),
        );
    }
    if process.stop != usual.stop {
        let stop = process.stop;
        details.push(format!(
            "stopped by signal {}, killed {} later",
            stop.signal,
            span(stop.grace)
        ));
    }
    let places = [("in", &process.cwd), ("as", &process.user)];
    for (what, place) in places {
        details.extend(
            place
                .as_ref()
                .map(|place| format!("{what} {}", clean(place))),
        );
    }
    details
}

fn probe(check: &Check) -> String {
    let what = match &check.probe {
        Probe::Command(run) => format!("`{}` exits with 0", command(run)),
        Probe::Http { port, path } => format!("http://localhost:{port}{} answers", clean(path)),
        Probe::Tcp { port } => format!("port {port} accepts"),
    };
    format!("{what}, tried every {}", span(check.interval))
}

fn backoff(backoff: &Backoff) -> String {
    format!(
        "backoff of {} to {} after failures",
        span(backoff.first),
        span(backoff.max)
    )
}

fn command(run: &CommandLine) -> String {
    let whole = match run {
        CommandLine::Shell(script) => script.trim().to_owned(),
        CommandLine::Exec(words) => {
            let quoted = words.iter().map(|word| quoted(word));
            quoted.collect::<Vec<_>>().join(" ")
        }
    };
    let mut lines = whole.lines();
    let first = clean(lines.next().unwrap_or_default());
    let mut shown: String = first.chars().take(COMMAND_CHARS_MAX).collect();
    if shown.len() < first.len() || lines.next().is_some() {
        shown.push_str(" …");
    }
    shown
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn thousandths(milli: u64) -> String {
    let text = format!("{}.{:03}", milli / 1_000, milli % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(super) fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}
