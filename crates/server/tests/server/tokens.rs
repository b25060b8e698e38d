//! Authorization: every request with every credential, and workers.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use baton_model::ids::TokenId;
use baton_model::time::Wall;
use baton_model::token::{NewToken, Role, Secret};
use baton_server::{Backend, Config, ROUTES, Route, STORE_FILE, ServeError, serve};
use baton_store::{FactLog as _, SqliteStore, Store, token};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::rig::{Got, Server, config, got, task, until};
use crate::worker::Worker;

/// Every route with its required role. This repeats the table of the server on purpose: a change of
/// authorization has to be made twice.
const WANTED: &[(&str, &str, &str)] = &[
    ("GET", "/healthz", "public"),
    ("GET", "/readyz", "public"),
    ("GET", "/", "viewer"),
    ("GET", "/openapi.json", "viewer"),
    ("GET", "/docs", "viewer"),
    ("GET", "/schemas/task.json", "public"),
    ("GET", "/schemas/workflow.json", "public"),
    ("GET", "/schemas/fleets.json", "public"),
    ("GET", "/metrics", "viewer"),
    ("POST", "/instances/", "operator"),
    ("GET", "/instances/{id}", "viewer"),
    ("DELETE", "/instances/{id}", "operator"),
    ("POST", "/instances/{id}/kill", "operator"),
    ("POST", "/instances/{id}/retry", "operator"),
    ("PUT", "/instances/{id}/limit", "operator"),
    ("GET", "/instances/{id}/errors", "viewer"),
    ("GET", "/instances/{id}/timeline", "viewer"),
    ("GET", "/instances/{id}/explain", "viewer"),
    ("GET", "/instances/{id}/processes", "viewer"),
    ("GET", "/instances/{id}/logs/{stream}", "viewer"),
    ("GET", "/runs/", "viewer"),
    ("POST", "/runs/", "operator"),
    ("GET", "/runs/{run}", "viewer"),
    ("DELETE", "/runs/{run}", "operator"),
    ("GET", "/runs/{run}/tasks/", "viewer"),
    ("POST", "/runs/{run}/tasks/", "operator"),
    ("GET", "/runs/{run}/items/", "viewer"),
    ("GET", "/runs/{run}/errors", "viewer"),
    ("POST", "/runs/{run}/start", "operator"),
    ("POST", "/runs/{run}/halt", "operator"),
    ("POST", "/runs/{run}/resume", "operator"),
    ("POST", "/runs/{run}/retry", "operator"),
    ("GET", "/bullpen/", "viewer"),
    ("GET", "/bullpen/reasons", "viewer"),
    ("GET", "/arena/", "viewer"),
    ("GET", "/history/", "viewer"),
    ("GET", "/history/ticks/", "viewer"),
    ("GET", "/library/", "viewer"),
    ("GET", "/{owner}/", "viewer"),
    ("GET", "/{owner}/usage", "viewer"),
    ("GET", "/{owner}/tasks/", "viewer"),
    ("POST", "/{owner}/tasks/", "operator"),
    ("GET", "/{owner}/tasks/{name}", "viewer"),
    ("PUT", "/{owner}/tasks/{name}", "operator"),
    ("DELETE", "/{owner}/tasks/{name}", "operator"),
    ("PUT", "/{owner}/tasks/{name}/paused", "operator"),
    ("GET", "/{owner}/tasks/{name}/due", "viewer"),
    ("GET", "/{owner}/tasks/{name}/revisions/", "viewer"),
    ("GET", "/{owner}/tasks/{name}/ticks/", "viewer"),
    ("POST", "/{owner}/tasks/{name}/run", "operator"),
    ("POST", "/{owner}/tasks/{name}/trigger", "operator"),
    ("POST", "/{owner}/tasks/{name}/backfills/", "operator"),
    ("GET", "/backfills/", "viewer"),
    ("GET", "/backfills/{backfill}", "viewer"),
    ("GET", "/backfills/{backfill}/launches/", "viewer"),
    ("POST", "/backfills/{backfill}/halt", "operator"),
    ("POST", "/backfills/{backfill}/resume", "operator"),
    ("POST", "/backfills/{backfill}/cancel", "operator"),
    ("GET", "/events", "viewer"),
    ("GET", "/usage/", "viewer"),
    ("GET", "/usage/tasks/", "viewer"),
    ("GET", "/usage/fleets/", "viewer"),
    ("GET", "/workers/", "viewer"),
    ("GET", "/workers/{name}", "viewer"),
    ("PUT", "/workers/{name}/drained", "operator"),
    ("POST", "/workers/{name}/forget", "admin"),
    ("GET", "/schedulers/", "viewer"),
    ("GET", "/limits/", "viewer"),
    ("GET", "/limits/{name}", "viewer"),
    ("PUT", "/limits/{name}", "operator"),
    ("DELETE", "/limits/{name}", "operator"),
    ("GET", "/shares/", "viewer"),
    ("PUT", "/shares/{owner}", "operator"),
    ("DELETE", "/shares/{owner}", "operator"),
    ("GET", "/fleets/", "viewer"),
    ("GET", "/fleets/{name}", "viewer"),
    ("PUT", "/fleets/{name}", "admin"),
    ("DELETE", "/fleets/{name}", "admin"),
    ("POST", "/fleets/{name}/trial", "admin"),
    ("PUT", "/fleets/{name}/paused", "operator"),
    ("GET", "/fleets/{name}/jobs/", "viewer"),
    ("GET", "/fleets/{name}/jobs/{job}/log", "viewer"),
    ("GET", "/alarms/", "viewer"),
    ("GET", "/secrets/", "viewer"),
    ("PUT", "/secrets/{owner}/{name}", "operator"),
    ("DELETE", "/secrets/{owner}/{name}", "operator"),
    ("POST", "/secrets/rekey", "admin"),
    ("GET", "/notifications/", "viewer"),
    ("GET", "/notifications/channels/", "viewer"),
    ("POST", "/notifications/channels/{channel}/test", "operator"),
    ("GET", "/tokens/", "admin"),
    ("POST", "/tokens/", "admin"),
    ("DELETE", "/tokens/{id}", "admin"),
];

pub(crate) fn store(data: &Path) -> SqliteStore {
    SqliteStore::open(&data.join(STORE_FILE)).expect("the store opens")
}

pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after");
    u64::try_from(since.as_millis()).expect("soon enough")
}

/// Creates a token like another process would.
pub(crate) fn made(store: &dyn Store, role: Role, expires_at: Option<u64>) -> (TokenId, Secret) {
    let secret = token::generate().expect("random bits");
    let id = keep(store, &secret, role, expires_at);
    (id, secret)
}

fn keep(store: &dyn Store, secret: &Secret, role: Role, expires_at: Option<u64>) -> TokenId {
    let new = NewToken {
        name: role.to_string(),
        role,
        owner: None,
        fleet: None,
        hash: token::hash(secret),
        created_at: Wall(now()),
        expires_at: expires_at.map(Wall),
    };
    store.create_token(&new).expect("kept")
}

pub(crate) fn demanding(data: &Path) -> Config {
    Config {
        require_tokens: true,
        ..config(data)
    }
}

/// A credential of a client, and its role if it is valid.
struct TestCredential {
    what: &'static str,
    header: Option<String>,
    role: Option<Role>,
}

/// All kinds of credentials, with a token of each kind in the store.
fn credentials(store: &dyn Store) -> Vec<TestCredential> {
    let bearer = |secret: &Secret| Some(format!("Bearer {}", secret.expose()));
    let mut all = vec![TestCredential {
        what: "nothing",
        header: None,
        role: None,
    }];
    let mut bad = |what, header| {
        all.push(TestCredential {
            what,
            header,
            role: None,
        });
    };
    let stranger = token::generate().expect("random bits");
    bad("an unknown token", bearer(&stranger));
    let (_, expired) = made(store, Role::Admin, Some(now() - 1));
    bad("an expired token", bearer(&expired));
    let (id, revoked) = made(store, Role::Admin, None);
    store.revoke_token(id).expect("there");
    bad("a revoked token", bearer(&revoked));
    let (_, good) = made(store, Role::Admin, None);
    let cut = &good.expose()[..good.expose().len() - 1];
    bad("half a token", Some(format!("Bearer {cut}")));
    bad("another scheme", Some(format!("Basic {}", good.expose())));
    bad("a token alone", Some(good.expose().to_owned()));
    bad("an empty header", Some(String::new()));
    for role in Role::ALL {
        let (_, secret) = made(store, role, Some(now() + 3_600_000));
        all.push(TestCredential {
            what: role.into_str(),
            header: bearer(&secret),
            role: Some(role),
        });
    }
    all
}

async fn request(server: &Server, method: &str, path: &str, shown: Option<&str>) -> Got {
    // Otherwise the response would not end.
    let query = if path.starts_with("/events") {
        "?follow=false"
    } else {
        ""
    };
    let path = format!("{path}{query}")
        .replace("{stream}", "stdout")
        .replace("{owner}", "rival")
        .replace("{name}", "unknown")
        .replace("/tokens/{id}", "/tokens/t999")
        .replace("{id}", "i999")
        .replace("{run}", "r999");
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    let mut request = server.request(method, &path);
    if let Some(shown) = shown {
        request = request.header("authorization", shown);
    }
    got(request).await
}

/// The path with a slash at its end if it has none, and without it otherwise.
fn other_form(path: &str) -> String {
    match path.strip_suffix('/') {
        Some(without) => without.to_owned(),
        None => format!("{path}/"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_is_answered_for_authorized_roles_only() {
    // A trigger URL is open to clients with the secret of its task; to others it is closed.
    let minimum_role = |it: &Route| {
        if it.path.ends_with("/trigger") {
            "operator"
        } else {
            it.minimum_role.map_or("public", |role| role.into_str())
        }
    };
    let listed: Vec<_> = ROUTES
        .iter()
        .map(|it| (it.method, it.path, minimum_role(it)))
        .collect();
    assert_eq!(listed, WANTED);
    let dir = tempfile::tempdir().expect("a place");
    let credentials = credentials(&store(dir.path()));
    let server = Server::start(demanding(dir.path())).await;
    for (method, path, minimum_role) in WANTED {
        for shown in &credentials {
            let what = format!("{method} {path} with {}", shown.what);
            let answer = request(&server, method, path, shown.header.as_deref()).await;
            let minimum_role: Option<Role> = minimum_role.parse().ok();
            let may = minimum_role
                .is_none_or(|minimum_role| shown.role.is_some_and(|it| it.covers(minimum_role)));
            let refused = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
            if may {
                assert!(!refused.contains(&answer.status), "{what}: {answer:?}");
                let missing = answer.body["detail"].as_str().unwrap_or_default();
                assert!(!missing.contains("no resource at this path"), "{what}");
                let method = StatusCode::METHOD_NOT_ALLOWED;
                assert_ne!(answer.status, method, "{what}");
            } else if shown.role.is_none() {
                answer.is_problem(StatusCode::UNAUTHORIZED, "unauthorized");
                assert_eq!(answer.headers["www-authenticate"], "Bearer", "{what}");
            } else {
                answer.is_problem(StatusCode::FORBIDDEN, "role");
                let minimum_role = minimum_role.expect("not public").into_str();
                assert!(answer.detail().contains(minimum_role), "{what}: {answer:?}");
            }
            let other = other_form(path);
            let same = request(&server, method, &other, shown.header.as_deref()).await;
            assert_eq!(same.status, answer.status, "{other}: {what}");
            if *method == "GET" {
                let head = request(&server, "HEAD", path, shown.header.as_deref()).await;
                assert_eq!(head.status, answer.status, "HEAD: {what}");
            }
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_made_listed_and_revoked_over_http_and_count_at_once() {
    let dir = tempfile::tempdir().expect("a place");
    let (_, admin) = made(&store(dir.path()), Role::Admin, None);
    let server = Server::start(demanding(dir.path())).await;
    let send = async |method, path: &str, body: serde_json::Value| {
        let request = server.request(method, path).bearer_auth(admin.expose());
        got(request.body(body.to_string())).await
    };
    let wanted = json!({"role": "viewer", "name": "ci", "lifetimeSeconds": 3_600});
    let created = send(Method::POST, "/tokens/", wanted).await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    assert_eq!(created.headers["cache-control"], "no-store");
    let secret = created.body["secret"]
        .as_str()
        .expect("a secret")
        .to_owned();
    let bearer = format!("Bearer {secret}");
    let look = async || {
        request(&server, "GET", "/bullpen/", Some(&bearer))
            .await
            .status
    };
    assert_eq!(look().await, StatusCode::OK);
    let listed = send(Method::GET, "/tokens/", json!(null)).await;
    assert_eq!(listed.body["total"], 2);
    let shown = &listed.body["items"][1];
    assert_eq!(
        (&shown["name"], &shown["role"]),
        (&json!("ci"), &json!("viewer"))
    );
    let end = shown["expiresAt"].as_u64().expect("it expires");
    assert_eq!(
        end,
        shown["createdAt"].as_u64().expect("a time") + 3_600_000
    );
    let text = listed.body.to_string();
    assert!(!text.contains(&secret) && !text.contains("hash"), "{text}");
    let path = format!("/tokens/{}", shown["id"].as_str().expect("an id"));
    let revoked = send(Method::DELETE, &path, json!(null)).await;
    assert_eq!(revoked.body["revoked"], true, "{revoked:?}");
    assert_eq!(look().await, StatusCode::UNAUTHORIZED);
    for (body, word) in [
        (json!({"role": "owner"}), "owner"),
        (json!({"role": "viewer", "name": "a\nb"}), "one line"),
        (json!({"role": "viewer", "colour": "red"}), "colour"),
    ] {
        let refused = send(Method::POST, "/tokens/", body).await;
        refused.is_problem(StatusCode::BAD_REQUEST, "bad-request");
        assert!(refused.detail().contains(word), "{refused:?}");
    }
    server.stop().await;
}

/// Every representation, asked for by a viewer: a new route is tested by being in the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn viewers_see_the_names_of_environment_variables_and_operators_also_their_values() {
    const VALUE: &str = "environment-value-7";
    let dir = tempfile::tempdir().expect("a place");
    let [viewer, operator] = [Role::Viewer, Role::Operator].map(|role| {
        let (_, secret) = made(&store(dir.path()), role, None);
        secret
    });
    let server = Server::start(demanding(dir.path())).await;
    let env = json!({ "PASSWORD": VALUE });
    let task = json!({ "task": "t", "owner": "ann", "run": "true", "env": env });
    let processes = json!([{ "name": "p", "run": "true", "env": env }]);
    let manifold = json!({ "task": "m", "owner": "ann", "processes": processes });
    let tasks = json!({ "a": { "run": "true", "env": env } });
    let workflow = json!({ "workflow": "w", "owner": "ann", "tasks": tasks });
    for (method, path, body) in [
        (Method::POST, "/instances/", json!({ "file": task })),
        (Method::POST, "/instances/", json!({ "file": manifold })),
        (Method::PUT, "/ann/tasks/t", task.clone()),
        (Method::PUT, "/ann/tasks/w", workflow.clone()),
        (Method::POST, "/runs/", json!({ "file": workflow })),
        (Method::POST, "/ann/tasks/t/run", json!({})),
    ] {
        let mut request = server
            .request(method.clone(), path)
            .bearer_auth(operator.expose());
        if method == Method::PUT {
            request = request.header("if-none-match", "*");
        }
        let answer = got(request.body(body.to_string())).await;
        assert!(answer.status.is_success(), "{path}: {answer:?}");
    }
    let look = async |path: &str, secret: &Secret| {
        let request = server
            .request(Method::GET, path)
            .bearer_auth(secret.expose());
        let response = request.send().await.expect("an answer");
        (response.status(), response.text().await.expect("a text"))
    };
    let mut shown_to_operators = Vec::new();
    for route in ROUTES.iter().filter(|route| route.method == "GET") {
        for (id, name) in [("i1", "t"), ("i2", "w")] {
            let path = route
                .path
                .replace("{stream}", "stdout")
                .replace("{owner}", "ann");
            let path = path
                .replace("{name}", name)
                .replace("{id}", id)
                .replace("{run}", "r1");
            let path = match route.path {
                "/events" => "/events?follow=false&after=0".to_owned(),
                _ => path,
            };
            let (_, seen) = look(&path, &viewer).await;
            assert!(!seen.contains(VALUE), "{path} shows a viewer: {seen}");
            let (status, all) = look(&path, &operator).await;
            if all.contains(VALUE) {
                assert_eq!(status, StatusCode::OK);
                assert!(seen.contains("PASSWORD"), "{path}: the name stays: {seen}");
                shown_to_operators.push(path);
            }
        }
    }
    for path in [
        "/instances/i1/timeline",
        "/instances/i2/timeline",
        "/events?follow=false&after=0",
        "/ann/tasks/t",
        "/ann/tasks/w",
        "/ann/tasks/t/revisions/",
    ] {
        let path = path.to_owned();
        assert!(
            shown_to_operators.contains(&path),
            "{path}: {shown_to_operators:?}"
        );
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_made_beside_a_running_server_counts_soon() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(demanding(dir.path())).await;
    let store = store(dir.path());
    let (id, secret) = made(&store, Role::Viewer, None);
    let bearer = format!("Bearer {}", secret.expose());
    let status = async || request(&server, "GET", "/", Some(&bearer)).await.status;
    assert!(until(async || status().await == StatusCode::OK).await);
    store.revoke_token(id).expect("there");
    assert!(until(async || status().await == StatusCode::UNAUTHORIZED).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_tokens_are_demanded_a_server_may_have_any_name() {
    let dir = tempfile::tempdir().expect("a place");
    let (_, secret) = made(&store(dir.path()), Role::Viewer, None);
    let server = Server::start(demanding(dir.path())).await;
    let named = |request: reqwest::RequestBuilder| got(request.header("host", "sched.example"));
    let request = || server.request(Method::GET, "/");
    let known = named(request().bearer_auth(secret.expose())).await;
    assert_eq!(known.status, StatusCode::OK);
    let page = named(request().header("origin", "http://evil.example")).await;
    page.is_problem(StatusCode::UNAUTHORIZED, "unauthorized");
    server.stop().await;
}

async fn refused(config: Config) -> ServeError {
    let never = std::future::pending();
    let served = serve(config, |_| (), never).await;
    served.expect_err("it must not start")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_others_can_reach_is_not_opened_without_a_valid_token() {
    let dir = tempfile::tempdir().expect("a place");
    let any = "0.0.0.0:0".parse().expect("an address");
    let config = || config(dir.path());
    let clients = || Config {
        listen: any,
        ..config()
    };
    let workers = || Config {
        worker_listen: any,
        ..config()
    };
    let store = store(dir.path());
    for round in 0..2 {
        for open in [clients(), workers()] {
            let error = refused(open).await.to_string();
            let command = format!(
                "`baton token create --role admin --data {}`",
                dir.path().display()
            );
            assert!(error.contains(&command), "round {round}: {error}");
        }
        // Neither of these is valid.
        made(&store, Role::Admin, Some(now() - 1));
        let (id, _) = made(&store, Role::Admin, None);
        store.revoke_token(id).expect("there");
    }
    for open in [clients(), demanding(dir.path())] {
        let memory = Config {
            backend: Backend::Memory,
            ..open
        };
        let error = refused(memory).await.to_string();
        assert!(error.contains("--store sqlite"), "{error}");
    }
    made(&store, Role::Admin, None);
    let server = Server::start(clients()).await;
    let status = server.get("/").await.status;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    server.stop().await;
    let server = Server::start(workers()).await;
    assert_eq!(server.get("/").await.status, StatusCode::OK, "on loopback");
    let stranger = server.worker("w").await;
    until_refused(&stranger, "sends no token").await;
    server.stop().await;
}

pub(crate) async fn until_refused(worker: &Worker, reason: &str) {
    let refused = async || {
        let refusal = worker.observed.refusal.lock().expect("no panic");
        refusal.as_ref().is_some_and(|it| it.contains(reason))
    };
    assert!(until(refused).await, "{:?}", worker.observed);
}

pub(crate) async fn names(server: &Server, admin: &Secret) -> Vec<String> {
    let request = server.request(Method::GET, "/workers/");
    let workers = got(request.bearer_auth(admin.expose())).await.body;
    let workers = workers["items"].as_array().expect("a list").iter();
    let healthy = workers.filter(|it| it["state"] == "HEALTHY");
    healthy
        .map(|it| it["name"].as_str().expect("a name").to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_workers_with_a_valid_token_get_a_seat_and_others_get_the_reason() {
    let dir = tempfile::tempdir().expect("a place");
    let store = store(dir.path());
    let (_, admin) = made(&store, Role::Admin, None);
    let (id, good) = made(&store, Role::Worker, None);
    let (_, viewer) = made(&store, Role::Viewer, None);
    let (_, expired) = made(&store, Role::Worker, Some(now() - 1));
    let own = token::generate().expect("random bits");
    let config = Config {
        own_worker: Some(own.clone()),
        ..demanding(dir.path())
    };
    let server = Server::start(config).await;
    let late = token::generate().expect("random bits");
    let strangers = [
        (server.worker("none").await, "sends no token"),
        (server.worker_with("viewer", &viewer), "role viewer"),
        (server.worker_with("expired", &expired), "has expired"),
    ];
    let waiting = server.worker_with("late", &late);
    for (worker, reason) in &strangers {
        until_refused(worker, reason).await;
    }
    until_refused(&waiting, "is unknown").await;
    keep(&store, &late, Role::Worker, None);
    let seated_one = server.worker_with("good", &good);
    let _admin = server.worker_with("admin", &admin);
    let _own = server.worker_with("own", &own);
    let seats = ["admin", "good", "late", "own"];
    let mut seen = Vec::new();
    let seated = until(async || {
        seen = names(&server, &admin).await;
        seen.sort();
        seen == seats
    });
    assert!(seated.await, "{seen:?}");
    // A connected worker is cut off when its token is revoked.
    store.revoke_token(id).expect("there");
    until_refused(&seated_one, "was revoked").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_cannot_pose_as_one_of_another_token() {
    let dir = tempfile::tempdir().expect("a place");
    let store = store(dir.path());
    let (_, admin) = made(&store, Role::Admin, None);
    let (id, first) = made(&store, Role::Worker, None);
    let (_, other) = made(&store, Role::Worker, None);
    let server = Server::start(demanding(dir.path())).await;
    let get = async |path: &str| {
        let request = server.request(Method::GET, path);
        got(request.bearer_auth(admin.expose())).await.body
    };
    let w1 = server.worker_with("w1", &first);
    let submission = server.request(Method::POST, "/instances/");
    let submission = submission.header("content-type", "application/json");
    let submission = submission.body(task("hold").to_string());
    let held = got(submission.bearer_auth(admin.expose())).await;
    assert_eq!(held.status, StatusCode::CREATED, "{held:?}");
    assert!(until(async || get("/instances/i1").await["state"] == "RUNNING").await);
    let address = server.ready.workers;
    let [same, next] =
        [1, 2].map(|life| Worker::start_life(address, "w1", life, Some(other.clone())));
    for impostor in [&same, &next] {
        until_refused(impostor, &format!("belongs to worker (token {id})")).await;
        until_refused(impostor, "baton forget w1").await;
    }
    drop(same);
    // What w1 runs is untouched, over the connection that it has had all the time.
    let held = get("/instances/i1").await;
    assert_eq!(
        (&held["state"], &held["attempts"]),
        (&json!("RUNNING"), &json!(1))
    );
    assert_eq!(get("/workers/w1").await["incarnation"], 1);
    assert_eq!(w1.observed.connections.load(Ordering::SeqCst), 1);
    assert!(!w1.observed.dying.load(Ordering::SeqCst));
    // An operator who replaces a token revokes the old one, which releases its names.
    store.revoke_token(id).expect("there");
    assert!(until(async || get("/workers/w1").await["incarnation"] == 2).await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_token_is_required_one_that_is_sent_does_no_harm() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let stranger = token::generate().expect("random bits");
    let _worker = server.worker_with("w", &stranger);
    let path = server.submit("work").await;
    server.until_state(&path, "DONE").await;
    let request = server.request(Method::GET, "/").bearer_auth("nonsense");
    assert_eq!(got(request).await.status, StatusCode::OK);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_secret_of_a_task_opens_its_trigger_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a place");
    let (_, operator) = made(&store(dir.path()), Role::Operator, None);
    let server = Server::start(demanding(dir.path())).await;
    // Of `sesame`.
    let hash = "d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272";
    for (name, trigger) in [
        ("closed", json!({"remote": true})),
        ("open", json!({"remote": true, "secret_sha256": hash})),
    ] {
        let file = json!({"task": name, "run": ["true"], "trigger": trigger});
        let request = server.request(Method::POST, "/lab/tasks/");
        let request = request.bearer_auth(operator.expose());
        let added = got(request.body(file.to_string())).await;
        assert_eq!(added.status, StatusCode::CREATED, "{added:?}");
    }
    let show = async |path: &str, secret: &str| {
        let request = server.request(Method::POST, path);
        got(request.header("baton-trigger-secret", secret)).await
    };
    let anonymous = got(server.request(Method::POST, "/lab/tasks/open/trigger")).await;
    anonymous.is_problem(StatusCode::UNAUTHORIZED, "unauthorized");
    let wrong = show("/lab/tasks/open/trigger", "barley").await;
    wrong.is_problem(StatusCode::FORBIDDEN, "secret");
    let without = show("/lab/tasks/closed/trigger", "sesame").await;
    without.is_problem(StatusCode::FORBIDDEN, "secret");
    let by_hand = show("/lab/tasks/open/run", "sesame").await;
    by_hand.is_problem(StatusCode::UNAUTHORIZED, "unauthorized");
    let opened = show("/lab/tasks/open/trigger", "sesame").await;
    assert_eq!(opened.status, StatusCode::ACCEPTED, "{opened:?}");
    let request = server.request(Method::POST, "/lab/tasks/closed/trigger");
    let known = got(request.bearer_auth(operator.expose())).await;
    assert_eq!(known.status, StatusCode::ACCEPTED, "{known:?}");
    server.stop().await;
}

/// Every request with a token of another owner: objects of an owner, instances and the server are
/// closed, and lists show only own objects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_for_one_owner_reaches_nothing_of_another() {
    let dir = tempfile::tempdir().expect("a place");
    let held = store(dir.path());
    let (_, admin) = made(&held, Role::Admin, None);
    let secret = token::generate().expect("random bits");
    let new = NewToken {
        name: "lab".to_owned(),
        role: Role::Operator,
        owner: Some("lab".to_owned()),
        fleet: None,
        hash: token::hash(&secret),
        created_at: Wall(now()),
        expires_at: None,
    };
    held.create_token(&new).expect("kept");
    let server = Server::start(demanding(dir.path())).await;
    let send = async |who: &Secret, method: Method, path: &str, body: serde_json::Value| {
        let request = server.request(method, path).bearer_auth(who.expose());
        got(request.body(body.to_string())).await
    };
    let submission = |owner: &str| json!({"file": {"task": "t", "owner": owner, "run": ["true"]}});
    let task = json!({"task": "unknown", "run": ["true"], "trigger": {"remote": true}});
    let workflow = |owner: &str| {
        let tasks = json!({"a": {"run": ["true"]}});
        json!({"file": {"workflow": "w", "owner": owner, "tasks": tasks}, "open": true})
    };
    for owner in ["lab", "rival"] {
        let run = send(&admin, Method::POST, "/runs/", workflow(owner)).await;
        assert_eq!(run.status, StatusCode::CREATED, "{run:?}");
        let submitted = send(&admin, Method::POST, "/instances/", submission(owner)).await;
        assert_eq!(submitted.status, StatusCode::CREATED);
        let path = format!("/{owner}/tasks/");
        let added = send(&admin, Method::POST, &path, task.clone()).await;
        assert_eq!(added.status, StatusCode::CREATED);
    }
    let bearer = format!("Bearer {}", secret.expose());
    for (method, path, minimum_role) in WANTED {
        if *minimum_role == "admin" {
            continue;
        }
        // The second instance and the second run belong to another owner.
        let foreign = path.replace("{id}", "i2").replace("{run}", "r2");
        let foreign = foreign.replace("{backfill}", "b2");
        let answer = request(&server, method, &foreign, Some(&bearer)).await;
        let what = format!("{method} {foreign}: {answer:?}");
        let lists = [
            "/bullpen",
            "/arena",
            "/history",
            "/library",
            "/usage",
            "/usage/tasks",
            "/events",
            "/runs",
            "/backfills",
        ];
        let lists = |path: &str| *method == "GET" && lists.contains(&path);
        if path.contains("{owner}") || path.ends_with("/drained") || path.contains("ticks") {
            answer.is_problem(StatusCode::FORBIDDEN, "owner");
            assert!(answer.detail().contains("lab"), "{what}");
        } else if ["{id}", "{run}", "{backfill}"]
            .iter()
            .any(|it| path.contains(it))
        {
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{what}");
            // Objects of other owners are indistinguishable from missing ones.
            let never = path.replace("{id}", "i999").replace("{run}", "r999");
            let never = never.replace("{backfill}", "b999");
            let never = request(&server, method, &never, Some(&bearer)).await;
            let same = answer.detail().replace("i2", "i999").replace("r2", "r999");
            let same = same.replace("b2", "b999");
            assert_eq!(same, never.detail(), "{what}");
        } else if lists(path.trim_end_matches('/')) {
            assert_eq!(answer.status, StatusCode::OK, "{what}");
            let text = answer.body.to_string();
            assert!(!text.contains("rival"), "{what}");
        }
    }
    let own = |method, path: &'static str, body| send(&secret, method, path, body);
    let bullpen = own(Method::GET, "/bullpen/", json!(null)).await.body;
    assert_eq!(bullpen["items"][0]["id"], "i1", "{bullpen}");
    assert_eq!(bullpen["items"][1], json!(null));
    let other = own(Method::GET, "/bullpen/?owner=rival", json!(null)).await;
    other.is_problem(StatusCode::FORBIDDEN, "owner");
    let both = own(Method::DELETE, "/instances/i1..i2", json!(null)).await;
    both.is_problem(StatusCode::NOT_FOUND, "not-found");
    for (path, foreign, never) in [
        ("/instances/i1..", "i2", "i999"),
        ("/events?follow=false&instance=", "i2", "i999"),
        ("/events?follow=false&run=", "r2", "r999"),
    ] {
        let look = async |id: &str| {
            let request = server.request(Method::GET, &format!("{path}{id}"));
            got(request.bearer_auth(secret.expose())).await
        };
        let (foreign, never) = ((foreign, look(foreign).await), (never, look(never).await));
        foreign.1.is_problem(StatusCode::NOT_FOUND, "not-found");
        let same = foreign.1.detail().replace(foreign.0, never.0);
        assert_eq!(same, never.1.detail());
    }
    let theirs = own(Method::POST, "/instances/", submission("rival")).await;
    theirs.is_problem(StatusCode::FORBIDDEN, "owner");
    let theirs = own(Method::POST, "/runs/", workflow("rival")).await;
    theirs.is_problem(StatusCode::FORBIDDEN, "owner");
    let runs = own(Method::GET, "/runs/", json!(null)).await.body;
    assert_eq!(runs["items"][0]["id"], "r1", "{runs}");
    assert_eq!(runs["items"][1], json!(null));
    let halted = own(Method::DELETE, "/runs/r1", json!(null)).await;
    assert_eq!(halted.status, StatusCode::ACCEPTED, "{halted:?}");
    // A run keeps its owner, whatever file it is resumed with.
    let taken = json!({"file": workflow("rival")["file"]});
    let taken = own(Method::POST, "/runs/r1/resume", taken).await;
    taken.is_problem(StatusCode::FORBIDDEN, "owner");
    let mine = json!({"file": {"task": "t", "run": ["true"]}, "array": {"from": 1, "to": 9}});
    let mine = own(Method::POST, "/instances/", mine).await;
    assert_eq!(mine.status, StatusCode::CREATED, "{mine:?}");
    let array = own(Method::DELETE, "/instances/i3..i11", json!(null)).await;
    assert_eq!(array.status, StatusCode::ACCEPTED, "{array:?}");
    let run = own(Method::POST, "/lab/tasks/unknown/run", json!({})).await;
    assert_eq!(run.status, StatusCode::ACCEPTED, "{run:?}");
    let trigger = own(Method::POST, "/lab/tasks/unknown/trigger", json!({})).await;
    assert_eq!(trigger.status, StatusCode::ACCEPTED, "{trigger:?}");
    let wanted = json!({"role": "admin", "owner": "lab"});
    let refused = send(&admin, Method::POST, "/tokens/", wanted).await;
    refused.is_problem(StatusCode::BAD_REQUEST, "bad-request");
    for (after, status) in [
        ("i1", StatusCode::CREATED),
        ("i2", StatusCode::NOT_FOUND),
        ("r2", StatusCode::NOT_FOUND),
    ] {
        let mut body = submission("lab");
        body["after"] = json!([after]);
        let answer = send(&secret, Method::POST, "/instances/", body).await;
        assert_eq!(answer.status, status, "after {after}: {answer:?}");
    }
    server.stop().await;
}
