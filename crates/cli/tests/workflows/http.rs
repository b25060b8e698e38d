//! Refusals of the runs API, with their messages; authorization is in the
//! server's own tests.

use std::sync::Arc;

use baton_tls::ClientFiles;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::workspace::Workspace;

/// A client of the API.
struct Api {
    runtime: Runtime,
    client: Client,
    url: String,
}

impl Api {
    fn new(url: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        Self {
            runtime: runtime.expect("a runtime"),
            client: client(),
            url: url.to_owned(),
        }
    }

    /// The status of the answer, and the answer.
    fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        if !body.is_null() {
            request = request.body(body.to_string());
            request = request.header("content-type", "application/json");
        }
        self.runtime.block_on(async {
            let answer = request.send().await.expect("it answers");
            let status = answer.status().as_u16();
            let text = answer.text().await.expect("readable");
            (status, serde_json::from_str(&text).unwrap_or(Value::Null))
        })
    }

    /// Fails unless it is refused with this status and these words.
    fn refuses(&self, method: &str, path: &str, body: &Value, status: u16, words: &[&str]) {
        let (got, problem) = self.send(method, path, body);
        let what = format!("{method} {path} {body}: {got} {problem}");
        assert_eq!(got, status, "{what}");
        assert_eq!(problem["status"], status, "{what}");
        let text = problem.to_string();
        for word in words {
            assert!(text.contains(word), "{word:?} is missing: {what}");
        }
    }
}

/// As every client of ours, although nothing here is encrypted.
fn client() -> Client {
    let tls = ClientFiles::none().load().expect("no files");
    let builder = Client::builder().tls_backend_preconfigured(Arc::unwrap_or_clone(tls));
    builder.no_proxy().build().expect("a client")
}

const PATHS: &[(&str, &str)] = &[
    ("GET", ""),
    ("DELETE", ""),
    ("GET", "/tasks/"),
    ("POST", "/tasks"),
    ("GET", "/items/"),
    ("GET", "/errors"),
    ("POST", "/start"),
    ("POST", "/halt"),
    ("POST", "/resume"),
    ("POST", "/resume?dryRun=true"),
    ("POST", "/retry"),
    ("POST", "/retry?dryRun=true"),
];

fn body(path: &str) -> Value {
    match path {
        "/tasks" => json!({"tasks": {"more": {"run": "true"}}}),
        "/halt" => json!({"mode": "drain"}),
        _ => json!(null),
    }
}

#[test]
fn every_route_refuses_what_is_not_there_not_now_or_not_usable_in_clear_words() {
    let workspace = Workspace::start();
    let api = Api::new(workspace.url());
    for (method, path) in PATHS {
        let body = body(path);
        api.refuses(
            method,
            &format!("/runs/r9{path}"),
            &body,
            404,
            &["there is no run r9"],
        );
        api.refuses(method, &format!("/runs/x9{path}"), &body, 400, &["r12"]);
    }
    let done = workspace.finished("workflow: done\ntasks: { one: { run: 'true' } }\n");
    done.is_done();
    for (method, path) in PATHS {
        if *method == "GET" {
            continue;
        }
        let path = format!("/runs/r1{path}");
        api.refuses(
            method,
            &path,
            &body(&path["/runs/r1".len()..]),
            409,
            &["r1 is DONE"],
        );
    }
    let file = |tasks: Value| json!({"workflow": "w", "tasks": tasks});
    let cycle = json!({"a": {"run": "x", "after": ["b"]}, "b": {"run": "x", "after": ["a"]}});
    let bad = json!({ "file": file(cycle.clone()) });
    let words = ["a -> b -> a", "tasks.a.after[0]", "hint"];
    api.refuses("POST", "/runs/", &bad, 422, &words);
    api.refuses("POST", "/runs/", &json!({"file": 7}), 422, &["write a map"]);
    api.refuses("POST", "/runs/", &json!({"fil": {}}), 400, &["fil"]);
    let good = file(json!({"a": {"run": "false"}}));
    let unknown = json!({"file": good, "params": {"p": "1"}});
    api.refuses("POST", "/runs/", &unknown, 422, &["params.p"]);
    workspace
        .finished("workflow: w\ntasks: { a: { run: 'false' } }\n")
        .has_failed();
    api.refuses(
        "POST",
        "/runs/r2/resume",
        &json!({"file": file(cycle)}),
        422,
        &words,
    );
    api.refuses(
        "POST",
        "/runs/r2/resume",
        &json!({"params": {"p": "1"}}),
        422,
        &["params.p", "its parameters are: none"],
    );
    let another =
        json!({"file": {"workflow": "v", "owner": "lab", "tasks": {"a": {"run": "true"}}}});
    let words = ["r2 is a run of another workflow", "\"workflow\"", "`lab`"];
    for path in ["/runs/r2/resume", "/runs/r2/resume?dryRun=true"] {
        api.refuses("POST", path, &another, 422, &words);
    }
    api.refuses(
        "POST",
        "/runs/r2/resume",
        &json!({"generation": 7}),
        409,
        &["generation 1"],
    );
    api.refuses(
        "POST",
        "/runs/r2/retry",
        &json!({"task": "b"}),
        422,
        &["no task `b`"],
    );
    api.refuses(
        "POST",
        "/runs/r2/retry",
        &json!({"downstream": true}),
        422,
        &["task"],
    );
    api.refuses(
        "POST",
        "/runs/r2/halt",
        &json!({"mode": "maybe"}),
        400,
        &["maybe"],
    );
    for (query, word) in [
        ("/runs/?state=HAPPY", "RUNNING"),
        ("/runs/?colour=red", "colour"),
        ("/runs/r2?wait=x", "wait"),
        ("/runs/r2/items/?task=zz", "zz"),
        ("/runs/r2/items/?item=1", "task"),
        ("/runs/r2/items/?cursor=here", "cursor"),
        ("/runs/r2/tasks/?limit=many", "limit"),
        ("/runs/r2/resume?dryRun=perhaps", "dryRun"),
    ] {
        let method = if query.contains("resume") {
            "POST"
        } else {
            "GET"
        };
        api.refuses(method, query, &json!(null), 400, &[word]);
    }
}

#[test]
fn a_run_can_be_defined_in_parts_and_begins_when_it_is_told_to() {
    let workspace = Workspace::start();
    let api = Api::new(workspace.url());
    let line = |word: &str| format!("echo {word} >> {}", workspace.path("ran").display());
    let first = json!({"workflow": "parts", "tasks": {"a": {"run": line("a")}}});
    let (status, accepted) = api.send("POST", "/runs/", &json!({"file": first, "open": true}));
    assert_eq!((status, &accepted["id"]), (201, &json!("r1")), "{accepted}");
    api.refuses(
        "POST",
        "/runs/r1/resume",
        &json!(null),
        409,
        &["REGISTERING"],
    );
    let part = json!({"tasks": {"b": {"run": line("b"), "after": ["a"]}}});
    let (status, extended) = api.send("POST", "/runs/r1/tasks", &part);
    assert_eq!(status, 200, "{extended}");
    api.refuses("POST", "/runs/r1/tasks", &part, 422, &["b"]);
    let stray = json!({"tasks": {"c": {"run": "x", "after": ["zz"]}}});
    api.refuses("POST", "/runs/r1/tasks", &stray, 422, &["zz"]);
    assert_eq!(
        api.send("GET", "/runs/r1", &json!(null)).1["state"],
        "REGISTERING"
    );
    assert_eq!(workspace.lines("ran"), [""; 0], "it has not begun");
    assert_eq!(api.send("POST", "/runs/r1/start", &json!(null)).0, 200);
    workspace.wait("r1").is_done();
    assert_eq!(workspace.lines("ran"), ["a", "b"]);
    api.refuses("POST", "/runs/r1/start", &json!(null), 409, &["r1 is DONE"]);
    api.refuses("POST", "/runs/r1/tasks", &part, 409, &["r1 is DONE"]);
}

#[test]
fn pages_of_items_and_tasks_lead_to_each_other_and_miss_nothing() {
    let workspace = Workspace::start();
    let api = Api::new(workspace.url());
    let over = workspace.finished(
        "workflow: pages
tasks:
  many: { run: 'test {{ item }} != 3', for_each: '0..7' }
  last: { run: 'true', after: [{ task: many, on: end }] }
",
    );
    over.has_failed();
    let all = |first: &str| {
        let mut found = Vec::new();
        let mut next = Some(first.to_owned());
        while let Some(path) = next {
            let (status, page) = api.send("GET", &path, &json!(null));
            assert_eq!(status, 200, "{page}");
            found.extend(page["items"].as_array().expect("a list").clone());
            next = page["links"]["next"].as_str().map(ToOwned::to_owned);
        }
        found
    };
    let items = all("/runs/r1/items/?limit=3");
    let places: Vec<_> = items
        .iter()
        .map(|it| (&it["task"], it["item"].as_u64()))
        .collect();
    let many = json!("many");
    let mut wanted: Vec<_> = (0..7).map(|at| (&many, Some(at))).collect();
    let last = json!("last");
    wanted.push((&last, Some(0)));
    assert_eq!(places, wanted);
    assert_eq!(all("/runs/r1/items/?state=FAILED&limit=1")[0]["item"], 3);
    assert_eq!(all("/runs/r1/items/?task=many&item=5")[0]["value"], 5);
    assert_eq!(all("/runs/r1/tasks/?limit=1").len(), 2);
    workspace
        .finished("workflow: other\nowner: lab\ntasks: { a: { run: 'true' } }\n")
        .is_done();
    let ids = |query: &str| -> Vec<_> { all(query).iter().map(|it| it["id"].clone()).collect() };
    assert_eq!(ids("/runs/?limit=1"), ["r2", "r1"]);
    assert_eq!(ids("/runs/?state=FAILED"), ["r1"]);
    assert_eq!(ids("/runs/?owner=lab"), ["r2"]);
    assert_eq!(ids("/runs/?name=pages"), ["r1"]);
    let instance = items[3]["links"]["instance"]
        .as_str()
        .expect("a link")
        .to_owned();
    let (_, instance) = api.send("GET", &instance, &json!(null));
    assert_eq!(instance["run"], "r1");
    assert_eq!(instance["links"]["run"], "/runs/r1");
}
