//! What the tasks of an entry have requested and used, and which requests would suit them.

use baton_model::api::{List, Percentiles, TaskUsage};

use crate::text::{bytes, duration};

/// The block of a page; its template is `suggestion.html`.
#[derive(Debug)]
pub struct SizingBlock {
    pub rows: Vec<SizingRow>,
}

/// One task.
#[derive(Debug)]
pub struct SizingRow {
    pub task: String,
    pub attempts: u64,
    pub cpus: String,
    pub cores: String,
    pub memory: String,
    pub peak: String,
    pub elapsed: String,
    pub reasons: Vec<String>,
    /// Lines for its file.
    pub lines: Vec<String>,
}

impl SizingBlock {
    /// The block; none if nothing was measured yet.
    #[must_use]
    pub fn new(used: &List<TaskUsage>) -> Option<Self> {
        let rows: Vec<SizingRow> = used.items.iter().map(SizingRow::new).collect();
        (!rows.is_empty()).then_some(Self { rows })
    }
}

impl SizingRow {
    fn new(used: &TaskUsage) -> Self {
        let task = used.task.as_ref();
        let unknown = || "–".to_owned();
        let requested = &used.requested;
        Self {
            attempts: used.attempts,
            cpus: task.map_or_else(unknown, |_| requested.cpus.to_string()),
            cores: spread(used.cores, |cores| format!("{cores:.1}")),
            memory: match requested.memory {
                0 => unknown(),
                memory => bytes(memory),
            },
            peak: spread(used.memory, |peak| bytes(peak as u64)),
            elapsed: spread(used.elapsed_seconds, duration),
            task: task.cloned().unwrap_or_else(|| "the whole run".to_owned()),
            reasons: used.suggestion.reasons.clone(),
            lines: used.suggestion.lines.clone(),
        }
    }
}

fn spread(of: Option<Percentiles>, text: impl Fn(f64) -> String) -> String {
    match of {
        Some(it) => [it.p50, it.p95, it.max].map(text).join(", "),
        None => "–".to_owned(),
    }
}
