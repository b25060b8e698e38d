//! Guarantees, checked against what the manager really runs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use baton_core::ledger::Ledger;
use baton_model::fact::Fact;
use baton_model::fleet::{FleetAnswer, FleetCall, FleetName};
use baton_model::ids::{InstanceId, JobId};

use super::draw::{MINUTE, Plan};
use super::manager::Manager;
use crate::checkers::Violation;

#[derive(Debug, Default)]
pub(super) struct Checker {
    /// Names of durable intents.
    intents: BTreeMap<JobId, String>,
    submitted: BTreeSet<String>,
    starts: BTreeMap<FleetName, VecDeque<u64>>,
    /// Fleets whose pilots find a token.
    tokens: BTreeSet<FleetName>,
}

impl Checker {
    /// Judges a durable fact against the manager, with the ledger before it.
    pub(super) fn fact(
        &mut self,
        now: u64,
        manager: &Manager,
        ledger: &Ledger,
        fact: &Fact,
    ) -> Result<(), Violation> {
        match fact {
            Fact::JobRequested {
                job, fleet, name, ..
            } => {
                self.intents.insert(*job, name.clone());
                self.requested(now, ledger, fleet)
            }
            Fact::JobEnded { job, end, .. } => {
                let name = self.intents.get(job);
                let alive = manager
                    .jobs
                    .iter()
                    .any(|it| it.is_alive() && Some(&it.name) == name);
                if alive {
                    let what =
                        format!("the end of job {job} ({end:?}) is recorded, but it is alive");
                    return violated("ended-alive", what);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A worker is requested only if all that are on their way will have work.
    fn requested(&mut self, now: u64, ledger: &Ledger, fleet: &FleetName) -> Result<(), Violation> {
        let Some(spec) = ledger.fleets().get(fleet).map(|it| &it.spec) else {
            return violated("no-intent", format!("a job of the unknown fleet {fleet}"));
        };
        let jobs = ledger.fleets().jobs_of(fleet);
        let coming = jobs.filter(|it| it.cancel.is_none() && it.arrived_at.is_none());
        let coming = coming.count() as u64;
        let waiting = ledger.waiting().map(|it| it.last.0 - it.first.0 + 1);
        let all = (InstanceId(0), InstanceId(u64::MAX));
        let waiting = waiting.sum::<u64>() + ledger.requeued(all.0, all.1).count() as u64;
        if coming + 1 > waiting + u64::from(spec.min) {
            let what = format!(
                "fleet {fleet} requests a job beside {coming} on their way, for {waiting} instances"
            );
            return violated("needless-request", what);
        }
        let starts = self.starts.entry(fleet.clone()).or_default();
        starts.push_back(now);
        while starts.front().is_some_and(|it| now - it > 60 * MINUTE) {
            starts.pop_front();
        }
        let most = 20 + 6 * (spec.max / spec.workers_per_job) as usize;
        if starts.len() > most {
            let what = format!("fleet {fleet} has started {} jobs in an hour", starts.len());
            return violated("thrash", what);
        }
        Ok(())
    }

    /// Judges a call that reaches the manager.
    pub(super) fn call(&mut self, call: &FleetCall) -> Result<(), Violation> {
        let FleetCall::Submit {
            fleet, job, name, ..
        } = call
        else {
            return Ok(());
        };
        if !self.tokens.contains(fleet) {
            let what = format!("job {job} is submitted, and its pilots find no token");
            return violated("no-token", what);
        }
        if self.intents.get(job) != Some(name) {
            return violated(
                "no-intent",
                format!("job {job} has no durable intent {name}"),
            );
        }
        if !self.submitted.insert(name.clone()) {
            return violated("submitted-twice", format!("job {job} is submitted again"));
        }
        Ok(())
    }

    /// Notes an answer.
    pub(super) fn answer(&mut self, answer: &FleetAnswer) {
        if let FleetAnswer::TokenReady { fleet, .. } = answer {
            self.tokens.insert(fleet.clone());
        }
    }

    /// Judges the state of the manager.
    pub(super) fn state(now: u64, manager: &Manager, plans: &[Plan]) -> Result<(), Violation> {
        for plan in plans {
            let (workers, max) = (manager.workers(&plan.name), plan.spec.max);
            if workers > max {
                let what = format!("fleet {} has {workers} workers of {max}", plan.name);
                return violated("too-many", what);
            }
        }
        let mut running = BTreeSet::new();
        let pilots = manager.jobs.iter().flat_map(|it| &it.pilots);
        for lease in pilots.filter(|it| !it.ended).flat_map(|it| it.running(now)) {
            if !running.insert(lease.attempt.instance) {
                let what = format!("{} runs twice", lease.attempt.instance);
                return violated("overlap", what);
            }
        }
        Ok(())
    }
}

pub(super) fn violated(checker: &'static str, what: String) -> Result<(), Violation> {
    Err(Violation { checker, what })
}
