//! Active tasks whose runner is gone.
//!
//! A runner that drives a task holds its lock and writes its log and its samples. The last of these
//! writes is the latest time at which it was certainly there.

use std::fs;
use std::time::SystemTime;

use baton_model::time::{Millis, Wall};

use crate::root::{Entry, Phase, Root, RootError};

/// An active task without a runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    pub entry: Entry,
    /// The last sign of its runner.
    pub since: Wall,
}

/// The active tasks whose runner has been gone for at least this long, ordered by id.
///
/// # Errors
/// If the root cannot be read. A task of another user that cannot be read is left out.
pub fn find_orphans(root: &Root, gone: Millis, now: Wall) -> Result<Vec<Orphan>, RootError> {
    let entries = root.list()?.into_iter();
    let active = entries.filter(|entry| entry.phase == Phase::Active);
    let orphans = active.filter_map(|entry| {
        let is_driven = root.is_driven(&entry.id).unwrap_or(true);
        let since = last_sign(root, &entry).filter(|_| !is_driven)?;
        let is_old = now.0.saturating_sub(since.0) >= gone.0;
        is_old.then_some(Orphan { entry, since })
    });
    Ok(orphans.collect())
}

fn last_sign(root: &Root, entry: &Entry) -> Option<Wall> {
    let id = &entry.id;
    let files = [
        root.runner_log(id),
        root.runner_lock(id),
        root.samples(id),
        root.entry(id, entry.phase),
    ];
    let changed = files
        .iter()
        .filter_map(|path| fs::symlink_metadata(path).ok()?.modified().ok());
    let last = changed.max()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(last.as_millis()).ok().map(Wall)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::testing::{BEGAN, BOOT, ended_task, entry, started_task, temp_root};

    #[test]
    fn an_active_task_without_a_runner_is_an_orphan_after_a_while() {
        let (_dir, root) = temp_root();
        started_task(&root, "a", BOOT);
        started_task(&root, "driven", BOOT);
        ended_task(&root, "over", Wall(BEGAN));
        let _lock = root.lock(&entry("driven", Phase::Active).id).expect("free");
        let now = Wall(u64::MAX);
        let found = find_orphans(&root, Millis(0), now).expect("readable");
        let [orphan] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(orphan.entry, entry("a", Phase::Active));
        let later = |ms| Wall(orphan.since.0 + ms);
        let found = |ms| find_orphans(&root, Millis(1_000), later(ms)).expect("readable");
        assert_eq!((found(999).len(), found(1_000).len()), (0, 1));
    }
}
