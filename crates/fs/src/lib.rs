//! Files and directories that another user may have prepared, opened safely.
//!
//! | module | holds |
//! |---|---|
//! | [`regular`] | files to read: no pipe, no socket and no device, whose reader would wait |
//! | [`private`] | directories of this process: no other user may change them, and links in them are not followed |
//! | [`enclosure`] | a directory of such files, whose links do not lead out of it |
//!
//! Everything is decided on an open descriptor, so that no one can exchange a file between its check and its use.

pub mod enclosure;
pub mod private;
pub mod regular;
