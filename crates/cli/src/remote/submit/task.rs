//! The task to submit: a file with overrides, or a task built from a command.
//!
//! It is validated here as the scheduler will validate it, so that errors have their location in
//! the file, and no scheduler is needed for that. Templates stay unresolved: the scheduler fills
//! them in.

use std::path::Path;

use baton_core::workflow::template::escape;
use serde_json::{Map, Value, json};

use super::directory::Directory;
use super::environment::Environment;
use super::{Exclusive, Pin, TaskOptions};
use crate::output::Failure;

/// File name shown in errors of the command line.
const COMMAND_LINE: &str = "command line";

/// Loads a task file, with the overrides of the command line.
pub(super) fn from_file(
    path: &Path,
    options: &TaskOptions,
    environment: &Environment,
) -> Result<Value, Failure> {
    let file = baton_files::load(path).map_err(Failure::usage)?;
    let mut task = object(file.to_json());
    apply_options(&mut task, options, environment);
    check(task, &path.display().to_string())
}

/// Builds a task of one command. In an array of items, `{{ item }}` in it is a reference.
pub(super) fn from_command(
    words: &[String],
    options: &TaskOptions,
    environment: &Environment,
    has_items: bool,
) -> Result<Value, Failure> {
    let template = |text: &str| {
        if has_items {
            escape_except_item(text)
        } else {
            escape(text)
        }
    };
    let run = match words {
        // As for `baton local simplerun`, except that a plain program name needs no shell.
        [line] if !is_word(line) => Value::from(template(line)),
        words => words.iter().map(|word| template(word)).collect(),
    };
    let mut task = object(json!({ "task": name(words), "run": run }));
    apply_options(&mut task, options, environment);
    check(task, COMMAND_LINE)
}

/// A template that renders as `text`, with the item in place of `{{ item }}` and `{{ item.KEY }}`.
fn escape_except_item(text: &str) -> String {
    let (mut template, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once("{{") {
        template.push_str(before);
        let reference = after.split_once("}}").filter(|(inside, _)| {
            let inside = inside.trim();
            inside == "item" || inside.starts_with("item.")
        });
        match reference {
            Some((inside, beyond)) => {
                template.push_str(&format!("{{{{{inside}}}}}"));
                rest = beyond;
            }
            None => {
                template.push_str("{{{{");
                rest = after;
            }
        }
    }
    template.push_str(rest);
    template
}

fn check(task: Map<String, Value>, name: &str) -> Result<Value, Failure> {
    let task = Value::Object(task);
    baton_files::from_json(&task, name).map_err(Failure::usage)?;
    Ok(task)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        // Unreachable: a loaded task is a map.
        _ => Map::new(),
    }
}

/// True for a text that is one plain word to a shell.
fn is_word(text: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%,".contains(c);
    !text.is_empty() && text.chars().all(plain)
}

/// Default name of a command: that of its program.
fn name(words: &[String]) -> String {
    let first = words.first().map(String::as_str).unwrap_or_default();
    let program = first.split_whitespace().next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default();
    let name: String = program
        .chars()
        .filter(|c| is_word(&c.to_string()))
        .collect();
    match name.trim_start_matches('.') {
        "" => "command".to_owned(),
        name => name.to_owned(),
    }
}

fn apply_options(task: &mut Map<String, Value>, options: &TaskOptions, environment: &Environment) {
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            task.insert(key.to_owned(), value);
        }
    };
    set("task", options.name.clone().map(Value::from));
    set("owner", options.owner.clone().map(Value::from));
    set("priority", options.priority.map(Value::from));
    set("timeout", options.timeout.clone().map(Value::from));
    let exclusive = options.exclusive.map(|exclusive| match exclusive {
        Exclusive::Timed => "timed",
        Exclusive::Strict => "strict",
    });
    set("exclusive", exclusive.map(Value::from));
    set("lost_after", options.lost_after.clone().map(Value::from));
    set("time_request", options.time.clone().map(Value::from));
    let fleets = (!options.fleets.is_empty()).then(|| json!(options.fleets));
    set("fleets", fleets);
    set("nodes", options.nodes.map(Value::from));
    set("warn", options.warn.as_deref().map(warning));
    let text = |text: &Option<String>| text.as_deref().map(|text| Value::from(escape(text)));
    set("stdout", text(&options.output));
    set("stderr", text(&options.error));
    match &environment.directory {
        Directory::Unchanged => {}
        Directory::Sandbox => {
            task.remove("cwd");
        }
        Directory::Path(path) => set("cwd", Some(escape(path).into())),
    }
    if !options.tags.is_empty() {
        let tags = task
            .entry("tags")
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(tags) = tags {
            tags.extend(options.tags.iter().cloned().map(Value::from));
        }
    }
    let files = options.secrets.iter().cloned().map(Value::from);
    let variables = options.secret_env.iter();
    let variables = variables.map(|(env, name)| json!({ "name": name, "env": env }));
    let mut secrets = files.chain(variables).peekable();
    if secrets.peek().is_some()
        && let Value::Array(named) = task.entry("secrets").or_insert_with(|| json!([]))
    {
        named.extend(secrets);
    }
    if let Some(retries) = options.retries {
        insert_into(task, "retry", "attempts", (u64::from(retries) + 1).into());
    }
    if let Some(losses) = options.losses {
        insert_into(task, "retry", "losses", losses.into());
    }
    let pin = options.pin.map(|pin| match pin {
        Pin::Cores => "cores",
        Pin::Socket => "socket",
    });
    let resources = [
        ("cpu", options.cpu.as_deref().map(number)),
        ("memory", options.memory.clone().map(Value::from)),
        ("gpu", options.gpu.as_deref().map(number)),
        ("pin", pin.map(Value::from)),
    ];
    for (name, value) in resources {
        if let Some(value) = value {
            insert_into(task, "resources", name, value);
        }
    }
    for (name, count) in &options.resources {
        insert_into(task, "resources", name, number(count));
    }
    for (name, value) in &environment.variables {
        let file = task.get("env").and_then(|env| env.get(name));
        if file.is_none() {
            insert_into(task, "env", name, escape(value).into());
        }
    }
    for (name, value) in &environment.named {
        insert_into(task, "env", name, escape(value).into());
    }
    labels(task, &options.labels);
}

/// A warning as a file has it, of `SIGNAL@BEFORE`; the validation rejects what is wrong with it.
fn warning(text: &str) -> Value {
    let (signal, before) = text.split_once('@').unwrap_or(("USR1", text));
    json!({ "signal": number(signal), "before": before })
}

/// Sets constraints. Several values of one label are alternatives; they replace those of the file.
fn labels(task: &mut Map<String, Value>, labels: &[(String, String)]) {
    for (name, _) in labels {
        let values = labels.iter().filter(|(other, _)| other == name);
        let values: Vec<&str> = values.map(|(_, value)| value.as_str()).collect();
        insert_into(task, "constraints", name, json!(values));
    }
}

/// Inserts a value into the map `key`, which is created if missing. Loading has rejected any value
/// that is not a map.
fn insert_into(task: &mut Map<String, Value>, key: &str, name: &str, value: Value) {
    if let Value::Object(map) = task.entry(key).or_insert_with(|| json!({})) {
        map.insert(name.to_owned(), value);
    }
}

/// Parses a number; other text is kept for the validation to reject.
fn number(text: &str) -> Value {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match serde_json::from_str(text) {
        Ok(Value::Number(number)) if plain => Value::Number(number),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(own).collect()
    }

    fn command(line: &[&str]) -> Value {
        from_command(
            &words(line),
            &TaskOptions::default(),
            &Environment::default(),
            false,
        )
        .expect("a good command")
    }

    #[test]
    fn only_the_item_is_a_reference() {
        for (text, template) in [
            ("wc {{ item }}", "wc {{ item }}"),
            ("{{item.k}} {{.Names}}", "{{item.k}} {{{{.Names}}"),
            ("{{ items }} {{", "{{{{ items }} {{{{"),
        ] {
            assert_eq!(escape_except_item(text), template);
        }
    }

    fn message(result: Result<Value, Failure>) -> String {
        match result {
            Err(Failure::Message(crate::output::USAGE, message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_command_is_called_like_its_program() {
        for (line, expected) in [
            (&["/bin/echo", "hello"][..], "echo"),
            (&["sleep 3; echo done"], "sleep"),
            (&["$(x)"], "x"),
            (&["."], "command"),
            (&["é.sh"], "é.sh"),
        ] {
            assert_eq!(command(line)["task"], *expected, "{line:?}");
        }
    }

    #[test]
    fn one_word_with_signs_is_a_shell_command_and_others_are_not() {
        assert_eq!(command(&["a | b"])["run"], "a | b");
        assert_eq!(command(&["/bin/true"])["run"], json!(["/bin/true"]));
        assert_eq!(command(&["a", "$B"])["run"], json!(["a", "$B"]));
        // Braces of a command are its own.
        assert_eq!(command(&["a", "{{.Names}}"])["run"][1], "{{{{.Names}}");
    }

    #[test]
    fn options_say_what_a_file_would() {
        let options = TaskOptions {
            name: Some("n".to_owned()),
            owner: Some("o".to_owned()),
            cpu: Some("2".to_owned()),
            memory: Some("1GiB..4GiB".to_owned()),
            gpu: Some("1".to_owned()),
            pin: Some(Pin::Cores),
            nodes: None,
            fleets: words(&["short", "long"]),
            resources: pairs(&[("db/orders", "2")]),
            labels: pairs(&[("zone", "eu"), ("zone", "us"), ("disk", "ssd")]),
            priority: Some(-5),
            tags: words(&["nightly", "gpu"]),
            retries: Some(3),
            losses: Some(2),
            timeout: Some("1h".to_owned()),
            time: Some("30m".to_owned()),
            warn: Some("USR1@60s".to_owned()),
            env: Vec::new(),
            cwd: None,
            output: Some("o%a".to_owned()),
            error: None,
            secrets: words(&["db"]),
            secret_env: pairs(&[("KEY", "api")]),
            exclusive: Some(Exclusive::Strict),
            lost_after: Some("10m".to_owned()),
        };
        assert_eq!(
            from_command(
                &words(&["x", "y"]),
                &options,
                &Environment {
                    directory: Directory::Path("/d".to_owned()),
                    variables: pairs(&[("A", "here"), ("B", "{{there}}")]),
                    named: pairs(&[("A", "{{b}}")]),
                },
                false
            )
            .expect("it is good"),
            json!({
                "cwd": "/d",
                "stdout": "o%a",
                "task": "n",
                "owner": "o",
                "run": ["x", "y"],
                "resources": { "cpu": 2, "memory": "1GiB..4GiB", "gpu": 1, "pin": "cores", "db/orders": 2 },
                "fleets": ["short", "long"],
                "secrets": ["db", { "name": "api", "env": "KEY" }],
                "constraints": { "zone": ["eu", "us"], "disk": ["ssd"] },
                "priority": -5,
                "tags": ["nightly", "gpu"],
                "retry": { "attempts": 4, "losses": 2 },
                "timeout": "1h",
                "time_request": "30m",
                "warn": { "signal": "USR1", "before": "60s" },
                "env": { "A": "{{{{b}}", "B": "{{{{there}}" },
                "exclusive": "strict",
                "lost_after": "10m",
            })
        );
    }

    #[test]
    fn options_change_a_file_and_keep_the_rest() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("t.yaml");
        let text = "task: t\nrun: x\nparams: { v: 1.10 }\nretry: { attempts: 2, backoff: 5s }\n\
                    resources: { cpu: 4, memory: 1GiB }\n";
        std::fs::write(&path, text).expect("it is writable");
        let options = TaskOptions {
            cpu: Some("1".to_owned()),
            retries: Some(0),
            ..TaskOptions::default()
        };
        assert_eq!(
            from_file(&path, &options, &Environment::default()).expect("it is good"),
            json!({
                "task": "t",
                "run": "x",
                "params": { "v": "1.10" },
                "retry": { "attempts": 1, "backoff": "5s" },
                "resources": { "cpu": 1, "memory": "1GiB" },
            })
        );
    }

    #[test]
    fn errors_are_reported_before_a_request_is_sent() {
        let options = TaskOptions {
            cpu: Some("two".to_owned()),
            timeout: Some("5".to_owned()),
            ..TaskOptions::default()
        };
        assert_eq!(
            message(from_command(
                &words(&["x"]),
                &options,
                &Environment::default(),
                false
            )),
            "command line: resources.cpu\n  expected a number, found a string\n  hint: write a \
             number from 0 to 1000000\n\ncommand line: timeout\n  `5` has no unit\n  hint: write \
             a duration such as 250ms, 5s, 10m, 1h30m or 2d"
        );
        let missing = from_file(
            Path::new("no-such.yaml"),
            &TaskOptions::default(),
            &Environment::default(),
        );
        assert!(message(missing).starts_with("no-such.yaml\n  the file cannot be read"));
    }
}
