//! The commands of `baton local` that read or remove tasks: the real binary over
//! roots that were written as a runner writes them.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use baton_model::ids::BootId;
use baton_model::json;
use baton_model::task::{ProcessNo, RunNo, TaskSpec};
use baton_model::time::Wall;
use baton_runner::log::{Kind, Log};
use baton_runner::record::CoordinatorRecord;
use baton_runner::samples::{Ring, Sample};
use baton_runner::wire::RunKey;
use baton_testing::processes::send;
use baton_testing::until;
use rustix::process::Signal;

use crate::test_root::{Task, TestRoot, append, command_output, spec, task_id};

#[test]
fn inspect_shows_the_processes_in_tiers_with_their_policies() {
    let world = TestRoot::new();
    let file = world.file(
        "t.yaml",
        "task: demo\nowner: ops\nresources: { cpu: 0.5, memory: 64MiB..1GiB }\n\
         processes:\n\
         - { name: a, run: [echo, it's], max_failures: 3, min_duration: 1s }\n\
         - { name: b, run: sleep 1, after: [a], timeout: 1m }\n\
         - { name: d, run: serve, daemon: true, ephemeral: true }\n\
         - { name: z, run: rm -rf x, final: true }\n",
    );
    let said = world.baton(&["inspect", file.to_str().expect("text")]);
    assert_eq!((said.code, &*said.err), (0, ""));
    assert_eq!(
        said.out,
        "\
ops/demo
  resources  cpu 0.5, memory 64MiB to 1GiB
  fails      when one process has failed permanently
  ending     30s to stop processes and run final processes

processes
  1.  a  echo 'it'\\''s'
         fails permanently with failure 3
         1s between runs
  1.  d  serve
         daemon: restarted when it succeeds
         ephemeral: the task does not wait for it
  2.  b  sleep 1
         after a
         stopped after 1m00s

final processes
  1.  z  rm -rf x
"
    );
}

#[test]
fn inspect_tells_what_is_missing_and_shows_the_rest() {
    let world = TestRoot::new();
    let file = world.file(
        "t.yaml",
        "task: demo\nparams: { day: }\nrun: serve {{ params.day }} {{ ports.http }}\n",
    );
    let file = file.to_str().expect("text");
    let said = world.baton(&["inspect", file]);
    assert_eq!(said.code, 0);
    for part in [
        "1.  demo  serve {{params.day}} 65535\n",
        "the parameter day  run it with -p day=VALUE",
        "the port http      run it with -P http:PORT",
    ] {
        assert!(said.out.contains(part), "{part}\n{}", said.out);
    }
    let whole = world.baton(&["inspect", file, "-p", "day=today", "-P", "http:80"]);
    assert!(whole.out.contains("serve today 80\n") && !whole.out.contains("not given"));
    assert_eq!(world.baton(&["inspect", file, "--json"]).code, 2);
}

#[test]
fn inspect_tells_what_parameters_may_be_and_what_starts_the_task() {
    let world = TestRoot::new();
    let file = world.file(
        "t.yaml",
        "task: demo\nrun: report {{ params.n }} {{ params.mode }}\nparams:\n\
         \x20 day: today\n\
         \x20 mode: { one_of: [fast, full], default: fast, description: How thorough }\n\
         \x20 n: { type: int, min: 3 }\n\
         trigger: { max_instances: 1, remote: true }\n",
    );
    let file = file.to_str().expect("text");
    let said = world.baton(&["inspect", file]);
    assert_eq!((said.code, &*said.err), (0, ""));
    for part in [
        "trigger  at most 1 at once, over HTTP\n",
        "1.  demo  report 3 fast\n",
        "parameters\n  day   today  a string\n  mode  fast   one of: fast, full; How thorough\n  \
         n     3      an integer of at least 3\n",
        "the parameter n  run it with -p n=VALUE  shown as 3\n",
    ] {
        assert!(said.out.contains(part), "{part}\n{}", said.out);
    }
    let wrong = world.baton(&["inspect", file, "-p", "n=2"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("`2` is less than 3"), "{}", wrong.err);
}

#[test]
fn inspect_shows_every_part_of_a_schedule() {
    let world = TestRoot::new();
    let file = world.file(
        "t.yaml",
        "task: demo\nrun: report\ntrigger: { schedule: noon, timezone: Europe/Berlin, slack: 10m, \
         catch_up: all, jitter: 30s, gap: skip, fold: twice, after: load }\n",
    );
    let said = world.baton(&["inspect", file.to_str().expect("text")]);
    let part = "noon (Europe/Berlin), at most 10m00s late, catch-up of all missed times, skipped in a \
                DST gap, twice in a DST fold, delayed by up to 30s, after default/load\n";
    assert!(said.out.contains(part), "{}", said.out);
}

#[test]
fn inspect_prints_the_errors_of_a_file_and_exits_with_2() {
    let world = TestRoot::new();
    let file = world.file("t.yaml", "task: demo\nrun: x\ntimout: 1h\n");
    let file = file.to_str().expect("text");
    let said = world.baton(&["inspect", file]);
    assert_eq!((said.code, &*said.out), (2, ""));
    assert!(said.err.contains("t.yaml:3:1: timout") && said.err.contains("hint: "));
    let json = world.json(&["inspect", file, "--json"]);
    assert_eq!(json["problems"][0]["kind"], "unknown-field");
    assert_eq!(world.baton(&["inspect", "none.yaml"]).code, 2);
}

#[test]
fn inspect_gives_programs_the_task_as_a_runner_takes_it() {
    let world = TestRoot::new();
    let file = world.file("t.yaml", "task: demo\nrun: echo {{ task.name }}\n");
    let json = world.json(&["inspect", file.to_str().expect("text"), "--json"]);
    let task: TaskSpec = json::from_value(&json).expect("a task");
    assert_eq!(task.name, "demo");
}

#[test]
fn a_root_without_tasks_is_no_error() {
    let world = TestRoot::new();
    let said = world.baton(&["status"]);
    assert_eq!((said.code, &*said.out), (0, ""));
    assert!(said.err.starts_with("baton: no tasks in "));
    assert_eq!(world.json(&["status", "--json"]), serde_json::json!([]));
}

#[test]
fn status_tells_who_is_done_and_who_is_orphaned() {
    let world = TestRoot::new();
    Task::begin(&world, "old-1", spec()).succeeds(&world);
    Task::begin(&world, "new-1", spec())
        .tick(0)
        .started(100, 0, 0);
    let said = world.baton(&["status"]);
    assert_eq!((said.code, &*said.err), (0, ""));
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines[0].starts_with("ID     STATE    PROCESSES "));
    assert!(lines[1].starts_with("new-1  ACTIVE   0/3 done, 1 running, 2 waiting  "));
    assert!(lines[1].contains("  orphaned: resume with baton local run --root "));
    assert!(lines[1].ends_with(" --task-id new-1"));
    assert!(lines[2].starts_with("old-1  SUCCESS  3/3 done                        "));
    assert!(lines[2].ends_with("  8.2s"), "{}", lines[2]);
    let _lock = world.root.lock(&task_id("new-1")).expect("free");
    assert!(!world.baton(&["status"]).out.contains("orphaned"));
}

#[test]
fn status_finds_by_pattern_and_phase_and_fails_when_nothing_matches() {
    let world = TestRoot::new();
    Task::begin(&world, "old-1", spec()).succeeds(&world);
    Task::begin(&world, "new-1", spec()).tick(0);
    let only = |args: &[&str]| {
        let said = world.baton(args);
        assert_eq!(said.code, 0, "{said:?}");
        (said.out.contains("new-1"), said.out.contains("old-1"))
    };
    assert_eq!(only(&["status", "o"]), (false, true));
    assert_eq!(only(&["status", "*-1", "--only", "active"]), (true, false));
    let nothing = world.baton(&["status", "new-1", "x*"]);
    assert_eq!((nothing.code, &*nothing.out), (1, ""));
    assert!(nothing.err.contains("matches `x*`"));
    assert_eq!(world.baton(&["status", "old", "--only", "active"]).code, 1);
}

#[test]
fn status_says_why_a_process_waits() {
    let world = TestRoot::new();
    let mut task = Task::begin(&world, "t-1", spec());
    task.tick(0).started(100, 0, 0);
    let said = world.baton(&["status", "-v"]);
    for part in [
        "fetch    RUNNING  1 run ",
        ", pid 41",
        "build    WAITING  no run  ",
    ] {
        assert!(said.out.contains(part), "{part}\n{}", said.out);
    }
    assert!(said.out.contains("waits until fetch has succeeded"));
    assert!(said.out.contains("runs when everything else is over"));
    let more = world.baton(&["status", "-vvv"]).out;
    for part in [
        "user       ada (1000)",
        "ports      http:8080",
        "variables  TOKEN\n",
    ] {
        assert!(more.contains(part), "{part}\n{more}");
    }
    assert!(more.contains("run 0  2023-11-14 22:13:20Z  running"));
    assert!(!more.contains("secret"));
}

#[test]
fn status_for_programs_has_a_fixed_shape() {
    let world = TestRoot::new();
    Task::begin(&world, "t-1", spec()).succeeds(&world);
    let json = world.json(&["status", "--json"]);
    let task = &json[0];
    assert_eq!(task["id"], "t-1");
    assert_eq!(task["phase"], "finished");
    assert_eq!(task["state"], "SUCCESS");
    assert_eq!(
        (&task["driven"], &task["orphaned"]),
        (&false.into(), &false.into())
    );
    assert_eq!(task["duration_ms"], 8_250);
    assert_eq!(task["ports"]["http"], 8080);
    assert_eq!(task["error"], serde_json::Value::Null);
    assert_eq!(
        task["processes"][0],
        serde_json::json!({
            "name": "fetch", "state": "SUCCESS", "fate": "finished", "runs": 2, "successes": 1,
            "failures": 1, "kills": 0, "losses": 0, "last_end": "exit 0", "pid": null, "wait": null,
            "last": { "run": 1, "exit_code": 0, "signal": null,
                      "started_ms": 1_700_000_006_200_u64, "ended_ms": 1_700_000_007_000_u64 },
            "usage": null,
        })
    );
}

#[test]
fn status_shows_what_was_sampled() {
    let world = TestRoot::new();
    Task::begin(&world, "t-1", spec()).succeeds(&world);
    let sample = |wall, cpu_ms, rss| Sample {
        wall: Wall(wall),
        run: RunKey {
            process: ProcessNo(0),
            run: RunNo(1),
        },
        cpu_ms,
        rss,
        threads: 3,
        processes: 2,
        read: 4_096,
        written: 0,
    };
    let mut ring = Ring::open(&world.root.samples(&task_id("t-1")), 8).expect("a ring");
    let samples = [sample(1_000, 0, 3 << 20), sample(2_000, 500, 1 << 20)];
    ring.push(&samples).expect("written");
    let said = world.baton(&["status", "-v"]);
    let line = "    cpu 500ms, memory peak 3MiB, io 4KiB in, 0B out";
    assert!(said.out.lines().any(|said| said == line), "{}", said.out);
    let usage = &world.json(&["status", "--json"])[0]["processes"][0]["usage"];
    assert_eq!(usage["cpu_percent"], 50);
    assert_eq!(usage["rss_bytes"], 1 << 20);
    assert_eq!(usage["rss_peak_bytes"], 3 << 20);
}

#[test]
fn a_task_that_cannot_be_read_does_not_hide_the_others() {
    let world = TestRoot::new();
    Task::begin(&world, "good", spec()).tick(0);
    Task::begin(&world, "bad", spec()).tick(0);
    fs::write(world.root.runner_log(&task_id("bad")), "no log\n").expect("written");
    let said = world.baton(&["status"]);
    assert_eq!(said.code, 1);
    assert!(said.out.contains("bad   UNREADABLE") && said.out.contains("good  ACTIVE"));
    let json = world.json(&["status", "--json"]);
    assert!(json[0]["error"].is_string() && json[1]["error"].is_null());
}

#[test]
fn read_tells_the_whole_story_in_order() {
    let world = TestRoot::new();
    Task::begin(&world, "t-1", spec()).succeeds(&world);
    let said = world.baton(&["read", "t-1"]);
    assert_eq!((said.code, &*said.err), (0, ""));
    let log: Vec<&str> = said.out.lines().collect();
    assert_eq!(
        log[0],
        "task t-1 began 2023-11-14 22:13:20Z on earth by ada"
    );
    let expected = "\
2023-11-14 22:13:20Z       +0.000s  a runner started, pid 40
2023-11-14 22:13:20Z       +0.000s  fetch: run 0 is being launched
2023-11-14 22:13:20Z       +0.100s  fetch: run 0 started, pid 41
2023-11-14 22:13:21Z       +1.100s  fetch: run 0 ended: exit 1, a failure; it may run again in 5s
2023-11-14 22:13:26Z       +6.100s  fetch: run 1 is being launched
2023-11-14 22:13:26Z       +6.200s  fetch: run 1 started, pid 41
2023-11-14 22:13:27Z       +7.000s  fetch: run 1 ended: exit 0; it is finished
2023-11-14 22:13:27Z       +7.000s  build: run 0 is being launched
2023-11-14 22:13:27Z       +7.100s  build: run 0 started, pid 42
2023-11-14 22:13:28Z       +8.000s  build: run 0 ended: exit 0; it is finished";
    assert_eq!(log[2..12], expected.lines().collect::<Vec<_>>());
    assert!(said.out.contains("+8.250s  the task has ended: SUCCESS\n"));
    assert!(said.out.ends_with("SUCCESS after 8.2s\n"));
    assert!(said.out.contains(
        "\
fetch    SUCCESS  2 runs, 1 good, 1 failed  last: exit 0
build    SUCCESS  1 run, 1 good             last: exit 0
cleanup  SUCCESS  1 run, 1 good             last: exit 0
"
    ));
}

#[test]
fn read_shows_the_records_as_they_are_and_those_of_a_coordinator() {
    let world = TestRoot::new();
    Task::begin(&world, "t-1", spec()).succeeds(&world);
    let raw = world.baton(&["read", "t-1", "--simple"]).out;
    let raw: Vec<&str> = raw.lines().collect();
    assert!(raw[0].starts_with("     1  {\"begun\":{"), "{}", raw[0]);
    assert!(raw[1].starts_with("     2  {\"life\":{"), "{}", raw[1]);
    assert!(raw[2].contains("run-ordered"), "{}", raw[2]);
    let absent = world.baton(&["read", "t-1", "--coordinator"]);
    assert_eq!((absent.code, &*absent.out), (1, ""));
    let path = world.root.coordinator_log(&task_id("t-1"));
    let run = RunKey {
        process: ProcessNo(1),
        run: RunNo(2),
    };
    let records = [
        CoordinatorRecord::Begun {
            mark: "m".to_owned(),
            boot: BootId(1),
            pid: 77,
        },
        CoordinatorRecord::Forgotten { run },
    ];
    Log::create(&path, Kind::Coordinator, &records).expect("written");
    let said = world.baton(&["read", "t-1", "--coordinator"]);
    assert_eq!(
        said.out,
        "     1  a coordinator started, pid 77\n     2  the end of process 1, run 2 was taken over\n"
    );
    let file = path.to_str().expect("text");
    let json = world.json(&["read", file, "--json"]);
    assert_eq!(json["records"][0]["begun"]["pid"], 77);
    let raw = world.baton(&["read", file, "--simple"]).out;
    assert!(raw.contains("\"forgotten\""), "{raw}");
}

#[test]
fn status_finds_the_tasks_of_every_root_of_the_host() {
    let (world, other) = (TestRoot::new(), TestRoot::new());
    Task::begin(&world, "own", spec()).succeeds(&world);
    let id = "running";
    let file = other.file("t.yaml", "task: t\nrun: touch began; sleep 1000\n");
    let file = file.to_str().expect("text");
    let mut run = other.command(&["run", file, "--task-id", id]);
    let mut run = run.stdout(Stdio::null()).spawn().expect("starts");
    let began = other.root.sandbox(&task_id(id)).join("began");
    until("it runs", || began.exists());
    let json = world.json(&["status", "--all", "--json"]);
    let all = json.as_array().expect("a list").iter();
    let of = |world: &TestRoot| {
        let root = world.root.path().display().to_string();
        let of_root = all.clone().filter(|task| task["root"] == *root);
        of_root.map(|task| task["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (of(&world), of(&other)),
        (vec!["own".into()], vec![id.into()])
    );
    let table = world.baton(&["status", "--all", id]).out;
    let path = other.root.path().display().to_string();
    assert!(table.contains(&path) && table.contains("ACTIVE"), "{table}");
    let only = world.baton(&["status"]).out;
    assert!(!only.contains(id), "{only}");
    assert_eq!(other.baton(&["kill", id, "--now"]).code, 0);
    run.wait().expect("it ends");
}

/// The process of the coordinator of the task `t`.
fn coordinator_pid(world: &TestRoot) -> u32 {
    let log = world.root.coordinator_log(&task_id("t"));
    let json = world.json(&["read", log.to_str().expect("text"), "--json"]);
    let pid = json["records"][0]["begun"]["pid"].as_u64().expect("a pid");
    u32::try_from(pid).expect("a pid")
}

#[test]
fn a_launch_that_takes_too_long_is_lost_and_tried_again() {
    let world = TestRoot::new();
    let command = "test -e first && exit 0; touch first; exit 1";
    let file = world.file(
        "t.yaml",
        &format!(
            "task: t\nprocesses:\n  - name: p\n    run: {command}\n    max_failures: 9\n    \
             min_duration: 3s\n"
        ),
    );
    let file = file.to_str().expect("text");
    let args = ["run", file, "--task-id", "t", "--launch-timeout", "1s"];
    let mut run = world.command(&args);
    let mut run = run.stdout(Stdio::null()).spawn().expect("starts");
    until("the first run has failed", || {
        let json = world.baton(&["status", "--json"]).out;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap_or_default();
        json[0]["processes"][0]["failures"] == 1
    });
    // It hangs: the next launch is not answered.
    send(coordinator_pid(&world), Signal::STOP);
    assert!(run.wait().expect("it ends").success());
    let json = world.json(&["status", "--json"]);
    let process = &json[0]["processes"][0];
    assert_eq!(
        (&process["losses"], &process["successes"]),
        (&1.into(), &1.into())
    );
}

#[test]
fn a_coordinator_that_stands_still_is_replaced() {
    let world = TestRoot::new();
    let run = "touch began; while [ ! -e go ]; do sleep 0.02; done; exit 7";
    let file = world.file("t.yaml", &format!("task: t\nrun: {run}\n"));
    let file = file.to_str().expect("text");
    let args = ["run", file, "--task-id", "t", "--launch-timeout", "1s"];
    let mut run = world.command(&args);
    let run = run.stdout(Stdio::piped()).spawn().expect("starts");
    let sandbox = world.root.sandbox(&task_id("t"));
    until("it runs", || sandbox.join("began").exists());
    let pid = coordinator_pid(&world);
    // Nothing is to be launched: the coordinator only has to notice the end.
    send(pid, Signal::STOP);
    fs::write(sandbox.join("go"), b"").expect("written");
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "its exit code is known");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("has not answered for 1s"), "{said}");
    let json = world.json(&["status", "--json"]);
    assert_eq!(json[0]["processes"][0]["last"]["exit_code"], 7);
}

#[test]
fn gc_ends_a_task_whose_runner_is_gone_for_long_enough() {
    let world = TestRoot::new();
    let file = world.file(
        "t.yaml",
        "task: t\nprocesses:\n  - { name: p, run: touch began; exec sleep 1000 }\n  \
         - { name: last, run: touch finished, final: true }\n",
    );
    let file = file.to_str().expect("text");
    let mut run = world.command(&["run", file, "--task-id", "t"]);
    let mut run = run.stdout(Stdio::null()).spawn().expect("starts");
    let sandbox = world.root.sandbox(&task_id("t"));
    until("it runs", || sandbox.join("began").exists());
    let driven = world.json(&["gc", "--end-orphans", "0s", "-y", "--json"]);
    assert_eq!(driven["orphans"], serde_json::json!([]), "it has a runner");
    run.kill().expect("killed");
    run.wait().expect("it ends");
    let young = world.json(&["gc", "--end-orphans", "1d", "-y", "--json"]);
    assert_eq!(young["orphans"], serde_json::json!([]));
    let dry = world.baton(&["gc", "--end-orphans", "0s", "--dry-run"]).out;
    assert!(dry.contains("t: its runner is gone"), "{dry}");
    let ended = world.json(&["gc", "--end-orphans", "0s", "-y", "--json"]);
    assert_eq!(ended["orphans"][0]["state"], "KILLED", "{ended}");
    assert!(
        sandbox.join("finished").exists(),
        "its final process has run"
    );
    let status = world.json(&["status", "--json"]);
    assert_eq!(status[0]["phase"], "finished");
}

#[test]
fn read_takes_a_file_too_and_serves_programs() {
    let world = TestRoot::new();
    Task::begin(&world, "t-1", spec()).succeeds(&world);
    let path = world.root.runner_log(&task_id("t-1"));
    let json = world.json(&["read", path.to_str().expect("text"), "--json"]);
    assert_eq!(json["header"]["task_id"], "t-1");
    assert_eq!(json["state"], "SUCCESS");
    assert_eq!(json["runner_starts"][0]["pid"], 40);
    assert_eq!(json["events"][0]["change"]["run-ordered"]["run"], 0);
    assert_eq!(
        (&json["torn_bytes"], &json["damage"]),
        (&0.into(), &serde_json::Value::Null)
    );
    let none = world.baton(&["read", "nothing"]);
    assert_eq!((none.code, &*none.out), (1, ""));
}

#[test]
fn a_torn_end_of_a_log_is_mentioned_and_does_not_count() {
    let world = TestRoot::new();
    Task::begin(&world, "t-1", spec()).tick(0);
    append(&world.root.runner_log(&task_id("t-1")), &[16, 0, 0]);
    let said = world.baton(&["read", "t-1"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("the last 3 bytes are a torn record"));
}

#[test]
fn of_a_damaged_log_everything_before_the_damage_is_shown() {
    let world = TestRoot::new();
    Task::begin(&world, "t-1", spec()).succeeds(&world);
    let path = world.root.runner_log(&task_id("t-1"));
    let mut bytes = fs::read(&path).expect("there");
    let needle = b"run-started";
    let at = bytes
        .windows(needle.len())
        .position(|window| window == needle);
    bytes[at.expect("a run was started")] ^= 1;
    fs::write(&path, bytes).expect("written");
    let said = world.baton(&["read", "t-1"]);
    assert_eq!(said.code, 1);
    assert!(said.out.contains("fetch: run 0 is being launched\n"));
    assert!(!said.out.contains("run 0 started"));
    assert!(said.err.contains("the log is damaged"));
    let json = world.json(&["read", "t-1", "--json"]);
    assert!(json["damage"].is_string());
}

#[test]
fn tail_shows_the_last_lines_of_the_newest_run() {
    let world = TestRoot::new();
    Task::begin(&world, "t-1", spec()).tick(0);
    world.printed("t-1", "fetch", "0/stdout", "old\n");
    world.printed("t-1", "fetch", "1/stdout.1", "1\n2\n");
    world.printed("t-1", "fetch", "1/stdout", "3\n");
    world.printed("t-1", "fetch", "1/stderr", "oops\n");
    let tail = |args: &[&str]| world.baton(&[&["tail", "t-1"], args].concat());
    assert_eq!(tail(&["fetch", "-n", "2"]).out, "2\n3\n");
    assert_eq!(tail(&["fetch"]).out, "1\n2\n3\n");
    assert_eq!(tail(&["fetch", "--stderr"]).out, "oops\n");
    assert_eq!(tail(&["fetch", "--run", "0"]).out, "old\n");
    let none = tail(&["fetch", "--run", "7"]);
    assert_eq!(
        (none.code, &*none.err),
        (1, "baton: fetch has no log of run 7; its last run is 1\n")
    );
    let unknown = tail(&["fetsch"]);
    assert_eq!(unknown.code, 1);
    assert!(unknown.err.contains("it has: fetch, build, cleanup"));
    let silent = tail(&["build"]);
    assert_eq!((silent.code, &*silent.out), (0, ""));
    assert!(silent.err.contains("build has no output yet"));
}

#[test]
fn tail_of_a_whole_task_names_the_process_of_each_line() {
    let world = TestRoot::new();
    Task::begin(&world, "t-1", spec()).tick(0);
    world.printed("t-1", "fetch", "0/stdout", "a\nb");
    world.printed("t-1", "cleanup", "0/stdout", "c\x1b[2J\n");
    let said = world.baton(&["tail", "t-1"]);
    assert_eq!(said.out, "fetch   | a\nfetch   | b\ncleanup | c\x1b[2J\n");
}

#[test]
fn tail_follows_a_task_to_its_end() {
    let world = TestRoot::new();
    let mut task = Task::begin(&world, "t-1", spec());
    world.printed("t-1", "fetch", "0/stdout", "first\n");
    let mut child = world
        .command(&["tail", "t-1", "fetch", "-f"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("baton runs");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "first\n");
    let log = |name| world.log_file("t-1", "fetch", name);
    fs::rename(log("0/stdout"), log("0/stdout.1")).expect("rotated");
    world.printed("t-1", "fetch", "0/stdout", "second\n");
    world.printed("t-1", "fetch", "1/stdout", "third\n");
    task.succeeds(&world);
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "second\nthird\n");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn gc_needs_a_limit_and_a_confirmation() {
    let world = TestRoot::new();
    Task::begin(&world, "t-1", spec()).succeeds(&world);
    let limitless = world.baton(&["gc"]);
    assert_eq!(limitless.code, 2);
    assert!(
        limitless
            .err
            .contains("--max-age TIME, --max-space SIZE or --max-tasks N")
    );
    let alone = world.baton(&["gc", "--max-age", "1d"]);
    assert_eq!(alone.code, 2);
    assert!(alone.err.contains("add -y to remove, or --dry-run to list"));
    let wrong = world.baton(&["gc", "--max-age", "1"]);
    assert!(wrong.code == 2 && wrong.err.contains("has no unit"));
    assert!(world.root.runner_log(&task_id("t-1")).exists());
}

#[test]
fn gc_shows_what_goes_and_removes_it_when_told() {
    let world = TestRoot::new();
    Task::begin(&world, "old", spec()).succeeds(&world);
    Task::begin(&world, "busy", spec()).tick(0);
    world.printed("old", "fetch", "0/stdout", "x\n");
    let look = world.baton(&["gc", "--max-age", "2d", "--dry-run"]);
    assert_eq!((look.code, &*look.err), (0, ""));
    assert!(
        look.out.contains("1 of 1 finished tasks to remove") && look.out.contains("age  removed")
    );
    assert!(world.root.sandbox(&task_id("old")).exists());
    let json = world.json(&["gc", "--max-tasks", "0", "-y", "--json"]);
    assert_eq!(json["removed"], serde_json::json!(["old"]));
    assert_eq!(json["tasks"][0]["reason"], "count");
    assert_eq!(json["failed"], serde_json::json!([]));
    assert!(!world.root.sandbox(&task_id("old")).exists());
    assert!(world.root.runner_log(&task_id("busy")).exists());
    let again = world.baton(&["gc", "--max-tasks", "0"]);
    assert_eq!(again.code, 0, "nothing to ask about: {again:?}");
}

#[test]
fn a_closed_output_ends_every_command_quietly() {
    let world = TestRoot::new();
    Task::begin(&world, "t-1", spec()).succeeds(&world);
    world.printed("t-1", "fetch", "0/stdout", "x\n");
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["read", "t-1"],
        &["tail", "t-1", "fetch"],
        &["gc", "--max-tasks", "0", "--dry-run"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = world.command(args).stdout(writer).output();
        let said = command_output(output.expect("baton runs"));
        assert_eq!((said.code, &*said.err), (0, ""), "{args:?}");
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    let world = TestRoot::new();
    for command in ["inspect", "status", "read", "tail", "gc"] {
        let help = world.baton(&[command, "--help"]);
        assert_eq!(help.code, 0);
        assert!(
            help.out
                .contains(&format!("Examples:\n  baton local {command}"))
        );
        assert!(help.out.contains("--root <DIR>"));
    }
    assert_eq!(world.baton(&["nonsense"]).code, 2);
}
