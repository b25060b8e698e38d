//! Rows of tokens.

use std::path::Path;

use baton_model::ids::TokenId;
use baton_model::time::Wall;
use baton_model::token::{NewToken, SecretHash, Token};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

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
pub(super) fn create(db: &Connection, path: &Path, new: &NewToken) -> Result<TokenId, StoreError> {
    let failed = |error| to_store_error(path, error);
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
    db.execute(
        "INSERT INTO token (name, role, hash, created_at_ms, expires_at_ms, revoked, owner) \
         VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6)",
        params![
            new.name,
            new.role.into_str(),
            new.hash.0,
            signed(new.created_at),
            new.expires_at.map(signed),
            new.owner,
        ],
    )
    .map_err(failed)?;
    Ok(TokenId(db.last_insert_rowid().cast_unsigned()))
}

/// All tokens, the oldest first.
pub(super) fn all(db: &Connection) -> Result<Vec<Token>, rusqlite::Error> {
    let mut statement = db.prepare_cached(select!("ORDER BY id"))?;
    statement.query_map([], token)?.collect()
}

/// Revokes a token and returns it.
pub(super) fn revoke(db: &Connection, id: TokenId) -> Result<Option<Token>, rusqlite::Error> {
    let id = id.0.cast_signed();
    db.execute("UPDATE token SET revoked = 1 WHERE id = ?1", [id])?;
    db.prepare_cached(select!("WHERE id = ?1"))?
        .query_row([id], token)
        .optional()
}

fn count(db: &Connection) -> Result<usize, rusqlite::Error> {
    let count: i64 = db.query_row("SELECT count(*) FROM token", [], |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

fn token(row: &Row<'_>) -> Result<Token, rusqlite::Error> {
    let role: String = row.get(2)?;
    let role = role.parse().map_err(|error: String| {
        rusqlite::Error::FromSqlConversionFailure(2, Type::Text, error.into())
    })?;
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
            |tx, new| create(tx, Path::new(""), new),
            |tx, id| revoke(tx, id).expect("written"),
            |tx| all(tx).expect("readable"),
        );
    }
}
