//! Halting, resuming and retrying runs.

use baton_model::json;
use baton_testing::cluster::lines;
use baton_testing::command::run;
use baton_testing::until;
use serde_json::{Value, json};

use crate::workspace::{Workspace, finished, write};

/// Two items wait for a file; then more items follow.
const HELD: &str = "workflow: held
tasks:
  before: { run: 'echo before >> DIR/ran' }
  held:
    for_each: '0..2'
    after: [before]
    run: |
      echo begun {{ item }} >> DIR/begun
      until test -e DIR/go; do sleep 0.02; done
      echo held {{ item }} >> DIR/ran
  after: { run: 'echo after >> DIR/ran', after: [held] }
";

fn until_held(workspace: &Workspace, begun: usize) {
    until("both have begun", || {
        workspace.lines("begun").len() == begun
    });
}

#[test]
fn a_run_that_drains_lets_end_what_has_begun_and_goes_on_with_the_rest() {
    let workspace = Workspace::start();
    let run = workspace.submit(HELD);
    until_held(&workspace, 2);
    let told = workspace.run(&["halt", &run]).good();
    assert!(told.contains("nothing more starts"), "{told}");
    assert_eq!(workspace.show(&run)["run"]["halting"], "drain");
    for verb in ["show", "explain"] {
        let told = workspace.run(&[verb, &run]).good();
        assert!(told.contains("halting (drain)"), "{told}");
    }
    // Halted twice is halted.
    assert_eq!(workspace.run(&["halt", &run]).code, Some(0));
    workspace.touch("go");
    let halted = workspace.wait(&run);
    assert_eq!(
        (halted.code, &halted.run["state"]),
        (Some(130), &json!("HALTED"))
    );
    assert_eq!(workspace.sorted("ran"), ["before", "held 0", "held 1"]);
    let shown = workspace.run(&["show", &run]).good();
    assert!(
        shown.contains("1 not started") && !shown.contains("blocked"),
        "{shown}"
    );
    let resumed = workspace.run(&["resume", &run, "--wait", "--json"]);
    assert_eq!(resumed.out.lines().count(), 2, "{resumed:?}");
    finished(&resumed).is_done();
    assert_eq!(
        workspace.sorted("ran"),
        ["after", "before", "held 0", "held 1"]
    );
    let items = workspace.items(&run);
    let generations: Vec<_> = items.iter().map(|it| it["generation"].clone()).collect();
    assert_eq!(generations, [1, 1, 1, 2]);
}

#[test]
fn a_run_that_is_killed_leaves_nothing_running_and_does_again_what_was_killed() {
    let workspace = Workspace::start();
    let run = workspace.submit(HELD);
    until_held(&workspace, 2);
    let told = workspace.run(&["halt", &run, "--kill", "--wait"]).good();
    assert!(told.contains("halted"), "{told}");
    assert_eq!(workspace.show(&run)["run"]["state"], "HALTED");
    assert_eq!(workspace.task(&run, "held"), "2 halted");
    workspace.touch("go");
    workspace.run(&["resume", &run]).good();
    workspace.wait(&run).is_done();
    assert_eq!(
        workspace.sorted("ran"),
        ["after", "before", "held 0", "held 1"]
    );
    assert_eq!(workspace.lines("begun").len(), 4, "both began again");
}

#[test]
fn a_run_that_is_cancelled_can_go_on() {
    let workspace = Workspace::start();
    let run = workspace.submit(HELD);
    until_held(&workspace, 2);
    workspace.run(&["cancel", &run]).good();
    let over = workspace.wait(&run);
    assert_eq!(over.run["state"], "HALTED", "{over:?}");
    workspace.touch("go");
    let resumed = workspace.run(&["resume", &run, "--wait"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert!(resumed.err.contains("DONE held"), "{resumed:?}");
}

/// A second failure has its alarm, and a second attempt its clean-up.
#[test]
fn what_answers_to_an_end_is_done_again_with_it() {
    let workspace = Workspace::start();
    let over = workspace.finished(
        "workflow: answers
tasks:
  work: { run: 'echo work >> DIR/ran; test -e DIR/go', retry: { attempts: 1 } }
  alarm: { run: 'echo alarm >> DIR/ran', after: [{ task: work, on: failure }] }
  tidy: { run: 'echo tidy >> DIR/ran', after: [alarm, { task: work, on: end }] }
  apart: { run: 'echo apart >> DIR/apart' }
",
    );
    over.has_failed();
    let again = workspace.run(&["resume", over.id(), "--wait"]);
    assert_eq!(again.code, Some(1), "{again:?}");
    workspace.touch("go");
    let again = workspace.run(&["resume", over.id(), "--wait"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    let ran = ["work", "alarm", "tidy", "work", "alarm", "tidy", "work"];
    assert_eq!(workspace.lines("ran"), ran);
    assert_eq!(workspace.lines("apart"), ["apart"]);
}

/// Two chains; the second one ends badly unless its last command is fixed.
fn chains(second: &str, last: &str) -> String {
    format!(
        "workflow: chains
tasks:
  a1: {{ run: 'echo a1 >> DIR/ran' }}
  a2: {{ run: 'echo a2 >> DIR/ran', after: [a1] }}
  b1: {{ run: 'echo b1 >> DIR/ran' }}
  b2: {{ run: '{second}', after: [b1] }}
  b3: {{ run: 'echo b3 >> DIR/ran', after: [b2] }}
  end: {{ run: '{last}', after: [a2, b3] }}
"
    )
}

/// `task: kept/runs why`, of those that run.
fn runs(preview: &Value) -> Vec<String> {
    let tasks = preview["tasks"].as_array().expect("a list").iter();
    let again = tasks.filter(|task| task["runs"] != 0);
    again
        .map(|task| format!("{} {}", task["name"], task["reason"]).replace('"', ""))
        .collect()
}

#[test]
fn with_a_changed_file_only_what_changed_and_what_comes_after_it_runs_again() {
    let workspace = Workspace::start();
    let first = workspace.finished(&chains("echo b2 >> DIR/ran", "exit 1"));
    first.has_failed();
    let run = first.id();
    assert_eq!(workspace.sorted("ran"), ["a1", "a2", "b1", "b2", "b3"]);
    std::fs::remove_file(workspace.path("ran")).expect("written");
    workspace.write(
        "new.yaml",
        &chains("echo other >> DIR/ran", "echo end >> DIR/ran"),
    );
    let dry = ["resume", run, "new.yaml", "--dry-run", "--json"];
    let preview = workspace.run(&dry).json();
    let wanted = ["b2 changed", "b3 downstream of a change", "end changed"];
    assert_eq!(runs(&preview), wanted, "{preview}");
    let table = workspace
        .run(&["resume", run, "new.yaml", "--dry-run"])
        .good();
    assert!(table.contains("b2") && table.contains("changed"), "{table}");
    assert_eq!(workspace.lines("ran"), [""; 0], "only looked at");
    assert_eq!(workspace.show(run)["run"]["generation"], 1);
    let resumed = workspace.run(&["resume", run, "new.yaml", "--wait"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert_eq!(workspace.lines("ran"), ["other", "b3", "end"]);
    let shown = workspace.show(run);
    assert_eq!(shown["run"]["generation"], 2);
    assert_eq!(workspace.task(run, "a1"), "1 done");
}

#[test]
fn without_a_file_a_failed_run_does_what_is_not_done() {
    let workspace = Workspace::start();
    let fixed = "test -e DIR/fixed && echo b2 >> DIR/ran";
    let first = workspace.finished(&chains(fixed, "echo end >> DIR/ran"));
    first.has_failed();
    workspace.touch("fixed");
    let run = first.id();
    let preview = workspace
        .run(&["resume", run, "--dry-run", "--json"])
        .json();
    let wanted = ["b2 unfinished", "b3 unfinished", "end unfinished"];
    assert_eq!(runs(&preview), wanted);
    workspace.run(&["resume", run, "--wait"]).good();
    assert_eq!(
        workspace.sorted("ran"),
        ["a1", "a2", "b1", "b2", "b3", "end"]
    );
    // It is DONE: it cannot be resumed, and the error has a hint.
    let refused = workspace.run(&["resume", run]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(
        refused.err.contains("is DONE") && refused.err.contains("submit"),
        "{refused:?}"
    );
    let dry = workspace.run(&["resume", run, "--dry-run"]);
    assert_eq!((dry.code, &dry.err), (Some(3), &refused.err));
}

#[test]
fn a_retry_does_a_task_again_and_downstream_what_comes_after_it() {
    let workspace = Workspace::start();
    let failing = "echo end >> DIR/ran; exit 1";
    let run = workspace.finished(&chains("echo b2 >> DIR/ran", failing));
    let run = run.id();
    let forget = || std::fs::remove_file(workspace.path("ran")).expect("written");
    forget();
    let retried = workspace.run(&["retry", run, "--task", "b1", "--wait", "--json"]);
    assert_eq!(retried.code, Some(1), "{retried:?}");
    assert_eq!(
        workspace.sorted("ran"),
        ["b1", "end"],
        "the task, and what was not done"
    );
    forget();
    let down = ["retry", run, "--task", "b1", "--downstream"];
    let preview = workspace
        .run(&[&down[..], &["--dry-run", "--json"]].concat())
        .json();
    let wanted: Vec<_> = ["b1", "b2", "b3", "end"]
        .map(|it| format!("{it} asked for"))
        .into();
    assert_eq!(runs(&preview), wanted);
    workspace.run(&[&down[..], &["--wait"]].concat());
    assert_eq!(workspace.lines("ran"), ["b1", "b2", "b3", "end"]);
    forget();
    workspace.run(&["retry", run, "--wait"]);
    assert_eq!(workspace.lines("ran"), ["end"], "what was not done");
    let unknown = workspace.run(&["retry", run, "--task", "unknown"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.err.contains("unknown"), "{unknown:?}");
    assert_eq!(workspace.show(run)["run"]["generation"], 4);
}

#[test]
fn a_task_of_a_done_run_runs_again_and_another_parameter_reruns_what_refers_to_it() {
    let workspace = Workspace::start();
    let first = workspace.finished(
        "workflow: again
params: { day: 14, mode: fast }
tasks:
  a: { run: 'echo a {{ params.day }} >> DIR/ran' }
  b: { run: 'echo b >> DIR/ran', after: [a] }
  c: { run: 'echo c $BATON_PARAM_MODE >> DIR/ran' }
  d: { run: 'echo d >> DIR/ran', when: \"params.mode == 'slow'\", after: [c] }
",
    );
    first.is_done();
    let run = first.id();
    let forget = || std::fs::remove_file(workspace.path("ran")).expect("written");
    forget();
    let down = ["retry", run, "--task", "a", "--downstream"];
    let preview = [&down[..], &["--dry-run", "--json"]].concat();
    let preview = workspace.run(&preview).json();
    assert_eq!(runs(&preview), ["a asked for", "b asked for"]);
    workspace.run(&[&down[..], &["--wait"]].concat()).good();
    assert_eq!(workspace.lines("ran"), ["a 14", "b"]);
    assert_eq!(workspace.show(run)["run"]["generation"], 2);
    forget();
    let other = ["retry", run, "--task", "b", "-p", "mode=slow"];
    let preview = [&other[..], &["--dry-run", "--json"]].concat();
    let preview = workspace.run(&preview).json();
    let wanted = ["b asked for", "c changed", "d changed"];
    assert_eq!(runs(&preview), wanted, "{preview}");
    workspace.run(&[&other[..], &["--wait"]].concat()).good();
    assert_eq!(workspace.sorted("ran"), ["b", "c slow", "d"]);
}

#[test]
fn baton_run_goes_on_with_a_failed_run_and_with_a_changed_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let ran = || lines(&dir.join("ran"));
    write(dir, "wf.yaml", &chains("exit 4", "echo end >> DIR/ran"));
    let failed = run(dir, &["run", "wf.yaml"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert_eq!(ran().len(), 3, "{:?}", ran());
    write(
        dir,
        "wf.yaml",
        &chains("echo b2 >> DIR/ran", "echo end >> DIR/ran"),
    );
    let done = run(dir, &["run", "wf.yaml"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.err.contains("r1 was FAILED; resumed, generation 2"),
        "{done:?}"
    );
    assert_eq!(&ran()[3..], ["b2", "b3", "end"]);
    write(
        dir,
        "wf.yaml",
        &chains("echo new >> DIR/ran", "echo end >> DIR/ran"),
    );
    let changed = run(dir, &["run", "wf.yaml"]);
    assert_eq!(changed.code, Some(2), "{changed:?}");
    assert!(changed.err.contains("--again"), "{changed:?}");
    assert_eq!(ran().len(), 6, "nothing ran");
}

#[test]
fn baton_run_that_died_before_it_went_on_with_a_changed_file_goes_on_with_that_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let noted = |data: &str| -> Value {
        let text = std::fs::read(dir.join(data).join("run.json")).expect("noted");
        json::from_slice(&text).expect("JSON")
    };
    let end = "echo end >> DIR/ran";
    write(dir, "wf.yaml", &chains("exit 4", end));
    let failed = run(dir, &["run", "wf.yaml", "--data", "one"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    write(dir, "wf.yaml", &chains("echo b2 >> DIR/ran", end));
    run(dir, &["run", "wf.yaml", "--data", "two", "--quiet"]).good();
    // As if it had died with the new file noted and not sent.
    let mut half = noted("one");
    assert_ne!(half["hash"], noted("two")["hash"]);
    half["hash"] = noted("two")["hash"].take();
    std::fs::write(dir.join("one/run.json"), half.to_string()).expect("writable");
    std::fs::remove_file(dir.join("ran")).expect("written");
    let done = run(dir, &["run", "wf.yaml", "--data", "one"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(lines(&dir.join("ran")), ["b2", "b3", "end"]);
}

#[test]
fn the_client_may_die_once_the_submission_is_acknowledged() {
    let workspace = Workspace::start();
    workspace.write("wf.yaml", HELD);
    let mut child = workspace.begin(&["submit", "wf.yaml", "--wait", "--json"]);
    let mut out = std::io::BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).expect("readable");
    child.kill().expect("ours");
    child.wait().expect("ours");
    let accepted: Value = serde_json::from_str(&line).expect("it was acknowledged");
    let run = accepted["id"].as_str().expect("an id");
    workspace.touch("go");
    workspace.wait(run).is_done();
    assert_eq!(
        workspace.sorted("ran"),
        ["after", "before", "held 0", "held 1"]
    );
    let watched = finished(&workspace.run(&["submit", "wf.yaml", "--watch", "--json"]));
    watched.is_done();
}
