//! Copies of a whole store, between backends or into a file.
//!
//! All rows are read from one snapshot and written in one transaction. Then both sides are compared,
//! table by table, by the number of rows and a digest over all of them.

use sha2::{Digest as _, Sha256};

use crate::StoreError;
use crate::limits::TRANSFER_ROWS;
use crate::sql::db::{Db, Error, Kind, Value};
use crate::sql::rows::to_store_error;
use crate::sql::{Engine, SqlStore, Views, on_snapshot};
use crate::tables::{TABLES, Table};

/// The rows of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDigest {
    pub table: &'static str,
    pub rows: u64,
    /// SHA-256 over all rows, in hexadecimal digits.
    pub digest: String,
}

/// A store that can be copied as a whole, or checked.
pub trait Transferable: Views {
    /// The store, for messages.
    fn place(&self) -> &str;

    /// Runs `work` in a transaction.
    #[doc(hidden)]
    fn change(
        &self,
        work: &mut dyn FnMut(&Db<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;
}

impl<E: Engine> Transferable for SqlStore<E> {
    fn place(&self) -> &str {
        self.engine().place()
    }

    fn change(
        &self,
        work: &mut dyn FnMut(&Db<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut connection = self.engine().writer()?;
        self.engine().write(&mut connection, work)
    }
}

/// Copies everything into an empty store. `progress` is called with each table and the number of its
/// rows so far.
///
/// # Errors
/// [`StoreError::NotEmpty`] if the destination holds anything, which then stays as it is; others if a
/// side fails, or if the copy differs.
pub fn copy(
    from: &dyn Transferable,
    to: &dyn Transferable,
    progress: &mut dyn FnMut(&'static str, u64),
) -> Result<Vec<TableDigest>, StoreError> {
    let mut copied = Vec::new();
    on_snapshot(from, |source| {
        let written = to.change(&mut |target| {
            let failed = |error| to_store_error(to.place(), error);
            if !is_empty(target).map_err(failed)? {
                return Err(StoreError::NotEmpty(to.place().to_owned()));
            }
            for table in TABLES {
                let rows = copy_table(source, target, table, progress);
                copied.push(rows.map_err(failed)?);
            }
            renumber(target).map_err(failed)
        });
        Ok(written)
    })??;
    let stored = digests(to)?;
    if stored == copied {
        Ok(stored)
    } else {
        let differs = stored.iter().zip(&copied).find(|(one, other)| one != other);
        let table = differs.map_or("a table", |(one, _)| one.table);
        Err(StoreError::Corrupt(format!(
            "{}: {table} differs from what was copied",
            to.place()
        )))
    }
}

/// The rows of all tables.
///
/// # Errors
/// If they cannot be read.
pub fn digests(of: &dyn Transferable) -> Result<Vec<TableDigest>, StoreError> {
    on_snapshot(of, |db| {
        let digest = |table| {
            let mut hasher = RowHasher::new(table);
            each_row(db, table, |values| {
                hasher.add(values);
                Ok(())
            })?;
            Ok(hasher.finish())
        };
        TABLES.iter().map(digest).collect()
    })
}

/// True if nothing was ever stored.
fn is_empty(db: &Db<'_>) -> Result<bool, Error> {
    let sql = "SELECT (SELECT epoch FROM leader) = 0 AND (SELECT last_seq FROM totals) = 0 \
               AND NOT EXISTS (SELECT 1 FROM token) AND NOT EXISTS (SELECT 1 FROM secret)";
    db.query_row(sql, (), |row| row.get(0))
}

fn copy_table(
    source: &Db<'_>,
    target: &Db<'_>,
    table: &'static Table,
    progress: &mut dyn FnMut(&'static str, u64),
) -> Result<TableDigest, Error> {
    // A new store has rows in some tables.
    target.execute(&format!("DELETE FROM {}", table.name), ())?;
    let insert = table.insert();
    let mut insert = target.prepare_cached(&insert)?;
    let mut hasher = RowHasher::new(table);
    progress(table.name, 0);
    each_row(source, table, |values| {
        hasher.add(values);
        insert.write(values)?;
        if hasher.rows.is_multiple_of(TRANSFER_ROWS) {
            target.flush()?;
            progress(table.name, hasher.rows);
        }
        Ok(())
    })?;
    target.flush()?;
    Ok(hasher.finish())
}

/// Reads all rows of a table, in the order of its key.
fn each_row(
    db: &Db<'_>,
    table: &Table,
    mut visit: impl FnMut(&[Value<'_>]) -> Result<(), Error>,
) -> Result<(), Error> {
    let select = table.select();
    let mut select = db.prepare_cached(&select)?;
    let mut rows = select.scan(())?;
    while let Some(row) = rows.next()? {
        let value = |(at, (_, kind)): (usize, &(&str, Kind))| {
            Ok(match (row.value(at)?, kind) {
                (Value::Null(_), kind) => Value::Null(*kind),
                (Value::Integer(number), Kind::Boolean) => Value::Boolean(number != 0),
                (value, _) => value,
            })
        };
        let values = table.columns.iter().enumerate().map(value);
        visit(&values.collect::<Result<Vec<_>, Error>>()?)?;
    }
    Ok(())
}

/// Lets new tokens get numbers above the copied ones.
fn renumber(db: &Db<'_>) -> Result<(), Error> {
    if let Db::Postgres(_) = db {
        let sql = "SELECT setval(pg_get_serial_sequence('baton.token', 'id'), \
                   (SELECT coalesce(max(id), 0) + 1 FROM token), FALSE)";
        db.query_row(sql, (), |_| Ok(()))?;
    }
    Ok(())
}

/// Counts rows, and digests them.
struct RowHasher {
    table: &'static str,
    rows: u64,
    hash: Sha256,
}

impl RowHasher {
    fn new(table: &'static Table) -> Self {
        Self {
            table: table.name,
            rows: 0,
            hash: Sha256::new(),
        }
    }

    /// Each value with its kind and its length, so that no two different rows look alike.
    fn add(&mut self, values: &[Value<'_>]) {
        self.rows += 1;
        for value in values {
            let (tag, bytes): (u8, &[u8]) = match value {
                Value::Null(_) => (0, &[]),
                Value::Integer(number) => (1, &number.to_be_bytes()),
                Value::Boolean(is_true) => (2, &[u8::from(*is_true)]),
                Value::Text(text) => (3, text.as_bytes()),
                Value::Bytes(bytes) => (4, bytes),
            };
            self.hash.update([tag]);
            self.hash.update((bytes.len() as u64).to_be_bytes());
            self.hash.update(bytes);
        }
    }

    fn finish(self) -> TableDigest {
        let digest = self.hash.finalize();
        TableDigest {
            table: self.table,
            rows: self.rows,
            digest: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::SqliteStore;

    /// A table that was forgotten here would be missing from every copy.
    #[test]
    fn every_table_and_column_of_the_schema_is_copied() {
        let store = SqliteStore::in_memory().expect("there is memory");
        let sql = "SELECT t.name, c.name FROM pragma_table_list AS t \
                   JOIN pragma_table_info(t.name) AS c WHERE t.name NOT LIKE 'sqlite_%'";
        let columns = store.read(|db| {
            db.prepare_cached(sql)?
                .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<Result<Vec<(String, String)>, _>>()
        });
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (table, column) in columns.expect("readable") {
            found.entry(table).or_default().push(column);
        }
        found.values_mut().for_each(|columns| columns.sort());
        let listed = TABLES.iter().map(|table| {
            let mut columns: Vec<String> = table
                .columns
                .iter()
                .map(|(name, _)| (*name).to_owned())
                .collect();
            columns.sort();
            (table.name.to_owned(), columns)
        });
        assert_eq!(listed.collect::<BTreeMap<_, _>>(), found);
    }
}
