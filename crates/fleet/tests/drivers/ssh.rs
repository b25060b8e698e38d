//! Pilots on hosts that are reached by `ssh`: here, two addresses of a real `sshd` on loopback. The second host calls
//! itself `two`; both share the directory, as with a home on NFS.

use std::fs;

use baton_model::fleet::{Backend, FleetAnswer, JobState, SshOptions};
use baton_testing::processes::is_alive;
use baton_testing::sshd::Sshd;

use crate::support::{Bench, SECRET, assert_refused, assert_unclear, reason, write};

/// A fleet with two hosts, and their server.
fn bench() -> (Bench, Sshd) {
    let mut bench = Bench::new(Backend::Local);
    let server = Sshd::start(&bench.path().join("ssh"));
    bench.spec.backend = Backend::Ssh(SshOptions {
        hosts: Sshd::HOSTS.map(str::to_owned).into(),
        args: server.client_args(),
        binary: None,
    });
    (bench, server)
}

fn options(bench: &mut Bench) -> &mut SshOptions {
    match &mut bench.spec.backend {
        Backend::Ssh(options) => options,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pilot_is_started_on_a_free_host_listed_and_stopped() {
    let (bench, _server) = bench();
    let first = bench.submitted(1);
    assert!(first.starts_with("127.0.0.1:"), "{first}");
    let second = bench.submitted(2);
    assert!(
        second.starts_with("127.0.0.2:"),
        "one pilot for each host: {second}"
    );
    let pilots = bench.until_pilots(2);
    assert!(
        pilots[0].1.contains("--name gpu-p1-0 --idle-exit 300s"),
        "{pilots:?}"
    );
    let answer = bench.submit(3);
    assert_refused(
        &answer,
        "0 of 2 hosts are free, and the job needs 1: 2 have a pilot",
    );
    assert_eq!(bench.submitted(1), first, "it starts nothing again");

    let listed = bench.listed();
    let states: Vec<_> = listed
        .iter()
        .map(|it| (&*it.native, it.state, it.nodes.join(" ")))
        .collect();
    assert_eq!(
        states,
        [
            (&*first, JobState::Running, "127.0.0.1".to_owned()),
            (&*second, JobState::Running, "127.0.0.2".to_owned())
        ]
    );
    bench.cancelled(&first, 1);
    bench.until(1, JobState::Ended);
    assert_eq!(bench.stopped().len(), 1);
    assert_eq!(bench.until(2, JobState::Running).state, JobState::Running);
    // By its name alone, as a scheduler without the record does it.
    fs::remove_file(bench.site.dir.join("gpu/baton-t1-gpu-p2.hosts")).expect("recorded");
    bench.cancelled("", 2);
    bench.until(2, JobState::Ended);
    for (pilot, _) in pilots {
        assert!(!is_alive(pilot));
    }
    for (file, text) in bench.files() {
        assert!(!text.contains(SECRET), "{file} has the token");
    }
}

#[test]
fn a_host_that_cannot_be_reached_makes_its_jobs_unsure() {
    let (mut bench, server) = bench();
    options(&mut bench).hosts.push("127.0.0.3".to_owned());
    let native = bench.submitted(1);
    bench.until_pilots(1);
    // No server listens there; the others answer.
    write(
        &bench.site.dir.join("gpu/baton-t1-gpu-p2.hosts"),
        0o600,
        "127.0.0.3\n",
    );
    let sighting = bench.sighting(2).expect("listed");
    assert_eq!(
        (sighting.state, &*sighting.word),
        (JobState::Unsure, "unreachable")
    );
    let text = sighting.reason.unwrap_or_default();
    assert!(text.contains("Connection refused"), "{text}");
    assert_eq!(bench.sighting(1).expect("listed").state, JobState::Running);
    let failed = bench.cancel("", 2);
    assert!(
        matches!(failed, FleetAnswer::CancelFailed { .. }),
        "{failed:?}"
    );

    drop(server);
    let answer = bench.list();
    assert!(
        matches!(answer, FleetAnswer::ListFailed { .. }),
        "{answer:?}"
    );
    assert_refused(&bench.submit(4), "3 cannot be reached");
    assert!(reason(&bench.cancel(&native, 1)).contains("Connection refused"));
    let pilots = bench.pilots();
    assert!(is_alive(pilots[0].0), "it needs no connection");
}

#[test]
fn a_lost_connection_is_no_refusal() {
    let (mut bench, _server) = bench();
    bench.site.timeout = std::time::Duration::from_secs(60);
    // The connection ends after the pilot was started, before the answer.
    let bin = bench.path().join("bin");
    fs::create_dir(&bin).expect("made");
    let lossy = "#!/bin/sh\n/usr/bin/ssh \"$@\" >\"${0%/*}/answer\"\n\
                 grep -q started \"${0%/*}/answer\" || exec cat \"${0%/*}/answer\"\n\
                 echo 'Connection to host closed by remote host.' >&2\nexit 255\n";
    write(&bin.join("ssh"), 0o755, lossy);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("set"));
    options(&mut bench).hosts.truncate(1);
    bench.site.env.push(("PATH".to_owned(), path));
    assert_unclear(&bench.submit(1));
    bench.until(1, JobState::Running);
    bench.until_pilots(1);
    assert_unclear(&bench.submit(1));
    bench.cancelled("", 1);
    bench.until(1, JobState::Ended);
    assert_eq!(bench.pilots().len(), 1);
}

#[test]
fn a_job_with_two_workers_takes_two_hosts() {
    let (mut bench, _server) = bench();
    bench.spec.workers_per_job = 2;
    let binary = bench.path().join("other baton");
    fs::copy(&bench.site.binary, &binary).expect("copied");
    bench.site.binary = "/nowhere/baton".into();
    assert_refused(&bench.submit(1), "there is no program /nowhere/baton on ");
    options(&mut bench).binary = Some(binary.display().to_string());
    let native = bench.submitted(2);
    let hosts: Vec<&str> = native
        .split(',')
        .filter_map(|it| it.split(':').next())
        .collect();
    assert_eq!(hosts, ["127.0.0.1", "127.0.0.2"]);
    bench.until_pilots(2);
    assert_refused(&bench.submit_without(3, &["127.0.0.1"]), "1 are excluded");
    bench.cancelled(&native, 2);
    bench.until(2, JobState::Ended);
}
