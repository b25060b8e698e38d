//! The terminal: what all commands of `baton` share, and none of the commands.
//!
//! | module | holds |
//! |---|---|
//! | [`output`] | standard output, exit codes, styles |
//! | [`text`] | styled lines, measured in terminal columns |
//! | [`table`] | text tables |
//! | [`painter`] | progress drawn in place: frames, bars, spinner |
//! | [`ids`] | parsing and formatting of ids |
//! | [`connection`] | errors of the client as failures, with their exit codes |
//! | [`interrupts`] | SIGINT and SIGTERM |
//! | [`runtime`] | tokio runtimes of the commands |
//! | [`variables`] | names of environment variables |

pub mod connection;
pub mod ids;
pub mod interrupts;
pub mod output;
pub mod painter;
pub mod runtime;
pub mod table;
pub mod text;
pub mod variables;
