//! Finding the attempt that a request is about.

use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, LeaseId, WorkerName};
use baton_store::view::Record;

use super::app::App;
use super::problem::{Answer, Fault};
use crate::limits::TIMELINE_EVENTS_MAX;

/// An attempt, and the worker that has its files.
pub(super) struct AttemptSource {
    pub(super) lease: LeaseId,
    pub(super) worker: WorkerName,
    pub(super) is_over: bool,
    /// Whether a process of it ran, as far as is known: without a log it then printed nothing, or
    /// the log was removed.
    pub(super) has_run: bool,
}

impl App {
    /// Finds the attempt: the given one, or the last one.
    pub(super) async fn attempt(
        &self,
        record: &Record,
        number: Option<u32>,
    ) -> Answer<AttemptSource> {
        let is_wanted =
            |lease: LeaseId| number.is_none_or(|number| lease.attempt.number.0 == number);
        let open = record.instance.lease.as_deref();
        if let Some(open) = open.filter(|open| is_wanted(open.id)) {
            return Ok(AttemptSource {
                lease: open.id,
                worker: open.holder.worker.clone(),
                is_over: false,
                has_run: true,
            });
        }
        if let Some(last) = record.last.as_ref().filter(|last| is_wanted(last.lease)) {
            return Ok(AttemptSource {
                lease: last.lease,
                worker: last.worker.clone(),
                is_over: true,
                has_run: last.stats.is_some(),
            });
        }
        let id = record.instance.id;
        match number {
            Some(number) => self.attempt_from_timeline(id, number).await,
            None => Err(Fault::not_found(format!(
                "{id} has no attempt: it has not started yet"
            ))),
        }
    }

    /// Finds an attempt that only the timeline knows.
    async fn attempt_from_timeline(&self, id: InstanceId, number: u32) -> Answer<AttemptSource> {
        let page = self
            .read(move |store| store.timeline(id, None, TIMELINE_EVENTS_MAX))
            .await?;
        let granted = page.items.into_iter().find_map(|entry| match entry.fact {
            Fact::LeaseGranted { lease, holder, .. }
            | Fact::AttemptAdopted { lease, holder, .. }
                if lease.attempt.number.0 == number =>
            {
                Some(AttemptSource {
                    lease,
                    worker: holder.worker,
                    is_over: true,
                    has_run: true,
                })
            }
            _ => None,
        });
        granted.ok_or_else(|| Fault::not_found(format!("{id} has no attempt {number}")))
    }
}
