//! Time and memory for parsing and planning large workflow files. Run one case per process,
//! since the kernel reports only the peak memory of a process:
//!
//! ```sh
//! cargo run --release -p baton-files --example workflow_scale -- layers
//! ```
//!
//! | argument | |
//! |---|---|
//! | `layers` | a thousand tasks of a thousand items, each of which waits for three items of the task before |
//! | `tasks` | as many tasks as a plan may have |
//! | `values` | a list of a million values, as YAML |

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Instant;

use baton_files::{Format, parse_workflow};
use baton_model::time::Wall;

/// Returns the peak memory of this process, as the kernel reports it.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.unwrap_or("VmHWM unknown").replace('\t', " ")
}

fn measure(what: &str, text: &str, format: Format) {
    println!("{what}: {} bytes, before: {}", text.len(), peak());
    let start = Instant::now();
    let file = parse_workflow(text, format, "large").unwrap_or_else(|errors| panic!("{errors}"));
    println!("  read in {:?}, {}", start.elapsed(), peak());
    let start = Instant::now();
    let plan = file
        .plan(&BTreeMap::new(), Wall(0))
        .unwrap_or_else(|errors| panic!("{errors}"));
    println!(
        "  {} tasks planned in {:?}, {}",
        plan.tasks.len(),
        start.elapsed(),
        peak()
    );
}

/// A thousand layers of a thousand items, each of which waits for three of the layer before.
fn layers() -> String {
    let mut edges = String::new();
    for item in 0..1_000 {
        let semicolon = if item > 0 { ";" } else { "" };
        let (second, third) = ((item + 1) % 1_000, (item + 7) % 1_000);
        let _ = write!(edges, "{semicolon}{item},{second},{third}");
    }
    let mut text = r#"{"workflow":"layers","tasks":{"#.to_owned();
    for layer in 0..1_000 {
        let _ = write!(
            text,
            r#""layer{layer}":{{"run":["true"],"for_each":{{"range":[0,1000]}}"#
        );
        if layer > 0 {
            let _ = write!(
                text,
                r#","after":[{{"task":"layer{}","items":"{edges}"}}]"#,
                layer - 1
            );
        }
        text.push_str(if layer < 999 { "}," } else { "}" });
    }
    text + "}}"
}

fn tasks(count: usize) -> String {
    let mut text = r#"{"workflow":"tasks","defaults":{"retry":{"attempts":3},"resources":{"cpu":0.1}},"tasks":{"#.to_owned();
    for task in 0..count {
        let comma = if task > 0 { "," } else { "" };
        let (first, second) = (task / 2, task / 3);
        let _ = write!(text, r#"{comma}"task{task}":{{"run":"sleep 1""#);
        let after = match task {
            0 => String::new(),
            _ if first == second => format!(r#","after":["task{first}"]"#),
            _ => format!(r#","after":["task{first}","task{second}"]"#),
        };
        let _ = write!(text, "{after}}}");
    }
    text + "}}"
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("layers") => measure("layers", &layers(), Format::Json),
        Some("tasks") => measure("tasks", &tasks(200_000), Format::Json),
        Some("values") => {
            let values = "\"value\",".repeat(1_000_000);
            let text = format!("workflow: w\ntasks: {{ a: {{ run: x, for_each: [{values}] }} }}\n");
            measure("values", &text, Format::Yaml);
        }
        _ => println!("say which: layers, tasks or values"),
    }
}
