//! Who has submitted an instance or a run, or triggered an entry; and who has asked for its end, or for more.

use std::path::Path;

use baton_model::ids::TokenId;
use baton_model::time::Wall;
use baton_model::token::{NewToken, Role, Secret};
use baton_server::{Config, STORE_FILE};
use baton_store::{SqliteStore, Store, token};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::rig::{Server, config, got, task};

/// A client with its token.
struct Client {
    id: TokenId,
    secret: Secret,
}

impl Client {
    fn new(store: &dyn Store, name: &str) -> Self {
        let secret = token::generate().expect("random bits");
        let new = NewToken {
            name: name.to_owned(),
            role: Role::Operator,
            owner: None,
            fleet: None,
            hash: token::hash(&secret),
            created_at: Wall(1),
            expires_at: None,
        };
        let id = store.create_token(&new).expect("kept");
        Self { id, secret }
    }

    async fn send(&self, server: &Server, method: Method, path: &str, body: &Value) -> Value {
        let request = server.request(method, path);
        let request = request.bearer_auth(self.secret.expose());
        // A name that is only claimed does not count where tokens do.
        let request = request.header("baton-user", "mallory");
        let answer = got(request.body(body.to_string())).await;
        assert!(answer.status.is_success(), "{path}: {answer:?}");
        answer.body
    }

    async fn get(&self, server: &Server, path: &str) -> Value {
        self.send(server, Method::GET, path, &Value::Null).await
    }

    fn submitter(&self, name: &str) -> Value {
        let id = self.id.to_string();
        let text = format!("{name} (token {id})");
        json!({"kind": "token", "name": name, "token": id, "text": text})
    }
}

async fn page(server: &Server, path: &str) -> String {
    let request = server.request(Method::GET, path);
    let response = request.header("accept", "text/html").send().await;
    response.expect("an answer").text().await.expect("a page")
}

fn demanding(data: &Path) -> Config {
    Config {
        require_tokens: true,
        ..config(data)
    }
}

fn workflow() -> Value {
    let tasks = json!({"a": {"run": ["true"]}});
    json!({"file": {"workflow": "w", "owner": "lab", "tasks": tasks}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_of_a_submission_a_run_and_a_trigger_is_known_after_a_restart() {
    let dir = tempfile::tempdir().expect("a place");
    let store = SqliteStore::open(&dir.path().join(STORE_FILE)).expect("the store opens");
    let (ann, bob) = (Client::new(&store, "ann"), Client::new(&store, "bob"));
    drop(store);
    let server = Server::start(demanding(dir.path())).await;
    let post = Method::POST;
    ann.send(&server, post.clone(), "/instances/", &task("x"))
        .await;
    bob.send(&server, post.clone(), "/instances/", &task("x"))
        .await;
    let array = json!({"file": {"task": "x", "run": ["true"]}, "array": {"from": 0, "to": 3}});
    ann.send(&server, post.clone(), "/instances/", &array).await;
    bob.send(&server, post.clone(), "/runs/", &workflow()).await;
    let hash = "d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272";
    let trigger = json!({"remote": true, "secret_sha256": hash});
    let entry = json!({"task": "e", "run": ["true"], "trigger": trigger});
    ann.send(&server, post.clone(), "/lab/tasks/", &entry).await;
    let ids = async |path: &str, client: &Client| {
        let started = client.send(&server, post.clone(), path, &json!({})).await;
        started["id"].as_str().expect("an id").to_owned()
    };
    let by_hand = ids("/lab/tasks/e/run", &bob).await;
    let remote = ids("/lab/tasks/e/trigger", &ann).await;
    let request = server.request(post.clone(), "/lab/tasks/e/trigger");
    let opened = got(request.header("baton-trigger-secret", "sesame")).await;
    assert_eq!(opened.status, StatusCode::ACCEPTED, "{opened:?}");
    let by_secret = opened.body["id"].as_str().expect("an id").to_owned();
    server.stop().await;

    let server = Server::start(demanding(dir.path())).await;
    let origin = async |id: &str| {
        let shown = ann.get(&server, &format!("/instances/{id}")).await;
        shown["details"]["origin"].clone()
    };
    let (by_ann, by_bob) = (ann.submitter("ann"), bob.submitter("bob"));
    let first = origin("i1").await;
    assert_eq!(first["submittedBy"], by_ann);
    let text = format!("submitted by ann (token {})", ann.id);
    assert_eq!(first["text"], text);
    assert_eq!(origin("i2").await["submittedBy"], by_bob, "the same spec");
    assert_eq!(origin("i5").await["submittedBy"], by_ann, "of an array");
    let run = ann.get(&server, "/runs/r1").await;
    assert_eq!(run["submittedBy"], by_bob);
    let item = ann.get(&server, "/runs/r1/items/").await;
    let item = item["items"][0]["instance"].as_str().expect("an item");
    assert_eq!(origin(item).await["submittedBy"], by_bob, "of its run");
    for (id, text, by) in [
        (
            by_hand,
            format!("triggered by bob (token {})", bob.id),
            by_bob,
        ),
        (
            remote,
            format!("triggered over HTTP by ann (token {})", ann.id),
            by_ann,
        ),
        (
            by_secret,
            "triggered over HTTP by a client with its secret".to_owned(),
            json!({"kind": "trigger-secret", "text": "a client with its secret"}),
        ),
    ] {
        let origin = origin(&id).await;
        assert_eq!(origin["text"], format!("{text}, revision 1 of lab/e"));
        assert_eq!(origin["submittedBy"], by);
    }
    server.stop().await;

    let server = Server::start(config(dir.path())).await;
    for (path, name) in [("/instances/i1", "ann"), ("/runs/r1", "bob")] {
        let page = page(&server, path).await;
        assert!(page.contains("Submitted by"), "{page}");
        assert!(page.contains(&format!("{name} (token t")), "{page}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_authentication_the_user_is_what_the_client_says() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let submit = async |user: Option<&str>| {
        let request = server.request(Method::POST, "/instances/");
        let request = request.body(task("x").to_string());
        got(match user {
            Some(user) => request.header("baton-user", user),
            None => request,
        })
        .await
    };
    submit(Some("ünn")).await;
    submit(None).await;
    let origin = async |id: &str| {
        let shown = server.get(&format!("/instances/{id}")).await.body;
        shown["details"]["origin"].clone()
    };
    let text = "ünn (not authenticated)";
    let expected = json!({"kind": "unauthenticated", "name": "ünn", "text": text});
    assert_eq!(origin("i1").await["submittedBy"], expected);
    let unknown = origin("i2").await;
    assert_eq!(unknown["submittedBy"], Value::Null);
    assert_eq!(unknown["text"], "submitted");
    let long = "x".repeat(101);
    for bad in ["", &long] {
        let refused = submit(Some(bad)).await;
        refused.is_problem(StatusCode::BAD_REQUEST, "bad-request");
        assert!(refused.detail().contains("Baton-User"), "{refused:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_that_stops_retries_resumes_or_backfills_is_in_the_events() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w1").await;
    let ask = async |method: Method, path: &str, body: Value| {
        let request = server.request(method, path).header("baton-user", "ann");
        let answer = got(request.body(body.to_string())).await;
        assert!(answer.status.is_success(), "{path}: {answer:?}");
    };
    let (post, delete) = (Method::POST, Method::DELETE);
    for _ in 0..2 {
        let path = server.submit("hold").await;
        server.until_state(&path, "RUNNING").await;
    }
    ask(post.clone(), "/instances/i1/kill", json!({})).await;
    ask(delete.clone(), "/instances/i2?now=true", json!({})).await;
    let sized = json!({"file": {"task": "x", "run": ["true"], "resources": {"cpu": 1000}}});
    server.send(post.clone(), "/instances/", &sized).await;
    ask(delete.clone(), "/instances/i3", json!({})).await;
    ask(post.clone(), "/instances/i3/retry", json!({})).await;
    ask(delete.clone(), "/instances/i3..i9", json!({})).await;
    ask(
        post.clone(),
        "/instances/i3..i9/retry?state=HALTED",
        json!({}),
    )
    .await;
    let mut run = workflow();
    run["file"]["tasks"]["a"]["resources"] = json!({"cpu": 1000});
    server.send(post.clone(), "/runs/", &run).await;
    ask(post.clone(), "/runs/r1/halt", json!({"mode": "drain"})).await;
    server.until_state("/runs/r1", "HALTED").await;
    ask(post.clone(), "/runs/r1/resume", json!({})).await;
    ask(delete, "/runs/r1", json!({})).await;
    let entry = json!({"task": "e", "run": ["true"], "trigger": {"schedule": "0 * * * *"}});
    server.send(post.clone(), "/lab/tasks/", &entry).await;
    let interval = json!({"from": 3_600_000, "to": 36_000_000});
    ask(post.clone(), "/lab/tasks/e/backfills/", interval).await;
    for change in ["halt", "resume", "cancel"] {
        ask(post.clone(), &format!("/backfills/b1/{change}"), json!({})).await;
    }
    let events = got(server.request(Method::GET, "/events?after=0&follow=false")).await;
    let events = events.body.as_str().expect("text").to_owned();
    for text in [
        "kill of attempt 1 requested by ann (not authenticated)",
        "stop requested by ann (not authenticated), at once",
        "halted while it waited, requested by ann (not authenticated)",
        "retry requested by ann (not authenticated)",
        "run r1 starts no further instances: requested by ann (not authenticated)",
        "run r1 is being killed: requested by ann (not authenticated)",
        "run r1 was resumed by ann (not authenticated), generation 2",
        "due times, requested by ann (not authenticated)",
        "backfill b1 is halted: requested by ann (not authenticated)",
        "backfill b1 was resumed by ann (not authenticated)",
        "backfill b1 was cancelled by ann (not authenticated)",
    ] {
        assert!(events.contains(text), "{text} in\n{events}");
    }
    let timeline = server.get("/instances/i3/timeline").await.body;
    let by_ann = timeline["items"].as_array().expect("a list").iter();
    let by_ann = by_ann.filter(|it| it["text"].as_str().is_some_and(|it| it.contains("by ann")));
    assert_eq!(by_ann.count(), 4, "{timeline}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_that_changes_workers_limits_or_the_library_is_in_the_events() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w1").await;
    server.until_state("/workers/w1", "HEALTHY").await;
    let ask = async |method: Method, path: &str, body: Value| {
        let request = server.request(method, path).header("baton-user", "ann");
        let request = match path {
            "/lab/tasks/e" => request.header("if-match", "\"r1\""),
            _ => request,
        };
        let answer = got(request.body(body.to_string())).await;
        assert!(answer.status.is_success(), "{path}: {answer:?}");
    };
    let (post, put, delete) = (Method::POST, Method::PUT, Method::DELETE);
    for drained in [true, false] {
        let body = json!({"drained": drained});
        ask(put.clone(), "/workers/w1/drained", body).await;
    }
    ask(post.clone(), "/workers/w1/forget", json!({})).await;
    ask(put.clone(), "/limits/db", json!({"capacity": 3})).await;
    ask(delete.clone(), "/limits/db", json!({})).await;
    let rate = json!({"rate": "10/s", "burst": 20});
    ask(put.clone(), "/limits/api", rate).await;
    server.submit_array("slow", 1, 9).await;
    let limit = json!({"maxConcurrent": 2});
    ask(put.clone(), "/instances/i1..i9/limit", limit).await;
    ask(put.clone(), "/shares/lab", json!({"weight": 3})).await;
    ask(delete.clone(), "/shares/lab", json!({})).await;
    let entry = |program: &str| json!({"task": "e", "run": [program]});
    ask(post, "/lab/tasks/", entry("true")).await;
    let pause = json!({"paused": true, "reason": "move"});
    ask(put.clone(), "/lab/tasks/e/paused", pause).await;
    ask(put.clone(), "/lab/tasks/e/paused", json!({"paused": false})).await;
    ask(put, "/lab/tasks/e", entry("false")).await;
    let request = server.request(delete, "/lab/tasks/e");
    let removed = got(request.header("baton-user", "bob")).await;
    assert!(removed.status.is_success(), "{removed:?}");
    let events = got(server.request(Method::GET, "/events?after=0&follow=false")).await;
    let events = events.body.as_str().expect("text").to_owned();
    for text in [
        "worker w1 is drained, requested by ann (not authenticated)",
        "worker w1 is undrained, requested by ann (not authenticated)",
        "an operator declared it gone, requested by ann (not authenticated)",
        "the limit db is 3, requested by ann (not authenticated)",
        "the limit db is no longer set at run time, requested by ann (not authenticated)",
        "the limit api is 10/s, burst 20, requested by ann (not authenticated)",
        "at most 2 of the array i1 run at once, requested by ann (not authenticated)",
        "the share of owner lab is 3, requested by ann (not authenticated)",
        "the share of owner lab is 1, as that of others, requested by ann (not authenticated)",
        "task lab/e is at revision 1, defined by ann (not authenticated)",
        "lab/e was paused by ann (not authenticated): move",
        "lab/e was unpaused by ann (not authenticated)",
        "task lab/e is at revision 2, defined by ann (not authenticated)",
        "lab/e was removed from the library by bob (not authenticated)",
        "\"links\":{\"task\":\"/lab/tasks/e\"}",
    ] {
        assert!(events.contains(text), "{text} in\n{events}");
    }
    server.stop().await;
}
