//! The order of processes, and the effect of failures.

use baton_model::state::ProcessState;
use baton_model::task::Disposition;

use crate::support::{Scenario, exited};

#[test]
fn a_diamond_runs_tier_by_tier_and_its_header_and_times_are_kept() {
    let scenario = Scenario::new(
        "
task: diamond
order: [[top, left, bottom], [top, right, bottom]]
processes:
  - { name: bottom, run: 'cat left right > bottom' }
  - { name: left, run: 'sleep 0.02; test -e top && echo l{{ ports.http }} > left' }
  - { name: right, run: 'sleep 0.02; test -e top && echo r{{ ports.admin }} > right' }
  - { name: top, run: 'sleep 0.02; touch top' }
",
    )
    .args(&["-P", "http:8080", "-P", "admin:8081"]);
    assert_eq!(scenario.run().code, 0);
    assert_eq!(scenario.text("bottom"), "l8080\nr8081");
    let log = scenario.task_log();
    for (one, other) in [
        ("top", "left"),
        ("top", "right"),
        ("left", "bottom"),
        ("right", "bottom"),
    ] {
        assert!(log.ended_before(one, other), "{one} before {other}");
    }
    for name in ["top", "left", "right"] {
        let [run] = log.runs(name)[..] else {
            panic!("{name} runs once");
        };
        let (started, ended) = (run.started.expect("started"), run.ended.expect("ended"));
        assert!(
            run.ordered.mono <= started.mono && started.mono < ended.mono,
            "{run:?}"
        );
        assert_eq!(run.end, Some(exited(0)));
    }
    let header = log.header();
    assert_eq!(
        (header.task_id.as_str(), header.spec.name.as_str()),
        ("t-1", "diamond")
    );
    assert_eq!(
        header.sandbox,
        scenario
            .sandbox("")
            .to_str()
            .expect("UTF-8")
            .trim_end_matches('/')
    );
    let ports: Vec<_> = header
        .spec
        .ports
        .iter()
        .map(|(name, port)| (name.as_str(), *port))
        .collect();
    assert_eq!(ports, [("admin", 8081), ("http", 8080)]);
    assert_eq!(header.uid, rustix::process::geteuid().as_raw());
    assert!(!header.host.is_empty() && !header.user.is_empty());
}

#[test]
fn max_concurrency_of_one_runs_one_after_the_other() {
    let work = "run: 'mkdir busy && sleep 0.02 && rmdir busy'";
    let scenario = Scenario::new(&format!(
        "
task: queue
max_concurrency: 1
processes:
  - {{ name: a, {work} }}
  - {{ name: b, {work} }}
  - {{ name: c, {work} }}
  - {{ name: d, {work} }}
"
    ));
    assert_eq!(scenario.run().code, 0, "no run found the lock taken");
    let log = scenario.task_log();
    for (one, other) in [("a", "b"), ("b", "c"), ("c", "d")] {
        assert!(log.ended_before(one, other), "in the order of definition");
    }
}

#[test]
fn what_one_process_writes_into_the_profile_later_ones_have_in_their_environment() {
    let scenario = Scenario::new(
        "
task: profile
order: [[write, read]]
processes:
  - { name: write, run: 'echo \"before=$COLOUR\" > seen; echo \"export COLOUR=green\" > .baton_profile' }
  - { name: read, run: 'echo \"after=$COLOUR\" >> seen' }
",
    );
    assert_eq!(scenario.run().code, 0);
    assert_eq!(scenario.text("seen"), "before=\nafter=green");
}

#[test]
fn a_process_that_succeeds_with_its_third_try_has_succeeded() {
    let scenario = Scenario::new(
        "
task: thrice
processes:
  - name: try
    run: 'echo x >> tries; test $(wc -l < tries) -ge 3'
    max_failures: 3
    min_duration: 0s
",
    );
    assert_eq!(scenario.run().code, 0);
    let log = scenario.task_log();
    assert_eq!(log.ends("try"), [exited(1), exited(1), exited(0)]);
    let progress = log.progress("try");
    assert_eq!((progress.failures, progress.successes), (2, 1));
}

#[test]
fn a_process_that_needs_one_try_too_many_has_failed_and_with_it_the_task() {
    let scenario = Scenario::new(
        "
task: twice
processes:
  - name: try
    run: 'echo x >> tries; test $(wc -l < tries) -ge 3'
    max_failures: 2
    min_duration: 0s
",
    );
    assert_eq!(scenario.run().code, 1);
    assert_eq!(
        scenario.task_log().progress("try").disposition,
        Disposition::Failed
    );
    assert_eq!(scenario.count_lines("tries"), 2);
}

#[test]
fn what_waits_for_a_failed_process_never_starts_and_the_task_fails_whatever_it_tolerates() {
    let scenario = Scenario::new(
        "
task: blocked
max_failures: 0
order: [[bad, next, after]]
processes:
  - { name: bad, run: 'exit 3' }
  - { name: next, run: 'touch next' }
  - { name: after, run: 'touch after' }
  - { name: beside, run: 'touch beside' }
",
    );
    assert_eq!(scenario.run().code, 1);
    let log = scenario.task_log();
    assert_eq!(log.ends("bad"), [exited(3)]);
    for name in ["next", "after"] {
        let progress = log.progress(name);
        assert_eq!(
            (progress.runs, progress.disposition),
            (0, Disposition::Blocked),
            "{name}"
        );
        assert_eq!(progress.state, ProcessState::Waiting);
        assert!(!scenario.has(name));
    }
    assert!(scenario.has("beside"));
}

#[test]
fn a_task_without_a_limit_succeeds_though_processes_of_it_fail() {
    let scenario = Scenario::new(
        "
task: tolerant
max_failures: 0
processes:
  - { name: bad, run: 'exit 1' }
  - { name: worse, run: 'exit 2' }
  - { name: good, run: 'true' }
",
    );
    assert_eq!(scenario.run().code, 0);
    let log = scenario.task_log();
    assert_eq!(log.progress("bad").disposition, Disposition::Failed);
    assert_eq!(log.progress("worse").disposition, Disposition::Failed);
    assert_eq!(log.progress("good").disposition, Disposition::Finished);
}

#[test]
fn a_task_fails_with_as_many_failed_processes_as_it_says() {
    let scenario = Scenario::new(
        "
task: two
max_failures: 2
processes:
  - { name: bad, run: 'exit 1' }
  - { name: worse, run: 'exit 1', after: [ { process: bad, condition: exit } ] }
  - { name: long, run: 'sleep 1000' }
",
    );
    assert_eq!(scenario.run().code, 1, "and `long` does not hold it up");
    assert_eq!(
        scenario.task_log().progress("long").state,
        ProcessState::Killed
    );
}

#[test]
fn a_process_may_wait_for_anothers_end_whichever_way_it_comes() {
    let scenario = Scenario::new(
        "
task: exit
max_failures: 0
processes:
  - { name: bad, run: 'sleep 0.02; exit 9' }
  - { name: next, run: 'touch next', after: [ { process: bad, condition: exit } ] }
",
    );
    assert_eq!(scenario.run().code, 0);
    assert!(scenario.has("next") && scenario.task_log().ended_before("bad", "next"));
}

#[test]
fn a_process_may_wait_for_anothers_start_while_that_runs() {
    let scenario = Scenario::new(
        "
task: started
processes:
  - { name: server, run: 'until test -e asked; do sleep 0.02; done' }
  - { name: client, run: 'touch asked', after: [ { process: server, condition: started } ] }
",
    );
    assert_eq!(scenario.run().code, 0, "neither waited for the other's end");
    let log = scenario.task_log();
    let started = log.runs("server")[0].started.expect("started");
    assert!(started.mono <= log.runs("client")[0].ordered.mono);
}

#[test]
fn codes_that_are_not_worth_another_try_end_a_process_for_good() {
    let scenario = Scenario::new(
        "
task: codes
processes:
  - name: picky
    run: 'test $BATON_RUN = 0 && exit 75; exit 3'
    retryable: [75]
    max_failures: 10
    min_duration: 0s
",
    );
    assert_eq!(scenario.run().code, 1);
    let log = scenario.task_log();
    assert_eq!(log.ends("picky"), [exited(75), exited(3)]);
    assert_eq!(log.progress("picky").disposition, Disposition::Failed);
}
