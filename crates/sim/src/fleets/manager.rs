//! The cluster manager: a queue, nodes, and answers that may be lost, wrong or late.
//!
//! When it reports a job as over that it calls contained, everything of the job is dead: that is the promise which the
//! leader relies on. What a worker of another job has started may run on.

use std::sync::Arc;

use baton_model::fleet::{FleetAnswer, FleetCall, FleetName, FleetSpec, JobSighting, JobState};
use baton_model::ids::JobId;
use baton_model::time::Wall;

use super::draw::{Faults, MINUTE, Plan};
use super::pilot::Pilot;
use crate::rng::Rng;

/// Nodes of the cluster.
const NODES: u64 = 6;

/// How long lists show a job that has ended.
const SHOWN_MS: u64 = 5 * MINUTE;

/// The longest time after which a job exists whose submission was unclear. Well below the time after which the leader
/// gives it up.
const LATE_MS: u64 = 2 * MINUTE;

/// A token is renewed after this time.
const RENEWED_AFTER_MS: u64 = 3 * MINUTE;

/// A job of the manager.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) native: String,
    pub(super) name: String,
    pub(super) fleet: FleetName,
    pub(super) id: JobId,
    pub(super) spec: Arc<FleetSpec>,
    pub(super) phase: Phase,
    excluded: Vec<String>,
    node: Option<String>,
    contained: bool,
    pub(super) pilots: Vec<Pilot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It exists from then on, and starts later.
    Queued {
        from: u64,
        start: u64,
    },
    Running {
        since: u64,
        silent: bool,
    },
    /// An order to cancel it takes effect then.
    Ending {
        at: u64,
    },
    Over {
        state: JobState,
        at: u64,
    },
}

impl Job {
    pub(super) const fn is_alive(&self) -> bool {
        !matches!(self.phase, Phase::Over { .. })
    }
}

/// The manager.
#[derive(Debug, Default)]
pub(super) struct Manager {
    pub(super) jobs: Vec<Job>,
    last: u64,
    pilots: u64,
    bad: Vec<String>,
}

impl Manager {
    /// Draws which nodes are bad.
    pub(super) fn draw_nodes(&mut self, rng: &mut Rng, faults: &Faults) {
        let nodes = (0..NODES).map(|it| format!("n{it}"));
        self.bad = nodes.filter(|_| rng.chance(faults.bad_nodes)).collect();
    }

    /// Carries a call out; the answer may be lost by the caller.
    pub(super) fn carry_out(
        &mut self,
        now: u64,
        rng: &mut Rng,
        faults: &Faults,
        plans: &[Plan],
        call: &FleetCall,
    ) -> FleetAnswer {
        match call {
            FleetCall::Submit { .. } => self.submit(now, rng, faults, plans, call),
            FleetCall::List { fleet, .. } => {
                let (fleet, reason) = (fleet.clone(), "Socket timed out".to_owned());
                if rng.chance(faults.list_failed) {
                    return FleetAnswer::ListFailed { fleet, reason };
                }
                let forgets = plans.iter().any(|it| it.name == fleet && it.forgets);
                let jobs = self.list(now, rng, faults, &fleet, forgets);
                FleetAnswer::Listed { fleet, jobs }
            }
            FleetCall::Token {
                fleet,
                call,
                enough,
                ..
            } => {
                let (fleet, call) = (fleet.clone(), *call);
                if rng.chance(faults.list_failed) {
                    let reason = "No space left on device".to_owned();
                    return FleetAnswer::TokenFailed {
                        fleet,
                        call,
                        reason,
                    };
                }
                // Shorter than it was asked for, so that it is renewed often.
                let until = Some(Wall(enough.0 + RENEWED_AFTER_MS));
                FleetAnswer::TokenReady { fleet, call, until }
            }
            FleetCall::Cancel { fleet, jobs, .. } => {
                let (fleet, reason) = (
                    fleet.clone(),
                    "Unable to contact slurm controller".to_owned(),
                );
                let fails = rng.chance(faults.cancel_failed);
                if fails && rng.chance(500) {
                    return FleetAnswer::CancelFailed { fleet, reason };
                }
                for (native, name) in jobs {
                    self.cancel(now, rng, native, name);
                }
                if fails {
                    return FleetAnswer::CancelFailed { fleet, reason };
                }
                FleetAnswer::Cancelled { fleet }
            }
        }
    }

    fn submit(
        &mut self,
        now: u64,
        rng: &mut Rng,
        faults: &Faults,
        plans: &[Plan],
        call: &FleetCall,
    ) -> FleetAnswer {
        let FleetCall::Submit { fleet, job, .. } = call else {
            unreachable!("only submissions");
        };
        let (fleet, job) = (fleet.clone(), *job);
        let reason = "timed out".to_owned();
        if rng.chance(faults.refused) {
            let reason = "Invalid partition".to_owned();
            return FleetAnswer::Refused { fleet, job, reason };
        }
        if rng.chance(faults.lost_call) {
            return FleetAnswer::Unclear { fleet, job, reason };
        }
        let lost = rng.chance(faults.lost_answer);
        let from = now + if lost { rng.below(LATE_MS) } else { 0 };
        let native = self.create(from, rng, plans, call);
        // With a lost answer, a list that lacks one of both could prove the end of the other only.
        if !lost && rng.chance(faults.doubled) {
            self.create(from, rng, plans, call);
        }
        if lost {
            return FleetAnswer::Unclear { fleet, job, reason };
        }
        FleetAnswer::Submitted { fleet, job, native }
    }

    fn create(&mut self, from: u64, rng: &mut Rng, plans: &[Plan], call: &FleetCall) -> String {
        let FleetCall::Submit {
            fleet,
            job,
            name,
            spec,
            excluded,
        } = call
        else {
            unreachable!("only submissions");
        };
        let plan = plans.iter().find(|it| it.name == *fleet);
        let queue = plan.map_or(1_000, |it| it.queue_ms);
        self.last += 1;
        let native = self.last.to_string();
        let start = from + rng.within(1_000, queue.max(1_001));
        self.jobs.push(Job {
            native: native.clone(),
            name: name.clone(),
            fleet: fleet.clone(),
            id: *job,
            spec: Arc::clone(spec),
            phase: Phase::Queued { from, start },
            excluded: excluded.clone(),
            node: None,
            contained: plan.is_none_or(|it| it.contained),
            pilots: Vec::new(),
        });
        native
    }

    fn list(
        &self,
        now: u64,
        rng: &mut Rng,
        faults: &Faults,
        fleet: &FleetName,
        forgets: bool,
    ) -> Vec<JobSighting> {
        if rng.chance(faults.list_empty) {
            return Vec::new();
        }
        let partial = rng.chance(faults.list_partial);
        let mut seen = Vec::new();
        for job in self.jobs.iter().filter(|it| it.fleet == *fleet) {
            let (state, word) = match job.phase {
                Phase::Queued { from, .. } if from > now => continue,
                Phase::Queued { .. } => (JobState::Queued, "PENDING"),
                Phase::Running { .. } => (JobState::Running, "RUNNING"),
                Phase::Ending { .. } => (JobState::Unsure, "COMPLETING"),
                Phase::Over { at, .. } if forgets || now - at > SHOWN_MS => continue,
                Phase::Over { state, .. } => (state, "OVER"),
            };
            if partial && rng.chance(300) {
                continue;
            }
            let unknown = job.is_alive() && rng.chance(faults.unknown_state);
            let (state, word) = if unknown {
                (JobState::Unsure, "STAGE_OUT")
            } else {
                (state, word)
            };
            seen.push(JobSighting {
                native: job.native.clone(),
                name: job.name.clone(),
                state,
                word: word.to_owned(),
                reason: (state == JobState::Queued).then(|| "Priority".to_owned()),
                nodes: job.node.iter().cloned().collect(),
                contained: job.contained,
            });
        }
        seen
    }

    fn cancel(&mut self, now: u64, rng: &mut Rng, native: &str, name: &str) {
        let jobs = self.jobs.iter_mut();
        let ordered = jobs.filter(|it| {
            if native.is_empty() {
                it.name == name
            } else {
                it.native == native
            }
        });
        for job in ordered {
            if let Phase::Queued { .. } | Phase::Running { .. } = job.phase {
                let at = now + rng.below(20_000);
                job.phase = Phase::Ending { at };
            }
        }
    }

    /// Starts and ends what is due.
    pub(super) fn advance(&mut self, now: u64, rng: &mut Rng, faults: &Faults) {
        let preempts = now.is_multiple_of(MINUTE);
        for job in &mut self.jobs {
            match job.phase {
                Phase::Queued { start, .. } if start <= now => {
                    let nodes = (0..NODES).map(|it| format!("n{it}"));
                    let nodes: Vec<String> =
                        nodes.filter(|it| !job.excluded.contains(it)).collect();
                    let node = nodes[rng.below(nodes.len() as u64) as usize].clone();
                    if self.bad.contains(&node) {
                        job.phase = over(JobState::Failed, now);
                    } else {
                        let silent = rng.chance(faults.no_pilot);
                        job.phase = Phase::Running { since: now, silent };
                        if !silent {
                            for number in 0..job.spec.workers_per_job {
                                self.pilots += 1;
                                let at = now + rng.within(1_000, 20_000);
                                let name = job.fleet.pilot(job.id, number);
                                job.pilots
                                    .push(Pilot::new(name, self.pilots, &job.spec, at));
                            }
                        }
                    }
                    job.node = Some(node);
                }
                Phase::Running { since, silent } => {
                    let limit = job.spec.time_limit.map(|it| since + it.0);
                    if limit.is_some_and(|limit| limit <= now) {
                        job.phase = over(JobState::Ended, now);
                    } else if preempts && rng.chance(faults.preempted) {
                        job.phase = over(JobState::Preempted, now);
                    } else if !silent && job.pilots.iter().all(|it| it.ended) {
                        job.phase = over(JobState::Ended, now);
                    }
                }
                Phase::Ending { at } if at <= now => job.phase = over(JobState::Ended, now),
                _ => {}
            }
            match job.phase {
                Phase::Over { .. } if job.contained => job.pilots.clear(),
                Phase::Over { .. } => job.pilots.iter_mut().for_each(|it| it.orphan(now)),
                _ => {}
            }
        }
    }

    /// Workers of a fleet that exist or may come to be, two jobs of one request counted once.
    pub(super) fn workers(&self, fleet: &FleetName) -> u32 {
        let alive = self
            .jobs
            .iter()
            .filter(|it| it.fleet == *fleet && it.is_alive());
        let requests: std::collections::BTreeMap<&str, u32> = alive
            .map(|it| (it.name.as_str(), it.spec.workers_per_job))
            .collect();
        requests.values().sum()
    }
}

const fn over(state: JobState, at: u64) -> Phase {
    Phase::Over { state, at }
}
