//! Commands of the user, and the shipped ones for PBS and Kubernetes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_model::fleet::{Backend, CommandOptions, FleetAnswer, JobState};
use baton_testing::processes::is_alive;
use baton_testing::until;

use crate::support::{Bench, SECRET, assert_refused, assert_unclear, reason, write};

fn bench(start: &str, list: &str, stop: &str) -> Bench {
    Bench::new(Backend::Command(CommandOptions {
        start: start.to_owned(),
        list: list.to_owned(),
        stop: stop.to_owned(),
    }))
}

#[test]
fn commands_start_list_and_stop_a_job() {
    // A manager in three lines: a job is a process.
    let mut bench = bench(
        "setsid \"$BATON_JOB_SCRIPT\" </dev/null >/dev/null 2>&1 & \
         echo \"$BATON_FLEET $BATON_JOB_NAME $!\" >>\"$JOBS\"; echo hello; echo $!",
        "while read -r fleet name id; do [ \"$fleet\" = \"$BATON_FLEET\" ] || continue; \
         if kill -0 \"$id\" 2>/dev/null; then echo \"$id $name running\"; else echo \"$id $name ended it is gone\"; fi; \
         done <\"$JOBS\"; echo 1 another-job queued",
        "kill -TERM \"$@\"",
    );
    let jobs = bench.path().join("jobs").display().to_string();
    bench.site.env.push(("JOBS".to_owned(), jobs));
    bench.spec.workers_per_job = 2;
    bench.spec.after = Some("touch \"${0%/*}/after-$status\"".to_owned());
    let native = bench.submitted(4);
    let pilots = bench.until_pilots(2);
    let sighting = bench.sighting(4).expect("listed");
    assert_eq!(
        (sighting.state, sighting.native),
        (JobState::Running, native.clone())
    );
    assert_eq!(bench.listed().len(), 1, "another's job is not listed");
    let script =
        fs::read_to_string(bench.site.dir.join("gpu/baton-t1-gpu-p4.sh")).expect("a script");
    assert!(
        !script.contains(SECRET) && script.contains("--name gpu-p4-1"),
        "{script}"
    );

    // By its name, since the id was lost.
    bench.cancelled("", 4);
    for (pilot, _) in pilots {
        until("the pilot is gone", || !is_alive(pilot));
    }
    assert_eq!(bench.stopped().len(), 2);
    let after = bench.site.dir.join("gpu/after-0");
    until("the last lines were run", || after.exists());
    let shell = native.parse().expect("a pid");
    until("the script is gone", || !is_alive(shell));
    bench.cancelled("", 77);
}

#[test]
fn errors_of_commands_are_answers() {
    let mut bench = bench(
        "echo 'no such queue' >&2; exit 2",
        "exit 3",
        "echo broken >&2; false",
    );
    assert_refused(&bench.submit(1), "no such queue");
    let FleetAnswer::ListFailed { reason: listed, .. } = bench.list() else {
        panic!("a list that failed");
    };
    assert_eq!(listed, "exit status 3, without a message");
    assert_eq!(reason(&bench.cancel("12", 1)), "broken");
    // Without an id, it has to be looked for.
    assert_eq!(reason(&bench.cancel("", 1)), listed);

    bench.spec.backend = Backend::Command(CommandOptions {
        start: "echo 12; sleep 1000".to_owned(),
        list: "yes".to_owned(),
        stop: "kill -9 $$".to_owned(),
    });
    bench.site.timeout = Duration::from_secs(1);
    assert_unclear(&bench.submit(1));
    bench.site.timeout = Duration::from_secs(60);
    assert!(reason(&bench.list()).contains("more than 16777216 bytes"));
    assert!(reason(&bench.cancel("12", 1)).contains("killed by signal 9"));
}

#[test]
fn the_script_of_a_job_is_private() {
    let bench = bench(
        "test \"$(stat -c %a \"$BATON_JOB_SCRIPT\")\" = 700 && echo id",
        "",
        "",
    );
    assert_eq!(bench.submitted(1), "id");
    let mode = |path: &Path| {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(path).expect("there").mode() & 0o777
    };
    assert_eq!(mode(&bench.site.dir), 0o700);
    assert_eq!(mode(&bench.site.dir.join("gpu")), 0o700);
}

/// A shipped program, whose manager is replaced by stand-ins that answer from files.
fn shipped(program: &str, args: &str) -> (Bench, PathBuf) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join("contrib/fleets").join(program);
    let file = file.canonicalize().expect("shipped");
    let command = |word: &str| format!("{} {word}", file.display());
    let start = format!("{} {args}", command("start"));
    let mut bench = bench(
        &start,
        &command("list"),
        &format!("{} \"$@\"", command("stop")),
    );
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let bin = bench.path().join("bin");
    fs::create_dir(&bin).expect("made");
    for name in ["qsub", "qstat", "qdel", "kubectl"] {
        write(&bin.join(name), 0o755, STAND_IN);
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("set"));
    let calls = bench.path().join("calls");
    for (name, value) in [
        ("PATH", path),
        ("RECORDED", recorded.display().to_string()),
        ("CALLS", calls.display().to_string()),
    ] {
        bench.site.env.push((name.to_owned(), value));
    }
    (bench, calls)
}

/// Records its call and its input, and prints the recorded answer.
const STAND_IN: &str = r#"#!/bin/sh
name=${0##*/}
echo "$name $*" >>"$CALLS"
case "$name $*" in
*" -f -"*) cat >>"$CALLS" ;;
esac
[ ! -e "$RECORDED/$name.err" ] || [ -z "$FAIL" ] || { cat "$RECORDED/$name.err" >&2; exit 1; }
case "$name $1" in
"kubectl get") cat "$RECORDED/kubectl-get.out" ;;
"kubectl "*) ;;
*) cat "$RECORDED/$name.out" 2>/dev/null || true ;;
esac
"#;

#[test]
fn the_program_for_pbs_reads_its_answers() {
    let (mut bench, calls) = shipped("pbs.sh", "-q work -l select=1:ncpus=4");
    assert_eq!(bench.submitted(1), "1207.pbs");
    let jobs = bench.listed();
    let states: Vec<_> = jobs
        .iter()
        .map(|it| (&*it.native, it.state, it.reason.as_deref()))
        .collect();
    assert_eq!(
        states,
        [
            (
                "1207.pbs",
                JobState::Running,
                Some("Job run at Wed Nov 18 at 10:12 on (node07:ncpus=4)")
            ),
            (
                "1208.pbs",
                JobState::Queued,
                Some("Not Running: Insufficient amount of resource: ncpus (R: 4 A: 0 T: 512)")
            ),
            ("1209.pbs", JobState::Queued, None),
            ("1201.pbs", JobState::Ended, Some("Exit status 0")),
            ("1202.pbs", JobState::Failed, Some("Exit status 3")),
            ("1203.pbs", JobState::Ended, Some("Exit status 271")),
            ("1210.pbs", JobState::Unsure, None),
        ]
    );
    bench.cancelled("1208.pbs", 2);
    let calls = fs::read_to_string(calls).expect("recorded");
    let script = bench.site.dir.join("gpu/baton-t1-gpu-p1.sh");
    for call in [
        format!(
            "qsub -q work -l select=1:ncpus=4 -N baton-t1-gpu-p1 -j oe -r n -o {}/baton-t1-gpu-p1.log {}",
            bench.site.dir.join("gpu").display(),
            script.display()
        ),
        "qstat -xf".to_owned(),
        "qdel 1208.pbs".to_owned(),
    ] {
        assert!(calls.lines().any(|line| line == call), "{call}: {calls}");
    }
    bench.site.env.push(("FAIL".to_owned(), "1".to_owned()));
    assert!(reason(&bench.list()).contains("Connection refused"));
    assert_unclear(&bench.submit(9));
}

#[test]
fn the_program_for_kubernetes_reads_its_answers() {
    let (mut bench, calls) = shipped(
        "kubernetes.sh",
        "registry.example/baton:1 baton-token /etc/baton cpu=8,memory=32Gi",
    );
    assert_eq!(bench.submitted(1), "baton-t1-gpu-p1");
    let jobs = bench.listed();
    let states: Vec<_> = jobs
        .iter()
        .map(|it| (&*it.native, it.state, it.reason.as_deref()))
        .collect();
    assert_eq!(
        states,
        [
            ("baton-t1-gpu-p1", JobState::Running, None),
            ("baton-t1-gpu-p2", JobState::Queued, None),
            ("baton-t1-gpu-p3", JobState::Ended, None),
            (
                "baton-t1-gpu-p4",
                JobState::Failed,
                Some("BackoffLimitExceeded")
            ),
        ]
    );
    bench.cancelled("baton-t1-gpu-p2", 2);
    let calls = fs::read_to_string(calls).expect("recorded");
    for part in [
        "kubectl create -f -",
        "  name: baton-t1-gpu-p1",
        "image: \"registry.example/baton:1\"",
        "limits: {cpu: \"8\", memory: \"32Gi\"}",
        // A dollar of the script is doubled.
        "wait \"$$pilot\"; code=$$?",
        "kubectl delete jobs --ignore-not-found --wait=false baton-t1-gpu-p2",
    ] {
        assert!(calls.contains(part), "{part}: {calls}");
    }
    assert!(!calls.contains(SECRET));
    bench.site.env.push(("FAIL".to_owned(), "1".to_owned()));
    assert!(reason(&bench.list()).contains("i/o timeout"));
    assert_unclear(&bench.submit(9));
}
