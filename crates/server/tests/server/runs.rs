//! Runs over HTTP: pages of items, parsing of workflows, and visibility.

use baton_model::api::MEDIA_TYPE;
use baton_model::ids::InstanceId;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::rig::{Got, Server, config, got, until};

/// Submits a workflow and returns where it is.
async fn submit(server: &Server, file: &Value) -> String {
    submit_with(server, json!({ "file": file })).await
}

async fn submit_with(server: &Server, body: Value) -> String {
    let got = server.send(Method::POST, "/runs/", &body).await;
    assert_eq!(got.status, StatusCode::CREATED, "{got:?}");
    let control = got.body["links"]["control"].as_str().expect("a link");
    control.to_owned()
}

/// Sends a text as it is.
async fn send_text(server: &Server, path: &str, text: &str) -> Got {
    let request = server.request(Method::POST, path);
    let request = request.header("content-type", MEDIA_TYPE);
    got(request.body(text.to_owned())).await
}

/// Every page of a list, each with its items.
async fn pages(server: &Server, path: &str) -> Vec<Vec<Value>> {
    let mut pages = Vec::new();
    let mut next = Some(path.to_owned());
    while let Some(path) = next {
        let got = server.get(&path).await;
        assert_eq!(got.status, StatusCode::OK, "{got:?}");
        pages.push(got.body["items"].as_array().expect("a list").clone());
        next = got.body["links"]["next"].as_str().map(ToOwned::to_owned);
    }
    pages
}

async fn items(server: &Server, path: &str) -> Vec<Value> {
    pages(server, path).await.concat()
}

/// Waits until `count` items are in that state.
async fn until_items(server: &Server, run: &str, state: &str, count: usize) -> Vec<Value> {
    let path = format!("{run}/items/?state={state}");
    let mut found = Vec::new();
    let reached = until(async || {
        found = items(server, &path).await;
        found.len() == count
    });
    assert!(reached.await, "not {count} {state}: {found:?}");
    found
}

fn numbers(items: &[Value]) -> Vec<u64> {
    let numbers = items.iter().map(|it| it["item"].as_u64());
    numbers.map(|it| it.expect("a number")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_value_of_an_item_is_the_json_that_it_is() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w").await;
    let mapped = json!("{{ tasks.list.outputs.values }}");
    let file = json!({"workflow": "w", "tasks": {
        "alone": {"run": ["true"]},
        "each": {"run": ["true"], "for_each": ["1", 1, true, "{\"a\": 1}"]},
        "pairs": {"run": ["true"], "matrix": {"os": ["a"], "py": [3, "3"]}},
        "range": {"run": ["true"], "for_each": "5..7"},
        "list": {"run": ["true"]},
        "mapped": {"run": ["true"], "for_each": mapped},
        "hold": {"run": ["true"], "for_each": mapped},
    }});
    let run = submit(&server, &file).await;
    until_items(&server, &run, "RUNNING", 3).await;
    until_items(&server, &run, "DONE", 13).await;
    let path = format!("{run}/items/?limit=4");
    let values = |items: &[Value], task: &str| -> Vec<Value> {
        let of = items.iter().filter(|it| it["task"] == task);
        of.map(|it| it.get("value").cloned().unwrap_or("none".into()))
            .collect()
    };
    let check = |items: &[Value]| {
        let listed = [json!("1"), json!(1), json!({"k": [true]})];
        assert_eq!(values(items, "alone"), ["none"]);
        let each = [json!("1"), json!(1), json!(true), json!("{\"a\": 1}")];
        assert_eq!(values(items, "each"), each);
        let pairs = [json!({"os": "a", "py": 3}), json!({"os": "a", "py": "3"})];
        assert_eq!(values(items, "pairs"), pairs);
        assert_eq!(values(items, "range"), [5, 6]);
        assert_eq!(values(items, "mapped"), listed);
        assert_eq!(values(items, "hold"), listed);
    };
    check(&items(&server, &path).await);
    assert_eq!(server.delete(&run).await.status, StatusCode::ACCEPTED);
    server.until_state(&run, "HALTED").await;
    check(&items(&server, &path).await);
    let one = items(&server, &format!("{run}/items/?task=mapped&item=2")).await;
    assert_eq!(values(&one, "mapped"), [json!({"k": [true]})]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_filter_is_exact() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w").await;
    let cpu = json!({"cpu": 1});
    let file = json!({"workflow": "w", "tasks": {
        "good": {"run": ["true"], "for_each": "0..3", "resources": cpu},
        "hold": {"run": ["true"], "for_each": "0..20", "after": ["good"], "resources": cpu},
        "other": {"run": ["true"], "after": ["hold"]},
    }});
    let run = submit(&server, &file).await;
    let all = format!("{run}/items/");
    let mut whole = Vec::new();
    let begun = until(async || {
        !items(&server, &format!("{all}?state=RUNNING"))
            .await
            .is_empty()
    });
    assert!(begun.await, "nothing runs");
    // From now on nothing changes, once all that the worker was given runs.
    let drained = json!({"drained": true});
    let got = server
        .send(Method::PUT, "/workers/w/drained", &drained)
        .await;
    assert_eq!(got.status, StatusCode::OK, "{got:?}");
    let still = until(async || {
        whole = items(&server, &all).await;
        whole.len() == 23 && whole.iter().all(|it| it["state"] != "LAUNCHED")
    });
    assert!(still.await, "{whole:?}");
    // The worker has four processors.
    assert_eq!(
        (&whole[3]["state"], &whole[22]["state"]),
        (&json!("RUNNING"), &json!("QUEUED"))
    );
    for state in ["QUEUED", "LAUNCHED", "RUNNING", "DONE", "FAILED", "HALTED"] {
        let of: Vec<_> = whole.iter().filter(|it| it["state"] == state).collect();
        for limit in [1, 3, 100] {
            let path = format!("{run}/items/?state={state}&limit={limit}");
            let found = items(&server, &path).await;
            assert_eq!(found.iter().collect::<Vec<_>>(), of, "{path}");
        }
        let path = format!("{run}/items/?task=good&state={state}&limit=2");
        let found = items(&server, &path).await;
        assert_eq!(found.len(), if state == "DONE" { 3 } else { 0 }, "{path}");
    }
    for state in ["ABORTED", "REGISTERING", "TRIAGING", "HAPPY"] {
        let refused = server.get(&format!("{run}/items/?state={state}")).await;
        refused.is_problem(StatusCode::BAD_REQUEST, "bad-request");
        let all = "QUEUED, LAUNCHED, RUNNING, DONE, FAILED, HALTED";
        assert!(refused.detail().contains(all), "{refused:?}");
    }
    let wrong = items(
        &server,
        &format!("{run}/items/?task=good&item=1&state=FAILED"),
    )
    .await;
    assert!(wrong.is_empty(), "{wrong:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_large_items_ends_early_and_the_next_one_goes_on() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w").await;
    let value = "v".repeat(60_000);
    let file = json!({"workflow": "w", "tasks": {
        "large": {"run": ["true"], "for_each": "0..100"},
        "wide": {"run": ["true"], "for_each": vec![value; 100]},
    }});
    let run = submit(&server, &file).await;
    server.until_state(&run, "DONE").await;
    let pages = pages(&server, &format!("{run}/items/?limit=1000")).await;
    for page in &pages {
        let length = Value::from(page.clone()).to_string().len();
        assert!(length < 5 << 20, "a page has {length} bytes");
    }
    assert!(pages.len() >= 3, "{} pages", pages.len());
    let twice = (0..100).chain(0..100).collect::<Vec<u64>>();
    assert_eq!(numbers(&pages.concat()), twice);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_stands_twice_is_refused_wherever_it_stands() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let twice = r#"{"workflow":"w","tasks":{"a":{"run":"x"},"b":{"run":"x"},"a":{"run":"y"}}}"#;
    let refuses = async |path: &str, text: &str, field: &str| {
        let refused = send_text(&server, path, text).await;
        refused.is_problem(StatusCode::UNPROCESSABLE_ENTITY, "invalid");
        let error = &refused.body["errors"][0];
        assert_eq!(error["field"], field, "{refused:?}");
        let message = error["message"].as_str().expect("a text");
        assert!(message.contains("duplicate key"), "{refused:?}");
        assert!(refused.detail().contains("the workflow"), "{refused:?}");
    };
    let file = |text: &str| format!(r#"{{"file": {text}}}"#);
    refuses("/runs/", &file(twice), "tasks.a").await;
    let deep = r#"{"workflow":"w","tasks":{"a":{"processes":[{"name":"p","name":"q"}]}}}"#;
    refuses("/runs/", &file(deep), "tasks.a.processes[0].name").await;
    let good = json!({"workflow": "w", "tasks": {"a": {"run": ["true"]}}});
    let open = submit_with(&server, json!({"file": good, "open": true})).await;
    let part = r#"{"tasks":{"c":{"run":"x"},"c":{"run":"y"}}}"#;
    refuses(&format!("{open}/tasks/"), part, "tasks.c").await;
    let halted = submit(&server, &good).await;
    server.delete(&halted).await;
    server.until_state(&halted, "HALTED").await;
    refuses(&format!("{halted}/resume"), &file(twice), "tasks.a").await;
    let params = r#"{"file":{},"params":{"day":"a","day":"b"}}"#;
    let refused = send_text(&server, "/runs/", params).await;
    refused.is_problem(StatusCode::BAD_REQUEST, "bad-request");
    assert!(
        refused.detail().contains("`day` is repeated"),
        "{refused:?}"
    );
    for path in ["/runs/", "/instances/", &format!("{halted}/halt")] {
        for text in ["[]", "[1]", "7", "\"x\""] {
            let refused = send_text(&server, path, text).await;
            refused.is_problem(StatusCode::BAD_REQUEST, "bad-request");
            assert!(refused.detail().contains("an object"), "{refused:?}");
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resume_with_a_file_keeps_the_parameters_of_the_run() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w").await;
    let file = |params: Value| {
        let fail = json!({"run": ["echo", "{{ params.day }}"]});
        json!({"workflow": "w", "params": params, "tasks": {"fail": fail}})
    };
    let first = file(json!({"day": "monday", "gone": "x"}));
    let body = json!({"file": first, "params": {"day": "tuesday"}});
    let run = submit_with(&server, body).await;
    server.until_state(&run, "FAILED").await;
    // Without a default, and beside one that is new.
    let second = file(json!({"day": null, "new": "y"}));
    let resume = format!("{run}/resume");
    let resumed = server
        .send(Method::POST, &resume, &json!({"file": second}))
        .await;
    assert_eq!(resumed.status, StatusCode::OK, "{resumed:?}");
    let params = async || server.get(&run).await.body["params"].clone();
    assert_eq!(params().await, json!({"day": "tuesday", "new": "y"}));
    server.until_state(&run, "FAILED").await;
    let body = json!({"file": second, "params": {"day": "friday"}});
    let resumed = server.send(Method::POST, &resume, &body).await;
    assert_eq!(resumed.status, StatusCode::OK, "{resumed:?}");
    assert_eq!(params().await, json!({"day": "friday", "new": "y"}));
    server.until_state(&run, "FAILED").await;
    for verb in ["resume", "retry"] {
        for query in ["", "?dryRun=true"] {
            let path = format!("{run}/{verb}{query}");
            let stale = json!({"generation": 2});
            let refused = server.send(Method::POST, &path, &stale).await;
            refused.is_problem(StatusCode::CONFLICT, "generation");
            assert!(refused.detail().contains("generation 3"), "{refused:?}");
        }
        let last = json!({"generation": 3});
        let path = format!("{run}/{verb}?dryRun=true");
        let seen = server.send(Method::POST, &path, &last).await;
        assert_eq!(seen.body["tasks"][0]["runs"], 1, "{seen:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_parameters_need_no_file_unless_the_run_was_sent_in_parts() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w").await;
    let fail = json!({"run": ["echo", "{{ params.day }}"]});
    let file = json!({"workflow": "w", "params": {"day": "monday"}, "tasks": {"fail": fail}});
    let run = submit_with(&server, json!({"file": file})).await;
    server.until_state(&run, "FAILED").await;
    let post = async |path: String, body: Value| server.send(Method::POST, &path, &body).await;
    let sunday = json!({"params": {"day": "sunday"}});
    for (verb, day) in [("resume", "sunday"), ("retry", "friday")] {
        let other = json!({"params": {"day": day}});
        let resumed = post(format!("{run}/{verb}"), other).await;
        assert_eq!(resumed.status, StatusCode::OK, "{resumed:?}");
        assert_eq!(server.get(&run).await.body["params"]["day"], day);
        server.until_state(&run, "FAILED").await;
    }
    // An unknown one is refused, and the run stays as it is.
    let unknown = json!({"params": {"dya": "sunday"}});
    let refused = post(format!("{run}/resume"), unknown).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(server.get(&run).await.body["generation"], 3);
    // Of this one only the plan is stored, which has the values already.
    let parts = submit_with(&server, json!({"file": file, "open": true})).await;
    let started = post(format!("{parts}/start"), json!({})).await;
    assert!(started.status.is_success(), "{started:?}");
    server.until_state(&parts, "FAILED").await;
    let refused = post(format!("{parts}/resume"), sunday).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(refused.detail().contains("requires `file`"), "{refused:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_the_library_is_resumed_with_other_parameters_and_no_file() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w").await;
    let fail = json!({"run": ["echo", "{{ params.day }}"]});
    let params = json!({"day": "monday", "depth": "1"});
    let file = json!({"workflow": "w", "owner": "lab", "params": params, "tasks": {"fail": fail}});
    let added = server.send(Method::POST, "/lab/tasks/", &file).await;
    assert_eq!(added.status, StatusCode::CREATED, "{added:?}");
    let launched = server
        .send(Method::POST, "/lab/tasks/w/run", &json!({}))
        .await;
    assert!(launched.status.is_success(), "{launched:?}");
    server.until_state("/runs/r1", "FAILED").await;
    let body = json!({"params": {"day": "friday"}});
    let resumed = server.send(Method::POST, "/runs/r1/resume", &body).await;
    assert_eq!(resumed.status, StatusCode::OK, "{resumed:?}");
    let run = server.get("/runs/r1").await.body;
    assert_eq!(run["params"], json!({"day": "friday", "depth": "1"}));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_cancelled_is_among_the_errors_of_a_run_that_failed_for_it() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w").await;
    let file = |fails: bool| {
        let mut tasks = json!({"hold": {"run": ["true"], "for_each": "0..2"}});
        if fails {
            tasks["fail"] = json!({"run": ["true"], "after": [{"task": "hold", "on": "end"}]});
        }
        json!({"workflow": "w", "tasks": tasks})
    };
    let errors = async |run: &str| -> Vec<(Value, Value, Value)> {
        let errors = items(&server, &format!("{run}/errors")).await.into_iter();
        errors
            .map(|it| {
                (
                    it["task"].clone(),
                    it["endText"].clone(),
                    it["count"].clone(),
                )
            })
            .collect()
    };
    for fails in [false, true] {
        let run = submit(&server, &file(fails)).await;
        for item in until_items(&server, &run, "RUNNING", 2).await {
            let instance = item["links"]["instance"].as_str().expect("a link");
            server.delete(instance).await;
        }
        server.until_state(&run, "FAILED").await;
        let groups = errors(&run).await;
        let cancelled = (json!("hold"), json!("was cancelled"), json!(2));
        assert_eq!(groups[0], cancelled, "{groups:?}");
        assert_eq!(groups.len(), if fails { 2 } else { 1 }, "{groups:?}");
    }
    // Items that are halted because another has failed are not errors.
    let nowhere = json!({"run": ["true"], "constraints": {"zone": "b"}, "for_each": "0..9"});
    let tasks = json!({"nowhere": nowhere, "fail": {"run": ["true"]}});
    let fast = json!({"workflow": "w", "fail_fast": true, "tasks": tasks});
    let fast = submit(&server, &fast).await;
    server.until_state(&fast, "FAILED").await;
    let groups = errors(&fast).await;
    assert_eq!(
        (groups.len(), &groups[0].0),
        (1, &json!("fail")),
        "{groups:?}"
    );
    let halted = submit(&server, &file(false)).await;
    until_items(&server, &halted, "RUNNING", 2).await;
    server.delete(&halted).await;
    server.until_state(&halted, "HALTED").await;
    assert_eq!(errors(&halted).await, []);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_lead_to_what_can_be_done_with_runs() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let root = server.get("/").await.body;
    assert_eq!(root["links"]["submit-run"], "POST /runs/");
    let runs = server.get("/runs/").await.body;
    assert_eq!(runs["links"]["submit"], "POST /runs/");
    let file = json!({"workflow": "w", "tasks": {"a": {"run": ["true"]}}});
    let open = submit_with(&server, json!({"file": file, "open": true})).await;
    let links = server.get(&open).await.body["links"].clone();
    assert_eq!(links["halt"], format!("POST {open}/halt"));
    let halt = json!({"mode": "drain"});
    let path = format!("{open}/halt");
    let halted = server.send(Method::POST, &path, &halt).await;
    assert_eq!(halted.status, StatusCode::ACCEPTED, "{halted:?}");
    let over = server.until_state(&open, "ABORTED").await;
    assert_eq!(over["links"].get("halt"), None);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_item_has_its_start_time() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let file = json!({"workflow": "w", "tasks": {"hold": {"run": ["true"]}}});
    let run = submit(&server, &file).await;
    let waiting = until_items(&server, &run, "QUEUED", 1).await;
    assert_eq!(waiting[0].get("startedAt"), None);
    let _worker = server.worker("w").await;
    let running = until_items(&server, &run, "RUNNING", 1).await;
    let id: String = running[0]["instance"].as_str().expect("an id").to_owned();
    assert_eq!(id, InstanceId(1).to_string());
    let timeline = items(&server, &format!("/instances/{id}/timeline")).await;
    let [.., assigned, _confirmed] = &*timeline else {
        panic!("{timeline:?}");
    };
    assert_eq!(running[0]["startedAt"], assigned["at"], "{timeline:?}");
    assert_eq!(running[0].get("endedAt"), None);
    server.delete(&run).await;
    server.until_state(&run, "HALTED").await;
    let ended = items(&server, &format!("{run}/items/")).await;
    // By the worker's clock.
    assert_eq!(
        (&ended[0]["startedAt"], &ended[0]["endedAt"]),
        (&json!(1_000), &json!(2_500))
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_with_a_key_creates_one_thing_also_across_a_restart() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let send = async |server: &Server, path: &str, body: &Value| {
        let request = server.request(Method::POST, path);
        let request = request.header("idempotency-key", "order-4711");
        let request = request.header("content-type", MEDIA_TYPE);
        got(request.body(body.to_string())).await
    };
    let task = json!({"file": {"task": "t", "owner": "lab", "run": "true"}, "array": {"from": 0, "to": 4}});
    let flow = json!({"file": {"workflow": "w", "owner": "lab", "tasks": {"a": {"run": "true"}}}});
    let array = send(&server, "/instances/", &task).await;
    let run = send(&server, "/runs/", &flow).await;
    assert_eq!(array.status, StatusCode::CREATED, "{array:?}");
    assert_eq!(run.status, StatusCode::CREATED, "{run:?}");
    server.stop().await;
    let server = Server::start(config(dir.path())).await;
    assert_eq!(send(&server, "/instances/", &task).await.body, array.body);
    assert_eq!(send(&server, "/runs/", &flow).await.body, run.body);
    let waiting = server.get("/bullpen/").await;
    assert_eq!(waiting.body["total"], 6, "five and one: {waiting:?}");
    let other = json!({"file": {"task": "t", "owner": "lab", "run": "false"}});
    let other = send(&server, "/instances/", &other).await;
    other.is_problem(StatusCode::UNPROCESSABLE_ENTITY, "key-used");
    let detail = other.body["detail"].as_str().expect("text");
    assert!(detail.contains("i1 to i5"), "{detail}");
    let owner = json!({"file": {"task": "t", "owner": "field", "run": "true"}});
    let owner = send(&server, "/instances/", &owner).await;
    assert_eq!(owner.status, StatusCode::CREATED, "another owner's key");
    server.stop().await;
}
