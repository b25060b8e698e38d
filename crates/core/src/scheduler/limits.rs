//! Every limit of the leader: how much of it is in use, and how cluster-wide ones are set at run time.
//!
//! The configuration of a leader has limits, too: its defaults. A value that was set at run time
//! takes their place until it is removed.

use std::collections::BTreeMap;

use baton_model::conditions::ArrayLimit;
use baton_model::fact::Fact;
use baton_model::ids::InstanceId;
use baton_model::limits::ARRAY_LIMITS_MAX;
use baton_model::rate::LimitValue;
use baton_model::time::{Millis, Mono};

use super::bullpen::Bullpen;
use super::context::Cx;
use super::gate;
use crate::ledger::{Ledger, OpenBackfill};
use crate::limits::{Limit, LimitKey, RunLimit, implied};
use crate::placement::LimitUse;

/// Why a limit cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LimitError {
    #[error("there are too many limits already")]
    TooMany,
    /// It has no value that was set at run time; the default, if there is one.
    #[error("no limit {0} was set at run time")]
    NotSet(String, Option<LimitValue>),
}

/// A limit in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitView {
    pub name: String,
    pub value: LimitValue,
    /// May exceed the total after that was lowered. Of a rate, what recent starts have taken of its burst.
    pub used: u128,
    /// Of a rate that is used up, how long until the next start is possible.
    pub next_in: Option<Millis>,
    /// Instances that wait and request it.
    pub waiting: u64,
    /// The value of the configuration, if it has one.
    pub default: Option<LimitValue>,
    /// Whether the value was set at run time.
    pub is_set: bool,
}

/// The total and the use of any limit; none if what it bounds has none, or is not in flight.
pub(super) fn find(ledger: &Ledger, bullpen: &Bullpen, key: &LimitKey) -> Option<Limit> {
    match key {
        LimitKey::Named(_) | LimitKey::Array(_) => bullpen.counted().get(key),
        LimitKey::Entry(task) => gate::limit(ledger, bullpen, *task),
        LimitKey::Backfill(id) => {
            let backfill = ledger.library().backfills().get(*id);
            backfill.map(OpenBackfill::limit)
        }
        LimitKey::Run(run, part) => ledger.runs().run(*run)?.progress.limit(*part),
    }
}

/// Asserts that every count is what the facts add up to. O(what is in flight).
///
/// # Panics
/// With the limit whose count differs.
pub(super) fn assert_counts(ledger: &Ledger, bullpen: &Bullpen) {
    if !bullpen.counted().is_empty() {
        assert_leased(ledger, bullpen);
    }
    for run in ledger.runs().iter() {
        let counted = run.progress.limit(RunLimit::Run).map_or(0, |it| it.used);
        let live = run.progress.live().count() as u128;
        assert_eq!(counted, live, "instances in flight of {:?}", run.head);
    }
    for (task, held) in bullpen.all_held() {
        let active = ledger.library().active(task);
        let is_known = active.is_some_and(|active| held.is_subset(&active.instances));
        assert!(
            is_known,
            "{held:?} wait for the turn of {task:?}: {active:?}"
        );
    }
}

fn assert_leased(ledger: &Ledger, bullpen: &Bullpen) {
    let mut used: BTreeMap<LimitKey, u128> = BTreeMap::new();
    for lease in ledger.open_leases() {
        let id = lease.id.attempt.instance;
        let Some(instance) = ledger.instance(id).filter(|_| bullpen.is_charged(id)) else {
            continue;
        };
        let named = instance.spec.request.resources.named.iter();
        let named = named.map(|(name, amount)| (LimitKey::from(name.as_str()), *amount));
        let implied = implied(&instance.spec, ledger.array_limits()).into_iter();
        for (key, amount) in named.chain(implied.map(|(key, _)| (key, 1))) {
            *used.entry(key).or_default() += u128::from(amount);
        }
    }
    let counted = bullpen.counted();
    for (key, limit) in counted.iter().filter(|it| counted.rate(it.0).is_none()) {
        let leased = used.get(key).copied().unwrap_or_default();
        assert_eq!(limit.used, leased, "in use of the limit {key}: {limit:?}");
    }
}

/// Sets a limit, or removes the value that was set.
pub(super) fn set(
    cx: &mut Cx<'_>,
    name: &str,
    value: Option<LimitValue>,
) -> Result<(), LimitError> {
    let before = cx.ledger.limits().get(name).copied();
    let default = cx.bullpen.default_limit(name);
    if value.is_none() && before.is_none() {
        return Err(LimitError::NotSet(name.to_owned(), default));
    }
    let in_force = value.or(default);
    // Set again, a rate keeps what is used of it.
    if !cx.bullpen.set_limit(name, in_force, cx.now.mono) {
        return Err(LimitError::TooMany);
    }
    if before != value {
        cx.commit(Fact::LimitSet {
            name: name.to_owned(),
            total: value.map(|it| it.total),
            rate: value.and_then(|it| it.rate),
        });
    }
    Ok(())
}

/// Changes the concurrency limit of an array, or removes it. The range is that of the array.
pub(super) fn set_array(
    cx: &mut Cx<'_>,
    first: InstanceId,
    last: InstanceId,
    total: Option<u32>,
) -> Result<(), LimitError> {
    let changed = ArrayLimit { last, total };
    let known = cx.ledger.array_limits();
    if known.get(&first) == Some(&changed) {
        return Ok(());
    }
    let is_full = known.len() >= ARRAY_LIMITS_MAX && !known.contains_key(&first);
    if is_full || !cx.bullpen.has_room_for_limit() {
        return Err(LimitError::TooMany);
    }
    cx.bullpen.limit_array(cx.ledger, (first, last), total);
    cx.commit(Fact::ArrayLimitSet { first, last, total });
    Ok(())
}

/// All named limits, by name.
pub(super) fn list<'a>(
    bullpen: &'a Bullpen,
    ledger: &'a Ledger,
    now: Mono,
) -> impl Iterator<Item = LimitView> + 'a {
    bullpen.limits(now).filter_map(move |found| {
        let LimitUse { key, limit, .. } = found;
        let LimitKey::Named(name) = key else {
            return None;
        };
        Some(LimitView {
            name: name.clone(),
            value: LimitValue {
                total: limit.total,
                rate: found.rate,
            },
            used: limit.used,
            next_in: found.next_at.map(|at| at.since(now)),
            waiting: found.waiting,
            default: bullpen.default_limit(name),
            is_set: ledger.limits().contains_key(name),
        })
    })
}
