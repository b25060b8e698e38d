//! Requests to an S3-compatible store, and their errors.
//!
//! Requests are signed in their URLs (`rusty_s3`), so a URL is as secret as a password: no error
//! and no log line has one.

use std::error::Error as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{env, error};

use baton_tls::{ClientFiles, Trust, messages};
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Client, Method, Response, StatusCode, Url};
use rusty_s3::actions::{ListObjectsV2, ListObjectsV2Response, S3Action};
use rusty_s3::{Bucket, Credentials};
use thiserror::Error;

use super::credentials;
use super::location::LogBucket;
use crate::limits::{BUCKET_CONNECT_WAIT, BUCKET_REQUEST_WAIT, COLLECTED_LOG_BYTES_MAX};

/// How long a signature is valid; the clocks of both sides may differ.
const SIGNED_FOR: Duration = Duration::from_secs(900);
/// Bytes of a list or of an error that are read.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Errors of credentials, which a file may have replaced meanwhile.
const CREDENTIAL_CODES: [&str; 5] = [
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
];

/// An error of an S3-compatible store.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BucketError {
    /// The option, the environment or a file cannot be used.
    #[error("{0}")]
    Config(String),
    #[error("there is no bucket {bucket} at {endpoint}; create it, or name another")]
    NoBucket { bucket: String, endpoint: String },
    #[error(
        "{endpoint} denies access to bucket {bucket} ({code}); the credentials must be valid, and \
         allow to list the bucket, and to read, write and delete its objects"
    )]
    Denied {
        bucket: String,
        endpoint: String,
        code: String,
    },
    #[error("{endpoint} is unreachable: {reason}")]
    Unreachable { endpoint: String, reason: String },
    #[error("{endpoint} answers {answer}")]
    Unexpected { endpoint: String, answer: String },
}

impl BucketError {
    /// Whether only an operator can mend it.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        match self {
            Self::Config(_) | Self::NoBucket { .. } | Self::Denied { .. } => true,
            Self::Unreachable { .. } | Self::Unexpected { .. } => false,
        }
    }
}

/// Sends signed requests to one bucket.
#[derive(Debug)]
pub(super) struct Requests {
    bucket: Bucket,
    client: Client,
    credentials: Mutex<Arc<Credentials>>,
    /// For people: without a path.
    endpoint: String,
}

impl Requests {
    pub(super) fn new(location: &LogBucket) -> Result<Self, BucketError> {
        let bucket = location.resolve(variable).map_err(BucketError::Config)?;
        let credentials = credentials::load(variable).map_err(BucketError::Config)?;
        let trust = match variable("AWS_CA_BUNDLE") {
            _ if bucket.base_url().scheme() == "http" => Trust::None,
            Some(path) => Trust::SystemAndCa(path.into()),
            None => Trust::System,
        };
        let files = ClientFiles {
            trust,
            identity: None,
        };
        let config = |error: &dyn error::Error| BucketError::Config(error.to_string());
        let tls = files.load().map_err(|error| config(&error))?;
        let client = Client::builder()
            .connect_timeout(BUCKET_CONNECT_WAIT)
            .timeout(BUCKET_REQUEST_WAIT)
            .redirect(reqwest::redirect::Policy::none())
            .tls_backend_preconfigured(Arc::unwrap_or_clone(tls))
            .build()
            .map_err(|error| config(&error))?;
        Ok(Self {
            endpoint: bucket.base_url().origin().ascii_serialization(),
            bucket,
            client,
            credentials: Mutex::new(Arc::new(credentials)),
        })
    }

    pub(super) async fn put(&self, key: &str, bytes: Vec<u8>) -> Result<(), BucketError> {
        let signed = |it: &Credentials| self.bucket.put_object(Some(it), key).sign(SIGNED_FOR);
        self.send(Method::PUT, signed, bytes).await?;
        Ok(())
    }

    /// Reads an object; none if there is none.
    pub(super) async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, BucketError> {
        let signed = |it: &Credentials| self.bucket.get_object(Some(it), key).sign(SIGNED_FOR);
        match self.send(Method::GET, signed, Vec::new()).await? {
            Some(response) => {
                let bytes = self.body(response, 2 * COLLECTED_LOG_BYTES_MAX);
                Ok(Some(bytes.await?))
            }
            None => Ok(None),
        }
    }

    /// Removes an object, if there is one.
    pub(super) async fn delete(&self, key: &str) -> Result<(), BucketError> {
        let signed = |it: &Credentials| self.bucket.delete_object(Some(it), key).sign(SIGNED_FOR);
        self.send(Method::DELETE, signed, Vec::new()).await?;
        Ok(())
    }

    /// A page of the objects with this prefix, in the order of their keys, after one of them.
    pub(super) async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<ListObjectsV2Response, BucketError> {
        let signed = |it: &Credentials| {
            let mut list = self.bucket.list_objects_v2(Some(it));
            list.with_prefix(prefix);
            if let Some(after) = after {
                list.with_start_after(after);
            }
            list.sign(SIGNED_FOR)
        };
        let unexpected = |answer: String| BucketError::Unexpected {
            endpoint: self.endpoint.clone(),
            answer,
        };
        let response = self.send(Method::GET, signed, Vec::new()).await?;
        let response = response.ok_or_else(|| unexpected("404 to a list".to_owned()))?;
        let text = self.body(response, ANSWER_BYTES_MAX).await?;
        let list = ListObjectsV2::parse_response(&String::from_utf8_lossy(&text));
        list.map_err(|error| unexpected(format!("no list of objects: {error}")))
    }

    /// Sends a request; none if there is no such object.
    async fn send(
        &self,
        method: Method,
        signed: impl Fn(&Credentials) -> Url + Send,
        body: Vec<u8>,
    ) -> Result<Option<Response>, BucketError> {
        let credentials = Arc::clone(&*self.current());
        let request = self.client.request(method, signed(&credentials));
        let request = request.header(CONTENT_LENGTH, body.len()).body(body);
        let response = request.send().await;
        let response = response.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(Some(response));
        }
        let body = self.body(response, ANSWER_BYTES_MAX).await;
        let code = body.ok().and_then(|body| code(&body));
        let (bucket, endpoint) = (self.bucket.name().to_owned(), self.endpoint.clone());
        let code_or_status = || code.clone().unwrap_or_else(|| status.to_string());
        Err(match (status, code.as_deref()) {
            (StatusCode::NOT_FOUND, Some("NoSuchBucket")) => {
                BucketError::NoBucket { bucket, endpoint }
            }
            (StatusCode::NOT_FOUND, Some("NoSuchKey") | None) => return Ok(None),
            (_, Some(code)) if CREDENTIAL_CODES.contains(&code) => {
                self.reload();
                BucketError::Denied {
                    bucket,
                    endpoint,
                    code: code.to_owned(),
                }
            }
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
                self.reload();
                BucketError::Denied {
                    bucket,
                    endpoint,
                    code: code_or_status(),
                }
            }
            _ => BucketError::Unexpected {
                endpoint,
                answer: code.map_or_else(|| status.to_string(), |code| format!("{status}: {code}")),
            },
        })
    }

    async fn body(&self, mut response: Response, bytes_max: usize) -> Result<Vec<u8>, BucketError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| self.unreachable(&error))?
        {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > bytes_max {
                return Err(BucketError::Unexpected {
                    endpoint: self.endpoint.clone(),
                    answer: format!("more than {bytes_max} bytes"),
                });
            }
        }
        Ok(bytes)
    }

    fn unreachable(&self, error: &reqwest::Error) -> BucketError {
        BucketError::Unreachable {
            endpoint: self.endpoint.clone(),
            reason: reason(error),
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Arc<Credentials>> {
        // Nothing under the lock can panic.
        self.credentials
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the credentials again: those of a file may have been rotated.
    fn reload(&self) {
        match credentials::load(variable) {
            Ok(found) => *self.current() = Arc::new(found),
            Err(error) => tracing::warn!("cannot read the credentials of the log bucket: {error}"),
        }
    }
}

/// A variable of the environment that is not empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// The code of an error in XML, such as `NoSuchBucket`.
fn code(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let plain = code.len() <= 64 && code.chars().all(|c| c.is_ascii_alphanumeric());
    plain.then(|| code.to_owned())
}

/// The innermost cause. The outer ones name the URL.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "timed out".to_owned();
    }
    if let Some(text) = messages::describe(error) {
        return text;
    }
    let Some(mut cause) = error.source() else {
        return "the connection failed".to_owned();
    };
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_an_error_is_one_word() {
        let body = b"<?xml version='1.0'?><Error><Code>NoSuchBucket</Code><Message/></Error>";
        assert_eq!(code(body).as_deref(), Some("NoSuchBucket"));
        assert_eq!(code(b"<Error><Code>two words</Code></Error>"), None);
        assert_eq!(code(b"<html>"), None);
    }
}
