//! Workers: what they have, what they hold, and how they are.

use askama::Template;
use baton_model::api::{Instance, List, Worker, WorkerDevice};
use baton_model::cpu::CORE;
use baton_model::device::DeviceAmount;
use baton_model::fleet::FleetName;
use baton_model::ids::WorkerName;
use baton_model::state::WorkerState;

use super::instances::InstanceRow;
use super::{Offer, actions};
use crate::frame::{Action, Frame};
use crate::text::{bytes, cores, duration, encoded};
use crate::time::Stamp;

/// The list of workers.
#[derive(Template)]
#[template(path = "workers.html")]
pub struct WorkersPage {
    pub frame: Frame,
    pub rows: Vec<WorkerRow>,
}

/// A worker.
#[derive(Debug)]
pub struct WorkerRow {
    pub name: String,
    pub href: String,
    pub state: &'static str,
    pub drained: bool,
    /// Its name in queries.
    pub query: String,
    /// Why it cannot launch anything; empty if it can.
    pub fault: String,
    /// Empty if it is not suspicious.
    pub suspicion: String,
    /// What keeps it from work or will, each with a time if there is one.
    pub reasons: Vec<(String, Option<Stamp>)>,
    /// Some of the instances that it holds: id, page and name.
    pub examples: Vec<(String, String, String)>,
    pub attempts: u32,
    pub slots: u32,
    pub cores: Share,
    pub memory: Share,
    pub named: String,
    /// Each device, with its holders.
    pub devices: Vec<(String, String)>,
    pub labels: String,
    /// The job that has started it, and its page; none if it is no pilot.
    pub job: Option<PilotOf>,
    pub heard: String,
}

/// The fleet and the job of a pilot.
#[derive(Debug, PartialEq, Eq)]
pub struct PilotOf {
    pub fleet: String,
    pub href: String,
    pub job: String,
    pub job_href: String,
}

impl PilotOf {
    /// That of a worker; none if it was not started by a fleet.
    fn new(worker: &Worker) -> Option<Self> {
        let fleet: FleetName = worker.labels.get("fleet")?.parse().ok()?;
        let (job, _) = fleet.pilot_of(&WorkerName::new(&worker.name))?;
        let href = format!("/fleets/{fleet}");
        Some(Self {
            job_href: format!("{href}?job={job}#h-log"),
            job: job.to_string(),
            fleet: fleet.to_string(),
            href,
        })
    }
}

/// The claimed part of a resource, and the part that is in use.
#[derive(Debug)]
pub struct Share {
    pub used: u64,
    pub capacity: u64,
    pub text: String,
    /// The measured use, and its text; none if it is unknown.
    pub measured: Option<(u64, String)>,
}

impl Share {
    fn new(used: u64, capacity: u64, measured: Option<u64>, text: impl Fn(u64) -> String) -> Self {
        Self {
            used,
            capacity,
            text: format!("{}/{}", text(used), text(capacity)),
            measured: measured.map(|amount| (amount, text(amount))),
        }
    }
}

impl WorkerRow {
    #[must_use]
    pub fn new(worker: &Worker) -> Self {
        let pairs = |items: Vec<String>| items.join(", ");
        let labels = worker
            .labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let named = worker.capacity.named.iter();
        let named = named.map(|(name, number)| {
            let used = worker.used.named.get(name).copied().unwrap_or(0);
            format!("{name}={used}/{number}")
        });
        let gpu = &worker.capacity.gpu;
        let gpu = (!gpu.is_zero()).then(|| format!("gpu={}/{gpu}", worker.used.gpu));
        let named = gpu.into_iter().chain(named);
        Self {
            name: worker.name.clone(),
            href: format!("/workers/{}", encoded(&worker.name)),
            state: worker.state.word(),
            drained: worker.drained,
            query: encoded(&worker.name),
            fault: worker.fault.clone().unwrap_or_default(),
            suspicion: worker
                .suspicion
                .map_or_else(String::new, |it| it.to_string()),
            reasons: reasons(worker),
            examples: Vec::new(),
            attempts: worker.attempts,
            slots: worker.slots,
            cores: Share::new(
                worker.used.cpu_milli,
                worker.capacity.cpu_milli,
                worker.measured.map(|it| it.cpu_milli),
                cores,
            ),
            memory: Share::new(
                worker.used.memory,
                worker.capacity.memory,
                worker.measured.map(|it| it.memory),
                bytes,
            ),
            named: pairs(named.collect()),
            devices: devices(worker),
            labels: pairs(labels.collect()),
            job: PilotOf::new(worker),
            heard: duration(worker.heard_seconds),
        }
    }
}

/// What keeps a worker from work, or will.
fn reasons(worker: &Worker) -> Vec<(String, Option<Stamp>)> {
    let mut reasons = Vec::new();
    if worker.state != WorkerState::Healthy {
        let silent = duration(worker.heard_seconds);
        reasons.push((format!("not heard for {silent}"), None));
    }
    if let Some(at) = worker.lost_at {
        let text = "what it holds is given up, and retried elsewhere,";
        reasons.push((text.to_owned(), Some(Stamp(at))));
    }
    if let Some(fault) = &worker.fault {
        reasons.push((format!("cannot launch anything: {fault}"), None));
    }
    if let Some(suspicion) = &worker.suspicion {
        let text = format!("suspicious: {suspicion}; it is tried with one attempt at a time");
        reasons.push((text, None));
    }
    if worker.drained {
        reasons.push(("gets nothing new until the drain is ended".to_owned(), None));
    }
    if worker.leaving {
        reasons.push(("ends in order, and takes no more work".to_owned(), None));
    }
    if let Some(at) = worker.ends_at {
        reasons.push(("takes no more work from".to_owned(), Some(Stamp(at))));
    }
    reasons
}

/// The devices of a worker, with their holders in words.
fn devices(worker: &Worker) -> Vec<(String, String)> {
    let cores = worker.cores().into_iter();
    let cores = cores.map(|(cpus, holders)| (format!("CPUs {cpus}"), holders));
    let others = worker.devices.iter().filter(|it| it.resource != CORE);
    cores.chain(others.map(device)).collect()
}

/// A device, and its holders in words.
fn device(device: &WorkerDevice) -> (String, String) {
    let whole = DeviceAmount::whole(1);
    let holders = device.holders.iter().map(|holder| {
        let attempt = format!("{}.{}", holder.instance, holder.attempt);
        if holder.amount == whole {
            attempt
        } else {
            format!("{attempt} ({} of it)", holder.amount)
        }
    });
    let mut parts: Vec<String> = holders.collect();
    if device.free == whole {
        parts.push("free".to_owned());
    } else if !device.free.is_zero() {
        parts.push(format!("{} free", device.free));
    }
    (
        format!("{} {}", device.resource, device.id),
        parts.join(", "),
    )
}

/// Instances of each worker in the list.
const EXAMPLES_MAX: usize = 2;

impl WorkersPage {
    /// The list of workers, with some of the instances that run.
    #[must_use]
    pub fn new(frame: Frame, list: &List<Worker>, running: &[Instance]) -> Self {
        let rows = list.items.iter().map(|worker| {
            let held = running.iter().map(InstanceRow::new);
            let held = held.filter(|it| it.worker == worker.name);
            let held = held.take(EXAMPLES_MAX);
            WorkerRow {
                examples: held.map(|it| (it.id, it.href, it.name)).collect(),
                ..WorkerRow::new(worker)
            }
        });
        Self {
            frame,
            rows: rows.collect(),
        }
    }
}

/// The page of a worker.
#[derive(Template)]
#[template(path = "worker.html")]
pub struct WorkerPage {
    pub frame: Frame,
    pub worker: WorkerRow,
    /// Its agent, in words.
    pub facts: Vec<(&'static str, String)>,
    /// The instances that it holds, the latest first, and the number of the others.
    pub rows: Vec<InstanceRow>,
    pub others: u64,
    /// The instances that have ended on it, the latest first.
    pub ended: Vec<InstanceRow>,
    pub actions: Vec<Action>,
    /// Its changes since the server has started, the latest first.
    pub history: Vec<(Stamp, String)>,
}

/// A change of a worker: it joined, its state changed, it was drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// In milliseconds since 1970.
    pub at: u64,
    pub text: String,
}

impl WorkerPage {
    /// The page of a worker, with some of the instances that it holds, those that have ended on it last,
    /// and its changes.
    #[must_use]
    pub fn new(
        frame: Frame,
        worker: &Worker,
        running: &List<Instance>,
        ended: Option<List<Instance>>,
        changes: Vec<Change>,
    ) -> Self {
        let ended = ended.map(|list| list.items).unwrap_or_default();
        let mut actions = actions(&worker.links, OFFERED);
        if !frame.viewer.may_administer {
            actions.retain(|action| !action.target.ends_with("/forget"));
        }
        Self {
            frame,
            worker: WorkerRow::new(worker),
            facts: facts(worker),
            others: u64::from(worker.attempts).saturating_sub(running.items.len() as u64),
            rows: running.items.iter().map(InstanceRow::new).collect(),
            ended: ended.iter().map(InstanceRow::new).collect(),
            actions,
            history: changes
                .into_iter()
                .map(|change| (Stamp(change.at), change.text))
                .collect(),
        }
    }
}

/// What is known of the agent of a worker.
fn facts(worker: &Worker) -> Vec<(&'static str, String)> {
    let mut facts = vec![("Incarnation", worker.incarnation.to_string())];
    facts.extend(worker.executor.clone().map(|it| ("Executor", it)));
    facts.extend(worker.version.clone().map(|it| ("Version", it)));
    facts.extend(worker.dialled.clone().map(|it| ("Connected to", it)));
    let clock = worker
        .clock_offset_seconds
        .filter(|it| it.abs() >= CLOCK_NOTABLE);
    facts.extend(clock.map(|it| ("Clock", format!("{it:+.1} s off that of the scheduler"))));
    facts
}

/// Seconds by which a clock must be off to be shown.
const CLOCK_NOTABLE: f64 = 0.5;

const OFFERED: &[Offer] = &[
    ("drain", |target| {
        Action::new("Drain", target)
            .with("{\"drained\":true}")
            .ask("Drain the worker? It finishes what it has, and gets nothing new.".to_owned())
    }),
    ("undrain", |target| {
        Action::new("End the drain", target).with("{\"drained\":false}")
    }),
    ("forget", |target| {
        Action::new("Forget", target).ask(
            "Forget the worker? Do this only if it is gone for good: what it held runs elsewhere."
                .to_owned(),
        )
    }),
];
