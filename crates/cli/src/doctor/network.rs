//! Checks of addresses: those that workers dial, as this host reaches them.

use std::fmt;
use std::io;
use std::net::{IpAddr, TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

use baton_model::api::Scheduler;
use baton_tls::peer;
use baton_tls::subject::Subject;

use super::Finding;

const CHECK: &str = "network";

/// How long a connection or an answer may take: a firewall that drops packets answers never.
const PATIENCE: Duration = Duration::from_secs(3);

/// A host and a port, as they are dialled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) host: String,
    port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

impl Address {
    /// Parses `HOST:PORT`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.trim().rsplit_once(':')?;
        Some(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: port.parse().ok()?,
        })
    }

    /// The address of an `https` URL.
    pub(super) fn of_https(url: &str) -> Option<Self> {
        const PORT: u16 = 443;
        let rest = url.trim().strip_prefix("https://")?;
        let place = rest.split(['/', '?']).next().unwrap_or_default();
        let host = place.trim_matches(['[', ']']).to_owned();
        Self::parse(place).or(Some(Self { host, port: PORT }))
    }

    fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// True if it means the host that dials it.
    fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.address().is_some_and(|it| it.is_loopback())
    }

    pub(super) fn dial(&self) -> Dialled {
        Dialled {
            address: self.clone(),
            stream: connect(self),
        }
    }
}

/// An address with its connection, or the reason why there is none.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) address: Address,
    stream: io::Result<TcpStream>,
}

impl Dialled {
    /// The certificates that the server presents.
    pub(super) fn certificates(&self) -> io::Result<Vec<Subject>> {
        match &self.stream {
            Ok(stream) => peer::presented(&self.address.host, &mut stream.try_clone()?),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        }
    }
}

fn connect(address: &Address) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for found in (&*address.host, address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&found, PATIENCE) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The file with the address of the scheduler, which a worker of this host is configured with, cannot be read.
pub(super) fn unreadable(file: &Path, error: &io::Error) -> Finding {
    let file = file.display();
    let message =
        format!("the worker of this host reads its scheduler's address from {file}: {error}");
    let remedy = "write HOST:PORT into that file, or change `scheduler` of [worker]";
    Finding::problem(CHECK, message, remedy)
}

/// Dials the addresses that a worker of this host is configured with.
pub(super) fn examine_configured(addresses: &[Address]) -> Vec<Finding> {
    let findings = addresses.iter().map(|address| {
        let what = "the worker of this host dials";
        judge(what, address, &address.dial().stream)
    });
    findings.collect()
}

/// Examines the addresses that schedulers tell workers. `is_remote`: this host is not theirs, as the
/// URL that reached them shows.
pub(super) fn examine_told(schedulers: &[Scheduler], is_remote: bool) -> Vec<Finding> {
    let told = schedulers.iter().map(|scheduler| {
        let what = "workers are told";
        let Some(address) = Address::parse(&scheduler.workers) else {
            let message = format!("{what} {:?}, which is no HOST:PORT", scheduler.workers);
            return Finding::problem(CHECK, message, "start the scheduler with --advertise-workers");
        };
        let remedy = "start the scheduler with --worker-listen 0.0.0.0:8081 --advertise-workers HOST:8081, \
                      and tokens or TLS (docs/guides/second-machine.md)";
        if address.address().is_some_and(|it| it.is_unspecified()) {
            let message = format!("{what} {address}, which is no address to dial");
            return Finding::problem(CHECK, message, remedy);
        }
        match address.is_loopback() {
            true if is_remote => {
                let message = format!("{what} {address}: every host takes that for itself");
                Finding::problem(CHECK, message, remedy)
            }
            true => {
                let finding = judge(what, &address, &address.dial().stream);
                let message = format!("{}; other hosts cannot reach it", finding.message);
                Finding { message, ..finding }
            }
            false => judge(what, &address, &address.dial().stream),
        }
    });
    told.collect()
}

fn judge(what: &str, address: &Address, stream: &io::Result<TcpStream>) -> Finding {
    let error = match stream {
        Ok(_) => return Finding::good(CHECK, format!("{what} {address}, which answers")),
        Err(error) => error,
    };
    let (reason, remedy) = match error.kind() {
        io::ErrorKind::ConnectionRefused => (
            "refused".to_owned(),
            "no scheduler listens there: compare its --worker-listen and port, and look whether it runs",
        ),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => (
            format!("no answer in {} s", PATIENCE.as_secs()),
            "a firewall drops the packets, or the host is down: open the port for this host",
        ),
        _ => (
            error.to_string(),
            "check the name and the route; --advertise-workers changes what workers are told",
        ),
    };
    Finding::problem(CHECK, format!("{what} {address}: {reason}"), remedy)
}

/// True if a URL names another host than this one by its loopback.
pub(super) fn is_remote(url: &str) -> bool {
    let place = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = place.split(['/', '?']).next().unwrap_or_default();
    let address = Address::parse(place).unwrap_or(Address {
        host: place.trim_matches(['[', ']']).to_owned(),
        port: 0,
    });
    !address.is_loopback()
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    fn told(workers: &str, is_remote: bool) -> Finding {
        let scheduler = Scheduler {
            name: "a".to_owned(),
            url: "http://a:8080".to_owned(),
            workers: workers.to_owned(),
            role: baton_model::api::SchedulerRole::Leader,
            answers: true,
            epoch: None,
            heard_seconds: 0.0,
            started_seconds: 0.0,
        };
        examine_told(&[scheduler], is_remote).remove(0)
    }

    #[test]
    fn addresses_of_urls_and_of_workers_are_parsed() {
        let parsed = |text| Address::parse(text).map(|it| it.to_string());
        assert_eq!(parsed("db:8081").as_deref(), Some("db:8081"));
        assert_eq!(parsed("[::1]:80").as_deref(), Some("[::1]:80"));
        assert_eq!(parsed("db"), None);
        let https = |text| Address::of_https(text).map(|it| it.to_string());
        assert_eq!(https("https://db/x").as_deref(), Some("db:443"));
        assert_eq!(https("https://[::1]:8443").as_deref(), Some("[::1]:8443"));
        assert_eq!(https("http://db:8080"), None);
        assert!(is_remote("http://db:8080") && !is_remote("http://127.0.0.1:8080/"));
        assert!(!is_remote("http://[::1]:8080") && !is_remote("https://localhost"));
    }

    #[test]
    fn what_other_hosts_cannot_dial_is_a_problem() {
        let unspecified = told("0.0.0.0:8081", false);
        assert_eq!(unspecified.grade, Grade::Problem, "{unspecified:?}");
        let loopback = told("127.0.0.1:8081", true);
        assert!(loopback.message.contains("for itself"), "{loopback:?}");
        let name = told("no-such-host.invalid:8081", true);
        assert_eq!(name.grade, Grade::Problem, "{name:?}");
    }
}
