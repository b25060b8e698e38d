//! Directories of work, and files of its output.

use std::process::Stdio;

use baton_testing::cluster::Cluster;
use baton_testing::command::{Ended, PORTS, baton, end, is_healthy, ready, run};
use baton_testing::until;
use rustix::process::Signal;
use serde_json::{Value, json};

/// A directory with a script that says where it runs.
fn project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("where.sh");
    std::fs::write(
        &script,
        "#!/bin/sh\npwd\necho \"index $BATON_ARRAY_INDEX\" >&2\n",
    )
    .expect("written");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, executable).expect("set");
    dir
}

#[test]
fn work_runs_in_a_directory_that_its_worker_allows_and_its_output_goes_to_files() {
    let project = project();
    let cwd = project.path().to_str().expect("UTF-8");
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("w1", &["--resources", "cpu=4", "--allow-cwd", cwd]);
    cluster.healthy("w1");
    let submit = [
        "submit", "--wait", "--cwd", cwd, "--output", "%n.%a.%t", "--error", "all-%i",
    ];
    let submit = [&submit[..], &["--array", "3-4", "--", "./where.sh"]].concat();
    cluster.run(&submit).good();
    let read = |name: &str| std::fs::read_to_string(project.path().join(name)).expect(name);
    assert_eq!(read("where.sh.3.1"), format!("{cwd}\n"));
    assert_eq!(read("where.sh.4.1"), format!("{cwd}\n"));
    assert_eq!(read("all-i2"), "index 4\n");

    let shared = [
        "submit", "--cwd", cwd, "--output", "one", "--array", "1-2", "--", "true",
    ];
    let refused = cluster.run(&shared);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("`%a`"), "{refused:?}");
    let items = format!(
        "workflow: w\ntasks: {{ t: {{ run: 'echo $BATON_ITEM', for_each: [a, b], cwd: {cwd}, stdout: 'item-%a' }} }}"
    );
    std::fs::write(project.path().join("w.yaml"), items).expect("written");
    let file = format!("{cwd}/w.yaml");
    cluster.run(&["submit", "--wait", &file]).good();
    assert_eq!(
        (read("item-0"), read("item-1")),
        ("a\n".to_owned(), "b\n".to_owned())
    );

    // A scheduler on its own does not know that this is the same host.
    let missing = cluster.run(&["submit", "--wait", "--", "./where.sh"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    let stderr = cluster.run(&["logs", "--stderr", "i5"]).good();
    assert!(
        stderr.contains("`./where.sh`: no such file in /"),
        "{stderr}"
    );
    assert!(stderr.contains("--cwd DIR"), "{stderr}");

    let outside = cluster.run(&["submit", "--wait", "--cwd", "/", "--", "pwd"]);
    assert_eq!(outside.code, Some(1), "{outside:?}");
    let stderr = cluster.run(&["logs", "--stderr", "i6"]).good();
    assert!(
        stderr.contains("does not allow work in the directory `/`"),
        "{stderr}"
    );

    // The summary of a failure has the last lines of that file.
    let script = "echo no such table >&2; exit 3";
    let failing = [
        "submit", "--wait", "--cwd", cwd, "--error", "bad-%i", "--", script,
    ];
    let failed = cluster.run(&failing);
    assert_eq!(failed.code, Some(3), "{failed:?}");
    assert!(failed.err.contains("| no such table"), "{failed:?}");
    assert_eq!(read("bad-i7"), "no such table\n");
    let reason = cluster.run(&["explain", "i7"]).good();
    assert!(reason.contains("FAILED"), "{reason}");
    assert!(reason.contains("\n  no such table\n"), "{reason}");
}

#[test]
fn work_that_no_worker_allows_waits_and_says_so() {
    let cluster = Cluster::with_worker();
    let id = cluster
        .run(&["submit", "--cwd", "/tmp", "--", "pwd"])
        .good();
    let reason = cluster.run(&["explain", id.trim()]).good();
    assert_eq!(
        reason,
        "i1 QUEUED: no worker takes it; w1 does not allow /tmp: start it with `--allow-cwd /tmp`, \
         or submit with `--sandbox`\n"
    );
    let explanation = cluster.run(&["explain", id.trim(), "--json"]).json();
    let group = &explanation["workers"][0];
    assert_eq!(
        (&group["reason"], &group["workers"], &group["example"]),
        (&json!("directory"), &json!(1), &json!("w1"))
    );
}

#[test]
fn a_command_for_the_server_of_this_host_runs_in_the_directory_of_its_submission() {
    let (place, project) = (tempfile::tempdir().expect("a directory"), project());
    let mut server = baton(place.path(), &["up", "--data", "data"])
        .args(PORTS)
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let addresses = ready(&mut server).expect("it is ready");
    let client = |args: &[&str]| {
        let url = ["--url", &addresses.url];
        run(project.path(), &[&url[..], args].concat())
    };
    until("the worker is healthy", || {
        is_healthy(&client(&["workers", "--json"]).json(), "local")
    });
    client(&["submit", "--wait", "--", "./where.sh"]).good();
    let here = project.path().canonicalize().expect("it exists");
    assert_eq!(
        client(&["logs", "i1"]).good(),
        format!("{}\n", here.display())
    );
    // With what it needs to find its programs, as in an activated virtual environment.
    let command = |args: &[&str]| {
        let url = ["--url", &addresses.url];
        let mut command = baton(project.path(), &[&url[..], args].concat());
        let search = format!("/opt/venv/bin:{}", std::env::var("PATH").expect("set"));
        command.env("PATH", search).env("HIDDEN", "x");
        command
    };
    client(&["submit", "--wait", "--sandbox", "--", "pwd"]).good();
    let sandbox = client(&["logs", "i2"]).good();
    assert!(sandbox.contains("/data/worker/work/i2.1."), "{sandbox}");
    let text = client(&["show", "i1"]).good();
    assert!(text.contains("directory  /"), "{text}");
    assert!(!text.contains("labels"), "{text}");

    for (options, expected) in [
        (&[][..], "/opt/venv/bin -"),
        (&["--export", "NONE"], "none -"),
        (&["--export", "HIDDEN"], "none x"),
        (&["--export=ALL"], "/opt/venv/bin x"),
    ] {
        let script =
            "case $PATH in /opt/venv/bin:*) p=${PATH%%:*};; *) p=none;; esac; echo $p ${HIDDEN:--}";
        let line = [&["submit", "--wait", "--logs"], options, &["--", script]].concat();
        let shown: Ended = command(&line).output().expect("it ends").into();
        assert_eq!(shown.good().trim(), expected, "{options:?}");
    }

    // A worker that does not allow the directory is named: at its start, and by each submission.
    let log = place.path().join("vm.log");
    let mut vm = baton(place.path(), &["worker", "--name", "vm", "--state", "vm"])
        .args(["--scheduler", &addresses.workers])
        .stderr(std::fs::File::create(&log).expect("a file"))
        .spawn()
        .expect("it starts");
    until("the second worker is healthy", || {
        is_healthy(&client(&["workers", "--json"]).json(), "vm")
    });
    let log = std::fs::read_to_string(log).expect("readable");
    assert!(log.contains("takes none with a directory"), "{log}");
    let told = client(&["submit", "--cpu", "4096", "--", "./where.sh"]);
    let remedy = format!(
        "vm does not allow {0}: start it with `--allow-cwd {0}`, or submit with `--sandbox`",
        here.display()
    );
    assert!(told.err.contains(&remedy), "{told:?}");
    let reason = client(&["explain", told.good().trim()]).good();
    assert!(reason.contains(&remedy), "{reason}");
    assert!(reason.contains("and local has "), "{reason}");
    end(&mut vm, Signal::INT);

    let shown: Value = client(&["show", "i1", "--json"]).json();
    let cwd = &shown["instance"]["details"]["cwd"];
    assert_eq!(cwd, here.to_str().expect("UTF-8"));
    end(&mut server, Signal::INT);
}
