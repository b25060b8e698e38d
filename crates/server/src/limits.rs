//! All limits of the server, each with its reason.

use std::time::Duration;

use baton_model::time::Millis;

/// Limits for untrusted peers that operators or tests may want to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Concurrent client connections, half of them for one address. Each has at most one request in
    /// flight, so this also bounds what waits for the driver.
    pub client_connections_max: usize,
    /// Concurrent worker connections, likewise: the largest fleet that one scheduler is made for.
    pub worker_connections_max: usize,
    /// Requests per second of one token or certificate, or else of one address, with a burst of
    /// twice as many; 0 means no limit. More than a well-behaved client needs: it protects the
    /// others from one that has run wild.
    pub requests_per_second: u32,
    /// Timeout of a TLS handshake.
    pub handshake_wait: Duration,
    /// Time for a client to send the head of a request, and to begin the next one on the same
    /// connection.
    pub head_wait: Duration,
    /// Time for a client to send a body.
    pub body_wait: Duration,
    /// Bytes of all request bodies in flight together, of those above
    /// [`UNCOUNTED_BODY_BYTES_MAX`]: each is in memory until its handler has ended, and a client may
    /// have hundreds of connections. Four of the largest ([`WORKFLOW_BYTES_MAX`]).
    pub body_bytes_max: usize,
    /// Time for a client to read the next bytes of a response.
    pub write_wait: Duration,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            client_connections_max: 1_024,
            worker_connections_max: 10_000,
            requests_per_second: 5_000,
            handshake_wait: Duration::from_secs(10),
            head_wait: Duration::from_secs(15),
            body_wait: Duration::from_secs(60),
            body_bytes_max: 256 << 20,
            write_wait: Duration::from_secs(60),
        }
    }
}

/// Items of an array: each has a spec of its own.
pub const ARRAY_ITEMS_MAX: usize = 10_000;

/// Bytes of one item: an environment variable may have twice as many.
pub const ITEM_BYTES_MAX: usize = 64 << 10;

/// Bytes of the specs of one submission, as JSON: they become one batch of the store.
pub const SUBMISSION_BYTES_MAX: usize = 64 << 20;

/// Ids and ranges that the path of one request names: some kilobytes of it.
pub const TARGET_RANGES_MAX: usize = 200;

/// Parts of a range in one answer, and instances of a range that has parts.
pub const RANGE_PARTS_MAX: u64 = 1_000;
pub const RANGE_PARTS_OF_MAX: u64 = 100_000;

/// Failed instances of a range that are looked at to group them.
pub const RANGE_FAILURES_MAX: usize = 1_000;

/// Instances of the ranges in which one request retries or kills those that it finds: their records
/// are in memory at once, and the leader handles one command for each of them.
pub const BULK_INSTANCES_MAX: u64 = 10_000;

/// Burst of a rate limit, as time at the full rate.
pub const BURST_SECONDS: Duration = Duration::from_secs(2);

/// Clients that are rate-limited individually; the others share one bucket.
pub const RATE_BUCKETS_MAX: usize = 10_000;

/// Bytes of a request head: a token, and whatever a browser or a proxy adds.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// Time for a worker to send the protocol preamble, and its token.
pub const PREAMBLE_WAIT: Duration = Duration::from_secs(5);

/// Maximum time without a heartbeat: a worker sends one every few seconds, and without any the
/// connection is useless.
pub const HEARTBEAT_WAIT: Duration = Duration::from_secs(60);

/// Bytes of one frame before the first heartbeat: an unidentified peer gets no more memory than
/// that takes.
pub const FIRST_FRAME_BYTES_MAX: usize = 1 << 20;

/// Bytes of one connection that the driver has not read yet; one frame of the largest size fits.
pub const UNREAD_INPUT_BYTES_MAX: usize = 80 << 20;

/// Bytes for one worker that it has not read; above this limit it is considered dead.
pub const UNREAD_OUTPUT_BYTES_MAX: usize = 64 << 20;

/// Bytes read from a socket at a time, and the memory that an idle connection keeps.
pub const READ_BYTES: usize = 16 << 10;

/// Events that the driver handles in one turn before it sends the results: enough to share a write,
/// few enough for low latency.
pub const TURN_EVENTS_MAX: usize = 1_024;

/// Minimum interval of commits while workers have queued work: each commit costs as much CPU as
/// several instances, and no client waits for it. A tenth of what is placed ahead of a worker
/// (`AHEAD_SPAN` of the core), so that no worker runs dry.
pub const COMMIT_INTERVAL_MS: u64 = 5;

/// Maximum sleep of the driver.
pub const SLEEP_MAX: Duration = Duration::from_secs(1);

/// A wake-up this much later than requested means that the process was suspended, and that what
/// arrived meanwhile is still in the kernel and not in the inbox.
pub const STOPPED_AFTER_MS: u64 = 1_000;

/// Time after a suspension during which the driver only reads its inbox.
pub const INBOX_FIRST_MS: u64 = 1_000;

/// Time between two checks of the leader's invariants, which look at every worker.
pub const INVARIANTS_CHECK_MS: u64 = 10_000;

/// Interval of attempts to take over the store after it has failed.
pub const RETAKE_PAUSE: Duration = Duration::from_secs(1);

/// Maximum time of one wait for news of a shared store: its end, and a shutdown, are noticed in
/// between.
pub const SHARED_WAIT: Duration = Duration::from_secs(1);

/// The first pause of an election whose store has failed, or that was lost.
pub const ELECTION_PAUSE_MIN: Millis = Millis(100);

/// Its longest pause: an operator who has repaired the store does not want to wait for more.
pub const ELECTION_PAUSE_MAX: Millis = Millis::from_secs(2);

/// The lease of the leader of a shared store.
pub const LEADER_LEASE_DEFAULT: Millis = Millis::from_secs(8);

/// The shortest such lease: commits of a healthy database, and pauses of a busy machine, take less.
pub const LEADER_LEASE_MIN: Millis = Millis::from_secs(1);

/// The longest: workers must hear of the next leader before their own leases (90 s) have passed.
pub const LEADER_LEASE_MAX: Millis = Millis::from_secs(60);

/// Interval at which a scheduler of a shared store announces itself, and looks for the leader.
pub const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);

/// Age of an announcement from which its scheduler counts as silent.
pub const SILENT_AFTER: Millis = Millis::from_secs(15);

/// Minimum interval of reads of the announcements, however many requests look for a leader.
pub const PEERS_READ_PAUSE: Duration = Duration::from_millis(50);

/// Time that a request to a follower waits for a leader: an election takes less.
pub const LEADER_WAIT: Duration = Duration::from_secs(2);

/// Time to connect to the leader.
pub const FORWARD_CONNECT_WAIT: Duration = Duration::from_secs(2);

/// Interval at which a request that waits for the leader checks whether another one leads.
pub const REPLACED_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Time for the leader to begin its answer: more than the longest poll and the longest body take.
pub const FORWARD_WAIT: Duration = Duration::from_secs(180);

/// Schedulers to which one request is forwarded in turn, each because the one before did not lead.
pub const FORWARDS_MAX: usize = 3;

/// Bytes of a body that a follower holds in memory, to send it again if the leader changes.
pub const FORWARD_BUFFER_BYTES: usize = 256 << 10;

/// Interval of TCP keepalives on connections to the leader.
pub const FORWARD_KEEPALIVE: Duration = Duration::from_secs(15);

/// Epochs that may be skipped to exceed one that a worker has obeyed. A store restored from a
/// backup is some restarts behind; a larger gap is an error.
pub const EPOCHS_SKIPPED_MAX: u32 = 1_000;

/// Interval at which the mark of the store is refreshed while facts are committed. It costs two
/// fsyncs; a copy that is older by less than this may go unnoticed.
pub const MARK_PAUSE: Duration = Duration::from_secs(1);

/// Bytes of a request body: a large task file with all its parameters.
pub const BODY_BYTES_MAX: usize = 8 << 20;

/// Bytes of a workflow: one of a million items with three edges each has some fifteen million.
pub const WORKFLOW_BYTES_MAX: usize = 64 << 20;

/// Bytes of a body up to which it is not counted against the budget of all: the limit of connections
/// bounds these at 64 MiB, and a client with large bodies does not keep others from small ones.
pub const UNCOUNTED_BODY_BYTES_MAX: usize = 64 << 10;

/// Time after which a client whose body did not fit may try again: most bodies take less.
pub const BODIES_RETRY_AFTER: Duration = Duration::from_secs(5);

/// Bytes of a body after whose end memory is returned to the system.
pub const RELEASED_BODY_BYTES_MIN: usize = 1 << 20;

/// Minimum interval of returning memory, which looks at the whole heap.
pub const MEMORY_RELEASE_PAUSE: Duration = Duration::from_secs(1);

/// Bytes of a form of a page: a thousand selected rows, or long values of parameters.
pub const FORM_BYTES_MAX: usize = 1 << 20;

/// Bytes of a form of a client that is not authenticated yet: a token, and an address.
pub const SIGN_IN_BYTES_MAX: usize = 16 << 10;

/// Time that a request waits for a busy scheduler.
pub const ANSWER_WAIT: Duration = Duration::from_secs(60);

/// Time that a metrics scrape waits for the store and the leader: less than the usual timeout of a
/// collector.
pub const SCRAPE_WAIT: Duration = Duration::from_secs(3);

/// Maximum duration of a long poll.
pub const WAIT_SECONDS_MAX: u64 = 60;

/// Dependencies of one submission. A range counts as one.
pub const DEPENDENCIES_MAX: usize = 100;

/// Elements of one array.
pub const ARRAY_ELEMENTS_MAX: u64 = 10_000_000;

/// The largest index of an array: what every program reads from JSON exactly.
pub const ARRAY_INDEX_MAX: u64 = (1 << 53) - 1;

/// Default page size.
pub const PAGE_ITEMS_DEFAULT: usize = 100;

/// Items of a run in flight that the driver scans for one request: a millisecond of work.
pub const LIVE_ITEMS_SCANNED_MAX: usize = 10_000;

/// Events of one page of a timeline: an instance seldom has more than a few dozen.
pub const TIMELINE_EVENTS_MAX: usize = 1_000;

/// Concurrent streaming responses (events, logs that grow): each holds a piece of up to some MiB,
/// and a connection.
pub const STREAMS_MAX: usize = 128;

/// Interval of comments in the event stream: proxies and clients give up a silent connection.
pub const EVENTS_HEARTBEAT: Duration = Duration::from_secs(15);

/// Minimum interval of store reads of one event stream: several facts at once cost no more than
/// one.
pub const EVENTS_PACE: Duration = Duration::from_millis(50);

/// Interval in which a client that has set a rate gets that many events at most.
pub const EVENTS_RATE_PACE: Duration = Duration::from_secs(1);

/// Maximum rate that a client can set: they are held in memory at once.
pub const EVENTS_RATE_MAX: usize = 1_000;

/// Poll interval of a followed log that has not grown.
pub const LOG_POLL_PAUSE: Duration = Duration::from_millis(250);

/// Bytes of one log that are collected, uncompressed: its end. More would be read by no person, and
/// is read at once.
pub const COLLECTED_LOG_BYTES_MAX: usize = 16 << 20;

/// Attempts whose logs are collected at once.
pub const COLLECTIONS_MAX: usize = 8;

/// Time for a connection to an S3-compatible store.
pub const BUCKET_CONNECT_WAIT: Duration = Duration::from_secs(5);

/// Time for one request to it, with up to [`COLLECTED_LOG_BYTES_MAX`] over a slow line.
pub const BUCKET_REQUEST_WAIT: Duration = Duration::from_secs(60);

/// Time for the probe of a bucket at the start of the server, which is not ready before.
pub const BUCKET_PROBE_WAIT: Duration = Duration::from_secs(10);

/// The first and the longest pause before a request to a bucket that has failed is repeated.
pub const BUCKET_BACKOFF: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Logs of a bucket that are kept in memory after they were read: clients read them in pieces.
pub const BUCKET_LOGS_CACHED: usize = 4;

/// Interval at which a bucket learns how far logs were collected. Every record is a request, which
/// has a price; the next leader collects again what came after it.
pub const ARCHIVE_POSITION_PAUSE: Duration = Duration::from_secs(5);

/// Interval of history pruning.
pub const PRUNE_PAUSE: Duration = Duration::from_secs(60);

/// Pause between two batches of pruning.
pub const PRUNE_BATCH_PAUSE: Duration = Duration::from_millis(100);

/// Instances pruned in one batch, so that commits pass in between.
pub const PRUNE_BUDGET: usize = 10_000;

/// Time that a shutdown waits for requests and commits in flight.
pub const SHUTDOWN_WAIT: Duration = Duration::from_secs(5);

/// Refresh interval of the token cache, for changes by another process: a revoked token may work
/// for this long.
pub const TOKENS_REFRESH_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum interval of wall clock checks for a token that expires.
pub const TOKEN_CHECK_PAUSE: Duration = Duration::from_secs(60);

/// Minimum interval of log messages about refusals, per cause: a worker without a token reconnects
/// every other second.
pub const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Time for a refused peer to read the reason.
pub const REFUSAL_WAIT: Duration = Duration::from_secs(1);

/// Scan interval of the library directory.
pub const LIBRARY_SCAN_PAUSE: Duration = Duration::from_secs(1);

/// The time after which a scan that has not ended is reported: one of all files takes less than a second.
pub const LIBRARY_SCAN_SILENCE_MAX: Duration = Duration::from_secs(10);

/// Files of the library directory: every scan visits each.
pub const LIBRARY_FILES_MAX: usize = 10_000;

/// Depth of nested directories below it.
pub const LIBRARY_DEPTH_MAX: usize = 8;

/// Characters of an `Idempotency-Key`.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;

/// Default number of due times.
pub const DUE_TIMES_DEFAULT: usize = 10;

/// Maximum number of due times.
pub const DUE_TIMES_MAX: usize = 1_000;

/// How long what notifications only remember may be unstored: it is derived again from facts.
pub const NOTICE_STATE_PAUSE: Duration = Duration::from_secs(1);

/// How long their position may be unstored while nothing concerns them.
pub const NOTICE_POSITION_PAUSE: Duration = Duration::from_secs(30);

/// The first and the longest pause of a channel after a delivery has failed.
pub const NOTICE_BACKOFF: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(15 * 60)];

/// Deliveries of a channel that are read at once.
pub const NOTICE_DUE_MAX: usize = 16;

/// How long a channel waits at most before it looks for deliveries.
pub const NOTICE_LOOK_PAUSE: Duration = Duration::from_secs(60);

/// Failures in a row after which an event says that a channel fails: the first ones may be a restart
/// of the receiver.
pub const NOTICE_FAULT_AFTER: u32 = 3;

/// How long a notice is tried: over a weekend.
pub const NOTICE_GIVE_UP: Millis = Millis::from_secs(3 * 24 * 60 * 60);

/// Queues whose age `/metrics` reads: those with the oldest instances in front.
pub const QUEUE_HEADS_MAX: usize = 200;

/// Age of the end of work at which its spans are no longer sent: how long a receiver of traces may be away. The
/// spans of what ended before are dropped and counted.
pub const TRACE_AGE_MAX: Millis = Millis::from_secs(60 * 60);

/// The first and the longest pause after a receiver of traces has failed.
pub const TRACE_BACKOFF: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// Pause between two requests with spans, so that busy moments need few.
pub const TRACE_LINGER: Duration = Duration::from_secs(1);

/// Time for which the position of the exporter of traces may be unstored: a successor repeats the spans since.
pub const TRACE_POSITION_PAUSE: Duration = Duration::from_secs(5);

/// Spans in a request: some hundred KiB, which receivers accept by default.
pub const TRACE_SPANS_MAX: usize = 512;

/// Ends whose spans are in memory at once.
pub const TRACE_ENDS_MAX: usize = 64;

/// Facts of one instance that its spans are made of: the latest.
pub const TRACE_FACTS_MAX: usize = 10_000;

/// Instances of a range that was halted while it waited that have spans; those of the others are dropped.
pub const TRACE_HALTED_MAX: usize = 1_000;

/// Characters of a text in a span.
pub const TRACE_TEXT_CHARS_MAX: usize = 500;

/// Time for a connection to a receiver.
pub const NOTICE_CONNECT_WAIT: Duration = Duration::from_secs(10);

/// Time for a whole delivery by HTTP or SMTP.
pub const NOTICE_SEND_WAIT: Duration = Duration::from_secs(30);
