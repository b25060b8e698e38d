//! One schema in three formats: every field of a task file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use baton_files::{
    AnyFile, Binding, Format, Growth, Param, ParamKind, Retry, Scaling, TaskFile, load, load_any,
    parse,
};
use baton_model::library::{Overlap, Rate, Schedule, TaskName, Trigger};
use baton_model::placement::{Constraint, Rule};
use baton_model::schedule::{CatchUp, Dst, Fold, Gap};
use baton_model::spec::Exclusive;
use baton_model::task::{
    Backoff, Check, CommandLine, Condition, ExecSettings, LogDestination, LogMode, Logger, Probe,
    ProcessSpec, Resources, Rlimit, Stop, TaskSpec,
};
use baton_model::time::{Millis, Wall};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn binding() -> Binding {
    Binding {
        params: BTreeMap::new(),
        ports: BTreeMap::from([("http".to_owned(), 8080)]),
        task_id: Some("full-1".to_owned()),
        nominal_time: Some(Wall(0)),
        item: None,
    }
}

fn full(extension: &str) -> (TaskFile, TaskSpec) {
    let path = folder("tests/full").with_extension(extension);
    let file = load(&path).unwrap_or_else(|errors| panic!("{errors}"));
    let task = file
        .bind(&binding())
        .unwrap_or_else(|errors| panic!("{errors}"));
    (file, task)
}

fn process<'a>(task: &'a TaskSpec, name: &str) -> &'a ProcessSpec {
    let found = task.processes.iter().find(|p| p.name.0 == name);
    found.unwrap_or_else(|| panic!("no process {name}"))
}

#[test]
fn the_same_task_in_three_formats_is_the_same_task() {
    let (yaml_file, yaml) = full("yaml");
    for extension in ["toml", "json"] {
        let (file, task) = full(extension);
        assert_eq!(task, yaml, "{extension}");
        assert_eq!(file.policy, yaml_file.policy, "{extension}");
        assert_eq!(file.params, yaml_file.params, "{extension}");
    }
}

#[test]
fn every_field_of_a_task_arrives() {
    let (file, task) = full("yaml");
    assert_eq!((file.name(), file.owner()), ("full", Some("analytics")));
    assert_eq!(
        (&*task.name, task.owner.as_deref()),
        ("full", Some("analytics"))
    );
    assert_eq!(
        task.resources,
        Resources {
            cpu_milli: 1_500,
            memory_min: 256 << 20,
            memory_max: 1 << 30,
            disk: 2_000_000_000,
            gpu: baton_model::device::DeviceAmount::whole(1),
            named: BTreeMap::from([("db/orders".to_owned(), 2)]),
            pin: None,
        }
    );
    assert_eq!((task.max_failures, task.max_concurrency), (2, 4));
    assert_eq!(task.finalization_wait, Millis::from_secs(45));
    assert_eq!(task.user.as_deref(), Some("www-data"));
    assert_eq!(task.ports, binding().ports);
    assert_eq!(file.ports().into_iter().collect::<Vec<_>>(), ["http"]);
    let names = task.processes.iter().map(|it| it.name.0.as_str());
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["fetch", "serve", "build", "cleanup"]
    );
}

#[test]
fn every_policy_arrives() {
    let (file, _) = full("yaml");
    let task = |owner: &str, name: &str| TaskName {
        owner: owner.to_owned(),
        name: name.to_owned(),
    };
    assert_eq!(
        file.policy.trigger,
        Trigger {
            schedule: Some(Schedule {
                text: "every monday at 12:00".to_owned(),
                zone: "Europe/Berlin".to_owned(),
                dst: Dst {
                    gap: Gap::Early,
                    fold: Fold::Twice,
                },
                slack: Millis::from_secs(600),
                catch_up: CatchUp::All,
                jitter: Millis::from_secs(30),
            }),
            max_instances: Some(1),
            overlap: Overlap::Queue,
            launch_rate: Some(Rate {
                count: 1,
                per: Millis::from_secs(1),
            }),
            remote: true,
            secret_sha256: Some("ab".repeat(32)),
            after: vec![task("analytics", "load"), task("ops", "deploy")],
        }
    );
    assert_eq!(
        file.policy.retry,
        Retry {
            attempts: 3,
            losses: Some(5),
            backoff: Some(Backoff {
                first: Millis::from_secs(10),
                growth_percent: 200,
                max: Millis::from_secs(300),
                jitter_percent: 10,
            }),
            scale: Scaling {
                memory: Some(Growth::Factor {
                    milli: 1_500,
                    cap: Some(8 << 30),
                }),
                timeout: Some(Growth::Steps(
                    [7_200, 14_400].map(Millis::from_secs).to_vec()
                )),
                ..Scaling::default()
            },
            fallback: vec![
                vec![Constraint {
                    label: "pool".to_owned(),
                    rule: Rule::OneOf(["big".to_owned()].into()),
                }],
                Vec::new(),
            ],
        }
    );
    assert_eq!(file.policy.timeout, Some(Millis::from_secs(3_600)));
    assert_eq!(file.policy.exclusive, Exclusive::Strict);
}

#[test]
fn every_field_of_a_parameter_arrives_and_its_default_is_canonical() {
    let (file, task) = full("yaml");
    let param = |kind, default: &str| Param {
        kind,
        default: Some(default.to_owned()),
        ..Param::default()
    };
    let text = |default| param(ParamKind::String, default);
    let copies = ParamKind::Int {
        min: Some(1),
        max: Some(10),
    };
    let rate = ParamKind::Float {
        min: Some(-0.5),
        max: Some(2.0),
    };
    let one_of = ["fast", "full", "7"].map(str::to_owned).to_vec();
    let expected = [
        (
            "copies",
            Param {
                description: Some("How many of it".to_owned()),
                ..param(copies, "3")
            },
        ),
        ("day", text("2026-11-14")),
        ("dry", param(ParamKind::Bool, "false")),
        ("loud", text("true")),
        ("mode", param(ParamKind::OneOf { one_of }, "7")),
        ("note", text("none")),
        ("rate", param(rate, "1.10")),
        ("scale", text("1.10")),
    ];
    let expected = expected.map(|(name, param)| (name.to_owned(), param));
    assert_eq!(file.params, BTreeMap::from(expected));
    assert_eq!(process(&task, "fetch").env["BATON_PARAM_COPIES"], "3");
}

#[test]
fn a_schedule_alone_gets_the_defaults_of_the_clock() {
    let text = "task: a\nrun: x\ntrigger: { schedule: noon }\n";
    let file = parse(text, Format::Yaml, "a").expect("good");
    let usual = baton_core::clock::Policy::default();
    let schedule = Schedule {
        text: "noon".to_owned(),
        zone: "UTC".to_owned(),
        dst: Dst::default(),
        slack: usual.slack,
        catch_up: usual.catch_up,
        jitter: usual.jitter,
    };
    assert_eq!(
        file.policy.trigger,
        Trigger {
            schedule: Some(schedule),
            ..Trigger::default()
        }
    );
}

#[test]
fn a_bare_name_in_after_means_the_same_owner() {
    for (head, owner) in [("", baton_files::DEFAULT_OWNER), ("owner: ops\n", "ops")] {
        let text = format!("{head}task: a\nrun: x\ntrigger: {{ after: load }}\n");
        let file = parse(&text, Format::Yaml, "a").expect("good");
        let expected = TaskName {
            owner: owner.to_owned(),
            name: "load".to_owned(),
        };
        assert_eq!(file.policy.trigger.after, [expected]);
    }
    // The same name under another owner is another task.
    let other = "owner: ops\ntask: a\nrun: x\ntrigger: { after: default/a }\n";
    assert!(parse(other, Format::Yaml, "a").is_ok());
}

#[test]
fn a_zone_is_stored_by_its_database_name() {
    let text = "task: a\nrun: x\ntrigger: { schedule: noon, timezone: europe/berlin }\n";
    let file = parse(text, Format::Yaml, "a").expect("good");
    let schedule = file.policy.trigger.schedule.expect("it has one");
    assert_eq!(schedule.zone, "Europe/Berlin");
}

#[test]
fn every_field_of_a_process_arrives() {
    let (_, task) = full("yaml");
    let serve = process(&task, "serve");
    assert!(serve.daemon && serve.ephemeral && !serve.is_final);
    assert_eq!(serve.max_failures, 0);
    assert_eq!(serve.min_duration, Millis(250));
    let backoff = Backoff {
        first: Millis::from_secs(1),
        growth_percent: 150,
        max: Millis::from_secs(60),
        jitter_percent: 20,
    };
    assert_eq!(serve.backoff, Some(backoff));
    assert_eq!(serve.retryable, Some(vec![1, 75]));
    assert_eq!(serve.timeout, Some(Millis(5_400_000)));
    let grace = Millis::from_secs(3);
    assert_eq!(serve.stop, Stop { signal: 2, grace });
    let exec = ExecSettings {
        umask: Some(0o027),
        nice: Some(-5),
        oom_score: Some(300),
    };
    assert_eq!(serve.exec(), exec);
    assert_eq!(serve.user.as_deref(), Some("www"));
    assert_eq!(serve.cwd.as_deref(), Some("site/full"));
    let limit = |resource: &str, soft, hard| Rlimit {
        resource: resource.to_owned(),
        soft,
        hard,
    };
    assert_eq!(
        serve.rlimits,
        [
            limit("as", 1 << 30, 1 << 30),
            limit("core", u64::MAX, u64::MAX),
            limit("nofile", 1_024, 4_096),
        ]
    );
    let size = 10 << 20;
    let mode = LogMode::Rotate { size, backups: 2 };
    let destination = LogDestination::Both;
    assert_eq!(serve.logger, Some(Logger { destination, mode }));
}

#[test]
fn dependencies_checks_and_commands_arrive() {
    let (_, task) = full("yaml");
    let serve = process(&task, "serve");
    assert_eq!(
        serve.ready,
        Some(Check {
            probe: Probe::Http {
                port: 8080,
                path: "/ready".to_owned()
            },
            delay: Millis(0),
            interval: Millis(1_000),
            timeout: Millis(1_000),
            successes_min: 1,
            failures_max: 0,
        })
    );
    assert_eq!(
        serve.health,
        Some(Check {
            probe: Probe::Tcp { port: 8080 },
            delay: Millis::from_secs(1),
            interval: Millis::from_secs(2),
            timeout: Millis::from_secs(3),
            successes_min: 2,
            failures_max: 4,
        })
    );
    let build = process(&task, "build");
    let after: Vec<_> = build
        .after
        .iter()
        .map(|d| (&*d.process.0, d.condition))
        .collect();
    assert_eq!(
        after,
        [("fetch", Condition::Exit), ("fetch", Condition::Success)]
    );
    let words = [
        "report",
        "--day",
        "2026-11-14",
        "--scale",
        "1.10",
        "--id",
        "full-1",
    ];
    assert_eq!(
        build.run,
        CommandLine::Exec(words.map(str::to_owned).to_vec())
    );
    assert_eq!(
        process(&task, "fetch").run,
        CommandLine::Shell("curl -sf $URL --format '{{.Names}}' -o in.csv".to_owned())
    );
    assert!(process(&task, "cleanup").is_final);
}

#[test]
fn defaults_are_those_of_thermos() {
    let file = parse("task: a\nrun: [echo]\n", Format::Yaml, "a").expect("good");
    let task = file.bind(&Binding::default()).expect("nothing to bind");
    assert_eq!((task.max_failures, task.max_concurrency), (1, 0));
    assert_eq!(task.finalization_wait, Millis::from_secs(30));
    assert_eq!(task.resources, Resources::default());
    let plain = ProcessSpec::new("a", CommandLine::Exec(vec!["echo".to_owned()]));
    assert_eq!(task.processes, [plain]);
    assert_eq!(file.policy, baton_files::Policy::default());
    let unnamed = "processes: [{ name: first, run: echo }, { name: b, run: echo }]";
    let unnamed = parse(unnamed, Format::Yaml, "a").expect("good");
    assert_eq!(unnamed.name(), "first");
}

#[test]
fn variables_of_a_process_override_those_of_the_task_and_its_parameters() {
    let (_, task) = full("yaml");
    let env = &process(&task, "serve").env;
    let get = |name: &str| env.get(name).map(String::as_str);
    assert_eq!(get("LANG"), Some("C.UTF-8"));
    assert_eq!(get("WHERE"), Some("process"));
    assert_eq!(get("COUNTRY"), Some("no"));
    assert_eq!(get("PORT"), Some("8080"));
    assert_eq!(get("BATON_PARAM_DAY"), Some("2026-11-14"));
    assert_eq!(get("BATON_PARAM_SCALE"), Some("1.10"));
    assert_eq!(
        process(&task, "fetch").env.get("WHERE").map(String::as_str),
        Some("task")
    );
}

#[test]
fn a_yaml_string_keeps_its_spelling() {
    let written = [
        "1.10",
        "+5",
        "1_000",
        "022",
        "12e4567",
        ".inf",
        "1e3",
        "yes",
        "True",
        "true",
        "2026-11-14",
        "12:30",
        "-0",
        "0.50",
    ];
    let text = format!("task: a\nrun: [echo, {}]\n", written.join(", "));
    let file = parse(&text, Format::Yaml, "a").unwrap_or_else(|errors| panic!("{errors}"));
    let task = file.bind(&Binding::default()).expect("nothing to bind");
    let CommandLine::Exec(words) = &task.processes[0].run else {
        panic!("a list runs without a shell");
    };
    assert_eq!(words[1..], written);
}

#[test]
fn the_example_of_the_design_is_a_task() {
    let text = r#"
        task: nightly-report
        owner: analytics
        resources: { cpu: 1, memory: 256MiB..1GiB }
        params: { day: yesterday }
        env: { LANG: C.UTF-8 }
        processes:
          - { name: fetch, run: "curl -sf $URL -o in.csv", max_failures: 3, min_duration: 5s }
          - { name: build, run: ["python", "report.py", "{{ params.day }}"], after: [fetch] }
          - { name: cleanup, run: "rm -f in.csv", final: true }
        trigger: { schedule: "every monday at 12:00", timezone: Europe/Berlin, slack: 10m,
                   max_instances: 1, launch_rate: 1/s, remote: true }
        retry: { attempts: 3, backoff: 10s..5m, scale: { memory: 1.5 } }
        timeout: 1h
        exclusive: timed
    "#;
    let file = parse(text, Format::Yaml, "a").unwrap_or_else(|errors| panic!("{errors}"));
    let task = file.bind(&Binding::default()).expect("nothing to bind");
    assert_eq!(task.processes.len(), 3);
}

#[test]
fn the_example_of_the_page_about_schedules_fits_into_a_library() {
    let page =
        fs::read_to_string(folder("../../docs/schedules.md")).expect("part of the repository");
    let (_, rest) = page.split_once("```yaml\n").expect("it has an example");
    let (text, _) = rest.split_once("```").expect("the example ends");
    let file =
        parse(text, Format::Yaml, "schedules.md").unwrap_or_else(|errors| panic!("{errors}"));
    let (name, definition) = file
        .definition(None)
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(name.to_string(), "analytics/nightly-report");
    assert!(definition.trigger.schedule.is_some() && definition.spec.is_some());
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_do_no_harm() {
    for (format, text) in [
        (Format::Yaml, "\u{feff}task: a\r\nrun: echo\r\n"),
        (Format::Toml, "\u{feff}task = 'a'\r\nrun = 'echo'\r\n"),
        (
            Format::Json,
            "\u{feff}{\"task\": \"a\",\r\n\"run\": \"echo\"}\r\n",
        ),
    ] {
        let file = parse(text, format, "a").unwrap_or_else(|errors| panic!("{errors}"));
        let task = file.bind(&Binding::default()).expect("nothing to bind");
        assert_eq!(task.processes[0].run, CommandLine::Shell("echo".to_owned()));
    }
}

#[test]
fn every_example_can_be_run() {
    let mut count = 0;
    for entry in fs::read_dir(folder("../../examples")).expect("part of the repository") {
        let path = entry.expect("readable").path();
        if Format::of(&path).is_none() {
            continue;
        }
        let file = match load_any(&path).unwrap_or_else(|errors| panic!("{errors}")) {
            AnyFile::Task(file) => file,
            AnyFile::Workflow(file) => {
                let plan = file.plan(&BTreeMap::new(), Wall(0));
                assert!(
                    !plan
                        .unwrap_or_else(|errors| panic!("{errors}"))
                        .tasks
                        .is_empty()
                );
                continue;
            }
        };
        // Ports and an id are arguments of a start; everything else must be in the file.
        let binding = Binding {
            ports: file
                .ports()
                .into_iter()
                .map(|n| (n.to_owned(), 80))
                .collect(),
            task_id: Some("example".to_owned()),
            ..Binding::default()
        };
        let task = file
            .bind(&binding)
            .unwrap_or_else(|errors| panic!("{errors}"));
        assert!(!task.processes.is_empty());
        count += 1;
    }
    assert!(count >= 4, "{count} examples");
}

#[test]
fn the_small_example_is_the_same_in_three_formats() {
    let bound = |name: &str| {
        let file = load(folder("../../examples").join(name)).expect("an example");
        file.bind(&Binding::default()).expect("nothing to bind")
    };
    assert_eq!(bound("hello.yaml"), bound("hello.toml"));
    assert_eq!(bound("hello.yaml"), bound("hello.json"));
}

#[test]
fn the_diamond_has_three_tiers() {
    let file = load(folder("../../examples/diamond.yaml")).expect("an example");
    let task = file.bind(&Binding::default()).expect("nothing to bind");
    let after = |name: &str| -> Vec<String> {
        let process = process(&task, name);
        process.after.iter().map(|d| d.process.0.clone()).collect()
    };
    assert!(after("prepare").is_empty() && after("cleanup").is_empty());
    for middle in ["odd", "even", "sum"] {
        assert_eq!(after(middle), ["prepare"]);
    }
    assert_eq!(after("join"), ["odd", "even", "sum"]);
}
