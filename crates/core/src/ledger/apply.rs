//! The application of facts: the only code that changes a [`Ledger`].
//!
//! A fact that contradicts the state changes nothing: every edit works on a copy of the instance,
//! and is stored when all checks have passed. The indexes (queued, leased, entries of the library,
//! items of runs) change with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_model::conditions::ArrayLimit;
use baton_model::fact::{Fact, Holder, Verdict};
use baton_model::ids::{Incarnation, InstanceId, LeaseId};
use baton_model::library::{Cause, Pause};
use baton_model::limits::CONDEMNED_MAX;
use baton_model::rate::LimitValue;
use baton_model::schedule::TickVerdict;
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;

use super::{Instance, Ledger, LedgerError, Range};

impl Ledger {
    /// Applies one fact.
    ///
    /// # Errors
    /// [`LedgerError`] if the fact contradicts the ones before it; the ledger is then unchanged.
    pub fn apply(&mut self, fact: &Fact) -> Result<(), LedgerError> {
        match fact {
            Fact::InstancesSubmitted {
                first, last, spec, ..
            } => self.submit(*first, *last, spec),
            Fact::LeaseGranted {
                lease,
                holder,
                others,
                ..
            } => self.grant(*lease, holder, others),
            Fact::AttemptAdopted {
                lease,
                holder,
                spec,
            } => self.adopt(*lease, holder, spec),
            Fact::AttemptConfirmed { lease } => self.confirm(*lease),
            Fact::AttemptEnded {
                lease,
                end,
                verdict,
                next_attempt,
                stats,
                outputs,
                ..
            } => {
                let id = lease.attempt.instance;
                if let (Verdict::Done, Some(stats)) = (verdict, stats)
                    && let Some(instance) = self.instances.get(&id)
                {
                    self.runs.record_duration(&instance.spec, stats.elapsed);
                }
                self.change_with(id, outputs.as_ref(), |instance| {
                    instance.close(*lease, *end, *verdict, next_attempt.as_deref())
                })?;
                if *verdict == Verdict::GaveUp {
                    self.count_failure(id, 1);
                }
                Ok(())
            }
            Fact::StopRequested { instance, mode, .. } => self.change(*instance, |instance| {
                instance.stop(*mode);
                Ok(())
            }),
            Fact::AttemptKillRequested { lease, mode, .. } => self
                .change(lease.attempt.instance, |instance| {
                    instance.kill(*lease, *mode)
                }),
            Fact::MemberLost { lease, worker, .. } => self
                .change(lease.attempt.instance, |instance| {
                    instance.lose_member(*lease, worker)
                }),
            Fact::InstancesHalted { first, last, .. } => self.halt(*first, *last),
            Fact::InstanceRetried { instance, .. } => {
                let failed = self.instances.get(instance);
                let failed = failed.is_some_and(|it| it.state == UniversalState::Failed);
                self.change(*instance, Instance::retry)?;
                if failed {
                    self.count_failure(*instance, -1);
                }
                Ok(())
            }
            Fact::LeaseTimeSet { lease } => {
                self.lease_time = *lease;
                Ok(())
            }
            Fact::WorkerCondemned { incarnation, .. } => {
                self.condemn(*incarnation);
                Ok(())
            }
            Fact::CopyOpened { epoch, .. } => {
                self.identity.open_copy(*epoch, self.last_used());
                Ok(())
            }
            Fact::CopySettled { epoch } => {
                self.identity.settle(*epoch);
                Ok(())
            }
            Fact::AlarmRaised(alarm) => {
                self.alarms.insert(alarm.key(), (**alarm).clone());
                Ok(())
            }
            Fact::AlarmCleared { alarm, .. } => {
                self.alarms.remove(alarm);
                Ok(())
            }
            // For the operator.
            Fact::AttemptsDisowned { .. }
            | Fact::WorkerFaulted { .. }
            | Fact::WorkerSuspected { .. }
            | Fact::ChannelFaulted { .. } => Ok(()),
            Fact::WorkerDrained {
                worker, drained, ..
            } => {
                if *drained {
                    self.drained.insert(worker.clone());
                } else {
                    self.drained.remove(worker);
                }
                Ok(())
            }
            Fact::WorkerNameAssigned { worker, owner } => {
                match owner {
                    Some(owner) => self.name_owners.insert(worker.clone(), owner.clone()),
                    None => self.name_owners.remove(worker),
                };
                Ok(())
            }
            Fact::LimitSet { name, total, rate } => {
                match *total {
                    Some(total) => {
                        let rate = *rate;
                        self.limits.insert(name.clone(), LimitValue { total, rate })
                    }
                    None => self.limits.remove(name),
                };
                Ok(())
            }
            Fact::ShareSet { owner, weight } => {
                match *weight {
                    1 => self.shares.remove(owner),
                    weight => self.shares.insert(owner.clone(), weight),
                };
                Ok(())
            }
            Fact::ArrayLimitSet { first, last, total } => {
                let (last, total) = (*last, *total);
                self.array_limits.insert(*first, ArrayLimit { last, total });
                Ok(())
            }
            Fact::TaskDefined { .. }
            | Fact::TaskRemoved { .. }
            | Fact::TaskPaused { .. }
            | Fact::TaskUnpaused { .. }
            | Fact::BackfillRegistered { .. }
            | Fact::BackfillHalted { .. }
            | Fact::BackfillResumed { .. }
            | Fact::BackfillEnded { .. }
            | Fact::BackfillCancelled { .. } => self.apply_library(fact),
            Fact::Launched { .. } => self.apply_launch(fact),
            Fact::KeyRecorded { key, created } => {
                self.keys.record(None, key, *created);
                Ok(())
            }
            Fact::RunRegistered { .. }
            | Fact::RunExtended { .. }
            | Fact::RunDefined { .. }
            | Fact::RunAdvanced { .. }
            | Fact::RunHalting { .. }
            | Fact::RunEnded { .. }
            | Fact::RunResumed { .. } => self.apply_run(fact),
            Fact::FleetDefined { .. }
            | Fact::FleetPaused { .. }
            | Fact::FleetRemoved { .. }
            | Fact::JobRequested { .. }
            | Fact::JobSubmitted { .. }
            | Fact::JobObserved { .. }
            | Fact::JobArrived { .. }
            | Fact::JobCancelRequested { .. }
            | Fact::JobEnded { .. } => self.fleets.apply(fact),
        }
    }

    /// Applies one fact about a run, which may begin or end to be in flight, or leave its queue.
    fn apply_run(&mut self, fact: &Fact) -> Result<(), LedgerError> {
        let Some(run) = fact.run() else {
            return Ok(());
        };
        let before = self.runs.head(run).map(|head| head.state);
        self.runs.apply(fact)?;
        if let Some(head) = self.runs.head(run)
            && let Some(origin) = head.origin
            && before != Some(head.state)
        {
            self.library.set_active_run(origin.task, run, head.state);
        }
        Ok(())
    }

    /// Applies one fact about the library.
    fn apply_library(&mut self, fact: &Fact) -> Result<(), LedgerError> {
        match fact {
            Fact::TaskDefined {
                task,
                name,
                revision,
                from,
                definition,
                ..
            } => self
                .library
                .define(*task, name, *revision, *from, definition),
            Fact::TaskRemoved { task, .. } => self.library.remove(*task),
            Fact::TaskPaused {
                task, at, reason, ..
            } => {
                let pause = Pause {
                    since: *at,
                    reason: reason.clone(),
                };
                self.library.set_pause(*task, Some(pause))
            }
            Fact::TaskUnpaused { task, .. } => self.library.set_pause(*task, None),
            Fact::BackfillRegistered { .. }
            | Fact::BackfillHalted { .. }
            | Fact::BackfillResumed { .. }
            | Fact::BackfillEnded { .. }
            | Fact::BackfillCancelled { .. } => self.library.backfills_mut().apply(fact),
            _ => Ok(()),
        }
    }

    /// Applies the record of a launch.
    fn apply_launch(&mut self, fact: &Fact) -> Result<(), LedgerError> {
        let Fact::Launched {
            entry,
            cause,
            verdict,
            execution,
            ..
        } = fact
        else {
            return Ok(());
        };
        match cause {
            Cause::Due { first, last, .. } => {
                self.library.record_tick(*entry, *first, *last)?;
                if matches!(verdict, TickVerdict::Skip(_)) {
                    return Ok(());
                }
                self.library.count_launch(*entry)
            }
            Cause::Upstream { .. } => Ok(()),
            Cause::Backfill { .. } => {
                self.library.backfills_mut().apply(fact)?;
                self.library.count_launch(*entry)
            }
            Cause::Request { key, .. } => {
                if fact.run().is_some() {
                    self.runs.apply(fact)?;
                }
                if let Some((key, execution)) = key.as_ref().zip(*execution) {
                    self.keys.record(Some(*entry), key, execution.into());
                }
                Ok(())
            }
        }
    }

    fn submit(
        &mut self,
        first: InstanceId,
        last: InstanceId,
        spec: &Arc<InstanceSpec>,
    ) -> Result<(), LedgerError> {
        if first > last {
            return Err(LedgerError::Impossible(first, "starts an empty range"));
        }
        if let Some((known, _)) = self.known.overlap(first, last) {
            return Err(LedgerError::AlreadySubmitted(known.max(first)));
        }
        self.known.insert(first, last);
        self.enqueue(Range {
            first,
            last,
            spec: Arc::clone(spec),
        });
        Ok(())
    }

    fn grant(
        &mut self,
        lease: LeaseId,
        holder: &Holder,
        others: &[Holder],
    ) -> Result<(), LedgerError> {
        self.change(lease.attempt.instance, |instance| {
            instance.open(lease, holder.clone(), others)
        })
    }

    fn adopt(
        &mut self,
        lease: LeaseId,
        holder: &Holder,
        spec: &Arc<InstanceSpec>,
    ) -> Result<(), LedgerError> {
        let id = lease.attempt.instance;
        if !self.known.contains(id) {
            self.submit(id, id, spec)?;
        }
        self.grant(lease, holder, &[])?;
        self.confirm(lease)
    }

    fn confirm(&mut self, lease: LeaseId) -> Result<(), LedgerError> {
        self.change(lease.attempt.instance, |instance| instance.confirm(lease))
    }

    /// Halts the waiting instances of a range. Of those without other facts only the ids are kept:
    /// the store has their history.
    fn halt(&mut self, first: InstanceId, last: InstanceId) -> Result<(), LedgerError> {
        if first == last {
            return self.change(first, Instance::halt);
        }
        let requeued: Vec<_> = self.queued.range(first..=last).copied().collect();
        for id in requeued {
            self.change(id, Instance::halt)?;
        }
        while let Some(range) = self.waiting.take(first, last) {
            let ids = (range.first, range.last);
            self.library.set_active(&range.spec, ids, false);
            self.runs
                .end_item(&range.spec, UniversalState::Halted, None);
        }
        Ok(())
    }

    /// Adds waiting instances.
    pub(super) fn enqueue(&mut self, range: Range) {
        let ids = (range.first, range.last);
        self.library.set_active(&range.spec, ids, true);
        self.runs.start_item(&range.spec, range.first);
        self.waiting.insert(range);
    }

    /// Runs `edit` on a copy and stores the result, so that an error changes nothing.
    fn change(
        &mut self,
        id: InstanceId,
        edit: impl FnOnce(&mut Instance) -> Result<(), LedgerError>,
    ) -> Result<(), LedgerError> {
        self.change_with(id, None, edit)
    }

    /// The same, with the outputs of the instance.
    fn change_with(
        &mut self,
        id: InstanceId,
        outputs: Option<&Arc<str>>,
        edit: impl FnOnce(&mut Instance) -> Result<(), LedgerError>,
    ) -> Result<(), LedgerError> {
        let mut instance = self.find(id).ok_or(LedgerError::UnknownInstance(id))?;
        let was_live = !instance.state.is_terminal();
        let leased = instance.lease.is_some();
        edit(&mut instance)?;
        if instance.lease.is_some() != leased {
            self.runs.count_lease(&instance.spec, !leased);
        }
        let is_live = !instance.state.is_terminal();
        if is_live != was_live {
            self.library.set_active(&instance.spec, (id, id), is_live);
        }
        match (was_live, is_live) {
            (true, false) => self.runs.end_item(&instance.spec, instance.state, outputs),
            (false, true) => self.runs.start_item(&instance.spec, id),
            _ => self.runs.update_item(&instance.spec, id, instance.state),
        }
        self.waiting.take(id, id);
        self.index(instance);
        Ok(())
    }

    /// Stores an instance, and indexes it by state.
    pub(super) fn index(&mut self, instance: Instance) {
        let id = instance.id;
        set_member(
            &mut self.queued,
            id,
            instance.state == UniversalState::Queued,
        );
        set_member(&mut self.leased, id, instance.lease.is_some());
        self.instances.insert(id, instance);
    }

    pub(super) fn condemn(&mut self, incarnation: Incarnation) {
        let number = self
            .condemned
            .entry(incarnation.lineage)
            .or_insert(incarnation.number);
        *number = (*number).max(incarnation.number);
        if self.condemned.len() > CONDEMNED_MAX {
            self.condemned.pop_first();
        }
    }

    fn count_failure(&mut self, id: InstanceId, change: i32) {
        let Some(spec) = self.instances.get(&id).map(|it| &it.spec) else {
            return;
        };
        let conditions = &spec.conditions;
        if let (Some((first, _)), Some(_)) = (conditions.instances, conditions.failed_max) {
            let count = self.failures(first).saturating_add_signed(change);
            self.restore_failures(first, count);
        }
    }
}

fn set_member(index: &mut BTreeSet<InstanceId>, id: InstanceId, is_member: bool) {
    if is_member {
        index.insert(id);
    } else {
        index.remove(&id);
    }
}
