//! Owners as resources, and links that lead to them.

use baton_model::token::Role;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::rig::{Server, config, got};
use crate::tokens::{demanding, made, store};

async fn define(server: &Server, owner: &str) {
    let file = json!({"task": "nightly", "run": "true"});
    let path = format!("/{owner}/tasks/");
    let made = server.send(Method::POST, &path, &file).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_links_to_what_belongs_to_it() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    define(&server, "ann").await;
    define(&server, "bob").await;
    let ann = server.get("/ann/").await;
    assert_eq!(
        (ann.status, &ann.body["name"]),
        (StatusCode::OK, &json!("ann"))
    );
    let links = ann.body["links"].as_object().expect("links").clone();
    for (relation, target) in [
        ("self", "/ann/"),
        ("tasks", "/ann/tasks/"),
        ("create-task", "POST /ann/tasks/"),
        ("usage", "/ann/usage"),
        ("runs", "/runs/?owner=ann"),
        ("history", "/history/?owner=ann"),
        ("secrets", "/secrets/?owner=ann"),
    ] {
        assert_eq!(links[relation], target);
    }
    for (relation, target) in &links {
        let target = target.as_str().expect("a text");
        if !target.contains(' ') && relation != "events" {
            let there = server.get(target).await;
            assert_eq!(there.status, StatusCode::OK, "{relation}: {there:?}");
        }
    }
    let tasks = server.get("/ann/tasks/").await.body;
    assert_eq!(tasks["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(tasks["links"]["owner"], "/ann/");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_is_known_by_anything_of_it_and_otherwise_is_not() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let status = async |path: &str| server.get(path).await.status;
    for unknown in ["/ann/", "/ann", "/favicon.ico", "/-/"] {
        assert_eq!(status(unknown).await, StatusCode::NOT_FOUND, "{unknown}");
    }
    // The first segments of other paths are no owners.
    assert_eq!(status("/arena/usage").await, StatusCode::NOT_FOUND);
    let one = json!({"file": {"task": "t", "owner": "ann", "run": "true"}});
    let made = server.send(Method::POST, "/instances/", &one).await;
    assert_eq!(made.status, StatusCode::CREATED);
    assert_eq!(status("/ann").await, StatusCode::OK, "it waits");
    let run = json!({"file": {"workflow": "w", "owner": "carl", "tasks": {"a": {"run": "true"}}}});
    let made = server.send(Method::POST, "/runs/", &run).await;
    assert_eq!(made.status, StatusCode::CREATED);
    assert_eq!(status("/carl/").await, StatusCode::OK, "it has a run");
    assert_eq!(status("/dora/").await, StatusCode::NOT_FOUND);
    let path = made.body["links"]["control"]
        .as_str()
        .expect("a run")
        .to_owned();
    assert_eq!(server.delete(&path).await.status, StatusCode::ACCEPTED);
    assert_eq!(
        server.delete("/instances/i1").await.status,
        StatusCode::ACCEPTED
    );
    for ended in ["/ann/", "/carl/"] {
        assert_eq!(status(ended).await, StatusCode::OK, "its usage is kept");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_usage_of_an_owner_is_that_of_the_list_filtered_by_it() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    for owner in ["ann", "bob", "ann"] {
        let one = json!({"file": {"task": "t", "owner": owner, "run": "true"}});
        server.send(Method::POST, "/instances/", &one).await;
    }
    assert_eq!(
        server.delete("/instances/i1..i3").await.status,
        StatusCode::ACCEPTED
    );
    let of_ann = server.get("/ann/usage").await.body;
    let filtered = server.get("/usage/?owner=ann").await.body;
    assert_eq!(of_ann["items"], filtered["items"]);
    let halted = |item: &Value| item["halted"].as_u64().unwrap_or_default();
    let items = of_ann["items"].as_array().expect("items");
    assert_eq!(items.iter().map(halted).sum::<u64>(), 2, "{of_ann}");
    assert_eq!(of_ann["links"]["self"], "/ann/usage");
    let wrong = server.get("/ann/usage?owner=bob").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_an_owner_reads_its_owner_only() {
    let dir = tempfile::tempdir().expect("a place");
    let (_, admin) = made(&store(dir.path()), Role::Admin, None);
    let server = Server::start(demanding(dir.path())).await;
    let request = server.request(Method::POST, "/tokens/");
    let request = request.header("authorization", format!("Bearer {}", admin.expose()));
    let made = got(request.json(&json!({"role": "viewer", "owner": "ann"}))).await;
    let secret = made.body["secret"].as_str().expect("a secret");
    let bearer = format!("Bearer {secret}");
    let ask = async |path: &str| {
        let request = server.request(Method::GET, path);
        got(request.header("authorization", &bearer)).await.status
    };
    assert_eq!(ask("/ann/usage").await, StatusCode::OK);
    assert_eq!(
        ask("/ann/").await,
        StatusCode::NOT_FOUND,
        "nothing is there yet"
    );
    for other in ["/bob/", "/bob/usage"] {
        assert_eq!(ask(other).await, StatusCode::FORBIDDEN, "{other}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_are_created_where_links_say() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let link = async |path: &str| server.get(path).await.body["links"]["create-task"].clone();
    assert_eq!(link("/").await, "POST /{owner}/tasks/");
    assert_eq!(link("/library/").await, "POST /{owner}/tasks/");
    assert_eq!(link("/library/?owner=ann").await, "POST /ann/tasks/");
    let link = link("/a%20b/tasks/").await;
    assert_eq!(link, "POST /a%20b/tasks/");
    let history = server.get("/history/").await.body;
    assert_eq!(history["links"]["ticks"], "/history/ticks/");
    server.stop().await;
}
