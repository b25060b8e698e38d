//! Rows of tokens.

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
            "SELECT id, name, role, hash, created_at_ms, expires_at_ms, revoked, owner FROM token ",
            $rest
        )
    };
}

/// Stores a token; if there are too many, the oldest invalid one is removed.
pub(super) fn create(db: &Db<'_>, place: &str, new: &NewToken) -> Result<TokenId, StoreError> {
    let failed = |error| to_store_error(place, error);
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
        "INSERT INTO token (name, role, hash, created_at_ms, expires_at_ms, revoked, owner) \
         VALUES (?1, ?2, ?3, ?4, ?5, FALSE, ?6) RETURNING id",
        params![
            new.name,
            new.role.into_str(),
            new.hash.0,
            signed(new.created_at),
            new.expires_at.map(signed),
            new.owner,
        ],
        |row| unsigned(row, 0),
    );
    Ok(TokenId(id.map_err(failed)?))
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
    Ok(Token {
        id: TokenId(unsigned(row, 0)?),
        name: row.get(1)?,
        role,
        hash: SecretHash(row.get(3)?),
        created_at: Wall(unsigned(row, 4)?),
        expires_at: expires_at.map(|ms| Wall(ms.cast_unsigned())),
        revoked: row.get(6)?,
        owner: row.get(7)?,
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
