//! A scheduler as a driver runs it: the state machine, its outbox, and batches in flight to a
//! store.

use std::collections::BTreeMap;

use baton_core::ledger::Ledger;
use baton_core::scheduler::{Config, Effect, Input, Scheduler};
use baton_model::ids::{Epoch, Incarnation, InstanceId, WorkerName};
use baton_model::state::WorkerState;
use baton_model::time::{Mono, Now, Wall};
use baton_sim::leader::Store;

use super::transcript::Transcript;

/// Clocks of two hosts have nothing in common: this one begins far from those of
/// the workers.
const CLOCK_ORIGIN: Mono = Mono(1_000_000);

/// State of a scheduler that the transcript already contains.
#[derive(Debug, Default)]
struct Reported {
    states: BTreeMap<WorkerName, (Incarnation, WorkerState)>,
    counts: BTreeMap<String, u64>,
    waiting: bool,
}

/// One scheduler, as the script knows it.
#[derive(Debug)]
pub(crate) struct Leader {
    pub(crate) name: String,
    leader: baton_sim::leader::Leader,
    /// Its store; none with `memory`, where nothing is stored.
    pub(crate) store: Option<String>,
    /// Whether commits wait for the script.
    pub(crate) manual: bool,
    pub(crate) clock: Mono,
    /// All facts applied: the state machine drops ended instances.
    ledger: Ledger,
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
            leader: baton_sim::leader::Leader::new(core),
            store,
            manual: false,
            clock,
            ledger: applied,
            reported,
        }
    }

    pub(crate) const fn core(&self) -> &Scheduler {
        self.leader.core()
    }

    /// The time since the start of the script on this clock.
    pub(crate) fn elapsed(&self) -> Mono {
        Mono(self.clock.0 - CLOCK_ORIGIN.0)
    }

    /// Feeds an input to the state machine; the effects stay in the outbox.
    pub(crate) fn feed(&mut self, input: Input, out: &mut Transcript) {
        let step = self.leader.decide(now(self.clock), input);
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
        self.leader.accept(step);
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
        let Some(batch) = self.leader.next_batch() else {
            return Ok(false);
        };
        if let Some(store) = store {
            store.commit(&batch).map_err(|error| error.to_string())?;
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
        self.leader.release(batch.durable());
        Ok(true)
    }

    pub(crate) fn released(&mut self) -> Vec<Effect> {
        self.leader.take_ready()
    }

    /// Every seat, instance and open lease, for `show`.
    pub(crate) fn describe(&self, out: &mut Transcript) {
        if self.core().is_waiting() {
            out.line(&format!("{}: in its initial wait", self.name));
        }
        for (name, seat) in self.core().seats() {
            let association = seat.association(self.core().term());
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
            .core()
            .seats()
            .iter()
            .map(|(name, seat)| (name.clone(), (seat.holder.incarnation, seat.state)))
            .collect();
        for (name, (incarnation, state)) in &states {
            match self.reported.states.get(name) {
                Some((same, before)) if same == incarnation && before == state => {}
                Some((same, before)) if same == incarnation => {
                    out.line(&format!("{}: {name} {before} -> {state}", self.name));
                }
                Some((other, _)) => {
                    let who = format!("{incarnation} takes the seat of {other}");
                    out.line(&format!("{}: {name} {state}, {who}", self.name));
                }
                None => out.line(&format!(
                    "{}: {name} {state}, {incarnation} takes it",
                    self.name
                )),
            }
        }
        self.reported.states = states;
        if self.reported.waiting && !self.core().is_waiting() {
            out.line(&format!("{}: the initial wait is over", self.name));
            self.reported.waiting = false;
        }
        for (name, count) in self.leader.core().counts().iter() {
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
