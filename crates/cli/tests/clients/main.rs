//! Commands and API clients against a real scheduler.

mod support;

mod library;
mod readme;
mod remote;
mod run;
mod schedule;
mod tls;
mod tokens;
