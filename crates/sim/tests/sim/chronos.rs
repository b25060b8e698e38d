//! Schedules under random leaders: seeds without violations, and seeded bugs that the checkers
//! must detect. `baton-sim --schedules` runs many more seeds.

use baton_core::bugs::{Bug, Bugs};
use baton_core::clock::{Dst, Fold, Gap, Schedule, SkipReason, TickVerdict, Zone};
use baton_model::fact::Fact;
use baton_model::ids::InstanceId;
use baton_model::library::{Cause, Execution};
use baton_model::time::Wall;
use baton_sim::chronos::check::{Entry, History, check};
use baton_sim::chronos::tally::Tally;
use baton_sim::chronos::{BUGS, history, oracle, run_seed};
use baton_sim::trace::Detail;

const SEEDS: u64 = 300;

/// Seeds to search for each bug.
const BUG_SEEDS_MAX: u64 = 200;

#[test]
fn every_due_time_is_accounted_for_under_any_leader_and_clock() {
    let mut all = Tally::default();
    let mut years = 0;
    for seed in 0..SEEDS {
        let (outcome, tally) = run_seed(seed, Bugs::NONE, Detail::Hash);
        assert_eq!(outcome.violation, None, "seed {seed}");
        all.add(&tally);
        years += outcome.elapsed.0 / (365 * 86_400 * 1_000_000);
    }
    // Every verdict must occur, or the checks prove nothing.
    let least = [
        all.launched,
        all.late,
        all.missed,
        all.not_caught_up,
        all.max_instances_reached,
        all.launch_rate_exceeded,
        6 * all.replaced,
        all.paused,
        all.backfilled,
        10 * all.backfills,
        all.followers,
        all.keyed,
        all.runs,
        all.turns,
    ];
    assert!(least.iter().all(|count| *count > SEEDS), "{all:?}");
    assert!(years > SEEDS, "only {years} years have passed");
}

/// Corrupts a record; `None` for other facts.
fn corrupted(fact: &Fact, variant: u64) -> Option<Vec<Fact>> {
    let mut other = fact.clone();
    let Fact::Launched {
        cause: Cause::Due { first, last, count },
        verdict,
        execution,
        ..
    } = &mut other
    else {
        return None;
    };
    match variant {
        0 => return Some(Vec::new()),
        1 => return Some(vec![other.clone(), other]),
        2 => *count += 1,
        3 => first.0 += 1_000,
        4 => last.0 += 1_000,
        5 => *execution = execution.xor(Some(Execution::Instance(InstanceId(1 << 60)))),
        6 => {
            *verdict = match verdict {
                TickVerdict::Skip(SkipReason::Replaced) => {
                    TickVerdict::Skip(SkipReason::LaunchRate)
                }
                TickVerdict::Skip(_) => TickVerdict::Skip(SkipReason::Replaced),
                TickVerdict::Launch | TickVerdict::Late { .. } => {
                    TickVerdict::Skip(SkipReason::Missed)
                }
            }
        }
        _ => (first.0, last.0) = (first.0 - 1_000, last.0 - 1_000),
    }
    Some(vec![other])
}

#[test]
fn a_history_with_one_false_record_is_detected() {
    let (mut tried, mut untraced) = (0, 0);
    for seed in 0..12 {
        let (entries, clock_checks) = history(seed);
        let is_record = |at: &usize| corrupted(&entries[*at].fact, 0).is_some();
        let records: Vec<usize> = (0..entries.len()).filter(is_record).collect();
        for at in records.iter().step_by(1 + records.len() / 12) {
            for variant in 0..8 {
                let facts = corrupted(&entries[*at].fact, variant).expect("it is a record");
                let moved = facts.len();
                let with = |fact| Entry {
                    fact,
                    ..entries[*at].clone()
                };
                let mut other = entries.clone();
                other.splice(*at..=*at, facts.into_iter().map(with));
                let mut seen = clock_checks.clone();
                let later = seen.iter_mut().filter(|look| look.after > *at);
                later.for_each(|look| look.after = look.after + moved - 1);
                let history = History {
                    entries: &other,
                    clock_checks: &seen,
                };
                let what = &entries[*at];
                tried += 1;
                let found = check(&history).is_err();
                // A missing record leaves no trace if the launch could still be delayed by jitter,
                // and the clock was set back before the leader looked again.
                untraced += u64::from(!found && variant == 0);
                assert!(
                    found || variant == 0,
                    "seed {seed}, way {variant}: {what:?}"
                );
            }
        }
    }
    assert!(
        tried > 500 && untraced * 100 < tried,
        "{untraced} of {tried}"
    );
}

#[test]
fn a_seed_gives_the_same_run_every_time() {
    for seed in [3, 4, 5] {
        let (once, tally) = run_seed(seed, Bugs::NONE, Detail::Hash);
        let (again, same) = run_seed(seed, Bugs::NONE, Detail::Tail);
        assert_eq!(once.trace_hash, again.trace_hash, "seed {seed}");
        assert_eq!((once.events, tally), (again.events, same), "seed {seed}");
        assert!(once.tail.is_empty() && !again.tail.is_empty());
    }
}

/// The checkers that must detect each bug first.
fn expected_checkers(bug: Bug) -> &'static [&'static str] {
    match bug {
        Bug::AccountedNotAdvanced => &["due-miscounted"],
        Bug::TickWithoutInstance => &["record-alone"],
        Bug::CatchUpRepeats | Bug::WallBackRepeats => &["due-twice"],
        Bug::TakeoverForgets | Bug::ReplacedForgotten => &["due-forgotten"],
        Bug::RunsUncounted => &["limit-broken"],
        Bug::FailedRunFollowed => &["false-follower"],
        Bug::TurnIgnored => &["overlap-broken"],
        Bug::PauseForgotten => &["pause-ignored"],
        Bug::UnpauseCatchesUp => &["due-forgotten"],
        Bug::BackfillRecordLate => &["record-alone"],
        Bug::BackfillStartsAnew => &["launched-again", "false-backfill"],
        Bug::BackfillRepeats => &["false-taken"],
        _ => &[],
    }
}

#[test]
fn every_seeded_bug_of_schedules_is_found_by_its_checker() {
    for bug in BUGS {
        let found = (0..BUG_SEEDS_MAX).find_map(|seed| {
            let (outcome, _) = run_seed(seed, Bugs::only(*bug), Detail::Hash);
            outcome.violation.map(|it| (seed, it))
        });
        let Some((seed, violation)) = found else {
            panic!("{} was not found in {BUG_SEEDS_MAX} seeds", bug.name());
        };
        assert!(
            expected_checkers(*bug).contains(&violation.checker),
            "{} was noticed at seed {seed} by {}: {}",
            bug.name(),
            violation.checker,
            violation.what
        );
    }
}

const DAY: u64 = 86_400_000;

/// A day before and a day after each clock change of a zone within some years.
fn around_changes(zone: &Zone, from: Wall, until: Wall) -> Vec<(Wall, Wall)> {
    let offset = |at: u64| zone.rfc3339(Wall(at)).split_off(19);
    let days = (from.0..until.0).step_by(DAY as usize);
    days.filter(|day| offset(*day) != offset(day + DAY))
        .map(|day| (Wall(day - DAY), Wall(day + 2 * DAY)))
        .collect()
}

#[test]
fn schedules_agree_with_clocks_that_are_read_minute_by_minute() {
    let dst = Dst {
        gap: Gap::Skip,
        fold: Fold::Twice,
    };
    let utc = |text| Zone::UTC.instant(text).expect("an instant");
    let (mut changes, mut times) = (0, 0);
    for (name, from, until) in [
        ("Europe/Berlin", "2025-01-02 00:00", "2028-01-02 00:00"),
        ("America/New_York", "2025-01-02 00:00", "2028-01-02 00:00"),
        (
            "Australia/Lord_Howe",
            "2025-01-02 00:00",
            "2028-01-02 00:00",
        ),
        ("America/Sao_Paulo", "2016-01-02 00:00", "2020-01-02 00:00"),
        ("Pacific/Apia", "2010-01-02 00:00", "2013-01-02 00:00"),
    ] {
        let zone = Zone::named(name).expect("a zone");
        for (after, until) in around_changes(&zone, utc(from), utc(until)) {
            changes += 1;
            for pattern in [
                "30 2 * * *",
                "0 0 * * *",
                "*/20 1,2,3 * * *",
                "15 */2 * * *",
                "* 0 * * *",
                "59 23 30 12 *",
            ] {
                let slow = oracle::due_times(pattern, &zone, after, until);
                let schedule = Schedule::parse(pattern, &zone, dst).expect("a pattern");
                let mut quick = Vec::new();
                let mut at = after;
                while let Some(next) = schedule.after(at).filter(|next| next.at <= until) {
                    at = next.at;
                    quick.push(at);
                }
                assert_eq!(quick, slow, "{pattern} in {name} after {after:?}");
                assert_eq!(schedule.count(after, until), slow.len() as u64);
                times += slow.len();
            }
        }
    }
    assert!(changes > 25 && times > 5_000, "{changes} {times}");
}
