//! Each representation names its type: over all routes that read.

use std::collections::BTreeSet;

use baton_model::api::MEDIA_TYPE;
use baton_server::ROUTES;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::rig::{Got, Server, config, got, task};

const DOCUMENT: &str = include_str!("../../../../docs/openapi.json");

/// Values for the parameters of paths, by their place. A new route that needs another one fails below.
const VALUES: &[(&str, &str)] = &[
    ("/instances/{id}", "/instances/i1"),
    ("/runs/{run}", "/runs/r1"),
    ("/backfills/{backfill}", "/backfills/b1"),
    ("/workers/{name}", "/workers/w1"),
    ("/limits/{name}", "/limits/license"),
    ("/fleets/{name}", "/fleets/spare"),
    ("/{owner}/tasks/{name}", "/ann/tasks/nightly"),
    ("/{owner}/", "/ann/"),
];

/// Routes whose representation needs more than a server and a silent worker.
const UNREAD: &[&str] = &[
    // Its worker answers it.
    "/instances/{id}/processes",
    // A job of a cluster manager.
    "/fleets/{name}/jobs/{job}/log",
];

/// The type that a response names, with its version.
fn named(got: &Got) -> Option<String> {
    let link = got.headers.get("link")?.to_str().ok()?;
    let rest = link.strip_prefix("</openapi.json#/components/schemas/")?;
    let (name, rest) = rest.split_once('>')?;
    let title = format!("; rel=\"profile\"; title=\"baton.v1.{name}\"");
    (rest == title).then(|| name.to_owned())
}

/// The types that the description permits for a successful read of a path.
fn described(document: &Value, path: &str) -> BTreeSet<String> {
    let name = |schema: &Value| {
        let reference = schema["$ref"].as_str().unwrap_or_default();
        reference.rsplit('/').next().unwrap_or_default().to_owned()
    };
    let schema = &document["paths"][path]["get"]["responses"]["200"]["content"][MEDIA_TYPE];
    let name_of_all = name(&schema["schema"]);
    let all = &document["components"]["schemas"][&name_of_all];
    match all["oneOf"].as_array() {
        Some(several) => several.iter().map(name).collect(),
        None => BTreeSet::from([name_of_all]),
    }
}

/// A server on which every kind of object exists once.
async fn furnished(config: baton_server::Config) -> Server {
    let server = Server::start(config).await;
    server.submit("one").await;
    let workflow = json!({"file": {"workflow": "w", "tasks": {"a": {"run": "true"}}}});
    let nightly =
        json!({"task": "nightly", "run": "true", "trigger": {"schedule": "every day at 3:00"}});
    let day = json!({"from": 1_700_000_000_000_u64, "to": 1_700_100_000_000_u64});
    let fleet = json!({"backend": "local", "max": 1, "cpus": 1, "memory": "1GiB"});
    for (method, path, body) in [
        (Method::POST, "/runs/", workflow),
        (Method::POST, "/ann/tasks/", nightly),
        (Method::POST, "/ann/tasks/nightly/backfills/", day),
        (Method::PUT, "/limits/license", json!({"capacity": 3})),
        (Method::PUT, "/fleets/spare", fleet),
    ] {
        let made = server.send(method, path, &body).await;
        assert!(made.status.is_success(), "{path}: {made:?}");
    }
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_read_names_the_type_that_the_description_has() {
    let dir = tempfile::tempdir().expect("a place");
    let server = furnished(config(dir.path())).await;
    let _worker = server.worker("w1").await;
    let document: Value = serde_json::from_str(DOCUMENT).expect("JSON");
    let reads = ROUTES.iter().filter(|route| route.method == "GET");
    for route in reads.filter(|route| !UNREAD.contains(&route.path)) {
        let content = &document["paths"][route.path]["get"]["responses"]["200"]["content"];
        if content.get(MEDIA_TYPE).is_none() {
            continue;
        }
        let value = VALUES
            .iter()
            .find(|(place, _)| route.path.starts_with(place));
        let path = value.map_or(route.path.to_owned(), |(place, with)| {
            route.path.replacen(place, with, 1)
        });
        assert!(
            !path.contains('{'),
            "{}: add a value for its parameter to VALUES in tests/server/profiles.rs, and an object of it to `furnished`",
            route.path
        );
        let read = server.get(&path).await;
        assert_eq!(read.status, StatusCode::OK, "{path}: {read:?}");
        let named =
            named(&read).unwrap_or_else(|| panic!("{path} names no type: {:?}", read.headers));
        let described = described(&document, route.path);
        assert!(
            described.contains(&named),
            "{path} names the type {named}, and its description {described:?}: one of the handler's body and its annotation is wrong"
        );
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_a_range_a_list_a_reply_and_a_problem_have_different_types() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    server.submit_array("many", 0, 4).await;
    let of = async |path: &str| named(&server.get(path).await).expect("a type");
    assert_eq!(of("/instances/i1").await, "InstanceWithOutputs");
    assert_eq!(of("/instances/i1..i3").await, "RangeSummary");
    assert_eq!(of("/bullpen/").await, "List_Instance");
    assert_eq!(of("/instances/i99").await, "Problem");
    let submitted = server.send(Method::POST, "/instances/", &task("t")).await;
    assert_eq!(named(&submitted).as_deref(), Some("SubmitReply"));
    // Also where the media type has no version.
    let request = server.request(Method::GET, "/instances/i1");
    let plain = got(request.header("accept", "application/json")).await;
    assert_eq!(plain.headers["content-type"], "application/json");
    assert_eq!(named(&plain).as_deref(), Some("InstanceWithOutputs"));
    let cancelled = server.delete("/instances/i1..i2").await;
    assert_eq!(named(&cancelled).as_deref(), Some("CancelReply"));
    server.stop().await;
}
