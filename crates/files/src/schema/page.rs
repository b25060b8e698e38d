//! The page `docs/tasks.md`, written from the tables. `BATON_REWRITE=1` rewrites it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::fleet::FLEETS;
use super::json::{collect, key};
use super::task::TASK;
use super::workflow::WORKFLOW;
use super::{Object, Type};
use crate::limits::COUNT_MAX;

const HEAD: &str = r#"# Fields of files

Tasks, workflows and fleets are written as YAML, TOML or JSON. `baton schema task`, `workflow` and `fleets` print the JSON Schemas of this page, and a
server has them at `/schemas/task.json`, `/schemas/workflow.json` and `/schemas/fleets.json`, so that an editor can complete and check a file:

```sh
baton schema task > task.schema.json
```

```yaml
# yaml-language-server: $schema=task.schema.json
task: hello
run: echo hello
```

Baton itself checks more than a schema can: names, order, references, values that depend on each other. An unknown field is an error.

| type | values |
|---|---|
| text | a string, a number, true or false, as it is written: `1.10` stays `1.10`. [References](#references) such as `{{ params.day }}` are expanded; `{{{{` stands for `{{` |
| string | without references |
| name | a string of up to 200 bytes without spaces and slashes that does not start with a dot |
| duration | `250ms`, `5s`, `1h30m`, `2d` |
| size | `256MiB`, `1GB`, `20G` (binary, as for `du`), or a number of bytes |

A task file has the fields of a [task](#task), a workflow file those of a [workflow](#workflow), a file of fleets those of [fleets](#fleets);
[workflows](workflows.md), [schedules](schedules.md) and [fleets](fleets.md) have pages of their own. Paths of fields in error messages are those of this page: `processes[2].after[0]`.

## References

| in a task file | value |
|---|---|
| `{{ params.NAME }}` | a parameter: `-p NAME=VALUE`, or its default in `params` |
| `{{ item }}` | the item of this instance, in an array of items: a line of `--each-line FILE`, a value of `--from-json FILE`, `items` in the API. Texts as they are, other values as JSON; also in `BATON_ITEM` |
| `{{ item.KEY }}` | a value of an item that is a JSON object |
| `{{ task.name }}` | the name of the task |
| `{{ task.id }}`, `{{ ports.NAME }}` | the id and the ports of `baton local run` |

```yaml
task: resize
run: [convert, "{{ item.file }}", -resize, "{{ item.width }}", "small-{{ item.file }}"]
```

```sh,no-run
echo '[{"file": "a.png", "width": 200}, {"file": "b.png", "width": 300}]' | baton submit resize.yaml --from-json -
```

Inserted text is not expanded again. In a `run` that is one string the shell splits and expands it like any other text; a list of arguments is safe. Workflow
files have [references of their own](workflows.md#references-and-outputs), where `{{ item }}` is the value of `for_each`.
"#;

#[test]
fn the_page_of_all_fields_is_that_of_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tasks.md");
    if std::env::var_os("BATON_REWRITE").is_some() {
        fs::write(&path, page()).expect("it is writable");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page(),
        "docs/tasks.md is not that of the tables: run `make golden`"
    );
}

fn page() -> String {
    let mut objects = Vec::new();
    collect(&TASK, &mut objects);
    collect(&WORKFLOW, &mut objects);
    collect(&FLEETS, &mut objects);
    let sections = objects.iter().map(|object| section(object));
    HEAD.to_owned() + &sections.collect::<String>()
}

fn section(object: &Object) -> String {
    let mut text = format!("\n## {}\n\n", object.title);
    text += "| field | type | default | |\n|---|---|---|---|\n";
    for field in object.fields {
        let default = match field.default {
            _ if field.required => "required".to_owned(),
            "" => String::new(),
            default => format!("`{default}`"),
        };
        let kind = type_text(&field.kind).replace('|', "\\|");
        let _ = writeln!(
            text,
            "| `{}` | {kind} | {default} | {} |",
            field.name, field.about
        );
    }
    if let Some(kind) = &object.others {
        let _ = writeln!(
            text,
            "| any other | {} | | A countable resource that workers offer under this name, such as `db/orders`. |",
            type_text(kind)
        );
    }
    text
}

fn type_text(kind: &Type) -> String {
    match kind {
        Type::Any => "any value".to_owned(),
        Type::Null => "null".to_owned(),
        Type::Bool => "true or false".to_owned(),
        Type::Number => "number".to_owned(),
        Type::Integer(i64::MIN, _) => "integer".to_owned(),
        Type::Integer(min, max) if *max >= i64::from(COUNT_MAX) => format!("integer from {min}"),
        Type::Integer(min, max) => format!("integer from {min} to {max}"),
        Type::Factor(min, max) => {
            let [min, max] = [min, max].map(|milli| *milli as f64 / 1e3);
            format!("number from {min} to {max}")
        }
        Type::Text => "string".to_owned(),
        Type::Scalar => "text".to_owned(),
        Type::Name => "name".to_owned(),
        Type::Duration(_) => "duration".to_owned(),
        Type::Word(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            words.join(", ")
        }
        Type::Pattern(about, _) => (*about).to_owned(),
        Type::ByteLimit => "size, `unlimited`, or a range of both".to_owned(),
        Type::NumberLimit => "integer, `unlimited`, or a range of both".to_owned(),
        Type::List(kind, ..) => format!("list of {}", element_text(kind)),
        Type::Map(kind, _) => format!("map to {}", element_text(kind)),
        Type::Object(object) => format!("[{}](#{})", object.title.to_lowercase(), key(object)),
        Type::AnyOf(kinds) => {
            // A number of bytes is a size.
            let kinds = kinds
                .iter()
                .filter(|kind| !matches!(kind, Type::Integer(0, i64::MAX)));
            kinds.map(type_text).collect::<Vec<_>>().join(" or ")
        }
    }
}

fn element_text(kind: &Type) -> String {
    match kind {
        Type::AnyOf(_) => format!("({})", type_text(kind)),
        kind => type_text(kind),
    }
}
