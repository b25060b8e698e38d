//! What `explain` says of fleets.

use super::*;

/// What an instance waits for.
fn waits(rig: &Rig, instance: u64) -> crate::wait::Wait {
    let standing = rig
        .leader
        .core
        .explain(InstanceId(instance), rig.leader.clock());
    let standing = standing.expect("it is in flight");
    standing.wait().expect("it waits").clone()
}

#[test]
fn explain_tells_what_a_fleet_does_and_why_no_more() {
    let mut rig = Rig::new(1, 3, 4);
    rig.submitted(1);
    rig.show(1, "n1", JobState::Queued, "PENDING");
    rig.shown[0].reason = Some("Priority".to_owned());
    rig.run(20);
    let wait = waits(&rig, 1);
    let text = wait.text();
    let expected = "1 job of fleet gpu is queued in Slurm (Priority), for ";
    assert!(text.contains(expected), "{text}");
    assert!(
        !text.contains("baton worker"),
        "the fleet brings one: {text}"
    );
    assert_eq!(wait.fleets[0].word(), "queued");
    assert!(wait.fleets[0].since().is_some());
    rig.show(1, "n1", JobState::Running, "RUNNING");
    rig.run(20);
    assert_eq!(waits(&rig, 1).fleets[0].word(), "starting");
    rig.arrive(1);
    rig.run(20);
    let text = waits(&rig, 3).text();
    let expected = "fleet gpu has reached `max` (1 of 1 workers)";
    assert!(text.contains(expected), "{text}");
    assert_eq!(rig.command(FleetCommand::Pause { name: name() }), Ok(()));
    rig.run(4);
    let text = waits(&rig, 3).text();
    let expected = "fleet gpu is paused: `baton fleet resume gpu`";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn explain_tells_when_a_failing_fleet_tries_again() {
    let mut rig = Rig::new(1, 3, 4);
    let (fleet, job) = (name(), JobId(1));
    let reason = "invalid partition".to_owned();
    rig.answer(FleetAnswer::Refused { fleet, job, reason });
    rig.run(6);
    let wait = waits(&rig, 1);
    assert_eq!(wait.fleets[0].word(), "failing", "{:?}", wait.fleets);
    let text = wait.text();
    let expected = "the next trial of fleet gpu is in 2";
    assert!(text.contains(expected), "{text}");
    let expected = " s, because its last job has failed (invalid partition)";
    assert!(text.contains(expected), "{text}");
}
