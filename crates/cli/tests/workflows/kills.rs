//! `kill -9` of any process, at any time, in a loop, while a workflow of 61 items runs, is halted
//! and resumed. [`layers`] describes the files of each item.
//!
//! `BATON_SEED` and `BATON_KILLS` choose another or a longer run; `make soak` does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use baton_model::api::Event;
use baton_model::fact::Fact;
use baton_model::json;
use baton_model::outcome::{AttemptEnd, Outcome};
use baton_testing::cluster::{Cluster, lines};
use baton_testing::command::{Ended, baton};
use baton_testing::postgres::database;
use baton_testing::processes::{kill_all, send};
use baton_testing::{PATIENCE, Rng, setting, until_some};
use rustix::process::Signal;

use crate::layers::{self, ITEMS, expected_result};
use crate::workspace::write;

/// So long that the run is still there when the last one is killed.
fn sleep_ms(kills: u64) -> u64 {
    (kills * 12).clamp(40, 1_000)
}

/// What was done to a run.
#[derive(Debug, Default)]
struct FaultCounts {
    kills: BTreeMap<&'static str, u64>,
    halts: u64,
}

impl FaultCounts {
    fn count(&self) -> u64 {
        self.kills.values().sum()
    }

    fn killed(&mut self, what: &'static str) {
        *self.kills.entry(what).or_default() += 1;
    }
}

/// A cluster and the run in it.
struct FaultyCluster {
    cluster: Cluster,
    rng: Rng,
    faults: FaultCounts,
    victims: &'static [&'static str],
}

/// While these die, the coordinator lives, and sees how everything ends.
const SEEN: &[&str] = &["scheduler", "agent"];
const ANYTHING: &[&str] = &["scheduler", "agent", "coordinator", "everything"];
const OF_RUN: &[&str] = &[
    "run",
    "scheduler",
    "agent",
    "coordinator",
    "everything",
    "interrupt",
];

const WORKER: &[&str] = &["--resources", "cpu=4"];

impl FaultyCluster {
    /// A command against the scheduler.
    fn run(&self, args: &[&str]) -> Ended {
        self.cluster.run(args)
    }

    fn choose(&mut self) -> &'static str {
        let count = self.victims.len() as u64;
        let chosen = usize::try_from(self.rng.below(count)).expect("a few");
        self.victims[chosen]
    }

    /// Kills, and starts again what was killed.
    fn kill_random(&mut self) {
        let pause = self.rng.below(250);
        std::thread::sleep(Duration::from_millis(pause));
        let what = self.choose();
        let all = what == "everything";
        let coordinator = self.cluster.coordinator_pid("w");
        if (all || what == "coordinator")
            && let Some(pid) = coordinator
        {
            send(pid, Signal::KILL);
        }
        if all || what == "agent" {
            self.cluster.kill_worker("w");
        }
        if all || what == "scheduler" {
            self.cluster.kill_scheduler();
            self.cluster.start_scheduler();
        }
        if all || what == "agent" {
            self.cluster.start_worker("w", WORKER);
        }
        self.faults.killed(what);
    }

    /// Halts the run and resumes it, unless it has ended. The scheduler dies in between.
    fn halt(&mut self, run: &str) {
        // An attempt that is killed as it ends may have finished unobserved.
        let kill = self.victims == ANYTHING && self.rng.below(2) == 1;
        let halt: &[&str] = if kill {
            &["halt", run, "--kill"]
        } else {
            &["halt", run]
        };
        if self.run(halt).code == Some(3) {
            let state = self.state(run);
            assert_eq!(state, "DONE", "a live run can be halted");
            return;
        }
        self.kill_random();
        let halted = ["halt", run, "--wait"];
        let ended = self.run(&halted);
        assert!(matches!(ended.code, Some(0 | 3)), "{ended:?}");
        let state = self.state(run);
        if state == "DONE" {
            return;
        }
        assert_eq!(state, "HALTED", "{ended:?}");
        self.faults.halts += 1;
        let file = match self.rng.below(2) {
            0 => &["resume", run][..],
            // The same file: nothing has changed, so nothing that is DONE runs again.
            _ => &["resume", run, "wf.yaml"],
        };
        let resumed = self.run(file);
        assert_eq!(resumed.code, Some(0), "{resumed:?}");
    }

    fn state(&self, run: &str) -> String {
        let shown = self.run(&["show", run, "--json"]).json();
        shown["run"]["state"].as_str().expect("a state").to_owned()
    }
}

#[test]
fn a_workflow_is_done_exactly_once_when_anything_is_killed_at_any_moment() {
    // If both the agent and the coordinator die, or work is killed as it ends, no process gets
    // the exit code of an attempt from the kernel: it is retried, and only its last
    // end is recorded.
    cluster(ANYTHING, setting("BATON_KILLS").unwrap_or(12), &[]);
}

#[test]
fn no_item_finishes_twice_while_a_parent_observes_its_end() {
    let doubled = cluster(SEEN, setting("BATON_KILLS").unwrap_or(8), &[]);
    assert_eq!(doubled, 0);
}

#[test]
fn a_workflow_on_postgresql_is_done_exactly_once_when_its_parts_are_killed() {
    let store = ["--store", &database()];
    let doubled = cluster(SEEN, setting("BATON_KILLS").unwrap_or(8), &store);
    assert_eq!(doubled, 0);
}

/// Only the failure let the map have its items: another leader has to find that out as well.
const MAPS: &str = "workflow: maps
fail_fast: true
tasks:
  src:
    for_each: [a, b, c, d]
    max_concurrent: 1
    retry: { attempts: 1 }
    run: 'test {{ item }} != b && echo \"files=[1, 2]\" > \"$BATON_OUTPUT\"'
  map:
    for_each: '{{ tasks.src.outputs.files }}'
    after: [{ task: src, on: end }]
    run: |
      echo {{ item }} >> DIR/begun
      test {{ item }} = 1 || until test -e DIR/go; do sleep 0.02; done
      echo {{ item }} >> DIR/ended
";

#[test]
fn what_a_failure_made_room_for_is_neither_lost_nor_doubled_by_another_leader() {
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("w", WORKER);
    cluster.healthy("w");
    let dir = cluster.path("");
    write(&dir, "wf.yaml", MAPS);
    let mut it = FaultyCluster {
        cluster,
        rng: Rng::new(1),
        faults: FaultCounts::default(),
        victims: SEEN,
    };
    let submitted = it.run(&["submit", "wf.yaml", "--json"]).json();
    let run = submitted["id"].as_str().expect("an id").to_owned();
    let ended = dir.join("ended");
    let begun = || lines(&dir.join("begun")).len() == 2 && lines(&ended).len() == 1;
    until_some("one of the map runs", || begun().then_some(()));
    it.cluster.kill_scheduler();
    it.cluster.start_scheduler();
    std::fs::write(dir.join("go"), "").expect("a file");
    let watched = it.run(&["watch", &run, "--json"]);
    assert_eq!(watched.code, Some(1), "{watched:?}");
    let shown: serde_json::Value = serde_json::from_str(&watched.out).expect("JSON");
    let items = &shown["items"];
    assert_eq!(
        (&items["done"], &items["blocked"]),
        (&3.into(), &2.into()),
        "{items}"
    );
    let mut ended = lines(&ended);
    ended.sort();
    assert_eq!(ended, ["1", "2"]);
    assert_eq!(lines(&dir.join("begun")).len(), 2);
    it.cluster.stop_without_leftovers("w");
}

/// A run in a cluster with so many kills; returns how many of its items finished more
/// than once.
fn cluster(victims: &'static [&'static str], kills: u64, options: &[&str]) -> usize {
    let seed = setting("BATON_SEED").unwrap_or(1);
    let mut cluster = Cluster::new(options);
    cluster.start_worker("w", WORKER);
    cluster.healthy("w");
    let mut it = FaultyCluster {
        cluster,
        rng: Rng::new(seed ^ ((victims.len() as u64) << 32)),
        faults: FaultCounts::default(),
        victims,
    };
    let dir = it.cluster.path("");
    prepare(&dir, kills);
    let submitted = it.run(&["submit", "wf.yaml", "--json"]).json();
    let run = submitted["id"].as_str().expect("an id").to_owned();
    while it.faults.count() < kills && it.state(&run) != "DONE" {
        match it.rng.below(6) {
            0 => it.halt(&run),
            _ => it.kill_random(),
        }
    }
    let watched = it.run(&["watch", &run]);
    assert_eq!(
        watched.code,
        Some(0),
        "seed {seed}, {:?}: {watched:?}",
        it.faults
    );
    let doubled = check(&it, &run);
    report(&it, seed, kills, doubled);
    it.cluster.stop_without_leftovers("w");
    doubled
}

fn report(it: &FaultyCluster, seed: u64, kills: u64, doubled: usize) {
    let faults = &it.faults;
    eprintln!("seed {seed}: {faults:?}, {doubled} ran again because their end was not observed");
    assert!(
        faults.count() > kills / 4,
        "it was over too soon: {faults:?}"
    );
}

#[test]
fn baton_run_ends_a_workflow_exactly_once_whatever_of_it_is_killed() {
    let kills = setting("BATON_KILLS").unwrap_or(6);
    let seed = setting("BATON_SEED").unwrap_or(1);
    let mut it = FaultyCluster {
        cluster: Cluster::idle(&[]),
        rng: Rng::new(seed ^ (1 << 32)),
        faults: FaultCounts::default(),
        victims: OF_RUN,
    };
    let dir = it.cluster.path("");
    prepare(&dir, kills);
    let begun = Instant::now();
    let mut child = begin(&dir);
    let code = loop {
        assert!(
            begun.elapsed() < 4 * PATIENCE,
            "seed {seed}: {:?}",
            it.faults
        );
        let over = it.faults.count() >= kills || kill_part(&mut it, &child);
        if !over && matches!(child.try_wait(), Ok(None)) {
            continue;
        }
        // Ended, killed, or left alone from now on.
        let code = child.wait().expect("ours").code();
        if matches!(code, Some(0 | 1)) {
            break code;
        }
        child = begin(&dir);
    };
    let faults = &it.faults;
    let log = || lines(&dir.join("err")).join("\n");
    assert_eq!(code, Some(0), "seed {seed}, {faults:?}: {}", log());
    // Later queries go to a scheduler on the same data.
    it.cluster.start_scheduler();
    let doubled = check(&it, "r1");
    report(&it, seed, kills, doubled);
}

fn prepare(dir: &Path, kills: u64) {
    std::fs::create_dir(dir.join("out")).expect("made");
    write(dir, "wf.yaml", &layers::workflow(sleep_ms(kills)));
}

fn begin(dir: &Path) -> Child {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(dir.join("err"));
    let mut command = baton(dir, &["run", "wf.yaml", "--data", "data"]);
    command.stdout(Stdio::null()).stderr(log.expect("a log"));
    command.spawn().expect("it starts")
}

/// Kills a part of `baton run`; true if that was `baton run` itself.
fn kill_part(it: &mut FaultyCluster, child: &Child) -> bool {
    let pause = it.rng.below(600);
    std::thread::sleep(Duration::from_millis(pause));
    let data: PathBuf = it.cluster.path("data");
    let kill = |word: &'static str| {
        let data = data.display().to_string();
        kill_all(move |line| line.contains(word) && line.contains(&data))
    };
    let what = it.choose();
    let mut killed = true;
    match what {
        "run" => killed = send(child.id(), Signal::KILL),
        "interrupt" => killed = send(child.id(), Signal::INT),
        "everything" => {
            send(child.id(), Signal::KILL);
            kill("baton");
        }
        _ => {
            let found = match what {
                "scheduler" => kill("baton scheduler "),
                "agent" => kill("baton worker "),
                _ => kill("__coordinator"),
            };
            killed = found > 0;
        }
    }
    if killed {
        it.faults.killed(what);
    }
    matches!(what, "run" | "interrupt" | "everything")
}

/// Compares the files of each item with its records; returns how many finished
/// more than once.
fn check(it: &FaultyCluster, run: &str) -> usize {
    let shown = it.run(&["show", run, "--json"]).json();
    assert_eq!(shown["run"]["items"]["done"], ITEMS, "{}", shown["run"]);
    let items = it.run(&["show", run, "--timeline", "--json"]).json();
    let items = items.as_array().expect("a list");
    assert_eq!(items.len(), ITEMS, "one for each item");
    let done = done(it, run);
    let out = it.cluster.path("out");
    let mut doubled = 0;
    for item in items {
        let name = format!(
            "{}.{}",
            item["task"].as_str().expect("a name"),
            item["item"]
        );
        let of = |what: &str| lines(&out.join(format!("{name}.{what}")));
        assert_eq!(of("overlap"), [""; 0], "{name}: two at once");
        let instance = item["instance"].as_str().expect("an id");
        assert!(done.contains(instance), "{name}: {instance}");
        let finished = of("done");
        let (last, before) = finished.split_last().expect("it has finished");
        assert_eq!(recorded(it, last), Some(true), "{name}: {finished:?}");
        assert!(
            last.starts_with(&format!("{instance} ")),
            "{name}: {finished:?}"
        );
        for line in before {
            assert_eq!(recorded(it, line), Some(false), "{name}: {finished:?}");
        }
        doubled += usize::from(!before.is_empty());
    }
    assert_eq!(lines(&out.join("all.0")), [expected_result()]);
    doubled
}

const SUCCESS: AttemptEnd = AttemptEnd::Real(Outcome::Exited(0));

/// Whether the attempt of an instance that a line names is the one that is recorded as having
/// succeeded; `None` if several are.
fn recorded(it: &FaultyCluster, line: &str) -> Option<bool> {
    let (instance, attempt) = line.split_once(' ').expect("two words");
    let attempt: u32 = attempt.parse().expect("a number");
    let shown = it.run(&["show", instance, "--json"]).json();
    let events: Vec<Event> = json::from_value(&shown["timeline"]).expect("events");
    let good = events.into_iter().filter_map(|event| match event.fact {
        Fact::AttemptEnded { lease, end, .. } if end == SUCCESS => Some(lease.attempt.number.0),
        _ => None,
    });
    let good: Vec<u32> = good.collect();
    match &*good {
        [] => Some(false),
        [number] => Some(*number == attempt),
        _ => None,
    }
}

/// The DONE instances of a run in the store: one for each item, whose
/// name it has.
fn done(it: &FaultyCluster, run: &str) -> BTreeSet<String> {
    let kept = it
        .run(&["history", "--state", "DONE", "--json", "--all"])
        .json();
    let mut found = BTreeMap::new();
    let kept = kept.as_array().expect("a list").iter();
    for instance in kept.filter(|instance| instance["run"] == run) {
        let word = |key: &str| instance[key].as_str().expect("a word").to_owned();
        let another = found.insert(word("name"), word("id"));
        assert_eq!(another, None, "twice DONE: {instance}");
    }
    assert_eq!(found.len(), ITEMS, "{found:?}");
    found.into_values().collect()
}
