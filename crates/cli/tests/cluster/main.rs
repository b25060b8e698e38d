//! A real scheduler and real workers under faults.

mod api;
mod backfills;
mod effects;
mod mounts;
mod network;

mod clones;
mod copies;
mod database_faults;
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
mod promotions;
mod quorum;
mod restart;
mod schedules;
mod service;
mod sick_hosts;
mod unexecuted;
