//! Hostile input: parsing terminates without a panic for any file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use baton_core::workflow::check;
use baton_core::workflow::template::{self, Token};
use baton_files::{
    Binding, Definition, Format, Kind, TaskName, from_json, parse, parse_any, parse_bytes,
    parse_workflow, resembles_definition, workflow_from_json,
};
use baton_model::spec::Work;
use baton_model::task::{Condition, ProcessName, TaskSpec};
use baton_model::time::Wall;
use baton_testing::Rng;
use serde_json::json;

/// Fragments that break parsers more often than random bytes.
const SPLINTERS: &[&str] = &[
    "{{",
    "}}",
    "{{{{",
    "{{ params.x }}",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    ": ",
    "- ",
    "\n",
    "\t",
    "&a ",
    "*a",
    "<<: *a",
    "!!binary ",
    "!t ",
    "---\n",
    "...\n",
    "|\n",
    ">\n",
    "#",
    "..",
    "-1",
    "99999999999999999999",
    "1e999",
    ".nan",
    "0x",
    "\u{0}",
    "\u{feff}",
    "\u{202e}",
    "ä",
    "null",
    "~",
    "[[processes]]\n",
    "= ",
    "\\u0000",
    "\\ud800",
    "%",
    "/",
    "after",
    "run",
    "name",
    ",",
];

fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.index(bytes.len());
    match rng.index(6) {
        0 if !bytes.is_empty() => bytes[at] = rng.bytes(1)[0],
        1 if !bytes.is_empty() => {
            bytes.remove(at);
        }
        2 => {
            let to = (at + rng.index(40)).min(bytes.len());
            bytes.drain(at.min(to)..to);
        }
        3 => {
            let to = (at + rng.index(60)).min(bytes.len());
            let copy = bytes[at.min(to)..to].to_vec();
            let into = rng.index(bytes.len());
            bytes.splice(into..into, copy);
        }
        4 if rng.index(4) == 0 => bytes.truncate(at),
        _ => {
            let splinter = SPLINTERS[rng.index(SPLINTERS.len())].bytes();
            bytes.splice(at..at, splinter);
        }
    }
}

/// The files of the folders.
fn corpus(folders: &[&str]) -> Vec<(Format, Vec<u8>)> {
    let mut corpus = Vec::new();
    for folder in folders {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for entry in fs::read_dir(folder).expect("part of the repository") {
            let path = entry.expect("readable").path();
            // Expanding an alias bomb thousands of times proves nothing more.
            let bomb = path.ends_with("alias-bomb.yaml");
            if let Some(format) = Format::of(&path).filter(|_| !bomb) {
                corpus.push((path.clone(), format, fs::read(&path).expect("readable")));
            }
        }
    }
    // Directory order differs between hosts; rounds must be reproducible.
    corpus.sort_by(|a, b| a.0.file_name().cmp(&b.0.file_name()));
    corpus
        .into_iter()
        .map(|(_, format, bytes)| (format, bytes))
        .collect()
}

/// A stored definition must parse again.
fn assert_parses_again(name: &TaskName, definition: &Definition) {
    let json = serde_json::from_str(&definition.source).expect("it is JSON");
    let file = from_json(&json, "library").unwrap_or_else(|errors| panic!("{errors}"));
    let again = file.definition(definition.file.clone());
    assert_eq!(again.as_ref(), Ok(&(name.clone(), definition.clone())));
}

#[test]
fn no_mutated_file_makes_the_reader_panic() {
    // Valid files several times: their mutations reach further than those of invalid ones.
    let corpus = corpus(&[
        "tests",
        "tests",
        "tests",
        "tests",
        "../../examples",
        "tests/errors",
    ]);
    let binding = Binding {
        params: BTreeMap::new(),
        ports: BTreeMap::from([("http".to_owned(), 80)]),
        task_id: Some("t".to_owned()),
        nominal_time: Some(Wall(0)),
        item: None,
    };
    let mut read = 0;
    for round in 0..20_000_u64 {
        let mut rng = Rng::new(round);
        let (format, original) = &corpus[rng.index(corpus.len())];
        let mut bytes = original.clone();
        for _ in 0..=rng.index(4) {
            mutate(&mut bytes, &mut rng);
        }
        let result = std::panic::catch_unwind(|| {
            let file = parse_bytes(&bytes, *format, "mutated")?;
            if let Ok((name, definition)) = file.definition(None) {
                assert_parses_again(&name, &definition);
            }
            file.bind(&binding)
        });
        match result {
            Ok(Ok(task)) => {
                assert_invariants(&task, round);
                read += 1;
            }
            Ok(Err(errors)) => {
                assert!(!errors.problems.is_empty(), "round {round}");
                assert!(!errors.to_string().contains('\u{1b}'), "round {round}");
            }
            Err(_) => panic!("round {round}: {}", String::from_utf8_lossy(&bytes)),
        }
    }
    // Otherwise the mutator only ever tests the parsers.
    assert!(read > 200, "only {read} mutated files were good ones");
}

#[test]
fn no_mutated_workflow_makes_the_reader_panic_or_becomes_an_invalid_plan() {
    let mut corpus = corpus(&["tests/workflow-errors"]);
    // As often as all invalid files together: only a valid one reaches the plan.
    let etl = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/etl.yaml");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/workflows.md");
    let docs = fs::read_to_string(docs).expect("part of the repository");
    let blocks = docs.split("```yaml\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("```").next());
    let good: Vec<Vec<u8>> = blocks
        .map(|block| block.as_bytes().to_vec())
        .chain([fs::read(etl).expect("part of the repository")])
        .collect();
    for bytes in good.iter().cycle().take(corpus.len()) {
        corpus.push((Format::Yaml, bytes.clone()));
        let file = parse_workflow(&String::from_utf8_lossy(bytes), Format::Yaml, "good");
        let file = file.unwrap_or_else(|errors| panic!("{errors}"));
        corpus.push((Format::Json, file.to_json().to_string().into_bytes()));
    }
    let mut read = 0;
    for round in 0..10_000_u64 {
        let mut rng = Rng::new(round);
        let (format, original) = &corpus[rng.index(corpus.len())];
        let mut bytes = original.clone();
        for _ in 0..=rng.index(4) {
            mutate(&mut bytes, &mut rng);
        }
        let text = String::from_utf8_lossy(&bytes);
        let result = std::panic::catch_unwind(|| {
            let file = parse_workflow(&text, *format, "mutated")?;
            let plan = file.plan(&BTreeMap::new(), Wall(0))?;
            let again = workflow_from_json(&file.to_json(), "again")?;
            Ok::<_, baton_files::Errors>((plan, again.plan(&BTreeMap::new(), Wall(0))?))
        });
        match result {
            Ok(Ok((plan, again))) => {
                assert_eq!(check::check(&plan), Ok(()), "round {round}");
                assert_eq!(plan.tasks.len(), again.tasks.len(), "round {round}");
                read += 1;
            }
            Ok(Err(errors)) => {
                assert!(!errors.problems.is_empty(), "round {round}");
                assert!(!errors.to_string().contains('\u{1b}'), "round {round}");
            }
            Err(_) => panic!("round {round}: {text}"),
        }
    }
    assert!(read > 200, "only {read} mutated workflows were good ones");
}

/// The invariants that the plan relies on, as far as they are easy to check.
fn assert_invariants(task: &TaskSpec, round: u64) {
    let find = |name: &ProcessName| task.processes.iter().position(|p| p.name == *name);
    assert!(!task.processes.is_empty(), "round {round}");
    for (index, process) in task.processes.iter().enumerate() {
        assert_eq!(find(&process.name), Some(index), "round {round}");
        for dependency in &process.after {
            let on = find(&dependency.process).map(|at| &task.processes[at]);
            let on = on.unwrap_or_else(|| panic!("round {round}: unknown dependency"));
            assert_eq!(on.is_final, process.is_final, "round {round}");
            assert!(process.ephemeral || !on.ephemeral, "round {round}");
            let ends = matches!(dependency.condition, Condition::Success | Condition::Exit);
            assert!(!(on.daemon && ends), "round {round}");
        }
    }
}

/// About a mebibyte of `piece`, with `{}` replaced by a number.
fn many(head: &str, piece: &str, tail: &str) -> String {
    let mut text = head.to_owned();
    let mut number = 0;
    while text.len() + piece.len() + tail.len() + 8 < baton_files::limits::FILE_BYTES_MAX {
        let _ = write!(text, "{}", piece.replace("@", &number.to_string()));
        number += 1;
    }
    text + tail
}

/// Files that would take minutes if parsing were quadratic.
fn mistakes() -> Vec<(&'static str, Format, String)> {
    let processes = {
        let mut text = "processes:\n".to_owned();
        for n in 0..5_000 {
            let _ = writeln!(text, "  - {{ name: process-{n}, run: x }}");
        }
        text
    };
    vec![
        ("fields", Format::Yaml, many("", "field@: 1\n", "")),
        ("fields", Format::Json, many("{", "\"f@\": 1,", "\"x\": 1}")),
        ("fields", Format::Toml, many("", "f@ = 1\n", "")),
        (
            "names",
            Format::Yaml,
            many("task: a\nprocesses:\n", "- {name: a, run: x}\n", ""),
        ),
        (
            "loops",
            Format::Yaml,
            many(
                "task: a\nprocesses:\n",
                "- {name: p@, run: x, after: [p@]}\n",
                "",
            ),
        ),
        (
            "dependencies",
            Format::Yaml,
            many(
                &(processes.clone() + "  - { name: z, run: x, after: ["),
                "proces-@,",
                "] }\n",
            ),
        ),
        (
            "chains",
            Format::Yaml,
            many(
                &(processes.clone() + "order: ["),
                "[process-1,process-@],",
                "]\n",
            ),
        ),
        (
            "references",
            Format::Yaml,
            many("task: a\nrun: \"", "{{parms.x@}}", "\"\n"),
        ),
        (
            "limits",
            Format::Yaml,
            many("processes: [{name: a, run: x, rlimits: {", "n@: 1,", "}}]"),
        ),
        (
            "resources",
            Format::Yaml,
            many("task: a\nresources: {", "cp@: x,", "}\n"),
        ),
        ("depth", Format::Json, many("", "[", "")),
        ("depth", Format::Toml, many("run = ", "[", "")),
        ("depth", Format::Yaml, many("run: ", "[", "")),
        ("depth", Format::Yaml, many("run: ", "{a: ", "")),
        ("depth", Format::Yaml, many("", "- ", "x")),
        ("quotes", Format::Yaml, many("run: \"", "\\n", "")),
    ]
}

#[test]
fn a_file_full_of_mistakes_is_rejected() {
    for (what, format, text) in mistakes() {
        assert!(parse(&text, format, "hostile").is_err(), "{what}");
    }
}

/// Files that would take minutes or all memory if items were created before they are counted.
fn monsters() -> Vec<(&'static str, Kind, Format, String)> {
    let head = "workflow: w\ntasks:\n";
    let axes: String = (0..40)
        .map(|n| format!("a{n}: {{ range: [0, 1000000] }}, "))
        .collect();
    let values = "x,".repeat(20_000);
    let env = "y".repeat(60_000);
    let tasks = |piece: &str, count: usize| -> String {
        let lines = (0..count).map(|n| format!("  t{n}: {}\n", piece.replace('@', &n.to_string())));
        lines.collect()
    };
    vec![
        (
            "a product",
            Kind::TooLarge,
            Format::Yaml,
            format!("{head}  a: {{ run: x, matrix: {{ {axes} }} }}\n"),
        ),
        (
            "products of nothing",
            Kind::TooLarge,
            Format::Yaml,
            head.to_owned() + &tasks("{ run: x, matrix: { a: [], b: \"0..1000000\" } }", 1_000),
        ),
        (
            "ranges",
            Kind::TooLarge,
            Format::Yaml,
            head.to_owned() + &tasks("{ run: x, for_each: \"0..1000000\" }", 1_000),
        ),
        (
            "defaults",
            Kind::TooLarge,
            Format::Yaml,
            format!("defaults: {{ env: {{ A: {env} }} }}\n{head}") + &tasks("{ run: x }", 4_000),
        ),
        (
            "templates",
            Kind::TooLarge,
            Format::Yaml,
            format!("templates: {{ t: {{ for_each: [{values}] }} }}\n{head}")
                + &tasks("{ run: x, template: t }", 3_000),
        ),
        (
            "parameters",
            Kind::TooLarge,
            Format::Yaml,
            format!("params: {{ a: {env} }}\n{head}") + &tasks("{ run: x }", 4_000),
        ),
        (
            "unknown tasks",
            Kind::UnknownTask,
            Format::Yaml,
            head.to_owned() + &tasks("{ run: x, after: [task-@] }", 6_000),
        ),
        (
            "loops",
            Kind::Cycle,
            Format::Yaml,
            head.to_owned() + &tasks("{ run: x, after: [t@] }", 6_000),
        ),
        (
            "lists of edges",
            Kind::BadEdges,
            Format::Yaml,
            format!(
                "{head}  a: {{ run: x }}\n  b: {{ run: x, after: [{{ task: a, items: \"{}\" }}] }}\n",
                ";".repeat(5_000_000)
            ),
        ),
        (
            "depth",
            Kind::TooDeep,
            Format::Json,
            "{\"tasks\":".repeat(10_000) + "1" + &"}".repeat(10_000),
        ),
        (
            "depth",
            Kind::TooDeep,
            Format::Yaml,
            "tasks: ".to_owned() + &"{a: ".repeat(100_000),
        ),
        (
            "conditions",
            Kind::BadValue,
            Format::Yaml,
            format!(
                "{head}  a: {{ run: x, when: \"{}\" }}\n",
                "(".repeat(100_000)
            ),
        ),
        (
            "values",
            Kind::TooLarge,
            Format::Json,
            format!(
                "{{\"workflow\":\"w\",\"tasks\":[{}0]}}",
                "0,".repeat(3_000_001)
            ),
        ),
        ("aliases", Kind::TooLarge, Format::Yaml, {
            let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
            for n in 1..10 {
                let alias = format!("*a{}, ", n - 1).repeat(10);
                let _ = writeln!(text, "a{n}: &a{n} [{alias}]");
            }
            text + "workflow: w\n"
        }),
    ]
}

#[test]
fn a_small_file_with_a_huge_expansion_is_rejected() {
    for (what, kind, format, text) in monsters() {
        let plan = parse_workflow(&text, format, "monster")
            .and_then(|it| it.plan(&BTreeMap::new(), Wall(0)));
        let errors = plan.err().unwrap_or_else(|| panic!("{what} became a plan"));
        assert!(
            errors.problems.iter().any(|it| it.kind == kind),
            "{what}: {errors}"
        );
    }
}

#[test]
fn an_alias_bomb_is_refused_before_it_explodes() {
    let (.., text) = monsters()
        .into_iter()
        .find(|it| it.0 == "aliases")
        .expect("listed");
    for parse in [
        |text: &str| parse_workflow(text, Format::Yaml, "bomb").map(drop),
        |text: &str| parse_any(text.as_bytes(), Format::Yaml, "bomb").map(drop),
    ] {
        let errors = parse(&text).expect_err("refused");
        let [problem] = &errors.problems[..] else {
            panic!("{errors}");
        };
        assert!(
            problem.message.starts_with("anchors and aliases expand"),
            "{errors}"
        );
        // The fifth line has 10^5 values, and each takes some hundred bytes.
        let line = problem.position.expect("known").line;
        assert!(line <= 5, "{errors}");
    }
}

#[test]
fn only_definitions_have_a_field_of_definitions() {
    for text in [
        "task: a\nrun: b",
        "# c\n\"task\" : a",
        "{task: a, run: b}",
        "owner = \"o\"\ntask = \"a\"",
        "[[processes]]\nname = \"a\"",
        "[tasks.a]\nrun = \"b\"",
        "{\n  \"owner\": \"o\",\n  \"workflow\": \"w\"\n}",
        "processes:\n  - [",
    ] {
        assert!(resembles_definition(text.as_bytes()), "{text}");
    }
    for text in [
        "root:*:20228:0:99999:7::\ndaemon:*:20228:0:99999:7::",
        "-----BEGIN PRIVATE KEY-----\nMC4CAQAw\n",
        "{\"password\": \"p\", \"taskforce\": 1}",
        "password = \"run away\"\n[runner]",
        "\0\u{1}task",
        "",
    ] {
        assert!(!resembles_definition(text.as_bytes()), "{text}");
    }
}

#[test]
fn the_reader_and_the_core_read_the_same_templates() {
    const PARTS: &[&str] = &[
        "{{ item }}",
        "{{item}}",
        "{{",
        "}}",
        "{{{{",
        "{",
        "}",
        " ",
        "item",
        "ä",
        "x",
    ];
    let fill = |text: &str| template::render(text, |_| Some("eu".into()));
    let (mut read, mut refused) = (0, 0);
    for round in 0..20_000_u64 {
        let mut rng = Rng::new(round);
        let parts = (0..1 + rng.index(6)).map(|_| PARTS[rng.index(PARTS.len())]);
        let text: String = parts.collect();
        let task = json!({ "run": [text], "for_each": ["eu"] });
        let file = workflow_from_json(&json!({ "workflow": "w", "tasks": { "a": task } }), "w");
        // What the reader refuses, the core would leave as it is written.
        let invalid = template::scan(&text).any(|token| match token {
            Token::Literal(_) => false,
            Token::Reference { inside, .. } => template::Reference::parse(inside).is_err(),
            Token::Unclosed(_) => true,
        });
        assert_eq!(file.is_err(), invalid, "{text}");
        match file.map(|file| file.plan(&BTreeMap::new(), Wall(0))) {
            Ok(Ok(plan)) => {
                let Work::Command(words) = &plan.tasks[0].spec.work else {
                    panic!("one process is a plain command");
                };
                assert_eq!(fill(&words[0]), fill(&text), "{text}");
                read += 1;
            }
            Ok(Err(errors)) => {
                let message = &errors.problems[0].message;
                assert!(message.contains("a brace directly precedes"), "{errors}");
            }
            Err(_) => refused += 1,
        }
    }
    assert!(read > 1_000 && refused > 1_000, "{read} {refused}");
}

#[test]
fn the_upstream_search_is_bounded() {
    // Every task refers to the first of a long chain without an `after` on it.
    let mut text =
        "workflow: w\ntasks:\n  t0: { run: x }\n  t1: { run: x, after: [t0] }\n".to_owned();
    for n in 2..20_000 {
        let _ = writeln!(
            text,
            "  t{n}: {{ run: \"{{{{ tasks.t0.outputs.k }}}}\", after: [t{}] }}",
            n - 1
        );
    }
    let errors = parse_workflow(&text, Format::Yaml, "far").expect_err("too far");
    assert_eq!(
        errors.problems[0].hint,
        "depend on the task directly: `after: [t0]`"
    );
}

#[test]
fn references_to_many_parameters_are_rejected() {
    let mut text = "task: a\nparams:\n".to_owned();
    for n in 0..20_000 {
        let _ = writeln!(text, "  parameter{n}:");
    }
    let text = many(&(text + "run: \""), "{{params.paramater@}}", "\"\n");
    let file = parse(&text, Format::Yaml, "hostile").expect("it can be read");
    assert!(file.bind(&Binding::default()).is_err());
    assert!(file.definition(None).is_err());
}

#[test]
fn a_chain_as_long_as_is_allowed_is_read() {
    let mut text = "task: long\nprocesses:\n  - { name: p0, run: x }\n".to_owned();
    for n in 1..baton_files::limits::PROCESSES_MAX {
        let _ = writeln!(text, "  - {{ name: p{n}, run: x, after: [p{}] }}", n - 1);
    }
    let file = parse(&text, Format::Yaml, "long").unwrap_or_else(|errors| panic!("{errors}"));
    let task = file.bind(&Binding::default()).expect("nothing to bind");
    assert_eq!(task.processes.len(), baton_files::limits::PROCESSES_MAX);
}
