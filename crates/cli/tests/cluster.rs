//! A real scheduler and real workers, under whatever may happen to them. One binary, since each
//! takes as long to build as some of its tests to run.

mod cluster_support;
mod strangers;

mod cluster_disks;
mod cluster_faults;
mod cluster_kill_loop;
mod cluster_partition;
mod cluster_restart;
mod cluster_strangers;
mod events;
mod schedules;
