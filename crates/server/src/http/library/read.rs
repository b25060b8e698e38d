//! Tasks and workflows, revisions and due times.

use axum::extract::{Extension, Path, State};
use axum::http::Uri;
use axum::response::Response;
use baton_model::api::{DueTimes, LibraryPage, List};
use baton_model::ids::Revision;
use baton_model::library::TaskName;
use baton_model::time::Wall;
use baton_store::view::TaskQuery;
use serde_json::Value;

use super::super::app::App;
use super::super::conditional::tagged;
use super::super::extract::Parameters;
use super::super::lists::page_links;
#[cfg(feature = "openapi")]
use super::super::openapi::answers::{Task, Unchanged};
use super::super::problem::{Answer, Fault};
use super::super::redaction::visible;
use super::super::views;
use super::{listed_view, name, parsed, path};
use crate::access::Caller;
use crate::clock;
use crate::limits::{DUE_TIMES_DEFAULT, DUE_TIMES_MAX, PAGE_ITEMS_DEFAULT};

/// The tasks and workflows of the library, by owner and name
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/library/",
    tag = "library",
    operation_id = "library",
    params(
        ("cursor" = Option<String>, Query, description = "Start of the page; from the link `next`."),
        ("limit" = Option<u64>, Query, description = "Maximum number of entries."),
        ("owner" = Option<String>, Query, description = "Only of this owner."),
    ),
    responses(
        (status = 200, description = "A page.", body = LibraryPage<Value>),
        Unchanged
    )
))]
pub(in super::super) async fn list(State(app): State<App>, uri: Uri) -> Answer<Response> {
    let parameters = Parameters::of(&uri, &["cursor", "limit", "owner"])?;
    let owner = parameters.text("owner").map(str::to_owned);
    page(&app, owner, &parameters, "/library/").await
}

/// The tasks and workflows of one owner, by name
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/{owner}/tasks/",
    tag = "library",
    operation_id = "tasks",
    params(
        ("owner" = String, Path, description = "The owner of the entries."),
        ("cursor" = Option<String>, Query, description = "Start of the page; from the link `next`."),
        ("limit" = Option<u64>, Query, description = "Maximum number of entries."),
    ),
    responses(
        (status = 200, description = "A page.", body = LibraryPage<Value>),
        Unchanged
    )
))]
pub(in super::super) async fn of_owner(
    State(app): State<App>,
    Path(owner): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    let parameters = Parameters::of(&uri, &["cursor", "limit"])?;
    let path = format!("/{}/tasks/", views::encoded(&owner));
    page(&app, Some(owner), &parameters, &path).await
}

async fn page(
    app: &App,
    owner: Option<String>,
    parameters: &Parameters,
    path: &str,
) -> Answer<Response> {
    let cursor = parameters.text("cursor").map(|text| {
        let wrong = || Fault::bad_request("invalid cursor; use the link `next` of a page");
        text.parse::<TaskName>().map_err(|_| wrong())
    });
    let query_owner = owner.clone();
    let query = TaskQuery {
        owner,
        after: cursor.transpose()?,
        limit: parameters.number("limit")?.unwrap_or(PAGE_ITEMS_DEFAULT),
    };
    let page = app.read(move |store| store.tasks(&query)).await?;
    let now = clock::now().wall;
    let next = page.next.map(|name| views::encoded(&name.to_string()));
    let mut links = page_links(path, parameters, next);
    let owner = query_owner.as_deref().map(views::encoded);
    // Without an owner, a template.
    let at = owner.as_deref().unwrap_or("{owner}");
    links.insert("create-task".to_owned(), format!("POST /{at}/tasks/"));
    if let Some(owner) = owner {
        links.insert("owner".to_owned(), format!("/{owner}/"));
    }
    let library = LibraryPage::<Value> {
        items: page.items.iter().map(|it| listed_view(it, now)).collect(),
        problems: app.0.problems.all(),
        links,
    };
    Ok(tagged(&library))
}

/// A task or a workflow, in its current or an earlier revision
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/{owner}/tasks/{name}",
    tag = "library",
    operation_id = "task",
    params(
        ("revision" = Option<u32>, Query, description = "Revision number, also of a removed entry; default: the current one."),
    ),
    responses(
        (status = 200, description = "The entry; its ETag is the revision.", body = Task<Value>),
        Unchanged
    )
))]
pub(in super::super) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((owner, task)): Path<(String, String)>,
    uri: Uri,
) -> Answer<Response> {
    let parameters = Parameters::of(&uri, &["revision"])?;
    let revision = parameters.number("revision")?.map(Revision);
    let record = app.task(&name(&owner, &task), revision).await?;
    Ok(super::entry(&caller, &record))
}

/// Revisions of a task or a workflow, newest first
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/{owner}/tasks/{name}/revisions/",
    tag = "library",
    operation_id = "revisions",
    params(
        ("cursor" = Option<u32>, Query, description = "Only revisions before this one; from the link `next`."),
        ("limit" = Option<u64>, Query, description = "Maximum number of entries."),
    ),
    responses(
        (status = 200, description = "A page.", body = List<Task<Value>>),
        Unchanged
    )
))]
pub(in super::super) async fn revisions(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((owner, task)): Path<(String, String)>,
    uri: Uri,
) -> Answer<Response> {
    let parameters = Parameters::of(&uri, &["cursor", "limit"])?;
    let before = parameters.number("cursor")?.map(Revision);
    let limit = parameters.number("limit")?.unwrap_or(PAGE_ITEMS_DEFAULT);
    let name = name(&owner, &task);
    // A removed task still has its first revision.
    let any = app.task(&name, Some(Revision(1))).await?;
    let wanted = name.clone();
    let (page, now) = app
        .read(move |store| {
            let page = store.revisions(any.number, before, limit)?;
            Ok((page, store.task(&wanted, None)?))
        })
        .await?;
    let current = now.as_ref().map(|record| record.revision);
    let items = page.items.into_iter().map(|it| {
        super::task_view(&baton_store::view::TaskRecord {
            number: any.number,
            name: name.clone(),
            revision: it.revision,
            current: current == Some(it.revision),
            at: it.at,
            definition: it.definition,
            pause: now.as_ref().and_then(|record| record.pause.clone()),
        })
    });
    let path = format!("{}/revisions/", path(&name));
    let list = List {
        items: items.collect(),
        total: None,
        links: page_links(&path, &parameters, page.next.map(|next| next.0.to_string())),
    };
    Ok(tagged(&visible(&caller, &list)))
}

/// Next due times of a task or a workflow
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/{owner}/tasks/{name}/due",
    tag = "library",
    operation_id = "due",
    params(
        ("limit" = Option<u64>, Query, description = "Maximum number of times, at most 1000."),
        ("after" = Option<u64>, Query, description = "Only times after this one, in milliseconds since 1970; default: now."),
    ),
    responses(
        (status = 200, description = "Due times; empty if it has no schedule, or none is left.", body = DueTimes),
        Unchanged
    )
))]
pub(in super::super) async fn due(
    State(app): State<App>,
    Path((owner, task)): Path<(String, String)>,
    uri: Uri,
) -> Answer<Response> {
    let parameters = Parameters::of(&uri, &["limit", "after"])?;
    let limit: usize = parameters.number("limit")?.unwrap_or(DUE_TIMES_DEFAULT);
    let after = parameters.number("after")?.map_or(clock::now().wall, Wall);
    let name = name(&owner, &task);
    let record = app.task(&name, None).await?;
    let schedule = record.definition.trigger.schedule.as_ref();
    let zone = schedule.map(|schedule| schedule.zone.clone());
    let schedule = schedule.and_then(parsed);
    let times = schedule.map(|schedule| {
        std::iter::successors(schedule.after(after), |occurrence| {
            schedule.after(occurrence.at)
        })
        .map(|occurrence| occurrence.at.0)
        .take(limit.min(DUE_TIMES_MAX))
        .collect()
    });
    let path = path(&name);
    Ok(tagged(&DueTimes {
        at: times.unwrap_or_default(),
        zone,
        links: views::links([("self", format!("{path}/due")), ("task", path)]),
    }))
}
