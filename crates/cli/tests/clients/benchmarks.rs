//! `baton bench`: the processes that it measures, and `--store`: SQLite and PostgreSQL in turns.

use std::path::Path;

use baton_testing::command::run;
use baton_testing::postgres::{database, run_sql};
use serde_json::Value;

/// The database of a URL, and the directory of its server's socket.
fn parts(url: &str) -> (&str, &Path) {
    let rest = url.strip_prefix("postgres:///").expect("a local URL");
    let (name, options) = rest.split_once("?host=").expect("a socket");
    let (socket, _) = options.split_once('&').expect("a user");
    (name, Path::new(socket))
}

fn sql(url: &str, statement: &str) -> String {
    let (name, socket) = parts(url);
    run_sql(socket, name, statement)
}

const SCHEMAS: &str = "SELECT count(*) FROM pg_namespace WHERE nspname = 'baton'";

fn figures(compared: &Value) -> Vec<&str> {
    let figures = compared["figures"].as_array().expect("figures");
    for figure in figures {
        for field in ["sqlite", "postgres", "relative_speed"] {
            assert!(figure[field].as_f64().expect("a number") >= 0.0, "{figure}");
        }
        let rounds = figure["relative_speeds"].as_array().expect("an array");
        assert_eq!(rounds.len(), 2, "{figure}");
    }
    let names = figures
        .iter()
        .map(|it| it["name"].as_str().expect("a name"));
    names.collect()
}

#[test]
fn benchmarks_compare_the_stores_and_leave_nothing_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let (here, url) = (dir.path(), database());
    let compare = ["--rounds", "2", "--json", "--store", &url];
    let bench = |args: &[&str]| run(here, &[&["bench"], args, &compare].concat()).json();
    let throughput = bench(&["throughput", "-n", "20"]);
    assert_eq!(figures(&throughput)[0], "processes");
    assert_eq!(figures(&bench(&["submit", "-n", "20"])), ["20 accepted"]);
    let recovery = bench(&["recovery", "-n", "20"]);
    assert_eq!(figures(&recovery), ["ready with 20 instances"]);
    let dag = bench(&["dag", "-n", "9", "--chain", "2"]);
    let names = figures(&dag);
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(sql(&url, SCHEMAS), "0");
}

#[test]
fn a_benchmark_refuses_a_database_with_a_store_and_replaces_what_a_killed_one_left() {
    let dir = tempfile::tempdir().expect("a directory");
    let (here, url) = (dir.path(), database());
    let bench = [
        "bench", "submit", "-n", "5", "--rounds", "1", "--store", &url,
    ];
    sql(
        &url,
        "CREATE SCHEMA baton; CREATE TABLE baton.precious (id int)",
    );
    let refused = run(here, &bench);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("has a store already"), "{refused:?}");
    assert_eq!(sql(&url, "SELECT count(*) FROM baton.precious"), "0");
    let mark = "COMMENT ON SCHEMA baton IS 'scratch of baton bench'";
    sql(&url, mark);
    let compared = run(here, &bench).good();
    assert!(compared.contains("PostgreSQL"), "{compared}");
    assert_eq!(sql(&url, SCHEMAS), "0");
    let not_a_url = ["bench", "submit", "--store", "sqlite"];
    let usage = run(here, &not_a_url);
    assert_eq!(usage.code, Some(2), "{usage:?}");
}

#[test]
fn a_benchmark_measures_every_process_of_its_cluster() {
    let dir = tempfile::tempdir().expect("a directory");
    let bench = ["bench", "throughput", "-n", "500", "--without-hyperqueue"];
    let output = run(dir.path(), &[&bench[..], &["--json"]].concat());
    assert_eq!(output.err, "", "its cluster ends in order");
    let measured = output.json();
    // A spawn takes a coordinator more than the 20 µs that its clock needs to tick once.
    for process in ["scheduler_us", "agent_us", "coordinator_us"] {
        let time = measured[process].as_f64().expect("a number");
        assert!(time > 0.0, "{process}: {measured}");
    }
    assert!(measured["reaper_us"].is_f64(), "{measured}");
}
