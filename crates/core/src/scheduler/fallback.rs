//! Fallback of attempts between fleets: an attempt does not go where its request, which has grown, can never fit.

use baton_model::fact::NextAttempt;
use baton_model::fleet::Fleet;
use baton_model::placement::{Constraint, FLEET_LABEL, Rule};
use baton_model::spec::{Allowance, InstanceSpec};

use super::bullpen::{resource_request, time_needed};
use crate::fleet::labelled;
use crate::ledger::Fleets;
use crate::placement::{Demand, JobShape, misfit_of};

/// Moves the next attempt to the first of the fallbacks that are left whose fleets can run it. Where none can, it
/// stays: the reason for its wait names its own fleet.
pub(super) fn leave_small_fleets(fleets: &Fleets, spec: &InstanceSpec, next: &mut NextAttempt) {
    let Some(allowance) = &mut next.allowance else {
        return;
    };
    let places = &spec.retry.fallback;
    let here = allowance
        .constraints
        .as_ref()
        .unwrap_or(&spec.request.constraints);
    if fits(fleets, spec, allowance, here) {
        return;
    }
    let passed = places.iter().position(|place| place == here);
    let left = &places[passed.map_or(0, |at| at + 1)..];
    if let Some(place) = left
        .iter()
        .find(|place| fits(fleets, spec, allowance, place))
    {
        allowance.constraints = Some(place.clone());
    }
}

/// False if the constraints name fleets that are all too small.
fn fits(
    fleets: &Fleets,
    spec: &InstanceSpec,
    allowance: &Allowance,
    constraints: &[Constraint],
) -> bool {
    let named = constraints
        .iter()
        .find_map(|constraint| match &constraint.rule {
            Rule::OneOf(names) if constraint.label == FLEET_LABEL => Some(names),
            _ => None,
        });
    let Some(names) = named else {
        return true;
    };
    let mut request = resource_request(spec, allowance);
    request.constraints = constraints.to_vec();
    let time = time_needed(spec, allowance);
    let can_run = |fleet: &Fleet| {
        let demand = Demand {
            request: &request,
            limits: &[],
            time,
            nodes: spec.nodes.get(),
        };
        let shape = labelled(&fleet.name, &fleet.spec.shape);
        let job = JobShape {
            worker: &shape,
            workers: fleet.spec.workers_per_job,
            time_limit: fleet.spec.time_limit,
        };
        misfit_of(&demand, job).is_none()
    };
    let known: Vec<&Fleet> = fleets
        .iter()
        .filter(|fleet| names.contains(fleet.name.as_str()))
        .collect();
    // An unknown fleet may be created later.
    known.is_empty() || known.into_iter().any(can_run)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use baton_model::fact::Fact;
    use baton_model::fleet::{Backend, FleetSpec, Shape};
    use baton_model::placement::Capacity;
    use baton_model::spec::{GrownRequest, ScaledRequest};
    use baton_model::time::Millis;

    use super::*;
    use crate::ledger::Ledger;

    /// Fleets with workers of so many cores, whose jobs last so many seconds.
    fn ledger(fleets: &[(&str, u64, u64)]) -> Ledger {
        let mut ledger = Ledger::default();
        for (name, cores, seconds) in fleets {
            let capacity = Capacity {
                cpu_milli: cores * 1_000,
                ..Capacity::default()
            };
            let spec = FleetSpec {
                backend: Backend::Local,
                shape: Shape {
                    capacity,
                    ..Shape::default()
                },
                workers_per_job: 1,
                min: 0,
                max: 1,
                backlog: 1,
                time_limit: Some(Millis::from_secs(*seconds)),
                idle_timeout: Millis::from_secs(60),
                before: None,
                after: None,
                worker_args: Vec::new(),
            };
            let fact = Fact::FleetDefined {
                fleet: name.parse().expect("a name"),
                spec: Arc::new(spec),
                file: None,
            };
            ledger.apply(&fact).expect("a new fleet");
        }
        ledger
    }

    fn place(fleet: &str) -> Vec<Constraint> {
        vec![Constraint {
            label: FLEET_LABEL.to_owned(),
            rule: Rule::OneOf([fleet.to_owned()].into()),
        }]
    }

    /// The fleet of an attempt that falls back to `here` with so many cores and seconds.
    fn next(ledger: &Ledger, here: &str, cores: u64, seconds: u64) -> Option<Vec<Constraint>> {
        let mut spec = InstanceSpec::default();
        spec.request.constraints = place("a");
        spec.retry.fallback = vec![place("b"), place("c")];
        let grown = |request, amount| GrownRequest {
            request,
            amount,
            step: 0,
        };
        let allowance = Allowance {
            constraints: (here != "a").then(|| place(here)),
            requests: vec![
                grown(ScaledRequest::Cpu, cores * 1_000),
                grown(ScaledRequest::Time, seconds * 1_000),
            ],
            ..spec.allowance()
        };
        let mut next = NextAttempt {
            not_before: None,
            allowance: Some(allowance),
        };
        leave_small_fleets(ledger.fleets(), &spec, &mut next);
        next.allowance?.constraints
    }

    #[test]
    fn an_attempt_skips_fleets_that_are_too_small_or_too_short() {
        let ledger = ledger(&[("a", 1, 60), ("b", 2, 60), ("c", 4, 600)]);
        assert_eq!(next(&ledger, "a", 1, 10), None, "it fits");
        assert_eq!(next(&ledger, "b", 2, 10), Some(place("b")));
        assert_eq!(next(&ledger, "b", 3, 10), Some(place("c")));
        assert_eq!(next(&ledger, "b", 1, 61), Some(place("c")));
        assert_eq!(next(&ledger, "a", 2, 10), Some(place("b")));
        assert_eq!(next(&ledger, "a", 4, 10), Some(place("c")));
    }

    #[test]
    fn it_stays_where_nothing_is_larger_or_nothing_is_known() {
        let small = ledger(&[("a", 1, 60), ("b", 2, 60), ("c", 2, 60)]);
        assert_eq!(next(&small, "b", 8, 10), Some(place("b")));
        assert_eq!(next(&small, "c", 8, 10), Some(place("c")));
        let unknown = ledger(&[("a", 1, 60), ("c", 1, 60)]);
        assert_eq!(next(&unknown, "b", 8, 10), Some(place("b")));
    }
}
