//! Workflow runs.
//!
//! | file | holds |
//! |---|---|
//! | `change` | submission and halting |
//! | `resume` | resume and retry |
//! | `read` | runs, their tasks, and their failures |
//! | `items` | items, in pages |
//! | `ended` | what the items of ended runs came to, in a cache |
//! | `counts` | items by state |
//! | `views` | conversion to `baton_model::api` |
//!
//! The leader has runs that have not ended in memory, and reports their progress. The progress of
//! an ended run is computed from the store.

pub(super) mod change;
mod counts;
pub(super) mod ended;
pub(super) mod items;
pub(super) mod read;
pub(super) mod resume;
mod views;

use std::sync::Arc;

use baton_core::workflow::Progress;
use baton_model::ids::RunId;
use baton_store::view::RunRecord;

use super::app::App;
use super::problem::{Answer, Fault};
use ended::EndedRun;

pub(super) fn path(run: RunId) -> String {
    format!("/runs/{run}")
}

impl App {
    /// An ended run, from the store.
    async fn ended_run(&self, record: &RunRecord) -> Answer<Arc<EndedRun>> {
        let run = record.head.id;
        let cell = self.0.ended_runs.of(record);
        let work = async || {
            let ended = self.read(move |store| EndedRun::read(store, run));
            let ended = ended.await?.map(Arc::new);
            ended.ok_or_else(|| Fault::unknown_run(run))
        };
        let ended = Arc::clone(cell.get_or_try_init(work).await?);
        if record.head.state.is_terminal() {
            self.0.ended_runs.put(record.clone(), cell);
        }
        Ok(ended)
    }

    /// The state of each item of an ended run.
    async fn ended_progress<'a>(&self, run: RunId, ended: &'a EndedRun) -> Answer<&'a Progress> {
        let work = async || {
            let computed = self.read(move |store| ended::compute(store, run));
            let computed = computed.await?.map(|(_, progress)| progress);
            computed.ok_or_else(|| Fault::unknown_run(run))
        };
        ended.progress.get_or_try_init(work).await
    }
}

#[cfg(test)]
mod tests;
