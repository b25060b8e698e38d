//! A server for tests, and a client for it.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_model::api::MEDIA_TYPE;
use baton_model::json;
use baton_model::token::Secret;
use baton_server::{Backend, Config, Ready, ServeError, serve, serve_store};
use baton_store::Store;
use baton_tls::ClientFiles;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::worker::Worker;

/// How long a condition may take to become true on a slow machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A server in this process.
pub(crate) struct Server {
    pub(crate) ready: Ready,
    scheme: &'static str,
    http: reqwest::Client,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<Result<(), ServeError>>,
}

/// Called when a server is ready.
type Started = Box<dyn FnOnce(Ready) + Send>;

/// Resolves when a server is to stop.
type Stopped = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

/// On ports of the kernel's choice.
pub(crate) fn config(data: &Path) -> Config {
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    Config {
        data: data.to_owned(),
        listen: any,
        worker_listen: any,
        ..Config::default()
    }
}

impl Server {
    pub(crate) async fn start(config: Config) -> Self {
        Self::start_with(|started, stop| serve(config, started, stop)).await
    }

    /// As [`Self::start`], with a store that is already open.
    pub(crate) async fn start_store(config: Config, store: Arc<dyn Store>) -> Self {
        let serving = |started, stop| serve_store(config, store, started, stop);
        Self::start_with(serving).await
    }

    async fn start_with<F>(serving: impl FnOnce(Started, Stopped) -> F) -> Self
    where
        F: Future<Output = Result<(), ServeError>> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel::<()>();
        let (started, startup) = oneshot::channel();
        let started: Started = Box::new(|ready| {
            let _ = started.send(ready);
        });
        let stopped: Stopped = Box::pin(async move {
            // Also when the rig is dropped.
            let _ = stopped.await;
        });
        let ended = tokio::spawn(serving(started, stopped));
        let Ok(ready) = startup.await else {
            panic!("the server did not start: {:?}", ended.await);
        };
        Self {
            ready,
            scheme: "http",
            http: http(),
            stop: Some(stop),
            ended,
        }
    }

    /// As [`Self::start`], but uses `https` with these files.
    pub(crate) async fn start_tls(config: Config, files: &ClientFiles) -> Self {
        let mut server = Self::start(config).await;
        server.scheme = "https";
        server.http = http_with(files);
        server
    }

    pub(crate) async fn memory(data: &Path) -> Self {
        let config = Config {
            backend: Backend::Memory,
            ..config(data)
        };
        Self::start(config).await
    }

    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        let ended = self.ended.await.expect("no panic");
        ended.expect("a good end");
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.ready.clients)
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, self.url(path))
    }

    pub(crate) async fn get(&self, path: &str) -> Got {
        got(self.request(Method::GET, path)).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> Got {
        let request = self.request(method, path);
        let request = request.header("content-type", MEDIA_TYPE);
        got(request.body(body.to_string())).await
    }

    pub(crate) async fn post(&self, path: &str) -> Got {
        got(self.request(Method::POST, path)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Got {
        got(self.request(Method::DELETE, path)).await
    }

    /// Submits a task of that name and returns its path.
    pub(crate) async fn submit(&self, name: &str) -> String {
        let got = self.send(Method::POST, "/instances/", &task(name)).await;
        assert_eq!(got.status, StatusCode::CREATED, "{got:?}");
        let control = got.body["links"]["control"].as_str().expect("a link");
        assert_eq!(got.headers["location"], control);
        control.to_owned()
    }

    /// Submits an array and returns its path.
    pub(crate) async fn submit_array(&self, name: &str, from: u64, to: u64) -> String {
        let mut body = task(name);
        body["array"] = json!({"from": from, "to": to});
        let got = self.send(Method::POST, "/instances/", &body).await;
        assert_eq!(got.status, StatusCode::CREATED, "{got:?}");
        assert_eq!(got.body["count"], to - from + 1);
        let control = got.body["links"]["control"].as_str().expect("a link");
        control.to_owned()
    }

    pub(crate) async fn worker(&self, name: &str) -> Worker {
        Worker::start(self.ready.workers, name, None)
    }

    /// A worker with a token.
    pub(crate) fn worker_with(&self, name: &str, token: &Secret) -> Worker {
        Worker::start(self.ready.workers, name, Some(token.clone()))
    }

    /// Waits until an instance is in that state.
    pub(crate) async fn until_state(&self, path: &str, state: &str) -> Value {
        let mut last = Value::Null;
        let reached = until(async || {
            last = self.get(path).await.body;
            last["state"] == state
        });
        assert!(reached.await, "{path} is not {state}: {last}");
        last
    }

    /// Waits until the server is ready, or is not.
    pub(crate) async fn until_ready(&self, ready: bool) -> Got {
        let wanted = async || {
            let got = self.get("/readyz").await;
            got.body["ready"] == ready
        };
        assert!(until(wanted).await, "ready: {ready} never came");
        self.get("/readyz").await
    }
}

/// A client without TLS.
fn http() -> reqwest::Client {
    http_with(&ClientFiles::none())
}

/// A client with these files.
pub(crate) fn http_with(files: &ClientFiles) -> reqwest::Client {
    builder(files).build().expect("a client")
}

/// The builder of a client with these files.
pub(crate) fn builder(files: &ClientFiles) -> reqwest::ClientBuilder {
    let tls = files.load().expect("good files");
    let builder = reqwest::Client::builder();
    builder.tls_backend_preconfigured(std::sync::Arc::unwrap_or_clone(tls))
}

/// A submission; the name of the task determines how it ends.
pub(crate) fn task(name: &str) -> Value {
    json!({"file": {"task": name, "run": ["true"]}})
}

/// Waits until something is true; false if it never was.
pub(crate) async fn until(mut check: impl AsyncFnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < TEST_TIMEOUT {
        if check().await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    false
}

pub(crate) async fn got(request: reqwest::RequestBuilder) -> Got {
    let response = request.send().await.expect("an answer");
    let (status, headers) = (response.status(), response.headers().clone());
    let bytes = response.bytes().await.expect("a body");
    let media = headers.get("content-type").and_then(|it| it.to_str().ok());
    let json = media.is_some_and(|media| media.ends_with("json"));
    let body = if json && !bytes.is_empty() {
        json::from_slice(&bytes).expect("JSON")
    } else {
        Value::String(String::from_utf8_lossy(&bytes).into_owned())
    };
    Got {
        status,
        headers,
        body,
    }
}

impl Got {
    /// Checks that this is a problem as defined by RFC 9457.
    pub(crate) fn is_problem(&self, status: StatusCode, kind: &str) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(self.body["type"], kind, "{self:?}");
        assert_eq!(self.body["status"], status.as_u16());
        let detail = self.body["detail"].as_str().expect("a detail");
        assert!(!detail.is_empty());
        self
    }

    pub(crate) fn detail(&self) -> &str {
        self.body["detail"].as_str().expect("a detail")
    }
}
