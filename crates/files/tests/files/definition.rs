//! Library revisions of task files.

use std::collections::BTreeMap;
use std::path::Path;

use baton_files::{
    Binding, DEFAULT_OWNER, Definition, Errors, Format, Kind, TaskFile, TaskName, any_from_json,
    from_json, load, parse, parse_workflow,
};
use baton_model::library::EntryKind;
use baton_model::spec::Work;
use baton_model::time::Wall;

fn yaml(text: &str) -> TaskFile {
    parse(text, Format::Yaml, "task.yaml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn definition(text: &str) -> (TaskName, Definition) {
    let made = yaml(text).definition(None);
    made.unwrap_or_else(|errors| panic!("{errors}"))
}

fn refused(text: &str) -> Errors {
    yaml(text).definition(None).expect_err("it is of no use")
}

/// Parses the source of a definition.
fn reparse(definition: &Definition) -> TaskFile {
    let json = serde_json::from_str(&definition.source).expect("it is JSON");
    from_json(&json, "library").unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn a_definition_has_name_file_and_trigger() {
    let text = "owner: ops\ntask: report\nrun: [make, report]\ntrigger: { schedule: noon }\n";
    let file = yaml(text);
    let made = file.definition(Some("ops/report.yaml".to_owned()));
    let (name, definition) = made.expect("it is good");
    assert_eq!(name.to_string(), "ops/report");
    assert_eq!(definition.file.as_deref(), Some("ops/report.yaml"));
    assert_eq!(definition.trigger, file.policy.trigger);
    let spec = definition.spec.expect("it has no parameters");
    let words = ["make", "report"].map(str::to_owned).to_vec();
    assert_eq!((&*spec.owner, &spec.work), ("ops", &Work::Command(words)));
    assert_eq!(spec.origin, None);
    let (name, _) = self::definition("task: t\nrun: x\n");
    assert_eq!(name.owner, DEFAULT_OWNER);
}

#[test]
fn the_default_instance_exists_only_if_every_parameter_has_a_default() {
    let closed = "task: t\nrun: echo {{ params.n }}\nparams: { n: { type: int, default: 07 } }\n";
    let (_, definition) = self::definition(closed);
    let spec = definition.spec.expect("nothing is missing");
    assert_eq!(spec.env["BATON_PARAM_N"], "7");

    let open = "task: t\nrun: echo {{ params.n }}\nparams: { n: { type: int } }\n";
    let (_, definition) = self::definition(open);
    assert_eq!(definition.spec, None);
    // The caller of a trigger passes the missing parameters to the stored task.
    let binding = Binding {
        params: BTreeMap::from([("n".to_owned(), "+8".to_owned())]),
        ..Binding::default()
    };
    let spec = reparse(&definition).instance(&binding).expect("bound");
    assert_eq!(spec.env["BATON_PARAM_N"], "8");
}

#[test]
fn the_same_values_make_the_same_source_in_whatever_order() {
    let one = "{ task: t, run: x, env: { A: '1', B: '2' } }";
    let other = "env: { B: '2', A: '1' }\nrun: x\ntask: t\n";
    assert_eq!(definition(one), definition(other));
    let (_, definition) = definition(one);
    let sorted = r#"{"env":{"A":"1","B":"2"},"run":"x","task":"t"}"#;
    assert_eq!(&*definition.source, sorted);
}

#[test]
fn a_source_parses_to_the_same_task() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/full");
    for extension in ["yaml", "toml", "json"] {
        let file = load(path.with_extension(extension)).expect("it is good");
        let json = file.to_json();
        let again = from_json(&json, "library").expect("it was good before");
        assert_eq!(again.params, file.params, "{extension}");
        assert_eq!(again.policy, file.policy, "{extension}");
        assert_eq!(again.to_json(), json, "{extension}");
    }
    let text = "task: t\nrun: x\nparams: { r: { type: float, default: 1.10, min: 0.1 } }\n";
    let (name, definition) = definition(text);
    let again = reparse(&definition).definition(None);
    assert_eq!(again, Ok((name, definition)));
}

#[test]
fn a_bound_with_many_digits_is_stored_exactly() {
    for exponent in -300..=300 {
        let bound = format!("3.1415926535897931e{exponent}");
        let text = format!("task: t\nrun: x\nparams: {{ r: {{ type: float, max: {bound} }} }}\n");
        let (_, definition) = definition(&text);
        assert_eq!(reparse(&definition).params, yaml(&text).params, "{bound}");
    }
}

#[test]
fn problems_independent_of_parameters_are_rejected() {
    for text in [
        "task: t\nrun: echo {{ ports.http }}\n",
        "task: t\nrun: echo {{ task.id }}\n",
    ] {
        let as_submitted = yaml(text).instance(&Binding::default());
        assert_eq!(refused(text), as_submitted.expect_err("unbound"));
        assert_eq!(refused(text).problems[0].kind, Kind::Unbound);
    }
    let open = |more: &str| format!("task: t\nparams: {{ p: }}\nprocesses:\n  - {more}\n");
    for (process, path, kind) in [
        (
            "{ name: a, run: 'x {{ params.p }} {{ ports.http }}' }",
            "processes[0].run",
            Kind::Unbound,
        ),
        (
            "{ name: a, run: 'x {{ params.q }}' }",
            "processes[0].run",
            Kind::UnknownReference,
        ),
        (
            "{ name: a, run: x, ready: { tcp: 70000 } }",
            "processes[0].ready.tcp",
            Kind::OutOfRange,
        ),
    ] {
        let errors = refused(&open(process));
        let found: Vec<_> = errors.problems.iter().map(|p| (&*p.path, p.kind)).collect();
        assert_eq!(found, [(path, kind)], "{process}");
    }
    // This depends on the value.
    let unsure = open("{ name: a, run: x, ready: { tcp: '{{ params.p }}' } }");
    assert_eq!(definition(&unsure).1.spec, None);
}

#[test]
fn owners_that_the_api_reserves_are_rejected() {
    for owner in [
        "instances",
        "bullpen",
        "arena",
        "history",
        "workers",
        "usage",
        "events",
        "library",
        "runs",
        "tokens",
        "docs",
        "metrics",
        "healthz",
        "readyz",
        "openapi.json",
        "limits",
    ] {
        let text = format!("task: t\nrun: x\nowner: {owner}\n");
        let problems = refused(&text).problems;
        assert_eq!(
            (problems[0].kind, &*problems[0].path),
            (Kind::BadName, "owner")
        );
        let line = problems[0].position.map(|position| position.line);
        assert_eq!(line, Some(3), "{owner}");
        // Outside a library the owner is harmless.
        assert!(yaml(&text).instance(&Binding::default()).is_ok());
    }
    assert!(yaml("task: instances\nrun: x\n").definition(None).is_ok());
}

#[test]
fn a_file_that_expands_beyond_the_json_limit_is_rejected() {
    let text = format!(
        "task: t\nrun: x\nenv:\n  A: &a {}\n{}",
        "y".repeat(100_000),
        (0..12).map(|n| format!("  A{n}: *a\n")).collect::<String>()
    );
    assert_eq!(refused(&text).problems[0].kind, Kind::TooLarge);
}

fn workflow(text: &str) -> (TaskName, Definition) {
    let file = parse_workflow(text, Format::Yaml, "etl.yaml");
    let made = file.and_then(|file| file.definition(None));
    made.unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn a_workflow_is_a_definition_with_a_plan() {
    let text = "workflow: etl\nowner: ops\nparams: { n: 3 }\n\
                trigger: { schedule: noon, after: [x/first, second], max_instances: 1 }\n\
                tasks: { a: { run: 'echo {{ params.n }} {{ item }}', for_each: [p, q] } }\n";
    let (name, definition) = workflow(text);
    assert_eq!(name.to_string(), "ops/etl");
    assert_eq!(definition.kind, EntryKind::Workflow);
    assert_eq!(definition.spec, None);
    let plan = definition
        .plan
        .as_ref()
        .expect("every parameter has a default");
    assert_eq!((&*plan.name, &*plan.params["n"]), ("etl", "3"));
    let after = definition.trigger.after.iter().map(ToString::to_string);
    assert_eq!(after.collect::<Vec<_>>(), ["x/first", "ops/second"]);
    let source = serde_json::from_str(&definition.source).expect("it is JSON");
    let again = any_from_json(&source, "library").and_then(|file| file.definition(None));
    assert_eq!(again.expect("it is good"), (name, definition));
    let open = "workflow: etl\nparams: { n: null }\ntasks: { a: { run: 'echo {{ params.n }}' } }\n";
    let (_, definition) = workflow(open);
    assert!(!definition.is_bound());
}

#[test]
fn problems_of_a_workflow_are_found_before_it_is_stored() {
    let refused = |text: &str| {
        let file = parse_workflow(text, Format::Yaml, "etl.yaml");
        let made = file.and_then(|file| file.definition(None));
        made.expect_err("it is of no use").to_string()
    };
    let tasks = "tasks: { a: { run: 'echo {{ params.n }}' } }\n";
    for (text, told) in [
        (
            format!("workflow: w\nowner: runs\nparams: {{ n: 1 }}\n{tasks}"),
            "reserves this name",
        ),
        (format!("workflow: w\n{tasks}"), "is not a parameter"),
        (
            format!("workflow: w\nparams: {{ n: null }}\ntrigger: {{ schedule: noon }}\n{tasks}"),
            "has no default",
        ),
        (
            format!("workflow: w\nparams: {{ n: 1 }}\ntrigger: {{ schedule: never }}\n{tasks}"),
            "trigger.schedule",
        ),
        (
            format!("workflow: w\nparams: {{ n: 1 }}\ntrigger: {{ after: w }}\n{tasks}"),
            "endless loop",
        ),
        (
            "workflow: w\nparams: { n: null }\ntasks: { a: { run: 'echo {{ params.n }} {{ params.m }}' } }\n"
                .to_owned(),
            "params.m",
        ),
    ] {
        let errors = refused(&text);
        assert!(errors.contains(told), "{text}\n{errors}");
    }
}

#[test]
fn defaults_may_refer_to_the_nominal_time() {
    let params =
        "params: { day: '{{ nominal_time - 1d in Europe/Berlin as %F }}', n: '{{{{1}}' }\n";
    let task = format!(
        "task: t\n{params}run: 'echo {{{{ params.day }}}} {{{{ params.n }}}} {{{{{{{{x}}}}'\n"
    );
    let (_, definition) = self::definition(&task);
    let template = "{{ nominal_time - 1d in Europe/Berlin as %F }}";
    assert_eq!(definition.nominal_params["day"], template);
    let spec = definition
        .spec
        .as_ref()
        .expect("every parameter has a default");
    let Work::Command(words) = &spec.work else {
        panic!("{spec:?}");
    };
    let last = words.last().expect("a command");
    assert!(
        last.ends_with("echo {{ params.day }} {{{{1}} {{{{x}}"),
        "{last}"
    );
    assert_eq!(spec.env["BATON_PARAM_DAY"], "{{ params.day }}");
    // A start with a known time has nothing left to render.
    let binding = Binding {
        // 2026-01-01T00:30:00+01:00
        nominal_time: Some(Wall(1_767_223_800_000)),
        ..Binding::default()
    };
    let bound = yaml(&task).instance(&binding).expect("bound");
    let Work::Command(words) = &bound.work else {
        panic!("{bound:?}");
    };
    let last = words.last().expect("a command");
    assert!(last.ends_with("echo 2025-12-31 {{1}} {{x}}"), "{last}");
    assert_eq!(bound.env["BATON_PARAM_DAY"], "2025-12-31");
    let flow = format!(
        "workflow: w\n{params}tasks: {{ a: {{ run: 'echo {{{{ params.day }}}} {{{{ item }}}}', for_each: [1] }} }}\n"
    );
    let (_, definition) = workflow(&flow);
    let plan = definition.plan.expect("every parameter has a default");
    assert_eq!(plan.params.get("day"), None, "a launch adds it");
    assert_eq!(plan.params["n"], "{{1}}");
    for (default, told) in [
        ("'{{ params.x }}'", "is not a reference"),
        (
            "{ type: int, default: '{{ nominal_time }}' }",
            "only a string",
        ),
        ("'{{ nominal_time in Nowhere }}'", "unknown time zone"),
    ] {
        let text = format!("task: t\nparams: {{ day: {default} }}\nrun: x\n");
        let errors = parse(&text, Format::Yaml, "t.yaml").expect_err("refused");
        let text = errors.to_string();
        assert!(text.contains(told) && text.contains("params.day"), "{text}");
    }
}
