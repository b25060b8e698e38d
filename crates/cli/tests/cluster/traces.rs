//! Traces end to end: a receiver of OTLP in JSON, programs that submit within a trace of their own, and
//! schedulers that are killed before the receiver has answered.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::Ordering;

use baton_testing::cluster::Cluster;
use baton_testing::until;
use serde_json::Value;

use crate::receiver::{Receiver, Request};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SUBMITTER: &str = "00f067aa0ba902b7";

/// A span as it was received.
#[derive(Clone, Debug, PartialEq)]
struct Span {
    trace: String,
    id: String,
    parent: Option<String>,
    name: String,
    attributes: BTreeMap<String, String>,
    /// The message of a failure.
    error: Option<String>,
}

impl Span {
    fn read(span: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let attributes = span["attributes"].as_array().expect("a list").iter();
        let start: u64 = text(&span["startTimeUnixNano"])
            .expect("digits")
            .parse()
            .expect("it");
        let end: u64 = text(&span["endTimeUnixNano"])
            .expect("digits")
            .parse()
            .expect("it");
        assert!(start <= end && start > 1_600_000_000_000_000_000, "{span}");
        Self {
            trace: text(&span["traceId"]).expect("it has one"),
            id: text(&span["spanId"]).expect("it has one"),
            parent: text(&span["parentSpanId"]),
            name: text(&span["name"]).expect("it has one"),
            attributes: attributes
                .map(|it| {
                    let value = it["value"].as_object().expect("one").values().next();
                    let value = value.and_then(Value::as_str).expect("text");
                    (
                        it["key"].as_str().expect("a name").to_owned(),
                        value.to_owned(),
                    )
                })
                .collect(),
            error: (span["status"]["code"] == 2)
                .then(|| text(&span["status"]["message"]))
                .flatten(),
        }
    }

    fn get(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

fn spans_of(request: &Request) -> Vec<Span> {
    assert!(request.head.starts_with("post /v1/traces "), "{request:?}");
    let spans = &request.body["resourceSpans"][0]["scopeSpans"][0]["spans"];
    spans
        .as_array()
        .expect("a list")
        .iter()
        .map(Span::read)
        .collect()
}

/// The spans that the receiver has accepted, without repetitions.
fn received(receiver: &Receiver) -> Vec<Span> {
    let all = receiver.all();
    let accepted = all.iter().filter(|request| request.is_acknowledged);
    let spans = accepted.flat_map(spans_of);
    let by_id: BTreeMap<(String, String), Span> = spans
        .map(|span| ((span.trace.clone(), span.id.clone()), span))
        .collect();
    by_id.into_values().collect()
}

/// The span with this name and this value of an attribute, when it was received.
fn find(receiver: &Receiver, name: &str, attribute: (&str, &str)) -> Span {
    let mut found = None;
    until(&format!("{name} {attribute:?} is received"), || {
        let spans = received(receiver).into_iter();
        let mut spans = spans.filter(|it| it.name == name && it.get(attribute.0) == attribute.1);
        found = spans.next();
        found.is_some()
    });
    found.expect("it was found")
}

fn children(receiver: &Receiver, parent: &Span) -> Vec<Span> {
    let spans = received(receiver).into_iter();
    let mut children: Vec<Span> = spans
        .filter(|it| it.trace == parent.trace && it.parent.as_ref() == Some(&parent.id))
        .collect();
    children.sort_by_key(|it| (it.get("baton.attempt").to_owned(), it.name.clone()));
    children
}

fn cluster(receiver: &Receiver, options: &[&str]) -> Cluster {
    let endpoint = format!("http://127.0.0.1:{}", receiver.port);
    let mut all = vec!["--trace-endpoint", &endpoint];
    all.extend(options);
    with_worker(Cluster::new(&all))
}

fn with_worker(mut cluster: Cluster) -> Cluster {
    cluster.start_worker("w1", &["--resources", "cpu=4,memory=4GiB"]);
    cluster.healthy("w1");
    cluster
}

/// Runs a command of a program whose own span is this.
fn within(cluster: &Cluster, context: &str, args: &[&str]) -> Option<i32> {
    let mut command = cluster.command(args);
    let ended = command
        .env("TRACEPARENT", context)
        .output()
        .expect("it ends");
    ended.status.code()
}

/// The words that an attempt has printed.
fn printed(cluster: &Cluster, args: &[&str]) -> String {
    cluster.run(args).good().trim().to_owned()
}

#[test]
fn a_retried_task_has_spans_of_each_wait_and_attempt() {
    let receiver = Receiver::start(true);
    let dir = tempfile::tempdir().expect("a directory");
    let headers = dir.path().join("headers");
    fs::write(&headers, "X-Team: Lab\n").expect("written");
    let headers = headers.display().to_string();
    let cluster = cluster(&receiver, &["--trace-headers-file", &headers]);
    let script = "echo \"$TRACEPARENT\"; test $BATON_ATTEMPT = 2";
    let args = [
        "submit",
        "--name",
        "flaky",
        "--retries",
        "1",
        "--wait",
        "--",
        "sh",
        "-c",
        script,
    ];
    let context = format!("00-{TRACE}-{SUBMITTER}-01");
    assert_eq!(within(&cluster, &context, &args), Some(0));

    let root = find(&receiver, "default/flaky", ("baton.instance", "i1"));
    assert_eq!(root.trace, TRACE);
    assert_eq!(root.parent.as_deref(), Some(SUBMITTER));
    assert_eq!((root.get("baton.state"), &root.error), ("DONE", &None));
    assert_eq!(root.get("baton.owner"), "default");
    let children = children(&receiver, &root);
    let named = |it: &Span| (it.name.clone(), it.get("baton.attempt").to_owned());
    let names: Vec<(String, String)> = children.iter().map(named).collect();
    let names: Vec<(&str, &str)> = names.iter().map(|(a, b)| (&**a, &**b)).collect();
    let expected = [
        ("attempt", "1"),
        ("wait", "1"),
        ("attempt", "2"),
        ("wait", "2"),
    ];
    assert_eq!(names, expected);
    let (failed, done) = (&children[0], &children[2]);
    assert_eq!(failed.error.as_deref(), Some("exit 1"));
    assert_eq!(
        (failed.get("baton.exit_code"), done.get("baton.exit_code")),
        ("1", "0")
    );
    assert_eq!((failed.get("baton.worker"), &done.error), ("w1", &None));
    // The spans of its processes are children of those of its attempts.
    for (attempt, span) in [("1", failed), ("2", done)] {
        let out = printed(&cluster, &["logs", "i1", "--attempt", attempt]);
        assert_eq!(out, format!("00-{TRACE}-{}-01", span.id));
    }
    let all = receiver.all();
    assert!(
        all.iter().all(|it| it.head.contains("x-team: lab\r\n")),
        "{all:?}"
    );
    drop(all);
    assert!(cluster.metric("baton_trace_spans_sent_total") >= 5);
}

#[test]
fn elements_have_traces_of_their_own_and_items_that_of_their_run() {
    let receiver = Receiver::start(true);
    let cluster = cluster(&receiver, &[]);
    let args = [
        "submit",
        "--name",
        "sweep",
        "--array",
        "1-2",
        "--wait",
        "--",
        "sh",
        "-c",
        "test -n \"$TRACEPARENT\"",
    ];
    // A malformed context is ignored.
    assert_eq!(within(&cluster, "00-xyz", &args), Some(0));
    let elements = ["i1", "i2"].map(|id| find(&receiver, "default/sweep", ("baton.instance", id)));
    assert_ne!(elements[0].trace, elements[1].trace);
    for (index, element) in ["1", "2"].iter().zip(&elements) {
        assert_eq!(element.parent, None);
        assert_eq!(element.get("baton.array_index"), *index);
        assert_eq!(children(&receiver, element).len(), 2);
    }

    let file = "workflow: etl\ntasks:\n  extract: { run: 'true' }\n  load: { run: 'exit 4', after: extract }\n";
    fs::write(cluster.path("etl.yaml"), file).expect("written");
    let context = format!("00-{TRACE}-{SUBMITTER}-01");
    let args = ["submit", "etl.yaml", "--wait"];
    assert_eq!(within(&cluster, &context, &args), Some(1));
    let run = find(&receiver, "default/etl", ("baton.run", "r1"));
    assert_eq!(
        (&*run.trace, run.parent.as_deref()),
        (TRACE, Some(SUBMITTER))
    );
    assert_eq!(run.get("baton.state"), "FAILED");
    assert!(run.error.is_some(), "{run:?}");
    let items = children(&receiver, &run);
    let states: BTreeMap<&str, &str> = items
        .iter()
        .map(|it| (it.name.as_str(), it.get("baton.state")))
        .collect();
    let expected = [("default/extract", "DONE"), ("default/load", "FAILED")];
    assert_eq!(states, expected.into());
    let failed = items.iter().find(|it| it.name == "default/load");
    let failed = failed.expect("it is there");
    assert_eq!(failed.error.as_deref(), Some("exit 4"));
    assert_eq!(children(&receiver, failed).len(), 2);

    // A resumed run stays in its trace, with a span of its own.
    cluster.run(&["retry", "r1", "--wait"]);
    let again = find(&receiver, "default/etl", ("baton.generation", "2"));
    assert_eq!(
        (&*again.trace, again.parent.as_deref()),
        (TRACE, Some(SUBMITTER))
    );
    assert_ne!(again.id, run.id);
    assert_eq!(children(&receiver, &again).len(), 1);
}

#[test]
fn a_leader_killed_before_the_answer_has_a_successor_that_repeats_the_spans() {
    let receiver = Receiver::start(true);
    receiver.is_silent.store(true, Ordering::SeqCst);
    let mut cluster = cluster(&receiver, &[]);
    let args = ["submit", "--name", "once", "--wait", "--", "true"];
    cluster.run(&args).good();
    until("they were sent", || receiver.all().len() == 1);
    cluster.kill_scheduler();
    receiver.is_silent.store(false, Ordering::SeqCst);
    cluster.start_scheduler();
    until("they are sent again", || receiver.all().len() == 2);
    let all = receiver.all();
    let (first, second) = (spans_of(&all[0]), spans_of(&all[1]));
    assert_eq!(first.len(), 3);
    assert_eq!(first, second);
}

#[test]
fn a_receiver_that_is_away_delays_spans_and_no_work() {
    let receiver = Receiver::start(false);
    let cluster = cluster(&receiver, &[]);
    for name in ["a", "b"] {
        cluster
            .run(&["submit", "--name", name, "--wait", "--", "true"])
            .good();
    }
    until("it was tried", || receiver.all().len() > 1);
    assert!(cluster.metric("baton_trace_exports_failed_total") > 0);
    let log = cluster.log("scheduler");
    let complaints = log
        .iter()
        .filter(|line| line.contains("cannot send traces"));
    assert_eq!(complaints.count(), 1, "once: {log:?}");
    assert_eq!(received(&receiver), []);
    receiver.is_up.store(true, Ordering::SeqCst);
    for (name, id) in [("default/a", "i1"), ("default/b", "i2")] {
        find(&receiver, name, ("baton.instance", id));
    }
    until("that is logged", || {
        let log = cluster.log("scheduler");
        log.iter()
            .any(|line| line.contains("the receiver of traces works again"))
    });
}

#[test]
fn a_ratio_leaves_out_traces_but_not_those_of_submitters() {
    let receiver = Receiver::start(true);
    let cluster = cluster(&receiver, &["--trace-ratio", "0"]);
    let script = "echo \"$TRACEPARENT\"";
    let args = ["submit", "--name", "a", "--wait", "--", "sh", "-c", script];
    cluster.run(&args).good();
    let out = printed(&cluster, &["logs", "i1"]);
    assert!(out.starts_with("00-") && out.ends_with("-00"), "{out}");
    for flags in ["00", "01"] {
        let context = format!("00-{TRACE}-{SUBMITTER}-{flags}");
        assert_eq!(within(&cluster, &context, &args), Some(0));
    }
    find(&receiver, "default/a", ("baton.instance", "i3"));
    let spans = received(&receiver);
    assert!(
        spans.iter().all(|it| it.get("baton.instance") == "i3"),
        "{spans:?}"
    );
}

#[test]
fn without_a_receiver_the_context_of_the_submitter_is_passed_on() {
    let cluster = with_worker(Cluster::new(&[]));
    let script = "echo \"<$TRACEPARENT>\"";
    let args = ["submit", "--name", "a", "--wait", "--", "sh", "-c", script];
    let context = format!("00-{TRACE}-{SUBMITTER}-01");
    assert_eq!(within(&cluster, &context, &args), Some(0));
    cluster.run(&args).good();
    assert_eq!(printed(&cluster, &["logs", "i1"]), format!("<{context}>"));
    assert_eq!(printed(&cluster, &["logs", "i2"]), "<>");
}

#[test]
fn options_of_traces_are_checked() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = |args: &[&str]| {
        let mut all = vec!["scheduler", "--data", "d"];
        all.extend(args);
        baton_testing::command::run(dir.path(), &all)
    };
    fs::write(dir.path().join("headers"), "token\n").expect("written");
    let endpoint = ["--trace-endpoint", "http://127.0.0.1:4318"];
    for (args, error) in [
        (&["--trace-endpoint", "h:4318"][..], "write a URL such as"),
        (
            &["--trace-endpoint", "http://a:b@h"],
            "--trace-headers-file",
        ),
        (&["--trace-ratio", "0.5"], "--trace-endpoint"),
        (
            &[&endpoint[..], &["--trace-ratio", "2"]].concat(),
            "from 0 to 1",
        ),
        (
            &[&endpoint[..], &["--trace-headers-file", "headers"]].concat(),
            "line 1 is no header",
        ),
    ] {
        let ended = run(args);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains(error), "{ended:?}");
    }
}
