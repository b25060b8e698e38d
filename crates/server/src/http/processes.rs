//! Processes of attempts, read from their workers on request.

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use baton_core::scheduler::{Command, Reply};
use baton_model::api::{AttemptProcesses, Process};
use baton_model::limits::SAMPLES_PER_PROCESS_MAX;
use baton_model::message::{ProcessAnswer, ProcessQuery};

use super::app::App;
use super::extract::{self, Parameters};
use super::problem::{Answer, Fault};
use super::response::respond;
use super::views;

/// Processes of an attempt, read from its worker
///
/// Their states, and samples of their resource usage. The scheduler stores none of it: if the worker
/// is not connected, the answer is 503 with the reason.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/instances/{id}/processes",
    tag = "instances",
    operation_id = "processes",
    params(
        ("attempt" = Option<u32>, Query, description = "Attempt number; default: the last one."),
        ("samples" = Option<u32>, Query, description = "Maximum number of samples of each process; default and maximum: 120."),
    ),
    responses(
        (status = 200, description = "The processes at this moment.", body = AttemptProcesses)
    )
))]
pub(super) async fn read(
    State(app): State<App>,
    Path(id): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    let id = extract::instance(&id)?;
    let parameters = Parameters::of(&uri, &["attempt", "samples"])?;
    let number = parameters.number("attempt")?;
    let samples: Option<u32> = parameters.number("samples")?;
    let record = app.record(id).await?;
    let source = app.attempt(&record, number).await?;
    let read = Command::ReadProcesses {
        worker: source.worker.clone(),
        query: ProcessQuery {
            lease: source.lease,
            samples_max: samples.unwrap_or(SAMPLES_PER_PROCESS_MAX),
        },
    };
    let Reply::Processes(answer) = app.command(None, read).await? else {
        return Err(Fault::wrong_reply());
    };
    let (worker, attempt) = (&source.worker, source.lease.attempt);
    let found = match answer {
        ProcessAnswer::Processes(found) => found,
        ProcessAnswer::NotFound if source.is_over => {
            return Err(Fault::not_found(format!(
                "worker {worker} has no processes of attempt {attempt} any more: it has ended"
            )));
        }
        ProcessAnswer::NotFound => {
            return Err(Fault::not_found(format!(
                "worker {worker} has not started attempt {attempt} yet"
            )));
        }
        ProcessAnswer::Unavailable(reason) => {
            return Err(Fault::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "worker-unavailable",
                format!("the processes run on worker {worker}, which is unavailable: {reason}"),
            ));
        }
    };
    let path = views::path(id, id);
    let processes = AttemptProcesses {
        id: id.to_string(),
        attempt: attempt.number.0,
        worker: worker.to_string(),
        state: found.state,
        processes: found.processes.into_iter().map(Process::from).collect(),
        omitted: found.omitted,
        links: views::links([("self", format!("{path}/processes")), ("instance", path)]),
    };
    Ok(respond(StatusCode::OK, &processes))
}
