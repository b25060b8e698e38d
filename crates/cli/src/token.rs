//! `baton token`: creating, listing and revoking tokens.
//!
//! Via a server's API, or directly in the store of a server that need not run, which is how the
//! first token is created.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use baton_client::Client;
use baton_files::units;
use baton_model::api;
use baton_model::ids::TokenId;
use baton_model::time::{Millis, Wall};
use baton_model::token::{NewToken, Role, check_name, check_owner};
use baton_server::{Backend, STORE_FILE};
use baton_store::postgres::PostgresStore;
use baton_store::{SqliteStore, Store, data_dir, token};
use clap::{Args, Subcommand};

use crate::connection::{block_on, client, refused};
use crate::credentials::CredentialArgs;
use crate::output::{CommandResult, FAILED, Failure, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::time;

/// Create, list and revoke API tokens
///
/// A server on a non-loopback address accepts only authenticated requests. Roles: a viewer reads; an
/// operator also submits, cancels, retries and drains; an admin also forgets workers and manages
/// tokens; a worker registers as a worker, and nothing else.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton token create --role admin --data /var/lib/baton -o admin.token
  baton token create --role worker --name rack7 --expires 30d > worker.token
  baton token create --role operator --owner analytics > analytics.token
  baton token ls
  baton token revoke t7

With --data the token is written to the server's store directly; a running server notices within
seconds. Without --data the server's API is used, which needs an admin token if tokens are
required.")]
pub(crate) struct Token {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    Create(Create),
    Ls(Ls),
    Revoke(Revoke),
}

#[derive(Debug, Args)]
struct StoreArgs {
    /// Data directory of the server; its store is used directly instead of the API
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// PostgreSQL database of the servers, postgres://USER@HOST/DATABASE; likewise used directly
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    store: Option<String>,
}

/// Create a token, and print its secret, which cannot be shown again
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  baton token create --role admin --data /var/lib/baton > admin.token")]
struct Create {
    /// Role: viewer, operator, admin or worker
    #[arg(long)]
    role: Role,
    /// Restrict the token to this owner's work; for viewers and operators
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// Name of the token [default: its role]
    #[arg(long)]
    name: Option<String>,
    /// Validity, such as 12h or 30d [default: unlimited]
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
    expires: Option<Millis>,
    /// Write the secret to this new file, which only you can read
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON: the token with its secret
    #[arg(long)]
    json: bool,
}

/// List tokens, without their secrets
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton token ls --data /var/lib/baton")]
struct Ls {
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Revoke a token, and close the connections that use it
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton token revoke t7")]
struct Revoke {
    /// Token id, such as t7
    id: TokenId,
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(
    command: &Token,
    url: Option<&str>,
    credentials: &CredentialArgs,
) -> CommandResult {
    let open = |store: &StoreArgs| match (&store.data, &store.store) {
        (Some(data), _) => {
            TokenBackend::open(data, matches!(command.command, TokenCommand::Create(_)))
        }
        (None, Some(url)) => TokenBackend::connect(url),
        (None, None) => client(url, credentials).map(|it| TokenBackend::Server(Box::new(it))),
    };
    match &command.command {
        TokenCommand::Create(command) => create(command, &open(&command.store)?),
        TokenCommand::Ls(command) => list(command, &open(&command.store)?),
        TokenCommand::Revoke(command) => revoke(command, &open(&command.store)?),
    }
}

/// Where the tokens are managed: a server's API, or a store.
enum TokenBackend {
    Server(Box<Client>),
    Store(Box<dyn Store>),
}

impl TokenBackend {
    /// Opens the store of a data directory. It is created only for `create`: for other commands a
    /// missing store is a mistyped path.
    fn open(data: &Path, make: bool) -> Result<Self, Failure> {
        let path = data.join(STORE_FILE);
        if make {
            data_dir::open(data).map_err(Failure::data_dir)?;
        } else if !path.exists() {
            let none = format!("{} has no store; check --data", data.display());
            return Err(Failure::failed(none));
        }
        data_dir::check(data).map_err(Failure::data_dir)?;
        let store = SqliteStore::open(&path);
        Ok(Self::Store(Box::new(store.map_err(Failure::failed)?)))
    }

    /// Opens the store of servers that share a database.
    fn connect(url: &str) -> Result<Self, Failure> {
        let Backend::Postgres(url) = url.parse().map_err(|error: String| Failure::usage(error))?
        else {
            let hint = "--store takes the URL of a PostgreSQL database; for a file use --data";
            return Err(Failure::usage(hint));
        };
        let store = PostgresStore::connect(&url);
        Ok(Self::Store(Box::new(store.map_err(Failure::failed)?)))
    }
}

fn create(command: &Create, backend: &TokenBackend) -> CommandResult {
    let name = command.name.clone();
    let name = name.unwrap_or_else(|| command.role.to_string());
    check_name(&name).map_err(Failure::usage)?;
    if let Some(owner) = &command.owner {
        check_owner(command.role, owner).map_err(Failure::usage)?;
    }
    let file = command.output.as_deref().map(SecretFile::create);
    let file = file.transpose()?;
    let created = match backend {
        TokenBackend::Server(client) => {
            let new = api::NewToken {
                role: command.role,
                owner: command.owner.clone(),
                name: Some(name),
                lifetime_seconds: command.expires.map(|span| span.0.div_ceil(1_000)),
            };
            block_on(async { client.create_token(&new).await.map_err(refused) })?
        }
        TokenBackend::Store(store) => create_in_store(&**store, command, name)?,
    };
    let mut out = Output::new();
    if command.json {
        out.json(&created)?;
        return out.done();
    }
    let token = &created.token;
    let place = match (file, &command.output) {
        (Some(file), Some(path)) => {
            file.write(&created.secret)?;
            format!("its secret is in {}", path.display())
        }
        _ => {
            writeln!(out, "{}", created.secret)?;
            "store its secret".to_owned()
        }
    };
    out.done()?;
    note(&format!(
        "created {} with role {}; {place}, and cannot be shown again",
        clean(&token.id),
        token.role
    ));
    Ok(())
}

/// A new file for a secret. It is removed if the secret is never written.
struct SecretFile {
    file: File,
    path: PathBuf,
    written: bool,
}

impl SecretFile {
    /// Creates the file before the token, so that no token is created whose secret is lost.
    fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        let file = file.map_err(|error| {
            Failure::usage(format!("cannot create {}: {error}", path.display()))
        })?;
        Ok(Self {
            file,
            path: path.to_owned(),
            written: false,
        })
    }

    fn write(mut self, secret: &str) -> CommandResult {
        let written = writeln!(self.file, "{secret}").and_then(|()| self.file.sync_all());
        written.map_err(|error| {
            Failure::failed(format!("cannot write {}: {error}", self.path.display()))
        })?;
        self.written = true;
        Ok(())
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        if !self.written {
            // The error that led here is reported.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn create_in_store(
    store: &dyn Store,
    command: &Create,
    name: String,
) -> Result<api::CreatedToken, Failure> {
    let failed = |error| Failure::failed(format!("cannot generate a secret: {error}"));
    let secret = token::generate().map_err(failed)?;
    let now = time::now();
    let until = |span: Millis| Wall(now.0.saturating_add(span.0));
    let new = NewToken {
        name,
        role: command.role,
        owner: command.owner.clone(),
        fleet: None,
        hash: token::hash(&secret),
        created_at: now,
        expires_at: command.expires.map(until),
    };
    let id = store.create_token(&new).map_err(Failure::failed)?;
    Ok(api::CreatedToken {
        token: api::Token {
            id: id.to_string(),
            name: new.name,
            role: new.role,
            owner: new.owner,
            fleet: None,
            created_at: new.created_at.0,
            expires_at: new.expires_at.map(|end| end.0),
            revoked: false,
            links: api::Links::new(),
        },
        secret: secret.expose().to_owned(),
    })
}

fn list(command: &Ls, backend: &TokenBackend) -> CommandResult {
    let tokens: Vec<api::Token> = match backend {
        TokenBackend::Server(client) => block_on(async { client.tokens().await.map_err(refused) })?,
        TokenBackend::Store(store) => {
            let tokens = store.tokens().map_err(Failure::failed)?;
            tokens.into_iter().map(api::Token::from).collect()
        }
    };
    let mut out = Output::new();
    if command.json {
        out.json(&tokens)?;
    } else if tokens.is_empty() {
        note("no tokens; create one with `baton token create --role admin`");
    } else {
        let mut table = Table::headed(&[
            "ID", "ROLE", "OWNER", "FLEET", "STATE", "CREATED", "EXPIRES", "NAME",
        ]);
        let now = time::now();
        for token in &tokens {
            table.row(row(token, now));
        }
        table.print(&mut out)?;
    }
    out.done()
}

fn row(token: &api::Token, now: Wall) -> [Cell; 8] {
    let expired = token.expires_at.is_some_and(|end| end <= now.0);
    let state = match (token.revoked, expired) {
        (true, _) => Cell::new("revoked", Style::Bad),
        (_, true) => Cell::new("expired", Style::Faint),
        _ => Cell::new("valid", Style::Good),
    };
    let expires = token.expires_at.map(Wall);
    [
        clean(&token.id).into(),
        token.role.into_str().into(),
        clean(token.owner.as_deref().unwrap_or("-")).into(),
        clean(token.fleet.as_deref().unwrap_or("-")).into(),
        state,
        time::stamp(Wall(token.created_at)).into(),
        expires
            .map_or_else(|| "never".to_owned(), time::stamp)
            .into(),
        clean(&token.name).into(),
    ]
}

fn revoke(command: &Revoke, backend: &TokenBackend) -> CommandResult {
    let id = command.id;
    let token = match backend {
        TokenBackend::Server(client) => {
            let id = id.to_string();
            block_on(async { client.revoke_token(&id).await.map_err(refused) })?
        }
        TokenBackend::Store(store) => {
            let revoked = store.revoke_token(id);
            let revoked = revoked.map_err(Failure::failed)?;
            let none = || Failure::Message(FAILED, format!("there is no token {id}"));
            revoked.map(api::Token::from).ok_or_else(none)?
        }
    };
    let mut out = Output::new();
    if command.json {
        out.json(&token)?
    } else {
        writeln!(out, "{}: revoked", clean(&token.id))?
    }
    out.done()
}

fn lifetime(text: &str) -> Result<Millis, String> {
    match units::duration(text) {
        Ok(Millis(0)) => Err("the validity must be greater than zero".to_owned()),
        Ok(span) => Ok(span),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_a_duration_and_lasts() {
        assert_eq!(lifetime("90s"), Ok(Millis(90_000)));
        assert_eq!(lifetime("30d"), Ok(Millis::from_secs(30 * 86_400)));
        for bad in ["0s", "x", "", "-1d"] {
            assert!(lifetime(bad).is_err(), "{bad}");
        }
    }
}
