//! Terminal output, and whether the commands it names work.

use std::path::Path;
use std::process::{Command, Stdio};

use baton_testing::cluster::lines;
use baton_testing::command::run;
use baton_testing::command::{Ended, baton};
use baton_testing::until;
use serde_json::{Value, json};

use crate::workspace::{Workspace, write};

const SMALL: &str = "workflow: small
tasks:
  get: { run: 'until test -e DIR/go; do sleep 0.02; done' }
  left: { run: 'true', after: [get] }
  right: { run: 'true', after: [get] }
  put: { run: 'echo done >> DIR/ran', after: [left, right] }
";

/// A command on a terminal of 80 columns, to its end; what it showed.
fn on_a_terminal(dir: &Path, args: &str, url: Option<&str>) -> Ended {
    let command = format!("stty cols 80 rows 24; exec {} {args}", baton_path(dir));
    let mut script = Command::new("script");
    script
        .args([
            "--quiet",
            "--return",
            "--flush",
            "--command",
            &command,
            "/dev/null",
        ])
        .current_dir(dir)
        .env_remove("NO_COLOR")
        .env_remove("BATON_URL")
        .env("TERM", "xterm")
        .stdin(Stdio::null());
    if let Some(url) = url {
        script.env("BATON_URL", url);
    }
    script.output().expect("script is there").into()
}

fn baton_path(dir: &Path) -> String {
    let command = baton(dir, &[]);
    command.get_program().to_str().expect("UTF-8").to_owned()
}

#[test]
fn on_a_terminal_a_run_is_drawn_over_and_summed_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    // Longer than from one picture to the next.
    let text = SMALL.replace("until test -e DIR/go; do sleep 0.02; done", "sleep 2");
    write(dir, "wf.yaml", &text);
    let shown = on_a_terminal(dir, "run wf.yaml", None);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let pictures = shown.out.matches("0/4 items").count();
    assert!(pictures >= 2, "{shown:?}");
    assert!(
        shown.out.contains("\x1b[6A\r\x1b[J"),
        "drawn over: {shown:?}"
    );
    assert!(shown.out.contains("waits for get"), "{shown:?}");
    let (_, last) = shown.out.rsplit_once("\x1b[J").expect("it was cleared");
    assert!(
        last.contains("DONE") && last.contains("4/4 items done"),
        "{last}"
    );
}

#[test]
fn elsewhere_a_run_is_told_line_by_line() {
    let workspace = Workspace::start();
    workspace.write("wf.yaml", SMALL);
    let child = workspace.begin(&["submit", "wf.yaml", "--watch"]);
    until("it runs", || {
        let runs = workspace.run(&["runs", "--json"]).json();
        runs[0]["state"] == "RUNNING" || runs[0]["state"] == "LAUNCHED"
    });
    workspace.touch("go");
    let ended: Ended = child.wait_with_output().expect("it ends").into();
    assert_eq!((ended.code, &*ended.out), (Some(0), "r1\n"), "{ended:?}");
    assert!(!ended.err.contains('\x1b'), "{ended:?}");
    assert!(ended.err.contains("DONE small r1"), "{ended:?}");
    let graph = workspace.run(&["show", "r1", "--graph"]).good();
    assert_eq!(
        graph,
        "✓    get    1/1\n├─╮\n✓ │  left   1/1\n│ ✓  right  1/1\n├─╯\n✓    put    1/1\n"
    );
    let dot = workspace.run(&["show", "r1", "--dot"]).good();
    assert!(dot.starts_with("digraph") && dot.contains("->"), "{dot}");
    for args in [
        &["show", "r1", "--svg"][..],
        &["show", "r1", "--timeline", "--svg"],
    ] {
        let svg = workspace.run(args).good();
        well_formed(&svg);
        assert!(svg.contains("get") && svg.contains("put"), "{svg}");
    }
    let timeline = workspace.run(&["show", "r1", "--timeline"]).good();
    assert!(timeline.contains("left"), "{timeline}");
    let explained = workspace.run(&["explain", "r1"]).good();
    assert!(explained.contains("DONE"), "{explained}");
}

/// Every element is closed, in the order in which they were opened.
fn well_formed(svg: &str) {
    let mut open = Vec::new();
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        let end = rest[at..].find('>').expect("a tag ends") + at;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        assert!(!tag.contains('<'), "{tag}");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{svg}"),
            None if tag.ends_with('/') || tag.starts_with(['?', '!']) => {}
            None => open.push(tag.split([' ', '\n']).next().expect("a name")),
        }
    }
    assert_eq!(open, [""; 0], "{svg}");
    assert!(svg.contains("<svg ") && svg.contains("xmlns"), "{svg}");
}

#[test]
fn while_it_waits_a_run_says_for_what() {
    let workspace = Workspace::start();
    let run = workspace.submit(SMALL);
    until("the first one runs", || {
        workspace.task(&run, "get") == "1 running"
    });
    let explained = workspace.run(&["explain", &run]).good();
    assert!(explained.contains("waits for get"), "{explained}");
    assert!(explained.contains("1 run"), "{explained}");
    workspace.touch("go");
    workspace.wait(&run).is_done();
}

/// Errors of a file: field and hint.
const BAD: &[(&str, &str, &str)] = &[
    (
        "a: { run: x, after: [b] }, b: { run: x, after: [a] }",
        "tasks.a.after[0]",
        "remove one",
    ),
    (
        "a: { run: x, aftr: [b] }",
        "tasks.a.aftr",
        "did you mean `after`",
    ),
    (
        "a: { run: x, after: [zebra] }",
        "tasks.a.after[0]",
        "the tasks are: a",
    ),
    ("a: { run: 'echo {{ item }}' }", "tasks.a.run", "for_each"),
    ("a: { run: 'echo {{ params.x }}' }", "tasks.a.run", "params"),
    ("a: { run: x, when: 'params.' }", "tasks.a.when", ""),
    ("a: { run: x, for_each: '3..' }", "tasks.a.for_each", ""),
    (
        "a: { run: x, for_each: '0..2' }, b: { run: x, for_each: '0..3', after: [{ task: a, each: true }] }",
        "tasks.b.after[0]",
        "",
    ),
    ("a: { run: x, owner: me }", "tasks.a.owner", ""),
    ("a: {}", "tasks.a", "run"),
];

#[test]
fn a_bad_file_is_refused_with_its_place_and_its_hint_before_anything_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    for (tasks, field, hint) in BAD {
        write(
            dir,
            "bad.yaml",
            &format!("workflow: bad\ntasks: {{ {tasks} }}\n"),
        );
        // No server listens there: an invalid file is not sent.
        for args in [
            &["run", "bad.yaml"][..],
            &["submit", "bad.yaml", "--url", "http://127.0.0.1:1"],
            &["resume", "r1", "bad.yaml", "--url", "http://127.0.0.1:1"],
        ] {
            let refused = run(dir, args);
            assert_eq!(refused.code, Some(2), "{tasks}: {refused:?}");
            assert!(refused.err.contains("bad.yaml:2:"), "{tasks}: {refused:?}");
            assert!(refused.err.contains(field), "{tasks}: {refused:?}");
            let (_, told) = refused.err.split_once("hint: ").expect("a hint");
            assert!(told.contains(hint), "{tasks}: {refused:?}");
        }
    }
    assert!(!dir.join(".baton").exists(), "nothing is kept of it");
}

const FAILING: &str = "workflow: failing
tasks:
  many: { run: 'echo no such luck >&2; test -e DIR/fixed || exit 7', for_each: '0..3' }
  once: { run: 'echo once >> DIR/ran' }
  next: { run: 'echo next >> DIR/ran', after: [many] }
";

/// The commands that a summary names.
fn commands(summary: &str) -> Vec<Vec<String>> {
    let lines = summary
        .lines()
        .filter_map(|line| line.find("baton ").map(|at| &line[at..]));
    let words = |line: &str| -> Vec<String> {
        let command = line.split('#').next().unwrap_or_default();
        command
            .split_whitespace()
            .skip(1)
            .map(str::to_owned)
            .collect()
    };
    lines.map(words).collect()
}

#[test]
fn what_a_summary_of_a_failed_run_says_to_type_works() {
    let workspace = Workspace::start();
    workspace.write("wf.yaml", FAILING);
    let failed = workspace.run(&["submit", "wf.yaml", "--wait"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.err.contains("3× many: exit 7"), "{failed:?}");
    let (_, summary) = failed
        .err
        .split_once("FAILED failing r1")
        .expect("a summary");
    let told = commands(summary);
    let run = |at: usize| {
        let args: Vec<&str> = told[at].iter().map(String::as_str).collect();
        workspace.run(&args)
    };
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(told[0][0], "logs");
    assert_eq!(run(0).good(), "no such luck\n");
    workspace.touch("fixed");
    assert_eq!(told[1], ["resume", "r1"]);
    run(1).good();
    workspace.wait("r1").is_done();
    assert_eq!(workspace.sorted("ran"), ["next", "once"]);
    assert_eq!(told[2], ["retry", "r1", "--task", "many"]);
    // Also now that it is DONE.
    run(2).good();
}

#[test]
fn a_failed_run_without_a_cluster_shows_an_error_and_the_command_that_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    write(
        dir,
        "wf.yaml",
        &FAILING.replace("tasks:", "params: { who: 'a b' }\ntasks:"),
    );
    let failed = run(dir, &["run", "wf.yaml", "-p", "who=you"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.err.contains("3× many: exit 7"), "{failed:?}");
    assert!(failed.err.contains("| no such luck"), "{failed:?}");
    let (_, summary) = failed
        .err
        .split_once("FAILED failing r1")
        .expect("a summary");
    let told = commands(summary);
    let type_in = |at: usize| {
        let args: Vec<&str> = told[at].iter().map(String::as_str).collect();
        run(dir, &args)
    };
    assert_eq!((told.len(), told[0][0].as_str()), (2, "logs"), "{told:?}");
    assert_eq!(type_in(0).good(), "no such luck\n");
    assert_eq!(told[1], ["run", "wf.yaml", "-p", "who=you"]);
    std::fs::write(dir.join("fixed"), "").expect("writable");
    let done = type_in(1);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(lines(&dir.join("ran")), ["once", "next"]);
    let quiet = run(dir, &["run", "wf.yaml", "-p", "who=you", "--quiet"]);
    assert!(
        quiet.err.contains("DONE failing r1"),
        "the end is shown: {quiet:?}"
    );
}

#[test]
fn a_recorded_workflow_is_imported_and_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let task = |id: &str, parents: Value, children: Value| {
        json!({ "name": id, "id": id, "parents": parents, "children": children, "inputFiles": [],
                "outputFiles": [] })
    };
    let ran = |id: &str| json!({ "id": id, "runtimeInSeconds": 2.0 });
    let ran: Vec<Value> = ["split", "work_1", "work_2", "merge"].map(ran).into();
    let trace = json!({
        "name": "tiny",
        "schemaVersion": "1.5",
        "workflow": {
            "specification": { "tasks": [
                task("split", json!([]), json!(["work_1", "work_2"])),
                task("work_1", json!(["split"]), json!(["merge"])),
                task("work_2", json!(["split"]), json!(["merge"])),
                task("merge", json!(["work_1", "work_2"]), json!([])),
            ] },
            "execution": { "makespanInSeconds": 6, "executedAt": "2026-01-01T00:00:00Z",
                           "tasks": ran },
        },
    });
    std::fs::write(dir.join("trace.json"), trace.to_string()).expect("writable");
    let args = [
        "import",
        "wfcommons",
        "trace.json",
        "--speed",
        "100",
        "-o",
        "wf.json",
    ];
    run(dir, &args).good();
    let ended = run(dir, &["run", "wf.json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("4/4 items done"), "{ended:?}");
    let bad = run(dir, &["import", "wfcommons", "wf.json"]);
    assert_eq!(bad.code, Some(2), "{bad:?}");
}
