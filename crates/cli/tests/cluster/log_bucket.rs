//! Logs that the scheduler collects into a bucket of an S3-compatible store.

use std::process::{Command, Stdio};

use baton_testing::ca::{Ca, CertRequest};
use baton_testing::cluster::Cluster;
use baton_testing::command::{Ended, baton};
use baton_testing::postgres::database;
use baton_testing::s3::{ACCESS_KEY, BUCKET, SECRET_KEY, Server};
use baton_testing::until;

const CREDENTIALS: [(&str, &str); 2] = [
    ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
    ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
];

const COLLECTED: &str = "baton_logs_collected_total";
const FAILURES: &str = "baton_log_archive_failures_total";

fn submit(cluster: &Cluster, script: &str) {
    let submitted = cluster.run(&["submit", "--wait", "--", "sh", "-c", script]);
    assert_eq!(submitted.code, Some(0), "{submitted:?}");
}

#[test]
fn a_second_scheduler_reads_the_logs_that_the_first_has_collected_over_tls() {
    let dir = tempfile::tempdir().expect("a directory");
    let ca = Ca::new("a test");
    let files = ca.write(
        dir.path(),
        CertRequest {
            name: "s3",
            hosts: &["127.0.0.1"],
            ..CertRequest::PLAIN
        },
    );
    let bundle = ca.write_own(&dir.path().join("ca.pem"));
    let bundle = bundle.display().to_string();
    let server = Server::start(Some(files));
    let (url, bucket) = (database(), server.bucket(BUCKET));
    let scheduler = || {
        let options = ["--collect-logs", "1MiB", "--collect-logs-to", &bucket];
        let mut cluster = Cluster::idle(&[&["--store", &*url], &options[..]].concat());
        let [key, secret] = CREDENTIALS;
        cluster.set_variables(&[key, secret, ("AWS_CA_BUNDLE", &bundle)]);
        cluster.start_scheduler();
        cluster
    };
    let mut first = scheduler();
    first.start_worker("w", &[]);
    first.healthy("w");
    submit(&first, "echo out; echo err >&2");
    until("its logs are collected", || first.metric(COLLECTED) == 2);
    first.kill_worker("w");
    assert_eq!(first.run(&["logs", "i1", "--stderr"]).good(), "err\n");
    first.kill_scheduler();
    let second = scheduler();
    until("the second leads", || {
        second.run(&["logs", "i1", "--stdout"]).code == Some(0)
    });
    assert_eq!(second.run(&["logs", "i1", "--stdout"]).good(), "out\n");
    assert_eq!(second.run(&["logs", "i1", "--stderr"]).good(), "err\n");
    let log = [first.log("scheduler"), second.log("scheduler")].concat();
    assert!(!log.iter().any(|line| line.contains(SECRET_KEY)), "{log:?}");
}

#[test]
fn an_unreachable_bucket_delays_the_collection_and_the_oldest_logs_are_removed() {
    let mut server = Server::start(None);
    let bucket = server.bucket(BUCKET);
    server.kill();
    let mut cluster = Cluster::idle(&["--collect-logs", "4KiB", "--collect-logs-to", &bucket]);
    cluster.set_variables(&CREDENTIALS);
    cluster.start_scheduler();
    cluster.start_worker("w", &[]);
    cluster.healthy("w");
    // Random, so that compression does not help: the bucket has room for one of the two.
    submit(&cluster, "echo out; head -c 2000 /dev/urandom");
    until("it is missed", || cluster.metric(FAILURES) > 1);
    assert_eq!(cluster.metric(COLLECTED), 0);
    assert!(cluster.run(&["logs", "i1"]).good().starts_with("out\n"));
    server.run();
    until("it is collected", || cluster.metric(COLLECTED) == 2);
    submit(&cluster, "echo more; head -c 2500 /dev/urandom");
    until("all are collected", || cluster.metric(COLLECTED) == 4);
    cluster.kill_worker("w");
    until("the oldest is removed", || {
        cluster.run(&["logs", "i1", "--stdout"]).code == Some(3)
    });
    let second = cluster.run(&["logs", "i2", "--stdout"]).good();
    assert!(second.starts_with("more\n"), "{second}");
    server.kill();
    let refused = cluster.run(&["logs", "i1", "--stdout"]);
    assert!(refused.err.contains("is unreachable"), "{refused:?}");
    assert!(!refused.err.contains("X-Amz"), "{refused:?}");
}

#[test]
fn a_bucket_that_is_missing_or_denied_is_an_error_at_the_start() {
    let server = Server::start(None);
    let dir = tempfile::tempdir().expect("a directory");
    let start = |bucket: &str, variables: &[(&str, &str)]| -> Ended {
        let url = server.bucket(bucket);
        let args = ["scheduler", "--listen", "127.0.0.1:0", "--worker-listen"];
        let rest = ["127.0.0.1:0", "--data", "data", "--collect-logs", "1GiB"];
        let mut command: Command = baton(dir.path(), &[&args[..], &rest].concat());
        command.args(["--collect-logs-to", &url]);
        command.env("HOME", dir.path()).envs(variables.to_vec());
        command
            .stdin(Stdio::null())
            .output()
            .expect("it ends")
            .into()
    };
    let [key, secret] = CREDENTIALS;
    for (bucket, variables, expected) in [
        ("other", &[key, secret][..], "there is no bucket other"),
        (
            BUCKET,
            &[key, ("AWS_SECRET_ACCESS_KEY", "wrong")],
            "denies access to bucket logs (SignatureDoesNotMatch)",
        ),
        (
            BUCKET,
            &[("AWS_ACCESS_KEY_ID", "wrong"), secret],
            "denies access to bucket logs (InvalidAccessKeyId)",
        ),
        (BUCKET, &[], "no credentials: set AWS_ACCESS_KEY_ID"),
    ] {
        let ended = start(bucket, variables);
        assert_ne!(ended.code, Some(0), "{ended:?}");
        assert!(ended.err.contains(expected), "{expected}: {ended:?}");
        let shown = [ended.out, ended.err].concat();
        assert!(
            !shown.contains(SECRET_KEY) && !shown.contains("X-Amz"),
            "{shown}"
        );
    }
}
