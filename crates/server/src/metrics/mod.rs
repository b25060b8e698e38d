//! Metrics for Prometheus.
//!
//! | file | holds |
//! |---|---|
//! | [`table`] | every metric, with its meaning |
//! | `text` | the text format, version 0.0.4 |
//! | `facts` | facts by kind |
//!
//! Counting costs one addition and allocates nothing, except for the first request of each route
//! and status. Gauges (instances, workers) are read at scrape time. The format is written by hand
//! because the usual library writes OpenMetrics only, and because the docs are generated from the
//! same table.

mod facts;
pub(crate) mod table;
mod text;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_model::fact::FactKind;

pub(crate) use facts::Kinds;
pub(crate) use text::Text;

/// Log lines that could not be written. Of the process, since its logger is.
pub static LOG_LINES_DROPPED: AtomicU64 = AtomicU64::new(0);

/// Upper bounds of the commit latency buckets, in microseconds: from a disk that does not wait to
/// one that hardly writes.
const COMMIT_BOUNDS_US: [u64; 12] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000,
    30_000_000,
];

/// Method, route, status.
type Request = (&'static str, String, u16);

/// All counters.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    decisions: AtomicU64,
    facts: FactCounters,
    /// The last bucket is for commits above all bounds.
    commits: [AtomicU64; COMMIT_BOUNDS_US.len() + 1],
    commits_us: AtomicU64,
    store_failures: AtomicU64,
    logs_collected: AtomicU64,
    log_archive_failures: AtomicU64,
    notifications_sent: AtomicU64,
    notifications_failed: AtomicU64,
    spans_sent: AtomicU64,
    spans_dropped: [AtomicU64; DropReason::ALL.len()],
    span_exports_failed: AtomicU64,
    requests: Mutex<BTreeMap<Request, u64>>,
    refused: Mutex<BTreeMap<String, u64>>,
    connections: [AtomicU64; Port::ALL.len()],
    cuts: [[AtomicU64; CloseReason::ALL.len()]; Port::ALL.len()],
}

/// A counter for each kind of fact: more than arrays with a default have.
#[derive(Debug)]
struct FactCounters([AtomicU64; facts::COUNT]);

impl Default for FactCounters {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; facts::COUNT])
    }
}

/// One of the two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Clients,
    Workers,
}

impl Port {
    const ALL: [Self; 2] = [Self::Clients, Self::Workers];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Workers => "workers",
        }
    }
}

/// Why the server closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// The connection limit is reached.
    Full,
    /// The limit for this address is reached.
    Peer,
    /// The TLS handshake failed, or timed out.
    Tls,
    /// The peer did not begin with TLS.
    Plain,
    /// No request arrived in time.
    Idle,
    /// The peer did not read.
    Stalled,
}

impl CloseReason {
    const ALL: [Self; 6] = [
        Self::Full,
        Self::Peer,
        Self::Tls,
        Self::Plain,
        Self::Idle,
        Self::Stalled,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Peer => "peer",
            Self::Tls => "tls",
            Self::Plain => "plain",
            Self::Idle => "idle",
            Self::Stalled => "stalled",
        }
    }
}

/// Reason for which spans were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropReason {
    /// The receiver was away for too long, or the history of the work is gone.
    Late,
    /// The receiver refused them.
    Refused,
    /// Too many instances were halted at once.
    Many,
}

impl DropReason {
    const ALL: [Self; 3] = [Self::Late, Self::Refused, Self::Many];

    const fn word(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::Refused => "refused",
            Self::Many => "many",
        }
    }
}

impl Metrics {
    /// Counts an input of the leader.
    pub(crate) fn decided(&self) {
        add(&self.decisions, 1);
    }

    /// Counts a committed batch.
    pub(crate) fn committed(&self, kinds: &Kinds, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = COMMIT_BOUNDS_US.partition_point(|bound| *bound < us);
        add(&self.commits[bucket], 1);
        add(&self.commits_us, us);
        for (sum, count) in self.facts.0.iter().zip(kinds.counts()) {
            add(sum, *count);
        }
    }

    /// Counts a failed commit.
    pub(crate) fn store_failed(&self) {
        add(&self.store_failures, 1);
    }

    /// Counts a log that was added to the archive.
    pub(crate) fn log_collected(&self) {
        add(&self.logs_collected, 1);
    }

    /// Counts a failure of the archive of logs.
    pub(crate) fn log_archive_failed(&self) {
        add(&self.log_archive_failures, 1);
    }

    /// Counts a notification that its receiver has acknowledged.
    pub(crate) fn notification_sent(&self) {
        add(&self.notifications_sent, 1);
    }

    /// Counts a delivery of a notification that has failed.
    pub(crate) fn notification_failed(&self) {
        add(&self.notifications_failed, 1);
    }

    /// Counts spans that their receiver has accepted.
    pub(crate) fn spans_sent(&self, count: u64) {
        add(&self.spans_sent, count);
    }

    /// Counts spans that are not sent, or ends of work whose spans are not made.
    pub(crate) fn spans_dropped(&self, reason: DropReason, count: u64) {
        add(&self.spans_dropped[reason as usize], count);
    }

    /// Counts a request with spans that has failed.
    pub(crate) fn span_export_failed(&self) {
        add(&self.span_exports_failed, 1);
    }

    /// Counts an answered request.
    pub(crate) fn answered(&self, method: &'static str, route: &str, status: u16) {
        // A panic while counting does no harm to a sum.
        let mut requests = self.requests.lock().unwrap_or_else(|it| it.into_inner());
        *requests
            .entry((method, route.to_owned(), status))
            .or_default() += 1;
    }

    /// Counts a problem response.
    pub(crate) fn refused(&self, kind: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(|it| it.into_inner());
        match refused.get_mut(kind) {
            Some(count) => *count += 1,
            None => {
                refused.insert(kind.to_owned(), 1);
            }
        }
    }

    /// Counts a new connection.
    pub(crate) fn connected(&self, port: Port) {
        add(&self.connections[port as usize], 1);
    }

    /// Counts a closed connection.
    pub(crate) fn disconnected(&self, port: Port) {
        self.connections[port as usize].fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a connection that the server closed.
    pub(crate) fn cut(&self, port: Port, cut: CloseReason) {
        add(&self.cuts[port as usize][cut as usize], 1);
    }

    /// Writes all counters.
    pub(crate) fn write(&self, text: &mut Text) {
        text.one(&table::DECISIONS, get(&self.decisions));
        let facts = FactKind::NAMES.iter().zip(&self.facts.0);
        text.family(&table::FACTS, facts.map(|(word, sum)| ([*word], get(sum))));
        let commits: Vec<u64> = self.commits.iter().map(get).collect();
        text.histogram(
            &table::COMMIT_SECONDS,
            &COMMIT_BOUNDS_US,
            &commits,
            get(&self.commits_us),
        );
        text.one(&table::STORE_FAILURES, get(&self.store_failures));
        text.one(&table::LOG_LINES_DROPPED, get(&LOG_LINES_DROPPED));
        text.one(&table::LOGS_COLLECTED, get(&self.logs_collected));
        text.one(
            &table::LOG_ARCHIVE_FAILURES,
            get(&self.log_archive_failures),
        );
        text.one(&table::NOTIFICATIONS_SENT, get(&self.notifications_sent));
        text.one(
            &table::NOTIFICATIONS_FAILED,
            get(&self.notifications_failed),
        );
        text.one(&table::SPANS_SENT, get(&self.spans_sent));
        let dropped = DropReason::ALL.iter().zip(&self.spans_dropped);
        let rows = dropped.map(|(reason, sum)| ([reason.word()], get(sum)));
        text.family(&table::SPANS_DROPPED, rows);
        text.one(&table::SPAN_EXPORTS_FAILED, get(&self.span_exports_failed));
        let requests = self.requests.lock().unwrap_or_else(|it| it.into_inner());
        let rows = requests.iter().map(|((method, route, status), count)| {
            let labels = [(*method).to_owned(), route.clone(), status.to_string()];
            (labels, *count)
        });
        text.family(&table::HTTP_REQUESTS, rows);
        let refused = self.refused.lock().unwrap_or_else(|it| it.into_inner());
        let rows = refused.iter().map(|(kind, count)| ([kind], *count));
        text.family(&table::HTTP_REFUSED, rows);
        let ports = Port::ALL.iter().zip(&self.connections);
        let rows = ports.map(|(port, count)| ([port.word()], get(count)));
        text.family(&table::CONNECTIONS, rows);
        let rows = Port::ALL.iter().zip(&self.cuts).flat_map(|(port, cuts)| {
            let cuts = CloseReason::ALL.iter().zip(cuts);
            cuts.map(|(cut, count)| ([port.word(), cut.word()], get(count)))
        });
        text.family(&table::CONNECTIONS_CUT, rows);
    }
}

fn add(sum: &AtomicU64, more: u64) {
    sum.fetch_add(more, Ordering::Relaxed);
}

fn get(sum: &AtomicU64) -> u64 {
    sum.load(Ordering::Relaxed)
}

/// The page `docs/metrics.md`.
pub(crate) fn page() -> String {
    let mut page = "<!-- Generated by `make golden` from crates/server/src/metrics/table.rs. \
                    Do not edit: change the table and run it again. -->\n\n\
                    # Metrics\n\n\
                    `GET /metrics` answers in the text format of Prometheus, version 0.0.4. Counters start at \
                    0 with the server; gauges are read at scrape time.\n\n\
                    | metric | type | labels | meaning |\n|---|---|---|---|\n"
        .to_owned();
    for family in table::ALL {
        let labels: Vec<String> = family.labels.iter().map(|it| format!("`{it}`")).collect();
        page.push_str(&format!(
            "| `{}` | {} | {} | {} |\n",
            family.name,
            family.kind.word(),
            labels.join(", "),
            family.help
        ));
    }
    page
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn written(metrics: &Metrics) -> String {
        let mut text = Text::default();
        metrics.write(&mut text);
        text.into_string()
    }

    #[test]
    fn what_was_counted_is_written() {
        let metrics = Metrics::default();
        metrics.decided();
        metrics.decided();
        metrics.answered("GET", "/workers/{name}", 200);
        metrics.refused("not-found");
        metrics.refused("not-found");
        metrics.store_failed();
        metrics.connected(Port::Workers);
        metrics.connected(Port::Workers);
        metrics.disconnected(Port::Workers);
        metrics.cut(Port::Clients, CloseReason::Stalled);
        let text = written(&metrics);
        for line in [
            "baton_decisions_total 2",
            "baton_http_requests_total{method=\"GET\",route=\"/workers/{name}\",status=\"200\"} 1",
            "baton_http_refused_total{type=\"not-found\"} 2",
            "baton_store_failures_total 1",
            "baton_connections{port=\"workers\"} 1",
            "baton_connections_cut_total{port=\"clients\",reason=\"stalled\"} 1",
            "baton_connections_cut_total{port=\"workers\",reason=\"full\"} 0",
            "baton_facts_total{kind=\"lease-granted\"} 0",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn a_commit_counts_in_its_bucket_and_in_all_above() {
        let metrics = Metrics::default();
        for us in [500, 501, 40_000_000] {
            metrics.committed(&Kinds::of(&[]), Duration::from_micros(us));
        }
        let text = written(&metrics);
        for line in [
            "baton_commit_seconds_bucket{le=\"0.0005\"} 1",
            "baton_commit_seconds_bucket{le=\"0.001\"} 2",
            "baton_commit_seconds_bucket{le=\"30\"} 2",
            "baton_commit_seconds_bucket{le=\"+Inf\"} 3",
            "baton_commit_seconds_sum 40.001001",
            "baton_commit_seconds_count 3",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn names_follow_the_customs_and_are_on_the_page() {
        let page = page();
        for family in table::ALL {
            let name = family.name;
            assert!(name.starts_with("baton_"), "{name}");
            let counts = family.kind == table::Kind::Counter;
            assert_eq!(counts, name.ends_with("_total"), "{name}");
            assert!(page.contains(&format!("| `{name}` |")), "{name}");
        }
    }

    #[test]
    fn alerts_and_the_dashboard_use_metrics_that_exist() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/monitoring");
        for file in ["alerts.yaml", "alerts-test.yaml", "dashboard.json"] {
            let text = std::fs::read_to_string(folder.join(file)).expect("a file");
            let names = text.match_indices("baton_").map(|(at, _)| {
                let rest = &text[at..];
                let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
                &rest[..end.unwrap_or(rest.len())]
            });
            let names: Vec<&str> = names.collect();
            assert!(names.len() > 12, "{file} has only {names:?}");
            for name in names {
                let family = table::ALL.iter().find(|family| {
                    let rest = name.strip_prefix(family.name);
                    let is_histogram = family.kind == table::Kind::Histogram;
                    rest == Some("") || (is_histogram && rest == Some("_bucket"))
                });
                assert!(family.is_some(), "{file}: there is no metric {name}");
            }
        }
    }
}
