//! The trait of all drivers.

use baton_model::fleet::{FleetName, FleetSpec, JobSighting, Trial, Verdict};
use baton_model::ids::JobId;

use crate::exec::ExecError;
use crate::site::Site;

/// A submission without an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// The manager has certainly not taken the job.
    Refused(String),
    /// It may have.
    Unclear(String),
}

impl From<ExecError> for SubmitError {
    fn from(error: ExecError) -> Self {
        match error {
            ExecError::NotStarted(reason) => Self::Refused(reason),
            ExecError::NoAnswer(reason) => Self::Unclear(reason),
        }
    }
}

/// A job to submit.
#[derive(Clone, Copy, Debug)]
pub struct JobRequest<'a> {
    pub id: JobId,
    /// The name that finds it again.
    pub name: &'a str,
    /// Nodes that are to be avoided.
    pub excluded: &'a [String],
}

/// The calls of one fleet's cluster manager.
pub trait Driver {
    /// Submits a job, and returns its native id.
    ///
    /// # Errors
    /// If it was refused, or it is unclear whether it was taken.
    fn submit(&self, job: JobRequest<'_>) -> Result<String, SubmitError>;

    /// Asks the manager whether it would take a job. Nothing is submitted.
    fn try_out(&self, _job: JobRequest<'_>) -> Trial {
        Trial {
            verdict: Verdict::Untried,
            text: "this backend cannot try a job without starting it".to_owned(),
        }
    }

    /// Lists the jobs of the fleet, also those that have ended lately where the manager knows them.
    ///
    /// # Errors
    /// If the list is not complete.
    fn list(&self) -> Result<Vec<JobSighting>, String>;

    /// Cancels jobs, by native id and name; without an id, the name finds them.
    ///
    /// # Errors
    /// If an order may not have been taken. It is no error if a job is over or unknown.
    fn cancel(&self, jobs: &[(String, String)]) -> Result<(), String>;
}

/// A fleet as its driver sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fleet<'a> {
    pub(crate) name: &'a FleetName,
    pub(crate) spec: &'a FleetSpec,
    pub(crate) site: &'a Site,
}
