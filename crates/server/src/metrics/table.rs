//! Every metric: the one table that `/metrics` and `docs/metrics.md` are written from.

/// What a number means over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It only grows, and begins anew with the process.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts by size, each bucket with those below it.
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

/// One metric, with all its labels.
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
        "1, with the version of the server.";
    READY = "baton_ready", Gauge, [],
        "1 while it leads and its store takes writes, 0 otherwise.";
    LEADER_EPOCH = "baton_leader_epoch", Gauge, [],
        "The term of the leader; missing while there is none.";
    INSTANCES = "baton_instances", Gauge, ["state"],
        "Instances by state; missing while the store cannot be read.";
    LEASES = "baton_leases_open", Gauge, [],
        "Leases that are open; missing while the store cannot be read.";
    HISTORY_BYTES = "baton_history_bytes", Gauge, [],
        "Bytes of recorded facts; missing while the store cannot be read.";
    WORKERS = "baton_workers", Gauge, ["state"],
        "Workers by health; missing while nobody leads.";
    WORKERS_DRAINED = "baton_workers_drained", Gauge, [],
        "Workers that get no more work; missing while nobody leads.";
    DECISIONS = "baton_decisions_total", Counter, [],
        "Inputs that the leader has decided about.";
    FACTS = "baton_facts_total", Counter, ["kind"],
        "Facts that have become durable, by kind.";
    COMMIT_SECONDS = "baton_commit_seconds", Histogram, [],
        "Time from handing a batch to the store until it is durable; its count is that of commits.";
    STORE_FAILURES = "baton_store_failures_total", Counter, [],
        "Batches that the store has failed to keep.";
    HTTP_REQUESTS = "baton_http_requests_total", Counter, ["method", "route", "status"],
        "Answered requests; what has no route is `none`.";
    HTTP_REFUSED = "baton_http_refused_total", Counter, ["type"],
        "Answers that were problems, by their type; `too-many-requests` is the limit of the rate.";
    CONNECTIONS = "baton_connections", Gauge, ["port"],
        "Open connections by port: `clients`, `workers`.";
    CONNECTIONS_CUT = "baton_connections_cut_total", Counter, ["port", "reason"],
        "Connections that the server has closed: no room (`full`), too many of one address (`peer`), no handshake (`tls`), no TLS where it is spoken (`plain`), no request in time (`idle`), a client that does not read (`stalled`).";
}
