//! Limits over HTTP: counts, rates, those of arrays, and the shares of owners.

use baton_server::Config;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::rig::{Server, config, got, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_is_set_shown_explained_and_removed() {
    let dir = tempfile::tempdir().expect("a place");
    let flag = baton_files::units::rate("100/h").expect("a rate");
    let limited = Config {
        limits: vec![(
            "api".to_owned(),
            baton_model::rate::LimitValue::of_rate(flag, None),
        )],
        ..config(dir.path())
    };
    let server = Server::start(limited).await;
    let shown = server.get("/limits/api").await.body;
    assert_eq!(
        (&shown["rate"], &shown["origin"]),
        (&json!("100/h"), &json!("flag"))
    );
    assert_eq!(
        (&shown["capacity"], &shown["used"]),
        (&json!(1), &json!(1)),
        "a leader begins with nothing free"
    );
    let left = shown["nextStartSeconds"].as_f64().expect("it is used up");
    assert!(left > 0.0 && left <= 36.0, "{shown}");
    let rate = json!({"rate": "1/h", "burst": 2});
    let set = server.send(Method::PUT, "/limits/slow", &rate).await.body;
    assert_eq!((&set["rate"], &set["capacity"]), (&json!("1/h"), &json!(2)));
    assert_eq!(
        (&set["used"], &set["nextStartSeconds"]),
        (&json!(0), &Value::Null)
    );
    let _worker = server.worker("w1").await;
    server.until_state("/workers/w1", "HEALTHY").await;
    let file = json!({"task": "t", "run": ["true"], "resources": {"slow": 1}});
    let array = json!({"file": file, "array": {"from": 1, "to": 3}});
    server.send(Method::POST, "/instances/", &array).await;
    let explained = async || server.get("/instances/i3/explain").await.body;
    assert!(until(async || explained().await["reason"] == "limit").await);
    let text = explained().await["text"].as_str().expect("text").to_owned();
    assert!(
        text.contains("the rate slow (1/h), which is used up"),
        "{text}"
    );
    let used = server.get("/limits/slow").await.body;
    assert_eq!((&used["used"], &used["waiting"]), (&json!(2), &json!(1)));
    server.delete("/limits/slow").await;
    server
        .get("/limits/slow")
        .await
        .is_problem(StatusCode::NOT_FOUND, "not-found");
    for (body, field) in [
        (json!({}), "capacity"),
        (json!({"capacity": 1, "rate": "1/s"}), "rate"),
        (json!({"rate": "often"}), "rate"),
        (json!({"rate": "0/s"}), "rate"),
        (json!({"capacity": 1, "burst": 1}), "burst"),
        (json!({"rate": "1/s", "burst": 0}), "burst"),
    ] {
        let refused = server.send(Method::PUT, "/limits/x", &body).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{body}");
        assert_eq!(refused.body["errors"][0]["field"], field, "{refused:?}");
    }
    let page = server
        .request(Method::GET, "/limits/")
        .header("accept", "text/html");
    let page = got(page).await.body.as_str().expect("a page").to_owned();
    assert!(page.contains("<td>100/h</td>"), "{page}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_an_array_is_changed_and_survives_a_restart() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let path = server.submit_array("many", 1, 9).await;
    let limit = async |server: &Server, path: &str, max: Value| {
        let body = json!({"maxConcurrent": max});
        server
            .send(Method::PUT, &format!("{path}/limit"), &body)
            .await
    };
    let set = limit(&server, &path, json!(2)).await;
    assert_eq!(
        (set.status, &set.body["inFlight"]),
        (StatusCode::OK, &json!(0))
    );
    assert_eq!(
        (
            &set.body["first"],
            &set.body["last"],
            &set.body["maxConcurrent"]
        ),
        (&json!("i1"), &json!("i9"), &json!(2))
    );
    let one = limit(&server, "/instances/i4", json!(3)).await;
    assert_eq!(one.body["last"], "i9", "an element stands for its array");
    let alone = server.submit("alone").await;
    server.submit_array("other", 1, 3).await;
    for (path, max, text) in [
        (alone.as_str(), json!(1), "i10 is no element of an array"),
        ("/instances/i9..i12", json!(1), "are not of one array"),
        ("/instances/i1,i12", json!(1), "are not of one array"),
        (&path, json!(0), "maxConcurrent is 0"),
    ] {
        let refused = limit(&server, path, max).await;
        assert_eq!(
            refused.status,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{refused:?}"
        );
        assert!(refused.detail().contains(text), "{refused:?}");
        assert_ne!(refused.body["errors"][0]["hint"], "", "{refused:?}");
    }
    let empty = server
        .send(Method::PUT, "/instances/i1/limit", &json!({}))
        .await;
    assert_eq!(empty.status, StatusCode::BAD_REQUEST, "{empty:?}");
    let unknown = limit(&server, "/instances/i999", json!(1)).await;
    unknown.is_problem(StatusCode::NOT_FOUND, "not-found");
    server.stop().await;
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w1").await;
    server.until_state("/workers/w1", "HEALTHY").await;
    let explained = async || server.get("/instances/i9/explain").await.body;
    let waits = async || {
        let text = explained().await["text"].to_string();
        text.contains("3 of 3 are in use") && text.contains("baton array limit i1 N")
    };
    assert!(until(waits).await, "{}", explained().await);
    let timeline = server.get("/instances/i9/timeline").await.body.to_string();
    assert!(
        timeline.contains("at most 3 of the array i1 run at once"),
        "{timeline}"
    );
    let none = limit(&server, &path, Value::Null).await;
    assert_eq!(none.body["maxConcurrent"], Value::Null);
    let started = async || explained().await["reason"] != "limit";
    assert!(until(started).await, "{}", explained().await);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_are_set_listed_and_removed() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let put = async |server: &Server, owner: &str, weight: Value| {
        let body = json!({"weight": weight});
        server
            .send(Method::PUT, &format!("/shares/{owner}"), &body)
            .await
    };
    let set = put(&server, "lab", json!(3)).await;
    assert_eq!(
        (&set.body["owner"], &set.body["weight"]),
        (&json!("lab"), &json!(3))
    );
    for weight in [json!(0), json!(1_001)] {
        let refused = put(&server, "lab", weight).await;
        assert_eq!(
            refused.status,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{refused:?}"
        );
        assert_eq!(refused.body["errors"][0]["field"], "weight", "{refused:?}");
    }
    put(&server, "ann", json!(2)).await;
    server.stop().await;
    let server = Server::start(config(dir.path())).await;
    let listed = async || {
        let list = server.get("/shares/").await.body;
        let items = list["items"].as_array().expect("a list").clone();
        let items = items.into_iter();
        items
            .map(|it| (it["owner"].clone(), it["weight"].clone()))
            .collect::<Vec<_>>()
    };
    let expected = [(json!("ann"), json!(2)), (json!("lab"), json!(3))];
    assert_eq!(listed().await, expected, "also after a restart");
    let removed = server.delete("/shares/ann").await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT, "{removed:?}");
    let again = server.delete("/shares/ann").await;
    again.is_problem(StatusCode::NOT_FOUND, "not-found");
    put(&server, "lab", json!(1)).await;
    assert_eq!(listed().await, [], "1 is that of every owner");
    server.stop().await;
}
