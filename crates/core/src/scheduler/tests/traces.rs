//! The span that the processes of an attempt get, and tallies by owner and entry.

use baton_model::trace::TraceContext;

use super::*;
use crate::trace::{Sampling, Trace};

const SUBMITTER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A leader with one worker.
fn rig(tracing: Option<Sampling>) -> (Leader, Remote) {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    leader.core.config.tracing = tracing;
    let mut worker = Remote::new("w", 7, 1);
    leader.welcome(&mut worker, &[]);
    (leader, worker)
}

fn submitted(trace: Option<TraceContext>) -> InstanceSpec {
    InstanceSpec {
        name: "task".to_owned(),
        owner: "lab".to_owned(),
        trace,
        ..InstanceSpec::default()
    }
}

fn launches(effects: &[Effect]) -> Vec<Launch> {
    let launches = effects.iter().filter_map(|effect| match effect {
        Effect::Send(_, ToWorker::RunTask { launches, .. }) => Some(launches.clone()),
        _ => None,
    });
    launches.flatten().collect()
}

#[test]
fn an_attempt_gets_its_span_and_elements_share_their_spec() {
    let (mut leader, _) = rig(Some(Sampling::ALL));
    let parent = SUBMITTER.parse().expect("valid");
    let store = leader.core.ledger().identity().store;
    for (id, trace) in [(1, None), (2, Some(parent))] {
        let spec = submitted(trace);
        let launches = launches(&leader.submit_as(id, submission(&spec, None)));
        assert_eq!(launches.len(), 1);
        let lease = launches[0].lease;
        let expected = Trace::of(store, lease.attempt.instance, &spec, Sampling::ALL);
        assert_eq!(launches[0].trace, Some(expected.attempt(lease)));
        assert_eq!(*launches[0].spec, spec, "its variable is not part of it");
    }
}

#[test]
fn without_traces_an_attempt_gets_the_span_of_its_submitter() {
    let (mut leader, _) = rig(None);
    let parent = SUBMITTER.parse().expect("valid");
    for (id, trace) in [(1, None), (2, Some(parent))] {
        let spec = submitted(trace);
        let launches = launches(&leader.submit_as(id, submission(&spec, None)));
        assert_eq!(launches[0].trace, trace);
    }
}

#[test]
fn ends_count_for_their_owner_and_entry() {
    let (mut leader, worker) = rig(None);
    let ends = [Outcome::Exited(0), Outcome::Exited(1), Outcome::Exited(0)];
    for (id, outcome) in (1..).zip(ends) {
        let spec = submitted(None);
        let launches = launches(&leader.submit_as(id, submission(&spec, None)));
        let statuses = vec![(launches[0].lease, Status::Ended(outcome.into()))];
        leader.give(Input::Message(ToScheduler::UpdateStatus {
            association: worker.association(),
            statuses,
        }));
    }
    let tallies: Vec<_> = leader.core.tallies().collect();
    assert_eq!(tallies.len(), 1);
    let (owner, entry, tally) = tallies[0];
    assert_eq!((owner, entry), ("lab", "task"));
    assert_eq!((tally.instances_done, tally.instances_failed), (2, 1));
}
