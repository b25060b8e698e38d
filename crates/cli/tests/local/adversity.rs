//! Adverse conditions around a task: unrelated processes beside the runner,
//! processes that hide, a client that does not read, a user without permission.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use baton_model::ids::BootId;
use baton_runner::log::{Kind, Log, read};
use baton_runner::record::{RunnerRecord, RunnerStart};
use rustix::process::Signal;

use crate::support::{BATON, Scenario, is_alive, lacks_root, send, until};

const WAITS: &str = "
task: waits
processes:
  - { name: work, run: 'echo $$ > pid.$BATON_RUN; until test -e go; do sleep 0.02; done', min_duration: 0s }
";

/// It carries no mark, and after the death of its coordinator it has no parent of ours.
const HIDES: &str = "
task: hides
processes:
  - { name: work, run: 'echo $$ > pid; exec env -i /bin/sleep 1000' }
";

#[test]
fn an_adopted_process_without_a_mark_can_be_killed() {
    for way in [&["kill", "t", "--now"][..], &["kill", "t"][..]] {
        let scenario = Scenario::new(HIDES).args(&["--no-cgroup"]);
        let runner = scenario.start();
        let pid = scenario.wait_for_pid("pid");
        runner.wait_for_start("work", 0);
        runner.kill();
        scenario.kill_coordinator();
        let args: Vec<&str> = way
            .iter()
            .map(|word| {
                if *word == "t" {
                    scenario.id.as_str()
                } else {
                    *word
                }
            })
            .collect();
        assert!(scenario.baton(&args).status.success());
        assert!(
            !is_alive(pid),
            "killed through the descriptor that holds it"
        );
        assert!(scenario.is_finished());
    }
}

#[test]
fn children_that_the_runner_had_before_are_not_the_tasks() {
    let scenario = Scenario::new(WAITS)
        .through("sleep 1000 >/dev/null 2>&1 & echo $! > \"$SIDECAR\"; exec \"$@\"");
    let sidecar = scenario.dir().join("sidecar");
    let scenario = scenario.env("SIDECAR", sidecar.to_str().expect("text"));
    let runner = scenario.start();
    scenario.wait_for_pid("pid.0");
    let dead = scenario.kill_coordinator();
    scenario.wait_for_adoption(dead, 0);
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
    let sidecar = std::fs::read_to_string(sidecar).expect("written");
    let sidecar: u32 = sidecar.trim().parse().expect("a number");
    assert!(is_alive(sidecar), "a stranger was killed");
    send(sidecar, Signal::KILL);
}

#[test]
fn a_hangup_that_is_ignored_stays_ignored() {
    let scenario = Scenario::new(WAITS).through("trap '' HUP; exec \"$@\"");
    let runner = scenario.start();
    scenario.wait_for_pid("pid.0");
    send(runner.pid(), Signal::HUP);
    // The next output of the same loop shows whether the signal arrived.
    let pid = scenario.coordinator();
    assert!(is_alive(pid));
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0, "not KILLED");
}

#[test]
fn a_slow_reader_does_not_block_the_task() {
    let chatty = "
task: chatty
processes:
  - { name: talk, run: 'seq 1 200000', log: { destination: both } }
  - { name: after, run: 'touch done', after: [talk] }
";
    let scenario = Scenario::new(chatty);
    let mut child = Command::new(BATON)
        .args(["local", "run", "--task-id", scenario.id.as_str()])
        .arg(scenario.task_file())
        .env("BATON_ROOT", scenario.root.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("baton starts");
    until("the task ends without a reader", || scenario.is_finished());
    assert!(scenario.has("done"));
    drop(child.stdout.take());
    assert!(child.wait().expect("our child").success());
}

#[test]
fn killing_the_task_of_a_stopped_runner_is_reported() {
    let scenario = Scenario::new(WAITS);
    let runner = scenario.start();
    scenario.wait_for_pid("pid.0");
    send(runner.pid(), Signal::STOP);
    let mut kill = Command::new(BATON)
        .args(["local", "kill", scenario.id.as_str()])
        .env("BATON_ROOT", scenario.root.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("baton starts");
    let mut printed = String::new();
    let mut stderr = std::io::BufReader::new(kill.stderr.take().expect("piped"));
    std::io::BufRead::read_line(&mut stderr, &mut printed).expect("text");
    assert!(printed.contains("is stopped"), "{printed}");
    send(runner.pid(), Signal::CONT);
    assert!(kill.wait().expect("our child").success());
    assert_eq!(runner.wait().code, 3);
}

#[test]
fn another_users_task_is_left_alone() {
    if lacks_root("to be two users") {
        return;
    }
    const UNPRIVILEGED: u32 = 65_534;
    let scenario = Scenario::new(WAITS);
    for place in [scenario.dir(), scenario.root.path()] {
        std::fs::create_dir_all(place).expect("made");
        std::os::unix::fs::chown(place, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).expect("given");
    }
    let mut runner = Command::new(BATON)
        .args([
            "local",
            "run",
            "--no-cgroup",
            "--task-id",
            scenario.id.as_str(),
        ])
        .arg(scenario.task_file())
        .env("BATON_ROOT", scenario.root.path())
        .uid(UNPRIVILEGED)
        .gid(UNPRIVILEGED)
        .stdout(Stdio::null())
        .spawn()
        .expect("baton starts");
    scenario.wait_for_pid("pid.0");
    runner.kill().expect("killed");
    runner.wait().expect("our child");
    // Root may read it, but its processes would be root's.
    for args in [
        &["kill", scenario.id.as_str()][..],
        &["run", "--task-id", scenario.id.as_str()],
    ] {
        let output = scenario.baton(args);
        assert!(!output.status.success());
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8(printed).expect("text");
        assert!(printed.contains("belongs to user nobody"), "{printed}");
    }
    let mut owner = Command::new(BATON);
    owner.args(["local", "kill", "--now", scenario.id.as_str()]);
    owner.env("BATON_ROOT", scenario.root.path());
    owner
        .uid(UNPRIVILEGED)
        .gid(UNPRIVILEGED)
        .stdout(Stdio::null());
    assert!(owner.status().expect("baton starts").success());
}

#[test]
fn a_task_can_be_killed_without_its_sandbox_and_without_its_log() {
    for lost in ["sandbox", "log"] {
        let scenario = Scenario::new(HIDES).args(&["--no-cgroup"]);
        let runner = scenario.start();
        let pid = scenario.wait_for_pid("pid");
        runner.wait_for_start("work", 0);
        runner.kill();
        if lost == "sandbox" {
            scenario.kill_coordinator();
            std::fs::remove_dir_all(scenario.sandbox("")).expect("removed");
        } else {
            let log = scenario.root.runner_log(&scenario.id);
            std::fs::remove_file(log).expect("removed");
        }
        let output = scenario.baton(&["kill", "--now", scenario.id.as_str()]);
        assert!(output.status.success(), "{output:?}");
        assert!(!is_alive(pid), "without its {lost}");
        assert!(scenario.is_finished());
    }
}

/// A runner started after a boot, and died before its first decision. The next one must
/// still attribute all earlier records to the previous boot.
#[test]
fn a_boot_is_not_forgotten_by_a_life_that_was_cut_short() {
    let scenario = Scenario::new(WAITS);
    let runner = scenario.start();
    let pid = scenario.wait_for_pid("pid.0");
    runner.wait_for_start("work", 0);
    runner.kill();
    scenario.kill_coordinator();
    send(pid, Signal::KILL);
    let path = scenario.root.runner_log(&scenario.id);
    let records = read::<RunnerRecord>(&path, Kind::Runner)
        .expect("readable")
        .records;
    let another = BootId(4711);
    let mut before: Vec<RunnerRecord> = records.into_iter().map(|r| booted(r, another)).collect();
    let Some(RunnerRecord::RunnerStarted(last)) = before
        .iter()
        .rev()
        .find(|record| matches!(record, RunnerRecord::RunnerStarted(_)))
    else {
        panic!("no life in the log");
    };
    let boot = baton_runner::sys::identity::boot_id().expect("a boot");
    before.push(RunnerRecord::RunnerStarted(RunnerStart { boot, ..*last }));
    Log::create(&path, Kind::Runner, &before).expect("written");
    scenario.discard_output();
    let runner = scenario.resume();
    scenario.wait_for_pid("pid.1");
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
    // The record of the boot itself says that what ran is lost.
    assert_eq!(scenario.task_log().progress("work").losses, 1);
}

/// As if it had been written in another boot.
fn booted(record: RunnerRecord, boot: BootId) -> RunnerRecord {
    use baton_model::task::PlanChange;
    match record {
        RunnerRecord::RunnerStarted(life) => {
            RunnerRecord::RunnerStarted(RunnerStart { boot, ..life })
        }
        RunnerRecord::Event(mut event) => {
            if let PlanChange::RunStarted {
                identity: Some(identity),
                ..
            } = &mut event.change
            {
                identity.boot = boot;
            }
            RunnerRecord::Event(event)
        }
        other => other,
    }
}

#[test]
fn more_processes_than_descriptors_are_adopted_all_the_same() {
    let many: String = (0..80)
        .map(|no| {
            format!(
                "  - {{ name: p{no}, run: 'until test -e go; do sleep 0.1; done', \
                 log: {{ destination: none }} }}\n"
            )
        })
        .collect();
    let scenario = Scenario::new(&format!("task: many\nprocesses:\n{many}"));
    let scenario = scenario.through("ulimit -Sn 48; exec \"$@\"");
    let runner = scenario.start();
    for no in 0..80 {
        runner.wait_for_start(&format!("p{no}"), 0);
    }
    let dead = scenario.kill_coordinator();
    scenario.wait_for_successor(dead);
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
    for no in 0..80 {
        assert_eq!(
            scenario.task_log().ends(&format!("p{no}")).len(),
            1,
            "p{no}"
        );
    }
}
