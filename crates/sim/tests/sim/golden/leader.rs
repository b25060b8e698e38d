//! A scheduler as a driver runs it: the state machine, its outbox, and batches in flight to a
//! store.

use std::collections::{BTreeMap, VecDeque};

use baton_core::ledger::Ledger;
use baton_core::scheduler::{Config, Effect, Input, Scheduler};
use baton_core::step::{Batch, Outbox};
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, Incarnation, InstanceId, WorkerName};
use baton_model::state::WorkerState;
use baton_model::time::{Mono, Now, Wall};

use super::transcript::Transcript;

/// Clocks of two hosts have nothing in common: this one begins far from those of
/// the workers.
const CLOCK_ORIGIN: Mono = Mono(1_000_000);

/// The durable state: the ledger, and the epoch that may write to it.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) epoch: Epoch,
    pub(crate) ledger: Ledger,
}

impl Store {
    /// Writes a batch, if its leader still leads.
    fn write(&mut self, batch: &Batch<Fact>) -> Result<(), String> {
        if batch.epoch() != self.epoch {
            return Err(format!(
                "the store is at {}, the batch from {}",
                self.epoch,
                batch.epoch()
            ));
        }
        for fact in batch.facts() {
            let applied = self.ledger.apply(fact);
            applied.unwrap_or_else(|error| panic!("the store cannot apply {fact}: {error}"));
        }
        Ok(())
    }
}

/// State of a scheduler that the transcript already contains.
#[derive(Debug, Default)]
struct Reported {
    states: BTreeMap<WorkerName, (Incarnation, WorkerState)>,
    counts: BTreeMap<String, u64>,
    waiting: bool,
}

/// One scheduler.
#[derive(Debug)]
pub(crate) struct Leader {
    pub(crate) name: String,
    pub(crate) core: Scheduler,
    /// Its store; none with `memory`, where nothing is stored.
    pub(crate) store: Option<String>,
    /// Whether commits wait for the script.
    pub(crate) manual: bool,
    pub(crate) clock: Mono,
    outbox: Outbox<Effect>,
    /// All facts applied: the state machine drops ended instances.
    ledger: Ledger,
    pending: VecDeque<Batch<Fact>>,
    reported: Reported,
}

impl Leader {
    pub(crate) fn new(
        name: &str,
        config: Config,
        epoch: Epoch,
        ledger: Ledger,
        store: Option<String>,
        elapsed: Mono,
    ) -> Self {
        let clock = Mono(CLOCK_ORIGIN.0 + elapsed.0);
        let applied = ledger.clone();
        let core = Scheduler::new(config, epoch, ledger, now(clock));
        let reported = Reported {
            waiting: core.is_waiting(),
            ..Reported::default()
        };
        Self {
            name: name.to_owned(),
            core,
            store,
            manual: false,
            clock,
            outbox: Outbox::new(epoch),
            ledger: applied,
            pending: VecDeque::new(),
            reported,
        }
    }

    /// The time since the start of the script on this clock.
    pub(crate) fn elapsed(&self) -> Mono {
        Mono(self.clock.0 - CLOCK_ORIGIN.0)
    }

    /// Feeds an input to the state machine; the effects stay in the outbox.
    pub(crate) fn feed(&mut self, input: Input, out: &mut Transcript) {
        let step = self.core.handle(now(self.clock), input);
        self.core.assert_invariants();
        let durability = if self.manual {
            " (not durable yet)"
        } else {
            ""
        };
        for fact in step.facts() {
            let applied = self.ledger.apply(fact);
            applied.unwrap_or_else(|error| panic!("{fact} does not fit: {error}"));
            out.line(&format!("{}: fact {fact}{durability}", self.name));
        }
        self.report_changes(out);
        self.pending.extend(self.outbox.accept(step));
    }

    /// Gives the oldest batch to the store; false if there is none.
    ///
    /// # Errors
    /// If the store refuses it: another leader has taken over.
    pub(crate) fn commit(
        &mut self,
        store: Option<&mut Store>,
        out: &mut Transcript,
    ) -> Result<bool, String> {
        let Some(batch) = self.pending.pop_front() else {
            return Ok(false);
        };
        if let Some(store) = store {
            store.write(&batch)?;
        }
        if self.manual {
            let facts: Vec<String> = batch.facts().iter().map(ToString::to_string).collect();
            let what = if facts.is_empty() {
                "nothing but its epoch".to_owned()
            } else {
                facts.join("; ")
            };
            out.line(&format!("{}: durable: {what}", self.name));
        }
        self.outbox.release(batch.durable());
        Ok(true)
    }

    pub(crate) fn released(&mut self) -> Vec<Effect> {
        self.outbox.drain().collect()
    }

    /// Every seat, instance and open lease, for `show`.
    pub(crate) fn describe(&self, out: &mut Transcript) {
        if self.core.is_waiting() {
            out.line(&format!("{}: in its initial wait", self.name));
        }
        for (name, seat) in self.core.seats() {
            let association = seat.association(self.core.term());
            out.line(&format!(
                "{}: {name} {} {association}",
                self.name, seat.state
            ));
        }
        let fresh = self.ledger.waiting().flat_map(|range| {
            let ids = (range.first.0..=range.last.0).map(InstanceId);
            ids.filter_map(|id| self.ledger.find(id))
                .collect::<Vec<_>>()
        });
        let others = self
            .ledger
            .instances()
            .map(|(_, instance)| instance.clone());
        let mut instances: Vec<_> = fresh.chain(others).collect();
        instances.sort_by_key(|instance| instance.id);
        for instance in instances {
            let id = instance.id;
            let lease = instance.lease.as_ref().map_or_else(String::new, |lease| {
                format!(
                    " {} at {} {}",
                    lease.id, lease.holder.worker, lease.holder.incarnation
                )
            });
            out.line(&format!("{}: {id} {}{lease}", self.name, instance.state));
        }
    }

    /// Writes changes since the last input: health, the initial wait, and ignored inputs.
    fn report_changes(&mut self, out: &mut Transcript) {
        let states: BTreeMap<_, _> = self
            .core
            .seats()
            .iter()
            .map(|(name, seat)| (name.clone(), (seat.holder.incarnation, seat.state)))
            .collect();
        for (name, (life, state)) in &states {
            match self.reported.states.get(name) {
                Some((same, before)) if same == life && before == state => {}
                Some((same, before)) if same == life => {
                    out.line(&format!("{}: {name} {before} -> {state}", self.name));
                }
                Some((other, _)) => {
                    let who = format!("{life} takes the seat of {other}");
                    out.line(&format!("{}: {name} {state}, {who}", self.name));
                }
                None => out.line(&format!("{}: {name} {state}, {life} takes it", self.name)),
            }
        }
        self.reported.states = states;
        if self.reported.waiting && !self.core.is_waiting() {
            out.line(&format!("{}: the initial wait is over", self.name));
            self.reported.waiting = false;
        }
        for (name, count) in self.core.counts().iter() {
            if self.reported.counts.get(&name) != Some(&count) {
                out.line(&format!("{}: noticed {name}", self.name));
            }
            self.reported.counts.insert(name, count);
        }
    }
}

/// Wall time decides nothing, so it stands still.
const fn now(mono: Mono) -> Now {
    Now {
        mono,
        wall: Wall(0),
    }
}
