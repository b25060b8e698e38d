//! What `baton doctor` finds: real certificates, real databases, real ports.

use std::fs;
use std::path::Path;
use std::process::Command;

use baton_testing::ca::{Ca, CertRequest};
use baton_testing::command::{
    Ended, PORTS, baton, baton_path, end, is_healthy, ready, silent_port,
};
use baton_testing::postgres::Server;
use baton_testing::until;
use rustix::process::Signal;
use serde_json::Value;

/// The findings of `baton doctor`, as lines `GRADE MESSAGE; REMEDY` of one check.
fn examine(dir: &Path, args: &[&str], variables: &[(&str, &str)], check: &str) -> Vec<String> {
    let mut command = baton(dir, &["doctor", "--json"]);
    let ended = command.args(args).envs(variables.iter().copied()).output();
    let ended = Ended::from(ended.expect("it ends"));
    let report: Value = serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{ended:?}"));
    let findings = report["findings"].as_array().expect("a list").iter();
    let word = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    findings
        .filter(|it| it["check"] == check)
        .map(|it| {
            format!(
                "{} {}; {}",
                word(it, "grade"),
                word(it, "message"),
                word(it, "remedy")
            )
        })
        .collect()
}

/// The one finding with these words.
fn assert_one(found: &[String], words: &[&str]) {
    let of = found
        .iter()
        .filter(|it| words.iter().all(|word| it.contains(word)));
    assert_eq!(of.count(), 1, "{words:?}: {found:#?}");
}

#[test]
fn the_dates_of_configured_certificates_are_examined() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name).display().to_string();
    let ca = Ca::new("the CA");
    ca.write_own(&dir.path().join("ca.pem"));
    for (name, days) in [
        ("expired", (-30, -2)),
        ("soon", (-30, 5)),
        ("later", (3, 400)),
    ] {
        ca.write(
            dir.path(),
            CertRequest {
                name,
                days,
                ..CertRequest::PLAIN
            },
        );
    }
    let file = dir.path().join("baton.toml");
    let text = format!(
        "[scheduler]\ntls-cert = {:?}\ntls-key = {:?}\nclient-ca = {:?}\npeer-ca = {:?}\n\
         [worker]\nca = {:?}\ncert = {:?}\nkey = {:?}\n[client]\nca = {:?}\ncert = {:?}\nkey = {:?}\n",
        at("expired.pem"),
        at("expired.key"),
        at("ca.pem"),
        at("ca.pem"),
        at("ca.pem"),
        at("soon.pem"),
        at("soon.key"),
        at("none.pem"),
        at("later.pem"),
        at("later.key"),
    );
    fs::write(&file, text).expect("written");
    let config = file.display().to_string();
    let found = examine(
        dir.path(),
        &["--host"],
        &[("BATON_CONFIG", &config)],
        "certificates",
    );
    assert_one(
        &found,
        &["problem ", "expired.pem: `expired` has expired 2d00h ago"],
    );
    assert_one(&found, &["warning ", "soon.pem: `soon` expires in 4d23h"]);
    assert_one(
        &found,
        &[
            "problem ",
            "later.pem: `later` is not valid yet, but in 2d23h",
        ],
    );
    assert_one(&found, &["problem ", "none.pem cannot be read"]);
    assert_one(&found, &["good ", "ca.pem: `the CA` is valid for"]);
    assert_eq!(found.len(), 5, "each file once: {found:#?}");
}

#[test]
fn the_certificate_of_a_dialled_server_is_examined() {
    let dir = tempfile::tempdir().expect("a directory");
    let ca = Ca::new("the CA");
    ca.write_own(&dir.path().join("ca.pem"));
    let server = CertRequest {
        name: "server",
        hosts: &["127.0.0.1"],
        days: (-1, 6),
        ..CertRequest::PLAIN
    };
    ca.write(dir.path(), server);
    let mut scheduler = baton(dir.path(), &["scheduler"])
        .args(PORTS)
        .args(["--tls-cert", "server.pem", "--tls-key", "server.key"])
        .spawn()
        .expect("it starts");
    let url = ready(&mut scheduler).expect("it is ready").url;
    let trusted = [("BATON_URL", &*url), ("BATON_CA", "ca.pem")];
    let found = examine(dir.path(), &[], &trusted, "certificates");
    assert_one(
        &found,
        &[
            "warning the server at 127.0.0.1:",
            "`server` expires in 5d23h",
        ],
    );
    // Whether or not the client trusts it.
    let found = examine(dir.path(), &[], &trusted[..1], "certificates");
    assert_one(&found, &["`server` expires in 5d23h"]);
    end(&mut scheduler, Signal::INT);
}

#[test]
fn the_settings_of_postgresql_are_examined() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Server::start();
    let url = server.database();
    let store = |url: &str| examine(dir.path(), &["--host"], &[("BATON_STORE", url)], "store");
    let found = store(&url);
    assert_one(&found, &["good ", "which keeps acknowledged commits"]);
    assert_eq!(found.len(), 1, "{found:#?}");
    let standby = server.standby();
    let there = url.replace(
        &server.socket().display().to_string(),
        &standby.socket().display().to_string(),
    );
    assert_one(&store(&there), &["problem ", "it is a standby"]);
    drop(standby);
    server.set(&[
        "synchronous_commit=off",
        "fsync=off",
        "full_page_writes=off",
        "autovacuum=off",
        "max_connections=15",
        "max_wal_senders=1",
    ]);
    let found = store(&url);
    assert_one(&found, &["warning ", "synchronous_commit is off"]);
    assert_one(&found, &["problem ", "fsync is off"]);
    assert_one(&found, &["problem ", "full_page_writes is off"]);
    assert_one(&found, &["warning ", "autovacuum is off"]);
    assert_one(
        &found,
        &["warning ", "of 12 connections are in use", "up to 16"],
    );
    let sql = "SELECT count(*) FROM pg_namespace WHERE nspname = 'baton'";
    let database = url.split(['/', '?']).nth(3).expect("a name");
    let made = baton_testing::postgres::run_sql(server.socket(), database, sql);
    assert_eq!(made, "0", "an examination creates nothing");
    server.stop();
    assert_one(&store(&url), &["problem ", "pg_hba.conf"]);
}

#[test]
fn the_file_of_a_store_is_examined() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut scheduler = baton(dir.path(), &["scheduler"])
        .args(PORTS)
        .spawn()
        .expect("it starts");
    ready(&mut scheduler).expect("it is ready");
    let store = || examine(dir.path(), &["--host"], &[], "store");
    assert_one(&store(), &["good ", "journal_mode WAL"]);
    end(&mut scheduler, Signal::INT);
    let file = dir.path().join(".baton/baton.db");
    let db = rusqlite::Connection::open(&file).expect("a database");
    db.pragma_update(None, "journal_mode", "DELETE")
        .expect("changed");
    drop(db);
    assert_one(&store(), &["warning ", "without a write-ahead log"]);
    fs::write(
        &file,
        "no database, but as long as the header of one".repeat(9),
    )
    .expect("written");
    assert_one(&store(), &["problem ", "not a SQLite database"]);
}

#[test]
fn a_data_directory_in_memory_is_named() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root, to mount a file system");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let script = format!(
        "mount -t tmpfs none {0} && {1} doctor --host --data {0}/data",
        dir.path().display(),
        baton_path().display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    let ended: Ended = command
        .env("BATON_CONFIG", "")
        .output()
        .expect("it ends")
        .into();
    assert!(ended.out.contains("is in memory (tmpfs)"), "{ended:?}");
}

#[test]
fn the_addresses_of_workers_are_dialled() {
    let dir = tempfile::tempdir().expect("a directory");
    let (_held, silent) = silent_port();
    let silent = format!("127.0.0.1:{silent}");
    let mut scheduler = baton(dir.path(), &["scheduler"])
        .args(PORTS)
        .spawn()
        .expect("it starts");
    let here = ready(&mut scheduler).expect("it is ready");
    let network = |scheduler: &str| {
        let variables = [("BATON_URL", &*here.url), ("BATON_SCHEDULER", scheduler)];
        examine(dir.path(), &[], &variables, "network")
    };
    let found = network(&format!("{silent},{}", here.workers));
    assert_one(
        &found,
        &["problem the worker of this host dials", &silent, "refused"],
    );
    assert_one(
        &found,
        &[
            "good the worker of this host dials",
            &here.workers,
            "answers",
        ],
    );
    assert_one(
        &found,
        &[
            "good workers are told",
            &here.workers,
            "other hosts cannot reach it",
        ],
    );
    assert_one(
        &network("@missing"),
        &["problem", "from missing", "write HOST:PORT"],
    );
    end(&mut scheduler, Signal::INT);

    let told = ["--advertise-workers", &silent, "--data", "other"];
    let mut scheduler = baton(dir.path(), &["scheduler"])
        .args(PORTS)
        .args(told)
        .spawn()
        .expect("it starts");
    let here = ready(&mut scheduler).expect("it is ready");
    let found = examine(dir.path(), &[], &[("BATON_URL", &here.url)], "network");
    assert_one(
        &found,
        &[
            "problem workers are told",
            &silent,
            "refused",
            "no scheduler listens there",
        ],
    );
    end(&mut scheduler, Signal::INT);
}

#[test]
fn library_entries_that_fit_no_worker_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let library = dir.path().join("library");
    fs::create_dir(&library).expect("created");
    let write = |name: &str, text: &str| fs::write(library.join(name), text).expect("written");
    write(
        "small.yaml",
        "task: small\nowner: lab\nparams: { n: { type: int } }\nrun: echo {{ params.n }}\n",
    );
    write(
        "huge.yaml",
        "task: huge\nowner: lab\nrun: \"true\"\nresources: { cpu: 4000 }\n",
    );
    write(
        "flow.yaml",
        "workflow: flow\nowner: lab\ntasks:\n  big:\n    run: \"true\"\n    resources: { cpu: 3000 }\n",
    );
    let mut up = baton(dir.path(), &["up", "--library", "library"])
        .args(PORTS)
        .spawn()
        .expect("it starts");
    let url = ready(&mut up).expect("it is ready").url;
    let client = |args: &[&str]| {
        let ended = baton(dir.path(), args).env("BATON_URL", &url).output();
        Ended::from(ended.expect("it ends"))
    };
    until("its worker is healthy", || {
        is_healthy(&client(&["workers", "--json"]).json(), "local")
    });
    let found = || examine(dir.path(), &[], &[("BATON_URL", &url)], "library");
    let before = found();
    assert_one(&before, &["good 1 of 3 entries fit a worker or a fleet"]);
    assert_one(&before, &["warning lab/huge can run nowhere", "4000 cores"]);
    assert_one(
        &before,
        &["warning lab/flow can run nowhere", "its task big"],
    );
    let add = [
        "fleet",
        "add",
        "wide",
        "--backend",
        "local",
        "--cpus",
        "3500",
        "--memory",
        "1GiB",
        "--max",
        "1",
    ];
    client(&add).good();
    let after = found();
    assert_one(&after, &["good 2 of 3 entries"]);
    assert_one(&after, &["warning lab/huge can run nowhere"]);
    end(&mut up, Signal::INT);
}
