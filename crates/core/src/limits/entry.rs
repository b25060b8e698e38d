//! The limit of a library entry: `max_instances`, and what a launch beyond it does.

use baton_model::library::{Overlap, Trigger};
use baton_model::limits::OVERLAP_QUEUE_MAX;
use baton_model::schedule::SkipReason;

/// `max_instances` of an entry with its `overlap`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryLimit {
    max_instances: Option<u32>,
    overlap: Overlap,
}

impl EntryLimit {
    #[must_use]
    pub const fn of(trigger: &Trigger) -> Self {
        Self {
            max_instances: trigger.max_instances,
            overlap: trigger.overlap,
        }
    }

    /// The limit for a launch that its cause holds back until there is room, whatever `overlap` says.
    #[must_use]
    pub const fn without_overlap(trigger: &Trigger) -> Self {
        Self {
            max_instances: trigger.max_instances,
            overlap: Overlap::Skip,
        }
    }

    /// The number of executions that may have started, if others wait for their turn.
    #[must_use]
    pub fn started_max(self) -> Option<u64> {
        match self.overlap {
            Overlap::Skip => None,
            Overlap::Queue | Overlap::Replace => self.max_instances.map(u64::from),
        }
    }

    /// Why another launch is refused while so many executions are in flight, started or not.
    #[must_use]
    pub fn refusal(self, in_flight: u64) -> Option<SkipReason> {
        let limit = self.max_instances?;
        match self.overlap {
            Overlap::Skip => {
                (in_flight >= u64::from(limit)).then_some(SkipReason::MaxInstances { limit })
            }
            Overlap::Queue => {
                let most = u64::from(limit) + u64::from(OVERLAP_QUEUE_MAX);
                let limit = OVERLAP_QUEUE_MAX;
                (in_flight >= most).then_some(SkipReason::QueueFull { limit })
            }
            // Each launch stops as many as it adds.
            Overlap::Replace => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn limit(overlap: Overlap) -> EntryLimit {
        EntryLimit {
            max_instances: Some(2),
            overlap,
        }
    }

    #[test]
    fn a_queue_has_an_end_and_a_replacement_always_has_room() {
        let most = 2 + u64::from(OVERLAP_QUEUE_MAX);
        assert_eq!(limit(Overlap::Queue).refusal(most - 1), None);
        let full = SkipReason::QueueFull {
            limit: OVERLAP_QUEUE_MAX,
        };
        assert_eq!(limit(Overlap::Queue).refusal(most), Some(full));
        assert_eq!(limit(Overlap::Replace).refusal(most), None);
    }

    #[test]
    fn launches_wait_for_their_turn_unless_they_are_skipped() {
        assert_eq!(limit(Overlap::Skip).started_max(), None);
        assert_eq!(limit(Overlap::Queue).started_max(), Some(2));
        assert_eq!(limit(Overlap::Replace).started_max(), Some(2));
    }
}
