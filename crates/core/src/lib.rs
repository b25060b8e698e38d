//! Every decision Baton takes, as pure and deterministic state machines.
//!
//! No clock, randomness, IO, threads or hash order in here: time, ids and random
//! numbers are inputs, and `clippy.toml` beside this crate's manifest bans the
//! rest. The same machines are driven by the server and the agent, by the
//! simulator, and by the model checker.
//!
//! | module | decides |
//! |---|---|
//! | [`fsm`] | which state may follow which, as tables |
//! | [`step`] | that nothing is said before it is durable |
//!
//! It may import `baton-model` and nothing else.

pub mod fsm;
pub mod step;
