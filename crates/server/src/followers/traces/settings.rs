//! The receiver of traces: its URL, and the headers that it wants.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use baton_core::trace::Sampling;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// The path of traces below the URL of a receiver.
const PATH: &str = "/v1/traces";

/// Bytes of a file of headers.
const HEADERS_BYTES_MAX: u64 = 64 << 10;

/// A receiver of traces, and what it gets.
#[derive(Clone, Debug)]
pub struct TraceSettings {
    pub endpoint: TraceEndpoint,
    /// File with headers of its requests, one `Name: value` in each line.
    pub headers_file: Option<PathBuf>,
    /// CA of its certificate, if it is not one of the system.
    pub ca_file: Option<PathBuf>,
    pub sampling: Sampling,
}

/// The URL of a receiver of traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEndpoint(Url);

impl TraceEndpoint {
    /// The URL to which spans are sent.
    pub(super) fn url(&self) -> &Url {
        &self.0
    }
}

impl FromStr for TraceEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut url = Url::parse(text)
            .map_err(|error| format!("{error}; write a URL such as http://127.0.0.1:4318"))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err("write a URL such as http://127.0.0.1:4318".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "write credentials into the file of --trace-headers-file: other users see this \
                 command line"
                    .to_owned(),
            );
        }
        let path = url.path().trim_end_matches('/').to_owned();
        if !path.ends_with(PATH) {
            url.set_path(&format!("{path}{PATH}"));
        }
        Ok(Self(url))
    }
}

impl TraceSettings {
    /// Reads the headers again: a token in them may have been replaced.
    ///
    /// # Errors
    /// If the file cannot be read, or a line is no header; the error has no value.
    pub fn headers(&self) -> Result<HeaderMap, String> {
        match &self.headers_file {
            Some(file) => read(file).map_err(|error| format!("{}: {error}", file.display())),
            None => Ok(HeaderMap::new()),
        }
    }
}

fn read(file: &Path) -> Result<HeaderMap, String> {
    let size = fs::metadata(file).map_err(|error| error.to_string())?.len();
    if size > HEADERS_BYTES_MAX {
        return Err(format!("it has more than {HEADERS_BYTES_MAX} bytes"));
    }
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    let mut headers = HeaderMap::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = || format!("line {} is no header; write `Name: value`", at + 1);
        let (name, value) = line.split_once(':').ok_or_else(bad)?;
        let name = HeaderName::from_str(name.trim()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_gets_the_path_of_traces() {
        for (text, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://h/otlp/", "https://h/otlp/v1/traces"),
            ("https://h/v1/traces", "https://h/v1/traces"),
        ] {
            let endpoint: TraceEndpoint = text.parse().expect("valid");
            assert_eq!(endpoint.url().as_str(), url);
        }
        for text in [
            "",
            "collector:4318",
            "grpc://h:4317",
            "http://u:p@h",
            "http://",
        ] {
            assert!(text.parse::<TraceEndpoint>().is_err(), "{text}");
        }
    }

    #[test]
    fn headers_come_from_a_file_and_errors_name_the_line() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("headers");
        let settings = TraceSettings {
            endpoint: "http://h".parse().expect("valid"),
            headers_file: Some(file.clone()),
            ca_file: None,
            sampling: Sampling::ALL,
        };
        fs::write(&file, "# for the collector\n\nAuthorization: Bearer a:b\n").expect("written");
        let headers = settings.headers().expect("valid");
        assert_eq!(headers["authorization"], "Bearer a:b");
        fs::write(&file, "a: b\nsecret\n").expect("written");
        let error = settings.headers().expect_err("no header");
        assert!(
            error.contains("line 2") && !error.contains("secret"),
            "{error}"
        );
    }
}
