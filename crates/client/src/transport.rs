//! HTTP requests and responses.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use baton_model::api::{MEDIA_TYPE, Problem};
use baton_model::json;
use baton_model::token::{self, Secret};
use baton_model::trace::{TRACE_HEADER, TraceContext};
use baton_tls::{ClientFiles, messages};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::dispatch::Dispatcher;
use crate::error::ClientError;
use crate::servers::{Servers, random};

/// The header with the name of the user, for servers without authentication.
const USER_HEADER: &str = "baton-user";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// For a response, in addition to the time that the scheduler is asked to wait.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Characters of an unexpected response that an error quotes.
const QUOTED_CHARS_MAX: usize = 200;

#[derive(Clone, Debug)]
pub(crate) struct Transport {
    /// The URL from which those of all resources are made: that of the first scheduler.
    base: Url,
    dispatcher: Dispatcher,
    /// The URL as the user wrote it.
    shown: String,
    http: reqwest::Client,
    bearer: Option<HeaderValue>,
    user: Option<HeaderValue>,
    trace: Option<HeaderValue>,
}

impl Transport {
    pub(crate) fn new(url: &str, files: &ClientFiles) -> Result<Self, ClientError> {
        let bad = |reason: String| ClientError::BadUrl {
            url: url.to_owned(),
            reason,
        };
        let servers = Servers::parse(url).map_err(bad)?;
        // The system's certificates are many; read them only for https.
        let tls = if servers.any_secure() {
            files.load()
        } else {
            ClientFiles::none().load()
        };
        let tls = tls.map_err(|error| ClientError::Tls(error.to_string()))?;
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            // Long polls of one command follow each other on one connection.
            .tcp_nodelay(true)
            // A scheduler is nearby; proxies of the environment are for remote hosts.
            .no_proxy()
            .tls_backend_preconfigured(Arc::unwrap_or_clone(tls))
            .build()
            .map_err(|error| bad(reason(&error)))?;
        Ok(Self {
            shown: url.trim_end_matches('/').to_owned(),
            base: servers.first().clone(),
            dispatcher: Dispatcher::new(servers, http.clone()),
            http,
            bearer: None,
            user: None,
            trace: None,
        })
    }

    /// Sends this token with every request from now on.
    pub(crate) fn set_token(&mut self, token: &Secret) {
        // A secret is plain ASCII, so it is a valid header value.
        let value = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
        self.bearer = value.ok().map(|mut value| {
            value.set_sensitive(true);
            value
        });
    }

    /// Sends this name of a user with every request.
    pub(crate) fn set_user(&mut self, name: &str) {
        let name = Some(name).filter(|name| token::check_name(name).is_ok());
        self.user = name.and_then(|name| HeaderValue::from_str(name).ok());
    }

    /// Sends this span with every request: what is submitted becomes a child of it.
    pub(crate) fn set_trace(&mut self, trace: TraceContext) {
        self.trace = HeaderValue::from_str(&trace.to_string()).ok();
    }

    /// A new idempotency key, if a request may have to be sent to another scheduler. The scheduler remembers a
    /// bounded number of keys, so none is spent where it has no use.
    pub(crate) fn fresh_key(&self) -> Option<String> {
        self.dispatcher.has_several().then(|| {
            let [high, low] = [random(), random()];
            format!("{high:016x}{low:016x}")
        })
    }

    /// The URL of the scheduler, or of the first of several.
    pub(crate) fn url(&self) -> &str {
        self.shown.split(',').next().unwrap_or(&self.shown)
    }

    /// The URL of a path; its segments may be any text.
    pub(crate) fn at(&self, parts: &[&str]) -> Url {
        let mut url = self.base.clone();
        // Fails only for a URL that cannot be a base, and http URLs can.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }

    /// Resolves a link of a response.
    pub(crate) fn link(&self, link: &str) -> Result<Url, ClientError> {
        let url = self
            .base
            .join(link)
            .map_err(|error| ClientError::InvalidResponse {
                url: self.shown.clone(),
                reason: format!("the link `{link}` is invalid: {error}"),
            })?;
        // Requests carry credentials: never follow a link to another origin.
        if url.origin() == self.base.origin() {
            return Ok(url);
        }
        Err(ClientError::InvalidResponse {
            url: self.shown.clone(),
            reason: format!("the link `{link}` leads to another server"),
        })
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, url: Url) -> Result<T, ClientError> {
        self.get_within(url, Duration::ZERO).await
    }

    /// Gets a resource for which the scheduler may wait this long.
    pub(crate) async fn get_within<T: DeserializeOwned>(
        &self,
        url: Url,
        wait: Duration,
    ) -> Result<T, ClientError> {
        let request = self.http.get(url.clone()).timeout(wait + RESPONSE_TIMEOUT);
        let response = self.send(request.header(ACCEPT, MEDIA_TYPE)).await?;
        self.read(url, response).await
    }

    /// Gets a resource that is also returned with an error status.
    pub(crate) async fn get_any_status<T: DeserializeOwned>(
        &self,
        url: Url,
    ) -> Result<T, ClientError> {
        let response = self.any_status(url.clone(), (ACCEPT, MEDIA_TYPE)).await?;
        let status = response.status();
        let text = response
            .text()
            .await
            .map_err(|error| self.unreachable(&error))?;
        serde_json::from_str(&text).map_err(|_| problem(status, url.to_string(), &text))
    }

    /// Gets a response, whatever its status.
    pub(crate) async fn any_status(
        &self,
        url: Url,
        (name, value): (HeaderName, &str),
    ) -> Result<Response, ClientError> {
        let request = self.http.get(url).timeout(RESPONSE_TIMEOUT);
        self.execute(self.with_credentials(request.header(name, value)))
            .await
    }

    /// Gets a response with its headers.
    pub(crate) async fn raw(&self, url: Url) -> Result<Response, ClientError> {
        self.send(self.http.get(url).timeout(RESPONSE_TIMEOUT))
            .await
    }

    /// Opens a response without a time limit; the caller must bound its own waits.
    pub(crate) async fn open(&self, url: Url) -> Result<Response, ClientError> {
        self.send(self.http.get(url)).await
    }

    /// The next bytes of such a response; `None` after the last.
    pub(crate) async fn chunk(
        &self,
        response: &mut Response,
    ) -> Result<Option<Vec<u8>>, ClientError> {
        let chunk = response
            .chunk()
            .await
            .map_err(|error| self.unreachable(&error))?;
        Ok(chunk.map(Into::into))
    }

    /// Sends a change and parses the response.
    pub(crate) async fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        url: Url,
        body: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let response = self.send_change(method, url.clone(), body).await?;
        self.read(url, response).await
    }

    /// Same with more headers.
    pub(crate) async fn change_with<T: DeserializeOwned>(
        &self,
        method: Method,
        url: Url,
        body: Option<&impl Serialize>,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<T, ClientError> {
        let response = self
            .send_change_with(method, url.clone(), body, headers)
            .await?;
        self.read(url, response).await
    }

    /// Sends a change.
    pub(crate) async fn send_change(
        &self,
        method: Method,
        url: Url,
        body: Option<&impl Serialize>,
    ) -> Result<Response, ClientError> {
        self.send_change_with(method, url, body, Vec::new()).await
    }

    async fn send_change_with(
        &self,
        method: Method,
        url: Url,
        body: Option<&impl Serialize>,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<Response, ClientError> {
        let mut request = self
            .http
            .request(method, url)
            .timeout(RESPONSE_TIMEOUT)
            .header(ACCEPT, MEDIA_TYPE);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(body) = body {
            let text = serde_json::to_vec(body).map_err(|error| ClientError::InvalidResponse {
                url: self.shown.clone(),
                reason: format!("the request cannot be encoded as JSON: {error}"),
            })?;
            request = request.header(CONTENT_TYPE, MEDIA_TYPE).body(text);
        }
        self.send(request).await
    }

    async fn execute(&self, request: reqwest::RequestBuilder) -> Result<Response, ClientError> {
        let sent = match request.build() {
            Ok(request) => self.dispatcher.execute(request).await,
            Err(error) => Err(error),
        };
        sent.map_err(|error| self.unreachable(&error))
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Response, ClientError> {
        let response = self.execute(self.with_credentials(request)).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.problem(response).await)
    }

    /// Adds who asks. A server that requires no tokens takes none into account, so the user is named
    /// in any case.
    fn with_credentials(&self, mut request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        if let Some(bearer) = &self.bearer {
            request = request.header(AUTHORIZATION, bearer.clone());
        }
        if let Some(user) = &self.user {
            request = request.header(USER_HEADER, user.clone());
        }
        if let Some(trace) = &self.trace {
            request = request.header(TRACE_HEADER, trace.clone());
        }
        request
    }

    async fn problem(&self, response: Response) -> ClientError {
        let (status, url) = (response.status(), response.url().to_string());
        let text = match response.text().await {
            Ok(text) => text,
            Err(error) => return self.unreachable(&error),
        };
        problem(status, url, &text)
    }

    async fn read<T: DeserializeOwned>(
        &self,
        url: Url,
        response: Response,
    ) -> Result<T, ClientError> {
        let bytes = self.bytes(response).await?;
        json::from_slice(&bytes).map_err(|error| ClientError::InvalidResponse {
            url: url.to_string(),
            reason: error.to_string(),
        })
    }

    pub(crate) async fn bytes(&self, response: Response) -> Result<Vec<u8>, ClientError> {
        let bytes = response
            .bytes()
            .await
            .map_err(|error| self.unreachable(&error))?;
        Ok(bytes.into())
    }

    fn unreachable(&self, error: &reqwest::Error) -> ClientError {
        ClientError::Unreachable {
            url: self.shown.clone(),
            reason: reason(error),
        }
    }
}

/// Converts an error response.
fn problem(status: StatusCode, url: String, text: &str) -> ClientError {
    match serde_json::from_str::<Problem>(text) {
        Ok(problem) => ClientError::Problem(Box::new(problem)),
        Err(_) => ClientError::InvalidResponse {
            url,
            reason: unexpected(status, text),
        },
    }
}

/// The innermost cause, which people recognize: `Connection refused`.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "timed out".to_owned();
    }
    if let Some(text) = messages::describe(error) {
        return text;
    }
    let mut cause: &dyn Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

fn unexpected(status: StatusCode, text: &str) -> String {
    let short: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    let short: String = short.escape_debug().collect();
    if short.is_empty() {
        format!("status {status}")
    } else {
        format!("status {status}: {short}")
    }
}

#[cfg(test)]
mod tests {
    use baton_tls::Trust;

    use super::*;

    fn transport() -> Transport {
        Transport::new("http://127.0.0.1:8080/", &ClientFiles::default()).expect("a good URL")
    }

    #[test]
    fn whatever_a_worker_is_called_stays_one_part_of_the_path() {
        let url = transport().at(&["workers", "a/b?c#d e", "drained"]);
        assert_eq!(url.path(), "/workers/a%2Fb%3Fc%23d%20e/drained");
        assert_eq!((url.query(), url.fragment()), (None, None));
        assert_eq!(transport().at(&["bullpen", ""]).path(), "/bullpen/");
    }

    #[test]
    fn links_are_followed_within_one_scheduler_only() {
        let next = transport().link("/history/?cursor=7").expect("it is ours");
        assert_eq!(next.as_str(), "http://127.0.0.1:8080/history/?cursor=7");
        for elsewhere in ["http://10.0.0.1/", "//10.0.0.1/x", "file:///etc/passwd"] {
            assert!(transport().link(elsewhere).is_err(), "{elsewhere}");
        }
    }

    #[test]
    fn a_token_is_sent_with_the_name_of_the_user_and_not_printed() {
        let mut transport = transport();
        let token = Secret::from_bits([7; 32]);
        transport.set_token(&token);
        transport.set_user("ann");
        let printed = format!("{transport:?}");
        assert!(!printed.contains(token.expose()), "{printed}");
        let url = transport.at(&[""]);
        let request = transport.with_credentials(transport.http.get(url)).build();
        let request = request.expect("a request");
        let sent = &request.headers()[AUTHORIZATION];
        assert_eq!(sent, &format!("Bearer {}", token.expose()));
        assert_eq!(request.headers()[USER_HEADER], "ann");
    }

    #[test]
    fn only_http_is_spoken_with_tls_or_without() {
        for bad in ["127.0.0.1:8080", "ftp://host", "", "http://"] {
            let new = Transport::new(bad, &ClientFiles::default());
            let error = new.expect_err("no URL of a scheduler");
            assert!(matches!(error, ClientError::BadUrl { .. }), "{bad}");
        }
        assert_eq!(transport().url(), "http://127.0.0.1:8080");
        let mixed = Transport::new("http://a:1,ftp://b", &ClientFiles::default());
        assert!(matches!(mixed, Err(ClientError::BadUrl { .. })));
        let missing = ClientFiles {
            trust: Trust::Ca("no/such/file".into()),
            identity: None,
        };
        let error = Transport::new("https://host", &missing).expect_err("no such file");
        assert!(matches!(error, ClientError::Tls(_)), "{error}");
        assert!(error.to_string().contains("no/such/file"), "{error}");
    }
}
