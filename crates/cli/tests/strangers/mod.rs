//! The words of strangers.

pub(crate) mod messages;
pub(crate) mod requests;
