//! How long no scheduler leads after the leader was killed or frozen.
//!
//! `BATON_KILLS` chooses how often; the results are in `docs/high-availability.md`.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use baton_client::{Client, PageOptions, View};
use baton_model::api::{InstanceFilter, SchedulerRole, Submit};
use baton_testing::processes::send;
use baton_testing::{setting, until, until_some};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use super::Quorum;
use crate::api::Api;

/// Prints how many of these times fall into each class, and some of their quantiles.
fn print_histogram(title: &str, mut times: Vec<Duration>) {
    const CLASSES_MS: [u128; 14] = [
        50,
        100,
        150,
        200,
        300,
        500,
        1_000,
        2_000,
        2_500,
        3_000,
        8_000,
        8_500,
        9_000,
        u128::MAX,
    ];
    times.sort_unstable();
    let quantile =
        |parts: usize| times[(times.len() * parts / 100).min(times.len() - 1)].as_millis();
    eprintln!(
        "{title}: {} times; p50 {} ms, p90 {} ms, p99 {} ms, longest {} ms",
        times.len(),
        quantile(50),
        quantile(90),
        quantile(99),
        quantile(100)
    );
    let mut least = 0;
    for most in CLASSES_MS {
        let within = |time: &&Duration| (least..most).contains(&time.as_millis());
        let count = times.iter().filter(within).count();
        let class = match most {
            u128::MAX => format!("{least} ms and more"),
            _ => format!("{least} to {most} ms"),
        };
        if count > 0 {
            eprintln!("{class:>16} {count:4} {}", "#".repeat(count));
        }
        least = most;
    }
}

fn task() -> Value {
    json!({ "task": "t", "run": ["true"] })
}

/// Waits until a submission is accepted, and returns how long that took.
fn until_accepted(quorum: &Quorum, begun: Instant) -> Duration {
    until("a submission is accepted", || {
        quorum.try_submit(task()).is_ok()
    });
    begun.elapsed()
}

fn all_agree_on_one_leader(quorum: &Quorum) {
    let leaders = until_some("all agree", || {
        let seen: Vec<_> = (0..3).filter_map(|number| quorum.seen_by(number)).collect();
        let leaders: Vec<_> = seen.iter().filter_map(Value::as_array).flatten().collect();
        let mut leaders: Vec<_> = leaders.iter().filter(|it| it["role"] == "leader").collect();
        leaders.dedup_by_key(|it| it["name"].to_string());
        (seen.len() == 3 && leaders.len() == 1).then_some(leaders.len())
    });
    assert_eq!(leaders, 1);
}

#[test]
fn another_scheduler_leads_soon_after_the_leader_was_killed() {
    let mut quorum = Quorum::new(3, &[]);
    let mut times = Vec::new();
    for _ in 0..setting("BATON_KILLS").unwrap_or(3) {
        let leader = quorum.leader();
        let begun = Instant::now();
        quorum.kill(leader);
        times.push(until_accepted(&quorum, begun));
        quorum.start(leader);
    }
    print_histogram("from kill -9 of the leader to the first commit", times);
    all_agree_on_one_leader(&quorum);
}

#[test]
fn another_scheduler_leads_after_the_lease_of_a_frozen_leader() {
    let lease = Duration::from_secs(setting("BATON_LEASE_SECONDS").unwrap_or(2));
    let option = format!("{}s", lease.as_secs());
    let quorum = Quorum::new(3, &["--leader-lease", &option]);
    let (mut led, mut accepted) = (Vec::new(), Vec::new());
    for _ in 0..setting("BATON_KILLS").unwrap_or(1) {
        let leader = quorum.leader();
        let frozen = quorum.pid(leader);
        send(frozen, Signal::STOP);
        let begun = Instant::now();
        let next = thread::scope(|scope| {
            // A client that names the frozen one first gets to the next one. Each try is a new client.
            let client = scope.spawn(|| until_accepted(&quorum, begun));
            let next = quorum.leader_but(leader);
            led.push(begun.elapsed());
            accepted.push(client.join().expect("no panic"));
            next
        });
        assert_ne!(next, leader);
        send(frozen, Signal::CONT);
        until("the frozen one follows", || {
            quorum.role(leader).as_deref() == Some("follower")
        });
    }
    print_histogram("from SIGSTOP of the leader to the next one", led);
    print_histogram("from SIGSTOP of the leader to the first commit", accepted);
    all_agree_on_one_leader(&quorum);
}

#[test]
fn a_submission_that_a_leader_took_before_it_froze_is_accepted_once_by_the_next_one() {
    let quorum = Quorum::new(2, &["--leader-lease", "2s"]);
    let leader = quorum.leader();
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    // It has just answered this client, which therefore sends its next request there without a probe.
    let client = until_some("the leader answers", || {
        let client = Client::new(&quorum.urls_from(leader)).expect("URLs");
        let ready = runtime.block_on(client.ready()).ok()?;
        (ready.role == Some(SchedulerRole::Leader)).then_some(client)
    });
    let frozen = quorum.pid(leader);
    send(frozen, Signal::STOP);
    let submit = Submit {
        file: task(),
        params: BTreeMap::new(),
        array: None,
        ..Default::default()
    };
    let submitted = runtime.block_on(client.submit(&submit)).expect("accepted");
    send(frozen, Signal::CONT);
    until("the frozen one follows", || {
        quorum.role(leader).as_deref() == Some("follower")
    });
    let waiting = quorum.ask(|client| async move {
        let (filter, options) = (InstanceFilter::default(), PageOptions::default());
        let page = client.view(View::Bullpen, &filter, &options).next().await?;
        Ok(page.expect("a page").items)
    });
    let ids: Vec<_> = waiting.iter().map(|it| it.id.clone()).collect();
    assert_eq!(ids, [submitted.first]);
}
