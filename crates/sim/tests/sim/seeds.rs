//! Seeds without violations, and seeded bugs that the checkers must detect.
//!
//! The numbers here are small, so that the tests are quick; `make test` runs hundreds of seeds
//! in an optimised build, and `make soak` tens of thousands.

use baton_core::bugs::{Bug, Bugs};
use baton_sim::campaign::{Totals, run_seed};
use baton_sim::swarm::Shape;
use baton_sim::time::SECOND;
use baton_sim::trace::Detail;
use baton_sim::{chronos, fleets};

/// Seeds to search for each bug: more than the slowest needs, and well below the limit of 2,000.
const BUG_SEEDS_MAX: u64 = 2_000;

fn run(seed: u64, bugs: Bugs) -> baton_sim::campaign::Outcome {
    run_seed(seed, Shape::default(), bugs, Detail::Hash)
}

#[test]
fn a_cluster_of_ten_workers_has_no_violations() {
    let shape = Shape {
        workers: Some(10),
        instances: Some(200),
        ..Shape::default()
    };
    for seed in 0..15 {
        let outcome = run_seed(seed, shape, Bugs::NONE, Detail::Hash);
        assert_eq!(outcome.violation, None, "seed {seed}");
        let hour = 3_600 * SECOND;
        assert!(
            outcome.elapsed.0 >= hour,
            "seed {seed} lasted only {:?}",
            outcome.elapsed
        );
    }
}

fn run_with_workflows(seed: u64, bugs: Bugs) -> baton_sim::campaign::Outcome {
    let shape = Shape {
        workflows: true,
        ..Shape::default()
    };
    run_seed(seed, shape, bugs, Detail::Hash)
}

#[test]
fn workflow_runs_have_no_violations() {
    for seed in 0..120 {
        let outcome = run_with_workflows(seed, Bugs::NONE);
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
    let [once, again] = [3, 3].map(|seed| run_with_workflows(seed, Bugs::NONE));
    assert_eq!(once.trace_hash, again.trace_hash);
}

#[test]
fn crashes_of_processes_that_die_together_have_no_violations() {
    let shape = Shape {
        crashes: true,
        ..Shape::default()
    };
    for seed in 0..30 {
        let outcome = run_seed(seed, shape, Bugs::NONE, Detail::Hash);
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
}

/// Each of these seeds once found a violation. A seed loses its scenario when the simulator
/// changes, so each also has a dedicated test; here they are cheap regression tests.
#[test]
fn seeds_that_once_found_something_are_clean() {
    for seed in [
        7, 192, 196, 260, 287, 711, 715, 1_423, 1_736, 2_574, 2_639, 11_070,
    ] {
        assert_eq!(run(seed, Bugs::NONE).violation, None, "seed {seed}");
    }
}

#[test]
fn a_seed_gives_the_same_run_every_time() {
    for seed in [3, 4, 5] {
        let once = run(seed, Bugs::NONE);
        let again = run(seed, Bugs::NONE);
        assert_eq!(once.trace_hash, again.trace_hash, "seed {seed}");
        assert_eq!(once.events, again.events, "seed {seed}");
    }
}

#[test]
fn recording_text_does_not_change_a_run() {
    let silent = run(6, Bugs::NONE);
    let telling = run_seed(6, Shape::default(), Bugs::NONE, Detail::Tail);
    assert_eq!(silent.trace_hash, telling.trace_hash);
    assert!(silent.tail.is_empty() && !telling.tail.is_empty());
}

#[test]
fn totals_add_up_and_depend_on_the_order() {
    let (one, two) = (run(1, Bugs::NONE), run(2, Bugs::NONE));
    let mut forward = Totals::default();
    forward.add(1, &one);
    forward.add(2, &two);
    let mut backward = Totals::default();
    backward.add(2, &two);
    backward.add(1, &one);
    assert_eq!(forward.events, one.events + two.events);
    assert_eq!(forward.seeds, 2);
    assert_ne!(forward.trace_hash, backward.trace_hash);
}

/// The checkers that may detect each bug first. Detection by another checker would mean that the
/// dedicated one is broken.
fn telltales(bug: Bug) -> &'static [&'static str] {
    match bug {
        Bug::SequenceNotReset | Bug::ReplacedTasksKept => &["stuck", "diverged"],
        Bug::StatusTakenWhileNew => &["lost-acknowledged", "stuck"],
        Bug::AckBeforeDurable => &["lost-acknowledged"],
        Bug::KeyForgotten => &["submitted-twice"],
        Bug::StatusForgottenEarly => &["lost-acknowledged", "stuck", "broken-promise"],
        Bug::SuicideNotRepeated => &["suicide-ordered"],
        Bug::UnsureKeptOnLoss => &["panic"],
        Bug::InitialWaitSkipped | Bug::ConsensusIgnoresUnhealthy => &["overlap"],
        Bug::DeadlineTooLong
        | Bug::DeadlineOfAnother
        | Bug::DeadManInAgent
        | Bug::DeadManAlone
        | Bug::LeaseWaitSkipped
        | Bug::HeartbeatUnfenced
        | Bug::ClockStandsStill
        | Bug::StrictByTime => &["released-alive", "overlap"],
        Bug::LeaseBeforeDurable
        | Bug::SequenceUnchecked
        | Bug::StampIgnored
        | Bug::RefusalForgotten
        | Bug::RunningListToSuccessor
        | Bug::SyntheticBeatsReal
        | Bug::GivenBackUnasked
        | Bug::ClearedOnSendFailure => &["unleased-start", "broken-promise", "overlap"],
        // A worker that obeys an older leader is silent for the newest one.
        Bug::OlderEpochObeyed => &[
            "unleased-start",
            "broken-promise",
            "overlap",
            "released-alive",
        ],
        Bug::CopyAdmitted => &["broken-promise", "overlap", "stuck"],
        Bug::RebootBelieved => &["released-alive"],
        Bug::HostFaultCharged => &["host-fault-charged"],
        Bug::FaultIgnored => &["sick-worker-fed"],
        Bug::FaultKept => &["diverged", "stuck"],
        Bug::EffectBeforeRecord => &["broken-promise", "false-result", "lost-acknowledged"],
        Bug::LaunchedAgain => &["launched-twice", "killed-unasked"],
        // A next agent that finds the devices freed starts the next runner without them.
        Bug::DeviceFreedTwice => &["device-shared", "device-missing"],
        Bug::ClaimKept => &["stuck", "diverged"],
        Bug::OrphanMisattributed | Bug::ReusedPidSignalled => &["killed-unasked"],
        Bug::GraceSkipped => &["grace-skipped"],
        Bug::SummaryIncomplete => &["lost-acknowledged", "broken-promise"],
        Bug::AlarmKept => &["alarm-kept"],
        Bug::AlarmRepeated => &["alarm-repeated"],
        Bug::SuspicionIgnored => &["suspicious-fed"],
        Bug::SuspicionKept => &["suspicion-kept"],
        Bug::MemberFreedEarly => &["member-shared"],
        Bug::GroupsMixed => &["gang-divided"],
        Bug::LifetimeIgnored => &["outlasts-worker"],
        Bug::EpochNotRandom => &["epoch-repeated"],
        Bug::OutcomeTakenAsFailure => &["committed-twice"],
        Bug::OutcomeTakenAsSuccess => &["lost-acknowledged", "unleased-start"],
        Bug::EpochFromStore => &["epoch-repeated"],
        Bug::PromotionUnnoticed => &["broken-promise", "overlap", "id-reused"],
        Bug::LimitForgotten => &["limit-exceeded"],
        Bug::RateForgotten => &["rate-exceeded"],
        Bug::ArrayUncharged => &["array-exceeded"],
        Bug::FailuresForgotten | Bug::FailedMaxIgnored => &["failed-array-continued", "not-halted"],
        Bug::IdsUsedAgain | Bug::RunIdsUsedAgain => &["id-reused"],
        Bug::StatusEpochUnchecked => &[
            "broken-promise",
            "false-result",
            "overlap",
            "unleased-start",
        ],
        // A worker that gives up meanwhile waits for an end that it has reported already.
        Bug::StraysUnawaited => &["false-result", "overlap", "diverged"],
        Bug::RunnerAbandoned => &["false-result", "overlap"],
        Bug::RunEndsEarly => &["generation"],
        Bug::ResumeKeepsNothing | Bug::ResumeByIndex => &["resume-unasked"],
        Bug::ResumeStaleAccepted => &["resume-unasked", "stale-accepted", "done-again"],
        Bug::GateIgnored => &["too-early"],
        Bug::DependencyIgnored | Bug::DependenciesForgotten => &["started-early"],
        Bug::ReleasedOnFirstEnd => &["started-early", "not-halted"],
        Bug::RetryCountedTwice => &["halted-unasked"],
        Bug::HaltForgets => &["halt-broken"],
        // See `chronos.rs`.
        Bug::AccountedNotAdvanced
        | Bug::TickWithoutInstance
        | Bug::CatchUpRepeats
        | Bug::WallBackRepeats
        | Bug::TakeoverForgets
        | Bug::ReplacedForgotten
        | Bug::RunsUncounted
        | Bug::FailedRunFollowed
        | Bug::TurnIgnored
        | Bug::PauseForgotten
        | Bug::UnpauseCatchesUp
        | Bug::BackfillRecordLate
        | Bug::BackfillStartsAnew
        | Bug::BackfillRepeats => &[],
        // See `fleets.rs`.
        Bug::SubmittedAgain
        | Bug::DemandCountedTwice
        | Bug::AbsenceIsEnd
        | Bug::CancelForgotten
        | Bug::UncontainedTrusted
        | Bug::TokenPresumed => &[],
    }
}

#[test]
fn every_seeded_bug_is_found_by_its_checker() {
    let elsewhere = [chronos::BUGS, fleets::BUGS].concat();
    let of_a_cluster = Bug::ALL.iter().filter(|bug| !elsewhere.contains(bug));
    for bug in of_a_cluster {
        let shape = Shape::default().for_bug(*bug);
        let run = |seed| run_seed(seed, shape, Bugs::only(*bug), Detail::Hash);
        let found = (0..BUG_SEEDS_MAX).find_map(|seed| run(seed).violation.map(|it| (seed, it)));
        let Some((seed, violation)) = found else {
            panic!("{} was not found in {BUG_SEEDS_MAX} seeds", bug.name());
        };
        assert!(
            telltales(*bug).contains(&violation.checker),
            "{} was noticed at seed {seed} by {}: {}",
            bug.name(),
            violation.checker,
            violation.what
        );
    }
}
