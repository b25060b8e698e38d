//! Cluster-wide limits: named resources that belong to no worker.
//!
//! A name is either a limit or something that workers have, by whether a limit of
//! that name is set. Both sides count all use of all names, so that a limit may be
//! set, changed and removed while instances run.

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Pool {
    pub(super) total: u64,
    /// May exceed the total, after that was lowered or by adoption.
    pub(super) used: u128,
}

impl Pool {
    pub(super) fn has(&self, amount: u64) -> bool {
        self.used + u128::from(amount) <= u128::from(self.total)
    }
}

/// All limits, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Pools(pub(super) BTreeMap<String, Pool>);

impl Pools {
    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The first limit that has no room for all of this.
    pub(super) fn short_of<'a>(&self, limited: &'a [(String, u64)]) -> Option<&'a str> {
        let full = |name: &str, amount| self.0.get(name).is_some_and(|pool| !pool.has(amount));
        let (name, _) = limited.iter().find(|(name, amount)| full(name, *amount))?;
        Some(name)
    }

    /// True if each limit would be large enough if none of it were in use.
    pub(super) fn could_hold(&self, limited: &[(String, u64)]) -> bool {
        let holds = |name, amount| self.0.get(name).is_none_or(|pool| pool.total >= amount);
        limited.iter().all(|(name, amount)| holds(name, *amount))
    }

    pub(super) fn charge(&mut self, named: &[(String, u64)]) {
        for (name, amount) in named {
            if let Some(pool) = self.0.get_mut(name) {
                pool.used += u128::from(*amount);
            }
        }
    }

    pub(super) fn discharge(&mut self, named: &[(String, u64)]) {
        for (name, amount) in named {
            if let Some(pool) = self.0.get_mut(name) {
                pool.used -= u128::from(*amount);
            }
        }
    }
}
