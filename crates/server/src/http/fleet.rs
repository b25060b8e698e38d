//! Workers.

use axum::extract::{Extension, Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use baton_core::protocol::scheduler::seat::Seat;
use baton_core::scheduler::{Command, Reply, Scheduler};
use baton_model::api::{
    AcceptReply, DeviceHolder, DrainRequest, Instance, Links, List, Progress, Worker, WorkerDevice,
};
use baton_model::device::{DeviceAmount, DeviceShare, WHOLE};
use baton_model::ids::{LeaseId, WorkerName};
use baton_model::message::BUILD_SIGN;
use baton_model::state::WorkerState;
use baton_store::view::Record;

use super::app::App;
use super::conditional::tagged_by;
#[cfg(feature = "openapi")]
use super::openapi::answers::Unchanged;
use super::problem::{Answer, Fault};
use super::response::respond;
use super::{extract, views};
use crate::access::Caller;
use crate::clock;

/// All known workers
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/workers/",
    tag = "workers",
    operation_id = "workers",
    responses(
        (status = 200, description = "All on one page.", body = List<Worker>),
        Unchanged
    )
))]
pub(super) async fn list(State(app): State<App>) -> Answer<Response> {
    let workers = app.workers().await?;
    let list = List {
        total: Some(workers.len() as u64),
        items: workers,
        links: views::links([("self", "/workers/".to_owned())]),
    };
    let matters: Vec<Worker> = list.items.iter().map(lasting).collect();
    Ok(tagged_by(&list, &matters))
}

/// A worker
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/workers/{name}",
    tag = "workers",
    operation_id = "worker",
    responses(
        (status = 200, description = "The worker, as the scheduler knows it.", body = Worker),
        Unchanged
    )
))]
pub(super) async fn show(State(app): State<App>, Path(name): Path<String>) -> Answer<Response> {
    let worker = app.worker(&name).await?;
    Ok(tagged_by(&worker, &lasting(&worker)))
}

/// Drain or undrain a worker
#[cfg_attr(feature = "openapi", utoipa::path(
    put,
    path = "/workers/{name}/drained",
    tag = "workers",
    operation_id = "drain",
    request_body = DrainRequest,
    responses(
        (status = 200, description = "Changed and durable.", body = Worker)
    )
))]
pub(super) async fn drain(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    request: Request,
) -> Answer<Response> {
    let DrainRequest { drained } = extract::body(request).await?;
    app.worker(&name).await?;
    let worker = WorkerName::new(&name);
    let drain = Command::Drain { worker, drained };
    app.command(caller.principal(), drain).await?;
    let worker = app.worker(&name).await?;
    Ok(respond(StatusCode::OK, &worker))
}

/// Declare a worker gone: the operator vouches that none of its processes runs
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/workers/{name}/forget",
    tag = "workers",
    operation_id = "forget",
    responses(
        (status = 202, description = "What it held is retried on other workers.", body = AcceptReply)
    )
))]
pub(super) async fn forget(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Answer<Response> {
    let forget = Command::Forget {
        worker: WorkerName::new(&name),
        lineage: None,
    };
    let Reply::Forgotten(known) = app.command(caller.principal(), forget).await? else {
        return Err(Fault::wrong_reply());
    };
    if !known {
        return Err(no_worker(&name));
    }
    let accepted = AcceptReply {
        links: views::links([("workers", "/workers/".to_owned())]),
    };
    Ok(respond(StatusCode::ACCEPTED, &accepted))
}

/// A worker without the fields that change with every heartbeat.
fn lasting(worker: &Worker) -> Worker {
    Worker {
        heard_seconds: 0.0,
        lost_at: None,
        ..worker.clone()
    }
}

fn no_worker(name: &str) -> Fault {
    let name: String = name.chars().take(100).collect();
    Fault::not_found(format!(
        "there is no worker {name:?}; `baton workers` lists them"
    ))
}

impl App {
    /// All known workers.
    pub(super) async fn workers(&self) -> Answer<Vec<Worker>> {
        let workers = self.query(|leader| {
            let seats = leader.seats().iter();
            seats.map(|(name, seat)| view(leader, name, seat)).collect()
        });
        workers.await
    }

    /// The devices that an attempt holds, as its worker has reported them.
    pub(super) async fn devices_of(&self, lease: LeaseId) -> Answer<Vec<DeviceShare>> {
        let devices = self.query(move |leader| {
            let mut seats = leader.seats().values();
            seats.find_map(|seat| seat.devices.get(&lease).cloned())
        });
        Ok(devices.await?.unwrap_or_default())
    }

    /// Adds to instances how far their running attempts have come, as the attempts have last said.
    pub(super) async fn add_progress(
        &self,
        instances: &mut [Instance],
        records: &[Record],
    ) -> Answer<()> {
        let leases = records.iter().zip(0..);
        let leases: Vec<(LeaseId, usize)> = leases
            .filter_map(|(record, at)| Some((record.instance.lease.as_ref()?.id, at)))
            .collect();
        if leases.is_empty() {
            return Ok(());
        }
        let told = self.query(move |leader| {
            let told = leases.into_iter().filter_map(|(lease, at)| {
                let progress = leader.progress(lease)?;
                Some((at, Progress::from(progress)))
            });
            told.collect::<Vec<_>>()
        });
        for (at, progress) in told.await? {
            instances[at].progress = Some(progress);
        }
        Ok(())
    }

    async fn worker(&self, name: &str) -> Answer<Worker> {
        let wanted = WorkerName::new(name);
        let found = self.query(move |leader| {
            let seat = leader.seats().get(&wanted)?;
            Some(view(leader, &wanted, seat))
        });
        found.await?.ok_or_else(|| no_worker(name))
    }
}

/// The devices of a worker, with their holders.
fn devices(seat: &Seat) -> Vec<WorkerDevice> {
    let lists = seat.offer.devices.iter();
    let devices = lists.flat_map(|(resource, ids)| ids.iter().map(move |id| (resource, id)));
    let held: Vec<_> = seat
        .devices
        .iter()
        .flat_map(|(lease, shares)| shares.iter().map(move |share| (lease.attempt, share)))
        .collect();
    devices
        .map(|(resource, id)| {
            let own = |share: &DeviceShare| share.resource == *resource && share.id == *id;
            let holders = held.iter().filter(|(_, share)| own(share));
            let used: u64 = holders.clone().map(|(_, share)| share.milli).sum();
            WorkerDevice {
                resource: resource.clone(),
                id: id.clone(),
                free: DeviceAmount::from_milli(WHOLE.saturating_sub(used)),
                holders: holders
                    .map(|(attempt, share)| DeviceHolder {
                        instance: attempt.instance.to_string(),
                        attempt: attempt.number.0,
                        amount: DeviceAmount::from_milli(share.milli),
                    })
                    .collect(),
            }
        })
        .collect()
}

fn view(leader: &Scheduler, name: &WorkerName, seat: &Seat) -> Worker {
    let offer = &seat.offer;
    let (version, build) = match seat.version.as_deref() {
        Some(text) => match text.split_once(BUILD_SIGN) {
            Some((version, build)) => (Some(version), Some(build)),
            None => (Some(text), None),
        },
        None => (None, None),
    };
    let worker = Worker {
        name: name.to_string(),
        state: seat.state,
        drained: leader.ledger().drained().contains(name),
        fault: seat.fault.as_deref().map(str::to_owned),
        suspicion: leader.suspicion(name),
        lineage: seat.holder.incarnation.lineage.to_string(),
        incarnation: seat.holder.incarnation.number.0,
        executor: seat.executor.as_ref().map(ToString::to_string),
        attempts: seat.load(),
        slots: seat.slots,
        capacity: offer.capacity.clone(),
        used: leader.used_by(name).unwrap_or_default(),
        measured: seat.measured,
        devices: devices(seat),
        labels: offer.labels.clone(),
        leaving: seat.leaving,
        ends_at: seat.time_left(clock::now().mono).map(|left| {
            let now = clock::now();
            now.wall.0.saturating_add(left.0)
        }),
        version: version.map(str::to_owned),
        build: build.map(str::to_owned),
        dialled: seat.dialled.as_deref().map(str::to_owned),
        clock_offset_seconds: seat
            .clock
            .and_then(|clock| clock.offset_ms())
            .map(|offset| offset as f64 / 1_000.0),
        heard_seconds: clock::now().mono.since(seat.heard()).0 as f64 / 1_000.0,
        lost_at: leader
            .first_loss(name)
            .filter(|_| seat.state != WorkerState::Healthy)
            .map(|at| {
                let now = clock::now();
                now.wall.0.saturating_add(at.since(now.mono).0)
            }),
        links: Links::new(),
    };
    views::worker(worker)
}
