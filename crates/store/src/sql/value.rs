//! Values of parameters and columns, and errors of statements.

/// Reason why a statement failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Postgres(#[from] tokio_postgres::Error),
    /// The schema fixes the types, so another type is damage, not a bug.
    #[error("column {column}: {reason}")]
    Column { column: usize, reason: String },
    /// The schema has this version.
    #[error("the schema has version {0}")]
    Schema(u32),
    #[error("a row is missing")]
    NoRow,
    #[error("a value cannot be encoded: {0}")]
    Encode(#[from] serde_json::Error),
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// The type of a value; NULL has one, too, because PostgreSQL cannot always infer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Integer,
    Boolean,
    Text,
    Bytes,
}

/// A value of a parameter or of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Null(Kind),
    Integer(i64),
    Boolean(bool),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl Value<'_> {
    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Null(kind) => *kind,
            Self::Integer(_) => Kind::Integer,
            Self::Boolean(_) => Kind::Boolean,
            Self::Text(_) => Kind::Text,
            Self::Bytes(_) => Kind::Bytes,
        }
    }
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        use rusqlite::types::{ToSqlOutput, ValueRef};
        Ok(ToSqlOutput::Borrowed(match *self {
            Self::Null(_) => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(number),
            Self::Boolean(is_true) => ValueRef::Integer(i64::from(is_true)),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// An error for a column with invalid content.
pub(crate) fn corrupt_column(column: usize, error: impl std::fmt::Display) -> Error {
    let reason = error.to_string();
    Error::Column { column, reason }
}

/// An error for a column of another type.
pub(super) fn mismatch(column: usize, wanted: &str) -> Error {
    corrupt_column(column, format_args!("it is not {wanted}"))
}
