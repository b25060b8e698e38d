//! Pilots as processes of this host.

use std::fs;
use std::time::Duration;

use baton_fleet::PilotToken;
use baton_model::fleet::{Backend, JobState};
use baton_model::time::Millis;
use baton_testing::processes::{self, is_alive};
use baton_testing::until;
use rustix::process::Signal;

use crate::support::{Bench, SECRET, assert_refused, write};

fn bench() -> Bench {
    Bench::new(Backend::Local)
}

/// The pid of the shell of a local job with one pilot.
fn shell(native: &str) -> u32 {
    let pid = native.strip_prefix("localhost:").expect("on this host");
    pid.parse().expect("a pid")
}

#[test]
fn a_pilot_is_started_listed_and_stopped() {
    let mut bench = bench();
    bench.spec.time_limit = Some(Millis::from_secs(3_600));
    bench.spec.worker_args = vec!["--slots".to_owned(), "2".to_owned()];
    let native = bench.submitted(7);
    let (pilot, args) = bench.until_pilots(1).remove(0);
    let dir = bench.path().display();
    let expected = format!(
        "worker --name gpu-p7-0 --lifetime 3600s --idle-exit 300s --scheduler a:8081,b:8081 \
         --token-file {dir}/token --state {dir}/site/gpu/baton-t1-gpu-p7-0 --label fleet=gpu --label group=gpu-p7 \
         --label zone=it's; $(here) --resources cpu=1,memory=67108864B,disk=0B,gpu=0 --slots 2"
    );
    assert_eq!(args, expected);
    let sighting = bench.sighting(7).expect("listed");
    assert_eq!(
        (sighting.state, &*sighting.native),
        (JobState::Running, &*native)
    );
    assert_eq!(sighting.nodes, ["localhost"]);

    bench.cancelled(&native, 7);
    bench.until(7, JobState::Ended);
    assert_eq!(bench.stopped(), [pilot]);
    assert!(!is_alive(pilot) && !is_alive(shell(&native)));
    for (file, text) in bench.files() {
        assert!(!text.contains(SECRET), "{file} has the token");
    }
    bench.cancelled(&native, 7);
}

#[test]
fn a_job_has_several_pilots_in_sessions_of_their_own() {
    let mut bench = bench();
    bench.spec.workers_per_job = 3;
    let native = bench.submitted(1);
    let pilots = bench.until_pilots(3);
    let mut names: Vec<&str> = pilots
        .iter()
        .filter_map(|(_, args)| args.split(' ').nth(2))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["gpu-p1-0", "gpu-p1-1", "gpu-p1-2"]);
    // It is alive as long as one of them is.
    for (pilot, _) in &pilots[..2] {
        processes::send(*pilot, Signal::TERM);
    }
    until("two have ended", || bench.stopped().len() == 2);
    bench.until(1, JobState::Running);
    bench.cancelled(&native, 1);
    bench.until(1, JobState::Ended);
}

#[test]
fn a_second_submission_starts_nothing() {
    let bench = bench();
    let native = bench.submitted(1);
    assert_eq!(bench.submitted(1), native);
    bench.until_pilots(1);
    bench.cancelled("", 1);
    bench.until(1, JobState::Ended);
    assert_eq!(bench.pilots().len(), 1);
}

#[test]
fn a_cancelled_job_never_starts() {
    let bench = bench();
    bench.cancelled("", 5);
    assert_refused(&bench.submit(5), "it was cancelled");
    assert!(bench.pilots().is_empty());
}

#[test]
fn a_failure_is_told_with_its_last_words() {
    let mut bench = bench();
    bench.spec.worker_args = vec!["--exit".to_owned(), "3".to_owned()];
    bench.spec.before = Some("cd / && echo before".to_owned());
    bench.spec.after = Some("echo \"after: $status\"".to_owned());
    bench.submitted(2);
    let sighting = bench.until(2, JobState::Failed);
    assert_eq!(
        sighting.reason.as_deref(),
        Some("exit status 3: after: 3"),
        "the status is that of the pilot"
    );
    let log = fs::read_to_string(bench.site.dir.join("gpu/baton-t1-gpu-p2-0.log")).expect("a log");
    assert_eq!(log, "before\nit fails as told\nafter: 3\n");
}

#[test]
fn a_killed_shell_leaves_no_unknown_pilot() {
    let bench = bench();
    let native = bench.submitted(1);
    let (pilot, _) = bench.until_pilots(1).remove(0);
    processes::send(shell(&native), Signal::KILL);
    until("the shell is dead", || !is_alive(shell(&native)));
    assert!(is_alive(pilot));
    let sighting = bench.sighting(1).expect("listed");
    assert_eq!(sighting.state, JobState::Running, "the pilot lives");
    bench.cancelled(&native, 1);
    until("the pilot is dead", || !is_alive(pilot));
    bench.until(1, JobState::Ended);
}

#[test]
fn a_deaf_pilot_is_killed_after_a_while() {
    let mut bench = bench();
    bench.site.kill_after = Duration::from_secs(1);
    bench.spec.worker_args = vec!["--deaf".to_owned()];
    let native = bench.submitted(1);
    let (pilot, _) = bench.until_pilots(1).remove(0);
    bench.cancelled(&native, 1);
    until("the pilot is dead", || !is_alive(pilot));
    bench.until(1, JobState::Ended);
    assert!(bench.stopped().is_empty());
}

#[test]
fn another_process_with_the_pid_is_not_the_pilot() {
    let bench = bench();
    let native = bench.submitted(1);
    let (pilot, _) = bench.until_pilots(1).remove(0);
    let file = bench.site.dir.join("gpu/baton-t1-gpu-p1-0.run");
    let run = fs::read_to_string(&file).expect("recorded");
    let [boot, pid, start] = run.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{run}");
    };
    let earlier = start.parse::<u64>().expect("ticks") - 1;
    for other in [
        format!("{boot} {pid} {earlier}\n"),
        format!("another-boot {pid} {start}\n"),
    ] {
        write(&file, 0o600, &other);
        bench.until(1, JobState::Failed);
        bench.cancelled(&native, 1);
        assert!(is_alive(pilot), "it is not signalled");
    }
    write(&file, 0o600, &run);
    bench.until(1, JobState::Running);
    bench.cancelled(&native, 1);
    bench.until(1, JobState::Ended);
}

#[test]
fn a_start_that_was_cut_off_is_no_job_for_ever() {
    let bench = bench();
    // As after a crash between the record and the start.
    bench.submitted(1);
    let dir = bench.site.dir.join("gpu");
    let node = fs::read_to_string(dir.join("baton-t1-gpu-p1-0.intent")).expect("recorded");
    let (_, node) = node.trim().split_once(' ').expect("a name and a host");
    write(
        &dir.join("baton-t1-gpu-p2-0.intent"),
        0o600,
        &format!("{} {node}\n", bench.name(2)),
    );
    assert_eq!(bench.sighting(2).expect("listed").state, JobState::Queued);
    let touched = std::process::Command::new("touch")
        .args(["-d", "5 minutes ago"])
        .arg(dir.join("baton-t1-gpu-p2-0.intent"))
        .status();
    assert!(touched.expect("a program").success());
    let sighting = bench.sighting(2).expect("listed");
    assert_eq!(sighting.state, JobState::Failed);
    assert_refused(&bench.submit(2), "has not started");
    // What another host has in a shared directory is its own.
    write(
        &dir.join("baton-t1-gpu-p3-0.intent"),
        0o600,
        &format!("{} elsewhere\n", bench.name(3)),
    );
    assert_eq!(bench.sighting(3), None);
    bench.cancelled("", 1);
    bench.until(1, JobState::Ended);
}

#[test]
fn what_is_missing_is_named() {
    let mut bench = bench();
    let token = bench.path().join("token");
    write(&token, 0o644, SECRET);
    assert_refused(&bench.submit(1), "(mode 0644); run `chmod 600 ");
    fs::remove_file(&token).expect("ours");
    assert_refused(&bench.submit(1), "there is no token file ");
    bench.site.token = PilotToken::None;
    bench.site.binary = "/nowhere/baton".into();
    assert_refused(&bench.submit(1), "there is no program /nowhere/baton on ");
    bench.site.dir = "/proc/fleets".into();
    assert_refused(&bench.submit(2), "cannot use /proc/fleets");
    assert!(bench.pilots().is_empty());
}

#[test]
fn an_issued_token_is_in_its_file_and_nowhere_else() {
    let mut bench = bench();
    bench.site.token = PilotToken::Issued;
    assert_refused(&bench.submit(1), "restart the scheduler");
    let secret = bench.issue();
    bench.submitted(1);
    let (pid, args) = bench.until_pilots(1).remove(0);
    assert!(args.contains("/site/gpu/token --state "), "{args}");
    let environ = fs::read(format!("/proc/{pid}/environ")).expect("ours");
    assert!(!String::from_utf8_lossy(&environ).contains(secret.expose()));
    let next = bench.issue();
    let holders = |secret: &str| {
        let files = bench.files().into_iter();
        let holders = files.filter(|(_, text)| text.contains(secret));
        holders.map(|(file, _)| file).collect::<Vec<_>>()
    };
    let file = bench.site.dir.join("gpu/token").display().to_string();
    assert_eq!(holders(next.expose()), [file]);
    assert!(holders(secret.expose()).is_empty(), "it is replaced");
}
