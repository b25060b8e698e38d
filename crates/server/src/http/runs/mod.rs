//! Workflow runs.
//!
//! | file | holds |
//! |---|---|
//! | `change` | submission and halting |
//! | `resume` | resume and retry |
//! | `read` | runs, their tasks, and their failures |
//! | `items` | items, in pages |
//! | `views` | conversion to `baton_model::api` |
//!
//! The leader has runs that have not ended in memory, and reports their progress. The progress of
//! an ended run is computed from the store.

pub(super) mod change;
pub(super) mod items;
pub(super) mod read;
pub(super) mod resume;
mod views;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use baton_core::workflow::{Dag, Progress};
use baton_model::ids::RunId;
use baton_store::view::RunRecord;
use tokio::sync::OnceCell;

use super::App;
use super::problem::{Answer, Fault};

/// `r12` or `12`.
pub(super) fn id(text: &str) -> Answer<RunId> {
    let digits = text.strip_prefix('r').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| plain);
    // Stores keep ids as signed integers.
    let number = number.filter(|number| *number <= i64::MAX.unsigned_abs());
    number
        .map(RunId)
        .ok_or_else(|| Fault::bad_request("a run id is a number such as r12"))
}

/// The error for a run that does not exist, or that the caller must not see: the same, so that ids
/// do not leak.
pub(super) fn unknown(run: RunId) -> Fault {
    Fault::not_found(format!(
        "there is no run {run}; it was never submitted, or was pruned from the history"
    ))
}

pub(super) fn path(run: RunId) -> String {
    format!("/runs/{run}")
}

/// An ended run with its computed progress.
type EndedRun = Arc<(Arc<Dag>, Progress)>;

/// Holds an ended run once it is computed. If the computing client is cut off, another waiting one
/// computes it.
type RunCell = OnceCell<EndedRun>;

/// Cache of the last ended run that was read: clients page through one run. Of concurrent readers
/// of the same run, one computes it.
#[derive(Default)]
pub(crate) struct EndedRuns(Mutex<CachedRuns>);

#[derive(Default)]
struct CachedRuns {
    last: Option<(RunRecord, Arc<RunCell>)>,
    /// Runs that clients wait for.
    computing: Vec<(RunRecord, Weak<RunCell>)>,
}

impl EndedRuns {
    /// The cell of this run.
    fn of(&self, record: &RunRecord) -> Arc<RunCell> {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, cell)) = &cached.last
            && of == record
        {
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

    fn put(&self, record: RunRecord, cell: Arc<RunCell>) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.last = Some((record, cell));
    }
}

impl App {
    /// The stored record of a run.
    pub(super) async fn run_record(&self, run: RunId) -> Answer<RunRecord> {
        let found = self.read(move |store| store.run(run)).await?;
        found.ok_or_else(|| unknown(run))
    }

    /// The progress of an ended run, computed from the store.
    async fn ended_run(&self, record: &RunRecord) -> Answer<EndedRun> {
        let run = record.head.id;
        let cell = self.0.ended_runs.of(record);
        let work = async || {
            let ended = self.read(move |store| {
                Ok(store.stored_run(run)?.map(|kept| {
                    let dag = Arc::new(Dag::new(kept.plan));
                    let progress = Progress::new(&dag, [], kept.ended);
                    Arc::new((dag, progress))
                }))
            });
            ended.await?.ok_or_else(|| unknown(run))
        };
        let ended = Arc::clone(cell.get_or_try_init(work).await?);
        if record.head.state.is_terminal() {
            self.0.ended_runs.put(record.clone(), cell);
        }
        Ok(ended)
    }
}

#[cfg(test)]
mod tests;
