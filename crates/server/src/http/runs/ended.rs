//! The cache of ended runs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use baton_core::workflow::{Dag, Progress};
use baton_store::view::RunRecord;
use tokio::sync::OnceCell;

/// Runs in the cache. A run of 200,000 items needs some megabytes.
const RUNS_MAX: usize = 4;

/// An ended run with its computed progress.
pub(super) type EndedRun = Arc<(Arc<Dag>, Progress)>;

/// Holds an ended run once it is computed. If the computing client is cut off, another waiting one
/// computes it.
pub(super) type RunCell = OnceCell<EndedRun>;

/// Cache of the ended runs that were read last: clients page through one run, and pages compare two.
/// Of concurrent readers of the same run, one computes it.
#[derive(Default)]
pub(in super::super) struct EndedRuns(Mutex<CachedRuns>);

#[derive(Default)]
struct CachedRuns {
    /// The latest last, at most [`RUNS_MAX`].
    last: VecDeque<(RunRecord, Arc<RunCell>)>,
    /// Runs that clients wait for.
    computing: Vec<(RunRecord, Weak<RunCell>)>,
}

impl EndedRuns {
    /// The cell of this run.
    pub(super) fn of(&self, record: &RunRecord) -> Arc<RunCell> {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cell)) = cached.last.iter().find(|(of, _)| of == record) {
            return Arc::clone(cell);
        }
        cached.computing.retain(|(_, cell)| cell.strong_count() > 0);
        let mut computing = cached.computing.iter();
        let found = computing.find_map(
            |(of, cell)| {
                if of == record { cell.upgrade() } else { None }
            },
        );
        found.unwrap_or_else(|| {
            let cell = Arc::default();
            let computing = (record.clone(), Arc::downgrade(&cell));
            cached.computing.push(computing);
            cell
        })
    }

    pub(super) fn put(&self, record: RunRecord, cell: Arc<RunCell>) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.last.retain(|(of, _)| of.head.id != record.head.id);
        cached.last.push_back((record, cell));
        if cached.last.len() > RUNS_MAX {
            cached.last.pop_front();
        }
    }
}
