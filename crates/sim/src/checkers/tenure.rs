//! Work and the end of its worker.

use baton_model::ids::LeaseId;
use baton_model::task::{RunKey, RunNo};
use baton_model::time::Millis;

use super::Violation;

/// Checks that a worker starts an attempt only if it has the time that the attempt needs.
///
/// # Errors
/// [`Violation`] if it has not.
pub fn fits(
    lease: LeaseId,
    run: RunKey,
    needed: Option<Millis>,
    left: Option<Millis>,
) -> Result<(), Violation> {
    match (needed, left) {
        (Some(needed), Some(left)) if run.run == RunNo(0) && needed > left => Err(Violation {
            checker: "outlasts-worker",
            what: format!("{lease} needs {needed}, and its worker ends in {left}"),
        }),
        _ => Ok(()),
    }
}
