//! Tokens for one owner: what they reach.
//!
//! Such a token sees and changes what belongs to its owner, and looks at what belongs to nobody.
//! The check stands before the handlers, by the path of the request; a path that is not named
//! here is closed to it, so that a new one opens nothing by being forgotten.

use std::collections::BTreeMap;

use axum::RequestExt as _;
use axum::extract::{Path, Query, Request};
use axum::http::uri::PathAndQuery;
use axum::http::{StatusCode, Uri};
use baton_model::ids::InstanceId;
use baton_store::view::Record;
use serde_json::Value;

use super::extract::Target;
use super::problem::{Answer, Fault};
use super::roles::Route;
use super::{App, instances, runs, views};

/// Whose things a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Nobody's: everybody who has the role may look.
    Public,
    /// Those of the owner whom the path names.
    OwnerInPath,
    /// An instance, or a range of them.
    Instance,
    /// A run.
    Run,
    /// A list that can be asked for the things of one owner.
    List,
    /// What is submitted: its handler knows whose that is.
    Submission,
    /// The server's.
    Server,
}

fn scope(route: &Route) -> Scope {
    let looks = route.method == "GET";
    match route.path.trim_end_matches('/') {
        "/healthz" | "/readyz" | "" | "/openapi.json" | "/docs" => Scope::Public,
        "/workers" | "/workers/{name}" if looks => Scope::Public,
        "/bullpen" | "/arena" | "/history" | "/library" | "/usage" | "/events" => Scope::List,
        "/runs" if looks => Scope::List,
        "/instances" | "/runs" => Scope::Submission,
        path if path.starts_with("/runs/{run}") => Scope::Run,
        path if path.starts_with("/instances/{id}") => Scope::Instance,
        path if path.starts_with("/{owner}/tasks") => Scope::OwnerInPath,
        _ => Scope::Server,
    }
}

/// Lets a request through that is about the things of this owner. One for a list is asked for
/// these alone.
pub(super) async fn check(
    app: &App,
    owner: &str,
    route: &Route,
    request: &mut Request,
) -> Answer<()> {
    match scope(route) {
        Scope::Public | Scope::Submission => Ok(()),
        Scope::Server => Err(wrong_owner(owner)),
        Scope::List => narrow(owner, request),
        Scope::OwnerInPath => match parameter(request, "owner").await? == owner {
            true => Ok(()),
            false => Err(wrong_owner(owner)),
        },
        Scope::Run => {
            let run = runs::id(&parameter(request, "run").await?)?;
            match app.run_record(run).await?.head.owner == owner {
                true => Ok(()),
                false => Err(runs::unknown(run)),
            }
        }
        Scope::Instance => {
            let target = Target::parse(&parameter(request, "id").await?)?;
            check_owned(app, owner, target).await
        }
    }
}

/// A submission in the name of this owner.
pub(super) fn submit(owner: &str, file: &mut Value) -> Answer<()> {
    let Value::Object(fields) = file else {
        // It is refused for what it is.
        return Ok(());
    };
    let said = fields.entry("owner").or_insert_with(|| owner.into());
    match said.as_str() == Some(owner) {
        true => Ok(()),
        false => Err(wrong_owner(owner)),
    }
}

/// What is said of the things of others.
pub(super) fn wrong_owner(owner: &str) -> Fault {
    let detail = format!("this token is limited to objects of the owner {owner:?}");
    Fault::new(StatusCode::FORBIDDEN, "owner", detail)
}

async fn parameter(request: &mut Request, name: &str) -> Answer<String> {
    let found = request.extract_parts::<Path<BTreeMap<String, String>>>();
    let unreadable = |_| Fault::bad_request("cannot parse the path");
    let Path(mut found) = found.await.map_err(unreadable)?;
    Ok(found.remove(name).unwrap_or_default())
}

/// Checks that instances are this owner's. Others are not there, as far as it can see.
async fn check_owned(app: &App, owner: &str, target: Target) -> Answer<()> {
    match target {
        Target::One(id) => check_owned_one(app, owner, id).await.map(drop),
        Target::Range(first, last) => {
            let begins = check_owned_one(app, owner, first).await?;
            let ends = check_owned_one(app, owner, last).await?;
            // Between two of one submission there is nothing else.
            match begins.submitted == ends.submitted {
                true => Ok(()),
                false => Err(wrong_owner(owner)),
            }
        }
    }
}

async fn check_owned_one(app: &App, owner: &str, id: InstanceId) -> Answer<Record> {
    let record = app.record(id).await?;
    match record.instance.spec.owner == owner {
        true => Ok(record),
        false => Err(instances::unknown(id)),
    }
}

/// Asks a list for the things of this owner only.
fn narrow(owner: &str, request: &mut Request) -> Answer<()> {
    let values = Query::<Vec<(String, String)>>::try_from_uri(request.uri());
    let Query(values) =
        values.map_err(|error| Fault::bad_request(format!("cannot parse the query: {error}")))?;
    let mut named = values.iter().filter(|(name, _)| name == "owner");
    if let Some((_, other)) = named.next() {
        return match other == owner {
            true => Ok(()),
            false => Err(wrong_owner(owner)),
        };
    }
    let uri = request.uri();
    let query = match uri.query().filter(|query| !query.is_empty()) {
        Some(query) => format!("{query}&owner={}", views::encoded(owner)),
        None => format!("owner={}", views::encoded(owner)),
    };
    let whole = format!("{}?{query}", uri.path());
    let unreadable = || Fault::bad_request("cannot parse the path");
    let whole: PathAndQuery = whole.parse().map_err(|_| unreadable())?;
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(whole);
    *request.uri_mut() = Uri::from_parts(parts).map_err(|_| unreadable())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::super::roles::ROUTES;
    use super::*;

    #[test]
    fn what_changes_the_server_is_closed() {
        let closed: Vec<_> = ROUTES
            .iter()
            .filter(|route| scope(route) == Scope::Server)
            .map(|route| (route.method, route.path.trim_end_matches('/')))
            .collect();
        for route in [
            ("PUT", "/workers/{name}/drained"),
            ("POST", "/workers/{name}/forget"),
            ("POST", "/tokens"),
            ("DELETE", "/tokens/{id}"),
            ("GET", "/metrics"),
            ("GET", "/history/ticks"),
        ] {
            assert!(closed.contains(&route), "{route:?}");
        }
    }

    #[test]
    fn a_list_is_narrowed_to_the_owner_and_never_to_another() {
        let narrowed = |uri: &str| {
            let mut request = Request::new(Body::empty());
            *request.uri_mut() = uri.parse().expect("a URI");
            let narrowed = narrow("a b", &mut request);
            narrowed.map(|()| request.uri().to_string()).ok()
        };
        let check_owned = |text: &str| Some(text.to_owned());
        assert_eq!(narrowed("/arena/"), check_owned("/arena/?owner=a%20b"));
        assert_eq!(
            narrowed("/arena/?limit=3"),
            check_owned("/arena/?limit=3&owner=a%20b")
        );
        assert_eq!(
            narrowed("/arena/?owner=a+b"),
            check_owned("/arena/?owner=a+b")
        );
        assert_eq!(narrowed("/arena/?owner=c"), None);
        assert_eq!(narrowed("/arena/?limit=3&owner="), None);
    }

    #[test]
    fn a_submission_is_in_the_name_of_the_owner() {
        let mut silent = serde_json::json!({"task": "t"});
        assert!(submit("a", &mut silent).is_ok());
        assert_eq!(silent["owner"], "a");
        assert!(submit("a", &mut silent).is_ok());
        assert!(submit("b", &mut silent).is_err());
        assert!(submit("b", &mut serde_json::json!({"owner": 1})).is_err());
    }
}
