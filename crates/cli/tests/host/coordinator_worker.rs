//! The coordinator of a worker: attempts of many tasks, which wait for resources, have
//! a directory each, and end when none of their processes is left.

use std::fs;
use std::path::Path;

use baton_model::outcome::{KillCause, Outcome};
use baton_model::time::Millis;
use baton_runner::coordinator::{Discovery, Link};
use baton_runner::record::Evidence;
use baton_runner::sys::spawn::Spawner;
use baton_runner::sys::{clock, proc};
use baton_runner::wire::{
    Attempt, AttemptPaths, Guard, KnownRun, Launch, Reply, Request, RunEnd, Sink,
};
use baton_testing::until;
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{Bench, end, exists, far_future, guard, outcome, run, send, wait_for};

/// The file in the sandbox that an attempt waits for.
const WAIT: &str = "until test -e $S/go; do sleep 0.01; done";

impl Bench {
    fn worker() -> (Self, Link) {
        let bench = Self::new(true);
        let mut link = bench.begin();
        send(&mut link, &guard(far_future(), 1));
        (bench, link)
    }

    fn attempt(&self, number: u64, command: &str) -> Launch {
        let sandbox = self.sandbox.to_str().expect("UTF-8").to_owned();
        Launch {
            argv: ["/bin/sh", "-c", command].map(str::to_owned).to_vec(),
            env: vec![
                ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
                ("S".to_owned(), sandbox),
            ],
            stdout: Sink::File,
            stderr: Sink::File,
            tag: format!("tag {number}"),
            claim: vec![1],
            paths: Some(AttemptPaths {
                dir: number.to_string(),
                stdout: format!("{number}.out"),
                stderr: format!("{number}.err"),
            }),
            ..Launch::default()
        }
    }

    fn order(&self, number: u64, command: &str) -> Request {
        launch(number, self.attempt(number, command))
    }

    fn touch(&self, name: &str) {
        fs::write(self.sandbox.join(name), "").expect("written");
    }

    fn pid(&self, name: &str) -> u32 {
        let mut pid = None;
        until(name, || {
            let text = fs::read_to_string(self.sandbox.join(name)).unwrap_or_default();
            pid = text.strip_suffix('\n').and_then(|text| text.parse().ok());
            pid.is_some()
        });
        pid.expect("just seen")
    }
}

fn launch(number: u64, launch: Launch) -> Request {
    Request::Launch {
        run: run(number),
        launch: Box::new(launch),
    }
}

fn stop(number: u64, signal: i32, grace: Millis, cause: KillCause) -> Request {
    Request::Stop {
        run: run(number),
        signal,
        grace,
        cause,
    }
}

fn capacity(amount: u64) -> Request {
    Request::Capacity {
        amounts: vec![amount],
        devices: std::collections::BTreeMap::new(),
        core_nodes: Vec::new(),
    }
}

/// All messages up to the end of this run.
fn replies_until_end(link: &mut Link, number: u64) -> Vec<Reply> {
    let mut received = Vec::new();
    while !received.iter().any(|reply| is_end(reply, number)) {
        let mut output = Vec::new();
        wait_for(link, |reply| {
            output.push(reply.clone());
            is_end(reply, number).then_some(())
        });
        received.extend(output);
    }
    received
}

fn is_end(reply: &Reply, number: u64) -> bool {
    matches!(reply, Reply::Ended(ended) if ended.run == run(number))
}

fn ended(link: &mut Link, number: u64) -> RunEnd {
    wait_for(link, |reply| match reply {
        Reply::Ended(ended) if ended.run == run(number) => Some(ended.clone()),
        _ => None,
    })
}

fn accepted(link: &mut Link, number: u64) {
    wait_for(link, |reply| {
        (*reply == Reply::Accepted { run: run(number) }).then_some(())
    });
}

fn is_started(reply: &Reply, number: u64) -> bool {
    matches!(reply, Reply::Started { run: key, .. } if *key == run(number))
}

fn is_there(pid: u32) -> bool {
    matches!(proc::stat(pid), Ok(Some(stat)) if !stat.is_over())
}

#[test]
fn what_does_not_fit_waits_its_turn_and_starts_without_being_asked_for() {
    let (bench, mut link) = Bench::worker();
    let mut large = bench.attempt(1, "echo 1 >> $S/order");
    large.claim = vec![2];
    let mut unclaimed = bench.attempt(3, "true");
    unclaimed.claim = Vec::new();
    let orders = [
        capacity(2),
        bench.order(0, &format!("{WAIT}; echo 0 >> $S/order")),
        launch(1, large.clone()),
        bench.order(2, "echo 2 >> $S/order"),
        launch(3, unclaimed),
    ];
    link.send_all(&orders).expect("sent");
    // An attempt without claims overtakes those that wait.
    let received = replies_until_end(&mut link, 3);
    assert!(received.contains(&Reply::Accepted { run: run(1) }));
    assert!(
        received.contains(&Reply::Accepted { run: run(2) }),
        "it would fit, but may not overtake: {received:?}"
    );
    assert!(!received.contains(&Reply::Accepted { run: run(0) }));
    assert!(!received.iter().any(|reply| is_started(reply, 1)));
    send(&mut link, &launch(1, large));
    accepted(&mut link, 1);
    bench.touch("go");
    let received = replies_until_end(&mut link, 2);
    assert!(received.iter().any(|reply| is_started(reply, 1)));
    let order = fs::read_to_string(bench.sandbox.join("order")).expect("written");
    assert_eq!(order, "0\n1\n2\n");
    end(link);
}

#[test]
fn more_than_there_is_runs_alone() {
    let (bench, mut link) = Bench::worker();
    let mut huge = bench.attempt(1, "test $(cat $S/running) = 0; echo $? > result");
    huge.claim = vec![100];
    let small = format!("echo 1 > $S/running; {WAIT}; echo 0 > $S/running");
    let orders = [capacity(2), bench.order(0, &small), launch(1, huge)];
    link.send_all(&orders).expect("sent");
    accepted(&mut link, 1);
    bench.touch("go");
    ended(&mut link, 1);
    let result = fs::read_to_string(bench.sandbox.join("work/1/result"));
    assert_eq!(result.expect("written"), "0\n");
    end(link);
}

#[test]
fn what_waits_can_be_withdrawn_or_stopped_and_is_never_started() {
    let (bench, mut link) = Bench::worker();
    let orders = [
        capacity(1),
        bench.order(0, WAIT),
        bench.order(1, "touch $S/ran"),
        bench.order(2, "touch $S/ran"),
        bench.order(3, "touch $S/ran"),
        bench.order(4, "true"),
        Request::Withdraw { run: run(1) },
        Request::Withdraw { run: run(0) },
        stop(2, 15, Millis(0), KillCause::Suicide),
        Request::KillRun { run: run(3) },
    ];
    link.send_all(&orders).expect("sent");
    let received = replies_until_end(&mut link, 3);
    let refused: Vec<_> = received
        .iter()
        .filter(|reply| matches!(reply, Reply::Refused { .. }))
        .collect();
    assert_eq!(
        refused,
        [&Reply::Refused { run: run(1) }],
        "what runs is not"
    );
    let outcomes: Vec<Outcome> = received.iter().filter_map(outcome).collect();
    let killed = [KillCause::Suicide, KillCause::Requested].map(Outcome::Killed);
    assert_eq!(outcomes, killed);
    bench.touch("go");
    ended(&mut link, 4);
    assert!(!bench.sandbox.join("ran").exists());
    end(link);
}

#[test]
fn killing_everything_and_the_dead_man_timer_refuse_what_waits() {
    for timer in [false, true] {
        let (bench, mut link) = Bench::worker();
        let orders = [
            capacity(1),
            bench.order(0, "exec sleep 1000"),
            bench.order(1, "touch $S/ran"),
        ];
        link.send_all(&orders).expect("sent");
        accepted(&mut link, 1);
        if timer {
            send(&mut link, &guard(clock::now().mono, 2));
        } else {
            let (id, grace) = (7, Millis(0));
            send(&mut link, &Request::KillEverything { id, grace });
        }
        let received = replies_until_end(&mut link, 0);
        assert!(
            received.contains(&Reply::Refused { run: run(1) }),
            "{received:?}"
        );
        assert!(!bench.sandbox.join("ran").exists());
        end(link);
    }
}

#[test]
fn an_attempt_that_takes_too_long_is_killed_and_says_why() {
    let (bench, mut link) = Bench::worker();
    let mut slow = bench.attempt(0, "trap '' TERM; while :; do sleep 0.01; done");
    slow.timeout = Some(Millis(50));
    slow.timeout_grace = Millis(50);
    let mut quick = bench.attempt(1, "exit 4");
    quick.timeout = Some(Millis::from_secs(3_600));
    link.send_all(&[launch(0, slow), launch(1, quick)])
        .expect("sent");
    let end_of = ended(&mut link, 0);
    assert_eq!(end_of.outcome, Outcome::Killed(KillCause::TimedOut));
    let started = end_of.started.expect("it was started");
    assert!(end_of.at.mono.since(started.mono) >= Millis(100));
    assert!(end_of.usage.is_some_and(|usage| usage.memory_peak > 0));
    drop(link);
    let (link, greeting) = bench.connect();
    let quick = greeting.runs.iter().find(|known| known.run == run(1));
    let quick = quick.and_then(|known| known.ended.as_ref());
    assert_eq!(quick.map(|ended| ended.outcome), Some(Outcome::Exited(4)));
    end(link);
}

#[test]
fn an_attempt_has_a_home_and_its_output_is_kept_beside_it() {
    let (bench, mut link) = Bench::worker();
    let command = "pwd; echo wrong >&2; touch here; exit 5";
    let mut elsewhere = bench.attempt(1, "pwd");
    elsewhere.cwd = "/".to_owned();
    link.send_all(&[bench.order(0, command), launch(1, elsewhere)])
        .expect("sent");
    assert_eq!(ended(&mut link, 0).outcome, Outcome::Exited(5));
    let text = |path: &str| fs::read_to_string(bench.sandbox.join(path)).expect(path);
    let home = fs::canonicalize(bench.sandbox.join("work/0")).expect("there");
    assert_eq!(text("logs/0.out"), format!("{}\n", home.display()));
    assert_eq!(text("logs/0.err"), "wrong\n");
    assert!(home.join("here").exists());
    until("the other one has said where it is", || {
        text("logs/1.out") == "/\n"
    });
    assert!(bench.sandbox.join("work/1").is_dir());
    end(link);
}

#[test]
fn a_home_that_leads_elsewhere_is_not_entered() {
    let (bench, mut link) = Bench::worker();
    for (number, name) in ["", ".", "..", "a/b", "/tmp"].into_iter().enumerate() {
        let number = number as u64;
        for field in 0..3 {
            let key = number * 3 + field;
            let mut bad = bench.attempt(key, "touch $S/ran");
            let home = bad.paths.as_mut().expect("it has one");
            let fields = [&mut home.dir, &mut home.stdout, &mut home.stderr];
            *fields.into_iter().nth(field as usize).expect("of three") = name.to_owned();
            send(&mut link, &launch(key, bad));
            assert_eq!(ended(&mut link, key).outcome, Outcome::LaunchFailed);
        }
    }
    assert!(!bench.sandbox.join("ran").exists());
    end(link);
}

/// A daemon in a session of its own, whose parent is gone; its number is in `daemon`.
fn daemon(body: &str) -> String {
    format!(
        "(setsid sh -c 'echo $$ > $S/daemon.new; mv $S/daemon.new $S/daemon; {body}' &); until test -e $S/daemon; do sleep 0.01; done"
    )
}

#[test]
fn an_attempt_is_over_when_its_daemons_are() {
    let deaf = "trap \"\" TERM; while :; do sleep 0.01; done";
    let polite = "trap \"echo asked > $S/asked; exit\" TERM; while :; do sleep 0.01; done";
    let unmarked = "exec env -i sleep 1000";
    for body in [deaf, polite, unmarked] {
        let (bench, mut link) = Bench::worker();
        send(
            &mut link,
            &bench.order(0, &format!("{}; exit 6", daemon(body))),
        );
        let end_of = ended(&mut link, 0);
        let pid = bench.pid("daemon");
        assert!(!is_there(pid), "{body}");
        assert_eq!(end_of.outcome, Outcome::Exited(6));
        assert_eq!(bench.sandbox.join("asked").exists(), body == polite);
        end(link);
    }
}

#[test]
fn the_daemon_of_one_attempt_is_not_taken_for_anothers() {
    let (bench, mut link) = Bench::worker();
    let stays = format!("{}; touch $S/ready; {WAIT}", daemon("exec sleep 1000"));
    send(&mut link, &bench.order(0, &stays));
    exists(&bench.sandbox.join("ready"));
    let pid = bench.pid("daemon");
    for number in 1..4 {
        send(
            &mut link,
            &bench.order(number, "(setsid sleep 1000 &); exit 0"),
        );
        assert_eq!(ended(&mut link, number).outcome, Outcome::Exited(0));
        assert!(is_there(pid), "its own attempt is not over");
    }
    bench.touch("go");
    ended(&mut link, 0);
    assert!(!is_there(pid));
    end(link);
}

#[test]
fn a_task_within_an_attempt_dies_with_it_to_the_last_daemon() {
    let (bench, mut link) = Bench::worker();
    // While it runs, a process without a mark could belong to either.
    send(&mut link, &bench.order(0, "exec sleep 1000"));
    let root = bench.sandbox.join("root");
    let inner = "(setsid sh -c 'trap \"\" TERM; echo $$ > daemon; while :; do sleep 0.01; done' &)
        cat /proc/$PPID/stat | cut -d' ' -f1 > coordinator; exec sleep 1000";
    let task = serde_json::json!({ "task": "inner", "processes": [{ "name": "p", "run": inner }] });
    fs::write(bench.sandbox.join("inner.json"), task.to_string()).expect("written");
    let mut outer = bench.attempt(1, "");
    let words = [
        "local",
        "run",
        "--no-cgroup",
        "--task-id",
        "inner",
        "--sandbox",
    ];
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    outer.argv = vec![path(&bench.start.binary)];
    outer.argv.extend(words.map(str::to_owned));
    outer.argv.push(path(&bench.sandbox));
    outer.argv.extend(["--root".to_owned(), path(&root)]);
    outer.argv.push(path(&bench.sandbox.join("inner.json")));
    send(&mut link, &launch(1, outer));
    let inside = [bench.pid("daemon"), bench.pid("coordinator")];
    assert!(inside.iter().all(|pid| is_there(*pid)));
    send(&mut link, &stop(1, 9, Millis(0), KillCause::Requested));
    let end_of = ended(&mut link, 1);
    assert_eq!(end_of.outcome, Outcome::Killed(KillCause::Requested));
    assert!(!inside.iter().any(|pid| is_there(*pid)), "{inside:?}");
    end(link);
}

fn known(runs: &[KnownRun], number: u64) -> Option<&KnownRun> {
    runs.iter().find(|known| known.run == run(number))
}

#[test]
fn tags_the_guard_and_those_that_wait_are_told_to_the_next_agent() {
    let (bench, mut link) = Bench::worker();
    let deadline = far_future();
    let orders = [
        guard(deadline, 5),
        guard(far_future(), 4),
        capacity(1),
        bench.order(0, WAIT),
        bench.order(1, "true"),
    ];
    link.send_all(&orders).expect("sent");
    accepted(&mut link, 1);
    drop(link);
    let (link, greeting) = bench.connect();
    assert_eq!(greeting.guard.map(|guard| guard.deadline), Some(deadline));
    let first = known(&greeting.runs, 0).expect("known");
    assert!(first.started.is_some() && !first.waiting);
    assert_eq!(first.tag, "tag 0");
    let second = known(&greeting.runs, 1).expect("known");
    assert!(second.waiting && second.started.is_none() && second.ended.is_none());
    assert_eq!(second.tag, "tag 1");
    end(link);
}

#[test]
fn after_a_kill_the_log_says_what_ran_and_what_waited() {
    let (bench, mut link) = Bench::worker();
    let mut failing = bench.attempt(3, "");
    failing.argv = vec!["/nowhere".to_owned()];
    let orders = [
        capacity(1),
        bench.order(0, "exec sleep 1000"),
        bench.order(1, "true"),
        bench.order(2, "true"),
        Request::Withdraw { run: run(2) },
    ];
    link.send_all(&orders).expect("sent");
    failing.claim = Vec::new();
    send(&mut link, &launch(3, failing));
    ended(&mut link, 3);
    let pid = i32::try_from(link.pid()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a number"), Signal::KILL).expect("ours");
    let mut permit = None;
    until("it is gone", || {
        if let Ok(Discovery::Absent(found)) = bench.start.discover() {
            permit = Some(found);
        }
        permit.is_some()
    });
    let permit = permit.expect("just seen");
    let records = permit
        .evidence(&bench.start, &mut |_| None)
        .expect("readable");
    let evidence = Evidence::from_iter(records.expect("there was one"));
    assert!(
        evidence
            .guard
            .is_some_and(|guard: Guard| guard.deadline > clock::now().mono)
    );
    let first = known(&evidence.runs, 0).expect("it was started");
    let (at, identity) = first.started.expect("it was started");
    assert_eq!(first.tag, "tag 0");
    let second = known(&evidence.runs, 1).expect("it waited");
    assert!(second.waiting && second.tag == "tag 1");
    assert_eq!(known(&evidence.runs, 2), None, "it was withdrawn");
    let failed = known(&evidence.runs, 3).expect("it was tried");
    assert_eq!(failed.tag, "tag 3");
    assert!(failed.ended.is_some() && !failed.waiting);

    let mut spawner = Spawner::new().expect("a spawner");
    let begun = permit.start(&bench.start, &mut spawner.as_fn(), true);
    let mut link = begun.expect("a successor").0;
    let adopt = Request::Adopt {
        run: run(0),
        at,
        identity,
        attempt: Some(Box::new(Attempt {
            tag: "tag 0".to_owned(),
            ..Attempt::default()
        })),
    };
    link.send_all(&[guard(far_future(), 9), adopt, Request::KillStrays])
        .expect("sent");
    send(&mut link, &bench.order(4, "true"));
    ended(&mut link, 4);
    assert!(is_there(identity.pid), "what was adopted is no stray");
    end(link);
}

#[test]
fn what_was_launched_and_not_recorded_is_killed_by_the_successor() {
    let (bench, mut link) = Bench::worker();
    send(
        &mut link,
        &bench.order(0, "echo $$ > $S/pid; exec sleep 1000"),
    );
    let pid = bench.pid("pid");
    let coordinator = i32::try_from(link.pid()).ok().and_then(Pid::from_raw);
    kill_process(coordinator.expect("a number"), Signal::KILL).expect("ours");
    let mut link = bench.begin_after_the_last();
    send(&mut link, &guard(far_future(), 9));
    send(&mut link, &bench.order(1, "true"));
    ended(&mut link, 1);
    assert!(!is_there(pid), "it was not adopted");
    end(link);
}

#[test]
fn a_place_is_free_only_when_everything_of_the_attempt_is_gone() {
    let (bench, mut link) = Bench::worker();
    let leaves = daemon("trap \"\" TERM; while :; do sleep 0.01; done");
    let check = "kill -0 $(cat $S/daemon) 2>/dev/null; echo $? > result";
    let orders = [capacity(1), bench.order(0, &leaves), bench.order(1, check)];
    link.send_all(&orders).expect("sent");
    ended(&mut link, 1);
    let result = fs::read_to_string(bench.sandbox.join("work/1/result"));
    assert_eq!(result.expect("written"), "1\n", "it was gone");
    end(link);
}
