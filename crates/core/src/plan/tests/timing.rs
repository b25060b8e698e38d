//! Pauses and timeouts.

use super::*;
use baton_model::task::{Backoff, RunEnd, StopCause};

#[test]
fn min_duration_is_measured_from_the_end_of_a_run() {
    let mut spec = task(vec![process("a")]);
    spec.processes[0].min_duration = Millis(5_000);
    spec.processes[0].max_failures = 2;
    let mut rig = Rig::new(spec);
    assert_eq!(rig.launched(), ["a"], "the first run waits for nothing");
    rig.now += 60_000;
    rig.exit("a", 1);
    assert_eq!(rig.launched(), names(&[]), "however long it ran");
    let until = Mono(rig.now + 5_000);
    assert_eq!(rig.plan.next_due(), Some(until));
    assert_eq!(rig.wait("a"), Some(Wait::MinDuration { until }));
    rig.advance(4_999);
    assert_eq!(rig.launched(), names(&[]));
    rig.advance(1);
    assert_eq!(rig.launched(), ["a"]);
}

#[test]
fn a_pause_counts_from_when_it_ended_and_not_from_when_we_heard() {
    let mut spec = task(vec![process("a")]);
    spec.processes[0].min_duration = Millis(5_000);
    let mut rig = Rig::new(spec);
    rig.start("a");
    let (process, run) = rig.live("a");
    rig.now = 10_000;
    rig.feed(Input::Exited {
        process,
        run,
        at: now(6_000),
        outcome: Outcome::Killed(KillCause::Requested),
        random: 0,
    });
    assert_eq!(rig.at("a").last.unwrap().ended.mono, Mono(6_000));
    assert_eq!(rig.plan.next_due(), Some(Mono(11_000)));
}

#[test]
fn a_report_from_the_future_ends_now() {
    let mut rig = Rig::new(task(vec![process("a")]));
    rig.start("a");
    let (process, run) = rig.live("a");
    rig.feed(Input::Exited {
        process,
        run,
        at: now(99_000),
        outcome: Outcome::Exited(0),
        random: 0,
    });
    assert_eq!(rig.at("a").last.unwrap().ended.mono, Mono(1_000));
}

fn pauses(backoff: Backoff, randoms: &[u64]) -> Vec<u64> {
    let mut spec = task(vec![process("a")]);
    spec.processes[0].max_failures = 0;
    spec.processes[0].min_duration = Millis(7);
    spec.processes[0].backoff = Some(backoff);
    let mut rig = Rig::new(spec);
    let mut pauses = Vec::new();
    for &random in randoms {
        rig.start("a");
        let (process, run) = rig.live("a");
        rig.feed(Input::Exited {
            process,
            run,
            at: now(rig.now),
            outcome: Outcome::Exited(1),
            random,
        });
        let due = rig.plan.next_due().unwrap();
        pauses.push(due.0 - rig.now - 7);
        rig.now = due.0;
        rig.feed(Input::Tick);
    }
    pauses
}

const GROWING: Backoff = Backoff {
    first: Millis(100),
    growth_percent: 200,
    max: Millis(1_000),
    jitter_percent: 0,
};

#[test]
fn backoff_grows_up_to_its_cap_on_top_of_min_duration() {
    assert_eq!(pauses(GROWING, &[5; 6]), [100, 200, 400, 800, 1_000, 1_000]);
    let fixed = Backoff {
        growth_percent: 100,
        ..GROWING
    };
    assert_eq!(pauses(fixed, &[5; 3]), [100, 100, 100]);
}

#[test]
fn jitter_stays_within_its_bounds_and_below_the_cap() {
    let jittery = Backoff {
        jitter_percent: 20,
        ..GROWING
    };
    let mut seen = std::collections::BTreeSet::new();
    for random in 0..500_u64 {
        let random = random.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let pauses = pauses(jittery, &[random; 5]);
        for (pause, base) in pauses.iter().zip([100, 200, 400, 800, 1_000]) {
            assert!(*pause >= base * 8 / 10, "{pause} of {base}");
            assert!(*pause <= (base * 12 / 10).min(1_000), "{pause} of {base}");
        }
        seen.insert(pauses[0]);
    }
    assert_eq!(seen.len(), 41, "every pause from 80 to 120");
}

#[test]
fn a_success_resets_the_backoff_but_not_the_count() {
    let mut spec = task(vec![process("a")]);
    spec.processes[0].daemon = true;
    spec.processes[0].max_failures = 4;
    spec.processes[0].backoff = Some(GROWING);
    let mut rig = Rig::new(spec);
    let pause = |rig: &mut Rig, code| {
        rig.exit("a", code);
        let due = rig.plan.next_due().map(|due| due.0 - rig.now);
        if due.is_some() {
            assert!(matches!(rig.wait("a"), Some(Wait::Backoff { .. })));
        }
        rig.advance(due.unwrap_or_default());
        due
    };
    assert_eq!(pause(&mut rig, 1), Some(100));
    assert_eq!(pause(&mut rig, 1), Some(200));
    assert_eq!(pause(&mut rig, 0), None);
    assert_eq!(pause(&mut rig, 1), Some(100));
    rig.exit("a", 1);
    rig.assert_finished(AttemptState::Failed);
}

#[test]
fn a_timeout_stops_the_run_and_counts_as_a_failure() {
    let mut spec = task(vec![process("a")]);
    spec.processes[0].timeout = Some(Millis(500));
    spec.processes[0].max_failures = 2;
    let mut rig = Rig::new(spec);
    rig.now += 100;
    rig.start("a");
    let (process, run) = rig.live("a");
    assert_eq!(rig.plan.next_due(), Some(Mono(1_600)));
    rig.taken();
    rig.advance(500);
    let grace = Millis(10_000);
    let stop = Order::Stop {
        process,
        run,
        signal: 15,
        grace,
    };
    assert_eq!(rig.taken(), [stop]);
    rig.advance(500);
    assert_eq!(rig.taken(), [], "it is told once");
    rig.killed("a");
    let last = rig.at("a").last.unwrap();
    assert_eq!(last.state, ProcessState::Failed);
    assert_eq!(last.stopped, Some(StopCause::TimedOut));
    assert_eq!(
        last.end,
        RunEnd::Observed(Outcome::Killed(KillCause::Requested))
    );
    assert_eq!((rig.at("a").failures, rig.at("a").kills), (1, 0));
    rig.exit("a", 0);
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn what_ends_at_the_very_moment_of_its_timeout_has_ended() {
    let mut spec = task(vec![process("a")]);
    spec.processes[0].timeout = Some(Millis(500));
    let mut rig = Rig::new(spec);
    rig.start("a");
    rig.now += 500;
    rig.end("a", Outcome::Exited(0));
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn a_clock_that_runs_backwards_stands_still() {
    let mut spec = task(vec![process("a")]);
    spec.processes[0].min_duration = Millis(100);
    spec.processes[0].max_failures = 2;
    let mut rig = Rig::new(spec);
    rig.exit("a", 1);
    rig.now = 10;
    rig.feed(Input::Tick);
    assert_eq!(rig.launched(), ["a"]);
    rig.now = 1_100;
    rig.feed(Input::Tick);
    assert_eq!(rig.launched(), ["a"]);
}
