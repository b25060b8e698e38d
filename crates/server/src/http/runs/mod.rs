//! Runs of workflows.
//!
//! | file | holds |
//! |---|---|
//! | `change` | submissions, and what people want of a run |
//! | `read` | runs, their tasks and items, and what has failed |
//! | `shape` | from the store's and the leader's words to `baton_model::api` |
//!
//! A run that is not over is in the leader's memory, and the leader is asked how far it is. How
//! far one was that is over follows from what the store has kept of it.

pub(super) mod change;
pub(super) mod read;
mod shape;

use std::sync::{Arc, Mutex, PoisonError};

use baton_core::workflow::{Planned, Progress};
use baton_model::ids::RunId;
use baton_store::view::RunRecord;

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
        .ok_or_else(|| Fault::bad_request("the id of a run is a number such as r12"))
}

fn unknown(run: RunId) -> Fault {
    Fault::not_found(format!(
        "there is no run {run}; it was never submitted, or is too old to be kept"
    ))
}

/// A run that is over, worked out.
type Ended = Arc<(Arc<Planned>, Progress)>;

/// The last run that is over and was looked at: people page through one.
#[derive(Default)]
pub(crate) struct LastEnded(Mutex<Option<(RunRecord, Ended)>>);

impl LastEnded {
    fn get(&self, record: &RunRecord) -> Option<Ended> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, ended) = held.as_ref()?;
        (of == record).then(|| Arc::clone(ended))
    }

    fn put(&self, record: RunRecord, ended: &Ended) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *held = Some((record, Arc::clone(ended)));
    }
}

impl App {
    /// A run as the store has it.
    pub(super) async fn run_record(&self, run: RunId) -> Answer<RunRecord> {
        let found = self.read(move |store| store.run(run)).await?;
        found.ok_or_else(|| unknown(run))
    }

    /// How far a run was, by what is kept of it.
    async fn ended_run(&self, record: &RunRecord) -> Answer<Ended> {
        if let Some(ended) = self.0.last_ended.get(record) {
            return Ok(ended);
        }
        let run = record.head.id;
        let ended = self.read(move |store| {
            Ok(store.kept_run(run)?.map(|kept| {
                let planned = Arc::new(Planned::new(kept.plan));
                let progress = Progress::new(&planned, [], kept.ended);
                Arc::new((planned, progress))
            }))
        });
        let ended = ended.await?.ok_or_else(|| unknown(run))?;
        if record.head.state.is_terminal() {
            self.0.last_ended.put(record.clone(), &ended);
        }
        Ok(ended)
    }
}
