//! The tables against the reader, and the JSON Schemas against both, with a validator from Python.
//!
//! A field that the reader asks for and its table lacks is a panic of `Fields::get`, which every
//! test of the reader would meet.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use baton_model::json;
use baton_model::time::Wall;
use serde_json::{Value, json};

use super::fleet::FLEETS;
use super::json::collect;
use super::task::TASK;
use super::workflow::WORKFLOW;
use super::{Object, Type, fleets_schema, task_schema, workflow_schema};
use crate::limits::{TASK_LIMITS, WORKFLOW_LIMITS};
use crate::{Binding, Errors, Format, Kind, source, tree};

/// The smallest file with each object, and where the object is.
#[rustfmt::skip]
const SAMPLES: &[(&str, &str, &str)] = &[
    ("Task", r#"{"task":"t","run":"x"}"#, ""),
    ("Process", r#"{"processes":[{"name":"p","run":"x"}]}"#, "/processes/0"),
    ("Dependency", r#"{"processes":[{"name":"a","run":"x"},{"name":"p","run":"x","after":[{"process":"a"}]}]}"#, "/processes/1/after/0"),
    ("Backoff", r#"{"processes":[{"name":"p","run":"x","backoff":{"first":"1s","max":"1m"}}]}"#, "/processes/0/backoff"),
    ("Stop", r#"{"processes":[{"name":"p","run":"x","stop":{}}]}"#, "/processes/0/stop"),
    ("Readiness check", r#"{"processes":[{"name":"p","run":"x","ready":{"tcp":80}}]}"#, "/processes/0/ready"),
    ("Health check", r#"{"processes":[{"name":"p","run":"x","health":{"tcp":80}}]}"#, "/processes/0/health"),
    ("HTTP probe", r#"{"processes":[{"name":"p","run":"x","ready":{"http":{"port":80}}}]}"#, "/processes/0/ready/http"),
    ("TCP probe", r#"{"processes":[{"name":"p","run":"x","ready":{"tcp":{"port":80}}}]}"#, "/processes/0/ready/tcp"),
    ("Resource limits", r#"{"processes":[{"name":"p","run":"x","rlimits":{}}]}"#, "/processes/0/rlimits"),
    ("Log", r#"{"processes":[{"name":"p","run":"x","log":{}}]}"#, "/processes/0/log"),
    ("Constraint", r#"{"task":"t","run":"x","constraints":{"zone":{"not":"a"}}}"#, "/constraints/zone"),
    ("Resources", r#"{"task":"t","run":"x","resources":{}}"#, "/resources"),
    ("Parameter", r#"{"task":"t","run":"x","params":{"p":{"default":"x"}}}"#, "/params/p"),
    ("Trigger", r#"{"task":"t","run":"x","trigger":{"schedule":"every minute","max_instances":1}}"#, "/trigger"),
    ("Warning", r#"{"task":"t","run":"x","warn":{"before":"1m"}}"#, "/warn"),
    ("Notify", r#"{"task":"t","run":"x","notify":{"channels":["ops"]}}"#, "/notify"),
    ("Expected run time", r#"{"task":"t","run":"x","expected":{}}"#, "/expected"),
    ("Retry", r#"{"task":"t","run":"x","retry":{}}"#, "/retry"),
    ("Scale", r#"{"task":"t","run":"x","retry":{"scale":{}}}"#, "/retry/scale"),
    ("Scaling of memory", r#"{"task":"t","run":"x","retry":{"scale":{"memory":{"factor":2}}}}"#, "/retry/scale/memory"),
    ("Scaling of cpu", r#"{"task":"t","run":"x","retry":{"scale":{"cpu":{"factor":2}}}}"#, "/retry/scale/cpu"),
    ("Scaling of gpu", r#"{"task":"t","run":"x","retry":{"scale":{"gpu":{"factor":2}}}}"#, "/retry/scale/gpu"),
    ("Scaling of timeout", r#"{"task":"t","run":"x","retry":{"scale":{"timeout":{"factor":2}}}}"#, "/retry/scale/timeout"),
    ("File to fetch", r#"{"task":"t","run":"x","uris":[{"from":"file:///a"}]}"#, "/uris/0"),
    ("Secret", r#"{"task":"t","run":"x","secrets":[{"name":"a"}]}"#, "/secrets/0"),
    ("Workflow", r#"{"workflow":"w","tasks":{"a":{"run":"x"}}}"#, ""),
    ("Defaults", r#"{"workflow":"w","defaults":{},"tasks":{"a":{"run":"x"}}}"#, "/defaults"),
    ("Template", r#"{"workflow":"w","templates":{"t":{"run":"x"}},"tasks":{"a":{"template":"t"}}}"#, "/templates/t"),
    ("Task of a workflow", r#"{"workflow":"w","tasks":{"a":{"run":"x"}}}"#, "/tasks/a"),
    ("Upstream task", r#"{"workflow":"w","tasks":{"a":{"run":"x"},"b":{"run":"x","after":[{"task":"a"}]}}}"#, "/tasks/b/after/0"),
    ("Items", r#"{"workflow":"w","tasks":{"a":{"run":"x","for_each":{"range":[0,1]}}}}"#, "/tasks/a/for_each"),
    ("Fleets", r#"{"fleets":{}}"#, ""),
    ("Fleet", r#"{"fleets":{"f":{"backend":"slurm","cpus":1,"memory":"1GiB","max":1}}}"#, "/fleets/f"),
    ("Range", r#"{"workflow":"w","tasks":{"a":{"run":"x","matrix":{"n":{"range":[0,1]}}}}}"#, "/tasks/a/matrix/n"),
];

/// A file, and which schema it has.
#[derive(Clone)]
struct File {
    json: Value,
    kind: FileKind,
}

/// The position of its schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileKind {
    Task,
    Workflow,
    Fleets,
}

impl File {
    fn new(json: Value) -> Self {
        let has = |field: &str| json.get(field).is_some();
        let kind = match () {
            () if has("fleets") => FileKind::Fleets,
            () if has("workflow") || has("tasks") => FileKind::Workflow,
            () => FileKind::Task,
        };
        Self { json, kind }
    }

    /// What the file means, as text; without what it says only about itself.
    fn meaning(&self) -> Result<String, Errors> {
        match self.kind {
            FileKind::Fleets => Ok(format!("{:?}", self.fleets()?)),
            FileKind::Workflow => {
                let file = crate::workflow_from_json(&self.json, "w")?;
                Ok(format!("{:?}", file.plan(&BTreeMap::new(), Wall(0))?))
            }
            FileKind::Task => {
                let file = crate::from_json(&self.json, "t")?;
                let instance = file.instance(&Binding::default())?;
                Ok(format!("{instance:?} {:?}", file.policy.trigger))
            }
        }
    }

    fn fleets(&self) -> Result<crate::FleetsFile, Errors> {
        crate::parse_fleets(self.json.to_string().as_bytes(), Format::Json, "f")
    }

    fn read(&self) -> Result<(), Errors> {
        match self.kind {
            FileKind::Fleets => self.fleets().map(|_| ()),
            FileKind::Workflow => crate::workflow_from_json(&self.json, "w").map(|_| ()),
            FileKind::Task => crate::from_json(&self.json, "t").map(|_| ()),
        }
    }
}

/// Every object of the tables, with its sample.
fn objects() -> Vec<(&'static Object, File, &'static str)> {
    let mut objects = Vec::new();
    collect(&TASK, &mut objects);
    collect(&WORKFLOW, &mut objects);
    collect(&FLEETS, &mut objects);
    let samples = objects.into_iter().map(|object| {
        let sample = SAMPLES.iter().find(|(title, ..)| *title == object.title);
        let (_, json, at) = sample.unwrap_or_else(|| panic!("{} has no sample", object.title));
        let file = File::new(serde_json::from_str(json).expect("it is JSON"));
        file.meaning().unwrap_or_else(|errors| panic!("{errors}"));
        (object, file, *at)
    });
    samples.collect()
}

/// The sample with another value of a field; without those that exclude it.
fn with(object: &Object, file: &File, at: &str, name: &str, value: Value) -> File {
    let mut file = file.clone();
    let map = file.json.pointer_mut(at).and_then(Value::as_object_mut);
    let map = map.expect("the sample has the object");
    if object.exclusive.contains(&name) {
        map.retain(|other, _| !object.exclusive.contains(&other.as_str()));
    }
    map.insert(name.to_owned(), value);
    file
}

/// Every field with a value that none takes.
fn files_with_garbage() -> Vec<(String, File)> {
    let mut files = Vec::new();
    for (object, file, at) in objects() {
        for name in object.names() {
            let garbage = with(object, &file, at, name, json!({ "x": { "": null } }));
            files.push((format!("{}: {name}", object.title), garbage));
        }
    }
    files
}

#[test]
fn every_field_of_a_table_is_read() {
    for (what, file) in files_with_garbage() {
        // Defaults have no processes to order; it is read with the tasks that have.
        if what == "Defaults: order" {
            continue;
        }
        assert!(file.read().is_err(), "{what} may be anything");
    }
}

#[test]
fn every_default_of_a_table_is_that_of_the_reader() {
    for (object, file, at) in objects() {
        for field in object
            .fields
            .iter()
            .filter(|field| !field.default.is_empty())
        {
            let default = serde_json::from_str(field.default);
            let default = default.unwrap_or_else(|_| json!(field.default));
            let written = with(object, &file, at, field.name, default);
            let what = format!("{}: {}", object.title, field.name);
            let meaning = |file: &File| {
                let meaning = file.meaning();
                meaning.unwrap_or_else(|errors| panic!("{what}: {errors}"))
            };
            assert_eq!(meaning(&written), meaning(&file), "{what}");
        }
    }
}

#[test]
fn every_keyword_of_a_table_is_read() {
    for (object, file, at) in objects() {
        for field in object.fields {
            let Type::Word(words) = field.kind else {
                continue;
            };
            for word in words {
                let file = with(object, &file, at, field.name, json!(word));
                let refused = file.read().err().map(|errors| errors.problems);
                // Another field may not fit: the default of a parameter of another type.
                let own = |path: &str| path.ends_with(field.name);
                let refused = refused.iter().flatten().find(|it| own(&it.path));
                assert!(refused.is_none(), "{refused:?}");
            }
        }
    }
}

/// The files of the repository that are valid.
fn valid_files() -> Vec<(String, File)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in ["examples", "crates/files/tests"] {
        for path in paths(&root.join(folder)) {
            files.push((
                path.display().to_string(),
                plain(&path).expect("it is valid"),
            ));
        }
    }
    let docs = fs::read_to_string(root.join("docs/workflows.md")).expect("readable");
    let blocks = docs.split("```yaml\n").skip(1);
    for block in blocks.filter_map(|rest| rest.split("```").next()) {
        let tree = tree::parse(block, Format::Yaml, &WORKFLOW_LIMITS).expect("it is YAML");
        files.push((block.to_owned(), File::new(source::plain_json(&tree))));
    }
    assert!(files.len() > 10, "the folders have moved");
    files
}

fn paths(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("part of the repository");
    let paths = entries.map(|entry| entry.expect("readable").path());
    let mut paths: Vec<_> = paths.filter(|path| Format::of(path).is_some()).collect();
    paths.sort();
    paths
}

/// A file as an editor sees it; `None` if it is not even a tree.
fn plain(path: &Path) -> Option<File> {
    let text = fs::read_to_string(path).ok()?;
    let tree = tree::parse(&text, Format::of(path)?, &TASK_LIMITS).ok()?;
    Some(File::new(source::plain_json(&tree)))
}

/// Files with errors that a schema can find.
fn invalid_files() -> Vec<(String, File)> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut files = Vec::new();
    for path in ["errors", "workflow-errors"]
        .map(|folder| paths(&tests.join(folder)))
        .concat()
    {
        let Some(file) = plain(&path) else { continue };
        let found = file.read().err().map(|errors| errors.problems);
        let structural = found.iter().flatten().any(|problem| {
            use Kind::{MissingField, NoProcesses, UnknownField, WrongType};
            let kinds = [MissingField, NoProcesses, UnknownField, WrongType];
            // Any other resource is a countable one, of which only the reader knows the typos; and
            // only the reader knows that a schedule supplies no parameters.
            let semantic = problem.message.starts_with("unknown resource `")
                || problem.path.starts_with("params");
            kinds.contains(&problem.kind) && !semantic
        });
        if structural {
            files.push((path.display().to_string(), file));
        }
    }
    assert!(files.len() > 10, "the folder has moved");
    files
}

/// Variants of valid files that the reader accepts.
fn accepted_variants<'a>(valid: impl Iterator<Item = &'a (String, File)>) -> Vec<(String, File)> {
    let values = [
        "null",
        "true",
        "0",
        "1",
        "-1",
        "1.5",
        "70000",
        r#""""#,
        r#""x""#,
        r#""5s""#,
        r#""0""#,
        r#"" 1s .. 1m ""#,
        r#""1 GiB""#,
        r#""1G..""#,
        r#""unlimited""#,
        r#""0..3""#,
        r#""{{ params.x }}""#,
        "[]",
        r#"["x"]"#,
        r#"[["a","b"]]"#,
        "[[0],[1]]",
        "{}",
        r#"{"x":1}"#,
        r#"{"x":[1]}"#,
        r#"{"first":"1s"}"#,
        r#"{"not":[1,"a"]}"#,
        r#"{"range":[0,3]}"#,
        r#"{"port":80}"#,
    ];
    let values = values.map(|text| serde_json::from_str::<Value>(text).expect("it is JSON"));
    let mut files = Vec::new();
    for (what, file) in valid {
        let places = places(&file.json, String::new());
        // Of a large file a part is enough: the others have the same fields.
        let step = if places.len() > 40 { 5 } else { 1 };
        for (number, at) in places.into_iter().enumerate() {
            for value in values.iter().skip(number % step).step_by(step) {
                let mut variant = file.clone();
                *variant.json.pointer_mut(&at).expect("it is there") = value.clone();
                if variant.read().is_ok() {
                    files.push((format!("{what} {at} {value}"), variant));
                }
            }
        }
    }
    assert!(files.len() > 500, "only {} variants are valid", files.len());
    files
}

/// The pointers to all values below the root.
fn places(value: &Value, at: String) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(at, it)| (at.to_string(), it))
            .collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, it)| (key.replace('~', "~0").replace('/', "~1"), it))
            .collect(),
        _ => Vec::new(),
    };
    let below = children.into_iter().flat_map(|(key, value)| {
        let at = format!("{at}/{key}");
        let mut all = places(value, at.clone());
        all.push(at);
        all
    });
    below.collect()
}

const VALIDATOR: &str = r#"
import json, sys
try:
    from jsonschema_rs import Draft202012Validator, meta
    check = meta.validate
except ImportError:
    try:
        from jsonschema import Draft202012Validator
        check = Draft202012Validator.check_schema
    except ImportError:
        sys.exit(3)
data = json.load(sys.stdin)
for schema in data["schemas"]:
    check(schema)
validators = [Draft202012Validator(schema) for schema in data["schemas"]]
json.dump([validators[kind].is_valid(file) for kind, file in data["files"]], sys.stdout)
"#;

/// Whether each file is valid by its schema; `None` without a validator, which `make tools`
/// installs.
fn validate(files: &[&(String, File)]) -> Option<Vec<bool>> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target =
        target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    let installed = target.join("tools/schemathesis/bin/python");
    let files = files
        .iter()
        .map(|(_, it)| json!([it.kind as usize, it.json]));
    let schemas = [task_schema(), workflow_schema(), fleets_schema()];
    let input = json!({ "schemas": schemas, "files": files.collect::<Value>() });
    for python in [installed, PathBuf::from("python3")] {
        let mut command = Command::new(python);
        command
            .args(["-c", VALIDATOR])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            continue;
        };
        let mut stdin = child.stdin.take().expect("it is a pipe");
        // Refused if the program has ended already.
        let _ = stdin.write_all(input.to_string().as_bytes());
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        if output.status.code() != Some(3) {
            assert!(output.status.success(), "the schema is invalid");
            return json::from_slice(&output.stdout).expect("a list of booleans");
        }
    }
    None
}

#[test]
fn the_schemas_accept_what_the_reader_accepts_and_refuse_other_fields_and_types() {
    let mut valid = valid_files();
    valid.extend(
        objects()
            .into_iter()
            .map(|(it, file, _)| (it.title.to_owned(), file)),
    );
    for (what, file) in &valid {
        file.read()
            .unwrap_or_else(|errors| panic!("{what}: {errors}"));
    }
    // The other formats of the same files have the same variants.
    let varied = valid
        .iter()
        .filter(|(what, _)| !what.ends_with(".json") && !what.ends_with(".toml"));
    let variants = accepted_variants(varied);
    let mut invalid = invalid_files();
    invalid.extend(files_with_garbage());
    let accepted = valid.len() + variants.len();
    let all: Vec<_> = valid.iter().chain(&variants).chain(&invalid).collect();
    let Some(results) = validate(&all) else {
        eprintln!("skipped: there is no Python with a validator of JSON Schemas");
        return;
    };
    assert_eq!(results.len(), all.len());
    let mut wrong = Vec::new();
    for (index, (result, (what, file))) in results.iter().zip(all).enumerate() {
        if *result != (index < accepted) {
            wrong.push(format!("{what}: {result} for {}", file.json));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
