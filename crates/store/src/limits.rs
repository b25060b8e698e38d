//! Every bound of the store, each with its reason.

/// Facts in one transaction. More would not make an fsync cheaper, and those who
/// wait for the first of them would wait longer.
pub const GROUP_FACTS_MAX: usize = 8_192;

/// Facts that wait for the writer before [`crate::Store::submit`] blocks: some
/// tenths of a second's work, so a slow disk is felt by those who write.
pub const QUEUE_FACTS_MAX: usize = 65_536;

/// Items of one page, whatever was asked for: a reader's snapshot must be short,
/// because the log cannot be cut back behind it.
pub const PAGE_ITEMS_MAX: usize = 1_000;

/// Bytes of facts after which a page of the whole history ends: a fact brings its spec along,
/// and many large ones shall not be in memory at once.
pub const FACTS_PAGE_BYTES_MAX: usize = 256 << 10;

/// Bytes of outputs after which a page of items ends: a page of the largest outputs would be
/// sixteen times as long.
pub const ITEMS_PAGE_BYTES_MAX: usize = 4 << 20;

/// Instances and ranges that one page looks at in each of its sources, where a filter
/// passes few of them: some milliseconds' work.
pub const PAGE_SCAN_MAX: usize = 5_000;

/// Kinds of failures of a run that are told apart: people read the first ones.
pub const RUN_ERRORS_MAX: usize = 1_000;

/// Specs that the writer remembers, to keep equal ones once.
pub const SPECS_REMEMBERED_MAX: usize = 1_024;

/// Bytes of a spec beyond which it is not remembered.
pub const SPEC_REMEMBERED_BYTES_MAX: usize = 16 * 1_024;

/// Specs of which the writer remembers whose they are and what they claim: some hundred bytes
/// each, so that the end of an attempt need not read its spec again.
pub const CLAIMS_REMEMBERED_MAX: usize = 16_384;

/// Read connections kept open while nobody reads.
pub const READERS_IDLE_MAX: usize = 4;

/// How long a connection waits for another process, in milliseconds.
pub const BUSY_TIMEOUT_MS: u64 = 5_000;

/// Groups, or facts, after which the writer looks how long the log is.
pub const CHECKPOINT_GROUPS: usize = 64;
/// See [`CHECKPOINT_GROUPS`].
pub const CHECKPOINT_FACTS: usize = 4_096;

/// Pages in the log beyond which its content is moved into the file: 8 MiB.
pub const LOG_PAGES_SOFT: u64 = 2_048;

/// Pages in the log beyond which the writer waits for readers, so that the log can
/// begin again at its start: 64 MiB.
pub const LOG_PAGES_HARD: u64 = 16_384;

/// How long it waits for them, in milliseconds.
pub const LOG_WAIT_MS: u64 = 200;

/// Bytes to which the log file is cut when it begins again.
pub const LOG_BYTES_KEPT: u64 = 16 * 1_024 * 1_024;

/// Instances and ranges that one step of pruning removes at most: some milliseconds' work.
pub const PRUNE_STEP_INSTANCES: usize = 128;

/// Facts about no instance that one step of pruning removes at most.
pub const PRUNE_STEP_FACTS: usize = 1_024;

/// Items of a run that is gone that one step of pruning removes at most.
pub const PRUNE_STEP_ITEMS: usize = 1_024;

/// Hours for which it is kept what was used: a year can be compared with the one before. What is
/// older goes when history is pruned.
pub const USAGE_HOURS_KEPT: u64 = 400 * 24;

/// Pages that one step returns to the file system.
pub const VACUUM_STEP_PAGES: u64 = 512;

/// Free pages are left in the file up to one in this many: what was just pruned
/// is soon written again.
pub const FREE_PAGES_KEPT_ONE_IN: u64 = 16;

/// Tokens that are kept, those that are worth nothing any more included: a server has all of
/// them in memory, and people have to find their way among them.
pub const TOKENS_MAX: usize = 10_000;
