//! The servers that a URL with several hosts names: a primary and its standbys.
//!
//! They are tried in order, each within a time of its own. A host that swallows packets, or whose
//! server is frozen, must not keep a scheduler from the one that was promoted in its place.

use std::fmt;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{Client, Config, Connection, Socket};

use super::session::ConnectError;
use super::tls::{EncryptedStream, Tls};
use crate::limits::{POSTGRES_CONNECT_MS, POSTGRES_KEEPALIVE_MS, POSTGRES_UNANSWERED_MS};

/// One server.
#[derive(Clone)]
pub(super) struct Server {
    /// Host and port, for messages.
    name: String,
    config: Config,
}

impl Server {
    /// The servers of a URL. Of several, only one that accepts writes is used, whatever the URL says.
    pub(super) fn each(config: &Config) -> Vec<Self> {
        let hosts = config.get_hosts();
        let several = hosts.len() > 1;
        let each = hosts.iter().enumerate().map(|(at, host)| {
            let ports = config.get_ports();
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            let mut one = without_hosts(config);
            match host {
                Host::Tcp(name) => one.host(name),
                Host::Unix(path) => one.host_path(path),
            };
            if let Some(address) = config.get_hostaddrs().get(at) {
                one.hostaddr(*address);
            }
            one.port(port);
            if several {
                one.target_session_attrs(TargetSessionAttrs::ReadWrite);
            }
            let name = match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(path) => format!("{}:{port}", path.display()),
            };
            Self { name, config: one }
        });
        each.collect()
    }

    async fn connect(
        &self,
        tls: &Tls,
    ) -> Result<(Client, Connection<Socket, EncryptedStream>), ConnectError> {
        let limit = Duration::from_millis(POSTGRES_CONNECT_MS);
        match timeout(limit, self.config.connect(tls.clone())).await {
            Ok(connected) => Ok(connected?),
            Err(_) => Err(ConnectError::TimedOut(limit)),
        }
    }
}

/// Connects to the first of these servers that can be used.
pub(super) async fn connect(
    servers: &[Server],
    tls: &Tls,
) -> Result<(Client, Connection<Socket, EncryptedStream>), ConnectError> {
    let mut failures = Vec::new();
    for server in servers {
        match server.connect(tls).await {
            Ok(connected) => return Ok(connected),
            Err(error) => failures.push((server.name.clone(), error)),
        }
    }
    match (failures.pop(), failures.is_empty()) {
        (Some((_, only)), true) => Err(only),
        (Some(last), false) => {
            failures.push(last);
            Err(ConnectError::EachFailed(Failures(failures)))
        }
        (None, _) => Err(ConnectError::EachFailed(Failures(failures))),
    }
}

/// Why none of several servers can be used.
#[derive(Debug)]
pub(super) struct Failures(pub(super) Vec<(String, ConnectError)>);

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no server accepts writes")?;
        for (name, error) in &self.0 {
            write!(f, "; {name}: {}", error.reason())?;
        }
        Ok(())
    }
}

/// The rest of a configuration. A peer that is gone must be noticed: without it a scheduler that was
/// cut off from its database would wait for a quarter of an hour.
fn without_hosts(config: &Config) -> Config {
    let mut one = Config::new();
    if let Some(user) = config.get_user() {
        one.user(user);
    }
    if let Some(password) = config.get_password() {
        one.password(password);
    }
    if let Some(database) = config.get_dbname() {
        one.dbname(database);
    }
    if let Some(options) = config.get_options() {
        one.options(options);
    }
    if let Some(name) = config.get_application_name() {
        one.application_name(name);
    }
    let unanswered = Duration::from_millis(POSTGRES_UNANSWERED_MS);
    let keepalive = Duration::from_millis(POSTGRES_KEEPALIVE_MS);
    one.ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .channel_binding(config.get_channel_binding())
        .target_session_attrs(config.get_target_session_attrs())
        .tcp_user_timeout(*config.get_tcp_user_timeout().unwrap_or(&unanswered))
        .keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle().min(keepalive))
        .keepalives_interval(config.get_keepalives_interval().unwrap_or(keepalive))
        .keepalives_retries(config.get_keepalives_retries().unwrap_or(3));
    one
}

#[cfg(test)]
mod tests {
    use std::str::FromStr as _;

    use super::*;

    fn servers(url: &str) -> Vec<Server> {
        Server::each(&Config::from_str(url).expect("a URL"))
    }

    #[test]
    fn each_host_of_a_url_is_a_server_with_its_port_and_what_they_share() {
        let several = servers("postgres://me:secret@a:1,b:2/x?keepalives_idle=1");
        let names: Vec<_> = several.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["a:1", "b:2"]);
        for server in &several {
            assert_eq!(server.config.get_user(), Some("me"));
            assert_eq!(server.config.get_password(), Some(&b"secret"[..]));
            assert_eq!(server.config.get_dbname(), Some("x"));
            let writes = server.config.get_target_session_attrs();
            assert_eq!(writes, TargetSessionAttrs::ReadWrite);
            let idle = server.config.get_keepalives_idle();
            assert_eq!(idle, Duration::from_secs(1));
        }
        let shared = servers("postgres:///x?host=/run/a&host=/run/b&port=7");
        let names: Vec<_> = shared.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["/run/a:7", "/run/b:7"]);
        let one = servers("postgres://db/x");
        assert_eq!(one[0].name, "db:5432");
        let any = one[0].config.get_target_session_attrs();
        assert_eq!(any, TargetSessionAttrs::Any, "one round trip less");
    }
}
