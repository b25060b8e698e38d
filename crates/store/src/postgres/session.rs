//! Connections, and transactions on them.
//!
//! The store is called from threads that may block, so each connection has a runtime of its own on
//! the calling thread: no other thread is woken for a statement.
//!
//! Most of a transaction's time is the way to the server and back, so it takes as few round trips as
//! possible: it begins with its first statement, statements that do not depend on each other are sent
//! together, and the commit follows the last writes without waiting for them.

use std::cell::{Cell, RefCell};
use std::error::Error as _;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::try_join;
use futures_util::stream::ReadyChunks;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{
    Client, Error as PostgresError, Row, RowStream, SimpleQueryMessage, Statement,
};

use super::deferred::Deferred;
use super::dialect;
use super::hosts::Failures;
use super::pipeline::{Request, send_in_order};
use super::plans::Statements;
use super::target::Target;
use crate::limits::{POSTGRES_CONNECT_MS, POSTGRES_FETCH_ROWS, POSTGRES_ROLLBACK_MS};
use crate::schema_version::SCHEMA_VERSION;
use crate::sql::value::{Error, Value};

pub(super) type Parameter<'a> = &'a (dyn ToSql + Sync);

/// A connection to the server.
pub struct Connection {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    client: Arc<Client>,
    statements: RefCell<Statements>,
}

/// A request whose answer is waited for in parts.
pub(super) type Pending = Pin<Box<dyn Future<Output = Result<(), PostgresError>> + Send>>;

impl Connection {
    /// Connects, and applies these settings.
    pub(super) fn open(target: &Target, settings: &str) -> Result<Self, ConnectError> {
        Self::open_with(target, settings, &[])
    }

    /// Connects, applies these settings, and plans statements.
    pub(super) fn open_with(
        target: &Target,
        settings: &str,
        planned: &[&str],
    ) -> Result<Self, ConnectError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (client, statements) = runtime.block_on(async {
            let (mut client, driver) = target.connect().await?;
            // It ends with an error if the connection breaks; the next statement reports it.
            tokio::spawn(async move { drop(driver.await) });
            let limit = Duration::from_millis(POSTGRES_CONNECT_MS);
            match timeout(limit, client.batch_execute(settings)).await {
                Ok(applied) => applied?,
                Err(_) => return Err(ConnectError::TimedOut(limit)),
            }
            let planned = match planned {
                [] => Statements::default(),
                // What cannot be planned now is planned when it is used, and its error reported then.
                planned => timeout(limit, Statements::plan(&mut client, planned))
                    .await
                    .unwrap_or_else(|_| Ok(Statements::default()))
                    .unwrap_or_default(),
            };
            Ok::<_, ConnectError>((client, planned))
        })?;
        Ok(Self {
            runtime: Some(runtime),
            client: Arc::new(client),
            statements: RefCell::new(statements),
        })
    }

    fn runtime(&self) -> &Runtime {
        // Taken in `drop` only.
        self.runtime.as_ref().expect("a connection has a runtime")
    }

    /// Whether the server still answers.
    pub(super) fn answers(&self) -> bool {
        self.runtime()
            .block_on(self.client.batch_execute(""))
            .is_ok()
    }

    /// Runs statements without parameters.
    pub(super) fn run(&self, sql: &str) -> Result<(), PostgresError> {
        self.runtime().block_on(self.client.batch_execute(sql))
    }

    /// Statements without parameters, which are sent with the first [`Self::wait`].
    pub(super) fn pending(&self, sql: String) -> Pending {
        let client = Arc::clone(&self.client);
        Box::pin(async move { client.batch_execute(&sql).await })
    }

    /// Waits for their answer; `None` if there is none yet.
    pub(super) fn wait(
        &self,
        pending: &mut Pending,
        wait: Duration,
    ) -> Option<Result<(), PostgresError>> {
        self.runtime()
            .block_on(async { timeout(wait, pending).await.ok() })
    }

    /// Runs one statement in a transaction of its own.
    pub(super) fn rows(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, PostgresError> {
        self.runtime().block_on(self.client.query(sql, parameters))
    }

    /// A transaction, which begins with its first statement.
    pub(super) fn transaction(&mut self, access: Access) -> Session<'_> {
        Session {
            runtime: self.runtime(),
            client: &self.client,
            statements: &self.statements,
            begin: Cell::new(Some(access.begin())),
            is_open: Cell::new(false),
            deferred: RefCell::default(),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A runtime must not be dropped where others run; nothing of this one is needed.
            runtime.shutdown_background();
        }
    }
}

/// Reason why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error(transparent)]
    Postgres(#[from] PostgresError),
    #[error("cannot start a runtime: {0}")]
    Runtime(#[from] std::io::Error),
    #[error("the server has not answered within {0:?}")]
    TimedOut(Duration),
    /// Of several servers.
    #[error("{0}")]
    EachFailed(Failures),
}

impl ConnectError {
    /// The cause, which people recognize.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Postgres(error) => match error.source() {
                Some(source) => source.to_string(),
                None => error.to_string(),
            },
            other => other.to_string(),
        }
    }
}

/// What a transaction may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Write,
    /// Everything that it reads is of one instant.
    Snapshot,
}

impl Access {
    /// Begins a transaction, and reads the version of the schema.
    const fn begin(self) -> &'static str {
        match self {
            Self::Write => "BEGIN; SELECT version FROM schema_version",
            Self::Snapshot => {
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
                 SELECT version FROM schema_version"
            }
        }
    }
}

/// A transaction. It is rolled back if it is dropped before its commit.
pub struct Session<'c> {
    runtime: &'c Runtime,
    client: &'c Client,
    statements: &'c RefCell<Statements>,
    /// What begins it, until that was sent.
    begin: Cell<Option<&'static str>>,
    is_open: Cell<bool>,
    deferred: RefCell<Vec<Deferred>>,
}

/// A statement, in SQLite's spelling, of a request for several.
pub(crate) enum Query<'a> {
    Plain(&'a str),
    /// Its one parameter is an array of ids.
    OfIds(&'a str, &'a [i64]),
    Of(&'a str, &'a [Value<'a>]),
}

impl Session<'_> {
    pub(super) fn commit(self) -> Result<(), Error> {
        let has_writes = !self.deferred.borrow().is_empty();
        if has_writes && !self.is_open.get() {
            // The version must be known before anything is committed.
            self.wait(async { Ok(()) })?;
        }
        if self.is_open.get() {
            self.send_deferred(Some("COMMIT"))?;
            self.is_open.set(false);
        }
        Ok(())
    }

    /// See [`crate::sql::db::Statement::write`].
    pub(crate) fn defer(&self, sql: &str, values: &[Value<'_>]) {
        let mut deferred = self.deferred.borrow_mut();
        let mergeable = deferred.iter_mut().rev().take_while(|it| !it.is_ordered);
        match mergeable.into_iter().find(|it| it.sql == sql) {
            Some(same) => same.push(values),
            None => deferred.push(Deferred::new(sql, values, false)),
        }
    }

    /// See [`crate::sql::db::Statement::write_in_order`].
    pub(crate) fn defer_in_order(&self, sql: &str, values: &[Value<'_>]) {
        let mut deferred = self.deferred.borrow_mut();
        deferred.push(Deferred::new(sql, values, true));
    }

    pub(crate) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize, Error> {
        self.flush()?;
        let statement = self.prepare(sql, values)?;
        let parameters = parameters(values);
        let changed = self.wait(self.client.execute(&statement, &parameters))?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    pub(crate) fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<FetchedRows<'_>, Error> {
        self.flush()?;
        let statement = self.prepare(sql, values)?;
        let parameters = parameters(values);
        let rows = self.wait(self.client.query(&statement, &parameters))?;
        Ok(FetchedRows::all(rows))
    }

    /// The rows of a statement that may find very many. Until they are read or dropped, the session
    /// can do nothing else.
    pub(crate) fn scan(&self, sql: &str, values: &[Value<'_>]) -> Result<FetchedRows<'_>, Error> {
        self.flush()?;
        let statement = self.prepare(sql, values)?;
        let rows = self.client.query_raw(&statement, parameters(values));
        let rows = self.wait(rows)?.ready_chunks(POSTGRES_FETCH_ROWS);
        Ok(FetchedRows {
            fetched: Vec::new().into_iter(),
            current: None,
            more: Some((self.runtime, Box::pin(rows))),
        })
    }

    /// The rows of several statements, in one round trip.
    pub(crate) fn query_together(
        &self,
        queries: &[Query<'_>],
    ) -> Result<Vec<FetchedRows<'static>>, Error> {
        self.flush()?;
        let mut statements: Vec<(Statement, Vec<Parameter<'_>>)> = Vec::new();
        for query in queries {
            statements.push(match query {
                Query::Plain(sql) => (self.prepare_as(sql, &[])?, Vec::new()),
                Query::OfIds(sql, ids) => (self.prepare_as(sql, &[Type::INT8_ARRAY])?, vec![ids]),
                Query::Of(sql, values) => (self.prepare(sql, values)?, parameters(values)),
            });
        }
        let requests = statements
            .iter()
            .map(|(statement, parameters)| -> Request<'_, Vec<Row>> {
                Box::pin(self.client.query(statement, parameters))
            })
            .collect();
        let rows = self.wait(send_in_order(requests))?;
        Ok(rows.into_iter().map(FetchedRows::all).collect())
    }

    /// Waits for a request. The first one of a transaction begins it in the same round trip.
    fn wait<T>(&self, request: impl Future<Output = Result<T, PostgresError>>) -> Result<T, Error> {
        let Some(begin) = self.begin.take() else {
            return Ok(self.runtime.block_on(request)?);
        };
        self.is_open.set(true);
        let begun = self.client.simple_query(begin);
        // The first one is polled first, and therefore sent first.
        let (begun, value) = self.runtime.block_on(try_join(begun, request))?;
        let version = begun.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
            _ => None,
        });
        match version {
            Some(SCHEMA_VERSION) => Ok(value),
            found => Err(Error::Schema(found.unwrap_or_default())),
        }
    }

    fn prepare(&self, sql: &str, values: &[Value<'_>]) -> Result<Statement, Error> {
        if let Some(statement) = self.prepared(sql) {
            return Ok(statement);
        }
        let types: Vec<Type> = values.iter().map(|it| it.kind().postgres()).collect();
        self.prepare_as(sql, &types)
    }

    fn prepare_as(&self, sql: &str, types: &[Type]) -> Result<Statement, Error> {
        if let Some(statement) = self.prepared(sql) {
            return Ok(statement);
        }
        let translated = dialect::translate(sql);
        let statement = self.wait(self.client.prepare_typed(&translated, types))?;
        let mut statements = self.statements.borrow_mut();
        statements.plain.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    fn prepared(&self, sql: &str) -> Option<Statement> {
        self.statements.borrow().plain.get(sql).cloned()
    }

    /// The statement that writes all rows at once, if there is one.
    fn batched(&self, deferred: &Deferred) -> Result<Option<Statement>, Error> {
        if deferred.rows < 2 {
            return Ok(None);
        }
        let known = self.statements.borrow().batched.get(&deferred.sql).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let translated = dialect::translate(&deferred.sql);
        let batched = dialect::batched(&translated, &deferred.types());
        let prepare = |sql: String| self.wait(self.client.prepare(&sql));
        let statement = batched.map(prepare).transpose()?;
        let mut statements = self.statements.borrow_mut();
        let sql = deferred.sql.clone();
        statements.batched.insert(sql, statement.clone());
        Ok(statement)
    }

    /// Runs what was deferred.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        if self.deferred.borrow().is_empty() {
            return Ok(());
        }
        self.send_deferred(None).map(|_| ())
    }

    /// Runs what was deferred; returns how many rows it has changed.
    pub(crate) fn flush_counting(&self) -> Result<usize, Error> {
        if self.deferred.borrow().is_empty() {
            return Ok(0);
        }
        self.send_deferred(None)
    }

    /// Sends what was deferred, then `last`, and waits for all of it; returns how many rows were changed.
    fn send_deferred(&self, last: Option<&'static str>) -> Result<usize, Error> {
        let deferred = mem::take(&mut *self.deferred.borrow_mut());
        let mut statements = Vec::new();
        for it in &deferred {
            statements.push(match self.batched(it)? {
                Some(statement) => (statement, Vec::new()),
                None => {
                    let rows = it.values();
                    (self.prepare(&it.sql, &rows[0])?, rows)
                }
            });
        }
        let writes = deferred.iter().zip(&statements);
        let writes = writes.map(|(deferred, (statement, rows))| {
            let parameters = match &**rows {
                [] => vec![deferred.arrays()],
                rows => rows.iter().map(|row| parameters(row)).collect(),
            };
            (statement, parameters)
        });
        let writes: Vec<(&Statement, Vec<Vec<Parameter<'_>>>)> = writes.collect();
        let mut requests: Vec<Request<'_, u64>> = Vec::new();
        for (statement, rows) in &writes {
            for row in rows {
                requests.push(Box::pin(self.client.execute(*statement, row)));
            }
        }
        if let Some(last) = last {
            let last = self.client.batch_execute(last);
            requests.push(Box::pin(async { last.await.map(|()| 0) }));
        }
        let changed = self.wait(send_in_order(requests))?;
        Ok(usize::try_from(changed.iter().sum::<u64>()).unwrap_or(usize::MAX))
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if self.is_open.get() {
            let limit = Duration::from_millis(POSTGRES_ROLLBACK_MS);
            let rollback = self.client.batch_execute("ROLLBACK");
            // If it cannot be sent, the connection is broken, and the server rolls back by itself.
            let _ = self
                .runtime
                .block_on(async { tokio::time::timeout(limit, rollback).await });
        }
    }
}

fn parameters<'a>(values: &'a [Value<'a>]) -> Vec<Parameter<'a>> {
    values.iter().map(|value| value as Parameter<'a>).collect()
}

/// Rows that were found.
pub(crate) struct FetchedRows<'s> {
    fetched: std::vec::IntoIter<Row>,
    current: Option<Row>,
    /// The source of more rows.
    more: Option<(&'s Runtime, Pin<Box<ReadyChunks<RowStream>>>)>,
}

impl FetchedRows<'_> {
    fn all(rows: Vec<Row>) -> Self {
        Self {
            fetched: rows.into_iter(),
            current: None,
            more: None,
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<&Row>, Error> {
        self.current = self.fetched.next();
        if self.current.is_none()
            && let Some((runtime, rows)) = &mut self.more
        {
            match runtime.block_on(rows.next()) {
                Some(part) => {
                    let part = part.into_iter().collect::<Result<Vec<_>, _>>()?;
                    self.fetched = part.into_iter();
                    self.current = self.fetched.next();
                }
                None => self.more = None,
            }
        }
        Ok(self.current.as_ref())
    }
}
