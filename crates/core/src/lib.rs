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
//! | [`ledger`] | what the facts add up to |
//! | [`triage`] | what follows when an attempt has ended |
//! | [`plan`] | which process of a task runs when, and how the task ends |
//! | [`placement`] | which waiting instance goes to which worker |
//! | [`clock`] | when a schedule is due, and what becomes of each due time |
//! | [`workflow`] | what of a run may begin, and when it is over |
//! | [`leader`] | who of several schedulers leads |
//! | [`protocol`] | both halves of the scheduler-worker protocol |
//! | [`scheduler`] | the leader, composed of the above |
//! | [`lease_keeper`] | what workers hear while their leader cannot write |
//! | [`counts`] | nothing: what was noticed and left alone |
//! | [`bugs`] | nothing: mistakes to make on purpose, for the simulator |
//!
//! It may import `baton-model` and nothing else of Baton.

pub mod bugs;
pub mod clock;
pub mod counts;
pub mod fsm;
pub mod leader;
pub mod lease_keeper;
pub mod ledger;
pub mod placement;
pub mod plan;
pub mod protocol;
pub mod scheduler;
pub mod step;
mod timers;
pub mod triage;
pub mod workflow;
