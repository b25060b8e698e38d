//! `baton worker` against a real scheduler machine: launches and reports.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use baton_model::ids::InstanceId;
use baton_model::message::{LogAnswer, LogChunk, LogStream};
use baton_model::outcome::{AttemptEnd, KillCause, Outcome, Synthetic};
use baton_model::spec::{Array, InstanceSpec, Uri, Work};
use baton_model::task::{CommandLine, ProcessSpec, Resources, TaskSpec};
use baton_model::time::Millis;
use baton_testing::processes::{lacks_root, send};
use baton_testing::{until, until_some};
use rustix::process::Signal;

use crate::rig::{GATED, Rig, command, long_timeouts, script, touch};

#[test]
fn work_runs_in_its_directory_with_its_environment_and_its_end_is_told() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    let mut spec = script("pwd; env > \"$BATON_OUTPUT\"; echo wrong >&2");
    spec.env.insert("COLOUR".to_owned(), "green".to_owned());
    spec.array = Some(Array {
        first: InstanceId(1),
        from: 40,
    });
    rig.submit(1, 2, spec);
    assert_eq!(rig.outcome(1), Outcome::Exited(0));
    assert_eq!(rig.outcome(2), Outcome::Exited(0));
    let ran = rig.end(2).1.expect("it was measured");
    assert!(ran.ended >= ran.started && ran.memory_peak > 0, "{ran:?}");
    let env = fs::read_to_string(rig.work(2).join("baton-output")).expect("written");
    for wanted in [
        "COLOUR=green",
        "BATON_INSTANCE=i2",
        "BATON_ATTEMPT=1",
        "BATON_TOKEN_EPOCH=1",
        "BATON_ARRAY_INDEX=41",
        "BATON_OWNER=ann",
        "BATON_NAME=test",
    ] {
        assert!(env.lines().any(|line| line == wanted), "{wanted}:\n{env}");
    }
    let pwd = format!("{}\n", rig.work(2).display());
    let out = rig.logs(2, LogStream::Stdout, None);
    assert_eq!(out, LogAnswer::Chunk(LogChunk::whole(pwd)));
    let err = rig.logs(2, LogStream::Stderr, None);
    assert_eq!(err, LogAnswer::Chunk(LogChunk::whole("wrong\n")));
    assert_eq!(rig.logs(99, LogStream::Stdout, None), LogAnswer::NotFound);
}

#[test]
fn failures_are_told_as_they_were() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    rig.submit(1, 1, script("exit 7"));
    rig.submit(2, 1, script("kill -USR1 $$"));
    rig.submit(3, 1, command(&["/no/such/program"]));
    rig.submit(
        4,
        1,
        InstanceSpec {
            user: Some("no-such-user".to_owned()),
            ..command(&["true"])
        },
    );
    assert_eq!(rig.outcome(1), Outcome::Exited(7));
    assert_eq!(rig.outcome(2), Outcome::Signaled(10));
    assert_eq!(rig.outcome(3), Outcome::LaunchFailed);
    assert_eq!(rig.outcome(4), Outcome::LaunchFailed);
    for (instance, word) in [(3, "/no/such/program"), (4, "no-such-user")] {
        let LogAnswer::Chunk(text) = rig.logs(instance, LogStream::Stderr, None) else {
            panic!("no reason for {instance}");
        };
        let text = String::from_utf8_lossy(&text.bytes).into_owned();
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn what_an_attempt_puts_out_is_told_with_its_end() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    rig.submit(1, 1, script("test ! -e \"$BATON_OUTPUT\""));
    rig.submit(
        2,
        1,
        script("echo rows=12 > $BATON_OUTPUT; echo name=a b >> $BATON_OUTPUT"),
    );
    rig.submit(
        3,
        1,
        script("echo '{\"b\": [1], \"a\": null}' > $BATON_OUTPUT"),
    );
    rig.submit(4, 1, script("echo rows=12 > $BATON_OUTPUT; exit 3"));
    rig.submit(
        5,
        1,
        task(&["echo a=1 >> $BATON_OUTPUT", "echo b=2 >> $BATON_OUTPUT"]),
    );
    assert_eq!(rig.outcome(1), Outcome::Exited(0));
    assert_eq!(rig.outputs(1), None);
    assert_eq!(
        rig.outputs(2).as_deref(),
        Some(r#"{"name":"a b","rows":12}"#)
    );
    assert_eq!(rig.outputs(3).as_deref(), Some(r#"{"a":null,"b":[1]}"#));
    assert_eq!(rig.outcome(4), Outcome::Exited(3));
    assert_eq!(rig.outputs(4), None);
    assert_eq!(rig.outputs(5).as_deref(), Some(r#"{"a":1,"b":2}"#));
}

#[test]
fn an_attempt_whose_outputs_cannot_be_read_has_failed_and_its_log_says_why() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    let bad = [
        ("head -c 70000 /dev/zero > $BATON_OUTPUT", "longer"),
        ("echo what > $BATON_OUTPUT", "KEY=VALUE"),
        ("echo before >&2; ln -s /etc/hostname $BATON_OUTPUT", "link"),
        ("mkfifo $BATON_OUTPUT", "regular file"),
    ];
    for (instance, (text, reason)) in (1..).step_by(2).zip(bad) {
        rig.submit(instance, 1, script(text));
        assert_eq!(rig.outcome(instance), Outcome::BadOutput, "{text}");
        assert_eq!(rig.outputs(instance), None);
        // An empty file would be another attempt's log by now.
        rig.submit(instance + 1, 1, script("echo other >&2"));
        assert_eq!(rig.outcome(instance + 1), Outcome::Exited(0));
        let LogAnswer::Chunk(log) = rig.logs(instance, LogStream::Stderr, None) else {
            panic!("no reason for {text}");
        };
        let log = String::from_utf8_lossy(&log.bytes).into_owned();
        assert!(
            log.contains("$BATON_OUTPUT") && log.contains(reason),
            "{log}"
        );
        let others = rig.logs(instance + 1, LogStream::Stderr, None);
        assert_eq!(others, LogAnswer::Chunk(LogChunk::whole("other\n")));
    }
}

#[test]
fn what_is_cancelled_is_killed_with_all_that_it_has_started() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    let daemon = "setsid sh -c 'trap \"\" TERM; touch daemon; sleep 1000' & ";
    rig.submit(1, 1, script(&format!("{daemon}{GATED}")));
    until("it runs", || {
        rig.work(1).join("begun").exists() && rig.work(1).join("daemon").exists()
    });
    rig.cancel(1);
    assert_eq!(rig.outcome(1), Outcome::Killed(KillCause::Requested));
    assert_eq!(rig.attempts(), Vec::<u32>::new());
}

#[test]
fn what_a_person_kills_is_tried_again_and_has_not_failed() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    rig.submit(
        1,
        1,
        script("[ $BATON_ATTEMPT -gt 1 ] || { echo $$ > pid; exec sleep 1000; }"),
    );
    let pid = until_some("it runs", || {
        let text = fs::read_to_string(rig.work(1).join("pid")).ok()?;
        text.trim().parse().ok()
    });
    send(pid, Signal::KILL);
    until("it is done", || rig.ends(1).len() == 2);
    let ends: Vec<AttemptEnd> = rig.ends(1).into_iter().map(|(end, _)| end).collect();
    let outcomes = [Outcome::Signaled(9), Outcome::Exited(0)];
    assert_eq!(ends, outcomes.map(AttemptEnd::Real));
}

#[test]
fn what_runs_for_too_long_is_stopped() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    let spec = InstanceSpec {
        timeout: Some(Millis(300)),
        ..script("exec sleep 1000")
    };
    rig.submit(1, 1, spec);
    assert_eq!(rig.outcome(1), Outcome::Killed(KillCause::TimedOut));
}

#[test]
fn what_uses_too_much_memory_is_killed() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    // It buffers input until the end of the file, or of a line.
    let text = "(head -c 31457280 /dev/zero; exec sleep 1000) | tail; true";
    let mut spec = script(text);
    spec.request.resources.memory_max = 20 << 20;
    rig.submit(1, 1, spec);
    let mut small = script("sleep 1; exit 3");
    small.request.resources.memory_max = 500 << 20;
    rig.submit(2, 1, small);
    assert_eq!(rig.outcome(1), Outcome::Killed(KillCause::OutOfMemory));
    assert_eq!(rig.outcome(2), Outcome::Exited(3));
}

#[test]
fn work_runs_as_the_user_that_it_names_and_can_use_only_what_is_theirs() {
    if lacks_root("run processes as another user") {
        return;
    }
    let rig = Rig::new(long_timeouts());
    // Theirs is below, so they must be able to pass.
    let passable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(rig.path(""), passable).expect("ours");
    let secret = rig.path("secret");
    fs::write(&secret, "").expect("written");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("ours");
    let _worker = rig.worker();
    let text = format!(
        "id -un; id -G; echo $USER; touch mine && stat -c %U mine; cat {}",
        secret.display()
    );
    let spec = InstanceSpec {
        user: Some("nobody".to_owned()),
        ..script(&text)
    };
    rig.submit(1, 1, spec);
    assert_eq!(rig.outcome(1), Outcome::Exited(1), "the secret stays one");
    let LogAnswer::Chunk(out) = rig.logs(1, LogStream::Stdout, None) else {
        panic!("it has printed something");
    };
    let out = String::from_utf8_lossy(&out.bytes).into_owned();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}");
    assert_eq!(
        (lines[0], lines[2], lines[3]),
        ("nobody", "nobody", "nobody")
    );
    assert!(!lines[1].split(' ').any(|group| group == "0"), "{out}");
}

#[test]
fn other_users_can_read_nothing_of_a_worker_and_reach_only_their_own() {
    if lacks_root("look as another user") {
        return;
    }
    let rig = Rig::new(long_timeouts());
    let passable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(rig.path(""), passable).expect("ours");
    let _worker = rig.worker();
    rig.submit(1, 1, script("echo secret; echo k=v > $BATON_OUTPUT"));
    let theirs = InstanceSpec {
        user: Some("nobody".to_owned()),
        ..script("echo mine > mine; cat mine")
    };
    rig.submit(2, 1, theirs);
    assert_eq!(rig.outcome(1), Outcome::Exited(0));
    assert_eq!(rig.outcome(2), Outcome::Exited(0), "their own they reach");

    let state = rig.state();
    let found = |by: &str| {
        let script = format!("{by} find \"$0\" -readable ! -type l");
        let mut find = std::process::Command::new("sh");
        let out = find.args(["-c", &script]).arg(&state).output();
        String::from_utf8(out.expect("find runs").stdout).expect("paths")
    };
    assert!(found("").lines().count() > 5, "there is something to see");
    let other = found("setpriv --reuid daemon --regid daemon --clear-groups");
    assert_eq!(other, "", "readable by another user");
}

#[test]
fn what_was_placed_ahead_and_does_not_start_is_given_back_and_runs_once() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.start(&["--resources", "cpu=1,memory=1GiB"]);
    // These teach the scheduler that such instances are short, so it places ahead.
    rig.submit(1, 50, script("true"));
    until("all are over", || {
        (1..=50).all(|id| !rig.ends(id).is_empty())
    });
    rig.submit(51, 1, script(GATED));
    until("the core is taken", || rig.work(51).join("begun").exists());
    let ran = rig.path("ran");
    rig.submit(52, 1, script(&format!("echo x >> {}", ran.display())));
    until("it is given back", || !rig.ends(52).is_empty());
    let never = AttemptEnd::Synthetic(Synthetic::NeverStarted);
    assert_eq!(rig.end(52).0, never);
    assert!(!ran.exists());
    touch(&rig.work(51).join("go"));
    assert_eq!(rig.outcome(51), Outcome::Exited(7));
    let success = AttemptEnd::Real(Outcome::Exited(0));
    until("it is done", || {
        rig.ends(52).last().is_some_and(|(end, _)| *end == success)
    });
    let ran = fs::read_to_string(ran).expect("written");
    assert_eq!(ran, "x\n", "once");
}

#[test]
fn many_short_ones_are_queued_ahead_and_all_done_once() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    let count = rig.path("count");
    let text = format!("echo $BATON_INSTANCE >> {}", count.display());
    rig.submit(1, 200, script(&text));
    until("all are over", || {
        (1..=200).all(|id| !rig.ends(id).is_empty())
    });
    let done = |id| rig.outcome(id) == Outcome::Exited(0);
    assert!((1..=200).all(done));
    let lines = fs::read_to_string(count).expect("written");
    assert_eq!(lines.lines().count(), 200, "each ran once");
}

#[test]
fn a_task_of_two_processes_is_run_by_a_runner_of_its_own() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    rig.submit(1, 1, task(&["echo $BATON_INSTANCE", "cat ../none; exit 0"]));
    assert_eq!(rig.outcome(1), Outcome::Exited(0));
    let first = LogAnswer::Chunk(LogChunk::whole("i1\n"));
    assert_eq!(rig.logs(1, LogStream::Stdout, None), first);
    assert_eq!(rig.logs(1, LogStream::Stdout, Some("p0")), first);
    let second = rig.logs(1, LogStream::Stderr, Some("p1"));
    assert!(matches!(second, LogAnswer::Chunk(text) if !text.bytes.is_empty()));
    assert_eq!(
        rig.logs(1, LogStream::Stdout, Some("p2")),
        LogAnswer::NotFound
    );
    rig.submit(2, 1, task(&["true", "exit 9"]));
    assert_eq!(rig.outcome(2), Outcome::Exited(1));
}

#[test]
fn a_task_whose_runner_dies_goes_on() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    rig.submit(
        1,
        1,
        task(&["echo x >> begun; while [ ! -e go ]; do sleep 0.02; done"]),
    );
    until("it runs", || rig.work(1).join("begun").exists());
    let runner = rig.attempts().into_iter().find(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("\0__attempt\0")
    });
    send(runner.expect("a runner"), Signal::KILL);
    until("another one has said so", || {
        rig.agent_log().contains("starting it again")
    });
    touch(&rig.work(1).join("go"));
    assert_eq!(rig.outcome(1), Outcome::Exited(0), "it was left alone");
    let begun = fs::read_to_string(rig.work(1).join("begun")).expect("written");
    assert_eq!(begun, "x\n", "and not begun again");
    assert_eq!(rig.ends(1).len(), 1, "one attempt");
    assert_eq!(rig.holders(1).len(), 1, "one lease");
}

#[test]
fn a_task_that_is_cancelled_says_so() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    rig.submit(1, 1, task(&["touch begun; exec sleep 1000"]));
    until("it runs", || rig.work(1).join("begun").exists());
    rig.cancel(1);
    assert_eq!(rig.outcome(1), Outcome::Killed(KillCause::Requested));
    assert_eq!(rig.attempts(), Vec::<u32>::new());
}

#[test]
fn files_are_fetched_before_the_work_begins() {
    let rig = Rig::new(long_timeouts());
    let _worker = rig.worker();
    let source = rig.path("source file");
    fs::write(&source, b"#!/bin/sh\necho from a file\n").expect("written");
    let port = serve(b"from a server\n");
    let file = uri(&format!("file://{}", source.display()), "tool", None);
    let page = |sha256: &str| {
        let from = format!("http://127.0.0.1:{port}/x");
        uri(&from, "page", Some(sha256))
    };
    let right = "5991bb3d2d79290da20936e638ef75b27d7d2f897aa93f6bc17f95553329c2cc";
    let spec = InstanceSpec {
        uris: vec![
            Uri {
                executable: true,
                ..file.clone()
            },
            page(right),
        ],
        ..script("./tool; cat page")
    };
    rig.submit(1, 1, spec);
    assert_eq!(rig.outcome(1), Outcome::Exited(0));
    let stdout = LogAnswer::Chunk(LogChunk::whole("from a file\nfrom a server\n"));
    assert_eq!(rig.logs(1, LogStream::Stdout, None), stdout);
    let mode = fs::metadata(rig.work(1).join("page")).expect("there");
    assert_eq!(mode.permissions().mode() & 0o111, 0, "not executable");

    for (id, bad, word) in [
        (2, page(&"0".repeat(64)), "SHA-256"),
        (3, uri("file:///no/such/file", "x", None), "No such file"),
        (4, uri("ftp://host/x", "x", None), "ftp"),
        (5, uri(&file.from, "../x", None), "plain file name"),
    ] {
        let spec = InstanceSpec {
            uris: vec![bad],
            ..script("touch began")
        };
        rig.submit(id, 1, spec);
        assert_eq!(rig.outcome(id), Outcome::Exited(74));
        assert!(!rig.work(id).join("began").exists());
        let LogAnswer::Chunk(text) = rig.logs(id, LogStream::Stderr, None) else {
            panic!("no reason for {id}");
        };
        let text = String::from_utf8_lossy(&text.bytes).into_owned();
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn a_second_agent_of_the_same_state_is_refused_by_name() {
    let rig = Rig::new(long_timeouts());
    let first = rig.worker();
    until("it is connected", || rig.agent_log().contains("connected"));
    let second = rig.command(&[]).output().expect("runs");
    assert_eq!(second.status.code(), Some(1));
    let stdout = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(stdout.contains(&format!("pid {}", first.pid())), "{stdout}");
}

#[test]
fn wrong_words_are_told_before_anything_is_made() {
    let rig = Rig::new(long_timeouts());
    for args in [["--resources", "cpu=x"], ["--scheduler", "nowhere"]] {
        let mut command = rig.command(&[]);
        if args[0] == "--scheduler" {
            command = std::process::Command::new(env!("CARGO_BIN_EXE_baton"));
            command.args(["worker", "--state"]).arg(rig.state());
        }
        let output = command.args(args).output().expect("runs");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!rig.state().exists());
    }
}

pub(crate) fn task(commands: &[&str]) -> InstanceSpec {
    let processes = commands.iter().enumerate();
    let processes = processes.map(|(at, text)| {
        ProcessSpec::new(&format!("p{at}"), CommandLine::Shell((*text).to_owned()))
    });
    let task = TaskSpec {
        name: "test".to_owned(),
        owner: None,
        processes: processes.collect(),
        max_failures: 1,
        max_concurrency: 0,
        finalization_wait: Millis::from_secs(30),
        user: None,
        resources: Resources::default(),
        ports: std::collections::BTreeMap::new(),
    };
    InstanceSpec {
        work: Work::Task(Box::new(task)),
        ..command(&[])
    }
}

fn uri(from: &str, name: &str, sha256: Option<&str>) -> Uri {
    Uri {
        from: from.to_owned(),
        name: name.to_owned(),
        sha256: sha256.map(str::to_owned),
        executable: false,
        unpack: false,
        size_max: None,
    }
}

/// Answers every request with these bytes, for as long as the test process lives.
fn serve(body: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).expect("a request");
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).expect("it reads");
            stream.write_all(body).expect("it reads");
        }
    });
    port
}
