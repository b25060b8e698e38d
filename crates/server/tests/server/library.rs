//! The library over HTTP: tasks defined, replaced and removed; started by users, by other systems,
//! by schedules and by one another; and read from a directory.

use std::path::Path;

use baton_model::json;
use baton_server::Config;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::rig::{Got, Server, config, got, until};

const PATH: &str = "/lab/tasks/report";

fn report() -> Value {
    json!({"task": "report", "owner": "lab", "run": ["true"]})
}

async fn server(dir: &Path) -> Server {
    Server::start(config(dir)).await
}

async fn put(server: &Server, path: &str, file: &Value, condition: (&str, &str)) -> Got {
    let request = server.request(Method::PUT, path);
    let request = request.header(condition.0, condition.1);
    got(request.body(file.to_string())).await
}

/// Adds a task.
async fn add(server: &Server, file: &Value) -> String {
    let owner = file["owner"].as_str().unwrap_or("lab");
    let added = server
        .send(Method::POST, &format!("/{owner}/tasks/"), file)
        .await;
    assert_eq!(added.status, StatusCode::CREATED, "{added:?}");
    assert_eq!(added.body["change"], "created");
    added.body["links"]["task"]
        .as_str()
        .expect("a link")
        .to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_added_replaced_by_its_next_revision_and_removed() {
    let dir = tempfile::tempdir().expect("a place");
    let server = server(dir.path()).await;
    assert_eq!(add(&server, &report()).await, PATH);
    let shown = server.get(PATH).await;
    assert_eq!(shown.headers["etag"], "\"r1\"");
    assert_eq!(shown.body["definition"]["run"], json!(["true"]));
    assert_eq!(shown.body["links"]["run"], format!("POST {PATH}/run"));
    let again = server.send(Method::POST, "/lab/tasks/", &report()).await;
    again.is_problem(StatusCode::CONFLICT, "exists");

    let mut other = report();
    other["timeout"] = json!("1h");
    let blind = server.send(Method::PUT, PATH, &other).await;
    blind.is_problem(StatusCode::PRECONDITION_REQUIRED, "condition-needed");
    let dry = format!("{PATH}?dryRun=true");
    let dry = put(&server, &dry, &other, ("if-match", "\"r1\"")).await;
    assert_eq!(
        (&dry.body["change"], &dry.body["revision"]),
        (&json!("replaced"), &json!(2))
    );
    assert_eq!(
        server.get(PATH).await.body["revision"],
        1,
        "nothing was changed"
    );
    let replaced = put(&server, PATH, &other, ("if-match", "\"r1\"")).await;
    assert_eq!(replaced.status, StatusCode::OK);
    assert_eq!(replaced.headers["etag"], "\"r2\"");
    let late = put(&server, PATH, &report(), ("if-match", "\"r1\"")).await;
    late.is_problem(StatusCode::PRECONDITION_FAILED, "revised");
    assert!(late.detail().contains('2'), "{late:?}");
    let same = put(&server, PATH, &other, ("if-match", "\"r2\"")).await;
    assert_eq!(
        (&same.body["change"], &same.body["revision"]),
        (&json!("unchanged"), &json!(2))
    );
    for matching in [
        "*",
        "\"r1\", \"r2\"",
        "\"other\" , \"r2\"",
        "\"r2-paused-7\"",
    ] {
        let got = put(&server, PATH, &other, ("if-match", matching)).await;
        assert_eq!(got.status, StatusCode::OK, "{matching}: {got:?}");
    }
    for failing in ["W/\"r2\"", "\"r1\", W/\"r2\"", "\"other\"", "\"r02\""] {
        let got = put(&server, PATH, &report(), ("if-match", failing)).await;
        got.is_problem(StatusCode::PRECONDITION_FAILED, "revised");
    }
    let garbled = put(&server, PATH, &report(), ("if-match", "r2")).await;
    garbled.is_problem(StatusCode::BAD_REQUEST, "bad-request");
    let there = put(&server, PATH, &other, ("if-none-match", "*")).await;
    there.is_problem(StatusCode::PRECONDITION_FAILED, "revised");

    let all = server.get(&format!("{PATH}/revisions/")).await.body;
    let numbers: Vec<&Value> = all["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["revision"])
        .collect();
    assert_eq!(numbers, [&json!(2), &json!(1)]);
    let library = server.get("/library/?owner=lab").await.body;
    assert_eq!(library["items"][0]["revision"], 2);
    assert_eq!(
        server.get("/library/?owner=else").await.body["items"],
        json!([])
    );

    let wrong = got(server
        .request(Method::DELETE, PATH)
        .header("if-match", "\"r1\""))
    .await;
    wrong.is_problem(StatusCode::PRECONDITION_FAILED, "revised");
    assert_eq!(server.delete(PATH).await.status, StatusCode::NO_CONTENT);
    for any in ["*", "\"r2\""] {
        let gone = put(&server, PATH, &other, ("if-match", any)).await;
        gone.is_problem(StatusCode::PRECONDITION_FAILED, "revised");
        let gone = server.request(Method::DELETE, PATH).header("if-match", any);
        let gone = got(gone).await;
        gone.is_problem(StatusCode::PRECONDITION_FAILED, "revised");
    }
    server
        .get(PATH)
        .await
        .is_problem(StatusCode::NOT_FOUND, "not-found");
    let old = server.get(&format!("{PATH}?revision=1")).await;
    assert_eq!(
        (old.status, &old.body["current"]),
        (StatusCode::OK, &json!(false))
    );
    let anew = put(&server, PATH, &report(), ("if-none-match", "*")).await;
    assert_eq!(
        (anew.status, &anew.body["revision"]),
        (StatusCode::CREATED, &json!(3))
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn problems_of_a_task_are_listed_and_nothing_is_stored() {
    let dir = tempfile::tempdir().expect("a place");
    let server = server(dir.path()).await;
    let with = |trigger: Value| {
        let mut file = report();
        file["trigger"] = trigger;
        file
    };
    let mut parameter = with(json!({"schedule": "@daily"}));
    parameter["params"] = json!({"day": null});
    for (file, field) in [
        (
            with(json!({"schedule": "every blue moon"})),
            "trigger.schedule",
        ),
        (
            with(json!({"schedule": "@daily", "timezone": "Mars"})),
            "trigger.timezone",
        ),
        (with(json!({"after": "report"})), "trigger.after"),
        (parameter, "params.day"),
        (json!({"task": "other", "run": "true"}), "task"),
    ] {
        let refused = put(&server, PATH, &file, ("if-none-match", "*")).await;
        refused.is_problem(StatusCode::UNPROCESSABLE_ENTITY, "invalid");
        assert_eq!(refused.body["errors"][0]["field"], field, "{refused:?}");
    }
    assert_eq!(server.get("/library/").await.body["items"], json!([]));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_started_by_hand_and_over_its_url_only_if_it_is_remote() {
    let dir = tempfile::tempdir().expect("a place");
    let server = server(dir.path()).await;
    let mut file = report();
    file["params"] = json!({"day": "today"});
    file["run"] = json!(["echo", "{{ params.day }}"]);
    add(&server, &file).await;
    let closed = server.post(&format!("{PATH}/trigger")).await;
    closed.is_problem(StatusCode::FORBIDDEN, "not-remote");
    let run = server.post(&format!("{PATH}/run")).await;
    assert_eq!(run.status, StatusCode::ACCEPTED, "{run:?}");
    let control = run.body["links"]["control"].as_str().expect("a link");
    assert_eq!(run.headers["location"], control);
    assert_eq!(server.get(control).await.body["links"]["task"], PATH);

    file["trigger"] = json!({"remote": true});
    put(&server, PATH, &file, ("if-match", "\"r1\"")).await;
    let trigger = format!("{PATH}/trigger");
    let day = json!({"params": {"day": "monday"}});
    let triggered = server.send(Method::POST, &trigger, &day).await;
    assert_eq!(triggered.status, StatusCode::ACCEPTED, "{triggered:?}");
    let control = triggered.body["links"]["control"].as_str().expect("a link");
    let timeline = server
        .get(&format!("{control}/timeline"))
        .await
        .body
        .to_string();
    assert!(
        timeline.contains("monday") && timeline.contains("triggered over HTTP"),
        "{timeline}"
    );
    for (body, status) in [
        (
            json!({"params": {"moon": "full"}}),
            StatusCode::UNPROCESSABLE_ENTITY,
        ),
        (json!({"colour": 1}), StatusCode::BAD_REQUEST),
    ] {
        let refused = server.send(Method::POST, &trigger, &body).await;
        assert_eq!(refused.status, status, "{refused:?}");
    }
    server
        .post("/lab/tasks/none/trigger")
        .await
        .is_problem(StatusCode::NOT_FOUND, "not-found");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_with_a_key_is_carried_out_once_also_across_a_restart() {
    let dir = tempfile::tempdir().expect("a place");
    let first = server(dir.path()).await;
    let mut file = report();
    file["trigger"] = json!({"remote": true});
    file["params"] = json!({"n": 1});
    add(&first, &file).await;
    let send = async |server: &Server, n: &str| {
        let body = json!({"params": {"n": n}});
        let request = server.request(Method::POST, &format!("{PATH}/trigger"));
        let request = request.header("idempotency-key", "order-4711");
        got(request.body(body.to_string())).await
    };
    let once = send(&first, "7").await;
    assert_eq!(once.body["repeated"], false, "{once:?}");
    let twice = send(&first, "7").await;
    assert_eq!(
        (&twice.body["id"], &twice.body["repeated"]),
        (&once.body["id"], &json!(true))
    );
    first.stop().await;
    let second = server(dir.path()).await;
    let thrice = send(&second, "7").await;
    assert_eq!(thrice.body["id"], once.body["id"]);
    let other = send(&second, "8").await;
    other.is_problem(StatusCode::UNPROCESSABLE_ENTITY, "key-used");
    assert_eq!(second.get("/bullpen/").await.body["total"], 1);
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_opens_its_task_and_no_other() {
    let dir = tempfile::tempdir().expect("a place");
    let server = server(dir.path()).await;
    let mut file = report();
    // Of `sesame`.
    let hash = "d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272";
    file["trigger"] = json!({"remote": true, "secret_sha256": hash});
    add(&server, &file).await;
    let show = async |secret: &str| {
        let request = server.request(Method::POST, &format!("{PATH}/trigger"));
        got(request.header("baton-trigger-secret", secret)).await
    };
    let none = server.post(&format!("{PATH}/trigger")).await;
    none.is_problem(StatusCode::FORBIDDEN, "secret");
    show("barley")
        .await
        .is_problem(StatusCode::FORBIDDEN, "secret");
    assert_eq!(show("sesame").await.status, StatusCode::ACCEPTED);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limits_of_a_task_hold_for_every_trigger() {
    let dir = tempfile::tempdir().expect("a place");
    let server = server(dir.path()).await;
    let mut file = report();
    file["trigger"] = json!({"max_instances": 1});
    add(&server, &file).await;
    let run = async || server.post(&format!("{PATH}/run")).await;
    let first = run().await;
    run()
        .await
        .is_problem(StatusCode::CONFLICT, "max-instances");
    let control = first.body["links"]["control"].as_str().expect("a link");
    server.delete(control).await;
    assert_eq!(run().await.status, StatusCode::ACCEPTED, "one has ended");
    file["trigger"] = json!({"launch_rate": "1/h"});
    put(&server, PATH, &file, ("if-match", "\"r1\"")).await;
    assert_eq!(run().await.status, StatusCode::ACCEPTED);
    let limited = run().await;
    limited.is_problem(StatusCode::TOO_MANY_REQUESTS, "launch-rate");
    let wait = limited.headers["retry-after"].to_str().expect("digits");
    let wait: u64 = wait.parse().expect("a number of seconds");
    assert!((3_000..=3_600).contains(&wait), "{wait}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_launches_what_is_due_and_what_comes_after_follows() {
    let dir = tempfile::tempdir().expect("a place");
    let server = server(dir.path()).await;
    let _worker = server.worker("w1").await;
    let mut then = report();
    then["task"] = json!("then");
    then["trigger"] = json!({"after": "report"});
    add(&server, &then).await;
    let mut file = report();
    file["trigger"] = json!({"schedule": "every second"});
    add(&server, &file).await;
    let due = server.get(&format!("{PATH}/due?limit=2")).await.body;
    let times: Vec<u64> = json::from_value(&due["at"]).expect("times");
    assert_eq!(times[1] - times[0], 1_000);
    let mut ticks = Value::Null;
    let followed = until(async || {
        ticks = server.get("/history/ticks/").await.body;
        let items = ticks["items"].as_array().expect("a list");
        items.iter().any(|tick| tick["name"] == "then")
    });
    assert!(followed.await, "{ticks}");
    let items = ticks["items"].as_array().expect("a list");
    let follower = items.iter().find(|it| it["name"] == "then").expect("it");
    let launched = items.iter().find(|it| it["instance"] == follower["after"]);
    let launched = launched.expect("the one it came after");
    assert_eq!(
        (&launched["verdict"], &launched["name"]),
        (&json!("launched"), &json!("report"))
    );
    let instance = launched["links"]["instance"].as_str().expect("a link");
    let instance = server.get(instance).await.body;
    assert_eq!(instance["nominalAt"], launched["nominalAt"], "{instance}");
    assert_eq!(instance["state"], "DONE");
    let own = server.get(&format!("{PATH}/ticks/")).await.body;
    let own = own["items"].as_array().expect("a list");
    assert!(own.iter().all(|tick| tick["name"] == "report") && !own.is_empty());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_files_is_the_library_and_a_bad_file_changes_nothing() {
    let dir = tempfile::tempdir().expect("a place");
    let files = tempfile::tempdir().expect("a place");
    let write = |name: &str, text: &str| {
        // As editors do: the server never reads half a file.
        let draft = files.path().join(".draft");
        std::fs::write(&draft, text).expect("written");
        std::fs::rename(&draft, files.path().join(name)).expect("renamed");
    };
    write("report.yaml", "task: report\nowner: lab\nrun: 'true'\n");
    let server = Server::start(Config {
        library: Some(files.path().to_owned()),
        ..config(dir.path())
    })
    .await;
    let at = async |revision: u64| {
        let reached = until(async || server.get(PATH).await.body["revision"] == revision);
        assert!(reached.await, "revision {revision} never came");
    };
    at(1).await;
    let mine = put(&server, PATH, &report(), ("if-match", "\"r1\"")).await;
    mine.is_problem(StatusCode::CONFLICT, "from-file");
    assert!(mine.detail().contains("report.yaml"), "{mine:?}");
    write("report.yaml", "task: report\nowner: lab\nrun: 'false'\n");
    at(2).await;
    write("report.yaml", "task: report\nowner: lab\nrum: 'false'\n");
    let mut library = Value::Null;
    let reported = until(async || {
        library = server.get("/library/").await.body;
        library["problems"][0]["file"] == "report.yaml"
    });
    assert!(reported.await, "{library}");
    let text = library["problems"][0]["text"].as_str().expect("a text");
    assert!(text.contains("rum"), "{text}");
    assert_eq!(
        library["items"][0]["revision"], 2,
        "its previous definition stays in force"
    );
    std::fs::remove_file(files.path().join("report.yaml")).expect("removed");
    let gone = until(async || server.get(PATH).await.status == StatusCode::NOT_FOUND);
    assert!(gone.await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipes_and_links_in_the_library_hold_up_nothing() {
    let dir = tempfile::tempdir().expect("a place");
    let place = tempfile::tempdir().expect("a place");
    let files = place.path().join("library");
    std::fs::create_dir_all(files.join("team")).expect("made");
    let task = |name: &str| format!("task: {name}\nowner: lab\nrun: 'true'\n");
    std::fs::write(files.join("team/report.yaml"), task("report")).expect("written");
    let server = Server::start(Config {
        library: Some(files.clone()),
        ..config(dir.path())
    })
    .await;
    let defined = async |name: &str| {
        let path = format!("/lab/tasks/{name}");
        until(async || server.get(&path).await.status == StatusCode::OK).await
    };
    assert!(defined("report").await);

    std::fs::write(place.path().join("secret"), "root:s3cret:1::\n").expect("written");
    std::os::unix::fs::symlink("../secret", files.join("secret.yaml")).expect("made");
    std::fs::hard_link(place.path().join("secret"), files.join("hard.yaml")).expect("made");
    let pipe = files.join("pipe.yaml");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).expect("made");
    // A directory that has become a link out of the library is no removed one.
    std::fs::rename(files.join("team"), place.path().join("team")).expect("moved");
    std::os::unix::fs::symlink("../team", files.join("team")).expect("made");
    std::fs::write(files.join("later.yaml"), task("later")).expect("written");
    assert!(defined("later").await);
    let library = server.get("/library/").await.body;
    let problems = library["problems"].as_array().expect("a list");
    let named: Vec<_> = problems.iter().map(|it| &it["file"]).collect();
    assert_eq!(named, ["hard.yaml", "pipe.yaml", "secret.yaml", "team"]);
    assert!(!library.to_string().contains("s3cret"), "{library}");
    assert!(defined("report").await, "its file cannot be read");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_task_is_shown_as_such_and_skips_what_is_due() {
    let dir = tempfile::tempdir().expect("a place");
    let server = server(dir.path()).await;
    let mut file = report();
    file["trigger"] = json!({"schedule": "every 1s"});
    add(&server, &file).await;
    let put = |body: Value| {
        let path = format!("{PATH}/paused");
        let server = &server;
        async move { server.send(Method::PUT, &path, &body).await }
    };
    let paused = put(json!({"paused": true, "reason": "repairs"})).await;
    assert_eq!(paused.status, StatusCode::OK, "{paused:?}");
    let tag = paused.headers["etag"].clone();
    for shown in [
        paused.body,
        server.get(PATH).await.body,
        server.get("/library/").await.body["items"][0].clone(),
    ] {
        assert!(shown["pausedAt"].is_u64(), "{shown}");
        assert_eq!(shown["pauseReason"], "repairs");
        assert_eq!(shown["links"]["unpause"], format!("PUT {PATH}/paused"));
    }
    let last_tick = async || {
        let ticks = server.get(&format!("{PATH}/ticks/")).await;
        ticks.body["items"][0].clone()
    };
    assert!(until(async || last_tick().await["reason"] == "paused").await);
    // Its tag is that of its revision, too; a new revision is paused as well.
    file["timeout"] = json!("1h");
    let tag = tag.to_str().expect("text");
    let again = self::put(&server, PATH, &file, ("if-match", tag)).await;
    assert_eq!(again.status, StatusCode::OK, "{again:?}");
    assert_eq!(server.get(PATH).await.body["pauseReason"], "repairs");
    let by_hand = server
        .send(Method::POST, &format!("{PATH}/run"), &json!({}))
        .await;
    assert_eq!(by_hand.status, StatusCode::ACCEPTED, "{by_hand:?}");

    for (body, text) in [
        (
            json!({"paused": true, "reason": "x".repeat(2_000)}),
            "too long",
        ),
        (json!({"paused": false, "reason": "x"}), "only a pause"),
    ] {
        let refused = put(body).await;
        refused.is_problem(StatusCode::UNPROCESSABLE_ENTITY, "invalid");
        assert!(refused.detail().contains(text), "{refused:?}");
    }
    let unpaused = put(json!({"paused": false})).await;
    assert_eq!(unpaused.body["pausedAt"], Value::Null);
    assert_eq!(unpaused.headers["etag"], "\"r2\"");
    assert!(until(async || last_tick().await["verdict"] == "launched").await);
    let events = server.request(Method::GET, "/events?after=0&follow=false");
    let events = events.send().await.expect("an answer");
    let text = events.text().await.expect("text");
    for kind in ["task-paused", "task-unpaused"] {
        assert!(text.contains(&format!("event: {kind}")), "{text}");
    }
    let missing = server
        .send(
            Method::PUT,
            "/lab/tasks/nothing/paused",
            &json!({"paused": true}),
        )
        .await;
    missing.is_problem(StatusCode::NOT_FOUND, "not-found");
}

const HOUR: u64 = 3_600_000;

/// The start of a whole hour some hours ago, and that of the current one.
fn past_hours(hours: u64) -> (u64, u64) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.expect("after 1970").as_millis();
    let to = u64::try_from(now).expect("a time of today") / HOUR * HOUR;
    (to - hours * HOUR, to)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backfill_launches_each_due_time_once_and_can_be_halted_and_resumed() {
    let dir = tempfile::tempdir().expect("a place");
    let server = server(dir.path()).await;
    let mut file = report();
    file["trigger"] = json!({"schedule": "0 * * * *"});
    add(&server, &file).await;
    let (from, to) = past_hours(4);
    let path = format!("{PATH}/backfills/");
    let start = |body: Value| {
        let (path, server) = (&path, &server);
        async move { server.send(Method::POST, path, &body).await }
    };
    let interval = json!({"from": from, "to": to, "maxConcurrent": 2});
    let dry = server
        .send(Method::POST, &format!("{path}?dryRun=true"), &interval)
        .await;
    assert_eq!(dry.status, StatusCode::OK, "{dry:?}");
    let hours: Vec<u64> = (0..4).map(|hour| from + hour * HOUR).collect();
    assert_eq!(dry.body["at"], json!(hours));
    assert_eq!(
        server.get("/backfills/").await.body["items"],
        json!([]),
        "nothing was changed"
    );
    let started = start(interval.clone()).await;
    assert_eq!(started.status, StatusCode::CREATED, "{started:?}");
    assert_eq!(started.headers["location"], "/backfills/b1");
    let again = start(interval.clone()).await;
    again.is_problem(StatusCode::CONFLICT, "running");
    // There is no worker: two are in flight, and end when they are cancelled.
    let shown = server.get("/backfills/b1").await.body;
    assert_eq!(
        (&shown["state"], &shown["due"]),
        (&json!("RUNNING"), &json!(4))
    );
    assert_eq!(
        (&shown["launched"], &shown["remaining"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(shown["states"], json!({"QUEUED": 2}));
    let halted = server
        .send(Method::POST, "/backfills/b1/halt", &json!({}))
        .await;
    assert_eq!(
        (&halted.body["state"], &halted.body["halted"]),
        (&json!("HALTED"), &json!("requested"))
    );
    let twice = server
        .send(Method::POST, "/backfills/b1/halt", &json!({}))
        .await;
    twice.is_problem(StatusCode::CONFLICT, "state");
    for id in ["i1", "i2"] {
        server
            .send(Method::DELETE, &format!("/instances/{id}"), &json!({}))
            .await;
    }
    assert_eq!(server.get("/backfills/b1").await.body["launched"], 2);
    let resumed = server
        .send(Method::POST, "/backfills/b1/resume", &json!({}))
        .await;
    assert_eq!(resumed.status, StatusCode::OK, "{resumed:?}");
    for id in ["i3", "i4"] {
        server
            .send(Method::DELETE, &format!("/instances/{id}"), &json!({}))
            .await;
    }
    let done = server.until_state("/backfills/b1", "DONE").await;
    assert_eq!(
        (&done["launched"], &done["remaining"]),
        (&json!(4), &json!(0))
    );
    let launches = server.get("/backfills/b1/launches/").await.body;
    let times: Vec<&Value> = launches["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["nominalAt"])
        .collect();
    assert_eq!(json!(times), json!(hours));
    let shown = server.get("/instances/i1").await.body;
    assert_eq!(shown["nominalAt"], from);
    let origin = &shown["details"]["origin"];
    assert_eq!(
        (&origin["kind"], &origin["backfill"]),
        (&json!("schedule"), &json!("b1"))
    );
    let text = origin["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("by backfill b1, revision 1 of "), "{text}");
    let tick = server.get(&format!("{PATH}/ticks/")).await.body["items"][0].clone();
    assert_eq!(
        (&tick["verdict"], &tick["backfill"]),
        (&json!("backfilled"), &json!("b1"))
    );
    let nothing = start(interval).await;
    assert_eq!(nothing.status, StatusCode::OK, "{nothing:?}");
    assert_eq!(
        (&nothing.body["at"], &nothing.body["due"]),
        (&json!([]), &json!(4))
    );

    for (body, field) in [
        (json!({"from": to, "to": from}), "to"),
        (json!({"from": from, "to": to + 1_000 * HOUR}), "to"),
        (json!({"from": 0, "to": to}), "from"),
        (
            json!({"from": from, "to": to, "maxConcurrent": 0}),
            "maxConcurrent",
        ),
    ] {
        let refused = start(body).await;
        refused.is_problem(StatusCode::UNPROCESSABLE_ENTITY, "invalid");
        assert_eq!(refused.body["errors"][0]["field"], field, "{refused:?}");
    }
    let missing = server.get("/backfills/b9").await;
    missing.is_problem(StatusCode::NOT_FOUND, "not-found");
}
