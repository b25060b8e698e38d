//! Input of hostile peers.

pub(crate) mod messages;
pub(crate) mod requests;
