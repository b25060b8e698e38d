//! Checks in virtual time.

use baton_model::task::{CommandLine, ProcessNo, RunNo};

use super::*;

const INTERVAL: u64 = 10;
const TIMEOUT: u64 = 3;

fn run(process: u32) -> RunKey {
    RunKey {
        process: ProcessNo(process),
        run: RunNo(0),
    }
}

fn check(delay: u64, successes_min: u32, failures_max: u32) -> Check {
    Check {
        probe: Probe::Tcp { port: 80 },
        delay: Millis(delay),
        interval: Millis(INTERVAL),
        timeout: Millis(TIMEOUT),
        successes_min,
        failures_max,
    }
}

fn spec(ready: Option<Check>, health: Option<Check>) -> ProcessSpec {
    ProcessSpec {
        ready,
        health,
        ..ProcessSpec::new("a", CommandLine::Shell("true".to_owned()))
    }
}

fn started(spec: &ProcessSpec) -> Checks {
    let mut checks = Checks::default();
    checks.start(Mono(100), run(0), spec, Mono(100), false);
    checks
}

/// The only probe that is due.
fn one(checks: &mut Checks, now: u64) -> ProbeRequest {
    let due = checks.due(Mono(now));
    assert_eq!(due.verdicts, []);
    let [only] = <[ProbeRequest; 1]>::try_from(due.requests).expect("one try");
    only
}

/// Answers the next probe at its time with this result.
fn next(checks: &mut Checks, well: bool) -> Option<Verdict> {
    let at = checks.next_due().expect("something to try");
    let id = one(checks, at.0).id;
    checks.result(at, id, well)
}

#[test]
fn the_first_probe_is_sent_after_the_delay_from_the_start() {
    let mut checks = started(&spec(None, Some(check(50, 1, 0))));
    assert_eq!(checks.next_due(), Some(Mono(150)));
    assert_eq!(checks.due(Mono(149)), DueChecks::default());
    let first = one(&mut checks, 150);
    assert_eq!(first.run, run(0));
    assert_eq!(first.purpose, Purpose::Health);
    assert_eq!(first.probe, Probe::Tcp { port: 80 });
    assert_eq!(first.timeout, Millis(TIMEOUT));
}

#[test]
fn the_delay_of_a_run_taken_over_counts_from_its_start() {
    let mut checks = Checks::default();
    let spec = spec(None, Some(check(50, 1, 0)));
    checks.start(Mono(120), run(0), &spec, Mono(100), false);
    checks.start(Mono(900), run(1), &spec, Mono(100), false);
    assert_eq!(checks.next_due(), Some(Mono(150)));
    one(&mut checks, 150);
    assert_eq!(one(&mut checks, 900).run, run(1));
}

#[test]
fn the_next_probe_starts_an_interval_after_the_end_of_the_last() {
    let mut checks = started(&spec(None, Some(check(0, 1, 0))));
    let first = one(&mut checks, 100);
    assert_eq!(
        checks.due(Mono(102)),
        DueChecks::default(),
        "never two at once"
    );
    assert_eq!(checks.result(Mono(102), first.id, true), None);
    assert_eq!(checks.next_due(), Some(Mono(102 + INTERVAL)));
    assert_ne!(one(&mut checks, 102 + INTERVAL).id, first.id);
}

#[test]
fn ready_is_reported_once_after_enough_successes_in_a_row() {
    let mut checks = started(&spec(Some(check(0, 3, 0)), None));
    for well in [true, true, false, true, true] {
        assert_eq!(next(&mut checks, well), None);
    }
    assert_eq!(next(&mut checks, true), Some(Verdict::Ready(run(0))));
    assert_eq!(checks.next_due(), None, "the readiness check is over");
}

#[test]
fn failing_to_be_ready_only_keeps_a_run_unready() {
    let mut checks = started(&spec(Some(check(0, 1, 0)), Some(check(0, 1, 0))));
    for _ in 0..100 {
        assert_eq!(next(&mut checks, false), None);
    }
    assert_eq!(next(&mut checks, true), Some(Verdict::Ready(run(0))));
}

#[test]
fn unhealthy_is_reported_once_after_more_failures_in_a_row_than_allowed() {
    let mut checks = started(&spec(None, Some(check(0, 5, 2))));
    for well in [false, false, true, false, false] {
        assert_eq!(next(&mut checks, well), None);
    }
    assert_eq!(next(&mut checks, false), Some(Verdict::Unhealthy(run(0))));
    assert_eq!(checks.next_due(), None);
}

#[test]
fn no_failures_allowed_means_that_the_first_one_counts() {
    let mut checks = started(&spec(None, Some(check(0, 1, 0))));
    assert_eq!(next(&mut checks, true), None);
    assert_eq!(next(&mut checks, false), Some(Verdict::Unhealthy(run(0))));
}

#[test]
fn health_is_not_probed_before_the_run_is_ready() {
    let mut checks = started(&spec(Some(check(0, 1, 0)), Some(check(5, 1, 0))));
    for _ in 0..3 {
        assert_eq!(next(&mut checks, false), None);
    }
    let last = one(&mut checks, 130);
    assert_eq!(last.purpose, Purpose::Ready);
    assert!(checks.result(Mono(131), last.id, true).is_some());
    assert_eq!(one(&mut checks, 131).purpose, Purpose::Health);
}

#[test]
fn being_ready_early_does_not_shorten_the_delay_of_the_health_check() {
    let mut checks = started(&spec(Some(check(0, 1, 0)), Some(check(500, 1, 0))));
    assert!(next(&mut checks, true).is_some());
    assert_eq!(checks.next_due(), Some(Mono(600)));
}

#[test]
fn a_run_that_was_ready_before_goes_straight_to_its_health_check() {
    let mut checks = Checks::default();
    let spec = spec(Some(check(0, 1, 0)), Some(check(0, 1, 0)));
    checks.start(Mono(900), run(0), &spec, Mono(100), true);
    assert_eq!(one(&mut checks, 900).purpose, Purpose::Health);
    assert_eq!(checks.due(Mono(900)), DueChecks::default());
}

#[test]
fn a_run_without_checks_costs_nothing() {
    assert_eq!(started(&spec(None, None)).next_due(), None);
}

#[test]
fn a_probe_without_an_answer_counts_as_failed() {
    let mut checks = started(&spec(None, Some(check(0, 1, 1))));
    let first = one(&mut checks, 100);
    let given_up = 100 + TIMEOUT + ANSWER_SLACK.0;
    assert_eq!(checks.next_due(), Some(Mono(given_up)));
    assert_eq!(checks.due(Mono(given_up)), DueChecks::default());
    assert_eq!(
        checks.result(Mono(given_up), first.id, true),
        None,
        "too late"
    );
    assert_eq!(checks.next_due(), Some(Mono(given_up + INTERVAL)));

    let second = one(&mut checks, given_up + INTERVAL);
    let end = checks.next_due().expect("the end of the try");
    let due = checks.due(end);
    assert_eq!(due.verdicts, [Verdict::Unhealthy(run(0))]);
    assert_eq!(due.requests, []);
    assert_eq!(checks.result(end, second.id, true), None);
    assert_eq!(checks.next_due(), None);
}

#[test]
fn an_answer_within_the_slack_counts_as_it_is() {
    let mut checks = started(&spec(None, Some(check(0, 1, 0))));
    let first = one(&mut checks, 100);
    let late = Mono(100 + TIMEOUT + ANSWER_SLACK.0 - 1);
    assert_eq!(checks.due(late), DueChecks::default());
    assert_eq!(checks.result(late, first.id, true), None);
    assert_eq!(checks.next_due(), Some(late + Millis(INTERVAL)));
}

#[test]
fn an_answer_that_waited_for_a_stopped_runner_still_counts() {
    let mut checks = started(&spec(None, Some(check(0, 1, 0))));
    let first = one(&mut checks, 100);
    let much_later = Mono(1_000_000);
    assert_eq!(checks.result(much_later, first.id, true), None);
    assert_eq!(checks.due(much_later), DueChecks::default());
}

#[test]
fn an_answer_counts_once_and_an_unknown_one_never() {
    let mut checks = started(&spec(None, Some(check(0, 1, 1))));
    let first = one(&mut checks, 100);
    assert_eq!(checks.result(Mono(100), first.id + 1, false), None);
    assert_eq!(checks.result(Mono(100), first.id, false), None);
    assert_eq!(checks.result(Mono(100), first.id, false), None);
    assert_eq!(next(&mut checks, true), None);
}

#[test]
fn a_run_that_is_over_gets_no_verdict() {
    let mut checks = started(&spec(Some(check(0, 1, 0)), Some(check(0, 1, 0))));
    let ready = one(&mut checks, 100);
    checks.stop(run(0));
    assert_eq!(checks.result(Mono(101), ready.id, true), None);
    assert_eq!(checks.next_due(), None);
    assert_eq!(checks.due(Mono(1_000_000)), DueChecks::default());
}

#[test]
fn stopping_one_run_leaves_the_others_alone() {
    let spec = spec(None, Some(check(0, 1, 0)));
    let mut checks = started(&spec);
    checks.start(Mono(100), run(1), &spec, Mono(100), false);
    let requests = checks.due(Mono(100)).requests;
    assert_eq!(requests.len(), 2);
    checks.stop(run(0));
    assert_eq!(
        checks.result(Mono(101), requests[1].id, false),
        Some(Verdict::Unhealthy(run(1)))
    );
}

#[test]
fn starting_a_run_again_begins_its_checks_anew() {
    let spec = spec(None, Some(check(0, 1, 1)));
    let mut checks = started(&spec);
    assert_eq!(next(&mut checks, false), None);
    let stale = one(&mut checks, 110);
    checks.start(Mono(111), run(0), &spec, Mono(100), false);
    assert_eq!(checks.result(Mono(111), stale.id, false), None);
    assert_eq!(next(&mut checks, false), None, "counted from zero");
    assert_eq!(next(&mut checks, false), Some(Verdict::Unhealthy(run(0))));
}

#[test]
fn ids_of_a_restarted_runner_are_different() {
    let spec = spec(None, Some(check(0, 1, 0)));
    let mut earlier = started(&spec);
    let mut used = Vec::new();
    for _ in 0..50 {
        let at = earlier.next_due().expect("something to try");
        used.push(one(&mut earlier, at.0).id);
        earlier.result(at, used[used.len() - 1], true);
    }
    let now = earlier.next_due().expect("something to try");
    let mut later = Checks::default();
    later.start(now, run(0), &spec, Mono(100), false);
    assert!(!used.contains(&one(&mut later, now.0).id));
}

#[test]
fn checks_due_together_are_sent_in_the_order_of_the_runs() {
    let spec = spec(None, Some(check(0, 1, 0)));
    let mut checks = Checks::default();
    for process in [2, 0, 1] {
        checks.start(Mono(100), run(process), &spec, Mono(100), false);
    }
    let runs: Vec<RunKey> = checks
        .due(Mono(100))
        .requests
        .iter()
        .map(|t| t.run)
        .collect();
    assert_eq!(runs, [run(0), run(1), run(2)]);
}

#[test]
fn spans_without_end_do_not_wrap_around() {
    let never = Check {
        delay: Millis(u64::MAX),
        ..check(0, 1, 0)
    };
    let checks = started(&spec(None, Some(never)));
    assert_eq!(checks.next_due(), Some(Mono(u64::MAX)));
}
