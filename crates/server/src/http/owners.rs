//! Authorization of tokens that are limited to one owner.
//!
//! Such a token reads and changes objects of its owner, and reads objects without an owner. The
//! check runs before the handlers, by the scope of the route in `routes`.

use std::collections::BTreeMap;

use axum::RequestExt as _;
use axum::extract::{Path, Query, Request};
use axum::http::uri::PathAndQuery;
use axum::http::{StatusCode, Uri};
use baton_model::conditions::Subject;
use baton_model::ids::{InstanceId, RunId};
use baton_store::view::Record;
use serde_json::Value;

use super::app::App;
use super::extract::{self, Target};
use super::problem::{Answer, Fault};
use super::views;

/// The objects that a route concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Objects without an owner: the role alone decides.
    Unowned,
    /// Objects of the owner in the path.
    OwnerInPath,
    /// An instance, or a range.
    Instance,
    /// A run.
    Run,
    /// A backfill.
    Backfill,
    /// A list that can be filtered by owner.
    List,
    /// A submission: its handler checks the owner.
    Submission,
    /// The server itself: closed.
    Server,
}

/// Allows a request that concerns objects of this owner; a list is filtered by it.
pub(super) async fn check(
    app: &App,
    owner: &str,
    scope: Scope,
    request: &mut Request,
) -> Answer<()> {
    match scope {
        Scope::Unowned | Scope::Submission => Ok(()),
        Scope::Server => Err(wrong_owner(owner)),
        Scope::List => narrow(owner, request),
        Scope::OwnerInPath => {
            if parameter(request, "owner").await? == owner {
                Ok(())
            } else {
                Err(wrong_owner(owner))
            }
        }
        Scope::Run => {
            let run = extract::run(&parameter(request, "run").await?)?;
            check_owned_run(app, owner, run).await
        }
        Scope::Backfill => {
            let id = extract::backfill(&parameter(request, "backfill").await?)?;
            if app.backfill_record(id).await?.name.owner == owner {
                Ok(())
            } else {
                Err(Fault::unknown_backfill(id))
            }
        }
        Scope::Instance => {
            let target = Target::parse(&parameter(request, "id").await?)?;
            check_owned(app, owner, target).await
        }
    }
}

/// Sets or checks the owner of a submission.
pub(super) fn submit(owner: &str, file: &mut Value) -> Answer<()> {
    let Value::Object(fields) = file else {
        // The handler rejects a body of another type.
        return Ok(());
    };
    let named = fields.entry("owner").or_insert_with(|| owner.into());
    if named.as_str() == Some(owner) {
        Ok(())
    } else {
        Err(wrong_owner(owner))
    }
}

/// Checks that the work that a submission starts after belongs to this owner.
pub(super) async fn check_upstream(app: &App, owner: &str, upstream: Subject) -> Answer<()> {
    match upstream {
        Subject::Instances { first, last } => {
            check_owned(app, owner, Target::Many(vec![(first, last)])).await
        }
        Subject::Run(run) => check_owned_run(app, owner, run).await,
    }
}

/// The error for objects of other owners.
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

/// Checks that instances belong to this owner. To it, others do not exist.
async fn check_owned(app: &App, owner: &str, target: Target) -> Answer<()> {
    match target {
        Target::One(id) => check_owned_one(app, owner, id).await.map(drop),
        Target::Many(ranges) => {
            for (first, last) in ranges {
                let begins = check_owned_one(app, owner, first).await?;
                let ends = check_owned_one(app, owner, last).await?;
                // Ids of one submission are contiguous.
                if begins.submitted != ends.submitted {
                    return Err(wrong_owner(owner));
                }
            }
            Ok(())
        }
    }
}

async fn check_owned_run(app: &App, owner: &str, run: RunId) -> Answer<()> {
    if app.run_record(run).await?.head.owner == owner {
        Ok(())
    } else {
        Err(Fault::unknown_run(run))
    }
}

async fn check_owned_one(app: &App, owner: &str, id: InstanceId) -> Answer<Record> {
    let record = app.record(id).await?;
    if record.instance.spec.owner == owner {
        Ok(record)
    } else {
        Err(Fault::unknown_instance(id))
    }
}

/// Filters a list by this owner.
fn narrow(owner: &str, request: &mut Request) -> Answer<()> {
    let values = Query::<Vec<(String, String)>>::try_from_uri(request.uri());
    let Query(values) =
        values.map_err(|error| Fault::bad_request(format!("cannot parse the query: {error}")))?;
    let mut named = values.iter().filter(|(name, _)| name == "owner");
    if let Some((_, other)) = named.next() {
        return if other == owner {
            Ok(())
        } else {
            Err(wrong_owner(owner))
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

    use super::*;

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
