//! Disks that are full, of the scheduler and of a worker.

use std::time::{Duration, Instant};

use baton_model::ids::InstanceId;
use baton_testing::cluster::{Cluster, lines};
use baton_testing::processes::{is_alive, send};
use baton_testing::{until, until_some};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::api::{Api, id};
use crate::effects::Effects;
use crate::mounts::SmallFilesystem;

const LEASE: Duration = Duration::from_secs(6);
const SHORT_LEASE: [&str; 2] = ["--lease", "6s"];

/// Starts an observable task on a worker that is then left without a guard that can be replaced.
fn running_on(cluster: &mut Cluster, name: &str) -> (Effects, InstanceId, u32) {
    cluster.start_worker(name, &["--label", "first=yes"]);
    cluster.healthy(name);
    let effects = Effects::new(cluster, "effects");
    let id = cluster.submit(effects.task("trap '' TERM"), 1).first;
    let (_, shell) = effects.started(1);
    (effects, id, shell)
}

/// The first execution is dead when another worker starts the second.
fn ends_elsewhere(cluster: &mut Cluster, effects: &Effects, id: InstanceId, shell: u32) {
    cluster.start_worker("other", &[]);
    effects.started(2);
    assert!(!is_alive(shell), "the first is dead when the second starts");
    effects.go();
    assert_eq!(cluster.finish(id).state.word(), "DONE");
    effects.never_overlapped();
}

#[test]
fn a_worker_that_cannot_replace_its_coordinator_kills_its_work_and_says_why() {
    let mut cluster = Cluster::new(&SHORT_LEASE);
    let Some(disk) = SmallFilesystem::mount(&cluster.path("full"), "size=4m") else {
        return;
    };
    let (effects, id, shell) = running_on(&mut cluster, "full");
    disk.fill();
    send(
        cluster.coordinator_pid("full").expect("there"),
        Signal::KILL,
    );
    let agent = cluster.worker_pid("full");
    until("the agent exits", || !is_alive(agent));
    assert!(!is_alive(shell), "killed before the agent has exited");
    let log = cluster.log("full").join("\n");
    assert!(log.contains("all work of this worker is killed"), "{log}");
    ends_elsewhere(&mut cluster, &effects, id, shell);
}

#[test]
fn an_agent_that_cannot_use_its_directory_kills_what_an_earlier_one_left() {
    let mut cluster = Cluster::new(&SHORT_LEASE);
    let (effects, id, shell) = running_on(&mut cluster, "one");
    let coordinator = cluster.coordinator_pid("one").expect("there");
    cluster.kill_worker("one");
    send(coordinator, Signal::KILL);
    until("the coordinator is dead", || !is_alive(coordinator));
    let lock = cluster.path("one").join("agent.lock");
    std::fs::remove_file(&lock).expect("removed");
    std::fs::create_dir(&lock).expect("made");
    assert!(is_alive(shell), "unguarded");
    cluster.start_worker("one", &[]);
    let agent = cluster.worker_pid("one");
    until("the agent exits", || !is_alive(agent));
    assert!(!is_alive(shell), "killed before the agent has exited");
    ends_elsewhere(&mut cluster, &effects, id, shell);
}

#[test]
fn a_coordinator_without_descriptors_and_agent_still_ends_its_work_with_the_lease() {
    let mut cluster = Cluster::new(&SHORT_LEASE);
    let (effects, id, shell) = running_on(&mut cluster, "one");
    let coordinator = cluster.coordinator_pid("one").expect("there");
    let limit = std::process::Command::new("prlimit")
        .args(["--pid", &coordinator.to_string(), "--nofile=1:1"])
        .status();
    assert!(limit.is_ok_and(|status| status.success()), "limited");
    cluster.kill_worker("one");
    ends_elsewhere(&mut cluster, &effects, id, shell);
}

/// Submissions that fill the rest of an almost full disk.
const SUBMISSIONS_MAX: usize = 1_000;

#[test]
fn a_scheduler_without_room_refuses_submissions_and_keeps_its_workers_at_work() {
    let mut cluster = Cluster::idle(&SHORT_LEASE);
    let Some(disk) = SmallFilesystem::mount(&cluster.path("data"), "size=8m") else {
        return;
    };
    cluster.start_scheduler();
    cluster.start_worker("w", &["--resources", "cpu=4"]);
    cluster.healthy("w");
    let ended = cluster.sh("ended", "echo told");
    assert_eq!(cluster.finish(ended).state.word(), "DONE");
    let effects = Effects::new(&cluster, "effects");
    let running = cluster.submit(effects.task(""), 1).first;
    let (_, shell) = effects.started(1);

    disk.fill();
    let mut accepted = Vec::new();
    let refused = (0..SUBMISSIONS_MAX).find_map(|_| match cluster.try_submit(padded()) {
        Ok(submitted) => {
            accepted.push(id(&submitted.first));
            None
        }
        Err(error) => Some(error),
    });
    let refused = refused.expect("there is an end of the room");
    let problem = refused.problem().expect("an answer");
    assert_eq!(problem.status, 503, "{problem:?}");
    assert!(problem.detail.contains("full"), "{problem:?}");
    let since = Instant::now();
    until_some("two lease times pass", || {
        assert!(is_alive(shell), "the running goes on");
        (since.elapsed() > 2 * LEASE).then_some(())
    });
    can_be_read(&cluster, ended, running);
    let said = cluster.path("said");
    let stderr = std::fs::File::create(&said).expect("created");
    let mut waiting = cluster.command(&["wait", &running.to_string()]);
    let mut waiting = waiting.stderr(stderr).spawn().expect("started");
    until("the waiting command tells the reason", || {
        let trouble = |line: &String| line.contains("not ready") && line.contains("full");
        lines(&said).iter().any(trouble)
    });
    let ready = cluster.ask(|client| async move { client.ready().await });
    assert!(!ready.ready, "{ready:?}");
    assert!(ready.reason.is_some_and(|it| it.contains("full")));

    disk.free();
    let later = until_some("it accepts again by itself", || {
        cluster.try_submit(padded()).ok()
    });
    accepted.push(id(&later.first));
    effects.go();
    let over = cluster.finish(running);
    assert_eq!((over.state.word(), over.attempts), ("DONE", 1));
    assert!(waiting.wait().expect("it ends").success());
    assert_eq!(effects.starts(), [(1, shell)]);
    for id in accepted {
        assert_eq!(cluster.finish(id).state.word(), "DONE", "{id} was accepted");
    }
    let log = cluster.log("scheduler");
    assert!(
        log.iter()
            .any(|line| line.contains("the store cannot be written"))
    );
}

/// Every command that only reads answers, also those that need a worker or the memory of the leader.
fn can_be_read(cluster: &Cluster, ended: InstanceId, running: InstanceId) {
    let (ended, running) = (ended.to_string(), running.to_string());
    let ask = |args: &[&str]| {
        let answer = cluster.run(args);
        assert_eq!(answer.code, Some(0), "{args:?}: {answer:?}");
        answer.out
    };
    assert_eq!(ask(&["logs", &ended]), "told\n");
    ask(&["logs", &running]);
    assert!(ask(&["history"]).contains("ended"));
    assert!(ask(&["arena"]).contains(&running));
    for id in [&ended, &running] {
        ask(&["show", id]);
        ask(&["explain", id]);
    }
    assert!(ask(&["workers"]).contains("HEALTHY"));
    for args in [
        &["bullpen"][..],
        &["runs"],
        &["usage"],
        &["library", "ls"],
        &["events", "--after", "0", "--no-follow"],
    ] {
        ask(args);
    }
}

/// A submission that takes some space.
fn padded() -> Value {
    json!({ "task": "padded", "run": "true", "env": { "PAD": "x".repeat(8_000) } })
}

#[test]
fn a_worker_without_room_never_reports_a_success_that_was_none() {
    const COUNT: u64 = 200;
    let mut cluster = Cluster::idle(&[]);
    let Some(disk) = SmallFilesystem::mount(&cluster.path("w"), "size=32m") else {
        return;
    };
    cluster.start_scheduler();
    cluster.start_worker("w", &["--resources", "cpu=2"]);
    cluster.healthy("w");
    let printed = cluster.path("said");
    // It needs space for its output, and reports elsewhere that it had it.
    let file = json!({
        "task": "speaks",
        "run": "head -c 65536 /dev/zero && echo \"$BATON_ARRAY_INDEX\" >> \"$SAID\"",
        "env": { "SAID": printed },
    });
    let over = |span| {
        until_some("all are over", || {
            let states = cluster.states(span);
            let done = states.get("DONE").copied().unwrap_or_default();
            let failed = states.get("FAILED").copied().unwrap_or_default();
            (done + failed == COUNT).then_some((done, failed))
        })
    };
    disk.fill();
    let span = cluster.submit(file.clone(), COUNT);
    let fault = until_some("it says why it takes no more", || {
        cluster.worker("w")?.fault
    });
    assert!(fault.contains("No space left"), "{fault}");
    disk.free();
    let (done, failed) = over(span);
    assert!(failed > 0, "some had begun without room");
    assert_eq!(
        done,
        lines(&printed).len() as u64,
        "no success that was none"
    );
    let before = lines(&printed).len() as u64;
    assert_eq!(
        over(cluster.submit(file, COUNT)),
        (COUNT, 0),
        "with room again"
    );
    assert_eq!(lines(&printed).len() as u64, before + COUNT);

    let effects = Effects::new(&cluster, "effects");
    let id = cluster.submit(effects.task("trap '' TERM"), 1).first;
    let (_, shell) = effects.started(1);
    // Only the log knows of it now.
    let coordinator = cluster.coordinator_pid("w").expect("there is one");
    cluster.kill_worker("w");
    send(coordinator, Signal::KILL);
    until("the coordinator is dead", || !is_alive(coordinator));
    cluster.start_worker("w", &["--resources", "cpu=2"]);
    until_some("the worker holds it again", || {
        let worker = cluster.worker("w")?;
        (worker.state.word() == "HEALTHY" && worker.attempts == 1).then_some(())
    });
    assert!(is_alive(shell), "adopted");
    assert_eq!(
        (effects.starts().len(), cluster.instance(id).attempts),
        (1, 1)
    );
    effects.go();
    assert_eq!(cluster.finish(id).state.word(), "DONE");
}

#[test]
fn a_worker_that_starts_without_room_says_so_and_works_once_there_is() {
    let mut cluster = Cluster::idle(&[]);
    let Some(disk) = SmallFilesystem::mount(&cluster.path("w"), "size=8m") else {
        return;
    };
    cluster.start_scheduler();
    disk.fill();
    cluster.start_worker("w", &[]);
    let agent = cluster.worker_pid("w");
    until("it gives up", || !is_alive(agent));
    cluster.kill_worker("w");
    let log = cluster.log("w").join("\n");
    assert!(log.contains("No space left"), "{log}");
    disk.free();
    cluster.start_worker("w", &[]);
    let over = cluster.finish(cluster.sh("works", "true"));
    assert_eq!((over.state.word(), over.attempts), ("DONE", 1));
}
