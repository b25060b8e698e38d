//! `baton local`: tasks on one host, without a scheduler.

mod crash_support;
mod local_reading_support;
mod support;

/// The fourteen ways in which an older runner of tasks went wrong, each as a task that really
/// runs, and ours does not; and everything that tries to get away.
mod dragons;
mod local_compaction;
mod local_hardships;
mod local_kill_loop;
mod local_reading;
/// What a person may expect, each as one task that really runs.
mod scenarios;

/// Crashes and faults of `baton local run`, from end to end: whatever happens to the
/// runner, its coordinator, its log, its disk or its clock, the task ends in SUCCESS when it
/// is gone on with, and nothing that was finished is run again.
///
/// | module | what happens |
/// |---|---|
/// | `torn` | the log is cut off at any byte, or damaged in its middle |
/// | `full` | there is no room on the disk |
/// | `calls` | a write or a sync fails, or is the last thing that is done |
/// | `strangers` | the pid of a run is somebody else's, after a boot or without one |
/// | `clock` | the wall clock is stepped |
/// | `stopped` | the runner or the coordinator stands still for a while |
///
/// Random kills are in `local_kill_loop`.
mod local_crashes {
    mod calls;
    mod clock;
    mod full;
    mod stopped;
    mod strangers;
    mod torn;
}
