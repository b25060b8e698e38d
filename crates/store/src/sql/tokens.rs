//! Rows of tokens.

use baton_model::fleet::{FleetName, InvalidFleetName};
use baton_model::ids::TokenId;
use baton_model::time::Wall;
use baton_model::token::{NewToken, SecretHash, Token};

use super::db::{Db, Error, OptionalRow as _, Row, corrupt_column, params};
use super::rows::{to_store_error, unsigned};
use crate::StoreError;
use crate::limits::TOKENS_MAX;

/// The columns, in the order in which [`token`] reads them.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, name, role, hash, created_at_ms, expires_at_ms, revoked, owner, fleet ",
            "FROM token ",
            $rest
        )
    };
}

/// Stores a token; if there are too many, the oldest invalid one is removed. With a token of a fleet those of it that
/// have expired go; there is none for a fleet that is not there.
pub(super) fn create(db: &Db<'_>, place: &str, new: &NewToken) -> Result<TokenId, StoreError> {
    let failed = |error| to_store_error(place, error);
    if let Some(fleet) = &new.fleet {
        claim_fleet(db, place, fleet, new.created_at)?;
    }
    if count(db).map_err(failed)? >= TOKENS_MAX {
        let gone = db.execute(
            "DELETE FROM token WHERE id = (SELECT min(id) FROM token WHERE revoked OR \
             expires_at_ms <= ?1)",
            [signed(new.created_at)],
        );
        if gone.map_err(failed)? == 0 {
            return Err(StoreError::TooManyTokens);
        }
    }
    let id = db.query_row(
        "INSERT INTO token (name, role, hash, created_at_ms, expires_at_ms, revoked, owner, fleet) \
         VALUES (?1, ?2, ?3, ?4, ?5, FALSE, ?6, ?7) RETURNING id",
        params![
            new.name,
            new.role.into_str(),
            new.hash.0,
            signed(new.created_at),
            new.expires_at.map(signed),
            new.owner,
            new.fleet.as_ref().map(FleetName::as_str),
        ],
        |row| unsigned(row, 0),
    );
    Ok(TokenId(id.map_err(failed)?))
}

/// Makes sure that a fleet is there, and removes its expired tokens. Its row is locked: who removes it at the same time,
/// and revokes its tokens, waits for the new one.
fn claim_fleet(db: &Db<'_>, place: &str, fleet: &FleetName, now: Wall) -> Result<(), StoreError> {
    let failed = |error| to_store_error(place, error);
    let locked = db.execute(
        "UPDATE fleet SET name = name WHERE name = ?1",
        [fleet.as_str()],
    );
    if locked.map_err(failed)? == 0 {
        return Err(StoreError::NoFleet(fleet.clone()));
    }
    db.execute(
        "DELETE FROM token WHERE fleet = ?1 AND expires_at_ms <= ?2",
        params![fleet.as_str(), signed(now)],
    )
    .map_err(failed)?;
    Ok(())
}

/// All tokens, the oldest first.
pub(super) fn all(db: &Db<'_>) -> Result<Vec<Token>, Error> {
    let mut statement = db.prepare_cached(select!("ORDER BY id"))?;
    statement.query_map((), token)?.collect()
}

/// Revokes a token and returns it.
pub(super) fn revoke(db: &Db<'_>, id: TokenId) -> Result<Option<Token>, Error> {
    let id = id.0.cast_signed();
    db.execute("UPDATE token SET revoked = TRUE WHERE id = ?1", [id])?;
    db.prepare_cached(select!("WHERE id = ?1"))?
        .query_row([id], token)
        .optional()
}

fn count(db: &Db<'_>) -> Result<usize, Error> {
    let count: i64 = db.query_row("SELECT count(*) FROM token", (), |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

fn token(row: &Row<'_>) -> Result<Token, Error> {
    let role: String = row.get(2)?;
    let role = role
        .parse()
        .map_err(|error: String| corrupt_column(2, error))?;
    let expires_at: Option<i64> = row.get(5)?;
    let fleet: Option<String> = row.get(8)?;
    Ok(Token {
        id: TokenId(unsigned(row, 0)?),
        name: row.get(1)?,
        role,
        hash: SecretHash(row.get(3)?),
        created_at: Wall(unsigned(row, 4)?),
        expires_at: expires_at.map(|ms| Wall(ms.cast_unsigned())),
        revoked: row.get(6)?,
        owner: row.get(7)?,
        fleet: fleet
            .map(|name| name.parse())
            .transpose()
            .map_err(|error: InvalidFleetName| corrupt_column(8, error.to_string()))?,
    })
}

/// A time as a signed column; one that does not fit is never reached.
fn signed(wall: Wall) -> i64 {
    i64::try_from(wall.0).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::schema;
    use crate::token::tests::too_many_tokens;

    #[test]
    fn with_too_many_tokens_the_oldest_invalid_one_is_removed() {
        let dir = tempfile::tempdir().expect("a directory can be made");
        let path = dir.path().join("baton.db");
        schema::prepare(&path).expect("a new file is made");
        let mut db = schema::writer(&path).expect("opens");
        let mut tx = db.transaction().expect("begun");
        too_many_tokens(
            &mut tx,
            |tx, new| create(&Db::Sqlite(tx), "", new),
            |tx, id| revoke(&Db::Sqlite(tx), id).expect("written"),
            |tx| all(&Db::Sqlite(tx)).expect("readable"),
        );
    }
}
