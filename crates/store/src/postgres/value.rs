//! Values of parameters and columns.

use std::borrow::Cow;
use std::error::Error as StdError;

use bytes::BytesMut;
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::sql::value::{Error, Kind, Value, corrupt_column};

impl Kind {
    pub(super) const fn postgres(self) -> Type {
        match self {
            Self::Integer => Type::INT8,
            Self::Boolean => Type::BOOL,
            Self::Text => Type::TEXT,
            Self::Bytes => Type::BYTEA,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Integer => "bigint",
            Self::Boolean => "boolean",
            Self::Text => "text",
            Self::Bytes => "bytea",
        }
    }
}

/// PostgreSQL has no NUL in a text. One that got so far would fail every commit from then on.
pub(super) fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Self::Null(_) => Ok(IsNull::Yes),
            Self::Integer(number) => number.to_sql(&Type::INT8, out),
            Self::Boolean(is_true) => is_true.to_sql(&Type::BOOL, out),
            Self::Text(text) => without_nul(text).to_sql(&Type::TEXT, out),
            Self::Bytes(bytes) => bytes.to_sql(&Type::BYTEA, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        // Every statement is prepared with the types of its values.
        true
    }

    to_sql_checked!();
}

/// Reads a column.
pub(crate) fn read(row: &Row, column: usize) -> Result<Value<'_>, Error> {
    let found = row.columns().get(column);
    let kind = found.ok_or_else(|| corrupt_column(column, "there is no such column"))?;
    let value = match *kind.type_() {
        Type::INT8 => row.try_get::<_, Option<i64>>(column)?.map(Value::Integer),
        Type::INT4 => row
            .try_get::<_, Option<i32>>(column)?
            .map(|number| Value::Integer(number.into())),
        Type::BOOL => row.try_get::<_, Option<bool>>(column)?.map(Value::Boolean),
        Type::BYTEA => row.try_get::<_, Option<&[u8]>>(column)?.map(Value::Bytes),
        Type::TEXT | Type::VARCHAR | Type::UNKNOWN => {
            row.try_get::<_, Option<&str>>(column)?.map(Value::Text)
        }
        ref other => return Err(corrupt_column(column, format!("its type is {other}"))),
    };
    Ok(value.unwrap_or(Value::Null(Kind::Integer)))
}
