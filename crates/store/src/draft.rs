//! From facts to changed rows.
//!
//! A draft is the part of the ledger that a group of facts touches: each instance
//! is fetched when the first fact about it comes, and changed by
//! `Ledger::apply` itself, so that rows and ledger cannot disagree. However many
//! facts a group has about an instance, its row is written once. Nothing is
//! changed outside the draft until its owner writes it down.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::ledger::Ledger;
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, Incarnation, InstanceId, Life, Lineage};
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};

use crate::StoreError;
use crate::view::{Record, Seq};

/// What is kept already.
pub(crate) trait Kept {
    fn record(&mut self, id: InstanceId) -> Result<Option<Record>, StoreError>;
    fn condemned(&mut self) -> Result<Vec<Incarnation>, StoreError>;
}

/// A fact on its way into the history.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) seq: Seq,
    pub(crate) at: Wall,
    pub(crate) epoch: Epoch,
    pub(crate) instance: Option<InstanceId>,
    pub(crate) body: String,
}

/// When a touched instance came and changed, and where it stood before.
#[derive(Clone, Copy, Debug)]
struct Touch {
    before: Option<UniversalState>,
    submitted_at: Wall,
    changed_at: Wall,
    changed: Seq,
}

/// An instance after the draft, and the state it had before, if it was there.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) before: Option<UniversalState>,
    pub(crate) record: Record,
}

/// Facts applied, not yet written.
#[derive(Debug)]
pub(crate) struct Draft {
    ledger: Ledger,
    touched: BTreeMap<InstanceId, Option<Touch>>,
    condemned_before: Option<Vec<Incarnation>>,
    lease_time_set: bool,
    lines: Vec<Line>,
    next: Seq,
}

impl Draft {
    /// An empty draft whose first fact will have the number `next`.
    pub(crate) fn new(next: Seq) -> Self {
        Self {
            ledger: Ledger::default(),
            touched: BTreeMap::new(),
            condemned_before: None,
            lease_time_set: false,
            lines: Vec::new(),
            next,
        }
    }

    /// Takes one fact in. After an error the draft is worth nothing.
    pub(crate) fn apply(
        &mut self,
        kept: &mut impl Kept,
        epoch: Epoch,
        at: Wall,
        fact: &Fact,
    ) -> Result<(), StoreError> {
        self.fetch(kept, fact)?;
        self.ledger.apply(fact)?;
        let seq = self.next;
        self.next = Seq(seq.0 + 1);
        if let Some(id) = fact.instance() {
            let touch = self.touched.entry(id).or_default();
            let touch = touch.get_or_insert(Touch {
                before: None,
                submitted_at: at,
                changed_at: at,
                changed: seq,
            });
            touch.changed_at = at;
            touch.changed = seq;
        }
        self.lease_time_set |= matches!(fact, Fact::LeaseTimeSet { .. });
        let body = serde_json::to_string(fact)
            .map_err(|error| StoreError::Failed(format!("cannot write {fact}: {error}")))?;
        self.lines.push(Line {
            seq,
            at,
            epoch,
            instance: fact.instance(),
            body,
        });
        Ok(())
    }

    /// Brings in what the fact will look at.
    fn fetch(&mut self, kept: &mut impl Kept, fact: &Fact) -> Result<(), StoreError> {
        if let Some(id) = fact.instance()
            && !self.touched.contains_key(&id)
        {
            let record = kept.record(id)?;
            let touch = record.as_ref().map(|record| Touch {
                before: Some(record.instance.state),
                submitted_at: record.submitted_at,
                changed_at: record.changed_at,
                changed: record.changed,
            });
            if let Some(record) = record {
                self.ledger.admit(record.instance)?;
            }
            self.touched.insert(id, touch);
        }
        if matches!(fact, Fact::WorkerCondemned { .. }) && self.condemned_before.is_none() {
            let condemned = kept.condemned()?;
            for incarnation in &condemned {
                self.ledger.admit_condemned(*incarnation);
            }
            self.condemned_before = Some(condemned);
        }
        Ok(())
    }

    /// The number after the last fact.
    pub(crate) const fn next(&self) -> Seq {
        self.next
    }

    /// The facts, to be appended to the history.
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The facts, to be kept as they are.
    pub(crate) fn into_lines(self) -> Vec<Line> {
        self.lines
    }

    /// What the facts add to the size of the history.
    pub(crate) fn bytes(&self) -> u64 {
        self.lines.iter().map(|line| line.body.len() as u64).sum()
    }

    /// The lease time, if a fact has set it.
    pub(crate) fn lease_time(&self) -> Option<Millis> {
        self.lease_time_set.then(|| self.ledger.lease_time())
    }

    /// Every instance that was touched, as it stands now.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Change> + '_ {
        self.touched.iter().filter_map(|(id, touch)| {
            let touch = (*touch)?;
            let instance = self.ledger.instance(*id)?.clone();
            Some(Change {
                before: touch.before,
                record: Record {
                    instance,
                    submitted_at: touch.submitted_at,
                    changed_at: touch.changed_at,
                    changed: touch.changed,
                },
            })
        })
    }

    /// By how much the number of instances in each state changes.
    pub(crate) fn tally(&self) -> BTreeMap<UniversalState, i64> {
        let mut tally = BTreeMap::new();
        for (id, touch) in &self.touched {
            if let (Some(touch), Some(instance)) = (touch, self.ledger.instance(*id)) {
                *tally.entry(instance.state).or_default() += 1;
                if let Some(before) = touch.before {
                    *tally.entry(before).or_default() -= 1;
                }
            }
        }
        tally.retain(|_, by: &mut i64| *by != 0);
        tally
    }

    /// Lives to remember, and lineages to forget.
    pub(crate) fn condemned(&self) -> (Vec<Incarnation>, Vec<Lineage>) {
        let Some(before) = &self.condemned_before else {
            return (Vec::new(), Vec::new());
        };
        let before: BTreeMap<Lineage, Life> = lives(before.iter().copied());
        let after: BTreeMap<Lineage, Life> = lives(self.ledger.condemned());
        let gone = before.keys().filter(|lineage| !after.contains_key(lineage));
        let gone = gone.copied().collect();
        let new = self
            .ledger
            .condemned()
            .filter(|it| before.get(&it.lineage) != Some(&it.life));
        (new.collect(), gone)
    }
}

fn lives(incarnations: impl Iterator<Item = Incarnation>) -> BTreeMap<Lineage, Life> {
    incarnations.map(|it| (it.lineage, it.life)).collect()
}

/// One copy of what many instances in a row have in common.
#[derive(Debug, Default)]
pub(crate) struct Shared<T>(Option<(String, Arc<T>)>);

impl<T> Shared<T> {
    /// What `text` means; not read again if it is that of the call before.
    pub(crate) fn get<E>(
        &mut self,
        text: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        if let Some((known, value)) = &self.0
            && known == text
        {
            return Ok(Arc::clone(value));
        }
        let value = Arc::new(read(text)?);
        self.0 = Some((text.to_owned(), Arc::clone(&value)));
        Ok(value)
    }
}
