//! The meaning of all job states, by their long and their short names.

use baton_model::fleet::JobState;

/// All states of Slurm up to 25.05. One that is requeued or held is in the queue again, with its id and
/// name. One that is suspended, stopped or completing still has processes.
const STATES: &[(&str, &str, JobState)] = &[
    ("BF", "BOOT_FAIL", JobState::Failed),
    ("CA", "CANCELLED", JobState::Ended),
    ("CD", "COMPLETED", JobState::Ended),
    // Its nodes boot: no pilot can have come yet.
    ("CF", "CONFIGURING", JobState::Queued),
    ("CG", "COMPLETING", JobState::Running),
    ("DL", "DEADLINE", JobState::Ended),
    ("EX", "EXPEDITING", JobState::Queued),
    ("F", "FAILED", JobState::Failed),
    ("LF", "LAUNCH_FAILED", JobState::Failed),
    ("NF", "NODE_FAIL", JobState::Failed),
    ("OOM", "OUT_OF_MEMORY", JobState::Failed),
    ("PD", "PENDING", JobState::Queued),
    ("PR", "PREEMPTED", JobState::Preempted),
    ("PO", "POWER_UP_NODE", JobState::Queued),
    ("R", "RUNNING", JobState::Running),
    ("RD", "RESV_DEL_HOLD", JobState::Queued),
    ("RF", "REQUEUE_FED", JobState::Queued),
    ("RH", "REQUEUE_HOLD", JobState::Queued),
    ("RQ", "REQUEUED", JobState::Queued),
    ("RS", "RESIZING", JobState::Running),
    // It may run on another cluster of the federation.
    ("RV", "REVOKED", JobState::Unsure),
    ("SI", "SIGNALING", JobState::Running),
    ("SE", "SPECIAL_EXIT", JobState::Queued),
    ("SO", "STAGE_OUT", JobState::Running),
    ("ST", "STOPPED", JobState::Running),
    ("S", "SUSPENDED", JobState::Running),
    ("TO", "TIMEOUT", JobState::Ended),
];

/// The state of a word such as `RUNNING`, `R`, `CANCELLED by 0` or `CANCELLED+`; `Unsure` if it is unknown.
pub(super) fn state(word: &str) -> JobState {
    let word = word.split([' ', '+']).next().unwrap_or_default();
    let mut states = STATES.iter();
    let known = states.find(|(short, long, _)| {
        short.eq_ignore_ascii_case(word) || long.eq_ignore_ascii_case(word)
    });
    known.map_or(JobState::Unsure, |(_, _, state)| *state)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_is_of_one_state() {
        let names: Vec<&str> = STATES.iter().flat_map(|it| [it.0, it.1]).collect();
        let different: BTreeSet<&&str> = names.iter().collect();
        assert_eq!(names.len(), different.len());
        for (short, long, expected) in STATES {
            assert_eq!((state(short), state(long)), (*expected, *expected));
        }
        assert_eq!(state("CANCELLED by 1000"), JobState::Ended);
        assert_eq!(state("CANCELLED+"), JobState::Ended);
    }

    #[test]
    fn an_unknown_state_is_alive_and_unsure() {
        for word in ["", "HIBERNATING", "X", "RUN"] {
            assert_eq!(state(word), JobState::Unsure, "{word}");
            assert!(!state(word).is_over());
        }
    }

    #[test]
    fn a_requeued_or_preempted_job_is_no_failure() {
        for word in ["RQ", "RH", "SE", "RF", "RD", "PREEMPTED"] {
            assert_ne!(state(word), JobState::Failed, "{word}");
        }
    }
}
