//! The stage on which golden conversations are played: real machines, an in-test
//! store and coordinator, and a network that does only what the script says.
//!
//! | file | concern |
//! |---|---|
//! | [`script`] | the text format, the comparison and the rewriting |
//! | [`commands`] | what a script may say |
//! | [`world`] | all parties, and the passing of time |
//! | [`leader`] | a scheduler with its outbox and its store |
//! | [`worker`] | an agent with its coordinator |
//! | [`network`] | messages in flight, by number and by pattern |
//! | [`render`] | how messages and times are written |
//! | [`transcript`] | the lines of one block |

pub(crate) mod commands;
pub(crate) mod leader;
pub(crate) mod network;
pub(crate) mod render;
pub(crate) mod script;
pub(crate) mod transcript;
pub(crate) mod worker;
pub(crate) mod world;
