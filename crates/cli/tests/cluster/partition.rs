//! A network that loses everything, in one direction or both, for a short time or for
//! longer than the lease.
//!
//! Scheduler and worker live in network namespaces of their own, joined by one cable. The
//! test's own thread moves into the scheduler's, so that it is a client on the same machine.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use baton_model::outcome::AttemptEnd;
use baton_testing::cluster::Cluster;
use baton_testing::command::baton_path;
use baton_testing::processes::{is_alive, lacks_root};
use baton_testing::{until, until_some};

use crate::api::Api;
use crate::effects::{Effects, SUCCESS, recorded};
use crate::network::{enter, lose_all, lose_none, run};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    ToWorker,
    ToScheduler,
    Both,
}

#[test]
fn nothing_is_lost_when_replies_are_lost_for_a_while() {
    heals_in_time(Cut::ToWorker);
}

#[test]
fn nothing_is_lost_when_heartbeats_are_lost_for_a_while() {
    heals_in_time(Cut::ToScheduler);
}

#[test]
fn nothing_is_lost_when_everything_is_lost_for_a_while() {
    heals_in_time(Cut::Both);
}

#[test]
fn work_is_dead_before_it_starts_elsewhere_when_replies_are_lost() {
    heals_too_late(Cut::ToWorker);
}

#[test]
fn work_is_dead_before_it_starts_elsewhere_when_heartbeats_are_lost() {
    heals_too_late(Cut::ToScheduler);
}

#[test]
fn work_is_dead_before_it_starts_elsewhere_when_everything_is_lost() {
    heals_too_late(Cut::Both);
}

#[test]
fn an_end_that_could_not_be_told_is_told_when_the_network_is_back() {
    let Some((cable, mut cluster)) = joined(LONG_LEASE) else {
        return;
    };
    far_worker(&mut cluster, &cable);
    let effects = Effects::new(&cluster, "effects");
    let id = cluster.submit(effects.task(""), 1).first;
    effects.started(1);
    cable.cut(Cut::Both);
    effects.go();
    until_some("it ends unheard", || {
        let unheard = cluster
            .worker("far")
            .is_some_and(|it| it.state.word() == "UNHEALTHY");
        (unheard && effects.ends() == ["1"]).then_some(())
    });
    assert!(!cluster.instance(id).state.is_terminal());
    cable.heal(Cut::Both);
    let over = cluster.finish(id);
    assert_eq!((over.state.word(), over.attempts), ("DONE", 1));
    assert_eq!(recorded(&cluster, id), [(1, SUCCESS)]);
}

/// Unhealthy after 5 s, dead after 18 s: time to heal in between, on any machine.
const LONG_LEASE: &str = "30s";

fn heals_in_time(cut: Cut) {
    let Some((cable, mut cluster)) = joined(LONG_LEASE) else {
        return;
    };
    far_worker(&mut cluster, &cable);
    let effects = Effects::new(&cluster, "effects");
    let id = cluster.submit(effects.task(""), 1).first;
    let (_, shell) = effects.started(1);
    cable.cut(cut);
    until("one of them misses the other", || {
        cluster
            .worker("far")
            .is_some_and(|it| it.state.word() == "UNHEALTHY")
    });
    cable.heal(cut);
    cluster.healthy("far");
    assert!(is_alive(shell), "it went on");
    effects.go();
    let over = cluster.finish(id);
    assert_eq!(over.state.word(), "DONE");
    assert_eq!((over.attempts, over.losses), (1, 0));
    assert_eq!(effects.starts(), [(1, shell)], "once");
    assert_eq!(recorded(&cluster, id), [(1, SUCCESS)]);
    assert_eq!(cluster.worker("far").expect("seated").incarnation, 1);
}

fn heals_too_late(cut: Cut) {
    let Some((cable, mut cluster)) = joined("6s") else {
        return;
    };
    far_worker(&mut cluster, &cable);
    let effects = Effects::new(&cluster, "effects");
    let id = cluster.submit(effects.task("trap '' TERM"), 1).first;
    let (_, shell) = effects.started(1);
    cluster.start_worker("near", &[]);
    cluster.healthy("near");
    cable.cut(cut);
    // Not always the second attempt: on a slow machine a lease may run out before its program runs.
    let (attempt, _) = effects.started(2);
    assert!(!is_alive(shell), "the first is dead when the second starts");
    assert!(attempt > 1, "attempt {attempt}");
    cable.heal(cut);
    until_some("the far worker is back in its next life", || {
        let worker = cluster.worker("far")?;
        (worker.incarnation == 2 && worker.state.word() == "HEALTHY").then_some(())
    });
    assert!(
        !cluster.instance(id).state.is_terminal(),
        "the late end changed nothing"
    );
    effects.go();
    let over = cluster.finish(id);
    assert_eq!(over.state.word(), "DONE");
    let ends = recorded(&cluster, id);
    let numbers: Vec<u32> = ends.iter().map(|(number, _)| *number).collect();
    let each: Vec<u32> = (1..=over.attempts).collect();
    assert_eq!(numbers, each, "one end for each attempt: {ends:?}");
    // A worker whose messages arrive reports the kill itself.
    let lost = match ends[0].1 {
        AttemptEnd::Real(outcome) => cut == Cut::ToWorker && outcome.is_loss(),
        AttemptEnd::Synthetic(_) => true,
    };
    assert!(lost, "{ends:?}");
    let successes = ends.iter().filter(|(_, end)| *end == SUCCESS);
    assert_eq!(successes.count(), 1, "{ends:?}");
    assert_eq!(ends.last(), Some(&(over.attempts, SUCCESS)));
    effects.never_overlapped();
}

/// A cluster in one namespace, and the cable to the other; `None` where there are none.
fn joined(lease: &str) -> Option<(Cable, Cluster)> {
    if lacks_root("make network namespaces") {
        return None;
    }
    let cable = Cable::new()?;
    enter(&cable.near);
    let mut cluster = Cluster::idle(&["--lease", lease]);
    cluster.listen_for_workers(&format!("{NEAR}:0"));
    cluster.start_scheduler();
    Some((cable, cluster))
}

/// Starts a worker at the other end of the cable.
fn far_worker(cluster: &mut Cluster, cable: &Cable) {
    let mut by = Command::new("ip");
    by.args(["netns", "exec", &cable.far]).arg(baton_path());
    cluster.start_worker_by(by, "far", &[]);
    cluster.healthy("far");
}

/// The scheduler's address; it is visible in the namespace only.
const NEAR: &str = "10.77.0.1";
const FAR: &str = "10.77.0.2";

/// Two namespaces and what joins them; gone when this is dropped.
#[derive(Debug)]
struct Cable {
    near: String,
    far: String,
}

impl Cable {
    fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |end: &str| format!("baton-{end}-{}-{count}", std::process::id());
        let cable = Self {
            near: name("near"),
            far: name("far"),
        };
        let made = cable.make();
        if let Err(reason) = &made {
            eprintln!("skipped: no network namespaces here: {reason}");
        }
        made.ok().map(|()| cable)
    }

    fn make(&self) -> Result<(), String> {
        let (near, far) = (&*self.near, &*self.far);
        run("ip", &["netns", "add", near])?;
        run("ip", &["netns", "add", far])?;
        let link = ["link", "add", "end", "netns", near, "type", "veth"];
        let peer = ["peer", "name", "end", "netns", far];
        run("ip", &[&link[..], &peer[..]].concat())?;
        for (end, address) in [(near, NEAR), (far, FAR)] {
            let address = format!("{address}/24");
            run("ip", &["-n", end, "link", "set", "lo", "up"])?;
            run("ip", &["-n", end, "addr", "add", &address, "dev", "end"])?;
            run("ip", &["-n", end, "link", "set", "end", "up"])?;
        }
        lose_all(near, "end")?;
        lose_none(near, "end")
    }

    /// Loses everything in these directions from now on.
    fn cut(&self, cut: Cut) {
        for end in self.senders(cut) {
            lose_all(end, "end").expect("cut");
        }
    }

    /// Loses nothing any more.
    fn heal(&self, cut: Cut) {
        for end in self.senders(cut) {
            lose_none(end, "end").expect("healed");
        }
    }

    fn senders(&self, cut: Cut) -> Vec<&str> {
        match cut {
            Cut::ToWorker => vec![&self.near],
            Cut::ToScheduler => vec![&self.far],
            Cut::Both => vec![&self.near, &self.far],
        }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for end in [&self.near, &self.far] {
            // It may never have been made.
            let _ = run("ip", &["netns", "delete", end]);
        }
    }
}
