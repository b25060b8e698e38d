//! Changes to fleets and their jobs.
//!
//! There are few of them, so the first fact about any fetches all that are open. The ledger drops a
//! job that has ended; its last state stays in the store.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::ledger::Ledger;
use baton_model::fact::Fact;
use baton_model::fleet::{Fleet, FleetJob, FleetName};
use baton_model::ids::JobId;

use super::StoredRows;
use crate::StoreError;

/// All fleets, and their jobs that have not ended, as a store has them.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredFleets {
    pub(crate) fleets: Vec<Fleet>,
    pub(crate) jobs: Vec<FleetJob>,
    /// The highest id of a job ever used.
    pub(crate) last_job: JobId,
}

/// Fleets and jobs touched by facts; their state is in the change set's ledger.
#[derive(Debug, Default)]
pub(super) struct FleetChanges {
    is_fetched: bool,
    touched: BTreeSet<FleetName>,
    jobs: BTreeMap<JobId, FleetJob>,
}

impl FleetChanges {
    pub(super) fn apply_fact(
        &mut self,
        stored: &mut impl StoredRows,
        ledger: &mut Ledger,
        fact: &Fact,
    ) -> Result<(), StoreError> {
        if !self.is_fetched {
            let StoredFleets {
                fleets,
                jobs,
                last_job,
            } = stored.fleets()?;
            ledger.admit_fleets(fleets, jobs, last_job)?;
            self.is_fetched = true;
        }
        let job = fact.job();
        let before = job.and_then(|id| ledger.fleets().job(id).cloned());
        ledger.apply(fact)?;
        self.touched.extend(fact.fleet().cloned());
        let after = job.and_then(|id| ledger.fleets().job(id).cloned());
        if let Some(job) = after.or_else(|| before.map(|job| ended(job, fact))) {
            self.jobs.insert(job.id, job);
        }
        Ok(())
    }

    /// Touched fleets, in their new state; none for one that is gone.
    pub(super) fn fleets<'a>(
        &'a self,
        ledger: &'a Ledger,
    ) -> impl Iterator<Item = (&'a FleetName, Option<&'a Fleet>)> + 'a {
        let touched = self.touched.iter();
        touched.map(|name| (name, ledger.fleets().get(name)))
    }

    /// Touched jobs, in their new state.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &FleetJob> + '_ {
        self.jobs.values()
    }
}

/// A job as its end leaves it.
fn ended(job: FleetJob, fact: &Fact) -> FleetJob {
    let Fact::JobEnded {
        end, detail, at, ..
    } = fact
    else {
        return job;
    };
    FleetJob {
        end: Some(*end),
        ended_at: Some(*at),
        detail: detail.clone().or(job.detail),
        ..job
    }
}
