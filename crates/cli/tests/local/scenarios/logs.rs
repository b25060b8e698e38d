//! Where output goes.

use std::fs;

use crate::support::{Scenario, exited};

/// The files of one stream with their sizes, the newest first.
fn files(scenario: &Scenario, process: &str) -> Vec<(String, u64)> {
    let dir = scenario.sandbox(&format!(".logs/{process}/0"));
    let entries = fs::read_dir(dir).expect("there are logs");
    let mut files: Vec<(String, u64)> = entries
        .map(|entry| entry.expect("readable"))
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("stdout"))
        .map(|entry| {
            let size = entry.metadata().expect("readable").len();
            (entry.file_name().into_string().expect("UTF-8"), size)
        })
        .collect();
    files.sort();
    files
}

#[test]
fn rotated_logs_keep_to_their_size_and_number_at_every_boundary() {
    let log = "log: { mode: rotate, size: 1KiB, backups: 2 }";
    let scenario = Scenario::new(&format!(
        "
task: rotate
processes:
  - {{ name: under, run: 'head -c 1023 /dev/zero', {log} }}
  - {{ name: full, run: 'head -c 1024 /dev/zero', {log} }}
  - {{ name: over, run: 'head -c 1025 /dev/zero', {log} }}
  - {{ name: most, run: 'head -c 3072 /dev/zero', {log} }}
  - {{ name: more, run: 'head -c 5000 /dev/zero', {log} }}
  - {{ name: text, run: 'seq 1 1000', {log} }}
"
    ));
    assert_eq!(scenario.run().code, 0);
    let sizes = |process: &str| -> Vec<u64> {
        files(&scenario, process)
            .into_iter()
            .map(|(_, size)| size)
            .collect()
    };
    assert_eq!(sizes("under"), [1023]);
    assert_eq!(sizes("full"), [1024]);
    assert_eq!(sizes("over"), [1, 1024]);
    assert_eq!(sizes("most"), [1024, 1024, 1024]);
    assert_eq!(
        sizes("more"),
        [5000 - 4 * 1024, 1024, 1024],
        "the oldest are gone"
    );
    let all: String = (1..=1000).map(|number| format!("{number}\n")).collect();
    let mut kept = String::new();
    for name in ["stdout.2", "stdout.1", "stdout"] {
        let path = scenario.sandbox(&format!(".logs/text/0/{name}"));
        kept += &fs::read_to_string(path).expect("there");
    }
    assert!(
        kept.len() > 2048 && all.ends_with(&kept),
        "the end of it, without a gap"
    );
}

#[test]
fn each_destination_keeps_and_shows_what_it_says() {
    let run = "run: 'echo out of $BATON_PROCESS; echo err of $BATON_PROCESS >&2'";
    let scenario = Scenario::new(&format!(
        "
task: places
max_concurrency: 1
processes:
  - {{ name: unsaid, {run} }}
  - {{ name: file, {run}, log: {{ destination: file }} }}
  - {{ name: console, {run}, log: {{ destination: console }} }}
  - {{ name: both, {run}, log: {{ destination: both }} }}
  - {{ name: rotating, {run}, log: {{ destination: both, mode: rotate, size: 1KiB, backups: 1 }} }}
  - {{ name: none, {run}, log: {{ destination: none }} }}
"
    ));
    let ended = scenario.run();
    assert_eq!(ended.code, 0);
    let shown = ended.output();
    for (name, is_kept, is_shown) in [
        ("unsaid", true, false),
        ("file", true, false),
        ("console", false, true),
        ("both", true, true),
        ("rotating", true, true),
        ("none", false, false),
    ] {
        for (stream, word) in [("stdout", "out"), ("stderr", "err")] {
            let text = format!("{word} of {name}");
            let path = format!(".logs/{name}/0/{stream}");
            assert_eq!(scenario.has(&path), is_kept, "{path}");
            if is_kept {
                assert_eq!(scenario.text(&path), text);
            }
            let line = (name.to_owned(), stream.to_owned(), text);
            assert_eq!(shown.contains(&line), is_shown, "{line:?} in {shown:?}");
        }
    }
}

#[test]
fn each_run_has_logs_of_its_own() {
    let scenario = Scenario::new(
        "
task: runs
processes:
  - { name: p, run: 'echo run $BATON_RUN; test $BATON_RUN = 2', max_failures: 3, min_duration: 0s }
",
    );
    assert_eq!(scenario.run().code, 0);
    for run in 0..3 {
        assert_eq!(scenario.output("p", run, "stdout"), format!("run {run}"));
    }
}

#[test]
fn what_is_shown_is_shown_while_the_process_runs() {
    let scenario = Scenario::new(
        "
task: live
processes:
  - { name: p, run: 'echo hello; until test -e go; do sleep 0.02; done', log: { destination: console } }
",
    );
    let runner = scenario.start();
    runner.wait_for("the line", |line| {
        line["kind"] == "output" && line["text"] == "hello"
    });
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
    assert_eq!(scenario.task_log().ends("p"), [exited(0)]);
}
