//! Requests that a browser makes for another server's page: redirects, forms, and the cookie.

use baton_model::token::Role;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::rig::{Server, config, got, task};
use crate::web::{Browser, demanding, form_token, text, tokens};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_stay_on_this_server() {
    let dir = tempfile::tempdir().expect("a place");
    let [(_, viewer)] = tokens(dir.path(), [Role::Viewer]);
    let server = Server::start(demanding(config(dir.path()))).await;
    let browser = Browser::new(&server);
    for typed in [
        "//x",
        "//evil.example/x",
        "/evil.example",
        "/%09/x",
        "%5C%5Cx/y",
    ] {
        let sent = browser.get(&format!("/-/go?q={typed}")).await;
        assert_eq!(sent.status(), StatusCode::SEE_OTHER, "{typed}");
        let to = text(&sent, "location");
        assert!(
            to.starts_with('/') && !to.starts_with("//"),
            "{typed}: {to}"
        );
    }
    for back in ["/\t/evil.example", "//evil.example", "/\\evil.example"] {
        let fields = [("token", viewer.expose()), ("back", back)];
        let signed_in = browser.submit("/-/sign-in", &fields).await;
        assert_eq!(signed_in.status(), StatusCode::SEE_OTHER, "{back:?}");
        assert_eq!(text(&signed_in, "location"), "/", "{back:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_from_another_origin_is_refused() {
    let dir = tempfile::tempdir().expect("a place");
    let [(_, operator)] = tokens(dir.path(), [Role::Operator]);
    let server = Server::start(demanding(config(dir.path()))).await;
    let mut browser = Browser::new(&server);
    browser.cookie = Some(cookie(&server, operator.expose()));
    let page = browser.page("/").await;
    let body = |target: &str| format!("csrf={}&target={target}", form_token(&page));
    let own = server.url("");
    for (path, target) in [
        ("/-/act", "PUT+/workers/none/drained"),
        ("/-/edit", ""),
        ("/-/sign-out", ""),
    ] {
        let post = |origin: &str| {
            let request = browser.http.post(server.url(path));
            let form = "application/x-www-form-urlencoded";
            let request = request.header("content-type", form);
            browser.send(request.header("origin", origin).body(body(target)))
        };
        for origin in ["http://evil.example", "null"] {
            let refused = post(origin).await;
            assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{path} {origin}");
            let reason = refused.text().await.expect("a page");
            assert!(
                reason.contains("page of another server"),
                "{path}: {reason}"
            );
        }
        let obeyed = post(&own).await;
        assert_ne!(obeyed.status(), StatusCode::FORBIDDEN, "{path}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_does_not_accept_the_cookie_for_reads() {
    let dir = tempfile::tempdir().expect("a place");
    let [(_, viewer)] = tokens(dir.path(), [Role::Viewer]);
    let server = Server::start(demanding(config(dir.path()))).await;
    let cookie = cookie(&server, viewer.expose());
    for path in ["/", "/arena/", "/instances/i1", "/events", "/metrics"] {
        let request = server.request(Method::GET, path).header("cookie", &cookie);
        let refused = got(request).await;
        assert_eq!(
            refused.status,
            StatusCode::UNAUTHORIZED,
            "{path}: {refused:?}"
        );
    }
    // The page of events reads them with the session.
    for (cookie, status) in [(&*cookie, StatusCode::OK), ("", StatusCode::UNAUTHORIZED)] {
        let stream = server.request(Method::GET, "/-/events?rate=5&after=0");
        let stream = stream.header("accept", "text/event-stream");
        let stream = stream.header("cookie", cookie).send().await;
        assert_eq!(stream.expect("an answer").status(), status);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_response_may_be_taken_for_another_type() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let worker = server.worker("w1").await;
    let done = server.submit("done").await;
    server.until_state(&done, "DONE").await;
    let browser = Browser::new(&server);
    let page = browser.page("/").await;
    let asset = page
        .split("href=\"")
        .find(|it| it.starts_with("/-/assets/"));
    let asset = asset.and_then(|it| it.split('"').next()).expect("an asset");
    let log = format!("{done}/logs/stdout");
    for path in [
        "/",
        &log,
        "/healthz",
        "/nothing",
        "/events",
        asset,
        "/-/changes",
        "/docs",
    ] {
        for accept in ["application/json", "text/html"] {
            let request = server.request(Method::GET, path).header("accept", accept);
            let response = request.send().await.expect("an answer");
            let found = response.headers().get("x-content-type-options");
            let found = found.and_then(|it| it.to_str().ok());
            assert_eq!(found, Some("nosniff"), "{path} {accept}");
        }
    }
    for body in [json!([]), task("t")] {
        let sent = server.send(Method::POST, "/instances/", &body).await;
        assert_eq!(sent.headers["x-content-type-options"], "nosniff");
    }
    drop(worker);
    server.stop().await;
}

/// The cookie of a session with this token.
fn cookie(server: &Server, token: &str) -> String {
    format!("baton-{}={token}", server.ready.clients.port())
}
