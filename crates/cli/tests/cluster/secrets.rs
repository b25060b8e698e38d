//! Secrets: in the task that has them, and nowhere else.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use baton_testing::cluster::Cluster;
use baton_testing::command::{Ended, baton_path};
use baton_testing::processes::send;
use baton_testing::until;
use rustix::process::Signal;

const VALUE: &str = "tr0ub4dor&3-correct-horse";
/// What `base64` makes of it.
const ENCODED: &str = "dHIwdWI0ZG9yJjMtY29ycmVjdC1ob3JzZQ";

fn set(cluster: &Cluster, secret: &str, value: &str) -> Ended {
    let mut command = cluster.command(&["secret", "set", secret]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("started");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(value.as_bytes()).expect("written");
    drop(stdin);
    child.wait_with_output().expect("ended").into()
}

fn get(cluster: &Cluster, path: &str, accept: &str) -> Vec<u8> {
    let address = cluster.clients_at();
    let mut stream = TcpStream::connect(&address).expect("it listens");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("readable");
    answer
}

/// Fails if the secret, or it in base64, is somewhere in there.
fn assert_absent(what: &str, bytes: &[u8]) {
    for form in [VALUE, ENCODED, &VALUE[..VALUE.len() - 1]] {
        let form = form.as_bytes();
        let found = bytes.windows(form.len()).any(|it| it == form);
        assert!(!found, "{what}: {}", String::from_utf8_lossy(bytes));
    }
}

fn files_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let kind = entry.file_type().expect("known");
        if kind.is_dir() {
            files_below(&entry.path(), found);
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
}

/// The command lines and environments of Baton's own processes.
fn assert_absent_in_our_processes() {
    let ours = baton_path();
    let mut seen = 0;
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let dir = entry.path();
        // Those of other users, and those that have just ended, are not readable.
        if fs::read_link(dir.join("exe")).is_ok_and(|it| it == ours) {
            seen += 1;
            for name in ["environ", "cmdline"] {
                let bytes = fs::read(dir.join(name)).unwrap_or_default();
                assert_absent(&dir.join(name).display().to_string(), &bytes);
            }
        }
    }
    assert!(seen >= 4, "scheduler, agent, coordinator, reaper: {seen}");
}

/// What tasks do with their secrets, until a file is there.
const LEAK: &str = r#"
echo "plain $KEY and $(cat "$BATON_SECRETS/db")"
printf %s "$KEY" | base64; printf 'user:%s' "$KEY" | base64
printf 'in two '; printf %s "${KEY%horse}"; sleep 0.05; echo horse
echo "to stderr $KEY" >&2
echo "value=$KEY" >> "$BATON_OUTPUT"
test "$(cat secrets/db)" = "$KEY" || exit 9
touch "$DONE"; while ! test -e "$GO"; do sleep 0.02; done
echo "at last $KEY"
"#;

const TASKS: &str = r#"
workflow: leak
owner: lab
tasks:
  command:
    secrets: [{ name: db, env: KEY, file: db }]
    env: { DONE: DIR/command.done, GO: DIR/go }
    run: SCRIPT
  processes:
    secrets: [{ name: db, env: KEY, file: db }]
    env: { DONE: DIR/processes.done, GO: DIR/go }
    processes:
      - { name: plain, run: SCRIPT }
      - { name: rotated, run: 'echo rotated $KEY', log: { mode: rotate, size: 1MiB, backups: 2 } }
  fails:
    secrets: [{ name: db, env: KEY, file: db }]
    run: 'echo "this is $KEY" >&2; exit 7'
  file:
    secrets: [{ name: db, env: KEY, file: db }]
    cwd: DIR
    stdout: out.txt
    run: 'echo "file $KEY"'
"#;

#[test]
fn a_secret_is_found_nowhere_but_in_its_task() {
    let mut cluster = Cluster::new(&["--collect-logs", "100MiB"]);
    let dir = cluster.path("").display().to_string();
    let dir = dir.trim_end_matches('/').to_owned();
    cluster.start_worker("w1", &["--resources", "cpu=8", "--allow-cwd", "/"]);
    cluster.healthy("w1");
    set(&cluster, "lab/db", VALUE).good();
    let script = format!("|\n{}", LEAK.replace('\n', "\n        "));
    let inline = serde_json::to_string(LEAK).expect("JSON");
    let tasks = TASKS.replace("run: SCRIPT }", &format!("run: {inline} }}"));
    let tasks = tasks.replace("SCRIPT", &script).replace("DIR", &dir);
    fs::write(cluster.path("leak.yaml"), tasks).expect("written");
    let run = cluster.run(&["submit", "leak.yaml"]).good();
    let run = run.trim();
    until("both tasks have printed it", || {
        ["command.done", "processes.done"]
            .iter()
            .all(|it| cluster.path(it).exists())
    });
    assert_absent_in_our_processes();
    fs::write(cluster.path("go"), "").expect("written");
    until("the run has ended", || {
        let shown = cluster.run(&["show", run, "--json"]).json();
        shown["run"]["state"] == "FAILED"
    });

    let list = cluster.run(&["history", "--json"]).json();
    let items = list.as_array().expect("a list").clone();
    assert_eq!(items.len(), 4, "{list}");
    let mut outputs = String::new();
    for item in &items {
        let id = item["id"].as_str().expect("an id");
        for stream in ["stdout", "stderr"] {
            let path = format!("/instances/{id}/logs/{stream}");
            let answer = get(&cluster, &path, "text/plain");
            outputs += &String::from_utf8_lossy(&answer);
            assert_absent(&path, &answer);
        }
        let pages =
            ["", "/timeline", "/explain", "/processes"].map(|it| format!("/instances/{id}{it}"));
        for path in pages {
            for accept in ["application/json", "text/html"] {
                assert_absent(&path, &get(&cluster, &path, accept));
            }
        }
    }
    let rotated = cluster.run(&["logs", run, "--task", "processes", "--process", "rotated"]);
    outputs += &rotated.out;
    outputs += &fs::read_to_string(cluster.path("out.txt")).expect("written");
    for masked in [
        "plain *** and ***",
        "in two ***\n",
        "at last ***",
        "to stderr ***",
        "this is ***",
        "file ***",
    ] {
        assert!(outputs.contains(masked), "{masked} in {outputs}");
    }
    for path in [
        "/",
        "/secrets/",
        "/history/",
        "/events",
        "/library/",
        "/metrics",
        "/notifications/",
    ] {
        let path = if path == "/events" {
            "/events?limit=1000&wait=0"
        } else {
            path
        };
        for accept in ["application/json", "text/html"] {
            if path.starts_with("/events") {
                continue;
            }
            assert_absent(path, &get(&cluster, path, accept));
        }
    }
    let events = cluster.run(&["events", "--since", "0", "--no-follow", "--json"]);
    assert_absent("events", events.out.as_bytes());
    cluster
        .run(&["store", "backup", "--data", "data", "backup.db"])
        .good();
    let mut files = Vec::new();
    files_below(&cluster.path(""), &mut files);
    assert!(files.len() > 20, "{files:?}");
    for path in files {
        let bytes = fs::read(&path).unwrap_or_default();
        assert_absent(&path.display().to_string(), &bytes);
    }
    until("nothing is left in memory files", || {
        !has_memory_files(&cluster)
    });
    let used = cluster.run(&["secret", "ls", "--json"]).json();
    assert!(used[0]["usedAt"].is_u64(), "its use is recorded: {used}");
}

/// True if a worker of the cluster keeps secrets.
fn has_memory_files(cluster: &Cluster) -> bool {
    let mark = fs::read_to_string(cluster.path("w1/lineage")).unwrap_or_default();
    let mark: serde_json::Value = serde_json::from_str(&mark).expect("JSON");
    let lineage = mark["lineage"].as_u64().expect("a number");
    Path::new(&format!("/dev/shm/baton-w{lineage:016x}")).exists()
}

#[test]
fn masking_goes_on_when_agent_and_coordinator_are_killed() {
    let mut cluster = Cluster::with_worker();
    set(&cluster, "default/db", VALUE).good();
    let script =
        "echo one $KEY; touch began; while ! test -e GO; do sleep 0.02; done; echo two $KEY";
    let script = script
        .replace("began", &cluster.path("began").display().to_string())
        .replace("GO", &cluster.path("go").display().to_string());
    let args = [
        "submit",
        "--secret-env",
        "KEY=db",
        "--secret",
        "db",
        "--",
        "sh",
        "-c",
        &script,
    ];
    let id = cluster.run(&args).good();
    let id = id.trim();
    until("it runs", || cluster.path("began").exists());
    let coordinator = cluster.coordinator_pid("w1").expect("it runs");
    assert!(send(coordinator, Signal::KILL));
    cluster.kill_worker("w1");
    cluster.start_worker("w1", &["--resources", "cpu=4"]);
    cluster.healthy("w1");
    assert!(has_memory_files(&cluster), "the task may read them still");
    fs::write(cluster.path("go"), "").expect("written");
    cluster.until_state(id, "DONE");
    until("all of its output is there", || {
        cluster.run(&["logs", id]).good() == "one ***\ntwo ***\n"
    });
    until("nothing is left in memory files", || {
        !has_memory_files(&cluster)
    });
}

#[test]
fn an_attempt_without_its_secret_fails_with_the_reason_and_a_retry_finds_it() {
    let cluster = Cluster::with_worker();
    let args = [
        "submit",
        "--owner",
        "lab",
        "--secret",
        "db",
        "--",
        "cat",
        "secrets/db",
    ];
    let id = cluster.run(&args).good();
    let id = id.trim();
    cluster.until_state(id, "FAILED");
    let shown = cluster.run(&["logs", id, "--stderr"]);
    let told = format!("{}{}", shown.out, shown.err);
    assert!(told.contains("baton secret set lab/db"), "{told}");
    // That of another owner is not its own.
    set(&cluster, "billing/db", "wrong").good();
    cluster.run(&["retry", id]).good();
    cluster.until_state(id, "FAILED");
    set(&cluster, "lab/db", "something").good();
    cluster.run(&["retry", id]).good();
    cluster.until_state(id, "DONE");
    cluster.run(&["secret", "rm", "lab/db"]).good();
    let again = cluster.run(&["secret", "rm", "lab/db"]);
    assert_eq!(again.code, Some(1), "{again:?}");
    cluster.stop_without_leftovers("w1");
}

#[test]
fn secrets_come_from_files_variables_and_programs() {
    let place = tempfile::tempdir().expect("a directory");
    let sources_file = place.path().join("sources.yaml");
    let named = sources_file.to_str().expect("text");
    let mut cluster = Cluster::idle(&["--secrets-file", named]);
    cluster.set_variables(&[("SOURCE_VARIABLE", "of-a-variable")]);
    let file = cluster.path("value.txt");
    fs::write(&file, "of-a-file").expect("written");
    let count = cluster.path("count");
    let sources = format!(
        "secrets:\n- {{ name: f, file: {} }}\n- {{ name: e, environment: SOURCE_VARIABLE }}\n\
         - {{ name: c, owner: default, command: [sh, -c, 'echo x >> {}; echo of-a-program'] }}\n\
         - {{ name: bad, command: [sh, -c, 'echo sealed >&2; exit 1'] }}\n",
        file.display(),
        count.display()
    );
    fs::write(&sources_file, sources).expect("written");
    cluster.start_scheduler();
    cluster.start_worker("w1", &["--resources", "cpu=4"]);
    cluster.healthy("w1");
    let script = "test $(cat secrets/f)-$(cat secrets/e)-$(cat secrets/c) = \
                  of-a-file-of-a-variable-of-a-program";
    let secrets = ["--secret", "f", "--secret", "e", "--secret", "c"];
    let submit = [
        &["submit", "--wait", "--array", "0-9"],
        &secrets[..],
        &["--", "sh", "-c", script],
    ];
    cluster.run(&submit.concat()).good();
    let calls = fs::read_to_string(&count).expect("it was run");
    assert_eq!(calls, "x\n", "one call serves all that start together");
    let refused = set(&cluster, "default/c", "x");
    assert!(refused.err.contains("kept in a command"), "{refused:?}");
    let failed = cluster.run(&["submit", "--wait", "--secret", "bad", "--", "true"]);
    assert_ne!(failed.code, Some(0));
    let told = cluster.run(&["logs", "i11", "--stderr"]);
    assert!(
        format!("{}{}", told.out, told.err).contains("sealed"),
        "{told:?}"
    );
    let list = cluster.run(&["secret", "ls"]).good();
    assert!(
        list.contains("environment") && !list.contains("of-a-"),
        "{list}"
    );
}

#[test]
fn an_attempt_that_waits_for_its_secrets_survives_scheduler_and_worker() {
    let place = tempfile::tempdir().expect("a directory");
    let (sources_file, go) = (place.path().join("sources.yaml"), place.path().join("go"));
    let script = format!(
        "while ! test -e {}; do sleep 0.02; done; echo late",
        go.display()
    );
    let sources =
        format!("secrets:\n- {{ name: s, command: [sh, -c, '{script}'], timeout: 10m }}\n");
    fs::write(&sources_file, sources).expect("written");
    let mut cluster = Cluster::new(&["--secrets-file", sources_file.to_str().expect("text")]);
    cluster.start_worker("w1", &["--resources", "cpu=4"]);
    cluster.healthy("w1");
    let submit = || {
        let check = "test $(cat $BATON_SECRETS/s) = late";
        let id = cluster.run(&["submit", "--secret", "s", "--", "sh", "-c", check]);
        let id = id.good().trim().to_owned();
        cluster.until_state(&id, "LAUNCHED");
        id
    };
    let (killed, waits) = (submit(), submit());
    cluster.run(&["cancel", "--now", &killed]).good();
    cluster.until_state(&killed, "HALTED");
    cluster.kill_scheduler();
    cluster.start_scheduler();
    cluster.healthy("w1");
    cluster.kill_worker("w1");
    cluster.start_worker("w1", &["--resources", "cpu=4"]);
    fs::write(&go, "").expect("written");
    cluster.until_state(&waits, "DONE");
}
