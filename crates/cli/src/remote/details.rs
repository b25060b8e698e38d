//! Rows of `baton show` about what an instance runs, where, with what and why.

use std::collections::BTreeMap;

use baton_client::{Client, LogQuery, Stream};
use baton_model::api::{Event, Instance, InstanceDetails, ProcessCommand};
use baton_model::fact::Fact;
use baton_model::ids::InstanceId;
use baton_model::paths::DIRECTORY_LABEL;
use baton_model::placement::Rule;
use baton_model::spec::Exclusive;
use baton_model::task::Resources;
use baton_model::time::Wall;
use serde_json::Value;

use crate::output::clean;
use crate::text::shell;
use crate::time::{size, span, stamp};
use crate::views::rows;

/// Processes and variables shown: more than that is read as JSON.
const LINES_MAX: usize = 20;

/// The rows between the name of an instance and its state.
pub(super) fn work(details: &InstanceDetails) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    match &*details.processes {
        [single] => rows.push(("command", command(single))),
        several => {
            let commands = several.iter();
            let commands = commands.map(|it| format!("{}: {}", clean(&it.name), command(it)));
            rows.extend(listed("process", commands.collect()));
        }
    }
    if let Some(cwd) = &details.cwd {
        rows.push(("directory", clean(cwd)));
    }
    rows.extend(listed("param", variables(&details.params)));
    rows.extend(listed("env", variables(&details.env)));
    if !details.secrets.is_empty() {
        let secrets = details.secrets.iter().map(|it| clean(&it.to_string()));
        rows.push(("secrets", secrets.collect::<Vec<_>>().join(", ")));
    }
    if let Some(user) = &details.user {
        rows.push(("user", clean(user)));
    }
    rows.push(("resources", resources(&details.resources)));
    if !details.devices.is_empty() {
        let devices = details.devices.iter().map(|it| clean(&it.to_string()));
        rows.push(("devices", devices.collect::<Vec<_>>().join(", ")));
    }
    if details.nodes.is_gang() {
        let members = match &*details.members {
            [] => String::new(),
            members => format!(": {}", clean(&members.join(", "))),
        };
        rows.push(("nodes", format!("{}{members}", details.nodes.get())));
    }
    // The row of the directory tells what this label is for.
    let constraints = details.constraints.iter();
    let constraints = constraints.filter(|it| it.label != DIRECTORY_LABEL);
    let constraints = constraints.map(|constraint| {
        let label = clean(&constraint.label);
        let words = |values: &std::collections::BTreeSet<String>| {
            let values: Vec<String> = values.iter().map(|value| clean(value)).collect();
            values.join(" or ")
        };
        match &constraint.rule {
            Rule::OneOf(values) => format!("{label} is {}", words(values)),
            Rule::NoneOf(values) => format!("{label} is not {}", words(values)),
            Rule::Present => format!("{label} is set"),
            Rule::Absent => format!("{label} is not set"),
        }
    });
    let constraints: Vec<String> = constraints.collect();
    if !constraints.is_empty() {
        rows.push(("labels", constraints.join(", ")));
    }
    if details.priority != 0 {
        rows.push(("priority", details.priority.to_string()));
    }
    if let Some(seconds) = details.timeout_seconds {
        rows.push(("timeout", span(rows::millis(seconds))));
    }
    let attempts = match details.attempts_max {
        1 => "none after a failure".to_owned(),
        attempts => format!("at most {attempts} attempts"),
    };
    let losses = details.losses_max;
    rows.push((
        "retry",
        format!("{attempts}, {losses} after losses of a worker"),
    ));
    if details.exclusive == Exclusive::Strict {
        rows.push(("exclusive", "strict".to_owned()));
    }
    if let Some(seconds) = details.lost_after_seconds {
        rows.push(("lost after", span(rows::millis(seconds))));
    }
    let due = details.origin.due_at;
    let due = due.map(|due| format!(", due {}", stamp(Wall(due))));
    let origin = clean(&details.origin.text);
    rows.push(("origin", format!("{origin}{}", due.unwrap_or_default())));
    rows
}

/// The rows about files: where the last attempt has left them.
pub(super) fn files(
    instance: &Instance,
    details: &InstanceDetails,
    sizes: [Option<u64>; 2],
) -> Vec<(&'static str, String)> {
    let Some(sandbox) = &details.sandbox else {
        return Vec::new();
    };
    let worker = instance.worker.as_deref().unwrap_or("its worker");
    let (sandbox, worker) = (clean(sandbox), clean(worker));
    let mut rows = Vec::new();
    if details.cwd.is_none() {
        let text = format!("STATE/work/{sandbox} on {worker}, for its --keep (default 24h)");
        rows.push(("sandbox", text));
    }
    let streams = [
        ("stdout", &details.stdout, "out"),
        ("stderr", &details.stderr, "err"),
    ];
    for ((name, file, suffix), bytes) in streams.into_iter().zip(sizes) {
        let text = match (file, bytes) {
            (Some(file), _) => format!("{} on {worker}", clean(file)),
            (None, None) => continue,
            (None, Some(0)) => "empty".to_owned(),
            (None, Some(bytes)) => {
                format!("{}, STATE/logs/{sandbox}.{suffix} on {worker}", size(bytes))
            }
        };
        rows.push((name, text));
    }
    rows
}

/// The sizes of both logs of the last attempt; a worker that cannot be asked does not hide the rest.
pub(super) async fn log_sizes(client: &Client, id: InstanceId) -> [Option<u64>; 2] {
    let mut sizes = [None, None];
    for (place, stream) in [Stream::Stdout, Stream::Stderr].into_iter().enumerate() {
        let query = LogQuery {
            instance: id,
            stream,
            attempt: None,
            process: None,
            run: None,
            offset: 0,
            cursor: None,
        };
        match client.logs(&query).await {
            Ok(chunk) => sizes[place] = Some(chunk.size.unwrap_or(0)),
            // The other log is on the same worker.
            Err(_) => return [None, None],
        }
    }
    sizes
}

/// The outputs of the attempt that succeeded.
pub(super) fn outputs(timeline: &[Event]) -> Option<Value> {
    timeline.iter().rev().find_map(|event| match &event.fact {
        Fact::AttemptEnded { outputs, .. } => serde_json::from_str(outputs.as_deref()?).ok(),
        _ => None,
    })
}

fn command(process: &ProcessCommand) -> String {
    let words = process.command.iter().map(|word| {
        if process.shell {
            clean(word)
        } else {
            shell(&clean(word))
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn variables(variables: &BTreeMap<String, String>) -> Vec<String> {
    let variables = variables.iter();
    let variables = variables.map(|(name, value)| format!("{}={}", clean(name), clean(value)));
    variables.collect()
}

/// A row for each line, the first with its name.
fn listed(name: &'static str, mut lines: Vec<String>) -> Vec<(&'static str, String)> {
    let more = lines.len().saturating_sub(LINES_MAX);
    lines.truncate(LINES_MAX);
    if more > 0 {
        lines.push(format!("… {more} more; see --json"));
    }
    let lines = lines.into_iter().enumerate();
    let lines = lines.map(|(place, line)| (if place == 0 { name } else { "" }, line));
    lines.collect()
}

fn resources(resources: &Resources) -> String {
    let mut parts = vec![format!("cpu {}", rows::cores(resources.cpu_milli))];
    match (resources.memory_min, resources.memory_max) {
        (0, 0) => {}
        (min, 0) => parts.push(format!("memory {}..", size(min))),
        (min, max) if min == max => parts.push(format!("memory {}", size(min))),
        (min, max) => parts.push(format!("memory {}..{}", size(min), size(max))),
    }
    if resources.disk > 0 {
        parts.push(format!("disk {}", size(resources.disk)));
    }
    if !resources.gpu.is_zero() {
        parts.push(format!("gpu {}", resources.gpu));
    }
    if let Some(pin) = resources.pin {
        parts.push(format!("pinned to {pin}"));
    }
    for (name, amount) in &resources.named {
        parts.push(format!("{} {amount}", clean(name)));
    }
    parts.join(", ")
}
