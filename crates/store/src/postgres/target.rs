//! The server that a URL names.

use std::error::Error as _;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use baton_tls::{ClientFiles, TlsError, Trust};
use percent_encoding::percent_decode_str;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode};
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_rustls::TlsConnector;

use super::hosts::{self, Server};
use super::session::ConnectError;
use super::tls::{EncryptedStream, Tls};
use crate::StoreError;

/// The URL of a database, with its password; it is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(String);

impl StoreUrl {
    /// True for a text that names a PostgreSQL database.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// True if the URL holds a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.config()
            .is_some_and(|config| config.get_password().is_some())
    }

    /// The database without its password; `None` if the URL is invalid.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        self.config().map(|config| place(&config))
    }

    fn config(&self) -> Option<Config> {
        let (url, _) = TlsOptions::split(self.expose()).ok()?;
        Config::from_str(&url).ok()
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for StoreUrl {
    fn from(url: &str) -> Self {
        Self(url.to_owned())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreUrl(…)")
    }
}

/// A server and a database on it.
#[derive(Clone)]
pub(super) struct Target {
    servers: Vec<Server>,
    tls: Tls,
    /// Passwords and work travel to another machine unencrypted.
    pub(super) is_exposed: bool,
    /// Without the password.
    pub(super) place: String,
}

impl Target {
    /// Reads a URL. `application` is the name of the connections in the server's views.
    pub(super) fn parse(url: &StoreUrl, application: &str) -> Result<Self, StoreError> {
        let (url, options) = TlsOptions::split(url.expose())?;
        let mut config = Config::from_str(&url).map_err(|error| {
            // Its source says what is wrong, and does not repeat the password.
            let source = error.source().map(|source| format!(": {source}"));
            invalid(&format!("{error}{}", source.unwrap_or_default()))
        })?;
        config.application_name(application);
        config.ssl_mode(if options.is_used {
            SslMode::Require
        } else {
            SslMode::Disable
        });
        if config.get_hosts().is_empty() {
            return Err(invalid("it names no host"));
        }
        if config.get_load_balance_hosts() != LoadBalanceHosts::Disable {
            return Err(invalid("load_balance_hosts is not supported"));
        }
        let place = place(&config);
        let (servers, is_exposed) = (Server::each(&config), is_exposed(&config));
        let tls = options
            .load()
            .map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(Self {
            servers,
            tls,
            is_exposed,
            place,
        })
    }

    pub(super) async fn connect(
        &self,
    ) -> Result<(Client, Connection<Socket, EncryptedStream>), ConnectError> {
        hosts::connect(&self.servers, &self.tls).await
    }
}

fn is_exposed(config: &Config) -> bool {
    let is_remote = |host: &Host| match host {
        Host::Unix(_) => false,
        Host::Tcp(name) => {
            let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
            name != "localhost" && !address.is_ok_and(|it| it.is_loopback())
        }
    };
    config.get_ssl_mode() == SslMode::Disable && config.get_hosts().iter().any(is_remote)
}

fn invalid(reason: &str) -> StoreError {
    StoreError::Failed(format!(
        "the address of the store is not valid: {reason}; \
         write it as postgres://USER:PASSWORD@HOST:PORT/DATABASE"
    ))
}

/// The options of a URL about TLS, under the names that PostgreSQL gives them.
#[derive(Default)]
struct TlsOptions {
    is_used: bool,
    files: ClientFiles,
}

impl TlsOptions {
    /// Takes these options out of a URL. TLS is off unless `sslmode` asks for it; then the server's
    /// certificate is always verified: TLS without that protects from nothing but listeners.
    fn split(url: &str) -> Result<(String, Self), StoreError> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut options = Self::default();
        let (mut cert, mut key) = (None, None);
        let mut others = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let path = || Some(PathBuf::from(decoded(value)));
            match name {
                "sslmode" => {
                    options.is_used = match value {
                        "disable" => false,
                        "require" | "verify-ca" | "verify-full" => true,
                        _ => {
                            return Err(invalid(&format!(
                                "sslmode={value} can be turned off on the way; \
                                 write sslmode=verify-full or sslmode=disable"
                            )));
                        }
                    }
                }
                "sslrootcert" => options.files.trust = path().map_or(Trust::System, Trust::Ca),
                "sslcert" => cert = path(),
                "sslkey" => key = path(),
                _ => others.push(pair),
            }
        }
        options.files.identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err(invalid("sslcert and sslkey belong together")),
        };
        let query = others.join("&");
        let url = if query.is_empty() {
            base.to_owned()
        } else {
            format!("{base}?{query}")
        };
        Ok((url, options))
    }

    fn load(self) -> Result<Tls, TlsError> {
        let files = if self.is_used {
            self.files
        } else {
            ClientFiles::none()
        };
        Ok(Tls(TlsConnector::from(files.load()?)))
    }
}

/// Decodes the percent signs of a URL.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn place(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let hosts: Vec<_> = hosts.collect();
    let ports: Vec<_> = config.get_ports().iter().map(u16::to_string).collect();
    let port = if ports.is_empty() {
        "5432".to_owned()
    } else {
        ports.join(",")
    };
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    format!("postgres://{user}@{}:{port}/{database}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Target, String> {
        Target::parse(&StoreUrl::from(url), "test").map_err(|error| error.to_string())
    }

    #[test]
    fn a_place_names_the_database_and_hides_the_password() {
        for (url, place) in [
            (
                "postgres://me:secret@db/baton",
                "postgres://me@db:5432/baton",
            ),
            (
                "postgresql://me:secret@a:1,b:2/x?connect_timeout=3",
                "postgres://me@a,b:1,2/x",
            ),
            (
                "postgres:///x?host=/run/pg&user=me&password=secret",
                "postgres://me@/run/pg:5432/x",
            ),
            (
                "postgres://me:secret@db/x?sslmode=verify-full",
                "postgres://me@db:5432/x",
            ),
        ] {
            let target = parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(target.place, place);
        }
        assert_eq!(
            format!("{:?}", StoreUrl::from("postgres://a:secret@b/c")),
            "StoreUrl(…)"
        );
    }

    #[test]
    fn a_url_that_cannot_be_used_is_refused_with_a_hint_and_without_the_password() {
        for (url, reason) in [
            ("postgres://me:secret@db:port/x", "option `port`"),
            (
                "postgres://me:secret@db/x?sslmode=prefer",
                "sslmode=verify-full",
            ),
            (
                "postgres://me:secret@db/x?sslmode=require&sslcert=/c.pem",
                "belong together",
            ),
            ("postgres://me:secret@db/x?colour=red", "unknown option"),
            ("postgres:///x?user=me&password=secret", "it names no host"),
        ] {
            let error = parse(url)
                .err()
                .unwrap_or_else(|| panic!("{url} is accepted"));
            assert!(error.contains(reason), "{url}: {error}");
            assert!(!error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn only_unencrypted_traffic_to_other_machines_is_exposed() {
        for (url, is_exposed) in [
            ("postgres://me@db/x", true),
            ("postgres://me@127.0.0.1,db/x", true),
            ("postgres://me@127.0.0.1/x", false),
            ("postgres://me@localhost/x", false),
            ("postgres://me@/x?host=/run/pg", false),
            ("postgres://me@db/x?sslmode=verify-full", false),
        ] {
            let target = parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(target.is_exposed, is_exposed, "{url}");
        }
    }
}
