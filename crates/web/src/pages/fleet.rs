//! Workers: what they have, what they hold, and how they are.

use askama::Template;
use baton_model::api::{Instance, List, Worker};

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
    /// Why it cannot launch anything; empty if it can.
    pub fault: String,
    /// Empty if it is not suspicious.
    pub suspicion: String,
    pub executor: String,
    pub attempts: u32,
    pub slots: u32,
    pub cores: Share,
    pub memory: Share,
    pub named: String,
    pub labels: String,
    pub heard: String,
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
        Self {
            name: worker.name.clone(),
            href: format!("/workers/{}", encoded(&worker.name)),
            state: worker.state.word(),
            drained: worker.drained,
            fault: worker.fault.clone().unwrap_or_default(),
            suspicion: worker
                .suspicion
                .map_or_else(String::new, |it| it.to_string()),
            executor: worker.executor.clone().unwrap_or_default(),
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
            labels: pairs(labels.collect()),
            heard: duration(worker.heard_seconds),
        }
    }
}

impl WorkersPage {
    #[must_use]
    pub fn new(frame: Frame, list: &List<Worker>) -> Self {
        Self {
            frame,
            rows: list.items.iter().map(WorkerRow::new).collect(),
        }
    }
}

/// The page of a worker.
#[derive(Template)]
#[template(path = "worker.html")]
pub struct WorkerPage {
    pub frame: Frame,
    pub worker: WorkerRow,
    pub rows: Vec<InstanceRow>,
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
    /// The page of a worker, with the part of the running instances that it holds, and its changes.
    #[must_use]
    pub fn new(
        frame: Frame,
        worker: &Worker,
        running: &List<Instance>,
        changes: Vec<Change>,
    ) -> Self {
        let mut actions = actions(&worker.links, OFFERED);
        if !frame.viewer.may_administer {
            actions.retain(|action| !action.target.ends_with("/forget"));
        }
        Self {
            frame,
            worker: WorkerRow::new(worker),
            rows: running.items.iter().map(InstanceRow::new).collect(),
            actions,
            history: changes
                .into_iter()
                .map(|change| (Stamp(change.at), change.text))
                .collect(),
        }
    }
}

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
