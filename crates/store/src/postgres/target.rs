//! The server that a URL names.

use std::str::FromStr;

use tokio_postgres::config::Host;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, Config, Connection, NoTls, Socket};

use crate::StoreError;

/// A server and a database on it.
#[derive(Clone, Debug)]
pub(super) struct Target {
    config: Config,
    /// Without the password.
    pub(super) place: String,
}

impl Target {
    /// Reads a URL. `application` is the name of the connections in the server's views.
    pub(super) fn parse(url: &str, application: &str) -> Result<Self, StoreError> {
        let mut config = Config::from_str(url).map_err(|error| {
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
