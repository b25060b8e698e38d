//! Every bound of the store, each with its reason.

/// Facts in one transaction. More would not make an fsync cheaper, and the first batches of the
/// group would wait longer.
pub const GROUP_FACTS_MAX: usize = 8_192;

/// Facts queued for the writer before [`crate::FactLog::submit`] blocks: some tenths of a second of
/// work, so a slow disk pushes back on the callers.
pub const QUEUE_FACTS_MAX: usize = 65_536;

/// Items of one page, whatever limit is requested: a reader's snapshot must be short, because the
/// WAL cannot be truncated behind it.
pub const PAGE_ITEMS_MAX: usize = 1_000;

/// Bytes of facts after which a page of the whole history ends: a fact carries its spec, and many
/// large ones must not be in memory at once.
pub const FACTS_PAGE_BYTES_MAX: usize = 256 << 10;

/// Bytes of outputs after which a page of items ends: a page of the largest outputs would be
/// sixteen times as long.
pub const ITEMS_PAGE_BYTES_MAX: usize = 4 << 20;

/// Instances and ranges that one page scans in each of its sources when a filter matches few of
/// them: some milliseconds of work.
pub const PAGE_SCAN_MAX: usize = 5_000;

/// Ids of a range whose rows are read one by one. Of more ids only those in the wanted states are,
/// from the indexes of the states.
pub const WITHIN_BY_ID_MAX: u64 = 100_000;

/// Groups of failures that are reported for a run: people read the first ones.
pub const RUN_ERRORS_MAX: usize = 1_000;

/// Specs in the writer's cache, which stores equal specs only once.
pub const SPECS_CACHED_MAX: usize = 1_024;

/// Bytes of a spec beyond which it is not cached.
pub const SPEC_CACHED_BYTES_MAX: usize = 16 * 1_024;

/// Specs whose owner and resource claim the writer caches: some hundred bytes each, so that the end
/// of an attempt does not need to read its spec again.
pub const CLAIMS_CACHED_MAX: usize = 16_384;

/// Idle read connections that stay open.
pub const READERS_IDLE_MAX: usize = 4;

/// How long a connection waits for another process's lock, in milliseconds.
pub const BUSY_TIMEOUT_MS: u64 = 5_000;

/// Groups or facts after which the writer checks the length of the WAL.
pub const CHECKPOINT_GROUPS: usize = 64;
/// See [`CHECKPOINT_GROUPS`].
pub const CHECKPOINT_FACTS: usize = 4_096;

/// Pages in the WAL beyond which a passive checkpoint runs: 8 MiB.
pub const WAL_PAGES_SOFT: u64 = 2_048;

/// Pages in the WAL beyond which a checkpoint waits for readers, so that the WAL can restart from
/// its beginning: 64 MiB.
pub const WAL_PAGES_HARD: u64 = 16_384;

/// How long a checkpoint waits for readers, in milliseconds.
pub const WAL_WAIT_MS: u64 = 200;

/// Bytes to which the WAL file is truncated when it restarts.
pub const WAL_BYTES_KEPT: u64 = 16 * 1_024 * 1_024;

/// Instances and ranges that one pruning step removes at most: some milliseconds of work.
pub const PRUNE_STEP_INSTANCES: usize = 128;

/// Facts about no instance that one pruning step removes at most.
pub const PRUNE_STEP_FACTS: usize = 1_024;

/// Items of a removed run that one pruning step removes at most.
pub const PRUNE_STEP_ITEMS: usize = 1_024;

/// Hours for which usage is kept: a year can be compared with the previous one. Older rows are
/// removed when history is pruned.
pub const USAGE_HOURS_KEPT: u64 = 400 * 24;

/// Pages that one vacuum step returns to the file system.
pub const VACUUM_STEP_PAGES: u64 = 512;

/// Free pages stay in the file up to one in this many: space that was just pruned is soon written
/// again.
pub const FREE_PAGES_KEPT_ONE_IN: u64 = 16;

/// Stored secrets: far more than a cluster has credentials.
pub(crate) const SECRETS_MAX: usize = 10_000;

/// Stored tokens, including expired and revoked ones: a server holds all of them in memory, and
/// people have to find their way among them.
pub const TOKENS_MAX: usize = 10_000;

/// Stored notices, except those that wait for their delivery: people look at the latest.
pub const NOTICES_MAX: usize = 10_000;

/// How long each step of opening a connection to a PostgreSQL server may take, in milliseconds. Of
/// several servers the next one is tried then, so it is less than an operator's patience.
pub const POSTGRES_CONNECT_MS: u64 = 5_000;

/// How long a PostgreSQL server may leave what was sent unacknowledged before its connection is given up,
/// in milliseconds.
pub const POSTGRES_UNANSWERED_MS: u64 = 10_000;

/// Interval of TCP keepalives to a PostgreSQL server, in milliseconds.
pub const POSTGRES_KEEPALIVE_MS: u64 = 3_000;

/// Rows of a long scan that are fetched from PostgreSQL at once.
pub const POSTGRES_FETCH_ROWS: usize = 1_000;

/// How long a failed transaction waits for its rollback, in milliseconds: it frees the leader row for
/// the next leader, and a connection that cannot send it is closed anyway.
pub const POSTGRES_ROLLBACK_MS: u64 = 1_000;

/// Stored ranges of instances that are fetched at once when a range is halted.
pub const SPANS_FETCH_ROWS: i64 = 1_000;

/// Stored ranges of ids that are fetched at once: usually one or two touch a new one.
pub const KNOWN_FETCH_ROWS: i64 = 16;

/// How long a scheduler waits for the session of a leader that it has ended, in milliseconds. It does not
/// read the row meanwhile; its request for the lock stays in the queue.
pub const POSTGRES_DEPOSE_MS: u64 = 250;

/// Rows of a copy that are written at once.
pub const TRANSFER_ROWS: u64 = 1_000;

/// How long a request for the lock of the leader stays in the server's queue, in milliseconds. A scheduler
/// that is frozen would get the lock and not lead; each end of a wait is a line in the server's log.
pub const POSTGRES_QUEUE_MS: u64 = 1_000;
