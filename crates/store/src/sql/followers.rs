//! Positions of followers.

use super::db::{Db, Error, OptionalRow as _, params};
use super::rows::unsigned;
use crate::followers::FollowerName;
use crate::view::Seq;

/// Writes the position of a follower, or removes it.
pub(super) fn record(db: &Db<'_>, name: FollowerName, seq: Option<Seq>) -> Result<(), Error> {
    match seq {
        Some(seq) => db.execute(
            "INSERT INTO follower (name, seq) VALUES (?1, ?2) \
             ON CONFLICT (name) DO UPDATE SET seq = excluded.seq",
            params![name.word(), seq.0.cast_signed()],
        )?,
        None => db.execute("DELETE FROM follower WHERE name = ?1", [name.word()])?,
    };
    Ok(())
}

/// Reads the position of a follower.
pub(super) fn position(db: &Db<'_>, name: FollowerName) -> Result<Option<Seq>, Error> {
    db.prepare_cached("SELECT seq FROM follower WHERE name = ?1")?
        .query_row([name.word()], |row| Ok(Seq(unsigned(row, 0)?)))
        .optional()
}
