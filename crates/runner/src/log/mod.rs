//! The checkpoint log: records that survive a crash at any byte.
//!
//! ```text
//!   header   magic  version  kind  first sequence  CRC32C        28 bytes
//!   record   length  CRC32C(length, sequence, body)  sequence  body
//!   record   …
//! ```
//!
//! Numbers are little endian. A body is JSON. Records are numbered from 1 without a gap; a
//! compacted log continues the sequence, and its header holds the first number, so that a lost
//! first record is noticed too. The header keeps this layout in every version of the format.
//!
//! Guarantees:
//! * A log exists completely or not at all: it is written to a temporary name, synced, renamed, and
//!   the directory is synced.
//! * A record is read as it was written, or not at all.
//! * A *torn tail*, bytes at the end that are no record and have no record after them, is what a
//!   crash or a full disk leaves; [`Log::open`] truncates it. Zeros count as torn.
//! * *Damage* is anything wrong that has a complete record after it. Truncating there would lose
//!   knowledge, and continuing without it would repeat or forget work. So it is an error, and
//!   `open` sets the file aside for an operator, as `NAME.damaged-1`.
//! * A failed write or sync stops the log for good: each later call returns the same error and
//!   nothing is tried again. After a failed sync Linux marks the lost pages clean, so a second sync
//!   would succeed without having written them.
//!
//! A power cut during an append of many pages may keep a later page and lose an earlier one. That
//! looks like damage and is treated as such: the two cannot be told apart afterwards, and an
//! operator's look costs less than a wrong guess.
//!
//! One writer at a time: it holds the lock of the task. Any number may [`read()`] meanwhile. The
//! records are defined in `record`; the writer decides when to sync and when to compact.

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
pub use read::{RecoveredLog, read, read_open, salvage};
pub use writer::{Log, set_aside};
