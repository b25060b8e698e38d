//! The event stream, as clients see it.

use std::path::Path;
use std::time::Duration;

use baton_model::ids::Epoch;
use baton_model::time::Wall;
use baton_model::token::{NewToken, Role};
use baton_server::limits::STREAMS_MAX;
use baton_server::{Config, STORE_FILE};
use baton_store::{FactLog as _, Retention, SqliteStore, token};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::rig::{Server, config, got, until};

/// Longer than anything takes on a slow machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// An event of the stream.
#[derive(Clone, Debug, PartialEq)]
struct StreamEvent {
    id: u64,
    name: String,
    data: Value,
}

/// An open streaming response.
struct Stream {
    answer: Response,
    text: String,
}

impl Stream {
    async fn open(server: &Server, path: &str) -> Self {
        Self::of(server.request(Method::GET, path)).await
    }

    async fn of(request: reqwest::RequestBuilder) -> Self {
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let text = String::new();
        Self { answer, text }
    }

    /// The next event; `None` if the response has ended.
    async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let mut lines = frame.lines();
                    lines.find_map(|line| line.strip_prefix(name).map(str::to_owned))
                };
                let events = field("data: ").map(|data| StreamEvent {
                    id: field("id: ").expect("an id").parse().expect("a number"),
                    name: field("event: ").expect("a name"),
                    data: serde_json::from_str(&data).expect("JSON"),
                });
                self.text = rest.to_owned();
                if events.is_some() {
                    return events;
                }
                continue;
            }
            let chunk = timeout(TEST_TIMEOUT, self.answer.chunk())
                .await
                .expect("in time");
            // A client that is cut off sees an end or an error.
            let chunk = chunk.ok().flatten()?;
            self.text.push_str(&String::from_utf8_lossy(&chunk));
        }
    }

    async fn some(&mut self, count: usize) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        while events.len() < count {
            events.push(self.next().await.expect("more to come"));
        }
        events
    }

    async fn rest(mut self) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

async fn all(server: &Server, filter: &str) -> Vec<StreamEvent> {
    let path = format!("/events?after=0&follow=false{filter}");
    Stream::open(server, &path).await.rest().await
}

/// A server that already has an instance, and a fact without an owner.
async fn begun(data: &Path) -> Server {
    let server = Server::start(config(data)).await;
    server.submit("waits").await;
    assert_eq!(
        names(&all(&server, "").await),
        ["lease-time-set", "instances-submitted"]
    );
    server
}

fn ids(events: &[StreamEvent]) -> Vec<u64> {
    events.iter().map(|event| event.id).collect()
}

fn names(events: &[StreamEvent]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_are_streamed_as_they_happen_with_the_texts_of_the_timeline() {
    let dir = tempfile::tempdir().expect("a place");
    let server = begun(dir.path()).await;
    let before = all(&server, "").await.len() as u64;
    let mut live = Stream::open(&server, "/events").await;
    let path = server.submit("a").await;
    let first = live.next().await.expect("it happened");
    assert_eq!(
        (first.id, &*first.name),
        (before + 1, "instances-submitted")
    );
    let _worker = server.worker("w1").await;
    server.until_state(&path, "DONE").await;
    let mut events = vec![first];
    while events.last().is_none_or(|it| it.name != "attempt-ended") {
        let event = live.next().await.expect("more to come");
        events.extend(Some(event).filter(|it| it.data["links"]["instance"] == path));
    }
    assert_eq!(
        names(&events)[1..],
        ["lease-granted", "attempt-confirmed", "attempt-ended"]
    );
    let timeline = server.get(&format!("{path}/timeline")).await.body;
    for (event, shown) in events
        .iter()
        .zip(timeline["items"].as_array().expect("items"))
    {
        let mut data = event.data.clone();
        let links = data.as_object_mut().expect("an object").remove("links");
        assert_eq!(links, Some(json!({ "instance": path })));
        assert_eq!(
            (&data, event.id),
            (shown, shown["seq"].as_u64().expect("a number"))
        );
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reconnects_with_the_last_id_gets_each_fact_once_also_from_the_next_server() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let mut live = Stream::open(&server, "/events?after=0").await;
    server.submit_array("held", 1, 50).await;
    server.submit("a").await;
    let mut events = live.some(2).await;
    drop(live);
    server.submit("b").await;
    // Ends although a client follows: the response ends with the server.
    let late = Stream::open(&server, "/events").await;
    server.stop().await;
    assert_eq!(late.rest().await, []);
    let server = Server::start(config(dir.path())).await;
    server.submit("c").await;
    let last = events.last().expect("some").id.to_string();
    let request = server.request(Method::GET, "/events?after=0&follow=false");
    let rest = Stream::of(request.header("Last-Event-ID", last))
        .await
        .rest()
        .await;
    events.extend(rest);
    let expected: Vec<u64> = (1..=events.len() as u64).collect();
    assert_eq!(ids(&events), expected);
    assert_eq!(events, all(&server, "").await);
    let submitted = names(&events)
        .iter()
        .filter(|it| **it == "instances-submitted")
        .count();
    assert_eq!(submitted, 4);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_leaves_out_what_is_earlier() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    for name in ["a", "b", "c", "d", "e"] {
        server.submit(name).await;
    }
    let events = all(&server, "").await;
    let at = |event: &StreamEvent| event.data["at"].as_u64().expect("a time");
    let times: Vec<u64> = events.iter().map(at).collect();
    for since in times.iter().flat_map(|at| [*at, *at + 1]).chain([0]) {
        let path = format!("/events?since={since}&follow=false");
        let rest = Stream::open(&server, &path).await.rest().await;
        let expected: Vec<_> = events
            .iter()
            .filter(|it| at(it) >= since)
            .cloned()
            .collect();
        assert_eq!(rest, expected, "since {since} of {times:?}");
        // With a number only what comes after that, and is not earlier.
        let (path, skipped) = (format!("{path}&after=3"), 3);
        let rest = Stream::open(&server, &path).await.rest().await;
        let later = expected.into_iter().filter(|it| it.id > skipped);
        assert_eq!(rest, later.collect::<Vec<_>>());
    }
    let wrong = server.get("/events?since=10m").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST, "{wrong:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_leave_out_what_is_about_others() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    for owner in ["red", "blue", "red"] {
        let body = json!({"file": {"task": "t", "owner": owner, "run": ["true"]}});
        let got = server.send(Method::POST, "/instances/", &body).await;
        assert_eq!(got.status, StatusCode::CREATED, "{got:?}");
    }
    let mut live = Stream::open(&server, "/events?owner=blue").await;
    for id in ["i1", "i2", "i3"] {
        server.delete(&format!("/instances/{id}")).await;
    }
    let about = |events: &[StreamEvent]| -> Vec<Value> {
        events
            .iter()
            .map(|it| it.data["links"]["instance"].clone())
            .collect()
    };
    let blue = all(&server, "&owner=blue").await;
    assert_eq!(about(&blue), ["/instances/i2", "/instances/i2"]);
    assert_eq!(names(&blue), ["instances-submitted", "instances-halted"]);
    assert_eq!(live.next().await.as_ref(), blue.last());
    let third = all(&server, "&instance=i3").await;
    assert_eq!(about(&third), ["/instances/i3", "/instances/i3"]);
    assert_eq!(all(&server, "&owner=unknown").await, []);
    for path in ["/events?instance=i99", "/events?instance=i1&owner=blue"] {
        server
            .get(path)
            .await
            .is_problem(StatusCode::NOT_FOUND, "not-found");
    }
    for path in [
        "/events?after=x",
        "/events?instance=x",
        "/events?follow=perhaps",
        "/events?x=1",
    ] {
        let refused = server.get(path).await;
        refused.is_problem(StatusCode::BAD_REQUEST, "bad-request");
    }
    let strange = server
        .request(Method::GET, "/events")
        .header("Last-Event-ID", "x");
    got(strange)
        .await
        .is_problem(StatusCode::BAD_REQUEST, "bad-request");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_rate_the_newest_facts_come_and_the_others_are_counted() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    for owner in ["red", "blue", "red", "red", "blue", "blue", "red"] {
        let body = json!({"file": {"task": "t", "owner": owner, "run": ["true"]}});
        let got = server.send(Method::POST, "/instances/", &body).await;
        assert_eq!(got.status, StatusCode::CREATED, "{got:?}");
    }
    for filter in ["", "&owner=red"] {
        let every = all(&server, filter).await;
        let (left_out, newest) = every.split_at(every.len() - 2);
        let mut sampled = all(&server, &format!("{filter}&rate=2")).await;
        let skipped = sampled.remove(0);
        assert_eq!(sampled, newest, "{filter}");
        assert_eq!(skipped.name, "skipped");
        let text = format!("{} more events", left_out.len());
        let data = json!({"after": 0, "through": newest[0].id - 1, "text": text});
        assert_eq!(skipped.data, data, "{filter}");
        // A client that reconnects does not count them again.
        assert_eq!(skipped.id, newest[0].id - 1);
        // Where all fit, none is left out.
        assert_eq!(all(&server, &format!("{filter}&rate=1000")).await, every);
    }
    for rate in ["0", "1001", "x"] {
        let refused = server.get(&format!("/events?rate={rate}")).await;
        refused.is_problem(StatusCode::BAD_REQUEST, "bad-request");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_of_a_run_are_selected_by_owner_and_by_run() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w").await;
    for owner in ["red", "blue"] {
        let file = json!({"workflow": "w", "owner": owner, "tasks": {"a": {"run": ["true"]}}});
        let got = server
            .send(Method::POST, "/runs/", &json!({ "file": file }))
            .await;
        assert_eq!(got.status, StatusCode::CREATED, "{got:?}");
    }
    for run in ["/runs/r1", "/runs/r2"] {
        server.until_state(run, "DONE").await;
    }
    let whole = [
        "run-registered",
        "instances-submitted",
        "run-advanced",
        "lease-granted",
        "attempt-confirmed",
        "run-advanced",
        "attempt-ended",
        "run-ended",
    ];
    let mut sorted = whole;
    sorted.sort_unstable();
    for (filter, run) in [
        ("&owner=red", "/runs/r1"),
        ("&run=r1", "/runs/r1"),
        ("&run=2", "/runs/r2"),
        ("&run=r2&owner=blue", "/runs/r2"),
    ] {
        let events = all(&server, filter).await;
        let mut kinds = names(&events);
        assert_eq!((kinds[0], kinds[kinds.len() - 1]), (whole[0], whole[7]));
        kinds.sort_unstable();
        assert_eq!(kinds, sorted, "{filter}");
        for event in &events {
            let about = event.name.starts_with("run-") || event.name == "instances-submitted";
            let link = event.data["links"].get("run");
            assert_eq!(link, about.then(|| json!(run)).as_ref(), "{event:?}");
        }
    }
    // An object of another owner has the same error as one that never existed.
    let never = server.get("/events?run=r99").await;
    never.is_problem(StatusCode::NOT_FOUND, "not-found");
    let others = server.get("/events?run=r1&owner=blue").await;
    assert_eq!(others.detail().replace("r1", "r99"), never.detail());
    for path in ["/events?run=x", "/events?run=r1&instance=i1"] {
        let refused = server.get(path).await;
        refused.is_problem(StatusCode::BAD_REQUEST, "bad-request");
    }
    server.stop().await;
}

/// Prunes everything that has ended, from another process.
fn prune(data: &Path, epoch: Epoch) -> u64 {
    let store = SqliteStore::open(&data.join(STORE_FILE)).expect("it opens");
    let none = Retention {
        terminal_instances_max: Some(0),
        ..Retention::default()
    };
    let pruned = store.prune(epoch, Wall(u64::MAX), &none, usize::MAX);
    pruned.expect("prunable").instances
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pruned_facts_are_reported_with_where_the_stream_continues() {
    let dir = tempfile::tempdir().expect("a place");
    let server = begun(dir.path()).await;
    let first = server.submit("a").await;
    let second = server.submit("b").await;
    server.delete(&first).await;
    let before = all(&server, "").await;
    let pruned_to = before.last().expect("some").id;
    assert_eq!(prune(dir.path(), server.ready.epoch.expect("it leads")), 1);
    let mut live = Stream::open(&server, "/events?after=2").await;
    let lost = live.next().await.expect("an event");
    assert_eq!((lost.id, &*lost.name), (2, "lost"));
    assert_eq!(
        (&lost.data["after"], &lost.data["through"]),
        (&json!(2), &json!(pruned_to))
    );
    let left = live.next().await.expect("what is left");
    assert_eq!(left.data["links"]["instance"], second);
    server.submit("c").await;
    assert_eq!(live.next().await.expect("a new event").id, pruned_to + 1);
    // After that nothing is missing.
    let path = format!("/events?follow=false&after={pruned_to}");
    let rest = Stream::open(&server, &path).await.rest().await;
    assert_eq!(ids(&rest), [pruned_to + 1]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_of_another_history_is_reported_and_everything_follows() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::memory(dir.path()).await;
    server.submit("a").await;
    let mut live = Stream::open(&server, "/events?after=1000").await;
    let lost = live.next().await.expect("an event");
    assert_eq!((lost.id, &*lost.name), (0, "lost"));
    assert_eq!(live.next().await.expect("from the beginning").id, 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_streams_is_limited_and_a_closed_one_is_released() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let mut streams = Vec::new();
    for _ in 0..STREAMS_MAX {
        streams.push(Stream::open(&server, "/events").await);
    }
    let refused = server.get("/events").await;
    refused.is_problem(StatusCode::SERVICE_UNAVAILABLE, "too-many-streams");
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(server.get("/healthz").await.status, StatusCode::OK);
    streams.pop();
    let freed = until(async || {
        let answer = server.request(Method::GET, "/events").send().await;
        answer.expect("an answer").status() == StatusCode::OK
    });
    assert!(freed.await, "its permit is not released");
    drop(streams);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_cut_off_when_its_token_is_revoked() {
    let dir = tempfile::tempdir().expect("a place");
    let secret = token::generate().expect("random bits");
    let store = SqliteStore::open(&dir.path().join(STORE_FILE)).expect("it opens");
    let new = NewToken {
        name: "viewer".to_owned(),
        role: Role::Viewer,
        owner: None,
        fleet: None,
        hash: token::hash(&secret),
        created_at: Wall(1),
        expires_at: None,
    };
    let id = store.create_token(&new).expect("kept");
    let demanding = Config {
        require_tokens: true,
        ..config(dir.path())
    };
    let server = Server::start(demanding).await;
    let request = server.request(Method::GET, "/events");
    let stream = Stream::of(request.bearer_auth(secret.expose())).await;
    store.revoke_token(id).expect("there");
    assert_eq!(stream.rest().await, []);
    server.stop().await;
}
