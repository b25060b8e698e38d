//! Limits of placement: how they are set, counted and shown. What they count is in [`crate::limits`].

use std::collections::BTreeSet;

use baton_model::rate::Rate;
use baton_model::time::Mono;

use super::limits::LIMITS_MAX;
use super::{LimitUse, Placement, PlacementError};
use crate::limits::{Limit, LimitKey, Limits};

/// As many limits there may be before idle ones are looked for.
const IDLE_LIMITS_MIN: usize = 1_000;

impl Placement {
    /// When time alone lets something start that waits for a rate; none while [`Self::next`] may decide.
    #[must_use]
    pub fn next_start(&self) -> Option<Mono> {
        self.next_start.filter(|_| self.settled)
    }

    /// Takes all of every rate, as a new leader does: it does not know what was left.
    pub fn empty_rates(&mut self) {
        self.limits.empty_rates();
        self.settled = false;
    }

    /// Makes every rate full again, for a seeded bug.
    #[cfg(feature = "seeded-bugs")]
    pub(crate) fn fill_rates(&mut self) {
        self.limits.fill_rates();
    }

    /// Sets a limit that is a rate. A new one has its whole burst free.
    ///
    /// # Errors
    /// [`PlacementError::TooManyLimits`].
    pub fn set_rate(
        &mut self,
        key: impl Into<LimitKey>,
        rate: Rate,
        burst: u64,
    ) -> Result<(), PlacementError> {
        let key = key.into();
        let is_known = self.limits.contains(&key);
        if !is_known && self.limits.len() >= LIMITS_MAX {
            return Err(PlacementError::TooManyLimits);
        }
        self.settled = false;
        self.limits.set_rate(key, rate, burst);
        if !is_known {
            self.limits_changed();
        }
        self.end_vain_reservations();
        Ok(())
    }

    /// Sets the weight of an owner: its turns for each one of an owner with weight 1, which it then has.
    pub fn set_share(&mut self, owner: &str, weight: u32) {
        self.queue.owners.set_weight(owner, weight);
    }

    /// Sets or removes a limit. It may be below the current use:
    /// then no further instance that needs it starts.
    ///
    /// # Errors
    /// [`PlacementError::TooManyLimits`].
    pub fn set_limit(
        &mut self,
        key: impl Into<LimitKey>,
        total: Option<u64>,
    ) -> Result<(), PlacementError> {
        let key = key.into();
        self.settled = false;
        match total {
            Some(total) if self.limits.set_total(&key, total) => {}
            Some(total) => {
                let is_known = self.limits.contains(&key);
                if !is_known && self.limits.len() >= LIMITS_MAX {
                    return Err(PlacementError::TooManyLimits);
                }
                let used = self.in_use(&key);
                self.limits.insert(key, Limit { total, used });
                if !is_known {
                    self.limits_changed();
                }
            }
            None if self.limits.remove(&key) => self.limits_changed(),
            None => {}
        }
        self.end_vain_reservations();
        Ok(())
    }

    /// The limits, by key.
    #[must_use]
    pub const fn counted(&self) -> &Limits<LimitKey> {
        &self.limits
    }

    /// All limits with what waits for them, by key.
    pub fn limits(&self, now: Mono) -> impl Iterator<Item = LimitUse<'_>> {
        self.limits.iter().map(move |(key, limit)| LimitUse {
            key,
            limit: self.limits.get_at(key, now).unwrap_or(limit),
            rate: self.limits.rate(key),
            next_at: self.limits.next_at(key, 1, now).filter(|at| *at > now),
            waiting: self.waiting_for(key),
        })
    }

    /// Instances that wait and need a limit.
    fn waiting_for(&self, key: &LimitKey) -> u64 {
        let classes = self.classes.active.iter().map(|at| &self.classes.all[*at]);
        let limited = classes.filter(|class| class.limited.iter().any(|(limit, _)| limit == key));
        limited.map(|class| class.waiting).sum()
    }

    /// True if one more limit can be set. Limits that belong to work are removed first, if nothing
    /// uses or waits for them and there are many.
    pub fn has_room_for_limit(&mut self) -> bool {
        if self.limits.len() >= IDLE_LIMITS_MIN {
            let active = self.classes.active.iter();
            let limited = active.flat_map(|class| &self.classes.all[*class].limited);
            let waited: BTreeSet<&LimitKey> = limited.map(|(key, _)| key).collect();
            let is_idle = |key: &LimitKey, limit: &Limit| {
                key.belongs_to_work() && limit.used == 0 && !waited.contains(key)
            };
            if self.limits.remove_if(is_idle) {
                self.limits_changed();
                self.settled = false;
            }
        }
        self.limits.len() < LIMITS_MAX
    }

    /// When time alone makes room in rates for something that waits. O(classes with something waiting).
    pub(super) fn find_next_start(&self) -> Option<Mono> {
        if !self.limits.has_rates() {
            return None;
        }
        let active = self.classes.active.iter();
        let limited = active.map(|at| &self.classes.all[*at].limited);
        limited.filter_map(|it| self.limits.room_at(it)).min()
    }

    fn limits_changed(&mut self) {
        self.classes.split(&self.limits);
        // Whether the units changed does not matter: `split` has unsettled all.
        self.fleet.reweigh(&self.limits);
    }

    fn in_use(&self, key: &LimitKey) -> u128 {
        let needs = self
            .placed
            .values()
            .filter(|placed| !placed.ahead)
            .map(|placed| &self.classes.all[placed.class].need);
        needs.map(|need| u128::from(need.amount(key))).sum()
    }
}
