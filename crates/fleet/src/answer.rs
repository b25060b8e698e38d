//! Calls of a fleet's backend, carried out by its driver, and the answers that follow.

use std::sync::Arc;

use baton_model::fleet::{
    Backend, FleetAnswer, FleetCall, FleetName, FleetSpec, JobSighting, Trial,
};
use baton_model::ids::JobId;

use crate::commands::Commands;
use crate::driver::{Driver, Fleet, JobRequest, SubmitError};
use crate::hosts::{Local, Ssh};
use crate::site::Site;
use crate::slurm::{self, Slurm};
use crate::token::{self, TokenStore};

/// Carries out a call. It blocks, for about the time limit of a command per command.
#[must_use]
pub fn answer(call: &FleetCall, site: &Site, tokens: &dyn TokenStore) -> FleetAnswer {
    match call {
        FleetCall::Submit {
            fleet,
            job,
            name,
            spec,
            excluded,
        } => {
            let request = JobRequest {
                id: *job,
                name,
                excluded,
            };
            let submitted = check(site, fleet, request)
                .and_then(|()| with_driver(fleet, spec, site, |driver| driver.submit(request)));
            let (fleet, job) = (fleet.clone(), *job);
            match submitted {
                Ok(native) => FleetAnswer::Submitted { fleet, job, native },
                Err(SubmitError::Refused(reason)) => FleetAnswer::Refused { fleet, job, reason },
                Err(SubmitError::Unclear(reason)) => FleetAnswer::Unclear { fleet, job, reason },
            }
        }
        FleetCall::List { fleet, spec } => {
            let listed = with_driver(fleet, spec, site, |driver| driver.list());
            listing(fleet, listed)
        }
        FleetCall::Token {
            fleet,
            call,
            until,
            enough,
            ..
        } => {
            let provided = token::provide(tokens, site, fleet, *until, *enough);
            let (fleet, call) = (fleet.clone(), *call);
            match provided {
                Ok(until) => FleetAnswer::TokenReady { fleet, call, until },
                Err(reason) => FleetAnswer::TokenFailed {
                    fleet,
                    call,
                    reason,
                },
            }
        }
        FleetCall::Cancel { fleet, spec, jobs } => {
            // What has another name is not Baton's to cancel.
            let is_ours = |(_, name): &&(String, String)| site.job_of(fleet, name).is_some();
            let jobs: Vec<_> = jobs.iter().filter(is_ours).cloned().collect();
            let cancelled = with_driver(fleet, spec, site, |driver| driver.cancel(&jobs));
            let fleet = fleet.clone();
            match cancelled {
                Ok(()) => FleetAnswer::Cancelled { fleet },
                Err(reason) => FleetAnswer::CancelFailed { fleet, reason },
            }
        }
    }
}

/// Asks the manager of a fleet that need not be defined whether it would take a job.
#[must_use]
pub fn try_out(fleet: &FleetName, spec: &FleetSpec, site: &Site) -> Trial {
    let job = JobRequest {
        id: JobId(0),
        name: "baton-trial",
        excluded: &[],
    };
    with_driver(fleet, spec, site, |driver| driver.try_out(job))
}

/// Lists several fleets, those of Slurm with one `squeue` together: its controller answers one
/// call for all jobs as easily as one for a few. The answers are in the order of the fleets.
#[must_use]
pub fn list_together(fleets: &[(FleetName, Arc<FleetSpec>)], site: &Site) -> Vec<FleetAnswer> {
    let mut of_slurm = None;
    let list = |(fleet, spec): &(FleetName, Arc<FleetSpec>)| {
        if !matches!(spec.backend, Backend::Slurm(_)) {
            let listed = with_driver(fleet, spec, site, |driver| driver.list());
            return listing(fleet, listed);
        }
        let all = of_slurm.get_or_insert_with(|| slurm::list_all(site));
        let listed = match all {
            Ok(jobs) => Ok(slurm::of_fleet(jobs, fleet, site)),
            Err(reason) => Err(reason.clone()),
        };
        listing(fleet, listed)
    };
    fleets.iter().map(list).collect()
}

fn listing(fleet: &FleetName, listed: Result<Vec<JobSighting>, String>) -> FleetAnswer {
    let fleet = fleet.clone();
    match listed {
        Ok(jobs) => FleetAnswer::Listed { fleet, jobs },
        Err(reason) => FleetAnswer::ListFailed { fleet, reason },
    }
}

/// Checks what every driver relies on.
fn check(site: &Site, fleet: &FleetName, job: JobRequest<'_>) -> Result<(), SubmitError> {
    if site.job_of(fleet, job.name) != Some(job.id) {
        return Err(SubmitError::Refused(format!(
            "`{}` is not a name of job {} of fleet {fleet} in the store {}",
            job.name, job.id, site.store
        )));
    }
    site.check_token(fleet).map_err(SubmitError::Refused)
}

fn with_driver<T>(
    name: &FleetName,
    spec: &FleetSpec,
    site: &Site,
    call: impl FnOnce(&dyn Driver) -> T,
) -> T {
    let fleet = Fleet { name, spec, site };
    match &spec.backend {
        Backend::Local => call(&Local(fleet)),
        Backend::Slurm(options) => call(&Slurm { fleet, options }),
        Backend::Ssh(options) => call(&Ssh { fleet, options }),
        Backend::Command(options) => call(&Commands { fleet, options }),
    }
}
