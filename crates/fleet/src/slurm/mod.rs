//! Slurm, by its commands: `sbatch`, `squeue` and `scancel`; `scontrol` tells one setting.
//!
//! | module | holds |
//! |---|---|
//! | `containment` | whether processes can outlive a job |
//! | `batch` | the arguments of `sbatch`, and the batch script |
//! | `replies` | the meaning of outputs and error messages |
//! | `states` | the meaning of all job states |
//!
//! Accounting (`sacct`, slurmdbd) is not needed. A list is one `squeue` for all jobs of this user, in
//! all states: it asks by no id, which may be unknown, and by no partition, from which jobs can be moved.

mod batch;
mod containment;
mod replies;
mod states;

use baton_model::fleet::{FleetName, JobSighting, SlurmOptions, Trial, Verdict};

use crate::driver::{Driver, Fleet, JobRequest, SubmitError};
use crate::exec::{ExecError, Invocation, Output};
use crate::site::Site;

pub use containment::Containment;

/// The driver of a fleet of Slurm jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slurm<'a> {
    pub(crate) fleet: Fleet<'a>,
    pub(crate) options: &'a SlurmOptions,
}

impl Driver for Slurm<'_> {
    fn submit(&self, job: JobRequest<'_>) -> Result<String, SubmitError> {
        let site = self.fleet.site;
        let dir = site.make_fleet_dir(self.fleet.name);
        let dir = dir.map_err(SubmitError::Refused)?;
        let output = Invocation::new("sbatch")
            .args(batch::args(self, job, &dir))
            .input(batch::script(self, job));
        let output = self.run(output)?;
        replies::submission(&output)
    }

    fn try_out(&self, job: JobRequest<'_>) -> Trial {
        let dir = self.fleet.site.fleet_path(self.fleet.name);
        let command = Invocation::new("sbatch")
            .arg("--test-only")
            .args(batch::args(self, job, &dir))
            .input(batch::script(self, job));
        match self.run(command) {
            Ok(output) => replies::trial(&output),
            Err(error) => Trial {
                verdict: Verdict::Unclear,
                text: error.reason(),
            },
        }
    }

    fn list(&self) -> Result<Vec<JobSighting>, String> {
        list_all(self.fleet.site).map(|jobs| of_fleet(&jobs, self.fleet.name, self.fleet.site))
    }

    fn cancel(&self, jobs: &[(String, String)]) -> Result<(), String> {
        let is_id = |native: &str| native.starts_with(|c: char| c.is_ascii_digit());
        let (known, unknown): (Vec<_>, Vec<_>) = jobs.iter().partition(|(id, _)| is_id(id));
        let mut commands = Vec::new();
        if !known.is_empty() {
            let ids = known.iter().map(|(id, _)| id.as_str());
            commands.push(Invocation::new("scancel").arg("--").args(ids));
        }
        // One after the other: `scancel` takes one name.
        for (_, name) in unknown {
            let user = format!("--user={}", replies::user());
            let command = Invocation::new("scancel").arg(user);
            commands.push(command.arg(format!("--name={name}")));
        }
        let mut failures = Vec::new();
        for command in commands {
            let output = self.run(command).map_err(ExecError::reason);
            failures.extend(output.and_then(|it| replies::cancel(&it)).err());
        }
        if failures.is_empty() {
            Ok(())
        } else {
            Err(failures.join("; "))
        }
    }
}

impl Slurm<'_> {
    fn run(&self, command: Invocation) -> Result<Output, ExecError> {
        run(self.fleet.site, command)
    }
}

/// All jobs of this user, of all fleets.
pub(crate) fn list_all(site: &Site) -> Result<Vec<JobSighting>, String> {
    let command = Invocation::new("squeue").args(replies::list_args());
    let mut jobs = replies::list(&run(site, command).map_err(ExecError::reason)?)?;
    let is_ours = |job: &&mut JobSighting| job.state.is_over() && job.name.starts_with(&site.store);
    let over: Vec<&mut JobSighting> = jobs.iter_mut().filter(is_ours).collect();
    if !over.is_empty() {
        let ask = || run(site, Invocation::new("scontrol").args(["show", "config"]));
        let contained = site.containment.is_known(ask);
        over.into_iter().for_each(|job| job.contained = contained);
    }
    Ok(jobs)
}

/// Those of them that are of one fleet.
pub(crate) fn of_fleet(jobs: &[JobSighting], fleet: &FleetName, site: &Site) -> Vec<JobSighting> {
    let is_ours = |job: &&JobSighting| site.job_of(fleet, &job.name).is_some();
    jobs.iter().filter(is_ours).cloned().collect()
}

fn run(site: &Site, command: Invocation) -> Result<Output, ExecError> {
    let mut command = command;
    for (name, value) in &site.env {
        command = command.env(name, value);
    }
    command.run(site.timeout)
}
