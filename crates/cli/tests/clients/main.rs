//! Commands and API clients against a real scheduler.

mod background;
mod benchmarks;
mod conditions;
mod config;
mod directories;
mod doctor;
mod documents;
mod findings;
mod help;
mod inspection;
mod kill;
mod library;
mod library_workflows;
mod lists;
mod measurements;
mod overview;
mod reference;
mod remote;
mod run;
mod schedule;
mod selection;
mod stores;
mod tls;
mod tokens;
mod ui;
mod up_signals;
