//! Backfills of tasks and workflows.

use std::sync::Arc;

use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use baton_core::scheduler::{BackfillCommand, BackfillError, Command, KnownLaunches, Reply};
use baton_model::api::{
    Backfill, BackfillLaunch, BackfillReply, BackfillRequest, FieldProblem, Links, List,
};
use baton_model::backfill::BackfillState;
use baton_model::ids::{BackfillId, Revision, TaskNo};
use baton_model::library::{Execution, TaskName};
use baton_model::principal::Principal;
use baton_model::time::Wall;
use baton_store::limits::PAGE_ITEMS_MAX;
use baton_store::view::{BackfillQuery, BackfillRecord, LaunchRecord};

use super::app::App;
use super::conditional::tagged;
use super::extract::{self, Parameters};
use super::lists::page_links;
#[cfg(feature = "openapi")]
use super::openapi::answers::Unchanged;
use super::problem::{Answer, Fault};
use super::response::respond;
use super::{library, runs, views};
use crate::access::Caller;
use crate::limits::PAGE_ITEMS_DEFAULT;

/// How often a command is repeated if something was launched since the launches were read.
const READS_MAX: u32 = 10;

/// Launch each due time of a past interval that has no launch
///
/// A due time that its schedule or an earlier backfill has launched is not launched again; one that
/// was skipped or missed is. The due times are those of the current schedule. The backfill continues by
/// itself, also while the entry is paused; one backfill of an entry runs at a time.
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/{owner}/tasks/{name}/backfills/",
    tag = "backfills",
    operation_id = "backfill",
    request_body = BackfillRequest,
    params(
        ("dryRun" = Option<bool>, Query, description = "Only report the due times, change nothing."),
    ),
    responses(
        (status = 201, description = "Accepted and durable.", body = BackfillReply, headers(("location" = String, description = "The URL of the backfill."))),
        (status = 200, description = "A dry run; or every due time has a launch already.", body = BackfillReply),
        (status = 409, description = "A backfill of the entry is running, or too many are open."),
        (status = 422, description = "The interval or the entry cannot be backfilled; `errors` says why.")
    )
))]
pub(super) async fn register(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((owner, name)): Path<(String, String)>,
    uri: Uri,
    request: Request,
) -> Answer<Response> {
    let parameters = Parameters::of(&uri, &["dryRun"])?;
    let dry = parameters.parsed("dryRun", "true or false")?;
    let dry = dry.unwrap_or(false);
    let wanted: BackfillRequest = extract::body(request).await?;
    let name = TaskName { owner, name };
    // A removed entry is refused by the leader.
    let task = app.task(&name, Some(Revision(1))).await?.number;
    let (from, to) = (Wall(wanted.from), Wall(wanted.to));
    let register = |known| {
        let command = BackfillCommand::Register {
            name: name.clone(),
            from,
            to,
            reverse: wanted.reverse,
            max_concurrent: wanted.max_concurrent.unwrap_or(1),
            known,
            dry,
        };
        Command::Backfill(Box::new(command))
    };
    let by = caller.principal();
    let reply = app.backfill(by, task, (from, to), &name, register).await?;
    let mut links = views::links([("task", library::path(&name))]);
    if let Some(id) = reply.backfill {
        links.insert("backfill".to_owned(), path(id));
    }
    let body = BackfillReply {
        id: reply.backfill.map(|id| id.to_string()),
        due: reply.due,
        at: reply.times.iter().map(|at| at.0).collect(),
        dry_run: dry,
        links,
    };
    let Some(id) = reply.backfill else {
        return Ok(respond(StatusCode::OK, &body));
    };
    let mut response = respond(StatusCode::CREATED, &body);
    if let Ok(location) = HeaderValue::from_str(&path(id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Backfills, newest first
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/backfills/",
    tag = "backfills",
    operation_id = "backfills",
    params(
        ("owner" = Option<String>, Query, description = "Only of entries of this owner."),
        ("name" = Option<String>, Query, description = "Only of entries of this name."),
        ("cursor" = Option<u64>, Query, description = "Only backfills before this one; from the link `next`."),
        ("limit" = Option<u64>, Query, description = "Maximum number of entries."),
    ),
    responses(
        (status = 200, description = "A page.", body = List<Backfill>),
        Unchanged
    )
))]
pub(super) async fn list(State(app): State<App>, uri: Uri) -> Answer<Response> {
    let parameters = Parameters::of(&uri, &["owner", "name", "cursor", "limit"])?;
    let query = BackfillQuery {
        owner: parameters.text("owner").map(str::to_owned),
        name: parameters.text("name").map(str::to_owned),
        before: parameters.number("cursor")?.map(BackfillId),
        limit: parameters.number("limit")?.unwrap_or(PAGE_ITEMS_DEFAULT),
    };
    let page = app.read(move |store| store.backfills(&query)).await?;
    let next = page.next.map(|id| id.0.to_string());
    let list = List {
        items: page.items.iter().map(view).collect(),
        total: None,
        links: page_links("/backfills/", &parameters, next),
    };
    Ok(tagged(&list))
}

/// A backfill
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/backfills/{backfill}",
    tag = "backfills",
    operation_id = "show-backfill",
    responses(
        (status = 200, description = "How far it has come.", body = Backfill),
        Unchanged
    )
))]
pub(super) async fn show(State(app): State<App>, Path(id): Path<String>) -> Answer<Response> {
    let id = extract::backfill(&id)?;
    Ok(tagged(&app.backfill_view(id).await?))
}

/// The launches of a backfill, by due time
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/backfills/{backfill}/launches/",
    tag = "backfills",
    operation_id = "backfill-launches",
    params(
        ("cursor" = Option<u64>, Query, description = "Only due times after this one; from the link `next`."),
        ("limit" = Option<u64>, Query, description = "Maximum number of entries."),
    ),
    responses(
        (status = 200, description = "A page.", body = List<BackfillLaunch>),
        Unchanged
    )
))]
pub(super) async fn launches(
    State(app): State<App>,
    Path(id): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    let id = extract::backfill(&id)?;
    let parameters = Parameters::of(&uri, &["cursor", "limit"])?;
    let after = parameters.number("cursor")?.map(Wall);
    let limit = parameters.number("limit")?.unwrap_or(PAGE_ITEMS_DEFAULT);
    app.backfill_record(id).await?;
    let page = app
        .read(move |store| store.backfill_launches(id, after, limit))
        .await?;
    let next = page.next.map(|at| at.0.to_string());
    let list = List {
        items: page.items.iter().map(launch_view).collect(),
        total: None,
        links: page_links(&format!("{}/launches/", path(id)), &parameters, next),
    };
    Ok(tagged(&list))
}

/// Halt a backfill: it launches nothing more; what it has launched continues
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/backfills/{backfill}/halt",
    tag = "backfills",
    operation_id = "halt-backfill",
    responses(
        (status = 200, description = "Halted and durable.", body = Backfill),
        (status = 409, description = "It is not running.")
    )
))]
pub(super) async fn halt(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Answer<Response> {
    let id = extract::backfill(&id)?;
    let command = Command::Backfill(Box::new(BackfillCommand::Halt(id)));
    app.stop_backfill(id, caller.principal(), command).await
}

/// Cancel a backfill: it launches nothing more, and cannot be resumed; what it has launched continues
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/backfills/{backfill}/cancel",
    tag = "backfills",
    operation_id = "cancel-backfill",
    responses(
        (status = 200, description = "Cancelled and durable.", body = Backfill),
        (status = 409, description = "It has ended.")
    )
))]
pub(super) async fn cancel(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Answer<Response> {
    let id = extract::backfill(&id)?;
    let command = Command::Backfill(Box::new(BackfillCommand::Cancel(id)));
    app.stop_backfill(id, caller.principal(), command).await
}

/// Resume a halted backfill with the due times that it has not passed
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/backfills/{backfill}/resume",
    tag = "backfills",
    operation_id = "resume-backfill",
    responses(
        (status = 200, description = "Resumed and durable.", body = Backfill),
        (status = 409, description = "It is not halted, or another backfill of the entry is running."),
        (status = 422, description = "The entry cannot be backfilled any more; `errors` says why.")
    )
))]
pub(super) async fn resume(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Answer<Response> {
    let id = extract::backfill(&id)?;
    let record = app.backfill_record(id).await?;
    let range = &record.head.range;
    let (from, to) = (range.from, range.to);
    let resume = |known| {
        let command = BackfillCommand::Resume {
            backfill: id,
            known,
        };
        Command::Backfill(Box::new(command))
    };
    let (by, task) = (caller.principal(), record.head.task);
    app.backfill(by, task, (from, to), &record.name, resume)
        .await?;
    Ok(respond(StatusCode::OK, &app.backfill_view(id).await?))
}

pub(super) fn path(id: BackfillId) -> String {
    format!("/backfills/{id}")
}

impl App {
    /// The stored record of a backfill.
    pub(super) async fn backfill_record(&self, id: BackfillId) -> Answer<BackfillRecord> {
        let found = self.read(move |store| store.backfill(id)).await?;
        found.ok_or_else(|| Fault::unknown_backfill(id))
    }

    async fn stop_backfill(
        &self,
        id: BackfillId,
        by: Option<Arc<Principal>>,
        command: Command,
    ) -> Answer<Response> {
        let record = self.backfill_record(id).await?;
        let Reply::Backfill(reply) = self.command(by, command).await? else {
            return Err(Fault::wrong_reply());
        };
        reply.map_err(|error| fault(&error, &record.name))?;
        Ok(respond(StatusCode::OK, &self.backfill_view(id).await?))
    }

    async fn backfill_view(&self, id: BackfillId) -> Answer<Backfill> {
        let record = self.backfill_record(id).await?;
        let states = self.read(move |store| store.backfill_tally(id)).await?;
        let states = states.into_iter();
        Ok(Backfill {
            states: states
                .map(|(state, count)| (state.word().to_owned(), count))
                .collect(),
            ..view(&record)
        })
    }

    /// Sends a command with the launches that the store knows, and again if they were not all.
    async fn backfill(
        &self,
        by: Option<Arc<Principal>>,
        task: TaskNo,
        (from, to): (Wall, Wall),
        name: &TaskName,
        command: impl Fn(KnownLaunches) -> Command,
    ) -> Answer<baton_core::scheduler::BackfillReply> {
        let mut tried = 0;
        loop {
            tried += 1;
            let known = self
                .read(move |store| store.known_launches(task, from, to))
                .await?;
            let Reply::Backfill(reply) = self.command(by.clone(), command(known)).await? else {
                return Err(Fault::wrong_reply());
            };
            match reply {
                // The reply says that everything that the leader has launched is stored.
                Err(BackfillError::Stale) if tried < READS_MAX => {}
                reply => return reply.map_err(|error| fault(&error, name)),
            }
        }
    }
}

impl App {
    /// The backfill that has launched this instance or run for its due time; none if its schedule
    /// has.
    pub(super) async fn backfill_of(
        &self,
        (task, name): (TaskNo, TaskName),
        nominal: Wall,
        execution: Execution,
    ) -> Answer<Option<BackfillId>> {
        self.read(move |store| {
            let mut query = BackfillQuery {
                owner: Some(name.owner),
                name: Some(name.name),
                before: None,
                limit: PAGE_ITEMS_MAX,
            };
            let before = nominal.0.checked_sub(1).map(Wall);
            loop {
                let page = store.backfills(&query)?;
                for BackfillRecord { head, .. } in page.items {
                    let covered = head.range.from <= nominal && nominal < head.range.to;
                    if head.task != task || !covered {
                        continue;
                    }
                    let launches = store.backfill_launches(head.id, before, 1)?.items;
                    let launched = launches.first().filter(|it| it.nominal == nominal);
                    if launched.is_some_and(|it| it.execution == Some(execution)) {
                        return Ok(Some(head.id));
                    }
                }
                if page.next.is_none() {
                    return Ok(None);
                }
                query.before = page.next;
            }
        })
        .await
    }
}

fn view(record: &BackfillRecord) -> Backfill {
    let BackfillRecord { head, name } = record;
    let path = path(head.id);
    let mut links = Links::from([
        ("self".to_owned(), path.clone()),
        ("task".to_owned(), library::path(name)),
        ("launches".to_owned(), format!("{path}/launches/")),
    ]);
    let (halted, operations) = match head.state {
        BackfillState::Running => (None, &["halt", "cancel"][..]),
        BackfillState::Halted(cause) => (Some(cause), &["resume", "cancel"][..]),
        BackfillState::Done | BackfillState::Cancelled => (None, &[][..]),
    };
    for operation in operations {
        links.insert((*operation).to_owned(), format!("POST {path}/{operation}"));
    }
    Backfill {
        id: head.id.to_string(),
        owner: name.owner.clone(),
        name: name.name.clone(),
        state: head.state.word().to_owned(),
        halted,
        from: head.range.from.0,
        to: head.range.to.0,
        reverse: head.range.reverse,
        max_concurrent: head.max_concurrent,
        schedule: head.range.schedule.text.clone(),
        zone: head.range.schedule.zone.clone(),
        due: head.due,
        launched: head.launched,
        remaining: head.remaining,
        states: std::collections::BTreeMap::new(),
        registered_at: head.registered_at.0,
        changed_at: head.changed_at.0,
        links,
    }
}

fn launch_view(launch: &LaunchRecord) -> BackfillLaunch {
    let instance = launch.execution.and_then(|it| it.instance());
    let run = launch.execution.and_then(|it| it.run());
    let mut links = Links::new();
    if let Some(instance) = instance {
        links.insert("instance".to_owned(), views::path(instance, instance));
    }
    if let Some(run) = run {
        links.insert("run".to_owned(), runs::path(run));
    }
    BackfillLaunch {
        nominal_at: launch.nominal.0,
        instance: instance.map(|it| it.to_string()),
        run: run.map(|it| it.to_string()),
        state: launch.state.map(|state| state.word().to_owned()),
        links,
    }
}

/// The error response to a command about backfills.
fn fault(error: &BackfillError, name: &TaskName) -> Fault {
    let text = error.to_string();
    let (field, hint) = match error {
        BackfillError::UnknownEntry => return library::unknown(name),
        BackfillError::UnknownBackfill | BackfillError::State(_) => {
            return Fault::new(StatusCode::CONFLICT, "state", text);
        }
        BackfillError::Running(_) => return Fault::new(StatusCode::CONFLICT, "running", text),
        BackfillError::TooManyOpen => {
            let detail = format!("{text}; wait for one, or cancel a halted one");
            return Fault::new(StatusCode::CONFLICT, "full", detail);
        }
        BackfillError::Stale => {
            return Fault::new(StatusCode::SERVICE_UNAVAILABLE, "busy", text);
        }
        BackfillError::NoSchedule | BackfillError::Schedule(_) => {
            ("trigger.schedule", "give it a schedule, and try again")
        }
        BackfillError::NeedsDefaults => ("params", "give every parameter a default"),
        BackfillError::EmptyInterval => ("to", "name a time after `from`"),
        BackfillError::Future => (
            "to",
            "name a time up to now; later due times are launched by the schedule",
        ),
        BackfillError::Concurrency(_) => ("maxConcurrent", "name a number of that range"),
        BackfillError::TooManyDue(_) => ("from", "split the interval into shorter ones"),
        BackfillError::Forgotten(_) => ("from", "begin at that time"),
    };
    let at = FieldProblem {
        field: field.to_owned(),
        message: text.clone(),
        hint: hint.to_owned(),
    };
    Fault::unusable(text, vec![at])
}
