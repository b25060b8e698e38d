//! A real scheduler and real workers under faults.

mod api;
mod backfills;
mod effects;
mod mounts;
mod network;
mod notifications;

mod chain;
mod clones;
mod copies;
mod cores;
mod database_faults;
mod departures;
mod deploy;
mod devices;
mod disks;
mod events;
mod faults;
mod fleets;
mod gangs;
mod hostile_peers;
mod kill_loop;
mod leftovers;
mod log_bucket;
mod logging;
mod partition;
mod permissions;
mod promotions;
mod proxies;
mod quorum;
mod restart;
mod schedules;
mod service;
mod sick_hosts;
mod slurm;
mod unexecuted;
