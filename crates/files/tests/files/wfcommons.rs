//! Import of WfCommons traces. Those of `tests/fixtures` are synthetic.

use std::collections::BTreeMap;
use std::path::Path;

use baton_files::wfcommons::{Import, Work, wfcommons};
use baton_files::workflow_from_json;
use baton_model::time::Wall;
use baton_model::workflow::Plan;
use serde_json::{Value, json};

fn trace(version: &str) -> Value {
    let name = format!("tests/fixtures/wfcommons-{version}.json");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let text = std::fs::read_to_string(path).expect("part of the crate");
    serde_json::from_str(&text).expect("it is JSON")
}

fn imported(version: &str, options: &Import) -> Value {
    let file = wfcommons(&trace(version), options).unwrap_or_else(|error| panic!("{error}"));
    plan(&file);
    file
}

fn plan(file: &Value) -> Plan {
    let file = workflow_from_json(file, "imported").unwrap_or_else(|errors| panic!("{errors}"));
    file.plan(&BTreeMap::new(), Wall(0))
        .unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn a_trace_of_1_4_becomes_tasks_that_sleep() {
    let options = Import {
        speed: 10.0,
        ..Import::default()
    };
    assert_eq!(
        imported("1.4", &options),
        json!({
            "workflow": "tiny-trace",
            "defaults": { "resources": { "cpu": 0.1 } },
            "tasks": {
                "1": { "run": ["sleep", "0.250"] },
                "count-1": { "run": ["sleep", "0.400"], "after": ["1"] },
                "count-1-2": { "run": ["sleep", "0.000"], "after": ["1"] },
                "join": { "run": ["sleep", "0.100"], "after": ["count-1", "count-1-2"] },
            },
        })
    );
}

#[test]
fn a_trace_of_1_5_becomes_tasks_that_burn_with_recorded_resources() {
    let options = Import {
        work: Work::Cpu,
        name: Some("mine".to_owned()),
        resources: true,
        ..Import::default()
    };
    let file = imported("1.5", &options);
    assert_eq!(file["workflow"], "mine");
    assert_eq!(
        file["tasks"],
        json!({
            "ID1": { "template": "burn", "env": { "TICKS": "1000" }, "resources": { "cpu": 1.5, "memory": "2000.." } },
            "ID2": { "template": "burn", "env": { "TICKS": "200" }, "after": ["ID1"] },
        })
    );
    let plan = plan(&file);
    assert_eq!(plan.tasks[0].spec.request.resources.memory_min, 2_000);
    assert_eq!(plan.tasks[1].spec.request.resources.cpu_milli, 1_000);
}

#[test]
fn burning_ends() {
    let file = imported(
        "1.5",
        &Import {
            work: Work::Cpu,
            ..Import::default()
        },
    );
    let command = file["templates"]["burn"]["run"]
        .as_str()
        .expect("a command");
    let status = std::process::Command::new("/bin/bash")
        .args(["-c", command])
        .env("TICKS", "3")
        .status();
    assert!(status.expect("a shell").success());
}

#[test]
fn version_1_6_parses_like_1_5() {
    let mut trace = trace("1.5");
    trace["schemaVersion"] = "1.6".into();
    assert!(wfcommons(&trace, &Import::default()).is_ok());
}

#[test]
fn problems_of_a_trace_name_their_field() {
    let wrong = |version: &str, pointer: &str, value: Value, expected: &str| {
        let mut trace = trace(version);
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        let parent = trace.pointer_mut(parent).expect("it is there");
        match (parent, value) {
            (Value::Object(map), Value::Null) => {
                map.remove(key);
            }
            (parent, value) => {
                let place = match key.parse::<usize>() {
                    Ok(index) => &mut parent[index],
                    Err(_) => &mut parent[key],
                };
                *place = value;
            }
        }
        let error = wfcommons(&trace, &Import::default()).expect_err(expected);
        assert_eq!(error, expected);
    };
    let no = Value::Null;
    let tasks = "/workflow/tasks";
    let specified = "/workflow/specification/tasks";
    let executed = "/workflow/execution/tasks";
    wrong(
        "1.4",
        "/schemaVersion",
        no.clone(),
        "schemaVersion: the field is missing",
    );
    wrong(
        "1.4",
        "/schemaVersion",
        json!("2.0"),
        "schemaVersion: `2.0` is not supported; use 1.4, 1.5 or 1.6",
    );
    wrong(
        "1.4",
        "/workflow",
        json!([]),
        "workflow: expected an object",
    );
    wrong(
        "1.4",
        tasks,
        no.clone(),
        "workflow.tasks: the field is missing",
    );
    wrong("1.4", tasks, json!([]), "the trace has no tasks");
    wrong(
        "1.4",
        tasks,
        json!([1]),
        "workflow.tasks[0]: expected an object",
    );
    wrong(
        "1.4",
        &format!("{tasks}/0/id"),
        json!(1),
        "workflow.tasks[0].id: expected a string",
    );
    wrong(
        "1.4",
        &format!("{tasks}/1/id"),
        json!("1"),
        "workflow.tasks[1].id: `1` is already used by workflow.tasks[0]",
    );
    wrong(
        "1.4",
        &format!("{tasks}/1/parents/0"),
        json!("x"),
        "workflow.tasks[1].parents[0]: unknown task `x`",
    );
    wrong(
        "1.4",
        &format!("{tasks}/1/parents"),
        json!("x"),
        "workflow.tasks[1].parents: expected a list",
    );
    wrong(
        "1.4",
        &format!("{tasks}/0/parents"),
        json!(["join"]),
        "workflow.tasks[0].parents: dependency cycle of tasks: 1 -> join -> count-1 -> 1",
    );
    wrong(
        "1.4",
        &format!("{tasks}/0/runtimeInSeconds"),
        no.clone(),
        "workflow.tasks[0]: the field `runtimeInSeconds` is missing",
    );
    wrong(
        "1.4",
        &format!("{tasks}/0/runtimeInSeconds"),
        json!(-1),
        "workflow.tasks[0].runtimeInSeconds: expected a number of seconds, at most ten years",
    );
    wrong(
        "1.5",
        "/workflow/execution",
        no.clone(),
        "workflow.execution: the field is missing",
    );
    wrong(
        "1.5",
        specified,
        no.clone(),
        "workflow.specification.tasks: the field is missing",
    );
    wrong(
        "1.5",
        &format!("{executed}/0/id"),
        json!("ID3"),
        "workflow.specification.tasks[1]: workflow.execution.tasks has no task `ID1`",
    );
    wrong(
        "1.5",
        &format!("{executed}/0/runtimeInSeconds"),
        no,
        "workflow.execution.tasks[0]: the field `runtimeInSeconds` is missing",
    );
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let options = Import {
            speed,
            ..Import::default()
        };
        let error = wfcommons(&trace("1.4"), &options).expect_err("no speed");
        assert!(error.starts_with("speed: "), "{error}");
    }
}

#[test]
fn invalid_ids_become_distinct_names() {
    let tasks: Vec<Value> = (0..2_000)
        .map(|at| json!({ "id": "ä".repeat(at % 7 + 1) + &"/".repeat(at / 7 % 300), "parents": [], "children": [], "runtimeInSeconds": 1 }))
        .collect();
    let distinct: std::collections::BTreeSet<String> =
        tasks.iter().map(|it| it["id"].to_string()).collect();
    assert_eq!(distinct.len(), tasks.len());
    let trace = json!({ "name": "n", "schemaVersion": "1.4", "workflow": { "tasks": tasks } });
    let file = wfcommons(&trace, &Import::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plan(&file).tasks.len(), 2_000);
}
