//! Runs of workflows.
//!
//! | file | holds |
//! |---|---|
//! | `change` | submissions, and how runs are stopped |
//! | `resume` | how they go on |
//! | `read` | runs, their tasks, and what has failed |
//! | `items` | items, page by page |
//! | `views` | from the store's and the leader's words to `baton_model::api` |
//!
//! A run that is not over is in the leader's memory, and the leader is asked how far it is. How
//! far one was that is over follows from what the store has kept of it.

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
    // Stores keep ids as signed numbers.
    let number = number.filter(|number| *number <= i64::MAX.unsigned_abs());
    number
        .map(RunId)
        .ok_or_else(|| Fault::bad_request("a run id is a number such as r12"))
}

/// What is said of a run that is not there, or not for whoever asks: the same, so that nobody
/// learns which ids there are.
pub(super) fn unknown(run: RunId) -> Fault {
    Fault::not_found(format!(
        "there is no run {run}; it was never submitted, or was pruned from the history"
    ))
}

pub(super) fn path(run: RunId) -> String {
    format!("/runs/{run}")
}

/// A run that is over, worked out.
type EndedRun = Arc<(Arc<Dag>, Progress)>;

/// Where one comes to be. Whoever works it out may be cut off; then another of those who wait
/// for it does.
type RunCell = OnceCell<EndedRun>;

/// The last run that is over and was looked at: people page through one. Of many who look at
/// the same one at once, one works it out.
#[derive(Default)]
pub(crate) struct EndedRuns(Mutex<CachedRuns>);

#[derive(Default)]
struct CachedRuns {
    last: Option<(RunRecord, Arc<RunCell>)>,
    /// Those that somebody waits for.
    computing: Vec<(RunRecord, Weak<RunCell>)>,
}

impl EndedRuns {
    /// Where this one is, or comes to be.
    fn of(&self, record: &RunRecord) -> Arc<RunCell> {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, cell)) = &cached.last
            && of == record
        {
            return Arc::clone(cell);
        }
        cached.computing.retain(|(_, cell)| cell.strong_count() > 0);
        let mut computing = cached.computing.iter();
        let found = computing.find_map(|(of, cell)| match of == record {
            true => cell.upgrade(),
            false => None,
        });
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
    /// A run as the store has it.
    pub(super) async fn run_record(&self, run: RunId) -> Answer<RunRecord> {
        let found = self.read(move |store| store.run(run)).await?;
        found.ok_or_else(|| unknown(run))
    }

    /// How far a run was, by what is kept of it.
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
