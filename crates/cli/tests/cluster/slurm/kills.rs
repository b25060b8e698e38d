//! `kill -9` of what belongs to a fleet.
//!
//! `BATON_SEED`, `BATON_KILLS` and `BATON_INSTANCES` choose another or a longer run; `make soak` does.

use baton_model::fleet::JobEnd;
use baton_testing::processes::{kill_all, processes, send};
use baton_testing::slurm::Job;
use baton_testing::{Rng, setting, until_at_last};
use rustix::process::Signal;
use serde_json::json;

use super::{Site, in_fleet};
use crate::api::Api as _;
use crate::effects::Effects;
use crate::kill_loop::{SCRIPT, check};

/// The agent is killed, and Slurm ends its job. Its coordinator is none of Slurm's processes any more, and its task
/// ignores SIGTERM: it lives until its lease runs out. Another worker is free all the time, but the next attempt waits.
#[test]
fn what_outlives_its_job_never_meets_its_next_attempt() {
    let site = Site::with_lost_after("60s", |_| Vec::new());
    let others = site.slurm.take_nodes(2);
    // Two of three have a node. While one is queued, lists are asked for often: the end of a job is known soon.
    site.add(
        "s",
        &["--cpus", "4", "--min", "3", "--max", "3", "--backlog", "3"],
    );
    until_at_last("two workers are there", || site.fleet("s").workers == 2);
    let effects = Effects::new(&site.cluster, "effects");
    let task = in_fleet(effects.task("trap '' TERM"), "s");
    let id = site.cluster.submit(task, 1).first;
    effects.started(1);
    let worker = site.cluster.instance(id).worker.expect("it runs");
    let dir = site.cluster.path("");
    let (agent, dir) = (format!(" worker --name {worker} "), dir.to_string_lossy());
    let agents = processes(|it| it.contains(&agent) && it.contains(&*dir));
    assert!(!agents.is_empty());
    for agent in agents {
        send(agent, Signal::KILL);
    }
    until_at_last("it starts again", || effects.starts().len() == 2);
    let failed = site.jobs("s").into_iter().filter(|it| it.end.is_some());
    assert_eq!(
        failed.map(|it| it.end).collect::<Vec<_>>(),
        [Some(JobEnd::Failed)]
    );
    effects.go();
    site.done(id, 1);
    effects.never_overlapped();
    site.slurm.run(&["scancel", &others]);
    site.remove_all();
    site.submitted_once();
}

#[test]
fn nothing_is_lost_or_doubled_when_schedulers_pilots_and_the_controller_are_killed() {
    let kills = setting("BATON_KILLS").unwrap_or(4);
    let count = setting("BATON_INSTANCES").unwrap_or(400);
    let mut rng = Rng::new(setting("BATON_SEED").unwrap_or(1));
    let mut site = Site::new();
    site.add(
        "s",
        &["--max", "4", "--backlog", "4", "--idle-timeout", "10s"],
    );
    let dir = site.cluster.path("effects");
    std::fs::create_dir(&dir).expect("made");
    let task = json!({ "task": "effects", "run": SCRIPT, "env": { "DIR": dir } });
    let span = site.cluster.submit(in_fleet(task, "s"), count);
    for kill in 0..kills {
        // Each kill meets workers that have begun something since the last one.
        let at = kill * count / kills;
        until_at_last("work goes on", || {
            let states = site.cluster.states(span);
            let over = ["DONE", "FAILED"].iter().filter_map(|it| states.get(*it));
            over.sum::<u64>() >= at
        });
        match rng.below(3) {
            0 => {
                site.cluster.kill_scheduler();
                site.cluster.start_scheduler();
            }
            1 => {
                site.slurm.signal_controller("KILL");
                site.slurm.start_controller();
            }
            _ => kill_pilot(&site, &mut rng),
        }
    }
    until_at_last("everything ends", || {
        let states = site.cluster.states(span);
        let over = ["DONE", "FAILED"].iter().filter_map(|it| states.get(*it));
        over.sum::<u64>() == count
    });
    let failed = site.cluster.states(span).get("FAILED").copied();
    assert_eq!(failed, Some(count / 50), "those that exit with 7");
    let again = check(&site.cluster, span, &dir);
    eprintln!("{kills} kills: {again} ran again because their end was not reported");
    site.remove_all();
    site.submitted_once();
}

/// Kills one pilot with all its processes, as the end of its node would.
fn kill_pilot(site: &Site, rng: &mut Rng) {
    let jobs = site.slurm.queue();
    let running: Vec<&Job> = jobs.iter().filter(|it| it.state == "RUNNING").collect();
    if running.is_empty() {
        return;
    }
    let name = &running[rng.below(running.len() as u64) as usize].name;
    let state = format!("{name}-0");
    kill_all(|it| it.contains(&state));
}
