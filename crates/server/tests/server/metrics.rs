//! Metrics of a running server.

use std::collections::BTreeMap;

use reqwest::StatusCode;

use crate::rig::{Server, config, until};

/// The samples of a scrape, each of a family that was announced with its type before.
async fn scraped(server: &Server) -> BTreeMap<String, f64> {
    let got = server.get("/metrics").await;
    assert_eq!(got.status, StatusCode::OK);
    let media = got.headers["content-type"].to_str().expect("text");
    assert_eq!(media, "text/plain; version=0.0.4; charset=utf-8");
    let text = got.body.as_str().expect("text");
    let mut samples = BTreeMap::new();
    let mut family = "";
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("# TYPE ") {
            family = head.split(' ').next().expect("a name");
        } else if !line.starts_with("# HELP ") {
            assert!(line.starts_with(family), "{line} is not of {family}");
            let (name, value) = line.rsplit_once(' ').expect("name and value");
            let value = value.parse().expect("a number");
            assert_eq!(samples.insert(name.to_owned(), value), None, "{name} twice");
        }
    }
    samples
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_is_done_shows_in_the_metrics() {
    let dir = tempfile::tempdir().expect("a place");
    let server = Server::start(config(dir.path())).await;
    let _worker = server.worker("w1").await;
    let path = server.submit("true").await;
    server.until_state(&path, "DONE").await;
    let held = server.submit("hold").await;
    server.until_state(&held, "RUNNING").await;
    server.get("/instances/i99").await;
    server.get("/nothing/at/all").await;
    let healthy = async || server.get("/workers/w1").await.body["state"] == "HEALTHY";
    assert!(until(healthy).await);
    let samples = scraped(&server).await;
    let version = env!("CARGO_PKG_VERSION");
    for (name, value) in [
        (&*format!("baton_build_info{{version=\"{version}\"}}"), 1.0),
        ("baton_ready", 1.0),
        ("baton_leader_epoch", 1.0),
        ("baton_instances{state=\"DONE\"}", 1.0),
        ("baton_instances{state=\"RUNNING\"}", 1.0),
        ("baton_instances{state=\"FAILED\"}", 0.0),
        ("baton_leases_open", 1.0),
        ("baton_workers{state=\"HEALTHY\"}", 1.0),
        ("baton_workers_drained", 0.0),
        ("baton_facts_total{kind=\"instances-submitted\"}", 2.0),
        ("baton_facts_total{kind=\"lease-granted\"}", 2.0),
        ("baton_facts_total{kind=\"attempt-ended\"}", 1.0),
        ("baton_store_failures_total", 0.0),
        ("baton_http_refused_total{type=\"not-found\"}", 2.0),
        (
            "baton_http_requests_total{method=\"POST\",route=\"/instances/\",status=\"201\"}",
            2.0,
        ),
        (
            "baton_http_requests_total{method=\"GET\",route=\"/instances/{id}\",status=\"404\"}",
            1.0,
        ),
        (
            "baton_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"}",
            1.0,
        ),
    ] {
        assert_eq!(samples.get(name), Some(&value), "{name} in {samples:#?}");
    }
    let commits = samples["baton_commit_seconds_count"];
    assert!(commits >= 3.0, "{commits} commits");
    assert_eq!(samples["baton_commit_seconds_bucket{le=\"+Inf\"}"], commits);
    assert!(samples["baton_decisions_total"] >= 5.0);
    assert!(samples["baton_history_bytes"] > 0.0);
    server.stop().await;
}
