//! What people and programs say to Baton, and what they hear.

mod remote_support;

mod library;
mod readme;
mod remote;
mod run;
mod schedule;
mod tls;
mod tokens;
