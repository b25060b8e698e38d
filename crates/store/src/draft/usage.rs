//! What the facts of a draft come to for each owner and hour.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::fact::{Fact, Verdict};
use baton_model::ids::InstanceId;
use baton_model::outcome::Ran;
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};

use super::{Draft, Kept};
use crate::StoreError;
use crate::usage::{Hour, UsageTotals};

/// Rows to add to.
pub(crate) type Usages = BTreeMap<(Hour, Arc<str>), UsageTotals>;

impl<S: Clone + PartialEq> Draft<S> {
    /// What is to be added to the rows.
    pub(crate) const fn usage(&self) -> &Usages {
        &self.usage
    }

    /// A fact is about to be applied to an instance that was fetched.
    pub(super) fn count(
        &mut self,
        kept: &mut impl Kept<Spec = S>,
        at: Wall,
        fact: &Fact,
        id: InstanceId,
    ) -> Result<(), StoreError> {
        match fact {
            Fact::LeaseGranted { .. } => self.count_wait(kept, at, id),
            Fact::AttemptEnded { verdict, ran, .. } => {
                self.count_attempt(kept, at, id, *verdict, ran.as_ref())
            }
            Fact::InstancesHalted { .. } => self.count_halt(kept, at, id),
            _ => Ok(()),
        }
    }

    fn count_wait(
        &mut self,
        kept: &mut impl Kept<Spec = S>,
        at: Wall,
        id: InstanceId,
    ) -> Result<(), StoreError> {
        let Some(touch) = self.touched.get_mut(&id) else {
            return Ok(());
        };
        touch.leased_at = Some(at);
        // The last thing that happened to whatever waits is what made it wait.
        let rests_until = self.ledger.instance(id).and_then(|it| it.not_before());
        let ready_at = rests_until.unwrap_or_default().max(touch.story.changed_at);
        let used = UsageTotals {
            waited: between(ready_at, at),
            ..UsageTotals::default()
        };
        let spec = touch.story.spec.clone();
        self.add(kept, at, &spec, &used)
    }

    fn count_attempt(
        &mut self,
        kept: &mut impl Kept<Spec = S>,
        at: Wall,
        id: InstanceId,
        verdict: Verdict,
        ran: Option<&Ran>,
    ) -> Result<(), StoreError> {
        let Some(touch) = self.touched.get_mut(&id) else {
            return Ok(());
        };
        // Only what was leased before this was written down has no time: the least is known.
        let leased_at = touch.leased_at.take().unwrap_or(touch.story.changed_at);
        let spec = touch.story.spec.clone();
        let again = self
            .ledger
            .instance(id)
            .and_then(|it| it.next_attempt.as_ref());
        let scaled = again.and_then(|again| again.allowance.as_ref());
        let memory = scaled.map(|allowance| allowance.memory_min);
        let held = kept.claim(&spec)?.held(between(leased_at, at), memory);
        let ended = |it: Verdict| u64::from(verdict == it);
        let used = UsageTotals {
            done: ended(Verdict::Done),
            failed: ended(Verdict::GaveUp),
            halted: ended(Verdict::Stopped),
            attempts: 1,
            cpu_used: ran.map_or(Millis(0), |ran| ran.cpu),
            ..held
        };
        self.add(kept, at, &spec, &used)
    }

    fn count_halt(
        &mut self,
        kept: &mut impl Kept<Spec = S>,
        at: Wall,
        id: InstanceId,
    ) -> Result<(), StoreError> {
        let now = self.ledger.find(id);
        let waits = now.is_some_and(|it| it.state == UniversalState::Queued);
        let Some(touch) = self.touched.get(&id).filter(|_| waits) else {
            return Ok(());
        };
        let spec = touch.story.spec.clone();
        self.count_halted(kept, at, &spec, 1)
    }

    /// So many that waited are stopped.
    pub(super) fn count_halted(
        &mut self,
        kept: &mut impl Kept<Spec = S>,
        at: Wall,
        spec: &S,
        halted: u64,
    ) -> Result<(), StoreError> {
        let used = UsageTotals {
            halted,
            ..UsageTotals::default()
        };
        self.add(kept, at, spec, &used)
    }

    fn add(
        &mut self,
        kept: &mut impl Kept<Spec = S>,
        at: Wall,
        spec: &S,
        used: &UsageTotals,
    ) -> Result<(), StoreError> {
        let owner = Arc::clone(&kept.claim(spec)?.owner);
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
