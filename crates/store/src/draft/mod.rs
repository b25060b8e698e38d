//! From facts to changed rows.
//!
//! A draft is the part of the ledger that a group of facts touches: each instance
//! is fetched when the first fact about it comes, and changed by
//! `Ledger::apply` itself, so that rows and ledger cannot disagree. However many
//! facts a group has about an instance, its row is written once. Nothing is
//! changed outside the draft until its owner writes it down.
//!
//! What the ledger forgets, and a store must not, is told here: ranges that were
//! halted (`spans`), and the ids of what has ended (`known`).
//!
//! Specs pass through as `S`, whatever a store knows them by. No fact depends on what
//! was asked for (its verdict stands in it), so what was fetched goes to the ledger
//! with an empty one.

mod changes;
mod known;
mod library;
mod runs;
mod spans;
mod usage;

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::ledger::{Instance, Ledger, LedgerError, Range, RunHead};
use baton_model::fact::{Fact, Verdict};
use baton_model::ids::{AttemptNo, Epoch, Incarnation, InstanceId, RunId, TaskNo, WorkerName};
use baton_model::library::TaskName;
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::workflow::ItemEnd;

use crate::usage::Claim;
use crate::view::{LastEnd, Seq};
use crate::{StoreError, body};

use known::Known;
use library::Tasks;
use runs::Runs;
use spans::Spans;

pub(crate) use changes::Change;
pub(crate) use known::{Around, Ids};
pub(crate) use library::{KeptTask, NewKey, NewRevision};
pub(crate) use runs::RunChange;
pub(crate) use spans::{Span, SpanChange, Story, halves, length};
pub(crate) use usage::Usages;

pub(crate) trait Kept {
    /// What specs are known by.
    type Spec: Clone + PartialEq;

    /// Takes in the spec of `uses` instances that the fact `seq` has brought, and says
    /// how many bytes it has.
    fn spec(
        &mut self,
        seq: Seq,
        spec: &Arc<InstanceSpec>,
        uses: u64,
    ) -> Result<(Self::Spec, u64), StoreError>;
    /// What a spec says about usage.
    fn claim(&mut self, spec: &Self::Spec) -> Result<Arc<Claim>, StoreError>;
    /// An instance with a row of its own; its spec may be any.
    fn row(&mut self, id: InstanceId) -> Result<Option<Row<Self::Spec>>, StoreError>;
    /// The range that the id is in.
    fn span(&mut self, id: InstanceId) -> Result<Option<Span<Self::Spec>>, StoreError>;
    /// QUEUED ranges that overlap this one.
    fn waiting(
        &mut self,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<Vec<Span<Self::Spec>>, StoreError>;
    /// QUEUED instances with rows of their own.
    fn requeued(
        &mut self,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<Vec<Row<Self::Spec>>, StoreError>;
    /// Known ids that overlap this range.
    fn known(&mut self, first: InstanceId, last: InstanceId) -> Result<Around, StoreError>;
    fn condemned(&mut self) -> Result<Vec<Incarnation>, StoreError>;
    /// A task of the library.
    fn task(&mut self, number: TaskNo) -> Result<Option<KeptTask>, StoreError>;
    /// The number that a name has.
    fn task_named(&mut self, name: &TaskName) -> Result<Option<TaskNo>, StoreError>;
    fn run(&mut self, run: RunId) -> Result<Option<RunHead>, StoreError>;
    /// The last run that there ever was.
    fn last_run(&mut self) -> Result<RunId, StoreError>;
}

/// An instance with a row of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row<S> {
    pub(crate) instance: Instance,
    pub(crate) story: Story<S>,
    pub(crate) last: Option<LastEnd>,
    /// When the open lease was granted.
    pub(crate) leased_at: Option<Wall>,
}

/// A fact on its way into the history.
#[derive(Debug)]
pub(crate) struct Line<S> {
    pub(crate) seq: Seq,
    pub(crate) at: Wall,
    pub(crate) epoch: Epoch,
    pub(crate) about: Option<Ids>,
    /// The task of the library that it is about.
    pub(crate) task: Option<TaskNo>,
    pub(crate) spec: Option<S>,
    pub(crate) body: String,
    /// Of the body and the spec.
    pub(crate) bytes: u64,
}

impl<S> Line<S> {
    /// The one instance that it is about.
    pub(crate) fn own(&self) -> Option<InstanceId> {
        self.about
            .and_then(|(first, last)| (first == last).then_some(first))
    }
}

/// What is not the ledger's about a touched instance, and where it stood before, if it
/// had a row.
#[derive(Debug)]
struct Touch<S> {
    before: Option<UniversalState>,
    story: Story<S>,
    last: Option<LastEnd>,
    leased_at: Option<Wall>,
}

/// Facts applied, not yet written.
#[derive(Debug)]
pub(crate) struct Draft<S> {
    ledger: Ledger,
    touched: BTreeMap<InstanceId, Touch<S>>,
    spans: Spans<S>,
    known: Known,
    condemned_before: Option<Vec<Incarnation>>,
    drained: BTreeMap<WorkerName, bool>,
    lease_time_set: bool,
    tasks: Tasks,
    runs: Runs,
    usage: Usages,
    lines: Vec<Line<S>>,
    next: Seq,
    no_spec: Arc<InstanceSpec>,
}

impl<S: Clone + PartialEq> Draft<S> {
    /// An empty draft whose first fact will have the number `next`.
    pub(crate) fn new(next: Seq) -> Self {
        Self {
            ledger: Ledger::default(),
            touched: BTreeMap::new(),
            spans: Spans::default(),
            known: Known::default(),
            condemned_before: None,
            drained: BTreeMap::new(),
            lease_time_set: false,
            tasks: Tasks::default(),
            runs: Runs::default(),
            usage: Usages::new(),
            lines: Vec::new(),
            next,
            no_spec: Arc::default(),
        }
    }

    /// Takes one fact in. After an error the draft is worth nothing.
    pub(crate) fn apply(
        &mut self,
        kept: &mut impl Kept<Spec = S>,
        epoch: Epoch,
        at: Wall,
        fact: &Fact,
    ) -> Result<(), StoreError> {
        let spec = self.change(kept, at, fact)?;
        let body = body::write(fact, spec.is_some())?;
        let (spec, spec_bytes) = spec.unzip();
        self.lines.push(Line {
            seq: self.next,
            at,
            epoch,
            about: fact.instances(),
            task: fact.task(),
            spec,
            bytes: body.len() as u64 + spec_bytes.unwrap_or(0),
            body,
        });
        self.next = Seq(self.next.0 + 1);
        Ok(())
    }

    /// Lets the ledger change what it must, and notes the rest. Returns the spec that
    /// the fact brought, and its bytes.
    fn change(
        &mut self,
        kept: &mut impl Kept<Spec = S>,
        at: Wall,
        fact: &Fact,
    ) -> Result<Option<(S, u64)>, StoreError> {
        match fact {
            Fact::InstancesSubmitted { first, last, spec } => {
                self.ledger.apply(fact)?;
                self.known.claim(kept, *first, *last)?;
                let spec = kept.spec(self.next, spec, length(*first, *last))?;
                let story = Story::begun(spec.0.clone(), at, self.next);
                self.spans.submitted(*first, *last, &story);
                return Ok(Some(spec));
            }
            Fact::AttemptAdopted { lease, spec, .. } => {
                return self.adopt(kept, at, fact, lease.attempt.instance, spec);
            }
            Fact::InstancesHalted { first, last } if first != last => {
                self.halt(kept, at, fact, *first, *last)?;
            }
            Fact::AttemptEnded {
                lease,
                end,
                ran,
                verdict,
                outputs,
                ..
            } => {
                let id = lease.attempt.instance;
                self.fetch(kept, id)?;
                self.count(kept, at, fact, id)?;
                if let Some(end) = item_end(*verdict) {
                    self.end_item(kept, id, end, outputs.as_ref())?;
                }
                let open = self.ledger.open_lease(*lease);
                let last = open.map(|open| LastEnd {
                    lease: *lease,
                    worker: open.holder.worker.clone(),
                    end: *end,
                    ran: *ran,
                });
                self.alone(at, fact, id)?;
                if let Some(touch) = self.touched.get_mut(&id) {
                    touch.last = last;
                }
            }
            Fact::LeaseGranted { .. }
            | Fact::AttemptConfirmed { .. }
            | Fact::StopRequested { .. }
            | Fact::InstancesHalted { .. }
            | Fact::InstanceRetried { .. } => {
                if let Some((id, _)) = fact.instances() {
                    self.fetch(kept, id)?;
                    self.count(kept, at, fact, id)?;
                    if matches!(fact, Fact::InstancesHalted { .. }) {
                        self.end_item(kept, id, ItemEnd::Halted, None)?;
                    }
                    self.alone(at, fact, id)?;
                }
            }
            Fact::WorkerDrained { worker, drained } => {
                self.ledger.apply(fact)?;
                self.drained.insert(worker.clone(), *drained);
            }
            Fact::LeaseTimeSet { .. } => {
                self.ledger.apply(fact)?;
                self.lease_time_set = true;
            }
            Fact::WorkerCondemned { .. } => {
                self.fetch_condemned(kept)?;
                self.ledger.apply(fact)?;
            }
            // Who triggered an instance changes nothing about it: it stays in its range.
            Fact::InstanceTriggered { .. }
            | Fact::TaskDefined { .. }
            | Fact::TaskRemoved { .. }
            | Fact::TickRecorded { .. } => {
                self.tasks.learn(kept, &mut self.ledger, at, fact)?;
            }
            Fact::RunRegistered { .. }
            | Fact::RunExtended { .. }
            | Fact::RunDefined { .. }
            | Fact::RunAdvanced { .. }
            | Fact::RunHalting { .. }
            | Fact::RunEnded { .. }
            | Fact::RunResumed { .. } => self.runs.learn(kept, self.next, at, fact)?,
        }
        Ok(None)
    }

    /// Applies a fact about one instance that was fetched.
    fn alone(&mut self, at: Wall, fact: &Fact, id: InstanceId) -> Result<(), StoreError> {
        self.ledger.apply(fact)?;
        if let Some(touch) = self.touched.get_mut(&id) {
            touch.story.change(at, self.next);
        }
        Ok(())
    }

    fn adopt(
        &mut self,
        kept: &mut impl Kept<Spec = S>,
        at: Wall,
        fact: &Fact,
        id: InstanceId,
        spec: &Arc<InstanceSpec>,
    ) -> Result<Option<(S, u64)>, StoreError> {
        self.fetch(kept, id)?;
        let there = self.touched.contains_key(&id);
        if !there && self.known.contains(kept, id)? {
            return Err(LedgerError::UnknownInstance(id).into());
        }
        self.alone(at, fact, id)?;
        if let Some(touch) = self.touched.get_mut(&id) {
            touch.leased_at = Some(at);
            // What the worker says that it runs is not what the instance asks for: it
            // stays in the fact.
            return Ok(None);
        }
        self.known.claim(kept, id, id)?;
        let spec = kept.spec(self.next, spec, 1)?;
        let touch = Touch {
            before: None,
            story: Story::begun(spec.0.clone(), at, self.next),
            last: None,
            leased_at: Some(at),
        };
        self.touched.insert(id, touch);
        Ok(Some(spec))
    }

    fn halt(
        &mut self,
        kept: &mut impl Kept<Spec = S>,
        at: Wall,
        fact: &Fact,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<(), StoreError> {
        for span in kept.waiting(first, last)? {
            self.spans.fetched(span);
        }
        for row in kept.requeued(first, last)? {
            self.admit(row)?;
        }
        let requeued = self.ledger.requeued(first, last);
        let requeued: Vec<_> = requeued.map(|instance| instance.id).collect();
        self.ledger.apply(fact)?;
        for id in requeued {
            if let Some(touch) = self.touched.get_mut(&id) {
                touch.story.change(at, self.next);
                let spec = touch.story.spec.clone();
                self.count_halted(kept, at, &spec, 1)?;
                self.end_item(kept, id, ItemEnd::Halted, None)?;
            }
        }
        for (first, spec, count) in self.spans.halt(first, last, at, self.next) {
            self.count_halted(kept, at, &spec, count)?;
            // A part of a run is an instance by itself.
            if let Some(part) = kept.claim(&spec)?.part {
                self.runs.ended(kept, part, first, ItemEnd::Halted, None)?;
            }
        }
        Ok(())
    }

    /// If an instance that was fetched is a part of a run, that part has ended.
    fn end_item(
        &mut self,
        kept: &mut impl Kept<Spec = S>,
        id: InstanceId,
        end: ItemEnd,
        outputs: Option<&Arc<str>>,
    ) -> Result<(), StoreError> {
        let Some(touch) = self.touched.get(&id) else {
            return Ok(());
        };
        match kept.claim(&touch.story.spec)?.part {
            Some(part) => self.runs.ended(kept, part, id, end, outputs),
            None => Ok(()),
        }
    }

    /// Brings an instance in: from its row, or out of its range.
    fn fetch(&mut self, kept: &mut impl Kept<Spec = S>, id: InstanceId) -> Result<(), StoreError> {
        if self.touched.contains_key(&id) {
            return Ok(());
        }
        if let Some(span) = self.spans.take(id) {
            return self.leave(id, span);
        }
        if let Some(row) = kept.row(id)? {
            return self.admit(row);
        }
        if let Some(span) = kept.span(id)? {
            self.spans.fetched(span);
            if let Some(span) = self.spans.take(id) {
                return self.leave(id, span);
            }
        }
        Ok(())
    }

    /// Takes in an instance that has a row, unless it is there.
    fn admit(&mut self, row: Row<S>) -> Result<(), StoreError> {
        let id = row.instance.id;
        if self.touched.contains_key(&id) {
            return Ok(());
        }
        let touch = Touch {
            before: Some(row.instance.state),
            story: row.story,
            last: row.last,
            leased_at: row.leased_at,
        };
        self.ledger.admit(row.instance)?;
        self.touched.insert(id, touch);
        Ok(())
    }

    /// Takes in an instance that was in a range.
    fn leave(&mut self, id: InstanceId, span: Span<S>) -> Result<(), StoreError> {
        let spec = Arc::clone(&self.no_spec);
        if span.state == UniversalState::Halted {
            self.ledger.admit(untried(id, spec, span.state))?;
        } else if self.ledger.find(id).is_none() {
            self.ledger.admit_range(Range {
                first: id,
                last: id,
                spec,
            })?;
        }
        let touch = Touch {
            before: None,
            story: span.story,
            last: None,
            leased_at: None,
        };
        self.touched.insert(id, touch);
        Ok(())
    }

    fn fetch_condemned(&mut self, kept: &mut impl Kept) -> Result<(), StoreError> {
        if self.condemned_before.is_none() {
            let condemned = kept.condemned()?;
            for incarnation in &condemned {
                self.ledger.admit_condemned(*incarnation);
            }
            self.condemned_before = Some(condemned);
        }
        Ok(())
    }
}

/// What a verdict means to the item that an instance is of; nothing if it is tried again.
const fn item_end(verdict: Verdict) -> Option<ItemEnd> {
    match verdict {
        Verdict::Done => Some(ItemEnd::Done),
        Verdict::GaveUp => Some(ItemEnd::Failed),
        Verdict::Stopped => Some(ItemEnd::Halted),
        Verdict::Requeued => None,
    }
}

/// An instance of a range: it was never leased.
pub(crate) const fn untried(
    id: InstanceId,
    spec: Arc<InstanceSpec>,
    state: UniversalState,
) -> Instance {
    Instance {
        id,
        spec,
        state,
        lease: None,
        attempts: AttemptNo(0),
        failures: 0,
        losses: 0,
        stop_requested: false,
        next_attempt: None,
    }
}
