//! A process that is killed between clone and exec has not started: its attempt costs nothing and
//! is tried again, whatever killed it.
//!
//! A tracer holds the process before exec. It then still has the command line of its coordinator,
//! so an operator's `pkill -f`, or a killer of whole hosts, takes both.

use std::process::{Child, Command, Stdio};

use baton_model::outcome::{AttemptEnd, Synthetic};
use baton_testing::cluster::{Cluster, lines};
use baton_testing::processes::{lacks_root, parent, processes, send};
use baton_testing::until_some;
use rustix::process::Signal;
use serde_json::json;

use crate::api::Api;

const WORKER: &[&str] = &["--resources", "cpu=1"];

/// Holds every process that the coordinator launches before exec.
struct Tracer(Child);

impl Tracer {
    fn attach(coordinator: u32) -> Self {
        let strace = Command::new("strace")
            .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=execve"])
            .args(["-e", "inject=execve:delay_enter=600s"])
            .args(["-p", &coordinator.to_string()])
            .stdin(Stdio::null())
            .spawn()
            .expect("strace is missing: `make tools` installs it");
        let status = format!("/proc/{coordinator}/status");
        until_some("the tracer is attached", || {
            let status = std::fs::read_to_string(&status).ok()?;
            let tracer = status
                .lines()
                .find_map(|line| line.strip_prefix("TracerPid:"));
            (tracer?.trim() != "0").then_some(())
        });
        Self(strace)
    }
}

impl Drop for Tracer {
    /// What it traces goes on without it.
    fn drop(&mut self) {
        self.0.kill().expect("our child");
        self.0.wait().expect("our child");
    }
}

/// Launches an attempt, kills its process before exec, with its coordinator if asked, and checks
/// that the instance, which may neither fail nor be lost, is done by a later attempt.
fn kill_before_exec(and_coordinator: bool) {
    if lacks_root("trace the coordinator") {
        return;
    }
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("w", WORKER);
    cluster.healthy("w");
    let ran = cluster.path("ran");
    let coordinator = until_some("the coordinator is there", || cluster.coordinator_pid("w"));
    let tracer = Tracer::attach(coordinator);
    let file = json!({
        "task": "once",
        "run": "echo \"$BATON_ATTEMPT\" >> \"$RAN\"",
        "env": { "RAN": ran },
        "retry": { "attempts": 1, "losses": 0 },
    });
    let id = cluster.submit(file, 1).first;
    let held = until_some("its process is held before exec", || {
        let similar = processes(|line| line.contains("__coordinator"));
        let held = similar
            .into_iter()
            .find(|pid| parent(*pid) == Some(coordinator))?;
        // It has noted its number by then: without the note, and without its coordinator, whether it
        // began is not known.
        let call = std::fs::read_to_string(format!("/proc/{held}/syscall")).ok()?;
        let number: i64 = call.split_whitespace().next()?.parse().ok()?;
        (number == libc::SYS_execve).then_some(held)
    });
    if and_coordinator {
        send(coordinator, Signal::KILL);
    }
    send(held, Signal::KILL);
    drop(tracer);

    let instance = cluster.finish(id);
    let ends = crate::effects::recorded(&cluster, id);
    assert_eq!(instance.state.word(), "DONE", "{ends:?}");
    assert_eq!(lines(&ran).len(), 1, "its program ran once: {ends:?}");
    let (_, before) = ends.split_last().expect("it has ended");
    assert!(!before.is_empty(), "the first attempt was killed");
    for (attempt, end) in before {
        let free = matches!(
            end,
            AttemptEnd::Synthetic(Synthetic::NeverStarted | Synthetic::WasNotRunning)
        );
        assert!(free, "attempt {attempt}: {end}");
    }
}

#[test]
fn an_attempt_whose_process_is_killed_before_exec_costs_nothing() {
    kill_before_exec(false);
}

#[test]
fn an_attempt_that_is_killed_before_exec_together_with_its_coordinator_costs_nothing() {
    kill_before_exec(true);
}
