//! What scripts do with submissions: ids in variables, output in order, repeated requests, variables.

use baton_testing::cluster::Cluster;
use baton_testing::command::Ended;

#[test]
fn standard_output_of_a_submission_is_its_id_alone() {
    let cluster = Cluster::with_worker();
    let array = cluster.run(&["submit", "--array", "1-3", "--", "true"]);
    assert_eq!(array.out, "i1..i3\n");
    assert_eq!(array.err, "baton: 3 instances\n");
    let after = [
        "submit",
        "--wait",
        "--after",
        array.out.trim(),
        "--",
        "true",
    ];
    assert_eq!(cluster.run(&after).good(), "i4\n");
}

#[test]
fn output_of_an_array_is_printed_in_its_order() {
    let cluster = Cluster::with_worker();
    std::fs::write(cluster.path("items"), "a\nb\nc\n").expect("written");
    let (items, go) = (cluster.path("items"), cluster.path("go"));
    // The first element ends after the last one.
    let script = format!(
        "case $BATON_ITEM in c) touch '{0}';; a) until [ -e '{0}' ]; do sleep 0.01; done; echo no b >&2;; esac; \
         echo item $BATON_ITEM",
        go.display()
    );
    let items = items.display().to_string();
    let each = [
        "submit",
        "--each-line",
        &items,
        "-j",
        "3",
        "--wait",
        "--logs",
    ];
    let printed = cluster.run(&[&each[..], &["--", &script]].concat());
    assert_eq!(printed.out, "item a\nitem b\nitem c\n", "{printed:?}");
    assert!(printed.err.contains("no b\n"), "{printed:?}");
    assert!(printed.err.contains("i1..i3 3 DONE"), "{printed:?}");

    let later = cluster.run(&["logs", "i1..i3", "--no-header"]);
    assert_eq!(later.out, "item a\nitem b\nitem c\n");
    let headed = cluster.run(&["logs", "i1..i2", "--stdout"]).good();
    assert_eq!(headed, "==> i1 <==\nitem a\n\n==> i2 <==\nitem b\n");

    let script = "echo to stderr >&2; exit 4";
    let failed = cluster.run(&["submit", "--wait", "--logs", "--", script]);
    assert_eq!((failed.code, &*failed.out), (Some(4), ""), "{failed:?}");
    assert_eq!(failed.err.matches("to stderr").count(), 1, "{failed:?}");
    // A line stands where the output stands that it announces.
    let parted = cluster.run(&["logs", "i3", "i4"]);
    assert_eq!(parted.out, "==> i3 <==\nitem c\n", "{parted:?}");
    assert_eq!(parted.err, "\n==> i4 <==\nto stderr\n", "{parted:?}");
}

#[test]
fn an_array_of_items_may_be_limited() {
    let cluster = Cluster::with_worker();
    std::fs::write(cluster.path("items"), "a\nb\nc\n").expect("written");
    let items = cluster.path("items").display().to_string();
    let hold = format!(
        "until [ -e '{}' ]; do sleep 0.01; done",
        cluster.path("go").display()
    );
    let each = ["submit", "--each-line", &items, "-j", "2", "--", &hold];
    cluster.run(&each).good();
    cluster.until_state("i2", "RUNNING");
    let reason = cluster.run(&["explain", "i3"]).good();
    assert!(reason.contains("2 of 2"), "{reason}");
    std::fs::write(cluster.path("go"), "").expect("written");
    cluster.until_state("i3", "DONE");
    for wrong in [
        &["submit", "-j", "2", "--", "true"][..],
        &["submit", "-j", "2", "--array", "1-4%3", "--", "true"],
        &["submit", "--logs", "--", "true"],
    ] {
        let refused = cluster.run(wrong);
        assert_eq!((refused.code, &*refused.out), (Some(2), ""), "{refused:?}");
    }
}

#[test]
fn a_repeated_submission_with_a_key_is_one() {
    let cluster = Cluster::with_worker();
    let submit = |command: &str| {
        let keyed = ["submit", "--idempotency-key", "k", "--", command];
        cluster.run(&keyed)
    };
    assert_eq!(submit("true").good(), "i1\n");
    assert_eq!(submit("true").good(), "i1\n");
    let other = submit("false");
    assert_eq!(other.code, Some(2), "{other:?}");
    assert!(other.err.contains("another request"), "{other:?}");

    let workflow = "workflow: w\ntasks: { a: { run: 'true' } }\n";
    std::fs::write(cluster.path("w.yaml"), workflow).expect("written");
    let file = cluster.path("w.yaml").display().to_string();
    let run = ["submit", "--idempotency-key", "w", &file];
    assert_eq!(cluster.run(&run).good(), "r1\n");
    assert_eq!(cluster.run(&run).good(), "r1\n");
}

#[test]
fn variables_of_the_submission_are_named() {
    let cluster = Cluster::with_worker();
    let run = |args: &[&str]| -> Ended {
        let mut command = cluster.command(args);
        command.env("STAGE", "test").env("SITE", "{{ eu }}");
        command.output().expect("it ends").into()
    };
    let script = "echo ${STAGE:-none} ${SITE:-none}";
    for (options, expected) in [
        (&[][..], "none none"),
        (&["-E", "STAGE"], "test none"),
        (
            &["-E", "STAGE=live", "--export", "STAGE,SITE"],
            "live {{ eu }}",
        ),
    ] {
        let line = [&["submit", "--wait", "--logs"], options, &["--", script]].concat();
        assert_eq!(run(&line).good().trim(), expected, "{options:?}");
    }
    let task = "task: t\nenv: { STAGE: file }\nrun: 'echo $STAGE $SITE'\n";
    std::fs::write(cluster.path("t.yaml"), task).expect("written");
    let file = cluster.path("t.yaml").display().to_string();
    let shown = run(&[
        "submit",
        "--wait",
        "--logs",
        "--export",
        "STAGE,SITE",
        &file,
    ]);
    assert_eq!(shown.good(), "file {{ eu }}\n");

    for (option, value, reason) in [
        ("-E", "MISSING", "-E MISSING: it is not set here"),
        (
            "--export",
            "MISSING",
            "--export MISSING: it is not set here",
        ),
        ("--export", "A=1", "-E NAME=VALUE"),
    ] {
        let refused = run(&["submit", option, value, "--", "true"]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(reason), "{refused:?}");
    }
}
