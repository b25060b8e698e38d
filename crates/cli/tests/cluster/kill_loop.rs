//! `kill -9` of anything, at any time, in a loop, while side-effecting instances run.
//!
//! Each instance holds a lock on a file for as long as anything of it lives, writes a line
//! when it starts and one when it ends. So two executions that overlap, one that ran after
//! it had finished, and one that was lost are all to be seen in its files.
//!
//! `BATON_SEED`, `BATON_KILLS` and `BATON_INSTANCES` choose another or a longer run;
//! `make soak` does.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_client::Span;
use baton_model::fact::Fact;
use baton_model::ids::InstanceId;
use baton_model::outcome::{AttemptEnd, Outcome};
use baton_testing::cluster::{Cluster, lines};
use baton_testing::postgres::database;
use baton_testing::processes::send;
use baton_testing::{Rng, setting, until, until_some};
use rustix::process::Signal;
use serde_json::json;

use crate::api::Api;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Scheduler,
    Agent,
    Coordinator,
    AgentAndCoordinator,
    Everything,
}

#[test]
fn nothing_is_lost_or_doubled_when_the_scheduler_is_killed() {
    run(Victim::Scheduler, &[]);
}

#[test]
fn nothing_is_lost_or_doubled_when_the_agent_is_killed() {
    run(Victim::Agent, &[]);
}

#[test]
fn nothing_is_lost_or_doubled_when_the_coordinator_is_killed() {
    run(Victim::Coordinator, &[]);
}

#[test]
fn nothing_is_lost_or_doubled_when_agent_and_coordinator_are_killed_at_once() {
    run(Victim::AgentAndCoordinator, &[]);
}

#[test]
fn nothing_is_lost_or_doubled_when_everything_is_killed_at_once() {
    run(Victim::Everything, &[]);
}

#[test]
fn nothing_is_lost_or_doubled_on_postgresql_when_the_scheduler_is_killed() {
    run(Victim::Scheduler, &["--store", &database()]);
}

#[test]
fn nothing_is_lost_or_doubled_on_postgresql_when_everything_is_killed_at_once() {
    run(Victim::Everything, &["--store", &database()]);
}

/// One instance: a lock that its children inherit, a line at its start and at its end.
pub(crate) const SCRIPT: &str = r#"
exec 9>"$DIR/$BATON_ARRAY_INDEX.lock"
flock -n 9 || echo "$BATON_ATTEMPT" >> "$DIR/$BATON_ARRAY_INDEX.overlap"
echo "start $BATON_ATTEMPT" >> "$DIR/$BATON_ARRAY_INDEX"
sleep 0.0$((BATON_ARRAY_INDEX % 10))
echo "end $BATON_ATTEMPT" >> "$DIR/$BATON_ARRAY_INDEX"
[ $((BATON_ARRAY_INDEX % 50)) -ne 0 ] || exit 7
"#;

/// The first attempt that starts runs until it is killed; a later one ends. On a busy machine one may be
/// given back before it starts, so its number does not tell.
const STUBBORN: &str = r#"
trap '' TERM
exec 9>"$DIR/$BATON_ARRAY_INDEX.lock"
flock -n 9 || echo "$BATON_ATTEMPT" >> "$DIR/$BATON_ARRAY_INDEX.overlap"
echo "start $BATON_ATTEMPT" >> "$DIR/$BATON_ARRAY_INDEX"
[ "$(wc -l < "$DIR/$BATON_ARRAY_INDEX")" -gt 1 ] || while true; do sleep 1; done
"#;

/// Agents and coordinators are killed and stay dead; another worker gets their work after the lease.
/// `BATON_WORKERS` and `BATON_ROUNDS` choose a longer run.
#[test]
fn work_whose_guards_stay_dead_never_meets_its_next_attempt() {
    let workers = setting("BATON_WORKERS").unwrap_or(3);
    for round in 0..setting("BATON_ROUNDS").unwrap_or(1) {
        let mut cluster = Cluster::new(&["--lease", "6s"]);
        let dir = cluster.path("effects");
        std::fs::create_dir(&dir).expect("made");
        let names: Vec<String> = (0..workers).map(|number| format!("w{number}")).collect();
        for name in &names {
            cluster.start_worker(name, &["--resources", "cpu=1"]);
            cluster.healthy(name);
        }
        let file = json!({
            "task": "stubborn",
            "run": STUBBORN,
            "env": { "DIR": dir },
            "resources": { "cpu": 1 },
        });
        let span = cluster.submit(file, workers);
        let file_of = |index: u64| dir.join(index.to_string());
        until("all run", || {
            (1..=workers).all(|index| !lines(&file_of(index)).is_empty())
        });
        for name in &names {
            let coordinator = cluster.coordinator_pid(name).expect("there is one");
            cluster.kill_worker(name);
            send(coordinator, Signal::KILL);
        }
        cluster.start_worker("rescue", &["--resources", &format!("cpu={workers}")]);
        until("another worker has done it all", || {
            cluster.states(span).get("DONE") == Some(&workers)
        });
        for index in 1..=workers {
            let overlaps = lines(&dir.join(format!("{index}.overlap")));
            assert!(overlaps.is_empty(), "round {round}, {index}: two at once");
            let starts = lines(&file_of(index));
            let is_one_after_the_other = matches!(&starts[..], [first, second] if first != second);
            assert!(is_one_after_the_other, "round {round}, {index}: {starts:?}");
        }
    }
}

fn run(victim: Victim, options: &[&str]) {
    let kills = setting("BATON_KILLS").unwrap_or(8);
    let count = setting("BATON_INSTANCES").unwrap_or(400);
    let mut rng = Rng::new(setting("BATON_SEED").unwrap_or(1) ^ ((victim as u64) << 32));
    let mut cluster = Cluster::new(options);
    let dir = cluster.path("effects");
    std::fs::create_dir(&dir).expect("made");
    cluster.start_worker("w", &["--resources", "cpu=4"]);
    cluster.healthy("w");
    let file = json!({
        "task": "effects",
        "run": SCRIPT,
        "env": { "DIR": dir },
        "resources": { "cpu": 1 },
    });
    let span = cluster.submit(file, count);
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(rng.below(250)));
        kill_victim(&mut cluster, victim, rng.below(2) == 0);
    }
    let states = until_some("everything ends", || {
        let states = cluster.states(span);
        let over = ["DONE", "FAILED"].iter().filter_map(|it| states.get(*it));
        (over.sum::<u64>() == count).then_some(states)
    });
    let failing = count / 50;
    assert_eq!(
        states.get("FAILED"),
        Some(&failing),
        "those that exit with 7"
    );
    let doubled = check(&cluster, span, &dir);
    eprintln!("{victim:?}: {kills} kills, {doubled} ran again because their end was not observed");
    assert_eq!(doubled, 0, "a parent always observed the end");
    cluster.stop_without_leftovers("w");
}

/// Kills, and starts again what was killed. If the coordinator dies first, its agent may be about
/// to replace it.
fn kill_victim(cluster: &mut Cluster, victim: Victim, agent_first: bool) {
    let coordinator = cluster.coordinator_pid("w");
    let (scheduler, agent, parent) = match victim {
        Victim::Scheduler => (true, false, false),
        Victim::Agent => (false, true, false),
        Victim::Coordinator => (false, false, true),
        Victim::AgentAndCoordinator => (false, true, true),
        Victim::Everything => (true, true, true),
    };
    if agent && agent_first {
        cluster.kill_worker("w");
    }
    if parent && let Some(pid) = coordinator {
        send(pid, Signal::KILL);
    }
    if agent && !agent_first {
        cluster.kill_worker("w");
    }
    if scheduler {
        cluster.kill_scheduler();
        cluster.start_scheduler();
    }
    if agent {
        cluster.start_worker("w", &["--resources", "cpu=4"]);
    }
}

/// Compares the files of each instance with its records; returns how many
/// finished more than once.
pub(crate) fn check(cluster: &impl Api, span: Span, dir: &std::path::Path) -> u64 {
    let mut doubled = 0;
    for index in 1..=span.count() {
        let overlaps = lines(&dir.join(format!("{index}.overlap")));
        assert!(overlaps.is_empty(), "{index}: two at once: {overlaps:?}");
        let output = lines(&dir.join(index.to_string()));
        let mut ends: BTreeMap<u32, u32> = BTreeMap::new();
        for line in &output {
            let (what, attempt) = line.split_once(' ').expect("two words");
            let attempt: u32 = attempt.parse().expect("a number");
            *ends.entry(attempt).or_default() += u32::from(what == "end");
        }
        assert!(ends.values().all(|ends| *ends <= 1), "{index}: {output:?}");
        let finished: Vec<u32> = ends
            .iter()
            .filter(|(_, ends)| **ends == 1)
            .map(|(attempt, _)| *attempt)
            .collect();
        assert!(
            !finished.is_empty(),
            "{index} is over and never finished: {output:?}"
        );
        if finished.len() > 1
            || output
                .iter()
                .filter(|line| line.starts_with("start"))
                .count()
                > 1
        {
            observed_ends_are_final(cluster, InstanceId(span.first.0 + index - 1), &finished);
        }
        if finished.len() > 1 {
            let id = InstanceId(span.first.0 + index - 1);
            for event in cluster.timeline(id) {
                eprintln!("{index} {event:?}");
            }
            doubled += 1;
        }
    }
    doubled
}

/// Of all that finished only the last may be recorded as having exited.
fn observed_ends_are_final(cluster: &impl Api, id: InstanceId, finished: &[u32]) {
    let mut exits = Vec::new();
    for event in cluster.timeline(id) {
        if let Fact::AttemptEnded { lease, end, .. } = event.fact
            && let AttemptEnd::Real(Outcome::Exited(_)) = end
        {
            exits.push(lease.attempt.number.0);
        }
    }
    assert_eq!(exits.len(), 1, "{id} has one recorded exit: {exits:?}");
    assert_eq!(exits.last(), finished.last(), "{id}: the last counts");
}
