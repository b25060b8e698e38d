//! Suspicious workers, judged by the facts of one term.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::ledger::Ledger;
use baton_model::fact::Fact;
use baton_model::ids::{Incarnation, LeaseId, WorkerName};
use baton_model::limits::{SUSPICION_FAILURES_MIN, SUSPICION_TRIALS};
use baton_model::outcome::{AttemptEnd, KillCause, Outcome};

use super::Violation;

/// Trials of a worker since it is suspicious.
#[derive(Debug)]
struct Trials {
    incarnation: Incarnation,
    open: BTreeSet<LeaseId>,
    passed: u32,
}

/// The checkers of suspicious workers.
#[derive(Debug, Default)]
pub struct SuspicionChecks {
    suspicious: BTreeMap<WorkerName, Trials>,
    holders: BTreeMap<LeaseId, WorkerName>,
    failures: BTreeMap<WorkerName, u32>,
}

impl SuspicionChecks {
    /// The next leader learns everything anew.
    pub(super) fn term_begun(&mut self, ledger: &Ledger) {
        let open = ledger.open_leases();
        let holders = open.map(|lease| (lease.id, lease.holder.worker.clone()));
        *self = Self {
            holders: holders.collect(),
            ..Self::default()
        };
    }

    pub(super) fn committed(&mut self, fact: &Fact) -> Result<(), Violation> {
        match fact {
            Fact::LeaseGranted { lease, holder, .. }
            | Fact::AttemptAdopted { lease, holder, .. } => {
                self.holders.insert(*lease, holder.worker.clone());
                let granted = matches!(fact, Fact::LeaseGranted { .. });
                let trials = self.suspicious.get_mut(&holder.worker);
                // A worker that was started again is trusted again.
                let trials = trials.filter(|it| granted && it.incarnation == holder.incarnation);
                trials.map_or(Ok(()), |trials| trial_begun(trials, *lease))
            }
            Fact::AttemptEnded { lease, end, .. } => self.ended(*lease, *end),
            Fact::WorkerSuspected {
                worker,
                incarnation,
                suspicion: Some(_),
            } => {
                let failures = self.failures.get(worker).copied().unwrap_or(0);
                if failures < SUSPICION_FAILURES_MIN {
                    let what = format!("{worker} is suspicious after {failures} failures");
                    return Err(violation("suspected-wrongly", what));
                }
                let trials = Trials {
                    incarnation: *incarnation,
                    open: BTreeSet::new(),
                    passed: 0,
                };
                self.suspicious.insert(worker.clone(), trials);
                Ok(())
            }
            Fact::WorkerSuspected { worker, .. } | Fact::WorkerCondemned { worker, .. } => {
                self.suspicious.remove(worker);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn ended(&mut self, lease: LeaseId, end: AttemptEnd) -> Result<(), Violation> {
        let Some(worker) = self.holders.remove(&lease) else {
            return Ok(());
        };
        let failed = match end {
            AttemptEnd::Real(Outcome::Killed(KillCause::Requested | KillCause::Operator)) => None,
            AttemptEnd::Real(outcome) => Some(outcome != Outcome::Exited(0)),
            AttemptEnd::Synthetic(_) => None,
        };
        if failed == Some(true) {
            *self.failures.entry(worker.clone()).or_default() += 1;
        }
        let Some(trials) = self.suspicious.get_mut(&worker) else {
            return Ok(());
        };
        if trials.open.remove(&lease)
            && let Some(failed) = failed
        {
            trials.passed = if failed { 0 } else { trials.passed + 1 };
            if trials.passed > SUSPICION_TRIALS {
                let what = format!("{worker} is suspicious after {} successes", trials.passed);
                return Err(violation("suspicion-kept", what));
            }
        }
        Ok(())
    }
}

fn trial_begun(trials: &mut Trials, lease: LeaseId) -> Result<(), Violation> {
    if let Some(other) = trials.open.first() {
        let what = format!("a suspicious worker gets {lease} while {other} tries it");
        return Err(violation("suspicious-fed", what));
    }
    trials.open.insert(lease);
    Ok(())
}

fn violation(checker: &'static str, what: String) -> Violation {
    Violation { checker, what }
}
