//! Tokens of the pilots of fleets.

use baton_model::time::Wall;
use baton_model::token::{NewToken, Role};
use baton_store::{FactLog as _, token};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::rig::{Server, got, until};
use crate::tokens::{demanding, made, names, now, store, until_refused};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_a_fleet_is_for_its_pilots_only() {
    let dir = tempfile::tempdir().expect("a place");
    let store = store(dir.path());
    let (_, admin) = made(&store, Role::Admin, None);
    let server = Server::start(demanding(dir.path())).await;
    let spec = json!({
        "backend": "local",
        "cpus": 1,
        "memory": "64MiB",
        "max": 1,
    });
    let define = server.request(Method::PUT, "/fleets/gpu");
    let define = define.bearer_auth(admin.expose()).body(spec.to_string());
    let defined = got(define).await;
    assert_eq!(defined.status, StatusCode::OK, "{defined:?}");
    let issue = |expires_at| {
        let secret = token::generate().expect("random bits");
        let new = NewToken {
            name: "pilots of gpu".to_owned(),
            role: Role::Worker,
            owner: None,
            fleet: Some("gpu".parse().expect("a name")),
            hash: token::hash(&secret),
            created_at: Wall(now()),
            expires_at: Some(Wall(expires_at)),
        };
        store.create_token(&new).expect("the fleet is there");
        secret
    };
    let later = now() + 3_600_000;
    let (old, new, expired) = (issue(later), issue(later), issue(now() - 1));
    let listed = got(server
        .request(Method::GET, "/tokens/")
        .bearer_auth(admin.expose()))
    .await;
    let fleets = listed.body["items"].as_array().expect("a list").iter();
    assert_eq!(
        fleets.filter(|it| it["fleet"] == "gpu").count(),
        3,
        "{listed:?}"
    );
    for (name, secret, reason) in [
        ("w1", &new, "for the pilots of fleet gpu"),
        ("gpu-2-p1-0", &new, "for the pilots of fleet gpu"),
        ("gpu-p3-0", &expired, "has expired"),
    ] {
        let stranger = server.worker_with(name, secret);
        until_refused(&stranger, reason).await;
    }
    let request = server.request(Method::GET, "/bullpen/");
    let read = got(request.bearer_auth(new.expose())).await;
    assert_eq!(read.status, StatusCode::FORBIDDEN, "{read:?}");
    // The name stays the fleet's when its token is renewed.
    let first = server.worker_with("gpu-p1-0", &old);
    let is_there = async || names(&server, &admin).await == ["gpu-p1-0"];
    assert!(until(is_there).await);
    drop(first);
    let second = server.worker_with("gpu-p1-0", &new);
    assert!(until(is_there).await);
    let refused = second.observed.refusal.lock().expect("no panic").clone();
    assert_eq!(refused, None);
    server.stop().await;
}
