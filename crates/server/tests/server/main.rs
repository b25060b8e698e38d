//! The whole server in this process: real sockets, a real store, and workers that are the protocol
//! machine of the core over TCP, with work that ends as its name specifies.

mod cluster_limits;
mod disk;
mod events;
mod failure;
mod forgery;
mod forms;
mod library;
mod lifecycle;
mod limits;
mod logs;
mod malformed;
mod metrics;
mod owners;
mod pages;
mod pilots;
mod profiles;
mod reading;
mod refusals;
mod rig;
mod runs;
mod schedulers;
mod secrets;
mod shared_store;
mod submitters;
mod tags;
mod tls;
mod tokens;
mod usage;
mod web;
mod worker;
