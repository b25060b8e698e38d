//! Readiness, health, timeouts.

use baton_model::task::{PlanChange, StopCause};
use baton_model::time::Millis;

use crate::support::{Scenario, Server, exited, reserved_port};

#[test]
fn what_waits_for_readiness_by_command_starts_when_the_command_succeeds() {
    let scenario = Scenario::new(
        "
task: ready
processes:
  - name: server
    run: 'until test -e served; do sleep 0.02; done'
    ready: { command: 'echo x >> tries; test -e open', interval: 20ms, timeout: 30s }
  - name: client
    run: 'touch served'
    after: [ { process: server, condition: healthy } ]
",
    );
    let runner = scenario.start();
    crate::support::until("tries that fail", || scenario.count_lines("tries") >= 3);
    assert!(scenario.task_log().runs("client").is_empty(), "it waits");
    scenario.touch("open");
    assert_eq!(runner.wait().code, 0);
    let log = scenario.task_log();
    let ready = log.when("the server is ready", |change| {
        matches!(change, PlanChange::RunReady { .. })
    });
    assert!(ready <= log.runs("client")[0].ordered.mono);
}

#[test]
fn readiness_by_tcp_comes_when_the_port_takes_connections() {
    let port = reserved_port();
    let scenario = Scenario::new(
        "
task: tcp
processes:
  - name: server
    run: 'until test -e served; do sleep 0.02; done'
    ready: { tcp: '{{ ports.main }}', interval: 20ms, timeout: 30s }
  - { name: client, run: 'touch served', after: [ { process: server, condition: healthy } ] }
",
    )
    .args(&["-P", &format!("main:{}", port.port)]);
    let runner = scenario.start();
    runner.wait_for_start("server", 0);
    assert!(
        scenario.task_log().runs("client").is_empty(),
        "no listener yet"
    );
    port.open();
    assert_eq!(runner.wait().code, 0);
    assert_eq!(scenario.task_log().ends("client"), [exited(0)]);
}

#[test]
fn readiness_by_http_needs_a_good_answer() {
    let server = Server::begin(503);
    let scenario = Scenario::new(
        "
task: http
processes:
  - name: server
    run: 'until test -e served; do sleep 0.02; done'
    ready: { http: { port: '{{ ports.main }}', path: /ready }, interval: 20ms, timeout: 30s }
  - { name: client, run: 'touch served', after: [ { process: server, condition: healthy } ] }
",
    )
    .args(&["-P", &format!("main:{}", server.port)]);
    let runner = scenario.start();
    runner.wait_for_start("server", 0);
    until_requests(&server, 3);
    assert!(
        scenario.task_log().runs("client").is_empty(),
        "503 is not ready"
    );
    server.answer(200);
    assert_eq!(runner.wait().code, 0);
}

fn until_requests(server: &Server, times: usize) {
    crate::support::until("requests", || server.requests() >= times);
}

#[test]
fn a_process_that_is_unwell_is_stopped_and_run_again() {
    let server = Server::begin(200);
    let scenario = Scenario::new(
        "
task: health
processes:
  - name: server
    run: 'touch up.$BATON_RUN; until test -e go; do sleep 0.02; done'
    health: { http: { port: '{{ ports.main }}', path: / }, delay: 0s, interval: 20ms, timeout: 30s, failures: 1 }
    max_failures: 2
    min_duration: 0s
",
    )
    .args(&["-P", &format!("main:{}", server.port)]);
    let runner = scenario.start();
    scenario.wait_for("up.0");
    until_requests(&server, 3);
    server.answer(500);
    runner.wait_for_end("server", 0);
    server.answer(200);
    scenario.wait_for("up.1");
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
    let log = scenario.task_log();
    let runs = log.runs("server");
    assert_eq!(runs.len(), 2);
    assert!(runs[0].failure, "whatever it said when it was stopped");
    log.when("the health check has failed", |change| {
        matches!(
            change,
            PlanChange::RunStopping {
                cause: StopCause::Unhealthy,
                ..
            }
        )
    });
}

#[test]
fn a_health_check_by_command_runs_as_the_process_does() {
    let scenario = Scenario::new(
        "
task: health
processes:
  - name: server
    env: { WORD: sesame }
    run: 'touch up.$BATON_RUN; until test -e go; do sleep 0.02; done'
    health: { command: 'echo $WORD $BATON_RUN >> seen; test ! -e sick', delay: 0s, interval: 20ms, timeout: 30s }
    max_failures: 2
    min_duration: 0s
",
    );
    let runner = scenario.start();
    crate::support::until("a check", || scenario.count_lines("seen") > 0);
    scenario.touch("sick");
    runner.wait_for_end("server", 0);
    std::fs::remove_file(scenario.sandbox("sick")).expect("there");
    scenario.touch("go");
    // The second run may have failed its health check as well, just before.
    let ended = runner.wait();
    assert!(scenario.text("seen").starts_with("sesame 0"));
    assert_eq!(
        ended.code,
        i32::from(scenario.task_log().progress("server").failures == 2)
    );
}

#[test]
fn a_run_that_takes_too_long_is_stopped_and_has_failed() {
    let scenario = Scenario::new(
        "
task: slow
processes:
  - name: slow
    run: 'test $BATON_RUN = 1 || sleep 1000'
    timeout: 200ms
    max_failures: 2
    min_duration: 0s
",
    );
    let ended = scenario.run();
    let log = scenario.task_log();
    let first = log.runs("slow")[0];
    assert!(first.failure);
    let took = first
        .ended
        .expect("ended")
        .mono
        .since(first.started.expect("started").mono);
    assert!(took >= Millis(200), "{took:?}");
    log.when("it ran out of time", |change| {
        matches!(
            change,
            PlanChange::RunStopping {
                cause: StopCause::TimedOut,
                ..
            }
        )
    });
    // On a machine so slow that even `test` takes longer, it has failed twice.
    assert_eq!(ended.code, i32::from(log.progress("slow").failures == 2));
}
