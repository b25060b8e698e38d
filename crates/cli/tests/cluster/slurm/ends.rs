//! Jobs that end: by their time limit, by order, and for others.

use baton_model::fleet::{JobEnd, JobState};
use baton_testing::until_at_last;
use serde_json::json;

use super::{Site, in_fleet};
use crate::api::Api as _;
use crate::effects::Effects;

#[test]
fn at_its_time_limit_a_job_ends_in_order_and_its_work_goes_on_in_the_next() {
    let site = Site::new();
    site.add_draining("s", "20s", &["--max", "1", "--time-limit", "1m"]);
    let long = json!({ "task": "long", "run": "echo > long", "time_request": "5m" });
    let long = site.cluster.submit(in_fleet(long, "s"), 1).first;
    let effects = Effects::new(&site.cluster, "effects");
    let id = site.submit(&effects, "s");
    effects.started(1);
    let explained = site.cluster.run(&["explain", &long.to_string()]).good();
    let why = "fleet s cannot run it";
    assert!(explained.contains(why), "{explained}");

    // The worker stops what it has in time, says so, and leaves.
    let first = site.ended("s", 0);
    assert_eq!(first.end, Some(JobEnd::Ended), "{first:?}");
    until_at_last("it starts again", || effects.starts().len() == 2);
    effects.go();
    site.done(id, 1);
    effects.never_overlapped();
    assert_eq!(effects.ends(), ["2"]);
    let alarms = site.fleet("s").alarms;
    assert!(alarms.is_empty(), "a time limit is no failure: {alarms:?}");
    let waiting = site.cluster.instance(long);
    assert_eq!((waiting.state.word(), waiting.attempts), ("QUEUED", 0));
    site.cluster.run(&["cancel", &long.to_string()]).good();
    site.remove_all();
    site.submitted_once();
}

#[test]
fn a_cancelled_job_is_replaced_whether_it_waits_or_runs() {
    let site = Site::new();
    let others = site.slurm.take_nodes(4);
    site.add("s", &["--max", "1"]);
    let effects = Effects::new(&site.cluster, "effects");
    let id = site.submit(&effects, "s");
    until_at_last("it is queued", || {
        let jobs = site.jobs("s");
        jobs.first()
            .is_some_and(|it| it.state == Some(JobState::Queued))
    });
    let explained = site.cluster.run(&["explain", &id.to_string()]).good();
    assert!(
        explained.contains("1 job of fleet s is queued"),
        "{explained}"
    );
    let native = site.jobs("s")[0].native.clone().expect("it is known");
    site.slurm.run(&["scancel", &native]);
    assert_eq!(site.ended("s", 0).end, Some(JobEnd::Ended));
    site.slurm.run(&["scancel", &others]);

    until_at_last("another job has come", || !effects.starts().is_empty());
    site.slurm.run(&["scancel", &site.running("s").id]);
    until_at_last("it starts again", || effects.starts().len() == 2);
    effects.go();
    site.done(id, 1);
    effects.never_overlapped();
    assert_eq!(effects.ends(), ["2"]);
    site.remove_all();
    site.submitted_once();
}

/// One fleet whose jobs Slurm cancels for others, and one whose jobs it queues again.
#[test]
fn a_preempted_job_costs_a_loss_and_no_failure() {
    let site = Site::new();
    site.add("gone", &["--max", "1", "--partition", "scavenge"]);
    let again = ["--max", "1", "--partition", "low", "--arg=--requeue"];
    site.add("again", &again);
    let work = ["gone", "again"].map(|fleet| {
        let effects = Effects::new(&site.cluster, fleet);
        let id = site.submit(&effects, fleet);
        (effects, id)
    });
    for (effects, _) in &work {
        effects.started(1);
    }
    let requeued = site.running("again");
    let others = site.slurm.take_nodes(4);
    let preempted = site.ended("gone", 0);
    assert_eq!(preempted.end, Some(JobEnd::Preempted), "{preempted:?}");
    until_at_last("the other is queued again", || {
        let known = site.jobs("again");
        known[0].state == Some(JobState::Queued)
    });
    site.slurm.run(&["scancel", &others]);
    // Slurm lets what it has queued again wait for two minutes.
    let id = format!("jobid={}", requeued.id);
    site.slurm
        .run(&["scontrol", "update", &id, "starttime=now"]);
    for (effects, id) in work {
        until_at_last("it starts again", || effects.starts().len() == 2);
        effects.go();
        site.done(id, 1);
        effects.never_overlapped();
        assert_eq!(effects.ends(), ["2"]);
    }
    for fleet in ["gone", "again"] {
        let alarms = site.fleet(fleet).alarms;
        assert!(alarms.is_empty(), "{alarms:?}");
    }
    site.remove_all();
    site.submitted_once();
}
