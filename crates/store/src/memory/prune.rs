//! Removing what is not to be kept.

use std::collections::BTreeSet;

use baton_model::ids::InstanceId;
use baton_model::time::Wall;

use super::contents::{Contents, Line, row_place};
use crate::draft::SpanChange;
use crate::limits::PRUNE_STEP_FACTS;
use crate::retention::{Candidate, Held};
use crate::usage::Hour;
use crate::view::{Cursor, Seq, View};
use crate::{PruneReport, Retention};

impl Contents {
    /// Removes some of what may go.
    pub(super) fn prune_step(
        &mut self,
        now: Wall,
        retention: &Retention,
        limit: usize,
    ) -> PruneReport {
        let held = Held {
            terminal: self.counts.terminal(),
            bytes: self.counts.history_bytes,
        };
        let doomed = retention.doomed(now, held, &self.candidates(limit));
        let mut step = PruneReport::default();
        let mut wide = BTreeSet::new();
        for candidate in &doomed {
            self.remove(candidate, &mut step, &mut wide);
        }
        for seq in wide {
            self.release(seq, &mut step);
        }
        let horizon = doomed.iter().map(|it| it.ended).max();
        let large = doomed.is_empty() && retention.is_large(held.bytes);
        self.remove_others(&mut step, |line, gone| {
            horizon.is_some_and(|horizon| line.seq < horizon)
                || retention.is_old(now, line.at)
                || (large && retention.is_large(held.bytes.saturating_sub(gone)))
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

    /// The oldest ends, and what their timelines weigh.
    fn candidates(&self, limit: usize) -> Vec<Candidate> {
        let mut found: Vec<Candidate> = Vec::new();
        for state in View::History.states() {
            let all = (*state, Cursor(i64::MIN, i64::MIN))..=(*state, Cursor(i64::MAX, i64::MAX));
            let oldest = self.places.range(all).rev().take(limit);
            found.extend(oldest.filter_map(|(_, id)| self.candidate(*id)));
        }
        found.sort_unstable_by_key(|candidate| (candidate.ended, candidate.first));
        found.truncate(limit);
        found
    }

    fn candidate(&self, id: InstanceId) -> Option<Candidate> {
        let (first, state, story) = match self.rows.get(&id) {
            Some(row) => (id, row.instance.state, &row.story),
            None => {
                let span = self.spans.get(&id)?;
                (span.first, span.state, &span.story)
            }
        };
        let own = self.timelines.get(&id).filter(|_| first == id);
        Some(Candidate {
            first,
            last: id,
            state,
            submitted: story.submitted,
            ended: story.changed,
            at: story.changed_at,
            bytes: own.map_or(0, |lines| lines.iter().map(|line| line.bytes).sum()),
        })
    }

    /// Removes an instance, or the first ones of a range, and notes the facts about
    /// ranges that they were in.
    fn remove(&mut self, doomed: &Candidate, step: &mut PruneReport, wide: &mut BTreeSet<Seq>) {
        if let Some(row) = self.rows.remove(&doomed.last) {
            self.places.remove(&row_place(&row));
        } else if let Some(before) = self.covering(doomed.last).cloned() {
            let mut after = before.clone();
            after.first = InstanceId(doomed.last.0.saturating_add(1));
            self.write_span(&SpanChange {
                before: Some(&before),
                after: (doomed.last < before.last).then_some(&after),
            });
        }
        if doomed.first == doomed.last {
            let lines = self.timelines.remove(&doomed.last).unwrap_or_default();
            step.facts += lines.len() as u64;
            step.bytes += lines.iter().map(|line| line.bytes).sum::<u64>();
            for line in &lines {
                self.order.remove(&line.seq);
                step.last = step.last.max(line.seq);
            }
        }
        step.instances += doomed.len();
        step.records += 1;
        let count = self.counts.states.entry(doomed.state).or_default();
        *count = count.saturating_sub(doomed.len());
        let about = self.wide.range(doomed.submitted..).filter(|(_, line)| {
            line.about
                .is_some_and(|(first, last)| first <= doomed.last && doomed.first <= last)
        });
        wide.extend(about.map(|(seq, _)| *seq));
    }

    /// Removes a fact about a range of which nothing is left.
    fn release(&mut self, seq: Seq, step: &mut PruneReport) {
        let Some((first, last)) = self.wide.get(&seq).and_then(|line| line.about) else {
            return;
        };
        let rows = self.rows.range(first..=last).next().is_some();
        let spans = self.spans.range(first..).next();
        if rows || spans.is_some_and(|(_, span)| span.first <= last) {
            return;
        }
        if let Some(line) = self.wide.remove(&seq) {
            step.fact(seq, line.bytes);
        }
    }

    /// Removes the oldest facts of no instance, as long as `goes` says so.
    fn remove_others(&mut self, step: &mut PruneReport, goes: impl Fn(&Line, u64) -> bool) {
        let others = self.wide.values().filter(|line| line.about.is_none());
        let mut gone = Vec::new();
        for line in others.take(PRUNE_STEP_FACTS) {
            if !goes(line, step.bytes) {
                break;
            }
            step.fact(line.seq, line.bytes);
            gone.push(line.seq);
        }
        for seq in gone {
            self.wide.remove(&seq);
        }
    }
}
