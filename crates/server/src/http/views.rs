//! Conversion of stored records to types of the API.

use baton_files::ITEM_VARIABLE;
use baton_model::api::{Instance, KillReply, Links, Progress, SubmitReply, Worker};
use baton_model::ids::{AttemptNo, InstanceId, InstanceRange};
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};
use baton_store::view::Record;

/// Links from pairs of relation and target.
pub(super) fn links<const N: usize>(pairs: [(&str, String); N]) -> Links {
    let pairs = pairs.into_iter();
    pairs
        .map(|(relation, target)| (relation.to_owned(), target))
        .collect()
}

/// The path of one instance, or of a range of them.
pub(super) fn path(first: InstanceId, last: InstanceId) -> String {
    format!("/instances/{}", InstanceRange(first, last))
}

/// The path of several ranges.
pub(super) fn path_of_many(ranges: &[(InstanceId, InstanceId)]) -> String {
    let ranges = ranges.iter();
    let ranges: Vec<String> = ranges
        .map(|(first, last)| InstanceRange(*first, *last).to_string())
        .collect();
    format!("/instances/{}", ranges.join(","))
}

/// The path of a task of the library.
pub(super) fn task_path(owner: &str, name: &str) -> String {
    format!("/{}/tasks/{}", encoded(owner), encoded(name))
}

/// The response to a submission.
pub(super) fn submitted(first: InstanceId, last: InstanceId) -> SubmitReply {
    SubmitReply {
        first: first.to_string(),
        last: last.to_string(),
        count: last.0 - first.0 + 1,
        links: links([("control", path(first, last))]),
    }
}

/// The kill of one attempt, accepted.
pub(super) fn killed(id: InstanceId, attempt: AttemptNo) -> KillReply {
    let path = path(id, id);
    KillReply {
        id: id.to_string(),
        attempt: attempt.0,
        links: links([
            ("instance", path.clone()),
            ("timeline", format!("{path}/timeline")),
        ]),
    }
}

/// An instance, at a time.
pub(super) fn instance(record: &Record, now: Wall) -> Instance {
    let it = &record.instance;
    let lease = it.lease.as_deref();
    let last = record.span.unwrap_or(it.id);
    // While an attempt is open, the end of the previous one is not shown.
    let ended = record.last.as_ref().filter(|_| lease.is_none());
    let stats = ended.and_then(|ended| ended.stats);
    let holder = lease.map(|lease| &lease.holder.worker);
    let worker = holder.or_else(|| ended.map(|ended| &ended.worker));
    let index = it.spec.array.filter(|_| record.span.is_none());
    let item = it.spec.env.get(ITEM_VARIABLE);
    let due = it.spec.origin.and_then(|origin| origin.due);
    let since = running_since(record);
    let elapsed = since.map(|since| Millis(now.0.saturating_sub(since.0)));
    Instance {
        id: it.id.to_string(),
        last: record.span.map(|last| last.to_string()),
        count: last.0 - it.id.0 + 1,
        name: it.spec.name.clone(),
        owner: it.spec.owner.clone(),
        state: it.state,
        array_index: index.map(|array| array.index(it.id)),
        item: item.cloned(),
        run: it.spec.part.map(|part| part.run.to_string()),
        attempts: it.attempts.0,
        failures: it.failures,
        losses: it.losses,
        stopping: it.stop_requested && !it.state.is_terminal(),
        worker: worker.map(ToString::to_string),
        executor: None,
        end: ended.map(|ended| ended.end),
        end_text: ended.map(|ended| ended.end.to_string()),
        stderr_tail: ended.and_then(|ended| ended.stderr_tail.as_deref().map(str::to_owned)),
        progress: ended.and_then(|ended| Some(Progress::from(&**ended.progress.as_ref()?))),
        nominal_at: due.map(|due| due.nominal.0),
        slack_until: due.map(|due| due.latest.0),
        submitted_at: record.submitted_at.0,
        changed_at: record.changed_at.0,
        reason: None,
        details: None,
        started_at: stats.map(|stats| stats.started).or(since).map(|at| at.0),
        elapsed_seconds: stats.map(|stats| stats.elapsed).or(elapsed).map(seconds),
        cpu_seconds: stats.map(|stats| seconds(stats.cpu)),
        memory_peak_bytes: stats.map(|stats| stats.memory_peak),
        links: instance_links(record, last),
    }
}

/// An instance without the fields that change by themselves: its time while it runs, and the reason
/// for which it waits.
pub(super) fn lasting(instance: &Instance) -> Instance {
    let mut lasting = instance.clone();
    lasting.reason = None;
    if !instance.state.is_terminal() && instance.end.is_none() {
        lasting.elapsed_seconds = None;
    }
    lasting
}

/// When the running attempt was assigned to its worker, by the clock of the scheduler. Its start by
/// the clock of the worker is known when it has ended.
fn running_since(record: &Record) -> Option<Wall> {
    let runs = record.instance.state == UniversalState::Running;
    record.leased_at.filter(|_| runs)
}

fn instance_links(record: &Record, last: InstanceId) -> Links {
    let it = &record.instance;
    let path = path(it.id, last);
    let mut links = links([("self", path.clone())]);
    let mut add = |relation: &str, target: String| {
        links.insert(relation.to_owned(), target);
    };
    if it.spec.origin.is_some() {
        add("task", task_path(&it.spec.owner, &it.spec.name));
    }
    if let Some(part) = it.spec.part {
        add("run", format!("/runs/{}", part.run));
    }
    let single = record.span.is_none();
    if single {
        add("timeline", format!("{path}/timeline"));
        add("explain", format!("{path}/explain"));
    }
    if single && it.attempts.0 > 0 {
        add("processes", format!("{path}/processes"));
        add("stdout", format!("{path}/logs/stdout"));
        add("stderr", format!("{path}/logs/stderr"));
    }
    if !it.state.is_terminal() {
        add("cancel", format!("DELETE {path}"));
    }
    if single && it.lease.is_some() && !it.stop_requested {
        add("kill", format!("POST {path}/kill"));
    }
    let retryable = matches!(it.state, UniversalState::Failed | UniversalState::Halted);
    if single && retryable && it.spec.part.is_none() {
        add("retry", format!("POST {path}/retry"));
    }
    links
}

/// A worker, with its links.
pub(super) fn worker(mut worker: Worker) -> Worker {
    let path = format!("/workers/{}", encoded(&worker.name));
    let drain = if worker.drained { "undrain" } else { "drain" };
    worker.links = links([
        ("self", path.clone()),
        (drain, format!("PUT {path}/drained")),
        ("forget", format!("POST {path}/forget")),
    ]);
    worker
}

/// Percent-encodes a text for a path or a query.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

pub(super) fn seconds(span: Millis) -> f64 {
    span.0 as f64 / 1_000.0
}
