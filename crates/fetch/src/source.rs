//! Reading a file from its address.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton_fs::regular;
use baton_tls::{ClientFiles, Trust};
use reqwest::Url;
use reqwest::redirect::Policy;
use tokio::runtime::Builder;

use crate::sink::Sink;

/// Timeout of a connection attempt, and of each read.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Redirects that are followed.
const REDIRECTS_MAX: usize = 10;

/// Reads files, and knows whom it trusts.
pub(super) struct Source {
    /// Certificates (PEM) that are trusted beside those of the system.
    ca: Option<PathBuf>,
}

impl Source {
    pub(super) fn new(ca: Option<&Path>) -> Self {
        Self {
            ca: ca.map(Path::to_owned),
        }
    }

    pub(super) fn read(&self, from: &str, sink: &mut Sink) -> Result<(), String> {
        let url = Url::parse(from).map_err(|error| error.to_string())?;
        match url.scheme() {
            "file" => from_file(&url, sink),
            "http" => from_http(url, ClientFiles::none(), sink),
            "https" => {
                let trust = match &self.ca {
                    Some(ca) => Trust::SystemAndCa(ca.clone()),
                    None => Trust::System,
                };
                let files = ClientFiles {
                    trust,
                    identity: None,
                };
                from_http(url, files, sink)
            }
            other => Err(format!(
                "the scheme `{other}:` is not supported; use file:, http: or https:"
            )),
        }
    }
}

fn from_file(url: &Url, sink: &mut Sink) -> Result<(), String> {
    let path = url
        .to_file_path()
        .map_err(|()| "not a local path; write file:///PATH".to_owned())?;
    let mut file = regular::open(&path).map_err(|error| error.to_string())?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => sink.take(&buffer[..read])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn from_http(url: Url, files: ClientFiles, sink: &mut Sink) -> Result<(), String> {
    let fetch = async {
        let tls = files.load().map_err(|error| error.to_string())?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(Arc::unwrap_or_clone(tls))
            .connect_timeout(SILENCE_MAX)
            .read_timeout(SILENCE_MAX)
            .redirect(redirects())
            .build();
        let sent = client.map_err(error_chain)?.get(url).send().await;
        let mut response = sent
            .and_then(reqwest::Response::error_for_status)
            .map_err(error_chain)?;
        while let Some(chunk) = response.chunk().await.map_err(error_chain)? {
            sink.take(&chunk)?;
        }
        Ok(())
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(fetch)
}

/// Follows redirects, but none from https to http: the task has asked for an authentic file.
fn redirects() -> Policy {
    Policy::custom(|attempt| {
        let before = attempt.previous();
        let was_secure = before.last().is_some_and(|url| url.scheme() == "https");
        if was_secure && attempt.url().scheme() != "https" {
            let reason = format!("it redirects from https to {}", attempt.url().scheme());
            attempt.error(reason)
        } else if before.len() > REDIRECTS_MAX {
            attempt.error("too many redirects")
        } else {
            attempt.follow()
        }
    })
}

/// Formats an error with its sources; the last one is usually the most specific.
fn error_chain(error: reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(reason) = source {
        text.push_str(": ");
        text.push_str(&reason.to_string());
        source = reason.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn a_pipe_or_device_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        mkfifoat(CWD, at("pipe"), Mode::RUSR | Mode::WUSR).expect("made");
        fs::write(at("file"), "text").expect("written");
        let fetch = |path: &Path| {
            let sink = File::create(at("fetched")).expect("made");
            let from = Url::from_file_path(path).expect("absolute");
            Source::new(None).read(from.as_str(), &mut Sink::new(sink, 1 << 20))
        };
        for path in [&*at("pipe"), Path::new("/dev/zero")] {
            let error = fetch(path).expect_err("no file");
            assert!(error.starts_with("not a regular file"), "{error}");
        }
        assert_eq!(fetch(&at("file")), Ok(()));
        assert_eq!(fs::read(at("fetched")).expect("there"), b"text");
    }
}
