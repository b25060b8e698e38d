//! Pages over an API that answers in part, or not at all.

use axum::http::Request as HttpRequest;
use serde_json::{Value, json};

use super::*;
use crate::http::problem::Fault;
use crate::http::{service, testing};

/// Pages over an API that answers 503 to requests of one path.
fn without(app: &App, broken: &'static str) -> Router {
    with(app, broken, || {
        Fault::no_leader("no scheduler <leads>").into_response()
    })
}

/// Pages over an API that answers so to requests of one path.
fn with(app: &App, changed: &'static str, answer: fn() -> Response) -> Router {
    let api = service(app.clone());
    let api = Router::new().fallback(move |request: Request| {
        let api = api.clone();
        async move {
            if request.uri().path() == changed {
                return answer();
            }
            let Ok(response) = api.oneshot(request).await;
            response
        }
    });
    router(api, app.clone())
}

async fn page(pages: Router, path: &str) -> (StatusCode, String) {
    let request = HttpRequest::get(path)
        .header(header::HOST, "127.0.0.1:1")
        .header(header::ACCEPT, "text/html")
        .body(Body::empty());
    let response = pages.oneshot(request.expect("valid")).await;
    let response = response.expect("infallible");
    let status = response.status();
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await;
    let bytes = bytes.expect("whole").to_vec();
    (status, String::from_utf8(bytes).expect("text"))
}

async fn post(app: &App, path: &str, body: &Value) {
    let request = HttpRequest::post(path)
        .header(header::HOST, "127.0.0.1:1")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()));
    let answer = service(app.clone()).oneshot(request.expect("valid")).await;
    assert!(answer.expect("infallible").status().is_success());
}

#[tokio::test]
async fn a_list_that_matches_few_tells_how_far_it_has_looked() {
    let app = testing::app();
    post(
        &app,
        "/instances/",
        &json!({"file": {"task": "t", "run": "true"}}),
    )
    .await;
    let nothing_yet = || {
        let next = "/bullpen/?name=x&cursor=0.1";
        let links = json!({"self": "/bullpen/?name=x", "next": next, "last": "/instances/i1"});
        let list = json!({"items": [], "links": links});
        (StatusCode::OK, list.to_string()).into_response()
    };
    let (_, text) = page(with(&app, "/bullpen", nothing_yet), "/bullpen/?name=x").await;
    assert!(
        text.contains("No match so far.</span> <span class=\"faint\">Looked up to <time "),
        "{text}"
    );
    assert!(
        text.contains("href=\"/bullpen/?name=x&#38;cursor=0.1\">Look further</a>"),
        "{text}"
    );
    let (_, text) = page(without(&app, "/nothing"), "/bullpen/?name=x").await;
    assert!(text.contains("No instance matches the filters."), "{text}");
    assert!(!text.contains("Look further"), "{text}");
}

#[tokio::test]
async fn a_part_that_cannot_be_read_is_told_and_not_shown_as_nothing() {
    let app = testing::app();
    let entry = json!({"workflow": "w", "owner": "ann", "tasks": {"a": {"run": "true"}}});
    post(&app, "/ann/tasks/", &entry).await;
    for (path, broken, part) in [
        ("/", "/schedulers", "The schedulers"),
        ("/", "/workers", "The workers"),
        ("/", "/library", "What is due next"),
        ("/", "/usage", "The instances that ended by hour"),
        ("/", "/readyz", "Whether the scheduler is ready"),
        ("/ann/tasks/w", "/ann/tasks/w/due", "The schedule"),
        ("/ann/tasks/w", "/runs", "The latest runs"),
    ] {
        let (status, text) = page(without(&app, broken), path).await;
        assert_eq!(status, StatusCode::OK, "{path} without {broken}: {text}");
        let told = format!("{part} cannot be shown: no scheduler &#60;leads&#62;");
        assert!(text.contains(&told), "{path} without {broken}: {text}");
        let (_, whole) = page(without(&app, "/nothing"), path).await;
        assert!(!whole.contains("cannot be shown"), "{path}: {whole}");
    }
    let (status, _) = page(without(&app, "/runs"), "/runs/").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
}
