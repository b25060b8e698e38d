//! Jobs of a real Slurm.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use baton_fleet::{list_together, try_out};
use baton_model::fleet::{Backend, FleetAnswer, JobState, SlurmOptions, Verdict};
use baton_testing::processes::is_alive;
use baton_testing::slurm::Slurm;
use baton_testing::until;

use crate::support::{Bench, SECRET, assert_refused, assert_unclear, write};

/// A fleet on a cluster of its own.
fn bench(options: SlurmOptions) -> (Bench, Slurm) {
    let slurm = Slurm::start();
    let mut bench = Bench::new(Backend::Slurm(options));
    bench.site.env.push(slurm.variable());
    (bench, slurm)
}

fn with_args(args: &[&str]) -> SlurmOptions {
    SlurmOptions {
        args: args.iter().map(|&it| it.to_owned()).collect(),
        ..SlurmOptions::default()
    }
}

#[test]
fn a_job_is_submitted_listed_and_cancelled() {
    let (mut bench, slurm) = bench(SlurmOptions {
        partition: Some("low".to_owned()),
        ..SlurmOptions::default()
    });
    bench.spec.before = Some("echo before: $HOME".to_owned());
    bench.spec.time_limit = Some(baton_model::time::Millis(90_500));
    assert_eq!(bench.listed(), []);
    let native = bench.submitted(7);
    let sighting = bench.until(7, JobState::Running);
    assert_eq!((&*sighting.native, &*sighting.word), (&*native, "RUNNING"));
    let [node] = &sighting.nodes[..] else {
        panic!("{sighting:?}");
    };
    assert!(node.starts_with('n'), "{node}");
    let (pilot, args) = bench.until_pilots(1).remove(0);
    let dir = bench.path().display();
    assert_eq!(
        args,
        format!(
            "worker --name gpu-p7-0 --lifetime slurm --idle-exit 300s --scheduler a:8081,b:8081 \
             --token-file {dir}/token --state {dir}/site/gpu/baton-t1-gpu-p7-0 --label fleet=gpu --label group=gpu-p7 \
             --label zone=it's; $(here) --resources cpu=1,memory=67108864B,disk=0B,gpu=0"
        )
    );
    let shown = slurm.run(&["scontrol", "show", "job", &native]);
    for part in [
        "JobName=baton-t1-gpu-p7",
        "Requeue=0",
        "TimeLimit=00:02:00",
        "Partition=low",
        "MinMemoryNode=64M",
        "Comment=Baton fleet gpu, job p7",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let script = slurm.run(&["scontrol", "write", "batch_script", &native, "-"]);
    assert!(script.contains("exec "), "{script}");
    assert!(!format!("{shown}{script}").contains(SECRET));
    for (file, text) in bench.files() {
        assert!(!text.contains(SECRET), "{file} has the token");
    }

    bench.cancelled(&native, 7);
    let sighting = bench.until(7, JobState::Ended);
    assert_eq!(sighting.word, "CANCELLED");
    assert!(!sighting.contained, "linuxproc loses processes");
    assert_eq!(bench.stopped(), [pilot]);
    let log = fs::read_to_string(bench.site.dir.join("gpu/baton-t1-gpu-p7.log")).expect("a log");
    assert!(log.contains("before: /"), "{log}");
    bench.cancelled(&native, 7);
}

#[test]
fn workers_of_a_job_are_spread_over_its_nodes() {
    let (mut bench, slurm) = bench(SlurmOptions {
        nodes: 2,
        ..SlurmOptions::default()
    });
    bench.spec.workers_per_job = 4;
    bench.spec.after = Some("echo \"after: $status\"".to_owned());
    let native = bench.submitted(1);
    let pilots = bench.until_pilots(4);
    let mut names: Vec<&str> = pilots
        .iter()
        .filter_map(|(_, args)| args.split(' ').nth(2))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["gpu-p1-0", "gpu-p1-1", "gpu-p1-2", "gpu-p1-3"]);
    let states = pilots.iter().filter(|(_, args)| {
        let name = args.split(' ').nth(2).unwrap_or_default();
        let number = name.trim_start_matches("gpu-");
        args.contains(&format!("/site/gpu/baton-t1-gpu-{number} --label"))
    });
    assert_eq!(states.count(), 4, "{pilots:?}");
    assert_eq!(bench.until(1, JobState::Running).nodes, ["n0", "n1"]);

    // The warning before the end of a job goes to its shell only, which passes it on.
    slurm.run(&["scancel", "--batch", "--signal=TERM", &native]);
    let sighting = bench.until(1, JobState::Ended);
    assert_eq!(sighting.word, "COMPLETED");
    let mut stopped = bench.stopped();
    stopped.sort_unstable();
    let mut pids: Vec<u32> = pilots.iter().map(|it| it.0).collect();
    pids.sort_unstable();
    assert_eq!(stopped, pids);
    let log = fs::read_to_string(bench.site.dir.join("gpu/baton-t1-gpu-p1.log")).expect("a log");
    assert!(log.contains("after: 0"), "{log}");
}

#[test]
fn the_status_of_a_pilot_is_that_of_its_job() {
    let (mut bench, _slurm) = bench(SlurmOptions::default());
    bench.spec.worker_args = vec!["--exit".to_owned(), "3".to_owned()];
    bench.submitted(1);
    assert_eq!(bench.until(1, JobState::Failed).word, "FAILED");
    bench.spec.after = Some("true".to_owned());
    bench.submitted(2);
    bench.until(2, JobState::Failed);
    bench.spec.worker_args = vec!["--exit".to_owned(), "0".to_owned()];
    bench.submitted(3);
    assert_eq!(bench.until(3, JobState::Ended).word, "COMPLETED");
}

#[test]
fn a_job_whose_submission_was_killed_is_found_by_its_name() {
    let (mut bench, _slurm) = bench(SlurmOptions::default());
    let bin = bench.path().join("bin");
    fs::create_dir(&bin).expect("made");
    let killed = "#!/bin/sh\n/usr/bin/sbatch \"$@\" >/dev/null\nkill -9 $$\n";
    write(&bin.join("sbatch"), 0o755, killed);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("set"));
    bench.site.env.push(("PATH".to_owned(), path));
    assert_unclear(&bench.submit(1));
    bench.until(1, JobState::Running);
    bench.until_pilots(1);
    // Its id is unknown.
    bench.cancelled("", 1);
    bench.until(1, JobState::Ended);
    bench.cancelled("", 2);
}

#[test]
fn a_waiting_job_tells_its_reason_and_excluded_nodes_stay_free() {
    let (bench, slurm) = bench(with_args(&["--hold"]));
    let native = match bench.submit_without(1, &["n0", "n1", "n2", "-bad name"]) {
        FleetAnswer::Submitted { native, .. } => native,
        other => panic!("{other:?}"),
    };
    let sighting = bench.until(1, JobState::Queued);
    assert_eq!(
        (&*sighting.word, sighting.reason.as_deref()),
        ("PENDING", Some("JobHeldUser"))
    );
    assert!(sighting.nodes.is_empty());
    // An administrator moves it.
    let id = format!("jobid={native}");
    slurm.run(&["scontrol", "update", &id, "partition=high"]);
    assert_eq!(bench.until(1, JobState::Queued).native, native);
    slurm.run(&["scontrol", "release", &native]);
    assert_eq!(bench.until(1, JobState::Running).nodes, ["n3"]);
    // Another fleet's list does not have it.
    let mut other = bench;
    other.fleet = "gpu-2".parse().expect("a name");
    assert_eq!(other.listed(), []);
}

#[test]
fn fleets_are_listed_with_one_call() {
    let (mut bench, _slurm) = bench(with_args(&["--hold"]));
    bench.submitted(1);
    let gpu = bench.fleet.clone();
    bench.fleet = "cpu".parse().expect("a name");
    bench.submitted(2);
    let bin = bench.path().join("bin");
    fs::create_dir(&bin).expect("made");
    let counted = "#!/bin/sh\necho call >>\"$0.calls\"\nexec /usr/bin/squeue \"$@\"\n";
    write(&bin.join("squeue"), 0o755, counted);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("set"));
    bench.site.env.push(("PATH".to_owned(), path));
    let spec = Arc::new(bench.spec.clone());
    let mut local = bench.spec.clone();
    local.backend = Backend::Local;
    let fleets = [
        (gpu, spec.clone()),
        ("here".parse().expect("a name"), Arc::new(local)),
        (bench.fleet.clone(), spec),
    ];
    let answers = list_together(&fleets, &bench.site);
    let names: Vec<Vec<String>> = answers
        .into_iter()
        .map(|answer| match answer {
            FleetAnswer::Listed { jobs, .. } => jobs.into_iter().map(|it| it.name).collect(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        names,
        [
            vec!["baton-t1-gpu-p1".to_owned()],
            vec![],
            vec!["baton-t1-cpu-p2".to_owned()]
        ]
    );
    let calls = fs::read_to_string(bin.join("squeue.calls")).expect("called");
    assert_eq!(calls, "call\n");
}

#[test]
fn a_refused_submission_leaves_nothing() {
    let (bench, _slurm) = bench(with_args(&["--partition=nowhere"]));
    assert_refused(&bench.submit(1), "invalid partition specified: nowhere");
    assert_eq!(bench.listed(), []);
}

#[test]
fn a_requeued_job_is_in_the_queue_again() {
    let (bench, slurm) = bench(with_args(&["--requeue"]));
    let native = bench.submitted(1);
    bench.until_pilots(1);
    slurm.run(&["scontrol", "requeuehold", &native]);
    let sighting = bench.until(1, JobState::Queued);
    assert_eq!(sighting.native, native);
    assert_eq!(bench.stopped().len(), 1);
    bench.cancelled(&native, 1);
    bench.until(1, JobState::Ended);
}

#[test]
fn a_job_on_a_dead_node_has_failed() {
    let (bench, slurm) = bench(SlurmOptions::default());
    bench.submitted(1);
    let node = bench.until(1, JobState::Running).nodes.remove(0);
    bench.until_pilots(1);
    let name = format!("nodename={node}");
    slurm.run(&["scontrol", "update", &name, "state=down", "reason=test"]);
    let sighting = bench.until(1, JobState::Failed);
    assert_eq!(sighting.word, "NODE_FAIL");
    assert_eq!(sighting.nodes, [node]);
}

#[test]
fn a_preempted_job_is_no_failure() {
    let (mut bench, slurm) = bench(SlurmOptions {
        partition: Some("low".to_owned()),
        nodes: 4,
        ..SlurmOptions::default()
    });
    bench.spec.workers_per_job = 4;
    bench.spec.shape.capacity.cpu_milli = 3_500;
    bench.submitted(1);
    let pilots = bench.until_pilots(4);
    slurm.run(&[
        "sbatch",
        "--output=/dev/null",
        "--partition=high",
        "--wrap=sleep 1000",
    ]);
    let sighting = bench.until(1, JobState::Preempted);
    assert_eq!(sighting.word, "PREEMPTED");
    for (pilot, _) in pilots {
        until("the pilot is gone", || !is_alive(pilot));
    }
}

#[test]
fn a_silent_controller_is_no_end_and_no_refusal() {
    let (mut bench, slurm) = bench(SlurmOptions::default());
    let native = bench.submitted(1);
    bench.until(1, JobState::Running);
    bench.site.timeout = Duration::from_secs(1);
    slurm.signal_controller("STOP");
    let failed = |answer: FleetAnswer| match answer {
        FleetAnswer::ListFailed { reason, .. } | FleetAnswer::CancelFailed { reason, .. } => reason,
        other => panic!("{other:?}"),
    };
    assert!(failed(bench.list()).contains("has not ended within 1 s"));
    assert_unclear(&bench.submit(2));
    failed(bench.cancel(&native, 1));
    slurm.signal_controller("CONT");
    slurm.signal_controller("KILL");
    bench.site.timeout = Duration::from_secs(60);
    // A connection that the controller had taken before it died fails in another way.
    until("nothing listens any more", || {
        failed(bench.list()).contains("Unable to contact slurm controller")
    });
    // Nothing was sent.
    assert_refused(&bench.submit(3), "connect failure");

    slurm.start_controller();
    let sighting = bench.until(1, JobState::Running);
    assert_eq!(sighting.native, native);
    assert_eq!(bench.sighting(3), None);
}

#[test]
fn a_definition_is_tried_without_a_job() {
    let (mut bench, slurm) = bench(SlurmOptions::default());
    let tried = |bench: &Bench| try_out(&bench.fleet, &bench.spec, &bench.site);
    let taken = tried(&bench);
    assert_eq!(taken.verdict, Verdict::Accepted, "{taken:?}");
    assert!(taken.text.contains("to start at"), "{taken:?}");
    bench.spec.backend = Backend::Slurm(with_args(&["--partition=nowhere"]));
    let refused = tried(&bench);
    assert_eq!(refused.verdict, Verdict::Refused, "{refused:?}");
    assert!(
        refused.text.to_lowercase().contains("partition"),
        "{refused:?}"
    );
    bench.spec.backend = Backend::Slurm(SlurmOptions::default());
    bench.spec.shape.capacity.cpu_milli = 1_000_000_000;
    let refused = tried(&bench);
    assert_eq!(refused.verdict, Verdict::Refused, "{refused:?}");
    slurm.signal_controller("KILL");
    let silent = tried(&bench);
    assert_eq!(silent.verdict, Verdict::Unclear, "{silent:?}");
    assert!(!bench.site.dir.exists(), "nothing was made for it");
}
