//! The state of a job from those of its pilots.

use std::collections::BTreeMap;

use baton_model::fleet::{JobSighting, JobState};

use super::assignments::Assignment;
use super::units::UnitSighting;

/// The jobs of the units, each with its host. Of hosts that cannot be reached, the recorded assignments
/// tell which jobs may be alive there.
pub(super) fn jobs(
    units: Vec<(String, UnitSighting)>,
    assigned: &BTreeMap<String, Assignment>,
    errors: &BTreeMap<String, String>,
) -> Vec<JobSighting> {
    let mut jobs: BTreeMap<String, Vec<(String, UnitSighting)>> = BTreeMap::new();
    for (host, unit) in units {
        let name = unit.name.clone();
        jobs.entry(name).or_default().push((host, unit));
    }
    for (name, assignment) in assigned {
        let hosts = assignment.hosts();
        for (host, error) in hosts.filter_map(|it| errors.get_key_value(&it)) {
            let unit = UnitSighting {
                name: name.clone(),
                state: JobState::Unsure,
                word: "unreachable".to_owned(),
                pid: 0,
                reason: Some(error.clone()),
            };
            let units = jobs.entry(name.clone()).or_default();
            units.push((host.clone(), unit));
        }
    }
    jobs.into_iter().map(|(name, it)| job(name, it)).collect()
}

/// A job is in the state of the pilot that is most alive; an unsure one may be.
fn job(name: String, units: Vec<(String, UnitSighting)>) -> JobSighting {
    let rank = |state: JobState| match state {
        JobState::Ended | JobState::Preempted => 0,
        JobState::Failed => 1,
        JobState::Queued => 2,
        JobState::Unsure => 3,
        JobState::Running => 4,
    };
    let native: Vec<String> = units
        .iter()
        .map(|(host, unit)| format!("{host}:{}", unit.pid))
        .collect();
    let mut nodes: Vec<String> = units.iter().map(|(host, _)| host.clone()).collect();
    nodes.dedup();
    let first = units.into_iter().max_by_key(|(_, unit)| rank(unit.state));
    let (state, word, reason) = match first {
        Some((_, unit)) => (unit.state, unit.word, unit.reason),
        None => (JobState::Unsure, String::new(), None),
    };
    JobSighting {
        native: native.join(","),
        name,
        state,
        word,
        reason,
        nodes,
        // What a dead worker has started may run on.
        contained: false,
    }
}
