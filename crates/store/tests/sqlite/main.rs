//! Tests of the SQLite store alone: its file, and how it can fail.

#[path = "../conformance/leading.rs"]
mod leading;

mod crash;
mod faults;
mod file;
mod frozen;
