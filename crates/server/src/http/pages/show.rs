//! The page of each address.

use axum::extract::{MatchedPath, Query, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::Response;
use baton_model::api::{
    Backfill, BackfillLaunch, ErrorGroup, Event, Explanation, Instance, LibraryPage as Entries,
    List, MEDIA_TYPE, Problem, Readiness, ResumePreview, Run, RunItem, RunTask, Usage,
};
use baton_model::fact::FactKind;
use baton_model::json;
use baton_web::frame::Refresh;
use baton_web::pages::components::ComponentsPage;
use baton_web::pages::filters::Filters;
use baton_web::pages::instance::{self, InstancePage, LogView};
use baton_web::pages::instances::ListKind;
use baton_web::pages::items::ItemsPage;
use baton_web::pages::library::{BackfillPage, BackfillsPage, LibraryPage};
use baton_web::pages::limit_form::LimitForm;
use baton_web::pages::overview::{self, OverviewPage};
use baton_web::pages::plain::{DataPage, EventsPage, KeysPage};
use baton_web::pages::run::{self, PreviewPage, RunPage};
use baton_web::pages::usage::{self, UsagePage};
use serde_json::{Value, json};

use super::api_client::ApiClient;
use super::{Pages, attention, entry, hosts, html, lists, range, redirect};
use crate::http::views::encoded;

/// Rows of a table on a page about something else.
pub(super) const ROWS: usize = 10;

/// Items of a run, and tasks, on its page.
const ITEMS: usize = 200;
const TASKS: usize = 1_000;

/// Events a second on their page: more than anyone can read.
const EVENTS_RATE: u64 = 40;

/// Rows of usage that a request for the chart asks for, and such requests: a month of ten owners.
const USAGE_ROWS: usize = 1_000;
const USAGE_PAGES_MAX: usize = 8;

/// Requests for the timeline of an instance: some thousand attempts.
const TIMELINE_PAGES_MAX: usize = 10;

/// The last bytes of an output that a page shows.
const LOG_BYTES: usize = 64 << 10;

/// Query of a page, in order.
pub(super) type Pairs = Vec<(String, String)>;

/// The page of a request.
pub(super) async fn page(pages: &Pages, request: Request) -> Response {
    let api = ApiClient::new(pages, &request);
    let path = request.uri().path().to_owned();
    let query = pairs(&request);
    let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let shown = match segments[..] {
        [] => overview(pages, &api).await,
        ["arena"] => lists::instances(pages, &api, ListKind::Arena, &query).await,
        ["bullpen"] => lists::instances(pages, &api, ListKind::Bullpen, &query).await,
        ["history"] => lists::instances(pages, &api, ListKind::History, &query).await,
        ["instances", id] if id.contains("..") => {
            return range::page(pages, api, id, request).await;
        }
        ["instances", id] => one(pages, &api, id, &query).await,
        ["runs"] => lists::runs(pages, &api, &query).await,
        ["runs", id] => one_run(pages, &api, id).await,
        ["runs", id, "items"] => items(pages, &api, id, &query).await,
        ["library"] => library(pages, &api, "/library", &query).await,
        ["backfills"] => backfills(pages, &api, &query).await,
        ["backfills", id] => backfill(pages, &api, id).await,
        ["usage", "tasks"] => return other(pages, api, request).await,
        [owner, "tasks"] => library(pages, &api, &format!("/{owner}/tasks"), &query).await,
        [owner, "tasks", name] => entry::page(pages, &api, owner, name, &query).await,
        ["workers"] => hosts::workers(pages, &api).await,
        ["fleets"] => hosts::fleets(pages, &api).await,
        ["fleets", name] => hosts::fleet(pages, &api, name, &query).await,
        ["alarms"] => lists::alarms(pages, &api, &query).await,
        ["limits"] => lists::limits(pages, &api, LimitForm::default()).await,
        ["secrets"] => lists::secrets(pages, &api, &query).await,
        ["notifications"] => lists::notifications(pages, &api, &query).await,
        ["schedulers"] => hosts::schedulers(pages, &api).await,
        ["workers", name] => hosts::worker(pages, &api, name).await,
        ["usage"] => usage(pages, &api, &query).await,
        ["events"] => events(pages, &api, query).await,
        [owner, "usage"] => Ok(redirect(&of_owner("/usage/", owner, query))),
        _ => return other(pages, api, request).await,
    };
    shown.unwrap_or_else(|problem| pages.error(&api, problem, None))
}

pub(super) fn pairs(request: &Request) -> Pairs {
    let query = Query::<Pairs>::try_from_uri(request.uri());
    query.map(|Query(pairs)| pairs).unwrap_or_default()
}

/// The path with the parameters that have a value: a form sends empty fields, too.
pub(super) fn with_query(path: &str, query: &Pairs) -> String {
    let set = query.iter().filter(|(_, value)| !value.is_empty());
    let set: Vec<String> = set
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
        .collect();
    if set.is_empty() {
        return path.to_owned();
    }
    format!("{path}?{}", set.join("&"))
}

/// The value of a parameter, empty if it is not set.
pub(super) fn parameter(query: &Pairs, name: &str) -> String {
    let found = query.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}

/// The address of a list, filtered by an owner as its path has it.
fn of_owner(list: &str, owner: &str, mut query: Pairs) -> String {
    query.retain(|(name, _)| name != "owner");
    let address = with_query(list, &query);
    let next = if address.contains('?') { '&' } else { '?' };
    // As in a path, where these two stand for themselves.
    let owner = owner.replace('&', "%26").replace('+', "%2B");
    format!("{address}{next}owner={owner}")
}

async fn overview(pages: &Pages, api: &ApiClient) -> Result<Response, Problem> {
    // First alone: without authorization nothing else is asked.
    let arena = api.get(&format!("/arena?limit={ROWS}")).await?;
    let failed = format!("/history?state=FAILED&limit={ROWS}");
    let (bullpen, failed, runs) = (
        format!("/bullpen?limit={ROWS}"),
        failed,
        format!("/runs?limit={ROWS}"),
    );
    let (ready, schedulers, bullpen, failed, runs, library, workers, fleets, usage, alarms) = tokio::join!(
        readiness(api),
        api.get_part("/schedulers", "The schedulers"),
        api.get(&bullpen),
        api.get(&failed),
        api.get(&runs),
        api.get_part::<Entries<Value>>("/library", "What is due next"),
        api.get_part("/workers", "The workers"),
        api.get_part("/fleets", "The fleets"),
        api.get_part("/usage?limit=1000", "The instances that ended by hour"),
        api.get_part("/alarms", "The alarms"),
    );
    let (failed, runs) = (failed?, runs?);
    let failing = attention::failing(api, &failed, &runs).await;
    // As the numbers of workers, it is not for a token of one owner.
    let queue = match &workers {
        Some(_) => pages.0.recent.queue(),
        None => Vec::new(),
    };
    let answers = overview::Answers {
        ready,
        schedulers,
        arena,
        bullpen: bullpen?,
        failed,
        failing,
        alarms,
        runs,
        library,
        workers,
        fleets,
        usage,
        queue,
    };
    let frame = pages.frame(api, "Overview", "/");
    Ok(html(StatusCode::OK, &OverviewPage::new(frame, answers)))
}

/// Whether the server is ready. If it is not, the answer is an error with the same body.
async fn readiness(api: &ApiClient) -> Option<Readiness> {
    let answered = api.send(Method::GET, "/readyz", None, &[]).await;
    let readiness = answered.and_then(|it| json::from_slice(&it.body).or_else(|_| it.parse()));
    readiness
        .inspect_err(|problem| api.leave_out("Whether the scheduler is ready", problem))
        .ok()
}

async fn one(pages: &Pages, api: &ApiClient, id: &str, query: &Pairs) -> Result<Response, Problem> {
    let instance: Instance = api.get(&format!("/instances/{id}")).await?;
    let id = instance.id.clone();
    let selected = query.iter().find(|(name, _)| name == "attempt");
    let selected = selected.map(|(_, number)| {
        let number = number.parse::<u32>();
        number.map_err(|_| super::api_client::problem(400, "an attempt is a number"))
    });
    let selected = selected.transpose()?;
    let of_attempt = selected.map_or_else(String::new, |number| format!("?attempt={number}"));
    let of = |rest: &str| format!("/instances/{id}/{rest}");
    let (explain, timeline) = (of("explain"), of("timeline"));
    let processes = of(&format!("processes{of_attempt}"));
    let has_attempt = instance.attempts > 0;
    let alarms = alarms_of(&instance.owner);
    let (explanation, alarms, timeline, processes, stdout, stderr) = tokio::join!(
        api.get_part::<Explanation>(&explain, "The reason for which it waits"),
        api.get_part(&alarms, "The alarms"),
        whole_timeline(api, timeline),
        async {
            if has_attempt {
                api.get_from_worker(&processes)
                    .await
                    .map_err(|it: Problem| it.detail)
            } else {
                Err("No attempt has begun.".to_owned())
            }
        },
        log(api, &id, "stdout", &of_attempt, has_attempt),
        log(api, &id, "stderr", &of_attempt, has_attempt),
    );
    let title = format!("{id} {} {}", instance.name, instance.state);
    let answers = instance::Answers {
        instance,
        explanation,
        alarms,
        timeline: timeline?,
        selected,
        processes,
        logs: vec![stdout, stderr],
    };
    let frame = pages.frame(api, title, "");
    Ok(html(StatusCode::OK, &InstancePage::new(frame, answers)))
}

/// The address of the alarms of an owner: as many as there may be in one answer.
fn alarms_of(owner: &str) -> String {
    format!("/alarms?owner={}&limit=1000", encoded(owner))
}

/// All events of a timeline.
async fn whole_timeline(api: &ApiClient, path: String) -> Result<Vec<Event>, Problem> {
    let mut events = Vec::new();
    let mut next = Some(path);
    for _ in 0..TIMELINE_PAGES_MAX {
        let Some(path) = next else { break };
        let page: List<Event> = api.get(&path).await?;
        events.extend(page.items);
        next = page.links.get("next").cloned();
    }
    Ok(events)
}

async fn log(
    api: &ApiClient,
    id: &str,
    stream: &'static str,
    of_attempt: &str,
    has_attempt: bool,
) -> LogView {
    if !has_attempt {
        return LogView::missing(stream, "No attempt has begun.".to_owned());
    }
    let path = format!("/instances/{id}/logs/{stream}{of_attempt}");
    match api.tail(&path, LOG_BYTES).await {
        Ok((output, size)) => LogView::new(stream, &output, size, id, path),
        Err(problem) => LogView::missing(stream, problem.detail),
    }
}

async fn one_run(pages: &Pages, api: &ApiClient, id: &str) -> Result<Response, Problem> {
    let run: Run = api.get(&format!("/runs/{id}")).await?;
    let id = run.id.clone();
    let (tasks, items) = (
        format!("/runs/{id}/tasks?limit={TASKS}"),
        format!("/runs/{id}/items?limit={ITEMS}"),
    );
    let (errors, alarms) = (format!("/runs/{id}/errors"), alarms_of(&run.owner));
    let (tasks, items, errors, alarms, before) = tokio::join!(
        api.get::<List<RunTask>>(&tasks),
        api.get::<List<RunItem<Value>>>(&items),
        api.get::<List<ErrorGroup>>(&errors),
        api.get_part(&alarms, "The alarms"),
        run_before(api, &run),
    );
    let title = format!("{id} {} {}", run.name, run.state);
    let answers = run::Answers {
        run,
        tasks: tasks?,
        items: items?,
        errors: errors?,
        alarms,
        before,
    };
    let frame = pages.frame(api, title, "/runs/");
    Ok(html(StatusCode::OK, &RunPage::new(frame, answers)))
}

async fn items(
    pages: &Pages,
    api: &ApiClient,
    id: &str,
    query: &Pairs,
) -> Result<Response, Problem> {
    let run: Run = api.get(&format!("/runs/{id}")).await?;
    let filters = Filters::new(query);
    let mut query = query.clone();
    if parameter(&query, "limit").is_empty() {
        query.push(("limit".to_owned(), ITEMS.to_string()));
    }
    let path = format!("/runs/{}/items", run.id);
    let list: List<RunItem<Value>> = api.get(&with_query(&path, &query)).await?;
    let title = format!("Items of {} {}", run.id, run.name);
    let frame = pages.frame(api, title, "/runs/");
    let page = ItemsPage::new(frame, run, filters, &list);
    Ok(html(StatusCode::OK, &page))
}

/// The previous run of the same workflow with its tasks and first items, if it is still there.
async fn run_before(
    api: &ApiClient,
    run: &Run,
) -> Option<(Run, List<RunTask>, List<RunItem<Value>>)> {
    let (owner, name) = (encoded(&run.owner), encoded(&run.name));
    let number = run.id.trim_start_matches('r');
    let path = format!("/runs?owner={owner}&name={name}&cursor={number}&limit=1");
    let found: List<Run> = api.get_part(&path, "The previous run").await?;
    let before = found.items.into_iter().next()?;
    let tasks = format!("/runs/{}/tasks?limit={TASKS}", before.id);
    let items = format!("/runs/{}/items?limit={ITEMS}", before.id);
    let part = format!("The tasks of {}, the previous run,", before.id);
    let (tasks, items) = tokio::join!(api.get_part(&tasks, &part), api.get_part(&items, &part));
    Some((before, tasks?, items?))
}

async fn library(
    pages: &Pages,
    api: &ApiClient,
    path: &str,
    query: &Pairs,
) -> Result<Response, Problem> {
    let entries: Entries<Value> = api.get(&with_query(path, query)).await?;
    let frame = pages.frame(api, "Library", "/library/");
    Ok(html(StatusCode::OK, &LibraryPage::new(frame, entries)))
}

async fn backfills(pages: &Pages, api: &ApiClient, query: &Pairs) -> Result<Response, Problem> {
    let list: List<Backfill> = api.get(&with_query("/backfills", query)).await?;
    let frame = pages.frame(api, "Backfills", "/backfills/");
    Ok(html(StatusCode::OK, &BackfillsPage::new(frame, &list)))
}

async fn backfill(pages: &Pages, api: &ApiClient, id: &str) -> Result<Response, Problem> {
    let backfill: Backfill = api.get(&format!("/backfills/{id}")).await?;
    let launches = format!("/backfills/{}/launches", backfill.id);
    let launches: List<BackfillLaunch> = api.get(&launches).await?;
    let frame = pages.frame(api, backfill.id.clone(), "/backfills/");
    let page = BackfillPage::new(frame, &backfill, &launches);
    Ok(html(StatusCode::OK, &page))
}

async fn usage(pages: &Pages, api: &ApiClient, query: &Pairs) -> Result<Response, Problem> {
    let list: List<Usage> = api.get(&with_query("/usage", query)).await?;
    let of = |name: &str| query.iter().find(|(key, _)| key == name);
    let number = |name: &str| of(name).and_then(|(_, value)| value.parse().ok());
    let period = usage::Period {
        owner: of("owner")
            .map(|(_, owner)| owner.clone())
            .unwrap_or_default(),
        from: number("from"),
        to: number("to"),
    };
    // A later page of the table is only appended.
    let (all, is_cut) = if of("cursor").is_some() {
        (Vec::new(), false)
    } else {
        all_usage(api, &list, query).await?
    };
    let part: Pairs = query
        .clone()
        .into_iter()
        .filter(|(name, _)| name == "from" || name == "to")
        .collect();
    let fleets = if period.owner.is_empty() {
        api.get_part(&with_query("/usage/fleets", &part), "The jobs of fleets")
            .await
    } else {
        None
    };
    let answers = usage::Answers {
        list,
        all,
        is_cut,
        fleets,
    };
    let frame = pages.frame(api, "Usage", "/usage/");
    Ok(html(
        StatusCode::OK,
        &UsagePage::new(frame, period, answers),
    ))
}

/// The usage of which a page of the table is the beginning, and whether there is still more.
async fn all_usage(
    api: &ApiClient,
    first: &List<Usage>,
    query: &Pairs,
) -> Result<(Vec<Usage>, bool), Problem> {
    if !first.links.contains_key("next") {
        return Ok((first.items.clone(), false));
    }
    let mut all = Vec::new();
    let mut query: Pairs = query.clone();
    query.retain(|(name, _)| name != "limit");
    query.push(("limit".to_owned(), USAGE_ROWS.to_string()));
    let mut path = Some(with_query("/usage", &query));
    for _ in 0..USAGE_PAGES_MAX {
        let Some(now) = path else { break };
        let page: List<Usage> = api.get(&now).await?;
        all.extend(page.items);
        path = page.links.get("next").cloned();
    }
    Ok((all, path.is_some()))
}

async fn events(pages: &Pages, api: &ApiClient, mut query: Pairs) -> Result<Response, Problem> {
    // The stream is for the script; this only asks whether the viewer may read it.
    api.get::<Value>("/").await?;
    let mut frame = pages.frame(api, "Events", "/events");
    frame.refresh = Refresh::Never;
    let mut set = |name: &str, value: u64| {
        if !query.iter().any(|(it, _)| it == name) {
            query.push((name.to_owned(), value.to_string()));
        }
    };
    set("rate", EVENTS_RATE);
    // It begins with the latest ones.
    let last = match pages.0.app.last_event().await {
        Ok(last) => last,
        Err(fault) => return Err(fault.into()),
    };
    set("after", last.0.saturating_sub(EVENTS_RATE));
    let page = EventsPage {
        frame,
        query: with_query("", &query),
        kinds: FactKind::NAMES.join(" "),
    };
    Ok(html(StatusCode::OK, &page))
}

/// What has no page of its own: a representation is shown as it is; a stream, a document or a log
/// is passed on.
async fn other(pages: &Pages, api: ApiClient, request: Request) -> Response {
    let response = api.pass(request).await;
    let media = response.headers().get(header::CONTENT_TYPE);
    let media = media.and_then(|media| media.to_str().ok());
    let is_error = !response.status().is_success();
    if !is_error && media != Some(MEDIA_TYPE) && media != Some("application/json") {
        return response;
    }
    let status = response.status();
    let bytes = axum::body::to_bytes(response.into_body(), PAGE_BYTES_MAX).await;
    let Ok(bytes) = bytes else {
        let detail = "it is too large for a page; ask for it without `Accept: text/html`";
        return pages.error(&api, super::api_client::problem(502, detail), None);
    };
    if is_error {
        let problem = json::from_slice(&bytes);
        let problem = problem
            .unwrap_or_else(|_| super::api_client::problem(status.as_u16(), "the request failed"));
        return pages.error(&api, problem, None);
    }
    let value: Value = match json::from_slice(&bytes) {
        Ok(value) => value,
        Err(error) => {
            let detail = format!("the answer cannot be read: {error}");
            return pages.error(&api, super::api_client::problem(502, &detail), None);
        }
    };
    let frame = pages.frame(&api, api.here.clone(), "");
    html(StatusCode::OK, &DataPage::new(frame, &value))
}

/// The largest representation that is shown as it is.
const PAGE_BYTES_MAX: usize = 4 << 20;

pub(super) async fn keys(State(pages): State<Pages>, request: Request) -> Response {
    let api = ApiClient::new(&pages, &request);
    let mut frame = pages.frame(&api, "Keys", "");
    frame.refresh = Refresh::Never;
    html(StatusCode::OK, &KeysPage { frame })
}

pub(super) async fn components(State(pages): State<Pages>, request: Request) -> Response {
    let api = ApiClient::new(&pages, &request);
    let mut frame = pages.frame(&api, "Components", "");
    frame.refresh = Refresh::Never;
    html(StatusCode::OK, &ComponentsPage::new(frame))
}

/// Goes to the page of what was typed: an id, an entry, a worker, or a name.
pub(super) async fn go(State(pages): State<Pages>, request: Request) -> Response {
    let api = ApiClient::new(&pages, &request);
    let query = pairs(&request);
    let typed = query.iter().find(|(name, _)| name == "q");
    let typed = typed.map_or("", |(_, value)| value.trim());
    let place = place(typed);
    if let Some(place) = place {
        return redirect(&place);
    }
    let worker = format!("/workers/{}", encoded(typed));
    if api.get::<Value>(&worker).await.is_ok() {
        return redirect(&worker);
    }
    redirect(&format!("/history/?name={}", encoded(typed)))
}

/// The address of an id or an entry.
fn place(typed: &str) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_id = |letter: char| typed.strip_prefix(letter).is_some_and(is_number);
    if typed.is_empty() {
        return Some("/".to_owned());
    }
    if let Some((first, last)) = typed.split_once("..") {
        let is_instance = |id: &str| id.strip_prefix('i').is_some_and(is_number);
        return (is_instance(first) && is_instance(last)).then(|| format!("/instances/{typed}"));
    }
    if let Some((id, _)) = typed.split_once('[') {
        return id
            .strip_prefix('i')
            .filter(|id| is_number(id))
            .map(|id| format!("/instances/i{id}"));
    }
    if is_id('i') {
        return Some(format!("/instances/{typed}"));
    }
    if is_id('r') {
        return Some(format!("/runs/{typed}"));
    }
    if is_id('b') {
        return Some(format!("/backfills/{typed}"));
    }
    let (owner, name) = typed.split_once('/')?;
    if owner.is_empty() {
        return None;
    }
    Some(format!("/{}/tasks/{}", encoded(owner), encoded(name)))
}

/// The events of the API, for the script of their page: it has no token to send.
pub(super) async fn follow_events(State(pages): State<Pages>, mut request: Request) -> Response {
    let api = ApiClient::new(&pages, &request);
    let query = request.uri().query();
    let address = query.map_or("/events".to_owned(), |query| format!("/events?{query}"));
    match address.parse() {
        Ok(address) => {
            *request.uri_mut() = address;
            // The router of the API would append its own path to this one.
            request.extensions_mut().remove::<MatchedPath>();
        }
        Err(_) => {
            let detail = "the query of the events is invalid";
            return pages.error(&api, super::api_client::problem(400, detail), None);
        }
    }
    api.pass(request).await
}

/// What a retry of a run from a task on would run.
pub(super) async fn preview_retry(State(pages): State<Pages>, request: Request) -> Response {
    let api = ApiClient::new(&pages, &request);
    let query = pairs(&request);
    let of = |name: &str| parameter(&query, name);
    let (run, task, downstream) = (of("run"), of("task"), of("downstream") == "true");
    let body = json!({ "task": task, "downstream": downstream }).to_string();
    let path = format!("/runs/{}/retry?dryRun=true", encoded(&run));
    let answered = api.send(Method::POST, &path, Some(body.clone()), &[]).await;
    let preview = answered.and_then(|answered| answered.parse::<ResumePreview>());
    match preview {
        Ok(preview) => {
            let mut frame = pages.frame(&api, format!("Run {task} of {run} again"), "/runs/");
            frame.refresh = Refresh::Never;
            let page = PreviewPage::new(frame, &run, &task, downstream, body, preview);
            html(StatusCode::OK, &page)
        }
        Err(problem) => pages.error(&api, problem, Some(format!("/runs/{}", encoded(&run)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type_has_a_place() {
        for (typed, address) in [
            ("", Some("/")),
            ("i12", Some("/instances/i12")),
            ("i1523[3]", Some("/instances/i1523")),
            ("i1..i9", Some("/instances/i1..i9")),
            ("r3", Some("/runs/r3")),
            ("b3", Some("/backfills/b3")),
            ("ann/daily report", Some("/ann/tasks/daily%20report")),
            ("sim", None),
            ("i1..x", None),
            ("//x", None),
            ("/evil.example", None),
        ] {
            assert_eq!(place(typed).as_deref(), address, "{typed}");
        }
    }

    #[test]
    fn empty_fields_of_a_form_are_no_filters() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let query = vec![pair("state", ""), pair("name", "a b")];
        assert_eq!(with_query("/arena", &query), "/arena?name=a%20b");
        assert_eq!(with_query("/arena", &Vec::new()), "/arena");
    }
}
