//! Removing old files: logs and directories of ended attempts that the scheduler has acknowledged.
//!
//! They are kept for a configured time, up to a maximum number. On a nearly full disk the oldest
//! are removed first, until there is room again. The scan proceeds in small steps, only while the
//! loop is idle, and another thread removes: a worker with a million old files, even in one
//! directory, must not miss a heartbeat.

use std::collections::BTreeMap;
use std::fs::{self, ReadDir};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use baton_model::ids::{AttemptId, AttemptNo, InstanceId, LeaseId};
use baton_model::time::{Millis, Mono};

use crate::state::{LOGS, WORK};

/// Attempts whose files are kept at most.
const ATTEMPTS_MAX: usize = 100_000;
/// Directory entries scanned, or attempts removed, in one step.
const ENTRIES_PER_TURN: usize = 50;
/// Interval between two steps of a pass.
const STEP: Millis = Millis(20);
/// Interval between two passes.
const PASS_EVERY: Millis = Millis::from_secs(60);
/// A disk is nearly full when less than both of these is free: a percentage of a small disk, and a
/// fixed amount of a large one, where one percent would be room for years of logs.
const FREE_PERCENT_MIN: u64 = 5;
const FREE_BYTES_MIN: u64 = 1 << 30;

#[derive(Debug)]
enum Stage {
    Idle,
    /// Scanning the directories.
    Scanning(Vec<PathBuf>, Option<ReadDir>),
    /// Removing, the oldest first.
    Removing(std::vec::IntoIter<(SystemTime, LeaseId)>, usize),
    /// A thread removes a batch; then the rest follows.
    Waiting(
        JoinHandle<()>,
        std::vec::IntoIter<(SystemTime, LeaseId)>,
        usize,
    ),
}

/// Removes old files.
#[derive(Debug)]
pub(crate) struct Sweep {
    state: PathBuf,
    keep: Millis,
    due: Mono,
    stage: Stage,
    /// The latest change of each attempt's files.
    found: BTreeMap<LeaseId, SystemTime>,
    /// True if the disk of the state directory is nearly full; replaceable in tests.
    is_disk_full: fn(&Path) -> bool,
    /// Removes the files of one attempt; replaceable in tests.
    clear: fn(&Path, LeaseId),
}

impl Sweep {
    pub(crate) fn new(state: &Path, keep: Millis, now: Mono) -> Self {
        Self {
            state: state.to_owned(),
            keep,
            due: now + PASS_EVERY,
            stage: Stage::Idle,
            found: BTreeMap::new(),
            is_disk_full,
            clear,
        }
    }

    pub(crate) fn next_due(&self) -> Mono {
        self.due
    }

    /// One small step, if the loop is idle.
    pub(crate) fn turn(&mut self, now: Mono, idle: bool, is_held: impl Fn(LeaseId) -> bool) {
        self.due = now + STEP;
        if !idle {
            return;
        }
        let stage = std::mem::replace(&mut self.stage, Stage::Idle);
        self.stage = match stage {
            Stage::Idle => {
                self.found.clear();
                Stage::Scanning([LOGS, WORK].map(|name| self.state.join(name)).into(), None)
            }
            Stage::Scanning(dirs, reading) => self.scan(dirs, reading),
            Stage::Removing(old, left) => self.remove(old, left, is_held),
            Stage::Waiting(busy, old, left) if busy.is_finished() => Stage::Removing(old, left),
            waiting @ Stage::Waiting(..) => waiting,
        };
        if matches!(self.stage, Stage::Idle) {
            self.due = now + PASS_EVERY;
        }
    }

    fn scan(&mut self, mut dirs: Vec<PathBuf>, reading: Option<ReadDir>) -> Stage {
        let mut reading = match reading {
            Some(reading) => reading,
            None => match dirs.pop() {
                // A directory that cannot be read is tried again with the next pass.
                Some(dir) => match fs::read_dir(dir) {
                    Ok(reading) => reading,
                    Err(_) => return Stage::Scanning(dirs, None),
                },
                None => {
                    let found = std::mem::take(&mut self.found).into_iter();
                    let mut old: Vec<_> = found.map(|(lease, at)| (at, lease)).collect();
                    old.sort_unstable();
                    let left = old.len();
                    return Stage::Removing(old.into_iter(), left);
                }
            },
        };
        for _ in 0..ENTRIES_PER_TURN {
            let Some(entry) = reading.next() else {
                return Stage::Scanning(dirs, None);
            };
            let Ok(entry) = entry else { continue };
            let lease = entry.file_name().to_str().and_then(lease_of);
            let changed = entry.metadata().and_then(|it| it.modified());
            if let (Some(lease), Ok(at)) = (lease, changed) {
                let latest = self.found.entry(lease).or_insert(at);
                *latest = at.max(*latest);
            }
        }
        Stage::Scanning(dirs, Some(reading))
    }

    fn remove(
        &self,
        mut old: std::vec::IntoIter<(SystemTime, LeaseId)>,
        mut left: usize,
        is_held: impl Fn(LeaseId) -> bool,
    ) -> Stage {
        let full = (self.is_disk_full)(&self.state);
        let now = SystemTime::now();
        let mut batch = Vec::new();
        for _ in 0..ENTRIES_PER_TURN {
            let Some((at, lease)) = old.next() else {
                break;
            };
            let age = now.duration_since(at).unwrap_or_default();
            let aged = age.as_millis() > u128::from(self.keep.0);
            if !aged && !full && left <= ATTEMPTS_MAX {
                // All later ones are younger.
                old = Vec::new().into_iter();
                break;
            }
            left -= 1;
            if !is_held(lease) {
                batch.push(lease);
            }
        }
        if batch.is_empty() {
            return match old.len() {
                0 => Stage::Idle,
                _ => Stage::Removing(old, left),
            };
        }
        let (state, clear) = (self.state.clone(), self.clear);
        let begun = thread::Builder::new()
            .name("sweep".to_owned())
            .spawn(move || batch.into_iter().for_each(|lease| clear(&state, lease)));
        match begun {
            Ok(busy) => Stage::Waiting(busy, old, left),
            Err(error) => {
                tracing::warn!("cannot start a thread to remove old files: {error}");
                Stage::Idle
            }
        }
    }
}

fn clear(state: &Path, lease: LeaseId) {
    let name = crate::attempt_dir::dir_name(lease);
    let logs = state.join(LOGS);
    let results = [
        fs::remove_file(logs.join(format!("{name}.out"))),
        fs::remove_file(logs.join(format!("{name}.err"))),
        // Does not follow links.
        fs::remove_dir_all(state.join(WORK).join(&name)),
    ];
    for error in results.into_iter().filter_map(Result::err) {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::warn!("the files of {lease} cannot be removed: {error}");
        }
    }
}

fn is_disk_full(state: &Path) -> bool {
    rustix::fs::statvfs(state).is_ok_and(|disk| {
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        free < FREE_BYTES_MIN && disk.f_bavail < disk.f_blocks / 100 * FREE_PERCENT_MIN
    })
}

/// The attempt whose file or directory has this name.
pub(crate) fn lease_of(name: &str) -> Option<LeaseId> {
    let name = name
        .strip_suffix(".out")
        .or(name.strip_suffix(".err"))
        .unwrap_or(name);
    let mut parts = name.strip_prefix('i')?.splitn(3, '.');
    let instance = InstanceId(parts.next()?.parse().ok()?);
    let number = AttemptNo(parts.next()?.parse().ok()?);
    let epoch = parts.next()?.parse().ok()?;
    let attempt = AttemptId { instance, number };
    Some(LeaseId { attempt, epoch })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt_dir::dir_name;
    use baton_model::ids::Epoch;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    fn lease(instance: u64) -> LeaseId {
        let attempt = AttemptId {
            instance: InstanceId(instance),
            number: AttemptNo(1),
        };
        LeaseId {
            attempt,
            epoch: Epoch::new(2, 0x1c7),
        }
    }

    #[test]
    fn names_are_read_back() {
        for suffix in ["", ".out", ".err"] {
            let name = format!("{}{suffix}", dir_name(lease(7)));
            assert_eq!(lease_of(&name), Some(lease(7)), "{name}");
        }
        for strange in ["", "x", "i1", "i1.2", "i1.2.3", "i1.2.e3.more", ".baton"] {
            assert_eq!(lease_of(strange), None, "{strange}");
        }
    }

    /// Attempts 1 and 2 are two days old, 3 and 4 are new; 2 and 4 are held.
    fn left_after_a_pass(is_disk_full: fn(&Path) -> bool) -> Vec<u64> {
        let place = tempfile::tempdir().expect("a directory");
        let state = place.path();
        for name in [LOGS, WORK] {
            fs::create_dir(state.join(name)).expect("made");
        }
        let day = Duration::from_secs(86_400);
        let paths = |instance| {
            let name = dir_name(lease(instance));
            let log = state.join(LOGS).join(format!("{name}.out"));
            (log, state.join(WORK).join(name))
        };
        for instance in 1..=4 {
            let (log, work) = paths(instance);
            fs::write(&log, b"x").expect("written");
            fs::create_dir(&work).expect("made");
            if instance < 3 {
                let old = SystemTime::now() - 2 * day;
                for path in [log, work] {
                    let file = fs::File::open(path).expect("there");
                    file.set_modified(old).expect("set");
                }
            }
        }
        let mut sweep = Sweep::new(state, Millis::from_secs(86_400), Mono(0));
        sweep.is_disk_full = is_disk_full;
        let is_held = |held| held == lease(2) || held == lease(4);
        sweep.turn(Mono(0), true, is_held);
        while !matches!(sweep.stage, Stage::Idle) {
            sweep.turn(Mono(0), true, is_held);
            thread::yield_now();
        }
        let left = (1..=4).filter(|&instance| {
            let (log, work) = paths(instance);
            assert_eq!(
                log.exists(),
                work.exists(),
                "one half of {instance} is left"
            );
            log.exists()
        });
        left.collect()
    }

    #[test]
    fn what_is_old_goes_unless_it_is_held_and_what_is_young_stays() {
        assert_eq!(left_after_a_pass(|_| false), [2, 3, 4]);
    }

    #[test]
    fn on_a_full_disk_the_young_goes_too_unless_it_is_held() {
        assert_eq!(left_after_a_pass(|_| true), [2, 4]);
    }

    #[test]
    fn a_slow_removal_does_not_block() {
        static GATE: Mutex<()> = Mutex::new(());
        static REMOVED: AtomicUsize = AtomicUsize::new(0);
        let place = tempfile::tempdir().expect("a directory");
        let mut sweep = Sweep::new(place.path(), Millis(0), Mono(0));
        sweep.clear = |_, _| {
            drop(GATE.lock());
            REMOVED.fetch_add(1, Ordering::SeqCst);
        };
        let old = (1..=3).map(|instance| (SystemTime::UNIX_EPOCH, lease(instance)));
        sweep.stage = Stage::Removing(old.collect::<Vec<_>>().into_iter(), 3);
        let shut = GATE.lock().expect("no thread has panicked");
        for turn in 0..10 {
            sweep.turn(Mono(turn), true, |_| false);
            assert_eq!(sweep.next_due(), Mono(turn) + STEP, "it comes back to it");
        }
        assert_eq!(REMOVED.load(Ordering::SeqCst), 0);
        drop(shut);
        while !matches!(sweep.stage, Stage::Idle) {
            sweep.turn(Mono(0), true, |_| false);
            thread::yield_now();
        }
        assert_eq!(REMOVED.load(Ordering::SeqCst), 3);
    }
}
