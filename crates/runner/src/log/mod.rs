//! The checkpoint log: records that survive a crash at any byte.
//!
//! ```text
//!   header   magic  version  kind  first sequence  CRC32C        28 bytes
//!   record   length  CRC32C(length, sequence, body)  sequence  body
//!   record   …
//! ```
//!
//! Numbers are little endian. A body is JSON. Records are numbered from 1 without a
//! gap; a compacted log goes on counting, and its header says with which number it
//! begins, so that a lost first record is noticed too. The header keeps this shape in
//! every version of the format.
//!
//! What is promised:
//! * A log is there whole or not at all: it is made beside its place, synced, renamed,
//!   and the directory is synced.
//! * A record is read as it was written, or not at all.
//! * A *torn tail*, bytes at the end that are no record and have no record after them, is
//!   what a crash or a full disk leaves; [`Log::open`] cuts it off. Zeros count as torn.
//! * *Damage* is anything wrong that has a whole record after it. Cutting there would
//!   lose what was known, and going on without it would repeat or forget work. So it is
//!   refused, and `open` sets the file aside for a person, as `NAME.damaged-1`.
//! * A failed write or sync stops the log for good: each later call gives the same
//!   error and nothing is tried again. After a failed sync Linux takes the lost pages
//!   for clean, so a second one would succeed and be a lie.
//!
//! A power cut during an append of many pages may keep a later page and lose an earlier
//! one. That looks like damage and is treated as such: nobody can tell the two apart
//! afterwards, and a person's look costs less than a wrong guess.
//!
//! One writer at a time: whoever opens a log to append holds the lock of its task. Any
//! number may [`read()`] meanwhile. What the records are is in `record`; when to sync and
//! when to compact is decided by whoever writes.

mod damage;
mod disk;
mod error;
mod format;
mod read;
mod scan;
mod writer;

#[cfg(test)]
mod tests;

pub use damage::{Damage, DamageKind, Quarantine};
pub use error::LogError;
pub use format::{Kind, RECORD_BYTES_MAX, VERSION};
pub use read::{RecoveredLog, read, salvage};
pub use writer::{Log, set_aside};
