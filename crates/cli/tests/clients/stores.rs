//! `baton store`: checks, backups and copies, and a scheduler on PostgreSQL.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use baton_testing::cluster::Cluster;
use baton_testing::command::run;
use baton_testing::postgres::database;
use serde_json::Value;

/// A data directory with some work in its store, whose scheduler is stopped.
fn with_work() -> (Cluster, String) {
    let mut cluster = Cluster::with_worker();
    let submit = ["submit", "--wait", "--array", "1-20", "--", "true"];
    assert!(cluster.run(&submit).good().starts_with("i1..i20"));
    cluster.run(&[]);
    cluster.run(&["submit", "--cpu", "64", "--", "true"]).good();
    cluster.kill_scheduler();
    let data = cluster.path("data").display().to_string();
    (cluster, data)
}

fn tables(json: &Value) -> &Vec<Value> {
    json["tables"].as_array().expect("tables")
}

#[test]
fn a_store_is_checked_backed_up_and_restored() {
    let (mut cluster, data) = with_work();
    let here = cluster.path("");
    let checked = run(&here, &["store", "check", "--data", &data, "--json"]).json();
    assert_eq!(
        checked["contradictions"],
        serde_json::json!([]),
        "{checked}"
    );
    assert_eq!(checked["replayed"], true, "{checked}");
    assert_eq!(checked["instances"], 21, "{checked}");
    // Online.
    cluster.start_scheduler();
    let backup = ["store", "backup", "b.db", "--data", &data, "--json"];
    let saved = run(&here, &backup).json();
    let mode = fs::metadata(here.join("b.db"))
        .expect("a backup")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!here.join("b.db-wal").exists());
    let again = run(&here, &backup);
    assert!(
        again.code == Some(1) && again.err.contains("name a new one"),
        "{again:?}"
    );
    let used = run(&here, &["store", "check", "--data", &data]);
    assert!(used.err.contains("another scheduler is using"), "{used:?}");
    cluster.run(&["submit", "--cpu", "64", "--", "true"]).good();
    cluster.kill_scheduler();
    let restore = ["store", "restore", "b.db", "--data", &data];
    let kept = run(&here, &restore);
    assert!(
        kept.code == Some(1) && kept.err.contains("--replace"),
        "{kept:?}"
    );
    let restored = run(&here, &[&restore[..], &["--replace", "--json"]].concat());
    let restored = restored.json();
    assert_eq!(tables(&restored), tables(&saved));
    assert!(Path::new(&data).join("baton.db.replaced-1").exists());
    let checked = run(&here, &["store", "check", "--data", &data]).good();
    assert!(checked.contains("21 instances"), "{checked}");
    // The scheduler sees that it is a copy, and goes on.
    cluster.start_scheduler();
    cluster.run(&["show", "i21"]).good();
}

#[test]
fn a_store_that_contradicts_itself_is_found_out() {
    let (cluster, data) = with_work();
    let here = cluster.path("");
    let db = rusqlite::Connection::open(Path::new(&data).join("baton.db")).expect("opens");
    db.execute("UPDATE tally SET instances = 7 WHERE state = 'DONE'", [])
        .expect("damaged");
    db.execute(
        "DELETE FROM history WHERE instance = 3 AND seq = (SELECT changed_seq FROM instance \
                WHERE id = 3)",
        [],
    )
    .expect("damaged");
    drop(db);
    let checked = run(&here, &["store", "check", "--data", &data]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    for sentence in [
        "20 instances are DONE, and 7 are counted",
        "the last fact about instance i3 is missing from the history",
    ] {
        assert!(checked.out.contains(sentence), "{checked:?}");
    }
    assert!(checked.err.contains("restore a backup"), "{checked:?}");
}

#[test]
fn a_store_moves_to_postgresql_and_back_and_schedulers_go_on_with_it() {
    let (cluster, data) = with_work();
    let here = cluster.path("");
    let url = database();
    let there = run(&here, &["store", "copy", &data, &url, "--json"]).json();
    let not_empty = run(&here, &["store", "copy", &data, &url]);
    assert!(not_empty.err.contains("is not empty"), "{not_empty:?}");
    let checked = run(&here, &["store", "check", "--store", &url]).good();
    assert!(checked.contains("adds up to"), "{checked}");
    let mut moved = Cluster::new(&["--store", &url]);
    moved.start_worker("w", &[]);
    moved.healthy("w");
    assert_eq!(moved.state("i20"), "DONE");
    assert_eq!(moved.state("i21"), "QUEUED");
    let used = run(&here, &["store", "check", "--store", &url]);
    assert!(used.err.contains("stop all schedulers first"), "{used:?}");
    assert!(
        moved
            .run(&["submit", "--wait", "--", "true"])
            .good()
            .starts_with("i22")
    );
    let backup = ["store", "backup", "b.db", "--store", &url, "--json"];
    let saved = run(&here, &backup).json();
    moved.kill_scheduler();
    let back = run(&here, &["store", "copy", &url, "back", "--json"]);
    let told = "places nothing for a lease time";
    assert!(back.err.contains(told), "{back:?}");
    let back = back.json();
    assert_eq!(tables(&saved).len(), tables(&back).len());
    let rows = |json: &Value, table: &str| {
        let found = tables(json).iter().find(|it| it["table"] == table);
        found.expect("a table")["rows"].as_u64().expect("a number")
    };
    assert_eq!(rows(&back, "instance"), rows(&there, "instance") + 1);
    let checked = run(&here, &["store", "check", "--data", "back"]).good();
    assert!(checked.contains("22 instances"), "{checked}");
}
