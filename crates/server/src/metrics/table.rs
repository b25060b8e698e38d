//! The table of all metrics, from which `/metrics` and `docs/metrics.md` are written.

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Monotonic; reset with the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets.
    Histogram,
}

impl Kind {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric with its labels.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) labels: &'static [&'static str],
    pub(crate) help: &'static str,
}

macro_rules! families {
    ($($id:ident = $name:literal, $kind:ident, [$($label:literal),*], $help:literal;)+) => {
        $(pub(crate) const $id: Family = Family {
            name: $name,
            kind: Kind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)+

        /// All of them, in the order in which they are written.
        pub(crate) const ALL: &[Family] = &[$($id),+];
    };
}

families! {
    BUILD_INFO = "baton_build_info", Gauge, ["version"],
        "Always 1; the label carries the version of the server.";
    READY = "baton_ready", Gauge, [],
        "1 while the server leads and its store accepts writes, or follows; 0 otherwise.";
    LEADER_EPOCH = "baton_leader_epoch", Gauge, [],
        "Epoch of the leader; absent while the server does not lead.";
    INSTANCES = "baton_instances", Gauge, ["state"],
        "Instances by state; absent while the store cannot be read.";
    LEASES = "baton_leases_open", Gauge, [],
        "Open leases; absent while the store cannot be read.";
    HISTORY_BYTES = "baton_history_bytes", Gauge, [],
        "Size of the recorded facts in bytes; absent while the store cannot be read.";
    WORKERS = "baton_workers", Gauge, ["state"],
        "Workers by health; the last known while the store cannot be written.";
    WORKERS_DRAINED = "baton_workers_drained", Gauge, [],
        "Drained workers; absent while the server does not lead.";
    WORKERS_CPU = "baton_workers_cpu_millicores", Gauge, ["amount"],
        "Thousandths of a core of all workers: their `capacity`, what attempts have `claimed` of it, what they use as `measured`; the last is absent while no worker measures.";
    WORKERS_MEMORY = "baton_workers_memory_bytes", Gauge, ["amount"],
        "Memory of all workers in bytes, likewise.";
    FLEET_WORKERS = "baton_fleet_workers", Gauge, ["fleet", "amount"],
        "Workers of a fleet: `connected`, `expected` (requested, and not connected yet), `requested` (of all jobs that are not proved over), `wanted` (further ones that would help), `max`; absent while the server does not lead, as all metrics of fleets.";
    FLEET_JOBS = "baton_fleet_jobs", Gauge, ["fleet", "state"],
        "Jobs of a fleet that are not proved over: `requested` (no list has shown it yet), `queued`, `running`, `unsure`, `ending` (being cancelled).";
    FLEET_FAILURES = "baton_fleet_failures", Gauge, ["fleet"],
        "Jobs of a fleet that have failed since the last that has not.";
    FLEET_PAUSED = "baton_fleet_paused", Gauge, ["fleet"],
        "1 while a fleet is paused.";
    FLEET_LIST_AGE = "baton_fleet_list_age_seconds", Gauge, ["fleet"],
        "Time since the last list of jobs that the cluster manager has answered; absent before the first. A fleet without jobs asks for none.";
    INSTANCES_ENDED = "baton_instances_ended_total", Counter, ["owner", "entry", "state"],
        "Instances that have ended, by owner and task, and as `DONE` or `FAILED`; items of a run count for its workflow. This and the next two are counted by the leader since it leads; from the 501st pair of owner and entry on they count under `other`.";
    RUNS_ENDED = "baton_runs_ended_total", Counter, ["owner", "entry", "state"],
        "Runs that have ended, by owner and workflow, and as `DONE`, `FAILED` or `HALTED`.";
    DUE_TIMES = "baton_due_times_total", Counter, ["owner", "entry", "outcome"],
        "Due times of schedules, by owner and entry: `launched` on time, launched `late`, or `skipped`.";
    QUEUE_OLDEST = "baton_queue_oldest_seconds", Gauge, ["owner", "entry"],
        "How long the first in line of each queue waits, by its owner and task or workflow; of the 200 queues with the oldest in front. Absent where nothing waits, and while the store cannot be read.";
    DECISIONS = "baton_decisions_total", Counter, [],
        "Inputs processed by the leader.";
    FACTS = "baton_facts_total", Counter, ["kind"],
        "Committed facts, by kind.";
    COMMIT_SECONDS = "baton_commit_seconds", Histogram, [],
        "Commit latency: time from submitting a batch to the store until it is durable; its count is the number of commits.";
    STORE_FAILURES = "baton_store_failures_total", Counter, [],
        "Batches that the store failed to commit.";
    LOG_LINES_DROPPED = "baton_log_lines_dropped_total", Counter, [],
        "Log lines that could not be written: standard error is closed, full or not read.";
    LOGS_COLLECTED = "baton_logs_collected_total", Counter, [],
        "Logs that were collected: one for each stream of a process of an attempt.";
    LOG_ARCHIVE_FAILURES = "baton_log_archive_failures_total", Counter, [],
        "Requests to the archive of collected logs that failed: a bucket is denied or unreachable, or a disk is full.";
    NOTIFICATIONS_SENT = "baton_notifications_sent_total", Counter, [],
        "Notifications that their receiver has acknowledged, by channel each.";
    NOTIFICATIONS_FAILED = "baton_notifications_failed_total", Counter, [],
        "Deliveries of notifications that have failed; each is tried again.";
    NOTIFICATIONS_PENDING = "baton_notifications_pending", Gauge, [],
        "Deliveries that no receiver has acknowledged yet; absent while the store cannot be read.";
    NOTIFICATIONS_OLDEST = "baton_notifications_oldest_seconds", Gauge, [],
        "Age of the oldest of them; 0 if there is none.";
    SPANS_SENT = "baton_trace_spans_sent_total", Counter, [],
        "Spans that the receiver of traces has accepted.";
    SPANS_DROPPED = "baton_trace_spans_dropped_total", Counter, ["reason"],
        "Spans that were not sent: the work ended too long ago (`late`; counts work, not its spans), the receiver refused them (`refused`), or too many instances were halted at once (`many`).";
    SPAN_EXPORTS_FAILED = "baton_trace_exports_failed_total", Counter, [],
        "Requests with spans that have failed; each is tried again, unless the receiver refuses its content.";
    ALARMS = "baton_alarms", Gauge, ["kind"],
        "Open alarms by kind: `late`, `slow`, `short`, `stuck`; absent while the store cannot be read.";
    HTTP_REQUESTS = "baton_http_requests_total", Counter, ["method", "route", "status"],
        "Answered requests; `none` for requests that match no route.";
    HTTP_REFUSED = "baton_http_refused_total", Counter, ["type"],
        "Problem responses, by type; `too-many-requests` counts rate-limited requests.";
    CONNECTIONS = "baton_connections", Gauge, ["port"],
        "Open connections by port: `clients`, `workers`.";
    CONNECTIONS_CUT = "baton_connections_cut_total", Counter, ["port", "reason"],
        "Connections closed by the server: connection limit (`full`), limit for one address (`peer`), failed TLS handshake (`tls`), no TLS where it is required (`plain`), no request in time (`idle`), a client that does not read (`stalled`).";
}
