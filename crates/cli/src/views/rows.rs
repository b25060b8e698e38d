//! Table rows of instances and workers.

use std::collections::BTreeSet;

use baton_model::api::{Instance, Worker};
use baton_model::cpu::CORE;
use baton_model::device::DeviceAmount;
use baton_model::placement::MeasuredUse;
use baton_model::state::{UniversalState, WorkerState};
use baton_model::time::{Millis, Wall};

use crate::output::{Style, clean};
use crate::table::Cell;
use crate::text::grouped;
use crate::time::{between, size, span, stamp};

/// Headings of [`instance`].
pub(crate) const INSTANCE: &[&str] = &[
    "ID", "NAME", "OWNER", "STATE", "ATTEMPT", "WORKER", "AGE", "ELAPSED", "END",
];

/// Headings of [`queued`].
pub(crate) const QUEUED: &[&str] = &[
    "ID", "NAME", "OWNER", "STATE", "ATTEMPT", "AGE", "END", "REASON",
];

/// Headings of [`worker`].
pub(crate) const WORKER: &[&str] = &[
    "NAME", "STATE", "ATTEMPTS", "CPU", "MEMORY", "MEASURED", "OTHER", "HEARD", "EXECUTOR",
    "LABELS",
];

pub(crate) const fn style(state: UniversalState) -> Style {
    match state {
        UniversalState::Done => Style::Good,
        UniversalState::Failed => Style::Bad,
        UniversalState::Halted | UniversalState::Aborted | UniversalState::Triaging => Style::Odd,
        UniversalState::Launched | UniversalState::Running => Style::Busy,
        UniversalState::Registering | UniversalState::Queued | UniversalState::Instantiating => {
            Style::Plain
        }
    }
}

/// The row of an instance, or of a range with its count.
pub(crate) fn instance(instance: &Instance, now: Wall) -> Vec<Cell> {
    let mut state = instance.state.to_string();
    if instance.stopping && !instance.state.is_terminal() {
        state.push_str(" (stopping)");
    }
    vec![
        Cell::new(id(instance), Style::Strong),
        clean(&instance.name).into(),
        clean(&instance.owner).into(),
        Cell::new(state, style(instance.state)),
        attempt(instance).into(),
        clean(instance.worker.as_deref().unwrap_or("-")).into(),
        span(between(Wall(instance.submitted_at), now)).into(),
        elapsed(instance, now)
            .map_or_else(|| "-".to_owned(), span)
            .into(),
        clean(instance.end_text.as_deref().unwrap_or("")).into(),
    ]
}

/// The row of an instance, or of a range, that waits.
pub(crate) fn queued(waiting: &Instance, now: Wall) -> Vec<Cell> {
    let mut cells = instance(waiting, now);
    // No worker has it, and it does not run.
    cells.remove(7);
    cells.remove(5);
    let reason = waiting.reason.as_deref().unwrap_or("");
    cells.push(clean(reason).into());
    cells
}

/// Formats an id: `i12`, `i12[7]` for an element of an array, `i12..i99 (88)` for a range.
pub(crate) fn id(instance: &Instance) -> String {
    match (&instance.last, instance.array_index) {
        (Some(last), _) if *last != instance.id => format!(
            "{}..{} ({})",
            clean(&instance.id),
            clean(last),
            grouped(instance.count)
        ),
        (_, Some(index)) => format!("{}[{index}]", clean(&instance.id)),
        _ => clean(&instance.id),
    }
}

fn attempt(instance: &Instance) -> String {
    match instance.attempts {
        0 => "-".to_owned(),
        attempts => attempts.to_string(),
    }
}

/// Duration of the last attempt.
pub(crate) fn elapsed(instance: &Instance, now: Wall) -> Option<Millis> {
    if let Some(seconds) = instance.elapsed_seconds {
        return Some(millis(seconds));
    }
    let running = instance.state == UniversalState::Running;
    let started = instance.started_at.filter(|_| running)?;
    Some(between(Wall(started), now))
}

/// Converts fractional seconds of the API.
pub(crate) fn millis(seconds: f64) -> Millis {
    // The cast saturates, and NaN becomes 0; both are fine for display.
    Millis((seconds * 1e3).round() as u64)
}

pub(crate) fn worker(worker: &Worker) -> Vec<Cell> {
    let style = match worker.state {
        WorkerState::Healthy if worker.drained || worker.leaving => Style::Odd,
        WorkerState::Healthy => Style::Good,
        WorkerState::New => Style::Busy,
        WorkerState::Unhealthy => Style::Odd,
        WorkerState::MustDie => Style::Bad,
    };
    let service = match (worker.leaving, worker.drained, worker.ends_at) {
        (true, _, _) => " (leaving)".to_owned(),
        (false, true, _) => " (drained)".to_owned(),
        (false, false, Some(at)) => format!(" (until {})", stamp(Wall(at))),
        (false, false, None) => String::new(),
    };
    let labels: Vec<String> = worker
        .labels
        .iter()
        .map(|(name, value)| format!("{}={}", clean(name), clean(value)))
        .collect();
    vec![
        Cell::new(clean(&worker.name), Style::Strong),
        Cell::new(format!("{}{service}", worker.state), style),
        format!("{}/{}", worker.attempts, worker.slots).into(),
        share(worker.used.cpu_milli, worker.capacity.cpu_milli, cores).into(),
        share(worker.used.memory, worker.capacity.memory, size).into(),
        measured(worker.measured).into(),
        others(worker).into(),
        heard(worker).into(),
        clean(worker.executor.as_deref().unwrap_or("-")).into(),
        labels.join(" ").into(),
    ]
}

/// A line below the table for the devices of a worker and the attempts that hold them:
/// `w1 gpu: 0 i7.1, 1 free`, and for its cores `w1 CPUs: 0-3 i7.1, 4-7 free` if some are held.
pub(crate) fn worker_devices(worker: &Worker) -> Vec<String> {
    let resources = worker.devices.iter().map(|it| &*it.resource);
    let resources: BTreeSet<&str> = resources.filter(|it| *it != CORE).collect();
    let line = |resource: &str| {
        let own = worker.devices.iter().filter(|it| it.resource == resource);
        let devices = own.map(|device| {
            let holders = device.holders.iter().map(|holder| {
                let attempt = format!("{}.{}", holder.instance, holder.attempt);
                if holder.amount == DeviceAmount::whole(1) {
                    attempt
                } else {
                    format!("{attempt} ({})", holder.amount)
                }
            });
            let mut parts: Vec<String> = holders.collect();
            if device.free == DeviceAmount::whole(1) {
                parts.push("free".to_owned());
            } else if !device.free.is_zero() {
                parts.push(format!("{} free", device.free));
            }
            format!("{} {}", clean(&device.id), parts.join(" "))
        });
        let devices: Vec<String> = devices.collect();
        format!(
            "{} {}: {}",
            clean(&worker.name),
            clean(resource),
            devices.join(", ")
        )
    };
    let cores = worker.cores();
    let cores = (!cores.is_empty()).then(|| {
        let parts = cores
            .iter()
            .map(|(cpus, holders)| format!("{cpus} {}", clean(holders)));
        let parts: Vec<String> = parts.collect();
        format!("{} CPUs: {}", clean(&worker.name), parts.join(", "))
    });
    cores
        .into_iter()
        .chain(resources.into_iter().map(line))
        .collect()
}

/// A line below the table for a worker that cannot launch anything, or is suspicious.
pub(crate) fn worker_trouble(worker: &Worker) -> Option<String> {
    let name = clean(&worker.name);
    if let Some(fault) = worker.fault.as_deref() {
        let fault = clean(fault);
        return Some(format!(
            "{name} gets no work, since it cannot launch any: {fault}"
        ));
    }
    let suspicion = worker.suspicion?;
    Some(format!(
        "{name} is suspicious and is tried with one attempt at a time: {suspicion}; `baton drain \
         --undo {name}` trusts it at once"
    ))
}

/// The time since it was heard, and until when its work is waited for: `2m ago, lost at 14:05`.
fn heard(worker: &Worker) -> String {
    let ago = span(millis(worker.heard_seconds));
    match worker.lost_at {
        Some(at) => format!("{ago}, work lost at {}", stamp(Wall(at))),
        None => ago,
    }
}

/// What is claimed of a resource, and all of it: `1.5/4`.
fn share(used: u64, capacity: u64, text: fn(u64) -> String) -> String {
    format!("{}/{}", text(used), text(capacity))
}

/// What is used of cores and memory: `0.98 512MiB`; `-` if that is unknown.
fn measured(measured: Option<MeasuredUse>) -> String {
    measured.map_or_else(
        || "-".to_owned(),
        |it| format!("{} {}", cores(it.cpu_milli), size(it.memory)),
    )
}

/// GPUs and custom resources of a worker, claimed and in all: `gpu=1/2 licence=0/4`.
fn others(worker: &Worker) -> String {
    let Worker { capacity, used, .. } = worker;
    let gpu = (!capacity.gpu.is_zero()).then(|| format!("gpu={}/{}", used.gpu, capacity.gpu));
    let named = capacity.named.iter();
    let named = named.map(|(name, amount)| {
        let used = used.named.get(name).copied().unwrap_or(0);
        format!("{}={used}/{amount}", clean(name))
    });
    let all: Vec<String> = gpu.into_iter().chain(named).collect();
    if all.is_empty() {
        "-".to_owned()
    } else {
        all.join(" ")
    }
}

/// Formats thousandths of a core: `4`, `0.5`.
pub(crate) fn cores(milli: u64) -> String {
    let text = format!("{}.{:03}", milli / 1_000, milli % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use baton_model::api::{DeviceHolder, WorkerDevice};
    use baton_model::placement::{Capacity, Suspicion};

    use super::*;
    use crate::output::Output;
    use crate::table::Table;

    /// An instance that has just been accepted.
    pub(crate) fn fresh(id: &str) -> Instance {
        Instance {
            id: id.to_owned(),
            last: None,
            count: 1,
            name: "hello".to_owned(),
            owner: "default".to_owned(),
            state: UniversalState::Queued,
            array_index: None,
            item: None,
            run: None,
            attempts: 0,
            failures: 0,
            losses: 0,
            stopping: false,
            worker: None,
            executor: None,
            end: None,
            end_text: None,
            stderr_tail: None,
            progress: None,
            nominal_at: None,
            slack_until: None,
            submitted_at: 1_000,
            changed_at: 1_000,
            reason: None,
            details: None,
            started_at: None,
            elapsed_seconds: None,
            cpu_seconds: None,
            memory_peak_bytes: None,
            links: BTreeMap::new(),
        }
    }

    #[test]
    fn instances_and_ranges_are_one_row_each() {
        let mut table = Table::headed(INSTANCE);
        let range = Instance {
            last: Some("i1011".to_owned()),
            count: 1_000,
            ..fresh("i12")
        };
        let running = Instance {
            state: UniversalState::Running,
            array_index: Some(7),
            attempts: 2,
            stopping: true,
            worker: Some("w1\u{1b}[2J".to_owned()),
            started_at: Some(56_000),
            ..fresh("i1012")
        };
        let done = Instance {
            state: UniversalState::Done,
            attempts: 1,
            worker: Some("w1".to_owned()),
            end_text: Some("exit 0".to_owned()),
            elapsed_seconds: Some(1.25),
            ..fresh("i2000")
        };
        for row in [&range, &running, &done] {
            table.row(instance(row, Wall(61_000)));
        }
        assert_eq!(
            table.lines(&Output::new()),
            [
                "ID                  NAME   OWNER    STATE               ATTEMPT  WORKER       AGE    ELAPSED  END",
                "i12..i1011 (1,000)  hello  default  QUEUED              -        -            1m00s  -",
                "i1012[7]            hello  default  RUNNING (stopping)  2        w1\\u{1b}[2J  1m00s  5s",
                "i2000               hello  default  DONE                1        w1           1m00s  1.2s     exit 0",
            ]
        );
    }

    #[test]
    fn a_worker_is_one_row_with_what_is_claimed_and_what_is_measured() {
        let drained = Worker {
            name: "w1".to_owned(),
            state: WorkerState::Healthy,
            drained: true,
            fault: None,
            suspicion: None,
            lineage: "l1".to_owned(),
            incarnation: 1,
            executor: Some("node7:4211:1f3a9c02".to_owned()),
            attempts: 3,
            slots: 100,
            capacity: Capacity {
                cpu_milli: 3_500,
                memory: 8 << 30,
                named: BTreeMap::from([("licence".to_owned(), 2)]),
                ..Capacity::default()
            },
            used: Capacity {
                cpu_milli: 1_500,
                memory: 1 << 30,
                ..Capacity::default()
            },
            measured: None,
            devices: Vec::new(),
            labels: BTreeMap::from([("zone".to_owned(), "eu".to_owned())]),
            leaving: false,
            ends_at: None,
            version: None,
            build: None,
            dialled: None,
            clock_offset_seconds: None,
            heard_seconds: 0.4,
            lost_at: None,
            links: BTreeMap::new(),
        };
        let mut table = Table::headed(WORKER);
        table.row(worker(&drained));
        assert_eq!(
            table.lines(&Output::new()),
            [
                "NAME  STATE              ATTEMPTS  CPU      MEMORY     MEASURED  OTHER        HEARD  EXECUTOR             LABELS",
                "w1    HEALTHY (drained)  3/100     1.5/3.5  1GiB/8GiB  -         licence=0/2  400ms  node7:4211:1f3a9c02  zone=eu",
            ]
        );
        let typical = Worker {
            drained: false,
            capacity: Capacity {
                named: BTreeMap::new(),
                ..drained.capacity.clone()
            },
            measured: Some(MeasuredUse {
                cpu_milli: 980,
                memory: 512 << 20,
            }),
            labels: BTreeMap::new(),
            ..drained
        };
        let mut table = Table::headed(WORKER);
        table.row(worker(&typical));
        let lines = table.lines(&Output::new());
        assert_eq!(
            lines[1],
            "w1    HEALTHY  3/100     1.5/3.5  1GiB/8GiB  0.98 512MiB  -      400ms  node7:4211:1f3a9c02"
        );
        assert!(lines.iter().all(|line| line.len() <= 100), "{lines:?}");
        assert_eq!(worker_trouble(&typical), None);
        let device = |id: &str, free: u64, holders: &[(u32, u64)]| WorkerDevice {
            resource: "gpu".to_owned(),
            id: id.to_owned(),
            free: DeviceAmount::from_milli(free),
            holders: holders
                .iter()
                .map(|(attempt, milli)| DeviceHolder {
                    instance: "i7".to_owned(),
                    attempt: *attempt,
                    amount: DeviceAmount::from_milli(*milli),
                })
                .collect(),
        };
        let with_devices = Worker {
            devices: vec![
                device("a", 0, &[(1, 1_000)]),
                device("b", 300, &[(2, 500), (3, 200)]),
                device("c", 1_000, &[]),
            ],
            ..typical.clone()
        };
        assert_eq!(worker_devices(&typical), Vec::<String>::new());
        let core = |id: &str, free: u64, holders: &[(u32, u64)]| WorkerDevice {
            resource: CORE.to_owned(),
            ..device(id, free, holders)
        };
        let cores = |devices: Vec<WorkerDevice>| {
            let worker = Worker {
                devices,
                ..typical.clone()
            };
            worker_devices(&worker)
        };
        let idle = vec![core("0,4", 1_000, &[]), core("1,5", 1_000, &[])];
        assert_eq!(cores(idle), Vec::<String>::new(), "all are free");
        let used = vec![
            core("0,4", 0, &[(1, 1_000)]),
            core("2,6", 1_000, &[]),
            core("1,5", 0, &[(1, 1_000)]),
            core("3,7", 1_000, &[]),
        ];
        assert_eq!(cores(used), ["w1 CPUs: 0-1,4-5 i7.1, 2-3,6-7 free"]);
        assert_eq!(
            worker_devices(&with_devices),
            ["w1 gpu: a i7.1, b i7.2 (0.5) i7.3 (0.2) 0.3 free, c free"]
        );
        let suspicious = Worker {
            suspicion: Some(Suspicion {
                failed: 6,
                ended: 8,
                failed_elsewhere: 1,
                ended_elsewhere: 20,
            }),
            ..typical.clone()
        };
        assert_eq!(
            worker_trouble(&suspicious).as_deref(),
            Some(
                "w1 is suspicious and is tried with one attempt at a time: 6 of the last 8 different \
                 tasks failed there, and 1 of 20 elsewhere; `baton drain --undo w1` trusts it at once"
            )
        );
        let faulted = Worker {
            fault: Some("/s/work: No space left\u{1b}[2J".to_owned()),
            ..typical
        };
        assert_eq!(
            worker_trouble(&faulted).as_deref(),
            Some("w1 gets no work, since it cannot launch any: /s/work: No space left\\u{1b}[2J")
        );
    }

    #[test]
    fn cores_have_no_needless_digits() {
        for (milli, text) in [
            (0, "0"),
            (4_000, "4"),
            (500, "0.5"),
            (10_000, "10"),
            (1, "0.001"),
        ] {
            assert_eq!(cores(milli), text);
        }
    }
}
