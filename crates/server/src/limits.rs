//! Every bound of the server, each with its reason.

use std::time::Duration;

/// What strangers may cost, where an operator or a test may want another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Connections of clients at a time, half of them for one address. Each has at most one
    /// request open, so this bounds what waits for the driver as well.
    pub client_connections_max: usize,
    /// Connections of workers at a time, likewise: the largest fleet that one scheduler is made for.
    pub worker_connections_max: usize,
    /// Requests in a second of one token or certificate, or else of one address, and twice as many
    /// at once; 0 for any number. More than one client can usefully make: it keeps one that has
    /// run wild from the others' throats.
    pub requests_per_second: u32,
    /// How long a peer may take for a TLS handshake.
    pub handshake_wait: Duration,
    /// How long a client may take to send the head of a request, and to begin the next one on the
    /// same connection.
    pub head_wait: Duration,
    /// How long a client may take to send a body.
    pub body_wait: Duration,
    /// How long a client may take to read the next bytes of an answer.
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
            write_wait: Duration::from_secs(60),
        }
    }
}

/// How much of a rate may be used at once.
pub const BURST_SECONDS: Duration = Duration::from_secs(2);

/// Tokens and addresses whose requests are counted apart; the others are counted together.
pub const RATE_BUCKETS_MAX: usize = 10_000;

/// Bytes of the head of a request: a token, and whatever a browser or a proxy adds.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// How long a peer may take to say that it speaks the protocol.
pub const PREAMBLE_WAIT: Duration = Duration::from_secs(5);

/// How long a connection may be without a heartbeat: a worker sends one every few
/// seconds, and without any it has no use for the connection.
pub const HEARTBEAT_WAIT: Duration = Duration::from_secs(60);

/// Bytes of one frame before the first heartbeat: until a peer has said who it is, it
/// gets no more memory than that takes.
pub const FIRST_FRAME_BYTES_MAX: usize = 1 << 20;

/// Bytes of frames of one connection that the driver has not read yet; one frame of the
/// largest size fits.
pub const UNREAD_INPUT_BYTES_MAX: usize = 80 << 20;

/// Bytes for one worker that it has not read; beyond, it is taken for dead.
pub const UNREAD_OUTPUT_BYTES_MAX: usize = 64 << 20;

/// Bytes read from a socket at a time, and the memory that an idle connection keeps.
pub const READ_BYTES: usize = 16 << 10;

/// Mail that the driver handles before it sends what came of it: enough to share a
/// write, little enough that nobody waits for long.
pub const TURN_EVENTS_MAX: usize = 1_024;

/// While workers have work ahead, commits begin no closer together than this: each costs the
/// processor as much as several instances do, and nobody waits for it. A tenth of what is
/// placed ahead of a worker (`AHEAD_SPAN` of the core), so that none runs dry meanwhile.
pub const COMMIT_INTERVAL_MS: u64 = 5;

/// The longest that the driver sleeps.
pub const SLEEP_MAX: Duration = Duration::from_secs(1);

/// A wake-up so much later than asked for means that the process was stopped, and that
/// what arrived meanwhile is not in the inbox yet but in the kernel.
pub const STOPPED_AFTER_MS: u64 = 1_000;

/// For so long after it was stopped the driver only reads its mail.
pub const INBOX_FIRST_MS: u64 = 1_000;

/// Between two attempts to lead again after the store has failed.
pub const RETAKE_PAUSE: Duration = Duration::from_secs(1);

/// Epochs that are taken in a row to come above one that a worker has obeyed. A store that
/// came from a backup is some restarts behind; more is nonsense.
pub const EPOCHS_SKIPPED_MAX: u64 = 1_000;

/// Bytes of a request's body: a large task file with all its parameters.
pub const BODY_BYTES_MAX: usize = 8 << 20;

/// Bytes of a workflow: one of a million items with three edges each has some fifteen million.
pub const WORKFLOW_BYTES_MAX: usize = 64 << 20;

/// How long a request waits for a scheduler that has much to do.
pub const ANSWER_WAIT: Duration = Duration::from_secs(60);

/// How long a scrape of the metrics waits for what has to be looked up: less than what whoever
/// collects them waits as a rule.
pub const SCRAPE_WAIT: Duration = Duration::from_secs(3);

/// The longest that a request may wait for instances to end.
pub const WAIT_SECONDS_MAX: u64 = 60;

/// Elements of one array.
pub const ARRAY_ELEMENTS_MAX: u64 = 10_000_000;

/// Items of a page if the client names no number.
pub const PAGE_ITEMS_DEFAULT: usize = 100;

/// Items of a run on their way that the driver looks at for one question: a millisecond's work.
pub const LIVE_ITEMS_SCANNED_MAX: usize = 10_000;

/// Events of one timeline that are shown: one instance seldom has more than a few dozen,
/// and what is cut off is said.
pub const TIMELINE_EVENTS_MAX: usize = 1_000;

/// Clients whose answers go on (events, logs that grow) at a time: each holds a piece of up to
/// some MiB, and a connection.
pub const STREAMS_MAX: usize = 128;

/// Whoever follows events hears something at least so often: proxies and clients give a silent
/// connection up.
pub const EVENTS_HEARTBEAT: Duration = Duration::from_secs(15);

/// One who follows events reads no more often: some facts at once cost no more than one.
pub const EVENTS_PACE: Duration = Duration::from_millis(50);

/// Between two looks at a log that somebody follows and that has not grown.
pub const LOG_POLL_PAUSE: Duration = Duration::from_millis(250);

/// Between two looks for history that need not be kept.
pub const PRUNE_PAUSE: Duration = Duration::from_secs(60);

/// Between two goes at history when there is more than goes at a time.
pub const PRUNE_BATCH_PAUSE: Duration = Duration::from_millis(100);

/// Instances that go at a time, so that commits pass in between.
pub const PRUNE_BUDGET: usize = 10_000;

/// How long a server that shall end waits for what it has begun.
pub const SHUTDOWN_WAIT: Duration = Duration::from_secs(5);

/// Between two readings of the tokens, which another process may have changed: so long a
/// revoked one may still open something.
pub const TOKENS_REFRESH_INTERVAL: Duration = Duration::from_secs(2);

/// Between two looks at the wall clock for a token that expires.
pub const TOKEN_CHECK_PAUSE: Duration = Duration::from_secs(60);

/// Refusals are logged no more often, for each reason: a worker that has no token comes back
/// every other second.
pub const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// How long somebody who was refused may take to read why.
pub const REFUSAL_WAIT: Duration = Duration::from_secs(1);

/// Between two looks at the directory of the library.
pub const LIBRARY_SCAN_PAUSE: Duration = Duration::from_secs(1);

/// Files of that directory: each is looked at every time.
pub const LIBRARY_FILES_MAX: usize = 10_000;

/// Directories below it, one in another.
pub const LIBRARY_DEPTH_MAX: usize = 8;

/// Characters of an `Idempotency-Key`.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;

/// Due times that are shown if the client names no number.
pub const DUE_TIMES_DEFAULT: usize = 10;

/// Due times that are shown at most.
pub const DUE_TIMES_MAX: usize = 1_000;
