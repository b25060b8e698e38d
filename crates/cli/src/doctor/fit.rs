//! Check of the library: entries whose request fits no worker that is connected, and no fleet.

use baton_client::{Client, ClientError};
use baton_core::placement::Inventory;
use baton_files::{AnyFile, Binding, any_from_json};
use baton_model::api::{Fleet, LibraryPage, Limit, Task, Worker};
use baton_model::device::DeviceLists;
use baton_model::ids::WorkerName;
use baton_model::library::TaskName;
use baton_model::placement::{Offer, WORKER_LABEL};
use baton_model::spec::InstanceSpec;
use serde_json::{Value, json};

use super::Finding;
use crate::check::fill_in;
use crate::time::now;

const CHECK: &str = "library";

/// Entries that are examined: each takes a request.
const ENTRIES_MAX: usize = 1_000;

/// Names the entries that nothing could run.
pub(super) async fn examine(
    client: &Client,
    library: &LibraryPage<Value>,
    workers: &[Worker],
    fleets: &[Fleet],
) -> Vec<Finding> {
    let limits = match client.limits().await {
        Ok(limits) => limits,
        Err(error) => return vec![super::cluster::unread(CHECK, &error)],
    };
    let mut inventory = inventory(workers, &limits, fleets);
    let mut findings = Vec::new();
    let mut fitting = 0_usize;
    for entry in library.items.iter().take(ENTRIES_MAX) {
        let name = TaskName {
            owner: entry.owner.clone(),
            name: entry.name.clone(),
        };
        match client.task(&name, None).await {
            Ok(Some(entry)) => match misfit(&mut inventory, &entry) {
                Some(reason) => {
                    let message = format!("{name} can run nowhere: {reason}");
                    let remedy = format!(
                        "`baton library show {name}` has its definition; a fleet can have such workers"
                    );
                    findings.push(Finding::warning(CHECK, message, &remedy));
                }
                None => fitting += 1,
            },
            // Removed meanwhile, or not for this user.
            Ok(None) | Err(ClientError::Problem(_)) => {}
            Err(error) => return vec![super::cluster::unread(CHECK, &error)],
        }
    }
    if fitting > 0 {
        let message = format!(
            "{fitting} of {} entries fit a worker or a fleet",
            library.items.len()
        );
        findings.insert(0, Finding::good(CHECK, message));
    }
    findings
}

fn inventory(workers: &[Worker], limits: &[Limit], fleets: &[Fleet]) -> Inventory {
    let mut inventory = Inventory::default();
    for worker in workers {
        // More than the scheduler takes are not examined.
        let _ = inventory.add_worker(&WorkerName::new(&worker.name), offer(worker));
    }
    for limit in limits {
        let _ = inventory.add_limit(&limit.name, limit.capacity);
    }
    for fleet in fleets.iter().filter(|fleet| fleet.removed.is_none()) {
        if let Ok(name) = fleet.name.parse()
            && let Ok(spec) = baton_files::fleet_from_json(&fleet.definition, &fleet.name)
        {
            inventory.add_fleet(name, spec);
        }
    }
    inventory
}

/// What a worker could take if it had nothing to do and were not drained.
fn offer(worker: &Worker) -> Offer {
    let mut labels = worker.labels.clone();
    labels.insert(WORKER_LABEL.to_owned(), worker.name.clone());
    let mut devices = DeviceLists::new();
    for device in &worker.devices {
        let list = devices.entry(device.resource.clone()).or_default();
        list.push(device.id.clone());
    }
    Offer {
        capacity: worker.capacity.clone(),
        labels,
        devices,
        open: true,
        ..Offer::default()
    }
}

/// Why an entry can run nowhere. One whose parameters cannot be guessed is not judged.
fn misfit(inventory: &mut Inventory, entry: &Task<Value>) -> Option<String> {
    let definition = entry.definition.as_ref()?;
    match any_from_json(definition, &entry.name).ok()? {
        AnyFile::Task(file) => {
            let ports = file.ports().into_iter().map(|name| (name.to_owned(), 1));
            let binding = Binding {
                params: fill_in(&file.params, &Default::default()).0,
                ports: ports.collect(),
                task_id: Some("TASK-ID".to_owned()),
                nominal_time: Some(now()),
                item: Some(json!("ITEM")),
            };
            let spec = file.instance(&binding).ok()?;
            reason(inventory, &spec)
        }
        AnyFile::Workflow(file) => {
            let params = fill_in(&file.params, &Default::default()).0;
            let plan = file.plan(&params, now()).ok()?;
            plan.tasks.iter().find_map(|task| {
                let reason = reason(inventory, &task.spec)?;
                Some(format!("its task {}: {reason}", task.name))
            })
        }
    }
}

fn reason(inventory: &mut Inventory, spec: &InstanceSpec) -> Option<String> {
    inventory.misfit(spec).map(|wait| wait.text())
}
