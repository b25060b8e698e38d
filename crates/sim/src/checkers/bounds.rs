//! Bounds on what runs at the same time: processes of arrays, and leases of named limits.
//!
//! A start is judged by the processes on all hosts; [`super::conditions`] judges the leases of arrays.
//! A lease of a named limit is judged when it becomes durable, by the state of the store then: so a
//! limit that was lowered binds what is granted later, and stops nothing.

use std::collections::BTreeMap;

use baton_core::ledger::Ledger;
use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, LeaseId};
use baton_model::rate::LimitValue;

use super::{Truth, Violation};

/// The arrays that bound how many of their elements run at once, by their first instance.
#[derive(Debug, Default)]
pub(super) struct Bounds(BTreeMap<InstanceId, Bound>);

#[derive(Debug)]
struct Bound {
    last: InstanceId,
    /// Its name: ids are used again in a copy of a store.
    name: String,
    concurrent_max: usize,
}

impl Bounds {
    pub(super) fn committed(&mut self, fact: &Fact) {
        let (Fact::InstancesSubmitted { spec, .. } | Fact::AttemptAdopted { spec, .. }) = fact
        else {
            return;
        };
        let conditions = &spec.conditions;
        if let (Some((first, last)), Some(max)) = (conditions.instances, conditions.concurrent_max)
        {
            let bound = Bound {
                last,
                name: spec.name.clone(),
                concurrent_max: max as usize,
            };
            self.0.insert(first, bound);
        }
    }

    /// Checks the start of a process, which the truth knows already.
    pub(super) fn started(&self, instance: InstanceId, truth: &Truth) -> Result<(), Violation> {
        let array = self.0.range(..=instance).next_back();
        let Some((first, bound)) = array.filter(|(_, bound)| instance <= bound.last) else {
            return Ok(());
        };
        let live = truth.live_within(*first, bound.last, &bound.name);
        if live.len() > bound.concurrent_max {
            let (name, max) = (&bound.name, bound.concurrent_max);
            let what = format!("{live:?} of {name} run, and {max} may");
            return Err(violation("array-exceeded", what));
        }
        Ok(())
    }
}

/// Checks a lease that was granted. The ledger has it already.
pub(super) fn check_grant(
    ledger: &Ledger,
    lease: LeaseId,
    defaults: &[(String, LimitValue)],
) -> Result<(), Violation> {
    let Some(instance) = ledger.instance(lease.attempt.instance) else {
        return Ok(());
    };
    for name in instance.spec.request.resources.named.keys() {
        let default = defaults.iter().find(|(known, _)| known == name);
        let value = ledger.limits().get(name);
        let value = value.or(default.map(|(_, value)| value));
        // `rates` judges those.
        if value.is_some_and(|it| it.rate.is_some()) {
            continue;
        }
        let total = value.map(|it| it.total);
        let used: u64 = ledger
            .open_leases()
            .filter_map(|open| ledger.instance(open.id.attempt.instance))
            .filter_map(|it| it.spec.request.resources.named.get(name))
            .sum();
        if used > total.unwrap_or(0) {
            let what = format!("with {lease} {used} of {name} are used, of {total:?}");
            return Err(violation("limit-exceeded", what));
        }
    }
    Ok(())
}

fn violation(checker: &'static str, what: String) -> Violation {
    Violation { checker, what }
}
