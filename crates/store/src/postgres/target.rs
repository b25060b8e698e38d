//! The server that a URL names.

use std::fmt;
use std::str::FromStr;

use tokio_postgres::config::Host;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, Config, Connection, NoTls, Socket};

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
#[derive(Clone, Debug)]
pub(super) struct Target {
    config: Config,
    /// Without the password.
    pub(super) place: String,
}

impl Target {
    /// Reads a URL. `application` is the name of the connections in the server's views.
    pub(super) fn parse(url: &StoreUrl, application: &str) -> Result<Self, StoreError> {
        let mut config = Config::from_str(url.expose()).map_err(|error| {
            StoreError::Failed(format!(
                "the address of the store is not valid: {error}; \
                 write it as postgres://USER:PASSWORD@HOST:PORT/DATABASE"
            ))
        })?;
        config.application_name(application);
        let place = place(&config);
        Ok(Self { config, place })
    }

    pub(super) async fn connect(
        &self,
    ) -> Result<(Client, Connection<Socket, NoTlsStream>), tokio_postgres::Error> {
        self.config.connect(NoTls).await
    }
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
