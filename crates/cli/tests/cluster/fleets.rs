//! Fleets: workers that the scheduler obtains by itself, from a real Slurm and as processes of its host.

use std::os::unix::fs::PermissionsExt as _;

use baton_testing::cluster::{Cluster, lines};
use baton_testing::command;
use baton_testing::processes::processes;
use baton_testing::slurm::Slurm;
use baton_testing::{until, until_at_last};
use serde_json::json;

use crate::api::Api;

/// Adds a fleet of Slurm with small workers.
fn add_slurm(cluster: &Cluster, name: &str, options: &[&str]) {
    let shape = ["--backend", "slurm", "--cpus", "1", "--memory", "256MiB"];
    let mut command = vec!["fleet", "add", name];
    command.extend(shape);
    command.extend(["--time-limit", "10m"]);
    command.extend(options);
    let defined = cluster.run(&command).good();
    assert_eq!(defined.trim(), format!("{name}: defined"));
}

fn a_refused_definition_is_not_stored(cluster: &Cluster) {
    let shape = ["--backend", "slurm", "--cpus", "1", "--memory", "256MiB"];
    let add = [
        "fleet",
        "add",
        "bad",
        "--max",
        "1",
        "--partition",
        "nowhere",
    ];
    let refused = cluster.run(&[&add[..], &shape].concat());
    assert_ne!(refused.code, Some(0));
    for word in ["partition", "--no-test"] {
        assert!(refused.err.contains(word), "{}", refused.err);
    }
    assert_eq!(cluster.run(&["fleet", "ls", "--json"]).good().trim(), "[]");
}

/// What `baton fleet check` finds.
fn check(cluster: &Cluster, name: &str, options: &[&str]) -> serde_json::Value {
    let checked = cluster.run(&[&["fleet", "check", name, "--json"], options].concat());
    let found: serde_json::Value = serde_json::from_str(&checked.out).expect("JSON");
    assert_eq!(checked.code == Some(0), found["ok"] == true, "{checked:?}");
    found
}

/// The jobs in Slurm's queue.
fn queue(slurm: &Slurm) -> Vec<String> {
    slurm.queue().into_iter().map(|it| it.id).collect()
}

#[test]
fn slurm_runs_what_waits_and_nothing_is_left_in_its_queue() {
    let slurm = Slurm::start();
    let (name, value) = slurm.variable();
    let mut cluster = Cluster::idle(&["--lost-after", "60s"]);
    cluster.set_variables(&[(&name, &value)]);
    cluster.start_scheduler();
    a_refused_definition_is_not_stored(&cluster);
    add_slurm(&cluster, "s", &["--max", "2", "--idle-timeout", "5m"]);
    let trace = cluster.path("trace");
    let script = format!(
        "echo \"$BATON_INSTANCE $BATON_WORKER\" >> {}",
        trace.display()
    );
    let many = json!({ "task": "many", "run": script });
    let many = cluster.submit(many, 40).first;
    let explained = cluster.run(&["explain", &many.to_string()]).good();
    assert!(explained.contains("fleet s"), "{explained}");

    // The jobs of the next leader are those of the one before.
    until("a pilot has worked", || !lines(&trace).is_empty());
    cluster.kill_scheduler();
    cluster.start_scheduler();
    for id in many.0..many.0 + 40 {
        let over = cluster.finish(baton_model::ids::InstanceId(id));
        assert_eq!(over.state.word(), "DONE", "{over:?}");
    }
    assert_eq!(lines(&trace).len(), 40, "each ran once");
    let jobs = queue(&slurm);
    assert!((1..=2).contains(&jobs.len()), "{jobs:?}");
    let checked = check(&cluster, "s", &[]);
    assert_eq!(checked["ok"], true, "{checked}");
    let native = checked["native"].as_str().expect("an id of Slurm");
    assert!(jobs.iter().any(|it| it == native), "{jobs:?}, {checked}");
    assert_ne!(checked["nodes"], json!([]), "{checked}");

    // A pilot that is cancelled costs a loss, no failure, and is replaced.
    let long = format!(
        "test $BATON_ATTEMPT = 2 || {{ touch {}; sleep 600; }}",
        cluster.path("begun").display()
    );
    let long = cluster
        .submit(json!({ "task": "long", "run": long }), 1)
        .first;
    until("it runs", || cluster.path("begun").exists());
    for job in queue(&slurm) {
        slurm.run(&["scancel", &job]);
    }
    // Together the pauses between lists of jobs and after a lost pilot can take two minutes.
    until_at_last("another pilot runs it", || {
        cluster.instance(long).state.is_terminal()
    });
    let over = cluster.finish(long);
    assert_eq!(
        (over.state.word(), over.failures, over.losses),
        ("DONE", 0, 1),
        "{over:?}"
    );

    let removed = cluster.run(&["fleet", "rm", "s"]).good();
    assert!(removed.contains("removed"), "{removed}");
    until("the queue is empty", || queue(&slurm).is_empty());
    until("the fleet is forgotten", || {
        cluster.run(&["fleet", "ls", "--json"]).good().trim() == "[]"
    });
}

#[test]
fn a_fleet_of_the_host_serves_what_waits_and_wrong_definitions_are_refused() {
    let cluster = Cluster::new(&[]);
    let local = ["--backend", "local", "--cpus", "1", "--memory", "256MiB"];
    let add = |options: &[&str]| {
        let mut command = vec!["fleet", "add", "here"];
        command.extend(local);
        command.extend(options);
        cluster.run(&command)
    };
    for (options, word) in [
        (&["--max", "0"][..], "max"),
        (&["--max", "1", "--min", "2"], "min"),
        (&["--max", "1", "--partition", "x"], "--partition"),
        (&["--max", "1", "--time-limit", "1h"], "time_limit"),
    ] {
        let refused = add(options);
        assert_ne!(refused.code, Some(0), "{options:?}");
        assert!(refused.err.contains(word), "{options:?}: {}", refused.err);
    }
    assert_eq!(cluster.run(&["fleet", "ls", "--json"]).good().trim(), "[]");
    add(&["--max", "1", "--idle-timeout", "2s"]).good();
    let big = json!({ "task": "big", "run": "true", "resources": { "cpu": 8 } });
    let big = cluster.submit(big, 1).first;
    let explained = cluster.run(&["explain", &big.to_string()]).good();
    assert!(
        explained.contains("fleet here cannot run it"),
        "{explained}"
    );
    let small = cluster
        .submit(json!({ "task": "small", "run": "true" }), 1)
        .first;
    let small = cluster.finish(small);
    assert_eq!(small.worker.as_deref(), Some("here-p1-0"));
    until("the idle pilot has ended", || {
        let jobs = cluster.run(&["fleet", "jobs", "here", "--json"]).good();
        jobs.contains("\"end\"")
    });
    assert!(cluster.worker("here-p1-0").is_none());
}

#[test]
fn a_check_tells_how_a_worker_of_a_fleet_has_come_or_why_none_came() {
    let mut cluster = Cluster::idle(&[]);
    cluster.start_scheduler();
    let add = |name: &str, options: &[&str]| {
        let shape = ["--backend", "local", "--cpus", "1", "--memory", "256MiB"];
        let all = [&["fleet", "add", name, "--max", "1"], &shape[..], options].concat();
        cluster.run(&all).good();
    };
    add("here", &[]);
    let checked = check(&cluster, "here", &[]);
    let version = env!("CARGO_PKG_VERSION");
    for (field, expected) in [
        ("ok", json!(true)),
        ("job", json!("p1")),
        ("worker", json!("here-p1-0")),
        ("dialled", json!(cluster.workers_at())),
        ("workerVersion", json!(version)),
        ("schedulerVersion", json!(version)),
    ] {
        assert_eq!(checked[field], expected, "{field}: {checked}");
    }
    let told = cluster.run(&["fleet", "check", "here"]).good();
    for part in ["worker    here-p1-0", "here: well", &cluster.workers_at()] {
        assert!(told.contains(part), "{part}: {told}");
    }

    // One that cannot start a worker says so, with the log of its job, and leaves no task behind.
    add(
        "broken",
        &["--before", "echo the module is missing; exit 3"],
    );
    let told = cluster.run(&["fleet", "check", "broken", "--timeout", "3s"]);
    assert_eq!(told.code, Some(1), "{told:?}");
    for part in ["no worker of it has run", "the module is missing"] {
        assert!(told.out.contains(part), "{part}: {told:?}");
    }
    assert_eq!(cluster.run(&["bullpen", "--json"]).good().trim(), "[]");
    cluster.run(&["fleet", "pause", "broken"]).good();
    let told = cluster.run(&["fleet", "check", "broken"]);
    assert!(told.err.contains("baton fleet resume"), "{told:?}");
    assert_eq!(cluster.run(&["fleet", "check", "none"]).code, Some(1));
}

#[test]
fn a_file_defines_changes_and_drains_fleets() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("fleets.yaml");
    let fleet = |name: &str, max: u32| {
        format!("  {name}: {{ backend: local, cpus: 1, memory: 256MiB, max: {max} }}\n")
    };
    let write = |text: &str| {
        // Replaced at once: the scheduler never reads a part.
        let new = dir.path().join("new");
        std::fs::write(&new, text).expect("written");
        std::fs::rename(&new, &file).expect("renamed");
    };
    write(&format!("fleets:\n{}{}", fleet("a", 1), fleet("b", 1)));
    let path = file.to_str().expect("plain");
    let cluster = Cluster::new(&["--fleets", path]);
    let shown = |name: &str| cluster.run(&["fleet", "show", name]);
    until("both are defined", || {
        ["a", "b"].iter().all(|name| shown(name).code == Some(0))
    });
    assert!(shown("a").good().contains(&format!("defined by {path}")));

    // Neither a command nor a broken file changes what the file has defined.
    let define = [
        "--backend",
        "local",
        "--cpus",
        "1",
        "--memory",
        "1GiB",
        "--max",
        "9",
    ];
    let add = |name: &str| cluster.run(&[&["fleet", "add", name], &define[..]].concat());
    for refused in [add("a"), cluster.run(&["fleet", "rm", "a"])] {
        assert_ne!(refused.code, Some(0));
        assert!(refused.err.contains(path), "{}", refused.err);
    }
    add("own").good();
    write(&format!(
        "fleets:\n{}  b: {{ backend: slrum }}\n",
        fleet("a", 2)
    ));
    let problem = || cluster.run(&["fleet", "ls"]);
    until("its error is shown", || {
        problem().err.contains("did you mean `slurm`?")
    });
    assert!(shown("a").good().contains("at most 1"));

    write(&format!("fleets:\n{}{}", fleet("a", 2), fleet("own", 3)));
    until("it is changed", || shown("a").good().contains("at most 2"));
    until("one is drained", || shown("b").code != Some(0));
    until("the conflict is shown", || {
        problem().err.contains("baton fleet rm own")
    });
    assert!(
        shown("own").good().contains("at most 9"),
        "it is left alone"
    );

    // What is shown as YAML defines the same again.
    let yaml = cluster.run(&["fleet", "show", "own", "--yaml"]).good();
    let copy = dir.path().join("copy.yaml");
    std::fs::write(&copy, &yaml).expect("written");
    let copy = copy.to_str().expect("plain");
    let checked = cluster.run(&["check", copy]).good();
    assert!(checked.contains("fleets own"), "{checked}");
    cluster.run(&["fleet", "add", "-f", copy]).good();
    assert_eq!(
        cluster.run(&["fleet", "show", "own", "--yaml"]).good(),
        yaml
    );
}

/// A cluster whose scheduler requires tokens, with a fleet whose only pilot is here.
fn guarded() -> Cluster {
    let mut cluster = Cluster::idle(&["--require-tokens"]);
    let created = ["token", "create", "--role", "admin", "--data", "data"];
    let token = command::run(&cluster.path("."), &created).good();
    std::fs::write(cluster.path("admin.token"), token).expect("written");
    cluster.start_scheduler();
    let shape = ["--backend", "local", "--cpus", "1", "--memory", "256MiB"];
    let add = ["fleet", "add", "here", "--min", "1", "--max", "1"];
    as_admin(&cluster, &[&add[..], &shape].concat());
    until("the pilot is here", || {
        as_admin(&cluster, &["workers", "--json"]).contains("\"here-p1-0\"")
    });
    cluster
}

/// Runs a command with the token of an administrator.
fn as_admin(cluster: &Cluster, args: &[&str]) -> String {
    let mut command = cluster.command(args);
    let ended = command.env("BATON_TOKEN_FILE", cluster.path("admin.token"));
    command::Ended::from(ended.output().expect("it ends")).good()
}

/// Whether each token of the fleet is revoked.
fn revoked(cluster: &Cluster) -> Vec<bool> {
    let tokens = as_admin(cluster, &["token", "ls", "--json"]);
    let tokens: Vec<serde_json::Value> = serde_json::from_str(&tokens).expect("JSON");
    let of_fleet = tokens.iter().filter(|it| it["fleet"] == "here");
    of_fleet.map(|it| it["revoked"] == true).collect()
}

#[test]
fn pilots_have_tokens_of_their_own_that_are_nowhere_else_and_end_with_their_fleet() {
    let mut cluster = guarded();
    let dir = cluster.path("data/fleets/here");
    let secret = std::fs::read_to_string(dir.join("token")).expect("issued");
    let secret = secret.trim();
    assert!(secret.starts_with("baton_"));
    let found = std::fs::metadata(dir.join("token")).expect("there");
    assert_eq!(found.permissions().mode() & 0o7777, 0o600);
    assert_eq!(revoked(&cluster), [false]);

    // Not in any command line, environment, script or answer.
    assert!(processes(|text| text.contains(secret)).is_empty());
    for entry in std::fs::read_dir(&dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_file() && !path.ends_with("token") {
            let text = std::fs::read(&path).expect("ours");
            let text = String::from_utf8_lossy(&text);
            assert!(!text.contains(secret), "{}", path.display());
        }
    }
    for shown in [
        as_admin(&cluster, &["fleet", "show", "here", "--json"]),
        as_admin(&cluster, &["fleet", "jobs", "here", "--json"]),
        as_admin(&cluster, &["token", "ls", "--json"]),
        cluster.log("scheduler").join("\n"),
    ] {
        assert!(!shown.contains(secret), "{shown}");
    }

    // The next leader keeps a token that is good enough, and its pilot.
    cluster.kill_scheduler();
    cluster.start_scheduler();
    until("the pilot is back", || {
        as_admin(&cluster, &["workers", "--json"]).contains("HEALTHY")
    });
    let kept = std::fs::read_to_string(dir.join("token")).expect("there");
    assert_eq!(kept.trim(), secret);
    assert_eq!(revoked(&cluster), [false]);

    as_admin(&cluster, &["fleet", "rm", "here"]);
    until("the token is revoked with its fleet", || {
        revoked(&cluster) == [true]
    });
}
