//! Nodes and the controller fail.

use baton_model::fleet::JobEnd;
use baton_testing::until_at_last;

use super::Site;
use crate::api::Api as _;
use crate::effects::Effects;

/// Slurm kills what runs on a node that it calls down, if the node's daemon is there.
#[test]
fn the_work_of_a_node_that_is_down_goes_on_in_another_job() {
    let site = Site::new();
    site.add("s", &["--max", "1"]);
    let effects = Effects::new(&site.cluster, "effects");
    let id = site.submit(&effects, "s");
    effects.started(1);
    site.slurm.set_down(&site.running("s").node);
    let failed = site.ended("s", 0);
    assert_eq!(failed.end, Some(JobEnd::Failed), "{failed:?}");
    until_at_last("it starts again", || effects.starts().len() == 2);
    effects.go();
    site.done(id, 1);
    effects.never_overlapped();
    assert_eq!(effects.ends(), ["2"]);
    site.remove_all();
    site.submitted_once();
}

/// Slurm calls a job over that it can no longer see. It runs on, and so does its work: once.
#[test]
fn work_on_a_node_that_only_slurm_has_lost_is_not_repeated() {
    let site = Site::new();
    site.add("s", &["--max", "1", "--idle-timeout", "2s"]);
    let effects = Effects::new(&site.cluster, "effects");
    let id = site.submit(&effects, "s");
    effects.started(1);
    let node = site.running("s").node;
    site.slurm.kill_node(&node);
    site.slurm.set_down(&node);
    let failed = site.ended("s", 0);
    assert_eq!(failed.end, Some(JobEnd::Failed), "{failed:?}");
    let worker = site.cluster.instance(id).worker;
    assert_eq!(worker.as_deref(), Some("s-p1-0"), "it is there");
    effects.go();
    site.done(id, 0);
    assert_eq!(effects.starts().len(), 1);
    until_at_last("it ends when it is idle", || {
        site.cluster.worker("s-p1-0").is_none()
    });
    site.remove_all();
    site.submitted_once();
}

#[test]
fn while_the_controller_is_away_work_goes_on_and_nothing_is_asked_for_twice() {
    let site = Site::new();
    site.add("s", &["--max", "2", "--idle-timeout", "2s"]);
    let cluster = &site.cluster;
    let first = Effects::new(cluster, "first");
    let running = site.submit(&first, "s");
    first.started(1);
    site.slurm.signal_controller("KILL");
    let second = Effects::new(cluster, "second");
    let waiting = site.submit(&second, "s");
    until_at_last("the alarm tells", || {
        let alarms = site.fleet("s").alarms;
        alarms
            .iter()
            .any(|it| it.contains("Unable to contact slurm controller"))
    });
    // What runs needs no controller.
    first.go();
    site.done(running, 0);
    assert!(second.starts().len() <= 1);
    site.slurm.start_controller();
    second.go();
    site.done(waiting, 0);
    for effects in [&first, &second] {
        effects.never_overlapped();
        assert_eq!(effects.ends(), ["1"]);
    }
    site.remove_all();
    site.submitted_once();
}
