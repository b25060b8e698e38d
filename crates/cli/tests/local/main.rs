//! `baton local`: tasks on one host, without a scheduler.

mod crash_support;
mod support;
mod test_root;

mod adversity;
mod compaction;
mod inspection;
mod kill_loop;
/// Fourteen bugs of an older task runner, each as a real task that
/// Baton runs correctly; and processes that try to escape.
mod legacy_bugs;
mod observe;
/// The documented behaviour, each case as one real task.
mod scenarios;

/// Crashes and faults of `baton local run`, from end to end: after any fault of the
/// runner, its coordinator, its log, its disk or its clock, a resumed task ends in SUCCESS,
/// and finished processes are not run again.
///
/// | module | fault |
/// |---|---|
/// | `torn` | the log is truncated at any byte, or damaged in its middle |
/// | `full` | the disk is full |
/// | `calls` | a write or a sync fails, or the process dies after it |
/// | `reused_pids` | another process has the pid of a run, after a boot or without one |
/// | `clock` | the wall clock is stepped |
/// | `stopped` | the runner or the coordinator is stopped for a while |
///
/// Random kills are in `kill_loop`.
mod crashes {
    mod calls;
    mod clock;
    mod full;
    mod reused_pids;
    mod stopped;
    mod torn;
}
