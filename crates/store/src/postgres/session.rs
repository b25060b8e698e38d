//! Connections, and transactions on them.
//!
//! The store is called from threads that may block, so each connection has a runtime of its own on
//! the calling thread: no other thread is woken for a statement.

use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error as _;
use std::mem;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, IsolationLevel, Portal, Row, Statement, Transaction};

use super::dialect;
use super::hosts::Failures;
use super::target::Target;
use super::value::{Owned, column};
use crate::limits::{POSTGRES_CONNECT_MS, POSTGRES_FETCH_ROWS};
use crate::sql::value::{Error, Kind, Value};

type Parameter<'a> = &'a (dyn ToSql + Sync);

/// A connection to the server.
pub struct Connection {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    client: Client,
    statements: Statements,
}

/// Prepared statements by their text in SQLite's spelling.
type Statements = RefCell<HashMap<String, Statement>>;

impl Connection {
    /// Connects, and applies these settings.
    pub(super) fn open(target: &Target, settings: &str) -> Result<Self, ConnectError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(async {
            let (client, driver) = target.connect().await?;
            // It ends with an error if the connection breaks; the next statement reports it.
            tokio::spawn(async move { drop(driver.await) });
            let limit = Duration::from_millis(POSTGRES_CONNECT_MS);
            match timeout(limit, client.batch_execute(settings)).await {
                Ok(applied) => applied?,
                Err(_) => return Err(ConnectError::TimedOut(limit)),
            }
            Ok::<_, ConnectError>(client)
        })?;
        Ok(Self {
            runtime: Some(runtime),
            client,
            statements: Statements::default(),
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
    pub(super) fn run(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.runtime().block_on(self.client.batch_execute(sql))
    }

    /// Runs one statement in a transaction of its own.
    pub(super) fn rows(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.runtime().block_on(self.client.query(sql, parameters))
    }

    /// Begins a transaction.
    pub(super) fn begin(&mut self, access: Access) -> Result<Session<'_>, tokio_postgres::Error> {
        let runtime = self.runtime.as_ref().expect("a connection has a runtime");
        let begun = self.client.build_transaction();
        let begun = match access {
            Access::Write => begun,
            Access::Snapshot => begun
                .isolation_level(IsolationLevel::RepeatableRead)
                .read_only(true),
        };
        Ok(Session {
            runtime,
            transaction: runtime.block_on(begun.start())?,
            statements: &self.statements,
            deferred: RefCell::default(),
        })
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
    Postgres(#[from] tokio_postgres::Error),
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

/// A transaction.
pub struct Session<'c> {
    runtime: &'c Runtime,
    transaction: Transaction<'c>,
    statements: &'c Statements,
    deferred: RefCell<Vec<Deferred>>,
}

/// Writes of one statement.
struct Deferred {
    sql: String,
    rows: Vec<Vec<Owned>>,
}

impl Session<'_> {
    pub(super) fn commit(self) -> Result<(), Error> {
        self.flush()?;
        Ok(self.runtime.block_on(self.transaction.commit())?)
    }

    /// See [`crate::sql::db::Statement::write`].
    pub(crate) fn defer(&self, sql: &str, values: &[Value<'_>]) {
        let row = values.iter().map(|value| Owned::of(*value)).collect();
        let mut deferred = self.deferred.borrow_mut();
        match deferred.iter_mut().find(|it| it.sql == sql) {
            Some(same) => same.rows.push(row),
            None => deferred.push(Deferred {
                sql: sql.to_owned(),
                rows: vec![row],
            }),
        }
    }

    pub(crate) fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize, Error> {
        self.flush()?;
        let statement = self.prepare(sql, values)?;
        let parameters = parameters(values);
        let changed = self.transaction.execute(&statement, &parameters);
        let changed = self.runtime.block_on(changed)?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    pub(crate) fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<FetchedRows<'_>, Error> {
        self.flush()?;
        let statement = self.prepare(sql, values)?;
        let parameters = parameters(values);
        let rows = self.transaction.query(&statement, &parameters);
        let rows = self.runtime.block_on(rows)?;
        Ok(FetchedRows {
            fetched: rows.into_iter(),
            current: None,
            portal: None,
        })
    }

    /// The rows of a statement that may find very many, fetched in parts.
    pub(crate) fn scan(&self, sql: &str, values: &[Value<'_>]) -> Result<FetchedRows<'_>, Error> {
        self.flush()?;
        let statement = self.prepare(sql, values)?;
        let parameters = parameters(values);
        let portal = self.transaction.bind(&statement, &parameters);
        let portal = self.runtime.block_on(portal)?;
        Ok(FetchedRows {
            fetched: Vec::new().into_iter(),
            current: None,
            portal: Some((self, portal)),
        })
    }

    /// Rows of an array parameter, for statements that only this engine has.
    pub(crate) fn query_array(&self, sql: &str, ids: &[i64]) -> Result<FetchedRows<'_>, Error> {
        self.flush()?;
        let statement = self.prepare_as(sql, &[Type::INT8_ARRAY])?;
        let parameters: [Parameter<'_>; 1] = [&ids];
        let rows = self.transaction.query(&statement, &parameters);
        let rows = self.runtime.block_on(rows)?;
        Ok(FetchedRows {
            fetched: rows.into_iter(),
            current: None,
            portal: None,
        })
    }

    fn prepare(&self, sql: &str, values: &[Value<'_>]) -> Result<Statement, Error> {
        let types: Vec<Type> = values.iter().map(|it| it.kind().postgres()).collect();
        self.prepare_as(sql, &types)
    }

    fn prepare_as(&self, sql: &str, types: &[Type]) -> Result<Statement, Error> {
        let known = self.statements.borrow().get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let translated = dialect::translate(sql);
        let statement = self.transaction.prepare_typed(&translated, types);
        let statement = self.runtime.block_on(statement)?;
        let mut statements = self.statements.borrow_mut();
        statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Runs what was deferred.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let deferred = mem::take(&mut *self.deferred.borrow_mut());
        for Deferred { sql, rows } in deferred {
            let kinds: Vec<Kind> = rows[0].iter().map(|it| it.value().kind()).collect();
            match self.batched(&sql, &kinds, rows.len())? {
                Some(statement) => {
                    let columns: Vec<_> = kinds
                        .iter()
                        .enumerate()
                        .map(|(at, kind)| column(*kind, rows.iter().map(move |it| it[at].value())))
                        .collect();
                    let columns: Vec<Parameter<'_>> =
                        columns.iter().map(|it| &**it as Parameter<'_>).collect();
                    let written = self.transaction.execute(&statement, &columns);
                    self.runtime.block_on(written)?;
                }
                None => self.write_each(&sql, &rows)?,
            }
        }
        Ok(())
    }

    /// The statement that writes all rows at once, if there is one.
    fn batched(&self, sql: &str, kinds: &[Kind], rows: usize) -> Result<Option<Statement>, Error> {
        if rows < 2 {
            return Ok(None);
        }
        let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
        let Some(batched) = dialect::batched(&dialect::translate(sql), &names) else {
            return Ok(None);
        };
        self.prepare_as(&batched, &[]).map(Some)
    }

    /// Writes the rows one by one, without waiting for each.
    fn write_each(&self, sql: &str, rows: &[Vec<Owned>]) -> Result<(), Error> {
        let values: Vec<Vec<Value<'_>>> = rows
            .iter()
            .map(|row| row.iter().map(Owned::value).collect())
            .collect();
        let statement = self.prepare(sql, &values[0])?;
        let parameters: Vec<_> = values.iter().map(|row| parameters(row)).collect();
        let written = parameters
            .iter()
            .map(|row| self.transaction.execute(&statement, row));
        self.runtime.block_on(try_join_all(written))?;
        Ok(())
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
    portal: Option<(&'s Session<'s>, Portal)>,
}

impl FetchedRows<'_> {
    pub(crate) fn next(&mut self) -> Result<Option<&Row>, Error> {
        self.current = self.fetched.next();
        if self.current.is_none()
            && let Some((session, portal)) = &self.portal
        {
            let part = session
                .transaction
                .query_portal(portal, POSTGRES_FETCH_ROWS);
            let part = session.runtime.block_on(part)?;
            if part.is_empty() {
                self.portal = None;
            }
            self.fetched = part.into_iter();
            self.current = self.fetched.next();
        }
        Ok(self.current.as_ref())
    }
}
