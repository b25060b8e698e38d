//! Pruning of the memory store.

use std::collections::BTreeSet;

use baton_model::ids::InstanceId;
use baton_model::time::Wall;

use super::contents::{Contents, HistoryEntry, row_position};
use crate::change_set::SpanChange;
use crate::limits::PRUNE_STEP_FACTS;
use crate::retention::{Candidate, HistorySize};
use crate::usage::Hour;
use crate::view::{Cursor, Seq, View};
use crate::{PruneReport, Retention};

impl Contents {
    /// Removes at most `limit` expired records.
    pub(super) fn prune_step(
        &mut self,
        now: Wall,
        retention: &Retention,
        limit: usize,
    ) -> PruneReport {
        let size = HistorySize {
            terminal: self.counts.terminal(),
            bytes: self.counts.history_bytes,
        };
        let expired = retention.expired(now, size, &self.candidates(limit));
        let mut step = PruneReport::default();
        let mut wide = BTreeSet::new();
        for candidate in &expired {
            self.remove(candidate, &mut step, &mut wide);
        }
        for seq in wide {
            self.release(seq, &mut step);
        }
        let horizon = expired.iter().map(|it| it.ended).max();
        let large = expired.is_empty() && retention.is_large(size.bytes);
        self.remove_others(&mut step, |entry, gone| {
            horizon.is_some_and(|horizon| entry.seq < horizon)
                || retention.is_old(now, entry.at)
                || (large && retention.is_large(size.bytes.saturating_sub(gone)))
        });
        if step.records < limit as u64 && self.runs.prune(|at| retention.is_old(now, at)) {
            step.records += 1;
        }
        let first = Hour::first_kept(now);
        self.usage.retain(|(hour, _), _| *hour >= first);
        self.counts.history_bytes -= step.bytes;
        self.pruned = self.pruned.max(step.last);
        step
    }

    /// The oldest ended records, with the bytes of their timelines.
    fn candidates(&self, limit: usize) -> Vec<Candidate> {
        let mut found: Vec<Candidate> = Vec::new();
        for state in View::History.states() {
            let all = (*state, Cursor(i64::MIN, i64::MIN))..=(*state, Cursor(i64::MAX, i64::MAX));
            let oldest = self.positions.range(all).rev().take(limit);
            found.extend(oldest.filter_map(|(_, id)| self.candidate(*id)));
        }
        found.sort_unstable_by_key(|candidate| (candidate.ended, candidate.first));
        found.truncate(limit);
        found
    }

    fn candidate(&self, id: InstanceId) -> Option<Candidate> {
        let (first, state, lifecycle) = match self.rows.get(&id) {
            Some(row) => (id, row.instance.state, &row.lifecycle),
            None => {
                let span = self.spans.get(&id)?;
                (span.first, span.state, &span.lifecycle)
            }
        };
        let own = self.timelines.get(&id).filter(|_| first == id);
        Some(Candidate {
            first,
            last: id,
            state,
            submitted: lifecycle.submitted,
            ended: lifecycle.changed,
            at: lifecycle.changed_at,
            bytes: own.map_or(0, |entries| entries.iter().map(|entry| entry.bytes).sum()),
        })
    }

    /// Removes an instance, or the first ones of a range, and collects the facts about ranges that
    /// contained them.
    fn remove(&mut self, expired: &Candidate, step: &mut PruneReport, wide: &mut BTreeSet<Seq>) {
        if let Some(row) = self.rows.remove(&expired.last) {
            self.positions.remove(&row_position(&row));
        } else if let Some(before) = self.covering(expired.last).cloned() {
            let mut after = before.clone();
            after.first = InstanceId(expired.last.0.saturating_add(1));
            self.write_span(&SpanChange {
                before: Some(&before),
                after: (expired.last < before.last).then_some(&after),
            });
        }
        if expired.first == expired.last {
            let entries = self.timelines.remove(&expired.last).unwrap_or_default();
            step.facts += entries.len() as u64;
            step.bytes += entries.iter().map(|entry| entry.bytes).sum::<u64>();
            for entry in &entries {
                self.instance_of_fact.remove(&entry.seq);
                step.last = step.last.max(entry.seq);
            }
        }
        step.instances += expired.len();
        step.records += 1;
        let count = self.counts.states.entry(expired.state).or_default();
        *count = count.saturating_sub(expired.len());
        let about = self.wide.range(expired.submitted..).filter(|(_, entry)| {
            entry
                .instances
                .is_some_and(|(first, last)| first <= expired.last && expired.first <= last)
        });
        wide.extend(about.map(|(seq, _)| *seq));
    }

    /// Removes a fact about a range of which no instance is left.
    fn release(&mut self, seq: Seq, step: &mut PruneReport) {
        let Some((first, last)) = self.wide.get(&seq).and_then(|entry| entry.instances) else {
            return;
        };
        let rows = self.rows.range(first..=last).next().is_some();
        let spans = self.spans.range(first..).next();
        if rows || spans.is_some_and(|(_, span)| span.first <= last) {
            return;
        }
        if let Some(entry) = self.wide.remove(&seq) {
            step.count_fact(seq, entry.bytes);
        }
    }

    /// Removes the oldest facts about no instance, as long as `is_expired` holds.
    fn remove_others(
        &mut self,
        step: &mut PruneReport,
        is_expired: impl Fn(&HistoryEntry, u64) -> bool,
    ) {
        let others = self.wide.values().filter(|entry| entry.instances.is_none());
        let mut gone = Vec::new();
        for entry in others.take(PRUNE_STEP_FACTS) {
            if !is_expired(entry, step.bytes) {
                break;
            }
            step.count_fact(entry.seq, entry.bytes);
            gone.push(entry.seq);
        }
        for seq in gone {
            self.wide.remove(&seq);
        }
    }
}
