//! Containment of processes: whether any can outlive its job.
//!
//! With `proctrack/cgroup` Slurm ends everything that a job has started. With the others, `linuxproc` and `pgid`, a
//! process that has left its session or its parent runs on, unseen; so does the coordinator of a worker whose agent was
//! killed. Then the end of a job proves nothing about its attempts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::exec::{ExecError, Output};

/// How long an answer holds. To change the setting, an administrator restarts the daemons of all nodes.
const KNOWN_FOR: Duration = Duration::from_secs(10 * 60);

/// The last answer, shared by all calls of a scheduler: a list is not to cost two calls of the controller.
#[derive(Clone, Debug, Default)]
pub struct Containment(Arc<Mutex<Option<(Instant, bool)>>>);

impl Containment {
    /// Whether processes end with their job, as far as is known; asks if that was long ago.
    pub(super) fn is_known(&self, ask: impl FnOnce() -> Result<Output, ExecError>) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, contained)) = *known
            && at.elapsed() < KNOWN_FOR
        {
            return contained;
        }
        let answer = ask().ok().and_then(|output| contained(&output));
        *known = answer.map(|it| (Instant::now(), it));
        answer.unwrap_or(false)
    }
}

/// What `scontrol show config` tells; none if that is nothing.
pub(super) fn contained(output: &Output) -> Option<bool> {
    if output.code != 0 {
        return None;
    }
    let mut settings = output.out.lines().filter_map(|it| it.split_once('='));
    let (_, plugin) = settings.find(|(name, _)| name.trim() == "ProctrackType")?;
    Some(plugin.trim() == "proctrack/cgroup")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(out: &str) -> Result<Output, ExecError> {
        Ok(Output {
            code: 0,
            out: out.to_owned(),
            err: String::new(),
        })
    }

    #[test]
    fn only_cgroups_contain_and_an_answer_is_kept() {
        let unasked = || panic!("it is known");
        let cgroup =
            "PrologFlags             = (null)\nProctrackType           = proctrack/cgroup\n";
        let containment = Containment::default();
        assert!(containment.is_known(|| answer(cgroup)));
        assert!(containment.clone().is_known(unasked));
        let containment = Containment::default();
        assert!(!containment.is_known(|| answer(&cgroup.replace("cgroup", "linuxproc"))));
        assert!(!containment.is_known(unasked));
    }

    #[test]
    fn without_an_answer_nothing_is_contained_and_the_next_call_asks_again() {
        let containment = Containment::default();
        assert!(!containment.is_known(|| Err(ExecError::NoAnswer("timed out".to_owned()))));
        assert!(!containment.is_known(|| answer("")));
        assert!(containment.is_known(|| answer("ProctrackType = proctrack/cgroup")));
    }
}
