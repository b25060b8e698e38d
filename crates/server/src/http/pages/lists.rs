//! The pages of lists: running, waiting and ended instances, and runs.

use axum::http::StatusCode;
use axum::response::Response;
use baton_model::api::{Instance, List, Problem, Run};
use baton_web::pages::filters::Filters;
use baton_web::pages::instances::{InstancesPage, ListKind};
use baton_web::pages::runs::RunsPage;

use super::ask::Asker;
use super::show::{Pairs, parameter, with_query};
use super::{Pages, html};

pub(super) async fn instances(
    pages: &Pages,
    ask: &Asker,
    kind: ListKind,
    query: &Pairs,
) -> Result<Response, Problem> {
    let (title, section) = match kind {
        ListKind::Arena => ("Running", "/arena/"),
        ListKind::Bullpen => ("Waiting", "/bullpen/"),
        ListKind::History => ("History", "/history/"),
    };
    let path = section.trim_end_matches('/');
    let list: List<Instance> = ask.get(&with_query(path, query)).await?;
    let frame = pages.frame(ask, title, section);
    let page = InstancesPage::new(frame, kind, filters(query), &list);
    Ok(html(StatusCode::OK, &page))
}

pub(super) async fn runs(pages: &Pages, ask: &Asker, query: &Pairs) -> Result<Response, Problem> {
    let list: List<Run> = ask.get(&with_query("/runs", query)).await?;
    let frame = pages.frame(ask, "Runs", "/runs/");
    let page = RunsPage::new(frame, filters(query), &list);
    Ok(html(StatusCode::OK, &page))
}

fn filters(query: &Pairs) -> Filters {
    let of = |name: &str| parameter(query, name);
    Filters {
        state: of("state"),
        owner: of("owner"),
        name: of("name"),
        worker: of("worker"),
        since: of("since"),
        until: of("until"),
        sort: of("sort"),
    }
}
