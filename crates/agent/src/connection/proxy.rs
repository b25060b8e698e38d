//! HTTP proxies: a tunnel to the scheduler by `CONNECT`. Nothing here blocks.
//!
//! The scheduler is named to the proxy as it is named to the worker, so that the proxy resolves it. TLS, if it is on, is
//! with the scheduler, through the tunnel. Credentials of proxies are not supported: they would be in a command line,
//! and without TLS to the proxy in the network, too.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::str::FromStr;

/// Bytes of a proxy's answer.
const ANSWER_BYTES_MAX: usize = 8 << 10;

/// The variables that name a proxy, the first one that is set counts. `HTTP_PROXY` is for requests without TLS, and
/// some servers let clients set it.
const VARIABLES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// The variables with the hosts that are reached without it.
const EXCEPTIONS: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// An HTTP proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    address: String,
    /// Hosts, and domains of hosts, that are reached without it; `*` for all.
    exceptions: Vec<String>,
}

impl Proxy {
    /// The proxy that variables of the environment name, if any.
    ///
    /// # Errors
    /// If the one that counts names no proxy of a kind that is supported.
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let set = |name: &str| get(name).filter(|value| !value.is_empty());
        let named = VARIABLES
            .into_iter()
            .find_map(|name| Some((name, set(name)?)));
        let Some((name, value)) = named else {
            return Ok(None);
        };
        let proxy: Self = value.parse().map_err(|error| format!("{name}: {error}"))?;
        let exceptions = EXCEPTIONS.into_iter().find_map(set).unwrap_or_default();
        let exceptions = exceptions.split(',').map(str::trim);
        let exceptions = exceptions.filter(|it| !it.is_empty()).map(str::to_owned);
        Ok(Some(Self {
            exceptions: exceptions.collect(),
            ..proxy
        }))
    }

    /// Its own address.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Whether a scheduler is reached by it.
    pub(super) fn serves(&self, scheduler: &str) -> bool {
        let host = scheduler.rsplit_once(':').map_or(scheduler, |it| it.0);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        !self.exceptions.iter().any(|exception| {
            let domain = exception.trim_start_matches('.');
            let is_below = host
                .strip_suffix(domain)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
            exception == "*" || is_below
        })
    }
}

impl FromStr for Proxy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected http://HOST:PORT";
        let rest = text
            .strip_prefix("http://")
            .ok_or_else(|| match text.split_once("://") {
                Some((scheme, _)) => format!("{scheme} proxies are not supported; {EXPECTED}"),
                None => EXPECTED.to_owned(),
            })?;
        let address = rest.strip_suffix('/').unwrap_or(rest);
        if address.contains('@') {
            // Not quoted: it is a secret.
            return Err(format!(
                "a proxy with a user and a password is not supported; {EXPECTED}"
            ));
        }
        let parts = address.rsplit_once(':');
        let is_address = parts.is_some_and(|(host, port)| {
            let is_plain = |it: char| it.is_ascii_graphic() && it != '/';
            !host.is_empty() && host.chars().all(is_plain) && port.parse::<u16>().is_ok()
        });
        if is_address {
            Ok(Self {
                address: address.to_owned(),
                exceptions: Vec::new(),
            })
        } else {
            Err(EXPECTED.to_owned())
        }
    }
}

/// A connection to a proxy that is about to become one to the scheduler.
#[derive(Debug)]
pub(super) struct Tunnel {
    stream: TcpStream,
    scheduler: String,
    /// The rest of the request.
    unsent: Vec<u8>,
    answer: Vec<u8>,
}

impl Tunnel {
    pub(super) fn new(stream: TcpStream, scheduler: &str) -> Self {
        let request = format!("CONNECT {scheduler} HTTP/1.1\r\nHost: {scheduler}\r\n\r\n");
        Self {
            stream,
            scheduler: scheduler.to_owned(),
            unsent: request.into_bytes(),
            answer: Vec::new(),
        }
    }

    pub(super) const fn wants_write(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends and reads as much as is possible now; true if the scheduler is at the other end.
    pub(super) fn advance(&mut self) -> io::Result<bool> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        // One by one: what follows the answer is the scheduler's.
        let mut byte = [0];
        while !self.answer.ends_with(b"\r\n\r\n") {
            match self.stream.read(&mut byte) {
                Ok(0) => return Err(io::Error::other("the proxy has closed the connection")),
                Ok(_) if self.answer.len() < ANSWER_BYTES_MAX => self.answer.push(byte[0]),
                Ok(_) => return Err(io::Error::other(NO_PROXY)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.judge().map(|()| true).map_err(io::Error::other)
    }

    /// The connection to the scheduler.
    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// An error unless the proxy has connected.
    fn judge(&self) -> Result<(), String> {
        let answer = String::from_utf8_lossy(&self.answer);
        let status = answer.lines().next().unwrap_or_default();
        let (version, status) = status.split_once(' ').ok_or(NO_PROXY)?;
        let code: u16 = status
            .get(..3)
            .and_then(|it| it.parse().ok())
            .ok_or(NO_PROXY)?;
        if !version.starts_with("HTTP/1.") {
            return Err(NO_PROXY.to_owned());
        }
        let status: String = status
            .chars()
            .filter(|it| !it.is_control())
            .take(100)
            .collect();
        match code {
            200..300 => Ok(()),
            407 => Err(format!(
                "the proxy requires credentials ({status}), which Baton does not send; let it pass {} without, or \
                 use another",
                self.scheduler
            )),
            _ => Err(format!(
                "the proxy does not connect to {}: {status}; it must allow CONNECT to this host and port",
                self.scheduler
            )),
        }
    }
}

const NO_PROXY: &str = "what answers there is no HTTP proxy";

impl AsFd for Tunnel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_host_and_a_port_without_secrets() {
        for good in [
            "http://p:3128",
            "http://p.example.org:80/",
            "http://[::1]:1",
        ] {
            assert!(good.parse::<Proxy>().is_ok(), "{good}");
        }
        for (bad, reason) in [
            ("p:3128", "expected http://HOST:PORT"),
            ("http://p", "expected http://HOST:PORT"),
            ("http://p:80/path", "expected http://HOST:PORT"),
            ("http://a b:80", "expected http://HOST:PORT"),
            ("https://p:443", "https proxies are not supported"),
            ("socks5://p:1080", "socks5 proxies are not supported"),
            ("http://ann:hunter2@p:80", "a user and a password"),
        ] {
            let error = bad.parse::<Proxy>().expect_err(bad);
            assert!(
                error.contains(reason) && !error.contains("hunter2"),
                "{error}"
            );
        }
    }

    #[test]
    fn variables_name_a_proxy_and_its_exceptions() {
        let named = |set: &'static [(&str, &str)]| {
            Proxy::from_variables(|name| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(named(&[("HTTP_PROXY", "http://p:1")]), Ok(None));
        let bad = named(&[("ALL_PROXY", "socks5://p:1")]);
        assert!(bad.is_err_and(|error| error.starts_with("ALL_PROXY: socks5")));
        let proxy = named(&[
            ("ALL_PROXY", "http://other:1"),
            ("https_proxy", "http://p:1"),
            ("NO_PROXY", "localhost, .lab.org,10.0.0.7,::1"),
        ]);
        let proxy = proxy.expect("valid").expect("set");
        assert_eq!(proxy.address(), "p:1");
        for direct in [
            "localhost:1",
            "a.lab.org:1",
            "lab.org:1",
            "10.0.0.7:1",
            "[::1]:1",
        ] {
            assert!(!proxy.serves(direct), "{direct}");
        }
        for other in ["a.collab.org:1", "10.0.0.71:1", "a:1"] {
            assert!(proxy.serves(other), "{other}");
        }
    }
}
