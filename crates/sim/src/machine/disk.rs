//! The files of a coordinator: its log, and the note of its last launch.

use baton_model::coordinator::{CoordinatorRecord, Evidence};
use baton_model::ids::BootId;
use baton_model::task::{Identity, Moment, RunKey};

use super::processes::Processes;

/// A log is rewritten when it has this many records more than three for each run.
const SPARE_RECORDS: usize = 24;

/// The disk of a machine, as far as its coordinator is concerned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Disk {
    spare_records: usize,
    /// `None` if there never was a coordinator.
    log: Option<Vec<CoordinatorRecord>>,
    /// So many records survive the death of the machine; those after them may be lost.
    synced: usize,
    pid_note: Option<PidNote>,
}

/// The last launch: the process itself notes its pid before it begins its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PidNote {
    pub(super) run: RunKey,
    pub(super) at: Moment,
    pub(super) pid: u32,
    /// No earlier process is meant.
    pub(super) start_ticks: u64,
}

impl Default for Disk {
    fn default() -> Self {
        Self::new(SPARE_RECORDS)
    }
}

impl Disk {
    /// An empty disk, on which a log is rewritten when it has this many records more than three for
    /// each run.
    #[must_use]
    pub const fn new(spare_records: usize) -> Self {
        Self {
            spare_records,
            log: None,
            synced: 0,
            pid_note: None,
        }
    }

    /// Begins the log of a new coordinator; that of the one before is lost.
    pub(super) fn begin(&mut self, begun: CoordinatorRecord) {
        self.log = Some(vec![begun]);
        self.synced = 1;
    }

    pub(super) fn append(&mut self, records: &[CoordinatorRecord]) {
        self.log.get_or_insert_default().extend_from_slice(records);
    }

    /// True if the log is to be rewritten, while so many runs are known.
    pub(super) fn must_compact(&self, known: usize) -> bool {
        let records = self.log.as_ref().map_or(0, Vec::len);
        records > self.spare_records + 3 * known
    }

    /// Replaces all records but the first.
    pub(super) fn compact(&mut self, state: impl Iterator<Item = CoordinatorRecord>) {
        if let Some(log) = &mut self.log {
            log.truncate(1);
            log.extend(state);
            self.synced = log.len();
        }
    }

    pub(super) fn sync(&mut self) {
        self.synced = self.log.as_ref().map_or(0, Vec::len);
    }

    pub(super) fn note_launch(&mut self, note: PidNote) {
        self.pid_note = Some(note);
    }

    /// The machine has died: of the records that were not synced, only so many survive.
    pub fn tear(&mut self, survivors: usize) {
        if let Some(log) = &mut self.log {
            log.truncate(self.synced + survivors);
        }
        self.pid_note = None;
    }

    /// The number of records that may be lost.
    #[must_use]
    pub fn unsynced(&self) -> usize {
        let records = self.log.as_ref().map_or(0, Vec::len);
        records.saturating_sub(self.synced)
    }

    /// What the log of a dead coordinator tells, with the launch that it may not have recorded.
    /// `reaped` is the start time of the last child with a pid that its new parent has reaped.
    #[must_use]
    pub fn evidence(
        &self,
        boot: BootId,
        processes: &Processes,
        reaped: impl FnOnce(u32) -> Option<u64>,
    ) -> Option<Evidence> {
        let log = self.log.as_ref()?;
        let is_told = |run| log.iter().any(|record| tells_launch(record, run));
        let last = self.pid_note.filter(|note| !is_told(note.run));
        let last = last.and_then(|note| {
            let process = processes.get(note.pid);
            let process = process.filter(|it| it.mark == Some(note.run));
            let start_ticks = process.map(|it| it.start_ticks);
            let start_ticks = start_ticks.or_else(|| reaped(note.pid));
            let start_ticks = start_ticks.filter(|ticks| *ticks >= note.start_ticks)?;
            Some(CoordinatorRecord::Started {
                run: note.run,
                at: note.at,
                identity: Identity {
                    boot,
                    pid: note.pid,
                    start_ticks,
                },
                tag: String::new(),
            })
        });
        Some(log.iter().cloned().chain(last).collect())
    }
}

/// True if a log tells of the start of a run, or of what came after it.
fn tells_launch(record: &CoordinatorRecord, launched: RunKey) -> bool {
    match record {
        CoordinatorRecord::Started { run, .. } | CoordinatorRecord::Forgotten { run } => {
            *run == launched
        }
        CoordinatorRecord::Exited(end) | CoordinatorRecord::Ended(end) => end.run == launched,
        CoordinatorRecord::Begun { .. }
        | CoordinatorRecord::Accepted { .. }
        | CoordinatorRecord::Assigned { .. }
        | CoordinatorRecord::Guard(_) => false,
    }
}
