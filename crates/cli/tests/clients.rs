//! Commands and API clients against a real scheduler.

mod remote_support;

mod library;
mod readme;
mod remote;
mod run;
mod schedule;
mod tls;
mod tokens;
