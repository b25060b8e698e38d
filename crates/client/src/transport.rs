//! Requests and answers.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use baton_model::api::{MEDIA_TYPE, Problem};
use baton_model::token::Secret;
use baton_tls::{ClientFiles, messages};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::ClientError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// For an answer, beyond what the scheduler is asked to wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Of a text that is no problem, how much is repeated.
const SHOWN_CHARS_MAX: usize = 200;

#[derive(Clone, Debug)]
pub(crate) struct Transport {
    base: Url,
    /// The same, as people write it.
    shown: String,
    http: reqwest::Client,
    bearer: Option<HeaderValue>,
}

impl Transport {
    pub(crate) fn new(url: &str, files: &ClientFiles) -> Result<Self, ClientError> {
        let bad = |why: String| ClientError::BadUrl {
            url: url.to_owned(),
            why,
        };
        let base = Url::parse(url).map_err(|error| bad(error.to_string()))?;
        let tls = match base.scheme() {
            // The files of the system are many, and read only by whoever needs them.
            "http" => ClientFiles::none().load(),
            "https" => files.load(),
            other => {
                let why = format!("`{other}` is not spoken, only http and https");
                return Err(bad(why));
            }
        };
        let tls = tls.map_err(|error| ClientError::Tls(error.to_string()))?;
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            // Long polls of one command follow each other on one connection.
            .tcp_nodelay(true)
            // A scheduler is near; a proxy of the environment is for what is far.
            .no_proxy()
            .tls_backend_preconfigured(Arc::unwrap_or_clone(tls))
            .build()
            .map_err(|error| bad(reason(&error)))?;
        Ok(Self {
            shown: url.trim_end_matches('/').to_owned(),
            base,
            http,
            bearer: None,
        })
    }

    /// Shows a token with every request from now on.
    pub(crate) fn show(&mut self, token: &Secret) {
        // A secret is plain text, so it fits into a header.
        let value = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
        self.bearer = value.ok().map(|mut value| {
            value.set_sensitive(true);
            value
        });
    }

    pub(crate) fn url(&self) -> &str {
        &self.shown
    }

    /// The URL of a path whose parts are anybody's text.
    pub(crate) fn at(&self, parts: &[&str]) -> Url {
        let mut url = self.base.clone();
        // Only a URL that cannot be a base has no path, and http is one that can.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }

    /// Where a link of an answer leads.
    pub(crate) fn link(&self, link: &str) -> Result<Url, ClientError> {
        let url = self
            .base
            .join(link)
            .map_err(|error| ClientError::InvalidResponse {
                url: self.shown.clone(),
                why: format!("the link `{link}` leads nowhere: {error}"),
            })?;
        // What is sent to one scheduler is not sent to another.
        if url.origin() == self.base.origin() {
            return Ok(url);
        }
        Err(ClientError::InvalidResponse {
            url: self.shown.clone(),
            why: format!("the link `{link}` leads to somebody else"),
        })
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, url: Url) -> Result<T, ClientError> {
        self.get_within(url, Duration::ZERO).await
    }

    /// Gets what the scheduler may take so long for.
    pub(crate) async fn get_within<T: DeserializeOwned>(
        &self,
        url: Url,
        wait: Duration,
    ) -> Result<T, ClientError> {
        let request = self.http.get(url.clone()).timeout(wait + ANSWER_TIMEOUT);
        let answer = self.send(request.header(ACCEPT, MEDIA_TYPE)).await?;
        self.read(url, answer).await
    }

    /// Gets what may be told with an error's status as well.
    pub(crate) async fn get_either_way<T: DeserializeOwned>(
        &self,
        url: Url,
    ) -> Result<T, ClientError> {
        let request = self.http.get(url.clone()).timeout(ANSWER_TIMEOUT);
        let request = self.signed(request.header(ACCEPT, MEDIA_TYPE));
        let answer = request.send().await.map_err(|error| self.lost(&error))?;
        let status = answer.status();
        let text = answer.text().await.map_err(|error| self.lost(&error))?;
        serde_json::from_str(&text).map_err(|_| problem(status, url.to_string(), &text))
    }

    /// Gets bytes with their headers.
    pub(crate) async fn raw(&self, url: Url) -> Result<Response, ClientError> {
        self.send(self.http.get(url).timeout(ANSWER_TIMEOUT)).await
    }

    /// Gets an answer that goes on for as long as both sides like; who reads it sees to it that
    /// it does not wait for ever.
    pub(crate) async fn open(&self, url: Url) -> Result<Response, ClientError> {
        self.send(self.http.get(url)).await
    }

    /// The next bytes of such an answer; `None` after the last.
    pub(crate) async fn chunk(
        &self,
        answer: &mut Response,
    ) -> Result<Option<Vec<u8>>, ClientError> {
        let chunk = answer.chunk().await.map_err(|error| self.lost(&error))?;
        Ok(chunk.map(Into::into))
    }

    /// Asks for a change, and reads what came of it.
    pub(crate) async fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        url: Url,
        body: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let answer = self.ask(method, url.clone(), body).await?;
        self.read(url, answer).await
    }

    /// The same with more headers.
    pub(crate) async fn change_with<T: DeserializeOwned>(
        &self,
        method: Method,
        url: Url,
        body: Option<&impl Serialize>,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<T, ClientError> {
        let answer = self.ask_with(method, url.clone(), body, headers).await?;
        self.read(url, answer).await
    }

    /// Asks for a change.
    pub(crate) async fn ask(
        &self,
        method: Method,
        url: Url,
        body: Option<&impl Serialize>,
    ) -> Result<Response, ClientError> {
        self.ask_with(method, url, body, Vec::new()).await
    }

    async fn ask_with(
        &self,
        method: Method,
        url: Url,
        body: Option<&impl Serialize>,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<Response, ClientError> {
        let mut request = self
            .http
            .request(method, url)
            .timeout(ANSWER_TIMEOUT)
            .header(ACCEPT, MEDIA_TYPE);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(body) = body {
            let text = serde_json::to_vec(body).map_err(|error| ClientError::InvalidResponse {
                url: self.shown.clone(),
                why: format!("the request is no JSON: {error}"),
            })?;
            request = request.header(CONTENT_TYPE, MEDIA_TYPE).body(text);
        }
        self.send(request).await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Response, ClientError> {
        let sent = self.signed(request).send().await;
        let answer = sent.map_err(|error| self.lost(&error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        Err(self.problem(answer).await)
    }

    fn signed(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.bearer {
            Some(bearer) => request.header(AUTHORIZATION, bearer.clone()),
            None => request,
        }
    }

    async fn problem(&self, answer: Response) -> ClientError {
        let (status, url) = (answer.status(), answer.url().to_string());
        let text = match answer.text().await {
            Ok(text) => text,
            Err(error) => return self.lost(&error),
        };
        problem(status, url, &text)
    }

    async fn read<T: DeserializeOwned>(
        &self,
        url: Url,
        answer: Response,
    ) -> Result<T, ClientError> {
        let bytes = self.bytes(answer).await?;
        serde_json::from_slice(&bytes).map_err(|error| ClientError::InvalidResponse {
            url: url.to_string(),
            why: error.to_string(),
        })
    }

    pub(crate) async fn bytes(&self, answer: Response) -> Result<Vec<u8>, ClientError> {
        let bytes = answer.bytes().await.map_err(|error| self.lost(&error))?;
        Ok(bytes.into())
    }

    fn lost(&self, error: &reqwest::Error) -> ClientError {
        ClientError::Unreachable {
            url: self.shown.clone(),
            why: reason(error),
        }
    }
}

/// What an answer that was not hoped for says.
fn problem(status: StatusCode, url: String, text: &str) -> ClientError {
    match serde_json::from_str::<Problem>(text) {
        Ok(problem) => ClientError::Problem(Box::new(problem)),
        Err(_) => ClientError::InvalidResponse {
            url,
            why: said(status, text),
        },
    }
}

/// The innermost cause, which is what people know: `Connection refused`.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "it does not answer in time".to_owned();
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

fn said(status: StatusCode, text: &str) -> String {
    let short: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    let short: String = short.escape_debug().collect();
    match short.is_empty() {
        true => format!("it says {status}"),
        false => format!("it says {status}: {short}"),
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
    fn a_token_is_sent_and_not_printed() {
        let mut transport = transport();
        let token = Secret::from_bits([7; 32]);
        transport.show(&token);
        let printed = format!("{transport:?}");
        assert!(!printed.contains(token.expose()), "{printed}");
        let url = transport.at(&[""]);
        let request = transport.signed(transport.http.get(url)).build();
        let request = request.expect("a request");
        let sent = &request.headers()[AUTHORIZATION];
        assert_eq!(sent, &format!("Bearer {}", token.expose()));
    }

    #[test]
    fn only_http_is_spoken_with_tls_or_without() {
        for bad in ["127.0.0.1:8080", "ftp://host", "", "http://"] {
            let new = Transport::new(bad, &ClientFiles::default());
            let error = new.expect_err("no URL of a scheduler");
            assert!(matches!(error, ClientError::BadUrl { .. }), "{bad}");
        }
        assert_eq!(transport().url(), "http://127.0.0.1:8080");
        let missing = ClientFiles {
            trust: Trust::Ca("no/such/file".into()),
            identity: None,
        };
        let error = Transport::new("https://host", &missing).expect_err("no such file");
        assert!(matches!(error, ClientError::Tls(_)), "{error}");
        assert!(error.to_string().contains("no/such/file"), "{error}");
    }
}
