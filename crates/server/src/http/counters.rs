//! The request counters.

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;

use super::app::App;
use super::problem::Kind;
use super::routes;

/// Counts a request after it was answered.
pub(super) async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let method = word(request.method());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.and_then(|matched| routes::path_of(matched.as_str()));
    let route = route.unwrap_or("none");
    let metrics = &app.0.metrics;
    metrics.answered(method, route, response.status().as_u16());
    if let Some(Kind(kind)) = response.extensions().get() {
        metrics.refused(kind);
    }
    response
}

/// Clients may invent methods, and each would occupy memory for ever.
fn word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_that_clients_make_up_are_one() {
        let invented = Method::from_bytes(b"BREW").expect("a token");
        assert_eq!((word(&invented), word(&Method::PUT)), ("other", "PUT"));
    }
}
