//! Every bound on what a file may hold, each with its reason. What a plan may hold is
//! `baton_model::limits`.

use crate::tree::SizeLimits;

/// Bytes of one file: some ten thousand processes, written at length. More is a
/// program's output, and belongs into an array or a workflow.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;

/// Lists and maps within each other. The schema needs seven; the rest is for a
/// clear error about what is nested wrongly instead of one about the depth.
pub const DEPTH_MAX: usize = 32;

/// Values that YAML aliases may unfold a file to.
pub const VALUES_MAX: usize = 250_000;

/// Bytes of text that YAML aliases may unfold a file to.
pub const TEXT_BYTES_MAX: usize = 4 * FILE_BYTES_MAX;

/// Processes of one task: ten times what recovery is measured with.
pub const PROCESSES_MAX: usize = 10_000;

/// Problems that are reported one by one; the rest is only counted. Nobody fixes
/// more than this before trying again.
pub const PROBLEMS_MAX: usize = 50;

/// Bytes of one argument, path or variable after templates were filled in, with
/// its terminating zero: the kernel takes none that is longer.
pub const ARGUMENT_BYTES_MAX: usize = 128 * 1024;

/// Bytes that a task may grow to when its templates are filled in and every
/// process gets its variables: a small file must not fill a host's memory.
pub const BOUND_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Characters of somebody's text that an error repeats.
pub const QUOTED_CHARS_MAX: usize = 60;

/// The longest duration, ten years: sums of several still fit everywhere.
pub const DURATION_MS_MAX: u64 = 3_650 * 24 * 60 * 60 * 1_000;

/// The largest size, an exbibyte: more than anybody has, and sums still fit.
pub const SIZE_BYTES_MAX: u64 = 1 << 60;

/// Thousandths of a core: more than any host has.
pub const CPU_MILLI_MAX: u64 = 1_000_000 * 1_000;

/// Devices, counts and tries: large enough to mean "very many".
pub const COUNT_MAX: u32 = 1_000_000_000;

/// Rotated files that are kept: each is a name in one directory.
pub const BACKUPS_MAX: u32 = 1_000;

/// The largest factor by which a pause or a resource may grow at once,
/// in thousandths.
pub const FACTOR_MILLI_MAX: u64 = 100_000;

/// Characters of a name, which is also a file name.
pub const NAME_BYTES_MAX: usize = 200;

/// The highest priority, and the lowest below zero: enough to put anything before or
/// after anything else.
pub const PRIORITY_MAX: i32 = 1_000;

/// Labels that a task may ask for, and values of one.
pub const CONSTRAINTS_MAX: usize = 100;

/// Steps in which something grows, or places that a task falls back to: more attempts than
/// anybody means.
pub const STEPS_MAX: usize = 100;

/// Files that are fetched for a task. More belong into an archive.
pub const URIS_MAX: usize = 100;

/// Bytes of one address.
pub const URI_BYTES_MAX: usize = 4_096;

/// Values that a parameter may be one of: as many as a person chooses from.
pub const CHOICES_MAX: usize = 100;

/// Bytes of one workflow file: a program wrote it, and this holds some ten million edges.
pub const WORKFLOW_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes of one in TOML, whose reader keeps every word of the text in memory several times
/// over. Programs write JSON.
pub const WORKFLOW_TOML_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Values of a workflow file, those that YAML aliases unfold to included: every item that a run
/// may have can be listed, beside a hundred thousand tasks. Each takes about a hundred bytes
/// while the file is read. Edges are cheaper as one text.
pub const WORKFLOW_VALUES_MAX: usize = 3_000_000;

/// Bytes of text that YAML aliases may unfold a workflow file to: no more than the largest file
/// has without them.
pub const WORKFLOW_TEXT_BYTES_MAX: usize = WORKFLOW_BYTES_MAX;

/// Bytes that all tasks of a workflow may take from its defaults and templates: a thousand
/// for each of as many tasks as a plan may have.
pub const WORKFLOW_INHERITED_BYTES_MAX: usize = 200 * 1024 * 1024;

/// Bytes of the texts of a plan, with everything filled in: a thousand for each of as many tasks
/// as it may have.
pub const PLAN_BYTES_MAX: usize = 200 * 1024 * 1024;

/// Steps from task to task while looking for those that references to outputs name further
/// upstream: part of a second. Whoever names them in `after` needs none.
pub const UPSTREAM_STEPS_MAX: usize = 20_000_000;

/// Tasks of a workflow among which a name is looked for that was nearly written. More were
/// written by a program, which makes no slips.
pub const SUGGESTED_TASKS_MAX: usize = 5_000;

/// A task file.
pub(crate) const TASK_LIMITS: SizeLimits = SizeLimits {
    what: "task",
    file_bytes_max: FILE_BYTES_MAX,
    toml_bytes_max: FILE_BYTES_MAX,
    values_max: VALUES_MAX,
    json_values_max: FILE_BYTES_MAX,
    text_bytes_max: TEXT_BYTES_MAX,
    hint: "move data into files of their own, or make a workflow of several tasks",
};

/// A workflow file.
pub(crate) const WORKFLOW_LIMITS: SizeLimits = SizeLimits {
    what: "workflow",
    file_bytes_max: WORKFLOW_BYTES_MAX,
    toml_bytes_max: WORKFLOW_TOML_BYTES_MAX,
    values_max: WORKFLOW_VALUES_MAX,
    json_values_max: WORKFLOW_VALUES_MAX,
    text_bytes_max: WORKFLOW_TEXT_BYTES_MAX,
    hint: "write edges as texts, items as ranges or as the outputs of a task, and large files as JSON",
};
