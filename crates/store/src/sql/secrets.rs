//! Rows of secrets: their values are encrypted by who writes them.

use baton_model::secret::{SealedSecret, SecretName, StoredSecret};
use baton_model::time::Wall;

use super::db::{Db, Error, OptionalRow as _, Row, corrupt_column, params};
use super::rows::{to_store_error, unsigned};
use crate::StoreError;
use crate::limits::SECRETS_MAX;
use crate::secret::SecretChange;

/// The columns, in the order in which [`stored`] reads them.
macro_rules! select {
    ($more:literal, $rest:literal) => {
        concat!(
            "SELECT owner, name, version, set_at_ms, set_by, used_at_ms, key",
            $more,
            " FROM secret ",
            $rest
        )
    };
}

/// Changes one secret, and returns it as it was changed, or removed; none if it is not there.
pub(super) fn change(
    db: &Db<'_>,
    place: &str,
    change: &SecretChange,
) -> Result<Option<StoredSecret>, StoreError> {
    let failed = |error| to_store_error(place, error);
    let (owner, name) = (&*change.owner, change.name.as_str());
    let before = stored_of(db, owner, name).map_err(failed)?;
    if let crate::secret::Change::Set { .. } = &change.change
        && before.is_none()
        && count(db).map_err(failed)? >= SECRETS_MAX
    {
        return Err(StoreError::TooManySecrets);
    }
    apply(db, change).map_err(failed)?;
    let after = stored_of(db, owner, name).map_err(failed)?;
    Ok(after.or(before))
}

fn apply(db: &Db<'_>, change: &SecretChange) -> Result<(), Error> {
    use crate::secret::Change;
    let (owner, name) = (&*change.owner, change.name.as_str());
    match &change.change {
        Change::Set {
            sealed,
            key,
            at,
            by,
        } => db.execute(
            "INSERT INTO secret (owner, name, version, set_at_ms, set_by, key, sealed) \
             VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6) ON CONFLICT (owner, name) DO UPDATE SET \
             version = secret.version + 1, set_at_ms = excluded.set_at_ms, \
             set_by = excluded.set_by, key = excluded.key, sealed = excluded.sealed",
            params![owner, name, signed(*at), by, key, sealed],
        ),
        Change::Resealed {
            version,
            sealed,
            key,
        } => db.execute(
            "UPDATE secret SET key = ?4, sealed = ?5 \
             WHERE owner = ?1 AND name = ?2 AND version = ?3",
            params![owner, name, version.cast_signed(), key, sealed],
        ),
        Change::Used { at } => db.execute(
            "UPDATE secret SET used_at_ms = ?3 WHERE owner = ?1 AND name = ?2",
            params![owner, name, signed(*at)],
        ),
        Change::Removed => db.execute(
            "DELETE FROM secret WHERE owner = ?1 AND name = ?2",
            params![owner, name],
        ),
    }?;
    Ok(())
}

/// All secrets, by owner and name.
pub(super) fn all(db: &Db<'_>) -> Result<Vec<StoredSecret>, Error> {
    db.prepare_cached(select!("", "ORDER BY owner, name"))?
        .query_map((), stored)?
        .collect()
}

/// All secrets with their encrypted values.
pub(super) fn all_sealed(db: &Db<'_>) -> Result<Vec<SealedSecret>, Error> {
    db.prepare_cached(select!(", sealed", "ORDER BY owner, name"))?
        .query_map((), sealed)?
        .collect()
}

/// One secret with its encrypted value.
pub(super) fn sealed_of(
    db: &Db<'_>,
    owner: &str,
    name: &SecretName,
) -> Result<Option<SealedSecret>, Error> {
    db.prepare_cached(select!(", sealed", "WHERE owner = ?1 AND name = ?2"))?
        .query_row(params![owner, name.as_str()], sealed)
        .optional()
}

fn stored_of(db: &Db<'_>, owner: &str, name: &str) -> Result<Option<StoredSecret>, Error> {
    db.prepare_cached(select!("", "WHERE owner = ?1 AND name = ?2"))?
        .query_row(params![owner, name], stored)
        .optional()
}

fn count(db: &Db<'_>) -> Result<usize, Error> {
    let count: i64 = db.query_row("SELECT count(*) FROM secret", (), |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

fn sealed(row: &Row<'_>) -> Result<SealedSecret, Error> {
    Ok(SealedSecret {
        secret: stored(row)?,
        sealed: row.get(7)?,
    })
}

fn stored(row: &Row<'_>) -> Result<StoredSecret, Error> {
    let name: String = row.get(1)?;
    let used_at: Option<i64> = row.get(5)?;
    Ok(StoredSecret {
        owner: row.get(0)?,
        name: name
            .parse()
            .map_err(|error: String| corrupt_column(1, error))?,
        version: unsigned(row, 2)?,
        set_at: Wall(unsigned(row, 3)?),
        set_by: row.get(4)?,
        used_at: used_at.map(|ms| Wall(ms.cast_unsigned())),
        key: row.get(6)?,
    })
}

/// A time as a signed column.
fn signed(wall: Wall) -> i64 {
    i64::try_from(wall.0).unwrap_or(i64::MAX)
}
