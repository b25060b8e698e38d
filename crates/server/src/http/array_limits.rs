//! Concurrency limits of arrays, changed while they run.

use axum::extract::{Extension, Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use baton_core::limits::LimitKey;
use baton_core::scheduler::{Command, Reply};
use baton_model::api::{ArrayLimit, FieldProblem, SetArrayLimit};
use baton_model::ids::{InstanceId, InstanceRange};

use super::app::App;
use super::extract::{self, Ids, Target};
#[cfg(feature = "openapi")]
use super::openapi::answers::OfInstances;
use super::problem::{Answer, Fault};
use super::response::respond;
use super::views;
use crate::access::Caller;

/// Change how many elements of an array run at once
///
/// The limit of the whole array, of which the id names an element or a range. A limit below what is in flight
/// kills nothing: no further element starts until fewer are.
#[cfg_attr(feature = "openapi", utoipa::path(
    put,
    path = "/instances/{id}/limit",
    tag = "instances",
    operation_id = "limit-array",
    params(OfInstances),
    request_body = SetArrayLimit,
    responses(
        (status = 200, description = "Changed and durable, or unchanged.", body = ArrayLimit),
        (status = 422, description = "The limit is invalid, or the instances are not of one array.")
    )
))]
pub(super) async fn set(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    request: Request,
) -> Answer<Response> {
    let SetArrayLimit { max_concurrent } = extract::body(request).await?;
    if max_concurrent == Some(0) {
        return Err(refused(
            "maxConcurrent",
            "maxConcurrent is 0".to_owned(),
            "write at least 1, or null for no limit; `baton cancel` ends what waits",
        ));
    }
    let (first, last) = array(&app, Target::parse(&id)?).await?;
    let command = Command::LimitArray {
        first,
        last,
        total: max_concurrent,
    };
    let Reply::LimitSet(done) = app.command(caller.principal(), command).await? else {
        return Err(Fault::wrong_reply());
    };
    done.map_err(|error| {
        let hint = "wait until other arrays have ended";
        refused("maxConcurrent", error.to_string(), hint)
    })?;
    let used = move |leader: &baton_core::scheduler::Scheduler| {
        let limit = leader.limit(&LimitKey::Array(first));
        limit.map_or(0, |it| it.used)
    };
    let used = app.query(used).await?;
    let limit = ArrayLimit {
        first: first.to_string(),
        last: last.to_string(),
        max_concurrent,
        in_flight: u64::try_from(used).unwrap_or(u64::MAX),
        links: views::links([("array", views::path(first, last))]),
    };
    Ok(respond(StatusCode::OK, &limit))
}

/// The first and the last instance of the array that a target is of.
async fn array(app: &App, target: Target) -> Answer<Ids> {
    let ranges = match target {
        Target::One(id) => vec![(id, id)],
        Target::Many(ranges) => ranges,
    };
    let mut found: Option<Ids> = None;
    for (from, to) in ranges {
        let spec = app.record(from).await?.instance.spec;
        let array = spec.conditions.instances.filter(|_| spec.array.is_some());
        let Some(array) = array else {
            return Err(no_array(from, to));
        };
        if to > array.1 || found.is_some_and(|found| found != array) {
            let (array, range) = (InstanceRange(array.0, array.1), InstanceRange(from, to));
            let message = format!("{range} are not of one array; the array of {from} is {array}");
            let hint = "change one array at a time";
            return Err(refused("id", message, hint));
        }
        found = Some(array);
    }
    found.ok_or_else(|| Fault::bad_request("the path names no instance"))
}

fn no_array(from: InstanceId, to: InstanceId) -> Fault {
    let message = if from == to {
        format!("{from} is no element of an array")
    } else {
        format!("{} are no array", InstanceRange(from, to))
    };
    let hint = "only the elements of an array have a common limit; `baton limits set` limits a resource \
                that any tasks request";
    refused("id", message, hint)
}

fn refused(field: &str, message: String, hint: &str) -> Fault {
    let at = FieldProblem {
        field: field.to_owned(),
        message: message.clone(),
        hint: hint.to_owned(),
    };
    Fault::unusable(message, vec![at])
}
