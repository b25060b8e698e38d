//! Definitions that the plan cannot run.

use super::*;
use crate::plan::SpecError;

fn refused(processes: Vec<ProcessSpec>) -> SpecError {
    Plan::new(Arc::new(task(processes)), now(0)).unwrap_err()
}

fn name(name: &str) -> ProcessName {
    ProcessName(name.to_owned())
}

#[test]
fn a_cycle_is_refused() {
    let error = refused(vec![
        process("start"),
        after("a", &["start", "c"]),
        after("b", &["a"]),
        after("c", &["b"]),
    ]);
    assert_eq!(error, SpecError::Cycle(name("a")));
    let own = refused(vec![after("a", &["a"])]);
    assert_eq!(own, SpecError::Cycle(name("a")));
}

#[test]
fn names_must_be_known_and_unique() {
    let error = refused(vec![after("a", &["b"])]);
    assert_eq!(error, SpecError::UnknownName(name("a"), name("b")));
    let error = refused(vec![process("a"), process("a")]);
    assert_eq!(error, SpecError::DuplicateName(name("a")));
}

#[test]
fn the_end_of_a_daemon_cannot_be_waited_for_but_its_start_can() {
    let mut daemon = process("d");
    daemon.daemon = true;
    let error = refused(vec![daemon.clone(), after("a", &["d"])]);
    assert_eq!(error, SpecError::EndOfDaemon(name("a"), name("d")));
    let mut a = process("a");
    a.after = vec![on("d", Condition::Healthy)];
    assert!(Plan::new(Arc::new(task(vec![daemon, a])), now(0)).is_ok());
}

#[test]
fn only_an_ephemeral_process_may_depend_on_an_ephemeral_one() {
    let mut ephemeral = process("e");
    ephemeral.ephemeral = true;
    let error = refused(vec![ephemeral.clone(), after("a", &["e"])]);
    assert_eq!(error, SpecError::OnEphemeral(name("a"), name("e")));
    let mut follower = after("f", &["e"]);
    follower.ephemeral = true;
    assert!(Plan::new(Arc::new(task(vec![ephemeral, follower])), now(0)).is_ok());
}

#[test]
fn final_and_regular_do_not_mix() {
    let error = refused(vec![process("a"), last("x", &["a"])]);
    assert_eq!(error, SpecError::AcrossPlans(name("x"), name("a")));
    let error = refused(vec![last("x", &[]), after("a", &["x"])]);
    assert_eq!(error, SpecError::AcrossPlans(name("a"), name("x")));
}
