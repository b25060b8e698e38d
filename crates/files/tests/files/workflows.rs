//! Workflow files: plans of valid files, and golden error messages of invalid ones.
//! `BATON_REWRITE=1` rewrites the messages in `tests/workflow-errors`; read the diff before
//! committing it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use baton_core::workflow::{check, template};
use baton_files::{
    AnyFile, Errors, Format, Kind, WorkflowFile, load_any, load_workflow, parse_workflow,
    workflow_from_json, workflow_part,
};
use baton_model::spec::Work;
use baton_model::task::{CommandLine, Probe};
use baton_model::time::{Millis, Wall};
use baton_model::workflow::{Axis, Edges, Items, Plan, Pool};
use serde_json::{Value, json};

use crate::golden;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn yaml(text: &str) -> WorkflowFile {
    parse_workflow(text, Format::Yaml, "w.yaml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn planned(file: &WorkflowFile, params: &[(&str, &str)]) -> Plan {
    let params = params.iter();
    let params = params.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let plan = file
        .plan(&params.collect(), Wall(0))
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(check::check(&plan), Ok(()));
    plan
}

fn plan(text: &str) -> Plan {
    planned(&yaml(text), &[])
}

fn words(plan: &Plan, task: &str) -> Vec<String> {
    let task = plan.tasks.iter().find(|it| it.name == task);
    match &task.expect("it is there").spec.work {
        Work::Command(words) => words.clone(),
        Work::Task(task) => panic!("{task:?}"),
    }
}

/// The tasks of a plan, one per line.
fn shown(plan: &Plan) -> Vec<String> {
    let line = |task: &baton_model::workflow::PlanTask| {
        let mut line = task.name.clone();
        match &task.items {
            Items::One => {}
            Items::Values(values) => line += &format!(" [{}]", values.join("|")),
            Items::Range { first, step, count } => line += &format!(" {first}+{step}*{count}"),
            Items::Product(axes) => {
                let axes = axes
                    .iter()
                    .map(|axis| format!("{}={}", axis.name, axis.values.join("|")));
                line += &format!(" ({})", axes.collect::<Vec<_>>().join(" x "));
            }
            Items::Output { task, key } => line += &format!(" from {task}.{key}"),
        }
        for after in &task.after {
            line += &format!(" <- {}", after.task);
            match &after.edges {
                Edges::All => {}
                Edges::Same => line += " each",
                Edges::Lists(lists) => line += &format!(" {lists}"),
            }
            if after.condition != baton_model::workflow::Condition::Success {
                line += &format!(" {}", after.condition.into_str());
            }
        }
        if let Some(when) = &task.when {
            line += &format!(" when {when}");
        }
        if let Some(max) = task.max_concurrent {
            line += &format!(" max {max}");
        }
        if let Some(pool) = task.pool {
            line += &format!(" pool {pool}");
        }
        line
    };
    plan.tasks.iter().map(line).collect()
}

const FULL: &str = r#"
workflow: etl
owner: analytics
params: { day: 2026-11-14 }
max_concurrent: 200
fail_fast: true
timeout: 6h
defaults: { retry: { attempts: 3 }, env: { A: b }, resources: { cpu: 0.5 } }
templates:
  heavy: { run: "./go {{ item }}", resources: { cpu: 4, memory: 1GiB }, max_concurrent: 10, for_each: [1] }
  unused: { max_concurrent: 3 }
tasks:
  publish: { run: ./publish, after: [transform, { task: each, on: end }], when: "params.day != '' and tasks.extract.outputs.rows > 0", retry: { losses: 5 } }
  extract: { run: "./extract {{ item }}", for_each: [eu, us, apac], resources: { cpu: 1, db/orders: 1 } }
  transform: { template: heavy, after: [extract], max_concurrent: 2 }
  each: { run: "./x {{ item }}", for_each: [eu, us, apac], after: [{ task: extract, each: true }] }
  mapped: { run: "./one {{ item.name }}", for_each: "{{ tasks.list.outputs.files }}" }
  list: { run: ./list }
  grid: { run: "./g {{ matrix.os }} {{ matrix.py }}", matrix: { py: [3, 4], os: [a, b] } }
  count: { run: "./c {{ item }}", for_each: { range: [0, 1000] } }
  prod: { run: "./c {{ item.a }} {{ item.b }}", for_each: { product: { a: [1, 2], b: { range: [0, 3] } } } }
  layer2: { run: "true", for_each: "0..4", after: [{ task: count, items: "0,1;1,2;2,3;3" }] }
  layer3: { template: heavy, run: "true", for_each: "0..2", after: [{ task: count, items: [[0, 999], []] }] }
"#;

#[test]
fn a_workflow_becomes_a_plan_in_dependency_order() {
    let plan = plan(FULL);
    assert_eq!(
        shown(&plan),
        [
            r#"extract ["eu"|"us"|"apac"]"#,
            "transform [1] <- 0 max 2 pool 0",
            r#"each ["eu"|"us"|"apac"] <- 0 each"#,
            "publish <- 1 <- 2 end <- 0 when params.day != '' and tasks.extract.outputs.rows > 0",
            "list",
            "mapped from 4.files <- 4",
            r#"grid (os="a"|"b" x py=3|4)"#,
            "count 0+1*1000",
            "prod (a=1|2 x b=0|1|2)",
            "layer2 0+1*4 <- 7 0,1;1,2;2,3;3",
            "layer3 0+1*2 <- 7 0,999; pool 0",
        ]
    );
    assert_eq!((&*plan.name, &*plan.owner), ("etl", "analytics"));
    assert_eq!(
        plan.params,
        BTreeMap::from([("day".to_owned(), "2026-11-14".to_owned())])
    );
    assert_eq!(plan.max_concurrent, Some(200));
    assert!(plan.fail_fast);
    assert_eq!(plan.timeout, Some(Millis::from_secs(6 * 3_600)));
    let heavy = Pool {
        name: "heavy".to_owned(),
        max_concurrent: 10,
    };
    assert_eq!(plan.pools, [heavy]);
}

#[test]
fn tasks_inherit_from_templates_and_defaults() {
    let plan = plan(FULL);
    let spec = |name: &str| {
        let task = plan.tasks.iter().find(|task| task.name == name);
        &task.expect("it is there").spec
    };
    let extract = spec("extract");
    assert_eq!((&*extract.name, &*extract.owner), ("extract", "analytics"));
    assert_eq!(extract.request.resources.cpu_milli, 1_000);
    assert_eq!(extract.request.resources.named["db/orders"], 1);
    assert_eq!(extract.env["A"], "b");
    assert_eq!(extract.env["BATON_PARAM_DAY"], "2026-11-14");
    assert_eq!(spec("list").request.resources.cpu_milli, 500);
    let publish = spec("publish");
    assert_eq!(
        (publish.retry.failures_max, publish.retry.losses_max),
        (2, 5)
    );
    let transform = spec("transform");
    assert_eq!(transform.request.resources.cpu_milli, 4_000);
    assert_eq!(transform.request.resources.memory_min, 1 << 30);
    assert_eq!(words(&plan, "transform")[2], "./go {{ item }}");
    assert_eq!(words(&plan, "layer3")[2], "true");
}

#[test]
fn the_command_of_a_task_replaces_that_of_its_template() {
    let plan = plan(
        "workflow: w\ntemplates:\n  t: { processes: [{ name: a, run: x }, { name: b, run: y }], order: [[a, b]], matrix: { a: [1] } }\n\
         tasks:\n  one: { template: t, run: z, for_each: [{ n: 1 }] }\n  two: { template: t }\n",
    );
    assert_eq!(shown(&plan), [r#"one [{"n":1}]"#, "two (a=1)"]);
    assert_eq!(words(&plan, "one")[2], "z");
    assert!(matches!(plan.tasks[1].spec.work, Work::Task(_)));
}

#[test]
fn small_files_become_their_plans() {
    for (tasks, expected) in [
        ("a: { run: x }", &["a"][..]),
        ("b: { run: x, after: a }\n  a: { run: x }", &["a", "b <- 0"]),
        (
            "b: { run: x }\n  a: { run: x }\n  c: { run: x }",
            &["b", "a", "c"],
        ),
        ("a: { run: x, for_each: [] }", &["a []"]),
        (
            "a: { run: x, for_each: [1.50, +3, true, null, [1, a], { b: 1 }, 18446744073709551615] }",
            &[r#"a ["1.50"|"+3"|true|null|[1,"a"]|{"b":1}|18446744073709551615]"#],
        ),
        (
            "a: { run: x, for_each: { range: [10, 0, -4] } }",
            &["a 10+-4*3"],
        ),
        ("a: { run: x, for_each: \"-2..2\" }", &["a -2+1*4"]),
        ("a: { run: x, for_each: { range: [5, 5] } }", &["a 5+1*0"]),
        ("a: { run: x, matrix: { n: \"0..3\" } }", &["a (n=0|1|2)"]),
        (
            "a: { run: x }\n  b: { run: x, after: { task: a, on: failure } }",
            &["a", "b <- 0 failure"],
        ),
        (
            "a: { run: x }\n  b: { run: x, after: [{ task: a, each: true }] }",
            &["a", "b <- 0 each"],
        ),
        (
            "a: { run: x }\n  b: { run: x, after: [{ task: a, items: 0 }] }",
            &["a", "b <- 0 0"],
        ),
        (
            "a: { run: x }\n  b: { run: x, for_each: \"{{ tasks.a.outputs.l }}\", after: [{ task: a, on: end }] }",
            &["a", "b from 0.l <- 0 end"],
        ),
        // A reference to an output implies a dependency, item by item where all edges between are.
        (
            "a: { run: x, for_each: [1, 2] }\n  b: { run: x, for_each: [1, 2], after: [{ task: a, each: true }] }\n  c: { run: 'x {{ tasks.a.outputs.k }}', for_each: [1, 2], after: [{ task: b, each: true }] }\n  d: { run: 'x {{ tasks.a.outputs.k }}', after: [c] }",
            &[
                "a [1|2]",
                "b [1|2] <- 0 each",
                "c [1|2] <- 1 each <- 0 each",
                "d <- 2 <- 0",
            ],
        ),
        ("a: { run: x, when: true }", &["a when true"]),
        ("a: { run: x, max_concurrent: 5 }", &["a max 5"]),
    ] {
        let text = format!("workflow: w\ntasks:\n  {tasks}\n");
        assert_eq!(shown(&plan(&text)), expected, "{text}");
    }
}

#[test]
fn every_string_renders_as_intended() {
    let file = yaml(
        r#"
workflow: w
params: { p: , q: "{" }
tasks:
  up: { run: [x] }
  a:
    for_each: [eu]
    after: [up]
    env: { E: "{{ params.q }}{ {{item}}" }
    run: [ "{{ params.p }}", "{{{{.Names}}", "{{ workflow.name }} {{ task.name }}", "{{ item }}{{ tasks.up.outputs.k }}", "{{ params.q }}{{ params.q }}", "}} {" ]
"#,
    );
    let plan = planned(&file, &[("p", "{{ item }}")]);
    let fill = |text: &str| {
        template::render(text, |reference| match reference {
            template::Reference::Item => Some("eu".into()),
            template::Reference::Output { task, key } => Some(format!("{task}.{key}").into()),
            other => panic!("{other}"),
        })
    };
    let filled: Vec<String> = words(&plan, "a").iter().map(|word| fill(word)).collect();
    assert_eq!(
        filled,
        ["{{ item }}", "{{.Names}}", "w a", "euup.k", "{{", "}} {"]
    );
    let env = &plan.tasks[1].spec.env;
    assert_eq!(fill(&env["E"]), "{{ eu");
    assert_eq!(fill(&env["BATON_PARAM_P"]), "{{ item }}");
}

#[test]
fn processes_and_their_checks_keep_references_too() {
    let plan = plan(
        "workflow: w\ntasks:\n  a:\n    for_each: [x]\n    processes:\n      - { name: p, run: \"go {{ item }}\", cwd: \"sub/{{ item }}\", \
         env: { B: \"{{ item }}\" }, ready: { http: { port: 80, path: \"/{{ item }}\" } } }\n",
    );
    let Work::Task(task) = &plan.tasks[0].spec.work else {
        panic!("a plain command has no directory");
    };
    let process = &task.processes[0];
    assert_eq!(process.run, CommandLine::Shell("go {{ item }}".to_owned()));
    assert_eq!(process.cwd.as_deref(), Some("sub/{{ item }}"));
    assert_eq!(process.env["B"], "{{ item }}");
    let ready = process.ready.as_ref().expect("it has one");
    let path = "/{{ item }}".to_owned();
    assert_eq!(ready.probe, Probe::Http { port: 80, path });
}

#[test]
fn arguments_are_checked_against_parameter_types() {
    let file = yaml(
        "workflow: w\nparams: { n: { type: int, default: 3 } }\ntasks: { a: { run: \"x {{ params.n }}\" } }\n",
    );
    assert_eq!(words(&planned(&file, &[]), "a")[2], "x 3");
    let plan = planned(&file, &[("n", "+7")]);
    assert_eq!(words(&plan, "a")[2], "x 7");
    assert_eq!(plan.params["n"], "7");
}

#[test]
fn a_workflow_is_the_same_in_three_formats_and_as_json() {
    let from = yaml(FULL);
    let expected = planned(&from, &[]);
    let sent = from.to_json().to_string();
    let arrived: Value = serde_json::from_str(&sent).expect("it is JSON");
    let arrived = workflow_from_json(&arrived, "w").unwrap_or_else(|errors| panic!("{errors}"));
    let same = |file: &WorkflowFile| {
        let plan = planned(file, &[]);
        let by_name = |plan: &Plan| {
            let specs = plan
                .tasks
                .iter()
                .map(|task| (task.name.clone(), (task.spec.clone(), task.items.clone())));
            let mut specs: BTreeMap<_, _> = specs.collect();
            // The only one with a position.
            specs.remove("mapped");
            specs
        };
        assert_eq!(by_name(&plan), by_name(&expected));
        assert_eq!(plan.tasks.len(), expected.tasks.len());
        assert_eq!(plan.pools, expected.pools);
    };
    same(&arrived);
    assert_eq!(arrived.to_json(), from.to_json());
    same(
        &parse_workflow(&sent, Format::Json, "w.json").unwrap_or_else(|errors| panic!("{errors}")),
    );
    let toml = "workflow = \"w\"\n[params]\nn = 1.10\n[tasks.b]\nrun = \"echo {{ params.n }}\"\nafter = [\"c\"]\n[tasks.c]\nrun = \"x\"\nfor_each = [1, 2]\n";
    let toml =
        parse_workflow(toml, Format::Toml, "w.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let like = yaml(
        "workflow: w\nparams: { n: 1.10 }\ntasks:\n  b: { run: \"echo {{ params.n }}\", after: [c] }\n  c: { run: x, for_each: [1, 2] }\n",
    );
    assert_eq!(planned(&toml, &[]), planned(&like, &[]));
    assert_eq!(toml.to_json()["params"]["n"], "1.10");
}

#[test]
fn the_top_level_decides_the_kind_of_a_file() {
    let any = |name: &str| load_any(folder("../../examples").join(name));
    match any("etl.yaml") {
        Ok(AnyFile::Workflow(file)) => assert_eq!(file.name(), "etl"),
        other => panic!("{other:?}"),
    }
    match any("hello.toml") {
        Ok(AnyFile::Task(file)) => assert_eq!(file.name(), "hello"),
        other => panic!("{other:?}"),
    }
    let errors = load_workflow(folder("../../examples/hello.yaml")).expect_err("a task");
    assert_eq!(
        errors.problems[0].message,
        "expected a workflow, found a task"
    );
}

#[test]
fn the_example_is_a_valid_workflow() {
    let file = load_workflow(folder("../../examples/etl.yaml"))
        .unwrap_or_else(|errors| panic!("{errors}"));
    let plan = planned(&file, &[]);
    assert_eq!(
        shown(&plan),
        [
            r#"extract ["eu"|"us"|"apac"]"#,
            r#"transform ["eu"|"us"|"apac"] <- 0 each"#,
            "list <- 1",
            "load from 2.files <- 2",
            "report <- 3 <- 0 when params.rows > 0",
        ]
    );
}

#[test]
fn every_block_of_yaml_in_the_documentation_is_a_workflow() {
    let text =
        fs::read_to_string(folder("../../docs/workflows.md")).expect("part of the repository");
    let blocks: Vec<&str> = text
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(blocks.len() >= 5, "{}", blocks.len());
    for block in blocks {
        let file = parse_workflow(block, Format::Yaml, "docs")
            .unwrap_or_else(|errors| panic!("{block}\n{errors}"));
        planned(&file, &[]);
    }
}

fn cases() -> Vec<PathBuf> {
    let mut cases: Vec<PathBuf> = fs::read_dir(folder("tests/workflow-errors"))
        .expect("the folder is part of the crate")
        .map(|entry| entry.expect("it is readable").path())
        .filter(|path| Format::of(path).is_some())
        .collect();
    cases.sort();
    cases
}

/// The arguments of a case: lines of NAME=VALUE in its `.params` file, if it exists.
fn arguments(path: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(format!("{}.params", path.display())).unwrap_or_default();
    let pairs = text
        .lines()
        .map(|line| line.split_once('=').expect("NAME=VALUE"));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn errors(path: &Path) -> Errors {
    let name = path.file_name().expect("a file").to_string_lossy();
    let text = fs::read_to_string(path).expect("it is readable");
    let format = Format::of(path).expect("only such files are cases");
    parse_workflow(&text, format, &name)
        .and_then(|file| file.plan(&arguments(path), Wall(0)))
        .map(|_| panic!("{name}: nothing is wrong with it"))
        .unwrap_or_else(|errors| errors)
}

#[test]
fn every_invalid_file_has_its_golden_errors() {
    golden::compare(cases(), errors);
}

#[test]
fn every_problem_has_a_hint_and_a_position_if_it_is_in_the_file() {
    for path in cases() {
        for problem in errors(&path).problems {
            let is_argument = problem.path.starts_with("params.");
            assert!(
                problem.position.is_some() || is_argument,
                "{}: {problem:?}",
                path.display()
            );
            assert!(!problem.message.is_empty() && !problem.hint.is_empty());
            assert!(!problem.message.contains('\n') && !problem.hint.contains('\n'));
        }
    }
}

fn part(tasks: Value, before: &Plan) -> Result<Plan, Errors> {
    workflow_part(&json!({ "tasks": tasks }).to_string(), before, "part")
}

#[test]
fn a_part_follows_the_existing_tasks() {
    let before = plan(
        "workflow: w\nowner: me\nparams: { day: x }\ntasks:\n  a: { run: x, for_each: [1, 2] }\n  b: { run: x, after: [a] }\n",
    );
    let tasks = json!({
        "d": { "run": "x {{ params.day }} {{ tasks.a.outputs.k }} {{ workflow.name }}", "after": ["c", "b"] },
        "c": { "run": "x", "for_each": [3, 4], "after": [{ "task": "a", "each": true }] },
        "e": { "run": "x", "for_each": "{{ tasks.b.outputs.list }}" },
        "f": { "run": "x", "for_each": "{{ tasks.d.outputs.list }}" },
    });
    let added = part(tasks, &before).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(
        shown(&added),
        [
            "c [3|4] <- 0 each",
            "d <- 2 <- 1 <- 0",
            "e from 1.list <- 1",
            "f from 3.list <- 3"
        ]
    );
    assert_eq!((&*added.name, &*added.owner), ("w", "me"));
    assert_eq!(words(&added, "d")[2], "x x {{ tasks.a.outputs.k }} w");
    assert_eq!(added.tasks[0].spec.env["BATON_PARAM_DAY"], "x");
    let mut whole = before.clone();
    whole.tasks.extend(added.tasks);
    assert_eq!(check::check(&whole), Ok(()));
}

#[test]
fn a_part_has_only_new_tasks() {
    let before = plan("workflow: w\ntasks:\n  a: { run: x, for_each: [1, 2] }\n  b: { run: x }\n");
    let messages = |errors: Errors| -> Vec<String> {
        let problems = errors.problems.into_iter();
        problems
            .map(|it| format!("{}: {}", it.path, it.message))
            .collect()
    };
    let found = part(
        json!({
            "a": { "run": "x" },
            "c": { "template": "t", "run": "x" },
            "d": { "run": "x {{ tasks.b.outputs.k }} {{ params.day }}", "after": ["z"] },
            "e": { "run": "x", "after": [{ "task": "a", "items": "2" }] },
        }),
        &before,
    );
    assert_eq!(
        messages(found.expect_err("all of them are wrong")),
        [
            "tasks.a: the workflow already has a task `a`",
            "tasks.c.template: a task of a workflow has no field `template`",
            "tasks.d.after[0]: unknown task `z`",
            "tasks.d.run: `params.day` is not a parameter of this workflow",
            "tasks.d.run: `tasks.b.outputs.k` may not be known yet: `d` does not run after `b`",
            "tasks.e.after[0].items: unknown item 2: `a` has 2 items, numbered from 0",
        ]
    );
    let found = json!({ "tasks": {}, "defaults": {} }).to_string();
    let found = workflow_part(&found, &before, "part");
    assert_eq!(
        messages(found.expect_err("nothing is there")),
        [
            "defaults: a part of a workflow has no field `defaults`",
            "tasks: the workflow has no tasks",
        ]
    );
}

#[test]
fn limits_count_the_existing_tasks() {
    let before = plan("workflow: w\ntasks: { a: { run: x, for_each: \"0..1999999\" } }\n");
    let kind = |tasks| part(tasks, &before).expect_err("too many").problems[0].kind;
    assert_eq!(
        kind(json!({ "b": { "run": "x", "for_each": "0..2" } })),
        Kind::TooLarge
    );
    assert!(part(json!({ "b": { "run": "x" } }), &before).is_ok());
}

#[test]
fn axes_of_a_product_are_in_the_order_of_their_names() {
    let plan = plan("workflow: w\ntasks: { a: { run: x, matrix: { z: [1], b: [2] } } }\n");
    let axis = |name: &str, value: &str| Axis {
        name: name.to_owned(),
        values: vec![value.to_owned()],
    };
    assert_eq!(
        plan.tasks[0].items,
        Items::Product(vec![axis("b", "2"), axis("z", "1")])
    );
}

#[test]
fn a_list_parameter_is_the_items_of_a_task() {
    let file = yaml(
        "workflow: w
params: { regions: [eu, us, 3], rows: { type: list, default: '[{\"n\": 1}]' } }
tasks:
  get:   { run: 'x {{ item }}', for_each: '{{ params.regions }}' }
  check: { run: 'y {{ item }}', for_each: '{{ params.regions }}', after: [{ task: get, each: true }] }
  maps:  { run: 'z {{ item.n }}', for_each: '{{ params.rows }}' }
",
    );
    let values = |plan: &Plan, task: usize| match &plan.tasks[task].items {
        Items::Values(values) => values.join("|"),
        other => panic!("{other:?}"),
    };
    let plan = planned(&file, &[]);
    assert_eq!(values(&plan, 0), "\"eu\"|\"us\"|3");
    assert_eq!(values(&plan, 0), values(&plan, 1));
    let other = planned(&file, &[("regions", "a, b"), ("rows", "[]")]);
    assert_eq!(values(&other, 1), "\"a\"|\"b\"");
    assert_eq!(values(&other, 2), "");
    let refused = |name: &str, value: &str| {
        let params = [(name.to_owned(), value.to_owned())].into();
        let errors = file.plan(&params, Wall(0)).expect_err("no items");
        errors.to_string()
    };
    let keyless = refused("rows", "[{\"n\": 1}, {\"m\": 2}]");
    assert!(keyless.contains("has no such key"), "{keyless}");
    assert!(refused("rows", "[1").contains("is not JSON"));
}
