//! Instances of task files, and tasks as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use baton_files::{Binding, Errors, Format, Kind, TaskFile, from_json, load, parse};
use baton_model::placement::{Constraint, Rule};
use baton_model::spec::{Exclusive, InstanceSpec, RetryBackoff, RetryBudget, Scale, Uri, Work};
use baton_model::time::Millis;
use serde_json::json;

fn yaml(text: &str) -> TaskFile {
    parse(text, Format::Yaml, "task.yaml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn instance(text: &str) -> InstanceSpec {
    yaml(text)
        .instance(&Binding::default())
        .unwrap_or_else(|errors| panic!("{errors}"))
}

fn full(extension: &str) -> TaskFile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/full");
    load(path.with_extension(extension)).unwrap_or_else(|errors| panic!("{errors}"))
}

fn full_binding() -> Binding {
    Binding {
        ports: BTreeMap::from([("http".to_owned(), 8080)]),
        task_id: Some("full-1".to_owned()),
        ..Binding::default()
    }
}

fn strings(values: &[&str]) -> BTreeSet<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

#[test]
fn a_plain_command_gets_every_default_of_the_scheduler() {
    let spec = instance("task: hello\nrun: [echo, hello]\n");
    assert_eq!(
        (&*spec.name, &*spec.owner),
        ("hello", baton_files::DEFAULT_OWNER)
    );
    let argv = ["echo", "hello"].map(str::to_owned).to_vec();
    assert_eq!(spec.work, Work::Command(argv));
    assert_eq!(spec.request.resources.cpu_milli, 1_000);
    assert_eq!(spec.request.resources.memory_min, 0);
    assert_eq!(
        spec.retry,
        RetryBudget {
            backoff: RetryBackoff {
                first: Millis::from_secs(1),
                max: Millis::from_secs(60),
            },
            ..RetryBudget::default()
        }
    );
    assert_eq!((spec.priority, spec.timeout, spec.array), (0, None, None));
    assert_eq!(spec.exclusive, Exclusive::Timed);
}

#[test]
fn a_string_runs_in_a_shell_and_keeps_its_variables() {
    let spec = instance("task: t\nparams: { day: 1.10 }\nenv: { A: b }\nrun: echo $A | wc\n");
    let argv = ["/bin/bash", "-c", "echo $A | wc"].map(str::to_owned);
    assert_eq!(spec.work, Work::Command(argv.to_vec()));
    let env = [("A", "b"), ("BATON_PARAM_DAY", "1.10")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(spec.env, BTreeMap::from(env));
}

#[test]
fn whatever_needs_a_runner_stays_a_task() {
    for text in [
        "task: t\nrun: x\nmax_failures: 2\n",
        "task: t\nrun: x\nfinalization_wait: 1s\n",
        "processes: [{ name: a, run: x, max_failures: 3 }]\n",
        "processes: [{ name: a, run: x, cwd: below }]\n",
        "processes: [{ name: a, run: x, daemon: true, max_failures: 0 }]\n",
        "processes: [{ name: a, run: x, min_duration: 1s }]\n",
        "processes: [{ name: a, run: x, ready: { tcp: 80 } }]\n",
        "processes: [{ name: a, run: x, log: { destination: none } }]\n",
        "processes: [{ name: a, run: x, timeout: 1s }]\n",
        "processes: [{ name: a, run: x }, { name: b, run: y }]\n",
    ] {
        let spec = instance(text);
        let Work::Task(task) = &spec.work else {
            panic!("{text} became {:?}", spec.work);
        };
        assert_eq!(**task, yaml(text).bind(&Binding::default()).expect("bound"));
        assert!(spec.env.is_empty(), "its processes have them: {text}");
    }
    assert!(matches!(
        instance("processes: [{ name: a, run: x, env: { B: c } }]\n").work,
        Work::Command(_)
    ));
}

#[test]
fn scaling_is_a_factor_a_list_or_a_factor_with_a_cap() {
    let scale = |text: &str| {
        instance(&format!("task: t\nrun: x\nretry: {{ {text} }}\n"))
            .retry
            .scale
    };
    let plain = Scale::default();
    assert_eq!(scale("attempts: 2"), plain);
    assert_eq!(
        scale("scale: { memory: 1.5, timeout: 2 }"),
        Scale {
            memory_percent: 150,
            timeout_percent: 200,
            ..plain.clone()
        }
    );
    assert_eq!(
        scale("scale: { memory: [1GiB, 1GiB, 8GiB], timeout: { factor: 3, cap: 4h } }"),
        Scale {
            memory_steps: vec![1 << 30, 1 << 30, 8 << 30],
            timeout_percent: 300,
            timeout_cap: Some(Millis::from_secs(14_400)),
            ..plain
        }
    );
}

#[test]
fn policies_become_fields_of_the_instance() {
    let spec = full("yaml")
        .instance(&full_binding())
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(spec.owner, "analytics");
    assert_eq!(spec.user.as_deref(), Some("www-data"));
    assert_eq!(spec.request.resources.cpu_milli, 1_500);
    assert_eq!(spec.request.resources.named["db/orders"], 2);
    assert_eq!(spec.timeout, Some(Millis::from_secs(3_600)));
    assert_eq!(spec.exclusive, Exclusive::Strict);
    assert_eq!(spec.priority, -7);
    assert_eq!(spec.tags, ["gpu", "nightly"]);
    assert_eq!((spec.retry.failures_max, spec.retry.losses_max), (2, 5));
    assert_eq!(spec.retry.backoff.first, Millis::from_secs(10));
    assert_eq!(spec.retry.backoff.max, Millis::from_secs(300));
    assert_eq!(
        spec.retry.scale,
        Scale {
            memory_percent: 150,
            memory_cap: Some(8 << 30),
            timeout_steps: [7_200, 14_400].map(Millis::from_secs).to_vec(),
            ..Scale::default()
        }
    );
    assert_eq!(spec.retry.fallback.len(), 2);
    assert_eq!(spec.retry.fallback[0][0].label, "pool");
    let rule = |label: &str, rule| Constraint {
        label: label.to_owned(),
        rule,
    };
    assert_eq!(
        spec.request.constraints,
        [
            rule("disk", Rule::OneOf(strings(&["nvme", "ssd"]))),
            rule("gen", Rule::OneOf(strings(&["1.10"]))),
            rule("gpu/model", Rule::Present),
            rule("rack", Rule::NoneOf(strings(&["r1"]))),
            rule("shared", Rule::Absent),
            rule("zone", Rule::NoneOf(strings(&["eu", "us"]))),
        ]
    );
    assert_eq!(
        spec.uris,
        [
            Uri {
                from: "http://host/a/data.csv?day=1#top".to_owned(),
                name: "data.csv".to_owned(),
                sha256: None,
                executable: false,
                unpack: false,
                size_max: None,
            },
            Uri {
                from: "file:///srv/tool-1.2".to_owned(),
                name: "tool".to_owned(),
                sha256: Some("ab".repeat(32)),
                executable: true,
                unpack: false,
                size_max: None,
            },
        ]
    );
}

#[test]
fn an_archive_is_unpacked_under_its_name_without_the_suffix() {
    let names = |uris: &str| {
        let spec = instance(&format!("task: t\nrun: x\nuris: {uris}\n"));
        let uris = spec.uris.into_iter();
        uris.map(|uri| (uri.name, uri.unpack, uri.size_max))
            .collect::<Vec<_>>()
    };
    let of = |name: &str, size_max| vec![(name.to_owned(), true, size_max)];
    for (file, name) in [
        ("model-1.2.tar.gz", "model-1.2"),
        ("Data.ZIP", "Data"),
        ("rows.csv.zst", "rows.csv"),
        ("plain", "plain"),
    ] {
        let uris = format!("[{{ from: 'https://host/{file}', unpack: true }}]");
        assert_eq!(names(&uris), of(name, None));
    }
    let named = "[{ from: 'https://h/x.tgz', unpack: true, name: y.tgz, max_size: 20GiB }]";
    assert_eq!(names(named), of("y.tgz", Some(20 << 30)));
}

#[test]
fn zero_cpu_can_be_requested() {
    let spec = instance("task: t\nrun: x\nresources: { cpu: 0, memory: 1GiB }\n");
    assert_eq!(spec.request.resources.cpu_milli, 0);
    let spec = instance("task: t\nrun: x\nresources: { memory: 1GiB }\n");
    assert_eq!(spec.request.resources.cpu_milli, 1_000);
}

#[test]
fn a_task_survives_a_round_trip_through_json() {
    for extension in ["yaml", "toml", "json"] {
        let file = full(extension);
        let sent = serde_json::to_string(&file.to_json()).expect("plain data");
        let arrived: serde_json::Value = serde_json::from_str(&sent).expect("it is JSON");
        let again = from_json(&arrived, "task").unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(again.params, file.params, "{extension}");
        assert_eq!(
            again.instance(&full_binding()),
            file.instance(&full_binding()),
            "{extension}"
        );
        assert_eq!(again.to_json(), file.to_json());
    }
}

#[test]
fn a_resource_named_like_a_string_field_stays_a_number() {
    let file = yaml("task: t\nrun: x\nresources: { run: 3, cpu: 0.50 }\n");
    assert_eq!(file.to_json()["resources"], json!({ "run": 3, "cpu": 0.5 }));
    assert!(from_json(&file.to_json(), "task").is_ok());
}

#[test]
fn problems_of_json_name_their_field() {
    let errors = |value: serde_json::Value| -> Errors {
        from_json(&value, "task").expect_err("something is wrong with it")
    };
    let found = errors(json!({ "task": "t", "rum": "x", "timeout": 5 }));
    let fields: Vec<&str> = found.problems.iter().map(|p| &*p.path).collect();
    assert_eq!(fields, ["rum", "", "timeout"]);
    assert!(found.problems.iter().all(|p| p.position.is_none()));

    let mut deep = json!("x");
    for _ in 0..100 {
        deep = json!([deep]);
    }
    assert_eq!(errors(deep).problems[0].kind, Kind::TooDeep);
    let long = "x".repeat(baton_files::limits::FILE_BYTES_MAX);
    let large = errors(json!({ "task": "t", "run": long }));
    assert_eq!(large.problems[0].kind, Kind::TooLarge);
    let many: Vec<u8> = vec![0; baton_files::limits::FILE_BYTES_MAX];
    assert_eq!(errors(json!(many)).problems[0].kind, Kind::TooLarge);
}
