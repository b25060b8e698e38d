//! Rates: how much of a limit starts per time.
//!
//! Each start is judged with every earlier one of the run: in no interval do more start than the burst and what
//! the rate brings within it, whichever leaders have decided. A start counts when its leader decides it, and only
//! if the store takes it. Clocks of schedulers drift, so the rate is that of the fastest of them.

use std::collections::BTreeMap;

use baton_core::ledger::Ledger;
use baton_model::ids::LeaseId;
use baton_model::rate::LimitValue;

use super::Violation;
use crate::time::{MILLI, Time};

/// Millionths of a token are counted.
const PARTS: u128 = 1_000_000;

/// The starts that were decided, and those that count.
#[derive(Debug, Default)]
pub struct RateChecks {
    decided: BTreeMap<LeaseId, Time>,
    /// By the name of the limit: when, and how much of it.
    starts: BTreeMap<String, Vec<(Time, u64)>>,
    /// The fastest clock of a scheduler, in parts per million of true time.
    pub fastest_ppm: u64,
}

impl RateChecks {
    /// A leader has decided to start an attempt.
    pub fn decided(&mut self, lease: LeaseId, now: Time) {
        self.decided.insert(lease, now);
    }

    /// Checks a lease that was granted. The ledger has it already.
    pub(super) fn granted(
        &mut self,
        ledger: &Ledger,
        lease: LeaseId,
        defaults: &[(String, LimitValue)],
    ) -> Result<(), Violation> {
        let decided = self.decided.remove(&lease);
        let instance = ledger.instance(lease.attempt.instance);
        let Some((at, instance)) = decided.zip(instance) else {
            return Ok(());
        };
        for (name, amount) in &instance.spec.request.resources.named {
            let Some((_, value)) = defaults.iter().find(|(known, _)| known == name) else {
                continue;
            };
            let Some(rate) = value.rate else {
                continue;
            };
            let starts = self.starts.entry(name.clone()).or_default();
            starts.push((at, *amount));
            let mut sum: u128 = 0;
            for (since, amount) in starts.iter().rev() {
                sum += u128::from(*amount) * PARTS;
                let span = u128::from(at.0.saturating_sub(since.0)) * u128::from(self.fastest_ppm);
                // A clock reads whole milliseconds: one more may have begun.
                let span = span / 1_000_000 + u128::from(MILLI);
                let period = u128::from(rate.per.0) * u128::from(MILLI);
                let brings = span * u128::from(rate.count) * PARTS / period;
                if sum > u128::from(value.total) * PARTS + brings {
                    let started = sum / PARTS;
                    let what = format!(
                        "with {lease} {started} of {name} ({value}) start within {} ms",
                        (at.0 - since.0) / MILLI
                    );
                    let checker = "rate-exceeded";
                    return Err(Violation { checker, what });
                }
            }
        }
        Ok(())
    }
}
