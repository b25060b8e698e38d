//! Usage of the facts of a change set, by owner and hour; and measurements, by task.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::fact::{Fact, Verdict};
use baton_model::ids::{InstanceId, RunId};
use baton_model::measurement::{MeasuredEnd, Measurement, Requested, TaskPath};
use baton_model::outcome::{AttemptEnd, AttemptStats};
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};

use super::{ChangeSet, SpecId, StoredRows};
use crate::StoreError;
use crate::measurements::MeasurementDeltas;
use crate::usage::{Hour, UsageTotals};

/// Amounts to add to the usage rows.
pub(crate) type UsageDeltas = BTreeMap<(Hour, Arc<str>), UsageTotals>;

impl ChangeSet {
    /// The amounts to add to the usage rows.
    pub(crate) const fn usage(&self) -> &UsageDeltas {
        &self.usage
    }

    /// The measurements to append.
    pub(crate) const fn measured(&self) -> &MeasurementDeltas {
        &self.measured
    }

    /// Counts a fact that is about to be applied to a fetched instance.
    pub(super) fn count(
        &mut self,
        stored: &mut impl StoredRows,
        at: Wall,
        fact: &Fact,
        id: InstanceId,
    ) -> Result<(), StoreError> {
        match fact {
            Fact::LeaseGranted { .. } => self.count_wait(stored, at, id),
            Fact::AttemptEnded {
                end,
                verdict,
                stats,
                ..
            } => {
                if let Some(stats) = stats {
                    self.measure_attempt(stored, at, id, *end, stats)?;
                }
                self.count_attempt(stored, at, id, *verdict, stats.as_ref())
            }
            Fact::InstancesHalted { .. } => self.count_halt(stored, at, id),
            _ => Ok(()),
        }
    }

    fn count_wait(
        &mut self,
        stored: &mut impl StoredRows,
        at: Wall,
        id: InstanceId,
    ) -> Result<(), StoreError> {
        let Some(touched) = self.touched.get_mut(&id) else {
            return Ok(());
        };
        touched.leased_at = Some(at);
        // A queued instance waits since its last change, or since its backoff ended.
        let backoff_until = self.ledger.instance(id).and_then(|it| it.not_before());
        let ready_at = backoff_until
            .unwrap_or_default()
            .max(touched.lifecycle.changed_at);
        let used = UsageTotals {
            waited: between(ready_at, at),
            ..UsageTotals::default()
        };
        let spec = touched.lifecycle.spec;
        self.add(stored, at, spec, &used)
    }

    fn count_attempt(
        &mut self,
        stored: &mut impl StoredRows,
        at: Wall,
        id: InstanceId,
        verdict: Verdict,
        stats: Option<&AttemptStats>,
    ) -> Result<(), StoreError> {
        let Some(touched) = self.touched.get_mut(&id) else {
            return Ok(());
        };
        // Attempts leased before this column existed have no lease time: their last change is the
        // lower bound.
        let leased_at = touched
            .leased_at
            .take()
            .unwrap_or(touched.lifecycle.changed_at);
        let spec = touched.lifecycle.spec;
        let next_attempt = self
            .ledger
            .instance(id)
            .and_then(|it| it.next_attempt.as_ref());
        let scaled = next_attempt.and_then(|next| next.allowance.as_ref());
        let memory = scaled.map(|allowance| allowance.memory_min);
        let held = stored.claim(spec)?.held(between(leased_at, at), memory);
        let ended = |it: Verdict| u64::from(verdict == it);
        let used = UsageTotals {
            done: ended(Verdict::Done),
            failed: ended(Verdict::GaveUp),
            halted: ended(Verdict::Stopped),
            attempts: 1,
            cpu_used: stats.map_or(Millis(0), |stats| stats.cpu),
            ..held
        };
        self.add(stored, at, spec, &used)
    }

    fn measure_attempt(
        &mut self,
        stored: &mut impl StoredRows,
        at: Wall,
        id: InstanceId,
        end: AttemptEnd,
        stats: &AttemptStats,
    ) -> Result<(), StoreError> {
        let Some(touched) = self.touched.get(&id) else {
            return Ok(());
        };
        let claim = stored.claim(touched.lifecycle.spec)?;
        let workflow = match claim.part {
            Some(part) => self.runs.name(stored, part.run)?,
            None => Some("".into()),
        };
        // Without a durable store, workers may hold instances of runs that no leader knows.
        let Some(workflow) = workflow.filter(|_| !claim.task.is_empty()) else {
            return Ok(());
        };
        let path = TaskPath {
            owner: Arc::clone(&claim.owner),
            workflow,
            task: Arc::clone(&claim.task),
        };
        let measurement = Measurement {
            at,
            elapsed: stats.elapsed,
            cpu: stats.cpu,
            memory_peak: stats.memory_peak,
            end: end.into(),
        };
        self.measure(path, &claim.requested, measurement);
        Ok(())
    }

    /// Measures a run that has ended DONE.
    pub(super) fn measure_run(
        &mut self,
        stored: &mut impl StoredRows,
        at: Wall,
        run: RunId,
    ) -> Result<(), StoreError> {
        if let Some((path, begun)) = self.runs.path(stored, run)? {
            let measurement = Measurement {
                at,
                elapsed: between(begun, at),
                cpu: Millis(0),
                memory_peak: 0,
                end: MeasuredEnd::Done,
            };
            self.measure(path, &Requested::default(), measurement);
        }
        Ok(())
    }

    fn measure(&mut self, path: TaskPath, requested: &Requested, measurement: Measurement) {
        let new = self.measured.entry(path).or_default();
        new.requested = requested.clone();
        new.changed = measurement.at;
        new.measurements.push(measurement);
    }

    fn count_halt(
        &mut self,
        stored: &mut impl StoredRows,
        at: Wall,
        id: InstanceId,
    ) -> Result<(), StoreError> {
        let now = self.ledger.find(id);
        let waits = now.is_some_and(|it| it.state == UniversalState::Queued);
        let Some(touched) = self.touched.get(&id).filter(|_| waits) else {
            return Ok(());
        };
        let spec = touched.lifecycle.spec;
        self.count_halted(stored, at, spec, 1)
    }

    /// Counts queued instances that were halted.
    pub(super) fn count_halted(
        &mut self,
        stored: &mut impl StoredRows,
        at: Wall,
        spec: SpecId,
        halted: u64,
    ) -> Result<(), StoreError> {
        let used = UsageTotals {
            halted,
            ..UsageTotals::default()
        };
        self.add(stored, at, spec, &used)
    }

    fn add(
        &mut self,
        stored: &mut impl StoredRows,
        at: Wall,
        spec: SpecId,
        used: &UsageTotals,
    ) -> Result<(), StoreError> {
        let owner = Arc::clone(&stored.claim(spec)?.owner);
        self.usage
            .entry((Hour::of(at), owner))
            .or_default()
            .add(used);
        Ok(())
    }
}

/// Zero if the clock was set back.
const fn between(from: Wall, to: Wall) -> Millis {
    Millis(to.0.saturating_sub(from.0))
}
