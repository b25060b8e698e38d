//! Cluster-wide limits of resources.

use axum::extract::{Extension, Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use baton_core::scheduler::{Command, LimitError, LimitView, Reply};
use baton_files::{is_resource_name, units};
use baton_model::api::{FieldProblem, Limit, LimitOrigin, LimitRemoval, List, SetLimit};
use baton_model::limits::LIMIT_CAPACITY_MAX;
use baton_model::rate::LimitValue;

use super::app::App;
use super::conditional::tagged;
#[cfg(feature = "openapi")]
use super::openapi::answers::Unchanged;
use super::problem::{Answer, Fault};
use super::response::respond;
use super::{extract, views};
use crate::access::Caller;
use crate::clock;

/// All cluster-wide limits
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/limits/",
    tag = "limits",
    operation_id = "limits",
    responses(
        (status = 200, description = "All on one page, by name.", body = List<Limit>),
        Unchanged
    )
))]
pub(super) async fn list(State(app): State<App>) -> Answer<Response> {
    let limits = app.limits().await?;
    Ok(tagged(&List {
        total: Some(limits.len() as u64),
        items: limits,
        links: views::links([("self", "/limits/".to_owned())]),
    }))
}

/// A cluster-wide limit
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/limits/{name}",
    tag = "limits",
    operation_id = "limit",
    responses(
        (status = 200, description = "The limit and its use.", body = Limit),
        Unchanged
    )
))]
pub(super) async fn show(State(app): State<App>, Path(name): Path<String>) -> Answer<Response> {
    Ok(tagged(&app.limit(&name).await?))
}

/// Set a cluster-wide limit
///
/// A capacity, which counts what is in use, or a rate, which counts starts per time. It takes the place of the
/// scheduler's `--limit` until it is removed. A capacity below what is in use kills nothing: no further
/// instance that requests it starts.
#[cfg_attr(feature = "openapi", utoipa::path(
    put,
    path = "/limits/{name}",
    tag = "limits",
    operation_id = "set-limit",
    request_body = SetLimit,
    responses(
        (status = 200, description = "Set and durable.", body = Limit),
        (status = 422, description = "The name, the capacity or the rate is invalid.")
    )
))]
pub(super) async fn set(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    request: Request,
) -> Answer<Response> {
    let value = value(&extract::body(request).await?)?;
    if !is_resource_name(&name) {
        return Err(unusable(
            "name",
            "it is not the name of a custom resource".to_owned(),
            "use a name such as licences or db/orders; cpu, memory, disk and gpu are those of workers",
        ));
    }
    change(&app, &caller, &name, Some(value)).await?;
    Ok(respond(StatusCode::OK, &app.limit(&name).await?))
}

/// Remove a cluster-wide limit that was set
///
/// The scheduler's `--limit` of that name is in force again, if there is one.
#[cfg_attr(feature = "openapi", utoipa::path(
    delete,
    path = "/limits/{name}",
    tag = "limits",
    operation_id = "remove-limit",
    responses(
        (status = 200, description = "Removed and durable.", body = LimitRemoval),
        (status = 409, description = "It was not set at run time: only `--limit` of the scheduler has it.")
    )
))]
pub(super) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Answer<Response> {
    change(&app, &caller, &name, None).await?;
    let limits = app.limits().await?.into_iter();
    let default = { limits }.find(|it| it.name == name);
    let removal = LimitRemoval {
        capacity: default.as_ref().map(|it| it.capacity),
        rate: default.and_then(|it| it.rate),
        name,
        links: views::links([("limits", "/limits/".to_owned())]),
    };
    Ok(respond(StatusCode::OK, &removal))
}

/// The value of a request.
fn value(set: &SetLimit) -> Answer<LimitValue> {
    let capped = |field: &str, amount: u64| {
        if amount > LIMIT_CAPACITY_MAX {
            let message = format!("it is more than {LIMIT_CAPACITY_MAX}");
            return Err(unusable(field, message, "choose a smaller one"));
        }
        Ok(amount)
    };
    let (capacity, burst) = (set.capacity, set.burst);
    match (capacity, &set.rate) {
        (Some(_), Some(_)) => Err(unusable(
            "rate",
            "capacity and rate exclude each other".to_owned(),
            "send one of them",
        )),
        (None, None) => Err(unusable(
            "capacity",
            "there is neither capacity nor rate".to_owned(),
            "send one of them, such as 4 or 10/s",
        )),
        (Some(_), None) if burst.is_some() => Err(unusable(
            "burst",
            "a burst belongs to a rate, and this is a capacity".to_owned(),
            "leave it out, or send rate instead of capacity",
        )),
        (Some(capacity), None) => Ok(capped("capacity", capacity)?.into()),
        (None, Some(text)) => {
            let rate = units::rate(text);
            let rate = rate.map_err(|error| unusable("rate", error.message, &error.hint))?;
            if burst == Some(0) {
                let message = "with a burst of 0 nothing starts".to_owned();
                return Err(unusable("burst", message, "write at least 1"));
            }
            let burst = burst.map(|it| capped("burst", it)).transpose()?;
            Ok(LimitValue::of_rate(rate, burst))
        }
    }
}

async fn change(app: &App, caller: &Caller, name: &str, value: Option<LimitValue>) -> Answer<()> {
    let name = name.to_owned();
    let set = Command::SetLimit { name, value };
    let Reply::LimitSet(done) = app.command(caller.principal(), set).await? else {
        return Err(Fault::wrong_reply());
    };
    done.map_err(|error| match error {
        LimitError::TooMany => unusable(
            "name",
            error.to_string(),
            "remove one with `baton limits rm NAME`",
        ),
        LimitError::NotSet(name, None) => no_limit(&name),
        LimitError::NotSet(name, Some(default)) => Fault::new(
            StatusCode::CONFLICT,
            "limit-of-flag",
            format!(
                "the limit {name} is {default} by --limit of the scheduler; `baton limits set \
                 {name} N` overrides it"
            ),
        ),
    })
}

fn unusable(field: &str, message: String, hint: &str) -> Fault {
    let at = FieldProblem {
        field: field.to_owned(),
        message: message.clone(),
        hint: hint.to_owned(),
    };
    Fault::unusable(format!("`{field}`: {message}"), vec![at])
}

fn no_limit(name: &str) -> Fault {
    Fault::not_found(format!(
        "there is no limit {name:?}; `baton limits` lists them"
    ))
}

fn view(limit: LimitView) -> Limit {
    let path = format!("/limits/{}", limit.name.replace('/', "%2F"));
    Limit {
        name: limit.name,
        capacity: limit.value.total,
        rate: limit.value.rate.map(|it| it.to_string()),
        next_start_seconds: limit.next_in.map(|it| it.0 as f64 / 1_000.0),
        used: u64::try_from(limit.used).unwrap_or(u64::MAX),
        waiting: limit.waiting,
        origin: if limit.is_set {
            LimitOrigin::RunTime
        } else {
            LimitOrigin::Flag
        },
        default: limit.default.map(|it| it.total),
        default_rate: { limit.default }
            .and_then(|it| it.rate)
            .map(|it| it.to_string()),
        links: views::links([("self", path)]),
    }
}

impl App {
    async fn limits(&self) -> Answer<Vec<Limit>> {
        self.query(|leader| leader.limits(clock::now()).map(view).collect())
            .await
    }

    async fn limit(&self, name: &str) -> Answer<Limit> {
        let limits = self.limits().await?.into_iter();
        { limits }
            .find(|it| it.name == name)
            .ok_or_else(|| no_limit(name))
    }
}
