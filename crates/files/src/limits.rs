//! Limits of files, each with its reason. The limits of a plan are `baton_model::limits`.

/// Bytes of one file: some ten thousand processes. Larger files are generated, and belong into
/// an array or a workflow.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;

/// Nesting depth of lists and maps. The schema needs seven; the margin allows a clear error
/// about a wrongly nested field instead of one about the depth.
pub const DEPTH_MAX: usize = 32;

/// Values of a file after expansion of YAML aliases.
pub const VALUES_MAX: usize = 250_000;

/// Bytes of text of a file after expansion of YAML aliases.
pub const TEXT_BYTES_MAX: usize = 4 * FILE_BYTES_MAX;

/// Events of the YAML parser that anchors may hold and aliases repeat: each takes some hundred bytes
/// while the file is read, and a few lines of aliases of aliases make any number of them. Larger files
/// are generated, and need no aliases.
pub const ALIAS_EVENTS_MAX: usize = 100_000;

/// Processes of one task: ten times what recovery is measured with.
pub const PROCESSES_MAX: usize = 10_000;

/// Problems that are reported one by one; further ones are only counted. A user rarely fixes
/// more than this before trying again.
pub const PROBLEMS_MAX: usize = 50;

/// Bytes of one rendered argument, path or variable with its terminating NUL: the kernel's
/// limit.
pub const ARGUMENT_BYTES_MAX: usize = 128 * 1024;

/// Bytes of a task after its templates are rendered and every process has its variables: a
/// small file must not exhaust a host's memory.
pub const BOUND_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Characters of user text that an error repeats.
pub const QUOTED_CHARS_MAX: usize = 60;

/// The longest duration, ten years: sums of several still fit everywhere.
pub const DURATION_MS_MAX: u64 = 3_650 * 24 * 60 * 60 * 1_000;

/// The smallest limit of memory that is not a slip of the unit: no process starts with less, and
/// one that does not start dies of a signal, without a word about memory.
pub const MEMORY_LIMIT_MIN: u64 = 64 << 10;

/// The largest size, an exbibyte: more than any host has, and sums still fit.
pub const SIZE_BYTES_MAX: u64 = 1 << 60;

/// Thousandths of a core: more than any host has.
pub const CPU_MILLI_MAX: u64 = 1_000_000 * 1_000;

/// Thousandths of a GPU of one task. More than any cluster has.
pub const GPU_MILLI_MAX: u64 = 1_000_000 * 1_000;

/// Devices, counts and tries: large enough to mean "very many".
pub const COUNT_MAX: u32 = 1_000_000_000;

/// Rotated log files: each is an entry of one directory.
pub const BACKUPS_MAX: u32 = 1_000;

/// The largest factor by which a backoff or a resource may grow at once,
/// in thousandths.
pub const FACTOR_MILLI_MAX: u64 = 100_000;

/// Characters of a name, which is also a file name.
pub const NAME_BYTES_MAX: usize = 200;

/// The highest priority, and the lowest when negated: enough levels to order any workload.
pub const PRIORITY_MAX: i32 = 1_000;

/// Constraints of a task, and values of one constraint.
pub const CONSTRAINTS_MAX: usize = 100;

/// Steps of a scaling rule, or fallbacks of a task: more attempts than any task needs.
pub const STEPS_MAX: usize = 100;

/// Files that are fetched for a task. More belong into an archive.
pub const URIS_MAX: usize = 100;

/// Bytes of one URI.
pub const URI_BYTES_MAX: usize = 4_096;

/// Values of `one_of`: as many as a person chooses from.
pub const CHOICES_MAX: usize = 100;

/// Channels of notifications, of a scheduler and of a rule: each has a task of its own.
pub const CHANNELS_MAX: usize = 100;

/// Routes of notifications: each notice is compared with all.
pub const ROUTES_MAX: usize = 1_000;

/// Failures in a row after which a notice may be sent.
pub const FAILURES_MAX: u32 = 1_000;

/// Bytes of one workflow file: some ten million edges, from a generator.
pub const WORKFLOW_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes of a workflow file in TOML, whose parser keeps several copies of the text in memory.
/// Generators write JSON.
pub const WORKFLOW_TOML_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Values of a workflow file after expansion of YAML aliases: enough to list every item that a
/// run may have and a hundred thousand tasks. Each takes about a hundred bytes while the file is
/// read. Edges are cheaper as one string.
pub const WORKFLOW_VALUES_MAX: usize = 3_000_000;

/// Bytes of text of a workflow file after expansion of YAML aliases: no more than the largest
/// file without aliases.
pub const WORKFLOW_TEXT_BYTES_MAX: usize = WORKFLOW_BYTES_MAX;

/// Bytes that all tasks of a workflow may inherit from its defaults and templates: a thousand
/// for each of as many tasks as a plan may have.
pub const WORKFLOW_INHERITED_BYTES_MAX: usize = 200 * 1024 * 1024;

/// Bytes of the rendered values of a plan: a thousand for each of as many tasks as it may have.
pub const PLAN_BYTES_MAX: usize = 200 * 1024 * 1024;

/// Steps of the upstream search for tasks whose outputs are referenced: part of a second. A
/// task named in `after` needs no search.
pub const UPSTREAM_STEPS_MAX: usize = 20_000_000;

/// Tasks of a workflow among which similar names are suggested. Larger workflows are generated,
/// and generators make no typos.
pub const SUGGESTED_TASKS_MAX: usize = 5_000;

/// Size limits of one kind of file.
#[derive(Debug)]
pub(crate) struct SizeLimits {
    pub(crate) what: &'static str,
    pub(crate) file_bytes_max: usize,
    pub(crate) toml_bytes_max: usize,
    /// For YAML, after expansion of aliases.
    pub(crate) values_max: usize,
    /// For JSON, which has no aliases.
    pub(crate) json_values_max: usize,
    pub(crate) text_bytes_max: usize,
    /// For a file that is too large.
    pub(crate) hint: &'static str,
}

/// The limits of a task file.
pub(crate) const TASK_LIMITS: SizeLimits = SizeLimits {
    what: "task",
    file_bytes_max: FILE_BYTES_MAX,
    toml_bytes_max: FILE_BYTES_MAX,
    values_max: VALUES_MAX,
    json_values_max: FILE_BYTES_MAX,
    text_bytes_max: TEXT_BYTES_MAX,
    hint: "move data into separate files, or split the task into a workflow of several tasks",
};

/// The limits of a workflow file.
pub(crate) const WORKFLOW_LIMITS: SizeLimits = SizeLimits {
    what: "workflow",
    file_bytes_max: WORKFLOW_BYTES_MAX,
    toml_bytes_max: WORKFLOW_TOML_BYTES_MAX,
    values_max: WORKFLOW_VALUES_MAX,
    json_values_max: WORKFLOW_VALUES_MAX,
    text_bytes_max: WORKFLOW_TEXT_BYTES_MAX,
    hint: "write edges as strings, items as ranges or as task outputs, and large files as JSON",
};

/// Secrets in the scheduler's file of those that are kept elsewhere.
pub(crate) const SECRET_SOURCES_MAX: usize = 1_000;

/// Words of a command that prints a secret.
pub(crate) const SOURCE_WORDS_MAX: usize = 100;
