//! A real scheduler and real workers under faults. One binary, since each
//! takes as long to build as some of its tests to run.

mod cluster_support;
mod hostile_peers;

mod cluster_disks;
mod cluster_faults;
mod cluster_hostile_peers;
mod cluster_kill_loop;
mod cluster_logging;
mod cluster_partition;
mod cluster_restart;
mod cluster_unexecuted;
mod events;
mod schedules;
