//! The behaviour of a cluster of real processes when one is stopped or killed, case by
//! case. Random kills in a loop are in `kill_loop.rs`, kills of the scheduler in
//! `restart.rs`.

use std::time::{Duration, Instant};

use baton_model::ids::InstanceId;
use baton_model::outcome::{AttemptEnd, Outcome};
use baton_testing::cluster::{Cluster, lines};
use baton_testing::processes::{is_alive, parent, send};
use baton_testing::{until, until_some};
use rustix::process::Signal;
use serde_json::json;

use crate::api::Api;
use crate::effects::{Effects, SUCCESS, recorded};

/// A short lease, so that tests can wait for its expiry.
const LEASE: Duration = Duration::from_secs(6);
const SHORT_LEASE: [&str; 2] = ["--lease", "6s"];

#[test]
fn the_work_of_a_frozen_agent_is_dead_before_it_starts_elsewhere() {
    let mut cluster = Cluster::new(&SHORT_LEASE);
    cluster.start_worker("one", &["--resources", "cpu=1,first=1"]);
    cluster.healthy("one");
    let effects = Effects::new(&cluster, "effects");
    let id = cluster.submit(effects.task(""), 1).first;
    let (attempt, shell) = effects.started(1);
    assert_eq!(attempt, 1);
    cluster.start_worker("two", &["--resources", "cpu=1"]);
    cluster.healthy("two");

    let frozen = Instant::now();
    send(cluster.worker_pid("one"), Signal::STOP);
    let (attempt, _) = effects.started(2);
    assert!(!is_alive(shell), "the first is dead when the second starts");
    assert_eq!(attempt, 2);
    until("three lease times pass", || frozen.elapsed() > 3 * LEASE);
    effects.go();
    let over = cluster.finish(id);
    assert_eq!(over.state.word(), "DONE");
    assert_eq!((over.attempts, over.losses), (2, 1));
    assert_eq!(over.worker.as_deref(), Some("two"));

    send(cluster.worker_pid("one"), Signal::CONT);
    until_some("the first worker is back in its next life", || {
        let worker = cluster.worker("one")?;
        (worker.incarnation == 2 && worker.state.word() == "HEALTHY").then_some(())
    });
    let ends = recorded(&cluster, id);
    assert_eq!(ends.len(), 2, "one end for each attempt: {ends:?}");
    assert!(matches!(ends[0], (1, AttemptEnd::Synthetic(_))), "{ends:?}");
    assert_eq!(ends[1], (2, SUCCESS));
    assert_eq!(effects.ends(), ["2"], "only the second came to its end");
    effects.never_overlapped();
    let file = json!({ "task": "again", "run": "true", "resources": { "first": 1 } });
    let again = cluster.finish(cluster.submit(file, 1).first);
    assert_eq!(again.state.word(), "DONE");
    assert_eq!(again.worker.as_deref(), Some("one"));
}

#[test]
fn a_shell_and_its_child_survive_their_agent_and_are_not_doubled() {
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("w", &[]);
    cluster.healthy("w");
    let effects = Effects::new(&cluster, "effects");
    let children = cluster.path("children");
    let before = format!(
        "sleep 1000 & echo $! >> {0}; trap \"kill $!\" EXIT",
        children.display()
    );
    let id = cluster.submit(effects.task(&before), 1).first;
    let (_, shell) = effects.started(1);
    let child: u32 = lines(&children)[0].parse().expect("a number");
    cluster.kill_worker("w");
    assert!(is_alive(shell) && is_alive(child), "they go on alone");
    cluster.start_worker("w", &[]);
    until_some("the next agent has told what it holds", || {
        let worker = cluster.worker("w")?;
        (worker.state.word() == "HEALTHY" && worker.attempts == 1).then_some(())
    });
    assert!(is_alive(shell) && is_alive(child), "they still do");
    effects.go();
    let over = cluster.finish(id);
    assert_eq!(over.state.word(), "DONE");
    assert_eq!((over.attempts, over.losses), (1, 0));
    assert_eq!(effects.starts(), [(1, shell)]);
    assert!(!is_alive(shell) && !is_alive(child), "no process is left");
    assert_eq!(lines(&children).len(), 1);
}

#[test]
fn an_orphan_that_ignores_sigterm_is_adopted_when_its_agent_is_started_again() {
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("one", &[]);
    cluster.healthy("one");
    let effects = Effects::new(&cluster, "effects");
    let id = cluster.submit(effects.task("trap '' TERM"), 1).first;
    let (_, shell) = effects.started(1);
    cluster.start_worker("two", &[]);
    cluster.healthy("two");
    kill_both_guards(&mut cluster, "one");
    assert!(is_alive(shell), "an orphan");
    cluster.start_worker("one", &[]);
    until_some("the worker holds it again", || {
        let worker = cluster.worker("one")?;
        let healthy = worker.state.word() == "HEALTHY";
        (healthy && worker.attempts == 1).then_some(())
    });
    assert!(is_alive(shell), "adopted");
    assert_eq!(effects.starts().len(), 1, "not started elsewhere");
    assert_eq!(cluster.instance(id).attempts, 1);
    effects.go();
    let over = cluster.finish(id);
    assert_eq!((over.state.word(), over.attempts), ("DONE", 1));
    effects.never_overlapped();
}

#[test]
fn an_orphan_that_ignores_sigterm_is_killed_when_its_lease_has_ended() {
    let mut cluster = Cluster::new(&SHORT_LEASE);
    cluster.start_worker("w", &[]);
    cluster.healthy("w");
    let effects = Effects::new(&cluster, "effects");
    let id = cluster.submit(effects.task("trap '' TERM"), 1).first;
    let (_, shell) = effects.started(1);
    kill_both_guards(&mut cluster, "w");
    until("the lease runs out", || !is_alive(shell));
    cluster.start_worker("w", &[]);
    let (attempt, _) = effects.started(2);
    assert_eq!(attempt, 2);
    effects.go();
    let over = cluster.finish(id);
    assert_eq!(over.state.word(), "DONE");
    assert_eq!((over.attempts, over.losses), (2, 1));
    effects.never_overlapped();
}

#[test]
fn a_task_that_kills_its_agent_goes_on_and_so_do_the_others() {
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("w", &["--resources", "cpu=2"]);
    cluster.healthy("w");
    let effects = Effects::new(&cluster, "bystander");
    let bystander = cluster.submit(effects.task(""), 1).first;
    let (_, shell) = effects.started(1);
    let lock = cluster.path("w").join("agent.lock");
    let killed = cluster.path("killed");
    let script = format!(
        "kill -9 $(cat {}); echo $BATON_ATTEMPT >> {}",
        lock.display(),
        killed.display()
    );
    let killer = cluster.sh("killer", &script);
    let agent = cluster.worker_pid("w");
    until("the agent is dead", || !is_alive(agent));
    cluster.kill_worker("w");
    cluster.start_worker("w", &["--resources", "cpu=2"]);
    let over = cluster.finish(killer);
    assert_eq!((over.state.word(), over.attempts), ("DONE", 1));
    assert_eq!(lines(&killed), ["1"]);
    effects.go();
    let over = cluster.finish(bystander);
    assert_eq!((over.state.word(), over.attempts), ("DONE", 1));
    assert_eq!(effects.starts(), [(1, shell)]);
}

#[test]
fn each_time_a_task_takes_its_whole_worker_with_it_counts_as_a_loss() {
    const LOSSES: u32 = 2;
    let mut killer = Killer::new(LOSSES, None);
    for loss in 1..=LOSSES {
        killer.kills(loss);
    }
    let over = killer.cluster.finish(killer.id);
    assert_eq!(over.state.word(), "DONE");
    assert_eq!((over.losses, over.failures), (LOSSES, 0));
    assert_eq!(killer.executions(), LOSSES + 1);
    killer.bystander_is_unharmed();
}

#[test]
fn a_task_that_kills_its_worker_once_too_often_is_given_up_and_says_why() {
    const LOSSES: u32 = 2;
    let mut killer = Killer::new(u32::MAX, Some(LOSSES));
    for loss in 1..=LOSSES + 1 {
        killer.kills(loss);
    }
    let over = killer.cluster.finish(killer.id);
    assert_eq!(over.state.word(), "FAILED");
    assert_eq!((over.losses, over.failures), (LOSSES + 1, 0));
    assert_eq!(killer.executions(), LOSSES + 1);
    let id = killer.id;
    let explanation = killer
        .cluster
        .ask(|client| async move { client.explain(id).await });
    let wanted = "its worker was lost 3 times, and `retry.losses` allows 2";
    assert!(explanation.text.contains(wanted), "{}", explanation.text);
    // The worker is free for others again.
    let file = json!({ "task": "next", "run": "true", "constraints": { "loud": true } });
    let next = killer.cluster.submit(file, 1).first;
    assert_eq!(killer.cluster.finish(next).state.word(), "DONE");
    killer.bystander_is_unharmed();
}

/// Has a line for each execution of the task that kills.
const EXECUTIONS: &str = "executions";

/// A task that kills the worker it runs on, agent and coordinator, beside one on another worker
/// that does not.
struct Killer {
    cluster: Cluster,
    id: InstanceId,
    effects: Effects,
    bystander: InstanceId,
    shell: u32,
}

impl Killer {
    const LOUD: [&str; 2] = ["--label", "loud=yes"];

    /// It kills in the first `kills` of its executions. Those are not its attempts: on a busy host a
    /// worker may give an attempt back before it has started.
    fn new(kills: u32, losses: Option<u32>) -> Self {
        let mut cluster = Cluster::new(&SHORT_LEASE);
        cluster.start_worker("loud", &Self::LOUD);
        cluster.start_worker("quiet", &[]);
        cluster.healthy("loud");
        cluster.healthy("quiet");
        let effects = Effects::new(&cluster, "bystander");
        let mut file = effects.task("");
        file["constraints"] = json!({ "loud": false });
        let bystander = cluster.submit(file, 1).first;
        let (_, shell) = effects.started(1);

        // The coordinator is its parent; the agent has written its number into its lock.
        let lock = cluster.path("loud").join("agent.lock");
        let script = format!(
            "echo >>{0}; [ $(wc -l <{0}) -gt {kills} ] || {{ kill -9 $(cat {1}) $PPID; sleep 1000; }}",
            cluster.path(EXECUTIONS).display(),
            lock.display()
        );
        let mut file = json!({ "task": "killer", "run": script, "constraints": { "loud": true } });
        if let Some(losses) = losses {
            file["retry"] = json!({ "losses": losses });
        }
        let id = cluster.submit(file, 1).first;
        Self {
            cluster,
            id,
            effects,
            bystander,
            shell,
        }
    }

    /// Waits until it has killed its worker, which comes back too late, and that is counted.
    fn kills(&mut self, loss: u32) {
        let (cluster, id) = (&mut self.cluster, self.id);
        until_some("the worker is killed", || {
            let gone = !is_alive(cluster.worker_pid("loud"));
            (gone && cluster.coordinator_pid("loud").is_none()).then_some(())
        });
        let killed = Instant::now();
        assert_eq!(lines(&cluster.path(EXECUTIONS)).len(), loss as usize);
        until("the lease runs out", || killed.elapsed() > LEASE);
        // As a service manager would, but too late.
        cluster.kill_worker("loud");
        cluster.start_worker("loud", &Self::LOUD);
        until("it is counted", || cluster.instance(id).losses == loss);
    }

    fn executions(&self) -> u32 {
        let lines = lines(&self.cluster.path(EXECUTIONS)).len();
        u32::try_from(lines).expect("few")
    }

    /// The killing has nothing to do with it. On a busy host its own lease may run out.
    fn bystander_is_unharmed(&self) {
        self.effects.go();
        let over = self.cluster.finish(self.bystander);
        assert_eq!(over.state.word(), "DONE");
        assert_eq!(self.effects.starts()[0], (1, self.shell));
        let ends = recorded(&self.cluster, self.bystander);
        let (last, earlier) = ends.split_last().expect("it has ended");
        assert_eq!(last.1, SUCCESS, "{ends:?}");
        let by_lease = |end: &AttemptEnd| {
            let killed = matches!(end, AttemptEnd::Real(Outcome::Killed(_)));
            killed || matches!(end, AttemptEnd::Synthetic(_))
        };
        assert!(earlier.iter().all(|(_, end)| by_lease(end)), "{ends:?}");
    }
}

/// No process sees its runner end; the log of the task tells how.
#[test]
fn a_task_that_ends_without_its_guards_is_done_and_does_not_run_again() {
    let mut cluster = Cluster::new(&["--lease", "10m"]);
    cluster.start_worker("one", &[]);
    cluster.healthy("one");
    let effects = Effects::new(&cluster, "effects");
    let id = cluster.submit(effects.task_of_processes(), 1).first;
    let (_, shell) = effects.started(1);
    let inner = parent(shell).expect("the task's own coordinator");
    let runner = parent(inner).expect("the runner");

    kill_both_guards(&mut cluster, "one");
    effects.go();
    until("the runner has ended", || !is_alive(runner));
    cluster.start_worker("one", &[]);
    let over = cluster.finish(id);
    assert_eq!(over.state.word(), "DONE");
    assert_eq!((over.attempts, over.losses), (1, 0));
    assert_eq!(recorded(&cluster, id), [(1, SUCCESS)]);
    assert_eq!(effects.starts(), [(1, shell)], "once");
}

/// `kill -9` of an agent and its coordinator: only the reaper is left.
fn kill_both_guards(cluster: &mut Cluster, name: &str) {
    let coordinator = cluster.coordinator_pid(name).expect("there is one");
    // The agent first, or it would start another coordinator.
    cluster.kill_worker(name);
    send(coordinator, Signal::KILL);
    until("the coordinator is dead", || !is_alive(coordinator));
}

#[test]
fn a_worker_with_another_state_directory_replaces_an_unhealthy_one_only_if_it_may() {
    for may in [true, false] {
        let options: &[&str] = if may {
            &["--allow-bump-unhealthy"]
        } else {
            &[]
        };
        let mut cluster = Cluster::new(options);
        cluster.start_worker("w", &[]);
        cluster.healthy("w");
        let first = cluster.worker("w").expect("it is listed");
        send(cluster.worker_pid("w"), Signal::STOP);
        until("the worker is not healthy any more", || {
            let worker = cluster.worker("w");
            worker.is_some_and(|worker| worker.state.word() == "UNHEALTHY")
        });
        let state = cluster.path("elsewhere").display().to_string();
        let scheduler = cluster.workers_at();
        let args = ["worker", "--name", "w", "--scheduler", &scheduler];
        let args = [&args[..], &["--state", &state]].concat();
        let log = cluster.path("elsewhere.log");
        let mut other = cluster
            .command(&args)
            .stderr(std::fs::File::create(&log).expect("created"))
            .spawn()
            .expect("it starts");
        let lineage = || cluster.worker("w").map(|worker| worker.lineage);
        if may {
            until("the other has the name", || {
                lineage().as_ref() != Some(&first.lineage)
            });
            let file = json!({ "task": "elsewhere", "run": "true" });
            let id = cluster.submit(file, 1).first;
            assert_eq!(cluster.finish(id).state.word(), "DONE");
        } else {
            until("the other is refused", || {
                let log = lines(&log);
                log.iter()
                    .any(|line| line.contains("another worker has this name"))
            });
            assert_eq!(lineage().as_ref(), Some(&first.lineage));
        }
        // An agent that has ended is no error.
        let _ = other.kill();
        other.wait().expect("ours");
        send(cluster.worker_pid("w"), Signal::CONT);
    }
}
