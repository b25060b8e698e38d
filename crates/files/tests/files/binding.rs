//! Binding: rendered references, literal text, and rejected arguments.

use std::collections::BTreeMap;

use baton_files::{Binding, Errors, Format, Kind, TaskFile, parse};
use baton_model::task::{CommandLine, TaskSpec};
use baton_model::time::Wall;

fn file(run: &str) -> TaskFile {
    let json = serde_json::json!({
        "task": "t",
        "params": { "x": "X", "other": "{ braces }", "must-have": null },
        "processes": [{ "name": "p", "run": ["echo", run] }],
    });
    parse(&json.to_string(), Format::Json, "t.json").unwrap_or_else(|errors| panic!("{errors}"))
}

fn binding() -> Binding {
    Binding {
        params: BTreeMap::from([("must-have".to_owned(), "M".to_owned())]),
        ports: BTreeMap::from([("http".to_owned(), 80)]),
        task_id: Some("t-1".to_owned()),
        nominal_time: Some(Wall(0)),
        item: None,
    }
}

fn bind(run: &str) -> Result<TaskSpec, Errors> {
    file(run).bind(&binding())
}

fn word(task: &TaskSpec) -> &str {
    match &task.processes[0].run {
        CommandLine::Exec(words) => &words[1],
        CommandLine::Shell(command) => command,
    }
}

#[test]
fn references_are_filled_in_with_and_without_spaces() {
    for (template, expected) in [
        ("{{ params.x }}", "X"),
        ("{{params.x}}", "X"),
        ("a{{  params.x}}b{{params.x }}c", "aXbXc"),
        ("{{ ports.http }}", "80"),
        ("{{ task.id }}/{{ task.name }}", "t-1/t"),
        ("{{ params.must-have }}", "M"),
        ("plain", "plain"),
        ("", ""),
    ] {
        let task = bind(template).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(word(&task), expected, "{template}");
    }
}

#[test]
fn doubled_braces_are_literal() {
    for (template, expected) in [
        ("{{{{.Names}}", "{{.Names}}"),
        ("{{{{ params.x }}", "{{ params.x }}"),
        ("{{{{{{ params.x }}", "{{X"),
        ("} }} {", "} }} {"),
        ("${HOME} {a,b}", "${HOME} {a,b}"),
    ] {
        let task = bind(template).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(word(&task), expected, "{template}");
    }
}

#[test]
fn a_rendered_value_is_not_rendered_again() {
    let mut binding = binding();
    let nested = "{{ task.id }}".to_owned();
    binding.params.insert("x".to_owned(), nested.clone());
    let task = file("{{ params.x }}").bind(&binding).expect("bound");
    assert_eq!(word(&task), nested);
}

#[test]
fn an_argument_overrides_the_default() {
    let mut binding = binding();
    binding.params.insert("x".to_owned(), "Y".to_owned());
    let task = file("{{ params.x }}").bind(&binding).expect("bound");
    assert_eq!(word(&task), "Y");
    assert_eq!(task.processes[0].env["BATON_PARAM_X"], "Y");
    assert_eq!(task.processes[0].env["BATON_PARAM_MUST_HAVE"], "M");
}

fn kinds(result: Result<TaskSpec, Errors>) -> Vec<Kind> {
    let errors = result.expect_err("something is wrong");
    errors.problems.iter().map(|problem| problem.kind).collect()
}

#[test]
fn a_parameter_that_does_not_exist_is_refused_with_a_suggestion() {
    let mut binding = binding();
    binding.params.insert("must-hvae".to_owned(), String::new());
    let errors = file("x").bind(&binding).expect_err("no such parameter");
    assert_eq!(errors.problems[0].kind, Kind::UnknownParam);
    assert_eq!(errors.problems[0].hint, "did you mean `must-have`?");
}

#[test]
fn a_required_parameter_needs_an_argument_even_without_references() {
    assert_eq!(kinds(file("x").bind(&Binding::default())), [Kind::Unbound]);
}

#[test]
fn a_typed_value_reaches_templates_and_variables_in_canonical_spelling() {
    let json = serde_json::json!({
        "task": "t",
        "params": {
            "n": { "type": "int" },
            "r": { "type": "float", "default": 1 },
            "b": { "type": "bool", "default": false },
            "m": { "one_of": ["fast", "full"], "default": "fast" },
        },
        "run": ["echo", "{{ params.n }} {{ params.r }} {{ params.b }} {{ params.m }}"],
    });
    let file = parse(&json.to_string(), Format::Json, "t").expect("it is a good file");
    let arguments = [("n", "+007"), ("r", "+1.10"), ("b", "TRUE"), ("m", "full")];
    let binding = Binding {
        params: arguments
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..Binding::default()
    };
    let task = file
        .bind(&binding)
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(word(&task), "7 1.10 true full");
    let env = &task.processes[0].env;
    assert_eq!(
        (&*env["BATON_PARAM_N"], &*env["BATON_PARAM_B"]),
        ("7", "true")
    );
}

#[test]
fn an_invalid_value_is_reported_once_at_its_parameter() {
    let json = serde_json::json!({
        "task": "t",
        "params": { "n": { "type": "int" } },
        "run": ["echo", "{{ params.n }}"],
    });
    let file = parse(&json.to_string(), Format::Json, "t").expect("it is a good file");
    let binding = Binding {
        params: BTreeMap::from([("n".to_owned(), "many".to_owned())]),
        ..Binding::default()
    };
    let errors = file.bind(&binding).expect_err("it is no number");
    let [problem] = &*errors.problems else {
        panic!("{errors}");
    };
    assert_eq!((problem.kind, &*problem.path), (Kind::BadValue, "params.n"));
    assert_eq!(
        (problem.position, &*problem.hint),
        (None, "pass an integer")
    );
}

#[test]
fn every_missing_port_is_reported_and_listed_before() {
    let file = file("{{ ports.b }} {{ ports.a }} {{ ports.http }}");
    let ports: Vec<&str> = file.ports().into_iter().collect();
    assert_eq!(ports, ["a", "b", "http"]);
    let errors = file.bind(&binding()).expect_err("two are missing");
    assert_eq!(errors.problems.len(), 2);
    assert!(errors.to_string().contains("the bound ports are: http"));
}

#[test]
fn invalid_ids_and_ports_are_rejected() {
    for id in ["../up", "a b", "", ".x"] {
        let mut binding = binding();
        binding.task_id = Some(id.to_owned());
        assert_eq!(kinds(file("x").bind(&binding)), [Kind::BadName], "{id}");
    }
    let mut binding = binding();
    binding.ports.insert("http".to_owned(), 0);
    assert_eq!(kinds(file("x").bind(&binding)), [Kind::OutOfRange]);
}

#[test]
fn a_value_cannot_leave_the_sandbox_or_smuggle_a_request() {
    let text = "
        task: t
        params: { dir: in, path: /ok }
        processes:
          - name: p
            run: serve
            cwd: site/{{ params.dir }}
            ready: { http: { port: 80, path: '{{ params.path }}' } }
    ";
    let file = parse(text, Format::Yaml, "t").unwrap_or_else(|errors| panic!("{errors}"));
    file.bind(&Binding::default())
        .expect("the defaults are fine");
    for (name, value) in [
        ("dir", "../.."),
        ("path", "relative"),
        ("path", "/ HTTP/1.1\r\nX: y"),
        ("dir", "a\0b"),
    ] {
        let binding = Binding {
            params: BTreeMap::from([(name.to_owned(), value.to_owned())]),
            ..Binding::default()
        };
        let kinds = kinds(file.bind(&binding));
        assert!(
            kinds.contains(&Kind::BadValue),
            "{name}={value:?}: {kinds:?}"
        );
    }
}

#[test]
fn a_small_file_cannot_fill_the_memory() {
    let mut binding = binding();
    binding.params.insert("x".to_owned(), "x".repeat(100_000));
    let many = "{{params.x}}".repeat(10_000);
    assert!(kinds(file(&many).bind(&binding)).contains(&Kind::BadValue));

    let variables: BTreeMap<String, String> = (0..10_000)
        .map(|n| (format!("V{n}"), "x".repeat(20)))
        .collect();
    let processes: Vec<_> = (0..9_000)
        .map(|n| serde_json::json!({ "name": format!("p{n}"), "run": "x" }))
        .collect();
    let json = serde_json::json!({ "task": "t", "env": variables, "processes": processes });
    let file = parse(&json.to_string(), Format::Json, "t").expect("it is a good file");
    assert_eq!(kinds(file.bind(&Binding::default())), [Kind::TooLarge]);
}

#[test]
fn nothing_is_rendered_beyond_the_byte_limit() {
    let mut words = vec!["{{params.x}}"; 2_000];
    // It would be reported if it were rendered.
    words.push("{{params.unknown}}");
    let json = serde_json::json!({ "task": "t", "params": { "x": null }, "run": words });
    let file = parse(&json.to_string(), Format::Json, "t").expect("it is a good file");
    let binding = Binding {
        params: BTreeMap::from([("x".to_owned(), "x".repeat(100_000))]),
        ..Binding::default()
    };
    assert_eq!(kinds(file.bind(&binding)), [Kind::TooLarge]);
}
