//! The last resort: work that no process guards any more is killed before its guard exits.

use std::path::Path;
use std::time::Duration;

use baton_model::time::Millis;

use super::runs::parse_mark;
use crate::stderr::log_line;
use crate::sys::kill::Sweep;
use crate::sys::{cgroup, clock};

/// The time of one attempt.
const ATTEMPT_MAX: Millis = Millis::from_secs(5);
/// The pause after one that left something alive.
const RETRY: Duration = Duration::from_secs(1);

/// Kills every process that carries this mark or is in the control group, without a coordinator,
/// and returns when nothing is left.
pub fn kill_all(mark: &str, group: Option<&Path>) {
    let is_marked = |text: &str| parse_mark(mark, text).is_some();
    let sweep = Sweep {
        roots: &[],
        spare: &|_| false,
        mark: Some(&is_marked),
    };
    loop {
        if let Some(group) = group.and_then(cgroup::open)
            && let Err(error) = group.kill()
        {
            log_line!("baton: cannot kill a control group: {error}");
        }
        match sweep.kill(clock::now().mono + ATTEMPT_MAX) {
            Ok(0) => return,
            Ok(left) => log_line!("baton: {left} processes cannot be killed; retrying"),
            Err(error) => log_line!("baton: cannot find the processes to kill: {error}; retrying"),
        }
        std::thread::sleep(RETRY);
    }
}
