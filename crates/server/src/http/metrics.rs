//! `/metrics`.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use baton_core::fleet::FleetView;
use baton_core::scheduler::Tally;
use baton_model::alarm::AlarmKind;
use baton_model::api::Worker;
use baton_model::fleet::{FleetJob, JobState};
use baton_model::notify::DeliveryState;
use baton_model::placement::{Capacity, MeasuredUse};
use baton_model::state::{UniversalState, WorkerState};
use baton_store::view::{Counts, View};
use tokio::time::timeout;

use super::app::App;
use crate::clock;
use crate::driver::Status;
use crate::limits::{QUEUE_HEADS_MAX, SCRAPE_WAIT};
use crate::metrics::table::Family;
use crate::metrics::{Text, table};

/// Metrics in the text format of Prometheus
///
/// `docs/metrics.md` lists them.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/metrics",
    tag = "server",
    operation_id = "metrics",
    responses(
        (status = 200, description = "The text format, version 0.0.4.", body = String)
    )
))]
pub(super) async fn show(State(app): State<App>) -> Response {
    let mut text = Text::default();
    text.family(&table::BUILD_INFO, [([env!("CARGO_PKG_VERSION")], 1)]);
    let status = app.0.status.borrow().clone();
    let ready = matches!(status, Status::Leading(_) | Status::Following(None));
    text.one(&table::READY, u64::from(ready));
    if let Status::Leading(epoch) = status {
        text.one(&table::LEADER_EPOCH, epoch.number().into());
    }
    // Unavailable values are omitted, as the table documents: the others matter most then.
    if let Ok(Ok(counts)) = timeout(SCRAPE_WAIT, app.read(|store| store.counts())).await {
        instances(&mut text, &counts);
    }
    if let Ok(Ok(all)) = timeout(SCRAPE_WAIT, app.workers()).await {
        fleet(&mut text, &all);
    }
    let fleets = app.query(|leader| leader.fleets(clock::now()));
    if let Ok(Ok(all)) = timeout(SCRAPE_WAIT, fleets).await {
        fleets_of(&mut text, &all);
    }
    if let Ok(Ok(all)) = timeout(SCRAPE_WAIT, app.read(|store| store.delivery_tallies())).await {
        let waiting = all.iter().filter(|it| it.state == DeliveryState::Waiting);
        text.one(
            &table::NOTIFICATIONS_PENDING,
            waiting.clone().map(|it| it.count).sum(),
        );
        let age = waiting.map(|it| clock::now().wall.since(it.oldest).0 / 1_000);
        text.one(&table::NOTIFICATIONS_OLDEST, age.max().unwrap_or_default());
    }
    if let Ok(Ok(page)) = timeout(SCRAPE_WAIT, app.read(|store| store.alarms(None, 0))).await {
        let count = |kind: &AlarmKind| page.counts.get(kind).copied().unwrap_or(0);
        let kinds = AlarmKind::ALL.iter();
        text.family(
            &table::ALARMS,
            kinds.map(|kind| ([kind.word()], count(kind))),
        );
    }
    by_entry(&app, &mut text).await;
    app.0.metrics.write(&mut text);
    let media = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, media)], text.into_string()).into_response()
}

/// Tallies of the leader by owner and entry, and ages of its queues. Nothing here depends on the number of
/// instances.
async fn by_entry(app: &App, text: &mut Text) {
    if !matches!(*app.0.status.borrow(), Status::Leading(_)) {
        return;
    }
    let counted = app.query(|leader| {
        let tallies = leader.tallies();
        let tallies = tallies.map(|(owner, entry, it)| (owner.to_owned(), entry.to_owned(), it));
        (
            tallies.collect::<Vec<_>>(),
            leader.queue_heads(QUEUE_HEADS_MAX),
        )
    });
    let Ok(Ok((tallies, heads))) = timeout(SCRAPE_WAIT, counted).await else {
        return;
    };
    tallied(text, &tallies);
    let aged = app.read(move |store| {
        let now = clock::now().wall;
        let mut ages = BTreeMap::new();
        for head in heads {
            if let Some(record) = store.instance(head.instance)? {
                let age = now.since(record.changed_at).0 / 1_000;
                let oldest: &mut u64 = ages.entry([head.owner, head.entry]).or_default();
                *oldest = age.max(*oldest);
            }
        }
        Ok(ages)
    });
    if let Ok(Ok(ages)) = timeout(SCRAPE_WAIT, aged).await {
        text.family(&table::QUEUE_OLDEST, ages);
    }
}

/// The value of a label, and its number of a tally.
type Column = (&'static str, fn(&Tally) -> u64);

fn tallied(text: &mut Text, tallies: &[(String, String, Tally)]) {
    let mut family = |family: &Family, columns: &[Column]| {
        // An entry has no series of what it never does, and all of what it does: a counter that appears with
        // a 1 has not increased for Prometheus.
        let concerned = tallies
            .iter()
            .filter(|(.., tally)| columns.iter().any(|(_, of)| of(tally) > 0));
        let rows = concerned.flat_map(|(owner, entry, tally)| {
            let columns = columns.iter().map(|(label, of)| (*label, of(tally)));
            columns.map(move |(label, count)| ([owner.as_str(), entry.as_str(), label], count))
        });
        text.family(family, rows);
    };
    family(
        &table::INSTANCES_ENDED,
        &[
            ("DONE", |it| it.instances_done),
            ("FAILED", |it| it.instances_failed),
        ],
    );
    family(
        &table::RUNS_ENDED,
        &[
            ("DONE", |it| it.runs_done),
            ("FAILED", |it| it.runs_failed),
            ("HALTED", |it| it.runs_halted),
        ],
    );
    family(
        &table::DUE_TIMES,
        &[
            ("launched", |it| it.due_launched),
            ("late", |it| it.due_late),
            ("skipped", |it| it.due_skipped),
        ],
    );
}

fn instances(text: &mut Text, counts: &Counts) {
    let count = |state: &UniversalState| counts.states.get(state).copied().unwrap_or(0);
    let states = UniversalState::ALL.iter();
    text.family(
        &table::INSTANCES,
        states.map(|state| ([state.word()], count(state))),
    );
    // A lease is open in exactly these states.
    let open = View::Arena.states().iter().map(count).sum();
    text.one(&table::LEASES, open);
    text.one(&table::HISTORY_BYTES, counts.history_bytes);
}

fn fleet(text: &mut Text, all: &[Worker]) {
    let number = |wanted: &dyn Fn(&&Worker) -> bool| all.iter().filter(wanted).count() as u64;
    let states = WorkerState::ALL.iter();
    let rows = states.map(|state| ([state.word()], number(&|worker| worker.state == *state)));
    text.family(&table::WORKERS, rows);
    text.one(&table::WORKERS_DRAINED, number(&|worker| worker.drained));
    amounts(
        text,
        &table::WORKERS_CPU,
        all,
        |capacity| capacity.cpu_milli,
        |measured| measured.cpu_milli,
    );
    amounts(
        text,
        &table::WORKERS_MEMORY,
        all,
        |capacity| capacity.memory,
        |measured| measured.memory,
    );
}

fn fleets_of(text: &mut Text, all: &[FleetView]) {
    let workers = all.iter().flat_map(|it| {
        let max = it.fleet.spec.max;
        let amounts = [
            ("connected", it.here),
            ("expected", it.expected),
            ("requested", it.requested),
            ("wanted", it.wanted),
            ("max", max),
        ];
        amounts.map(|(amount, number)| ([it.fleet.name.as_str(), amount], number.into()))
    });
    text.family(&table::FLEET_WORKERS, workers);
    let jobs = all.iter().flat_map(|it| {
        JOB_STATES.map(|state| {
            let of_state = it.jobs.iter().filter(|view| job_state(&view.job) == state);
            ([it.fleet.name.as_str(), state], of_state.count() as u64)
        })
    });
    text.family(&table::FLEET_JOBS, jobs);
    let name = |it: &FleetView| [it.fleet.name.to_string()];
    let failures = all.iter();
    let failures = failures.map(|it| (name(it), it.fleet.trouble.failures.into()));
    text.family(&table::FLEET_FAILURES, failures);
    let paused = all.iter().map(|it| (name(it), it.fleet.paused.into()));
    text.family(&table::FLEET_PAUSED, paused);
    let ages = all.iter();
    let ages = ages.filter_map(|it| Some((name(it), it.list_age?.0 / 1_000)));
    text.family(&table::FLEET_LIST_AGE, ages);
}

/// The values of the label `state` of jobs that have not ended.
const JOB_STATES: [&str; 5] = ["requested", "queued", "running", "unsure", "ending"];

fn job_state(job: &FleetJob) -> &'static str {
    match job.state {
        _ if job.cancel.is_some() => "ending",
        None => "requested",
        Some(JobState::Queued) => "queued",
        Some(JobState::Running) => "running",
        // One that is over has an end in the same moment.
        Some(_) => "unsure",
    }
}

/// What the workers have of a resource in sum, what of it is claimed, and what is in use.
fn amounts(
    text: &mut Text,
    family: &Family,
    all: &[Worker],
    amount: fn(&Capacity) -> u64,
    measured: fn(MeasuredUse) -> u64,
) {
    let capacity = all.iter().map(|worker| amount(&worker.capacity));
    let claimed = all.iter().map(|worker| amount(&worker.used));
    let measured = all
        .iter()
        .filter_map(|worker| worker.measured.map(measured));
    let measured = measured.reduce(u64::saturating_add);
    let rows = [
        ("capacity", Some(capacity.fold(0, u64::saturating_add))),
        ("claimed", Some(claimed.fold(0, u64::saturating_add))),
        ("measured", measured),
    ];
    let rows = rows
        .into_iter()
        .filter_map(|(name, sum)| Some(([name], sum?)));
    text.family(family, rows);
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use axum::body::to_bytes;
    use baton_model::ids::WorkerName;

    use super::super::testing;
    use super::*;
    use baton_core::scheduler::Command;

    use crate::driver::event::Event;
    use crate::faulty::{Fault, Faulty};
    use crate::prune::HistoryLock;

    #[tokio::test]
    async fn while_the_store_fails_the_metrics_report_it_and_the_rest() {
        let store = Arc::new(Faulty::default());
        let app = testing::over(Arc::clone(&store), HistoryLock::default());
        let lasting = VecDeque::from([Fault::Fails; 1_000]);
        *store.takes.lock().expect("sound") = lasting;
        *store.commits.lock().expect("sound") = VecDeque::from([Fault::Fails]);
        let drain = Command::Drain {
            worker: WorkerName::new("w"),
            drained: true,
        };
        let drained = app.command(None, drain);
        assert!(drained.await.is_err(), "it was kept");
        let mut status = app.0.status.clone();
        let failed = status.wait_for(|status| matches!(status, Status::Failed(_)));
        drop(failed.await.expect("the driver lives"));
        let body = show(State(app.clone())).await.into_body();
        let bytes = to_bytes(body, usize::MAX).await.expect("it is all there");
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        for line in [
            "baton_ready 0",
            "baton_store_failures_total 1",
            "baton_instances{state=\"QUEUED\"} 0",
            "baton_workers{state=\"HEALTHY\"} 0",
            "baton_workers_cpu_millicores{amount=\"claimed\"} 0",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in\n{text}");
        }
        assert!(!text.contains("baton_leader_epoch"), "{text}");
        app.0.inbox.send(Event::Stop);
    }
}
