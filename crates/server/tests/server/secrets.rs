//! Secrets over HTTP: values go in, and never come out.

use std::path::Path;

use baton_model::time::Wall;
use baton_model::token::{NewToken, Role, Secret};
use baton_server::{Config, STORE_FILE};
use baton_store::{FactLog as _, SqliteStore, token};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::rig::{Got, Server, config, got};

const VALUE: &str = "tr0ub4dor";

fn token_of(data: &Path, role: Role, owner: Option<&str>) -> Secret {
    let store = SqliteStore::open(&data.join(STORE_FILE)).expect("the store opens");
    let secret = token::generate().expect("random bits");
    let new = NewToken {
        name: role.to_string(),
        role,
        owner: owner.map(str::to_owned),
        fleet: None,
        hash: token::hash(&secret),
        created_at: Wall(1),
        expires_at: None,
    };
    store.create_token(&new).expect("kept");
    secret
}

async fn send(server: &Server, by: &Secret, method: Method, path: &str, body: Value) -> Got {
    let request = server.request(method, path).bearer_auth(by.expose());
    got(request.body(body.to_string())).await
}

fn names(list: &Got) -> Vec<String> {
    let items = list.body["items"].as_array().expect("a list").iter();
    items
        .map(|it| {
            format!(
                "{}/{}",
                it["owner"].as_str().expect("text"),
                it["name"].as_str().expect("text")
            )
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_an_owner_set_and_see_its_secrets_alone_and_no_answer_has_a_value() {
    let dir = tempfile::tempdir().expect("a place");
    let [viewer, lab, operator, admin] = [
        (Role::Viewer, None),
        (Role::Operator, Some("lab")),
        (Role::Operator, None),
        (Role::Admin, None),
    ]
    .map(|(role, owner)| token_of(dir.path(), role, owner));
    let server = Server::start(Config {
        require_tokens: true,
        ..config(dir.path())
    })
    .await;
    let body = || json!({ "value": VALUE });
    let set = send(&server, &lab, Method::PUT, "/secrets/lab/db", body()).await;
    assert_eq!(set.status, StatusCode::OK, "{set:?}");
    assert_eq!(set.body["version"], 1);
    assert!(
        set.body["setBy"]
            .as_str()
            .is_some_and(|by| by.contains("operator")),
        "{set:?}"
    );
    send(&server, &lab, Method::PUT, "/secrets/billing/db", body())
        .await
        .is_problem(StatusCode::FORBIDDEN, "owner");
    send(&server, &viewer, Method::PUT, "/secrets/lab/db", body())
        .await
        .is_problem(StatusCode::FORBIDDEN, "role");
    let set = send(
        &server,
        &operator,
        Method::PUT,
        "/secrets/billing/db",
        body(),
    )
    .await;
    assert_eq!(set.status, StatusCode::OK, "{set:?}");
    for (who, seen) in [(&viewer, 2), (&lab, 1), (&operator, 2)] {
        let list = send(&server, who, Method::GET, "/secrets/", Value::Null).await;
        assert_eq!(names(&list).len(), seen, "{list:?}");
        assert!(!list.body.to_string().contains(VALUE));
    }
    let list = send(
        &server,
        &viewer,
        Method::GET,
        "/secrets/?owner=lab",
        Value::Null,
    )
    .await;
    assert_eq!(names(&list), ["lab/db"]);
    send(
        &server,
        &operator,
        Method::POST,
        "/secrets/rekey",
        Value::Null,
    )
    .await
    .is_problem(StatusCode::FORBIDDEN, "role");
    let rekeyed = send(&server, &admin, Method::POST, "/secrets/rekey", Value::Null).await;
    assert_eq!(
        (&rekeyed.body["changed"], &rekeyed.body["unchanged"]),
        (&json!(0), &json!(2))
    );
    send(
        &server,
        &lab,
        Method::DELETE,
        "/secrets/billing/db",
        Value::Null,
    )
    .await
    .is_problem(StatusCode::FORBIDDEN, "owner");
    let removed = send(
        &server,
        &lab,
        Method::DELETE,
        "/secrets/lab/db",
        Value::Null,
    )
    .await;
    assert_eq!(removed.status, StatusCode::OK, "{removed:?}");
    send(
        &server,
        &lab,
        Method::DELETE,
        "/secrets/lab/db",
        Value::Null,
    )
    .await
    .is_problem(StatusCode::NOT_FOUND, "not-found");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_names_and_values_change_nothing() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let long = "x".repeat((64 << 10) + 1);
    for (path, body) in [
        ("/secrets/lab/a%20b", json!({ "value": "x" })),
        ("/secrets/lab/.a", json!({ "value": "x" })),
        ("/secrets/*/a", json!({ "value": "x" })),
        ("/secrets/a%2Fb/a", json!({ "value": "x" })),
        ("/secrets/lab/a", json!({ "value": "" })),
        ("/secrets/lab/a", json!({ "value": long })),
        (
            "/secrets/lab/a",
            json!({ "value": "%%", "encoding": "base64" }),
        ),
    ] {
        let refused = server.send(Method::PUT, path, &body).await;
        assert_eq!(
            refused.status,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{path}: {refused:?}"
        );
        assert!(!refused.detail().contains("xx"), "{refused:?}");
    }
    let unknown = json!({ "secret": "x" });
    let refused = server.send(Method::PUT, "/secrets/lab/a", &unknown).await;
    assert!(refused.status.is_client_error());
    assert_eq!(names(&server.get("/secrets/").await), Vec::<String>::new());
    let binary = json!({ "value": "AP8=", "encoding": "base64" });
    let set = server.send(Method::PUT, "/secrets/lab/a", &binary).await;
    assert_eq!(set.status, StatusCode::OK, "{set:?}");
    server.stop().await;
}
