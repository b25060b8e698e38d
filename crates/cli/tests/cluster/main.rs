//! A real scheduler and real workers under faults.

mod api;
mod backfills;
mod effects;
mod mounts;

mod clones;
mod copies;
mod disks;
mod events;
mod faults;
mod hostile_peers;
mod kill_loop;
mod leftovers;
mod log_bucket;
mod logging;
mod partition;
mod permissions;
mod quorum;
mod restart;
mod schedules;
mod service;
mod unexecuted;
