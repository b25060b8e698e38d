//! Counters of ignored events: late events that lost a race, messages of a foreign association,
//! replies to no open request.
//!
//! Counts are observations, not state: no decision reads them. A model checker takes them out, so
//! that it does not take two states for different because one has seen more duplicates.

use std::collections::BTreeMap;

use crate::fsm::{LateCounts, LateName, Machine};

/// Counters by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    late: LateCounts,
    noticed: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// Counts a late event of machine `M`.
    pub(crate) fn late<M: Machine>(&mut self, name: LateName) {
        self.late.record::<M>(name);
    }

    /// Counts something that the protocol refused or ignored.
    pub(crate) fn notice(&mut self, name: &'static str) {
        *self.noticed.entry(name).or_default() += 1;
    }

    /// The count of `name`.
    #[must_use]
    pub fn noticed(&self, name: &str) -> u64 {
        self.noticed.get(name).copied().unwrap_or_default()
    }

    /// Everything counted, as (name, count) in a stable order; late events carry
    /// their machine's name in front.
    pub fn iter(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let late = self
            .late
            .iter()
            .map(|(machine, name, count)| (format!("{machine}/{name}"), count));
        let noticed = self
            .noticed
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count));
        late.chain(noticed)
    }
}
