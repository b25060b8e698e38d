//! One way to run SQL on either engine.
//!
//! The statements of this crate are in the common part of both dialects, with SQLite's spelling where
//! they differ in form only (`?1`, `INDEXED BY`, `max(a, b)`): PostgreSQL's is made of it once per
//! statement and connection (`crate::postgres::dialect`).

pub(crate) use super::value::{Error, Kind, Result, Value, corrupt_column};

use super::value::mismatch;
use crate::postgres::session::{FetchedRows, Session};

/// A connection within a transaction.
#[derive(Clone, Copy)]
pub enum Db<'c> {
    Sqlite(&'c rusqlite::Connection),
    Postgres(&'c Session<'c>),
}

/// Turns a missing row into `None`.
pub(crate) trait OptionalRow<T> {
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalRow<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(Error::NoRow) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A type that can be a parameter.
pub(crate) trait ToValue {
    fn kind() -> Kind
    where
        Self: Sized;
    fn value(&self) -> Value<'_>;
}

macro_rules! to_value {
    ($($type:ty: $kind:ident, $this:ident => $value:expr;)+) => {
        $(impl ToValue for $type {
            fn kind() -> Kind {
                Kind::$kind
            }

            fn value(&self) -> Value<'_> {
                let $this = self;
                Value::$kind($value)
            }
        })+
    };
}

to_value! {
    i64: Integer, it => *it;
    u32: Integer, it => i64::from(*it);
    bool: Boolean, it => *it;
    String: Text, it => it;
    &str: Text, it => it;
    [u8; 32]: Bytes, it => it;
    Vec<u8>: Bytes, it => it;
}

impl<T: ToValue> ToValue for &T {
    fn kind() -> Kind {
        T::kind()
    }

    fn value(&self) -> Value<'_> {
        (**self).value()
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn kind() -> Kind {
        T::kind()
    }

    fn value(&self) -> Value<'_> {
        match self {
            Some(value) => value.value(),
            None => Value::Null(T::kind()),
        }
    }
}

/// The parameters of a statement.
pub(crate) trait Params {
    fn values(&self) -> Vec<Value<'_>>;
}

impl Params for () {
    fn values(&self) -> Vec<Value<'_>> {
        Vec::new()
    }
}

impl<T: ToValue, const N: usize> Params for [T; N] {
    fn values(&self) -> Vec<Value<'_>> {
        self.iter().map(ToValue::value).collect()
    }
}

impl Params for &[Value<'_>] {
    fn values(&self) -> Vec<Value<'_>> {
        self.to_vec()
    }
}

impl Params for &[&dyn ToValue] {
    fn values(&self) -> Vec<Value<'_>> {
        self.iter().map(|value| value.value()).collect()
    }
}

/// Parameters of different types.
macro_rules! params {
    ($($value:expr),+ $(,)?) => {
        &[$(&$value as &dyn $crate::sql::db::ToValue),+] as &[&dyn $crate::sql::db::ToValue]
    };
}
pub(crate) use params;

impl<'c> Db<'c> {
    /// Prepares a statement, or finds it among those of the connection.
    pub(crate) fn prepare_cached<'s>(&self, sql: &'s str) -> Result<Statement<'s>>
    where
        'c: 's,
    {
        Ok(match *self {
            Db::Sqlite(db) => Statement::Sqlite(db.prepare_cached(sql)?),
            Db::Postgres(session) => Statement::Postgres(session, sql),
        })
    }

    /// The one row of a statement.
    pub(crate) fn query_row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.prepare_cached(sql)?.query_row(params, read)
    }

    /// Runs a statement; returns how many rows it has changed.
    pub(crate) fn execute(&self, sql: &str, params: impl Params) -> Result<usize> {
        self.prepare_cached(sql)?.execute(params)
    }

    /// Runs what was deferred by [`Statement::write`].
    pub(crate) fn flush(&self) -> Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(session) => session.flush(),
        }
    }

    /// The statement in the dialect of this engine, where the dialects differ in more than form.
    pub(crate) const fn choose(
        &self,
        sqlite: &'static str,
        postgres: &'static str,
    ) -> &'static str {
        match self {
            Self::Sqlite(_) => sqlite,
            Self::Postgres(_) => postgres,
        }
    }
}

/// A statement of a connection.
pub(crate) enum Statement<'s> {
    Sqlite(rusqlite::CachedStatement<'s>),
    Postgres(&'s Session<'s>, &'s str),
}

impl Statement<'_> {
    /// Runs it; returns how many rows it has changed.
    pub(crate) fn execute(&mut self, params: impl Params) -> Result<usize> {
        let values = params.values();
        match self {
            Self::Sqlite(statement) => Ok(statement.execute(rusqlite::params_from_iter(values))?),
            Self::Postgres(session, sql) => session.execute(sql, &values),
        }
    }

    /// Runs it for each of these parameters, which must concern different rows; returns how many rows
    /// it has changed.
    pub(crate) fn execute_each<P: Params>(
        &mut self,
        all: impl IntoIterator<Item = P>,
    ) -> Result<usize> {
        match self {
            Self::Sqlite(_) => {
                let mut changed = 0;
                for params in all {
                    changed += self.execute(params)?;
                }
                Ok(changed)
            }
            Self::Postgres(session, sql) => {
                session.flush()?;
                for params in all {
                    session.defer(sql, &params.values());
                }
                session.flush_counting()
            }
        }
    }

    /// Runs it before the transaction ends or reads anything. Writes of one statement keep their
    /// order, and must concern different rows; those of different statements run in the order in
    /// which each was used first.
    pub(crate) fn write(&mut self, params: impl Params) -> Result<()> {
        match self {
            Self::Sqlite(_) => self.execute(params).map(|_| ()),
            Self::Postgres(session, sql) => {
                session.defer(sql, &params.values());
                Ok(())
            }
        }
    }

    /// Like [`Statement::write`], after everything that was written before, and before everything that
    /// is written later.
    pub(crate) fn write_in_order(&mut self, params: impl Params) -> Result<()> {
        match self {
            Self::Sqlite(_) => self.execute(params).map(|_| ()),
            Self::Postgres(session, sql) => {
                session.defer_in_order(sql, &params.values());
                Ok(())
            }
        }
    }

    /// The rows that it finds.
    pub(crate) fn query(&mut self, params: impl Params) -> Result<Rows<'_>> {
        let values = params.values();
        Ok(match self {
            Self::Sqlite(statement) => {
                Rows::Sqlite(statement.query(rusqlite::params_from_iter(values))?)
            }
            Self::Postgres(session, sql) => Rows::Postgres(session.query(sql, &values)?),
        })
    }

    /// The rows that it finds, which may be very many. No other statement of the connection runs until
    /// they are read or dropped.
    pub(crate) fn scan(&mut self, params: impl Params) -> Result<Rows<'_>> {
        match self {
            Self::Sqlite(_) => self.query(params),
            Self::Postgres(session, sql) => {
                Ok(Rows::Postgres(session.scan(sql, &params.values())?))
            }
        }
    }

    /// The rows that it finds, read one by one.
    pub(crate) fn query_map<T, F>(
        &mut self,
        params: impl Params,
        read: F,
    ) -> Result<MappedRows<'_, F>>
    where
        F: FnMut(&Row<'_>) -> Result<T>,
    {
        let rows = self.query(params)?;
        Ok(MappedRows { rows, read })
    }

    /// Its first row.
    pub(crate) fn query_row<T>(
        &mut self,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut rows = self.query(params)?;
        let row = rows.next()?;
        read(&row.ok_or(Error::NoRow)?)
    }
}

/// Rows that were found, not all of them fetched yet.
pub(crate) enum Rows<'s> {
    Sqlite(rusqlite::Rows<'s>),
    Postgres(FetchedRows<'s>),
}

impl Rows<'_> {
    pub(crate) fn next(&mut self) -> Result<Option<Row<'_>>> {
        Ok(match self {
            Self::Sqlite(rows) => rows.next()?.map(Row::Sqlite),
            Self::Postgres(rows) => rows.next()?.map(Row::Postgres),
        })
    }
}

/// Rows that are read one by one.
pub(crate) struct MappedRows<'s, F> {
    rows: Rows<'s>,
    read: F,
}

impl<T, F: FnMut(&Row<'_>) -> Result<T>> Iterator for MappedRows<'_, F> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        match self.rows.next() {
            Ok(row) => row.map(|row| (self.read)(&row)),
            Err(error) => Some(Err(error)),
        }
    }
}

/// One row.
pub(crate) enum Row<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r tokio_postgres::Row),
}

impl Row<'_> {
    pub(crate) fn get<T: FromColumn>(&self, column: usize) -> Result<T> {
        T::from_value(self.value(column)?, column)
    }

    /// A column of text.
    pub(crate) fn text(&self, column: usize) -> Result<&str> {
        self.text_or_null(column)?
            .ok_or_else(|| mismatch(column, "text"))
    }

    /// A column of text that may be NULL.
    pub(crate) fn text_or_null(&self, column: usize) -> Result<Option<&str>> {
        match self.value(column)? {
            Value::Text(text) => Ok(Some(text)),
            Value::Null(_) => Ok(None),
            _ => Err(mismatch(column, "text")),
        }
    }

    pub(crate) fn value(&self, column: usize) -> Result<Value<'_>> {
        match self {
            Self::Sqlite(row) => sqlite_value(row, column),
            Self::Postgres(row) => crate::postgres::value::read(row, column),
        }
    }
}

fn sqlite_value<'r>(row: &'r rusqlite::Row<'r>, column: usize) -> Result<Value<'r>> {
    use rusqlite::types::ValueRef;
    Ok(match row.get_ref(column)? {
        ValueRef::Null => Value::Null(Kind::Integer),
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(_) => return Err(mismatch(column, "an integer")),
        ValueRef::Text(text) => {
            Value::Text(std::str::from_utf8(text).map_err(|error| corrupt_column(column, error))?)
        }
        ValueRef::Blob(bytes) => Value::Bytes(bytes),
    })
}

/// A type that a column can be read as.
pub(crate) trait FromColumn: Sized {
    fn from_value(value: Value<'_>, column: usize) -> Result<Self>;
}

impl FromColumn for i64 {
    fn from_value(value: Value<'_>, column: usize) -> Result<Self> {
        match value {
            Value::Integer(number) => Ok(number),
            _ => Err(mismatch(column, "an integer")),
        }
    }
}

impl FromColumn for u32 {
    fn from_value(value: Value<'_>, column: usize) -> Result<Self> {
        let number = i64::from_value(value, column)?;
        Self::try_from(number).map_err(|error| corrupt_column(column, error))
    }
}

impl FromColumn for bool {
    fn from_value(value: Value<'_>, column: usize) -> Result<Self> {
        match value {
            Value::Boolean(is_true) => Ok(is_true),
            Value::Integer(number) => Ok(number != 0),
            _ => Err(mismatch(column, "a boolean")),
        }
    }
}

impl FromColumn for String {
    fn from_value(value: Value<'_>, column: usize) -> Result<Self> {
        match value {
            Value::Text(text) => Ok(text.to_owned()),
            _ => Err(mismatch(column, "text")),
        }
    }
}

impl FromColumn for [u8; 32] {
    fn from_value(value: Value<'_>, column: usize) -> Result<Self> {
        match value {
            Value::Bytes(bytes) => bytes.try_into().map_err(|_| mismatch(column, "32 bytes")),
            _ => Err(mismatch(column, "bytes")),
        }
    }
}

impl FromColumn for Vec<u8> {
    fn from_value(value: Value<'_>, column: usize) -> Result<Self> {
        match value {
            Value::Bytes(bytes) => Ok(bytes.to_vec()),
            _ => Err(mismatch(column, "bytes")),
        }
    }
}

impl<T: FromColumn> FromColumn for Option<T> {
    fn from_value(value: Value<'_>, column: usize) -> Result<Self> {
        match value {
            Value::Null(_) => Ok(None),
            value => T::from_value(value, column).map(Some),
        }
    }
}
