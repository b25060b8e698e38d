//! What a worker tells of the processes of its attempts.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use baton_model::message::{AttemptProcesses, ProcessAnswer};
use baton_model::outcome::Outcome;
use baton_model::state::{AttemptState, ProcessState};
use baton_testing::command::end;
use baton_testing::until;
use rustix::process::Signal;

use crate::rig::{Rig, long_timeouts, script, touch};
use crate::worker::task;

fn found(answer: ProcessAnswer) -> AttemptProcesses {
    match answer {
        ProcessAnswer::Processes(found) => found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_command_is_one_process_with_its_pid_and_its_usage() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    rig.submit(
        1,
        1,
        script("echo $$ > begun; while [ ! -e go ]; do :; done"),
    );
    let begun = rig.work(1).join("begun");
    let read = || fs::read_to_string(&begun).unwrap_or_default();
    until("it runs", || read().ends_with('\n'));
    let mut last = None;
    until("its usage was sampled twice", || {
        let it = found(rig.attempt_processes(1));
        let sampled = it.processes[0].usage.len() > 1;
        last = Some(it);
        sampled
    });
    let it = last.expect("an answer");
    assert_eq!((it.state, it.omitted), (AttemptState::Active, 0));
    let [process] = &it.processes[..] else {
        panic!("{it:?}");
    };
    assert_eq!(process.name, "test");
    assert_eq!((process.state, process.runs), (ProcessState::Running, 1));
    assert_eq!(process.pid, read().trim().parse().ok());
    assert!(process.started.is_some());
    let [.., before, last] = process.usage[..] else {
        panic!("{process:?}");
    };
    assert!(
        last.at > before.at && last.cpu_ms > before.cpu_ms,
        "{process:?}"
    );
    assert!(last.memory > 0 && last.processes == 1, "{process:?}");
    touch(&rig.work(1).join("go"));
    assert_eq!(rig.outcome(1), Outcome::Exited(0));
    until("it is forgotten", || {
        rig.attempt_processes(1) == ProcessAnswer::NotFound
    });
}

/// An observer of this host, which ends with its test.
struct Observer {
    child: Child,
    host: String,
    key: String,
}

impl Observer {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.args(["local", "observe", "--port", "0"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let (_, url) = line.trim_end().split_once("http://").expect("an address");
        let (host, key) = url.split_once("/?key=").expect("a key");
        let (host, key) = (host.to_owned(), key.to_owned());
        Self { child, host, key }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.host).expect("it listens");
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
             accept: application/json\r\nconnection: close\r\n\r\n",
            self.host, self.key
        );
        stream.write_all(request.as_bytes()).expect("written");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        let (_, body) = text.split_once("\r\n\r\n").expect("a head");
        body.to_owned()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        end(&mut self.child, Signal::INT);
    }
}

#[test]
fn a_single_command_is_in_the_views_of_its_host() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    let text = "echo $$ | tee begun; while [ ! -e go ]; do sleep 0.02; done";
    rig.submit(1, 1, script(text));
    let begun = rig.work(1).join("begun");
    let pid = || fs::read_to_string(&begun).unwrap_or_default();
    until("it runs", || pid().ends_with('\n'));
    let state = rig.state().display().to_string();
    let (_, said) = rig.local(&["status", "--all", "--json"]);
    let all: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let mut all = all.as_array().expect("a list").iter();
    let it = all.find(|it| it["root"] == *state).expect("listed");
    assert_eq!(
        (&it["id"], &it["state"]),
        (&"i1.1.e1".into(), &"ACTIVE".into())
    );
    assert_eq!(it["orphaned"], false);
    let process = &it["processes"][0];
    assert_eq!(process["state"], "RUNNING");
    assert_eq!(process["pid"].to_string(), pid().trim());

    let observer = Observer::start();
    let list: serde_json::Value = serde_json::from_str(&observer.get("/?q=i1.1.e1")).expect("JSON");
    let mut listed = list["tasks"].as_array().expect("a list").iter();
    let task = listed
        .find(|it| it["task"]["root"] == *state)
        .expect("listed");
    let href = task["href"].as_str().expect("an address");
    let log = observer.get(&format!("{href}/processes/test/0/stdout"));
    assert!(log.contains(pid().trim()), "{log}");
    touch(&rig.work(1).join("go"));
    assert_eq!(rig.outcome(1), Outcome::Exited(0));
}

#[test]
fn the_processes_of_a_task_are_read_from_the_log_of_its_runner() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    rig.submit(
        1,
        1,
        task(&[
            "exit 0",
            "touch begun; while [ ! -e go ]; do sleep 0.02; done; exit 7",
        ]),
    );
    until("it runs", || rig.work(1).join("begun").exists());
    let mut last = None;
    until("the first has ended, and the second was sampled", || {
        let it = found(rig.attempt_processes(1));
        let is =
            it.processes[0].state == ProcessState::Success && !it.processes[1].usage.is_empty();
        last = Some(it);
        is
    });
    let it = last.expect("an answer");
    assert_eq!(it.state, AttemptState::Active);
    let [first, second] = &it.processes[..] else {
        panic!("{it:?}");
    };
    assert_eq!((&*first.name, first.successes), ("p0", 1));
    assert_eq!(
        (first.pid, first.last_end.as_deref()),
        (None, Some("exit 0"))
    );
    assert_eq!((&*second.name, second.state), ("p1", ProcessState::Running));
    assert!(rig.attempts().contains(&second.pid.expect("it runs")));
    touch(&rig.work(1).join("go"));
    rig.outcome(1);
    let it = found(rig.attempt_processes(1));
    assert_eq!(it.state, AttemptState::Failed, "also when it has ended");
    assert_eq!(it.processes[1].failures, 1);
}

#[test]
fn a_log_that_the_user_of_an_attempt_has_replaced_harms_no_one() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    rig.submit(
        1,
        1,
        task(&["touch begun; while [ ! -e go ]; do sleep 0.02; done"]),
    );
    rig.submit(2, 1, script("while [ ! -e go ]; do sleep 0.02; done"));
    until("it runs", || rig.work(1).join("begun").exists());
    let log = rig.work(1).join(".baton/checkpoints/i1.1.e1/runner");
    let moved = rig.path("moved");
    fs::rename(&log, &moved).expect("moved");
    symlink("/etc/passwd", &log).expect("linked");
    assert_eq!(rig.attempt_processes(1), ProcessAnswer::NotFound);
    fs::remove_file(&log).expect("removed");
    fs::write(&log, "nonsense").expect("written");
    let ProcessAnswer::Unavailable(reason) = rig.attempt_processes(1) else {
        panic!("it was read");
    };
    assert!(reason.contains("is not a"), "{reason}");
    assert_eq!(
        found(rig.attempt_processes(2)).processes.len(),
        1,
        "others are"
    );
    fs::rename(&moved, &log).expect("moved");
    touch(&rig.work(1).join("go"));
    touch(&rig.work(2).join("go"));
    assert_eq!(rig.outcome(1), Outcome::Exited(0));
    assert_eq!(rig.outcome(2), Outcome::Exited(0));
}
