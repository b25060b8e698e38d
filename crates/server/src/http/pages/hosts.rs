//! Pages of workers, fleets and schedulers.

use axum::http::StatusCode;
use axum::response::Response;
use baton_model::api::{
    Fleet, FleetJob, FleetPage as FleetList, Instance, List, Problem, Scheduler, Worker,
};
use baton_web::frame::Refresh;
use baton_web::pages::fleet::{WorkerPage, WorkersPage};
use baton_web::pages::fleets::{self, FleetPage, FleetsPage};
use baton_web::pages::schedulers::{Leadership, SchedulersPage, leader};

use super::api_client::ApiClient;
use super::show::{Pairs, parameter};
use super::{Pages, html};
use crate::http::views::encoded;

/// Instances on the pages of workers: those that run, and those that have ended.
const HELD: usize = 100;
const ENDED: usize = 20;

pub(super) async fn workers(pages: &Pages, api: &ApiClient) -> Result<Response, Problem> {
    let running = format!("/arena?limit={HELD}");
    let (list, running) = tokio::join!(
        api.get::<List<Worker>>("/workers"),
        api.get_part::<List<Instance>>(&running, "What runs"),
    );
    let (list, running) = (list?, running.map(|list| list.items).unwrap_or_default());
    let mut frame = pages.frame(api, "Workers", "/workers/");
    // The history does not tell of the health of workers.
    frame.refresh = Refresh::Often;
    Ok(html(
        StatusCode::OK,
        &WorkersPage::new(frame, &list, &running),
    ))
}

pub(super) async fn worker(
    pages: &Pages,
    api: &ApiClient,
    name: &str,
) -> Result<Response, Problem> {
    let worker: Worker = api.get(&format!("/workers/{name}")).await?;
    let name = encoded(&worker.name);
    let running = format!("/arena?worker={name}&limit={HELD}&sort=-submitted");
    let ended = format!("/history?worker={name}&limit={ENDED}");
    let (running, ended) = tokio::join!(
        api.get::<List<Instance>>(&running),
        api.get_part::<List<Instance>>(&ended, "What has ended here"),
    );
    let running = running?;
    let mut frame = pages.frame(api, worker.name.clone(), "/workers/");
    frame.refresh = Refresh::Often;
    let changes = pages.0.recent.worker(&worker.name);
    let page = WorkerPage::new(frame, &worker, &running, ended, changes);
    Ok(html(StatusCode::OK, &page))
}

pub(super) async fn fleets(pages: &Pages, api: &ApiClient) -> Result<Response, Problem> {
    let page: FleetList = api.get("/fleets").await?;
    let mut frame = pages.frame(api, "Fleets", "/fleets/");
    // The history does not tell of plans and reasons.
    frame.refresh = Refresh::Often;
    Ok(html(StatusCode::OK, &FleetsPage::new(frame, page)))
}

pub(super) async fn fleet(
    pages: &Pages,
    api: &ApiClient,
    name: &str,
    query: &Pairs,
) -> Result<Response, Problem> {
    let fleet: Fleet = api.get(&format!("/fleets/{name}")).await?;
    let path = format!("/fleets/{}/jobs", encoded(&fleet.name));
    let (jobs, workers) = tokio::join!(
        api.get::<List<FleetJob>>(&path),
        api.get_part("/workers", "The workers"),
    );
    let jobs = jobs?;
    let asked = Some(parameter(query, "job")).filter(|it| !it.is_empty());
    let shown = asked.or_else(|| fleets::suspect(&fleet, &jobs.items).map(str::to_owned));
    let selected = match shown {
        Some(job) => {
            let path = format!("{path}/{}/log", encoded(&job));
            let logs = api.get_part(&path, &format!("The log of {job}")).await;
            Some((job, logs))
        }
        None => None,
    };
    let mut frame = pages.frame(api, fleet.name.clone(), "/fleets/");
    frame.refresh = Refresh::Often;
    let answers = fleets::Answers {
        fleet,
        jobs,
        workers,
        selected,
    };
    Ok(html(StatusCode::OK, &FleetPage::new(frame, answers)))
}

pub(super) async fn schedulers(pages: &Pages, api: &ApiClient) -> Result<Response, Problem> {
    let list: List<Scheduler> = api.get("/schedulers").await?;
    let recent = &pages.0.recent;
    let epoch = leader(&list.items).and_then(|leader| leader.epoch);
    let leadership = Leadership {
        is_shared: pages.0.app.0.peers.is_some(),
        since: epoch.and_then(|epoch| recent.leads_since(epoch)),
        changes: recent.leadership(),
    };
    let mut frame = pages.frame(api, "Schedulers", "/schedulers/");
    // The history does not tell of terms and silence.
    frame.refresh = Refresh::Often;
    let page = SchedulersPage::new(frame, &list, leadership);
    Ok(html(StatusCode::OK, &page))
}
