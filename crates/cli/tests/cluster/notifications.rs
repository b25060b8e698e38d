//! Notifications end to end: a receiver of webhooks, a mail server with STARTTLS, a command, and
//! schedulers that are killed between the fact and the delivery.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;

use baton_testing::ca::{Ca, CertRequest};
use baton_testing::cluster::Cluster;
use baton_testing::until;
use baton_tls::ServerFiles;
use rustls::{ServerConnection, StreamOwned};
use serde_json::Value;
use tempfile::TempDir;

use crate::receiver::Receiver;

/// A cluster with one worker, and these notifications in a file in the directory.
fn cluster(dir: &TempDir, file: &str) -> Cluster {
    let path = dir.path().join("notify.yaml");
    fs::write(&path, file).expect("written");
    let mut cluster = Cluster::new(&["--notify-file", &path.display().to_string()]);
    cluster.start_worker("w1", &["--resources", "cpu=4,memory=4GiB"]);
    cluster.healthy("w1");
    cluster
}

fn webhook(receiver: &Receiver) -> String {
    let port = receiver.port;
    format!(
        "channels:\n  ops: {{ kind: webhook, url: 'http://127.0.0.1:{port}/hook', rate: 1000 }}\n\
         routes:\n  - {{ channels: [ops] }}\n"
    )
}

fn fail(cluster: &Cluster, name: &str) {
    let script = format!("echo {name} is broken >&2; exit 3");
    let ended = cluster.run(&[
        "submit", "--name", name, "--wait", "--", "sh", "-c", &script,
    ]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
}

#[test]
fn a_receiver_that_was_down_gets_each_notice_once_and_in_order() {
    let receiver = Receiver::start(false);
    let dir = tempfile::tempdir().expect("a directory");
    let mut cluster = cluster(&dir, &webhook(&receiver));
    for name in ["a", "b", "c"] {
        fail(&cluster, name);
        cluster.kill_scheduler();
        cluster.start_scheduler();
    }
    let task = "task: nightly\nrun: exit 1\n";
    fs::write(cluster.path("nightly.yaml"), task).expect("written");
    cluster.run(&["library", "put", "nightly.yaml"]).good();
    let trigger = |cluster: &Cluster| cluster.run(&["trigger", "default/nightly", "--wait"]).code;
    assert_eq!(trigger(&cluster), Some(1));
    assert_eq!(trigger(&cluster), Some(1));
    until("the receiver was tried", || !receiver.all().is_empty());
    until("all of them wait", || {
        let waiting = cluster.run(&["notifications", "--state", "waiting", "--json"]);
        waiting.json().as_array().map(Vec::len) == Some(5)
    });

    receiver.is_up.store(true, Ordering::SeqCst);
    until("all were delivered", || {
        let waiting = cluster.run(&["notifications", "--state", "waiting", "--json"]);
        waiting.json() == Value::Array(Vec::new())
    });
    let titles = receiver.titles();
    let told: BTreeSet<&str> = titles.iter().map(|title| &**title).collect();
    let expected = [
        "default/a failed: exit 3",
        "default/b failed: exit 3",
        "default/c failed: exit 3",
        "default/nightly failed: exit 1",
        "default/nightly failed 2 times in a row: exit 1",
    ];
    assert_eq!(told, expected.into());
    assert_eq!(titles.len(), expected.len(), "each once: {titles:?}");
    let at = |title: &str| titles.iter().position(|it| it == title);
    assert!(at(expected[3]) < at(expected[4]), "{titles:?}");

    let all = receiver.all();
    let first = all
        .iter()
        .find(|it| it.is_acknowledged && it.body["subject"] == "i1");
    let first = first.expect("the failure of a").clone();
    drop(all);
    assert_eq!(first.body["stderr"], "a is broken", "{first:?}");
    assert_eq!(first.body["command"], "baton retry i1");
    assert_eq!(
        first.body["link"],
        format!("{}/instances/i1", cluster.url())
    );
    let key = first.body["key"].as_str().expect("it has one");
    assert!(
        first.head.contains(&format!("idempotency-key: {key}\r\n")),
        "{first:?}"
    );
    let attempts = receiver
        .all()
        .iter()
        .filter(|it| it.body["key"] == key)
        .count();
    assert!(attempts > 1, "it was tried while the receiver was down");

    assert!(cluster.metric("baton_notifications_sent_total") > 0);
}

#[test]
fn a_leader_killed_before_the_answer_has_a_successor_that_sends_the_same_key() {
    let receiver = Receiver::start(true);
    receiver.is_silent.store(true, Ordering::SeqCst);
    let dir = tempfile::tempdir().expect("a directory");
    let mut cluster = cluster(&dir, &webhook(&receiver));
    fail(&cluster, "a");
    until("it was sent", || receiver.all().len() == 1);
    cluster.kill_scheduler();
    receiver.is_silent.store(false, Ordering::SeqCst);
    cluster.start_scheduler();
    until("it is sent again", || receiver.all().len() == 2);
    until("it is recorded", || {
        cluster
            .run(&["notifications", "--state", "sent", "--json"])
            .json()
            != Value::Array(Vec::new())
    });
    let all = receiver.all();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].body["key"], all[1].body["key"]);
}

#[test]
fn an_array_of_failures_is_one_message() {
    let receiver = Receiver::start(true);
    let dir = tempfile::tempdir().expect("a directory");
    let mut cluster = cluster(&dir, &webhook(&receiver));
    cluster
        .run(&[
            "submit", "--name", "sweep", "--array", "1-300", "--", "false",
        ])
        .good();
    until("some have failed", || {
        let list = cluster.run(&["history", "--state", "FAILED", "-n", "10", "--json"]);
        list.code == Some(0) && list.json().as_array().is_some_and(|it| it.len() == 10)
    });
    cluster.kill_scheduler();
    cluster.start_scheduler();
    until("the array is told", || !receiver.all().is_empty());
    fail(&cluster, "after");
    until("the next is told", || receiver.titles().len() == 2);
    assert_eq!(
        receiver.titles(),
        [
            "default/sweep: 300 of 300 failed",
            "default/after failed: exit 3"
        ]
    );
    assert_eq!(receiver.all()[0].body["counts"]["failed"], 300);
}

/// A mail server that insists on STARTTLS, and keeps what it gets.
fn mail_server(files: ServerFiles) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let mails: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&mails);
    let config = files.load().expect("its files");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            if !smtp(&mut stream, false, &kept) {
                continue;
            }
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a config");
            smtp(&mut StreamOwned::new(connection, stream), true, &kept);
        }
    });
    (port, mails)
}

/// Talks SMTP; true if TLS begins now. Nothing but EHLO and STARTTLS is accepted before.
fn smtp(stream: &mut (impl Read + Write), is_secure: bool, mails: &Mutex<Vec<String>>) -> bool {
    let say = |stream: &mut dyn Write, text: &str| {
        let _ = stream.write_all(format!("{text}\r\n").as_bytes());
        let _ = stream.flush();
    };
    if !is_secure {
        say(stream, "220 mail");
    }
    while let Some(line) = read_line(stream) {
        let word = line
            .split([' ', ':'])
            .next()
            .unwrap_or_default()
            .to_uppercase();
        match &*word {
            "EHLO" if is_secure => say(stream, "250-mail\r\n250 AUTH PLAIN"),
            "EHLO" => say(stream, "250-mail\r\n250 STARTTLS"),
            "STARTTLS" if !is_secure => {
                say(stream, "220 go ahead");
                return true;
            }
            "QUIT" => {
                say(stream, "221 bye");
                return false;
            }
            _ if !is_secure => say(stream, "530 Must issue a STARTTLS command first"),
            "AUTH" => {
                mails.lock().expect("no panic").push(line);
                say(stream, "235 welcome");
            }
            "DATA" => {
                say(stream, "354 go ahead");
                let mut mail = String::new();
                while let Some(line) = read_line(stream).filter(|line| line != ".") {
                    mail.push_str(&line);
                    mail.push('\n');
                }
                mails.lock().expect("no panic").push(mail);
                say(stream, "250 queued as 4711");
            }
            _ => say(stream, "250 ok"),
        }
    }
    false
}

fn read_line(stream: &mut impl Read) -> Option<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        line.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&line);
    Some(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[test]
fn a_mail_goes_by_starttls_with_a_password_from_a_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let ca = Ca::new("a test");
    let request = CertRequest {
        name: "mail",
        hosts: &["127.0.0.1"],
        ..CertRequest::PLAIN
    };
    let (cert, key) = ca.write(dir.path(), request);
    let root = ca.write_own(&dir.path().join("ca.pem"));
    let password = dir.path().join("password");
    fs::write(&password, "hidden\n").expect("written");
    let (port, mails) = mail_server(ServerFiles {
        cert,
        key,
        client_ca: None,
    });
    let cluster = cluster(
        &dir,
        &format!(
            "channels:\n  post:\n    kind: mail\n    host: 127.0.0.1\n    port: {port}\n    \
         from: baton@example.com\n    to: [ops@example.com]\n    user: baton\n    \
         password_file: {}\n    ca_file: {}\nroutes: [{{ channels: [post] }}]\n",
            password.display(),
            root.display()
        ),
    );
    let test = cluster.run(&["notify", "test", "post"]);
    assert_eq!(test.good(), "post: 250 queued as 4711\n");
    fail(&cluster, "report");
    until("both mails and logins came", || {
        mails.lock().expect("no panic").len() == 4
    });
    let mails = mails.lock().expect("no panic");
    // PLAIN is base64 of "\0baton\0hidden".
    assert!(mails[0].contains("AGJhdG9uAGhpZGRlbg=="), "{}", mails[0]);
    let mail = &mails[3];
    assert!(
        mail.contains("Subject: default/report failed: exit 3"),
        "{mail}"
    );
    assert!(mail.contains("Message-ID: <failed-i1-"), "{mail}");
    assert!(mail.contains("report is broken"), "{mail}");
    assert!(mail.contains("try again: baton retry i1"), "{mail}");
}

#[test]
fn a_command_gets_the_notice_and_a_failing_channel_is_an_event() {
    let dir = tempfile::tempdir().expect("a directory");
    let (out, broken) = (dir.path().join("out"), dir.path().join("broken"));
    fs::write(&broken, "").expect("written");
    let mut cluster = cluster(
        &dir,
        &format!(
            "channels:\n  page:\n    kind: command\n    run: [sh, -c, 'test ! -e {1} || {{ echo no \
         line >&2; exit 1; }}; echo \"$BATON_NOTICE_KIND $BATON_NOTICE_TITLE\" >> {0}; cat >> {0}']\n",
            out.display(),
            broken.display()
        ),
    );
    let unknown = cluster.run(&["notify", "test", "absent"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    let test = cluster.run(&["notify", "test", "page"]);
    assert_eq!(test.code, Some(1), "{test:?}");
    assert!(
        test.err
            .contains("does not deliver: exit status 1: no line"),
        "{test:?}"
    );

    let task = "task: nightly\nrun: exit 4\nnotify: { channels: [page, absent], after: 2 }\n";
    fs::write(cluster.path("nightly.yaml"), task).expect("written");
    cluster.run(&["library", "put", "nightly.yaml"]).good();
    for _ in 0..3 {
        let ended = cluster.run(&["trigger", "default/nightly", "--wait"]);
        assert_eq!(ended.code, Some(4), "{ended:?}");
    }
    until("the channel is an event", || {
        let events = cluster.run(&["events", "--after", "0", "--no-follow", "--json"]);
        events.out.contains("channel-faulted")
    });
    let channels = cluster.run(&["notifications", "channels"]).good();
    assert!(channels.contains("failing since"), "{channels}");
    let list = cluster.run(&["notifications"]).good();
    assert!(
        list.contains("default/nightly failed 2 times in a row"),
        "{list}"
    );
    assert!(
        list.contains("absent: given up: the scheduler has no channel"),
        "{list}"
    );

    fs::remove_file(&broken).expect("it is there");
    // The next leader tries at once.
    cluster.kill_scheduler();
    cluster.start_scheduler();
    // It is written in two steps.
    let notice = || {
        let text = fs::read_to_string(&out).ok()?;
        let (line, json) = text.split_once('\n')?;
        let json: Value = serde_json::from_str(json).ok()?;
        Some((line.to_owned(), json))
    };
    until("the command gets it", || notice().is_some());
    until("it is well again", || {
        let channels = cluster.run(&["notifications", "channels"]);
        channels.out.contains("ok")
    });
    let (line, json) = notice().expect("it is there");
    assert_eq!(
        line,
        "failed default/nightly failed 2 times in a row: exit 4"
    );
    assert_eq!(json["failures"], 2);
    assert_eq!(json["version"], 1);
}

#[test]
fn a_wrong_file_of_notifications_is_an_error_with_its_place() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("notify.yaml");
    let text = "channels:\n  ops: { kind: webhook, url: ftp://x }\n  log: { kind: comand }\n\
                routes:\n  - { channels: [opps], on: [failing] }\n";
    fs::write(&file, text).expect("written");
    let path = file.display().to_string();
    let args = ["scheduler", "--notify-file", &path, "--data", "data"];
    let ended = baton_testing::command::run(dir.path(), &args);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    for part in [
        ":2:",
        "channels.ops.url",
        "not a URL of http or https",
        "channels.log.kind",
        "there is no channel `opps`",
        "did you mean `ops`?",
        "`failing` is not told here",
    ] {
        assert!(ended.err.contains(part), "{part} in {}", ended.err);
    }
}
