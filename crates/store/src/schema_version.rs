//! The version of the schema, which both engines share.

/// The version that this Baton writes.
pub const SCHEMA_VERSION: u32 = 18;
