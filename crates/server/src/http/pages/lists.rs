//! The pages of lists: running, waiting and ended instances, runs, alarms, limits, secrets and notifications.

use axum::http::StatusCode;
use axum::response::Response;
use baton_model::api::{
    Alarm, Instance, Limit, List, Notification, NotificationChannel, Problem, Run, Secret, Share,
};
use baton_web::frame::Refresh;
use baton_web::pages::alarms::AlarmsPage;
use baton_web::pages::filters::{Filters, HIDE};
use baton_web::pages::instances::{InstancesPage, ListKind, Reach};
use baton_web::pages::limit_form::LimitForm;
use baton_web::pages::limits::LimitsPage;
use baton_web::pages::notifications::NotificationsPage;
use baton_web::pages::runs::RunsPage;
use baton_web::pages::secrets::SecretsPage;
use baton_web::time::Stamp;

use super::api_client::ApiClient;
use super::show::{Pairs, with_query};
use super::{Pages, html};

pub(super) async fn instances(
    pages: &Pages,
    api: &ApiClient,
    kind: ListKind,
    query: &Pairs,
) -> Result<Response, Problem> {
    let (title, section) = match kind {
        ListKind::Arena => ("Running", "/arena/"),
        ListKind::Bullpen => ("Waiting", "/bullpen/"),
        ListKind::History => ("History", "/history/"),
    };
    let path = section.trim_end_matches('/');
    let list: List<Instance> = api.get(&with_query(path, &without_columns(query))).await?;
    let reach = reach(api, &list).await;
    let frame = pages.frame(api, title, section);
    let page = InstancesPage::new(frame, kind, Filters::new(query), &list, reach);
    Ok(html(StatusCode::OK, &page))
}

/// The query of a list without the columns that its reader hides, which the API does not know.
fn without_columns(query: &Pairs) -> Pairs {
    let pairs = query.iter().filter(|(name, _)| name != HIDE);
    pairs.cloned().collect()
}

/// How far a page has looked that is not full and not the last.
async fn reach(api: &ApiClient, list: &List<Instance>) -> Option<Reach> {
    let last = list.links.get("last")?;
    let part = "How far the list was looked through";
    let last: Option<Instance> = api.get_part(last, part).await;
    let at = |last: Instance| {
        if last.state.is_terminal() {
            last.changed_at
        } else {
            last.submitted_at
        }
    };
    let to = last.map(|last| Stamp(at(last)));
    Some(Reach { to })
}

pub(super) async fn runs(
    pages: &Pages,
    api: &ApiClient,
    query: &Pairs,
) -> Result<Response, Problem> {
    let list: List<Run> = api
        .get(&with_query("/runs", &without_columns(query)))
        .await?;
    let frame = pages.frame(api, "Runs", "/runs/");
    let page = RunsPage::new(frame, Filters::new(query), &list);
    Ok(html(StatusCode::OK, &page))
}

pub(super) async fn alarms(
    pages: &Pages,
    api: &ApiClient,
    query: &Pairs,
) -> Result<Response, Problem> {
    let list: List<Alarm> = api.get(&with_query("/alarms", query)).await?;
    let frame = pages.frame(api, "Alarms", "/alarms/");
    let page = AlarmsPage::new(frame, Filters::new(query), &list);
    Ok(html(StatusCode::OK, &page))
}

/// The page of limits, also after a form was refused.
pub(super) async fn limits(
    pages: &Pages,
    api: &ApiClient,
    form: LimitForm,
) -> Result<Response, Problem> {
    let list: List<Limit> = api.get("/limits").await?;
    let shares: List<Share> = api.get("/shares").await?;
    let mut frame = pages.frame(api, "Limits", "/limits/");
    let (refresh, status) = if form.is_refused() {
        // Its address is that of the form.
        (Refresh::Never, StatusCode::UNPROCESSABLE_ENTITY)
    } else {
        // The history does not tell of what waits.
        (Refresh::Often, StatusCode::OK)
    };
    frame.refresh = refresh;
    Ok(html(status, &LimitsPage::new(frame, &list, shares, form)))
}

pub(super) async fn secrets(
    pages: &Pages,
    api: &ApiClient,
    query: &Pairs,
) -> Result<Response, Problem> {
    let list: List<Secret> = api.get(&with_query("/secrets", query)).await?;
    let mut frame = pages.frame(api, "Secrets", "/secrets/");
    // The history does not tell of secrets.
    frame.refresh = Refresh::Often;
    let page = SecretsPage::new(frame, Filters::new(query), &list);
    Ok(html(StatusCode::OK, &page))
}

pub(super) async fn notifications(
    pages: &Pages,
    api: &ApiClient,
    query: &Pairs,
) -> Result<Response, Problem> {
    let list: List<Notification> = api.get(&with_query("/notifications", query)).await?;
    // Not for a token of one owner.
    let channels: Option<List<NotificationChannel>> = api
        .get_part("/notifications/channels", "The channels")
        .await;
    let mut frame = pages.frame(api, "Notifications", "/notifications/");
    // The history does not tell of deliveries.
    frame.refresh = Refresh::Often;
    let page = NotificationsPage::new(frame, Filters::new(query), channels, &list);
    Ok(html(StatusCode::OK, &page))
}
