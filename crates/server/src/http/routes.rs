//! The table of routes: the only place where a route is registered.
//!
//! The router, the roles, the scopes of owners' tokens and the OpenAPI document come from it.
//! Default deny: a route that is missing here is never served, so no route is public by omission.
//!
//! A path is written as links show it: that of a collection ends with a slash. Requests may omit
//! the slash, or add one; [`serve`] removes it before routing.

use axum::Router;
use axum::http::Method;
use axum::routing::{MethodFilter, on};
use baton_model::token::Role;
use tower_http::normalize_path::NormalizePath;

use super::app::App;
use super::owners::Scope;
use super::{
    alarms, array_limits, backfills, cluster_limits, events, fleet, fleets, instances, library,
    lists, logs, metrics, notifications, openapi, owner, processes, ranges, runs, schedulers,
    schemas, secrets, server, shares, tokens, usage, waits,
};

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// HTTP method. GET includes HEAD.
    pub method: &'static str,
    /// Path pattern.
    pub path: &'static str,
    /// The minimum role; `None` for a public route.
    pub minimum_role: Option<Role>,
    /// The objects that it concerns.
    pub(super) scope: Scope,
}

const PUBLIC: Option<Role> = None;
const VIEWER: Option<Role> = Some(Role::Viewer);
const OPERATOR: Option<Role> = Some(Role::Operator);
const ADMIN: Option<Role> = Some(Role::Admin);

/// Derives everything from the lines of the table.
macro_rules! routes {
    ($($method:ident $path:literal $role:ident $scope:ident $($handler:ident)::+;)+) => {
        /// All routes.
        pub const ROUTES: &[Route] = &[$(Route {
            method: stringify!($method),
            path: $path,
            minimum_role: $role,
            scope: Scope::$scope,
        }),+];

        /// The handlers of all routes.
        pub(super) fn router() -> Router<App> {
            Router::new()
                $(.route(pattern($path), on(MethodFilter::$method, $($handler)::+)))+
        }

        /// The annotations of the handlers, in the order of [`ROUTES`].
        #[cfg(feature = "openapi")]
        pub(super) fn annotations() -> Vec<utoipa::openapi::OpenApi> {
            use utoipa::OpenApi as _;
            vec![$({
                #[derive(utoipa::OpenApi)]
                #[openapi(paths($($handler)::+))]
                struct Annotation;
                Annotation::openapi()
            }),+]
        }
    };
}

routes! {
    GET    "/healthz"                         PUBLIC   Unowned     server::health;
    GET    "/readyz"                          PUBLIC   Unowned     server::ready;
    GET    "/"                                VIEWER   Unowned     server::root;
    GET    "/openapi.json"                    VIEWER   Unowned     openapi::document;
    GET    "/docs"                            VIEWER   Unowned     openapi::docs;
    GET    "/schemas/task.json"               PUBLIC   Unowned     schemas::task;
    GET    "/schemas/workflow.json"           PUBLIC   Unowned     schemas::workflow;
    GET    "/schemas/fleets.json"             PUBLIC   Unowned     schemas::fleets;
    GET    "/metrics"                         VIEWER   Server      metrics::show;
    POST   "/instances/"                      OPERATOR Submission  instances::submit;
    GET    "/instances/{id}"                  VIEWER   Instance    instances::show;
    DELETE "/instances/{id}"                  OPERATOR Instance    instances::cancel;
    POST   "/instances/{id}/kill"             OPERATOR Instance    instances::kill;
    POST   "/instances/{id}/retry"            OPERATOR Instance    instances::retry;
    PUT    "/instances/{id}/limit"            OPERATOR Instance    array_limits::set;
    GET    "/instances/{id}/errors"           VIEWER   Instance    ranges::errors;
    GET    "/instances/{id}/timeline"         VIEWER   Instance    lists::timeline;
    GET    "/instances/{id}/explain"          VIEWER   Instance    instances::explain;
    GET    "/instances/{id}/processes"        VIEWER   Instance    processes::read;
    GET    "/instances/{id}/logs/{stream}"    VIEWER   Instance    logs::read;
    GET    "/runs/"                           VIEWER   List        runs::read::list;
    POST   "/runs/"                           OPERATOR Submission  runs::change::submit;
    GET    "/runs/{run}"                      VIEWER   Run         runs::read::show;
    DELETE "/runs/{run}"                      OPERATOR Run         runs::change::kill;
    GET    "/runs/{run}/tasks/"               VIEWER   Run         runs::read::tasks;
    POST   "/runs/{run}/tasks/"               OPERATOR Run         runs::change::extend;
    GET    "/runs/{run}/items/"               VIEWER   Run         runs::items::list;
    GET    "/runs/{run}/errors"               VIEWER   Run         runs::read::errors;
    POST   "/runs/{run}/start"                OPERATOR Run         runs::change::start;
    POST   "/runs/{run}/halt"                 OPERATOR Run         runs::change::halt;
    POST   "/runs/{run}/resume"               OPERATOR Run         runs::resume::resume;
    POST   "/runs/{run}/retry"                OPERATOR Run         runs::resume::retry;
    GET    "/bullpen/"                        VIEWER   List        lists::bullpen;
    GET    "/bullpen/reasons"                 VIEWER   List        waits::list;
    GET    "/arena/"                          VIEWER   List        lists::arena;
    GET    "/history/"                        VIEWER   List        lists::history;
    GET    "/history/ticks/"                  VIEWER   Server      library::ticks::all;
    GET    "/library/"                        VIEWER   List        library::read::list;
    GET    "/{owner}/"                        VIEWER   OwnerInPath owner::show;
    GET    "/{owner}/usage"                   VIEWER   OwnerInPath usage::of_owner;
    GET    "/{owner}/tasks/"                  VIEWER   OwnerInPath library::read::of_owner;
    POST   "/{owner}/tasks/"                  OPERATOR OwnerInPath library::change::create;
    GET    "/{owner}/tasks/{name}"            VIEWER   OwnerInPath library::read::show;
    PUT    "/{owner}/tasks/{name}"            OPERATOR OwnerInPath library::change::replace;
    DELETE "/{owner}/tasks/{name}"            OPERATOR OwnerInPath library::change::remove;
    PUT    "/{owner}/tasks/{name}/paused"     OPERATOR OwnerInPath library::pause::set;
    GET    "/{owner}/tasks/{name}/due"        VIEWER   OwnerInPath library::read::due;
    GET    "/{owner}/tasks/{name}/revisions/" VIEWER   OwnerInPath library::read::revisions;
    GET    "/{owner}/tasks/{name}/ticks/"     VIEWER   OwnerInPath library::ticks::of_task;
    POST   "/{owner}/tasks/{name}/run"        OPERATOR OwnerInPath library::trigger::by_hand;
    // Its handler requires an operator's token, or the secret of the task.
    POST   "/{owner}/tasks/{name}/trigger"    PUBLIC   OwnerInPath library::trigger::remote;
    POST   "/{owner}/tasks/{name}/backfills/" OPERATOR OwnerInPath backfills::register;
    GET    "/backfills/"                      VIEWER   List        backfills::list;
    GET    "/backfills/{backfill}"            VIEWER   Backfill    backfills::show;
    GET    "/backfills/{backfill}/launches/"  VIEWER   Backfill    backfills::launches;
    POST   "/backfills/{backfill}/halt"       OPERATOR Backfill    backfills::halt;
    POST   "/backfills/{backfill}/resume"     OPERATOR Backfill    backfills::resume;
    POST   "/backfills/{backfill}/cancel"     OPERATOR Backfill    backfills::cancel;
    GET    "/events"                          VIEWER   List        events::follow;
    GET    "/usage/"                          VIEWER   List        usage::list;
    GET    "/usage/tasks/"                    VIEWER   List        usage::tasks;
    GET    "/usage/fleets/"                   VIEWER   Server      usage::fleets;
    GET    "/workers/"                        VIEWER   Unowned     fleet::list;
    GET    "/workers/{name}"                  VIEWER   Unowned     fleet::show;
    PUT    "/workers/{name}/drained"          OPERATOR Server      fleet::drain;
    POST   "/workers/{name}/forget"           ADMIN    Server      fleet::forget;
    GET    "/schedulers/"                     VIEWER   Unowned     schedulers::list;
    GET    "/limits/"                         VIEWER   Unowned     cluster_limits::list;
    GET    "/limits/{name}"                   VIEWER   Unowned     cluster_limits::show;
    PUT    "/limits/{name}"                   OPERATOR Server      cluster_limits::set;
    DELETE "/limits/{name}"                   OPERATOR Server      cluster_limits::remove;
    GET    "/shares/"                         VIEWER   Unowned     shares::list;
    PUT    "/shares/{owner}"                  OPERATOR Server      shares::set;
    DELETE "/shares/{owner}"                  OPERATOR Server      shares::remove;
    GET    "/fleets/"                         VIEWER   Unowned     fleets::list;
    GET    "/fleets/{name}"                   VIEWER   Unowned     fleets::show;
    PUT    "/fleets/{name}"                   ADMIN    Server      fleets::define;
    DELETE "/fleets/{name}"                   ADMIN    Server      fleets::remove;
    POST   "/fleets/{name}/trial"             ADMIN    Server      fleets::try_out;
    PUT    "/fleets/{name}/paused"            OPERATOR Server      fleets::pause;
    GET    "/fleets/{name}/jobs/"             VIEWER   Unowned     fleets::jobs;
    GET    "/fleets/{name}/jobs/{job}/log"    VIEWER   Server      fleets::log;
    GET    "/alarms/"                         VIEWER   List        alarms::list;
    GET    "/secrets/"                        VIEWER   List        secrets::list;
    PUT    "/secrets/{owner}/{name}"          OPERATOR OwnerInPath secrets::set;
    DELETE "/secrets/{owner}/{name}"          OPERATOR OwnerInPath secrets::remove;
    POST   "/secrets/rekey"                   ADMIN    Server      secrets::rekey;
    GET    "/notifications/"                  VIEWER   List        notifications::list;
    GET    "/notifications/channels/"         VIEWER   Server      notifications::channels;
    POST   "/notifications/channels/{channel}/test" OPERATOR Server notifications::test;
    GET    "/tokens/"                         ADMIN    Server      tokens::list;
    POST   "/tokens/"                         ADMIN    Server      tokens::create;
    DELETE "/tokens/{id}"                     ADMIN    Server      tokens::revoke;
}

/// A router behind the layer that removes trailing slashes.
pub(super) type Service = NormalizePath<Router>;

/// Puts a router with the patterns of the table behind the layer that removes trailing slashes.
pub(super) fn serve(router: Router) -> Service {
    NormalizePath::trim_trailing_slash(router)
}

/// The path as the router matches it: without a trailing slash.
fn pattern(path: &str) -> &str {
    match path.strip_suffix('/') {
        None | Some("") => path,
        Some(path) => path,
    }
}

/// The path of the table that a pattern of the router belongs to.
pub(super) fn path_of(matched: &str) -> Option<&'static str> {
    let mut routes = ROUTES.iter();
    let route = routes.find(|route| pattern(route.path) == matched);
    route.map(|route| route.path)
}

/// The route of a request whose path matches this pattern of the router, if it takes the method.
pub(super) fn find(method: &Method, matched: &str) -> Option<&'static Route> {
    let method = match *method {
        Method::HEAD => "GET",
        ref other => other.as_str(),
    };
    let mut routes = ROUTES.iter();
    routes.find(|route| route.method == method && pattern(route.path) == matched)
}

#[cfg(test)]
mod tests {
    use baton_model::library::RESERVED_OWNERS;

    use super::*;

    #[test]
    fn a_request_has_one_route_and_head_has_that_of_get() {
        for route in ROUTES {
            let same = |other: &&Route| {
                (other.method, pattern(other.path)) == (route.method, pattern(route.path))
            };
            assert_eq!(ROUTES.iter().filter(same).count(), 1, "{route:?}");
            let looks = route.minimum_role == VIEWER;
            assert!(!looks || route.method == "GET", "{route:?}");
        }
        let of = |method| find(&method, "/instances/{id}").map(|route| route.minimum_role);
        assert_eq!(of(Method::HEAD), Some(VIEWER));
        assert_eq!(of(Method::DELETE), Some(OPERATOR));
        assert_eq!(of(Method::PATCH), None);
        assert_eq!(find(&Method::GET, "/nothing"), None);
    }

    #[test]
    fn no_owner_has_the_first_segment_of_a_route() {
        let first = |path: &'static str| path.split('/').nth(1).unwrap_or_default();
        let mut segments: Vec<&str> = ROUTES.iter().map(|route| first(route.path)).collect();
        // Addresses below it are those of pages alone, and in no table.
        segments.push("-");
        segments.retain(|segment| !segment.is_empty() && !segment.starts_with('{'));
        segments.sort_unstable();
        segments.dedup();
        assert_eq!(segments, RESERVED_OWNERS);
    }

    #[test]
    fn a_matched_pattern_leads_back_to_the_path_that_links_show() {
        for route in ROUTES {
            assert_eq!(path_of(pattern(route.path)), Some(route.path));
        }
        assert_eq!(path_of("/nothing"), None);
    }

    #[test]
    fn what_changes_the_server_is_closed_to_tokens_of_an_owner() {
        let closed: Vec<_> = ROUTES
            .iter()
            .filter(|route| route.scope == Scope::Server)
            .map(|route| (route.method, route.path))
            .collect();
        for route in [
            ("PUT", "/workers/{name}/drained"),
            ("POST", "/workers/{name}/forget"),
            ("PUT", "/limits/{name}"),
            ("DELETE", "/limits/{name}"),
            ("PUT", "/shares/{owner}"),
            ("DELETE", "/shares/{owner}"),
            ("PUT", "/fleets/{name}"),
            ("DELETE", "/fleets/{name}"),
            ("POST", "/fleets/{name}/trial"),
            ("POST", "/secrets/rekey"),
            ("POST", "/tokens/"),
            ("DELETE", "/tokens/{id}"),
            ("GET", "/metrics"),
            ("GET", "/history/ticks/"),
        ] {
            assert!(closed.contains(&route), "{route:?}");
        }
    }
}
