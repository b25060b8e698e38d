//! The read-only commands.

use serde_json::Value;

use crate::support::{Scenario, Signal, is_alive};

const TALKING: &str = "
task: talking
processes:
  - { name: done, run: 'echo one; echo two; exit 0' }
  - { name: talk, after: [done], run: 'echo $BATON_RUN says hello; echo oops >&2; touch up; until test -e go; do sleep 0.02; done; echo bye' }
  - { name: wait, after: [talk], run: 'exit 4' }
";

fn output_of(scenario: &Scenario, args: &[&str]) -> String {
    let output = scenario.baton(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn process<'a>(status: &'a Value, name: &str) -> &'a Value {
    let all = status["processes"].as_array().expect("a list");
    all.iter().find(|it| it["name"] == name).expect("known")
}

#[test]
fn status_read_and_tail_agree_with_a_task_while_it_runs_and_when_it_has_ended() {
    let scenario = Scenario::new(TALKING);
    let runner = scenario.start();
    scenario.wait_for("up");
    runner.wait_for_start("talk", 0);

    let status = scenario.status();
    assert_eq!(
        (&status["state"], &status["phase"]),
        (&"ACTIVE".into(), &"active".into())
    );
    assert_eq!(
        (&status["driven"], &status["orphaned"]),
        (&true.into(), &false.into())
    );
    assert_eq!(process(&status, "done")["last_end"], "exit 0");
    assert_eq!(process(&status, "talk")["state"], "RUNNING");
    assert_eq!(
        process(&status, "talk")["pid"],
        scenario.task_log().pid("talk")
    );
    let wait = process(&status, "wait")["wait"]
        .as_str()
        .expect("it says why");
    assert!(wait.contains("talk"), "{wait}");
    scenario.prove_status();
    let read = scenario.baton_json(&["read", "t-1", "--json"]);
    assert_eq!(read["state"], "ACTIVE");
    assert_eq!(
        read["events"].as_array().map(Vec::len),
        Some(scenario.task_log().events().len())
    );
    assert_eq!(
        output_of(&scenario, &["tail", "t-1", "talk"]),
        "0 says hello\n"
    );
    assert_eq!(
        output_of(&scenario, &["tail", "t-1", "talk", "--stderr"]),
        "oops\n"
    );
    assert_eq!(
        output_of(&scenario, &["tail", "t-1", "done", "-n", "1"]),
        "two\n"
    );
    assert!(
        is_alive(scenario.task_log().pid("talk")),
        "inspecting signals no process"
    );

    scenario.touch("go");
    assert_eq!(runner.wait().code, 1);
    let status = scenario.status();
    assert_eq!(
        (&status["state"], &status["phase"]),
        (&"FAILED".into(), &"finished".into())
    );
    assert_eq!(
        (&status["driven"], &status["orphaned"]),
        (&false.into(), &false.into())
    );
    assert_eq!(process(&status, "wait")["last_end"], "exit 4");
    assert_eq!(process(&status, "talk")["pid"], Value::Null);
    let read = scenario.baton_json(&["read", "t-1", "--json"]);
    assert_eq!(read["state"], "FAILED");
    let events: Value = serde_json::to_value(scenario.task_log().events()).expect("JSON");
    assert_eq!(read["events"], events);
    assert_eq!(
        output_of(&scenario, &["tail", "t-1", "talk"]),
        "0 says hello\nbye\n"
    );
    assert!(output_of(&scenario, &["status", "-v"]).contains("FAILED"));
    assert!(output_of(&scenario, &["read", "t-1"]).contains("exit 4"));
}

#[test]
fn tail_follows_a_task_to_its_end() {
    let scenario = Scenario::new(TALKING);
    let runner = scenario.start();
    scenario.wait_for("up");
    let mut tail = std::process::Command::new(crate::support::BATON);
    tail.args(["local", "tail", "t-1", "talk", "-f", "--root"])
        .arg(scenario.root.path());
    let tail = tail
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the binary is there");
    scenario.touch("go");
    assert_eq!(runner.wait().code, 1);
    let output = tail.wait_with_output().expect("our child");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "0 says hello\nbye\n"
    );
}

#[test]
fn an_orphaned_task_is_shown_as_one() {
    let scenario = Scenario::new(TALKING);
    let runner = scenario.start();
    scenario.wait_for("up");
    runner.kill();
    let status = scenario.status();
    assert_eq!(
        (&status["driven"], &status["orphaned"]),
        (&false.into(), &true.into())
    );
    assert_eq!(status["state"], "ACTIVE");
    let again = scenario.resume();
    again.wait_for_change("the plan goes on", |change| {
        matches!(change, baton_model::task::PlanChange::Resumed { .. })
    });
    again.signal(Signal::INT);
    assert_eq!(again.wait().code, 3);
}
