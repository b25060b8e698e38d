//! The model of a Baton cluster that `model_check` explores.
//!
//! | file | holds |
//! |---|---|
//! | [`bound`] | how far an exploration goes, and its time budget |
//! | [`world`], [`memo`] | the laws of one exploration; answers that are known already |
//! | [`cluster`] | one state, and how things reach each other in it |
//! | [`leader`], [`store`], [`host`], [`network`] | the parts of a state |
//! | [`action`] | what may happen in a state, and what follows |
//! | [`properties`] | what must always hold, and what must be seen at least once |
//! | [`explore`] | running the checker, and making sure that it really finished |
//! | [`hashed`] | parts that are cheap to copy and to compare |

pub(crate) mod action;
pub(crate) mod bound;
pub(crate) mod cluster;
pub(crate) mod explore;
pub(crate) mod hashed;
pub(crate) mod host;
pub(crate) mod leader;
pub(crate) mod memo;
pub(crate) mod network;
pub(crate) mod properties;
pub(crate) mod store;
pub(crate) mod world;
