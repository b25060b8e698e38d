//! `kill -9` of any process, at any time, in a loop: the task still succeeds, and
//! finished processes are not run again.
//!
//! `BATON_KILLS` sets the number of kills, `BATON_SEED` the random numbers. A seed
//! gives the same victims and pauses; the machine adds its own timing.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use baton_testing::{Rng, seed, setting};

use crate::crash_support::processes::{self, LiveProcess, Role};
use crate::crash_support::verdict::{self, Tally};
use crate::crash_support::{Rig, tasks};

/// Kills that `make test` makes; a soak asks for more.
const KILLS: u64 = 60;
/// The longest pause between two kills.
const PAUSE_MS_MAX: u64 = 120;

/// The kills by role, and their effect.
#[derive(Debug, Default)]
struct KillCounts {
    strikes: u64,
    runners: u64,
    coordinators: u64,
    processes: u64,
    missed: u64,
    tasks: u64,
    runs: Tally,
}

impl KillCounts {
    fn kills(&self) -> u64 {
        self.runners + self.coordinators + self.processes
    }
}

#[test]
fn a_task_succeeds_whichever_process_is_killed_at_any_time() {
    let (seed, kills) = (seed(), setting("BATON_KILLS").unwrap_or(KILLS));
    let mut rng = Rng::new(seed);
    let mut counts = KillCounts::default();
    let begun = Instant::now();
    while counts.kills() < kills {
        let left = kills - counts.kills();
        let result = catch_unwind(AssertUnwindSafe(|| one_task(&mut rng, &mut counts, left)));
        if let Err(panic) = result {
            println!(
                "with seed {seed}, in task {}, after {} kills. Again: BATON_SEED={seed} \
                 BATON_KILLS={kills} cargo test -p baton-cli --test local kill_loop -- --nocapture",
                counts.tasks + 1,
                counts.kills()
            );
            resume_unwind(panic);
        }
    }
    println!(
        "seed {seed}: {} kills in {} strikes ({} of runners, {} of coordinators, {} of processes; \
         {} kills missed), {} tasks, {}; {:.1} s",
        counts.kills(),
        counts.strikes,
        counts.runners,
        counts.coordinators,
        counts.processes,
        counts.missed,
        counts.tasks,
        counts.runs,
        begun.elapsed().as_secs_f64()
    );
}

/// One task, with a few kills in it.
fn one_task(rng: &mut Rng, counts: &mut KillCounts, left: u64) {
    let mut rig = Rig::new(&tasks::diamond("sleep 0.03"));
    let strikes = (4 + rng.below(20)).min(left);
    rig.start();
    for _ in 0..strikes {
        let pause = match rng.below(3) {
            0 => rng.below(10),
            _ => rng.below(PAUSE_MS_MAX),
        };
        std::thread::sleep(Duration::from_millis(pause));
        if kill_random(&mut rig, rng, counts) {
            break;
        }
    }
    loop {
        let code = rig.wait();
        if code.is_some() {
            break;
        }
        rig.start();
    }
    rig.must_succeed();
    counts.runs.add(verdict::success(&mut rig));
    counts.tasks += 1;
}

/// Kills a process, and restarts the runner if it was hit. True if the task has ended.
fn kill_random(rig: &mut Rig, rng: &mut Rng, counts: &mut KillCounts) -> bool {
    counts.strikes += 1;
    let before = counts.kills();
    let all = processes::of_rig(rig.dir.path());
    let one = |rng: &mut Rng, role: Role| -> Vec<usize> {
        let places = (0..all.len()).filter(|place| all[*place].role == role);
        let places: Vec<usize> = places.collect();
        match places.len() {
            0 => Vec::new(),
            some => vec![places[rng.below(some as u64) as usize]],
        }
    };
    let victims = match rng.below(10) {
        0..=2 => one(rng, Role::Runner),
        3..=4 => one(rng, Role::Coordinator),
        5..=6 => one(rng, Role::Process),
        7 => [one(rng, Role::Runner), one(rng, Role::Coordinator)].concat(),
        8 => [one(rng, Role::Coordinator), one(rng, Role::Process)].concat(),
        _ => (0..all.len()).collect(),
    };
    let mut victims: Vec<&LiveProcess> = victims.into_iter().map(|place| &all[place]).collect();
    if rng.below(2) == 0 {
        victims.reverse();
    }
    let mut runner_hit = false;
    for victim in victims {
        if !victim.kill() {
            continue;
        }
        match victim.role {
            Role::Runner => {
                runner_hit = true;
                counts.runners += 1;
            }
            Role::Coordinator => counts.coordinators += 1,
            Role::Process => counts.processes += 1,
            Role::Tracer => {}
        }
    }
    counts.missed += u64::from(counts.kills() == before);
    if runner_hit && rig.wait().is_none() {
        rig.start();
        return false;
    }
    rig.last_runner().is_over()
}

/// While its coordinator lives, a runner may die any number of times: the end of every run
/// is observed, and none is run again.
#[test]
fn killing_the_runner_alone_loses_nothing() {
    let mut rng = Rng::new(seed());
    let kills = setting("BATON_KILLS").unwrap_or(KILLS);
    let (mut killed, mut tasks) = (0, 0);
    while killed < kills {
        let mut rig = Rig::new(&tasks::diamond("sleep 0.01"));
        rig.start();
        for _ in 0..8 {
            std::thread::sleep(Duration::from_millis(rng.below(40)));
            for runner in processes::with_role(rig.dir.path(), Role::Runner) {
                killed += u64::from(runner.kill());
            }
            if rig.wait().is_some() {
                break;
            }
            rig.start();
        }
        while rig.wait().is_none() {
            rig.start();
        }
        rig.must_succeed();
        let tally = verdict::success(&mut rig);
        assert_eq!(tally.lost, 0, "in task {tasks}, with seed {}", seed());
        tasks += 1;
    }
}
