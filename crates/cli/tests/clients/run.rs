//! `baton run` of the real binary: its output, its exit status, and crashes.

use std::io::{BufRead, BufReader};
use std::path::Path;

use baton_testing::cluster::lines;
use baton_testing::command::{Ended, baton, run as run_in};
use baton_testing::processes::send;
use baton_testing::until;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// A task file of one shell command, which may refer to its directory as DIR.
fn task(dir: &Path, run: &str) {
    let run = run.replace("DIR", &dir.display().to_string());
    let file = serde_json::json!({ "task": "t", "run": run });
    std::fs::write(dir.join("t.json"), file.to_string()).expect("writable");
}

/// Until a file DIR/go is there.
const HOLD: &str = "until test -e DIR/go; do sleep 0.05; done";

fn go(dir: &Path) {
    std::fs::write(dir.join("go"), "").expect("writable");
}

/// The process that has written its number into this file of DIR/data.
fn pid(dir: &Path, lock: &str) -> Pid {
    let path = dir.join("data").join(lock);
    let number = || {
        let text = std::fs::read_to_string(&path).ok()?;
        Pid::from_raw(text.trim().parse().ok()?)
    };
    until("it has begun", || number().is_some());
    number().expect("it is there")
}

const AGENT: &str = "worker/agent.lock";
const SCHEDULER: &str = "scheduler.lock";

fn signal(pid: Pid, signal: Signal) {
    kill_process(pid, signal).expect("it lives");
}

/// Reads until a line has this word.
fn read_until(from: &mut impl BufRead, word: &str) {
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        let read = from.read_line(&mut line).expect("readable");
        assert!(read > 0, "no line has {word}");
    }
}

#[test]
fn output_is_shown_while_the_work_still_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    task(
        dir.path(),
        &format!("echo one; echo two >&2; {HOLD}; printf three"),
    );
    let mut running = baton(dir.path(), &["run", "t.json"])
        .spawn()
        .expect("it starts");
    let mut first = String::new();
    let mut out = BufReader::new(running.stdout.take().expect("it is piped"));
    out.read_line(&mut first).expect("readable");
    assert_eq!(first, "one\n");
    let mut err = BufReader::new(running.stderr.take().expect("it is piped"));
    read_until(&mut err, "two");
    assert!(matches!(running.try_wait(), Ok(None)), "it still runs");
    go(dir.path());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).expect("readable");
    std::io::copy(&mut err, &mut std::io::sink()).expect("readable");
    assert_eq!(rest, "three", "as it is, without an end of the line");
    assert_eq!(running.wait().expect("it ends").code(), Some(0));
}

#[test]
fn lines_of_several_processes_say_whose_they_are_and_every_run_is_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = serde_json::json!({ "task": "t", "processes": [
        { "name": "one", "run": "echo a; echo b" },
        { "name": "two", "max_failures": 2, "min_duration": "10ms", "after": ["one"],
          "run": "echo again; test -e was || { touch was; exit 1; }" },
    ] });
    std::fs::write(dir.path().join("t.json"), file.to_string()).expect("writable");
    let ended: Ended = baton(dir.path(), &["run", "t.json"])
        .output()
        .expect("it ends")
        .into();
    assert_eq!(ended.good(), "one | a\none | b\ntwo | again\ntwo | again\n");
}

#[test]
fn a_quiet_run_shows_only_its_end() {
    let dir = tempfile::tempdir().expect("a directory");
    task(dir.path(), "echo one; exit 3");
    let ended: Ended = baton(dir.path(), &["run", "t.json", "--quiet"])
        .output()
        .expect("it ends")
        .into();
    assert_eq!((ended.code, &*ended.out), (Some(3), ""), "{ended:?}");
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    assert!(ended.err.contains("i1 FAILED: exit 3"), "{ended:?}");
}

#[test]
fn a_failed_task_is_tried_again_and_one_that_is_done_is_replayed() {
    let dir = tempfile::tempdir().expect("a directory");
    task(
        dir.path(),
        "echo $$ >> DIR/started; echo out; echo why >&2; test -e DIR/go || exit 3",
    );
    let run = || run_in(dir.path(), &["run", "t.json", "--data", "data"]);
    let started = || lines(&dir.path().join("started")).len();
    let failed = run();
    assert_eq!((failed.code, started()), (Some(3), 1), "{failed:?}");
    let show = "more: baton show i1 --data data";
    assert!(failed.err.contains(show), "{failed:?}");
    go(dir.path());
    let again = run();
    assert_eq!((again.code, started()), (Some(0), 2), "{again:?}");
    assert!(again.err.contains("i1 was FAILED"), "{again:?}");
    assert_eq!(again.out, "out\n", "of the second attempt only");
    let replayed = run();
    assert_eq!((replayed.code, started()), (Some(0), 2), "{replayed:?}");
    for words in ["replayed from an earlier run", "--again"] {
        assert!(replayed.err.contains(words), "{replayed:?}");
    }
    assert_eq!(replayed.out, "out\n");
}

#[test]
fn what_was_run_is_looked_up_in_its_directory_and_nothing_runs_meanwhile() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = "workflow: w
tasks:
  a: { run: 'echo a >> DIR/ran; echo first; echo broken pipe >&2; exit 3' }
  b: { run: 'echo b >> DIR/ran', after: [a] }
";
    let file = file.replace("DIR", &dir.path().display().to_string());
    std::fs::write(dir.path().join("w.yaml"), file).expect("writable");
    let failed = run_in(dir.path(), &["run", "w.yaml", "--data", "data"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    for words in ["| broken pipe", "baton logs i1 --stderr --data data"] {
        assert!(failed.err.contains(words), "{failed:?}");
    }
    let look = |args: &[&str]| {
        let args = [args, &["--data", "data"]].concat();
        run_in(dir.path(), &args).good()
    };
    assert_eq!(look(&["logs", "i1", "--stderr"]), "broken pipe\n");
    assert!(look(&["logs", "r1", "--task", "a"]).contains("first"));
    assert!(look(&["show", "i1"]).contains("broken pipe"));
    assert!(look(&["show", "r1"]).contains("broken pipe"));
    assert!(look(&["explain", "r1"]).contains("exit 3"));
    assert_eq!(lines(&dir.path().join("ran")), ["a"]);
    let elsewhere = run_in(dir.path(), &["show", "i1", "--data", "."]);
    assert_eq!(elsewhere.code, Some(2), "{elsewhere:?}");
    assert!(elsewhere.err.contains("baton run"), "{elsewhere:?}");
}

#[test]
fn a_run_that_goes_on_is_looked_at_by_its_own_scheduler() {
    let dir = tempfile::tempdir().expect("a directory");
    task(dir.path(), &format!("echo one; touch DIR/begun; {HOLD}"));
    let running = baton(dir.path(), &["run", "t.json", "--data", "data"])
        .spawn()
        .expect("it starts");
    until("the work has begun", || dir.path().join("begun").exists());
    let look = |command| run_in(dir.path(), &[command, "i1", "--data", "data"]).good();
    assert_eq!(look("logs"), "one\n");
    assert!(look("show").contains("RUNNING"));
    go(dir.path());
    let ended: Ended = running.wait_with_output().expect("it ends").into();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn closing_the_output_does_not_end_the_work() {
    let dir = tempfile::tempdir().expect("a directory");
    task(
        dir.path(),
        &format!("{HOLD}; seq 100000; touch DIR/finished"),
    );
    let mut running = baton(dir.path(), &["run", "t.json"])
        .spawn()
        .expect("it starts");
    drop(running.stdout.take());
    go(dir.path());
    let ended: Ended = running.wait_with_output().expect("it ends").into();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(dir.path().join("finished").exists());
}

#[test]
fn a_scheduler_that_can_never_start_is_told_of_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    task(dir.path(), "true");
    let data = dir.path().join("data");
    std::fs::create_dir(&data).expect("made");
    std::fs::write(data.join("baton.db"), "no database at all".repeat(1_000)).expect("writable");
    let ended: Ended = baton(dir.path(), &["run", "t.json", "--data", "data"])
        .output()
        .expect("it ends")
        .into();
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert!(ended.err.contains("did not start"), "{ended:?}");
    // Every try adds its own.
    let log = std::fs::read_to_string(data.join("scheduler.log")).expect("written");
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(ended.err.contains(log.trim()), "{ended:?}");
}

#[test]
fn a_worker_that_can_never_start_is_told_of_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    task(dir.path(), "true");
    let data = dir.path().join("data");
    std::fs::create_dir_all(data.join("worker")).expect("made");
    std::fs::write(data.join("worker/logs"), "in the way").expect("writable");
    let ended: Ended = baton(dir.path(), &["run", "t.json", "--data", "data"])
        .output()
        .expect("it ends")
        .into();
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert!(
        ended.err.contains("the worker of this run has exited"),
        "{ended:?}"
    );
}

#[test]
fn a_worker_that_is_killed_is_started_again_and_the_same_attempt_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    task(
        dir.path(),
        &format!("echo $$ >> DIR/started; {HOLD}; echo done"),
    );
    let running = baton(dir.path(), &["run", "t.json", "--data", "data"])
        .spawn()
        .expect("it starts");
    let started = dir.path().join("started");
    until("the work has begun", || started.exists());
    for _ in 0..2 {
        let before = pid(dir.path(), AGENT);
        signal(before, Signal::KILL);
        until("there is another", || pid(dir.path(), AGENT) != before);
    }
    go(dir.path());
    let ended: Ended = running.wait_with_output().expect("it ends").into();
    assert!(ended.err.contains("i1 DONE"), "{ended:?}");
    assert_eq!(ended.good(), "done\n");
    let started = std::fs::read_to_string(started).expect("written");
    assert_eq!(started.lines().count(), 1, "not run again");
}

#[test]
fn a_second_interrupt_ends_a_run_without_waiting() {
    let dir = tempfile::tempdir().expect("a directory");
    task(dir.path(), &format!("touch DIR/begun; {HOLD}"));
    let mut running = baton(dir.path(), &["run", "t.json", "--data", "data"])
        .spawn()
        .expect("it starts");
    until("the work has begun", || dir.path().join("begun").exists());
    // To wait for both would take longer than a test waits for anything.
    for lock in [AGENT, SCHEDULER] {
        signal(pid(dir.path(), lock), Signal::STOP);
    }
    send(running.id(), Signal::INT);
    let err = running.stderr.as_mut().expect("it is piped");
    read_until(&mut BufReader::new(err), "stopping");
    send(running.id(), Signal::INT);
    until("it ends", || !matches!(running.try_wait(), Ok(None)));
    assert_eq!(running.wait().expect("it has ended").code(), Some(130));
    go(dir.path());
}

#[test]
fn a_second_interrupt_ends_up_without_waiting_for_its_worker() {
    let dir = tempfile::tempdir().expect("a directory");
    let any = "127.0.0.1:0";
    let args = [
        "up",
        "--data",
        "data",
        "--listen",
        any,
        "--worker-listen",
        any,
    ];
    let mut up = baton(dir.path(), &args).spawn().expect("it starts");
    let mut err = BufReader::new(up.stderr.take().expect("it is piped"));
    read_until(&mut err, "connected to the scheduler");
    let worker = pid(dir.path(), AGENT);
    signal(worker, Signal::STOP);
    send(up.id(), Signal::INT);
    read_until(&mut err, "press ^C again");
    send(up.id(), Signal::INT);
    read_until(&mut err, "not waiting for the worker");
    until("it ends", || !matches!(up.try_wait(), Ok(None)));
    assert_eq!(up.wait().expect("it has ended").code(), Some(0));
    // It was reported all the same.
    signal(worker, Signal::CONT);
    until("the worker ends", || test_kill_process(worker).is_err());
}

#[test]
fn a_file_is_one_instance_until_it_changes_or_is_to_run_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = "task: t\nparams: { who: world }\nrun: echo hello {{ params.who }}; exit 3\n";
    std::fs::write(dir.path().join("t.yaml"), text).expect("writable");
    let run = |args: &[&str]| -> Ended {
        let args = [&["run", "t.yaml"][..], args].concat();
        baton(dir.path(), &args).output().expect("it ends").into()
    };
    let first = run(&["-p", "who=you"]);
    assert_eq!(first.code, Some(3), "{first:?}");
    assert_eq!(first.out, "hello you\n", "{first:?}");
    assert!(first.err.contains("i1 FAILED: exit 3"), "{first:?}");
    let second = run(&["-p", "who=you"]);
    assert_eq!(second.code, Some(3), "{second:?}");
    assert!(
        second.err.contains("i1 was FAILED; trying it again"),
        "{second:?}"
    );
    let again = run(&["-p", "who=you", "--again"]);
    assert!(again.err.contains("i2 FAILED: exit 3"), "{again:?}");
    // Over, and asked for something else: a new one.
    let other = run(&[]);
    assert_eq!(other.out, "hello world\n", "{other:?}");
    assert!(other.err.contains("i3 FAILED"), "{other:?}");
}

#[test]
fn a_run_that_was_killed_goes_on_with_the_same_instance() {
    let dir = tempfile::tempdir().expect("a directory");
    let flag = dir.path().join("flag");
    let text = format!(
        "task: t\nrun: echo $$ >> {0}.started; until test -e {0}; do sleep 0.05; done; echo done\n",
        flag.display()
    );
    std::fs::write(dir.path().join("t.yaml"), text).expect("writable");
    let mut killed = baton(dir.path(), &["run", "t.yaml"])
        .spawn()
        .expect("it starts");
    until("the work has begun", || {
        dir.path().join("flag.started").exists()
    });
    send(killed.id(), Signal::KILL);
    killed.wait().expect("it ends");
    std::fs::write(&flag, "").expect("writable");
    let ended: Ended = baton(dir.path(), &["run", "t.yaml"])
        .output()
        .expect("it ends")
        .into();
    assert!(ended.err.contains("i1 DONE"), "{ended:?}");
    assert_eq!(ended.good(), "done\n");
}
