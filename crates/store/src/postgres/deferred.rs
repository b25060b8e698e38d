//! Writes that wait for the end of their transaction, by column.

use super::session::Parameter;
use super::value::without_nul;
use crate::sql::value::{Kind, Value};

/// Writes of one statement.
pub(super) struct Deferred {
    /// In SQLite's spelling.
    pub(super) sql: String,
    pub(super) rows: usize,
    /// No earlier or later write may be merged with this one, or pass it.
    pub(super) is_ordered: bool,
    columns: Vec<Column>,
}

/// The values of one parameter, one for each row.
enum Column {
    Integer(Vec<Option<i64>>),
    Boolean(Vec<Option<bool>>),
    Text(Vec<Option<String>>),
    Bytes(Vec<Option<Vec<u8>>>),
}

impl Deferred {
    pub(super) fn new(sql: &str, values: &[Value<'_>], is_ordered: bool) -> Self {
        let columns = values.iter().map(|value| Column::new(value.kind()));
        let mut deferred = Self {
            sql: sql.to_owned(),
            rows: 0,
            is_ordered,
            columns: columns.collect(),
        };
        deferred.push(values);
        deferred
    }

    pub(super) fn push(&mut self, values: &[Value<'_>]) {
        assert_eq!(self.columns.len(), values.len(), "{}", self.sql);
        self.rows += 1;
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(*value);
        }
    }

    /// The names of the columns' types.
    pub(super) fn types(&self) -> Vec<&'static str> {
        let kinds = self.columns.iter().map(Column::kind);
        kinds.map(Kind::name).collect()
    }

    /// One array for each column.
    pub(super) fn arrays(&self) -> Vec<Parameter<'_>> {
        self.columns.iter().map(Column::array).collect()
    }

    /// The values of each row.
    pub(super) fn values(&self) -> Vec<Vec<Value<'_>>> {
        let row = |row| self.columns.iter().map(|it| it.at(row)).collect();
        (0..self.rows).map(row).collect()
    }
}

impl Column {
    const fn new(kind: Kind) -> Self {
        match kind {
            Kind::Integer => Self::Integer(Vec::new()),
            Kind::Boolean => Self::Boolean(Vec::new()),
            Kind::Text => Self::Text(Vec::new()),
            Kind::Bytes => Self::Bytes(Vec::new()),
        }
    }

    const fn kind(&self) -> Kind {
        match self {
            Self::Integer(_) => Kind::Integer,
            Self::Boolean(_) => Kind::Boolean,
            Self::Text(_) => Kind::Text,
            Self::Bytes(_) => Kind::Bytes,
        }
    }

    fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Self::Integer(column), Value::Integer(number)) => column.push(Some(number)),
            (Self::Boolean(column), Value::Boolean(is_true)) => column.push(Some(is_true)),
            (Self::Text(column), Value::Text(text)) => {
                column.push(Some(without_nul(text).into_owned()));
            }
            (Self::Bytes(column), Value::Bytes(bytes)) => column.push(Some(bytes.to_vec())),
            (Self::Integer(column), Value::Null(_)) => column.push(None),
            (Self::Boolean(column), Value::Null(_)) => column.push(None),
            (Self::Text(column), Value::Null(_)) => column.push(None),
            (Self::Bytes(column), Value::Null(_)) => column.push(None),
            (column, value) => panic!("{value:?} in a column of {:?}", column.kind()),
        }
    }

    fn array(&self) -> Parameter<'_> {
        match self {
            Self::Integer(column) => column,
            Self::Boolean(column) => column,
            Self::Text(column) => column,
            Self::Bytes(column) => column,
        }
    }

    fn at(&self, row: usize) -> Value<'_> {
        let value = match self {
            Self::Integer(column) => column[row].map(Value::Integer),
            Self::Boolean(column) => column[row].map(Value::Boolean),
            Self::Text(column) => column[row].as_deref().map(Value::Text),
            Self::Bytes(column) => column[row].as_deref().map(Value::Bytes),
        };
        value.unwrap_or(Value::Null(self.kind()))
    }
}
