//! The store without a file: for `--store memory`, and to try things out.
//!
//! It keeps every promise of [`Store`] but durability: what is kept is gone with
//! the process. Clones are handles to the same place, as two connections to one
//! database are.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_core::leader::Row;
use baton_core::ledger::Ledger;
use baton_core::step::{Batch, Receipt};
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, Incarnation, InstanceId, Life, Lineage};
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};

use crate::draft::{Draft, Kept, Line};
use crate::limits::{PRUNE_STEP_FACTS, PRUNE_STEP_INSTANCES};
use crate::retention::{Candidate, Held};
use crate::view::{self, Counts, Entry, Page, Query, Record, Seq, View};
use crate::{Done, Pruned, Retention, Store, StoreError, Taken};

/// A store in the memory of this process.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    /// Held while a batch is carried out and its fate told, so that fates are told
    /// in order.
    turn: Arc<Mutex<()>>,
    held: Arc<Mutex<Contents>>,
}

#[derive(Debug, Default)]
struct Contents {
    row: Row,
    broken: Option<Epoch>,
    last: Seq,
    lease_time: Millis,
    condemned: BTreeMap<Lineage, Life>,
    records: BTreeMap<InstanceId, Record>,
    places: BTreeSet<(UniversalState, i64, InstanceId)>,
    timelines: BTreeMap<InstanceId, Vec<Line>>,
    others: VecDeque<Line>,
    counts: Counts,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        // Whoever panicked while holding it had not begun to change anything:
        // changes are drafted first, and putting them in place cannot fail.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn read_row(&self) -> Result<Row, StoreError> {
        Ok(self.contents().row)
    }

    fn take(&self, expected: Epoch) -> Result<Taken, StoreError> {
        let mut contents = self.contents();
        if contents.row.epoch != expected {
            return Ok(Taken::Overtaken);
        }
        let ledger = contents.ledger()?;
        contents.row = Row {
            epoch: expected.next(),
            renewals: 0,
        };
        Ok(Taken::Won(expected.next(), Box::new(ledger)))
    }

    fn renew(&self, epoch: Epoch) -> Result<(), StoreError> {
        let mut contents = self.contents();
        contents.check(epoch)?;
        contents.row.renewals += 1;
        Ok(())
    }

    fn submit(&self, batch: Batch<Fact>, wall: Wall, done: Done) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let fate = self.contents().land(batch, wall);
        done(fate);
    }

    fn instance(&self, id: InstanceId) -> Result<Option<Record>, StoreError> {
        Ok(self.contents().records.get(&id).cloned())
    }

    fn page(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        let contents = self.contents();
        let mut found = Vec::new();
        for state in query.states() {
            let from = query.after.map_or(i64::MIN, |after| after.0);
            let places = contents.places.range((state, from, InstanceId(0))..);
            let places = places
                .take_while(|(of, _, _)| *of == state)
                .filter(|(_, place, _)| query.after.is_none_or(|after| *place > after.0))
                .take(query.items_max() + 1);
            found.extend(places.filter_map(|(_, _, id)| contents.records.get(id).cloned()));
        }
        Ok(view::merge(found, query))
    }

    fn timeline(
        &self,
        id: InstanceId,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Page<Entry>, StoreError> {
        let contents = self.contents();
        let limit = view::page_limit(limit);
        let lines = contents.timelines.get(&id).map_or(&[][..], Vec::as_slice);
        let start = lines.partition_point(|line| after.is_some_and(|after| line.seq <= after));
        let entries = lines[start..].iter().take(limit + 1).map(entry);
        let entries = entries.collect::<Result<_, _>>()?;
        Ok(Page::cut(entries, limit, |entry: &Entry| {
            entry.seq.0.cast_signed()
        }))
    }

    fn counts(&self) -> Result<Counts, StoreError> {
        Ok(self.contents().counts.clone())
    }

    fn prune(
        &self,
        epoch: Epoch,
        now: Wall,
        retention: &Retention,
        budget: usize,
    ) -> Result<Pruned, StoreError> {
        let mut pruned = Pruned::default();
        while !retention.keeps_all() {
            let mut contents = self.contents();
            contents.check(epoch)?;
            let room = budget - pruned.instances.len();
            let step = contents.prune_step(now, retention, room.min(PRUNE_STEP_INSTANCES));
            if step.facts == 0 {
                break;
            }
            pruned.instances.extend(step.instances);
            pruned.facts += step.facts;
            pruned.bytes += step.bytes;
            if pruned.instances.len() >= budget {
                pruned.more = true;
                break;
            }
        }
        Ok(pruned)
    }
}

impl Contents {
    fn check(&self, epoch: Epoch) -> Result<(), StoreError> {
        if self.row.epoch != epoch {
            Err(StoreError::Overtaken)
        } else if self.broken == Some(epoch) {
            Err(StoreError::TermBroken)
        } else {
            Ok(())
        }
    }

    fn ledger(&self) -> Result<Ledger, StoreError> {
        let instances = self.records.values().map(|record| record.instance.clone());
        Ok(Ledger::restore(instances, self.lives(), self.lease_time)?)
    }

    fn lives(&self) -> impl Iterator<Item = Incarnation> + '_ {
        self.condemned.iter().map(|(lineage, life)| Incarnation {
            lineage: *lineage,
            life: *life,
        })
    }

    fn land(&mut self, batch: Batch<Fact>, wall: Wall) -> Result<Receipt, StoreError> {
        let epoch = batch.epoch();
        self.check(epoch)?;
        let mut draft = Draft::new(Seq(self.last.0 + 1));
        for fact in batch.facts() {
            if let Err(error) = draft.apply(self, epoch, wall, fact) {
                self.broken = Some(epoch);
                return Err(error);
            }
        }
        self.write(draft);
        Ok(batch.durable())
    }

    fn write(&mut self, draft: Draft) {
        self.last = Seq(draft.next().0 - 1);
        self.lease_time = draft.lease_time().unwrap_or(self.lease_time);
        let (new, gone) = draft.condemned();
        self.condemned
            .extend(new.into_iter().map(|it| (it.lineage, it.life)));
        gone.iter().for_each(|lineage| {
            self.condemned.remove(lineage);
        });
        for (state, by) in draft.tally() {
            let count = self.counts.states.entry(state).or_default();
            *count = count.saturating_add_signed(by);
        }
        self.counts.history_bytes += draft.bytes();
        for change in draft.changes() {
            let id = change.record.instance.id;
            if let Some(old) = self.records.get(&id) {
                self.places.remove(&place(old));
            }
            self.places.insert(place(&change.record));
            self.records.insert(id, change.record);
        }
        for line in draft.into_lines() {
            match line.instance {
                Some(id) => self.timelines.entry(id).or_default().push(line),
                None => self.others.push_back(line),
            }
        }
    }

    /// The oldest ends, and what their timelines weigh.
    fn candidates(&self, limit: usize) -> Vec<Candidate> {
        let mut found: Vec<Candidate> = Vec::new();
        for state in View::History.states() {
            let oldest =
                (*state, i64::MIN, InstanceId(0))..=(*state, i64::MAX, InstanceId(u64::MAX));
            let places = self.places.range(oldest).rev().take(limit);
            found.extend(places.filter_map(|(_, _, id)| {
                let record = self.records.get(id)?;
                Some(Candidate {
                    id: *id,
                    ended: record.changed,
                    at: record.changed_at,
                    bytes: self
                        .timelines
                        .get(id)
                        .map_or(0, |lines| weight(lines.iter())),
                })
            }));
        }
        found.sort_unstable_by_key(|candidate| candidate.ended);
        found.truncate(limit);
        found
    }

    fn prune_step(&mut self, now: Wall, retention: &Retention, limit: usize) -> Pruned {
        let held = Held {
            terminal: self.counts.terminal(),
            bytes: self.counts.history_bytes,
        };
        let doomed = retention.doomed(now, held, &self.candidates(limit));
        let mut step = Pruned::default();
        for candidate in &doomed {
            let lines = self.timelines.remove(&candidate.id).unwrap_or_default();
            step.facts += lines.len() as u64;
            step.bytes += candidate.bytes;
            if let Some(record) = self.records.remove(&candidate.id) {
                self.places.remove(&place(&record));
                let count = self.counts.states.entry(record.instance.state).or_default();
                *count = count.saturating_sub(1);
            }
            step.instances.push(candidate.id);
        }
        let horizon = doomed.iter().map(|it| it.ended).max();
        let large = doomed.is_empty() && retention.is_large(held.bytes);
        for _ in 0..PRUNE_STEP_FACTS {
            let goes = self.others.front().is_some_and(|line| {
                large || retention.is_old(now, line.at) || horizon.is_some_and(|it| line.seq < it)
            });
            let Some(line) = self.others.pop_front_if(|_| goes) else {
                break;
            };
            step.facts += 1;
            step.bytes += line.body.len() as u64;
            if large && !retention.is_large(held.bytes - step.bytes) {
                break;
            }
        }
        self.counts.history_bytes -= step.bytes;
        step
    }
}

impl Kept for Contents {
    fn record(&mut self, id: InstanceId) -> Result<Option<Record>, StoreError> {
        Ok(self.records.get(&id).cloned())
    }

    fn condemned(&mut self) -> Result<Vec<Incarnation>, StoreError> {
        Ok(self.lives().collect())
    }
}

fn place(record: &Record) -> (UniversalState, i64, InstanceId) {
    let instance = &record.instance;
    (instance.state, record.position(), instance.id)
}

fn weight<'a>(lines: impl Iterator<Item = &'a Line>) -> u64 {
    lines.map(|line| line.body.len() as u64).sum()
}

fn entry(line: &Line) -> Result<Entry, StoreError> {
    Ok(Entry {
        seq: line.seq,
        at: line.at,
        epoch: line.epoch,
        fact: serde_json::from_str(&line.body)
            .map_err(|error| StoreError::Corrupt(format!("fact {}: {error}", line.seq.0)))?,
    })
}
